"""The detector `survival`: how long must this instance be idle before it is likely to stay so?

It knows two things about an instance: how long its earlier idle stretches lasted, and at what time of day
they began. Where it has seen stretches like the present one, it asks for as much idleness as makes some
hours more of it likely; where it has not, it asks for more than the instance's own interruptions ever took.
Nothing is fitted at run time, and no workload has to be named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, sqrt

from governor.domain.detection.detector import Answer
from governor.domain.detection.history import (
    BIN_SECONDS,
    BINS_PER_DAY,
    BINS_PER_HOUR,
    IDLE_BELOW_PERCENT,
    Gap,
    History,
)
from governor.domain.detection.threshold import MINIMUM_COVERAGE

BINS_PER_MINUTE = 60 / BIN_SECONDS


@dataclass(frozen=True, slots=True)
class Proof:
    """How long an instance must be idle from a given moment on, and why that long."""

    bins: int
    chance: float | None
    """That the worthwhile hours stay idle, too, 0 to 1; `None` when the instance's own past says nothing."""
    evidence: float
    """How many earlier stretches the chance rests on, each counted by its nearness in time of day."""
    longest_interruption_bins: int


@dataclass(frozen=True, slots=True)
class SurvivalDetector:
    """Idle when every GPU stayed under 5 % for as long as the instance's own idle stretches call for.

    `needed_chance`, `similar_start_hours`, `unproven_minutes` and `interruption_margin` were chosen on
    recorded traces (`docs/detector.md`). The policy's section `survival` sets them and the others.
    """

    minimum_minutes: int = 60
    """No flag is raised earlier, whatever the past says: the mission's hour."""
    needed_chance: float = 0.65
    """Chance, 0 to 1, that the worthwhile hours stay idle, too. Higher: fewer wrong flags, later ones."""
    worthwhile_hours: float = 4.0
    """A stop is worth its trouble when nothing runs for so long: the span that the evaluation calls right."""
    similar_start_hours: float = 1.0
    """An earlier stretch counts by how near its start lies in time of day: the width of a bell curve."""
    minimum_evidence: float = 0.5
    """Counted stretches below which the own past is silent and the next two figures decide."""
    unproven_minutes: int = 120
    """What is asked at least of an instance whose own past is silent."""
    interruption_margin: float = 1.5
    """How many times its longest interruption such an instance must be idle."""
    interruption_hours: float = 4.0
    """Up to this length a stretch is an interruption of work; a longer one is a night, and worth a stop."""
    prior_weight: float = 2.0
    """How many stretches the prior counts for: after `a` hours idle, the `w` worthwhile ones follow with a
    chance of `sqrt(a / (a + w))`.

    That is the law of gaps without a scale of their own: the longer idle, the longer it will stay so."""
    longest_proof_hours: int = 12
    """Idle this long is idle, whatever the past says."""
    minimum_coverage: float = MINIMUM_COVERAGE
    """Share of the proof, 0 to 1, that must be measured."""

    def __post_init__(self) -> None:
        if not 0 < self.minimum_minutes <= self.unproven_minutes <= self.longest_proof_hours * 60:
            raise ValueError(
                f"minimum_minutes {self.minimum_minutes}, unproven_minutes {self.unproven_minutes} and "
                f"longest_proof_hours {self.longest_proof_hours} must be positive and in this order"
            )
        if not 0 < self.needed_chance < 1:
            raise ValueError(f"needed_chance is {self.needed_chance}: give a chance between 0 and 1")
        positive = ("similar_start_hours", "interruption_hours", "interruption_margin", "worthwhile_hours")
        if min(getattr(self, name) for name in positive) <= 0:
            raise ValueError(f"{', '.join(positive)} must be positive")
        if not 0 < self.minimum_coverage <= 1:
            raise ValueError(f"minimum_coverage is {self.minimum_coverage}: give a share up to 1")
        if min(self.minimum_evidence, self.prior_weight) < 0:
            raise ValueError("minimum_evidence and prior_weight must not be negative")

    @property
    def name(self) -> str:
        """For instance `survival of own gaps, 65 %`."""
        return f"survival of own gaps, {self.needed_chance * 100:g} %"

    def judge(self, history: History) -> Answer:
        """Idle when the proof that this stretch's start calls for is complete and measured."""
        idle = history.idle_bins
        minimum = round(self.minimum_minutes * BINS_PER_MINUTE)
        if not history.is_measured_now:
            return Answer(False, "the newest 5 minutes were not measured on every GPU")
        if not idle:
            return Answer(False, f"a GPU works at {IDLE_BELOW_PERCENT:g} % or more")
        if idle < minimum:
            return Answer(False, f"every GPU under {IDLE_BELOW_PERCENT:g} % for {_duration(idle)} only")
        proof = self.proof(history.gaps, history.now_bin - idle)
        seen = f"every GPU under {IDLE_BELOW_PERCENT:g} % for {_duration(idle)}"
        if idle < proof.bins:
            reason = f"{seen}, {_duration(proof.bins)} needed: {self._why(proof)}"
            return Answer(False, reason, lacks_bins=proof.bins - idle)
        if (unseen := self._lacks_since_work(history)) is not None:
            return unseen
        # The newest hour too: a well measured morning must not make up for an evening of holes.
        for bins in (minimum, proof.bins):
            if not history.is_covered(bins, self.minimum_coverage):
                return Answer(
                    False, f"{seen}, but less than {self.minimum_coverage:.0%} of {_duration(bins)} measured"
                )
        return Answer(True, f"{seen}: {self._why(proof)}")

    def _lacks_since_work(self, history: History) -> Answer | None:
        """Where its beginning was out of sight, it may have begun right after the last work that was seen.

        What is missing must not help: the proof that such a stretch calls for must be complete as well.
        """
        start = history.rest_start
        if start is None or start >= history.now_bin - history.idle_bins:
            return None
        rest = history.now_bin - start
        proof = self.proof((gap for gap in history.gaps if gap.start < start), start)
        if rest >= proof.bins:
            return None
        reason = (
            f"every GPU under {IDLE_BELOW_PERCENT:g} % for {_duration(history.idle_bins)}, out of sight "
            f"before and perhaps idle for {_duration(rest)}, {_duration(proof.bins)} needed: "
            f"{self._why(proof)}"
        )
        return Answer(False, reason, lacks_bins=proof.bins - rest)

    def proof(self, past: Iterable[Gap], start: int) -> Proof:
        """What must be shown by an idle stretch that begins in bin `start`, given the stretches before it.

        It depends on the past and on the start alone: more idleness can complete it and never move it.
        """
        minimum = round(self.minimum_minutes * BINS_PER_MINUTE)
        interruption = round(self.interruption_hours * BINS_PER_HOUR)
        longest = 0
        weighted: list[tuple[Gap, float]] = []
        for gap in past:
            if gap.ended_by_work and longest < gap.bins <= interruption:
                longest = gap.bins
            if gap.bins >= minimum:
                weighted.append((gap, self._nearness(gap.start - start)))
        unproven = max(self.unproven_minutes * BINS_PER_MINUTE, self.interruption_margin * longest)
        cap = self.longest_proof_hours * BINS_PER_HOUR
        worthwhile = round(self.worthwhile_hours * BINS_PER_HOUR)
        for bins in range(minimum, cap):
            reached, stayed = _survivors(weighted, bins, worthwhile)
            if reached < self.minimum_evidence:
                if bins >= unproven:
                    return Proof(bins, None, reached, longest)
                continue
            prior = sqrt(bins / (bins + worthwhile))
            chance = (stayed + self.prior_weight * prior) / (reached + self.prior_weight)
            if chance >= self.needed_chance:
                return Proof(bins, chance, reached, longest)
        return Proof(cap, None, 0.0, longest)

    def _nearness(self, bins: int) -> float:
        """1 for the same time of day, falling to 0 along a bell curve, around midnight too."""
        apart = abs((bins + BINS_PER_DAY // 2) % BINS_PER_DAY - BINS_PER_DAY // 2) / BINS_PER_HOUR
        return exp(-0.5 * (apart / self.similar_start_hours) ** 2)

    def _why(self, proof: Proof) -> str:
        if proof.chance is not None:
            return (
                f"{proof.evidence:.1f} (weighted) of its earlier idle stretches began near this time of day "
                f"and lasted {_duration(proof.bins)}, after which {self.worthwhile_hours:g} more hours stay "
                f"idle with a chance of {proof.chance:.0%} ({self.needed_chance:.0%} needed)"
            )
        if proof.bins >= self.longest_proof_hours * BINS_PER_HOUR:
            return f"{self.longest_proof_hours} h of idleness are proof, whatever its past says"
        unlike = "no earlier idle stretch near this time of day is like it"
        if not proof.longest_interruption_bins:
            return f"{unlike}, so {_duration(proof.bins)} are asked"
        return (
            f"{unlike}, and the longest interruption of its work took "
            f"{_duration(proof.longest_interruption_bins)}, so {_duration(proof.bins)} are asked"
        )


def _survivors(weighted: Iterable[tuple[Gap, float]], bins: int, worthwhile: int) -> tuple[float, float]:
    """Weights of the stretches that lasted `bins`, and of those that lasted `worthwhile` bins more.

    A stretch that was lost from sight before that is left out: nobody knows how it went on.
    """
    reached = stayed = 0.0
    for gap, weight in weighted:
        if gap.bins >= bins + worthwhile:
            reached += weight
            stayed += weight
        elif gap.bins >= bins and gap.ended_by_work:
            reached += weight
    return reached, stayed


def _duration(bins: int) -> str:
    hours, minutes = divmod(bins * BIN_SECONDS // 60, 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
