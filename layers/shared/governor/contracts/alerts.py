"""What arrives from the alert topic through a queue: the governor's own alerts, and CloudWatch's alarms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from governor.domain.alerts.alert import Alert, AlertKind, Severity
from governor.domain.alerts.delivery import Again, Flush
from governor.domain.units import as_utc
from governor.errors import InputError

_Text = Annotated[str, Field(max_length=262_144)]


class _AlertDocument(BaseModel):
    """`adapters.sns.alert_document`, read back."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: Literal[1]
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
    at: AwareDatetime
    facts: Mapping[str, Any]
    cut: bool = False


class _AlarmDocument(BaseModel):
    """A CloudWatch alarm as SNS publishes it. CloudWatch may add fields at any time."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    alarm_name: Annotated[str, Field(alias="AlarmName")]
    description: Annotated[str | None, Field(alias="AlarmDescription")] = None
    account: Annotated[str, Field(alias="AWSAccountId")]
    state: Annotated[str, Field(alias="NewStateValue")]
    reason: Annotated[str, Field(alias="NewStateReason")]
    changed_at: Annotated[AwareDatetime, Field(alias="StateChangeTime")]
    arn: Annotated[str, Field(alias="AlarmArn")]


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
            return Again(_alert(_AgainDocument.model_validate_json(body).again))
        if '"AlarmName"' in body:
            return _alarm(_AlarmDocument.model_validate_json(body))
        return _alert(_AlertDocument.model_validate_json(body))
    except ValidationError as error:
        where = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or '(body)'}: {item['msg']}"
            for item in error.errors(include_url=False, include_input=False)
        )
        raise InputError(f"the alert was refused: {where}") from error


def _alert(found: _AlertDocument) -> Alert:
    return Alert(
        kind=found.kind,
        severity=found.severity,
        account=found.account,
        region=found.region,
        subject=found.subject,
        lines=found.lines,
        dedup_id=found.dedup_id,
        at=as_utc(found.at),
        instance_id=found.instance_id,
        owner=found.owner,
        project=found.project,
        link=found.link,
        facts=found.facts,
    )


class _AgainDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    again: _AlertDocument


class _FlushDocument(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    flush: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]


def _alarm(found: _AlarmDocument) -> Alert:
    parts = found.arn.split(":")
    at = as_utc(found.changed_at)
    is_over = found.state == "OK"
    return Alert(
        kind=AlertKind.ALARM,
        severity=Severity.INFO if is_over else Severity.CRITICAL,
        account=found.account,
        region=parts[3] if len(parts) > 3 else "unknown",
        subject=f"{found.alarm_name}: {found.state}",
        lines=tuple(line for line in (found.description, found.reason) if line),
        dedup_id=f"alarm-{found.alarm_name}-{at.isoformat()}"[:512],
        at=at,
    )
