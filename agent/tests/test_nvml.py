"""Each kind of GPU is read in full, and no figure is made up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from agent.tests.fake_nvml import FIXTURES, FakeNvml, fixture

from gpu_metrics_publisher.errors import DriverUnavailableError
from gpu_metrics_publisher.nvml import NvmlSource
from gpu_metrics_publisher.readings import Figure, Sample


def source_of(name: str) -> tuple[NvmlSource, FakeNvml]:
    nvml = FakeNvml(fixture(name))
    return NvmlSource(nvml), nvml


def read(name: str) -> list[Sample]:
    source, _ = source_of(name)
    source.open()
    return source.read(thorough=True)


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.json")), ids=lambda path: path.stem)
def test_every_fixture_says_where_it_is_from(path: Any) -> None:
    """Nobody takes a composed fixture for a recording."""
    assert "not recorded" in json.loads(path.read_text())["source"]


@pytest.mark.parametrize(
    ("name", "count", "model", "arch", "utilization", "total_mib", "watts"),
    [
        ("t4", 1, "Tesla T4", "Turing", 37, 15360, 48.12),
        ("a10g", 1, "NVIDIA A10G", "Ampere", 88, 23028, 271.3),
        ("l4", 1, "NVIDIA L4", "Ada Lovelace", 0, 23034, 12.87),
        ("l40s", 1, "NVIDIA L40S", "Ada Lovelace", 94, 46068, 338.4),
        ("v100", 4, "Tesla V100-SXM2-16GB", "Volta", 71, 16384, 214.05),
        ("a100x8", 8, "NVIDIA A100-SXM4-40GB", "Ampere", 98, 40960, 389.2),
        ("h100x8", 8, "NVIDIA H100 80GB HBM3", "Hopper", 99, 81559, 688.9),
        ("h200x8", 8, "NVIDIA H200", "Hopper", 97, 143771, 671.2),
        ("b200x8", 8, "NVIDIA B200", "Blackwell", 96, 183359, 912.7),
    ],
)
def test_reads_every_gpu(
    name: str, count: int, model: str, arch: str, utilization: float, total_mib: float, watts: float
) -> None:
    """All GPUs, not only the first, each by its own index, in MiB and W."""
    samples = read(name)
    assert list(range(count)) == [sample.gpu.index for sample in samples]
    for sample in samples:
        assert (model, arch) == (sample.gpu.name, sample.gpu.arch)
        assert utilization == sample.figures[Figure.UTILIZATION]
        assert total_mib == sample.figures[Figure.MEMORY_TOTAL]
        assert watts == sample.figures[Figure.POWER_DRAW]
        assert 0 == sample.figures[Figure.LOST]
        assert () == sample.xids


def test_mig_has_no_utilization() -> None:
    """A GPU split by MIG is known by memory, power and processes; utilization is absent, not
    zero."""
    (sample,) = read("a100_mig")
    assert Figure.UTILIZATION not in sample.figures
    assert Figure.MEMORY_UTILIZATION not in sample.figures
    assert 1 == sample.figures[Figure.MIG_ENABLED]
    assert 20113 == sample.figures[Figure.MEMORY_USED]
    assert 151.6 == sample.figures[Figure.POWER_DRAW]
    assert 3 == sample.figures[Figure.PROCESSES]


def test_mig_zero_is_not_believed() -> None:
    """A driver that answers 0 while MIG is on has measured nothing."""
    source, nvml = source_of("a100_mig")
    nvml.gpus[0]["utilization"] = {"gpu": 0, "memory": 0}
    source.open()
    assert Figure.UTILIZATION not in source.read(thorough=True)[0].figures


def test_unknown_mig_mode_has_no_utilization() -> None:
    """A driver that does not say whether MIG is on makes a utilization of 0 meaningless."""
    source, nvml = source_of("h100x8")
    nvml.gpus[2]["mig"] = {"error": "UNKNOWN"}
    source.open()
    samples = source.read(thorough=True)
    assert [n != 2 for n in range(8)] == [
        Figure.UTILIZATION in sample.figures for sample in samples
    ]
    assert Figure.POWER_DRAW in samples[2].figures


def test_unsupported_figures_are_absent(caplog: pytest.LogCaptureFixture) -> None:
    """Figures that a GPU or an old driver lacks are left out, the rest is read, the log says so
    once."""
    source, _ = source_of("unsupported")
    source.open()
    for _ in range(3):
        (sample,) = source.read(thorough=True)
    assert ("Tesla T4", "unknown") == (sample.gpu.name, sample.gpu.arch)
    assert {
        Figure.UTILIZATION,
        Figure.MEMORY_UTILIZATION,
        Figure.MEMORY_USED,
        Figure.MEMORY_FREE,
        Figure.MEMORY_TOTAL,
        Figure.TEMPERATURE,
        Figure.SM_CLOCK,
        Figure.MEMORY_CLOCK,
        Figure.LOST,
    } == set(sample.figures)
    assert sample.xids is None, "a driver that reports no Xid must not look like one without errors"
    assert 1 == sum("power is not measured" in record.message for record in caplog.records)


def test_failing_memory() -> None:
    """Throttling, ECC errors, repairs and Xids are told; an Xid is told once."""
    source, _ = source_of("failing_memory")
    source.open()
    (sample,) = source.read(thorough=True)
    assert (48, 63, 63, 64) == sample.xids
    assert 100 == sample.figures[Figure.THERMAL_THROTTLE]
    assert 100 == sample.figures[Figure.HARDWARE_SLOWDOWN]
    assert 0 == sample.figures[Figure.POWER_THROTTLE]
    assert (17, 2) == (sample.figures[Figure.ECC_CORRECTED], sample.figures[Figure.ECC_UNCORRECTED])
    assert 1 == sample.figures[Figure.MEMORY_REPAIR_PENDING]
    assert 1 == sample.figures[Figure.MEMORY_REPAIR_FAILED]
    assert () == source.read(thorough=True)[0].xids


def test_page_retirement_before_ampere() -> None:
    """A V100 has no row remapping; its pending page retirement is told under the same figure."""
    source, nvml = source_of("v100")
    nvml.gpus[2]["retired_pages_pending"] = 1
    source.open()
    samples = source.read(thorough=True)
    assert [0, 0, 1, 0] == [sample.figures[Figure.MEMORY_REPAIR_PENDING] for sample in samples]
    assert all(Figure.MEMORY_REPAIR_FAILED not in sample.figures for sample in samples)


def test_quick_reading_leaves_out_the_rare() -> None:
    """Between intervals only what changes from second to second is asked."""
    source, _ = source_of("h100x8")
    source.open()
    quick = set(source.read(thorough=False)[0].figures)
    assert Figure.UTILIZATION in quick
    assert not quick & {Figure.ECC_CORRECTED, Figure.PROCESSES, Figure.POWER_LIMIT}


def test_lost_gpu_does_not_hide_the_others() -> None:
    """A GPU that fell off the bus (Xid 79) is told as lost, without figures; its peers go on."""
    source, nvml = source_of("gpu_lost")
    source.open()
    nvml.gpus[1].update(lost=True, xids=[79])
    well, lost = source.read(thorough=True)
    assert 99 == well.figures[Figure.UTILIZATION]
    assert {Figure.LOST: 1.0} == lost.figures
    assert (79,) == lost.xids


def test_gpu_that_left_the_list_stays_lost() -> None:
    """After a restart of the session a lost GPU may be gone from NVML's list: it is told, not
    forgotten, and the GPUs behind it keep their index."""
    source, nvml = source_of("h100x8")
    source.open()
    names = [sample.gpu.uuid for sample in source.read(thorough=False)]
    del nvml.gpus[3]
    source.open()
    samples = source.read(thorough=False)
    assert names == [sample.gpu.uuid for sample in samples]
    assert [n == 3 for n in range(8)] == [bool(sample.figures[Figure.LOST]) for sample in samples]


def test_gpu_lost_from_the_start_and_back() -> None:
    """A GPU that never answered is told by its index; when it comes back it is read."""
    source, nvml = source_of("gpu_lost")
    nvml.gpus[1]["lost"] = True
    source.open()
    lost = source.read(thorough=True)[1]
    assert (1, "unknown", {Figure.LOST: 1.0}) == (lost.gpu.index, lost.gpu.name, lost.figures)
    nvml.gpus[1]["lost"] = False
    source.open()
    back = source.read(thorough=True)
    assert ["NVIDIA H100 80GB HBM3"] * 2 == [sample.gpu.name for sample in back]
    assert [0, 0] == [sample.figures[Figure.LOST] for sample in back]


def test_gpu_lost_from_the_start_that_left_the_list() -> None:
    """A GPU that never answered stays told when NVML's list shrinks, and another takes its place in
    it."""
    source, nvml = source_of("h100x8")
    nvml.gpus[0]["lost"] = True
    source.open()
    before = [sample.gpu for sample in source.read(thorough=False)]
    del nvml.gpus[0]
    source.open()
    samples = source.read(thorough=False)
    assert before == [sample.gpu for sample in samples]
    assert [n == 0 for n in range(8)] == [bool(sample.figures[Figure.LOST]) for sample in samples]


@pytest.mark.parametrize("old_binding", [False, True])
@pytest.mark.parametrize(
    ("bad", "name"),
    [
        (b"NVIDIA \xff\xfe", "unknown"),
        ("NVIDIA H100\u2122 80GB", "NVIDIA H100? 80GB"),
        ("A\tB", "A?B"),
        (" ", "unknown"),
    ],
)
def test_name_that_cannot_be_a_dimension(bad: str | bytes, name: str, old_binding: bool) -> None:
    """Bytes that are no text end nothing; CloudWatch takes ASCII without control characters alone,
    and would refuse every figure of the instance for one such name."""
    source, nvml = source_of("gpu_lost")
    nvml.gpus[0].update(name=bad, speaks_bytes=old_binding)
    source.open()
    first, second = source.read(thorough=True)
    assert (name, "NVIDIA H100 80GB HBM3") == (first.gpu.name, second.gpu.name)
    assert 0 == first.figures[Figure.LOST]


def test_uuids_that_are_no_text() -> None:
    """GPUs are told apart by their place then."""
    source, nvml = source_of("gpu_lost")
    for gpu in nvml.gpus:
        gpu["uuid"] = b"\xff"
    for _ in range(2):
        source.open()
        assert [0, 1] == [sample.gpu.index for sample in source.read(thorough=True)]


@pytest.mark.parametrize("name", ["no_driver", "no_library"])
def test_no_driver_is_an_error_that_helps(name: str) -> None:
    """No driver is told with what to check; it never reads as a machine without GPUs."""
    source, _ = source_of(name)
    with pytest.raises(DriverUnavailableError, match="nvidia-smi"):
        source.open()


def test_driver_replaced_under_us() -> None:
    """A driver that goes away raises, whatever was being read; the session can be opened again
    later."""
    source, nvml = source_of("a10g")
    source.open()
    nvml.init_error = "LIB_RM_VERSION_MISMATCH"
    with pytest.raises(DriverUnavailableError):
        source.read(thorough=True)
    source.close()
    nvml.init_error = None
    source.open()
    assert 1 == len(source.read(thorough=True))


def test_leaves_nothing_open() -> None:
    """Opened and closed as often as one likes, it holds no session and no event set."""
    source, nvml = source_of("h100x8")
    for _ in range(3):
        source.open()
    assert (1, 8) == (nvml.sessions, nvml.event_sets)
    source.close()
    source.close()
    assert (0, 0) == (nvml.sessions, nvml.event_sets)


def test_memory_of_old_drivers() -> None:
    """Without the second version of the memory question the first one answers."""
    source, nvml = source_of("h100x8")
    del nvml.gpus[0]["memory_mib"]["reserved"]
    source.open()
    old, new = source.read(thorough=False)[:2]
    assert old.figures[Figure.MEMORY_USED] == new.figures[Figure.MEMORY_USED]


@pytest.mark.parametrize(("encoder", "decoder"), [(0, 0), (37, 0), (0, 12), (100, 100)])
def test_encoder_and_decoder_are_read(encoder: int, decoder: int) -> None:
    """Their work does not show in the utilization of the GPU."""
    source, nvml = source_of("t4")
    for gpu in nvml.gpus:
        gpu["encoder_percent"] = encoder
        gpu["decoder_percent"] = decoder
    source.open()
    figures = source.read(thorough=False)[0].figures

    assert encoder == figures[Figure.ENCODER_UTILIZATION]
    assert decoder == figures[Figure.DECODER_UTILIZATION]


def test_a_gpu_without_an_encoder_has_no_figure_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """An A100 has a decoder and no encoder: absent, never zero, and nothing to log."""
    source, nvml = source_of("a100x8")
    for gpu in nvml.gpus:
        gpu["decoder_percent"] = 5
    source.open()

    for sample in source.read(thorough=False):
        assert Figure.ENCODER_UTILIZATION not in sample.figures
        assert 5 == sample.figures[Figure.DECODER_UTILIZATION]
    assert not [record for record in caplog.records if "encoder" in record.message]
