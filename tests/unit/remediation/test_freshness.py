"""Without a person's approval, a step begins only on readings of every GPU that are minutes old."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import ApprovalStatus
from governor.core.errors import CloudError, Unavailable
from governor.core.instance import Target
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step
from governor.evidence.check_freshness import newest_readings, why_readings_are_stale
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Series, Window
from governor.evidence.ports import MetricAnswer, MetricQuery
from governor.evidence.rules.freshness import (
    OLDEST_5_MINUTE_READING_MINUTES,
    OLDEST_READING_MINUTES,
    newest_reading_offset,
)
from governor.policy.model.acting import Action
from governor.policy.model.judging import Vetoes
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.changes import settings_of
from tests.builders import NOW, make_instance
from tests.twins import MemoryMetrics
from tests.unit.worlds.world import APPROVAL_ID, World

READ_AGAIN = timedelta(minutes=7)
UTILIZATION = "nvidia_smi_utilization_gpu"
NOON = NOW.replace(minute=0, second=0)


def ago(minutes: float) -> datetime:
    """Return a whole minute, at least that many minutes before the recheck."""
    return NOW.replace(second=0) - timedelta(minutes=minutes)


@dataclass
class Dated(MemoryMetrics):
    """CloudWatch in memory, where some series end earlier than others, or are dated ahead of
    time."""

    newest: dict[str, datetime] = field(default_factory=dict)
    """End of the newest period with a reading, by GPU or by metric."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """As the twin does, and no reading after the newest one."""
        answer = super().read(target, queries, window)
        cut = {query.key: self._until(query) for query in queries}
        series = {key: _cut(one, window, cut[key]) for key, one in answer.series.items()}
        return MetricAnswer(series, answer.problems)

    def _until(self, query: MetricQuery) -> datetime | None:
        gpu = dict(query.dimensions).get("index", "")
        return self.newest.get(gpu, self.newest.get(query.metric))


def _cut(series: Series, window: Window, until: datetime | None) -> Series:
    if until is None:
        return series
    # As CloudWatch: a longer period has a value if any minute of it has one.
    begins = (window.bin_end(number) - window.period for number in range(window.bins))
    cut = []
    for begin, value in zip(begins, series, strict=True):
        published = 1.0 if value is None else value
        cut.append(published if begin < until else None)
    return tuple(cut)


def auto(**more: Any) -> World:
    """Mode auto: the notice period is over, and nobody has held it."""
    return World(mode=Mode.AUTO, metrics=Dated(), **more)


def expired(**more: Any) -> World:
    """Nobody answered in time, and the policy takes that for a yes."""
    world = World(on_expiry="act", decide=False, metrics=Dated(), **more)
    world.state.void(APPROVAL_ID, "nobody answered in time", expired=True)
    return world


def pressed(**more: Any) -> World:
    """A person approved."""
    return World(metrics=Dated(), **more)


def ends(world: World, **newest: datetime) -> None:
    """Give each series its end."""
    metrics = world.metrics
    assert isinstance(metrics, Dated)
    metrics.newest |= newest


def publish_gpus(world: World, gpus: Sequence[int]) -> None:
    """A series for each of these GPUs, as the agent publishes them."""
    for number in gpus:
        names = {"InstanceId": world.instance.instance_id, "index": str(number), "name": "A100"}
        world.metrics.publish(UTILIZATION, names, [1.0] * 48)
        world.metrics.publish("nvidia_smi_power_draw", names, [50.0] * 48)


def with_eight(make: Callable[..., World], gpus: Sequence[int] = range(8)) -> World:
    """An instance with eight GPUs, of which these publish."""
    world = make(changes={"instance_type": "p4d.24xlarge"})
    publish_gpus(world, gpus)
    return world


def with_settings(world: World, metrics: Mapping[str, Any], **more: Any) -> World:
    """Under other settings of the metrics."""
    policy = world.policies.policy
    world.policies.policy = replace(policy, metrics=replace(policy.metrics, **metrics), **more)
    return world


def waits(world: World, why: str, before: Step = Step.STOP) -> None:
    """The step is not done, is checked again, and the reason says why."""
    checked = world.recheck(world.ref, before)
    assert (False, READ_AGAIN) == (checked.proceed, checked.wait)
    assert why in checked.reason
    assert [] == world.writes()


@pytest.mark.parametrize("make", [auto, expired])
def test_fresh_readings_let_an_unasked_step_through(make: Callable[..., World]) -> None:
    """In both ways to act without a person."""
    world = make()
    assert world.recheck(world.ref, Step.STOP).proceed
    assert with_eight(make).recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize("make", [auto, expired])
def test_one_gpu_of_eight_whose_newest_reading_is_6_minutes_old_waits(
    make: Callable[..., World],
) -> None:
    """Nobody knows what it has done since, however fresh the other seven are."""
    world = with_eight(make)
    ends(world, **{"3": ago(6)})

    waits(world, "the newest reading of GPU 3 ended at")
    waits(world, "without a person's approval it may be at most 5 min old")


@pytest.mark.parametrize(("seconds", "proceeds"), [(300, True), (301, False)])
def test_a_reading_may_have_ended_5_minutes_ago(seconds: int, proceeds: bool) -> None:
    """To the second, whenever the recheck comes."""
    world = auto()
    ends(world, **{UTILIZATION: NOON})
    world.clock.moment = NOON + timedelta(seconds=seconds)
    ends(world, CPUUtilization=NOON, NetworkIn=NOON, NetworkOut=NOON)

    assert proceeds == world.recheck(world.ref, Step.STOP).proceed


def test_a_gpu_that_publishes_no_series_waits() -> None:
    """Missing means wait, not refuse: the episode goes on when it publishes again."""
    world = with_eight(auto, range(7))

    waits(world, "only 7 of 8 GPUs published a reading lately")
    publish_gpus(world, [7])
    assert world.recheck(world.ref, Step.STOP).proceed


def test_gpus_of_an_unknown_number_wait() -> None:
    """No figure is made up for what is not known."""
    world = auto(changes={"instance_type": "p99.new"})
    publish_gpus(world, range(2))

    waits(world, "2 GPUs published a reading lately, and it is not known how many the instance has")


def test_a_gpu_that_fell_silent_for_longer_waits() -> None:
    """Its old series is still listed."""
    world = with_eight(auto)
    ends(world, **{"7": ago(400)})

    waits(world, "only 7 of 8 GPUs published a reading lately")


def test_no_reading_at_all_waits() -> None:
    """An outage of metrics is no end of the episode."""
    world = auto()
    world.metrics.published.clear()

    waits(world, "no GPU has published a reading in the last 30 minutes")


def test_one_series_for_several_gpus_does_not_show_each_of_them() -> None:
    """Its newest reading may be that of another GPU."""
    world = auto(changes={"instance_type": "p4d.24xlarge"})
    world.metrics.publish(
        UTILIZATION, {"InstanceId": world.instance.instance_id}, [8.0] * 48, "SampleCount"
    )

    waits(world, "publish a series for each GPU")


def test_a_person_who_approves_needs_no_such_reading() -> None:
    """The page says what they may not see; the recheck judges the same evidence as before."""
    world = pressed()
    ends(world, **{UTILIZATION: ago(6)})
    assert world.recheck(world.ref, Step.STOP).proceed
    rehearsal = World(mode=Mode.OBSERVE, metrics=Dated())
    ends(rehearsal, **{UTILIZATION: ago(6)})
    assert rehearsal.recheck(rehearsal.ref, Step.STOP).proceed


@pytest.mark.parametrize(("minutes", "proceeds"), [(9, True), (11, False)])
def test_readings_of_5_minutes_may_be_10_minutes_old(minutes: int, proceeds: bool) -> None:
    """An agent may collect every five minutes, as its policy says; here the window may end as long
    ago."""
    world = with_settings(auto(), {"collection_interval_seconds": 300, "lag_seconds": 600})
    world.clock.moment = NOON + timedelta(minutes=minutes)
    ends(world, **{UTILIZATION: NOON})

    checked = world.recheck(world.ref, Step.STOP)
    assert proceeds == checked.proceed
    if not proceeds:
        assert "it may be at most 10 min old" in checked.reason


@pytest.mark.parametrize(("minutes", "proceeds"), [(9, True), (10, True), (11, False)])
@pytest.mark.parametrize(
    ("metric", "words"), [("CPUUtilization", "CPU"), ("NetworkIn", "network traffic")]
)
def test_ec2s_own_figures_may_be_10_minutes_old(
    minutes: int, proceeds: bool, metric: str, words: str
) -> None:
    """EC2 publishes every five minutes; before, 20 minutes were enough."""
    world = auto()
    world.clock.moment = NOON + timedelta(minutes=minutes)
    ends(world, **{metric: NOON})

    checked = world.recheck(world.ref, Step.STOP)
    assert proceeds == checked.proceed
    if not proceeds:
        assert f"the newest reading of {words} ended at" in checked.reason
        assert READ_AGAIN == checked.wait


@pytest.mark.parametrize("make", [auto, expired])
def test_power_that_confirms_must_be_as_new_as_utilization(make: Callable[..., World]) -> None:
    """Low utilization alone stops nothing without a person's approval, so old power confirms
    nothing, either."""
    world = make()
    ends(world, nvidia_smi_power_draw=ago(OLDEST_READING_MINUTES + 2))
    waits(world, "the newest reading of power draw ended at")

    ends(world, nvidia_smi_power_draw=ago(1))
    assert world.recheck(world.ref, Step.STOP).proceed


def test_after_an_approval_power_may_be_old() -> None:
    """A person has looked at the instance."""
    world = pressed()
    ends(world, nvidia_smi_power_draw=ago(OLDEST_READING_MINUTES + 2))
    assert world.recheck(world.ref, Step.STOP).proceed


def test_a_missing_figure_waits() -> None:
    """As a missing GPU does. A figure that the policy does not require proves nothing either
    way."""
    world = auto()
    world.metrics.published = {
        key: one for key, one in world.metrics.published.items() if key[0] != "CPUUtilization"
    }

    waits(world, "the newest reading of CPU is missing")
    required = replace(world.policies.policy.vetoes, required=("network",))
    world.policies.policy = replace(world.policies.policy, vetoes=required)
    assert world.recheck(world.ref, Step.STOP).proceed


def test_a_required_figure_of_the_gpus_is_as_fresh_as_they_are() -> None:
    """Memory that is held again is work."""
    memory = "nvidia_smi_memory_used"
    vetoes = Vetoes(memory_used_percent=50.0, required=("memory",))
    world = with_settings(auto(), {}, vetoes=vetoes)
    world.metrics.publish(memory, {"InstanceId": world.instance.instance_id}, [1.0] * 48)
    assert world.recheck(world.ref, Step.STOP).proceed
    ends(world, **{memory: ago(6)})

    waits(world, "the newest reading of GPU memory held ended at")


def test_a_required_figure_under_other_dimensions_is_found_by_its_limit() -> None:
    """As the judgment finds it: what it has read is not missing a moment later."""
    vetoes = Vetoes(memory_used_percent=50.0, required=("memory",))
    world = with_settings(auto(), {}, vetoes=vetoes)
    whole = {"InstanceId": world.instance.instance_id}
    waits(world, "the newest reading of GPU memory held is missing")

    world.metrics.publish("nvidia_smi_memory_used", {**whole, "host": "a"}, [1.0] * 48)
    assert world.recheck(world.ref, Step.STOP).proceed


@pytest.mark.parametrize(
    "ahead", [timedelta(minutes=3), timedelta(minutes=60), timedelta(minutes=119)]
)
def test_readings_that_are_dated_ahead_of_time_show_no_age(ahead: timedelta) -> None:
    """With a host's clock an hour ahead, what it is doing now is not read before an hour has
    passed."""
    world = auto()
    ends(world, **{UTILIZATION: NOW + ahead})

    waits(world, "the clock of the instance is ahead: the GPU has a reading dated")


class OnlyAhead(MemoryMetrics):
    """The only reading of a GPU is dated in the last minute that CloudWatch accepts."""

    def read(
        self,
        target: Target,  # noqa: ARG002
        queries: Sequence[MetricQuery],
        window: Window,
    ) -> MetricAnswer:
        """No other reading."""
        first = NOON + timedelta(minutes=119)
        series = tuple(
            1.0 if window.bin_end(number) > first else None for number in range(window.bins)
        )
        return MetricAnswer({query.key: series for query in queries}, {})


def test_the_look_ahead_reaches_as_far_as_cloudwatch_accepts_readings() -> None:
    """A host that began to publish a minute ago may be two hours ahead."""
    world = auto()
    policy = replace(world.policies.policy.metrics, lag_seconds=900)
    why = why_readings_are_stale(
        GatherEvidence(OnlyAhead()),
        world.instance,
        replace(world.policies.policy, metrics=policy),
        NOON,
    )

    assert why is not None
    assert "the clock of the instance is ahead" in why


def test_doctor_looks_as_far_ahead() -> None:
    """It says by how much the clock of a host is wrong."""
    instance = make_instance()
    newest = newest_readings(
        GatherEvidence(OnlyAhead()), instance.target, [instance], Policy(), NOON
    )

    ahead = newest_reading_offset(newest[instance.instance_id], NOON)
    assert timedelta(minutes=119) == ahead


def test_a_policy_whose_agent_collects_every_hour_waits() -> None:
    """Its readings cannot be minutes old; it is no error either."""
    world = auto()
    hourly = replace(
        world.policies.policy.metrics, period_seconds=3600, collection_interval_seconds=3600
    )
    policy = replace(world.policies.policy, metrics=hourly)
    world.clock.moment = NOON + timedelta(minutes=20)
    ends(world, **{UTILIZATION: NOON})
    why = why_readings_are_stale(world.inspect.gather, world.instance, policy, world.clock.now())

    assert why is not None
    assert "it may be at most 10 min old" in why


def test_freshness_that_cannot_be_read_is_an_error_of_its_own() -> None:
    """It does not rest on what the judgment reads."""
    world = auto()
    world.metrics.broken[UTILIZATION] = "throttled"
    with pytest.raises(
        Unavailable, match="the newest metrics of i-0123456789abcdef0 could not be read"
    ):
        why_readings_are_stale(world.inspect.gather, world.instance, world.policies.policy, NOW)


def test_the_metrics_of_jobs_are_not_listed_for_it() -> None:
    """They prove nothing when they are missing, and the judgment has read them."""
    asked, unasked = pressed(), auto()
    for world in (asked, unasked):
        assert world.recheck(world.ref, Step.STOP).proceed
    assert asked.metrics.lists_of_work == unasked.metrics.lists_of_work


def test_the_minute_that_runs_is_not_ahead_of_time() -> None:
    """Its reading is dated at its beginning."""
    world = auto()
    world.clock.moment = NOON
    ends(world, **{UTILIZATION: NOON + timedelta(minutes=1)})
    assert world.recheck(world.ref, Step.STOP).proceed
    world = auto()
    ends(world, **{UTILIZATION: NOW.replace(second=0) + timedelta(minutes=1)})

    assert world.recheck(world.ref, Step.STOP).proceed


def test_metrics_that_cannot_be_read_are_tried_again() -> None:
    """An error of CloudWatch is neither silence nor freshness."""
    world = auto()
    world.metrics.broken[UTILIZATION] = "throttled"

    with pytest.raises(CloudError, match="could not be read: throttled"):
        world.recheck(world.ref, Step.STOP)
    assert [] == world.writes()


def test_work_ends_the_wait_for_readings() -> None:
    """It is evidence, wherever readings are missing."""
    world = with_eight(auto)
    ends(world, **{"3": ago(6)})
    names = {"InstanceId": world.instance.instance_id, "index": "5", "name": "A100"}
    world.metrics.publish(UTILIZATION, names, [90.0] * 48)

    checked = world.recheck(world.ref, Step.STOP)
    assert (None, Outcome.WOKE_UP) == (checked.wait, checked.outcome)


def test_it_waits_no_longer_than_an_approval_lives() -> None:
    """Then the episode ends as refused, and says why."""
    world = auto()
    world.clock.moment += timedelta(hours=49)
    ends(world, **{UTILIZATION: NOW})

    over = world.recheck(world.ref, Step.STOP)
    assert (False, Outcome.REFUSED, None) == (over.proceed, over.outcome, over.wait)
    assert "approval.wait_at_most_hours" in over.reason


def test_the_audit_says_that_it_waits_for_readings() -> None:
    """As it does for a freeze and a cap."""
    world = auto()
    ends(world, **{UTILIZATION: ago(6)})
    world.recheck(world.ref, Step.STOP)
    entries = list(world.state._table.query(f"EPISODE#{world.ref.execution_name}", "JOURNAL#"))

    assert ["held back"] == [entry["what"] for entry in entries]
    assert "the newest reading of the GPU ended at" in entries[0]["reason"]


def test_a_snapshot_of_what_runs_needs_no_fresh_readings_and_its_termination_does() -> None:
    """Nothing is lost by a copy."""
    world = auto(action=Action.TERMINATE)
    ends(world, **{UTILIZATION: ago(6)})

    assert world.recheck(world.ref, Step.SNAPSHOT).wait is None
    waits(world, "the newest reading of the GPU ended at")


def test_what_the_governor_has_stopped_needs_no_readings() -> None:
    """It publishes none."""
    world = auto(action=Action.TERMINATE)
    world.put_away(world.ref, Step.STOP)
    world.take_snapshot(world.ref)
    world.ec2.finish_snapshots("completed")
    world.metrics.published.clear()

    assert world.recheck(world.ref, Step.TERMINATE).proceed


def test_no_policy_loosens_the_limits_of_the_promise() -> None:
    """They are constants, and a policy that still sets one is refused: test_policy.py."""
    assert (5, 10) == (OLDEST_READING_MINUTES, OLDEST_5_MINUTE_READING_MINUTES)
    settings = {path for path, _, _ in settings_of(Policy())}
    assert not [path for path in settings if "newest" in path]


def test_the_expiry_of_a_question_is_no_persons_approval() -> None:
    """The policy may take it for one; it is none."""
    world = expired()
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert ApprovalStatus.EXPIRED is approval.status
    ends(world, **{UTILIZATION: ago(6)})

    waits(world, "without a person's approval")
