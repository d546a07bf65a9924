"""Time starts when people have been told, and nothing waits for an answer nobody was asked for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.model.approval import Answer, ApprovalStatus, Decision, Stage
from governor.approvals.rules.approval import first_approval
from governor.approvals.rules.stages import RETRIES_OF_A_STAGE, deadline_given
from governor.core.errors import InputError, NobodyListens, SafetyError, Throttled
from governor.core.units import parse_iso
from governor.episode.model.episode import Outcome
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode, Policy
from governor.table import keys
from tests.builders import NOW
from tests.unit.worlds.builders import asker, opener, recorder, ref_of
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import APPROVAL_ID, World

HOURS = timedelta(hours=24)


@pytest.mark.parametrize(
    ("stage", "hours_left"), [(Stage.AWAIT, 24), (Stage.REMIND, 20), (Stage.ESCALATE, 16)]
)
def test_each_stage_waits_for_what_is_left(stage: Stage, hours_left: int) -> None:
    """The newest token waits, until the expiry."""
    world = World(decide=False)
    asker(world)(world.ref, stage, f"token-{stage.value}")
    approval = world.state.approval(APPROVAL_ID)

    assert approval is not None
    assert (f"token-{stage.value}", stage.value, NOW + timedelta(hours=hours_left)) == (
        approval.task_token,
        approval.stage,
        approval.expires_at,
    )
    assert (stage is not Stage.AWAIT) == bool(world.announcer.sent)


@pytest.mark.parametrize("stage", Stage)
def test_nobody_is_asked_about_what_is_over(stage: Stage) -> None:
    """Not by somebody who may invoke the function either, before its question is canceled."""
    world = World(decide=False)
    world.state.close_episode(world.ref, Outcome.FAILED, "died", NOW, quiet_until=None)
    before = world.state.approval(APPROVAL_ID)
    token = None if stage in (Stage.TELL, Stage.ASK, Stage.WAIT) else "token"

    with pytest.raises(SafetyError, match="over"):
        asker(world)(world.ref, stage, token)
    assert ([], before) == (world.announcer.sent, world.state.approval(APPROVAL_ID))


@pytest.mark.parametrize("by_people", [True, False])
def test_the_question_can_be_answered_before_its_time_begins(by_people: bool) -> None:
    """It is sent with its link; whether somebody got it is the channels' to say where people do
    not."""
    world = World(decide=False)
    world.announcer.by_people = by_people
    asked = asker(world)(world.ref, Stage.ASK, None)
    approval = world.state.approval(APPROVAL_ID)

    assert (by_people, False) == (asked.reached_people, asked.settled)
    assert approval is not None
    assert approval.expires_at == NOW + timedelta(hours=25)
    (sent,) = world.announcer.sent
    assert APPROVAL_ID in str(sent.link)


@pytest.mark.parametrize(
    ("owner", "asked"), [("ml", {"ann@example.com", "ml@example.com"}), ("x", {"ops@example.com"})]
)
def test_the_clock_runs_by_the_topic_only_for_those_who_are_asked(
    owner: str, asked: set[str]
) -> None:
    """Any subscriber of the topic started it, also of a question that its owner's mail had
    refused."""
    world = World(decide=False)
    contacts = {
        "ml": Contact(emails=("Ann@example.com",), lists=("ml@example.com",)),
        "ops": Contact(emails=("ops@example.com",)),
    }
    ownership = Ownership(contacts=contacts, default_contacts=("ops",))
    world.policies.policy = replace(world.policies.policy, ownership=ownership)
    episode = world.state.episode(world.ref)
    assert episode is not None
    world.state.put(replace(episode, owner=owner))
    asker(world)(world.ref, Stage.ASK, None)

    assert [asked] == world.announcer.asked_for


def test_a_question_that_was_taken_back_in_the_quiet_hours_is_not_asked() -> None:
    """The GPU woke up before people did."""
    world = World(decide=False)
    world.state.void(APPROVAL_ID, "the GPU works again", expired=False)

    assert asker(world)(world.ref, Stage.ASK, None).settled
    assert [] == world.announcer.sent


@pytest.mark.parametrize("mode", [Mode.ASK, Mode.AUTO])
def test_no_clock_runs_when_nobody_listens(mode: Mode) -> None:
    """A topic takes a message also when it has nobody to give it to."""
    world = FleetWorld()
    world.policies.policy = Policy(mode=mode)
    instance_id = world.add(1)
    world.sweep()
    ref = ref_of(world, instance_id)
    opener(world)(ref)
    world.announcer.is_heard = False
    stage = Stage.ASK if mode is Mode.ASK else Stage.TELL

    with pytest.raises(NobodyListens):
        asker(world)(ref, stage, None)
    approval = world.state.approval("approval-1")
    assert approval is not None
    assert (None, None) == (approval.task_token, approval.stage)


def test_a_question_that_could_not_be_asked_is_asked_again_soon() -> None:
    """Not a day later, as one that was asked: somebody confirms the subscription meanwhile."""
    unheard, heard = FleetWorld(), FleetWorld()
    for world, token in ((unheard, None), (heard, "token")):
        instance_id = world.add(1)
        world.sweep()
        ref = ref_of(world, instance_id)
        opener(world)(ref)
        if token:
            asker(world)(ref, Stage.ASK, None)
            asker(world)(ref, Stage.AWAIT, token)
        error = "NobodyListens" if token is None else "Unavailable"
        # The first three in a row are tried again sooner, whatever people know.
        world.state.items[keys.instance(ref.target, instance_id)]["failures"] = 3
        recorder(world)(ref, Outcome.FAILED, error)
        minutes = 61 if token is None else 24 * 60 + 1
        record = world.state.record(ref.target, instance_id)
        assert record.quiet_until is not None
        assert timedelta(minutes=minutes - 1) == record.quiet_until - NOW
        assert world.sweep(minutes).episodes_started == 1


def test_a_dry_run_needs_no_listener() -> None:
    """Nothing is done, so nobody has to know first."""
    world = World(mode=Mode.OBSERVE, decide=False)
    world.announcer.is_heard = False
    asker(world)(world.ref, Stage.TELL, None)

    assert [AlertKind.IDLE_FOUND] == [alert.kind for alert in world.announcer.sent]


def test_a_message_that_no_channel_took_is_sent_again_by_a_retry() -> None:
    """The same stage with the same token."""
    world = World(decide=False)
    world.announcer.failure = Throttled("later")
    with pytest.raises(Throttled):
        asker(world)(world.ref, Stage.REMIND, "token")

    world.announcer.failure = None
    asker(world)(world.ref, Stage.REMIND, "token")
    assert 1 == len(world.announcer.sent)


def test_an_answer_between_two_stages_goes_to_the_new_token() -> None:
    """The earlier one no longer waits; nobody is told what is decided."""
    world = World(decide=False)
    world.state.settle(APPROVAL_ID, Decision(Answer.APPROVE, "someone", "page", NOW))
    world.workflow.waiting.add("second")
    asker(world)(world.ref, Stage.REMIND, "second")

    assert "approve" == world.workflow.answers["second"]["decision"]
    assert [] == world.announcer.sent
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.APPROVED is approval.status


def test_a_stage_that_waits_needs_a_token_and_an_episode() -> None:
    """Both are the state machine's to give."""
    world = World(decide=False)
    for stage, token in (
        (Stage.AWAIT, None),
        (Stage.REMIND, None),
        (Stage.ASK, "token"),
        (Stage.TELL, "token"),
    ):
        with pytest.raises(InputError, match="task_token"):
            asker(world)(world.ref, stage, token)
    world.state.forget("EPISODE")
    with pytest.raises(SafetyError, match="does not exist"):
        asker(world)(world.ref, Stage.AWAIT, "token")


def test_what_auto_mode_could_tell_nobody_is_tried_again_soon_too() -> None:
    """Nothing was done, and nobody knows of it."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    ref = ref_of(world, instance_id)
    world.policies.policy = Policy(mode=Mode.AUTO)
    opener(world)(ref)
    world.state.items[keys.instance(ref.target, instance_id)]["failures"] = 3
    recorder(world)(ref, Outcome.FAILED, "NobodyListens")

    record = world.state.record(ref.target, instance_id)
    assert NOW + timedelta(minutes=60) == record.quiet_until


def asked_in_stages(delays: dict[Stage, timedelta]) -> list[tuple[Stage, datetime | None]]:
    """Return the deadline that each message gives, and the one that a page gives (`AWAIT`), of a
    question whose stages begin late by these delays."""
    world = World(decide=False)
    ask = asker(world)
    schedule = world._stored().asking.schedule
    assert schedule is not None
    begins_at = {
        Stage.ASK: schedule.ask_at,
        Stage.AWAIT: schedule.ask_at,
        Stage.REMIND: schedule.remind_at,
        Stage.ESCALATE: schedule.escalate_at,
    }
    given: list[tuple[Stage, datetime | None]] = []
    for stage, planned in begins_at.items():
        world.clock.moment = planned + delays.get(stage, timedelta())
        token = None if stage is Stage.ASK else f"token-{stage.value}"
        ask(world.ref, stage, token)
        approval = world.state.approval(APPROVAL_ID)
        assert approval is not None
        if stage is Stage.AWAIT:
            given.append((stage, approval.deadline))
        else:
            said = world.announcer.sent[-1].facts["expires_at"]
            given.append((stage, parse_iso(str(said))))
            assert approval.deadline == given[-1][1]
        assert approval.expires_at >= approval.deadline
    return given


def test_every_stage_gives_the_same_deadline() -> None:
    """A mail said 11:41 and its page 11:42: each stage counted from its own beginning, which is a
    moment after the message before it was written."""
    late = {
        Stage.AWAIT: timedelta(seconds=70),
        Stage.REMIND: timedelta(minutes=2),
        Stage.ESCALATE: timedelta(minutes=4),
    }

    assert 1 == len({deadline for _, deadline in asked_in_stages(late)})


def test_a_late_message_moves_the_deadline() -> None:
    """Its people would have less time than the policy gives them."""
    hour = timedelta(hours=1)
    asked, awaited, *later = asked_in_stages(
        dict.fromkeys((Stage.AWAIT, Stage.REMIND, Stage.ESCALATE), hour)
    )

    assert asked[1] is not None
    assert awaited[1] == asked[1] + hour
    assert {awaited[1]} == {deadline for _, deadline in later}


def test_a_short_time_to_answer_is_not_shortened_by_a_delay() -> None:
    """Five minutes are nothing of a day, and half of ten minutes."""
    approval = first_approval(World(decide=False)._stored())
    approval = replace(approval, answer_by=NOW + timedelta(minutes=10))

    assert deadline_given(approval, NOW + timedelta(minutes=15), NOW) == NOW + timedelta(minutes=15)


@pytest.mark.parametrize(("seconds", "moves"), [(300, False), (301, True)])
def test_a_deadline_stays_for_a_delay_of_a_twentieth_of_the_time_that_is_left(
    seconds: int, moves: bool
) -> None:
    """Five minutes of a hundred: people were given the earlier deadline, and keep nearly all of
    their time."""
    given = NOW + timedelta(minutes=95)
    approval = replace(first_approval(World(decide=False)._stored()), answer_by=given)
    until = given + timedelta(seconds=seconds)

    assert (until if moves else given) == deadline_given(approval, until, NOW)


def test_the_tolerance_is_that_of_silence() -> None:
    """Silence never counts before the deadline that people were given."""
    approval = replace(first_approval(World(decide=False)._stored()), answer_by=NOW + HOURS)
    latest = NOW + HOURS + RETRIES_OF_A_STAGE

    assert deadline_given(approval, latest, NOW) == NOW + HOURS
    assert deadline_given(approval, latest + timedelta(seconds=1), NOW) > NOW + HOURS
