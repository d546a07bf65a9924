"""The channels by their names."""

from __future__ import annotations

from governor.notify.email import EmailChannel
from governor.notify.message import Channel
from governor.notify.pagerduty import PagerDutyChannel
from governor.notify.slack import SlackAppChannel, SlackWebhookChannel
from governor.notify.teams import TeamsChannel
from governor.notify.webhook import WebhookChannel

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
