"""The figures of plain code are counted by statement, so no layout of lines changes them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts import density

PACKED = """
def settle(entries):
    \"\"\"Say nothing.\"\"\"
    first, last = entries[0], entries[-1]
    return [one for one in entries if one and (found := one.get("x"))]
"""
SPLIT = """
def settle(
    entries,
):
    \"\"\"Say nothing,

    and more of it.
    \"\"\"
    # A comment.
    first, last = (
        entries[0],
        entries[-1],
    )

    return [
        one
        for one in entries
        if one
        and (
            found := one.get(
                "x"
            )
        )
    ]
"""


def counted(tmp_path: Path, text: str) -> density.Counts:
    path = tmp_path / "module.py"
    path.write_text(text)
    return density.measure([tmp_path])


def test_a_crowded_statement_is_counted_with_all_that_crowds_it(tmp_path: Path) -> None:
    """A comprehension with a condition that computes and binds: three ideas in one statement."""
    counts = counted(tmp_path, PACKED)

    assert (3, 1) == (counts.statements, counts.crowded)
    assert (1, 1, 1) == (counts.packed, counts.comprehensions, counts.walruses)
    assert [3, 0, 0] == sorted((place.ideas for place in counts.places), reverse=True)


def test_vague_names_are_counted_where_they_are_bound(tmp_path: Path) -> None:
    """`one` of the comprehension and `found`; what only reads them binds nothing."""
    assert 2 == counted(tmp_path, PACKED).vague


def test_no_layout_changes_a_figure(tmp_path: Path) -> None:
    """More lines, a longer docstring and a comment: all figures but that of wide lines stay."""
    packed = counted(tmp_path, PACKED).figures()

    assert packed == counted(tmp_path, SPLIT).figures()


def test_a_wide_line_is_one_of_more_than_100_columns(tmp_path: Path) -> None:
    """Blank lines are no lines."""
    counts = counted(tmp_path, f"a = 1\n\nb = '{'x' * 94}'\nc = '{'x' * 95}'\n")

    assert (3, 1) == (counts.lines, counts.wide_lines)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("pass", 1),
        ("if a and b or c: pass", 4),
        ("return [x for x in y if x if z]", 4),
        ("return 1 if a else 2", 2),
    ],
)
def test_decisions_inside_expressions_count(body: str, expected: int) -> None:
    """Linters leave them out."""
    assert expected == density.decisions(ast.parse(f"def f():\n    {body}"))


def test_tests_are_left_out(tmp_path: Path) -> None:
    """They are read otherwise."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "helper.py").write_text("a = 1\n")

    assert 0 == density.measure([tmp_path]).statements


def test_each_figure_has_a_goal() -> None:
    """And each goal a figure."""
    assert list(density.GOALS) == list(density.Counts().figures())


@pytest.mark.parametrize("place", density.PLACES)
def test_each_place_has_code(place: str) -> None:
    """A folder that has moved would have no statements, and look plain."""
    root = Path(__file__).resolve().parents[2]

    assert density.measure([root / place]).statements > 100


def test_the_code_is_as_plain_as_its_goals() -> None:
    """Each figure but the total, which grows with what the product does."""
    root = Path(__file__).resolve().parents[2]
    figures = density.measure([root / place for place in density.PLACES]).figures()
    del figures["own nodes in total"]

    too_dense = {name: value for name, value in figures.items() if value > density.GOALS[name]}
    assert {} == too_dense, "python -m scripts.density --worst 20 lists the most crowded statements"


@pytest.mark.parametrize("room", ["approvals", "limits", "remediation"])
def test_no_function_of_the_safety_core_decides_too_much(room: str) -> None:
    """These rooms decide about calls to EC2, so each of their functions must be read at once."""
    folder = Path(__file__).resolve().parents[2] / "layers/shared/governor" / room

    long = [
        f"{file.relative_to(folder)}: {node.name} has {density.decisions(node)} decisions"
        for file in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and density.decisions(node) > density.MOST_DECISIONS
    ]
    assert [] == long
