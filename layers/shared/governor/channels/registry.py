"""The channels of a stack: which exist, and for whom, as the channel secret and the contacts say.

This module must not know what is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from governor.channels.email import EmailChannel, MailService
from governor.channels.errors import DeliveryRefused
from governor.channels.message import Channel, Delivered, Message
from governor.channels.pagerduty import EVENTS_URL, PagerDutyChannel
from governor.channels.slack import API_URL, SlackApi, SlackAppChannel, SlackWebhookChannel
from governor.channels.teams import TeamsChannel
from governor.channels.transport import HttpsTransport, Transport
from governor.channels.webhook import WebhookChannel
from governor.domain.policy.contacts import Contact, addresses, list_addresses
from governor.errors import ConfigurationError
from governor.ports import Clock

KEYS = frozenset(
    {
        "slack_bot_token",
        "slack_channel",
        "slack_signing_secret",
        "slack_webhook_url",
        "slack_api_url",
        "teams_webhook_url",
        "pagerduty_routing_key",
        "pagerduty_events_url",
        "webhook_url",
        "webhook_secret",
        "webhook_previous_secret",
    }
)
"""The settings of the channel secret. Addresses of Slack and PagerDuty are for their other regions."""

_INCOMING = "incoming webhook"
"""In place of a conversation: the webhook is bound to one, and does not say to which."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way to somebody. `target` is an address or a conversation, never a secret; it is recorded.

    `person` is who alone gets it there, so that the link may be personal.
    """

    channel: Channel
    target: str
    person: str | None = None


@dataclass(frozen=True, slots=True)
class Recipient:
    """Somebody who got an earlier message of the same episode: a route, with the channel by its name."""

    channel: str
    target: str
    person: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes routes. `secret` is the channel secret, empty where nothing is stored.

    What makes no sense in it is a route that refuses with the reason: it is recorded and alarmed like any
    other refusal, and holds up no other channel. No message shows a value.
    """

    secret: Mapping[str, str]
    mail: MailService | None
    sender: str | None
    clock: Clock
    problem: str | None = None
    """Why the secret cannot be read as what it must be."""
    transport: Transport = field(default_factory=HttpsTransport)

    def routes(self, contacts: Sequence[Contact], earlier: Sequence[Recipient] = ()) -> tuple[Route, ...]:
        """Return every way to these contacts, to `earlier` recipients, and those that are for everybody.

        Each address and conversation once; what the contacts say of one goes before what `earlier` says.
        """
        mails, places = self._mails(contacts, earlier), self._slack(contacts, earlier)
        return (*self._unknown(), *mails, *places, *self._others())

    def _unknown(self) -> list[Route]:
        if self.problem is not None:
            return [_refusing("secret", f"the channel secret: {self.problem}")]
        unknown = sorted(set(self.secret) - KEYS)
        if not unknown:
            return []
        known = ", ".join(sorted(KEYS))
        return [_refusing("secret", f"the channel secret has the unknown key {unknown[0]!r}; known: {known}")]

    def _mails(self, contacts: Sequence[Contact], earlier: Sequence[Recipient]) -> list[Route]:
        mail, sender = self.mail, self.sender
        if mail is None or sender is None:
            return []

        def mailbox(address: str, person: str | None) -> Route:
            return _route(
                "email", address, lambda: EmailChannel(mail, sender=sender, recipient=address), person
            )

        found: dict[str, str | None] = {address: address for address in addresses(contacts)}
        for address in list_addresses(contacts):
            found.setdefault(address, None)
        for one in earlier:
            if one.channel == "email":
                found.setdefault(one.target, one.person)
        return [mailbox(address, person) for address, person in found.items()]

    def _slack(self, contacts: Sequence[Contact], earlier: Sequence[Recipient]) -> list[Route]:
        token, webhook = self.secret.get("slack_bot_token"), self.secret.get("slack_webhook_url")
        if not token and not webhook:
            return []
        if webhook and not token:
            return [
                _route("slack", _INCOMING, lambda: SlackWebhookChannel(webhook, self.transport, self.clock))
            ]
        api_url = self.secret.get("slack_api_url") or API_URL
        default = self.secret.get("slack_channel")
        places = [contact.slack_channel or default for contact in contacts] or [default]
        places += [one.target for one in earlier if one.channel == "slack" and one.target != _INCOMING]

        def conversation(place: str) -> Route:
            return _route(
                "slack",
                place,
                lambda: SlackAppChannel(
                    SlackApi(token or "", self.transport, api_url),
                    place,
                    self.clock,
                    takes_answers=bool(self.secret.get("slack_signing_secret")),
                ),
            )

        return [conversation(place) for place in dict.fromkeys(places) if place]

    def _others(self) -> list[Route]:
        """One of each kind at most, made where its setting is stored."""
        secret, clock, transport = self.secret, self.clock, self.transport
        events_url = secret.get("pagerduty_events_url") or EVENTS_URL
        keys = [secret[name] for name in ("webhook_secret", "webhook_previous_secret") if secret.get(name)]
        kinds: tuple[tuple[str, str, str, Callable[[str], Channel]], ...] = (
            ("teams_webhook_url", "teams", "workflow", lambda url: TeamsChannel(url, transport, clock)),
            (
                "pagerduty_routing_key",
                "pagerduty",
                "service",
                lambda key: PagerDutyChannel(key, transport, clock, events_url),
            ),
            ("webhook_url", "webhook", "webhook", lambda url: WebhookChannel(url, keys, transport, clock)),
        )
        return [
            _route(name, target, partial(make, secret[setting]))
            for setting, name, target, make in kinds
            if secret.get(setting)
        ]


@dataclass(frozen=True, slots=True)
class _Refusing:
    """In place of a channel that cannot be made of its settings."""

    name: str
    why: str

    def takes(self, message: Message) -> bool:
        """Every message: whoever stored the settings wanted them sent."""
        del message
        return True

    def send(self, message: Message) -> Delivered:
        """Raises: DeliveryRefused."""
        del message
        raise DeliveryRefused(self.why, channel=self.name)


def _refusing(name: str, why: str) -> Route:
    return Route(_Refusing(name, why), name)


def _route(name: str, target: str, make: Callable[[], Channel], person: str | None = None) -> Route:
    try:
        return Route(make(), target, person)
    except ConfigurationError as error:
        return Route(_Refusing(name, str(error)), target, person)
