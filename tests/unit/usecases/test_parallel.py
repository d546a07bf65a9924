"""Things that are done at the same time: nobody waits longer than it can, not even for one alone."""

from __future__ import annotations

import threading
import time

import pytest

from governor.errors import CloudError, Throttled, Unavailable
from governor.usecases.parallel import Budget, at_once


@pytest.mark.parametrize("others", [0, 1])
def test_what_hangs_is_not_waited_for(others: int) -> None:
    """One call alone has a limit too: what comes after it is more urgent than its answer."""
    answered, began = threading.Event(), time.monotonic()
    calls = {"hangs": lambda: answered.wait(10)} | {f"{n}": lambda: True for n in range(others)}

    results = at_once(calls, 0.2, "ssm:SendCommand")
    took = time.monotonic() - began
    answered.set()

    late = results.pop("hangs")
    assert isinstance(late, Unavailable)
    assert "ssm:SendCommand took more than 0.2 s" in str(late)
    assert took < 5
    assert [True] * others == list(results.values())


def test_failures_are_results_of_their_own() -> None:
    """Errors of AWS concern one call."""

    def refuse() -> bool:
        raise Throttled("busy", operation="ec2:DescribeInstances")

    results = at_once({"busy": refuse, "done": lambda: True}, 5, "ec2:DescribeInstances")

    assert isinstance(results["busy"], CloudError)
    assert True is results["done"]
    assert {} == at_once({}, 5, "ec2:DescribeInstances")


def test_a_budget_is_used_up() -> None:
    """And never less than nothing."""
    budget = Budget.of(60)

    assert 59 < budget.left() <= 60
    assert not budget.is_over
    assert (0, True) == (Budget.of(-1).left(), Budget.of(-1).is_over)
