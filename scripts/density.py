"""Measure how densely the code is written, by statement and never by line.

One argument a line, blank lines, comments and docstrings change none of the figures, so neither
squeezing nor splitting helps. A statement's own nodes are its syntax tree without the statements
inside it, docstrings, imports and annotations. Tests are left out.

`python -m scripts.density DIR ...` prints the figures of these places; `--worst N` lists the most
crowded statements. The figures are a thermometer: a page that reads well has good ones, not the
other way round. Never trade a clear line for a figure.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

PLACES = ("layers/shared/governor", "functions", "cli", "simulation", "evaluation", "agent/src")
"""Folders that are measured: all that is deployed or that people run."""
MOST_DECISIONS = 10
MOST_STATEMENTS = 25
MOST_COLUMNS = 100
VAGUE_NAMES = frozenset(
    {
        *("one", "found", "it", "its", "came", "more", "said", "other", "others", "another"),
        *("each", "these", "those", "thing", "things"),
    }
)
"""Names that say nothing of what is bound to them."""
_TESTS = re.compile(r"(^|/)(tests?|test_[^/]*|conftest)(/|\.py$|$)")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.comprehension,
    ast.match_case,
)
_IDEAS = (*_COMPREHENSIONS, ast.IfExp, ast.BoolOp, ast.NamedExpr, ast.Lambda)
"""A statement with two of these holds more than one idea: it is crowded."""
_NO_PART_OF_A_STATEMENT = frozenset({"annotation", "returns", "ctx"})


@dataclass(frozen=True)
class Place:
    """A statement, how many ideas it holds, and of how many nodes it consists."""

    ideas: int
    nodes: int
    where: str


@dataclass
class Counts:
    """Counts over all files that were read."""

    nodes: int = 0
    statements: int = 0
    crowded: int = 0
    packed: int = 0
    comprehensions: int = 0
    conditionals: int = 0
    walruses: int = 0
    vague: int = 0
    functions: int = 0
    complex_functions: int = 0
    long_functions: int = 0
    lines: int = 0
    wide_lines: int = 0
    places: list[Place] = field(default_factory=list)

    def per_statement(self, count: int, scale: float = 1.0) -> float:
        """Return the count for each `scale` statements."""
        return scale * count / max(self.statements, 1)

    def percent_of_functions(self, count: int) -> float:
        """Return how many percent of the functions these are."""
        return 100 * count / max(self.functions, 1)

    @property
    def percent_of_wide_lines(self) -> float:
        """Return how many percent of the lines that are not blank are too wide."""
        return 100 * self.wide_lines / max(self.lines, 1)

    def figures(self) -> dict[str, float]:
        """Return each figure by its name, in the order of the table of `make figures`."""
        return {
            "own nodes a statement": self.per_statement(self.nodes),
            "own nodes in total": self.nodes,
            "crowded statements, %": self.per_statement(self.crowded, 100),
            "packed assignments per 1,000": self.per_statement(self.packed, 1_000),
            "comprehensions per 1,000": self.per_statement(self.comprehensions, 1_000),
            "conditional expressions per 1,000": self.per_statement(self.conditionals, 1_000),
            "walrus per 1,000": self.per_statement(self.walruses, 1_000),
            "vague names bound per 1,000": self.per_statement(self.vague, 1_000),
            "functions over 10 decisions, %": self.percent_of_functions(self.complex_functions),
            "functions over 25 statements, %": self.percent_of_functions(self.long_functions),
            "lines over 100 columns, %": self.percent_of_wide_lines,
        }


GOALS: dict[str, float] = {
    "own nodes a statement": 7.0,
    "own nodes in total": 203_000,
    "crowded statements, %": 0.7,
    "packed assignments per 1,000": 1,
    "comprehensions per 1,000": 35,
    "conditional expressions per 1,000": 20,
    "walrus per 1,000": 1,
    "vague names bound per 1,000": 4,
    "functions over 10 decisions, %": 2,
    "functions over 25 statements, %": 1,
    "lines over 100 columns, %": 0,
}
"""The most of each that is wanted. They come from five code bases that read well."""


def measure(places: Sequence[Path]) -> Counts:
    """Return what the Python files of these folders and files count."""
    counts = Counts()
    for path in _files(places):
        _count_file(path, counts)
    return counts


def _files(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if place.is_file():
            yield place
            continue
        for path in sorted(place.rglob("*.py")):
            if not _TESTS.search(path.relative_to(place).as_posix()):
                yield path


def _count_file(path: Path, counts: Counts) -> None:
    text = path.read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.strip():
            counts.lines += 1
            counts.wide_lines += len(line) > MOST_COLUMNS
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _FUNCTIONS):
            _count_function(node, counts)
        if isinstance(node, ast.stmt) and not _is_left_out(node):
            _count_statement(node, f"{path}:{node.lineno}", counts)


def _is_left_out(statement: ast.stmt) -> bool:
    """Return whether it is an import or a docstring."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _count_function(function: ast.AST, counts: Counts) -> None:
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(function)) - 1
    counts.functions += 1
    counts.complex_functions += decisions(function) > MOST_DECISIONS
    counts.long_functions += statements > MOST_STATEMENTS


def decisions(function: ast.AST) -> int:
    """Return the decision points of a function, those inside expressions included."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, _BRANCHES):
            total += 1
        if isinstance(node, ast.comprehension):
            total += len(node.ifs)
    return total


def _count_statement(statement: ast.stmt, where: str, counts: Counts) -> None:
    nodes = own_nodes(statement)
    ideas = sum(isinstance(node, _IDEAS) for node in nodes)
    counts.statements += 1
    counts.nodes += len(nodes)
    counts.crowded += ideas > 1
    counts.packed += _is_packed(statement)
    counts.places.append(Place(ideas, len(nodes), where))
    for node in nodes:
        counts.comprehensions += isinstance(node, _COMPREHENSIONS)
        counts.conditionals += isinstance(node, ast.IfExp)
        counts.walruses += isinstance(node, ast.NamedExpr)
        counts.vague += _bound_name(node) in VAGUE_NAMES


def own_nodes(statement: ast.stmt) -> list[ast.AST]:
    """Return the nodes of a statement itself: not those of statements within it."""
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        for name, value in ast.iter_fields(node):
            if name in _NO_PART_OF_A_STATEMENT:
                continue
            children = value if isinstance(value, list) else [value]
            waiting += [child for child in children if _is_own(child)]
    return nodes


def _is_own(child: object) -> TypeGuard[ast.AST]:
    return isinstance(child, ast.AST) and not isinstance(child, ast.stmt)


def _is_packed(statement: ast.stmt) -> bool:
    """Return whether it assigns several values to several names in one line."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Tuple):
        return False
    return isinstance(statement.targets[0], ast.Tuple)


def _bound_name(node: ast.AST) -> str | None:
    """Return the name that a node binds: a variable or a parameter."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.arg):
        return node.arg
    return None


def main(arguments: Sequence[str]) -> int:
    """Print the figures beside their goals. Return 0 always: people weigh a goal that is missed."""
    parser = argparse.ArgumentParser(prog="density", description="how densely code is written")
    parser.add_argument("places", nargs="*", type=Path, default=[Path(place) for place in PLACES])
    parser.add_argument("--worst", type=int, default=0, help="list so many crowded statements")
    asked = parser.parse_args(arguments)
    counts = measure(asked.places)
    for name, value in counts.figures().items():
        print(f"{name:<36} {value:>11,.2f} {GOALS[name]:>9,g}")
    crowded_first = sorted(counts.places, key=lambda place: (-place.ideas, -place.nodes))
    for place in crowded_first[: asked.worst]:
        print(f"{place.ideas:>3} ideas {place.nodes:>4} nodes  {place.where}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
