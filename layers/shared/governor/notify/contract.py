"""Parses messages of the alert topic, from the queue: GPU Governor's own alerts, and CloudWatch
alarms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from governor.alerts.delivery import FlushRequest, RetryRequest
from governor.alerts.model import Alert, AlertKind, Severity
from governor.core.parsing import Event, Moment, Payload, parse
from governor.events.contract import queued_event


class _AlertDocument(Payload):
    """The document that `alerts.model.alert_document` writes."""

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
        """Return the alert. Nothing in it is proved yet."""
        return Alert(**self.model_dump())


class _AlarmDocument(Event):
    """A CloudWatch alarm as SNS publishes it. The event of a rule has the same content in another
    form.

    Only its name is used: `notify.verify_alert` reads the alarm of this name from CloudWatch.
    """

    alarm_name: Annotated[str, Field(alias="AlarmName", min_length=1, max_length=255)]
    account: Annotated[str, Field(alias="AWSAccountId")]
    changed_at: Annotated[Moment, Field(alias="StateChangeTime")]
    arn: Annotated[str, Field(alias="AlarmArn")]
    state: Annotated[str, Field(alias="NewStateValue")] = "ALARM"

    def alert(self) -> Alert:
        """Return the alert about the alarm, without words: its end if the new state is `OK`.
        Nothing in it is proved yet. The Region is `unknown` if the ARN does not hold one."""
        arn_parts = self.arn.split(":")
        region = arn_parts[3] if len(arn_parts) > 3 else "unknown"
        dedup_id = f"alarm-{self.alarm_name}-{self.changed_at.isoformat()}"
        return Alert(
            kind=AlertKind.ALARM_OVER if self.state == "OK" else AlertKind.ALARM,
            severity=Severity.CRITICAL,
            account=self.account,
            region=region,
            subject=self.alarm_name,
            lines=(),
            dedup_id=dedup_id[:512],
            at=self.changed_at,
            facts={"alarm": self.alarm_name},
        )


def parse_queued(body: str) -> Alert | FlushRequest | RetryRequest:
    """Return what the body of a queued message holds: an alert, whose truth is not proved yet; a
    `FlushRequest`, which asks to send a waiting group; or a `RetryRequest`, an alert that a person
    put back. An alarm counts as an alert in both forms in which CloudWatch sends it: by SNS, and by
    EventBridge.

    Raises: InputError, with the fields that do not fit.
    """
    document = queued_event(body)
    match document:
        case {"flush": str(group), **rest} if not rest and re.fullmatch("[0-9a-f]{32}", group):
            return FlushRequest(group)
        case {"again": alert, **rest} if not rest:
            return RetryRequest(parse(_AlertDocument, alert).alert())
        # The governor's own documents bear a version.
        case {"AlarmName": _} if "version" not in document:
            return parse(_AlarmDocument, document).alert()
        case {
            "account": account,
            "resources": [arn],
            "detail": {"alarmName": name, "state": {**state}},
        }:
            alarm = {
                "AlarmName": name,
                "AlarmArn": arn,
                "AWSAccountId": account,
                "StateChangeTime": state.get("timestamp"),
                "NewStateValue": state.get("value"),
            }
            return parse(_AlarmDocument, alarm).alert()
        case _:
            return parse(_AlertDocument, document).alert()
