"""The series that a set of policies reads, so that one fetch serves all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.evidence.rules.figures import metrics_of
from governor.policy.model.judging import Metrics
from governor.policy.model.names import TagMatch
from governor.policy.model.policy import Policy
from governor.verdict.rules.judging import sooner_window, wanted_figures
from simulation.recording import replayed_figures
from simulation.replay import ReplayError, replayable

_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Wish:
    """The series that a set of policies reads.

    `busy_from_percent` is their highest threshold, `shortest` the shortest idle stretch that
    matters to one of them, an hour at most.
    """

    selector: TagMatch
    metrics: Metrics
    figures: frozenset[str]
    busy_from_percent: float
    shortest: timedelta


def wish_of(policies: Sequence[Policy]) -> Wish:
    """Return what these policies, bases and overrides alike, read together.

    Raises:
        ReplayError: they select by different tags, read different metrics, or need finer data than
            there are.
    """
    checked = [replayable(policy) for policy in policies]
    metric_names = {_metric_names(policy.metrics) for policy in checked}
    if len(metric_names) > 1:
        raise ReplayError("the policies read metrics of different names: back-test them one by one")
    selectors = {policy.selector for policy in checked}
    if len(selectors) > 1:
        raise ReplayError("the policies have different selectors: back-test them one by one")
    figures: frozenset[str] = frozenset()
    for policy in checked:
        figures |= _figures(policy)
    thresholds = [policy.idle.utilization_below_percent for policy in checked]
    windows = [policy.window for policy in checked]
    return Wish(
        selector=checked[0].selector,
        metrics=checked[0].metrics,
        figures=figures,
        busy_from_percent=max(thresholds),
        shortest=min(_HOUR, *windows),
    )


def _metric_names(metrics: Metrics) -> tuple[str, ...]:
    # The profile decides in which unit the same names are read.
    names = [metrics.profile, metrics.namespace, metrics.utilization]
    for figure in replayed_figures():
        names += metrics_of(figure, metrics)
    return tuple(names)


def _figures(policy: Policy) -> frozenset[str]:
    """Return the recorded figures that may veto, and memory if it may bring a question forward."""
    figures = wanted_figures(policy) & set(replayed_figures())
    if sooner_window(policy) is not None:
        return figures | {"memory"}
    return figures
