"""Paths of the remediation state machine, executed for real on the local cloud.

Some paths are walked by tests of other files: an approved termination, a persistent Spot request, a
Spot warning and an aborted workflow in `test_iam.py`, two people and a policy that is refused
meanwhile in `test_delivery.py`, a keep and an exemption in `test_command_line.py`.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.rules.sealing import Duty, delivery_text, expiry_text
from governor.aws.dynamodb import DynamoTable
from governor.core.episode_ref import episode_from_execution_name
from governor.table import keys
from governor.table.table import present, update
from local.demo.fleet import T4
from tests.episodes import ending_of
from tests.integration.conftest import QUICK
from tests.integration.people import decide, hidden_fields, request
from tests.integration.stage import Stage


def test_an_approval_stops_and_snapshots(stage: Stage) -> None:
    """Approved: stopped first, then every EBS volume in a completed snapshot, then booked.

    Posted twice, the same answer shows the record, and another yes is refused. A no would hold it.
    Throttled snapshots are waited for, not given up on.
    """
    stage.scene.simulation.set_fault(
        "ec2:CreateSnapshots",
        "SnapshotCreationPerVolumeRateExceeded",
        times=2,
        match={"DryRun": False},
    )
    instance_id, link = stage.ask(data_gib=50)
    form = hidden_fields(request(link)[1])

    first, _ = request(link, "POST", {**form, "answer": "approve"})
    again, _ = request(link, "POST", {**form, "answer": "approve"})
    other, _ = request(link, "POST", {**form, "answer": "approve", "reason": "another yes"})

    assert (303, 303, 409) == (first, again, other)
    assert "stopped" == stage.outcome(instance_id)
    assert 1 == stage.history(instance_id).count("Stop")
    assert "stopped" == stage.ec2_state(instance_id)
    assert ["completed", "completed"] == stage.snapshots()
    order = [
        name
        for name in stage.history(instance_id)
        if name in ("RehearseSnapshot", "Stop", "TakeSnapshot", "Terminate")
    ]
    assert ["RehearseSnapshot", "Stop", "TakeSnapshot"] == order


def test_an_instance_whose_snapshots_are_refused_runs_on(stage: Stage) -> None:
    """A policy of the organization demands a tag: EC2 says so before the stop, and people read what
    to set."""
    said = "You are not authorized, with an explicit deny in a service control policy"
    stage.scene.simulation.set_fault("ec2:CreateSnapshots", "UnauthorizedOperation", f"{said}.")
    instance_id, link = stage.ask(data_gib=50)
    assert 303 == decide(link, "approve")[0]

    assert "refused" == stage.outcome(instance_id)
    assert "running" == stage.ec2_state(instance_id)
    assert "RehearseSnapshot" in stage.history(instance_id)
    assert "Stop" not in stage.history(instance_id)
    mail = stage.await_mail(instance_id, "outcome")
    reason = str(mail["facts"]["outcome_reason"])
    assert f"EC2 refuses its snapshots: UnauthorizedOperation: {said}" in reason
    assert reason.endswith("set the tags that it demands in plan.snapshot_tags")


def test_a_stop_is_undone_on_its_record(stage: Stage) -> None:
    """The page asks the one function that may start. A lack of capacity, and a start that EC2 takes
    back, are said in EC2's words, and it can be tried again."""
    instance_id, link = stage.ask()
    decide(link, "approve")
    assert "stopped" == stage.outcome(instance_id)
    record = stage.personal(stage.question(instance_id, "outcome"))
    stage.scene.simulation.set_fault("ec2:StartInstances", "InsufficientInstanceCapacity")

    refused, page = decide(record, "undo")
    assert (409, True) == (refused, "no free capacity" in page)
    assert "InsufficientInstanceCapacity: simulated" in page
    assert "stopped" == stage.ec2_state(instance_id)
    stage.await_mail(instance_id, "start-failed")

    stage.scene.simulation.starts_fall_back("Client.InternalError", "Client error on launch")
    assert 303 == decide(record, "undo")[0]
    stage.eventually(lambda: "stopped" == stage.ec2_state(instance_id) or None, "it runs on")
    stage.scene.sweep()
    page = request(record)[1]
    assert "Client.InternalError: Client error on launch" in page
    assert (False, True) == ("Started again by" in page, "Start it again" in page)

    assert 303 == decide(record, "undo")[0]
    assert "Starting." in request(record)[1]

    stage.eventually(lambda: "running" == stage.ec2_state(instance_id) or None, "it does not run")
    stage.await_mail(instance_id, "undone")
    stage.eventually(lambda: "Started again by" in request(record)[1] or None, "nobody says so")
    assert "Started again by" in request(record)[1]
    month = f"{stage.episode(instance_id).opened_at:%Y-%m}"

    def settled() -> bool | None:
        entries = [e for e in stage.state.entries(month) if e.episode.instance_id == instance_id]
        return [True] == [
            entry.ended_at is not None and entry.false_stop for entry in entries
        ] or None

    stage.eventually(settled, "the false stop was not booked")


def test_links_stay_good_while_their_keys_rotate(stage: Stage) -> None:
    """Through the real function, step by step as Secrets Manager asks."""
    instance_id, link = stage.ask()

    before = stage.link_keys()["current"]
    stage.rotate_keys()

    keys = stage.link_keys()
    assert (True, False) == (before in keys, before == keys["current"])
    assert {"current", "next", before, keys["current"], keys["next"]} == set(keys)
    assert 303 == decide(link, "keep")[0]
    assert "kept" == stage.outcome(instance_id)


def test_silence_reminds_escalates_and_expires_without_action(stage: Stage) -> None:
    """Nobody answers: a reminder, an escalation, then expiry, and nothing was done.

    The link shows the record then; a late answer is refused.
    """
    stage.policy(f"mode: ask\n{QUICK}")
    instance_id, link = stage.ask()
    form = hidden_fields(request(link)[1])

    assert "expired" == stage.outcome(instance_id)
    status, page = request(link, "POST", {**form, "answer": "approve"})
    assert (409, True) == (status, "The time to decide is over" in page)

    kinds = [mail["kind"] for mail in stage.scene.read_mail() if mail["instance_id"] == instance_id]
    assert ["approval-requested", "approval-reminder", "approval-escalation", "outcome"] == kinds
    assert "running" == stage.ec2_state(instance_id)
    assert [] == stage.snapshots()


def test_an_expired_question_acts_only_where_the_policy_says_so(stage: Stage) -> None:
    """`on_expiry: act` is an explicit choice, and it goes through the recheck like an approval."""
    quick = QUICK.replace("{", "{on_expiry: act, digest_from: 0, ")
    stage.policy(f"mode: ask\n{quick}\nplan: {{local_disks_may_be_lost_unasked: true}}")
    instance_id = stage.launch()
    stage.scene.sweep()

    # Ten minutes pass until CloudWatch tells whether answers were refused in the last ones.
    approval = stage.eventually(
        lambda: _expired(stage, instance_id), "the question does not expire"
    )
    table = DynamoTable(stage.clients, stage.scene.outputs["StateTableName"])
    earlier = approval.expires_at - timedelta(minutes=10)
    text = expiry_text(stage.episode(instance_id), earlier, earlier)
    changes = {
        "expires_at": earlier,
        "expired_at": earlier,
        "expiry_seal": stage.sealed(Duty.EXPIRY, text),
    }
    table.write(update(keys.approval(approval.approval_id), changes, present()))
    assert "running" == stage.ec2_state(instance_id)

    assert "stopped" == stage.outcome(instance_id)
    assert "RecheckBeforeStop" in stage.history(instance_id)


def test_somebody_logged_in_between_approval_and_action_keeps_it(stage: Stage) -> None:
    """Systems Manager counts the session as open: whoever opened it may be about to work. The
    approval counts for nothing, as on a GPU that works again."""
    instance_id, link = stage.ask()
    owner = "arn:aws:sts::000000000000:assumed-role/Research/ana"
    stage.scene.simulation.start_session(instance_id, owner, datetime.now(UTC))

    decide(link, "approve")

    assert "woke-up" == stage.outcome(instance_id)
    assert "running" == stage.ec2_state(instance_id)


def test_work_while_people_are_asked_takes_the_question_back(stage: Stage) -> None:
    """The sweep sees work and voids the question; the link then says so and the marks go."""
    instance_id, link = stage.ask()
    form = hidden_fields(request(link)[1])
    stage.wake(instance_id)

    # Under another policy it is read at once, and not only within a quarter of an hour.
    stage.policy("mode: ask\nhealth: {enabled: false}")
    assert 0 == stage.scene.sweep()["results"][0]["summary"]["problems"]

    assert "woke-up" == stage.outcome(instance_id)
    status, page = request(link, "POST", {**form, "answer": "approve"})
    assert 409 == status
    assert "The question was canceled" in page
    assert "LowUtilization" not in stage.tags(instance_id)


def test_a_failed_snapshot_destroys_nothing(stage: Stage) -> None:
    """A snapshot that ends in error stops the flow before termination, and people are alerted."""
    stage.policy("mode: ask\nplan: {action: terminate}")
    stage.scene.simulation.snapshots_end_as("error")
    instance_id, link = stage.ask()

    decide(stage.personal(link), "approve", typed_instance_id=instance_id)

    assert "FAILED" == stage.ended(instance_id)["status"]
    assert "failed" == stage.outcome(instance_id)
    assert "stopped" == stage.ec2_state(instance_id)
    assert "critical" == stage.await_mail(instance_id, "failure")["severity"]


def test_a_one_time_spot_instance_is_snapshot_first_and_never_stopped(stage: Stage) -> None:
    """EC2 cannot stop it: snapshot, recheck, terminate, as the policy allows."""
    stage.policy("mode: ask\nplan: {when_stop_is_unsupported: terminate}")
    instance_id, link = stage.ask(
        instance_type="g4dn.xlarge", gpu=T4, lifecycle="spot", spot_request_type="one-time"
    )

    decide(stage.personal(link), "approve", typed_instance_id=instance_id)

    assert "terminated" == stage.outcome(instance_id)
    names = stage.history(instance_id)
    assert "Stop" not in names
    assert (
        names.index("TakeSnapshot")
        < names.index("RecheckBeforeTerminate")
        < names.index("Terminate")
    )


def test_an_instance_that_others_terminate_closes_its_question(stage: Stage) -> None:
    """The state-change event voids the question; the link says so."""
    instance_id, link = stage.ask()
    form = hidden_fields(request(link)[1])

    stage.scene.simulation.set_state(instance_id, "terminated")

    assert "void" == stage.outcome(instance_id)
    assert 409 == request(link, "POST", {**form, "answer": "approve"})[0]


def test_a_hold_while_the_snapshots_run_keeps_the_instance_stopped(stage: Stage) -> None:
    """It races the termination and wins: the instance and its snapshots stay, and every answer says
    so.

    Before that, a yes to the termination without the typed id is refused, and so is one by a link
    that names nobody: with what to use instead, typed id or not.
    """
    stage.policy("mode: ask\nplan: {action: terminate}")
    stage.scene.simulation.set_delays(state_change=0, snapshot=3600)
    instance_id, link = stage.ask()
    untyped, asks_for_id = decide(link, "approve")
    assert (400, True) == (untyped, "type its ID" in asks_for_id)
    of_a_list, names_nobody = decide(
        stage.question(instance_id), "approve", typed_instance_id=instance_id
    )
    assert (403, True) == (of_a_list, "use the link in your own email" in names_nobody)
    assert "RUNNING" == stage.scene.executions()[instance_id]["status"]
    decide(link, "approve", typed_instance_id=instance_id)
    begun = lambda: "snapshot" in stage.episode(instance_id).progress.steps_done or None  # noqa: E731
    stage.eventually(begun, "no snapshot was begun")

    status, _ = decide(link, "hold")
    page = request(link)[1]

    assert (303, True) == (status, "Held by alice@example.com (mail link)" in page)
    assert "held" == stage.outcome(instance_id)
    assert "stopped" == stage.ec2_state(instance_id)
    assert ["pending"] == stage.snapshots()
    assert "Terminate" not in stage.history(instance_id)
    assert 303 == decide(link, "hold")[0]  # the same again shows the record
    status, page = decide(stage.personal(link, "bob@example.com"), "hold")
    assert (409, True) == (status, "It is over (held)" in page)
    assert "Start it again" in page


def test_a_forged_or_expired_link_says_so_and_nothing_else(stage: Stage) -> None:
    """A changed signature or recipient is refused, and so is a link whose time is over. The page
    names no instance, and nothing is decided."""
    instance_id, link = stage.ask()
    forged = [link[:-1] + ("A" if link[-1] != "A" else "B"), link.replace(".1.", ".2.")]

    for url in forged:
        for method in ("GET", "POST"):
            status, page = request(url, method, {"answer": "approve"} if method == "POST" else None)
            assert 403 == status
            assert instance_id not in page
    expired = stage.personal(link, expires_at=datetime.now(tz=UTC) - timedelta(seconds=1))
    status, page = request(expired)
    assert (410, True, False) == (status, "has expired" in page, instance_id in page)
    assert 410 == request(expired, "POST", {"answer": "approve"})[0]
    assert "RUNNING" == stage.scene.executions()[instance_id]["status"]


def test_two_sweeps_at_once_open_one_workflow(stage: Stage) -> None:
    """The execution name and the lock let one through."""
    from concurrent.futures import ThreadPoolExecutor

    instance_id = stage.launch()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: stage.scene.sweep(), range(2)))

    stage.question(instance_id)
    states = stage.scene.cloud.client("stepfunctions")
    listed = states.list_executions(
        stateMachineArn=stage.scene.outputs["RemediationStateMachineArn"]
    )
    assert 1 == sum(instance_id in execution["name"] for execution in listed["executions"])
    mails = [m for m in stage.scene.read_mail() if m["instance_id"] == instance_id]
    assert ["approval-requested"] == [mail["kind"] for mail in mails]


def test_observe_mode_rehearses_and_changes_nothing(stage: Stage) -> None:
    """Every call is made with DryRun; the instance runs on, untagged, without a snapshot."""
    stage.policy("mode: observe\nplan: {action: terminate}")
    instance_id = stage.launch()
    stage.scene.sweep()

    assert "observed" == stage.outcome(instance_id)
    assert "running" == stage.ec2_state(instance_id)
    assert [] == stage.snapshots()
    assert "LowUtilization" not in stage.tags(instance_id)
    calls = stage.scene.simulation.calls()
    made = {
        calls[f"ec2:{name}"] for name in ("StopInstances", "TerminateInstances", "CreateSnapshots")
    }
    assert {1} == made


@pytest.mark.parametrize("mode", ["ask", "auto"])
def test_nothing_is_asked_or_done_where_nobody_listens(stage: Stage, mode: str) -> None:
    """No person is subscribed and every channel refuses: the flow fails instead of waiting, and
    says why."""
    rest = "plan: {local_disks_may_be_lost_unasked: true}\napproval: {digest_from: 0}"
    rest += "\nmetrics: {publishers_are_trusted: true}"
    stage.policy(f"mode: {mode}\n{rest}")
    instance_id = stage.launch()
    for channel in ("slack", "teams", "pagerduty", "webhook"):
        stage.scene.receivers.fail(channel, 403, about=instance_id)
    with stage.nobody_subscribed():
        stage.scene.sweep()
        assert "failed" == stage.outcome(instance_id)

    assert "running" == stage.ec2_state(instance_id)
    reason = ending_of(stage.episode(instance_id)).reason
    assert ("NobodyListens" in reason, "have refused it" in reason) == (True, True)


def test_auto_mode_tells_and_acts(stage: Stage) -> None:
    """Auto is the policy's explicit choice: told, rechecked, stopped, without a question."""
    notice = "approval: {notice_minutes: 0.05}"
    stage.policy(
        "mode: auto\nmetrics: {publishers_are_trusted: true}\n"
        f"plan: {{local_disks_may_be_lost_unasked: true}}\n{notice}"
    )
    instance_id = stage.launch()
    stage.scene.sweep()

    # Ten minutes pass until CloudWatch tells whether people were refused in the last ones.
    delivered = stage.eventually(lambda: _noticed(stage, instance_id), "nobody gets the notice")
    before = replace(delivered, at=delivered.at - timedelta(minutes=10))
    seal = stage.sealed(Duty.DELIVERY, delivery_text(before))
    stage.state.note_delivery(replace(before, seal=seal))

    assert "stopped" == stage.outcome(instance_id)
    kinds = [mail["kind"] for mail in stage.scene.read_mail() if mail["instance_id"] == instance_id]
    assert ["idle-found", "outcome"] == kinds


def _expired(stage: Stage, instance_id: str) -> Approval | None:
    """The question about it, once nobody has answered in time; its workflow may not have begun
    yet."""
    execution = stage.scene.executions().get(instance_id)
    episode = (
        stage.state.episode(episode_from_execution_name(execution["name"])) if execution else None
    )
    approval = stage.state.approval(episode.approval_id) if episode else None
    return approval if approval and approval.status is ApprovalStatus.EXPIRED else None


def _noticed(stage: Stage, instance_id: str) -> Delivery | None:
    """The delivery from which the notice of mode auto counts."""
    execution = stage.scene.executions().get(instance_id)
    found = stage.state.deliveries(execution["name"]) if execution else []
    return next(
        (one for one in found if one.message.startswith("tell-") and one.reached_people), None
    )
