"""The channels by their names."""

from __future__ import annotations

from governor.channels.email import EmailChannel
from governor.channels.message import Channel
from governor.channels.pagerduty import PagerDutyChannel
from governor.channels.slack import SlackAppChannel, SlackWebhookChannel
from governor.channels.teams import TeamsChannel
from governor.channels.webhook import WebhookChannel

CHANNELS: tuple[type[Channel], ...] = (
    EmailChannel,
    PagerDutyChannel,
    SlackAppChannel,
    SlackWebhookChannel,
    TeamsChannel,
    WebhookChannel,
)


def test_every_channel_has_a_name_of_its_kind() -> None:
    """Records and metrics are grouped by it."""
    expected = ["email", "pagerduty", "slack", "slack", "teams", "webhook"]
    assert expected == [vars(channel)["name"] for channel in CHANNELS]
