"""Calls to CloudWatch: names, dimensions, values, and CloudWatch's limits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from agent.tests.fake_nvml import FakeNvml, fixture
from hypothesis import given
from hypothesis import strategies as st

from gpu_metrics_publisher.metrics import GROUPS, METRICS, XID_METRIC, Call, Host, Window
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


def statistics(count: float, total: float, low: float, high: float) -> dict[str, float]:
    return {"SampleCount": count, "Sum": total, "Minimum": low, "Maximum": high}


def test_agent_names_and_dimensions() -> None:
    """As the CloudWatch agent publishes them: per GPU and aggregated by InstanceId, without a
    unit."""
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


def test_each_gpu_is_one_sample_an_interval() -> None:
    """As with the agent, however often it was read: the aggregate's sample count is the number of
    GPUs, which is how a reader knows that all are in it; its maximum is the busiest reading, its
    mean that over GPUs."""
    window = Window(START)
    for reading in range(6):
        window.add(
            Sample(
                Gpu(i, "A100", "Ampere", str(i)),
                {Figure.UTILIZATION: 80.0 if i == 3 else float(reading * 2)},
            )
            for i in range(8)
        )
    *gpus, aggregate = datums(window.calls(HOST, ("agent",)), "nvidia_smi_utilization_gpu")
    assert {"InstanceId": HOST.instance_id} == dimensions(aggregate)
    assert START == aggregate["Timestamp"]
    assert statistics(8, 7 * 5.0 + 80.0, 0.0, 80.0) == aggregate["StatisticValues"]
    assert statistics(1, 5.0, 0.0, 10.0) == gpus[0]["StatisticValues"]
    assert statistics(1, 80.0, 80.0, 80.0) == gpus[3]["StatisticValues"]


@given(st.lists(st.floats(0, 200_000), min_size=1, max_size=60))
def test_statistics_hold_together(values: list[float]) -> None:
    """The mean lies between the extremes, whatever was read: CloudWatch refuses anything else."""
    window = Window(START)
    for value in values:
        window.add([Sample(Gpu(0, "A100", "Ampere", "0"), {Figure.POWER_DRAW: value})])
    for datum in datums(window.calls(HOST, ("agent",)), "nvidia_smi_power_draw"):
        found = datum["StatisticValues"]
        assert found["Minimum"] <= found["Sum"] <= found["Maximum"]
        assert (min(values), max(values)) == pytest.approx(
            (found["Minimum"], found["Maximum"]), abs=0.001
        )


def test_mig_publishes_no_utilization() -> None:
    """Neither per GPU, nor in the aggregate, nor under the custom name; memory goes out."""
    calls = calls_of("a100_mig")
    for name in ("nvidia_smi_utilization_gpu", "nvidia_smi_utilization_memory", "GPUUtilization"):
        assert [] == datums(calls, name)
    assert 2 == len(datums(calls, "nvidia_smi_memory_used"))
    assert 1.0 == datums(calls, "GPUMigEnabled")[0]["StatisticValues"]["Maximum"]


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
    assert statistics(1, 50.0, 50.0, 50.0) == aggregate["StatisticValues"]


def test_xids_by_number() -> None:
    """Their sum per GPU, per instance, and by number where there were any."""
    found = datums(calls_of("failing_memory"), "GPUXidErrors")
    assert [
        (None, 4.0),
        ("48", 1.0),
        ("63", 2.0),
        ("64", 1.0),
        (None, 4.0),
    ] == [(dimensions(d).get("Xid"), d["StatisticValues"]["Sum"]) for d in found]


def test_no_xid_is_zero_only_where_xids_are_reported() -> None:
    """Zero errors is a measurement; a driver that reports none gives nothing."""
    assert [0.0, 0.0] == [
        d["StatisticValues"]["Sum"] for d in datums(calls_of("t4"), "GPUXidErrors")
    ]
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


@pytest.mark.parametrize(
    ("name", "groups", "count"),
    [
        ("a10g", ("agent",), 18),
        ("a10g", GROUPS, 48),
        ("h100x8", ("agent",), 81),
        ("h100x8", GROUPS, 216),
    ],
)
def test_bill_is_as_documented(name: str, groups: tuple[str, ...], count: int) -> None:
    """The README's number of billed metrics, and its price at $0.30 each."""
    assert count == sum(len(call.datums) for call in calls_of(name, groups))
    readme = " ".join((Path(__file__).parents[1] / "README.md").read_text().split())
    assert re.search(rf"\| {count} metrics, \${count * 0.30:.2f} ", readme)


def test_every_metric_is_documented() -> None:
    """Each published name is in the README."""
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    for metric in METRICS:
        assert f"`{metric.name.removeprefix('nvidia_smi_')}`" in readme
    assert f"`{XID_METRIC}`" in readme


def test_limits_of_cloudwatch() -> None:
    """Sixteen GPUs with every figure and a storm of Xids: at most 1,000 datums and 1 MB a call,
    none lost."""
    window = Window(START)
    window.add(
        Sample(
            Gpu(i, "NVIDIA H100 80GB HBM3", "Hopper", str(i)),
            dict.fromkeys(Figure, 1234567.891),
            xids=tuple(range(1, 101)),
        )
        for i in range(16)
    )
    calls = window.calls(HOST, GROUPS)
    for call in calls:
        assert len(call.datums) <= 1000
        assert len(json.dumps({"Namespace": call.namespace, "MetricData": call.datums})) < 500_000
    names = len({d["MetricName"] for call in calls for d in call.datums})
    assert names * 17 + 16 * 100 == sum(len(call.datums) for call in calls)


@pytest.mark.parametrize(("percent", "sent"), [(0.0, False), (0.5, True), (37.0, True)])
@pytest.mark.parametrize("figure", [Figure.ENCODER_UTILIZATION, Figure.DECODER_UTILIZATION])
def test_video_is_sent_while_it_works(figure: Figure, percent: float, sent: bool) -> None:
    """Zeros would be billed on every GPU that never encodes."""
    window = Window(START)
    for value in (0.0, percent):
        window.add([Sample(Gpu(0, "Tesla T4", "Turing", "u"), {figure: value})])
    name = f"nvidia_smi_utilization_{figure.value.partition('-')[0]}"
    found = datums(window.calls(HOST, ("agent",)), name)

    assert (2 if sent else 0) == len(found)
    assert all(percent == datum["StatisticValues"]["Maximum"] for datum in found)
