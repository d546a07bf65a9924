"""The day before an episode is read for people: in full, or not at all."""

from __future__ import annotations

from dataclasses import replace

from governor.core.errors import Throttled
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.ports import MetricReader
from governor.evidence.rules.history import History
from governor.policy.model.policy import Policy
from tests.builders import NOW, make_instance
from tests.twins import MemoryMetrics
from tests.unit.worlds.world import World

INSTANCE = make_instance(instance_type="p4d.24xlarge")
OWN = {"InstanceId": INSTANCE.instance_id}
GPUS = [{**OWN, "index": str(index)} for index in range(8)]


def read(metrics: MetricReader) -> History | None:
    """As an episode that opens reads it."""
    gather = GatherEvidence(metrics)
    return replace(World().inspect, gather=gather).history(INSTANCE, Policy(), NOW)


def test_every_gpu_is_read_and_the_fullest_is_shown_beneath() -> None:
    """Eight rows of utilization; memory and power are the highest of all, in percent of what one
    GPU has."""
    metrics = MemoryMetrics()
    for number, gpu in enumerate(GPUS):
        metrics.publish("nvidia_smi_utilization_gpu", gpu, [float(number)] * 288)
        metrics.publish("nvidia_smi_memory_used", gpu, [40_960.0 / 8 * (number + 1)] * 288)
        metrics.publish("nvidia_smi_power_draw", gpu, [50.0 * (number + 1)] * 288)

    history = read(metrics)

    assert history is not None
    assert [str(n) for n in range(8)] == [gpu.gpu for gpu in history.gpus]
    assert {288} == {len(gpu.utilization) for gpu in history.gpus} | {len(history.memory_percent)}
    assert (100.0, 100.0) == (history.memory_percent[-1], history.power_percent[-1])


def test_an_instance_with_its_aggregate_alone_has_one_row() -> None:
    """The busiest GPU; what nobody publishes is a gap."""
    metrics = MemoryMetrics()
    metrics.publish("nvidia_smi_utilization_gpu", OWN, [1.0] * 100)

    history = read(metrics)

    assert history is not None
    assert [("all", 188)] == [(gpu.gpu, gpu.utilization.count(None)) for gpu in history.gpus]
    assert () == history.power_percent


def test_what_cannot_be_read_costs_the_picture_and_nothing_else() -> None:
    """Half a day would be drawn as gaps, which it is not."""
    broken = MemoryMetrics(broken={"nvidia_smi_memory_used": "Throttling"})
    broken.publish("nvidia_smi_utilization_gpu", OWN, [1.0] * 288)

    assert read(broken) is None
    assert read(MemoryMetrics(list_failure=Throttled("slow down"))) is None
