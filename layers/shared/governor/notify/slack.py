"""Posts messages to Slack as Block Kit: as an app, whose messages can be answered and changed, or
through an incoming webhook.

Anybody who launches an instance chooses its name and tags. So all text is escaped, and no text may
become a link or a mention. Limits: docs.slack.dev, "Blocks" and "Block elements".
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from governor.alerts.model import Section
from governor.alerts.templates import first_line_of
from governor.approvals.model.approval import Answer
from governor.core.errors import ConfigurationError
from governor.core.https import Https
from governor.core.ports import Clock
from governor.core.units import clip
from governor.notify.message import (
    ANSWER_TEXT,
    NOTE_IF_SHORTENED,
    Channel,
    Delivered,
    DeliveryRefused,
    Message,
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
LINES = 12
"""The most lines before the buttons."""
BLOCKS = 50
"""The most blocks of a message."""
_HEADER_CHARACTERS = 150
_CONTEXT_CHARACTERS = 2000
_SECTION_CHARACTERS = 3000
_QUESTION_CHARACTERS = 300
"""The longest question that Slack asks before it sends an answer."""
_LINE_CHARACTERS = 1000
_SECTIONS_WITH_LINES = 3
"""The most sections that are shortened to their heading and first line; of more, as in a digest,
only the headings are shown above the buttons."""
_NOTIFICATION_CHARACTERS = 3000
"""The longest escaped text that notifications show. Slack cuts it at 40,000, and asks for less than
4,000."""
ACTION_PREFIX = "governor."
OPEN_ACTION = "governor.open"
REASON_BLOCK = "governor.reason"
REASON_ACTION = "governor.reason_text"

Block = dict[str, object]


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
            "text": escaped(text, _NOTIFICATION_CHARACTERS),
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
                "the channel of Slack must be given by its id, like C0123456789"
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


def slack_blocks(message: Message, *, interactive: bool) -> list[Block]:
    """Return the blocks of a message: the head, the buttons, what did not fit above them, and the
    foot.

    With `interactive` the answers are buttons, except below an outcome. Without, there is only the
    link. If there is no room for everything, the answers stay: the page has the rest.
    """
    has_buttons = interactive and not message.is_outcome
    answers = list(_answers(message, message.answers if has_buttons else ()))
    lines_left = LINES - 1 - len(_first_lines(message)) - (message.chart is not None)
    brief, whole = _in_brief(message.sections, lines_left)
    head = list(_head(message, brief))
    folded = list(_sections(whole))
    if message.about:
        folded.append(_context(message.about))
    foot = _context(" · ".join(filter(None, (message.why, message.reference))))
    blocks_left = BLOCKS - len(answers) - 1
    if len(head) + len(folded) > blocks_left:
        head = head[: blocks_left - 1]
        folded = folded[: blocks_left - 1 - len(head)]
        folded.append(_context(NOTE_IF_SHORTENED))
    return [*head, *answers, *folded, foot]


def slack_text(message: Message) -> str:
    """Return the text for notifications and screen readers, as escaped mrkdwn: the title, what
    happens, and the instance, owner and cost if they are known, cut to 1,000 characters before they
    are escaped."""
    rows = dict(message.rows)
    about = ", ".join(rows[label] for label in ("Instance", "Owner", "Cost") if label in rows)
    text = f"{message.title} · {message.happens} {about}"
    return escaped(clip(text, _LINE_CHARACTERS), _NOTIFICATION_CHARACTERS)


def hold_blocks(text: str, approval_id: str) -> list[Block]:
    """Return the blocks of an ephemeral text, with a button that holds the approved action."""
    button = _button(Answer.HOLD, approval_id, ANSWER_TEXT[Answer.HOLD])
    return [
        *_texts([_line(text)]),
        {"type": "actions", "block_id": "governor.answers", "elements": [button]},
    ]


def _head(message: Message, sections: Sequence[Section]) -> Iterator[Block]:
    """Yield the blocks above the answers: title, first lines, these sections, and the chart."""
    title = clip(message.title, _HEADER_CHARACTERS) or message.kind.value
    yield {"type": "header", "text": _plain(title)}
    yield from _texts(_first_lines(message))
    yield from _sections(sections)
    if message.chart:
        yield _context(message.chart.line)


def _first_lines(message: Message) -> list[str]:
    """Return the escaped lines below the title, the bold `happens` first."""
    lines = [_line(line) for line in message.lead]
    if message.happens:
        lines.insert(0, f"*{_line(message.happens)}*")
    return lines


def _in_brief(
    sections: Sequence[Section], room: int
) -> tuple[Sequence[Section], Sequence[Section]]:
    """Return the sections to show above the buttons, which take at most about `room` lines, and
    those to show below: the whole of what was shortened above; empty if all fit."""
    if sum(1 + len(section.lines) for section in sections) <= room:
        return sections, ()
    if len(sections) == 1:
        return _one_in_brief(sections[0], room)
    names_alone = len(sections) > _SECTIONS_WITH_LINES
    lines = tuple(
        section.heading if names_alone else _heading_and_first(section) for section in sections
    )
    return [Section("In short", _first_of(lines, room))], sections


def _heading_and_first(section: Section) -> str:
    """Return a section as one line: its heading, its first line, and how many lines follow below.
    Without lines it is the heading alone."""
    if not section.lines:
        return section.heading
    text = f"{section.heading}: {section.lines[0]}"
    others = len(section.lines) - 1
    if others == 0:
        return text
    return f"{text} (and {others} more, below)"


def _one_in_brief(section: Section, room: int) -> tuple[Sequence[Section], Sequence[Section]]:
    """Return one long section shortened to about `room` lines, and a section with its other lines
    to show below the buttons. That is empty if the last lines could be joined into one."""
    kept_count = max(0, room - 2)
    joined = "; ".join(section.lines[kept_count:])
    if len(joined) <= _LINE_CHARACTERS:
        return [Section(section.heading, (*section.lines[:kept_count], joined))], ()
    brief = Section(section.heading, _first_of(section.lines, room))
    whole = Section(section.heading, section.lines[max(1, room - 2) :])
    return [brief], [whole]


def _first_of(lines: tuple[str, ...], room: int) -> tuple[str, ...]:
    """Return the first lines, `room` less two but at least one, and a line with the number of the
    others if there are any."""
    kept = lines[: max(1, room - 2)]
    if len(lines) == len(kept):
        return kept
    return (*kept, f"and {len(lines) - len(kept)} more, below")


def _answers(message: Message, answers: Sequence[Answer]) -> Iterator[Block]:
    """Yield the block of the buttons, and the field for a reason if an exemption needs one. Yield
    nothing without answers and link."""
    buttons = [_answer_button(message, answer) for answer in answers]
    if message.link is not None:
        # The message's own text for the link names answers. It is for messages without the buttons
        # of these answers.
        can_act_here = Answer.APPROVE in answers or Answer.HOLD in answers
        text = _plain("Open its page" if can_act_here else message.button)
        buttons.append(
            {"type": "button", "action_id": OPEN_ACTION, "text": text, "url": message.link}
        )
    if buttons:
        yield {"type": "actions", "block_id": "governor.answers", "elements": buttons}
    if Answer.EXEMPT in answers:
        yield {
            "type": "input",
            "block_id": REASON_BLOCK,
            "optional": True,
            "label": _plain("Reason (needed for: Never ask again)"),
            "element": {
                "type": "plain_text_input",
                "action_id": REASON_ACTION,
                "max_length": 500,
                "placeholder": _plain("Why this instance is needed"),
            },
        }


def _line(text: str) -> str:
    """Return the text escaped for Slack, short enough for a section."""
    # Less than a section holds, because a bullet or bold marks may come around it.
    return escaped(text, _SECTION_CHARACTERS - 100)


def _button(answer: Answer, value: str | None, text: str) -> Block:
    """Return the button of an answer, with this text. Slack sends the value back when it is
    pressed: the id of the approval, for a keep with its end."""
    action = f"{ACTION_PREFIX}{answer.value}"
    return {"type": "button", "action_id": action, "text": _plain(text), "value": value}


def _answer_button(message: Message, answer: Answer) -> Block:
    """Return the button by which a person gives this answer to the message. Slack asks once more
    before it sends an approval."""
    if answer is Answer.KEEP and message.keep_until is not None:
        # The value holds the date that the button shows, so that the answer keeps no longer.
        value = f"{message.approval_id} {int(message.keep_until.timestamp())}"
        return _button(answer, value, message.keep_text)
    button = _button(answer, message.approval_id, ANSWER_TEXT.get(answer, "Keep it"))
    if answer is Answer.APPROVE:
        name = dict(message.rows).get("Instance", message.facts.region)
        question = f"{name}: GPU Governor checks once more, stops it and snapshots its volumes."
        button["style"] = "danger"
        button["confirm"] = {
            "title": _plain("Stop it?"),
            "text": _plain(clip(question, _QUESTION_CHARACTERS)),
            "confirm": _plain("Stop it"),
            "deny": _plain("Go back"),
            "style": "danger",
        }
    return button


def _sections(sections: Iterable[Section]) -> Iterator[Block]:
    """Yield the blocks of the sections, each with a bold heading and its lines as items."""
    for section in sections:
        heading = f"*{escaped(section.heading, 1000)}*"
        items = [f"• {_line(line)}" for line in section.lines]
        yield from _texts([heading, *items])


def _texts(pieces: Iterable[str]) -> Iterator[Block]:
    """Yield blocks with these escaped pieces of text, one a line, as many in a block as it may
    hold; nothing without pieces. Each piece must fit into a block."""
    text = ""
    for piece in pieces:
        if text and len(text) + 1 + len(piece) > _SECTION_CHARACTERS:
            yield {"type": "section", "text": _mrkdwn(text)}
            text = ""
        text = f"{text}\n{piece}" if text else piece
    if text:
        yield {"type": "section", "text": _mrkdwn(text)}


def _context(text: str) -> Block:
    """Return a block of small gray text, without markup."""
    return {"type": "context", "elements": [_plain(clip(text, _CONTEXT_CHARACTERS))]}


def _plain(text: str) -> Block:
    """Return a text object that Slack shows as it is."""
    return {"type": "plain_text", "text": text, "emoji": False}


def _mrkdwn(text: str) -> Block:
    """Return a text object in Slack's markup. Call it only with escaped text."""
    # Verbatim: Slack makes no links or mentions of texts that look like them.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def escaped(text: str, limit: int) -> str:
    """Return the text escaped as Slack asks for, with at most `limit` characters. It is cut between
    characters, never inside an escape."""
    escaped_text = escape(clip(text, limit), quote=False)
    if len(escaped_text) <= limit:
        return escaped_text
    # No escape has more than five characters.
    return escape(clip(text, limit // 5), quote=False)
