"""Nothing stops or terminates by a record that the function of its duty has not sealed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.delivery import Delivery
from governor.approvals.deliver_decision import ConcludeApproval
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision
from governor.approvals.rules.approval import hold_of
from governor.approvals.rules.sealing import (
    ASKED_BEFORE,
    EXPIRY_NOTE,
    OPENING_RECORD,
    UNSEALED,
    Duty,
    answer_of,
    answer_text,
    delivery_text,
    ended_unsealed,
    expiry_text,
    is_for_lack_of_a_seal,
    opening_text,
    sealed,
    unsealed_text,
)
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    AccessDenied,
    CloudError,
    DecisionRefused,
    MustWait,
    SafetyError,
    Throttled,
    Unavailable,
    Unsealed,
)
from governor.episode.model.episode import Episode, EpisodeEnding, Outcome, Phase, Terms
from governor.episode.model.plan import Step
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.changes import asked_under
from governor.policy.rules.schedule import Schedule
from governor.verdict.rules.judge import judge_without_metrics
from tests.builders import NOW, make_instance
from tests.episodes import changed, ending_of
from tests.twins import MemoryStateTable
from tests.unit.worlds.builders import (
    asked,
    decider,
    decision,
    opener,
    recorder,
    ref_of,
    stored_approval,
    stored_episode,
)
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import ALICE, APPROVAL_ID, PEOPLE, World

BOB = "bob@example.com"
KNOWN = frozenset({ALICE, BOB})
TWO = Terms(known_people=KNOWN, people_needed=2)


class Forger:
    """Somebody with a role that writes the table: they see every record, and hold no key."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.table = MemoryStateTable(world.state.memory)

    @property
    def episode(self) -> Episode:
        found = self.table.episode(self.world.ref)
        assert found is not None
        return found

    @property
    def approval(self) -> Approval:
        return self.table.existing(APPROVAL_ID)

    def write_episode(self, **changes: Any) -> None:
        self.table.put(changed(self.episode, **changes))

    def write_approval(self, **changes: Any) -> None:
        self.table.put(replace(self.approval, **changes))

    def approve(self, *people: str, seals: tuple[str | None, ...] = ()) -> None:
        """Write what one or two people would have said, with seals from elsewhere."""
        given = [yes(person) for person in people]
        for number, seal in enumerate(seals):
            given[number] = replace(given[number], seal=seal)
        first = given[0] if len(given) > 1 else None
        self.write_approval(status=ApprovalStatus.APPROVED, decision=given[-1], first_yes=first)


def yes(person: str) -> Decision:
    return Decision(Answer.APPROVE, f"link:{person}", "page", NOW, person=person)


def to_terminate(**more: Any) -> World:
    """A question about a termination that two people must approve, and nobody has answered."""
    return World(action=Action.TERMINATE, decide=False, terms=TWO, people_to_terminate=2, **more)


def refused(world: World, why: str, step: Step = Step.STOP) -> SafetyError:
    """The step is refused, and EC2 was asked for nothing."""
    before = list(world.writes())
    with pytest.raises(SafetyError, match=why) as caught:
        world.put_away(world.ref, step)
    assert before == world.writes()
    return caught.value


# answers


def test_two_forged_yeses_terminate_nothing() -> None:
    """As any role that may write the question could write them."""
    world = to_terminate()
    Forger(world).approve(ALICE, BOB)

    assert isinstance(refused(world, f"the answer of link:{ALICE} {UNSEALED}"), Unsealed)


def test_two_sealed_yeses_do() -> None:
    world = to_terminate()
    world.state.note_first_yes(APPROVAL_ID, yes(ALICE))
    world.state.settle(APPROVAL_ID, yes(BOB))
    world.stop_and_snapshot()
    world.put_away(world.ref, Step.TERMINATE)

    assert ["stop", "terminate"] == world.writes()


def seal_of(world: World, decision: Decision, **changes: Any) -> str:
    """The seal of an answer that somebody gave to a question that differs so."""
    episode = changed(Forger(world).episode, **changes)
    return sealed(world.seals.answers, answer_text(episode, decision))


def other_plan(world: World) -> str:
    plan = Forger(world).episode.plan
    return seal_of(world, yes(ALICE), plan=replace(plan, steps=(Step.STOP,)))


REPLAYED: dict[str, Callable[[World], str]] = {
    "of another episode": lambda w: seal_of(w, yes(ALICE), ref=replace(w.ref, number=2)),
    "of another instance": lambda w: seal_of(
        w, yes(ALICE), ref=replace(w.ref, instance_id="i-0fedcba9")
    ),
    "of another question": lambda w: seal_of(w, yes(ALICE), approval_id="another"),
    "for other evidence": lambda w: seal_of(w, yes(ALICE), evidence_hash="another"),
    "for another plan": other_plan,
    "of another person": lambda w: seal_of(w, yes(BOB)),
    "of another answer": lambda w: seal_of(w, replace(yes(ALICE), answer=Answer.KEEP)),
    "at another time": lambda w: seal_of(w, replace(yes(ALICE), at=NOW - timedelta(days=1))),
    "of another channel": lambda w: seal_of(w, replace(yes(ALICE), channel="cli")),
    "with another key": lambda w: sealed(
        w.seals.openings, answer_text(Forger(w).episode, yes(ALICE))
    ),
    "of an opening": lambda w: str(Forger(w).episode.opening_seal),
    "of nonsense": lambda _: "1.nonsense",
}


@pytest.mark.parametrize("replay", REPLAYED.values(), ids=REPLAYED)
def test_a_seal_is_good_for_its_own_answer_alone(replay: Callable[[World], str]) -> None:
    """Whoever reads the table has seals of other questions, plans and people."""
    world = World(decide=False)
    Forger(world).approve(ALICE, seals=(replay(world),))

    refused(world, f"the seal of the answer of link:{ALICE} does not fit")


@pytest.mark.parametrize("seal", ["", "0.x", "2.x", "1.", "x"])
def test_a_seal_of_no_known_version_counts_as_missing(seal: str) -> None:
    world = World(decide=False)
    Forger(world).approve(ALICE, seals=(seal,))

    assert isinstance(refused(world, UNSEALED), Unsealed)


def test_one_person_is_not_two() -> None:
    """The copy of somebody's own sealed yes, in the place of the other."""
    world = to_terminate()
    first = world.state.note_first_yes(APPROVAL_ID, yes(ALICE)).first_yes
    Forger(world).write_approval(status=ApprovalStatus.APPROVED, decision=first)

    refused(world, "not given by those who may give it")


def test_a_second_yes_needs_its_own_seal() -> None:
    world = to_terminate()
    first = world.state.note_first_yes(APPROVAL_ID, yes(ALICE)).first_yes
    assert first is not None
    forged = replace(yes(BOB), seal=first.seal)
    Forger(world).write_approval(status=ApprovalStatus.APPROVED, decision=forged)

    refused(world, f"the seal of the answer of link:{BOB} does not fit")


# openings


FLIPPED: dict[str, Callable[[Forger], object]] = {
    "mode": lambda f: f.write_episode(mode=Mode.AUTO),
    "observe": lambda f: f.write_episode(mode=Mode.OBSERVE),
    "terms": lambda f: f.write_episode(terms=replace(f.episode.terms, people_needed=1)),
    "people": lambda f: f.write_episode(
        terms=replace(f.episode.terms, known_people=frozenset({"m@evil.com"}))
    ),
    "silence": lambda f: f.write_episode(acts_on_silence=True),
    "plan": lambda f: f.write_episode(plan=replace(f.episode.plan, losses=())),
    "schedule": lambda f: f.write_episode(schedule=Schedule(NOW, NOW, NOW, NOW)),
    "notice": lambda f: f.write_episode(notice=timedelta()),
    "asked under": lambda f: f.write_episode(asked_under=asked_under(f.world.policies.policy)),
    "owner": lambda f: f.write_episode(owner="somebody else"),
    "price": lambda f: f.write_episode(price=replace(f.episode.price, usd_per_hour=None)),
    "stopped in": lambda f: f.write_episode(stopped_by_episode=replace(f.world.ref, number=0)),
    "volumes": lambda f: f.write_episode(instance=replace(f.episode.instance, volumes=())),
    "opened": lambda f: f.write_episode(opened_at=NOW - timedelta(days=3)),
    "question": lambda f: f.write_episode(policy_version="another"),
}


@pytest.mark.parametrize("flip", FLIPPED.values(), ids=FLIPPED)
def test_what_an_opening_fixed_cannot_be_changed(flip: Callable[[Forger], object]) -> None:
    """Whoever may write the episode can make none of it looser."""
    world = to_terminate()
    world.state.note_first_yes(APPROVAL_ID, yes(ALICE))
    world.state.settle(APPROVAL_ID, yes(BOB))
    flip(Forger(world))

    refused(world, "the seal of the record of the episode does not fit")


@pytest.mark.parametrize("mode", list(Mode))
def test_an_episode_without_its_seal_is_asked_again_in_every_mode(mode: Mode) -> None:
    """As an earlier release opened it."""
    world = World(mode=mode)
    Forger(world).write_episode(opening_seal=None)

    checked = world.recheck(world.ref, Step.STOP)

    assert (Outcome.VOID, False) == (checked.outcome, checked.proceed)
    assert UNSEALED in checked.reason
    assert isinstance(refused(world, UNSEALED), Unsealed)


@pytest.mark.parametrize("name", ["", "Unsealed: "])
def test_an_end_for_lack_of_a_seal_is_known_by_its_whole_reason(name: str) -> None:
    """As rechecks and steps write it, of any record."""
    reasons = [ASKED_BEFORE, *map(unsealed_text, (OPENING_RECORD, EXPIRY_NOTE))]
    for by in (f"link:{ALICE}", "oidc:a b", "aws:arn:aws:iam::111122223333:user/ada"):
        reasons.append(unsealed_text(answer_of(replace(yes(ALICE), by=by))))
    for reason in reasons:
        assert is_for_lack_of_a_seal(Outcome.VOID, f"{name}{reason}")
        assert not is_for_lack_of_a_seal(Outcome.KEPT, f"{name}{reason}")


@pytest.mark.parametrize(
    "words", [UNSEALED, ASKED_BEFORE, f"the record of the episode {UNSEALED}: ask me"]
)
def test_words_of_people_do_not_decide_whether_people_are_asked_again(words: str) -> None:
    """The words were searched for: an exemption that quoted them had people asked again at once."""
    hold = hold_of(Decision(Answer.EXEMPT, f"link:{ALICE}", "page", NOW, reason=words))
    verdict = judge_without_metrics(make_instance(), hold, Policy(), NOW)
    assert verdict is not None
    assert words in verdict.reason

    for reason in (verdict.reason, f"kept by link:{ALICE}: {words}", f"{words} (link:{ALICE})"):
        assert not is_for_lack_of_a_seal(Outcome.VOID, reason)
    episode = World()._stored()
    ending = EpisodeEnding(Outcome.VOID, verdict.reason, NOW)
    assert not ended_unsealed(replace(episode, ending=ending))


# expiries, notices and deliveries


def silent(**more: Any) -> World:
    """A question that nobody has answered, under a policy that acts then."""
    return World(decide=False, on_expiry="act", **more)


def test_silence_counts_with_the_seals_of_those_who_saw_it() -> None:
    world = silent()
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    world.put_away(world.ref, Step.STOP)

    assert [Duty.OPENING, Duty.EXPIRY] == world.seals.checked[:2]
    assert ["stop"] == world.writes()


def test_a_forged_expiry_stops_nothing() -> None:
    world = silent()
    Forger(world).write_approval(status=ApprovalStatus.EXPIRED)
    assert isinstance(refused(world, f"the note that nobody answered {UNSEALED}"), Unsealed)

    sealed_earlier = sealed(world.seals.expiries, expiry_text(Forger(world).episode, NOW, NOW))
    Forger(world).write_approval(expired_at=NOW, expiry_seal=sealed_earlier)
    refused(world, "the seal of the note that nobody answered does not fit")


@pytest.mark.parametrize("stage", ["ask", "escalate"])
def test_a_forged_delivery_lets_no_silence_count(stage: str) -> None:
    """Neither one without a seal, nor one with the seal of another message, person or time."""
    world = silent(delivered=tuple({"ask", "escalate"} - {stage}))
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    other = next(iter(world.state.deliveries(world.ref.execution_name)))
    name = world.ref.execution_name
    forged = Delivery(name, f"{stage}-{name}", "email", ALICE, NOW - timedelta(days=2))
    for seal in (None, other.seal, sealed(world.seals.answers, delivery_text(forged))):
        Forger(world).table.note_delivery(replace(forged, seal=seal))
        refused(world, "the question or the escalation was not delivered")


def test_a_forged_delivery_shortens_no_notice() -> None:
    """Mode auto begins when somebody has the notice: an earlier note of it counts for nothing."""
    world = World(mode=Mode.AUTO, noticed_at=NOW)
    name = world.ref.execution_name
    early = Delivery(name, f"tell-{name}", "slack", "C1", NOW - timedelta(days=1))
    Forger(world).table.note_delivery(early)

    refused(world, "the notice period is not over before")


def test_a_note_that_a_step_was_begun_shortens_no_time() -> None:
    """The time to hold or to answer must have been over, whatever is noted as begun."""
    begun = {Step.SNAPSHOT.value: NOW}
    world = World(mode=Mode.AUTO, noticed_at=NOW)
    Forger(world).write_episode(steps_done=begun)
    refused(world, "the notice period is not over before")

    world = silent(delivered=("ask",))
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    Forger(world).write_episode(steps_done=begun)
    refused(world, "the question or the escalation was not delivered")


# what makes the seals


def test_each_function_seals_its_own_duty() -> None:
    """Over a table that seals nothing by itself."""
    world = FleetWorld()
    world.state = MemoryStateTable(world.state.memory)  # type: ignore[assignment]
    one = world.add(1)
    ref = ref_of(world, one)
    opener(world)(ref)
    episode = stored_episode(world, ref)
    assert sealed(world.seals.openings, opening_text(episode)) == episode.opening_seal

    world.state.await_answer("approval-1", "token", "ask", NOW + timedelta(hours=1))
    ConcludeApproval(
        episode_store=world.state,
        approval_store=world.state,
        clock=world.clock,
        expiry_seal=world.seals.expiries,
    )(ref)
    approval = world.state.existing("approval-1")
    assert approval.expired_at == NOW
    text = expiry_text(episode, approval.expires_at, NOW)
    assert sealed(world.seals.expiries, text) == approval.expiry_seal


def test_a_yes_is_sealed_and_a_no_needs_no_key() -> None:
    """A keep is taken while KMS is away: a no is never lost for want of a seal."""
    world, one, ref = asked()
    world.state = MemoryStateTable(world.state.memory)  # type: ignore[assignment]
    decider(world)(f"approval-{one}", decision(), losses_accepted=True)

    given = stored_approval(world, one).decision
    assert given is not None
    assert sealed(world.seals.answers, answer_text(stored_episode(world, ref), given)) == given.seal

    world, one, _ = asked()
    world.seals.failure = Unavailable("KMS is away")
    decider(world)(f"approval-{one}", decision(Answer.EXEMPT, reason="a demo"))
    assert ApprovalStatus.EXEMPTED is stored_approval(world, one).status


@pytest.mark.parametrize(
    "failure", [Throttled("busy"), Unavailable("away"), AccessDenied("no right")]
)
def test_a_yes_that_cannot_be_sealed_is_not_taken_and_can_be_given_again(
    failure: CloudError,
) -> None:
    world, one, _ = asked()
    world.seals.failure = failure
    with pytest.raises(
        DecisionRefused, match=r"could not be signed at this moment.*please try again"
    ):
        decider(world)(f"approval-{one}", decision(), losses_accepted=True)
    assert (ApprovalStatus.PENDING, None) == (
        stored_approval(world, one).status, stored_approval(world, one).decision,
    )  # fmt: skip

    world.seals.failure = None
    decider(world)(f"approval-{one}", decision(), losses_accepted=True)
    assert ApprovalStatus.APPROVED is stored_approval(world, one).status


def test_an_expiry_that_cannot_be_sealed_comes_later() -> None:
    world, one, ref = asked()
    world.seals.failure = Unavailable("KMS is away")
    with pytest.raises(Unavailable):
        ConcludeApproval(
            episode_store=world.state,
            approval_store=world.state,
            clock=world.clock,
            expiry_seal=world.seals.expiries,
        )(ref)
    assert ApprovalStatus.PENDING is stored_approval(world, one).status


@pytest.mark.parametrize("failure", [Throttled("busy"), Unavailable("away")])
def test_a_check_that_kms_does_not_answer_is_made_again(failure: CloudError) -> None:
    """It neither passes nor is refused."""
    world = World()
    world.seals.failure = failure
    with pytest.raises(MustWait, match=str(failure)):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()

    world.seals.failure = None
    world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_a_refused_answer_leaves_no_seal_behind() -> None:
    """The audit keeps what was refused; nobody finds a yes in it that could be used."""
    world = World(decide=False, phase=Phase.ASKING)
    world.state.settle(
        APPROVAL_ID, Decision(Answer.KEEP, "x", "page", NOW, keep_until=NOW + timedelta(days=1))
    )
    decide = decider(world)
    with pytest.raises(DecisionRefused):
        decide(APPROVAL_ID, yes(ALICE), losses_accepted=True)

    refusals = [item for key, item in world.state.items.items() if key[1].startswith("REFUSED#")]
    assert 1 == len(refusals)
    assert not refusals[0]["refused"].get("seal")


# the update


def opened_before(world: FleetWorld, ref: EpisodeRef) -> None:
    """As the release before stored the episode and the answer: without seals."""
    table = MemoryStateTable(world.state.memory)
    episode = stored_episode(world, ref)
    approval = table.existing(episode.approval_id)
    given = approval.decision and replace(approval.decision, seal=None)
    table.put(replace(episode, opening_seal=None), replace(approval, decision=given))


def test_an_open_question_of_the_release_before_is_void_and_asked_again() -> None:
    """The next sweep takes it back, and the one after that asks again, and says why."""
    world, one, ref = asked()
    opened_before(world, ref)
    with pytest.raises(DecisionRefused, match="You are asked again within minutes"):
        decider(world)(f"approval-{one}", decision(), losses_accepted=True)

    world.sweep()
    assert "void" == world.workflow.answers[f"token-{one}"]["decision"]
    recorder(world)(ref, Outcome.VOID)
    ended = stored_episode(world, ref)
    assert (Outcome.VOID, ASKED_BEFORE) == (ended.outcome, ending_of(ended).reason)
    assert ended_unsealed(ended)

    world.sweep()
    again = ref_of(world, one, 2)
    assert again.execution_name in world.workflow.executions
    opened = opener(world, "approval-2")(again).episode
    assert opened is not None
    assert "You are asked again: GPU Governor was updated" in opened.reason
    assert opened.opening_seal


def test_a_question_that_is_sealed_is_left_open() -> None:
    world, one, ref = asked()
    world.sweep()

    assert ApprovalStatus.PENDING is stored_approval(world, one).status
    assert Phase.ASKING is stored_episode(world, ref).phase


def stopped_before_the_update(action: Action = Action.TERMINATE) -> World:
    """A yes of the release before, whose stop was done, and nothing more."""
    world = World(action=action)
    world.put_away(world.ref, Step.STOP)
    forger = Forger(world)
    given = forger.approval.decision
    assert given is not None
    forger.write_approval(decision=replace(given, seal=None))
    forger.write_episode(opening_seal=None)
    return world


def test_what_is_stopped_gets_its_snapshots_and_is_not_terminated() -> None:
    """Its yes was given before answers were sealed: the copy needs none, the termination does."""
    world = stopped_before_the_update()
    taken, dry_run = world.take_snapshot(world.ref)
    assert (True, False) == (bool(taken), dry_run)
    world.ec2.finish_snapshots()

    checked = world.recheck(world.ref, Step.TERMINATE)

    assert (Outcome.VOID, False) == (checked.outcome, checked.proceed)
    assert UNSEALED in checked.reason
    world.let_through(Step.TERMINATE)
    refused(world, UNSEALED, Step.TERMINATE)
    assert "stopped" == world.ec2.instances[world.ref.instance_id].state


def test_what_auto_has_stopped_gets_its_snapshots() -> None:
    """Its notice was delivered before deliveries were sealed."""
    world = World(mode=Mode.AUTO, action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    forger = Forger(world)
    for one in forger.table.deliveries(world.ref.execution_name):
        forger.table.note_delivery(replace(one, seal=None))
    forger.write_episode(opening_seal=None)

    assert world.take_snapshot(world.ref)[0]


def ended_by_the_update() -> tuple[FleetWorld, str]:
    """A fleet of one instance whose termination was approved and begun before the update, and ended
    by it."""
    ownership = PEOPLE
    world = FleetWorld(
        Policy(mode=Mode.ASK, ownership=ownership, plan=PlanRule(action=Action.TERMINATE))
    )
    tags = {"Purpose": "GPU-Workload", "Name": "notebook", "Owner": "ml", "Project": "vision"}
    one = world.add(1, tags=tags)
    ref = ref_of(world, one)
    opener(world)(ref)
    world.state.await_answer("approval-1", "token", "ask", NOW + timedelta(hours=1))
    world.state.settle("approval-1", yes(ALICE))
    world.state.note_step(ref, Step.STOP.value, NOW)
    world.change(one, state="stopped")
    opened_before(world, ref)
    why = unsealed_text(OPENING_RECORD)
    world.state.note_refusal(ref, Outcome.VOID.value, why)
    recorder(world)(ref, Outcome.VOID)
    return world, one


def test_a_termination_that_the_update_ended_is_asked_again() -> None:
    """Within the hour, although the policy asks about no stopped instance; and only once."""
    world, one = ended_by_the_update()
    assert world.policies.policy.approval.ask_about_stopped_after_days is None
    before = stored_episode(world, ref_of(world, one))
    assert (Outcome.VOID, Outcome.STOPPED) == (before.outcome, before.became)
    again = ref_of(world, one, 2)
    for _ in range(8):
        world.sweep(10)
    assert again.execution_name in world.workflow.executions

    opened = opener(world, "approval-2")(again).episode

    assert opened is not None
    assert (before.ref, Mode.ASK, Phase.ASKING) == (
        opened.stopped_by_episode,
        opened.mode,
        opened.phase,
    )
    assert (Step.SNAPSHOT, Step.TERMINATE) == opened.own_plan
    assert 2 == opened.terms.people_needed
    assert "You are asked again: GPU Governor was updated" in opened.reason
    for _ in range(8):
        world.sweep(10)
    assert 1 == len(world.workflow.executions)

    world.state.void("approval-2", "nobody answered", expired=True)
    recorder(world)(again, Outcome.EXPIRED)
    world.clock.moment += timedelta(days=3)
    for _ in range(8):
        world.sweep(10)
    assert 1 == len(world.workflow.executions)


def test_what_ended_void_for_another_reason_is_not_asked_about() -> None:
    """As the shipped policy says: what stays stopped is nobody's question."""
    world, one = ended_by_the_update()
    ended = stored_episode(world, ref_of(world, one))
    world.state.put(replace(ended, ending=replace(ending_of(ended), reason="somebody was faster")))
    for _ in range(8):
        world.sweep(10)

    assert {} == world.workflow.executions
    assert opener(world, "approval-2")(ref_of(world, one, 2)).episode is None
