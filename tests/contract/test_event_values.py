"""The samples of AWS's events as the product reads them: dates in every form, and Regions of their
own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.events.contract import InterruptionEvent, LifecycleEvent, notice_of
from governor.events.model.interruption import Cause
from governor.events.model.notice import BlockChange, Notice, ScheduledChange

EVENTS = Path(__file__).parents[2] / "events"


def sample(name: str, **detail: Any) -> dict[str, Any]:
    """A sample with some of its detail changed."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return {**event, "detail": {**event["detail"], **detail}}


def change(**detail: Any) -> ScheduledChange:
    """The sample of a retirement, changed."""
    found = notice_of(sample("handle_notice/retirement", **detail))
    assert isinstance(found, ScheduledChange)
    return found


def announced(**detail: Any) -> Notice:
    """Return what it says of its instance."""
    (notice,) = change(**detail).notices.values()
    return notice


def envelope(detail_type: str, **detail: str) -> dict[str, Any]:
    """An event of EventBridge from another Region than the samples'."""
    return {
        "version": "0",
        "id": "1e5527d7-bb36-4607-3370-4164db56a40e",
        "detail-type": detail_type,
        "account": "123456789012",
        "time": "2026-11-20T12:00:00Z",
        "region": "eu-west-3",
        "resources": [],
        "detail": detail,
    }


def test_a_lifecycle_action_without_metadata_terminates() -> None:
    """As recorded in aws/aws-node-termination-handler#562; a hook need not have metadata."""
    event = envelope(
        "EC2 Instance-terminate Lifecycle Action",
        LifecycleActionToken="be2184df-afe7-4db9-a4a4-e6d6a72210d1",
        AutoScalingGroupName="gpu",
        LifecycleHookName="h",
        EC2InstanceId="i-0123456789abcdef0",
        LifecycleTransition="autoscaling:EC2_INSTANCE_TERMINATING",
        Origin="AutoScalingGroup",
        Destination="EC2",
    )
    warned = parse(LifecycleEvent, event).to_domain()

    assert "terminate" == warned.action_text
    assert "the Auto Scaling group gpu terminates it" == warned.void_reason


def test_an_instance_in_a_capacity_block_is_terminated_when_it_says() -> None:
    """Source: EC2 user guide, Capacity Blocks."""
    event = envelope(
        "EC2 Capacity Reservation Instance Interruption Warning",
        **{
            "instance-id": "i-0123456789abcdef0",
            "instance-action": "terminate",
            "instance-termination-time": "2026-11-20T12:30:00Z",
            "instance-lifecycle": "capacity-block",
        },
    )
    warned = parse(InterruptionEvent, event).to_domain()

    assert ("terminate", datetime(2026, 11, 20, 12, 30, tzinfo=UTC)) == (
        warned.action_text,
        warned.ends_at,
    )


def test_a_spot_warning_ends_in_two_minutes_and_a_reservation_when_it_says() -> None:
    """Only the second names a time."""
    spot = parse(InterruptionEvent, sample("handle_spot_interruption/terminate")).to_domain()
    assert (Cause.SPOT, None) == (spot.cause, spot.stated_end)
    assert datetime(2026, 11, 20, 12, 2, tzinfo=UTC) == spot.ends_at

    name = "handle_spot_interruption/capacity-reservation"
    stated = {"instance-termination-time": "2026-11-20T12:01:30+00:00"}
    taken = parse(InterruptionEvent, sample(name, **stated)).to_domain()
    assert (Cause.RESERVATION, 90) == (taken.cause, taken.seconds_left(taken.at))


@pytest.mark.parametrize("text", ["soon", "", None])
def test_no_warning_is_refused_for_its_date(text: str | None) -> None:
    """Two minutes are assumed for a time that cannot be read."""
    name = "handle_spot_interruption/capacity-reservation"
    event = sample(name, **{"instance-termination-time": text})

    assert parse(InterruptionEvent, event).to_domain().stated_end is None


@pytest.mark.parametrize("text", ["Fri, 04 Dec 2026 18:00:00 GMT", "2026-12-04T18:00:00Z"])
def test_a_date_of_health_is_read_in_either_form(text: str) -> None:
    """RFC 1123, as it is sent, and ISO 8601."""
    assert datetime(2026, 12, 4, 18, 0, tzinfo=UTC) == announced(startTime=text).at


@pytest.mark.parametrize(
    "text",
    [
        "9999-12-31T00:00:00Z",
        "9999-12-31T23:59:59-14:00",
        "Fri, 31 Dec 9999 23:59:59 GMT",
        "0001-01-01T00:00:00Z",
    ],
)
def test_a_date_that_no_change_can_have_is_none(text: str) -> None:
    """It stands for a date that is not known, and nothing can be counted from it."""
    assert announced(startTime=text).at is None
    with pytest.raises(InputError, match="end-date"):
        notice_of(sample("handle_notice/block-delivered", **{"end-date": text}))


@pytest.mark.parametrize("text", [None, "just now", "9999-12-31T00:00:00Z"])
def test_what_health_says_is_as_old_as_its_last_change(text: str | None) -> None:
    """However often it is repeated; where that cannot be read, as old as the event."""
    assert datetime(2026, 11, 20, 11, 58, tzinfo=UTC) == announced().said_at
    assert datetime(2026, 11, 20, 12, 0, tzinfo=UTC) == announced(lastUpdatedTime=text).said_at


def test_a_copy_in_a_backup_region_means_the_region_of_the_event() -> None:
    """And in an organization's view, the account that is affected."""
    moved = announced(eventRegion="eu-west-1", affectedAccount="210987654321")

    assert ("eu-west-1", "210987654321") == (moved.region, moved.account)


def test_instances_are_found_in_arns_and_nothing_else_is_taken_for_one() -> None:
    """Each once; volumes are not instances."""
    entities = [
        "arn:aws:ec2:us-east-1:123456789012:instance/i-0123456789abcdef0",
        "i-0123abcd",
        "vol-1",
    ]
    repeated = [*entities, "i-0123abcd"]

    found = change(affectedEntities=[{"entityValue": value} for value in repeated])

    assert ("i-0123456789abcdef0", "i-0123abcd") == tuple(found.notices)
    assert all(instance_id == one.instance_id for instance_id, one in found.notices.items())


def test_instances_whose_part_is_resolved_are_left_out() -> None:
    """The event stays open for the others; where nothing is left it is over, and is forgotten."""
    done = {"entityValue": "i-0123abcd", "status": "RESOLVED"}
    pending = {"entityValue": "i-0123456789abcdef0", "status": "PENDING"}
    unsaid = {"entityValue": "i-89abcdef", "status": None}

    some = change(affectedEntities=[done, pending, unsaid])
    assert (("i-0123456789abcdef0", "i-89abcdef"), False) == (tuple(some.notices), some.is_over)
    none = change(affectedEntities=[done])
    assert (("i-0123abcd",), True) == (tuple(none.notices), none.is_over)
    closed = change(affectedEntities=[done, pending], statusCode="closed")
    assert (("i-0123abcd", "i-0123456789abcdef0"), True) == (tuple(closed.notices), closed.is_over)


@pytest.mark.parametrize("region", ["global", "", None])
def test_an_event_that_names_no_region_means_the_one_it_came_in(region: str | None) -> None:
    """Nothing is refused for it: the instances are looked for there."""
    found = announced(eventRegion=region)

    assert ("us-east-1", "i-0123456789abcdef0") == (found.region, found.instance_id)


@pytest.mark.parametrize("entities", [None, [], [{"entityValue": None}]])
def test_an_event_that_names_nothing_is_about_nothing(entities: object) -> None:
    """And is not over for it."""
    found = change(affectedEntities=entities)

    assert ({}, False) == (found.notices, found.is_over)


def test_what_is_scheduled_is_said_in_words() -> None:
    """And what is closed is over."""
    assert "persistent instance retirement" == announced().what
    assert (False, True) == (change().is_over, change(statusCode="closed").is_over)


@pytest.mark.parametrize(
    ("name", "expiring"), [("block-delivered", False), ("block-expiring", True)]
)
def test_a_block_begins_or_expires(name: str, expiring: bool) -> None:
    """With and without the word Reservation in its name."""
    found = notice_of(sample(f"handle_notice/{name}"))

    assert isinstance(found, BlockChange)
    assert (expiring, datetime(2026, 11, 27, 11, 30, tzinfo=UTC)) == (
        found.is_expiring,
        found.ends_at,
    )


@pytest.mark.parametrize("kind", ["Scheduled", "Delivered v2", "Reservation Extension Completed"])
def test_a_kind_of_block_event_that_is_not_known_is_let_through(kind: str) -> None:
    """AWS may add some, in whatever form: nothing is refused, and nothing follows."""
    event = {
        **sample("handle_notice/block-delivered"),
        "detail-type": f"Capacity Block {kind}",
        "detail": {},
    }

    assert notice_of(event) is None


@pytest.mark.parametrize(
    "event", [{}, {"source": "aws.s3"}, [1], None, {"source": "aws.ec2", "detail-type": 1}]
)
def test_what_announces_no_date_is_refused(event: object) -> None:
    """With a reason, whatever its form."""
    with pytest.raises(InputError, match="was refused"):
        notice_of(event)


def test_the_end_of_a_block_that_cannot_be_read_is_refused() -> None:
    """It goes to the dead-letter queue with its reason, and an alarm tells; a wrong date would
    mislead."""
    with pytest.raises(InputError, match="end-date"):
        notice_of(sample("handle_notice/block-delivered", **{"end-date": "at the end"}))


@pytest.mark.parametrize(
    "value", [5, 1e300, True, [], {}, "Mon, 01 Jan 99999999999 00:00:00 GMT"], ids=str
)
def test_no_warning_is_refused_for_the_form_of_its_date(value: object) -> None:
    """Two minutes are assumed for whatever is no date."""
    event = sample("handle_spot_interruption/terminate", **{"instance-termination-time": value})

    assert parse(InterruptionEvent, event).to_domain().stated_end is None


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("relocate", "relocate"),
        (" re\nlocate ", "re locate"),
        ("", None),
        (None, None),
        (5, None),
        ([], None),
    ],
    ids=str,
)
def test_no_warning_is_refused_for_its_action(said: object, read: str | None) -> None:
    """EC2 may invent another one any day; the two minutes run all the same."""
    event = sample("handle_spot_interruption/terminate", **{"instance-action": said})

    assert read == parse(InterruptionEvent, event).to_domain().action


def test_a_warning_without_an_action_is_read() -> None:
    """And the name of an action is no place for a text."""
    event = sample("handle_spot_interruption/terminate")
    del event["detail"]["instance-action"]
    assert parse(InterruptionEvent, event).to_domain().action is None

    long = sample("handle_spot_interruption/terminate", **{"instance-action": "x" * 1000})
    assert "x" * 64 == parse(InterruptionEvent, long).to_domain().action


def test_a_warning_is_read_by_its_detail_type() -> None:
    """One table says which model reads which warning; what is none of them is refused with the
    reason."""
    assert (
        Cause.SPOT
        is parse(InterruptionEvent, sample("handle_spot_interruption/terminate")).to_domain().cause
    )
    assert (
        Cause.REBALANCE
        is parse(InterruptionEvent, sample("handle_rebalance_recommendation/recommended"))
        .to_domain()
        .cause
    )
    for other in (sample("handle_lifecycle_action/scale-in"), "text", None):
        with pytest.raises(InputError, match="refused"):
            parse(InterruptionEvent, other).to_domain()
