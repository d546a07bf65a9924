"""`make mutants` finds what it changes: a file or function that has moved would be left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from scripts import mutants
from scripts.mutants import FILES, LISTED, LOST, TESTS

ROOT = Path(__file__).parents[2]
LAYER = ROOT / "layers/shared/governor"
_LINE = re.compile(r"(?P<file>\S+\.py) (?P<function>[\w.]+): ")


def functions_of(file: str) -> set[str]:
    """Return the names of the functions of a file of the layer, with their classes."""
    names = set()
    for node in ast.parse((LAYER / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{inner.name}"
                for inner in node.body
                if isinstance(inner, ast.FunctionDef)
            }
    return names


@pytest.mark.parametrize("file", FILES)
def test_each_file_that_is_changed_exists(file: str) -> None:
    """A file has functions to change."""
    assert functions_of(file)


@pytest.mark.parametrize("path", TESTS)
def test_each_test_that_must_notice_exists(path: str) -> None:
    """Files and folders alike."""
    assert (ROOT / path).exists()


@pytest.mark.parametrize("function", LOST)
def test_each_function_whose_texts_count_exists(function: str) -> None:
    """The page says with them what is lost and what stays."""
    assert any(function in functions_of(file) for file in FILES)


def test_each_equivalent_mutant_names_a_function_that_exists() -> None:
    """Its reason is of no use for a function that is gone."""
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    matches = [_LINE.match(line) for line in lines if not line.startswith("#")]
    gone = [
        match[0]
        for match in matches
        if match is not None and match["function"] not in functions_of(match["file"])
    ]

    assert all(match is not None for match in matches)
    assert [] == gone


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The message with which a run is refused before any test runs."""
    with pytest.raises(SystemExit) as ended:
        mutants.main(arguments)

    assert 2 == ended.value.code
    return capsys.readouterr().err


def test_a_name_that_fits_no_mutant_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A run of nothing would look like a run in which nothing survived."""
    message = refusal(capsys, "guards.py", "nothere")

    assert "no mutant has 'nothere' in its path or name" in message


def test_a_missing_file_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that has moved would be left out."""
    monkeypatch.setattr(mutants, "FILES", ("remediation/guards.py", "remediation/gone.py"))
    message = refusal(capsys)

    assert "FILES of scripts/mutants.py names paths that do not exist" in message
    assert "remediation/gone.py" in message


def test_a_missing_test_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """By the path that does not exist."""
    message = refusal(capsys, "--tests", "tests/unit/gone.py::test_it")

    assert "--tests names paths that do not exist: tests/unit/gone.py" in message


def test_no_mutant_is_a_docstring() -> None:
    """It does nothing, so no test could notice it."""
    texts = [
        one.name for one in mutants.mutants_of("episode/rules/plan.py") if "'Return " in one.name
    ]
    assert [] == texts
