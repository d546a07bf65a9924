"""Opens a PagerDuty incident (Events API v2) for a critical message, and resolves it at its end.

Limits: summary 1,024 characters, deduplication key 255, 512 KB an event (developer.pagerduty.com,
"Send an alert event").
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from governor.alerts.model import ENDS_FOR_MACHINES, AlertKind, Severity
from governor.core.errors import ConfigurationError
from governor.core.https import Https
from governor.core.ports import Clock
from governor.core.units import clip, iso
from governor.notify.message import Delivered, Message
from governor.notify.transport import HttpsChannel

EVENTS_URL = "https://events.pagerduty.com/v2/enqueue"
"""The address for accounts outside of the EU service region, which is `events.eu.pagerduty.com`."""
_SUMMARY_CHARACTERS = 1024
_KEY_CHARACTERS = 255
_MOST_LINES = 50
"""The most lines of one detail."""
_OVER = ENDS_FOR_MACHINES | {AlertKind.FAILURE_OVER, AlertKind.BREAKER_RELEASED}
"""Kinds that resolve the incident of their cause."""
_ROUTING_KEY = re.compile(r"[0-9A-Za-z]{32}")


class PagerDutyChannel(HttpsChannel):
    """Opens an incident for a critical message. Resolves it with the episode's outcome, or with the
    end of the cause.

    Raises: ConfigurationError for an address that is not https, or a key that is not 32 letters and
    digits.
    """

    name = "pagerduty"

    def __init__(self, routing_key: str, https: Https, clock: Clock, url: str = EVENTS_URL) -> None:
        """Post to `url` under this routing key. Raises: ConfigurationError if the key has not 32
        letters and digits, or the address is not https."""
        if _ROUTING_KEY.fullmatch(routing_key) is None:
            raise ConfigurationError(
                "the routing key of the channel pagerduty must have 32 letters and digits: "
                "store the integration key of an Events API v2 integration"
            )
        self._routing_key = routing_key
        super().__init__(url, https, clock)

    def takes(self, message: Message) -> bool:
        """Return whether the message is critical, or ends what may have opened an incident."""
        return bool(pagerduty_events(message))

    def send(self, message: Message) -> Delivered:
        """Post the events of this message. The returned thread is the deduplication key.

        Raises: DeliveryRetryable, DeliveryRefused; ValueError for a message that `takes` refuses.
        """
        events = pagerduty_events(message)
        if not events:
            raise ValueError(f"pagerduty takes no message of severity {message.severity.value}")
        for event in events:
            self.post(json.dumps({"routing_key": self._routing_key, **event}))
        return Delivered(message.delivery_key, thread=str(events[-1]["dedup_key"]))


def pagerduty_events(message: Message) -> list[dict[str, object]]:
    """Return the events to post for a message: `resolve` for the end of an incident, `trigger` for
    a critical message, both in this order, or an empty list if PagerDuty need not know."""
    resolved_key: str | None = None
    if message.kind in _OVER:
        resolved_key = _incident(message)
    elif message.is_outcome:
        resolved_key = message.thread
    events: list[dict[str, object]] = []
    if resolved_key:
        events.append({"event_action": "resolve", "dedup_key": resolved_key})
    if message.severity is Severity.CRITICAL:
        events.append(pagerduty_event(message))
    return events


def pagerduty_event(message: Message) -> dict[str, object]:
    """Return the event that opens the incident of this message, or adds to it. Without an instance,
    its source is the account and Region, and its component `gpu-governor`; without a link, it has
    none."""
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
    """Return the deduplication key of the message's incident. Messages of one cause share it, so
    that fifteen failed workflows page once."""
    return dedup_key(str(message.data.get("incident") or message.episode))


def dedup_key(episode: str) -> str:
    """Return the deduplication key for the name of an episode or cause: the name itself, or a hash
    of a name that is too long for PagerDuty."""
    if len(episode) <= _KEY_CHARACTERS:
        return episode
    return hashlib.sha256(episode.encode()).hexdigest()


def _details(message: Message) -> dict[str, str]:
    """Return the texts of a message by heading, for the details of the incident; parts that the
    message does not have are left out. Of two texts with the same heading the later one stays."""
    details: dict[str, str] = {}
    first_lines = [line for line in (message.happens, *message.lead) if line]
    if first_lines:
        details["What happens"] = _text(first_lines)
    details.update(message.rows)
    for section in (*message.sections, *message.details):
        details[section.heading] = _text(section.lines)
    if message.evidence is not None:
        rows = (message.evidence.columns, *message.evidence.rows)
        details[message.evidence.caption] = _text([" | ".join(row) for row in rows])
    if message.why:
        details["Why you get this"] = message.why
    return details


def _text(lines: Sequence[str]) -> str:
    """Return the first 50 lines as one text, and drop the others."""
    return "\n".join(lines[:_MOST_LINES])
