"""The output of `make evaluate`."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evaluation import __main__ as command
from evaluation import report
from evaluation.scoring import Score

ROOT = Path(__file__).parents[3]


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
    """Each figure ends where its name does, so that the table can be read; the default has a
    star."""
    score = Score(
        right=88, between=77, wrong=66, censored=55, acted=44, acted_wrongly=33, idle_bins=9
    )
    row = report.row("180 min", score, is_default=True)

    for name, figure in (("asked", "231"), ("right", "88"), ("betw.", "77"), ("cens.", "55")):
        end = report.HEADER.index(name) + len(name)
        assert row[:end].endswith(figure)
    for name, figure in (("precision", "0.381 0.32-0.45"), ("wrong rate", "0.286 0.23-0.35")):
        assert row[report.HEADER.index(name) :].startswith(figure)
    assert row.startswith("180 min *")
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
    """Files that are left out are named on standard error; nothing left is exit status 2."""
    header = "instance_id,gpu_index,timestamp_s,utilization_gpu"
    bad = tmp_path / "b.csv"
    bad.write_text(f"{header}\nx,0,0,xyz\n")
    monkeypatch.setattr(sys, "argv", ["evaluate", str(tmp_path)])
    assert 2 == command.main()
    refused = capsys.readouterr()
    (tmp_path / "a.csv").write_text(
        "\n".join([header, *(f"a,0,{60 * n},0" for n in range(300)), ""])
    )
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
    """Any file in the same columns: a row a rule, and the default's figures at the end."""
    busy = [day * 86_400 + hour * 3_600 for day in range(4) for hour in range(9, 18)]
    rows = (f"made-up-1,1,{start},{start + 3_600},gpu" for start in busy)
    path = tmp_path / "own.csv"
    path.write_text("\n".join(["instance_id,n_gpus,start_s,end_s,kind", *rows, ""]))
    monkeypatch.setattr(sys, "argv", ["evaluate", str(path)])

    assert 0 == command.main()
    lines = capsys.readouterr().out.splitlines()
    # Three nights of 15 hours, each asked about after three.
    assert {"notebooks": {"precision": 1.0, "wrong": 0.0, "recall": 0.8}} == json.loads(lines[-1])
    for rule in command.FIXED:
        assert any(line.startswith(f"{rule.name} ") for line in lines)
    assert not any("once released" in line for line in lines)
    assert any(line.startswith("GPU memory is not measured here") for line in lines)


def test_the_shorter_wait_is_scored_where_memory_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An hour of work and nine idle hours, with the memory released: asked after 90 minutes."""
    columns = "instance_id,gpu_index,timestamp_s,utilization_gpu,memory_used_pct"
    rows = (f"a,0,{60 * minute},{90 if minute < 60 else 0},1" for minute in range(600))
    path = tmp_path / "own.csv"
    path.write_text("\n".join([columns, *rows, ""]))
    monkeypatch.setattr(sys, "argv", ["evaluate", str(path)])

    assert 0 == command.main()
    lines = capsys.readouterr().out.splitlines()
    assert {"lab": {"precision": 1.0, "wrong": 0.0, "recall": round(7.5 / 9, 4)}} == json.loads(
        lines[-1]
    )
    for rule in (*command.FIXED, *command.RELEASED):
        assert any(line.startswith(f"{rule.name} ") for line in lines)


def test_make_hands_paths_with_spaces_on_as_they_are() -> None:
    """Paths of the traces."""
    make = shutil.which("make")
    assert make
    asked = [make, "--dry-run", "evaluate", "TRACES=my traces"]
    shown = subprocess.run(asked, cwd=ROOT, check=True, capture_output=True, text=True).stdout

    words = shlex.split(shown.splitlines()[-1])
    start = words.index("evaluation") - 1
    assert ["-m", "evaluation", "my traces"] == [
        word.rstrip(";") for word in words[start : start + 3]
    ]
