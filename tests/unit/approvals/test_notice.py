"""Mode auto acts only when its owner has had the notice for its time, and nobody holds it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.delivery import Delivery
from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Answer, Decision, Stage
from governor.approvals.rules.stages import notice_until, stated_notice_end
from governor.core.errors import MetricsLate, MustWait, NobodyListens, SafetyError
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Step, Until
from governor.notify.compose import message_of
from governor.policy.model.policy import Mode
from governor.remediation.check_progress import CheckProgress
from tests.builders import NOW, TARGET
from tests.unit.worlds.builders import asker, decider
from tests.unit.worlds.fleet_world import ACCOUNTS
from tests.unit.worlds.world import APPROVAL_ID, READABLE, World

HOUR = timedelta(hours=1)


def auto(**more: Any) -> World:
    """Opened in mode auto; nobody has the notice."""
    return World(mode=Mode.AUTO, decide=False, noticed_at=None, **more)


def episode_of(world: World) -> Episode:
    """As it is stored."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return episode


def deliver(world: World, channel: str, minutes: int = 0, **more: Any) -> None:
    """The notice by a channel, so many minutes from now."""
    name, at = world.ref.execution_name, NOW + timedelta(minutes=minutes)
    world.state.note_delivery(Delivery(name, f"tell-{name}", channel, channel, at, **more))


def look(world: World) -> int:
    """Return whether the notice is over."""
    use_case = CheckProgress(
        world.clock,
        world.policies,
        ACCOUNTS,
        episode_store=world.state,
        approval_store=world.state,
        delivery_store=world.state,
        instances=world.ec2,
        snapshots=world.ec2,
    )
    return use_case(world.ref, Until.HEARD)


def test_nothing_is_done_before_the_owner_has_had_the_notice_for_its_time() -> None:
    """Not by the workflow, and not by an execution that somebody starts by hand; counted from the
    first."""
    world = auto()
    deliver(world, "slack", -120, shared=True)
    deliver(world, "webhook", -120)
    with pytest.raises(SafetyError, match="no channel has delivered the alert to the people"):
        world.put_away(world.ref, Step.STOP)
    deliver(world, "email", 0)
    deliver(world, "teams", 30)
    for minutes, rest in ((0, 300), (58, 120), (59, 60)):
        world.clock.moment = NOW + timedelta(minutes=minutes)
        assert rest == look(world)
        checked = world.recheck(world.ref, Step.STOP)
        assert (False, Outcome.REFUSED) == (checked.proceed, checked.outcome)
        with pytest.raises(SafetyError, match="the notice period is not over before"):
            world.put_away(world.ref, Step.STOP)
    world.clock.moment = NOW + HOUR
    assert 0 == look(world)
    assert [] == world.writes()


@pytest.mark.parametrize(
    ("stated", "shown"),
    [
        (None, HOUR),
        # The channel accepted the message two minutes after it was written.
        (HOUR - timedelta(minutes=2), HOUR - timedelta(minutes=2)),
        # The longest run of the function that wrote it, with all retries.
        (HOUR - timedelta(minutes=15), HOUR - timedelta(minutes=15)),
        # Forged: nobody would hold the plan in time.
        (HOUR + timedelta(minutes=1), HOUR),
        (HOUR * 24, HOUR),
        # Forged: people would believe that it is too late.
        (HOUR - timedelta(minutes=16), HOUR),
        (-HOUR, HOUR),
    ],
)
def test_a_forged_end_of_the_notice_is_not_shown(
    stated: timedelta | None, shown: timedelta
) -> None:
    """The stated end is not under the seal: people get no later one than that at which the plan is
    carried out, and no earlier one than a message can have given."""
    world = auto()
    stated_until = None if stated is None else NOW + stated
    deliver(world, "email", stated_until=stated_until)
    deliveries = world.state.deliveries(world.ref.execution_name)
    assert NOW + shown == stated_notice_end(episode_of(world), deliveries)
    assert NOW + HOUR == notice_until(episode_of(world), deliveries)


@pytest.mark.parametrize(("then", "now"), [(60.0, 5.0), (5.0, 60.0)])
def test_a_notice_that_was_shortened_meanwhile_lasts_as_long_as_it_said(
    then: float, now: float
) -> None:
    """Whichever of the two policies gives more time: the wait, the recheck and the call agree."""
    world = auto()
    world.state.put(
        replace(
            episode_of(world),
            asking=replace(episode_of(world).asking, notice=timedelta(minutes=then)),
            progress=replace(episode_of(world).progress, first_cleared={}),
        )
    )
    rule = replace(world.policies.policy.approval, notice_minutes=now)
    world.policies.policy = replace(world.policies.policy, approval=rule)
    deliver(world, "email")
    world.clock.moment = NOW + timedelta(minutes=59)
    assert 60 == look(world)
    assert not world.recheck(world.ref, Step.STOP).proceed
    with pytest.raises(SafetyError, match="is not over before"):
        world.put_away(world.ref, Step.STOP)
    world.clock.moment = NOW + HOUR
    assert 0 == look(world)
    world.clock.moment += READABLE
    assert world.recheck(world.ref, Step.STOP).proceed
    world.metrics.publish("AnswersRefused", {}, [1.0, *[0.0] * 11])
    assert not world.recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize(
    ("metric", "figures", "acts"),
    [
        ("AnswersRefused", [0.0] * 20, True),
        ("AnswersRefused", [1.0, *[0.0] * 11], False),
        # A whole notice without a refusal has passed since.
        ("AnswersRefused", [1.0, *[0.0] * 12], True),
        ("Count", [300.0, *[4.0] * 11], False),
    ],
)
def test_a_notice_counts_only_while_people_could_hold_it(
    metric: str, figures: list[float], acts: bool
) -> None:
    """The page was down, or flooded: neither the workflow goes on, nor an execution that somebody
    starts by hand. Before, the plan was carried out all the same."""
    world = World(mode=Mode.AUTO, decide=False)
    world.metrics.publish(metric, {"ApiId": "api-1"} if metric == "Count" else {}, figures)

    if acts:
        assert world.recheck(world.ref, Step.STOP).proceed
        world.put_away(world.ref, Step.STOP)
        assert ["stop"] == world.writes()
        return
    checked = world.recheck(world.ref, Step.STOP)
    assert (False, timedelta(minutes=15)) == (checked.proceed, checked.wait)
    why = "nobody held it, but the API refused requests"
    assert why in checked.reason
    with pytest.raises(MustWait, match=why):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.writes()


def test_what_was_begun_is_gone_on_with_while_answers_are_refused() -> None:
    """A retry of a stop whose answer was lost finds it done."""
    world = World(mode=Mode.AUTO, decide=False)
    world.put_away(world.ref, Step.STOP)
    world.metrics.publish("AnswersRefused", {}, [1.0])
    world.put_away(world.ref, Step.STOP)
    assert ["stop"] == world.writes()


def test_refusals_in_the_last_minutes_of_a_notice_are_waited_for() -> None:
    """The workflow looks when the notice is over; CloudWatch knows of its last minutes later."""
    world = auto()
    deliver(world, "email", -60)
    assert 0 == look(world)
    why = "nobody held it; whether answers were refused is not known"
    for use_case in (world.recheck, world.put_away):
        with pytest.raises((MetricsLate, MustWait), match=why):
            use_case(world.ref, Step.STOP)
    assert [] == world.writes()


@pytest.mark.parametrize("minutes", [60.0, 2_880.0])
def test_a_notice_that_nobody_could_use_comes_to_nothing(minutes: float) -> None:
    """It waits as silence does, people learn why, and in the end the instance stays. The wait
    counts from the end of the notice, however long that was."""
    world = auto()
    world.state.put(
        replace(
            episode_of(world),
            asking=replace(episode_of(world).asking, notice=timedelta(minutes=minutes)),
        )
    )
    world.metrics.broken["AnswersRefused"] = "CloudWatch gave no answer"
    deliver(world, "email")
    over = NOW + timedelta(minutes=minutes)
    for later in (READABLE, timedelta(hours=47, minutes=59)):
        world.clock.moment = over + later
        world.publish_quiet()
        checked = world.recheck(world.ref, Step.STOP)
        assert checked.wait is not None
        assert (
            "cannot be read whether answers were refused: CloudWatch gave no answer"
            in checked.reason
        )
    ask = asker(world)
    ask(world.ref, Stage.WAIT, None, checked.reason)
    [alert] = world.announcer.sent
    text = "\n".join(alert.lines)
    assert "Nobody held it, but it cannot be read whether answers were refused" in text
    assert "put it on hold, keep it until a later date, or exempt it on its page" in text
    assert "approval stands" not in text
    world.clock.moment = over + timedelta(hours=48)
    world.publish_quiet()
    ended = world.recheck(world.ref, Step.STOP)
    assert (False, Outcome.REFUSED, None) == (ended.proceed, ended.outcome, ended.wait)
    assert "it waited for 48 h" in ended.reason
    assert [] == world.writes()


def test_what_began_after_the_notice_goes_on() -> None:
    """And before it, only a person's answer ends the wait."""
    world = World(mode=Mode.AUTO, decide=False)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    assert ["stop"] == world.writes()


def test_nobody_reached_means_nothing_done() -> None:
    """Within the policy's limit of a delivery."""
    world = auto()
    deliver(world, "email", refused="410")
    world.clock.moment = NOW + timedelta(minutes=61)
    with pytest.raises(NobodyListens):
        look(world)
    assert [] == world.writes()


@pytest.mark.parametrize(
    ("answer", "more"),
    [
        (Answer.HOLD, {}),
        (Answer.KEEP, {"keep_until": NOW + 3 * HOUR}),
        (Answer.EXEMPT, {"reason": "demo"}),
    ],
)
def test_people_hold_it_in_the_notice(answer: Answer, more: dict[str, Any]) -> None:
    """The wait ends at once, and the record says who."""
    world = auto()
    deliver(world, "email")
    decision = Decision(
        answer, "link:bob@example.com", "page", NOW, person="bob@example.com", **more
    )
    decider(world)(APPROVAL_ID, decision)
    assert 0 == look(world)
    world.clock.moment = NOW + HOUR
    assert Outcome.HELD is world.recheck(world.ref, Step.STOP).outcome
    record = world.state.record(TARGET, world.ref.instance_id)
    assert more.get("keep_until") == record.hold.snoozed_until
    assert [] == world.writes()


def test_the_notice_says_until_when_in_the_owners_zone() -> None:
    """A later message names the time of the first delivery, and one that comes too late says so."""
    world = auto()
    episode = replace(
        episode_of(world), asking=replace(episode_of(world).asking, time_zone="Europe/Berlin")
    )
    alert = stage_alert(episode, Stage.TELL, NOW, None)
    deliver(world, "email", 0)
    until = notice_until(episode, world.state.deliveries(world.ref.execution_name))
    first = message_of(alert, episode, link=None, now=NOW)
    later = message_of(alert, episode, link=None, now=NOW + HOUR / 2, expires_at=until)
    late = message_of(alert, episode, link=None, now=NOW + 2 * HOUR, expires_at=until)
    assert (
        "stops it after Fri 14:02 Berlin (13:02 UTC, in 1 h) without asking (mode auto)."
        in first.happens
    )
    assert "Fri 14:02 Berlin" in later.happens
    assert "The notice period of mode auto ended Fri 14:02 Berlin" in late.happens
    assert (Answer.HOLD, Answer.KEEP, Answer.EXEMPT) == first.answers
    assert APPROVAL_ID == first.approval_id
