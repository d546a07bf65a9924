"""The page that a sweep keeps for the console: what it shows and costs, and that nothing waits for
it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Literal

import pytest

from governor.approvals.model.approval import Answer
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Throttled
from governor.core.instance import Lifecycle, Protection
from governor.core.units import span
from governor.episode.model.episode import Outcome
from governor.fleet.model import NOT_MEASURED, STOPPED, UNGOVERNED, FleetPage, FleetRow, Share
from governor.money.store.ledger import booking
from governor.policy.model.acting import ApprovalRule, PlanRule
from governor.policy.model.policy import Mode, Policy
from governor.table import keys
from governor.table.table import update
from governor.verdict.model import Hold, IdleParts
from tests.builders import NOW, TARGET, make_entry
from tests.twins import table
from tests.unit.worlds.builders import (
    approval_id_of,
    asked,
    decision,
    opener,
    recorder,
    ref_of,
    stored_episode,
)
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld
from tests.unit.worlds.world import PEOPLE

BUSY = [90.0] * 12
TAGS = {
    "Purpose": "GPU-Workload",
    "Name": "notebook-7",
    "Owner": "alice@example.com",
    "Project": "vision",
}


def page(world: FleetWorld) -> FleetPage:
    """The page, which must be there."""
    found = world.state.page(TARGET)
    assert found is not None
    return found


def _throttled(*_: object) -> None:
    raise Throttled("later", operation="dynamodb:Query")


def row(world: FleetWorld, instance_id: str) -> FleetRow:
    """The row of one instance."""
    [found] = [one for one in page(world).rows if one.instance_id == instance_id]
    return found


def test_a_row_says_what_the_sweep_saw() -> None:
    """Its owner, its cost, and its work in the hours that were read."""
    world = FleetWorld()
    instance_id = world.add(1, BUSY, tags=TAGS)
    summary = world.sweep()

    found = row(world, instance_id)

    assert [] == summary.problems
    assert ("notebook-7", "alice@example.com", "vision") == (found.name, found.owner, found.project)
    assert ("busy", Decimal("1.006")) == (found.verdict, found.usd_per_hour)
    assert (TARGET.account, TARGET.region, "g5.xlarge") == (
        found.account,
        found.region,
        found.instance_type,
    )
    assert (90, 90) == (found.hours[-1] or found.hours[-2], max(one or 0 for one in found.hours))
    assert (None, None, None) == (found.episode, found.approval_id, found.verb)
    assert (world.clock.now(), "ask", None) == (
        page(world).swept_at,
        page(world).mode,
        page(world).problem,
    )


def test_the_advice_of_a_verdict_is_in_its_row() -> None:
    """The console shows the advice about an instance half of which works."""
    world = FleetWorld()
    instance_id = world.add(1, instance_type="g5.12xlarge")
    world.silence(instance_id)
    for index in range(4):
        dimensions = {"InstanceId": instance_id, "index": str(index), "name": "A10G"}
        world.metrics.publish(UTILIZATION, dimensions, BUSY if index == 2 else [1.0] * 12)
    world.sweep()

    [advice] = row(world, instance_id).advice
    assert advice.startswith("right-size: GPUs 0, 1, 3 did nothing")


def test_the_idle_gpus_of_a_verdict_are_in_its_row_until_its_metrics_are_read_again() -> None:
    """The next sweep reads nothing, and knows them from the observation. One of an earlier release
    has none."""
    world = FleetWorld()
    instance_id = world.add(1, instance_type="g5.12xlarge")
    world.silence(instance_id)
    for index in range(4):
        dimensions = {"InstanceId": instance_id, "index": str(index), "name": "A10G"}
        world.metrics.publish(UTILIZATION, dimensions, BUSY if index == 2 else [1.0] * 12)
    world.sweep()
    first = row(world, instance_id)
    world.sweep(5)
    repeated = row(world, instance_id)
    observations = world.state.observations(TARGET)
    older = {instance_id: replace(observations[instance_id], idle_parts=None)}
    world.state.remember(TARGET, older, world.clock.now())
    world.sweep(5)
    unknown = row(world, instance_id)

    rows = (first, repeated, unknown)
    assert {"partly-idle"} == {found.verdict for found in rows}
    assert [IdleParts(3, 4, "GPU")] * 2 + [None] == [found.idle_parts for found in rows]
    assert repeated.reason.startswith("worked until")


@pytest.mark.parametrize("is_measured", [True, False])
def test_an_idle_row_says_that_power_is_not_measured(is_measured: bool) -> None:
    """In the reason of the verdict, and as a hint that stays while people know of the idleness."""
    world = FleetWorld()
    instance_id = world.add(1)
    if not is_measured:
        power = ("nvidia_smi_power_draw", (("InstanceId", instance_id),))
        world.metrics.published.pop(power)
    world.sweep()
    first = row(world, instance_id)
    world.sweep(30)
    later = row(world, instance_id)
    hint = "power: not measured. Only GPU utilization says that it is idle"
    hints = () if is_measured else (hint,)

    assert ("idle", "idle") == (first.verdict, later.verdict)
    assert (hints, hints) == (first.advice, later.advice)
    assert (not is_measured) is ("power: not measured" in first.reason)


def test_an_open_question_is_in_its_row() -> None:
    """From the moment it is asked until it is answered; the verb as long as its episode is open."""
    world, instance_id, ref = asked()
    world.sweep(5)

    found = row(world, instance_id)
    stored = world.state.approval(approval_id_of(instance_id))

    assert stored is not None
    assert (ref.execution_name, stored.approval_id, "stop") == (
        found.episode,
        found.approval_id,
        found.verb,
    )
    assert (NOW, stored.deadline) == (found.asked_at, found.expires_at)
    assert found.idle_since is not None
    assert "idle" == found.verdict

    world.state.settle(stored.approval_id, decision(Answer.APPROVE))
    world.sweep(5)
    found = row(world, instance_id)
    assert (ref.execution_name, "stop", None, None) == (
        found.episode,
        found.verb,
        found.approval_id,
        found.expires_at,
    )


@pytest.mark.parametrize(
    ("on_expiry", "done"), [("no-action", None), ("act", "stopped")], ids=["nothing", "stop"]
)
def test_the_row_of_a_question_says_what_silence_does(
    on_expiry: Literal["no-action", "act"], done: str | None
) -> None:
    """As long as the question is open."""
    policy = Policy(
        mode=Mode.ASK,
        ownership=PEOPLE,
        approval=ApprovalRule(on_expiry=on_expiry),
        plan=PlanRule(local_disks_may_be_lost_unasked=True),
    )
    world, instance_id, _ = asked(world=FleetWorld(policy))
    world.sweep(5)
    open_row = row(world, instance_id)
    stored = world.state.approval(approval_id_of(instance_id))
    assert stored is not None
    world.state.settle(stored.approval_id, decision(Answer.APPROVE))
    world.sweep(5)

    assert done == open_row.done_by_silence
    assert row(world, instance_id).done_by_silence is None


@pytest.mark.parametrize("acts", [False, True])
def test_a_question_that_silence_answers_stays_in_its_row(acts: bool) -> None:
    """Until its plan is carried out or held: people may still hold it."""
    world, instance_id, ref = asked()
    approval_id = approval_id_of(instance_id)
    world.state._table.write(update(keys.episode(ref), {"acts_on_silence": acts}))
    world.sweep(5)
    assert acts == row(world, instance_id).acts_on_silence

    world.state.void(approval_id, "nobody answered in time", expired=True)
    world.sweep(5)
    found = row(world, instance_id)
    assert (approval_id if acts else None) == found.approval_id
    assert acts == (found.expires_at is not None)

    world.state.note_step(ref, "stop", world.clock.now())
    world.sweep(5)
    assert row(world, instance_id).approval_id is None


def test_the_row_has_the_deadline_that_messages_give() -> None:
    """The question takes answers for some minutes more, while its message may be on its way."""
    world, instance_id, _ = asked()
    answer_by = NOW + timedelta(hours=23)
    approval_id = approval_id_of(instance_id)
    world.state.await_answer(
        approval_id, "token", "ask", answer_by + timedelta(minutes=10), answer_by
    )
    world.sweep(5)

    assert answer_by == row(world, instance_id).expires_at


def test_a_managed_instance_stays_idle_since_when_the_earlier_page_says() -> None:
    """Nobody is asked about it, so a sweep that remembers nothing reads only its last hour."""
    world = FleetWorld()
    instance_id = world.add(1, tags={**TAGS, "aws:autoscaling:groupName": "workers"})
    world.sweep()
    earlier = NOW - timedelta(hours=6)
    rows = [replace(one, idle_since=earlier, verdict="no-data") for one in page(world).rows]
    world.state.keep_page(replace(page(world), rows=tuple(rows)))
    world.state.remember(TARGET, {}, world.clock.now())
    world.sweep(5)

    assert ("managed-elsewhere", earlier) == (
        row(world, instance_id).verdict,
        row(world, instance_id).idle_since,
    )


def test_it_is_idle_since_when_its_question_says() -> None:
    """A question looks at a whole day; the sweep that asked knew of its own windows alone."""
    world, instance_id, ref = asked()
    before = row(world, instance_id).idle_since
    world.sweep(5)
    episode, since = stored_episode(world, ref), row(world, instance_id).idle_since

    assert before is not None
    assert episode.idle is not None
    assert before > episode.idle.since == since
    assert f"Idle for {span(episode.measurement.evidence.window.end - since)} " in episode.reason

    until = NOW + timedelta(days=1)
    world.state.close_episode(ref, Outcome.EXPIRED, "", NOW, quiet_until=until)
    world.sweep(5)
    assert (None, since) == (row(world, instance_id).episode, row(world, instance_id).idle_since)
    world.publish(instance_id, BUSY)
    world.sweep(5)
    world.publish(instance_id, [1.0] * 48)
    world.sweep(120)
    again = row(world, instance_id).idle_since
    assert again is not None
    assert again > since


def test_another_version_of_the_policy_makes_nothing_idle_for_a_shorter_time() -> None:
    """The next sweep judges anew, by its own window; the page and the open question still agree."""
    world, instance_id, _ = asked()
    for _ in range(20):
        world.sweep(30)
    since = row(world, instance_id).idle_since
    world.policies.version = "another"
    world.sweep(5)

    assert since == row(world, instance_id).idle_since

    world.policies.version = "a third, after a pause of the sweeps"
    world.sweep(180)
    again = row(world, instance_id).idle_since
    assert since is not None
    assert again is not None
    assert again > since


def test_it_is_idle_since_when_its_question_says_also_if_no_sweep_saw_that_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question that is only reported is over before the next sweep, as all are in mode
    observe."""
    world = FleetWorld()
    protected = world.add(2)
    world.ec2.protections[protected] = Protection(stop=True)
    world.sweep(5)
    before = row(world, protected).idle_since
    episode = opener(world, approval_id_of(protected))(ref_of(world, protected)).episode
    recorder(world)(ref_of(world, protected), Outcome.TOLD)
    world.sweep(5)

    since = row(world, protected).idle_since
    assert episode is not None
    assert episode.idle is not None
    assert before is not None
    assert before > episode.idle.since == since

    asked_for: list[EpisodeRef] = []

    def none_of(refs: list[EpisodeRef]) -> dict[EpisodeRef, object]:
        asked_for.extend(refs)
        return {}

    monkeypatch.setattr(world.state, "open_questions", none_of)
    world.sweep(5)
    assert ([], since) == (asked_for, row(world, protected).idle_since)


def test_idleness_after_work_is_not_that_of_an_older_question() -> None:
    """The workflow of that one has not ended it yet."""
    world, instance_id, ref = asked()
    world.publish(instance_id, BUSY)
    world.sweep(15)
    assert row(world, instance_id).idle_since is None
    world.publish(instance_id, [1.0] * 48)
    world.sweep(120)

    found = row(world, instance_id)
    assert (ref.execution_name, "idle") == (found.episode, found.verdict)
    assert found.idle_since is not None
    assert found.idle_since > NOW


def test_what_is_never_asked_about_is_only_reported() -> None:
    """A Capacity Block from the first sweep on; a stop-protected instance when its episode has
    found that."""
    world = FleetWorld()
    paid = world.add(1, lifecycle=Lifecycle.CAPACITY_BLOCK)
    protected, plain = world.add(2), world.add(3)
    world.ec2.protections[protected] = Protection(stop=True)

    def reported() -> list[tuple[bool, bool]]:
        world.sweep(5)
        rows = [row(world, one) for one in (paid, protected, plain)]
        return [(one.is_reported, one.quiet_until is not None) for one in rows]

    assert [(True, False), (False, False), (False, False)] == reported()
    refs = [ref_of(world, one) for one in (protected, plain)]
    for ref in refs:
        assert opener(world, approval_id_of(ref.instance_id))(ref).episode is not None
    assert [(True, False), (True, False), (False, False)] == reported()
    recorder(world)(refs[0], Outcome.TOLD)
    world.state.close_episode(
        refs[1], Outcome.EXPIRED, "", NOW, quiet_until=NOW + timedelta(days=1)
    )
    assert [(True, False), (True, True), (False, True)] == reported()


def test_a_question_that_is_not_sent_yet_has_no_time() -> None:
    """It waits for working hours, or for its workflow."""
    world, instance_id, _ = asked()
    stored = world.state.approval(approval_id_of(instance_id))
    assert stored is not None
    world.state.put(replace(stored, stage=None))
    world.sweep(5)

    found = row(world, instance_id)

    assert (stored.approval_id, None, None) == (found.approval_id, found.asked_at, found.expires_at)


def test_keeps_exemptions_and_managers_are_in_their_rows() -> None:
    """A keep that is over is none."""
    world = FleetWorld()
    kept, over, exempt = (world.add(number) for number in (1, 2, 3))
    managed = world.add(4, tags={"Purpose": "GPU-Workload", "eks:cluster-name": "one"})
    until = NOW + timedelta(days=3)
    world.state.store_hold(TARGET, kept, Hold(snoozed_until=until))
    world.state.store_hold(TARGET, over, Hold(snoozed_until=NOW - timedelta(days=3)))
    world.state.store_hold(TARGET, exempt, Hold(exempt_reason="demo (ada)"))
    world.sweep()

    rows = [row(world, one) for one in (kept, over, exempt, managed)]

    assert ["snoozed", "idle", "exempt", "managed-elsewhere"] == [one.verdict for one in rows]
    assert [until, None, None, None] == [one.kept_until for one in rows]
    assert [False, False, True, False] == [one.exempt for one in rows]
    assert [None, None, None, "Amazon EKS"] == [one.managed_by for one in rows]


def test_hours_are_carried_over_without_another_read() -> None:
    """Two hours later the busy hours are two places further back, and nothing more was read for the
    page."""
    world = FleetWorld()
    instance_id = world.add(1, BUSY)
    world.sweep()
    before, reads = row(world, instance_id).hours, len(world.metrics.reads)
    world.state.store_hold(TARGET, instance_id, Hold(snoozed_until=NOW + timedelta(days=3)))
    world.sweep(120)

    assert (*before[2:], None, None) == row(world, instance_id).hours
    assert reads == len(world.metrics.reads)


def test_a_page_costs_one_read_and_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 500 instances; the costs of the day ride with the meter and cost one read."""
    calls: list[tuple[str, str]] = []
    world = FleetWorld()
    for number in range(500):
        world.add(number, BUSY)
    world.sweep()
    monkeypatch.setattr(
        table, "ASKED", [lambda action, pk: calls.append((action, pk.partition("#")[0]))]
    )
    world.sweep(5)

    found = Counter(calls)

    assert (1, 1) == (found["dynamodb:Query", "FLEET"], found["dynamodb:PutItem", "FLEET"])
    assert (1, 1) == (found["dynamodb:BatchGetItem", "DAYS"], found["dynamodb:PutItem", "DAYS"])
    assert found["dynamodb:PutItem", "COST"] == found["dynamodb:PutItem", "DAYS"]
    assert 4 == sum(number for (_, kind), number in found.items() if kind in ("FLEET", "DAYS"))


def test_nothing_is_ever_done_about_an_instance_without_the_tag() -> None:
    """It idles for three days under `auto`; beside the page of the console, nothing knows of it."""
    world = FleetWorld(Policy(mode=Mode.AUTO, ownership=PEOPLE))
    governed = world.add(1)
    loose = world.add(
        2, tags={"Name": "scratch", "Owner": "alice@example.com"}, instance_type="p5.48xlarge"
    )
    protection = world.ec2.instances[loose]
    for _ in range(24 * 3):
        assert [] == world.sweep(60).problems

    found = row(world, loose)
    assert (UNGOVERNED, "scratch", "alice@example.com") == (found.verdict, found.name, found.owner)
    assert "Set the tag Purpose=GPU-Workload to have it governed." == found.reason
    assert (Decimal("1.006"), NOT_MEASURED) == (found.usd_per_hour, found.hours)
    told = (world.ec2.calls, world.workflow, world.announcer, world.log, world.metrics.reads)
    assert governed in str(told)
    assert loose not in str(told)
    assert protection == world.ec2.instances[loose]
    items = {key: item for key, item in world.state.items.items() if key[0] != "FLEET"}
    kept = str((items, world.state.observations(TARGET)))
    assert governed in kept
    assert loose not in kept
    assert "alice@example.com" not in str(world.state.days("2026-11"))


def test_what_is_not_governed_is_listed_once_an_hour_and_carried_over() -> None:
    """Until it carries the tag, or is gone. What cannot be listed costs nothing else."""
    world = FleetWorld()
    world.add(1, BUSY)
    loose, gone = (world.add(number, tags={}) for number in (2, 3))
    seen = []
    for minutes, change in ((0, {}), (60, {}), (5, {"tags": TAGS}), (60, {})):
        world.change(loose, **change)
        if change:
            world.change(gone, state="terminated")
        world.sweep(minutes)
        seen.append([one.instance_id for one in page(world).rows if one.verdict == UNGOVERNED])
    assert [[], [loose, gone], [gone], []] == seen

    world.ec2.failures["list_ungoverned"] = [Throttled("later")]
    assert ["what is not governed: Throttled: later"] == world.sweep(60).problems
    assert {"busy", "idle"} == {one.verdict for one in page(world).rows}


def test_who_created_what_is_not_governed_is_looked_up_once_a_few_an_hour() -> None:
    """CloudTrail takes two questions a second, and shows a launch some minutes later."""
    world = FleetWorld()
    loose = [world.add(number, tags={}) for number in range(1, 13)]
    young = world.add(13, tags={}, launch_time=NOW + timedelta(minutes=30))
    world.ec2.creators = dict.fromkeys([loose[0], young], "arn:aws:iam::123456789012:user/bob")
    looked_up = []
    for _ in range(4):
        world.sweep(60)
        looked_up.append([*world.ec2.looked_up])
        world.ec2.looked_up.clear()

    assert [[], loose[:10], [*loose[10:], young], []] == looked_up
    assert ["arn:aws:iam::123456789012:user/bob", "", "arn:aws:iam::123456789012:user/bob"] == [
        row(world, one).created_by for one in (loose[0], loose[1], young)
    ]


def test_what_may_not_be_looked_up_costs_no_row() -> None:
    """The sweep says what failed; the instances are listed, and their creators are looked up
    later."""
    world = FleetWorld()
    world.sweep()
    loose = world.add(1, tags={})
    world.ec2.failures["creator"] = [Throttled("later")]

    assert ["who created what is not governed: Throttled: later"] == world.sweep(61).problems
    assert row(world, loose).created_by is None
    assert [] == world.sweep(60).problems
    assert "" == row(world, loose).created_by


@pytest.mark.parametrize("broken", ["page", "keep_page"])
def test_a_page_that_cannot_be_kept_costs_nothing_else(broken: str) -> None:
    """The sweep says so; verdicts, workflows and costs are as without it, and the next sweep keeps
    a page."""
    world = FleetWorld()
    instance_id = world.add(1)

    setattr(world.state, broken, _throttled)
    summary = world.sweep()

    assert ["page of the console: Throttled: later"] == summary.problems
    assert ("idle", 1) == (world.verdict(instance_id), summary.episodes_started)
    meter = world.state.meter(TARGET, "2026-11")
    assert meter is not None
    assert meter.counted_until == world.clock.now()

    delattr(world.state, broken)
    world.sweep(5)
    assert instance_id == row(world, instance_id).instance_id


def stop(world: FleetWorld, number: int) -> str:
    """Close an episode that stopped an instance, and return the instance's id."""
    entry = make_entry(number, resource_name=f"notebook-{number}")
    assert world.state.take_lock(entry.episode)
    world.state.close_episode(
        entry.episode, Outcome.STOPPED, "approved", NOW, quiet_until=None, booking=booking(entry)
    )
    return entry.episode.instance_id


def test_an_instance_that_was_stopped_stays_on_the_page() -> None:
    """With the episode that stopped it, until it runs again."""
    world = FleetWorld()
    stopped_id = stop(world, 21)
    world.sweep()
    found = row(world, stopped_id)

    assert (STOPPED, "notebook-21", NOW - timedelta(days=3)) == (
        found.verdict,
        found.name,
        found.stopped_at,
    )
    world.add(21)
    world.sweep(5)
    assert "idle" == row(world, stopped_id).verdict


def test_a_ledger_that_cannot_be_read_takes_no_stopped_instance_away() -> None:
    """The sweep says what failed, and keeps the rows of the page before."""
    world = FleetWorld()
    stopped_id = stop(world, 21)
    world.sweep()
    world.state.open_of = _throttled  # type: ignore[method-assign, assignment]
    summary = world.sweep(5)

    assert ["instances that are stopped: Throttled: later"] == summary.problems
    assert STOPPED == row(world, stopped_id).verdict


def test_what_failed_is_said_without_a_name() -> None:
    """Whoever may see the target may read it, whosever instances failed."""
    world = FleetWorld()
    world.add(1)
    world.state.set_marked = _throttled  # type: ignore[method-assign,assignment]
    world.sweep()

    assert "1 step of the last sweep failed; the next sweep tries again." == page(world).problem


def test_the_day_says_who_used_and_who_wasted() -> None:
    """By the verdict of the sweep that counts it."""
    world = FleetWorld()
    tags = {**TAGS, "Owner": "bob"}
    world.add(1, BUSY, tags=TAGS, launch_time=NOW)
    world.add(2, tags=tags, launch_time=NOW - timedelta(hours=3))
    world.sweep()
    before = world.state.days_of(TARGET, [NOW.date()])[0].shares
    world.sweep(5)

    after = world.state.days_of(TARGET, [NOW.date()])[0].shares
    grown = {who[0]: share.total - before.get(who, Share()).total for who, share in after.items()}

    assert {"alice@example.com", "bob"} == grown.keys()
    assert after["bob", "vision"].idle > 0 == after["bob", "vision"].used
    assert 1 == len(set(grown.values()))
