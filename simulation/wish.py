"""The metric series that a set of policies reads, so that one fetch serves all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

from governor.core.instance import Instance
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
    reads: Callable[[Instance], bool] = lambda _: True
    """Returns whether an instance is read by these metrics. Raises: ReplayError."""


def wishes_of(
    policies: Sequence[Policy], policies_of_instance: Sequence[Callable[[Instance], Policy]]
) -> list[Wish]:
    """Return a wish for each set of metric names that these policies, bases and overrides alike,
    read: each is for the instances whose policy has these names.

    `policies_of_instance` return the policy of an instance, one for each document.

    Raises:
        ReplayError: they select by different tags, or need finer data than there are.
    """
    groups: dict[tuple[str, ...], list[Policy]] = defaultdict(list)
    for policy in policies:
        groups[_metric_names(policy.metrics)].append(policy)
    if len({policy.selector for policy in policies}) > 1:
        raise ReplayError("the policies have different selectors: back-test them one by one")

    def names_of(instance: Instance) -> tuple[str, ...]:
        """Return the names of the metrics by which all policies judge the instance. Raises:
        ReplayError if they differ."""
        own_names = {_metric_names(of(instance).metrics) for of in policies_of_instance}
        if len(own_names) != 1 or not own_names <= groups.keys():
            raise ReplayError(
                f"the policies read metrics of different names for {instance.instance_id}: "
                "back-test them one by one"
            )
        return own_names.pop()

    def reads(names: tuple[str, ...], instance: Instance) -> bool:
        return names_of(instance) == names

    wishes = []
    for names, group in groups.items():
        wishes.append(replace(wish_of(group), reads=partial(reads, names)))
    return wishes


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
