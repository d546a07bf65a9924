"""An instance that stays stopped after a question is asked about once more, and ended by people
alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.alerts.model import Owner
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.model.approval import Answer
from governor.approvals.rules.sealing import UNSEALED
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import SafetyError
from governor.core.instance import Instance, Protection, Volume
from governor.episode.model.episode import Episode, EpisodeEnding, Outcome, Phase, Undo
from governor.episode.model.plan import Step
from governor.events.react_to_state_change import ReactToStateChange
from governor.money.book_saving import settle_replaced
from governor.money.model.ledger import Ending
from governor.policy.model.acting import Action, ApprovalRule, PlanRule
from governor.policy.model.policy import BY_BUDGET, AppliedPolicy, Mode, Policy
from governor.remediation.void_episode import VoidEpisode
from tests.builders import NOW, TARGET, make_instance
from tests.episodes import ending_of
from tests.twins import StaticPolicies
from tests.unit.worlds.builders import (
    decider,
    decision,
    follow_start,
    opener,
    recorder,
    ref_of,
    stored_episode,
)
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import PEOPLE, World

DAYS = 14
ASKS = ApprovalRule(ask_about_stopped_after_days=DAYS)
TAGS = {"Purpose": "GPU-Workload", "Name": "notebook", "Owner": "ml", "Project": "vision"}
ENDS_AND_KEEPS = (
    Volume("vol-1", "/dev/xvda", True, 100, "gp3"),
    Volume("vol-2", "/dev/sdb", False, 500, "gp3"),
)


def stopped(
    policy: Policy | None = None, *, days: float = DAYS, **changes: Any
) -> tuple[FleetWorld, str]:
    """A fleet of one instance that a question has stopped so many days ago."""
    world = FleetWorld(policy or Policy(mode=Mode.ASK, ownership=PEOPLE, approval=ASKS))
    rule = world.policies.policy
    world.policies.policy = replace(rule, mode=Mode.ASK, plan=PlanRule())
    one = world.add(1, **{"tags": TAGS, "volumes": ENDS_AND_KEEPS, **changes})
    ref = ref_of(world, one)
    opener(world)(ref)
    world.state.note_step(ref, Step.STOP.value, NOW)
    world.change(one, state="stopped")
    recorder(world)(ref, Outcome.STOPPED)
    world.policies.policy = rule
    world.clock.moment += timedelta(days=days)
    return world, one


def asked(world: FleetWorld, one: str) -> EpisodeRef:
    """The question about the stopped instance, as the sweep's workflow opens it."""
    ref = ref_of(world, one, number=2)
    opened = opener(world, "approval-2")(ref)
    assert opened.episode is not None, opened.reason
    return ref


def started(world: FleetWorld) -> list[str]:
    return [name for name in world.workflow.executions if name.endswith("-2")]


# asking


@pytest.mark.parametrize(
    ("approval", "days", "is_asked"),
    [(ASKS, DAYS, True), (ASKS, DAYS - 0.1, False), (ApprovalRule(), 300, False)],
    ids=["due", "not yet", "off, as shipped"],
)
def test_a_sweep_asks_when_the_policys_days_are_over(
    approval: ApprovalRule, days: float, is_asked: bool
) -> None:
    """Once: the next sweep finds the question open."""
    world, one = stopped(Policy(mode=Mode.ASK, approval=approval), days=days)
    world.sweep()

    assert [ref_of(world, one, 2).execution_name] * is_asked == started(world)
    if is_asked:
        asked(world, one)
        for _ in range(5):
            world.sweep(20)
        assert stored_episode(world, ref_of(world, one, 2)).phase is Phase.ASKING
        assert 1 == len(world.workflow.executions)


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO])
def test_the_question_is_for_people_whatever_the_policy_does_unasked(mode: Mode) -> None:
    """Two of them. It rests on the evidence and on the stop of the first one."""
    world, one = stopped(
        Policy(mode=mode, ownership=PEOPLE, approval=replace(ASKS, on_expiry="act"))
    )
    before = stored_episode(world, ref_of(world, one))
    episode = stored_episode(world, asked(world, one))

    assert (Mode.ASK, Phase.ASKING, False) == (
        episode.mode,
        episode.phase,
        episode.asking.acts_on_silence,
    )
    assert (Step.STOP, Step.SNAPSHOT, Step.TERMINATE) == episode.plan.steps
    assert (Step.SNAPSHOT, Step.TERMINATE) == episode.own_plan
    assert (2, before.ref) == (episode.terms.people_needed, episode.stopped_by_episode)
    assert ({"stop": NOW}, {}) == (episode.progress.steps_done, episode.own_steps)
    assert before.measurement.evidence_hash == episode.measurement.evidence_hash
    assert "GPU Governor stopped it on Fri Nov 20, 12:02 UTC" in episode.reason
    assert not any("memory" in loss or "NVMe" in loss for loss in episode.plan.losses)
    assert not episode.plan.loses_local_disks


def test_people_are_needed_as_for_the_running_one() -> None:
    """It costs nothing an hour now, and is as dear as it was."""
    rule = replace(ASKS, people_to_terminate=1, two_people_above_usd_per_hour=Decimal("0.1"))
    world, one = stopped(Policy(mode=Mode.ASK, ownership=PEOPLE, approval=rule))

    assert 2 == stored_episode(world, asked(world, one)).terms.people_needed


def test_it_costs_what_its_storage_costs() -> None:
    """600 GiB until then; 500 GiB and snapshots of 600 afterwards: more, which is said."""
    world, one = stopped()
    saving = stored_episode(world, asked(world, one)).plan.saving

    assert Decimal(48) / 730 == saving.cost_before_usd_per_hour
    assert (Decimal(40) + 30) / 730 == saving.cost_after_usd_per_hour


def _ended_unchanged(episode: Episode) -> Episode:
    """Return the episode as if it had not stopped the instance."""
    return replace(episode, ending=replace(ending_of(episode), became=None))


REFUSALS: dict[str, Callable[[FleetWorld, str], object]] = {
    "it runs again": lambda w, one: w.change(one, state="running", launch_time=w.clock.now()),
    "it was started and stopped": lambda w, one: w.change(one, launch_time=w.clock.now()),
    "it is gone": lambda w, _: w.ec2.instances.clear(),
    "exempt by tag": lambda w, one: w.change(one, tags={**TAGS, "GpuGovernor": "exempt"}),
    "selector lost": lambda w, one: w.change(one, tags={**TAGS, "Purpose": "web"}),
    "in a group": lambda w, one: w.change(one, tags={**TAGS, "aws:autoscaling:groupName": "g"}),
    "protected": lambda w, one: w.ec2.protections.update({one: Protection(False, True)}),
    "undone": lambda w, one: w.state.put(
        replace(stored_episode(w, ref_of(w, one)), undo=Undo("bob", NOW))
    ),
    "not by us": lambda w, one: w.state.put(_ended_unchanged(stored_episode(w, ref_of(w, one)))),
    "mode observe": lambda w, _: _policy(w, mode=Mode.OBSERVE),
    "asked about by its budget alone": lambda w, _: setattr(
        w.policies, "applied_to", lambda _: AppliedPolicy(w.policies.policy, "v", (BY_BUDGET,))
    ),
    "to notify only": lambda w, _: _policy(w, plan=PlanRule(action=Action.NOTIFY_ONLY)),
    "off": lambda w, _: _policy(w, approval=ApprovalRule()),
    "not yet": lambda w, _: _policy(w, approval=replace(ASKS, ask_about_stopped_after_days=30)),
}


def _policy(world: FleetWorld | World, **changes: Any) -> None:
    world.policies.policy = replace(world.policies.policy, **changes)


@pytest.mark.parametrize("name", REFUSALS)
def test_each_of_these_alone_keeps_people_from_being_asked(name: str) -> None:
    """It ends without a question, and is not looked at again within the hour."""
    world, one = stopped()
    ref = ref_of(world, one, number=2)
    REFUSALS[name](world, one)
    opened = opener(world, "approval-2")(ref)

    assert opened.episode is None, opened.reason
    assert world.state.approval("approval-2") is None
    record = world.state.record(TARGET, one)
    assert record.open_episode is None
    assert record.is_quiet(ref.launch_time, world.clock.now() + timedelta(minutes=50))
    assert [] == world.ec2.calls


def test_what_is_asked_about_stays_asked_although_it_is_not_listed() -> None:
    """The sweep lists what runs; it would take any other question about what does not run back."""
    world, one = stopped()
    ref = asked(world, one)
    world.sweep()

    assert Phase.ASKING is stored_episode(world, ref).phase


@pytest.mark.parametrize(
    "change",
    [
        lambda w, one: (w.publish(one, [90.0] * 48), w.change(one, state="running")),
        lambda w, one: w.state.settle_entry(
            w.state.open_entries(TARGET, one)[0], w.clock.now(), Ending.STARTED, w.clock.now()
        ),
        lambda w, _: [
            item.update(outcome="terminated")
            for key, item in w.state.items.items()
            if "OPENLEDGER" in key[1]
        ],
    ],
    ids=["runs", "was started", "terminated by us"],
)
def test_a_sweep_asks_about_nothing_else(change: Callable[[FleetWorld, str], object]) -> None:
    """No workflow is begun only to be ended."""
    world, one = stopped()
    change(world, one)
    world.sweep()

    assert [] == started(world)


def test_a_stop_that_another_instance_replaces_is_asked_about_too() -> None:
    """Its owner works elsewhere, so this one is the likeliest to be forgotten. A start of it ends
    that."""
    world, one = stopped(days=1)
    first, second = (
        world.add(number, tags=TAGS, launch_time=world.clock.now()) for number in (7, 8)
    )
    world.sweep(5)
    (entry,) = world.state.entries("2026-11")
    assert Ending.REPLACED is entry.ended
    assert entry.replaced_by in (first, second)
    for other in (first, second):
        world.change(other, state="terminated")

    world.sweep(60 * 24 * DAYS)
    assert [ref_of(world, one, 2).execution_name] == started(world)
    asked(world, one)

    react(world)(TARGET.account, TARGET.region, one, "running", world.clock.now())
    assert [] == world.state.open_of(TARGET)
    assert [entry] == world.state.entries("2026-11")


def test_a_replaced_stop_that_others_terminate_is_over() -> None:
    """Its saving, and why that ended, stay as they were."""
    world, one = stopped(days=1)
    episode, now = stored_episode(world, ref_of(world, one)), world.clock.now()
    other = make_instance(instance_id="i-00000000000000007", launch_time=now)
    settle_replaced(world.state, [TARGET], [(other, Owner(episode.owner, episode.project))], now)
    react(world)(TARGET.account, TARGET.region, one, "terminated", now)

    assert [] == world.state.open_of(TARGET)
    (entry,) = world.state.entries("2026-11")
    assert Ending.REPLACED is entry.ended


def test_what_was_terminated_is_never_asked_about_again() -> None:
    """Its stop goes on saving, so that its entry stays open."""
    world, one = stopped()
    ref = asked(world, one)
    world.state.settle("approval-2", decision(Answer.APPROVE))
    world.state.note_step(ref, Step.TERMINATE.value, world.clock.now())
    world.change(one, state="terminated")
    recorder(world)(ref, Outcome.TERMINATED)

    before = len(world.workflow.executions)
    for _ in range(DAYS + 5):
        world.sweep(60 * 24)
    assert before == len(world.workflow.executions)


def test_what_is_gone_and_whose_end_was_missed_is_looked_at_once_a_day() -> None:
    world, one = stopped()
    ref = ref_of(world, one, number=2)
    world.ec2.instances.clear()
    opened = opener(world, "approval-2")(ref)

    assert opened.episode is None
    assert world.state.record(TARGET, one).quiet_until == world.clock.now() + timedelta(days=1)


@dataclass
class ByProject(StaticPolicies):
    """An override for the instances of one project: so many days, perhaps none."""

    days: int | None = None
    project: str = "vision"

    @property
    def variants(self) -> tuple[Policy, ...]:
        return self.policy, self._own

    @property
    def _own(self) -> Policy:
        return replace(self.policy, approval=replace(ASKS, ask_about_stopped_after_days=self.days))

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        is_own = instance.tags.get("Project") == self.project
        return AppliedPolicy(self._own if is_own else self.policy, self.version)


@pytest.mark.parametrize(
    ("base", "own", "days", "is_asked"),
    [
        (None, 14, 14, True),
        (None, 14, 13, False),
        (30, 14, 14, True),
        (14, 30, 14, False),
        (14, 30, 30, True),
        (14, None, 300, False),
    ],
)
def test_an_override_sets_the_days_of_its_instances(
    base: int | None, own: int | None, days: int, is_asked: bool
) -> None:
    """Fewer, more, or none; and some where the policy asks about nobody else."""
    approval = replace(ASKS, ask_about_stopped_after_days=base)
    world, one = stopped(Policy(mode=Mode.ASK, ownership=PEOPLE, approval=approval), days=days)
    by_project = ByProject(world.policies.policy, days=own)
    world.policies = by_project
    follow_up = replace(world.sweep_target.follow_up, policies=by_project)
    world.sweep_target = replace(world.sweep_target, policies=by_project, follow_up=follow_up)
    world.sweep()

    assert [ref_of(world, one, 2).execution_name] * is_asked == started(world)
    if is_asked:
        asked(world, one)


def test_only_an_earlier_question_about_the_same_run_counts_as_its_stop() -> None:
    """Not one about another run, another instance, or the question itself."""
    world, one = stopped()
    first = stored_episode(world, ref_of(world, one))
    second = ref_of(world, one, number=2)

    assert first.has_stopped(second)
    for other in (
        first.ref,
        replace(second, launch_time=NOW),
        replace(second, instance_id="i-00000000000000009"),
        replace(second, region="eu-west-1"),
    ):
        assert not first.has_stopped(other)


def test_an_answer_holds_for_as_many_days_again() -> None:
    """And silence, too."""
    world, one = stopped()
    ref = asked(world, one)
    world.state.await_answer("approval-2", "token", "ask", world.clock.now() + timedelta(hours=1))
    world.state.void("approval-2", "nobody answered", expired=True)
    recorder(world)(ref, Outcome.EXPIRED)
    record = world.state.record(TARGET, one)

    assert record.quiet_until == world.clock.now() + timedelta(days=DAYS)


def test_words_of_people_change_no_days() -> None:
    """A reason that quoted the program had people asked about it at once."""
    world, one = stopped()
    ref = asked(world, one)
    world.state.await_answer("approval-2", "token", "ask", world.clock.now() + timedelta(hours=1))
    reason = f"exempted by decision: it {UNSEALED} (link:ada@example.com)"
    world.state.void("approval-2", reason, expired=False, outcome=Outcome.VOID.value)
    recorder(world)(ref, Outcome.VOID)

    assert reason == ending_of(stored_episode(world, ref)).reason
    later = world.clock.now() + timedelta(days=DAYS)
    assert later == world.state.record(TARGET, one).quiet_until
    world.sweep(60 * 24 * (DAYS - 1))
    assert not [name for name in world.workflow.executions if name.endswith("-3")]
    world.sweep(60 * 25)
    assert [name for name in world.workflow.executions if name.endswith("-3")]


# acting


def stopped_and_approved() -> World:
    """An approved question about a stopped instance, rechecked, before its snapshots."""
    world = World(action=Action.TERMINATE)
    found = world.state.episode(world.ref)
    assert found is not None
    before = replace(
        found,
        ref=replace(world.ref, number=0),
        approval_id="approval-0",
        phase=Phase.CLOSED,
        ending=EpisodeEnding(Outcome.STOPPED, "approved", NOW, became=Outcome.STOPPED),
        progress=replace(found.progress, steps_done={"stop": NOW - timedelta(days=DAYS)}),
    )
    world.state.put(before)
    world.state.put(
        replace(
            found,
            stopped_by_episode=before.ref,
            progress=replace(found.progress, steps_done=before.progress.steps_done),
        )
    )
    world.change_instance(state="stopped")
    rule = replace(world.policies.policy.approval, ask_about_stopped_after_days=DAYS)
    _policy(world, approval=rule, plan=PlanRule())
    return world


def _undo_before(world: World) -> None:
    before = world.state.episode(replace(world.ref, number=0))
    assert before is not None
    world.state.put(replace(before, undo=Undo("bob", NOW)))


def _closed_before(world: World) -> None:
    before = world.state.episode(replace(world.ref, number=0))
    assert before is not None
    world.state.put(_ended_unchanged(before))


FAULTS: dict[str, Callable[[World], object]] = {
    "it runs again": lambda w: w.change_instance(state="running", launch_time=NOW),
    "it was started and stopped": lambda w: w.change_instance(launch_time=NOW),
    "undone": _undo_before,
    "never stopped by us": _closed_before,
    "the policy does not ask any more": lambda w: _policy(
        w, approval=replace(w.policies.policy.approval, ask_about_stopped_after_days=None)
    ),
    "mode observe": lambda w: _policy(w, mode=Mode.OBSERVE),
    "mode observe, and asked about by its budget alone": lambda w: setattr(
        w.policies, "applied_to", lambda _: AppliedPolicy(w.policies.policy, "v", (BY_BUDGET,))
    ),
    "to notify only": lambda w: _policy(w, plan=PlanRule(action=Action.NOTIFY_ONLY)),
    "protected": lambda w: w.ec2.protections.update(
        {w.instance.instance_id: Protection(False, True)}
    ),
    "exempt": lambda w: w.change_instance(tags={**w.instance.tags, "GpuGovernor": "exempt"}),
    "a volume more": lambda w: w.change_instance(
        volumes=(*w.instance.volumes, Volume("vol-9", "/dev/sdz", True))
    ),
}


def test_its_snapshots_are_new_ones_and_its_termination_the_only_call() -> None:
    """Its stop is not asked of EC2 again, which is no dry run, and its snapshots are rehearsed
    while it is stopped."""
    world = stopped_and_approved()
    assert world.recheck(world.ref, Step.STOP).proceed
    assert world.take_snapshot.rehearse(world.ref)
    is_dry_run = world.put_away(world.ref, Step.STOP)
    assert not is_dry_run
    world.stop_and_snapshot()
    assert world.recheck(world.ref, Step.TERMINATE).proceed
    world.put_away(world.ref, Step.TERMINATE)

    assert ["terminate"] == world.writes()


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("late", [False, True], ids=["before its snapshots", "after them"])
def test_each_fault_alone_keeps_a_stopped_instance(name: str, late: bool) -> None:
    """Neither the recheck nor the call lets it through."""
    world = stopped_and_approved()
    if late:
        world.stop_and_snapshot()
    FAULTS[name](world)
    step = Step.TERMINATE if late else Step.STOP

    assert not world.recheck(world.ref, step).proceed
    with pytest.raises(SafetyError):
        world.put_away(world.ref, step)
    assert [] == world.writes()


def test_refused_snapshots_of_a_stopped_instance_leave_it_stopped_and_the_message_says_so() -> None:
    """It does not run on, and this question did not stop it."""
    world, one = stopped()
    episode = stored_episode(world, asked(world, one))

    alert = outcome_alert(
        episode.ref, episode, Outcome.REFUSED, "EC2 refuses its snapshots", NOW, None
    )

    text = " ".join(alert.lines)
    assert "An earlier question stopped it. Nothing was deleted" in text
    assert "its stop was requested" not in text.lower()


@pytest.mark.parametrize(
    ("answer", "subject"),
    [
        (Answer.KEEP, "notebook stays stopped and is kept until Sat 09:00 UTC"),
        (Answer.EXEMPT, "notebook is exempt and stays stopped"),
    ],
)
def test_what_is_kept_from_a_termination_is_not_said_to_run(answer: Answer, subject: str) -> None:
    """Before, the mail and the page said that the stopped instance keeps running."""
    world, one = stopped()
    ref = asked(world, one)
    now = world.clock.now()
    world.state.await_answer("approval-2", "token", "ask", now + timedelta(hours=1))
    decider(world)("approval-2", decision(answer, at=now, reason="a demo"))
    is_kept = answer is Answer.KEEP
    recorder(world)(ref, Outcome.KEPT if is_kept else Outcome.EXEMPTED)

    alert = world.announcer.sent[-1]
    assert subject == alert.subject
    assert is_kept is ("If the instance is still stopped after that" in " ".join(alert.lines))
    assert "keeps running" not in " ".join(alert.lines)


def test_a_question_about_restarts_by_others_holds_back_that_about_the_storage() -> None:
    """Its message names the day until which nobody is asked about the instance, for any reason."""
    world, one = stopped()
    until = world.clock.now() + timedelta(days=3)
    record = world.state.record(TARGET, one)
    world.state.put(replace(record, restarts_quiet_until=until))
    world.sweep()
    held_back = started(world)

    world.clock.moment = until
    world.sweep()

    assert ([], [ref_of(world, one, 2).execution_name]) == (held_back, started(world))


# events and money


def react(world: FleetWorld) -> ReactToStateChange:
    void = VoidEpisode(
        episode_store=world.state, approval_store=world.state, workflow=world.workflow
    )
    return ReactToStateChange(
        lambda: world.policies,
        world.clock,
        episode_store=world.state,
        instance_store=world.state,
        ledger_store=world.state,
        void=void,
        follow_start=follow_start(world),
    )


def test_a_start_takes_the_question_back_and_a_late_event_of_an_old_one_does_not() -> None:
    """Nobody terminates what is needed again."""
    world, one = stopped()
    ref, place = asked(world, one), (TARGET.account, TARGET.region, one)
    world.state.await_answer("approval-2", "token", "ask", world.clock.now() + timedelta(hours=1))

    react(world)(*place, "running", NOW)
    question = world.state.approval("approval-2")
    assert question is not None
    assert "PENDING" == question.status.value

    react(world)(*place, "running", world.clock.now() + timedelta(minutes=1))
    question = world.state.approval("approval-2")
    assert question is not None
    assert ("VOID", ref) == (question.status.value, question.episode)


@pytest.mark.parametrize(
    ("state", "minutes", "voids"),
    [
        ("stopping", -1, False),
        ("stopped", -1, False),
        ("stopped", 1, True),
        ("terminated", -1, True),
        ("terminated", 1, True),
    ],
)
def test_a_late_event_of_our_own_stop_takes_no_question_back(
    state: str, minutes: int, voids: bool
) -> None:
    """EventBridge and a redrive may bring it days later. Before, the question ended, as if others
    had stopped the instance."""
    world, one = stopped()
    asked(world, one)
    at = world.clock.now() + timedelta(minutes=minutes)

    react(world)(TARGET.account, TARGET.region, one, state, at)

    question = world.state.approval("approval-2")
    assert question is not None
    assert voids is (question.status.value == "VOID")


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("booked", [True, False], ids=["after its end", "before it"])
def test_a_stop_goes_on_saving_when_we_terminate_and_ends_when_others_do(
    ours: bool, booked: bool
) -> None:
    """Our termination adds what its storage costs less; nothing of the instance twice."""
    world, one = stopped()
    ref = asked(world, one)
    now = world.clock.now()
    if ours:
        world.state.settle("approval-2", decision(Answer.APPROVE))
        world.state.note_step(ref, Step.TERMINATE.value, now)
    world.change(one, state="terminated")
    if ours and booked:
        recorder(world)(ref, Outcome.TERMINATED)
    react(world)(TARGET.account, TARGET.region, one, "terminated", now)
    if ours and not booked:
        recorder(world)(ref, Outcome.TERMINATED)

    first, *rest = world.state.entries("2026-11")
    found = {entry.outcome: entry for entry in (first, *rest, *world.state.entries("2026-12"))}
    ended = found[Outcome.STOPPED].ended
    assert (None if ours else Ending.TERMINATED) == ended
    if ours:
        storage = found[Outcome.TERMINATED]
        assert storage.is_of_storage
        assert not found[Outcome.STOPPED].is_of_storage
        assert Decimal(8) / 730 == storage.saved_usd_per_hour
        assert now == storage.booked_at


def test_a_start_elsewhere_replaces_the_stop_and_not_its_storage_too() -> None:
    """One start replaces one instance, once."""
    world, one = stopped()
    ref = asked(world, one)
    world.state.settle("approval-2", decision(Answer.APPROVE))
    world.state.note_step(ref, Step.TERMINATE.value, world.clock.now())
    world.change(one, state="terminated")
    recorder(world)(ref, Outcome.TERMINATED)
    episode = stored_episode(world, ref)
    owner = Owner(episode.owner, episode.project)
    for number in (7, 8):
        later = world.clock.now() + timedelta(minutes=number)
        other = make_instance(instance_id=f"i-{number:017x}", launch_time=later)
        settle_replaced(world.state, [TARGET], [(other, owner)], world.clock.now())

    ends = {entry.outcome: entry.ended for entry in world.state.open_of(TARGET)}
    assert {Outcome.STOPPED: Ending.REPLACED, Outcome.TERMINATED: None} == ends
