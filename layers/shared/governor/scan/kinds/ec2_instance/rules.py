"""Judge a running instance: by its accelerators if they publish anything, and else, weakly, by the
figures beside them.

Functions without side effects. Missing data is never idleness.
"""

from __future__ import annotations

from collections.abc import Sequence

from governor.core.units import without_none
from governor.policy.model.policy import Policy
from governor.scan.kinds.ec2_instance.model import Beside, Reading
from governor.scan.model import Finding, Strength
from governor.verdict.model import VerdictKind

GPU_POWER_PERCENT = 5.0
"""EC2's GPUPowerUtilization of a GPU at work is higher. A public runbook of AWS calls a node idle
while every GPU stays under this for an hour; the policy's veto for power, 40%, is meant for
instances whose utilization is known."""
DISK_BYTES_PER_SECOND = 1_000_000.0
"""The policy has no veto for EBS volumes. Logs and updates of a quiet host stay under this, which
is the policy's limit for the network; reading a data set, or writing a checkpoint, does not."""
DISK_OPERATIONS_PER_SECOND = 100.0
"""Many small files or a database; a quiet host has a few."""

CPU = "CPU"
NETWORK = "network traffic"
DISK = "disk traffic"
DISK_OPERATIONS = "disk operations"
GPU_POWER = "EC2's GPUPowerUtilization"
REQUIRED_BESIDE = (CPU, NETWORK, DISK, DISK_OPERATIONS)
"""Figures without which nothing beside the accelerators is known. EC2 publishes GPUPowerUtilization
for some types only."""

_FINDINGS = {
    VerdictKind.IDLE: Finding.IDLE,
    VerdictKind.MANAGED_ELSEWHERE: Finding.IDLE,
    VerdictKind.FROZEN: Finding.IDLE,
    VerdictKind.BUSY: Finding.BUSY,
    VerdictKind.PARTLY_IDLE: Finding.PARTLY_IDLE,
    VerdictKind.EXEMPT: Finding.EXEMPT,
    VerdictKind.SNOOZED: Finding.EXEMPT,
    VerdictKind.TOO_YOUNG: Finding.TOO_YOUNG,
    VerdictKind.NO_DATA: Finding.NOT_MEASURED,
}
_MEASURED = (Finding.IDLE, Finding.BUSY, Finding.PARTLY_IDLE)


def finding_of(kind: VerdictKind) -> Finding:
    """Return the finding that a verdict of the product is in a report."""
    return _FINDINGS[kind]


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


def limits(policy: Policy) -> dict[str, float]:
    """Return the limit of each figure beside the accelerators, below which it shows no work. A veto
    that the policy switches off has no limit here either."""
    vetoes = policy.vetoes
    limit_by_figure: dict[str, float | None] = {
        CPU: vetoes.cpu_percent,
        NETWORK: vetoes.network_bytes_per_second,
        DISK: DISK_BYTES_PER_SECOND,
        DISK_OPERATIONS: DISK_OPERATIONS_PER_SECOND,
        GPU_POWER: GPU_POWER_PERCENT,
    }
    return without_none(limit_by_figure)


def busiest_beside(beside: Beside, policy: Policy) -> str | None:
    """Return the figure beside the accelerators that is furthest over its limit; `None` if none
    reaches it."""
    limit_by_figure = limits(policy)
    over: dict[str, float] = {}
    for figure, peak in beside.peaks.items():
        limit = limit_by_figure.get(figure)
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
