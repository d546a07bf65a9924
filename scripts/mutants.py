"""`make mutants`: changes the code in front of an EC2 call in small ways, one at a time; a test must fail.

    python -m scripts.mutants [part of a file's path ...] [--tests PATH ...]

One run of the tests tells which test reaches which line. Then each mutant gets a process of its own, forked
from the one that has collected the tests: it exchanges the code of one function, and runs the tests that
reach it until one fails. A process that ends no test in a minute of computing, or in 15 of waiting, hangs:
that is noticed, too. `scripts/equivalent_mutants.txt` lists mutants that change nothing, with their reasons;
one that a test notices does not belong there. The last line is JSON; the exit status is 1 where one survives.
"""

from __future__ import annotations

import argparse
import ast
import copy
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
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYER = ROOT / "layers" / "shared" / "governor"
LISTED = ROOT / "scripts" / "equivalent_mutants.txt"
FILES = (
    *(f"usecases/episode/{name}.py" for name in ("guards", "put_away", "take_snapshot", "recheck_episode")),
    *(f"domain/episode/{name}.py" for name in ("plan", "episode")),
    *("usecases/approvals/decide.py", "domain/approvals/approval.py", "domain/approvals/terms.py"),
    *("domain/sweep/verdict.py", "domain/sweep/judging.py"),
)
TESTS = tuple(f"tests/unit/{name}" for name in ("domain", "usecases", "channels", "web"))
LOST = ("_losses", "_launched_with", "_stays")
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
    """The change with that number in a file, where it is, and how the list of equivalent ones names it."""

    file: str
    number: int
    scope: str
    lines: range
    name: str


class Place(NamedTuple):
    """A node, the function it is in, and how to put another one there."""

    scope: str
    node: ast.AST
    put: Callable[[ast.AST], object]


def places(node: ast.AST, scope: str = "", *, inside: bool = False) -> Iterator[Place]:
    """Every node of a function that may be changed, but for what an error or a log says."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and not inside:
        scope, inside = f"{scope}.{node.name}".strip("."), isinstance(node, ast.FunctionDef)
    for name, value in ast.iter_fields(node):
        for index, child in enumerate(value if isinstance(value, list) else [value]):
            if name in _NOT_RUN or isinstance(child, ast.arguments) or not isinstance(child, ast.AST):
                continue
            if inside:
                is_list = isinstance(value, list)
                put = partial(value.__setitem__, index) if is_list else partial(setattr, node, name)
                yield Place(scope, child, put)
            if not isinstance(child, ast.Raise):
                yield from places(child, scope, inside=inside)


def variants(node: ast.AST, scope: str) -> Iterator[ast.AST]:
    """What may stand in the place of a node."""
    match node:
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            if not ast.unparse(node).startswith("_log."):
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
        case ast.Name(id=name, ctx=ast.Load()) if name in _OTHER_NAME:
            yield _with(node, id=_OTHER_NAME[name])
        case ast.Tuple(ctx=ast.Load(), elts=elts) | ast.List(ctx=ast.Load(), elts=elts) | ast.Set(elts=elts):
            yield from (_with(node, elts=[*elts[:place], *elts[place + 1 :]]) for place in range(len(elts)))


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
    for number, (_, (scope, node, _), new) in enumerate(changes(file)):
        name = f"{file} {scope}: {_in_words(node)} -> {_in_words(new)}"
        seen[name] += 1
        at: Any = getattr(node, "test", getattr(node, "target", node))
        lines = range(at.lineno, at.end_lineno + 1)
        yield Mutant(file, number, scope, lines, f"{name} ({seen[name]})" if seen[name] > 1 else name)


def _in_words(node: ast.AST) -> str:
    """A line of source; of an `if` its condition."""
    line = " ".join(ast.unparse(node.test if isinstance(node, ast.If | ast.While) else node).split())
    return line if len(line) <= 90 else f"{line[:87]}..."


def plant(mutant: Mutant) -> None:
    """Exchange the code of the function in this process."""
    module = importlib.import_module(f"governor.{mutant.file[:-3].replace('/', '.')}")
    tree, place, new = list(changes(mutant.file))[mutant.number]
    place.put(new)
    codes = _codes(compile(ast.fix_missing_locations(tree), module.__file__ or "", "exec"))
    [code] = [one for one in codes if one.co_qualname == mutant.scope]
    owner, _, name = mutant.scope.rpartition(".")
    found = vars(getattr(module, owner) if owner else module)[name]
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

    def __init__(self, files: Sequence[str]) -> None:
        self.files = files
        self.results: list[tuple[Mutant, int]] = []
        self.running: dict[int, Mutant] = {}
        self.reached: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.seconds: list[float] = []

    def pytest_collection(self) -> None:
        """The same examples for every mutant."""
        from hypothesis import settings  # pytest wants to be the first that imports it

        settings.register_profile("mutants", deadline=None, derandomize=True, database=None)
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Run the tests once as they are, and then those that reach each mutant."""
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
        with tempfile.NamedTemporaryFile() as told:
            _, status = os.waitpid(_forked(lambda: self._reach(session.items, Path(told.name))), 0)
            if status:
                raise pytest.UsageError("the tests fail without any change")
            self.reached, self.seconds = pickle.loads(Path(told.name).read_bytes())  # noqa: S301 - ours
        for mutant in [one for file in self.files for one in mutants_of(file)]:
            if len(self.running) >= (os.cpu_count() or 1):
                self._note()
            items = [session.items[test] for test in self._tests(mutant, session.items)]
            self.running[_forked(lambda: _try(mutant, items))] = mutant  # noqa: B023 - called at once
        while self.running:
            self._note()
        return True

    def _tests(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[int]:
        """Those that reach its lines: its own tests first, then the quickest."""
        found = {test for line in mutant.lines for test in self.reached.get((mutant.file, line), ())}
        own = Path(mutant.file).stem.partition("_")[0]
        return sorted(found, key=lambda test: (own not in items[test].nodeid, self.seconds[test]))

    def _note(self) -> None:
        pid, status = os.wait()
        code, mutant = os.waitstatus_to_exitcode(status), self.running.pop(pid)
        self.results.append((mutant, code))
        if (how := {SURVIVED: "survived", BROKEN: "BROKEN"}.get(code)) is not None:
            print(f"\n{how}: {mutant.name}  # line {mutant.lines.start}")

    def _reach(self, items: Sequence[pytest.Item], told: Path) -> None:
        files, test = {str(LAYER / one): one for one in self.files}, -1

        def trace(frame: Any, _: str, __: object) -> Any:
            file = files.get(frame.f_code.co_filename)
            if file is not None:
                self.reached[file, frame.f_lineno].add(test)
            return None if file is None else trace

        sys.settrace(trace)
        for test in _one_by_one(items):  # noqa: B007 - the trace reads it
            self.seconds.append(time.process_time() - sum(self.seconds))
        told.write_bytes(pickle.dumps((dict(self.reached), [*self.seconds[1:], 0.0])))


def _try(mutant: Mutant, items: Sequence[pytest.Item]) -> None:
    plant(mutant)
    sys.stderr = io.StringIO()
    for _ in _one_by_one(items):
        pass


def _one_by_one(items: Sequence[pytest.Item]) -> Iterator[int]:
    """Run tests until one fails, which ends the process; yield the index of each before it."""

    class Watch:
        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                print(report.nodeid, file=sys.stderr, flush=True)
                os._exit(NOTICED)

    if items:
        items[0].config.pluginmanager.register(Watch())
    for index, item in enumerate(items):
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 60, resource.RLIM_INFINITY))
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


def main(arguments: Sequence[str]) -> int:
    """Return the exit status: 1 where a mutant survives, or is listed as equivalent and is not."""
    parser = argparse.ArgumentParser(description="Run mutants.")
    parser.add_argument("files", nargs="*", help="parts of paths; none means all")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="by default all that matter")
    given = parser.parse_args(arguments)
    run = Run([one for one in FILES if not given.files or any(part in one for part in given.files)])
    status = pytest.main(["-p", "no:cacheprovider", "-qs", "-o", "timeout=0", *given.tests], plugins=[run])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED) or not run.results:
        return 2
    lines = [line.partition("  # ") for line in LISTED.read_text().splitlines()]
    listed = {name for name, _, reason in lines if reason and name.split()[0] in run.files}
    survived = {mutant.name for mutant, code in run.results if code == SURVIVED}
    broken = {mutant.name for mutant, code in run.results if code == BROKEN}
    for name in sorted(listed - survived):
        print(f"listed as equivalent, but noticed by a test, or gone: {name}")
    kept = {"equivalent": len(survived & listed), "survived": len(survived - listed), "broken": len(broken)}
    print(json.dumps({"mutants": len(run.results), **kept, "stale": len(listed - survived)}))
    return int(bool(survived - listed or listed - survived or broken))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
