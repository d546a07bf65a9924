"""Silence is no idleness: holes of every length and place, by every rule of every shipped example.

Instances publish one sample a minute for each GPU and are quiet all the time; CloudWatch keeps the
samples by the minute of their stamp. Each is silent once. What may follow is said by `is_measured`,
written from the promise and not from the product: the two newest complete bins of 5 minutes before
now minus the lag hold a reading of every GPU, 80% of the time is measured, and no more than 15
minutes in a row are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from pathlib import Path

import pytest

from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.policy.document import parse_policy
from governor.policy.model.acting import PlanRule
from governor.policy.model.policy import Mode, Policy
from governor.verdict.model import VerdictKind
from tests.builders import NOW, make_instance
from tests.properties import step
from tests.twins import MemoryMetrics
from tests.unit.worlds.builders import opener
from tests.unit.worlds.fleet_world import FleetWorld

ROOT = Path(__file__).parents[3]
UTILIZATION, MEMORY = "nvidia_smi_utilization_gpu", "nvidia_smi_memory_used"
POWER = "nvidia_smi_power_draw"
EC2 = ("CPUUtilization", "NetworkIn", "NetworkOut")
DAY = 24 * 60
ORIGIN = int(NOW.timestamp()) // 60 - DAY
"""The minute of bit 0."""
ALWAYS = (1 << DAY + 1) - 1
"""A sample in every minute of the day before now."""
EVERY_5 = sum(1 << bit for bit in range(DAY - 5) if (ORIGIN + bit) % 5 == 0)
"""As EC2 publishes: a value for every five minutes that are over."""


@dataclass(frozen=True)
class Agent:
    """The publishing of one instance: a bit for each minute with a sample, of every GPU and of
    EC2."""

    gpus: tuple[int, ...]
    ec2: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(EC2, EVERY_5))
    works: int = 0
    """Minutes in which the last GPU works."""

    def stamped(self, ahead: int) -> Agent:
        """The same with a publisher's clock that is so many minutes ahead, or behind."""

        def moved(bits: int) -> int:
            return bits << ahead if ahead > 0 else bits >> -ahead

        return replace(self, gpus=tuple(map(moved, self.gpus)), works=moved(self.works))

    def without(self, first: int, length: int, who: str = "all") -> Agent:
        """The same, silent for `length` minutes from `first` minutes before now on."""

        def gap(begin: int, minutes: int) -> int:
            place = max(0, DAY + 1 - begin)
            return ~(((1 << max(0, minutes)) - 1) << place)

        if who in EC2:
            return replace(self, ec2={**self.ec2, who: self.ec2[who] & gap(first, length)})
        *others, last = self.gpus
        if who == "all":
            return replace(self, gpus=tuple(gpu & gap(first, length) for gpu in self.gpus))
        if who == "one":
            return replace(self, gpus=(*others, last & gap(first, length)))
        half = length // 2  # one GPU, and as soon as it is back another
        return replace(
            self,
            gpus=(
                others[0] & gap(first, half),
                *others[1:],
                last & gap(first - half, length - half),
            ),
        )


@cache
def counted(masks: tuple[int, ...], size: int, begin: int, bins: int) -> tuple[int, ...]:
    """How many samples each period of so many minutes holds."""
    places = range(begin, begin + size * bins, size)
    return tuple(
        sum((mask >> place & (1 << size) - 1).bit_count() for mask in masks) for place in places
    )


@cache
def shown(
    masks: tuple[int, ...], works: int, value: float, size: int, begin: int, bins: int
) -> tuple[float | None, ...]:
    """Return the value of each period that holds a sample: 90 where the GPU works in it."""
    counts = counted(masks, size, begin, bins)
    busy = counted((works,), size, begin, bins) if works else (0,) * bins
    return tuple(
        (90.0 if at_work else value) if count else None
        for count, at_work in zip(counts, busy, strict=True)
    )


@cache
def sample_counts(
    masks: tuple[int, ...], size: int, begin: int, bins: int
) -> tuple[float | None, ...]:
    """Return the number of samples of each period that holds one."""
    return tuple(float(count) if count else None for count in counted(masks, size, begin, bins))


@dataclass
class Recorded(MemoryMetrics):
    """CloudWatch over samples: by the minute, summed up for the periods that are asked for."""

    agents: dict[str, Agent] = field(default_factory=dict)
    by_gpu: bool = True
    """A series for each GPU; else one for all, whose samples are counted."""
    held_mib: float | None = None

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        found = {query.key: self._series(query, window) for query in queries}
        return MetricAnswer(
            {key: row for key, row in found.items() if row.count(None) < len(row)}, {}
        )

    def _series(self, query: MetricQuery, window: Window) -> tuple[float | None, ...]:
        agent, index = (
            self.agents[dict(query.dimensions)["InstanceId"]],
            dict(query.dimensions).get("index"),
        )
        masks: tuple[int, ...]
        works = 0
        if query.metric in EC2:
            masks, value = (agent.ec2[query.metric],), 1.0
        elif query.metric not in (UTILIZATION, MEMORY, POWER) or (index is None) == self.by_gpu:
            masks, value = (), 0.0
        else:
            masks = agent.gpus if index is None else (agent.gpus[int(index)],)
            value, works = 1.0, agent.works if index in (None, str(len(agent.gpus) - 1)) else 0
        if query.metric == POWER:
            works = 0
        if query.metric == MEMORY:
            masks, value, works = masks if self.held_mib else (), self.held_mib or 0.0, 0
        size = int(window.period / timedelta(minutes=1))
        begin = int(window.start.timestamp()) // 60 - ORIGIN
        if query.statistic == "SampleCount":
            return sample_counts(masks, size, begin, window.bins)
        return shown(masks, works, value, size, begin, window.bins)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        namespace, metric, _ = wanted
        if namespace is None or metric != UTILIZATION or not self.by_gpu:
            return {}
        return {
            one: [
                Listed(namespace, metric, (("InstanceId", one), ("index", str(index))))
                for index in range(len(agent.gpus))
            ]
            for one, agent in self.agents.items()
            if instance_id in (None, one)
        }


def is_measured(agent: Agent, policy: Policy, window: int) -> bool:
    """Return whether so many minutes are measured as the promise says."""
    size, end = (
        policy.metrics.period_seconds // 60,
        int(NOW.timestamp()) - policy.metrics.lag_seconds,
    )

    def bins(bits: int, size: int, minutes: int, until: int) -> str:
        last = until // 60 // size * size - ORIGIN
        return "".join(
            ".x"[bits >> last - size * (back + 1) & (1 << size) - 1 != 0]
            for back in range(minutes // size)
        )

    def is_enough(seen: str, size: int) -> bool:
        return seen.count("x") >= 0.8 * len(seen) and "." * (15 // size + 1) not in seen

    gpus = [bins(gpu, size, window, end) for gpu in agent.gpus]
    together = "".join(".x"[set(row) == {"x"}] for row in zip(*gpus, strict=True))
    last = (
        end // 60 // size * size
    ) * 60  # bins of 5 minutes, the newest of which ends with the window
    newest = [
        bits >> last // 60 - ORIGIN - 5 * back & 0b11111 for bits in agent.gpus for back in (1, 2)
    ]
    for bits in agent.ec2.values():
        if bits.bit_length() + 4 < (NOW.timestamp() - 20 * 60) / 60 - ORIGIN:
            return (
                False  # its newest value is of five minutes that ended longer than 20 minutes ago
            )
        if not is_enough(bins(bits, 5, window, end), 5):
            return False
    return all(newest) and all(is_enough(seen, size) for seen in (*gpus, together))


def silences(agent: Agent, window: int) -> Iterator[Agent]:
    """The same instance with a hole: of all that matters in the newest hour, and here and there
    before."""
    yield agent
    for who in ("all", "one", "relay"):
        if who == "relay" and len(agent.gpus) == 1:
            continue
        for first in (5, 10, 15, 20, 30, 45):
            yield from (agent.without(first, length, who) for length in (5, 10, 15, 20, 60))
        for first in range(60, window + 20, max(25, window // 6)):
            yield from (agent.without(first, length, who) for length in (15, 20, window // 4))
    for first in range(
        4, 16, 2
    ):  # minutes at the end of one GPU: what a count of samples could overlook
        yield from (agent.without(first, length, "one") for length in (3, 8, 11, 13))
    for who in EC2[:2]:
        for first in (10, 25, 30, 90):
            yield from (agent.without(first, length, who) for length in (5, 15, 20))
    for length, every in ((5, 20), (5, 25), (10, 40), (15, 80), (15, 60)):
        combed = agent
        for first in range(0, window, every):
            combed = combed.without(first + length, length, "one")
        yield combed


EXAMPLES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))
TYPES = {1: "g5.xlarge", 4: "g5.12xlarge", 8: "p4d.24xlarge"}


@cache
def shipped() -> dict[str, Policy]:
    """Every policy that the examples give to some instance, and the defaults."""
    found = {"defaults": Policy(mode=Mode.ASK)}
    for path in EXAMPLES:
        book = parse_policy(path.read_text())
        found[path.stem] = book.base().policy
        for override in book.overrides:
            tags = {"Purpose": "GPU-Workload", **override.match.tags}
            found[override.name] = book.applied_to(make_instance(tags=tags)).policy
    return found


@cache
def differing() -> list[str]:
    """Those that judge idleness differently."""
    found = {
        (one.idle, one.vetoes, one.approval, one.metrics, one.mode): name
        for name, one in shipped().items()
    }
    return sorted(found.values())


def fleet(
    policy: Policy, agents: Sequence[Agent], *, by_gpu: bool, released: bool = False
) -> FleetWorld:
    """An instance for each agent."""
    world = FleetWorld(policy)
    metrics = Recorded(by_gpu=by_gpu, held_mib=1.0 if released else None)
    for number, agent in enumerate(agents):
        instance = make_instance(
            instance_id=f"i-{number:017x}", instance_type=TYPES[len(agent.gpus)]
        )
        world.ec2.add(instance)
        metrics.agents[instance.instance_id] = agent
    world.sweep_target = replace(
        world.sweep_target, gather=replace(world.sweep_target.gather, metrics=metrics)
    )
    return world


def asked(world: FleetWorld) -> set[str]:
    """About whom a sweep would ask."""
    world.sweep()
    return {name[len("123456789012-us-east-1-") :][:19] for name in world.workflow.executions}


def acted_on(world: FleetWorld) -> set[str]:
    """Whom a recheck, and the opening of an episode, find idle."""
    look = opener(world).inspect
    found = {
        one: look.judge(instance, world.policies.policy, NOW)[0]
        for one, instance in world.ec2.instances.items()
    }
    return {one for one, verdict in found.items() if verdict.kind is VerdictKind.IDLE}


def check(
    policy: Policy, agents: Sequence[Agent], *, by_gpu: bool, released: bool = False, minutes: int
) -> None:
    """Nobody is asked about, and nothing is done to, what was not measured; what has no hole is
    both."""
    world = fleet(policy, agents, by_gpu=by_gpu, released=released)
    measured = {
        f"i-{number:017x}"
        for number, agent in enumerate(agents)
        if is_measured(agent, policy, minutes)
    }
    by_sweep, by_recheck = asked(world), acted_on(world)

    assert by_sweep <= measured
    assert by_recheck <= measured
    assert f"i-{0:017x}" in by_sweep & by_recheck
    if by_gpu:  # nor is anybody kept from being asked by what the promise allows
        of_gpus = {one for one in measured if agents[int(one[2:], 16)].ec2 == agents[0].ec2}
        assert of_gpus <= by_recheck


def asks_after(policy: Policy, *, released: bool = False) -> int:
    """The minutes that must be measured: the longer of both settings."""
    rule = policy.approval
    after = rule.ask_after_released_minutes if released else rule.ask_after_minutes
    return max(policy.idle.window_minutes, after)


EVERY_HOLE = step(6)
"""Every sixth hole is tried by each rule, each rule begins at another one, and all of them in
`make soak`."""
SHAPES = {
    "4 GPUs": (True, 4, 300),
    "8 in one": (False, 8, 300),
    "by the minute": (True, 4, 60),
    "1 GPU": (False, 1, 300),
}


def some_of(agents: Sequence[Agent], every: int, name: str) -> list[Agent]:
    """Return the first one, which has no hole, and one in so many others.

    Policies of other names begin at another one, so that all policies together try each hole.
    """
    whole = agents[0]
    with_holes = agents[1:]
    first = differing().index(name) % every
    return [whole, *with_holes[first::every]]


def with_period(policy: Policy, seconds: int) -> Policy:
    return replace(policy, metrics=replace(policy.metrics, period_seconds=seconds))


def acting_on_silence(policy: Policy) -> Policy:
    """It never terminates."""
    return replace(policy, plan=PlanRule(), approval=replace(policy.approval, on_expiry="act"))


@pytest.mark.repeats
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", differing())
def test_no_hole_is_idleness_by_any_shipped_policy(name: str, shape: str) -> None:
    """Failed for 8 GPUs in one series: one silent for 8 of the newest 10 minutes was a missed
    collection."""
    by_gpu, gpus, period = SHAPES[shape]
    policy = with_period(shipped()[name], period)
    minutes = asks_after(policy)
    every = EVERY_HOLE * (1 if period == 300 else 3)
    agents = some_of(list(silences(Agent((ALWAYS,) * gpus), minutes)), every, name)
    check(policy, agents, by_gpu=by_gpu, minutes=minutes)


@pytest.mark.repeats
@pytest.mark.parametrize("rule", ["released", "auto", "silence acts"])
@pytest.mark.parametrize("name", differing())
def test_no_hole_is_idleness_by_any_rule(name: str, rule: str) -> None:
    """All memory is released: that shortens what must be measured where a person says yes, and only
    there."""
    policy = replace(shipped()[name], mode=Mode.AUTO if rule == "auto" else Mode.ASK)
    if rule == "silence acts":
        policy = acting_on_silence(policy)
    minutes = asks_after(policy, released=rule == "released")
    agents = some_of(list(silences(Agent((ALWAYS,) * 4), minutes)), 2 * EVERY_HOLE, name)
    check(policy, agents, by_gpu=True, released=True, minutes=minutes)


@pytest.mark.repeats
@pytest.mark.parametrize("lag", [120, 900])
@pytest.mark.parametrize("ahead", [-10, 10])
def test_no_hole_is_idleness_where_a_publishers_clock_is_wrong(ahead: int, lag: int) -> None:
    """By the stamps, which are all there is. Behind, the end is only measured with a longer lag."""
    policy = replace(Policy(mode=Mode.ASK), metrics=replace(Policy().metrics, lag_seconds=lag))
    holes = some_of(list(silences(Agent((ALWAYS,) * 4), 180)), step(3), "defaults")
    agents = [one.stamped(ahead) for one in holes]
    world = fleet(policy, agents, by_gpu=True)
    measured = {
        f"i-{number:017x}" for number, agent in enumerate(agents) if is_measured(agent, policy, 180)
    }
    by_sweep, by_recheck = asked(world), acted_on(world)

    assert by_sweep | by_recheck <= measured
    assert (ahead > 0 or lag > 600) == bool(by_sweep) == bool(by_recheck)


@pytest.mark.parametrize("ahead", [-10, -5, 0, 5, *range(7, 11), 15, 60, 119])
@pytest.mark.parametrize("by_gpu", [True, False])
def test_work_up_to_this_minute_is_seen_where_a_publishers_clock_is_wrong(
    ahead: int, by_gpu: bool
) -> None:
    """Failed for clocks more than 7 minutes ahead: nobody looked at the stamps of their last
    minutes.

    Where a clock is more than 11 minutes ahead, nothing is done, whether or not its instance works.
    """
    whole = Agent((ALWAYS,) * 4)
    agents = [replace(whole, works=1 << DAY - back).stamped(ahead) for back in range(31)]
    policy = replace(Policy(mode=Mode.AUTO), metrics=replace(Policy().metrics, lag_seconds=900))

    assert set() == acted_on(fleet(policy, agents, by_gpu=by_gpu))
