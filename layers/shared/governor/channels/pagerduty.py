"""PagerDuty, Events API v2: an incident for an episode that became critical, resolved by its outcome.

Limits: summary 1,024 characters, deduplication key 255, 512 KB an event
(developer.pagerduty.com, "Send an alert event").
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from governor.channels.message import Delivered, Message, clip
from governor.channels.transport import HttpsChannel
from governor.domain.alerts.alert import AlertKind, Severity
from governor.domain.units import iso
from governor.errors import ConfigurationError
from governor.https import Https
from governor.ports import Clock

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
"""Accounts of the EU service region use `events.eu.pagerduty.com`."""
_SUMMARY_CHARACTERS = 1024
_KEY_CHARACTERS = 255
_LINES = 50
_ROUTING_KEY = re.compile(r"[0-9A-Za-z]{32}")


class PagerDutyChannel(HttpsChannel):
    """Triggers for severity critical, resolves with the outcome of an episode it triggered for.

    Raises:
        ConfigurationError: the address is not https, or the routing key does not have 32 letters and digits.
    """

    name = "pagerduty"

    def __init__(self, routing_key: str, https: Https, clock: Clock, url: str = EVENTS_URL) -> None:
        if _ROUTING_KEY.fullmatch(routing_key) is None:
            raise ConfigurationError(
                "the routing key of the channel pagerduty must have 32 letters and digits: store the "
                "integration key of an Events API v2 integration"
            )
        self._routing_key = routing_key
        super().__init__(url, https, clock)

    def takes(self, message: Message) -> bool:
        """Take critical messages, and the outcome of an episode for which there is an incident."""
        return message.severity is Severity.CRITICAL or _resolves(message)

    def send(self, message: Message) -> Delivered:
        """As the Protocol says. The thread is the deduplication key.

        Raises:
            ValueError: the message is none that this channel takes.
        """
        if not self.takes(message):
            raise ValueError(f"pagerduty takes no message of severity {message.severity.value}")
        event = pagerduty_event(message)
        self.post(json.dumps({"routing_key": self._routing_key, **event}))
        return Delivered(message.delivery_key, thread=str(event["dedup_key"]))


def pagerduty_event(message: Message) -> dict[str, object]:
    """The event without its routing key: a trigger, or a resolve that says nothing but which incident."""
    if _resolves(message):
        return {"event_action": "resolve", "dedup_key": dedup_key(message.episode)}
    facts = message.facts
    event: dict[str, object] = {
        "event_action": "trigger",
        "dedup_key": _incident(message),
        "client": "GPU Governor",
        "payload": {
            "summary": clip(message.title, _SUMMARY_CHARACTERS),
            "source": facts.instance_id or f"{facts.account}/{facts.region}",
            "severity": "critical",
            "timestamp": iso(message.at),
            "component": facts.instance_type or "gpu-governor",
            "group": facts.project,
            "class": message.kind.value,
            "custom_details": _details(message),
        },
    }
    if message.link is not None:
        event["links"] = [{"href": message.link, "text": message.button}]
    return event


def _incident(message: Message) -> str:
    """Return the key of the incident: workflows that fail on one day for one cause page once."""
    cause = str(message.data.get("outcome_reason", "")).partition(":")[0]
    if message.kind is not AlertKind.FAILURE or message.thread is not None or not cause:
        return dedup_key(message.episode)
    facts = message.facts
    return dedup_key(f"failed-{facts.account}-{facts.region}-{cause}-{message.at:%Y-%m-%d}")


def dedup_key(episode: str) -> str:
    """One incident for an episode. A name that is too long is replaced by its hash."""
    return episode if len(episode) <= _KEY_CHARACTERS else hashlib.sha256(episode.encode()).hexdigest()


def _resolves(message: Message) -> bool:
    """A critical outcome, a failure, is worth an incident of its own and resolves nothing."""
    return message.is_outcome and message.thread is not None and message.severity is not Severity.CRITICAL


def _details(message: Message) -> dict[str, str]:
    said = _text(list(filter(None, (message.happens, *message.lead))))
    details = ({"What happens": said} if said else {}) | dict(message.rows)
    details |= {section.heading: _text(section.lines) for section in (*message.sections, *message.details)}
    if message.evidence is not None:
        rows = (message.evidence.columns, *message.evidence.rows)
        details[message.evidence.caption] = _text([" | ".join(row) for row in rows])
    if message.why:
        details["Why you get this"] = message.why
    return details


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines[:_LINES])
