"""PagerDuty, Events API v2: an incident for what became critical, resolved when it is over.

Limits: summary 1,024 characters, deduplication key 255, 512 KB an event (developer.pagerduty.com,
"Send an alert event").
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from governor.channels.message import Delivered, Message, clip
from governor.channels.transport import HttpsChannel
from governor.domain.alerts.alert import ENDS_FOR_MACHINES, AlertKind, Severity
from governor.domain.units import iso
from governor.errors import ConfigurationError
from governor.https import Https
from governor.ports import Clock

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
"""Accounts of the EU service region use `events.eu.pagerduty.com`."""
_SUMMARY_CHARACTERS = 1024
_KEY_CHARACTERS = 255
_LINES = 50
_OVER = ENDS_FOR_MACHINES | {AlertKind.FAILURE_OVER, AlertKind.BREAKER_RELEASED}
_ROUTING_KEY = re.compile(r"[0-9A-Za-z]{32}")


class PagerDutyChannel(HttpsChannel):
    """Triggers for severity critical, resolves with the outcome of the episode or the end of the
    cause. Raises: ConfigurationError for an address that is not https, or a key without 32 letters
    and digits."""

    name = "pagerduty"

    def __init__(self, routing_key: str, https: Https, clock: Clock, url: str = EVENTS_URL) -> None:
        if _ROUTING_KEY.fullmatch(routing_key) is None:
            raise ConfigurationError(
                "the routing key of the channel pagerduty must have 32 letters and "
                "digits: store the "
                "integration key of an Events API v2 integration"
            )
        self._routing_key = routing_key
        super().__init__(url, https, clock)

    def takes(self, message: Message) -> bool:
        """Take critical messages, and the end of what there may be an incident for."""
        return bool(pagerduty_events(message))

    def send(self, message: Message) -> Delivered:
        """The thread is the deduplication key. Raises: ValueError, too, for what it does not
        take."""
        if not (events := pagerduty_events(message)):
            raise ValueError(f"pagerduty takes no message of severity {message.severity.value}")
        for event in events:
            self.post(json.dumps({"routing_key": self._routing_key, **event}))
        return Delivered(message.delivery_key, thread=str(events[-1]["dedup_key"]))


def pagerduty_events(message: Message) -> list[dict[str, object]]:
    """Return what this message resolves, of a question with its outcome or of a cause, and
    triggers."""
    is_over, is_critical = message.kind in _OVER, message.severity is Severity.CRITICAL
    over = _incident(message) if is_over else message.thread if message.is_outcome else None
    events: list[dict[str, object]] = (
        [{"event_action": "resolve", "dedup_key": over}] if over else []
    )
    return [*events, pagerduty_event(message)] if is_critical else events


def pagerduty_event(message: Message) -> dict[str, object]:
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
    """Return the key of the incident: what has one cause, such as fifteen failed workflows, pages
    once."""
    return dedup_key(str(message.data.get("incident") or message.episode))


def dedup_key(episode: str) -> str:
    """One incident for an episode. A name that is too long is replaced by its hash."""
    return (
        episode if len(episode) <= _KEY_CHARACTERS else hashlib.sha256(episode.encode()).hexdigest()
    )


def _details(message: Message) -> dict[str, str]:
    said = _text(list(filter(None, (message.happens, *message.lead))))
    details = ({"What happens": said} if said else {}) | dict(message.rows)
    details |= {
        section.heading: _text(section.lines) for section in (*message.sections, *message.details)
    }
    if message.evidence is not None:
        rows = (message.evidence.columns, *message.evidence.rows)
        details[message.evidence.caption] = _text([" | ".join(row) for row in rows])
    if message.why:
        details["Why you get this"] = message.why
    return details


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines[:_LINES])
