"""Trace files: the three families by their columns, bins, holes, and bad files named by line."""

from __future__ import annotations

import gzip
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from evaluation.bins import BUSY, IDLE, UNKNOWN
from evaluation.rule import Rule
from evaluation.scoring import replay
from evaluation.traces import Trace, TraceError, read_directory, read_file

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
    path.write_bytes(
        gzip.compress(text.encode()) if name.lower().endswith(".gz") else text.encode()
    )
    return path


def lab_rows(
    values: Sequence[float | str],
    gpu: int = 0,
    start: int = FIRST,
    memory: str = "0.5",
    highest: str = "",
) -> list[str]:
    """One row a minute."""
    return [
        f"a,{gpu},{start + 60 * n},{value},{highest},{memory},-1,python"
        for n, value in enumerate(values)
    ]


def only(path: Path) -> Trace:
    """The file's one instance."""
    (trace,) = read_file(path)
    return trace


def shown(series: Sequence[float]) -> list[float | None]:
    """Readings, with holes that can be compared."""
    return [None if value != value else value for value in series]


def test_a_bin_of_samples_is_the_highest_of_its_minutes(tmp_path: Path) -> None:
    """As the product reads it: of each GPU alone, in the order of their names, in any order of the
    rows."""
    rows = [*lab_rows([0, 10, 20, 0, 0, 4, 4, 4, 4, 3], gpu=1), *lab_rows([1] * 10)]
    trace = only(written(tmp_path, LAB, *reversed(rows)))

    assert ("lab", "a", FIRST // 300) == (trace.family, trace.instance, trace.first_bin)
    assert [[1.0, 1.0], [20.0, 4.0]] == [shown(one) for one in trace.gpus]
    assert bytes([BUSY, IDLE]) == trace.states()


def test_the_highest_poll_of_a_minute_counts_where_the_file_has_it(tmp_path: Path) -> None:
    """A minute's mean hides a short burst; a highest poll that was not recorded hides nothing."""
    rows = [*lab_rows([1] * 5, highest="7"), *lab_rows([2] * 5, start=FIRST + 300, highest="nan")]

    assert [7.0, 2.0] == shown(only(written(tmp_path, LAB, *rows)).gpus[0])


def test_memory_in_percent_is_read_and_amounts_are_not(tmp_path: Path) -> None:
    """An amount in MiB says nothing without the size of the GPU: then memory is unknown."""
    rows = [*lab_rows([0] * 5, memory="12.5"), *lab_rows([0] * 5, start=FIRST + 300, memory="")]
    serving = [f"a,0,{FIRST + 60 * n},0,20618" for n in range(5)]

    assert [[12.5, None]] == [shown(one) for one in only(written(tmp_path, LAB, *rows)).memory]
    assert () == only(written(tmp_path, SERVING, *serving, name="s.csv")).memory


def test_absent_rows_stay_holes(tmp_path: Path) -> None:
    """One minute of five is a measurement; none of five is none."""
    rows = lab_rows([3, "", "", 9, "", *[""] * 5, *[2] * 5])

    assert [9.0, None, 2.0] == shown(only(written(tmp_path, LAB, *rows)).gpus[0])


@pytest.mark.parametrize("junk", ["", "nan", "-1"])
def test_a_gpu_that_was_never_measured_is_not_idle(tmp_path: Path, junk: str) -> None:
    """As one in MIG mode: polled, with nothing to tell. Left out, it would pass for idle with the
    others."""
    rows = [*lab_rows([0] * 5), *lab_rows([junk] * 5, gpu=1)]
    trace = only(written(tmp_path, LAB, *rows))

    assert [[0.0], [None]] == [shown(one) for one in trace.gpus]
    assert bytes([UNKNOWN]) == trace.states()


def test_an_instance_without_any_measurement_is_none(tmp_path: Path) -> None:
    """Nothing can be said of it, and it is no reason to refuse the file."""
    assert [] == read_file(written(tmp_path, LAB, *lab_rows([""] * 5)))


def test_a_bin_that_the_end_cuts_short_is_left_out(tmp_path: Path) -> None:
    """Seven minutes are one bin; the tenth minute completes the second."""
    assert 1 == only(written(tmp_path, LAB, *lab_rows([0] * 7))).length
    assert 2 == only(written(tmp_path, LAB, *lab_rows([0] * 10))).length


@pytest.mark.parametrize(
    ("header", "row", "family"),
    [(LAB, "a,0,{at},0,0,1.9,0,none", "lab"), (SERVING, "a,0,{at},0,?", "serving")],
)
def test_columns_tell_the_family(tmp_path: Path, header: str, row: str, family: str) -> None:
    """By how they give the memory."""
    trace = only(written(tmp_path, header, *(row.format(at=60 * minute) for minute in range(5))))

    assert family == trace.family


def test_intervals_become_the_share_of_each_bins_busiest_minute(tmp_path: Path) -> None:
    """Over edges of bins; what cannot be told apart counts as work, and a cell without GPU does
    not."""
    rows = ("n-1,1,0,10,cpu", "n-1,1,270,330,gpu", "n-1,1,600,615,ambiguous", "n-1,1,900,1200,cpu")
    trace = only(written(tmp_path, EVENTS, *rows))

    assert "notebooks" == trace.family
    assert [50.0, 50.0, 25.0, 0.0] == shown(trace.gpus[0])
    assert bytes([BUSY, BUSY, BUSY, IDLE]) == trace.states()


def test_overlapping_intervals_fill_a_bin_no_further(tmp_path: Path) -> None:
    """Two cells at once are one busy GPU."""
    trace = only(written(tmp_path, EVENTS, "n-1,1,0,300,gpu", "n-1,1,0,300,gpu", "n-1,1,0,600,cpu"))

    assert [100.0, 0.0] == shown(trace.gpus[0])


def test_a_directory_is_read_in_the_order_of_names_compressed_or_not(tmp_path: Path) -> None:
    """Families, then instances; other files are passed by; a single file is read as itself."""
    last = written(tmp_path, SERVING, *(f"x,0,{60 * n},0,0" for n in range(5)), name="A.CSV")
    written(tmp_path, EVENTS, "z,1,0,300,gpu", "y,1,0,300,gpu", name="b.Csv.GZ")
    (tmp_path / "README.md").write_text("no trace")
    (tmp_path / "c.csv.bak").write_text("no trace")

    assert ["y", "z", "x"] == [trace.instance for trace in read_directory(tmp_path)]
    assert ["x"] == [trace.instance for trace in read_directory(last)]


def test_files_of_one_machine_are_one_instance(tmp_path: Path) -> None:
    """A file a day, a file a GPU, a session cut in two: as if all rows lay in one file."""
    rows = [*lab_rows([0] * 600), *lab_rows([90] * 600, gpu=1), *lab_rows([7] * 30, gpu=2)]
    (tmp_path / "split").mkdir()
    for number in range(3):
        written(
            tmp_path / "split", LAB, *rows[number * 500 : number * 500 + 500], name=f"{number}.csv"
        )
    intervals = ["n-1,1,0,300,gpu", "n-1,1,3000,3300,gpu"]
    for number, row in enumerate(intervals):
        written(tmp_path / "split", EVENTS, row, name=f"n{number}.csv")

    whole = [
        only(written(tmp_path, LAB, *rows)),
        only(written(tmp_path, EVENTS, *intervals, name="n.csv")),
    ]
    # As text, for the holes' sake: NaN equals nothing.
    assert repr(whole) == repr(read_directory(tmp_path / "split"))


def test_equal_names_in_different_families_are_different_instances(tmp_path: Path) -> None:
    """Nothing is known of who wrote the files."""
    written(tmp_path, LAB, *lab_rows([0] * 5), name="a.csv")
    written(tmp_path, SERVING, *(f"a,0,{60 * n},0,0" for n in range(5)), name="b.csv")

    assert [("lab", "a"), ("serving", "a")] == [
        (one.family, one.instance) for one in read_directory(tmp_path)
    ]


def test_a_file_that_is_no_trace_is_left_out_and_named(tmp_path: Path) -> None:
    """A table of something else, a picture, what only calls itself compressed: the others are
    scored."""
    written(tmp_path, LAB, *lab_rows([0] * 5), name="lab.csv")
    written(tmp_path, "instance_type,gpus", "g5.xlarge,1", name="types.csv")
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\xff\xfe")
    (tmp_path / "plain.csv.gz").write_text("no gzip")
    warnings: list[str] = []

    assert ["a"] == [trace.instance for trace in read_directory(tmp_path, warnings.append)]
    assert [f"left out: {name}" for name in ("picture.csv", "plain.csv.gz", "types.csv")] == [
        one.split(", line")[0].split(" is ")[0].split(": columns")[0] for one in warnings
    ]


def test_where_no_file_is_a_trace_that_is_an_error(tmp_path: Path) -> None:
    """With every file's reason."""
    written(tmp_path, "a,b", name="a.csv")
    written(tmp_path, "c,d", name="b.csv")
    with pytest.raises(TraceError, match=r"a\.csv: columns a, b .*; b\.csv: columns c, d"):
        read_directory(tmp_path)


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ("{at},xyz", "utilization_gpu: 'xyz' is no number"),
        ("17730897600{at},0", "timestamp_s: .* is no time in seconds .*; milliseconds\\?"),
        ("{at}", "not as many values as there are columns"),
    ],
)
def test_a_bad_row_costs_the_instances_of_its_file_alone(
    tmp_path: Path, cells: str, said: str
) -> None:
    """Without one of its GPUs an instance would look idle, so its rows of other files go too. All
    that lie in the file count, those after the bad row and behind a quote that nobody closed as
    well."""
    good = [f"{name},0,{60 * n},0" for name in ("whole", "hit", "late", "quoted") for n in range(5)]
    written(tmp_path, SAMPLES, *good, name="a.csv")
    bad = ["hit,1,0,0", f"hit,1,{cells.format(at=60)}", 'quoted,1,"0,0', "late,1,0,0"]
    written(tmp_path, SAMPLES, *bad, name="b.csv.gz")
    warnings: list[str] = []

    assert ["whole"] == [trace.instance for trace in read_directory(tmp_path, warnings.append)]
    (warning,) = warnings
    assert re.search(rf"b\.csv\.gz, line 3: {said}", warning)
    assert warning.endswith(": hit, late, quoted")


def test_a_bad_row_costs_no_namesake_of_another_family(tmp_path: Path) -> None:
    """Families are told apart by columns, instances by both."""
    written(tmp_path, LAB, *lab_rows([0] * 5), name="a.csv")
    written(tmp_path, EVENTS, "a,1,0,300,gpu", "b,1,0,300,GPU", name="b.csv")
    written(tmp_path, EVENTS, "b,1,0,300,gpu", "c,1,0,300,gpu", name="c.csv")

    found = read_directory(tmp_path, lambda _: None)
    assert [("lab", "a"), ("notebooks", "c")] == [(one.family, one.instance) for one in found]


def test_where_bad_rows_leave_nothing_that_is_an_error(tmp_path: Path) -> None:
    """With every file's reason, and nothing said of leaving out."""
    written(tmp_path, LAB, *lab_rows([0] * 5), name="a.csv")
    written(tmp_path, LAB, *lab_rows(["xyz"]), name="b.csv")
    written(tmp_path, "c,d", name="c.csv")
    warnings: list[str] = []
    with pytest.raises(
        TraceError, match=r"c\.csv: columns .*; b\.csv, line 2: utilization_gpu: 'xyz'"
    ):
        read_directory(tmp_path, warnings.append)
    assert [] == warnings


def test_names_in_warnings_are_no_commands_for_a_terminal(tmp_path: Path) -> None:
    """Nobody knows who wrote the files."""
    written(tmp_path, LAB, *lab_rows([0] * 5), name="a.csv")
    written(tmp_path, SAMPLES, "x\x1b[2J,0,0,0", "x\x1b[2J,0,0,y\x1b[2J", name="b.csv")
    warnings: list[str] = []
    read_directory(tmp_path, warnings.append)

    assert 1 == len(warnings)
    assert warnings[0].isprintable()


@pytest.mark.parametrize("end", [b"", b"\0" * 8, b"no gzip"])
def test_a_trace_whose_rest_is_lost_is_refused_though_others_are_whole(
    tmp_path: Path, end: bytes
) -> None:
    """Nobody knows whose rows it held: cut off, with a wrong checksum, or with something else
    behind it."""
    written(tmp_path, LAB, *lab_rows([0] * 5), name="a.csv")
    path = written(tmp_path, LAB, *lab_rows(range(9000), gpu=1), name="b.csv.gz")
    path.write_bytes(path.read_bytes()[: None if end == b"no gzip" else -8] + end)
    with pytest.raises(TraceError, match=r"b\.csv\.gz is damaged"):
        read_directory(tmp_path)


@pytest.mark.parametrize("folders", [(), ("lab", "pods")])
def test_a_directory_without_traces_is_refused(tmp_path: Path, folders: Sequence[str]) -> None:
    """With what to do about it."""
    for name in folders:
        (tmp_path / name).mkdir()
    said = (
        r"subdirectories only \(lab, pods\): name one"
        if folders
        else "name a trace file, or a directory"
    )
    with pytest.raises(TraceError, match=said):
        read_directory(tmp_path)


def test_what_other_programs_write_is_understood(tmp_path: Path) -> None:
    """A byte order mark, times with a fraction, empty lines."""
    path = tmp_path / "made-up.csv"
    rows = [f"a,0,{FIRST + 60 * n}.0,7.5" for n in range(5)]
    path.write_text("\n".join([SAMPLES, *rows, "", ""]), encoding="utf-8-sig")

    assert [7.5] == shown(only(path).gpus[0])


def test_any_number_of_samples_makes_a_bin(tmp_path: Path) -> None:
    """Some poll many times a second."""
    rows = ["a,0,0,6"] * 70_000
    trace = only(written(tmp_path, SAMPLES, *rows, "a,0,240,6"))

    assert [6.0] == shown(trace.gpus[0])


@pytest.mark.parametrize(("wrong", "first_at"), [(0, "begin"), (FIRST + 400 * 365 * 86_400, "end")])
def test_a_time_that_is_wrong_by_years_costs_nothing(
    tmp_path: Path, wrong: int, first_at: str
) -> None:
    """The hole is shortened by whole weeks and named: the same hour of the same weekday, the dates
    that are right, and nothing that a detector could tell from a longer hole."""
    rows = lab_rows([0] * 3000)
    plain = only(written(tmp_path, LAB, *rows))
    warnings: list[str] = []
    (trace,) = read_file(
        written(tmp_path, LAB, *rows, f"a,0,{wrong},9,9,0,0,none"), warnings.append
    )

    at = plain.first_bin - trace.first_bin
    assert trace.gpus[0][at : at + plain.length] == plain.gpus[0]
    assert trace.length < plain.length + 71 * 288
    measured = [index for index, value in enumerate(trace.gpus[0]) if value == value]
    if first_at == "begin":
        assert 0 == (trace.first_bin - wrong // 300) % 2016
        assert measured[1] - measured[0] > 62 * 288
    (warning,) = warnings
    assert (
        "lab a: nothing measured from 19" in warning
        or "lab a: nothing measured from 2023" in warning
    )


def test_a_hole_that_a_policy_could_look_over_is_kept(tmp_path: Path) -> None:
    """Two months."""
    rows = [f"a,0,{day * 86_400 + 60 * n},0" for day in (0, 64) for n in range(5)]
    warnings: list[str] = []
    (trace,) = read_file(written(tmp_path, SAMPLES, *rows), warnings.append)

    assert (64 * 288 + 1, []) == (trace.length, warnings)


def test_scores_do_not_change_when_a_hole_is_shortened(tmp_path: Path) -> None:
    """Nothing that is scored reaches over it."""

    def rows(start: int) -> list[str]:
        busy = [hour % 24 < 9 for hour in range(24 * 9)]
        return [
            f"a,0,{start + 300 * n},{90 if busy[n // 12] else 0}" for n in range(len(busy) * 12)
        ]

    scores = []
    for weeks in (12, 400):
        path = written(tmp_path, SAMPLES, *rows(0), *rows(weeks * 7 * 86_400))
        (trace,) = read_file(path, lambda _: None)
        scores.append(replay(trace, Rule(180)))
    assert scores[0] == scores[1]
    assert scores[0].questions


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (["a,b,c"], "made-up.csv: columns a, b, c are neither samples"),
        ([], "made-up.csv: columns none are neither"),
        (
            [SERVING, "a,0,0,1,0", "a,0,sixty,1,0"],
            "made-up.csv, line 3: timestamp_s: 'sixty' is no number",
        ),
        ([SERVING, "a,0,inf,1,0"], "line 2: timestamp_s: inf is no time in seconds"),
        ([SERVING, "a,0,-60,1,0"], "line 2: timestamp_s: -60 is no time[^;]*$"),
        ([SERVING, "a,0,1773089760000,1,0"], r"no time in seconds .*; milliseconds\?$"),
        ([SERVING, "a,0,1773089760000123.5,1,0"], r"; microseconds\?$"),
        ([EVENTS, "n-1,1,0,1773089760000000000,gpu"], r"line 2: end_s: .*; nanoseconds\?$"),
        ([SERVING, "a,0,0,much,0"], "line 2: utilization_gpu: 'much' is no number"),
        ([SERVING, "a,0,0,1,0", "a,0"], r"line 3: not as many values as there are columns \(5\)"),
        ([SERVING, "a,0,0,1,0,7"], "line 2: not as many values"),
        ([EVENTS, "n-1,1,0,300,gpu", "n-1,1,300"], "line 3: not as many values"),
        ([EVENTS, "n-1,1,0,300,GPU"], "line 2: kind: 'GPU' must be gpu, ambiguous or cpu"),
        (
            [EVENTS, "n-1,1,300,0,gpu"],
            "line 2: end_s: an interval that starts at 300 cannot end at 0",
        ),
        (
            [EVENTS, "n-1,1,0,300,gpu", "n-1,1,0,1773089760,gpu"],
            "line 3: start_s, end_s: n-1 would last from 0 to 1773089760",
        ),
    ],
)
def test_bad_files_are_named_with_their_line(
    tmp_path: Path, lines: list[str], problem: str
) -> None:
    """A cut row must not pass for a minute without measurement, nor unknown work for idleness."""
    with pytest.raises(TraceError, match=problem):
        read_file(written(tmp_path, *lines))


@pytest.mark.parametrize("kept", [4, 30, -8])
def test_a_damaged_file_is_refused(tmp_path: Path, kept: int) -> None:
    """Cut in its header, in its data or at its end."""
    path = written(tmp_path, LAB, *lab_rows(range(90)), name="made-up.csv.gz")
    path.write_bytes(path.read_bytes()[:kept])

    with pytest.raises(TraceError, match=r"made-up.csv.gz is damaged"):
        read_file(path)


@pytest.mark.parametrize(
    "content", [b"no gzip", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xff\xff\xff"]
)
def test_what_is_no_compressed_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """Named as what it is."""
    path = tmp_path / "made-up.csv.gz"
    path.write_bytes(content)

    with pytest.raises(TraceError, match="damaged"):
        read_file(path)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    """A picture called a trace."""
    path = tmp_path / "made-up.csv"
    path.write_bytes(b"\x89PNG\x1b[2J" + b"x" * 200)

    with pytest.raises(
        TraceError, match=r"made-up.csv: columns \S{0,70}\.\.\. are neither"
    ) as refused:
        read_file(path)
    assert "\x1b" not in str(refused.value)


def test_names_may_be_in_any_encoding(tmp_path: Path) -> None:
    """A letter nobody can read is no damage."""
    path = tmp_path / "made-up.csv"
    path.write_bytes(f"{SAMPLES}\na?,0,0,1\na?,0,240,1\n".encode().replace(b"a?", b"a\xff"))

    assert "a\ufffd" == only(path).instance
