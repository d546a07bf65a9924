"""An alert: a message to people and to subscribers, with its kind, severity, owner, words, facts
and incident.

This module words nothing and sends nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from governor.core.hashing import short_hash
from governor.core.instance import Instance, Target
from governor.core.units import Usd, UtcDatetime, daily_cost, iso, parse_iso, usd, without

UNASSIGNED = "unassigned"
"""The project of an instance without a project tag."""


class Owner(NamedTuple):
    """The owner and project of an instance or a message."""

    name: str
    project: str = UNASSIGNED
    time_zone: str = "UTC"
    """The time zone of the first contact who is notified."""

    @property
    def key(self) -> str:
        """Return a short hash of the name and the project, for the ids of messages: messages of one
        kind to different owners or projects then differ."""
        return short_hash(self.name, self.project)


NOBODY = Owner(UNASSIGNED)


class AlertKind(StrEnum):
    """The subject of a message; subscribers filter by it."""

    APPROVAL_REQUESTED = "approval-requested"
    APPROVAL_REMINDER = "approval-reminder"
    APPROVAL_ESCALATION = "approval-escalation"
    APPROVAL_FIRST_YES = "approval-first-yes"
    APPROVED_WAITS = "approved-waits"
    """A freeze or a cap delays an approved action, or one of mode auto."""
    INSTANCE_IDLE = "instance-idle"
    """An instance has become idle: for machines alone, once per idle stretch."""
    IDLE_FOUND = "idle-found"
    """Sent without a question: observe or auto mode, or a plan that only notifies."""
    OUTCOME = "outcome"
    FAILURE = "failure"
    FAILURE_OVER = "failure-over"
    UNDONE = "undone"
    """A stopped instance was started again by somebody through the record's page, and runs."""
    START_FAILED = "start-failed"
    """EC2 refused to start a stopped instance again, or took the start back."""
    MANAGED_IDLE = "managed-idle"
    """Idle instances of an environment that another service runs; sent to its owner, with
    advice."""
    TELEMETRY_SILENT = "telemetry-silent"
    EXEMPTION_UNUSUAL = "exemption-unusual"
    """An oddly spelled exemption tag keeps instances running."""
    STANDING_STATE = "standing-state"
    """Something keeps places or instances from being swept or tagged until a person changes it;
    sent once."""
    STANDING_STATE_OVER = "standing-state-over"
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
    """An alarm is back to OK. It is sent to machines only, which close the incident that the alarm
    opened."""
    INCIDENT_OVER = "incident-over"
    """The cause of a critical message is gone, or its time has passed: for machines alone, too."""


class Severity(StrEnum):
    """How urgent a message is, the least urgent first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with its lines."""

    heading: str
    lines: tuple[str, ...]
    is_text: bool = False
    """True if the lines are text, such as a diff, and not items, which channels show with bullets
    or dashes."""


class LineForm(StrEnum):
    """The part that a line plays in the body of a message."""

    TEXT = "t"
    HEADING = "h"
    """It ends with a colon, and begins a section."""
    ITEM = "i"
    """It begins with a dash."""
    EMPTY = "e"


@dataclass(frozen=True, slots=True)
class Words:
    """The words of one message: its title, and the lines of its body, each with its form."""

    title: str
    lines: tuple[str, ...] = ()
    forms: tuple[LineForm, ...] = ()
    kind: AlertKind | None = None
    """The kind of message; `None` for the words of a part of a message."""
    severity: Severity | None = None
    """The usual severity of the message; `None` as above."""

    def __post_init__(self) -> None:
        """Require one form for each line. Raises: ValueError."""
        if len(self.forms) != len(self.lines):
            raise ValueError(f"{len(self.lines)} lines need as many forms, not {len(self.forms)}")

    @property
    def all_lines(self) -> list[str]:
        """Return the title, if there is one, and the lines of the body; empty if there are no words
        at all."""
        if self.title:
            return [self.title, *self.lines]
        return list(self.lines)

    @property
    def lead(self) -> tuple[str, ...]:
        """Return the lines of the body before the first heading, without empty ones; empty if there
        are none."""
        lead: list[str] = []
        for line, form in zip(self.lines, self.forms, strict=True):
            if form is LineForm.HEADING:
                break
            if form is not LineForm.EMPTY:
                lead.append(line)
        return tuple(lead)

    @property
    def sections(self) -> tuple[Section, ...]:
        """Return the headings with their lines, without the colons and dashes of plain text; lines
        before the first heading and empty ones are left out. Empty if there is no heading."""
        sections: list[Section] = []
        for line, form in zip(self.lines, self.forms, strict=True):
            if form is LineForm.HEADING:
                sections.append(Section(line.removesuffix(":"), ()))
            elif sections and form is not LineForm.EMPTY:
                item = line.removeprefix("- ") if form is LineForm.ITEM else line
                # A section is frozen, so the last one is replaced by one that has the item.
                last = sections.pop()
                is_text = last.is_text if last.lines else form is LineForm.TEXT
                sections.append(Section(last.heading, (*last.lines, item), is_text))
        return tuple(sections)


@dataclass(frozen=True, slots=True)
class Facts:
    """The instance, or the Region of an account, that a message is about."""

    account: str
    region: str
    owner: str = UNASSIGNED
    project: str = UNASSIGNED
    instance_id: str | None = None
    instance_name: str | None = None
    instance_type: str | None = None
    usd_per_day: Usd | None = None
    """At the list or Spot price, while it runs; `None` if it is not known."""
    was_priced: bool = False
    """True if the price was looked up for the message, also in vain."""
    is_prepaid: bool = False
    """True if the capacity of the running instance is paid for, used or not."""
    is_everywhere: bool = False
    """True if the message is about no single place: account and Region are those of GPU
    Governor."""
    is_terminated: bool = False
    """True if the message says that GPU Governor has terminated the instance."""

    def rows(self, unpriced: str = "") -> tuple[tuple[str, str], ...]:
        """Return labels and values, such as `Region` and `us-east-1`, in reading order.

        Unknown values are left out, except the owner and project of an instance, and a cost that
        was looked up in vain; so are account and Region of a message about no single place.
        `unpriced` is the text for an unknown cost; if it is empty, a cost that was not looked up is
        left out.
        """
        is_about_instance = bool(self.instance_id)
        instance = self.instance_id
        if self.instance_id and self.instance_name:
            instance = f"{self.instance_name} ({self.instance_id})"
        shows_owner = is_about_instance or self.owner != UNASSIGNED
        shows_project = is_about_instance or self.project != UNASSIGNED
        value_by_label = {
            "Instance": instance,
            "Type": self.instance_type,
            "Owner": self.owner if shows_owner else None,
            "Project": self.project if shows_project else None,
            "Cost": self._cost(unpriced) if is_about_instance else None,
        }
        if not self.is_everywhere:
            value_by_label["Account"] = self.account
            value_by_label["Region"] = self.region
        rows: list[tuple[str, str]] = []
        for label, value in value_by_label.items():
            if value:
                rows.append((label, value))
        return tuple(rows)

    def _cost(self, unpriced: str) -> str | None:
        """Return the cost of the instance as text, as in `$136 a day while it runs`; `prepaid` or
        `storage only` if it is zero. If it is not known, return the text `unpriced` or, if that is
        empty, `not known` for a price that was looked up; else `None`."""
        if self.usd_per_day is None:
            known_to_be_missing = "not known" if self.was_priced else None
            return unpriced or known_to_be_missing
        if self.is_prepaid:
            return "prepaid"
        if self.usd_per_day == 0:
            # The instance is stopped.
            return "storage only"
        return f"{usd(self.usd_per_day)} a day while it {'ran' if self.is_terminated else 'runs'}"


@dataclass(frozen=True, slots=True)
class Alert:
    """One message. `subject` is its title."""

    kind: AlertKind
    severity: Severity
    account: str
    region: str
    subject: str
    lines: tuple[str, ...]
    """The readable body, without the link."""
    dedup_id: str
    """The same for the same message, so that a repeated send is recognized."""
    at: UtcDatetime
    instance_id: str | None = None
    owner: str = UNASSIGNED
    project: str = UNASSIGNED
    link: str | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    """Plain JSON data for machines."""

    @property
    def about(self) -> Facts:
        """Return the instance or the Region that the alert is about. What is no field of the alert
        is read from `self.facts`, so that every reader of the queue can show it."""
        price = self._text_of("usd_per_hour")
        return Facts(
            account=self.account,
            region=self.region,
            owner=self.owner,
            project=self.project,
            instance_id=self.instance_id,
            instance_name=self._text_of("instance_name"),
            instance_type=self._text_of("instance_type"),
            usd_per_day=None if price is None else daily_cost(Decimal(price)),
            was_priced="usd_per_hour" in self.facts,
            is_prepaid=self.facts.get(IS_PREPAID) is True,
            is_everywhere=self.facts.get(EVERYWHERE) is True,
            is_terminated=self.facts.get("outcome") == "terminated",
        )

    def _text_of(self, fact: str) -> str | None:
        """Return a fact as text; `None` if it is missing or empty."""
        value = self.facts.get(fact)
        return str(value) if value else None


EVERYWHERE = "everywhere"
"""The fact of a message about no single account and Region: those of the alert are GPU Governor's
own."""
IS_PREPAID = "is_prepaid"
"""The fact of a message about an instance whose capacity is paid for, used or not."""
INCIDENT_UNTIL = "incident_until"
"""The fact with a time: the cause of a critical message ends by itself, but not before it."""
INCIDENT_WHILE = "incident_while"
"""The fact with keys of findings: the cause of a critical message lasts while one of them is known
(`Findings.known_keys`)."""


@dataclass(frozen=True, slots=True)
class Incident:
    """An incident that a machine opened under `key` for a critical message, and that may be closed
    at `ends_at`."""

    key: str
    subject: str
    target: Target
    opened_at: UtcDatetime
    ends_at: UtcDatetime
    lasts_with: tuple[str, ...] = ()
    """Keys of findings. The incident lasts while one of them is known."""


def incident_of(alert: Alert, now: UtcDatetime) -> Incident | None:
    """Return the incident that the message opens, and that a sweep must close when its time has
    passed. `now` is when it opens. Its key is the fact `incident`, else the `dedup_id`; without a
    list of findings in the facts, no finding makes it last.

    Return `None` if the message is not critical, or its facts do not say until when the incident
    lasts: another message closes it then, if it opens one. Raises: ValueError if the time in the
    facts is no ISO time.
    """
    until = alert.facts.get(INCIDENT_UNTIL)
    if alert.severity is not Severity.CRITICAL or not isinstance(until, str):
        return None
    finding_keys = alert.facts.get(INCIDENT_WHILE)
    lasts_with: tuple[str, ...] = ()
    if isinstance(finding_keys, list):
        lasts_with = tuple(str(key) for key in finding_keys)
    return Incident(
        key=str(alert.facts.get("incident") or alert.dedup_id),
        subject=alert.subject,
        target=Target(alert.account, alert.region),
        opened_at=now,
        ends_at=parse_iso(until),
        lasts_with=lasts_with,
    )


LINE_FORMS = "line_forms"
"""The fact that holds the `LineForm` of each line of the body, a letter each, so that no channel
has to find the parts of a message in its text. Alerts of earlier releases do not have it."""


def words_of(alert: Alert) -> Words:
    """Return the words of an alert, without kind and severity. If the facts do not hold a known
    form for each line, all lines count as text or empty, and are shown as they were sent."""
    letters = alert.facts.get(LINE_FORMS)
    if _has_form_for_each(letters, alert.lines):
        forms = [LineForm(letter) for letter in str(letters)]
    else:
        forms = [LineForm.TEXT if line else LineForm.EMPTY for line in alert.lines]
    return Words(alert.subject, alert.lines, tuple(forms))


def _has_form_for_each(letters: object, lines: Sequence[str]) -> bool:
    """Return whether the fact `LINE_FORMS` holds a known form for each line."""
    if not isinstance(letters, str) or len(letters) != len(lines):
        return False
    return set(letters) <= set(LineForm)


Seal = Callable[[bytes], str]
"""Signs a text with a key that only GPU Governor's own functions may use. Raises: CloudError."""
REPEATS = "repeats"
"""The fact by which plain subscribers filter messages out: a failure whose cause they had within
the hour, or an incident's end."""
SEAL = "seal"
"""The fact that holds the seal. It is a fact and no field, as the previous release reads any fact,
but refuses a new field."""


def alert_document(alert: Alert) -> dict[str, object]:
    """Return the alert as a JSON document, as it is put into the queue: its fields by name, and
    `version`. The time is an ISO text."""
    document: dict[str, object] = {"version": 1}
    for alert_field in fields(alert):
        document[alert_field.name] = getattr(alert, alert_field.name)
    document["lines"] = list(alert.lines)
    document["at"] = iso(alert.at)
    document["facts"] = dict(alert.facts)
    return document


def sealed_text(alert: Alert) -> bytes:
    """Return the text that the seal of an alert signs: its document as JSON with sorted keys,
    without the seal."""
    facts = without(alert.facts, [SEAL])
    document = {**alert_document(alert), "facts": facts}
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


ENDS_FOR_MACHINES = frozenset({AlertKind.ALARM_OVER, AlertKind.INCIDENT_OVER})
"""Kinds with which PagerDuty and webhooks close the incidents that they opened. They are not sent
to people."""
FOR_MACHINES = frozenset({AlertKind.INSTANCE_IDLE})
"""Kinds that are never sent by mail or chat; subscriptions in `template.yaml` leave them out,
too."""
QUESTIONS = frozenset(
    {AlertKind.APPROVAL_REQUESTED, AlertKind.APPROVAL_REMINDER, AlertKind.APPROVAL_ESCALATION}
)
"""Kinds that ask people for an answer."""
ENDS = frozenset({AlertKind.OUTCOME, AlertKind.FAILURE})
"""Kinds that say how an episode ended."""
ASKS_ESCALATION_CONTACTS = "asks_escalation_contacts"
"""Fact of a question that goes to the escalation contacts from its beginning."""
ESCALATED = frozenset({AlertKind.APPROVAL_ESCALATION, AlertKind.FAILURE, AlertKind.FAILURE_OVER})
"""Kinds that also go to the contacts for escalations."""


def instance_text(instance: Instance) -> str:
    """Return the instance as text: `notebook-7 (i-0123456789abcdef0, g5.12xlarge)`; without a
    name `i-0123456789abcdef0 (g5.12xlarge)`."""
    if instance.name == instance.instance_id:
        return f"{instance.instance_id} ({instance.instance_type})"
    return f"{instance.name} ({instance.instance_id}, {instance.instance_type})"


def only_instance(instances: Sequence[Instance]) -> Instance | None:
    """Return the instance if there is just one; `None` if there is none, or more than one."""
    if len(instances) != 1:
        return None
    return instances[0]


def name_or_count(instances: Sequence[Instance]) -> str:
    """Return the name of the only instance, or the number of instances as text: `3 GPU
    instances`."""
    instance = only_instance(instances)
    return instance.name if instance else f"{len(instances)} GPU instances"


def instance_ids(instances: Iterable[Instance]) -> list[str]:
    """Return the ids of the instances in their order; empty without instances."""
    return [instance.instance_id for instance in instances]
