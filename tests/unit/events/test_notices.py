"""Announced dates: told once with the date, and again before it, while they still concern
somebody."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.core.errors import AccessDenied, SafetyError, Throttled, Unavailable
from governor.core.instance import Lifecycle
from governor.events.model.notice import BlockChange, Notice, ScheduledChange
from governor.events.notify_dates import NotifyDates
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.notices import Events
from governor.policy.model.policy import Mode, Policy
from governor.table.once import Once
from tests.builders import NOW, TARGET
from tests.twins import MemoryEventLog
from tests.unit.worlds.fleet_world import ACCOUNTS, FleetWorld

RESERVATION = "cr-0123456789abcdef0"
IN_TWO_WEEKS = NOW + timedelta(days=14)


class NoticeWorld(FleetWorld):
    """A fleet with the sweep, and the use cases that hear of dates."""

    def __post_init__(self) -> None:
        super().__post_init__()
        everything: dict[str, Any] = {
            "clock": self.clock,
            "policies": self.policies,
            "accounts": ACCOUNTS,
            "instances": self.ec2,
            "notice_store": self.log,
            "once": Once(self.clock, self.log),
            "announcer": self.announcer,
        }
        notify = NotifyDates(**everything)
        self.scheduled = notify.notify_scheduled
        self.block = notify.notify_block

    def told(self) -> list[tuple[str, bool, str]]:
        """Owner, whether it was a reminder, and the date of every message about a date."""
        sent = [alert for alert in self.announcer.sent if alert.kind is AlertKind.SCHEDULED_CHANGE]
        return [
            (a.owner, bool(a.facts.get("reminder")), str(a.facts.get("happens_at"))) for a in sent
        ]


def world_with(**changes: Any) -> tuple[NoticeWorld, str]:
    """One busy instance of ada's."""
    world = NoticeWorld(Policy(mode=Mode.ASK, events=Events(remind_before_hours=24)))
    tags = {"Purpose": "GPU-Workload", "Name": "trainer", "Owner": "ada"}
    return world, world.add(1, [90.0] * 12, **{"tags": tags, **changes})


def retirement(*instance_ids: str, is_over: bool = False, **changes: Any) -> ScheduledChange:
    """Return the retirement of these instances, in two weeks."""
    plain = Notice(
        account=TARGET.account,
        region=TARGET.region,
        source_id="arn:aws:health:us-east-1::event/EC2/1",
        what="persistent instance retirement",
        at=IN_TWO_WEEKS,
        said_at=NOW - timedelta(minutes=2),
    )
    return ScheduledChange(
        {one: replace(plain, instance_id=one, **changes) for one in instance_ids}, is_over
    )


def block(**changes: Any) -> BlockChange:
    """A block that begins now and ends in two weeks."""
    plain = BlockChange(
        event_id="event-1",
        account=TARGET.account,
        region=TARGET.region,
        reservation_id=RESERVATION,
        is_expiring=False,
        at=NOW,
        ends_at=IN_TWO_WEEKS,
    )
    return replace(plain, **changes)


# scheduled changes


def test_a_retirement_is_told_once_with_its_date_and_what_to_do() -> None:
    """Health repeats an event while it is open."""
    world, instance_id = world_with()

    first = world.scheduled(retirement(instance_id))
    again = world.scheduled(retirement(instance_id))

    assert ((instance_id,), ()) == (first, again)
    (alert,) = world.announcer.sent
    assert (Severity.WARNING, "ada", instance_id) == (
        alert.severity,
        alert.owner,
        alert.instance_id,
    )
    text = " ".join(alert.lines)
    assert "Fri Dec 4, 12:02 UTC (in 14 days)" in text
    assert "What to do: stop the instance and start it again" in text


@pytest.mark.parametrize(
    ("changes", "advice"),
    [
        ({"root_device_type": "instance-store"}, "cannot be stopped"),
        ({"lifecycle": Lifecycle.SPOT}, "does not move a Spot instance"),
    ],
)
def test_the_advice_fits_the_instance(changes: dict[str, Any], advice: str) -> None:
    """Not everything can be moved by a stop and a start."""
    world, instance_id = world_with(**changes)
    world.scheduled(retirement(instance_id))

    assert advice in " ".join(world.announcer.sent[0].lines)


def test_it_is_told_again_the_day_before_by_the_sweep() -> None:
    """Once, however many sweeps there are in that day, and not before it."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    when = "2026-12-04T12:02:30Z"

    world.sweep(minutes=12 * 24 * 60)
    assert [("ada", False, when)] == world.told()
    world.sweep(minutes=24 * 60 + 5)
    world.sweep(minutes=5)
    assert [("ada", False, when), ("ada", True, when)] == world.told()
    world.sweep(minutes=48 * 60)
    assert 2 == len(world.told())


def test_a_new_date_is_told_anew_and_reminded_of_alone() -> None:
    """AWS moves its dates; so may the owner."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    world.scheduled(retirement(instance_id, at=IN_TWO_WEEKS + timedelta(days=7)))

    world.sweep(minutes=(14 * 24 - 1) * 60)
    assert [False, False] == [again for _, again, _ in world.told()]
    world.sweep(minutes=7 * 24 * 60)
    assert ("ada", True, "2026-12-11T12:02:30Z") == world.told()[-1]


def test_what_is_over_is_not_reminded_of() -> None:
    """Canceled or done, or the instance has gone."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    assert () == world.scheduled(retirement(instance_id, is_over=True))
    world.sweep(minutes=(14 * 24 - 1) * 60)
    assert 1 == len(world.told())

    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    world.change(instance_id, state="terminated")
    world.sweep(minutes=(14 * 24 - 1) * 60)
    assert 1 == len(world.told())


def test_what_comes_within_a_day_was_told_in_time() -> None:
    """No reminder five minutes after the news."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=NOW + timedelta(hours=20)))
    world.sweep(minutes=5)

    assert [False] == [again for _, again, _ in world.told()]


def test_one_instance_that_cannot_be_read_keeps_no_other_from_being_told() -> None:
    """It is raised, so that the event is repeated; only what failed is told then."""
    world, first = world_with()
    second = world.add(2, tags={"Purpose": "GPU-Workload", "Owner": "grace"})
    world.ec2.failures["describe"] = [Throttled("busy", operation="ec2:DescribeInstances")]
    both = retirement(first, second)

    with pytest.raises(Throttled):
        world.scheduled(both)
    assert ["grace"] == [owner for owner, _, _ in world.told()]
    world.scheduled(both)
    assert ["grace", "ada"] == [owner for owner, _, _ in world.told()]


def test_an_event_without_a_date_is_told_once_for_each_event() -> None:
    """Rather than not at all."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=None))
    world.scheduled(retirement(instance_id, at=None))

    assert 1 == len(world.told())


def test_instances_that_are_not_governed_are_nobodys_news() -> None:
    """Nor are those that have gone."""
    world, instance_id = world_with(tags={})

    assert () == world.scheduled(retirement(instance_id, "i-00000000"))
    assert [] == world.announcer.sent


def test_an_instance_that_ec2_does_not_describe_is_reminded_of_when_it_does() -> None:
    """Nobody else is: its owner, and what may be done about the date, are not known till then."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    world.ec2.odd[instance_id] = "EC2's record of it lacks InstanceType"
    problems = world.sweep(minutes=(14 * 24 - 1) * 60).problems
    assert [False, True] == ["no reminder can be sent" in problem for problem in problems]
    assert [("ada", False)] == [(owner, again) for owner, again, _ in world.told()]

    world.ec2.odd.clear()
    assert [] == world.sweep(minutes=5).problems
    assert [("ada", False), ("ada", True)] == [(owner, again) for owner, again, _ in world.told()]


def test_a_reminder_that_fails_is_a_problem_of_the_sweep_and_is_tried_again() -> None:
    """It sinks neither the sweep nor the other reminders."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    world.announcer.failure = Unavailable("SNS is down", operation="sns:Publish")
    problems = world.sweep(minutes=(14 * 24 - 1) * 60).problems
    assert [True] == ["was not reminded" in problem for problem in problems]
    world.announcer.failure = None

    assert [] == world.sweep(minutes=5).problems
    assert [False, True] == [again for _, again, _ in world.told()]


def test_dates_that_cannot_be_read_do_not_sink_the_sweep() -> None:
    """Counted as a problem; everything else is done."""
    world, _ = world_with()
    assert isinstance(world.log, MemoryEventLog)
    world.log.memory.failure = Throttled("busy", operation="dynamodb:Query")

    summary = world.sweep()

    assert (1, 1) == (summary.instances, len(summary.problems))


# Capacity Blocks


def test_a_block_that_begins_is_told_to_each_owner_in_it() -> None:
    """With its end; the same event again tells nobody."""
    world, _ = world_with(capacity_reservation_id=RESERVATION)
    world.add(
        2, tags={"Purpose": "GPU-Workload", "Owner": "grace"}, capacity_reservation_id=RESERVATION
    )
    world.add(3, tags={"Purpose": "GPU-Workload", "Owner": "edsger"})

    assert ("ada", "grace") == world.block(block())
    assert () == world.block(block())
    assert ["info", "info"] == [alert.severity for alert in world.announcer.sent]


def test_a_block_nobody_runs_in_is_told_to_the_default_owner() -> None:
    """It is paid for all the same."""
    world, _ = world_with()
    world.ec2.known_reservations.add(RESERVATION)

    assert ("unassigned",) == world.block(block())
    assert "none yet" in " ".join(world.announcer.sent[0].lines)


def test_the_default_owner_reads_the_end_of_a_block_in_their_zone() -> None:
    """As an owner of instances in it does."""
    berlin = Contact(emails=("ops@example.com",), time_zone="Europe/Berlin")
    ownership = Ownership(contacts={"ops": berlin}, default_contacts=("ops",))
    world = NoticeWorld(Policy(mode=Mode.ASK, ownership=ownership))
    world.ec2.known_reservations.add(RESERVATION)
    world.block(block())

    assert "It ends Fri Dec 4, 13:02 Berlin (12:02 UTC)." in " ".join(world.announcer.sent[0].lines)


def test_a_block_that_ec2_does_not_know_is_refused_and_leaves_no_trace() -> None:
    """The samples name one that does not exist: against a deployed stack they recorded it and sent
    mail."""
    world, _ = world_with()

    with pytest.raises(SafetyError, match=f"no Capacity Block {RESERVATION}"):
        world.block(block())
    assert () == world.block(block(is_expiring=True))
    assert ([], []) == (world.announcer.sent, world.log.notices(TARGET))


def test_aws_is_believed_where_the_role_may_not_look_at_blocks() -> None:
    """A member stack of an earlier release: the block is paid for, and only AWS sends such
    events."""
    world, _ = world_with()
    world.ec2.failures["knows_reservation"] = [AccessDenied("no", operation="ec2:Describe")]

    assert ("unassigned",) == world.block(block())


def test_the_end_of_a_block_is_told_again_the_day_before() -> None:
    """To whoever runs in it then, whoever ran in it when it began."""
    world, instance_id = world_with()
    world.ec2.known_reservations.add(RESERVATION)
    world.block(block())
    world.change(instance_id, capacity_reservation_id=RESERVATION)

    world.sweep(minutes=(14 * 24 - 1) * 60)

    assert ("ada", True, "2026-12-04T12:02:30Z") == world.told()[-1]
    assert "30 min before" in " ".join(world.announcer.sent[-1].lines)


def test_the_last_warning_names_the_minutes_and_what_is_lost() -> None:
    """Ten minutes before EC2 begins to terminate; once, and to nobody where nothing runs."""
    world, instance_id = world_with(capacity_reservation_id=RESERVATION)
    expiring = block(is_expiring=True, event_id="event-2")

    assert ("ada",) == world.block(expiring)
    assert () == world.block(expiring)
    (alert,) = world.announcer.sent
    assert (Severity.CRITICAL, instance_id) == (alert.severity, alert.instance_id)
    assert "save your work by Fri 12:12 UTC" in alert.subject

    world.change(instance_id, state="terminated")
    assert () == world.block(replace(expiring, event_id="event-3"))


def test_each_project_of_an_unknown_owner_is_told() -> None:
    """Their people are found by the project."""
    world, _ = world_with(lifecycle=Lifecycle.CAPACITY_BLOCK, capacity_reservation_id=RESERVATION)
    for number, project in ((2, "llm"), (3, "vision")):
        tags = {"Purpose": "GPU-Workload", "Project": project}
        world.add(
            number,
            [90.0] * 12,
            tags=tags,
            lifecycle=Lifecycle.CAPACITY_BLOCK,
            capacity_reservation_id=RESERVATION,
        )
    world.block(block(is_expiring=True))

    assert {"llm", "vision"} <= {alert.project for alert in world.announcer.sent}
    assert len({alert.dedup_id for alert in world.announcer.sent}) == len(world.announcer.sent)


def test_a_date_that_comes_nearer_leaves_no_reminder_of_the_old_one() -> None:
    """Told at once, and not again nine days later."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id))
    world.scheduled(retirement(instance_id, at=NOW + timedelta(hours=12)))

    assert [] == list(world.log.notices(TARGET))


def test_a_repeated_event_takes_no_reminder_back() -> None:
    """Health repeats what is open, also in the last hours before the date."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=NOW + timedelta(hours=25)))
    world.clock.moment = NOW + timedelta(hours=2)
    world.scheduled(retirement(instance_id, at=NOW + timedelta(hours=25)))
    world.scheduled(retirement(instance_id, at=None))

    assert 1 == len(world.log.notices(TARGET))


# what comes late


def test_an_older_date_that_comes_late_is_neither_told_nor_kept() -> None:
    """Events come in any order: the date that AWS named last is the one to be reminded of."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=NOW + timedelta(days=10)))
    an_hour_ago = NOW - timedelta(hours=1)
    for hours in (72, 12):
        at = NOW + timedelta(hours=hours)
        assert () == world.scheduled(retirement(instance_id, at=at, said_at=an_hour_ago))
    assert () == world.scheduled(retirement(instance_id, at=None, said_at=an_hour_ago))

    assert [NOW + timedelta(days=10)] == [one.at for one in world.log.notices(TARGET)]
    assert 1 == len(world.told())


def test_what_was_closed_is_not_opened_by_what_was_said_before() -> None:
    """Nobody is told, or reminded, of a change that AWS has canceled; a newer word opens it
    again."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, is_over=True))
    assert () == world.scheduled(retirement(instance_id))
    assert () == world.scheduled(retirement(instance_id, said_at=NOW - timedelta(hours=1)))
    assert [] == list(world.log.notices(TARGET))

    assert (instance_id,) == world.scheduled(retirement(instance_id, said_at=NOW))
    assert () == world.scheduled(retirement(instance_id, is_over=True))
    assert 1 == len(world.log.notices(TARGET))


def test_a_date_is_told_though_nobody_can_say_whether_it_is_the_latest() -> None:
    """And the event is repeated: twice is better than never."""
    world, instance_id = world_with()
    assert isinstance(world.log, MemoryEventLog)
    world.log.memory.failure = Unavailable("down", operation="dynamodb:UpdateItem")
    with pytest.raises(Unavailable):
        world.scheduled(retirement(instance_id))
    assert 1 == len(world.told())
    world.log.memory.failure = None
    world.scheduled(retirement(instance_id))

    assert 1 == len(world.log.notices(TARGET))


def test_an_older_end_of_a_block_is_neither_told_nor_kept() -> None:
    """A block that was extended ends when AWS said last."""
    world, _ = world_with(capacity_reservation_id=RESERVATION)
    later = IN_TWO_WEEKS + timedelta(days=7)
    world.block(block(ends_at=later))

    assert () == world.block(block(event_id="late", at=NOW - timedelta(hours=1)))
    assert [later] == [one.at for one in world.log.notices(TARGET)]


def test_a_date_far_ahead_is_told_once_however_often_it_is_repeated() -> None:
    """A message is remembered until the date, not for a month."""
    world, instance_id = world_with()
    far = NOW + timedelta(days=90)
    world.scheduled(retirement(instance_id, at=far))
    world.clock.moment = NOW + timedelta(days=40)

    assert () == world.scheduled(retirement(instance_id, at=far))


@pytest.mark.parametrize(("hours", "told"), [(12, 1), (25, 0)])
def test_a_date_that_has_just_passed_is_still_told(hours: int, told: int) -> None:
    """An event may come late, and the change take a while; after a day it is history."""
    world, instance_id = world_with()

    assert told == len(world.scheduled(retirement(instance_id, at=NOW - timedelta(hours=hours))))
    assert [] == list(world.log.notices(TARGET))


# wording


@pytest.mark.parametrize(
    ("hours", "promised"), [(24 * 14, True), (25, True), (24, False), (3, False)]
)
def test_a_reminder_is_promised_only_where_one_will_come(hours: int, promised: bool) -> None:
    """A date within a day is not announced a second time."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=NOW + timedelta(hours=hours)))

    assert promised == ("You will get a reminder" in " ".join(world.announcer.sent[0].lines))
    assert promised == bool(world.log.notices(TARGET))


def test_a_change_without_a_date_is_not_said_to_come_now() -> None:
    """AWS names none, and this is what people read."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=None))

    (alert,) = world.announcer.sent
    assert "trainer: persistent instance retirement, no date yet" == alert.subject
    assert "AWS gives no date" in alert.lines[1]
    assert "minutes" not in " ".join((alert.subject, *alert.lines))
    assert "reminder" not in " ".join(alert.lines)
    assert alert.facts["happens_at"] is None


def test_a_change_that_is_due_says_since_when() -> None:
    """Not that it comes in no minutes."""
    world, instance_id = world_with()
    world.scheduled(retirement(instance_id, at=NOW - timedelta(hours=1)))

    (alert,) = world.announcer.sent
    assert alert.subject.endswith(", due now")
    assert "due since Fri 11:02 UTC" in alert.lines[1]
