"""Why instances stay: one reason each, who keeps them and until when, as the sweep stores it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import Answer
from governor.approvals.rules.approval import hold_of
from governor.core.instance import Instance, Lifecycle, Session
from governor.episode.model.episode import InstanceRecord, Outcome
from governor.fleet.model import FleetRow
from governor.fleet.rules.kept import WORDS, KeepReason, KeptList, kept_list
from governor.policy.model.acting import Action
from governor.policy.model.policy import AppliedPolicy, Mode, Policy
from governor.sweep.kept_because import BY_OUTCOME, FINDERS, SweptInstance, why_kept
from governor.sweep.sweep_case import Case, ListedInstance
from governor.table import keys
from governor.verdict.model import IDLE, LEFT_ALONE, Hold, Verdict, VerdictKind
from tests.builders import NOW, TARGET
from tests.unit.worlds.builders import (
    approval_id_of,
    asked,
    decision,
    opener,
    ref_of,
    stored_episode,
)
from tests.unit.worlds.fleet_world import FleetWorld

BUSY = [90.0] * 12


def row(world: FleetWorld, instance_id: str) -> FleetRow:
    """The stored row of one instance."""
    page = world.state.page(TARGET)
    assert page is not None
    [found] = [one for one in page.rows if one.instance_id == instance_id]
    return found


def kept(world: FleetWorld, instance_id: str) -> tuple[object, ...]:
    """Its reason, who keeps it, and until when."""
    found = row(world, instance_id)
    return found.kept_because, found.kept_by, found.stays_until


def listed(world: FleetWorld) -> KeptList:
    """The list of everything."""
    return kept_list(world.state.pages(), world.clock.now(), lambda _: True)


def override(world: FleetWorld, instance_id: str, policy: Policy, name: str = "long") -> None:
    """Let an override give one instance this policy."""
    applied_to = world.policies.applied_to

    def applied(instance: Instance) -> AppliedPolicy:
        if instance.instance_id == instance_id:
            return AppliedPolicy(policy, "test", (name,))
        of_others: AppliedPolicy = applied_to(instance)
        return of_others

    world.policies.applied_to = applied  # type: ignore[method-assign]


def with_idle(policy: Policy, **settings: Any) -> Policy:
    """The policy with these settings of its idle rule."""
    return replace(policy, idle=replace(policy.idle, **settings))


def test_every_reason_has_words_and_a_finder() -> None:
    """A new way to keep an instance is a reason here; one without either fails. So does an outcome
    for which nobody has decided whether it keeps an instance."""
    assert set(KeepReason) == set(WORDS) == set(FINDERS)
    assert all(WORDS.values())
    assert set(Outcome) == set(BY_OUTCOME)


REASON_BY_VERDICT = {
    VerdictKind.EXEMPT: {KeepReason.EXEMPTION_TAG, KeepReason.EXEMPTION},
    VerdictKind.SNOOZED: {KeepReason.KEEP, KeepReason.UNDO},
    VerdictKind.MANAGED_ELSEWHERE: {KeepReason.MANAGER},
    VerdictKind.FROZEN: {KeepReason.FREEZE},
}
REASON_BY_END = {
    "snoozed_until": KeepReason.KEEP,
    "quiet_until": KeepReason.UNANSWERED,
    "restarts_quiet_until": KeepReason.RESTARTS,
    "warned_until": None,  # EC2 takes it back within minutes.
}


def test_whatever_keeps_an_instance_has_a_reason() -> None:
    """A new verdict that leaves an instance alone, or a new time until which nobody is asked, must
    be decided about here."""
    leaves_it_alone = {kind for kind in (*LEFT_ALONE, *IDLE) if kind is not VerdictKind.IDLE}
    ends = {
        field.name
        for record in (InstanceRecord, Hold)
        for field in fields(record)
        if field.name.endswith("_until")
    }

    assert leaves_it_alone == set(REASON_BY_VERDICT)
    assert ends == set(REASON_BY_END)


def test_a_freeze_keeps_what_is_idle() -> None:
    """It is measured idle, and the freeze has no end until people release it."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    instance = world.ec2.instances[instance_id]
    listed_instance = ListedInstance(
        instance,
        AppliedPolicy(world.policy, "test"),
        InstanceRecord(TARGET, instance_id),
        world.state.observations(TARGET)[instance_id],
        NOW,
    )
    case = Case(listed_instance, Verdict(VerdictKind.FROZEN, "idle"))

    assert (KeepReason.FREEZE, "", None) == why_kept(
        SweptInstance(case, row(world, instance_id), world.policy)
    )


def test_what_nothing_keeps_is_not_listed() -> None:
    """A busy instance, and an idle one that people are asked about."""
    world, instance_id, _ = asked()
    busy = world.add(2, BUSY)
    world.sweep(5)

    assert (None, "", None) == kept(world, instance_id) == kept(world, busy)
    assert () == listed(world).instances


def test_holds_are_listed_and_never_called_idle() -> None:
    """Their metrics are not read, so they count apart, with who keeps them."""
    world = FleetWorld()
    tag = world.policy.exemption
    tagged = world.add(1, tags={"Purpose": "GPU-Workload", tag.tag_key: tag.tag_value})
    exempt, elsewhere = world.add(2), world.add(3)
    hold = Hold(exempt_reason="a demo (the long one) (link:ada@example.com)")
    world.state.store_hold(TARGET, exempt, replace(hold, exempt_in=row_project(world, exempt)))
    world.state.store_hold(TARGET, elsewhere, replace(hold, exempt_in="another"))
    world.sweep()

    assert ("exemption-tag", f"tag {tag}", None) == kept(world, tagged)
    assert ("exemption", "link:ada@example.com", None) == kept(world, exempt)
    assert ("exemption", "", None) == kept(world, elsewhere)
    found = listed(world)
    assert {"not measured"} == {one.measured for one in found.instances}
    assert 0 == found.idle_usd_per_month < found.not_measured_usd_per_month


def row_project(world: FleetWorld, instance_id: str) -> str:
    """The project of an instance, by its first row."""
    world.sweep()
    return row(world, instance_id).project


def test_a_keep_names_who_answered_and_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The person of the answer, until the day of the answer; later sweeps read nothing for it."""
    world, instance_id, ref = asked()
    until = NOW + timedelta(days=3)
    episode = world.state.episode(ref)
    assert episode is not None
    answer = replace(decision(Answer.KEEP), keep_until=until)
    world.state.settle(episode.approval_id, answer, episode.project)
    world.state.close_episode(ref, Outcome.KEPT, "", NOW, quiet_until=None)
    world.sweep(5)
    first = kept(world, instance_id)
    asked_for: list[list[str]] = []
    keepers = world.state.keepers

    def counted(ids: list[str]) -> dict[str, str]:
        asked_for.append(ids)
        return keepers(ids)

    monkeypatch.setattr(world.state, "keepers", counted)
    world.sweep(5)

    assert ("keep", answer.by, until) == first == kept(world, instance_id)
    assert [[]] == asked_for
    [one] = listed(world).instances
    assert ("not measured", instance_id) == (one.measured, one.row.instance_id)


def test_a_keep_after_a_yes_names_who_kept_and_not_who_approved() -> None:
    """The question has two answers then: the yes, and the keep that holds the step."""
    world, instance_id, ref = asked()
    until = NOW + timedelta(days=3)
    world.state.settle(approval_id_of(instance_id), decision(by="link:approver@example.com"))
    episode = stored_episode(world, ref)
    keep = replace(decision(Answer.KEEP, by="link:keeper@example.com"), keep_until=until)
    hold = hold_of(keep, episode.project, episode.approval_id)
    world.state.hold(episode, keep, hold, None)
    world.state.close_episode(ref, Outcome.HELD, "", NOW, quiet_until=None)
    world.sweep(5)

    assert ("keep", "link:keeper@example.com", until) == kept(world, instance_id)


def test_a_person_whose_answer_could_not_be_read_is_read_by_the_next_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An unknown person is carried over to no later row."""
    world, instance_id, ref = asked()
    until = NOW + timedelta(days=3)
    keep = replace(decision(Answer.KEEP), keep_until=until)
    world.state.settle(approval_id_of(instance_id), keep, stored_episode(world, ref).project)
    world.state.close_episode(ref, Outcome.KEPT, "", NOW, quiet_until=None)
    with monkeypatch.context() as patched:
        patched.setattr(world.state, "keepers", lambda _: {})
        world.sweep(5)
    assert ("keep", "", until) == kept(world, instance_id)
    world.sweep(5)

    assert ("keep", keep.by, until) == kept(world, instance_id)


def test_a_keep_after_an_undo_names_who_had_it_started() -> None:
    """As long as the instance is in the project that it had then."""
    world = FleetWorld()
    instance_id, moved = world.add(1), world.add(2)
    until = NOW + timedelta(days=1)
    hold = Hold(until, kept_in=row_project(world, instance_id), keeper="link:ada@example.com")
    world.state.store_hold(TARGET, instance_id, hold)
    world.state.store_hold(TARGET, moved, replace(hold, kept_in="another"))
    world.sweep(5)

    assert ("undo", "link:ada@example.com", until) == kept(world, instance_id)
    assert ("undo", "", until) == kept(world, moved)


def test_a_keep_that_an_earlier_release_stored_names_no_earlier_person() -> None:
    """That release leaves the person of an undo beside the question of its own, longer keep."""
    world, instance_id, ref = asked()
    until = NOW + timedelta(days=3)
    keep = replace(decision(Answer.KEEP, by="link:keeper@example.com"), keep_until=until)
    world.state.settle(approval_id_of(instance_id), keep, stored_episode(world, ref).project)
    world.state.close_episode(ref, Outcome.KEPT, "", NOW, quiet_until=None)
    for key in keys.holds(TARGET, instance_id):
        world.state.items[key]["keeper"] = "link:earlier@example.com"
    world.sweep(5)

    assert ("keep", "link:keeper@example.com", until) == kept(world, instance_id)


def test_a_managed_instance_is_kept_by_its_service() -> None:
    """It is measured, so it is idle."""
    world = FleetWorld()
    managed = world.add(4, tags={"Purpose": "GPU-Workload", "eks:cluster-name": "one"})
    world.sweep()

    assert ("manager", "Amazon EKS", None) == kept(world, managed)
    [one] = listed(world).instances
    assert "idle" == one.measured


def test_an_open_session_is_named_until_the_next_look() -> None:
    """The second look found somebody logged in: the sweep goes on to measure it idle."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    arn = "arn:aws:sts::123456789012:assumed-role/dev/bob@example.com"
    world.ec2.sessions[instance_id] = [Session(arn, NOW - timedelta(hours=1))]
    assert opener(world)(ref_of(world, instance_id)).episode is None
    world.sweep(5)

    record = world.state.record(TARGET, instance_id)
    assert ("session", "bob@example.com", record.quiet_until) == kept(world, instance_id)
    assert ["idle"] == [one.measured for one in listed(world).instances]

    world.ec2.sessions.clear()
    world.sweep(60)
    assert opener(world)(ref_of(world, instance_id, 2)).episode is not None
    world.sweep(5)
    assert (None, "", None) == kept(world, instance_id)


def test_work_on_the_second_look_is_no_session() -> None:
    """Whoever works keeps nothing idle, and an earlier session is forgotten."""
    world, instance_id, ref = asked()
    quiet = NOW + timedelta(hours=1)
    world.state.close_episode(
        ref, Outcome.WOKE_UP, "", NOW, quiet_until=quiet, logged_in="bob@example.com"
    )
    world.sweep(5)
    assert ("session", "bob@example.com", quiet) == kept(world, instance_id)
    world.sweep(70)
    number = world.state.record(TARGET, instance_id).episodes
    later = world.clock.now() + timedelta(hours=1)
    world.state.close_episode(
        ref_of(world, instance_id, number), Outcome.WOKE_UP, "", NOW, quiet_until=later
    )
    world.sweep(5)

    assert (None, "", None) == kept(world, instance_id)


@pytest.mark.parametrize(
    ("outcome", "reason"), [(outcome, reason) for outcome, reason in BY_OUTCOME.items() if reason]
)
def test_quiet_after_an_outcome_is_listed_until_it_is_asked_again(
    outcome: Outcome, reason: KeepReason
) -> None:
    """An unanswered question, a held action, a refusal and a failure."""
    world, instance_id, ref = asked()
    quiet = NOW + timedelta(hours=20)
    world.state.close_episode(ref, outcome, "", NOW, quiet_until=quiet)
    world.sweep(5)

    if reason is KeepReason.REPORT_ONLY:
        quiet = None  # type: ignore[assignment]
    assert (reason.value, quiet) == kept(world, instance_id)[::2]


def test_restarts_by_others_go_before_the_outcome() -> None:
    """Until the escalation contacts are asked again."""
    world, instance_id, ref = asked()
    quiet = NOW + timedelta(days=2)
    world.state.close_episode(
        ref, Outcome.EXPIRED, "", NOW, quiet_until=quiet, restarts_quiet_until=quiet
    )
    world.sweep(5)

    assert ("restarts", "", quiet) == kept(world, instance_id)


def test_an_override_that_only_notifies_is_named() -> None:
    """Capacity that is paid for is left alone because of its own settings, not the policy."""
    world = FleetWorld()
    notified, observed, paid = world.add(1), world.add(2), world.add(3)
    world.change(paid, lifecycle=Lifecycle.CAPACITY_BLOCK)
    plan = replace(world.policy.plan, action=Action.NOTIFY_ONLY)
    override(world, notified, replace(world.policy, plan=plan), "quiet-team")
    override(world, observed, replace(world.policy, mode=Mode.OBSERVE), "watch-team")
    world.sweep()

    assert ("report-only", "quiet-team", None) == kept(world, notified)
    assert ("report-only", "watch-team", None) == kept(world, observed)
    assert ("report-only", "its settings in EC2", None) == kept(world, paid)


def test_a_policy_that_only_notifies_is_named() -> None:
    world = FleetWorld()
    instance_id = world.add(1)
    plan = replace(world.policy.plan, action=Action.NOTIFY_ONLY)
    world.policies.policy = replace(world.policy, plan=plan)
    world.sweep()

    assert ("report-only", "the policy", None) == kept(world, instance_id)


def test_an_override_that_asks_later_is_named_once_the_policy_would_have_asked() -> None:
    """The instance is measured idle for as long as the policy without overrides needs."""
    world = FleetWorld()
    usual = world.policy
    approval = replace(usual.approval, ask_after_minutes=90)
    world.policies.policy = replace(usual, approval=approval)
    instance_id = world.add(1)
    override(world, instance_id, usual)
    world.publish(instance_id, BUSY)
    world.sweep()
    world.publish(instance_id, [*BUSY, *[1.0] * 14])
    world.sweep(70)
    early = kept(world, instance_id)
    world.publish(instance_id, [*BUSY, *[1.0] * 20])
    world.sweep(30)

    reason, by, until = kept(world, instance_id)
    assert (None, "", None) == early
    assert ("idle", "override", "long") == (row(world, instance_id).verdict, reason, by)
    assert until is not None
    assert ["idle"] == [one.measured for one in listed(world).instances]


def test_a_longer_idle_window_is_listed_as_not_measured() -> None:
    """After work nothing is read until that window is over, so nobody knows whether it is idle."""
    world = FleetWorld()
    instance_id = world.add(1, BUSY)
    override(world, instance_id, with_idle(world.policy, window_minutes=1440))
    world.sweep()
    early = kept(world, instance_id)
    world.sweep(120)

    reason, by, until = kept(world, instance_id)
    assert (None, "", None) == early
    assert ("busy", "override", "long") == (row(world, instance_id).verdict, reason, by)
    assert isinstance(until, type(NOW))
    assert until > world.clock.now()
    assert ["not measured"] == [one.measured for one in listed(world).instances]
