"""Judges all instances of a sweep by their metrics, in two batches of reads.

The first batch covers the policy's idle window, the second the longer window that a question needs.
This module must not notify anybody and acts on no instance.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.core.catalog import shape_of
from governor.core.units import UtcDatetime
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.read_batch import Listings
from governor.evidence.request import EvidenceRequest, Gathered
from governor.sweep.observation import observation_of
from governor.sweep.store import Sweeps
from governor.sweep.sweep_case import GPU_CHECK_EVERY, Case, ListedInstance, Listing, attempt
from governor.verdict.rules.judge import is_candidate
from governor.verdict.rules.judging import wanted_figures

_SPREAD_OVER = 1000
"""With this many instances with several GPUs, or more, their first GPU checks are spread over the
whole interval."""
_SEARCH_EVERY = timedelta(hours=1)
"""How often the metrics of an instance that publishes none are searched for."""


@dataclass(frozen=True, slots=True)
class JudgeInstances:
    """Reads the metrics of a sweep's instances, and judges each."""

    gather: GatherEvidence
    sweep_store: Sweeps

    def __call__(self, listing: Listing) -> list[Case]:
        """Return one case with its verdict for each listed instance, in the same order.

        An instance whose metrics cannot be read gets the verdict `no-data`, so nothing is done
        about it: a failed read is not raised.
        """
        gpu_checks = _first_gpu_checks(listing)
        cases: dict[str, Case] = {}
        to_read = []
        for listed in listing.instances:
            verdict = listed.verdict_without_metrics
            if verdict is None:
                to_read.append(listed)
            else:
                check_at = gpu_checks.get(listed.id)
                cases[listed.id] = Case(listed, verdict, first_gpu_check_at=check_at)
        # First those that the previous sweep did not reach: their observations are the oldest.
        to_read.sort(key=lambda listed: listed.previous.at)
        listings = Listings()
        judged = self._judge_by_metrics(listing, to_read, listings, gpu_checks)
        self._prove_idleness(listing, judged, listings)
        cases.update(judged)
        return [cases[listed.id] for listed in listing.instances]

    def _judge_by_metrics(
        self,
        listing: Listing,
        to_read: Sequence[ListedInstance],
        listings: Listings,
        gpu_checks: Mapping[str, UtcDatetime],
    ) -> dict[str, Case]:
        """Read the metrics of these instances over the idle window, part by part, and judge each.
        Return the cases by instance id.

        If there are several parts, save after each the observations of instances that go on
        working: if the sweep dies, the next one need not read them again. A failed save becomes a
        problem of the sweep. `gpu_checks` says when instances that are new are first read GPU by
        GPU, by instance id.
        """
        listed_by_id = {listed.id: listed for listed in to_read}
        requests = [_request(listed) for listed in to_read]
        cases: dict[str, Case] = {}
        for part in self.gather.in_parts(listing.target, requests, listing.now, listings):
            working = {}
            for instance_id, gathered in part.items():
                listed = listed_by_id[instance_id]
                verdict = listed.subject.after_reading(gathered.evidence)
                case = Case(
                    listed, verdict, gathered, first_gpu_check_at=gpu_checks.get(instance_id)
                )
                cases[instance_id] = case
                if case.goes_on_working:
                    working[instance_id] = observation_of(case)
            is_one_of_several_parts = len(part) < len(to_read)
            if working and is_one_of_several_parts:
                attempt(
                    listing.problems,
                    "a part of the sweep",
                    self.sweep_store.remember_part,
                    listing.target,
                    working,
                    listing.now,
                )
        return cases

    def _prove_idleness(
        self, listing: Listing, cases: Mapping[str, Case], listings: Listings
    ) -> None:
        """Read and judge a second, longer window of each instance about which a question may start,
        and set the `proof` of its case to that verdict. Other cases stay as they are."""
        windows: dict[str, timedelta] = {}
        requests = []
        for case in cases.values():
            window = case.listed.subject.window_to_prove(case.verdict)
            if window is not None and case.gathered is not None:
                windows[case.id] = window
                requests.append(_longer_request(case.listed, case.gathered, window))
        gathered_by_id = self.gather(listing.target, requests, listing.now, listings)
        for instance_id, gathered in gathered_by_id.items():
            case = cases[instance_id]
            case.proof = case.listed.subject.judge_question(gathered.evidence, windows[instance_id])


def _first_gpu_checks(listing: Listing) -> dict[str, UtcDatetime]:
    """Return when each instance that is new to the sweep and has several GPUs is first read GPU by
    GPU, by instance id; empty if there is none.

    In a small fleet that is soon. In a large one a hash of the id spreads the instances over the
    whole interval, so that no sweep reads them all.
    """
    with_several_gpus = [listed for listed in listing.instances if _has_several_gpus(listed)]
    part_of_interval = min(1.0, len(with_several_gpus) / _SPREAD_OVER)
    spread_over = GPU_CHECK_EVERY * part_of_interval
    checks = {}
    for listed in with_several_gpus:
        if listed.is_first_sight:
            # A CRC-32 has 32 bits, so this lies between 0 and 1.
            fraction_by_hash = zlib.crc32(listed.id.encode()) / 2**32
            checks[listed.id] = listing.now + spread_over * fraction_by_hash
    return checks


def _has_several_gpus(listed: ListedInstance) -> bool:
    """Return whether instances of this type have more than one GPU; false if the catalog does not
    know the type."""
    shape = shape_of(listed.instance.instance_type)
    return shape is not None and (shape.accelerator_count or 0) > 1


def _request(listed: ListedInstance) -> EvidenceRequest:
    """Return the request for the metrics of an instance over its policy's idle window.

    It names the metric series that earlier sweeps found. It asks to search for new series if the
    last search was an hour ago, or there was none.
    """
    searched_at = listed.previous.searched_at
    is_search_due = searched_at is None or listed.now - searched_at >= _SEARCH_EVERY
    return EvidenceRequest(
        instance=listed.instance,
        policy=listed.policy,
        dimensions=listed.previous.dimensions,
        source=listed.previous.source,
        search=is_search_due,
        per_gpu=listed.is_gpu_check_due,
        figures=listed.subject.figures_to_read(),
        only_if=is_candidate,
    )


def _longer_request(
    listed: ListedInstance, gathered: Gathered, window: timedelta
) -> EvidenceRequest:
    """Return the request for the same metric series as in `gathered` over a longer `window`, with
    every figure that may veto a question."""
    return EvidenceRequest(
        instance=listed.instance,
        policy=listed.policy,
        dimensions=gathered.dimensions,
        source=gathered.evidence.source,
        search=False,
        figures=wanted_figures(listed.policy) | {"memory"},
        only_if=is_candidate,
        length=window,
    )
