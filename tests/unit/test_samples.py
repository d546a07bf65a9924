"""Samples of `events/` happen now, about an instance that is there; the files stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from governor.contracts.events import InterruptionEvent, LifecycleEvent, notice_of, queued_event
from governor.contracts.parsing import parse
from governor.domain.events.notice import ScheduledChange
from local.fleet import Member
from local.samples import happening, moved_to

EVENTS = Path(__file__).parents[2] / "events"
NOW = datetime(2027, 3, 1, 9, 30, 15, 250_000, tzinfo=UTC)
SENT = NOW.replace(microsecond=0)


@dataclass
class FakeScene:
    """Keeps what was launched, and the lifecycle hooks that were set up."""

    launched: list[Member] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)

    @property
    def cloud(self) -> FakeScene:
        """Is its own cloud."""
        return self

    def client(self, service: str) -> FakeScene:
        """Is its own client."""
        assert "autoscaling" == service
        return self

    def put_lifecycle_hook(self, **given: Any) -> None:
        """As Auto Scaling's."""
        self.hooks.append(f"{given['AutoScalingGroupName']}/{given['LifecycleHookName']}")

    def launch(self, members: Iterable[Member], now: datetime) -> None:
        """As a scene's."""
        assert now == NOW
        self.launched += members


def made(name: str) -> tuple[Any, FakeScene, list[str]]:
    """The event that a sample becomes, and what was made for it."""
    scene = FakeScene()
    event, notes = happening(scene, json.loads((EVENTS / f"{name}.json").read_text()), NOW)  # type: ignore[arg-type]
    return event, scene, notes


def test_all_times_keep_their_distance() -> None:
    """In either form, and in the messages of a queue."""
    event, _, notes = made("handle_notice/retirement")
    change = notice_of(event)
    assert isinstance(change, ScheduledChange)
    (notice,) = change.notices.values()
    assert (SENT + timedelta(days=14, hours=6), SENT - timedelta(minutes=2)) == (notice.at, notice.said_at)
    assert "moved" in notes[0]

    event, _, _ = made("handle_spot_interruption/capacity-reservation")
    warned = parse(InterruptionEvent, event).to_domain()
    assert (SENT, SENT + timedelta(minutes=2)) == (warned.at, warned.stated_end)

    event, _, _ = made("handle_spot_interruption/batch")
    for record in event["Records"]:
        assert parse(InterruptionEvent, queued_event(record["body"])).to_domain().at == SENT


@pytest.mark.parametrize(
    ("name", "lifecycle", "spot_request_type"),
    [
        ("handle_spot_interruption/terminate", "spot", "one-time"),
        ("handle_spot_interruption/stop", "spot", "persistent"),
        ("handle_spot_interruption/hibernate", "spot", "persistent"),
        ("handle_spot_interruption/capacity-reservation", "interruptible-capacity-reservation", None),
        ("handle_rebalance_recommendation/recommended", "spot", "one-time"),
        ("handle_lifecycle_action/scale-in", "on-demand", None),
        ("handle_notice/retirement", "on-demand", None),
    ],
)
def test_the_instance_is_of_the_kind_that_gets_such_an_event(
    name: str, lifecycle: str, spot_request_type: str | None
) -> None:
    """By the id that the sample names, governed, and with a disk for data."""
    _, scene, notes = made(name)

    (member,) = scene.launched
    assert "i-0123456789abcdef0" == member.instance_id
    assert (lifecycle, spot_request_type, True) == (
        member.lifecycle,
        member.spot_request_type,
        member.selected,
    )
    assert f"i-0123456789abcdef0 runs, {lifecycle}" in notes[1]


def test_a_member_of_a_group_comes_with_the_groups_hook() -> None:
    """The function reads how long that waits."""
    event, scene, _ = made("handle_lifecycle_action/scale-in")
    action = parse(LifecycleEvent, event)

    assert [f"{action.group}/{action.hook}"] == scene.hooks
    assert scene.launched[0].all_tags["aws:autoscaling:groupName"] == action.group
    assert action.to_domain().at == SENT


def test_each_warning_of_a_batch_has_its_instance() -> None:
    """As many as it names."""
    _, scene, _ = made("handle_spot_interruption/batch")

    assert ["i-0123456789abcdef1", "i-0123456789abcdef2"] == [m.instance_id for m in scene.launched]


@pytest.mark.parametrize("sample", sorted(EVENTS.rglob("*.json")), ids=lambda path: path.stem)
def test_every_sample_can_be_tried(sample: Path) -> None:
    """What was sent at no time stays as it is; malformed ones stay malformed."""
    event, scene, notes = made(sample.relative_to(EVENTS).with_suffix("").as_posix())
    given = json.loads(sample.read_text())

    if not notes:
        assert given == event
    if isinstance(given, dict) and "time" not in given and "Records" not in given:
        assert (given, None) == moved_to(given, NOW)
        assert [] == scene.launched
