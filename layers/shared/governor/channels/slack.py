"""Slack: as an app, whose messages can be answered and changed, or through an incoming webhook.

This module must not know what a message is about.
"""

from __future__ import annotations

import http.client
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from typing import Any
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.client import WebClient
from slack_sdk.webhook.client import WebhookClient
from slack_sdk.webhook.webhook_response import WebhookResponse

from governor.channels.errors import DeliveryRefused, DeliveryRetryable
from governor.channels.message import Delivered, Message
from governor.channels.slack_blocks import escaped, slack_blocks, slack_text
from governor.channels.transport import HttpAnswer, check_answer, https_url, retry_after_seconds, unanswered
from governor.errors import ConfigurationError
from governor.ports import Clock

API_URL = "https://slack.com/api/"
_NAME = "slack"
_SECONDS = 10
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
_FOREIGN = (SlackClientError, http.client.HTTPException, OSError, UnicodeError, LookupError)
"""What the SDK lets through: its own, the network's, and pages it cannot decode."""
_RENEW = "store the present bot token in the channel's secret"
_NO_CHANNEL = "invite the app to the channel, or name another one"
_WHAT_TO_DO = {
    **dict.fromkeys(
        ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"), _RENEW
    ),
    **dict.fromkeys(("channel_not_found", "not_in_channel", "is_archived", "restricted_action"), _NO_CHANNEL),
    "missing_scope": "give the app the scope chat:write and install it again",
}


class SlackAppChannel:
    """Posts as an app, with buttons for the answers. The outcome changes the episode's first message.

    `channel_id` is the id of a conversation (`C0123456789`), not its name: names change. Without
    `takes_answers` there is the link alone: nobody could check who has pressed a button.

    Raises:
        ConfigurationError: it is not.
    """

    name = _NAME

    def __init__(
        self, client: WebClient, channel_id: str, clock: Clock, *, takes_answers: bool = True
    ) -> None:
        if _CHANNEL.fullmatch(channel_id) is None:
            raise ConfigurationError("the channel of Slack must be given by its id, like C0123456789")
        self._client = client
        self._channel_id = channel_id
        self._clock = clock
        self._takes_answers = takes_answers

    def takes(self, message: Message) -> bool:
        """Every message."""
        del message
        return True

    def send(self, message: Message) -> Delivered:
        """As the Protocol says. The thread is the conversation's id and the first message's time stamp."""
        content: dict[str, Any] = {
            "text": slack_text(message),
            "blocks": slack_blocks(message, interactive=self._takes_answers),
        }
        thread = _thread(message.thread)
        if thread is None:
            return self._post(self._channel_id, None, content)
        channel, stamp = thread
        changed = self._change(channel, stamp, content) if message.is_outcome else None
        if changed is not None:
            return changed
        sent = self._post(channel, stamp, content)
        return Delivered(sent.delivery_id, thread=message.thread)

    def _post(self, channel: str, stamp: str | None, content: Mapping[str, Any]) -> Delivered:
        # A reply alone is seen only by those who follow the thread.
        place: dict[str, Any] = {} if stamp is None else {"thread_ts": stamp, "reply_broadcast": True}
        try:
            answer = self._client.chat_postMessage(
                channel=channel, unfurl_links=False, unfurl_media=False, parse="none", **place, **content
            )
        except _FOREIGN as error:
            if stamp is not None and _code(error) in _NO_THREAD:
                return self._post(channel, None, content)
            raise self._translated(error) from None
        return _delivered(answer.get("channel"), answer.get("ts"))

    def _change(self, channel: str, stamp: str, content: Mapping[str, Any]) -> Delivered | None:
        """`None` when the first message is gone or can no longer be changed: the outcome is told anew."""
        try:
            answer = self._client.chat_update(channel=channel, ts=stamp, parse="none", **content)
        except _FOREIGN as error:
            if _code(error) in _CANNOT_CHANGE:
                return None
            raise self._translated(error) from None
        return _delivered(answer.get("channel"), answer.get("ts"))

    def _translated(self, error: Exception) -> DeliveryRetryable | DeliveryRefused:
        """What an error of the SDK means. Its texts can hold the whole request, so none is repeated."""
        if not isinstance(error, SlackApiError):
            return unanswered(_NAME, error)
        code, status = _code(error), int(error.response.status_code)
        if code in _LATER or status == 429 or status >= 500:
            wait = retry_after_seconds(_header(error.response.headers, "retry-after"), self._clock.now())
            text = f"it answered {status} {code}"
            return DeliveryRetryable(text, channel=_NAME, retry_after_seconds=wait)
        advice = _WHAT_TO_DO.get(code, "look the code up in Slack's documentation of chat.postMessage")
        return DeliveryRefused(f"it answered {status} {code}: {advice}", channel=_NAME)


class SlackWhisper:
    """Fulfils `slack_actions.Whisper`: a message that only one person of a conversation sees."""

    def __init__(self, client: Callable[[], WebClient]) -> None:
        self._client = client

    def __call__(self, thread: str, user_id: str, text: str) -> None:
        """As the Protocol says."""
        place = _thread(thread)
        if place is None:
            raise ValueError("a whisper needs the message that was answered")
        try:
            self._client().chat_postEphemeral(
                channel=place[0], user=user_id, text=escaped(text, 3000), parse="none"
            )
        except _FOREIGN as error:
            # Told to the log alone: whoever pressed sees the outcome in the conversation.
            code = _code(error) if isinstance(error, SlackApiError) else type(error).__name__
            raise DeliveryRefused(f"the whisper was not taken ({code})", channel=_NAME) from None


class SlackWebhookChannel:
    """Posts through an incoming webhook: link buttons only, and nothing can be changed afterwards."""

    name = _NAME

    def __init__(self, client: WebhookClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def takes(self, message: Message) -> bool:
        """Every message."""
        del message
        return True

    def send(self, message: Message) -> Delivered:
        """As the Protocol says. A webhook gives its messages no id, so it is the message's own."""
        try:
            answer = self._client.send(
                text=slack_text(message),
                blocks=slack_blocks(message, interactive=False),
                unfurl_links=False,
                unfurl_media=False,
            )
        except _FOREIGN as error:
            raise unanswered(_NAME, error) from None
        headers = {"retry-after": _header(answer.headers, "retry-after") or ""}
        check_answer(_NAME, HttpAnswer(answer.status_code, headers), self._clock.now())
        if answer.body.strip() != "ok":
            raise DeliveryRefused(
                "what answered is no incoming webhook of Slack; store the address of one", channel=_NAME
            )
        return Delivered(message.delivery_key)


def slack_app_client(token: str, api_url: str = API_URL) -> WebClient:
    """The SDK's client: no redirects, no retries of its own, and silent, as its logs hold requests.

    Raises:
        ConfigurationError: no bot token, or the address is not https.
    """
    if not token.startswith("xoxb-") or not token.isascii() or not token.isprintable():
        raise ConfigurationError("the token of Slack must be a bot token, which begins with xoxb-")
    url = https_url(api_url, _NAME)
    return _StrictWebClient(token=token, base_url=url, timeout=_SECONDS, logger=_silent(), retry_handlers=[])


def slack_webhook_client(url: str) -> WebhookClient:
    """As `slack_app_client`, for the address of an incoming webhook. Raises: ConfigurationError."""
    return _StrictWebhookClient(
        url=https_url(url, _NAME), timeout=_SECONDS, logger=_silent(), retry_handlers=[]
    )


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST becomes a GET that carries the token to wherever it was sent."""

    def redirect_request(self, *args: object, **kwargs: object) -> None:
        del args, kwargs


def _opener(context: ssl.SSLContext | None) -> OpenerDirector:
    return build_opener(_NoRedirects, HTTPSHandler(context=context))


class _StrictWebClient(WebClient):
    """The SDK opens its requests in this method; it has no setting for redirects."""

    def _perform_urllib_http_request_internal(self, url: str, req: Request) -> dict[str, Any]:
        del url
        with _opener(self.ssl).open(req, timeout=self.timeout) as answer:
            return {
                "status": answer.status,
                "headers": answer.headers,
                "body": answer.read().decode("utf-8", "replace"),
            }


class _StrictWebhookClient(WebhookClient):
    """As `_StrictWebClient`."""

    def _perform_http_request_internal(self, url: str, req: Request) -> WebhookResponse:
        with _opener(self.ssl).open(req, timeout=self.timeout) as answer:
            body = answer.read().decode("utf-8", "replace")
            return WebhookResponse(
                url=url, status_code=answer.status, body=body, headers=dict(answer.headers)
            )


def _silent() -> logging.Logger:
    logger = logging.getLogger("governor.channels.slack_sdk")
    logger.setLevel(logging.CRITICAL + 1)
    return logger


def _code(error: Exception) -> str:
    """Slack's error code; what stands there instead of one (a page of a proxy) is not repeated."""
    code = str(error.response.get("error", "")) if isinstance(error, SlackApiError) else ""
    return code if _CODE.fullmatch(code) else "without a code"


def _header(headers: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in headers.items() if key.lower() == name), None)


def _thread(thread: str | None) -> tuple[str, str] | None:
    """Conversation and time stamp.

    Raises:
        ValueError: the thread was not given by this channel.
    """
    if thread is None:
        return None
    found = _THREAD.fullmatch(thread)
    if found is None:
        raise ValueError("the thread of a Slack message must be what Delivered.thread said")
    return found[1], found[2]


def _delivered(channel: object, stamp: object) -> Delivered:
    """Raises: DeliveryRefused when the answer lacks what Slack always gives."""
    thread = f"{channel}:{stamp}"
    if _THREAD.fullmatch(thread) is None:
        raise DeliveryRefused(
            "what answered is not Slack: it named no message; look at the API's address", channel=_NAME
        )
    return Delivered(str(stamp), thread=thread)
