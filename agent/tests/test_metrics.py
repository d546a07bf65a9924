"""What goes to CloudWatch: names, dimensions, values, and CloudWatch's limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent.tests.fake_nvml import FakeNvml, fixture

from gpu_metrics_publisher.metrics import GROUPS, Call, Host, Window
from gpu_metrics_publisher.nvml import NvmlSource
from gpu_metrics_publisher.readings import Figure, Gpu, Sample

HOST = Host("i-0123456789abcdef0", "p5.48xlarge")
START = 1_800_000_000


def calls_of(name: str, groups: tuple[str, ...] = GROUPS, readings: int = 1) -> list[Call]:
    source = NvmlSource(FakeNvml(fixture(name)))
    source.open()
    window = Window(START)
    for number in range(readings):
        window.add(source.read(thorough=number == 0))
    return window.calls(HOST, groups)


def datums(calls: list[Call], name: str) -> list[dict[str, Any]]:
    return [datum for call in calls for datum in call.datums if datum["MetricName"] == name]


def dimensions(datum: dict[str, Any]) -> dict[str, str]:
    return {entry["Name"]: entry["Value"] for entry in datum["Dimensions"]}


def test_agent_names_and_dimensions() -> None:
    """As the CloudWatch agent publishes them: per GPU and aggregated by InstanceId, without a unit."""
    found = [call for call in calls_of("h100x8") if call.namespace == "GPU/EC2"]
    names = {datum["MetricName"] for call in found for datum in call.datums}
    assert {
        "nvidia_smi_utilization_gpu",
        "nvidia_smi_utilization_memory",
        "nvidia_smi_memory_used",
        "nvidia_smi_memory_total",
        "nvidia_smi_memory_free",
        "nvidia_smi_temperature_gpu",
        "nvidia_smi_power_draw",
        "nvidia_smi_clocks_current_sm",
        "nvidia_smi_clocks_current_memory",
    } == names
    utilization = datums(found, "nvidia_smi_utilization_gpu")
    assert [
        *(
            {
                "InstanceId": HOST.instance_id,
                "InstanceType": "p5.48xlarge",
                "index": str(index),
                "name": "NVIDIA H100 80GB HBM3",
                "arch": "Hopper",
            }
            for index in range(8)
        ),
        {"InstanceId": HOST.instance_id},
    ] == [dimensions(datum) for datum in utilization]
    assert all("Unit" not in datum for datum in utilization)


def test_custom_names() -> None:
    """The four names of the namespace GPU/Custom, percentages with their unit."""
    (call,) = calls_of("t4", groups=("custom",))
    assert "GPU/Custom" == call.namespace
    assert {
        "GPUUtilization": "Percent",
        "GPUMemoryUtilization": "Percent",
        "GPUTemperature": None,
        "GPUPowerDraw": None,
    } == {datum["MetricName"]: datum.get("Unit") for datum in call.datums}


def test_aggregate_has_one_value_per_gpu_and_reading() -> None:
    """Its maximum is the busiest GPU, its mean the mean of all, its count GPUs times readings."""
    window = Window(START)
    for reading in range(6):
        window.add(
            Sample(Gpu(i, "A100", "Ampere", str(i)), {Figure.UTILIZATION: 80.0 if i == 3 else float(reading)})
            for i in range(8)
        )
    aggregate = datums(window.calls(HOST, ("agent",)), "nvidia_smi_utilization_gpu")[-1]
    assert {"InstanceId": HOST.instance_id} == dimensions(aggregate)
    assert 80.0 == max(aggregate["Values"])
    assert 48.0 == sum(aggregate["Counts"])
    assert START == aggregate["Timestamp"]


def test_mig_publishes_no_utilization() -> None:
    """Neither per GPU, nor in the aggregate, nor under the custom name; memory goes out."""
    calls = calls_of("a100_mig")
    for name in ("nvidia_smi_utilization_gpu", "nvidia_smi_utilization_memory", "GPUUtilization"):
        assert [] == datums(calls, name)
    assert 2 == len(datums(calls, "nvidia_smi_memory_used"))
    assert [1.0] == datums(calls, "GPUMigEnabled")[0]["Values"]


def test_mig_beside_whole_gpus() -> None:
    """The aggregate holds the GPUs that were measured and nothing for the others."""
    window = Window(START)
    window.add(
        [
            Sample(Gpu(0, "A100", "Ampere", "0"), {Figure.UTILIZATION: 50.0}),
            Sample(Gpu(1, "A100", "Ampere", "1"), {Figure.MIG_ENABLED: 1.0}),
        ]
    )
    aggregate = datums(window.calls(HOST, ("agent",)), "nvidia_smi_utilization_gpu")[-1]
    assert ([50.0], [1.0]) == (aggregate["Values"], aggregate["Counts"])


def test_xids_by_number() -> None:
    """Their sum per GPU, per instance, and by number where there were any."""
    found = datums(calls_of("failing_memory"), "GPUXidErrors")
    assert [
        (None, 4.0),
        ("48", 1.0),
        ("63", 2.0),
        ("64", 1.0),
        (None, 4.0),
    ] == [(dimensions(d).get("Xid"), sum(v * c for v, c in zip(d["Values"], d["Counts"]))) for d in found]


def test_no_xid_is_zero_only_where_xids_are_reported() -> None:
    """Zero errors is a measurement; a driver that reports none gives nothing."""
    assert [[0.0], [0.0]] == [d["Values"] for d in datums(calls_of("t4"), "GPUXidErrors")]
    assert [] == datums(calls_of("unsupported"), "GPUXidErrors")


def test_nothing_measured_sends_nothing() -> None:
    """An interval without readings makes no call."""
    assert [] == Window(START).calls(HOST, GROUPS)


@pytest.mark.parametrize("group", GROUPS)
def test_groups_choose(group: str) -> None:
    """Only what was asked for goes out, and each group gives something."""
    everything = {d["MetricName"] for call in calls_of("h100x8") for d in call.datums}
    chosen = {d["MetricName"] for call in calls_of("h100x8", groups=(group,)) for d in call.datums}
    assert chosen
    assert chosen < everything


def test_limits_of_cloudwatch() -> None:
    """Sixteen GPUs read every second for five minutes: at most 150 distinct values a datum, 1,000 datums
    and 1 MB a call, nothing lost."""
    window = Window(START)
    for second in range(300):
        window.add(
            Sample(
                Gpu(i, "NVIDIA H100 80GB HBM3", "Hopper", str(i)),
                dict.fromkeys(Figure, second * 1.37 + i + 100000),
                xids=(),
            )
            for i in range(16)
        )
    calls = window.calls(HOST, GROUPS)
    assert len(calls) > 2
    for call in calls:
        assert len(call.datums) <= 1000
        assert len(json.dumps({"Namespace": call.namespace, "MetricData": call.datums})) < 1_000_000
        for datum in call.datums:
            assert len(datum["Values"]) == len(datum["Counts"]) <= 150
            assert len(datum["Values"]) == len(set(datum["Values"]))
    aggregate = [d for d in datums(calls, "nvidia_smi_power_draw") if {"InstanceId"} == set(dimensions(d))]
    assert 16 * 300 == sum(sum(d["Counts"]) for d in aggregate)
