"""The judgment: from an instance, its evidence, the policy and the time to one of nine verdicts
with its reason. Pure and total: only evidence makes an instance idle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum
from fractions import Fraction
from functools import cache
from math import ceil
from typing import NamedTuple

from governor.domain.evidence import (
    END,
    END_BIN,
    LONGEST_HOLE,
    Evidence,
    GpuReadings,
    MetricSource,
    Series,
    Window,
    coverage_percent,
    is_reading,
    last_at_or_above,
    last_reading_end,
    latest,
    longest_hole,
    mean,
    newest_bins,
    newest_peak,
    padded,
    peak,
    unmeasured_until,
)
from governor.domain.instance import Instance, Manager, managed_by
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, in_utc, minutes, span


class Figure(NamedTuple):
    """Evidence besides utilization. `field` is its maximum in `Evidence`, and its limit in
    `Vetoes`."""

    words: str
    field: str


FIGURES: Mapping[str, Figure] = {
    "power": Figure("power draw", "power_percent_of_limit"),
    "memory": Figure("GPU memory held", "memory_used_percent"),
    "cpu": Figure("CPU", "cpu_percent"),
    "network": Figure("network traffic", "network_bytes_per_second"),
    "agentless": Figure("EC2's own GPUPowerUtilization", "agentless_power_percent"),
    "bound": Figure(
        "the utilization that the instance itself publishes", "bound_utilization_percent"
    ),
}
"""Figures that may veto by the policy, in the order of the checks. The last two have the limits of
others."""

WORK = "work"
"""Names of jobs' own metrics in `Evidence.last_active` and `Evidence.read`."""
LATE = timedelta(minutes=30)
"""So long missing readings may still come: nobody is alerted, and nothing is counted."""
_NEWEST_FIGURE = timedelta(minutes=20)
"""A required figure must be measured up to so long ago, or to the newest periods that the lag
leaves."""


class Family(Enum):
    """Meaning of a verdict for the sweep, the breaker and a recheck, by the kinds that belong to
    it."""

    WORKING = ("busy", "partly-idle")
    IDLE = ("idle", "managed-elsewhere", "frozen")
    """By what is measured, whether or not a question has started."""
    LEFT_ALONE = ("exempt", "snoozed")
    """People have decided; its metrics are not read."""
    YOUNG = ("too-young",)
    """Its metrics are not read yet."""
    UNKNOWN = ("no-data",)


class VerdictKind(StrEnum):
    BUSY = "busy"
    IDLE = "idle"
    PARTLY_IDLE = "partly-idle"
    NO_DATA = "no-data"
    TOO_YOUNG = "too-young"
    EXEMPT = "exempt"
    SNOOZED = "snoozed"
    MANAGED_ELSEWHERE = "managed-elsewhere"
    FROZEN = "frozen"

    @property
    def family(self) -> Family:
        return _FAMILIES[self]


_FAMILIES = {VerdictKind(name): family for family in Family for name in family.value}
_KNOWN = {kind.value: kind for kind in VerdictKind}


def known_kind(name: str) -> VerdictKind | None:
    """`None` for a name that this release does not know. Earlier ones wrote `resting` before a
    question."""
    return VerdictKind.IDLE if name == "resting" else _KNOWN.get(name)


def _kinds(*families: Family) -> tuple[VerdictKind, ...]:
    # Of every kind the family is looked up: one without any would not let this module load.
    return tuple(kind for kind in VerdictKind if kind.family in families)


WORKING = _kinds(Family.WORKING)
IDLE = _kinds(Family.IDLE)
LEFT_ALONE = _kinds(Family.LEFT_ALONE)
YOUNG = _kinds(Family.YOUNG)
UNREAD = _kinds(Family.LEFT_ALONE, Family.YOUNG)
KEPT = (VerdictKind.SNOOZED,)
"""Found idle, and left alone by an answer. What is exempt may never have been idle."""
HELD_BACK = (VerdictKind.FROZEN,)
"""Idle, and nothing follows while the breaker holds plans back."""
NOTES: Mapping[VerdictKind, str] = {
    VerdictKind.FROZEN: "plans are frozen",
    VerdictKind.NO_DATA: "check its agent",
    VerdictKind.PARTLY_IDLE: "a smaller type may do",
}
"""Sentences beside the verdict, where the next step does not follow from its family."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A human's standing answer about an instance, from the state table."""

    snoozed_until: UtcDatetime | None = None
    exempt_reason: str | None = None
    kept_in: str | None = None
    """The project of the instance when it was kept, which a tag changes; `None`: not known."""
    exempt_in: str | None = None
    """The same of the exemption."""
    kept_by: str | None = None
    """The question whose answer kept it; `None` where no question did, or the release before wrote
    it."""

    def stands(self, now: UtcDatetime) -> bool:
        return self.exempt_reason is not None or (
            self.snoozed_until is not None and self.snoozed_until > now
        )

    def stricter(self, other: Hold) -> Hold:
        """Return what both hold together: the later date, and an exemption of either."""
        until = latest(self.snoozed_until, other.snoozed_until)
        kept, exempt = (
            (self if until == self.snoozed_until else other),
            self if self.exempt_reason else other,
        )
        return Hold(until, exempt.exempt_reason, kept.kept_in, exempt.exempt_in, kept.kept_by)


NO_HOLD = Hold()
EXEMPT_BY_DECISION = "exempted by decision"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on an instance, the reason, and from when on it could change (`not_before`: nothing
    needs to be read). `advice` holds hints that never lead to an action by themselves."""

    kind: VerdictKind
    reason: str
    evidence: Evidence | None = None
    not_before: UtcDatetime | None = None
    last_busy: UtcDatetime | None = None
    advice: tuple[str, ...] = ()
    manager: Manager | None = None
    presence: str = ""
    """Sentence about people who may be logged in; empty where nobody is known to be."""
    is_late: bool = False
    """No data only because the newest readings are missing, and not for long: they may still
    come."""

    @property
    def is_idle(self) -> bool:
        """Return whether the evidence proves idleness, whoever the instance belongs to."""
        return self.kind in IDLE


def judge_unread(instance: Instance, hold: Hold, policy: Policy, now: datetime) -> Verdict | None:
    """The verdict that needs no metrics, or `None` when metrics must be read."""
    if (tag := policy.exemption.like_it_on(instance)) is not None:
        return Verdict(VerdictKind.EXEMPT, f"carries the tag {tag}")
    if hold.exempt_reason is not None:
        return Verdict(VerdictKind.EXEMPT, f"{EXEMPT_BY_DECISION}: {hold.exempt_reason}")
    if hold.snoozed_until is not None and hold.snoozed_until > now:
        return Verdict(VerdictKind.SNOOZED, f"kept by decision until {in_utc(hold.snoozed_until)}")
    ripe = ripe_at(instance, policy)
    if now < ripe:
        return Verdict(
            VerdictKind.TOO_YOUNG,
            f"started {minutes(now - instance.launch_time)} min ago; judged from {in_utc(ripe)} on "
            f"(grace {policy.idle.grace_after_launch_minutes} min, and "
            f"{policy.idle.minimum_coverage_percent:g}% of the window must be measured)",
        )
    return None


def ripe_at(instance: Instance, policy: Policy) -> UtcDatetime:
    """From when on an instance can be judged: after the grace, and when the window can be covered
    at all."""
    bins = policy.window // policy.period
    needed = policy.period * _needed_bins(bins, policy.idle.minimum_coverage_percent)
    grace = timedelta(minutes=policy.idle.grace_after_launch_minutes)
    return instance.launch_time + max(grace, needed + policy.lag + policy.period)


@cache
def _needed_bins(bins: int, coverage_percent: float) -> int:
    """Whole periods: 80% of twelve are ten. In exact numbers, or a rounding error would add one."""
    return ceil(bins * Fraction(coverage_percent) / 100)


def is_candidate(evidence: Evidence, policy: Policy) -> bool:
    """Return whether utilization alone would call it idle, so that the other figures are worth
    reading."""
    return _judge_utilization(evidence, policy) is None


def judge(
    instance: Instance,
    hold: Hold,
    evidence: Evidence,
    policy: Policy,
    now: datetime,
    *,
    in_full: bool = True,
) -> Verdict:
    """Return the verdict on one instance. Holes stay holes; `now` decides grace and snooze only.
    `in_full` is false where people know of it: then only utilization shows work. Whatever acts
    judges in full again."""
    verdict = judge_unread(instance, hold, policy, now)
    if verdict is not None:
        return verdict
    verdict = _judge_utilization(evidence, policy)
    if in_full and (verdict is None or verdict.kind is VerdictKind.NO_DATA):
        # A job that says it works is believed where its GPUs cannot be seen, too.
        verdict = _judge_work(evidence, policy) or verdict
        verdict = verdict or _judge_figures(evidence, policy) or _judge_count(evidence, policy)
    if verdict is not None:
        return verdict
    manager, idle_for = managed_by(instance, policy.managed.tag_keys), evidence.window.length
    kind = VerdictKind.IDLE if manager is None else VerdictKind.MANAGED_ELSEWHERE
    return Verdict(
        kind, idle_sentence(idle_for, policy, manager), evidence=evidence, manager=manager
    )


def judge_holes(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Return no data where any GPU, or a required figure, was not measured for too long, until the
    window no longer holds the newest such hole."""
    by_gpu = unmeasured_until(evidence.gpus, evidence.window)
    ended = latest(by_gpu, _hidden_gpu_until(evidence, policy))
    if ended is not None:
        reason = (
            f"GPU readings were missing for more than {minutes(LONGEST_HOLE)} min, "
            f"up to {in_utc(ended)}"
        )
        return replace(_no_data(evidence, reason), not_before=ended + policy.window)
    for figure in required_figures(policy):
        longest = evidence.longest_hole_minutes.get(figure, 0.0)
        if timedelta(minutes=longest) > LONGEST_HOLE:
            text = f"{FIGURES[figure].words} was not measured for {longest:.0f} min of the window"
            return _no_data(evidence, text)
    return None


def required_figures(policy: Policy) -> Iterator[str]:
    """Return the figures that must be measured: they may veto."""
    required = (*policy.vetoes.required, "bound")
    return (figure for figure in required if limit_of(policy, figure) is not None)


def limit_of(policy: Policy, figure: str) -> float | None:
    """Return what a figure must stay under; `None` where the policy does not ask for it."""
    if figure == "bound":
        return policy.idle.utilization_below_percent if policy.metrics.bound_namespaces else None
    limit: float | None = getattr(
        policy.vetoes, FIGURES["power" if figure == "agentless" else figure].field
    )
    return limit


def is_short_hole(evidence: Evidence, policy: Policy) -> bool:
    """Return whether too little was measured, and only because of one hole of less than half an
    hour."""
    is_thin = any(
        seen < policy.idle.minimum_coverage_percent for seen, _ in _measured(evidence, policy)
    )
    return is_thin and _is_but_for_one_hole(evidence, policy)


def _is_but_for_one_hole(evidence: Evidence, policy: Policy) -> bool:
    """Return whether everything is measured enough as soon as its longest hole, a short one, is
    forgiven."""
    needed, length = policy.idle.minimum_coverage_percent, evidence.window.length
    return all(
        hole < LATE and seen + 100 * (hole / length) >= needed
        for seen, hole in _measured(evidence, policy)
    )


def _measured(evidence: Evidence, policy: Policy) -> Iterator[tuple[float, timedelta]]:
    """Share measured and longest hole of every GPU, and of every required figure that was read."""
    window = evidence.window
    for gpu in evidence.gpus:
        yield (
            coverage_percent(padded(gpu.utilization, window)),
            longest_hole(gpu.utilization, window),
        )
    for figure in required_figures(policy):
        if figure in evidence.read:
            seen = evidence.measured_percent.get(figure)
            hole = timedelta(minutes=evidence.longest_hole_minutes.get(figure, 0.0))
            yield (0.0, window.length) if seen is None else (seen, hole)


def _hidden_gpu_until(evidence: Evidence, policy: Policy) -> UtcDatetime | None:
    """Until when an aggregate holds no more samples than one GPU less would publish, for too
    long."""
    gpus, window = _counted(evidence), evidence.window
    if gpus is None:
        return None
    run = int(LONGEST_HOLE / window.period) + 1
    most = (gpus - 1) * run * _collections(window.period, policy)
    counts = [count or 0.0 for count in evidence.samples]
    ends = [end for end in range(run, len(counts) + 1) if sum(counts[end - run : end]) <= most]
    return window.bin_end(ends[-1] - 1) if ends else None


def judge_parts(evidence: Evidence, policy: Policy) -> Verdict | None:
    """No data where a required figure of the GPUs is only known by one series for several of them:
    it goes on where one GPU does not publish it."""
    for figure in required_figures(policy):
        if figure in ("memory", "power") and _counted(evidence) is not None:
            reason = (
                "is required by the policy, and only one series for all GPUs has "
                "it: publish it for each GPU"
            )
            return _no_data(evidence, f"{FIGURES[figure].words} {reason}")
    return None


def _counted(evidence: Evidence) -> int | None:
    """For how many GPUs an aggregate stands, whose samples are counted; `None` where each has its
    series."""
    gpus = evidence.gpus_expected
    return gpus if evidence.source is MetricSource.AGGREGATE and gpus != 1 else None


def freeze(verdict: Verdict, why: str) -> Verdict:
    """An idle verdict while the breaker is open: the evidence stands, nothing follows from it."""
    return replace(
        verdict, kind=VerdictKind.FROZEN, reason=f"{verdict.reason} Plans are frozen: {why}"
    )


def _judge_utilization(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Busy, partly idle or no data; `None` when every GPU stayed under the threshold and was seen
    enough."""
    threshold = policy.idle.utilization_below_percent
    # Activity counts even where the read was cut short or GPUs are missing: doubt only ever keeps.
    active = [last_at_or_above(series, threshold) for series in _utilization(evidence)]
    last = max((index for index in active if index is not None), default=None)
    if last is not None:
        return _busy_by_utilization(evidence, policy, last)
    if evidence.read_problem is not None:
        reason = f"metrics could not be read: {evidence.read_problem}; tried again next sweep"
        return _no_data(evidence, reason)
    if evidence.source is MetricSource.NONE or not evidence.gpus:
        # A window of less than half an hour does not tell silence from lateness.
        return _no_data(evidence, _silence(evidence, policy), is_late=evidence.window.length < LATE)
    late = _judge_end(evidence, policy)
    uncovered = _uncovered(evidence, policy)
    return late or (None if uncovered is None else _no_data(evidence, uncovered))


def _judge_end(evidence: Evidence, policy: Policy) -> Verdict | None:
    """No data unless every GPU was measured in the two newest bins of five minutes."""
    window = evidence.window
    unmeasured = [
        (last_reading_end(gpu.utilization, window), _label(gpu))
        for gpu in evidence.gpus
        if newest_peak(gpu.utilization, window, END) is None
    ]
    if not unmeasured:
        return None
    last, who = min(unmeasured)
    reason = f"{who} has missing readings in the newest {_newest(window)} min"
    if last < window.end:
        reason = f"{who} published nothing in the newest {span(window.end - last)}"
    return _no_data(evidence, reason, is_late=_is_but_for_one_hole(evidence, policy))


def _newest(window: Window) -> int:
    """How many of the newest minutes must be measured; periods of an hour cannot show the last of
    them."""
    return minutes(max(END, window.period))


def _label(gpu: GpuReadings) -> str:
    return "the instance" if gpu.gpu == "all" else f"GPU {gpu.gpu}"


def _utilization(evidence: Evidence) -> list[Series]:
    return [*(gpu.utilization for gpu in evidence.gpus), evidence.aggregate]


def _uncovered(evidence: Evidence, policy: Policy) -> str | None:
    """Why utilization was not seen enough of: over the window, and of every GPU."""
    window = evidence.window
    if window.length < policy.window:
        wanted, read = policy.idle.window_minutes, minutes(window.length)
        return f"the policy looks at {wanted} min, only {read} min were read"
    for gpu in evidence.gpus:
        seen = coverage_percent(padded(gpu.utilization, window))
        if seen < policy.idle.minimum_coverage_percent:
            return f"{_label(gpu)} was measured {_of_needed(seen, policy)}"
    expected, reporting = evidence.gpus_expected, _reporting(evidence)
    if expected is None:
        return "the type is not in the catalogue, so it is not known how many GPUs must be seen"
    if evidence.gpus_reporting is not None and evidence.gpus_reporting > expected:
        suspect = (
            "the catalogue or the agent's dimensions are wrong"
            if evidence.source is MetricSource.PER_GPU
            else "metrics.collection_interval_seconds does not fit the agent"
        )
        return f"{evidence.gpus_reporting} GPUs seem to publish where {expected} exist: {suspect}"
    if reporting is not None and reporting < expected:
        return (
            f"only {reporting} of {expected} GPUs publish utilization (MIG or a broken "
            "agent hides some)"
        )
    return None


def _reporting(evidence: Evidence) -> int | None:
    """How many GPUs publish; of single GPUs never more than there are series."""
    if evidence.source is not MetricSource.PER_GPU:
        return evidence.gpus_reporting
    seen = len(evidence.gpus)
    return seen if evidence.gpus_reporting is None else min(seen, evidence.gpus_reporting)


def _judge_count(evidence: Evidence, policy: Policy) -> Verdict | None:
    """No data where an aggregate does not tell that all GPUs are in it, up to its end."""
    gpus = _counted(evidence)
    if gpus is None:
        return None
    if evidence.gpus_reporting is None or not evidence.samples:
        return _no_data(evidence, f"it is not known how many of {gpus} GPUs publish utilization")
    return _judge_counted_end(evidence, policy, gpus) or _judge_counted_coverage(
        evidence, policy, gpus
    )


def _judge_counted_coverage(evidence: Evidence, policy: Policy, gpus: int) -> Verdict | None:
    """As the coverage of single GPUs: in enough periods no GPU can be missing, by the samples they
    hold."""
    collections = _collections(evidence.window.period, policy)
    # As at the end, whole collections may be missing: agents drift and skip one.
    fewest = gpus * max(1, collections - _may_be_missing(policy))
    counts = [count or 0.0 for count in padded(evidence.samples, evidence.window)]
    full = [n > (gpus - 1) * collections or (n % gpus == 0 and n >= fewest) for n in counts]
    seen = 100.0 * sum(full) / len(full)
    if seen >= policy.idle.minimum_coverage_percent:
        return None
    return _no_data(evidence, f"all {gpus} GPUs were measured {_of_needed(seen, policy)}")


def _judge_counted_end(evidence: Evidence, policy: Policy, gpus: int) -> Verdict | None:
    """As `_judge_end`, by the samples of the newest bins; one collection in them may be missing."""
    window = evidence.window
    bins = newest_bins(evidence.samples, window, END) or []
    counts = [sum(count or 0.0 for count in one) for one in bins]
    collections = _collections(len(counts) * max(END_BIN, window.period), policy)
    # Only a whole collection may be missing, or as many samples could be those of one hidden GPU.
    whole_collections = all(count % gpus == 0 for count in counts)
    whole = whole_collections and sum(counts) >= gpus * (collections - _may_be_missing(policy))
    if counts and min(counts) >= gpus and whole:
        return None
    # All of them did lately: what one GPU less would publish in a period is no sign of that.
    full = gpus * _collections(window.period, policy)
    lately = padded(evidence.samples, window)[-LATE // window.period :]
    reason = f"not all of {gpus} GPUs published in the newest {_newest(window)} min"
    may_come = any((count or 0.0) >= full for count in lately)
    return _no_data(evidence, reason, is_late=may_come and _is_but_for_one_hole(evidence, policy))


def _collections(length: timedelta, policy: Policy) -> float:
    """How often the agent collects in this time."""
    return length.total_seconds() / policy.metrics.collection_interval_seconds


def _may_be_missing(policy: Policy) -> int:
    """How many collections: of agents that collect more than once a minute, those of a minute."""
    return max(1, 60 // policy.metrics.collection_interval_seconds)


def _of_needed(seen: float, policy: Policy) -> str:
    return f"{seen:.0f}% of the window, {policy.idle.minimum_coverage_percent:g}% are needed"


def _judge_work(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Busy by what a job has published of itself; that none has proves nothing."""
    if evidence.work is None:
        return None
    ended = evidence.last_active.get(WORK, evidence.window.end)
    reason = f"a job says that it works: {evidence.work} was not 0, last at {in_utc(ended)}"
    return _busy(evidence, policy, ended, reason)


def _judge_figures(evidence: Evidence, policy: Policy) -> Verdict | None:
    """Busy by another figure than utilization, or no data where a required figure is missing."""
    period = max(END_BIN, evidence.window.period)
    # The window ends up to a period and the lag ago; EC2 publishes every five minutes at best.
    oldest = max(_NEWEST_FIGURE - policy.lag - period, 2 * period)
    for figure in FIGURES:
        text, value = FIGURES[figure].words, _figure_of(evidence, figure)
        limit = limit_of(policy, figure)
        if limit is None:
            continue
        if value is not None and value >= limit:
            ended = evidence.last_active.get(figure, evidence.window.end)
            reached, most = _amount(figure, value), _amount(figure, limit)
            reason = f"GPUs are quiet, but {text} reached {reached} (the policy's limit is {most})"
            return _busy(evidence, policy, ended, reason)
        if figure not in required_figures(policy):
            continue
        if value is None:
            return _no_data(evidence, f"{text} is required by the policy and was not published")
        late = _not_lately(evidence, policy, figure, evidence.window.end, oldest)
        if late is not None:
            return late
        seen = evidence.measured_percent.get(figure, 0.0)
        if seen < policy.idle.minimum_coverage_percent:
            reason = f"{text} is required by the policy and was measured {_of_needed(seen, policy)}"
            return _no_data(evidence, reason)
    return None


def judge_age(evidence: Evidence, policy: Policy, now: datetime) -> Verdict | None:
    """No data where a required figure was not measured in the newest 20 minutes, whatever the
    lag."""
    late = (
        _not_lately(evidence, policy, figure, now, _NEWEST_FIGURE)
        for figure in required_figures(policy)
    )
    return next(filter(None, late), None)


def _not_lately(
    evidence: Evidence, policy: Policy, figure: str, until: datetime, most: timedelta
) -> Verdict | None:
    """No data where a figure was last measured longer than `most` before `until`."""
    ended = evidence.last_measured.get(figure, evidence.window.start)
    silent = until - ended
    if silent <= most:
        return None
    reason = (
        f"{FIGURES[figure].words} is required by the policy and was last measured at "
        f"{in_utc(ended)}"
    )
    return _no_data(
        evidence, reason, is_late=silent < LATE and _is_but_for_one_hole(evidence, policy)
    )


def activity(evidence: Evidence, policy: Policy) -> str | None:
    """Return what of the evidence reaches a limit of the policy, or `None`. Gaps prove nothing."""
    tops = [value for series in _utilization(evidence) if (value := peak(series)) is not None]
    if tops and max(tops) >= policy.idle.utilization_below_percent:
        return f"utilization reached {max(tops):.1f}%"
    if evidence.work is not None:
        return f"a job publishes {evidence.work}"
    for figure in FIGURES:
        limit, value = limit_of(policy, figure), _figure_of(evidence, figure)
        if limit is not None and value is not None and value >= limit:
            return f"{FIGURES[figure].words} reached {_amount(figure, value)}"
    return None


def _figure_of(evidence: Evidence, figure: str) -> float | None:
    """The maximum of a figure in the window; `None` where it was not measured."""
    value: float | None = getattr(evidence, FIGURES[figure].field)
    return value if is_reading(value) else None


def _amount(figure: str, value: float) -> str:
    return f"{value / 1_000_000:.2f} MB/s" if figure == "network" else f"{value:.1f}%"


def _busy_by_utilization(evidence: Evidence, policy: Policy, last: int) -> Verdict:
    window = evidence.window
    ended = window.bin_end(last)
    threshold, needed = policy.idle.utilization_below_percent, policy.idle.minimum_coverage_percent
    busy = [
        gpu for gpu in evidence.gpus if last_at_or_above(gpu.utilization, threshold) is not None
    ]
    # Those that were seen too little are in neither.
    seen = [
        gpu for gpu in evidence.gpus if coverage_percent(padded(gpu.utilization, window)) >= needed
    ]
    idle = [gpu for gpu in seen if gpu not in busy]
    top = max(value for series in _utilization(evidence) if (value := peak(series)) is not None)
    if idle and busy:
        reason = (
            f"{len(busy)} of {len(idle) + len(busy)} GPUs work{'s' * (len(busy) == 1)} "
            f"(up to {top:.1f}%), "
            f"{len(idle)} stayed under {threshold:g}%"
        )
        advice = (_right_size(evidence, busy, idle),)
        return replace(
            _busy(evidence, policy, ended, reason), kind=VerdictKind.PARTLY_IDLE, advice=advice
        )
    length = minutes(window.length)
    reason = f"utilization reached {top:.1f}% in the last {length} min, last at {in_utc(ended)}"
    return _busy(evidence, policy, ended, reason)


def _busy(evidence: Evidence, policy: Policy, ended: UtcDatetime, reason: str) -> Verdict:
    until = ended + policy.window
    return Verdict(VerdictKind.BUSY, reason, evidence=evidence, last_busy=ended, not_before=until)


def _right_size(evidence: Evidence, busy: list[GpuReadings], idle: list[GpuReadings]) -> str:
    names = ", ".join(gpu.gpu for gpu in idle)
    average = sum(mean(gpu.utilization) or 0.0 for gpu in busy) / len(busy)
    # A GPU that was not seen may work: it counts as needed.
    needed = max(evidence.gpus_expected or 0, len(evidence.gpus)) - len(idle)
    return (
        f"right-size: GPU{'s' if len(idle) > 1 else ''} {names} did nothing; {len(busy)} worked, "
        f"at {average:.0f}% on average. A type with {needed} "
        f"accelerator{'s' if needed > 1 else ''} would do"
    )


def _no_data(evidence: Evidence, reason: str, *, is_late: bool = False) -> Verdict:
    return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence, is_late=is_late)


def _silence(evidence: Evidence, policy: Policy) -> str:
    names, power = policy.metrics, evidence.agentless_power_percent
    text = f"no {names.utilization} in {names.namespace} for {minutes(evidence.window.length)} min"
    if power is None:
        return text
    return f"{text}; EC2's own GPUPowerUtilization reached {power:.0f}%, which alone proves nothing"


def idle_sentence(
    idle_for: timedelta, policy: Policy, manager: Manager | None = None, *, released: bool = False
) -> str:
    if released:
        return f"Idle for {span(idle_for)} and GPU memory is released."
    below = f"{policy.idle.utilization_below_percent:g}%"
    managed = "" if manager is None else f" {manager.service} runs it ({manager.mark})."
    return f"Idle for {span(idle_for)} (every GPU under {below}).{managed}"
