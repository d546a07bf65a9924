"""What `make evaluate` prints, how it cross-validates, and the frontier."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from evaluation import __main__ as command
from evaluation import crossval, frontier, report
from evaluation.frontier import Curve
from evaluation.scoring import Score, replay
from evaluation.traces import Trace
from governor.domain.detection.history import Bin
from governor.domain.detection.survival import SurvivalDetector
from tests.unit.domain.detection.builders import BUSY, IDLE, bins_of

ROOT = Path(__file__).parents[3]
CAREFUL = SurvivalDetector(needed_chance=0.7)
HASTY = SurvivalDetector(needed_chance=0.6)


def scored(right: int, wrong: int, caught: int = 100) -> Score:
    """So many flags, and 100 idle bins of which some were caught."""
    return Score(right=right, wrong=wrong, caught_bins=caught, idle_bins=100)


def test_the_last_line_is_one_object_of_three_figures_a_family() -> None:
    """Precision, wrong rate and recall as shares, to four digits."""
    text = report.summary({"lab": scored(2, 1, 95), "serving": Score()})

    assert "\n" not in text
    assert {
        "lab": {"precision": 0.6667, "wrong": 0.3333, "recall": 0.95},
        "serving": {"precision": 0.0, "wrong": 0.0, "recall": 0.0},
    } == json.loads(text)


def test_a_row_stands_under_its_header() -> None:
    """Each figure ends where its name does, so that the table can be read."""
    row = report.row("x", Score(right=88, between=77, wrong=66, censored=55, acted=44, acted_wrongly=33))

    for name, figure in (("flags", "231"), ("right", "88"), ("betw.", "77"), ("cens.", "55")):
        end = report.HEADER.index(name) + len(name)
        assert row[:end].endswith(figure)
    assert row.endswith("  33 of 44")


@pytest.mark.parametrize("rows", ["", "a,0,0,\na,0,300,\n"])
def test_files_without_a_measurement_print_an_empty_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rows: str
) -> None:
    """A header alone, or polls without a reading: readable, and said to hold nothing."""
    (tmp_path / "a.csv").write_text(f"instance_id,gpu_index,timestamp_s,utilization_gpu\n{rows}")
    monkeypatch.setattr(sys, "argv", ["evaluate", str(tmp_path)])

    assert 0 == command.main()
    out, err = capsys.readouterr()
    assert {} == json.loads(out.splitlines()[-1])
    assert f"warning: no rows with a measurement in {tmp_path}: nothing is scored\n" == err


def test_a_bad_row_costs_neither_the_rest_nor_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is left out is named on standard error; nothing left is exit status 2."""
    header = "instance_id,gpu_index,timestamp_s,utilization_gpu"
    bad = tmp_path / "b.csv"
    bad.write_text(f"{header}\nx,0,0,xyz\n")
    monkeypatch.setattr(sys, "argv", ["evaluate", str(tmp_path)])
    assert 2 == command.main()
    refused = capsys.readouterr()
    (tmp_path / "a.csv").write_text("\n".join([header, *(f"a,0,{60 * n},0" for n in range(300)), ""]))
    assert 0 == command.main()
    scored = capsys.readouterr()

    reason = "b.csv, line 2: utilization_gpu: 'xyz' is no number"
    assert ("", f"evaluate: {reason}\n") == refused
    assert f"({reason}): x\n" in scored.err
    assert ["lab"] == list(json.loads(scored.out.splitlines()[-1]))


def test_traces_that_cannot_be_read_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2, the reason on standard error, and nothing scored."""
    monkeypatch.setattr(sys, "argv", ["evaluate", str(tmp_path / "none")])

    assert 2 == command.main()
    out, err = capsys.readouterr()
    assert "" == out
    assert err.startswith("evaluate: no trace files")


def test_the_whole_command_on_a_file_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Any file in the same columns: all detectors' rows, the plot, and the default's figures at the end."""
    busy = [day * 86_400 + hour * 3_600 for day in range(4) for hour in range(9, 18)]
    rows = (f"made-up-1,1,{start},{start + 3_600},gpu" for start in busy)
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["instance_id,n_gpus,start_s,end_s,kind", *rows, ""]))
    plot = tmp_path / "frontier.svg"
    monkeypatch.setattr(sys, "argv", ["evaluate", str(path), "--plot", str(plot)])

    assert 0 == command.main()
    lines = capsys.readouterr().out.splitlines()
    # Three nights of 15 hours: asked for are 2 hours the first time, 70 minutes the second, then an hour.
    recall = round((13 + (13 + 5 / 6) + 14) / 45, 4)
    assert {"notebooks": {"precision": 1.0, "wrong": 0.0, "recall": recall}} == json.loads(lines[-1])
    for detector in (*command.BESIDE, command.DEFAULT):
        assert any(line.startswith(detector.name) for line in lines)
    assert "svg" in ElementTree.fromstring(plot.read_text()).tag
    assert 2 == sum("left out: not possible: " in line for line in lines)
    assert not any(line.startswith("chosen with") for line in lines)


def test_make_hands_paths_with_spaces_on_as_they_are() -> None:
    """Of the traces and of the plot."""
    make = shutil.which("make")
    assert make
    asked = [make, "--dry-run", "evaluate", "TRACES=my traces", "PLOT=a plot.svg"]
    shown = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    said = ["-m", "evaluation", "my traces", "--plot", "a plot.svg"]
    assert said == shlex.split(shown.splitlines()[-1])[1:]


# cross-validation


def test_a_candidate_is_chosen_without_what_it_is_scored_on() -> None:
    """The hasty one is best on `b` alone; scored on `b`, the choice must rest on `a`, where it fails."""
    good, bad = scored(10, 0), scored(0, 10)
    validation = crossval.leave_out(
        {
            CAREFUL: {("lab", "a"): good, ("lab", "b"): bad},
            HASTY: {("lab", "a"): bad, ("lab", "b"): good},
        },
        lambda fold: fold[1],
    )

    # Chosen on the other machine, each fails on the one left out.
    assert {"lab": bad + bad} == validation.scores
    assert {CAREFUL: 1, HASTY: 1} == validation.chosen


@pytest.mark.parametrize(
    ("folds", "machine", "family"),
    [
        ((), "no idleness at all", "no idleness at all"),
        ((("lab", "a"),), "idleness in lab/a alone", "idleness in lab alone"),
        ((("lab", "a"), ("lab", "b")), None, "idleness in lab alone"),
        ((("lab", "a"), ("serving", "b")), None, None),
        ((("lab", "a"), ("unheard of", "b")), "idleness in lab/a alone", "idleness in lab alone"),
    ],
)
def test_where_the_rest_teaches_nothing_nothing_is_left_out(
    folds: tuple[crossval.Fold, ...], machine: str | None, family: str | None
) -> None:
    """Figures of a choice that was none would be the default's by chance."""
    never_idle = {("notebooks", "z"): Score(right=1)}
    scores = {CAREFUL: {**{fold: scored(9, 1) for fold in folds}, **never_idle}}
    for part, reason in (("/".join, machine), (itemgetter(0), family)):
        found = crossval.why_not(scores, part)
        if reason is None:
            assert found is None
        else:
            assert found is not None
            assert found.startswith(f"not possible: there is {reason}, ")


def test_every_part_is_left_out_once() -> None:
    """By machine and by family: the held-out scores are of all machines together."""
    one = scored(9, 1)
    folds = {("lab", "a"): one, ("lab", "b"): one, ("serving", "c"): one}
    for position, parts in ((1, 3), (0, 2)):
        validation = crossval.leave_out({CAREFUL: folds}, itemgetter(position))

        assert {"lab": one + one, "serving": one} == validation.scores
        assert {CAREFUL: parts} == validation.chosen


def test_traces_of_one_machine_are_one_fold() -> None:
    """Two sessions of a notebook never stand on both sides."""
    bins = tuple(Bin(row) for row in bins_of((BUSY, 1), (IDLE, 6), (BUSY, 1)))
    traces = [Trace("notebooks", f"ab-{session}", 0, bins) for session in (1, 2)]
    scores = crossval.scores_by_machine(traces, [CAREFUL])

    once = replay(traces[0], CAREFUL)
    assert {CAREFUL: {("notebooks", "ab"): once + once}} == scores


def test_a_shortfall_counts_what_is_missed_of_the_goals_and_nothing_beyond_them() -> None:
    """A family without a goal or without idleness is not missed."""
    precision, wrong, recall = crossval.GOALS["lab"]
    met = Score(right=97, between=3, caught_bins=96, idle_bins=100)
    missed = Score(right=80, between=10, wrong=10, caught_bins=90, idle_bins=100)

    assert 0 == crossval.shortfall({"lab": met, "unheard of": missed, "serving": Score()})
    expected = (precision - 0.8) + (0.1 - wrong) + (recall - 0.9)
    assert expected == pytest.approx(crossval.shortfall({"lab": missed}))


# the frontier

FALLING = Curve((scored(5, 5, 90), scored(8, 2, 50), scored(9, 1, 30)))
"""Wrong in 0.5, 0.2 and 0.1 of the flags, at a recall of 0.9, 0.5 and 0.3."""


@pytest.mark.parametrize(
    ("recall", "wrong"),
    [(0.95, None), (0.9, 0.5), (0.7, 0.35), (0.5, 0.2), (0.4, 0.15), (0.3, 0.1), (0.0, 0.1)],
)
def test_the_wrong_rate_at_a_recall_lies_on_the_line_between_two_points(
    recall: float, wrong: float | None
) -> None:
    """None above the highest recall; below the lowest, the best of all."""
    found = FALLING.wrong_rate_at(recall)

    assert found == (None if wrong is None else pytest.approx(wrong))


def test_a_point_that_catches_more_with_fewer_wrong_flags_wins() -> None:
    """A curve may turn: asking for so much recall at least, more of it at a lower price is better."""
    curve = Curve((scored(9, 1, 90), scored(5, 5, 50)))

    assert 0.1 == curve.wrong_rate_at(0.5)


def test_a_curve_has_a_point_a_detector_and_the_default_is_among_them() -> None:
    """So that the table shows what is shipped."""
    trace = Trace("lab", "a", 0, tuple(Bin(row) for row in bins_of((BUSY, 1), (IDLE, 6), (BUSY, 1))))
    curve = frontier.curve([trace], frontier.FIXED)

    assert [replay(trace, detector) for detector in frontier.FIXED] == list(curve.scores)
    assert SurvivalDetector() in frontier.SURVIVAL
    assert SurvivalDetector() in crossval.GRID


def test_the_table_sets_fixed_windows_beside_at_the_same_recall() -> None:
    """One line a point; where they never catch so much, it says so."""
    survival = Curve((scored(9, 1, 95), *[scored(9, 1, 70)] * (len(frontier.SURVIVAL) - 1)))
    lines = frontier.table(FALLING, survival).splitlines()

    assert 1 + len(frontier.SURVIVAL) == len(lines)
    assert lines[1].endswith("never so much")
    assert lines[2].split()[-4:] == ["0.700", "0.900", "0.100", "0.350"]
