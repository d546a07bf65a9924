"""Makes the routes of a stack: its channels and their recipients, from the channel secret and the
contacts.

`CHANNELS` is the one table of channels: a new channel is a module of its own and a row there. A
setting that cannot be used makes a route that refuses each message. The other channels work all the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from governor.core.errors import ConfigurationError
from governor.core.https import Https
from governor.core.ports import Clock
from governor.notify.email import EmailChannel, MailService
from governor.notify.message import Channel, Delivered, DeliveryRefused, Message
from governor.notify.pagerduty import EVENTS_URL, PagerDutyChannel
from governor.notify.slack import API_URL, SlackApi, SlackAppChannel, SlackWebhookChannel
from governor.notify.teams import TeamsChannel
from governor.notify.transport import https_of, private_key
from governor.notify.webhook import WebhookChannel
from governor.policy.model.contacts import Contact, addresses, list_addresses

_INCOMING = "incoming webhook"
"""The target of an incoming webhook. The webhook is bound to one conversation, but does not name
it."""


@dataclass(frozen=True, slots=True)
class Route:
    """One channel to one target.

    `target` is an address or a conversation, never a secret, and is recorded. `person` is set if
    nobody else gets the message there, so that its link may be personal. `own` is true if the
    policy names the target for a contact.
    """

    channel: Channel
    target: str
    person: str | None = None
    own: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Return the channel's name and the target, by which deliveries are recorded: `("email",
        "ada@example.com")`."""
        return self.channel.name, self.target


Recipients = Mapping[tuple[str, str], str | None]
"""Recipients of earlier messages of the same episode: the key of each route, and its `person`."""


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes routes. `secret` is the channel secret, empty if nothing is stored.

    A setting that cannot be used becomes a route that refuses. It gives the reason, but not the
    value.
    """

    secret: Mapping[str, str]
    mail: MailService | None
    sender: str | None
    clock: Clock
    problem: str | None = None
    """Why the secret cannot be read; `None` if it can."""
    https: Https = field(default_factory=partial(Https, only_public=True))
    private_https: Https = field(default_factory=Https)
    """For a channel that the secret lets reach private addresses."""

    def routes(self, contacts: Sequence[Contact], earlier: Recipients) -> tuple[Route, ...]:
        """Return the routes to these contacts, to `earlier` recipients, and to the channels for
        everybody; empty if no channel is set up. It opens no connection.

        Each address and conversation comes once. If it is both a contact's and `earlier`, it gets
        the settings of the contact.
        """
        return (
            *self._problems(),
            *self._mail_routes(contacts, earlier),
            *self._slack_routes(contacts, earlier),
            *self._shared_routes(),
        )

    def _problems(self) -> Iterator[Route]:
        """Yield a route that refuses each message with the reason, if the channel secret has an
        unknown key or cannot be read; else nothing."""
        unknown_keys = sorted(set(self.secret) - KEYS)
        if unknown_keys:
            why = f" has the unknown key {unknown_keys[0]!r}; known: {', '.join(sorted(KEYS))}"
        elif self.problem:
            why = f": {self.problem}"
        else:
            return
        yield Route(_Refusing("secret", f"the channel secret{why}"), "secret")

    def _mail_routes(self, contacts: Sequence[Contact], earlier: Recipients) -> Iterator[Route]:
        """Yield a route to each address of the contacts and of `earlier` recipients; none if the
        stack sends no mail."""
        if self.mail is None or self.sender is None:
            return
        named = _person_by_address(contacts)
        known = {address: person for (name, address), person in earlier.items() if name == "email"}
        for address, person in (known | named).items():
            make = partial(EmailChannel, self.mail, sender=self.sender, recipient=address)
            yield _route("email", address, make, person, own=address in named)

    def _slack_routes(self, contacts: Sequence[Contact], earlier: Recipients) -> Iterator[Route]:
        """Yield a route for each conversation of the app; without an app, the one of the incoming
        webhook. Yield none if neither is set up."""
        token = self.secret.get("slack_bot_token")
        webhook = self.secret.get("slack_webhook_url")
        if not token:
            if webhook:
                yield _route("slack", _INCOMING, partial(self._slack_webhook, webhook))
            return
        own_conversations = {contact.slack_channel for contact in contacts}
        for conversation in self._conversations(contacts, earlier):
            make = partial(self._slack_app, token, conversation)
            yield _route("slack", conversation, make, own=conversation in own_conversations)

    def _conversations(self, contacts: Sequence[Contact], earlier: Recipients) -> list[str]:
        """Return the ids of the conversations of the contacts and of earlier messages, each once;
        the secret's conversation stands in for contacts without one, and if there are no contacts.
        Empty if there is none of these."""
        default = self.secret.get("slack_channel")
        conversations = [contact.slack_channel or default for contact in contacts]
        if not contacts:
            conversations.append(default)
        for channel, target in earlier:
            if channel == "slack" and target != _INCOMING:
                conversations.append(target)
        return [conversation for conversation in dict.fromkeys(conversations) if conversation]

    def _https(self, channel: str) -> Https:
        """Return the HTTPS client of a channel, which reaches private addresses only if the secret
        lets it. Raises: ConfigurationError if that setting is neither "true" nor "false"."""
        return https_of(channel, self.secret, self.https, self.private_https)

    def _slack_webhook(self, webhook: str) -> Channel:
        """Return the channel of the incoming webhook with this address. Raises: ConfigurationError
        if it is not https, or a setting cannot be used."""
        return SlackWebhookChannel(webhook, self._https("slack"), self.clock)

    def _slack_app(self, token: str, conversation: str) -> Channel:
        """Return the channel of a conversation of Slack (its id), whose messages have buttons if
        their answers could be verified. Raises: ConfigurationError if the token, the id or the
        API's address cannot be used."""
        url = self.secret.get("slack_api_url") or API_URL
        api = SlackApi(token, self._https("slack"), self.clock, url)
        takes_answers = bool(self.secret.get("slack_signing_secret"))
        return SlackAppChannel(api, conversation, takes_answers=takes_answers)

    def _shared_routes(self) -> Iterator[Route]:
        """Yield the channels for everybody whose settings are stored, at most one of each kind."""
        for name, kind in CHANNELS.items():
            if kind.make_shared is not None and self.secret.get(kind.settings[0]):
                yield _route(name, kind.shared_target, partial(kind.make_shared, self))

    def make_teams(self) -> Channel:
        """Return the channel of Teams. Call it only if its address is stored. Raises:
        ConfigurationError if that is not https."""
        return TeamsChannel(self.secret["teams_webhook_url"], self._https("teams"), self.clock)

    def make_pagerduty(self) -> Channel:
        """Return the channel of PagerDuty. Call it only if its routing key is stored. Raises:
        ConfigurationError if the key or the address cannot be used."""
        key = self.secret["pagerduty_routing_key"]
        url = self.secret.get("pagerduty_events_url") or EVENTS_URL
        return PagerDutyChannel(key, self._https("pagerduty"), self.clock, url)

    def make_webhook(self) -> Channel:
        """Return the channel of the signed webhook. Call it only if its address is stored. Raises:
        ConfigurationError, also without a secret to sign with."""
        names = ("webhook_secret", "webhook_previous_secret")
        keys = []
        for name in names:
            if self.secret.get(name):
                keys.append(self.secret[name])
        return WebhookChannel(
            self.secret["webhook_url"], tuple(keys), self._https("webhook"), self.clock
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelKind:
    """One kind of channel: its settings, and how it differs from others.

    A row without `make_shared` has routes of its own in `Registry.routes`.
    """

    settings: tuple[str, ...] = ()
    """Its keys in the channel secret. A channel for everybody exists if the first is stored."""
    make_shared: Callable[[Registry], Channel] | None = None
    """Makes the channel for everybody; `None` if its recipients are those of contacts."""
    shared_target: str = ""
    """The target of the channel for everybody, as it is recorded."""
    keeps_incidents: bool = False
    """True if it opens incidents and closes them. It then gets ends that are not sent to people,
    and each alert by itself."""
    is_read_by_machines: bool = False
    """True if no person reads it. It then gets each failure by itself, and
    `Delivery.reached_people` must know it."""


CHANNELS: Mapping[str, ChannelKind] = {
    "email": ChannelKind(),
    "slack": ChannelKind(
        settings=(
            "slack_bot_token",
            "slack_channel",
            "slack_signing_secret",
            "slack_webhook_url",
            "slack_api_url",
        ),
    ),
    "teams": ChannelKind(
        settings=("teams_webhook_url",),
        make_shared=Registry.make_teams,
        shared_target="workflow",
    ),
    "pagerduty": ChannelKind(
        settings=("pagerduty_routing_key", "pagerduty_events_url"),
        make_shared=Registry.make_pagerduty,
        shared_target="service",
        keeps_incidents=True,
    ),
    "webhook": ChannelKind(
        settings=("webhook_url", "webhook_secret", "webhook_previous_secret"),
        make_shared=Registry.make_webhook,
        shared_target="webhook",
        keeps_incidents=True,
        is_read_by_machines=True,
    ),
}
"""Every channel by its name, in the order of their routes."""


def _known_keys() -> frozenset[str]:
    """Return the keys that the channel secret may have.

    A channel with an address reaches public addresses alone, unless its `..._private` is "true".
    """
    keys: set[str] = set()
    for name, kind in CHANNELS.items():
        if kind.settings:
            keys.update(kind.settings)
            keys.add(private_key(name))
    return frozenset(keys)


KEYS = _known_keys()


class _Refusing(Channel):
    """Stands in for a channel whose settings cannot be used: it refuses each message with the
    reason."""

    def __init__(self, name: str, why: str) -> None:
        """Stand in for the channel of this name, and refuse each message for the reason `why`."""
        self.name = name
        self._why = why

    def send(self, message: Message) -> Delivered:
        """Refuse the message. Raises: DeliveryRefused, always."""
        del message
        raise DeliveryRefused(self._why)


def _person_by_address(contacts: Sequence[Contact]) -> dict[str, str | None]:
    """Return the addresses of these contacts, each with the person who reads it (the address
    itself), or with `None` if it is a mailing list. An address that is named as both stays a
    person's."""
    person_by_address: dict[str, str | None] = {address: address for address in addresses(contacts)}
    for address in list_addresses(contacts):
        person_by_address.setdefault(address, None)
    return person_by_address


def _route(
    name: str,
    target: str,
    make: Callable[[], Channel],
    person: str | None = None,
    *,
    own: bool = False,
) -> Route:
    """Return the route by the channel that `make` returns. If `make` raises ConfigurationError,
    return a route that refuses each message with that reason. `own` is that of `Route`."""
    try:
        channel = make()
    except ConfigurationError as error:
        channel = _Refusing(name, str(error))
    return Route(channel, target, person=person, own=own)
