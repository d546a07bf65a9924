"""The rule of the mission, and its simpler relatives that it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from governor.domain.detection.detector import Answer
from governor.domain.detection.history import BIN_SECONDS, IDLE_BELOW_PERCENT, Bin, BinState, History

MINIMUM_COVERAGE = 0.8
"""Share of a window's bins that must be measured before it says anything."""


class Statistic(StrEnum):
    """What must lie under the threshold."""

    EVERY_BIN = "every GPU in every bin"
    MEAN_OF_EACH_GPU = "the mean of each GPU"
    MEAN_OF_ALL = "the mean over all GPUs"


@dataclass(frozen=True, slots=True)
class ThresholdDetector:
    """Idle when the statistic stayed under 5 % for a fixed window.

    The two means are here to be compared with: a mean forgives short work, and the mean of all GPUs forgives
    one busy GPU among idle ones.
    """

    window_minutes: int = 60
    statistic: Statistic = Statistic.EVERY_BIN

    def __post_init__(self) -> None:
        if self.window_minutes <= 0 or self.window_minutes * 60 % BIN_SECONDS:
            raise ValueError(
                f"window_minutes is {self.window_minutes}: "
                f"give a positive multiple of {BIN_SECONDS // 60} minutes"
            )

    @property
    def name(self) -> str:
        """For instance `every bin < 5 %, 60 min`."""
        label = {
            Statistic.EVERY_BIN: "every bin",
            Statistic.MEAN_OF_EACH_GPU: "mean of each GPU",
            Statistic.MEAN_OF_ALL: "mean of all GPUs",
        }[self.statistic]
        return f"{label} < {IDLE_BELOW_PERCENT:g} %, {self.window_minutes} min"

    def judge(self, history: History) -> Answer:
        """Idle when the window is covered and the statistic lies under the threshold in all of it."""
        bins = self.window_minutes * 60 // BIN_SECONDS
        if not history.is_measured_now or not history.is_covered(bins, MINIMUM_COVERAGE):
            return Answer(False, f"less than {MINIMUM_COVERAGE:.0%} of {self.window_minutes} min measured")
        if self.statistic is Statistic.EVERY_BIN:
            figure_is_low = history.idle_bins >= bins
        else:
            figure_is_low = self._mean(history.bins[-bins:]) < IDLE_BELOW_PERCENT
        comparison = "stayed" if figure_is_low else "did not stay"
        return Answer(
            figure_is_low,
            f"{self.statistic.value} {comparison} under {IDLE_BELOW_PERCENT:g} % "
            f"for {self.window_minutes} min",
        )

    def _mean(self, window: list[Bin]) -> float:
        measured = [one.utilization for one in window if one.state is not BinState.UNKNOWN]
        means: list[float] = []
        for gpu in zip(*measured, strict=True):
            values = [value for value in gpu if value is not None]
            if values:
                means.append(sum(values) / len(values))
        return sum(means) / len(means) if self.statistic is Statistic.MEAN_OF_ALL else max(means)
