"""Alerts over one SNS topic: readable text for people, JSON for machines, attributes for filter policies."""

from __future__ import annotations

import json

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.domain.alert import Alert
from governor.domain.units import iso

_SUBJECT_LIMIT = 99
_TEXT_LIMIT = 60_000
"""Per protocol; with four copies the message stays under the 256 KiB of SNS."""
_MACHINES = ("sqs", "lambda", "http", "https")


class SnsAnnouncer:
    """The port `Announcer`: SNS has taken the message when `Publish` returns."""

    def __init__(self, clients: Clients, topic_arn: str) -> None:
        self._clients = clients
        self._topic_arn = topic_arn

    def announce(self, alert: Alert) -> None:
        """As the port says."""
        attributes = {
            "kind": alert.kind.value,
            "severity": alert.severity.value,
            "account": alert.account,
            "region": alert.region,
            "owner": alert.owner,
            "project": alert.project,
        }
        with aws_errors("sns:Publish"):
            self._clients.client("sns").publish(
                TopicArn=self._topic_arn,
                Subject=subject_of(alert),
                MessageStructure="json",
                Message=json.dumps(message_of(alert)),
                MessageAttributes={
                    name: {"DataType": "String", "StringValue": value}
                    for name, value in attributes.items()
                    if value
                },
            )


def subject_of(alert: Alert) -> str:
    """The subject as SNS takes it: printable ASCII on one line, under 100 characters."""
    text = " ".join(alert.subject.encode("ascii", "replace").decode().split())
    printable = "".join(character for character in text if character.isprintable())
    return printable[:_SUBJECT_LIMIT] or alert.kind.value


def message_of(alert: Alert) -> dict[str, str]:
    """The message by protocol."""
    text = "\n".join(alert.lines)
    if len(text.encode()) > _TEXT_LIMIT:
        text = text.encode()[:_TEXT_LIMIT].decode(errors="ignore") + "\n(cut: see the logs)"
    document = json.dumps(alert_document(alert))
    if len(document.encode()) > _TEXT_LIMIT:
        document = json.dumps({**alert_document(alert), "lines": [], "facts": {}, "cut": True})
    return {"default": text, "email": text, **dict.fromkeys(_MACHINES, document)}


def alert_document(alert: Alert) -> dict[str, object]:
    """The alert as plain JSON data, for machines that subscribe."""
    return {
        "version": 1,
        "kind": alert.kind.value,
        "severity": alert.severity.value,
        "account": alert.account,
        "region": alert.region,
        "instance_id": alert.instance_id,
        "owner": alert.owner,
        "project": alert.project,
        "subject": alert.subject,
        "lines": list(alert.lines),
        "link": alert.link,
        "dedup_id": alert.dedup_id,
        "at": iso(alert.at),
        "facts": dict(alert.facts),
    }
