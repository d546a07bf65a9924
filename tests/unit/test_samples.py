"""Samples of `events/` happen now, about an instance that is there; the files stay as they are."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from governor.core.parsing import parse
from governor.events.contract import InterruptionEvent, LifecycleEvent, notice_of, queued_event
from governor.events.model.notice import ScheduledChange
from local.demo.fleet import Member
from local.demo.samples import happening
from local.demo.seeds import ANSWERS, STOP, TERMINATE, way_to

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
SAM_PYTHON = ROOT / ".tools/sam/bin/python"
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
    function, sample = name.partition("/")[0], json.loads((EVENTS / f"{name}.json").read_text())
    event, notes = happening(scene, function, sample, NOW)  # type: ignore[arg-type]
    return event, scene, notes


def test_all_times_keep_their_distance() -> None:
    """In either form, and in the messages of a queue."""
    event, _, notes = made("handle_notice/retirement")
    change = notice_of(event)
    assert isinstance(change, ScheduledChange)
    (notice,) = change.notices.values()
    assert (SENT + timedelta(days=14, hours=6), SENT - timedelta(minutes=2)) == (
        notice.at,
        notice.said_at,
    )
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
        (
            "handle_spot_interruption/capacity-reservation",
            "interruptible-capacity-reservation",
            None,
        ),
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


OF_AWS = ("handle_lifecycle_action", "handle_notice", "handle_rebalance_recommendation")
"""They need no episode, as the batches of a fourth do not. The others:
tests/integration/test_samples.py."""


@pytest.mark.parametrize(
    "sample",
    sorted(
        path
        for name in (*OF_AWS, "handle_spot_interruption")
        for path in EVENTS.glob(f"{name}/*.json")
    ),
    ids=lambda path: path.stem,
)
def test_every_sample_can_be_tried(sample: Path) -> None:
    """Malformed ones stay malformed."""
    event, _, notes = made(sample.relative_to(EVENTS).with_suffix("").as_posix())
    given = json.loads(sample.read_text())

    assert event.keys() == given.keys()
    assert "moved" in notes[0]
    if sample.stem.startswith("malformed-"):
        assert {*given.get("detail", {})} == {*event.get("detail", {})}


@pytest.mark.parametrize(
    ("function", "event", "plan", "before"),
    [
        ("open_episode", {}, "stop", 0),
        ("handle_execution_end", {}, "stop", 1),
        ("ask_owner", {"stage": "ask"}, "stop", 1),
        ("ask_owner", {"stage": "remind"}, "stop", 2),
        ("conclude_approval", {}, "expired", 2),
        ("record_outcome", {"outcome": "expired"}, "expired", 3),
        ("record_outcome", {"outcome": "kept"}, "kept", 3),
        ("record_outcome", {"outcome": "void"}, "stop", 2),
        ("recheck_episode", {"before": "stop"}, "stop", 3),
        ("put_away", {"action": "stop"}, "stop", 4),
        ("take_snapshot", {}, "terminate", 4),
        ("put_away", {"action": "terminate"}, "terminate", 7),
        ("check_progress", {"until": "terminated"}, "terminate", 8),
        ("record_outcome", {"outcome": "stopped"}, "stop", 6),
        ("undo_episode", {}, "stop", 7),
    ],
)
def test_a_sample_comes_where_the_state_machine_would_send_it(
    function: str, event: dict[str, str], plan: str, before: int
) -> None:
    """Every step before it is done by the deployed functions."""
    kept, _, expired = ANSWERS
    plans = {"stop": STOP, "terminate": TERMINATE, "kept": kept, "expired": expired}
    assert (plans[plan], before) == way_to(function, event)


@pytest.mark.skipif(
    not SAM_PYTHON.exists(), reason="SAM is not installed here: make build installs it"
)
def test_sam_finds_every_function_and_no_route() -> None:
    """With samconfig.toml's language extensions; start-api serves nothing. What no file of
    environment values names is the logical id of a resource, which is nothing that is deployed."""
    code = (
        "from samcli.lib.providers.sam_stack_provider import SamLocalStackProvider as Stacks\n"
        "from samcli.lib.providers.api_provider import ApiProvider\n"
        "from samcli.lib.providers.sam_function_provider import SamFunctionProvider\n"
        "stacks, _ = Stacks.get_stacks('template.yaml', language_extensions_enabled=True)\n"
        "print(len(ApiProvider(stacks).api.routes))\n"
        "from samcli.commands.local.lib.local_lambda import LocalLambdaRunner as Runner\n"
        "known = SamFunctionProvider(stacks)\n"
        "given = {'PutAwayFunction': {'TABLE_NAME': 'of-the-stack'}}\n"
        "runner = Runner(None, known, '.', None, env_vars_values=given)\n"
        "found = runner._make_env_vars(known.get('PutAwayFunction')).resolve()\n"
        "print(found['TABLE_NAME'], found['POLICY_BUCKET'])\n"
        "print(*(one.name for one in known.get_all()))"
    )
    keys = {
        "AWS_ACCESS_KEY_ID": "none",
        "AWS_SECRET_ACCESS_KEY": "none",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    found = subprocess.run(
        [SAM_PYTHON, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=keys
    ).stdout.split()
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())["default"]

    assert ["0", "of-the-stack", "PolicyBucket"] == found[:3]
    assert {path.name for path in (ROOT / "functions").iterdir() if path.is_dir()} == {
        re.sub("(?<!^)([A-Z])", r"_\1", name.removesuffix("Function")).lower() for name in found[3:]
    }
    assert config["local_invoke"]["parameters"] == {"language_extensions": True}
