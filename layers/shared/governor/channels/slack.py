"""Slack: as an app, whose messages can be answered and changed, or through an incoming webhook.

This module must not know what a message is about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from governor.channels.message import Channel, Delivered, DeliveryRefused, Message
from governor.channels.slack_blocks import escaped, hold_blocks, slack_blocks, slack_text
from governor.channels.transport import HttpsChannel, failure, https_url, post
from governor.domain.alerts.templates import said
from governor.errors import ConfigurationError
from governor.https import Https
from governor.ports import Clock

API_URL = "https://slack.com/api/"
_NAME = "slack"
_NO_PREVIEWS = {"unfurl_links": False, "unfurl_media": False}
_CODE = re.compile(r"[a-z0-9_]{1,60}")
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{2,20}")
_THREAD = re.compile(r"([CDG][A-Z0-9]{2,20}):([0-9]{1,12}\.[0-9]{1,9})")
_LATER = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "accesslimited",
    }
)
_CANNOT_CHANGE = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "update_failed"}
)
_NO_THREAD = frozenset({"thread_not_found", "message_not_found", "cannot_reply_to_message"})


class SlackApi:
    """Slack's Web API. Raises: ConfigurationError for no bot token, or an address that is not https."""

    def __init__(self, token: str, https: Https, clock: Clock, url: str = API_URL) -> None:
        if not token.startswith("xoxb-") or not token.isascii() or not token.isprintable():
            raise ConfigurationError("the token of Slack must be a bot token, which begins with xoxb-")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._url = https_url(url, _NAME).rstrip("/")
        self._https = https
        self._clock = clock

    def call(
        self, method: str, arguments: Mapping[str, Any], *, unless: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Return Slack's answer: `ok`, or not `ok` for an error code of `unless`. Raises: DeliveryError."""
        body = json.dumps({"parse": "none", **arguments}).encode()
        answer = post(self._https, f"{self._url}/{method}", body, self._headers)
        data = answer.document
        code = str(data.get("error", ""))
        if (answer.status == 200 and data.get("ok")) or code in unless:
            return data
        raise failure(
            answer,
            self._clock.now(),
            # Text in place of a code (from a proxy) is not repeated: it could hold anything.
            code=code if _CODE.fullmatch(code) else "without a code",
            later=code in _LATER,
            advice=said("refused by Slack", {"code": code})[0],
        )

    def send_ephemeral(self, thread: str, user_id: str, text: str, held: str | None = None) -> None:
        """Send one person of a conversation an ephemeral message, as `slack_actions.Confirm` says."""
        channel, _ = _place(thread)
        said = {"text": escaped(text, 3000), **({"blocks": hold_blocks(text, held)} if held else {})}
        self.call("chat.postEphemeral", {"channel": channel, "user": user_id, **said})


class SlackAppChannel(Channel):
    """Posts as an app, with buttons for the answers. The outcome changes the episode's first message; where
    that is gone or can no longer be changed, it is sent anew.

    `channel_id` is the id of a conversation (`C0123456789`), not its name: names change. Without
    `takes_answers` there is the link alone: nobody could check who has pressed a button.

    Raises:
        ConfigurationError: it is not.
    """

    name = _NAME

    def __init__(self, api: SlackApi, channel_id: str, *, takes_answers: bool = True) -> None:
        if _CHANNEL.fullmatch(channel_id) is None:
            raise ConfigurationError("the channel of Slack must be given by its id, like C0123456789")
        self._api = api
        self._channel_id = channel_id
        self._takes_answers = takes_answers

    def send(self, message: Message) -> Delivered:
        """As the Protocol says. The thread is the conversation's id and the first message's time stamp."""
        content = _content(message, interactive=self._takes_answers)
        if message.thread is None:
            return _delivered(self._post(self._channel_id, content))
        channel, stamp = _place(message.thread)
        if message.is_outcome:
            change = {"channel": channel, "ts": stamp, **content}
            changed = self._api.call("chat.update", change, unless=_CANNOT_CHANGE)
            if changed.get("ok"):
                return _delivered(changed)
        # A reply alone is seen only by those who follow the thread.
        reply = {"thread_ts": stamp, "reply_broadcast": True, **content}
        sent = self._post(channel, reply, unless=_NO_THREAD)
        if not sent.get("ok"):
            sent = self._post(channel, content)
        return Delivered(_delivered(sent).delivery_id, thread=message.thread)

    def _post(
        self, channel: str, content: Mapping[str, Any], unless: Collection[str] = ()
    ) -> Mapping[str, Any]:
        new = {"channel": channel, **_NO_PREVIEWS, **content}
        return self._api.call("chat.postMessage", new, unless=unless)


def _content(message: Message, *, interactive: bool) -> dict[str, Any]:
    return {"text": slack_text(message), "blocks": slack_blocks(message, interactive=interactive)}


def _delivered(answer: Mapping[str, Any]) -> Delivered:
    """Raises: DeliveryRefused where the answer lacks what Slack always gives."""
    stamp = answer.get("ts")
    thread = f"{answer.get('channel')}:{stamp}"
    if _THREAD.fullmatch(thread) is None:
        raise DeliveryRefused("what answered is not Slack: it named no message; look at the API's address")
    return Delivered(str(stamp), thread=thread)


class SlackWebhookChannel(HttpsChannel):
    """Posts through an incoming webhook: link buttons only, and nothing can be changed afterwards."""

    name = _NAME

    def send(self, message: Message) -> Delivered:
        """As the Protocol says. A webhook gives its messages no id, so it is the message's own."""
        answer = self.post(json.dumps({**_content(message, interactive=False), **_NO_PREVIEWS}))
        if answer.body.strip() != b"ok":
            raise DeliveryRefused("what answered is no incoming webhook of Slack; store the address of one")
        return Delivered(message.delivery_key)


def _place(thread: str) -> tuple[str, str]:
    """Conversation and time stamp. Raises: ValueError for what this channel never gave as a thread."""
    found = _THREAD.fullmatch(thread)
    if found is None:
        raise ValueError("the thread of a Slack message must be what Delivered.thread said")
    return found[1], found[2]
