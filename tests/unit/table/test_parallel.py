"""Things that are done at the same time: nobody waits longer than it can, not even for one
alone."""

from __future__ import annotations

import threading

import pytest

from governor.core.errors import CloudError, Throttled, Unavailable
from governor.table.once import begin


@pytest.mark.parametrize("others", [0, 1])
def test_what_hangs_is_not_waited_for(others: int) -> None:
    """One call alone has a limit too: what comes after it is more urgent than its answer."""
    answered, over = threading.Event(), threading.Event()

    def hang() -> bool:
        answered.wait(300)
        over.set()
        return True

    calls = {"hangs": hang} | {f"{n}": lambda: True for n in range(others)}

    results = begin(calls, "ssm:SendCommand")(2)
    waited_for = over.is_set()
    answered.set()

    late = results.pop("hangs")
    assert isinstance(late, Unavailable)
    assert "ssm:SendCommand took more than 2 s" in str(late)
    assert not waited_for
    assert [True] * others == list(results.values())


def test_failures_are_results_of_their_own() -> None:
    """Errors of AWS concern one call."""

    def refuse() -> bool:
        raise Throttled("busy", operation="ec2:DescribeInstances")

    results = begin({"busy": refuse, "done": lambda: True}, "ec2:DescribeInstances")(5)

    assert isinstance(results["busy"], CloudError)
    assert True is results["done"]
    assert {} == begin({}, "ec2:DescribeInstances")(5)
