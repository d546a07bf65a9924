"""Reads the CloudWatch metrics of many instances as evidence, in as few calls as possible, and in
parts that fit into a function's memory. This module must not judge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from governor.core.catalog import shape_of
from governor.core.instance import Shape, Target
from governor.evidence.pending import Pending
from governor.evidence.ports import MetricReader
from governor.evidence.read_batch import Batch, Listings
from governor.evidence.request import EvidenceRequest, Gathered
from governor.evidence.rules.profiles import expected_count
from governor.policy.model.judging import Metrics

SERIES_OF_A_PART = 20_000
"""A function of 512 MB reads and judges them in half a minute."""


@dataclass(frozen=True, slots=True)
class GatherEvidence:
    """Reads the evidence of instances of one target."""

    metrics: MetricReader
    shape: Callable[[str], Shape | None] = shape_of

    def in_parts(
        self, target: Target, requests: Iterable[EvidenceRequest], now: datetime, listings: Listings
    ) -> Iterator[dict[str, Gathered]]:
        """Yield the evidence in parts: each ends with the instance by which its series come to
        `SERIES_OF_A_PART`. A pass over a namespace is made once for all. Yield nothing without
        requests."""
        part: list[EvidenceRequest] = []
        series = 0
        for request in requests:
            part.append(request)
            series += self._series_of(request)
            if series >= SERIES_OF_A_PART:
                yield self(target, part, now, listings)
                part = []
                series = 0
        if part:
            yield self(target, part, now, listings)

    def _series_of(self, request: EvidenceRequest) -> int:
        """Return how many utilization series the instance may have: those known, else one for each
        GPU of its type, at least one."""
        if request.dimensions:
            return len(request.dimensions)
        shape = self.shape(request.instance.instance_type)
        return expected_count(shape, request.profile) or 1

    def __call__(
        self,
        target: Target,
        requests: Sequence[EvidenceRequest],
        now: datetime,
        listings: Listings | None = None,
    ) -> dict[str, Gathered]:
        """Return the evidence by instance id. Never raises for a failed read.

        `listings` holds what CloudWatch has listed before; more is added to it. Without it,
        each call makes its own.
        """
        if listings is None:
            listings = Listings()
        groups: dict[tuple[Metrics, timedelta], list[EvidenceRequest]] = defaultdict(list)
        for request in requests:
            groups[request.policy.metrics, request.window].append(request)
        gathered: dict[str, Gathered] = {}
        for group in groups.values():
            instances = [self._pending(request) for request in group]
            gathered |= Batch(self.metrics, target, instances, now, listings).gather()
        return gathered

    def _pending(self, request: EvidenceRequest) -> Pending:
        """Return the request with the shape of its instance type, of which nothing is read yet."""
        shape = self.shape(request.instance.instance_type)
        return Pending(request, shape, request.dimensions)
