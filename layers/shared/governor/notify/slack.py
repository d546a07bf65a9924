"""Posts messages to Slack: as an app, whose messages can be answered and changed, or through an
incoming webhook. `slack_blocks.py` makes their blocks."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from governor.alerts.templates import first_line_of
from governor.core.errors import ConfigurationError
from governor.core.https import Https
from governor.core.ports import Clock
from governor.notify.message import (
    Channel,
    Delivered,
    DeliveryRefused,
    Message,
)
from governor.notify.slack_blocks import (
    NOTIFICATION_CHARACTERS,
    escaped,
    hold_blocks,
    slack_blocks,
    slack_text,
)
from governor.notify.transport import HttpsChannel, failure, https_url, post

API_URL = "https://slack.com/api/"
_NAME = "slack"
_NO_PREVIEWS = {"unfurl_links": False, "unfurl_media": False}
_CODE = re.compile(r"[a-z0-9_]{1,60}")
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{2,20}")
_THREAD = re.compile(r"([CDG][A-Z0-9]{2,20}):([0-9]{1,12}\.[0-9]{1,9})")
_RETRYABLE_CODES = frozenset(
    (
        *("ratelimited", "rate_limited", "message_limit_exceeded", "internal_error", "fatal_error"),
        *("service_unavailable", "request_timeout", "team_added_to_org", "accesslimited"),
    )
)
_CANNOT_CHANGE = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "update_failed"}
)
_NO_THREAD = frozenset({"thread_not_found", "message_not_found", "cannot_reply_to_message"})


class SlackApi:
    """Slack's Web API.

    Raises: ConfigurationError if the token is no bot token, or the address is not https.
    """

    def __init__(self, token: str, https: Https, clock: Clock, url: str = API_URL) -> None:
        """Call the API at `url` with this token. Raises: ConfigurationError if it is no bot token,
        or the address is not https."""
        if not token.startswith("xoxb-") or not token.isascii() or not token.isprintable():
            raise ConfigurationError(
                "the token of Slack must be a bot token, which begins with xoxb-"
            )
        self._headers = {"Authorization": f"Bearer {token}"}
        self._url = https_url(url, _NAME).rstrip("/")
        self._https = https
        self._clock = clock

    def call(
        self, method: str, arguments: Mapping[str, Any], *, unless: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Call a method such as `chat.postMessage`; return Slack's answer, which is `ok`, or has
        one of the error codes in `unless`.

        Raises: DeliveryRetryable or DeliveryRefused for any other answer, or if there is none.
        """
        body = json.dumps({"parse": "none", **arguments}).encode()
        answer = post(self._https, f"{self._url}/{method}", body, self._headers, _NAME)
        data = answer.document
        code = str(data.get("error", ""))
        is_ok = answer.status == 200 and data.get("ok")
        if is_ok or code in unless:
            return data
        raise failure(
            answer,
            self._clock.now(),
            # A proxy may send any text in place of a code: it is not repeated.
            code=code if _CODE.fullmatch(code) else "without a code",
            later=code in _RETRYABLE_CODES,
            advice=first_line_of("refused by slack", code=code),
        )

    def send_ephemeral(self, thread: str, user_id: str, text: str, held: str | None = None) -> None:
        """Send an ephemeral message to one person (`U0123456789`) in the conversation of a thread.
        It gets a button that holds the plan of the approval with the id `held`; `None` for no
        button. Raises: DeliveryRetryable, DeliveryRefused; ValueError for a thread of another
        form."""
        channel, _ = _conversation_and_stamp(thread)
        arguments: dict[str, Any] = {
            "channel": channel,
            "user": user_id,
            "text": escaped(text, NOTIFICATION_CHARACTERS),
        }
        if held:
            arguments["blocks"] = hold_blocks(text, held)
        self.call("chat.postEphemeral", arguments)


class SlackAppChannel(Channel):
    """Posts as an app, with buttons for the answers. The outcome changes the episode's first
    message; if that cannot be changed, it is sent as a new message.

    `channel_id` is the id of a conversation (`C0123456789`), because names change. Without
    `takes_answers` a message has only the link, because nobody could check who pressed a button.
    Raises: ConfigurationError for a name in place of an id.
    """

    name = _NAME

    def __init__(self, api: SlackApi, channel_id: str, *, takes_answers: bool = True) -> None:
        """Post to the conversation with this id; with buttons for answers if `takes_answers`.
        Raises: ConfigurationError if it is no id."""
        if _CHANNEL.fullmatch(channel_id) is None:
            raise ConfigurationError(
                "the channel of Slack must be given by its ID, like C0123456789"
            )
        self._api = api
        self._channel_id = channel_id
        self._takes_answers = takes_answers

    def send(self, message: Message) -> Delivered:
        """Post the message, or change the episode's first one if this is an outcome. If that cannot
        be changed, reply in its thread; if the thread is gone, post outside of it.

        The returned thread names the conversation and the episode's first message:
        `C0123456789:1700000000.000100`. Raises: DeliveryRetryable, DeliveryRefused.
        """
        content = _content(message, interactive=self._takes_answers)
        if message.thread is None:
            return _delivered(self._post(self._channel_id, content))
        channel, stamp = _conversation_and_stamp(message.thread)
        if message.is_outcome:
            change = {"channel": channel, "ts": stamp, **content}
            changed = self._api.call("chat.update", change, unless=_CANNOT_CHANGE)
            if changed.get("ok"):
                return _delivered(changed)
        # Broadcast: only people who follow the thread would see a mere reply.
        reply = {"thread_ts": stamp, "reply_broadcast": True, **content}
        sent = self._post(channel, reply, unless=_NO_THREAD)
        # Without the first message, it is posted outside of the thread.
        if not sent.get("ok"):
            sent = self._post(channel, content)
        return Delivered(_delivered(sent).delivery_id, thread=message.thread)

    def _post(
        self, channel: str, content: Mapping[str, Any], unless: Collection[str] = ()
    ) -> Mapping[str, Any]:
        """Post a new message to a conversation; return Slack's answer, which is `ok` or has an
        error code in `unless`. Raises: DeliveryRetryable or DeliveryRefused for any other answer,
        or if there is none."""
        arguments = {"channel": channel, **_NO_PREVIEWS, **content}
        return self._api.call("chat.postMessage", arguments, unless=unless)


def _content(message: Message, *, interactive: bool) -> dict[str, Any]:
    """Return the text and the blocks of a message, as arguments of Slack's methods."""
    return {"text": slack_text(message), "blocks": slack_blocks(message, interactive=interactive)}


def _delivered(answer: Mapping[str, Any]) -> Delivered:
    """Return the id and thread in Slack's answer. Raises: DeliveryRefused if the answer names no
    message."""
    stamp = answer.get("ts")
    thread = f"{answer.get('channel')}:{stamp}"
    if _THREAD.fullmatch(thread) is None:
        raise DeliveryRefused(
            "what answered is not Slack: it named no message; look at the API's address"
        )
    return Delivered(str(stamp), thread=thread)


class SlackWebhookChannel(HttpsChannel):
    """Posts through an incoming webhook. Its messages have only link buttons, and are never
    changed."""

    name = _NAME

    def send(self, message: Message) -> Delivered:
        """Post the message. A webhook gives it no id, so the delivery id is the message's own key.
        Raises: DeliveryRetryable, DeliveryRefused."""
        document = {**_content(message, interactive=False), **_NO_PREVIEWS}
        answer = self.post(json.dumps(document))
        if answer.body.strip() != b"ok":
            raise DeliveryRefused(
                "what answered is no incoming webhook of Slack; store the address of one"
            )
        return Delivered(message.delivery_key)


def _conversation_and_stamp(thread: str) -> tuple[str, str]:
    """Return the two parts of a thread: the conversation's id, and the time stamp of the thread's
    first message, for `C0123456789:1700000000.000100`.

    Raises: ValueError for a text of another form, which this channel never named.
    """
    match = _THREAD.fullmatch(thread)
    if match is None:
        raise ValueError("the thread of a Slack message must be what Delivered.thread said")
    return match[1], match[2]
