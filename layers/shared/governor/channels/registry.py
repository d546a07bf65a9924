"""The channels of a stack: which exist, and for whom, as the channel secret and the contacts
say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from governor.channels.email import EmailChannel, MailService
from governor.channels.message import Channel, Delivered, DeliveryRefused, Message
from governor.channels.pagerduty import EVENTS_URL, PagerDutyChannel
from governor.channels.slack import API_URL, SlackApi, SlackAppChannel, SlackWebhookChannel
from governor.channels.teams import TeamsChannel
from governor.channels.transport import https_of, private_key
from governor.channels.webhook import WebhookChannel
from governor.domain.policy.contacts import Contact, addresses, list_addresses
from governor.errors import ConfigurationError
from governor.https import Https
from governor.ports import Clock

KEYS = frozenset(
    (
        *(
            "slack_bot_token",
            "slack_channel",
            "slack_signing_secret",
            "slack_webhook_url",
            "slack_api_url",
        ),
        *("teams_webhook_url", "pagerduty_routing_key", "pagerduty_events_url"),
        *("webhook_url", "webhook_secret", "webhook_previous_secret"),
        *map(private_key, ("slack", "teams", "pagerduty", "webhook")),
    )
)
"""The settings of the channel secret. Addresses of Slack and PagerDuty are for their other regions.
A channel reaches public addresses alone, unless its `..._private` is "true"."""

_INCOMING = "incoming webhook"
"""In place of a conversation: the webhook is bound to one, and does not say to which."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way to somebody. `target` is an address or a conversation, never a secret; it is
    recorded. `person` is who alone gets it there, so that the link may be personal. `own`: the
    policy names it for a contact."""

    channel: Channel
    target: str
    person: str | None = None
    own: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.channel.name, self.target


Recipients = Mapping[tuple[str, str], str | None]
"""Recipients of earlier messages of the same episode: by the key of the route, whose own it is."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes routes. `secret` is the channel secret, empty where nothing is stored. What makes no
    sense in it is a route that refuses with the reason, without its value, and holds up no other
    channel."""

    secret: Mapping[str, str]
    mail: MailService | None
    sender: str | None
    clock: Clock
    problem: str | None = None
    """Why the secret cannot be read as what it must be."""
    https: Https = field(default_factory=partial(Https, only_public=True))
    private_https: Https = field(default_factory=Https)
    """For a channel that the secret lets reach private addresses."""

    def routes(self, contacts: Sequence[Contact], earlier: Recipients) -> tuple[Route, ...]:
        """Return every way to these contacts, to `earlier` recipients, and those that are for
        everybody: each address and conversation once; what the contacts say of one goes first."""
        mails, places = self._mails(contacts, earlier), self._slack(contacts, earlier)
        return (*self._unknown(), *mails, *places, *self._others())

    def _unknown(self) -> Iterator[Route]:
        why = f": {self.problem}" if self.problem else ""
        if unknown := sorted(set(self.secret) - KEYS):
            why = f" has the unknown key {unknown[0]!r}; known: {', '.join(sorted(KEYS))}"
        if why:
            yield Route(_Refusing("secret", f"the channel secret{why}"), "secret")

    def _mails(self, contacts: Sequence[Contact], earlier: Recipients) -> Iterator[Route]:
        if self.mail is None or self.sender is None:
            return
        before = {
            address: person for (channel, address), person in earlier.items() if channel == "email"
        }
        people: dict[str, str | None] = {one: one for one in addresses(contacts)}
        own = people | {one: people.get(one) for one in list_addresses(contacts)}
        for address, person in (before | own).items():
            make = partial(EmailChannel, self.mail, sender=self.sender, recipient=address)
            yield _route("email", address, make, person, own=address in own)

    def _slack(self, contacts: Sequence[Contact], earlier: Recipients) -> Iterator[Route]:
        token, webhook = self.secret.get("slack_bot_token"), self.secret.get("slack_webhook_url")
        if token:
            default = self.secret.get("slack_channel")
            places = [contact.slack_channel or default for contact in contacts] or [default]
            places += [
                place for channel, place in earlier if channel == "slack" and place != _INCOMING
            ]
            own = {contact.slack_channel for contact in contacts}
            for place in dict.fromkeys(places):
                if place:
                    yield _route(
                        "slack", place, partial(self._conversation, token, place), own=place in own
                    )
        elif webhook:
            yield _route("slack", _INCOMING, partial(self._incoming, webhook))

    def _way_out(self, channel: str) -> Https:
        return https_of(channel, self.secret, self.https, self.private_https)

    def _incoming(self, webhook: str) -> Channel:
        return SlackWebhookChannel(webhook, self._way_out("slack"), self.clock)

    def _conversation(self, token: str, place: str) -> Channel:
        api = SlackApi(
            token, self._way_out("slack"), self.clock, self.secret.get("slack_api_url") or API_URL
        )
        takes_answers = bool(self.secret.get("slack_signing_secret"))
        return SlackAppChannel(api, place, takes_answers=takes_answers)

    def _others(self) -> Iterator[Route]:
        """One of each kind at most, made where its setting is stored."""
        secret = self.secret
        if secret.get("teams_webhook_url"):
            yield _route("teams", "workflow", self._teams)
        if secret.get("pagerduty_routing_key"):
            yield _route("pagerduty", "service", self._pagerduty)
        if secret.get("webhook_url"):
            yield _route("webhook", "webhook", self._webhook)

    def _teams(self) -> Channel:
        return TeamsChannel(self.secret["teams_webhook_url"], self._way_out("teams"), self.clock)

    def _pagerduty(self) -> Channel:
        key = self.secret["pagerduty_routing_key"]
        url = self.secret.get("pagerduty_events_url") or EVENTS_URL
        return PagerDutyChannel(key, self._way_out("pagerduty"), self.clock, url)

    def _webhook(self) -> Channel:
        names = ("webhook_secret", "webhook_previous_secret")
        keys = tuple(self.secret[name] for name in names if self.secret.get(name))
        return WebhookChannel(
            self.secret["webhook_url"], keys, self._way_out("webhook"), self.clock
        )


class _Refusing(Channel):
    """In place of a channel that cannot be made of its settings: refuses every message with the
    reason."""

    def __init__(self, name: str, why: str) -> None:
        self.name, self._why = name, why

    def send(self, message: Message) -> Delivered:
        del message
        raise DeliveryRefused(self._why)


def _route(
    name: str,
    target: str,
    make: Callable[[], Channel],
    person: str | None = None,
    *,
    own: bool = False,
) -> Route:
    try:
        return Route(make(), target, person, own)
    except ConfigurationError as error:
        return Route(_Refusing(name, str(error)), target, person, own)
