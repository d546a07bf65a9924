"""The list at the head of the package."""

from __future__ import annotations

import importlib
import inspect
import re

from governor import channels
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


def test_every_name_of_the_list_exists_and_is_explained() -> None:
    """A list that lies is worse than none."""
    names = re.findall(r"\b([a-z_]+)\.([A-Za-z_]+)\b", (channels.__doc__ or "").split("A caller")[0])
    assert len(names) > 15
    for module, name in names:
        found = getattr(importlib.import_module(f"governor.channels.{module}"), name)
        assert inspect.getdoc(found)


def test_every_channel_has_a_name_of_its_kind() -> None:
    """Records and metrics are grouped by it."""
    expected = ["email", "pagerduty", "slack", "slack", "teams", "webhook"]
    assert expected == [vars(channel)["name"] for channel in CHANNELS]
