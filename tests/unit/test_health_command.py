"""`governor health` over a fleet."""

from __future__ import annotations

import json
import re
from argparse import Namespace

import pytest

from cli import health
from governor.health.read_health import HealthReading
from governor.policy.document import parse_policy
from tests.builders import TARGET
from tests.unit.worlds.health_world import BINS, HealthWorld, flat

OF_INSTANCE = re.compile(r"^\w+ +.*\((i-\w+), ")
"""The line of an instance, with its id."""


def world() -> HealthWorld:
    """One sound, one lost, one wasted, one that cannot be read, one that is silent."""
    made = HealthWorld()
    made.add(1)
    made.publish(made.add(2, gpus=2), [{}, {"lost": flat(1)}])
    made.publish(made.add(3, hardware=False), [{"utilization": flat(30)}], hardware=False)
    made.add(4, gpus=0)
    return made


def looked(made: HealthWorld) -> list[HealthReading]:
    """Return what the command finds."""
    return health.look(
        TARGET,
        parse_policy("health: {check_every_minutes: 60}"),
        made.ec2,
        made.metrics,
        made.clock.now(),
    )


def test_the_gravest_come_first_and_what_is_unknown_before_what_is_sound(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a table with sentences, and a count at the end."""
    health._print(looked(world()), as_json=False)
    out = capsys.readouterr().out.splitlines()

    ids = [f"i-{number:017x}" for number in (2, 3, 4, 1)]
    assert ids == [found[1] for line in out if (found := OF_INSTANCE.search(line))]
    assert out[0] == f"critical node-2 (i-{2:017x}, g5.xlarge)"
    assert "GPU 1: does not answer" in out[1]
    assert "1 critical, 1 advice, 1 unknown, 1 sound" == out[-1]


def test_it_says_whose_faults_cannot_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """The CloudWatch agent publishes none: a machine of its own may be sound and have lost
    memory."""
    health._print(looked(world()), as_json=False)
    out = capsys.readouterr().out

    assert "2 of 4 publish no Xid, ECC, throttling or lost GPUs" in out
    marked = re.findall(r"\((i-\w+), .*\)\n +faults cannot be seen", out)
    assert [f"i-{number:017x}" for number in (3, 4)] == marked

    made = HealthWorld()
    made.add(1)
    health._print(looked(made), as_json=False)
    assert "Xid" not in capsys.readouterr().out


def test_an_instance_whose_faults_cannot_be_seen_is_unknown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quiet GPUs may have lost memory all the same. That is no failure: its status is its own."""
    made = HealthWorld()
    made.publish(made.add(1, hardware=False), [{"utilization": flat(1)}], hardware=False)
    monkeypatch.setattr(health, "over_the_fleet", lambda *_: looked(made))
    monkeypatch.setattr(health, "Clients", object)

    assert ["unknown"] == [health._state(reading) for reading in looked(made)]
    assert 4 == health.health(Namespace(json=False))
    out = capsys.readouterr().out
    assert "sound" not in out
    assert out.endswith(
        "Nothing that was read is wrong. 1 instance may have faults that cannot be seen: exit "
        "status 4.\n"
    )


def test_something_wrong_counts_before_what_is_unknown() -> None:
    """And where all is sound, nothing is left to look at."""
    assert 1 == health.exit_status(looked(world()))
    sound = HealthWorld()
    sound.add(1)
    assert 0 == health.exit_status(looked(sound))


def test_a_right_that_lacks_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A figure that could not be read may hide a fault, so the answer is incomplete."""
    made = HealthWorld()
    made.add(1)
    made.metrics.broken["GPULost"] = "AccessDenied: cloudwatch:GetMetricData"

    assert 4 == health.exit_status(looked(made))


def test_who_fell_silent_is_not_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its series are still listed; whoever asks by script must learn that nothing is known."""
    made = HealthWorld()
    made.add(1)
    for series in (made.metrics.published, made.metrics.statistics):
        for key in series:
            series[key] = (None,) * BINS  # type: ignore[index]
    monkeypatch.setattr(health, "over_the_fleet", lambda *_: looked(made))
    monkeypatch.setattr(health, "Clients", object)

    assert ["unknown"] == [health._state(one) for one in looked(made)]
    assert 4 == health.health(Namespace(json=True))


def test_machines_get_everything_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The answer says whether faults would be seen at all."""
    health._print(looked(world()), as_json=True)
    found = json.loads(capsys.readouterr().out)

    assert ["critical", "advice", "unknown", "sound"] == [one["state"] for one in found]
    assert [True, False, False, True] == [one["faults_are_seen"] for one in found]
    assert "lost" == found[0]["findings"][0]["kind"]


def test_names_and_reasons_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever may tag an instance could write them."""
    made = HealthWorld()
    instance_id = made.add(1)
    made.ec2.instances[instance_id].tags["Name"] = "n\x1b[2J"  # type: ignore[index]
    made.metrics.broken["GPULost"] = "Thr\x1b[2Jottling"
    health._print(looked(made), as_json=False)

    assert "\x1b" not in capsys.readouterr().out
