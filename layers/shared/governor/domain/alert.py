"""A message to people and to whatever subscribes: one structure, rendered per channel by adapters.

This module must not know SNS or any chat system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.domain.units import UtcDatetime


def short_hash(*parts: str) -> str:
    """Twelve hexadecimal digits that tell texts apart, however long they are: tags have 256 characters."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


class AlertKind(StrEnum):
    """What a message is about; subscribers filter by it."""

    APPROVAL_REQUESTED = "approval-requested"
    APPROVAL_REMINDER = "approval-reminder"
    APPROVAL_ESCALATION = "approval-escalation"
    APPROVAL_FIRST_YES = "approval-first-yes"
    """The first of two people has approved."""
    IDLE_FOUND = "idle-found"
    """Told without a question: observe or auto mode, or a plan that only notifies."""
    OUTCOME = "outcome"
    FAILURE = "failure"
    UNDONE = "undone"
    """A stopped instance was started again by somebody through the record's page."""
    MANAGED_IDLE = "managed-idle"
    """Idle instances of an environment that another service runs; told to its owner, with advice."""
    TELEMETRY_SILENT = "telemetry-silent"
    BREAKER_TRIPPED = "breaker-tripped"
    BREAKER_RELEASED = "breaker-released"
    SPOT_INTERRUPTION = "spot-interruption"
    """An instance is about to be taken back: Spot, or an interruptible Capacity Reservation."""
    MASS_INTERRUPTION = "mass-interruption"
    """Many of them in one zone; told once."""
    REBALANCE_RECOMMENDED = "rebalance-recommended"
    AUTO_SCALING_TERMINATION = "auto-scaling-termination"
    """Its Auto Scaling group terminates an instance, or puts it into the warm pool."""
    CHECKPOINT_FAILED = "checkpoint-failed"
    """The hook on an instance could not be started."""
    INTERRUPTION_ADVICE = "interruption-advice"
    SCHEDULED_CHANGE = "scheduled-change"
    """A date at which AWS will stop, restart or retire an instance, or at which a Capacity Block ends."""
    HEALTH_FINDING = "health-finding"
    """GPUs that are lost, faulty, hot, slower than their peers, or used badly."""
    BUDGET_REACHED = "budget-reached"
    """A project has used a share of its budget of the month at which its owner is told."""
    SWEEP_FAILED = "sweep-failed"
    ALARM = "alarm"
    """An alarm of the stack, as CloudWatch has published it."""


class Severity(StrEnum):
    """How urgent."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Alert:
    """One message. `lines` is the readable body; `facts` is plain JSON data for machines.

    `dedup_id` is the same for the same message, so that a repeated send can be told apart from a new one.
    """

    kind: AlertKind
    severity: Severity
    account: str
    region: str
    subject: str
    lines: tuple[str, ...]
    dedup_id: str
    at: UtcDatetime
    instance_id: str | None = None
    owner: str = "unassigned"
    project: str = "unassigned"
    link: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
