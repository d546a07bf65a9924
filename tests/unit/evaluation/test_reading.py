"""Trace files: the three families by their columns, bins, holes, and bad files named by line."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluation.traces import Trace, TraceError, read_directory, read_file
from governor.domain.detection.history import BinState

SAMPLES = "instance_id,gpu_index,timestamp_s,utilization_gpu"
LAB = f"{SAMPLES},utilization_gpu_max,memory_used_pct,n_procs,proc_kind"
SERVING = f"{SAMPLES},memory_used_mib"
EVENTS = "instance_id,n_gpus,start_s,end_s,kind"
FIRST = 1_700_000_100
"""A second at which a bin begins."""


def written(folder: Path, *lines: str, name: str = "made-up.csv") -> Path:
    """A file of these lines."""
    path = folder / name
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def lab_rows(
    values: Sequence[float | str], gpu: int = 0, start: int = FIRST, memory: str = "0.5"
) -> list[str]:
    """One row a minute."""
    return [f"a,{gpu},{FIRST + 60 * n},{value},99,0.5,-1,python" for n, value in enumerate(values)]


def only(path: Path) -> Trace:
    """The file's one instance."""
    (trace,) = read_file(path)
    return trace


def test_a_bin_of_samples_is_the_mean_of_its_minutes(tmp_path: Path) -> None:
    """Of each GPU alone, in the order of their names, whatever the order of the rows."""
    rows = [*lab_rows([0, 10, 20, 0, 0, 4, 4, 4, 4, 4], gpu=1), *lab_rows([1] * 10)]
    trace = only(written(tmp_path, LAB, *reversed(rows)))

    assert ("lab", "a", FIRST // 300) == (trace.family, trace.instance, trace.first_bin)
    assert [(1.0, 6.0), (1.0, 4.0)] == [one.utilization for one in trace.bins]
    assert [BinState.BUSY, BinState.IDLE] == [one.state for one in trace.bins]


def test_absent_rows_stay_holes_and_others_make_up_the_mean(tmp_path: Path) -> None:
    """One minute of five is a measurement; none of five is none."""
    rows = lab_rows([3, "", "", 9, "", *[""] * 5, *[2] * 5])

    assert [(6.0,), (None,), (2.0,)] == [one.utilization for one in only(written(tmp_path, LAB, *rows)).bins]


@pytest.mark.parametrize("junk", ["", "nan", "-1"])
def test_a_gpu_that_was_never_measured_is_not_idle(tmp_path: Path, junk: str) -> None:
    """As one in MIG mode: polled, with nothing to tell. Left out, it would pass for idle with the others."""
    rows = [*lab_rows([0] * 5), *lab_rows([junk] * 5, gpu=1)]
    trace = only(written(tmp_path, LAB, *rows))

    assert [(0.0, None)] == [one.utilization for one in trace.bins]
    assert BinState.UNKNOWN is trace.bins[0].state


def test_an_instance_without_any_measurement_is_none(tmp_path: Path) -> None:
    """Nothing can be said of it, and it is no reason to refuse the file."""
    assert [] == list(read_file(written(tmp_path, LAB, *lab_rows([""] * 5))))


def test_a_bin_that_the_end_cuts_short_is_left_out(tmp_path: Path) -> None:
    """Seven minutes are one bin; the tenth minute completes the second."""
    assert 1 == len(only(written(tmp_path, LAB, *lab_rows([0] * 7))).bins)
    assert 2 == len(only(written(tmp_path, LAB, *lab_rows([0] * 10))).bins)


@pytest.mark.parametrize(
    ("header", "row", "family"),
    [(LAB, "a,0,{at},0,0,1.9,0,none", "lab"), (SERVING, "a,0,{at},0,?", "serving")],
)
def test_memory_tells_the_family_and_is_not_read(tmp_path: Path, header: str, row: str, family: str) -> None:
    """No detector asks for it."""
    trace = only(written(tmp_path, header, *(row.format(at=60 * minute) for minute in range(5))))

    assert family == trace.family


def test_intervals_become_the_share_of_each_bin_that_was_occupied(tmp_path: Path) -> None:
    """Over edges of bins; what cannot be told apart counts as work, and a cell without GPU does not."""
    rows = ("n-1,1,0,10,cpu", "n-1,1,270,330,gpu", "n-1,1,600,615,ambiguous", "n-1,1,900,1200,cpu")
    trace = only(written(tmp_path, EVENTS, *rows))

    assert "notebooks" == trace.family
    assert [(10.0,), (10.0,), (5.0,), (0.0,)] == [one.utilization for one in trace.bins]
    assert ["busy", "busy", "busy", "idle"] == [one.state for one in trace.bins]


def test_overlapping_intervals_fill_a_bin_no_further(tmp_path: Path) -> None:
    """Two cells at once are one busy GPU."""
    trace = only(written(tmp_path, EVENTS, "n-1,1,0,300,gpu", "n-1,1,0,300,gpu", "n-1,1,0,600,cpu"))

    assert [(100.0,), (0.0,)] == [one.utilization for one in trace.bins]


def test_sessions_of_one_notebook_are_one_machine(tmp_path: Path) -> None:
    """So that a cross-validation does not learn from the same person; a server is itself."""
    notebooks = written(tmp_path, EVENTS, "ab-c-1,1,0,300,gpu", "ab-c-2,1,0,300,gpu")

    assert {"ab-c"} == {trace.machine for trace in read_file(notebooks)}
    assert "a" == only(written(tmp_path, LAB, *lab_rows([0] * 5), name="lab.csv")).machine


def test_a_directory_is_read_in_the_order_of_names_compressed_or_not(tmp_path: Path) -> None:
    """Instances in the order of their names; other files are passed by; a single file is read as itself."""
    written(tmp_path, EVENTS, "z,1,0,300,gpu", "y,1,0,300,gpu", name="a.csv.gz")
    last = written(tmp_path, SERVING, *(f"x,0,{60 * n},0,0" for n in range(5)), name="b.csv")
    (tmp_path / "README.md").write_text("no trace")
    (tmp_path / "c.csv.bak").write_text("no trace")

    assert ["y", "z", "x"] == [trace.instance for trace in read_directory(tmp_path)]
    assert ["x"] == [trace.instance for trace in read_directory(last)]


def test_a_directory_without_traces_is_refused(tmp_path: Path) -> None:
    """With what to do about it."""
    with pytest.raises(TraceError, match="make evaluate TRACES=dir"):
        list(read_directory(tmp_path))


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a,b,c"], "made-up.csv: columns a, b, c are neither samples"),
        ([], "made-up.csv: columns none are neither"),
        ([SERVING, "a,0,0,1,0", "a,0,sixty,1,0"], "made-up.csv, line 3: .*'sixty'"),
        ([SERVING, "a,0,0,much,0"], "line 2: .*'much'"),
        ([SERVING, "a,0,0,1,0", "a,0"], r"line 3: not as many values as there are columns \(5\)"),
        ([SERVING, "a,0,0,1,0,7"], "line 2: not as many values"),
        ([EVENTS, "n-1,1,0,300,gpu", "n-1,1,300"], "line 3: not as many values"),
        ([EVENTS, "n-1,1,0,300,GPU"], "line 2: kind is GPU: it must be gpu, ambiguous or cpu"),
        ([EVENTS, "n-1,1,300,0,gpu"], "line 2: an interval that starts at 300 cannot end at 0"),
    ],
)
def test_bad_files_are_named_with_their_line(tmp_path: Path, lines: list[str], problem: str) -> None:
    """A cut row must not pass for a minute without measurement, nor unknown work for idleness."""
    with pytest.raises(TraceError, match=problem):
        list(read_file(written(tmp_path, *lines)))


@pytest.mark.parametrize("kept", [4, 30, -8])
def test_a_damaged_file_is_refused(tmp_path: Path, kept: int) -> None:
    """Cut in its header, in its data or at its end."""
    path = written(tmp_path, LAB, *lab_rows(range(90)), name="made-up.csv.gz")
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(TraceError, match=r"made-up.csv.gz is damaged"):
        list(read_file(path))


@pytest.mark.parametrize("content", [b"no gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff"])
def test_what_is_no_compressed_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """Named as what it is."""
    path = tmp_path / "made-up.csv.gz"
    path.write_bytes(content)

    with pytest.raises(TraceError, match="damaged"):
        list(read_file(path))


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """A picture called a trace."""
    path = tmp_path / "made-up.csv"
    path.write_bytes(b"\x89PNG\xff\xfe")

    with pytest.raises(TraceError, match=r"made-up.csv, line 0"):
        list(read_file(path))
