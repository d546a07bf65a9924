"""A running instance with accelerators, and what a scan measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from governor.core.instance import Instance, SpotRequestType
from governor.core.managers import Manager
from governor.evidence.model import Window
from governor.policy.model.profiles import MetricProfile
from governor.scan.model import Resource
from governor.verdict.model import IdleParts, VerdictKind

LOOK_BACK = timedelta(hours=24)
"""A day has a night: an instance that is idle all of it is more than one that has a short pause."""


class Source(NamedTuple):
    """The series of a publisher in one namespace."""

    profile: MetricProfile
    namespace: str
    is_bound: bool = False
    """True if the instance publishes in a namespace of its own, too, into which only its role
    may."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host(Resource):
    """A running instance with accelerators."""

    instance: Instance
    part_word: str = "accelerator"
    """The word for one of them: `GPU`, `Neuron device`."""
    known_manager: Manager | None = None
    """The service that runs it, with the mark by which it is known; `None` if none does."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The product's verdict on an instance by the figures of its accelerators.

    Attributes:
        reason: the verdict's own, for people.
        window: the time that was looked at; `None` if no metric was needed.
        peak_percent: the highest utilization; `None` if nothing was measured.
        parts: how many accelerators or cores publish; `None` if that is not known.
        cpu_percent: the highest CPU utilization; `None` if it was not read.
        network_bytes_per_second: the most network traffic; `None` if it was not read.
        idle_parts: the idle ones of a partly idle instance; `None` for other verdicts, or if their
            number is not known.
        doubt: what does not confirm the utilization, such as `power: not measured`; empty if
            nothing is missing.
        problem: why the metrics could not be read; `None` if they were.
    """

    kind: VerdictKind
    reason: str
    source: Source | None = None
    window: Window | None = None
    peak_percent: float | None = None
    parts: int | None = None
    idle_parts: IdleParts | None = None
    cpu_percent: float | None = None
    network_bytes_per_second: float | None = None
    doubt: str = ""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Beside:
    """Figures that EC2 itself publishes beside the accelerators.

    Attributes:
        peaks: the highest value by figure (`rules.figures_beside`), of those that were measured.
        missing: the figures that were not measured over the whole window.
        problem: why they could not be read; empty if they were.
    """

    window: Window
    peaks: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of an instance: of its accelerators, or else of the figures beside them.

    Attributes:
        problem: why it is not known which metrics it has; empty if that is known.
        spot_request: the type of the request of an idle Spot instance; `None` if it is not known.
    """

    reading: Reading | None = None
    beside: Beside | None = None
    problem: str = ""
    spot_request: SpotRequestType | None = None
