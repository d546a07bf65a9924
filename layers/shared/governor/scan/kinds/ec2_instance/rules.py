"""Judges whether a running instance is idle in a scan: by its accelerators' metrics if there are
any, and else, weakly, by CPU, network and the like.

Those figures come from the one table, `evidence.rules.figures`, so a new veto counts here, too.
`OWN_LIMITS`, `OWN_FIGURES` and `ELSEWHERE` are the only differences. Functions without side
effects. Missing data is never idleness.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from governor.evidence.rules.figures import FIGURES, Publisher, Scale, limit_of
from governor.policy.model.policy import Policy
from governor.scan.kinds.ec2_instance.model import Beside, Reading
from governor.scan.model import Finding, Strength
from governor.verdict.model import Family, VerdictKind

GPU_POWER_PERCENT = 5.0
"""EC2's GPUPowerUtilization of a GPU at work is higher. A public runbook of AWS calls a node idle
while every GPU stays under this for an hour; the policy's veto for power, 40%, is meant for
instances whose utilization is known."""
DISK_BYTES_PER_SECOND = 1_000_000.0
"""The policy has no veto for EBS volumes. Logs and updates of a quiet host stay under this, which
is the policy's limit for the network; reading a data set, or writing a checkpoint, does not."""
DISK_OPERATIONS_PER_SECOND = 100.0
"""Many small files or a database; a quiet host has a few."""


class FigureBeside(NamedTuple):
    """A figure of EC2 by which an instance is judged whose accelerators publish nothing.

    `metrics` add up to the figure, or each of them has a series for each GPU if `is_listed`.
    """

    words: str
    metrics: tuple[str, ...]
    statistic: str
    scale: Scale
    limit: float | None
    """Shows work from here on; `None` if the policy switches the veto off."""
    is_listed: bool = False
    """True if only some instance types publish it, so that it counts where a listing shows it."""


class OwnLimit(NamedTuple):
    """The words and the limit that a scan has for a figure of the table."""

    words: str
    limit: float


OWN_LIMITS: Mapping[str, OwnLimit] = {
    "agentless": OwnLimit("EC2's GPUPowerUtilization", GPU_POWER_PERCENT),
}
"""The figures of the table that a scan limits otherwise than the policy does."""
OWN_FIGURES: Mapping[str, FigureBeside] = {
    "disk": FigureBeside(
        words="disk traffic",
        metrics=("EBSReadBytes", "EBSWriteBytes"),
        statistic="Sum",
        scale=Scale.BYTES_PER_SECOND,
        limit=DISK_BYTES_PER_SECOND,
    ),
    "disk-operations": FigureBeside(
        words="disk operations",
        metrics=("EBSReadOps", "EBSWriteOps"),
        statistic="Sum",
        scale=Scale.OPERATIONS_PER_SECOND,
        limit=DISK_OPERATIONS_PER_SECOND,
    ),
}
"""The figures that only a scan reads. A veto of the table that is made of the same metrics takes
the place of one."""
ELSEWHERE = (Publisher.AGENT, Publisher.INSTANCE)
"""The publishers whose figures are not read beside the accelerators. They count where the same
publisher shows utilization: such an instance is judged by the product's own rules."""


def figures_beside(policy: Policy) -> dict[str, FigureBeside]:
    """Return the figures beside the accelerators, in the order in which people read them: those of
    the one table that EC2 publishes, those that only a scan reads, and those of some types."""
    of_every_type: dict[str, FigureBeside] = {}
    of_some_types: dict[str, FigureBeside] = {}
    for figure, row in FIGURES.items():
        if row.publisher is Publisher.EC2_GPU:
            of_some_types[figure] = _from_table(figure, policy)
        elif row.publisher not in ELSEWHERE and _counts(figure, policy):
            of_every_type[figure] = _from_table(figure, policy)
    return of_every_type | _only_scanned(of_every_type) | of_some_types


def _counts(figure: str, policy: Policy) -> bool:
    """Return whether the policy requires a figure or limits it."""
    return figure in policy.vetoes.required or limit_of(policy, figure) is not None


def _only_scanned(of_table: Mapping[str, FigureBeside]) -> dict[str, FigureBeside]:
    """Return the figures that only a scan reads, without those made of the same metrics as one of
    the table."""
    metrics_of_table = {figure.metrics for figure in of_table.values()}
    only_scanned: dict[str, FigureBeside] = {}
    for name, own in OWN_FIGURES.items():
        is_in_table = own.metrics in metrics_of_table
        if not is_in_table:
            only_scanned[name] = own
    return only_scanned


def _from_table(figure: str, policy: Policy) -> FigureBeside:
    """Return a figure of the one table, with the policy's limit or the scan's own."""
    row = FIGURES[figure]
    own = OWN_LIMITS.get(figure)
    if own is None:
        words = row.words
        limit = limit_of(policy, figure)
    else:
        words = own.words
        limit = own.limit
    return FigureBeside(
        words=words,
        metrics=row.metrics,
        statistic=row.statistic,
        scale=row.scale,
        limit=limit,
        is_listed=row.publisher is Publisher.EC2_GPU,
    )


_FINDING_OF_FAMILY = {
    Family.WORKING: Finding.BUSY,
    Family.IDLE: Finding.IDLE,
    Family.LEFT_ALONE: Finding.EXEMPT,
    Family.YOUNG: Finding.TOO_YOUNG,
    Family.UNKNOWN: Finding.NOT_MEASURED,
}
_FINDING_OF_KIND = {VerdictKind.PARTLY_IDLE: Finding.PARTLY_IDLE}
"""Kinds that are shown otherwise than their family."""
_MEASURED = (Finding.IDLE, Finding.BUSY, Finding.PARTLY_IDLE)


def finding_of(kind: VerdictKind) -> Finding:
    """Return the finding that a verdict of the product is in a report."""
    return _FINDING_OF_KIND.get(kind, _FINDING_OF_FAMILY[kind.family])


def strength_of(finding: Finding) -> Strength:
    """Return the strength of a finding that the accelerators' own figures gave."""
    return Strength.STRONG if finding in _MEASURED else Strength.NONE


def deciding(readings: Sequence[Reading]) -> Reading:
    """Return the reading that decides, of one or more: work that any publisher shows, then a
    publisher that could not be read, then idleness, and then that nothing is known.

    Anybody can publish zeros under a known name, so idleness by one never hides work by another.
    """
    return min(readings, key=_rank)


def _rank(reading: Reading) -> int:
    """Return the place of a reading among those of one instance; the lowest decides."""
    finding = finding_of(reading.kind)
    if finding is Finding.BUSY:
        return 0
    if finding is Finding.PARTLY_IDLE:
        return 1
    if reading.problem is not None:
        return 2
    if finding is Finding.IDLE:
        return 3
    return 4


def busiest_beside(beside: Beside, policy: Policy) -> str | None:
    """Return the figure beside the accelerators that is furthest over its limit; `None` if none
    reaches it."""
    figures = figures_beside(policy)
    over: dict[str, float] = {}
    for figure, peak in beside.peaks.items():
        limit = figures[figure].limit
        if limit is not None and peak >= limit:
            over[figure] = peak / limit
    return max(over, key=lambda figure: over[figure], default=None)


def judge_beside(beside: Beside, policy: Policy) -> tuple[Finding, Strength]:
    """Return the finding by the figures beside the accelerators, and its strength: work if one is
    high, and `likely idle` if all were measured and are low. Otherwise nothing is known."""
    if busiest_beside(beside, policy) is not None:
        return Finding.BUSY, Strength.WEAK
    if beside.problem or beside.missing:
        return Finding.NOT_MEASURED, Strength.NONE
    return Finding.LIKELY_IDLE, Strength.WEAK
