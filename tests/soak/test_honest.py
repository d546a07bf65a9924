"""A sample of `make soak-honest`: the soak's own stories notice bugs that are planted into the
product."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from unittest import mock

import pytest

from tests.soak.bugs import BUGS, Bug
from tests.soak.crashes import BY_NAME
from tests.soak.honest import caught
from tests.soak.planted import Edit, NotPlanted
from tests.soak.promises import PROMISES

_LEAST = 30
_SAMPLE = BUGS[::24]


def test_there_are_bugs_enough() -> None:
    """As many as the issue that asked for it said."""
    assert len(BUGS) >= _LEAST
    assert len({bug.name for bug in BUGS}) == len(BUGS)


def test_each_invariant_is_tested_by_a_bug() -> None:
    """One that no bug breaks may be unable to fail. A new invariant needs its bug at once."""
    planted = {bug.promise for bug in BUGS}

    assert planted == PROMISES.keys()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_each_bug_can_be_planted(bug: Bug) -> None:
    """The product still has what it changes; else look what has become of that guard, and change
    the bug."""
    assert bug.promise in PROMISES
    assert set() == set(bug.stories) - BY_NAME.keys()
    with ExitStack() as planted:
        for change in bug.changes:
            planted.enter_context(change.planted())


@pytest.mark.parametrize("bug", _SAMPLE, ids=lambda bug: bug.name)
def test_a_planted_bug_breaks_its_promise(bug: Bug) -> None:
    """Where it does not, the soak would let such a bug through: it needs another story."""
    assert caught(bug).promise == bug.promise


@pytest.mark.parametrize(
    "name", ["nobody is notified of the outcome", "an error of EC2 is recorded as a deletion"]
)
def test_a_promise_that_is_broken_without_the_bug_catches_nothing(name: str) -> None:
    """Or a story that always complains would catch every bug, in the story itself and after a
    fault."""
    (bug,) = [one for one in BUGS if one.name == name]
    always_broken = replace(PROMISES[bug.promise], check=_complains)

    with mock.patch.dict(PROMISES, {bug.promise: always_broken}):
        found = caught(bug)

    assert found.promise is None
    assert f"breaks {bug.promise} without the bug" in found.why


def _complains(_: object) -> Iterator[str]:
    yield "it is broken"


def test_what_the_product_no_longer_has_is_said() -> None:
    """A bug that changed nothing would be caught by nothing, and say nothing."""
    with pytest.raises(NotPlanted, match="has 0 times"):
        Edit("remediation.guards:Guards.check", "no such text", "").code()
    with pytest.raises(NotPlanted, match="has no"):
        Edit("remediation.guards:Guards.nothing", "", "").code()
