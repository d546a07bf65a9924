"""A message as Slack's Block Kit. Limits: docs.slack.dev, "Blocks" and "Block elements".

Names and tags are text that anybody who can launch an instance chooses: everything is escaped, and nothing is
turned into links or mentions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from governor.channels.message import ANSWER_TEXT, Message, Section, Table, clip, one_line
from governor.domain.approval import Answer

BLOCKS = 50
"""Blocks of one message."""
_HEADER, _FIELD, _SECTION, _CONFIRM, _PLACEHOLDER = 150, 2000, 3000, 300, 150
_LINE_CHARACTERS, _CELL_CHARACTERS = 1000, 40
_FALLBACK = 3000
"""Of the text that notifications show; Slack cuts at 40,000 and asks for less than 4,000."""
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
ACTION_PREFIX = "governor."
OPEN_ACTION = "governor.open"
REASON_BLOCK, REASON_ACTION = "governor.reason", "governor.reason_text"

Block = dict[str, object]


def slack_blocks(message: Message, *, interactive: bool) -> list[Block]:
    """The blocks. With `interactive` the answers are buttons of the app, else there is the link alone.

    An outcome has no answers any more, whatever the message says.
    """
    end = list(_end(message, interactive=interactive and not message.is_outcome))
    body = list(_body(message))
    room = BLOCKS - len(end)
    if len(body) > room:
        body = [*body[: room - 1], _context("There is more on the page.")]
    return [*body, *end]


def slack_text(message: Message) -> str:
    """What notifications and screen readers say, as escaped mrkdwn."""
    rows = dict(message.facts.rows())
    about = ", ".join(rows[label] for label in ("Instance", "Owner", "Cost") if label in rows)
    return escaped(one_line(f"{message.title}: {about}", _LINE_CHARACTERS), _FALLBACK)


def _body(message: Message) -> Iterator[Block]:
    title = one_line(message.title, _HEADER) or message.kind.value
    yield {"type": "header", "text": _plain(title)}
    fields = [
        _mrkdwn(f"*{label}*\n{escaped(one_line(value, _LINE_CHARACTERS), _FIELD - 100)}")
        for label, value in message.facts.rows()
    ]
    yield {"type": "section", "fields": fields}
    for section in message.sections:
        yield from _section(section)
    if message.evidence is not None:
        yield from _table(message.evidence)


def _end(message: Message, *, interactive: bool) -> Iterator[Block]:
    buttons: list[Block] = []
    if interactive and message.approval_id:
        buttons = [_answer_button(message, answer, message.approval_id) for answer in message.answers]
        if Answer.EXEMPT in message.answers:
            yield _reason_input()
    if message.link is not None:
        text = _plain(message.link_text)
        buttons.append({"type": "button", "action_id": OPEN_ACTION, "text": text, "url": message.link})
    if buttons:
        yield {"type": "actions", "block_id": "governor.answers", "elements": buttons}
    yield _context(f"{message.stage} · {message.episode}")


def _answer_button(message: Message, answer: Answer, approval_id: str) -> Block:
    button: Block = {
        "type": "button",
        "action_id": f"{ACTION_PREFIX}{answer.value}",
        "text": _plain(ANSWER_TEXT[answer]),
        "value": approval_id,
    }
    if answer is Answer.APPROVE:
        name = dict(message.facts.rows()).get("Instance", message.facts.region)
        question = f"{name}: everything listed under this message's headings will be done."
        button["style"] = "danger"
        button["confirm"] = {
            "title": _plain("Approve?"),
            "text": _plain(one_line(question, _CONFIRM)),
            "confirm": _plain("Approve"),
            "deny": _plain("Go back"),
            "style": "danger",
        }
    return button


def _reason_input() -> Block:
    element: Block = {
        "type": "plain_text_input",
        "action_id": REASON_ACTION,
        "max_length": 500,
        "placeholder": _plain("Why this instance is needed although it looks idle"),
    }
    return {
        "type": "input",
        "block_id": REASON_BLOCK,
        "optional": True,
        "label": _plain("Reason (an exemption needs one)"),
        "element": element,
    }


def _section(section: Section) -> Iterator[Block]:
    """One block, or several where the lines are longer than a block takes."""
    text = f"*{escaped(one_line(section.heading, 200), 1000)}*"
    for line in section.lines:
        piece = f"• {escaped(one_line(line, _LINE_CHARACTERS), _SECTION - 2)}"
        if len(text) + 1 + len(piece) > _SECTION:
            yield {"type": "section", "text": _mrkdwn(text)}
            text = piece
        else:
            text = f"{text}\n{piece}"
    yield {"type": "section", "text": _mrkdwn(text)}


def _table(table: Table) -> Iterator[Block]:
    """Columns in a fixed-width text, which knows no markup at all."""
    rows = [tuple(one_line(cell, _CELL_CHARACTERS) for cell in row) for row in (table.columns, *table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    text = clip("\n".join(line.rstrip() for line in lines), _SECTION)
    caption = {"type": "text", "text": one_line(table.caption, 200) or "Evidence", "style": {"bold": True}}
    yield {
        "type": "rich_text",
        "elements": [
            {"type": "rich_text_section", "elements": [caption]},
            {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": text}]},
        ],
    }


def _context(text: str) -> Block:
    return {"type": "context", "elements": [_plain(one_line(text, _FIELD))]}


def _plain(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def _mrkdwn(text: str) -> Block:
    # Verbatim: Slack makes no links and mentions out of what looks like one.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def escaped(text: str, limit: int, escapes: Mapping[str, str] = _ESCAPES) -> str:
    """Escaped as Slack asks for, and cut between characters, never inside an escape."""
    pieces, length = [], 0
    for character in text:
        piece = escapes.get(character, character)
        length += len(piece)
        if length > limit - 1:
            pieces.append("…")
            break
        pieces.append(piece)
    return "".join(pieces)
