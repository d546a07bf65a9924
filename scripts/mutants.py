"""`make mutants`: changes the code in front of an EC2 call in small ways, one at a time; a test
must fail.

    python -m scripts.mutants [part of a file's path ...] [--tests PATH ...]

One run of the tests tells which test reaches which line. Then each mutant gets a process of its
own, forked from the one that has collected the tests: it exchanges the code of one function, and
runs the tests that reach it until one fails. A process that ends no test in 30 seconds of
computing, or in 15 minutes, hangs: that is noticed, too. `scripts/equivalent_mutants.txt` lists
mutants that change nothing, with their reasons; one that a test notices does not belong there. The
last line is JSON; the exit status is 1 where one survives. A mutant takes 0.2 s of computing. None
are made of what a log says, nor of what another one says as well.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import importlib
import io
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYER = ROOT / "layers" / "shared" / "governor"
LISTED = ROOT / "scripts" / "equivalent_mutants.txt"
FILES = (
    "approvals/decide.py",
    "approvals/model/approval.py",
    "approvals/model/terms.py",
    "approvals/refused_answers.py",
    "approvals/rules/answers.py",
    "approvals/rules/approval.py",
    "approvals/rules/stages.py",
    "approvals/rules/terms.py",
    "episode/model/episode.py",
    "episode/model/plan.py",
    "episode/rules/plan.py",
    "episode/rules/plan_effects.py",
    "evidence/check_freshness.py",
    "evidence/rules/figures.py",
    "evidence/rules/freshness.py",
    "limits/freezes.py",
    "limits/model/breaker.py",
    "limits/rules/breaker.py",
    "limits/store/cap_items.py",
    "limits/store/caps.py",
    "notify/verify_alert.py",
    "remediation/clearance.py",
    "remediation/guards.py",
    "remediation/underway.py",
    "remediation/put_away.py",
    "remediation/recheck_episode.py",
    "remediation/rules/same_as_asked.py",
    "remediation/take_snapshot.py",
    "verdict/model.py",
    "verdict/rules/judge.py",
    "verdict/rules/judging.py",
    "verdict/rules/proof.py",
    "verdict/rules/samples.py",
    "verdict/rules/utilization.py",
    "verdict/rules/vetoes.py",
)
TESTS = (
    "tests/unit/approvals",
    "tests/unit/aws/test_action_caps.py",
    "tests/unit/console",
    "tests/unit/episode",
    "tests/unit/evidence",
    "tests/unit/limits",
    "tests/unit/money/test_over_budget.py",
    "tests/unit/notify/test_dispatch.py",
    "tests/unit/notify/test_verify_alert.py",
    "tests/unit/policy",
    "tests/unit/remediation",
    "tests/unit/sweep",
    "tests/unit/test_doctor_telemetry.py",
    "tests/unit/test_figure_readers.py",
    "tests/unit/verdict",
    "tests/unit/web",
)
"""Tests of the rooms that these files are in, and of their purposes: others notice nothing."""
LOST = {"losses_of", "_lost_disks", "_lost_with_instance", "stays_of", "_instance_text"}
"""Functions whose texts count, too: what the page says is lost, and what stays."""
SURVIVED, NOTICED, BROKEN = 0, 1, 3
_PAIRS: list[tuple[type, type]] = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq)]
_PAIRS += [
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.FloorDiv),
    (ast.BitAnd, ast.BitOr),
]
_OPPOSITE: dict[type, Any] = {one: other for a, b in _PAIRS for one, other in ((a, b), (b, a))}
_NOT_RUN = ("annotation", "returns", "decorator_list", "format_spec")
_OTHER_NAME = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """The change with that number in a file, its line and that of its statement, and its name in
    the list."""

    file: str
    number: int
    scope: str
    line: int
    statement: int
    name: str


class Place(NamedTuple):
    """A node, the function and the line of the statement it is in, and how to put another one
    there."""

    scope: str
    statement: int
    node: ast.AST
    put: Callable[[ast.AST], object]


def places(
    node: ast.AST, scope: str = "", line: int = 0, *, inside: bool = False
) -> Iterator[Place]:
    """Every node of a function that may be changed, but for what an error or a log says."""
    line = node.lineno if isinstance(node, ast.stmt) else line
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not inside:
        scope, inside = f"{scope}.{node.name}".strip("."), isinstance(node, ast.FunctionDef)
    for name, value in ast.iter_fields(node):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if (
                name in _NOT_RUN
                or isinstance(child, ast.arguments)
                or not isinstance(child, ast.AST)
            ):
                continue
            if inside and not _says_no_more(node, name, child):
                is_list = isinstance(value, list)
                put = partial(value.__setitem__, index) if is_list else partial(setattr, node, name)
                yield Place(
                    scope, child.lineno if isinstance(child, ast.stmt) else line, child, put
                )
            if not isinstance(child, ast.Raise):
                yield from places(child, scope, line, inside=inside)


def _says_no_more(node: ast.AST, name: str, child: ast.AST) -> bool:
    """Return whether another change is noticed by the same tests: a condition that is always true
    or false says more than one turned round, and as much as its only statement left out. What is
    unpacked cannot be shorter. A docstring does nothing.
    """
    match node, name, child:
        case ast.Expr(), "value", ast.Constant():
            return True
        case ((ast.If() | ast.IfExp() | ast.While()), "test", ast.UnaryOp(op=ast.Not())):
            return True
        case ((ast.If() | ast.IfExp() | ast.While()), "test", ast.Compare(ops=[op])):
            return not isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
        case ast.If(body=[_], orelse=[]), "body", _:
            return True
        case ast.Assign(targets=[ast.Tuple()]), "value", _:
            return True
    return False


def variants(node: ast.AST, scope: str) -> Iterator[ast.AST]:
    """Yield what may stand in the place of a node."""
    match node:
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            if not ast.unparse(node).startswith(("_log.", "assert_never(")):
                yield ast.Pass()
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield _with(node, ops=[*ops[:place], _OPPOSITE[type(op)](), *ops[place + 1 :]])
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in _OPPOSITE:
            yield _with(node, op=_OPPOSITE[type(op)]())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.IfExp() | ast.If() | ast.While():
            yield from (_with(node, test=ast.Constant(value)) for value in (True, False))
        case ast.comprehension(ifs=[_, *_]):
            yield _with(node, ifs=[])
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() as number):
            yield ast.Constant(number + 1)
        case ast.Constant(value=str() as text) if text and scope in LOST:
            yield ast.Constant("")
        case ast.Call(keywords=[_, *_] as keywords):
            for place, keyword in enumerate(keywords):
                if keyword.arg is not None and not ast.unparse(node.func).startswith("_log."):
                    yield _with(node, keywords=[*keywords[:place], *keywords[place + 1 :]])
        case ast.Name(id=name, ctx=ast.Load()) if name in _OTHER_NAME:
            yield _with(node, id=_OTHER_NAME[name])
        case (
            ast.Tuple(ctx=ast.Load(), elts=elts)
            | ast.List(ctx=ast.Load(), elts=elts)
            | ast.Set(elts=elts)
        ):
            yield from (
                _with(node, elts=[*elts[:place], *elts[place + 1 :]]) for place in range(len(elts))
            )


def _with(node: ast.AST, **changed: object) -> ast.AST:
    new = copy.copy(node)
    for name, value in changed.items():
        setattr(new, name, value)
    return new


def changes(file: str) -> Iterator[tuple[ast.Module, Place, ast.AST]]:
    """Every change to the functions of a file, in a tree of its own."""
    tree = ast.parse((LAYER / file).read_text())
    for place in places(tree):
        yield from ((tree, place, new) for new in variants(place.node, place.scope))


def mutants_of(file: str) -> Iterator[Mutant]:
    """Equal changes in one function are told apart by their count."""
    seen = Counter[str]()
    for number, (_, (scope, statement, node, _), new) in enumerate(changes(file)):
        name = f"{file} {scope}: {_in_words(node)} -> {_in_words(new)}"
        seen[name] += 1
        at: Any = getattr(node, "test", getattr(node, "target", node))
        name = f"{name} ({seen[name]})" if seen[name] > 1 else name
        yield Mutant(file, number, scope, at.lineno, statement, name)


def _in_words(node: ast.AST) -> str:
    """A line of source; of an `if` its condition."""
    line = " ".join(
        ast.unparse(node.test if isinstance(node, ast.If | ast.While) else node).split()
    )
    return line if len(line) <= 90 else f"{line[:87]}..."


def plant(mutant: Mutant) -> None:
    """Exchange the code of the function in this process."""
    tree, place, new = list(changes(mutant.file))[mutant.number]
    place.put(new)
    _exchange(mutant.file, tree, {mutant.scope})


def watch(file: str, note: Callable[[int], None]) -> None:
    """Let every statement of the functions of a file note its line before it runs."""
    tree = ast.parse((LAYER / file).read_text())
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.Module | ast.ClassDef) or not isinstance(
                getattr(node, name, None), list
            ):
                continue
            block: list[ast.stmt] = getattr(node, name)
            noted = [ast.parse(f"_note({one.lineno})").body[0] for one in block]
            setattr(node, name, [one for pair in zip(noted, block, strict=True) for one in pair])
    vars(_module(file))["_note"] = note
    _exchange(file, tree, {place.scope for place in places(tree)})


def _module(file: str) -> ModuleType:
    return importlib.import_module(f"governor.{file[:-3].replace('/', '.')}")


def _exchange(file: str, tree: ast.Module, scopes: Collection[str]) -> None:
    module = _module(file)
    codes = _codes(compile(ast.fix_missing_locations(tree), module.__file__ or "", "exec"))
    for code in (one for one in codes if one.co_qualname in scopes):
        owner, _, name = code.co_qualname.rpartition(".")
        found = vars(getattr(module, owner) if owner else module)[name]
        if hasattr(found, "cache_clear"):
            found.cache_clear()  # it remembers what the unchanged code has said
        function = getattr(found, "fget", None) or getattr(found, "__wrapped__", found)
        assert isinstance(function, FunctionType)
        function.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield one
            yield from _codes(one)


class Run:
    """A pytest plugin: once all tests are collected it runs mutants instead."""

    def __init__(self, mutants: Sequence[Mutant], jobs: int) -> None:
        self.mutants, self.jobs = mutants, jobs
        self.results: list[tuple[Mutant, int]] = []
        self.running: dict[int, tuple[Mutant, list[int], int]] = {}
        self.noticed: Counter[tuple[str, str, int]] = Counter()
        self.reached: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.seconds: list[float] = []

    def pytest_collection(self) -> None:
        """The same examples for every mutant."""
        from hypothesis import settings  # pytest wants to be the first that imports it

        settings.register_profile(
            "mutants", deadline=None, derandomize=True, database=None, max_examples=20
        )
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once as they are, and then those that reach each mutant."""
        from tests.iam import (
            own_statements,
        )  # read once: it takes longer than the tests of most mutants

        own_statements()
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        gc.freeze()
        with tempfile.NamedTemporaryFile() as told:
            _, status = os.waitpid(_forked(lambda: self._reach(session.items, Path(told.name))), 0)
            if status:
                raise pytest.UsageError("the tests fail without any change")
            self.reached, self.seconds = pickle.loads(Path(told.name).read_bytes())  # noqa: S301 - ours
        for mutant in self.mutants:
            if len(self.running) >= self.jobs:
                self._note()
            tests, (told_by, tell) = self._tests(mutant, session.items), os.pipe()
            items = [session.items[test] for test in tests]
            self.running[_forked(lambda: _try(mutant, items, tell))] = mutant, tests, told_by  # noqa: B023 - called at once
            os.close(tell)
        while self.running:
            self._note()
        return True

    def _tests(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[int]:
        """Those that reach its statement: those that noticed most like it, its own, the
        quickest."""
        found = self.reached.get((mutant.file, mutant.statement), set())
        own = Path(mutant.file).stem.partition("_")[0]

        def order(test: int) -> tuple[float, bool, float]:
            a_second = self.noticed[mutant.file, mutant.scope, test] / (self.seconds[test] + 0.02)
            return -a_second, own not in items[test].nodeid, self.seconds[test]

        return sorted(found, key=order)

    def _note(self) -> None:
        pid, status = os.wait()
        code, (mutant, tests, told_by) = os.waitstatus_to_exitcode(status), self.running.pop(pid)
        self.results.append((mutant, code))
        with os.fdopen(told_by) as told:
            self.noticed.update((mutant.file, mutant.scope, tests[int(place)]) for place in told)
        if (how := {SURVIVED: "survived", BROKEN: "BROKEN"}.get(code)) is not None:
            print(f"\n{how}: {mutant.name}  # line {mutant.line}")

    def _reach(self, items: Sequence[pytest.Item], told: Path) -> None:
        test = -1

        def note(file: str, line: int) -> None:
            self.reached[file, line].add(test)

        for file in dict.fromkeys(mutant.file for mutant in self.mutants):
            watch(file, partial(note, file))
        for test in _one_by_one(items):  # noqa: B007 - the notes read it
            self.seconds.append(time.process_time() - sum(self.seconds))
        told.write_bytes(pickle.dumps((dict(self.reached), [*self.seconds[1:], 0.0])))


def _try(mutant: Mutant, items: Sequence[pytest.Item], tell: int) -> None:
    plant(mutant)
    sys.stderr = io.StringIO()
    for _ in _one_by_one(items, tell):
        pass


def _one_by_one(items: Sequence[pytest.Item], tell: int | None = None) -> Iterator[int]:
    """Run tests until one fails, which ends the process; yield the index of each before it."""
    index = 0

    class Watch:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed and tell is not None:
                os.write(tell, str(index).encode())
            if report.failed:
                print(report.nodeid, file=sys.stderr, flush=True)
                os._exit(NOTICED)

    from tests.unit.worlds.world import OPENED_BEFORE

    if items:
        items[0].config.pluginmanager.register(Watch())
    for index, item in enumerate(items):
        OPENED_BEFORE.clear()  # each test reaches what opens its own worlds
        resource.setrlimit(
            resource.RLIMIT_CPU, (int(time.process_time()) + 30, resource.RLIM_INFINITY)
        )
        signal.alarm(900)
        yield index
        following = items[index + 1] if index + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def _forked(body: Callable[[], None]) -> int:
    sys.stdout.flush()
    pid, code = os.fork(), BROKEN
    if not pid:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            body()
            code = SURVIVED
        finally:
            os._exit(code)
    return pid


def _refuse_missing(
    parser: argparse.ArgumentParser, where: str, folder: Path, paths: Sequence[str]
) -> None:
    """End the program with status 2 and a message if one of these paths does not exist."""
    missing = [path for path in paths if not (folder / path).exists()]
    if missing:
        parser.error(f"{where} names paths that do not exist: {', '.join(missing)}")


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 where a mutant survives, or is listed as equivalent and is not."""
    parser = argparse.ArgumentParser(description="Run mutants.")
    parser.add_argument(
        "parts", nargs="*", help="parts of paths, or of a mutant's name; none means all"
    )
    parser.add_argument("--tests", nargs="+", default=TESTS, help="by default all that matter")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="so many side by side")
    given = parser.parse_args(arguments)
    _refuse_missing(parser, "FILES of scripts/mutants.py", LAYER, FILES)
    _refuse_missing(parser, "--tests", ROOT, [test.partition("::")[0] for test in given.tests])
    began, made = time.monotonic(), [one for file in FILES for one in mutants_of(file)]
    for part in given.parts:
        if not any(part in one.name for one in made):
            parser.error(f"no mutant has {part!r} in its path or name; FILES lists the paths")
    run = Run(
        [one for one in made if any(part in one.name for part in given.parts or [""])], given.jobs
    )
    status = pytest.main(
        ["-p", "no:cacheprovider", "-qs", "-o", "timeout=0", *given.tests], plugins=[run]
    )
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or not run.results:
        return 2
    lines = [line.partition("  # ") for line in LISTED.read_text().splitlines()]
    not_run = {one.name for one in made} - {one.name for one in run.mutants}
    listed = {name for name, _, reason in lines if name and reason} - not_run
    survived = {mutant.name for mutant, code in run.results if code == SURVIVED}
    broken = {mutant.name for mutant, code in run.results if code == BROKEN}
    for name in sorted(listed - survived):
        print(f"listed as equivalent, but noticed by a test, or gone: {name}")
    kept = {
        "equivalent": len(survived & listed),
        "survived": len(survived - listed),
        "broken": len(broken),
    }
    figures = {
        "mutants": len(run.results),
        "killed": len(run.results) - len(survived) - len(broken),
        **kept,
    }
    minutes = round((time.monotonic() - began) / 60, 1)
    print(json.dumps({**figures, "stale": len(listed - survived), "minutes": minutes}))
    return int(bool(survived - listed or listed - survived or broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
