"""Silence is an answer only of people who had the question, its escalation, and a way to answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from governor.approvals.messages.consequence import consequence
from governor.approvals.model.approval import Stage
from governor.approvals.rules.stages import silence_from
from governor.core.errors import MetricsLate, MustWait, SafetyError
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.episode.model.plan import Step
from governor.policy.model.acting import PlanRule
from governor.policy.model.contacts import working_hours
from governor.policy.model.policy import Mode
from governor.policy.rules.schedule import Schedule
from tests.builders import NOW, make_evidence
from tests.unit.remediation.test_guards import episode_of
from tests.unit.remediation.test_restarts import policy_of
from tests.unit.remediation.test_waiting import AT, OFFICE
from tests.unit.worlds.builders import asker, opener, ref_of
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import APPROVAL_ID, PEOPLE, READABLE, World

LATER = timedelta(minutes=15)
PEOPLE_OF_THE_OFFICE = tuple(OFFICE.contacts.values())
BERLIN = {
    "Fri 17:43": datetime(2026, 11, 20, 16, 43, tzinfo=UTC),
    "Fri 17:58": datetime(2026, 11, 20, 16, 58, tzinfo=UTC),
    "Fri 17:59": datetime(2026, 11, 20, 16, 59, tzinfo=UTC),
    "Mon 09:00": AT["Mon 09:00"],
    "Mon 09:05": AT["Mon 09:00"] + timedelta(minutes=5),
}
"""Times in Berlin."""


def expired(**more: Any) -> World:
    """Nobody answered in time, and the policy takes that for a yes."""
    world = World(on_expiry="act", decide=False, **more)
    world.state.void(APPROVAL_ID, "nobody answered in time", expired=True)
    return world


def expires(world: World, at: datetime) -> None:
    """The question expired then."""
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    world.state.put(replace(approval, expires_at=at))


def must_wait(world: World, why: str) -> None:
    """Neither the workflow goes on, nor an execution that somebody starts by hand; nothing is
    done."""
    checked = world.recheck(world.ref, Step.STOP)
    assert (False, LATER) == (checked.proceed, checked.wait)
    assert why in checked.reason
    assert [] == world.writes()


def must_end(world: World, why: str) -> None:
    """The episode ends as refused, and nothing is done."""
    checked = world.recheck(world.ref, Step.STOP)
    assert (False, Outcome.REFUSED, None) == (checked.proceed, checked.outcome, checked.wait)
    assert why in checked.reason
    assert [] == world.writes()


def with_planned_end(world: World, at: datetime) -> Episode:
    """The question was planned to expire then."""
    episode = world._stored()
    planned = episode.asking.schedule
    assert planned is not None
    later = at - planned.expire_at
    moved = Schedule(
        ask_at=planned.ask_at + later,
        remind_at=planned.remind_at + later,
        escalate_at=planned.escalate_at + later,
        expire_at=at,
    )
    return replace(episode, asking=replace(episode.asking, schedule=moved))


def expired_on_saturday() -> tuple[World, datetime]:
    """Return a question whose messages came seven hours late, and when it expired: on a Saturday
    evening, before all who work in the office were at work again."""
    world = expired(delivered=(), phase=Phase.ASKING)
    world.policies.policy = replace(world.policies.policy, ownership=OFFICE)
    hours = working_hours(PEOPLE_OF_THE_OFFICE)
    episode = world._stored()
    world.state.put(replace(episode, asking=replace(episode.asking, contact_hours=hours)))
    planned = episode.asking.schedule
    assert planned is not None
    late = timedelta(hours=7)
    world.deliver("ask", planned.ask_at + late)
    world.deliver("escalate", planned.escalate_at + late)
    saturday_evening = planned.expire_at + late
    expires(world, saturday_evening)
    return world, saturday_evening


def assert_waits_until_monday(world: World) -> None:
    """Nothing is done before the people of the office are at work."""
    world.publish_quiet()
    checked = world.recheck(world.ref, Step.STOP)
    assert not checked.proceed
    assert checked.wait is not None
    assert "there is time to answer until Mon Nov 23, 08:00 UTC" in checked.reason
    assert [] == world.writes()


@pytest.mark.parametrize("delivered", [(), ("ask",), ("escalate",), ("ask", "remind")])
def test_silence_acts_only_when_question_and_escalation_were_delivered(
    delivered: tuple[str, ...],
) -> None:
    """Before, the delivery of the question was enough, or a topic's subscription that nobody
    reads."""
    world = expired(delivered=delivered)

    must_wait(world, "the question or the escalation was not delivered")
    with pytest.raises(MustWait, match="the question or the escalation was not delivered"):
        world.put_away(world.ref, Step.STOP)

    assert [] == world.writes()


@pytest.mark.parametrize(
    "more", [{"shared": True}, {"refused": "410"}, {"channel": "webhook"}, {"not_before": NOW}]
)
def test_only_what_those_who_are_asked_have_counts(more: dict[str, Any]) -> None:
    """A channel of everybody, a refusal, a machine, and what is still to be tried are no
    delivery."""
    world = expired(delivered=("ask",))
    world.deliver("escalate", NOW - timedelta(days=2), **more)

    must_wait(world, "the question or the escalation was not delivered")


def test_a_late_escalation_gives_the_time_that_it_promises() -> None:
    """The channel was down for hours: whoever gets it late has as long to answer as planned."""
    world = expired(delivered=("ask",))
    world.deliver("escalate", NOW)

    # What retries of a stage take is no time to answer.
    must_wait(world, "a message was late: there is time to answer until Sat Nov 21, 03:47 UTC")
    # People know of the wait: else the step is held back once more, to notify them.
    world.state.note_waits_told(world._stored().approval_id, world.clock.now())
    world.clock.moment += timedelta(hours=15, minutes=45) + READABLE
    world.publish_quiet()

    assert world.recheck(world.ref, Step.STOP).proceed
    world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_silence_after_a_late_message_counts_in_working_hours_alone() -> None:
    """Before, a delay could move the end of the time to answer from working hours into a
    weekend."""
    world, saturday_evening = expired_on_saturday()

    world.clock.moment = saturday_evening + timedelta(minutes=30)
    world.publish_quiet()
    must_wait(world, "there is time to answer until Mon Nov 23, 08:00 UTC")

    world.state.note_waits_told(APPROVAL_ID, world.clock.now())
    world.clock.moment = AT["Mon 09:00"] - timedelta(seconds=1)
    assert_waits_until_monday(world)
    world.clock.moment = AT["Mon 09:00"] + READABLE
    world.publish_quiet()
    assert world.recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize(
    ("planned_end", "minutes_late", "counts_from"),
    [
        ("Fri 17:58", 0, "Fri 17:43"),
        # The last minutes of the day, and then the next working morning.
        ("Fri 17:58", 15, "Fri 17:58"),
        ("Fri 17:58", 16, "Fri 17:59"),
        ("Fri 17:58", 17, "Mon 09:00"),
        # The time of retries is taken off working hours alone: nobody works at 08:45.
        ("Mon 09:00", 0, "Mon 09:00"),
        ("Mon 09:00", 15, "Mon 09:00"),
        ("Mon 09:00", 20, "Mon 09:05"),
    ],
)
def test_silence_counts_at_its_end_or_when_all_are_at_work_after_it(
    planned_end: str, minutes_late: int, counts_from: str
) -> None:
    """Before, the time of retries was taken off the beginning of work: it counted from 08:45."""
    world = expired(delivered=())
    episode = with_planned_end(world, BERLIN[planned_end])
    planned = episode.asking.schedule
    assert planned is not None
    world.deliver("ask", planned.ask_at + timedelta(minutes=minutes_late))
    world.deliver("escalate", planned.escalate_at)
    deliveries = world.state.deliveries(world.ref.execution_name)

    found = silence_from(episode, deliveries, PEOPLE_OF_THE_OFFICE, planned.expire_at)

    assert BERLIN[counts_from] == found


def test_the_wait_for_working_hours_is_not_charged_to_the_longest_wait() -> None:
    """Before, it ended as refused on Sunday evening: silence after a late message on a Friday
    could never act."""
    world, saturday_evening = expired_on_saturday()
    world.state.note_waits_told(APPROVAL_ID, saturday_evening)
    # So long after the late end on Friday evening, and so long after its beginning on Monday.
    friday_evening = BERLIN["Fri 17:59"] + timedelta(minutes=30)
    expires(world, friday_evening)
    world.clock.moment = friday_evening + timedelta(hours=48)
    assert_waits_until_monday(world)

    world.clock.moment = AT["Mon 09:00"] + timedelta(hours=47)
    world.publish_quiet()
    world.metrics.broken["AnswersRefused"] = "CloudWatch gave no answer"
    assert world.recheck(world.ref, Step.STOP).wait is not None
    world.clock.moment = AT["Mon 09:00"] + timedelta(hours=48)
    world.publish_quiet()
    over = world.recheck(world.ref, Step.STOP)

    assert (False, Outcome.REFUSED, None) == (over.proceed, over.outcome, over.wait)
    assert "it waited for 48 h" in over.reason
    assert [] == world.writes()


def test_a_refusal_in_the_time_to_answer_counts_after_a_wait_for_working_hours() -> None:
    """Before, only as long before the recheck was looked at as the time to answer was planned: by
    Monday that was the quiet hours alone."""
    world, _ = expired_on_saturday()
    world.state.note_waits_told(APPROVAL_ID, NOW)
    world.clock.moment = AT["Mon 09:00"] + READABLE
    world.publish_quiet()
    saturday_noon = AT["Sat 03:00"] + timedelta(hours=9)
    bins = (world.clock.moment - saturday_noon) // timedelta(minutes=5)
    world.metrics.publish("AnswersRefused", {}, [*[1.0] * 12, *[0.0] * (bins - 12)])

    must_end(world, "nobody answered, but the API refused requests")
    with pytest.raises(SafetyError, match="the API refused requests"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_longer_working_hours_of_a_later_policy_shorten_no_time_to_answer() -> None:
    """Before, only today's contacts were looked at: it was stopped on Saturday night."""
    world, saturday_evening = expired_on_saturday()
    world.state.note_waits_told(APPROVAL_ID, saturday_evening)
    world.policies.policy = replace(world.policies.policy, ownership=PEOPLE)
    world.clock.moment = saturday_evening + timedelta(hours=3)
    assert_waits_until_monday(world)

    # An episode of an earlier release has not recorded them.
    older = replace(world._stored().asking, contact_hours=())
    world.state.put(replace(world._stored(), asking=older))
    assert world.recheck(world.ref, Step.STOP).proceed


def test_shorter_working_hours_of_a_later_policy_lengthen_the_time_to_answer() -> None:
    world, saturday_evening = expired_on_saturday()
    world.state.note_waits_told(APPROVAL_ID, saturday_evening)
    late_riser = replace(PEOPLE_OF_THE_OFFICE[0], working_from="10:00")
    ownership = replace(OFFICE, contacts={"people": late_riser})
    world.policies.policy = replace(world.policies.policy, ownership=ownership)
    for minutes, may_proceed in ((READABLE, False), (timedelta(hours=1) + READABLE, True)):
        world.clock.moment = AT["Mon 09:00"] + minutes
        world.publish_quiet()
        assert may_proceed is world.recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_stopped_instance_gets_its_snapshots_whatever_the_working_hours_become(
    is_recorded: bool,
) -> None:
    """Before, it was stopped without them, and the record said that it was stopped too early."""
    world, _ = expired_on_saturday()
    if not is_recorded:
        older = replace(world._stored().asking, contact_hours=())
        world.state.put(replace(world._stored(), asking=older))
    world.state.note_waits_told(APPROVAL_ID, NOW)
    world.clock.moment = AT["Mon 09:00"] + READABLE
    world.publish_quiet()
    assert world.recheck(world.ref, Step.STOP).proceed
    world.put_away(world.ref, Step.STOP)
    late_riser = replace(PEOPLE_OF_THE_OFFICE[0], working_from="10:00")
    ownership = replace(OFFICE, contacts={"people": late_riser})
    world.policies.policy = replace(world.policies.policy, ownership=ownership)

    world.take_snapshot(world.ref)

    assert ["stop"] == world.writes()
    assert world._stored().progress.snapshot_ids


def test_a_note_of_a_stop_lets_nothing_be_stopped_before_silence_counts() -> None:
    """Several roles can write that note. It waits as if nothing was noted, and accuses nobody."""
    world, saturday_evening = expired_on_saturday()
    world.state.note_waits_told(APPROVAL_ID, saturday_evening)
    noted = replace(world._stored().progress, steps_done={Step.STOP.value: saturday_evening})
    world.state.put(replace(world._stored(), progress=noted))
    world.clock.moment = saturday_evening + timedelta(hours=3)

    with pytest.raises(MustWait, match="there is time to answer until Mon Nov 23, 08:00 UTC"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


@pytest.mark.parametrize(
    ("metric", "namespace", "figures", "acts"),
    [
        ("AnswersRefused", "", [0.0, 0.0], True),
        ("AnswersRefused", "", [0.0, 1.0, 0.0], False),
        # Since the question was delivered, a day and ten minutes ago; not before it.
        ("AnswersRefused", "", [1.0, *[0.0] * 289], False),
        ("AnswersRefused", "", [1.0, *[0.0] * 290], True),
        # API Gateway leaves a flood's refusals out of its logs: what it let through shows the
        # flood.
        ("Count", "ApiId", [4.0, 299.0], True),
        ("Count", "ApiId", [4.0, 300.0, 4.0], False),
    ],
)
def test_silence_is_no_answer_while_answers_were_refused(
    metric: str, namespace: str, figures: list[float], acts: bool
) -> None:
    """Whoever floods the API makes those silent who use it: "keep" does not arrive."""
    world = expired(phase=Phase.ASKING)
    world.metrics.publish(metric, {"ApiId": "api-1"} if namespace else {}, figures)

    if acts:
        assert world.recheck(world.ref, Step.STOP).proceed
    else:
        must_end(world, "the API refused requests")
        # An answer is none of silence's business.
        assert World(metrics=world.metrics).recheck(world.ref, Step.STOP).proceed


def test_a_call_waits_for_refusals_in_the_last_minutes_as_for_every_unclear_answer() -> None:
    """The workflow checks everything again before the next call."""
    world = expired()
    expired_at = NOW.replace(minute=0, second=1)
    expires(world, expired_at)
    world.clock.moment = expired_at + timedelta(seconds=299)
    world.let_through(Step.STOP)

    with pytest.raises(MustWait, match="everything is checked again: nobody answered; whether"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


@pytest.mark.parametrize("seconds", [0, 299, 449, 598])
def test_refusals_in_the_last_minutes_are_waited_for(seconds: int) -> None:
    """The workflow looks at the very expiry. Before, the last minutes were not read, or read as
    empty."""
    world = expired(phase=Phase.ASKING)
    expired_at = NOW.replace(minute=0, second=1)
    expires(world, expired_at)
    world.clock.moment = expired_at + timedelta(seconds=seconds)

    with pytest.raises(MetricsLate, match="whether answers were refused is not known yet"):
        world.recheck(world.ref, Step.STOP)
    assert [] == world.writes()

    world.clock.moment = expired_at + READABLE
    world.publish_quiet()
    assert world.recheck(world.ref, Step.STOP).proceed


def test_what_is_known_to_be_refused_is_said_at_once() -> None:
    """No wait takes a refusal back, so people are asked again; that the last minutes are unknown is
    no news then."""
    world = expired(phase=Phase.ASKING)
    expires(world, NOW)
    world.metrics.publish("AnswersRefused", {}, [1.0])

    must_end(world, "the API refused requests")


@pytest.mark.parametrize("metric", ["AnswersRefused", "Count"])
def test_what_cannot_be_read_is_no_proof_that_people_could_answer(metric: str) -> None:
    """And in the end nothing is done, and the message says why."""
    world = expired(phase=Phase.ASKING)
    world.metrics.broken[metric] = "CloudWatch gave no answer"

    must_wait(world, "cannot be read whether answers were refused: CloudWatch gave no answer")
    world.clock.moment += timedelta(hours=48)
    world.publish_quiet()
    over = world.recheck(world.ref, Step.STOP)

    assert (False, Outcome.REFUSED, None) == (over.proceed, over.outcome, over.wait)
    assert "answers were refused" in over.reason
    assert "it waited for 48 h" in over.reason
    assert [] == world.writes()


def test_people_are_told_that_it_waits_and_that_they_can_still_answer() -> None:
    """Nobody has approved anything: the message must not say so."""
    world = expired(delivered=())
    ask = asker(world)

    ask(world.ref, Stage.WAIT, None, world.recheck(world.ref, Step.STOP).reason)

    [alert] = world.announcer.sent
    text = "\n".join(alert.lines)
    assert "Nobody answered, but the question or the escalation" in text
    assert "put it on hold, keep it until a later date, or exempt it on its page" in text
    assert "approval stands" not in text
    # The hours of the longest wait may begin days later.
    assert "48 h" not in text


def test_what_was_begun_is_gone_on_with_while_answers_are_refused() -> None:
    """A retry of a stop whose answer was lost finds it done."""
    world = expired()
    world.put_away(world.ref, Step.STOP)
    world.metrics.publish("AnswersRefused", {}, [1.0])
    world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_without_a_time_to_answer_nobody_was_silent() -> None:
    """A question says how long it stays open; what says nothing of it is no question."""
    world = expired()
    world.state.put(
        replace(episode_of(world), asking=replace(episode_of(world).asking, schedule=None))
    )
    with pytest.raises(SafetyError, match="the approval is EXPIRED, not APPROVED"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


# power


def without_power(world: World) -> World:
    """The agent publishes none."""
    own = (("InstanceId", world.instance.instance_id),)
    world.metrics.published.pop(("nvidia_smi_power_draw", own))
    return world


ASKED_WITHOUT_POWER = make_evidence(
    power_percent_of_limit=None, measured_percent={}, last_measured={}
)


def test_silence_is_no_answer_to_a_question_without_power() -> None:
    """A question of an earlier release may have said that silence acts."""
    world = without_power(expired(evidence=ASKED_WITHOUT_POWER))

    result = world.recheck(world.ref, Step.STOP)

    assert (False, Outcome.REFUSED) == (result.proceed, result.outcome)
    assert "nobody answered; power: not measured" in result.reason
    assert [] == world.writes()


def test_a_yes_counts_without_power_although_silence_would_not() -> None:
    """The person has read that power is not measured."""
    world = without_power(World(on_expiry="act", evidence=ASKED_WITHOUT_POWER))

    assert world.recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize(
    ("instance_type", "may_be_lost", "is_asked"),
    [("g5.xlarge", False, True), ("g5.xlarge", True, False), ("g5g.16xlarge", False, False)],
)
def test_where_auto_would_wipe_local_disks_people_are_asked_without_power(
    instance_type: str, may_be_lost: bool, is_asked: bool
) -> None:
    """Mode auto asks there in any case: an idle instance that nobody is asked about costs money
    forever. Where it may act unasked, it does nothing without power."""
    plan = PlanRule(local_disks_may_be_lost_unasked=may_be_lost)
    fleet = FleetWorld(replace(policy_of(Mode.AUTO, "no-action"), plan=plan))
    instance_id = fleet.add(1, instance_type=instance_type)
    own = (("InstanceId", instance_id),)
    fleet.metrics.published.pop(("nvidia_smi_power_draw", own))

    opened = opener(fleet)(ref_of(fleet, instance_id))

    assert is_asked is (opened.episode is not None)
    if opened.episode is not None:
        assert Mode.ASK is opened.episode.mode
        assert opened.episode.asking.schedule is not None
        assert not opened.episode.asking.acts_on_silence
        assert "power: not measured" in opened.episode.reason


@pytest.mark.parametrize("has_power", [True, False])
def test_without_power_people_are_asked_and_silence_means_nothing(has_power: bool) -> None:
    """The question says so from its beginning, and no silence acts later."""
    fleet = FleetWorld(policy_of(Mode.ASK, "act"))
    instance_id = fleet.add(1)
    if not has_power:
        own = (("InstanceId", instance_id),)
        fleet.metrics.published.pop(("nvidia_smi_power_draw", own))

    episode = opener(fleet)(ref_of(fleet, instance_id)).episode

    assert episode is not None
    assert episode.asking.schedule is not None
    assert has_power is episode.asking.acts_on_silence
    assert has_power is ("power: not measured" not in episode.reason)
    assert has_power is ("nothing happens" not in consequence(episode, None, NOW).sentence)
