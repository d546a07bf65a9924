"""What arrives from the alert topic through a queue: the governor's own alerts, and CloudWatch's alarms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, Field, ValidationError

from governor.domain.alerts.alert import Alert, AlertKind, Severity
from governor.domain.alerts.delivery import Again, Flush
from governor.domain.units import as_utc
from governor.errors import InputError

_Text = Annotated[str, Field(max_length=262_144)]


class _AlertDocument(BaseModel, extra="forbid"):
    """`adapters.messaging.alert_document`, read back."""

    version: Annotated[Literal[1], Field(exclude=True)]
    kind: AlertKind
    severity: Severity
    account: str
    region: str
    instance_id: str | None
    owner: str
    project: str
    subject: _Text
    lines: tuple[_Text, ...]
    link: str | None
    dedup_id: Annotated[str, Field(min_length=1, max_length=512)]
    at: Annotated[AwareDatetime, AfterValidator(as_utc)]
    facts: Mapping[str, Any]
    cut: Annotated[bool, Field(exclude=True)] = False

    def alert(self) -> Alert:
        """The alert as it was sent."""
        return Alert(**self.model_dump())


class _AgainDocument(BaseModel, extra="forbid"):
    again: _AlertDocument


class _FlushDocument(BaseModel, extra="forbid"):
    flush: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


class _AlarmDocument(BaseModel):
    """A CloudWatch alarm as SNS publishes it. CloudWatch may add fields at any time.

    Nothing of it is believed but that the alarm of this name is worth a look: `channels.vouch`.
    """

    alarm_name: Annotated[str, Field(alias="AlarmName", min_length=1, max_length=255)]
    account: Annotated[str, Field(alias="AWSAccountId")]
    changed_at: Annotated[AwareDatetime, AfterValidator(as_utc), Field(alias="StateChangeTime")]
    arn: Annotated[str, Field(alias="AlarmArn")]

    def alert(self) -> Alert:
        """The alarm as an alert that says nothing but its name."""
        parts = self.arn.split(":")
        return Alert(
            kind=AlertKind.ALARM,
            severity=Severity.CRITICAL,
            account=self.account,
            region=parts[3] if len(parts) > 3 else "unknown",
            subject=self.alarm_name,
            lines=(),
            dedup_id=f"alarm-{self.alarm_name}-{self.changed_at.isoformat()}"[:512],
            at=self.changed_at,
            facts={"alarm": self.alarm_name},
        )


def parse_queued(body: str) -> Alert | Flush | Again:
    """What the body of a queued message asks for.

    Raises:
        InputError: neither an alert of ours, new or given up, nor an alarm nor a flush; names what does not
            fit.
    """
    try:
        if body.startswith('{"flush"'):
            return Flush(_FlushDocument.model_validate_json(body).flush)
        if body.startswith('{"again"'):
            return Again(_AgainDocument.model_validate_json(body).again.alert())
        if _is_alarm(body):
            return _AlarmDocument.model_validate_json(body).alert()
        return _AlertDocument.model_validate_json(body).alert()
    except ValidationError as error:
        where = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or '(body)'}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        )
        raise InputError(f"the alert was refused: {where}") from error


def _is_alarm(body: str) -> bool:
    """By a field of its own: the word may also stand in a name or a tag of an instance."""
    try:
        found = json.loads(body)
    except ValueError:
        return False
    return isinstance(found, dict) and "AlarmName" in found and "version" not in found
