"""Series that a set of policies looks at, so that one fetch serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.domain.policy.policy import Metrics, Policy, TagMatch
from governor.domain.sweep.judging import sooner_window, wanted_figures
from simulation.replay import ReplayError, replayable

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Wish:
    """The series that a set of policies looks at.

    `busy_from_percent` is their highest threshold, `shortest` the shortest idle stretch that
    matters to one of them, an hour at the most.
    """

    selector: TagMatch
    metrics: Metrics
    figures: frozenset[str]
    busy_from_percent: float
    shortest: timedelta


def wish_of(policies: Sequence[Policy]) -> Wish:
    """Return what these policies, bases and overrides alike, look at together.

    Raises:
        ReplayError: they select by other tags or read other metrics, or need finer data than there
            are.
    """
    checked = [replayable(policy) for policy in policies]
    names = {
        (m.namespace, m.utilization, m.memory_used, m.power_draw)
        for m in (one.metrics for one in checked)
    }
    if len(names) > 1:
        raise ReplayError("the policies read metrics of different names: back-test them one by one")
    if len({one.selector for one in checked}) > 1:
        raise ReplayError("the policies have different selectors: back-test them one by one")
    return Wish(
        selector=checked[0].selector,
        metrics=checked[0].metrics,
        figures=frozenset().union(*map(_figures, checked)),
        busy_from_percent=max(one.idle.utilization_below_percent for one in checked),
        shortest=min(_HOUR, *(one.window for one in checked)),
    )


def _figures(policy: Policy) -> frozenset[str]:
    """Return what may veto and is recorded, and the memory where it may bring a question
    forward."""
    return (wanted_figures(policy) - {"agentless", "bound"}) | (
        set() if sooner_window(policy) is None else {"memory"}
    )
