"""`make mutants` finds what it changes: a file or function that has moved would be left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

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
