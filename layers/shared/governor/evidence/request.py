"""A request for the evidence of one instance, and its answer.

This module reads nothing and must not judge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from governor.core.instance import Instance
from governor.evidence.model import Evidence, Series
from governor.evidence.rules import series as evidence
from governor.evidence.rules.series import Dimensions
from governor.policy.model.policy import Policy
from governor.policy.model.profiles import MetricProfile, profile_of_names


@dataclass(frozen=True, slots=True)
class EvidenceRequest:
    """Request to read one instance.

    Attributes:
        dimensions: per-GPU dimension sets where they are known.
        source: the series by which it was last read. The aggregate is asked first, unless that
            was by GPU.
        search: whether silent series may be searched for.
        per_gpu: read GPU by GPU although the aggregate exists.
        figures: which of `FIGURES` to read.
        only_if: reads them only if this says so of the utilization that was seen; `None` reads
            them in any case.
        length: how far to look back; `None` takes the policy's idle window.
    """

    instance: Instance
    policy: Policy
    dimensions: tuple[Dimensions, ...] | None = None
    source: str | None = None
    search: bool = True
    per_gpu: bool = False
    figures: frozenset[str] = frozenset()
    only_if: Callable[[Evidence, Policy], bool] | None = None
    length: timedelta | None = None

    @property
    def window(self) -> timedelta:
        """Return how far the request looks back: its own `length`, or else the idle window of the
        policy; at least the 10 minutes at the end of a proof."""
        length = self.policy.window if self.length is None else self.length
        return max(length, evidence.END)

    @property
    def profile(self) -> MetricProfile | None:
        """Return whose metrics are read: their unit, and whether a series is that of a device or a
        core. `None` for names of the policy's own, which are percent, one series a device, and MiB.
        """
        return profile_of_names(self.policy.metrics)

    def wants_figures(self, seen: Evidence) -> bool:
        """Return whether to read more than the utilization that was seen: the request names
        figures, and `only_if`, if it has one, agrees."""
        if not self.figures:
            return False
        return self.only_if is None or self.only_if(seen, self.policy)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Evidence, and the dimension sets that were found, by a search or not. `percent` holds each
    period's highest power and memory of all GPUs, where the request asks for figures in any
    case."""

    evidence: Evidence
    dimensions: tuple[Dimensions, ...] | None
    searched: bool
    percent: Mapping[str, Series] = field(default_factory=dict)
