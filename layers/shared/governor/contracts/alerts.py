"""Messages of the alert topic, through a queue: the governor's own alerts, and CloudWatch's
alarms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from governor.contracts.events import queued_event
from governor.contracts.parsing import Event, Moment, Payload, parse
from governor.domain.alerts.alert import Again, Alert, AlertKind, Flush, Severity


class _AlertDocument(Payload):
    """`domain.alerts.alert.alert_document`, read back."""

    version: Annotated[Literal[1], Field(exclude=True)]
    kind: AlertKind
    severity: Severity
    account: str
    region: str
    instance_id: str | None
    owner: str
    project: str
    subject: str
    lines: tuple[str, ...]
    link: str | None
    dedup_id: Annotated[str, Field(min_length=1, max_length=512)]
    at: Moment
    facts: Mapping[str, Any]
    cut: Annotated[bool, Field(exclude=True)] = False

    def alert(self) -> Alert:
        return Alert(**self.model_dump())


class _AlarmDocument(Event):
    """A CloudWatch alarm as SNS publishes it; the event of a rule says the same in other words.
    Nothing of it is believed but that the alarm of this name is worth a look: `channels.vouch`."""

    alarm_name: Annotated[str, Field(alias="AlarmName", min_length=1, max_length=255)]
    account: Annotated[str, Field(alias="AWSAccountId")]
    changed_at: Annotated[Moment, Field(alias="StateChangeTime")]
    arn: Annotated[str, Field(alias="AlarmArn")]
    state: Annotated[str, Field(alias="NewStateValue")] = "ALARM"

    def alert(self) -> Alert:
        parts = self.arn.split(":")
        return Alert(
            kind=AlertKind.ALARM_OVER if self.state == "OK" else AlertKind.ALARM,
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
    """Return what the body of a queued message asks for. Raises: InputError with what does not
    fit."""
    match document := queued_event(body):
        case {"flush": str(group), **others} if not others and re.fullmatch("[0-9a-f]{32}", group):
            return Flush(group)
        case {"again": known, **others} if not others:
            return Again(parse(_AlertDocument, known).alert())
        case {"AlarmName": _} if "version" not in document:
            return parse(_AlarmDocument, document).alert()
        case {
            "account": account,
            "resources": [arn],
            "detail": {"alarmName": name, "state": {**state}},
        }:
            change = {
                "StateChangeTime": state.get("timestamp"),
                "NewStateValue": state.get("value"),
            }
            alarm = {"AlarmName": name, "AlarmArn": arn, "AWSAccountId": account, **change}
            return parse(_AlarmDocument, alarm).alert()
        case _:
            return parse(_AlertDocument, document).alert()
