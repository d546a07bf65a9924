"""A message to people and to whatever subscribes, whose it is, and its fate on each channel."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from governor.domain.instance import Instance, Target
from governor.domain.policy.contacts import Ownership
from governor.domain.units import Usd, UtcDatetime, iso, parse_iso, printable, usd

UNASSIGNED = "unassigned"
"""The project of an instance without a project tag."""


def short_hash(*parts: str) -> str:
    """Return twelve hexadecimal digits of a hash of these texts: tags may have 256 characters."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


class Owner(NamedTuple):
    name: str
    project: str = UNASSIGNED
    time_zone: str = "UTC"
    """The zone of the first contact who is notified about it."""

    @property
    def key(self) -> str:
        """Return the owner's part in the id of a message: each owner gets one of their own."""
        return short_hash(self.name, self.project)


NOBODY = Owner(UNASSIGNED)


def owner_of(instance: Instance, rule: Ownership) -> Owner:
    """Return the owner and project: for each, the first tag of the policy's list that is set."""

    def first(keys: tuple[str, ...], otherwise: str) -> str:
        return next(
            (value for key in keys if (value := printable(instance.tags.get(key, "")))), otherwise
        )

    name, project = (
        first(rule.owner_tag_keys, rule.default_owner),
        first(rule.project_tag_keys, UNASSIGNED),
    )
    contacts = rule.asked(name, project)
    return Owner(name, project, contacts[0].time_zone if contacts else "UTC")


def by_owner(instances: Sequence[Instance], rule: Ownership) -> dict[Owner, list[Instance]]:
    found: dict[Owner, list[Instance]] = defaultdict(list)
    for instance in instances:
        found[owner_of(instance, rule)].append(instance)
    return dict(found)


class AlertKind(StrEnum):
    """The subject of a message; subscribers filter by it."""

    APPROVAL_REQUESTED = "approval-requested"
    APPROVAL_REMINDER = "approval-reminder"
    APPROVAL_ESCALATION = "approval-escalation"
    APPROVAL_FIRST_YES = "approval-first-yes"
    APPROVED_WAITS = "approved-waits"
    """A freeze or a cap holds back what was approved, or what `auto` does."""
    INSTANCE_IDLE = "instance-idle"
    """An instance has become idle: for machines alone, once per idle stretch."""
    IDLE_FOUND = "idle-found"
    """Sent without a question: observe or auto mode, or a plan that only notifies."""
    OUTCOME = "outcome"
    FAILURE = "failure"
    FAILURE_OVER = "failure-over"
    UNDONE = "undone"
    """A stopped instance was started again by somebody through the record's page."""
    MANAGED_IDLE = "managed-idle"
    """Idle instances of an environment that another service runs; sent to its owner, with
    advice."""
    TELEMETRY_SILENT = "telemetry-silent"
    EXEMPTION_UNUSUAL = "exemption-unusual"
    """Instances that an oddly spelled exemption tag keeps."""
    BREAKER_TRIPPED = "breaker-tripped"
    BREAKER_RELEASED = "breaker-released"
    PAUSED = "paused"
    """A person has paused everything that destroys."""
    PAUSE_ENDED = "pause-ended"
    SPOT_INTERRUPTION = "spot-interruption"
    """An instance is about to be taken back: Spot, or an interruptible Capacity Reservation."""
    MASS_INTERRUPTION = "mass-interruption"
    REBALANCE_RECOMMENDED = "rebalance-recommended"
    AUTO_SCALING_TERMINATION = "auto-scaling-termination"
    CHECKPOINT_FAILED = "checkpoint-failed"
    INTERRUPTION_ADVICE = "interruption-advice"
    SCHEDULED_CHANGE = "scheduled-change"
    """A date at which AWS will stop, restart or retire an instance, or at which a Capacity Block
    ends."""
    HEALTH_FINDING = "health-finding"
    CAPACITY_EMPTY = "capacity-empty"
    """A Capacity Reservation or a Capacity Block has stood empty, in whole or in part, for a
    while."""
    SNAPSHOTS_EXPIRE = "snapshots-expire"
    """Snapshots of a closed episode will be deleted on a date."""
    BUDGET_REACHED = "budget-reached"
    SAVINGS_REPORT = "savings-report"
    POLICY_CHANGED = "policy-changed"
    """A version of the policy is in force, waits for people, or was refused."""
    CONSENT_MISSING = "consent-missing"
    """An override names somebody who has not accepted it: it counts as `ask` until then."""
    ALARM = "alarm"
    ALARM_OVER = "alarm-over"
    """It is back to OK: for machines alone, which close what the alarm has opened."""
    INCIDENT_OVER = "incident-over"
    """The cause of a critical message is gone, or its time has passed: for machines alone, too."""


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Section:
    heading: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Facts:
    """The subject of a message in facts. Without an instance it is the Region of the account."""

    account: str
    region: str
    owner: str = UNASSIGNED
    project: str = UNASSIGNED
    instance_id: str | None = None
    instance_name: str | None = None
    instance_type: str | None = None
    usd_per_day: Usd | None = None
    """At the list or Spot price, while it runs; `None` when not known."""

    def rows(self, unpriced: str = "not known") -> tuple[tuple[str, str], ...]:
        """Label and value, in reading order. Unknown ones are left out, but for the cost and owner
        of an instance; `unpriced` stands for a cost that is not known."""
        one, name = self.instance_id, self.instance_name
        cost = (
            unpriced if self.usd_per_day is None else f"{usd(self.usd_per_day)} a day while it runs"
        )
        # It is stopped, or its hours are paid for.
        cost = "no more than its storage" if self.usd_per_day == 0 else cost
        found = {
            "Instance": f"{name} ({one})" if one and name else one,
            "Type": self.instance_type,
            "Owner": self.owner if one or self.owner != UNASSIGNED else None,
            "Project": self.project if one or self.project != UNASSIGNED else None,
            "Cost": cost if one else None,
            "Account": self.account,
            "Region": self.region,
        }
        return tuple((label, value) for label, value in found.items() if value)


@dataclass(frozen=True, slots=True)
class Alert:
    """One message. `lines` is the readable body, less the link; `facts` is plain JSON data for
    machines. `dedup_id` is the same for the same message, so that a repeated send is recognized."""

    kind: AlertKind
    severity: Severity
    account: str
    region: str
    subject: str
    lines: tuple[str, ...]
    dedup_id: str
    at: UtcDatetime
    instance_id: str | None = None
    owner: str = UNASSIGNED
    project: str = UNASSIGNED
    link: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def about(self) -> Facts:
        """Its subject for people; from the facts, so that every reader of the queue can show it."""
        name, kind, price = (
            str(self.facts[key]) if self.facts.get(key) else None
            for key in ("instance_name", "instance_type", "usd_per_hour")
        )
        usd_per_day = None if price is None else Decimal(price) * 24
        return Facts(
            self.account,
            self.region,
            self.owner,
            self.project,
            self.instance_id,
            name,
            kind,
            usd_per_day,
        )


INCIDENT_UNTIL, INCIDENT_WHILE = "incident_until", "incident_while"
"""Facts of a critical message whose cause ends by itself: not before a time, nor while any of the
findings by these keys is known (`EventLog.told`)."""


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident that a machine opened for a critical message, by `key`, and may close at
    `ends_at`."""

    key: str
    subject: str
    target: Target
    opened_at: UtcDatetime
    ends_at: UtcDatetime
    lasts_with: tuple[str, ...] = ()


def incident_of(alert: Alert, now: UtcDatetime) -> Incident | None:
    """Return the incident to close in time; `None` where none is opened, or another message closes
    it."""
    until, keys = alert.facts.get(INCIDENT_UNTIL), alert.facts.get(INCIDENT_WHILE)
    if alert.severity is not Severity.CRITICAL or not isinstance(until, str):
        return None
    key, target = (
        str(alert.facts.get("incident") or alert.dedup_id),
        Target(alert.account, alert.region),
    )
    lasts_with = tuple(map(str, keys)) if isinstance(keys, list) else ()
    return Incident(key, alert.subject, target, now, parse_iso(until), lasts_with)


Seal = Callable[[bytes], str]
"""Signs a text with a key that only GPU Governor's own functions may use. Raises: CloudError."""
REPEATS = "repeats"
"""The fact of what plain subscribers filter out: a failure announced within the hour, an incident's
end."""
SEAL = "seal"
"""The fact that holds the seal: the release before reads facts of any name, and no other new
field."""


def alert_document(alert: Alert) -> dict[str, object]:
    document = {item.name: getattr(alert, item.name) for item in fields(alert)}
    plain = {"lines": list(alert.lines), "at": iso(alert.at), "facts": dict(alert.facts)}
    return {"version": 1, **document, **plain}


def sealed_text(alert: Alert) -> bytes:
    """Return what the seal of an alert covers: its document in canonical form, less the seal."""
    facts = {name: value for name, value in alert.facts.items() if name != SEAL}
    document = {**alert_document(alert), "facts": facts}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


ENDS_FOR_MACHINES = frozenset({AlertKind.ALARM_OVER, AlertKind.INCIDENT_OVER})
"""Ends that channels of people leave out: PagerDuty and webhooks close what they have opened."""
FOR_MACHINES = frozenset({AlertKind.INSTANCE_IDLE})
"""Kinds that no mail and no chat carries; the template's subscriptions leave them out, too."""
QUESTIONS = frozenset(
    {AlertKind.APPROVAL_REQUESTED, AlertKind.APPROVAL_REMINDER, AlertKind.APPROVAL_ESCALATION}
)
ENDS = frozenset({AlertKind.OUTCOME, AlertKind.FAILURE})
ESCALATED = frozenset({AlertKind.APPROVAL_ESCALATION, AlertKind.FAILURE, AlertKind.FAILURE_OVER})


def named(one: Instance) -> str:
    """Return `notebook-7 (i-0123456789abcdef0, g5.12xlarge)`."""
    return f"{one.name} ({one.instance_id}, {one.instance_type})"


def only(instances: Sequence[Instance]) -> Instance | None:
    return instances[0] if len(instances) == 1 else None


def counted(instances: Sequence[Instance]) -> str:
    one = only(instances)
    return one.name if one else f"{len(instances)} GPU instances"


def ids(instances: Iterable[Instance]) -> list[str]:
    return [one.instance_id for one in instances]


NOWHERE = "none"
"""The channel of the record that says that there is none to deliver to."""


DIGEST_PREFIX = "digest-"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message (the alert's `dedup_id`) on one channel to one target; `subject` is the episode's
    execution name, or the message's own id. Taken: `delivery_id` is what the channel calls it,
    `thread` what later messages name to be kept together with it. Refused: `refused` says why, and
    what to do."""

    subject: str
    message: str
    channel: str
    target: str
    at: UtcDatetime
    delivery_id: str | None = None
    thread: str | None = None
    refused: str | None = None
    shared: bool | None = None
    """Taken by a channel of everybody, where the policy names one of their own for those whom it is
    for."""
    given_up: bool = False
    """Refused only because nobody has taken it for too long: it may be tried again when somebody
    says so."""
    not_before: UtcDatetime | None = None
    """Time of the next try: the channel has said so, or somebody who may have died is sending it
    now."""
    seal: str | None = None
    """Made by `deliver_alert`, where silence may count from this delivery."""

    @property
    def key(self) -> tuple[str, str]:
        """Name the way it took, as `Route.key` does."""
        return self.channel, self.target

    @property
    def is_settled(self) -> bool:
        return self.not_before is None

    @property
    def was_taken(self) -> bool:
        return self.is_settled and self.refused is None

    @property
    def reached_people(self) -> bool:
        """Say whether those have it whom it is for: a webhook is a machine's."""
        return self.was_taken and self.channel != "webhook" and not self.shared


@dataclass(frozen=True, slots=True)
class Queued:
    """One message of the queue; `receives` counts how often it was handed out, this time
    included."""

    message_id: str
    receipt: str
    body: str
    receives: int
    sent_at: UtcDatetime | None = None


class Again(NamedTuple):
    """Asks to try once more where an alert was given up: somebody has put it back into the
    queue."""

    alert: Alert


class Flush(NamedTuple):
    group: str
