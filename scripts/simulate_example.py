"""Writes the example of docs/simulate.md anew, from a made-up fleet: three kinds of work over two
weeks.

Its report is written to build/simulate.html, to look at.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from governor.core.instance import Volume
from governor.policy.document import PolicyBook, parse_policy
from simulation import report
from simulation.outcome import Replay
from simulation.page import page
from simulation.recording import Recording
from simulation.replay import replay
from simulation.tradeoff import other_waits
from tests.builders import make_instance
from tests.unit.simulation.builders import BUSY, HOLE, HOUR, IDLE, SHAPE, START, make_recording

ROOT = Path(__file__).parent.parent
PAGE, REPORT = ROOT / "docs" / "simulate.md", ROOT / "build" / "simulate.html"
POLICIES = ROOT / "examples" / "policies"
NAMES = ("sandbox-account", "training-cluster", "notebooks")
DELAY = timedelta(minutes=30)
MADE_AT = datetime(2026, 11, 16, 9, tzinfo=UTC)
INSTANCES = 24
_DAYS, _SEED = 14, 11
_TEAMS = ("vision", "search", "speech")
_SHAPE = replace(SHAPE, instance_type="p3.2xlarge", local_nvme="")


def fleet() -> list[Recording]:
    """Jobs with pauses; notebooks on workdays, some forgotten over night; runs a few times a
    week."""
    chance = random.Random(_SEED)  # noqa: S311 - made-up work, not a secret
    return [_recording(number, chance) for number in range(INSTANCES)]


def _recording(number: int, chance: random.Random) -> Recording:
    team = _TEAMS[number % len(_TEAMS)]
    instance = make_instance(
        instance_id=f"i-{number:017x}",
        instance_type=_SHAPE.instance_type,
        launch_time=START - timedelta(days=30),
        tags={
            "Purpose": "GPU-Workload",
            "Name": f"{team}-{number // len(_TEAMS) + 1}",
            "Owner": team,
        },
        volumes=(Volume(f"vol-{number:017x}", "/dev/xvda", True, 200),),
    )
    work = (_jobs, _workdays, _runs)[number % len(_TEAMS)]
    values = work(chance)[: _DAYS * 24 * HOUR]
    silent, until = sorted(chance.randrange(len(values)) for _ in range(2))
    until = min(until, silent + 6 * HOUR)
    values[silent:until] = [HOLE] * (until - silent)
    return make_recording(values, instance=instance, price="3.06", shape=_SHAPE)


def _stretches(chance: random.Random, busy_hours: float, quiet_hours: float) -> list[float]:
    values: list[float] = []
    while len(values) < _DAYS * 24 * HOUR:
        values += [BUSY] * (1 + round(chance.expovariate(1 / (busy_hours * HOUR))))
        values += [IDLE] * (1 + round(chance.expovariate(1 / (quiet_hours * HOUR))))
    return values


def _jobs(chance: random.Random) -> list[float]:
    return _stretches(chance, 14, 3)


def _runs(chance: random.Random) -> list[float]:
    return _stretches(chance, 5, 20)


def _workdays(chance: random.Random) -> list[float]:
    values: list[float] = []
    for bin_number in range(_DAYS * 24 * HOUR):
        day, hour = divmod(bin_number // HOUR, 24)
        works = day % 7 < 5 and 9 <= hour < 18 and chance.random() < 0.3
        values.append(BUSY if works else IDLE)
    return values


def replays(recordings: Sequence[Recording], names: Sequence[str] = NAMES) -> list[Replay]:
    """The example policies over the fleet."""
    return [replay(name, _policy(name), recordings, approval_delay=DELAY) for name in names]


def _policy(name: str) -> PolicyBook:
    return parse_policy((POLICIES / f"{name}.yaml").read_text(encoding="utf-8"))


def table() -> str:
    """As `governor simulate` prints it."""
    summaries = [report.summarize(one) for one in replays(fleet())]
    lead = [report.sentence(one) for one in report.by_saving(summaries)]
    return "\n".join([*lead, "", report.table(summaries)])


def html(instances: int = INSTANCES) -> str:
    """The report of one policy, with other waits, over so many instances."""
    recordings, name = fleet()[:instances], "notebooks"
    (one,) = replays(recordings, [name])
    waits = other_waits(
        _policy(name), recordings, approval_delay=DELAY, progress=lambda _, __, ___: None
    )
    notes = [f"Made-up data: {instances} instances over {_DAYS} days, three kinds of work."]
    return page([one], notes, MADE_AT, waits)


def page_with(shown: str) -> str:
    """The page of the docs with this table under its heading."""
    text = PAGE.read_text(encoding="utf-8")
    return re.sub(
        r"(## Compare policies\n.*?```\n).*?(?=```)",
        lambda m: f"{m[1]}{shown}\n",
        text,
        flags=re.DOTALL,
    )


def main() -> None:
    """Write both."""
    PAGE.write_text(page_with(table()), encoding="utf-8")
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(html() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
