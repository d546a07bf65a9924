"""The channels of a stack: which exist, and for whom, as the channel secret and the contacts say.

This module must not know what is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from governor.channels.message import Channel
from governor.domain.contacts import Contact, addresses
from governor.errors import ConfigurationError
from governor.ports import Clock

if TYPE_CHECKING:
    from governor.channels.email import MailService

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
"""What may stand in the channel secret. Addresses of Slack and PagerDuty are for their other regions."""


@dataclass(frozen=True, slots=True)
class Route:
    """One way to somebody. `target` is an address or a conversation, never a secret; it is recorded.

    `person` is who alone gets it there, so that the link may be personal.
    """

    channel: Channel
    target: str
    person: str | None = None


@dataclass(frozen=True, slots=True)
class Registry:
    """Makes routes. `secret` is the channel secret, empty where nothing is stored.

    Raises:
        ConfigurationError: the secret has an unknown key, or a value no channel can use; never shows a value.
    """

    secret: Mapping[str, str]
    mail: MailService | None
    sender: str | None
    clock: Clock

    def __post_init__(self) -> None:
        unknown = sorted(set(self.secret) - KEYS)
        if unknown:
            known = ", ".join(sorted(KEYS))
            raise ConfigurationError(f"the channel secret has the unknown key {unknown[0]!r}; known: {known}")

    def routes(self, contacts: Sequence[Contact]) -> tuple[Route, ...]:
        """Every way to these contacts, and those that are for everybody."""
        return (*self._mails(contacts), *self._slack(contacts), *self._others())

    def _mails(self, contacts: Sequence[Contact]) -> list[Route]:
        if self.mail is None or self.sender is None:
            return []
        from governor.channels.email import EmailChannel

        return [
            Route(EmailChannel(self.mail, sender=self.sender, recipient=address), address, address)
            for address in addresses(contacts)
        ]

    def _slack(self, contacts: Sequence[Contact]) -> list[Route]:
        token, webhook = self.secret.get("slack_bot_token"), self.secret.get("slack_webhook_url")
        if token:
            from governor.channels.slack import API_URL, SlackAppChannel, slack_app_client

            own = [contact.slack_channel for contact in contacts if contact.slack_channel]
            default = [self.secret["slack_channel"]] if self.secret.get("slack_channel") else []
            client = slack_app_client(token, self.secret.get("slack_api_url") or API_URL)
            return [
                Route(SlackAppChannel(client, place, self.clock), place)
                for place in dict.fromkeys(own or default)
            ]
        if webhook:
            from governor.channels.slack import SlackWebhookChannel, slack_webhook_client

            return [Route(SlackWebhookChannel(slack_webhook_client(webhook), self.clock), "incoming webhook")]
        return []

    def _others(self) -> list[Route]:
        secret, found = self.secret, []
        if not {"teams_webhook_url", "pagerduty_routing_key", "webhook_url"} & secret.keys():
            return []
        from governor.channels.pagerduty import EVENTS_URL, PagerDutyChannel
        from governor.channels.teams import TeamsChannel
        from governor.channels.transport import HttpsTransport
        from governor.channels.webhook import WebhookChannel

        transport = HttpsTransport()
        if secret.get("teams_webhook_url"):
            channel: Channel = TeamsChannel(secret["teams_webhook_url"], transport, self.clock)
            found.append(Route(channel, "workflow"))
        if secret.get("pagerduty_routing_key"):
            url = secret.get("pagerduty_events_url") or EVENTS_URL
            channel = PagerDutyChannel(secret["pagerduty_routing_key"], transport, self.clock, url)
            found.append(Route(channel, "service"))
        if secret.get("webhook_url"):
            keys = [secret.get("webhook_secret", ""), secret.get("webhook_previous_secret", "")]
            channel = WebhookChannel(
                secret["webhook_url"], [key for key in keys if key], transport, self.clock
            )
            found.append(Route(channel, "webhook"))
        return found
