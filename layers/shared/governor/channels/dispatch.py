"""Takes one alert to every channel it is for, once each, and records what became of it.

This module must not know queues: it says whether something is left to be tried again, and from when on.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from governor.channels.compose import QUESTIONS, message_of, subject_of
from governor.channels.errors import DeliveryRefused, DeliveryRetryable
from governor.channels.message import Delivered
from governor.channels.registry import Registry, Route
from governor.domain.alert import Alert, AlertKind
from governor.domain.contacts import Contact
from governor.domain.delivery import NOWHERE, Delivery
from governor.domain.episode import Episode, episode_from_execution_name
from governor.domain.terms import BROADCAST
from governor.domain.units import UtcDatetime
from governor.ports import Clock, LinkSigner, Policies, StateTable

_log = logging.getLogger(__name__)
_RECORD_LINK = timedelta(days=30)
_NO_CHANNEL = (
    "no channel is configured for it: give EmailSender and ownership.contacts, fill the channel secret, or "
    "subscribe to the alert topic"
)
_ESCALATED = frozenset({AlertKind.APPROVAL_ESCALATION, AlertKind.FAILURE})


@dataclass(frozen=True, slots=True)
class Dispatched:
    """How many channels took it and refused it. `retry_after_seconds` is set when some are left."""

    taken: int
    refused: int
    left: int = 0
    retry_after_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One alert. Safe to repeat: what a channel has taken or refused for good is not sent to it again."""

    clock: Clock
    policies: Policies
    state: StateTable
    signer: LinkSigner
    registry: Registry

    def __call__(self, alert: Alert) -> Dispatched:
        """Sends what is left to be sent.

        Raises:
            CloudError: the state table or the keys of the links could not be reached; repeat it.
            ConfigurationError: the channel secret makes no sense; says where.
        """
        subject = subject_of(alert)
        episode = self._episode(alert)
        known = self.state.deliveries(subject)
        done = {
            (d.channel, d.target): d for d in known if d.message == alert.dedup_id and d.channel != NOWHERE
        }
        threads = _threads(known)
        taken = sum(d.was_taken for d in done.values())
        refused = len(done) - taken
        left: list[int | None] = []
        for route in self.registry.routes(self._audience(alert)):
            key = route.channel.name, route.target
            if key in done:
                continue
            try:
                delivery = self._send(route, alert, episode, threads.get(key))
            except DeliveryRetryable as error:
                _log.warning("a delivery is left: %s", error)
                left.append(error.retry_after_seconds)
                continue
            if delivery is None:
                continue
            self.state.note_delivery(delivery)
            taken, refused = taken + delivery.was_taken, refused + (not delivery.was_taken)
        if not taken and not left:
            self._note_nowhere(alert, subject, refused)
        waits = [seconds for seconds in left if seconds is not None]
        return Dispatched(taken, refused, len(left), max(waits) if waits else None)

    def _send(
        self, route: Route, alert: Alert, episode: Episode | None, thread: str | None
    ) -> Delivery | None:
        """What became of it; `None` when this channel is not for it."""
        message = message_of(alert, episode, link=self._link(route, alert, episode), thread=thread)
        if not route.channel.takes(message):
            return None
        now = self.clock.now()
        try:
            found: Delivered | None = route.channel.send(message)
            refused = None
        except DeliveryRefused as error:
            found, refused = None, str(error)
            _log.error("a delivery was refused: %s", error)
        return Delivery(
            subject=subject_of(alert),
            message=alert.dedup_id,
            channel=route.channel.name,
            target=route.target,
            at=now,
            delivery_id=found.delivery_id if found else None,
            thread=(found.thread or thread) if found else None,
            refused=refused,
        )

    def _note_nowhere(self, alert: Alert, subject: str, refused: int) -> None:
        why = f"all {refused} channels have refused it" if refused else _NO_CHANNEL
        self.state.note_delivery(
            Delivery(subject, alert.dedup_id, NOWHERE, NOWHERE, self.clock.now(), refused=why)
        )

    def _episode(self, alert: Alert) -> Episode | None:
        name = alert.facts.get("episode")
        return self.state.episode(episode_from_execution_name(name)) if isinstance(name, str) else None

    def _audience(self, alert: Alert) -> Sequence[Contact]:
        """By the policy as it is now: who joined since is told, who left is not."""
        directory = self.policies.base().policy.ownership.directory
        asked = directory.asked(alert.owner, alert.project)
        if alert.kind in _ESCALATED:
            return (*asked, *directory.escalated(alert.owner, alert.project))
        return asked

    def _link(self, route: Route, alert: Alert, episode: Episode | None) -> str | None:
        """A personal link where one person alone gets it; a question's is good for as long as the
        question."""
        if episode is None or alert.link is None:
            return alert.link
        return self.signer.link(episode.approval_id, route.person or BROADCAST, self._expiry(alert, episode))

    def _expiry(self, alert: Alert, episode: Episode) -> UtcDatetime:
        approval = self.state.approval(episode.approval_id) if alert.kind in QUESTIONS else None
        return approval.expires_at if approval else self.clock.now() + _RECORD_LINK


def _threads(deliveries: Sequence[Delivery]) -> Mapping[tuple[str, str], str]:
    """What each channel said of the first message that it took about the subject."""
    found: dict[tuple[str, str], str] = {}
    for delivery in sorted(deliveries, key=lambda delivery: delivery.at):
        if delivery.thread is not None:
            found.setdefault((delivery.channel, delivery.target), delivery.thread)
    return found
