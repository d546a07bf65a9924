"""A question that a freeze has delayed: its later stages come in working hours, and its deadline is
the one that the workflow waits for."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from governor.approvals.ask_owner import TRIES_TO_ASK_EVERY, AskOwner
from governor.approvals.model.approval import Approval, Stage
from governor.approvals.rules.stages import asked_at, silence_from
from governor.core.errors import MustWait, SafetyError, Throttled, Unavailable
from governor.core.parsing import parse
from governor.core.units import parse_iso
from governor.limits.model.breaker import BreakerState
from governor.limits.model.pause import Pause
from governor.policy.model.contacts import Contact
from governor.policy.model.policy import Policy
from governor.policy.rules.changes import asked_under
from governor.policy.rules.schedule import Schedule, schedule
from governor.wiring.payloads import TAKES_NEW_TIMES, AskPayload
from tests.unit.functions.handlers import call
from tests.unit.remediation.test_waiting import OFFICE
from tests.unit.template.machines import definition
from tests.unit.worlds.builders import asker
from tests.unit.worlds.world import APPROVAL_ID, World

HOUR = timedelta(hours=1)
LIMIT = HOUR
"""The default time to deliver a message."""
FRI = datetime.fromisoformat("2026-11-20T16:10+01:00")
MON = datetime.fromisoformat("2026-11-23T09:00+01:00")
TUE = MON + timedelta(days=1)
PLANNED = Schedule(FRI, MON, MON + 4 * HOUR, TUE)
MOVED = Schedule(MON, MON + 4 * HOUR, MON + 8 * HOUR, TUE)


@dataclass
class Late:
    """A question that was due on Friday at 16:10, while everything was frozen; it is Monday
    morning, and the freeze has ended."""

    policy: Policy = field(default_factory=lambda: Policy(ownership=OFFICE))
    world: World = field(default_factory=lambda: World(decide=False))

    def __post_init__(self) -> None:
        world = self.world
        world.policies.policy = self.policy
        contacts = tuple(OFFICE.contacts.values())
        assert schedule(FRI, self.policy.approval, contacts, ()) == PLANNED
        episode = world._stored()
        asking = replace(episode.asking, schedule=PLANNED, asked_under=asked_under(self.policy))
        world.state.put(replace(episode, asking=asking))
        world.clock.moment = MON

    @property
    def ask(self) -> AskOwner:
        return asker(self.world)

    @property
    def approval(self) -> Approval:
        stored = self.world.state.approval(APPROVAL_ID)
        assert stored is not None
        return stored

    def stages(self, times: Schedule, *, takes_new_times: bool) -> list[datetime]:
        """Carry out the stages as a workflow does that waits for these times. Return the deadline
        that each message gave."""
        self.ask(self.world.ref, Stage.ASK, None, takes_new_times=takes_new_times)
        self.ask(self.world.ref, Stage.AWAIT, "token-1")
        for number, (stage, at) in enumerate(
            ((Stage.REMIND, times.remind_at), (Stage.ESCALATE, times.escalate_at)), start=2
        ):
            self.world.clock.moment = at
            self.ask(self.world.ref, stage, f"token-{number}")
        deadlines = []
        for alert in self.world.announcer.sent:
            deadlines.append(parse_iso(str(alert.facts["expires_at"])))
        return deadlines


def episode_of(question: Late) -> dict[str, Any]:
    """The name of its episode, as the workflow sends it."""
    ref = question.world.ref
    return {
        "account": ref.account,
        "region": ref.region,
        "instance_id": ref.instance_id,
        "launch_time": ref.launch_time.isoformat(),
        "number": ref.number,
    }


def test_the_later_stages_of_a_late_question_are_in_working_hours() -> None:
    """Before, its reminder and its escalation came in the night to Thursday, and its end in that to
    Friday: the planned distances held a weekend already."""
    late = Late()
    asked = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert MOVED == asked.moved
    assert MOVED == late.approval.moved_schedule
    assert TUE == late.approval.deadline
    assert TUE + LIMIT == late.approval.expires_at


def test_all_messages_of_a_late_question_give_the_end_that_its_workflow_waits_for() -> None:
    late = Late()
    deadlines = late.stages(MOVED, takes_new_times=True)

    assert [TUE] * 3 == deadlines
    assert TUE == late.approval.expires_at == late.approval.deadline
    escalation = " ".join(late.world.announcer.sent[-1].lines)
    assert "8 h ago" in escalation
    assert "4 h ago" in escalation


def test_a_workflow_of_an_earlier_definition_keeps_the_planned_distances() -> None:
    """It waits for these, so the deadline must not be another one."""
    late = Late()
    length = PLANNED.expire_at - PLANNED.ask_at
    later = MON - FRI
    moved_by_all = Schedule(
        MON, PLANNED.remind_at + later, PLANNED.escalate_at + later, PLANNED.expire_at + later
    )
    deadlines = late.stages(moved_by_all, takes_new_times=False)

    assert [MON + length] * 3 == deadlines
    assert MON + length == late.approval.expires_at
    assert late.approval.moved_schedule is None


@pytest.mark.parametrize("minutes", [0, 15])
def test_a_question_on_time_keeps_its_times(minutes: int) -> None:
    late = Late()
    late.world.clock.moment = FRI + timedelta(minutes=minutes)
    asked = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert (None, None) == (asked.moved, late.approval.moved_schedule)
    until = late.world.clock.moment + (PLANNED.expire_at - PLANNED.ask_at)
    assert until + LIMIT == late.approval.expires_at


@pytest.mark.parametrize("minutes", [2, 16, 50])
def test_a_repeated_call_moves_nothing_and_sends_nothing(minutes: int) -> None:
    """Before, the question was moved again and its message was published again. The answer of the
    first call was lost: it had timed out, or Lambda failed."""
    late = Late()
    first = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    stored = late.approval
    late.world.clock.moment = MON + timedelta(minutes=minutes)
    second = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert MOVED == first.moved
    assert first == second
    assert stored == late.approval
    assert 1 == len(late.world.announcer.sent)


@pytest.mark.parametrize("minutes", [0, 14])
def test_a_repeated_call_about_a_question_on_time_does_not_move_it(minutes: int) -> None:
    """It was asked on time, although the repeated call comes later than that."""
    late = Late()
    late.world.clock.moment = FRI + timedelta(minutes=minutes)
    first = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    late.world.clock.moment += timedelta(minutes=5)
    second = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert first == second
    assert late.approval.moved_schedule is None
    assert 1 == len(late.world.announcer.sent)


def test_a_repeated_call_does_not_wait_for_the_end_of_a_freeze_that_began_since() -> None:
    """People have the question, and its time must begin."""
    late = Late()
    first = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    late.world.state.begin_pause(Pause(MON, "oidc:ada@example.com"))

    assert first == late.ask(
        late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True
    )


def test_a_repeated_call_sends_what_the_first_did_not_with_the_same_times() -> None:
    """The first one had died between its write and its message."""
    late = Late()
    late.world.announcer.failure = Throttled("later")
    with pytest.raises(Throttled):
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    late.world.announcer.failure = None
    late.world.clock.moment = MON + timedelta(minutes=2)
    asked = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert MOVED == asked.moved == late.approval.moved_schedule
    assert 1 == len(late.world.announcer.sent)


def test_a_question_that_was_not_sent_in_time_is_moved_again() -> None:
    """A freeze began after the first call had failed, and lasted for a day."""
    late = Late()
    late.world.announcer.failure = Throttled("later")
    with pytest.raises(Throttled):
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    late.world.announcer.failure = None
    late.world.clock.moment = TUE
    asked = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert asked.moved is not None
    assert TUE == asked.moved.ask_at
    assert asked.moved == late.approval.moved_schedule


@pytest.mark.parametrize("takes_waits", [True, False])
def test_a_question_that_a_pause_holds_back_after_it_was_opened_stays_open(
    takes_waits: bool,
) -> None:
    """The first call had opened it, and may have sent it. Its time to answer was over before
    anybody was asked again: answers were refused, and pages said that silence acts now."""
    late = Late()
    late.world.state.note_quiet_wait(APPROVAL_ID, MON - FRI, MON)
    late.world.announcer.failure = Throttled("later")
    with pytest.raises(Throttled):
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    late.world.announcer.failure = None
    late.world.state.begin_pause(Pause(MON, "oidc:ada@example.com"))
    now = MON
    while now < MON + 40 * HOUR:
        late.world.clock.moment = now
        if takes_waits:
            late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
        else:
            with pytest.raises(MustWait):
                late.ask(late.world.ref, Stage.ASK, None)
        now += 3 * HOUR
        assert late.approval.is_open(now)
        assert late.approval.deadline > now


def test_a_question_is_asked_although_that_cannot_be_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    late = Late()

    def fail(*_: object) -> None:
        raise Unavailable("the table is busy")

    monkeypatch.setattr(type(late.world.state), "note_question_sent", fail)

    assert (
        MOVED
        == late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True).moved
    )
    assert 1 == len(late.world.announcer.sent)


def test_a_policy_that_was_loosened_gives_a_late_question_no_less_time() -> None:
    late = Late()
    looser = replace(
        late.policy.approval,
        remind_after_minutes=1.0,
        escalate_after_minutes=1.0,
        expire_after_minutes=1.0,
    )
    late.world.policies.policy = replace(late.policy, approval=looser)
    asked = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert MOVED == asked.moved


def test_the_escalation_waits_for_those_whom_it_adds() -> None:
    boss = Contact(emails=("boss@example.com",), working_from="08:00", working_until="12:00")
    late = Late()
    ownership = replace(
        OFFICE, contacts={**OFFICE.contacts, "boss": boss}, escalation_contacts=("boss",)
    )
    late.world.policies.policy = replace(late.policy, ownership=ownership)
    asked = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert asked.moved is not None
    contacts = tuple(OFFICE.contacts.values())
    assert schedule(MON, late.policy.approval, contacts, (boss,)) == asked.moved
    assert MOVED.escalate_at < asked.moved.escalate_at


def test_an_undelivered_late_question_has_waited_since_it_was_asked() -> None:
    """Its end no longer tells by how much it was late."""
    late = Late()
    late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert MON == asked_at(PLANNED, late.approval, LIMIT)


def test_a_question_that_a_repeated_call_sent_has_its_whole_time_to_be_delivered() -> None:
    """It failed as undelivered at once: its time counted from the call before, which had moved it
    and died."""
    late = Late()
    late.world.announcer.failure = Throttled("later")
    with pytest.raises(Throttled):
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)
    late.world.announcer.failure = None
    sent_at = MON + timedelta(minutes=14)
    late.world.clock.moment = sent_at
    late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert MOVED == late.approval.moved_schedule
    assert sent_at == asked_at(PLANNED, late.approval, timedelta(minutes=10))


@pytest.mark.parametrize(
    ("reason", "late", "has_times"),
    [
        (TAKES_NEW_TIMES, True, True),
        (TAKES_NEW_TIMES, False, False),
        ("takes new times", True, True),
        ("", True, False),
    ],
)
def test_the_answer_has_the_seconds_of_a_late_question_alone(
    reason: str, late: bool, has_times: bool
) -> None:
    """And only for a definition that says that it waits for them, as that of the release before
    does: its executions lost the times."""
    question = Late()
    if not late:
        question.world.clock.moment = FRI
    event = {"episode": episode_of(question), "stage": "ask", "reason": reason}
    answer = call("ask_owner", event, lambda: question.ask)

    wanted: dict[str, Any] = {"heard": True, "settled": False}
    if has_times:
        wanted["approval"] = {
            "ask_after_seconds": 0,
            "remind_after_seconds": 4 * 3600,
            "escalate_after_seconds": 4 * 3600,
            "expire_after_seconds": 16 * 3600,
        }
    assert wanted == answer


# when silence counts


def silence_after(late: Late, expires_at: datetime, **delays: timedelta) -> datetime | None:
    """Return when silence counts after a late question with moved times, whose messages came late
    by these delays."""
    world = late.world
    world.deliver("ask", MOVED.ask_at + delays.get("ask", timedelta()))
    world.deliver("escalate", MOVED.escalate_at + delays.get("escalate", timedelta()))
    deliveries = world.state.deliveries(world.ref.execution_name)
    return silence_from(world._stored(), deliveries, tuple(OFFICE.contacts.values()), expires_at)


def test_silence_counts_from_the_deadline_of_a_late_question() -> None:
    """Before, it counted three days after the time that its messages gave."""
    assert TUE == silence_after(Late(), TUE)


@pytest.mark.parametrize("hours", [12, 20])
def test_a_late_escalation_of_a_late_question_gives_its_whole_time(hours: int) -> None:
    """Sixteen hours, which end on Tuesday evening or in the night after it, and then until all
    work."""
    assert TUE + timedelta(days=1) == silence_after(Late(), TUE, escalate=hours * HOUR)


def test_a_record_that_says_that_a_late_question_ended_early_shortens_no_time() -> None:
    """Several functions may write it. The deliveries and the policy of the opening are sealed."""
    assert TUE == silence_after(Late(), MON)


def test_silence_waits_for_the_end_that_an_earlier_definition_waits_for() -> None:
    """In the night to Friday; people work again at nine."""
    night = TUE + timedelta(days=2, hours=16)

    assert TUE + timedelta(days=3) == silence_after(Late(), night)


# the time that freezes and pauses may take


def test_only_the_time_under_a_freeze_is_charged_to_a_late_question() -> None:
    """Before, a freeze of minutes on Monday morning ended it: it had waited for 64 hours, most of
    them for working hours."""
    late = Late()
    world = late.world
    freeze = BreakerState(FRI, "outage", turned=40)
    world.state.begin_hub_freeze(freeze)
    for hours in range(4):
        world.clock.moment = FRI + hours * HOUR
        with pytest.raises(MustWait, match="outage"):
            late.ask(world.ref, Stage.ASK, None)
    assert world.state.end_hub_freeze(freeze)
    while world.clock.moment + TRIES_TO_ASK_EVERY < MON:
        world.clock.moment += TRIES_TO_ASK_EVERY
        with pytest.raises(MustWait, match="do not work now"):
            late.ask(world.ref, Stage.ASK, None)

    world.state.begin_pause(Pause(MON, "oidc:ada@example.com"))
    world.clock.moment = MON
    with pytest.raises(MustWait, match="paused"):
        late.ask(world.ref, Stage.ASK, None)
    # Three hours are charged by now, of 48.
    world.clock.moment = MON + 44 * HOUR
    with pytest.raises(MustWait, match="paused"):
        late.ask(world.ref, Stage.ASK, None)
    world.clock.moment = MON + 46 * HOUR
    with pytest.raises(SafetyError, match="wait_at_most_hours"):
        late.ask(world.ref, Stage.ASK, None)
    assert [] == world.announcer.sent


def test_quiet_hours_without_end_are_charged() -> None:
    """Freezes that begin each morning would otherwise hold a question back for months."""
    late = Late()
    late.world.state.note_quiet_wait(APPROVAL_ID, timedelta(days=30), FRI)
    late.world.state.begin_pause(Pause(MON, "oidc:ada@example.com"))
    late.world.clock.moment = FRI + timedelta(days=6, minutes=-1)
    with pytest.raises(MustWait):
        late.ask(late.world.ref, Stage.ASK, None)
    late.world.clock.moment = FRI + timedelta(days=6)
    with pytest.raises(SafetyError, match="wait_at_most_hours"):
        late.ask(late.world.ref, Stage.ASK, None)


# how long it waits for its next try


def _overlapping(late: Late, minutes: int) -> None:
    """Let the two people who are asked work at the same time for these minutes from noon on."""
    contacts = {
        "early": Contact(emails=("e@example.com",), working_until=f"12:{minutes:02}"),
        "later": Contact(emails=("l@example.com",), working_from="12:00"),
    }
    ownership = replace(OFFICE, contacts=contacts, default_contacts=tuple(contacts))
    late.world.policies.policy = replace(late.policy, ownership=ownership)


def test_a_wait_for_working_hours_ends_when_they_begin() -> None:
    """Before, it was tried every 20 minutes, which could step over the five minutes in which both
    people work, day after day."""
    late = Late()
    _overlapping(late, minutes=5)
    late.world.clock.moment = datetime.fromisoformat("2026-11-23T12:06Z")
    tried = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert tried.delay is not None
    assert timedelta(hours=23, minutes=54) == tried.delay.wait
    assert [] == late.world.announcer.sent
    late.world.clock.moment += tried.delay.wait
    assert (
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True).delay
        is None
    )
    assert 1 == len(late.world.announcer.sent)


def test_people_who_never_work_at_the_same_time_are_asked_when_the_first_works() -> None:
    late = Late()
    _overlapping(late, minutes=0)
    late.world.clock.moment = datetime.fromisoformat("2026-11-23T11:00Z")

    assert (
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True).delay
        is None
    )


def test_a_try_during_a_freeze_does_not_step_over_working_hours() -> None:
    late = Late()
    _overlapping(late, minutes=5)
    late.world.state.begin_pause(Pause(MON, "oidc:ada@example.com"))
    for at, minutes in (("11:50", 10), ("12:00", 20)):
        late.world.clock.moment = datetime.fromisoformat(f"2026-11-20T{at}Z")
        tried = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

        assert tried.delay is not None
        assert timedelta(minutes=minutes) == tried.delay.wait


@pytest.mark.parametrize(("hours", "minutes"), [(1, 20), (4, 20), (24, 120), (47.5, 30)])
def test_a_question_that_a_freeze_holds_back_is_tried_less_often_with_time(
    hours: float, minutes: int
) -> None:
    """And at the end of the time that it may wait."""
    late = Late()
    everybody = {"ops": Contact(emails=("ops@example.com",))}
    ownership = replace(OFFICE, contacts=everybody, default_contacts=("ops",))
    late.world.policies.policy = replace(late.policy, ownership=ownership)
    late.world.state.begin_pause(Pause(FRI, "oidc:ada@example.com"))
    late.world.clock.moment = FRI + hours * HOUR
    tried = late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert tried.delay is not None
    assert timedelta(minutes=minutes) == tried.delay.wait


def test_a_repeated_call_counts_a_wait_for_working_hours_once() -> None:
    late = Late()
    saturday = MON - 48 * HOUR
    late.world.clock.moment = saturday
    for minutes in (0, 2):
        late.world.clock.moment = saturday + timedelta(minutes=minutes)
        late.ask(late.world.ref, Stage.ASK, None, takes_new_times=True, takes_waits=True)

    assert (48 * HOUR, MON) == (late.approval.quiet_wait, late.approval.quiet_wait_until)


def test_the_answer_says_when_the_workflow_tries_again() -> None:
    """Definitions of earlier releases wait after an error instead."""
    question = Late()
    question.world.clock.moment = MON - HOUR
    event = {"episode": episode_of(question), "stage": "ask", "reason": TAKES_NEW_TIMES}
    answer = call("ask_owner", event, lambda: question.ask)

    because = "the question is late, and the people who are asked do not work now"
    wanted = {"heard": False, "settled": False, "wait_seconds": 3600, "waits_because": because}
    assert wanted == answer


@pytest.mark.parametrize("reason", ["", "takes new times"])
def test_a_definition_that_takes_no_wait_gets_an_error(reason: str) -> None:
    """It waits as long as it always does."""
    question = Late()
    question.world.clock.moment = MON - HOUR
    event = {"episode": episode_of(question), "stage": "ask", "reason": reason}
    payload = parse(AskPayload, event)
    with pytest.raises(MustWait, match="do not work now"):
        question.ask(
            question.world.ref,
            Stage.ASK,
            None,
            takes_new_times=payload.takes_new_times,
            takes_waits=payload.takes_waits,
        )

    assert TRIES_TO_ASK_EVERY == question.approval.quiet_wait


def test_each_wait_for_working_hours_counts_as_long_as_the_workflow_waits() -> None:
    seconds = definition("remediation")["States"]["WaitToAsk"]["Seconds"]

    assert TRIES_TO_ASK_EVERY == timedelta(seconds=seconds)
