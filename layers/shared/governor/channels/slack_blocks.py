"""A message as Slack's Block Kit. Limits: docs.slack.dev, "Blocks" and "Block elements".

Names and tags are text that anybody who can launch an instance chooses: everything is escaped, and nothing is
turned into links or mentions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from governor.channels.message import ANSWER_TEXT, CUT, Message, clip
from governor.domain.alerts.alert import Section
from governor.domain.approvals.approval import Answer

LINES = 12
"""Before the buttons, at most."""
BLOCKS = 50
"""Blocks of one message."""
_HEADER, _FIELD, _SECTION, _CONFIRM = 150, 2000, 3000, 300
_LINE_CHARACTERS = 1000
_FALLBACK = 3000
"""Characters of the text that notifications show; Slack cuts at 40,000 and asks for less than 4,000."""
ACTION_PREFIX = "governor."
OPEN_ACTION = "governor.open"
REASON_BLOCK, REASON_ACTION = "governor.reason", "governor.reason_text"

Block = dict[str, object]


def slack_blocks(message: Message, *, interactive: bool) -> list[Block]:
    """Return the blocks. With `interactive` the answers are buttons of the app, else there is the link alone.

    An outcome has no answers any more, whatever the message says. Details and evidence are on the page.
    Where there is no room for all, the answers stay.
    """
    offered = message.answers if interactive and not message.is_outcome else ()
    answers = list(_answers(message, offered))
    foot = _context(" · ".join(filter(None, (message.why, message.reference))))
    lines = LINES - 1 - len(_first(message)) - bool(message.chart)
    brief, whole = _in_brief(message.sections, lines)
    head, room = list(_head(message, brief)), BLOCKS - len(answers) - 1
    folded = [*_sections(whole), *([_context(message.about)] if message.about else [])]
    if len(head) + len(folded) > room:
        head = head[: room - 1]
        folded = [*folded[: room - 1 - len(head)], _context(CUT)]
    return [*head, *answers, *folded, foot]


def slack_text(message: Message) -> str:
    """Return what notifications and screen readers say, as escaped mrkdwn."""
    rows = dict(message.rows)
    about = ", ".join(rows[label] for label in ("Instance", "Owner", "Cost") if label in rows)
    text = f"{message.title} · {message.happens} {about}"
    return escaped(clip(text, _LINE_CHARACTERS), _FALLBACK)


def hold_blocks(text: str, approval_id: str) -> list[Block]:
    button = _button(Answer.HOLD, approval_id, ANSWER_TEXT[Answer.HOLD])
    return [*_texts([_line(text)]), {"type": "actions", "block_id": "governor.answers", "elements": [button]}]


def _head(message: Message, sections: Sequence[Section]) -> Iterator[Block]:
    """Everything a reader needs before the buttons, in at most `LINES` lines."""
    yield {"type": "header", "text": _plain(clip(message.title, _HEADER) or message.kind.value)}
    yield from _texts(_first(message))
    yield from _sections(sections)
    if message.chart:
        yield _context(message.chart)


def _first(message: Message) -> list[str]:
    first = [f"*{_line(message.happens)}*"] if message.happens else []
    return [*first, *map(_line, message.lead)]


def _in_brief(sections: Sequence[Section], room: int) -> tuple[Sequence[Section], Sequence[Section]]:
    """Return the sections in so many lines, and what has to stand whole below the buttons for that."""
    if sum(1 + len(one.lines) for one in sections) <= room:
        return sections, ()
    heading, lines = "In short", tuple(one.heading for one in sections)
    if len(sections) == 1:
        heading, lines = sections[0].heading, sections[0].lines
        kept, rest = lines[: max(0, room - 2)], "; ".join(lines[max(0, room - 2) :])
        if len(rest) <= _LINE_CHARACTERS:
            return [Section(heading, (*kept, rest))], ()
    named = lines[: max(1, room - 2)]
    more = (f"and {len(lines) - len(named)} more, below",) if len(lines) > len(named) else ()
    return [Section(heading, (*named, *more))], sections


def _answers(message: Message, answers: Sequence[Answer]) -> Iterator[Block]:
    buttons = [_answer_button(message, answer) for answer in answers]
    if message.link is not None:
        # Beside the answers it names what they lack.
        enough = {Answer.APPROVE, Answer.HOLD} & set(answers)
        text = _plain("Open its page" if enough else message.button)
        buttons.append({"type": "button", "action_id": OPEN_ACTION, "text": text, "url": message.link})
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
                "placeholder": _plain("Why this instance is needed although it looks idle"),
            },
        }


def _line(text: str) -> str:
    return escaped(text, _SECTION - 100)


def _button(answer: Answer, value: str | None, text: str) -> Block:
    action = f"{ACTION_PREFIX}{answer.value}"
    return {"type": "button", "action_id": action, "text": _plain(text), "value": value}


def _answer_button(message: Message, answer: Answer) -> Block:
    if answer is Answer.KEEP and message.keep_until is not None:
        # With the date that it names: it does what it says whenever it is pressed.
        return _button(
            answer, f"{message.approval_id} {int(message.keep_until.timestamp())}", message.keep_text
        )
    button = _button(answer, message.approval_id, ANSWER_TEXT.get(answer, "Keep it"))
    if answer is Answer.APPROVE:
        name = dict(message.rows).get("Instance", message.facts.region)
        question = f"{name}: GPU Governor checks once more, stops it and snapshots its volumes."
        button["style"] = "danger"
        button["confirm"] = {
            "title": _plain("Stop it?"),
            "text": _plain(clip(question, _CONFIRM)),
            "confirm": _plain("Stop it"),
            "deny": _plain("Go back"),
            "style": "danger",
        }
    return button


def _sections(sections: Iterable[Section]) -> Iterator[Block]:
    for one in sections:
        heading = f"*{escaped(one.heading, 1000)}*"
        yield from _texts([heading, *(f"• {_line(line)}" for line in one.lines)])


def _texts(pieces: Iterable[str]) -> Iterator[Block]:
    """Return one block, or several where the lines are longer than a block takes."""
    text = ""
    for piece in pieces:
        if text and len(text) + 1 + len(piece) > _SECTION:
            yield {"type": "section", "text": _mrkdwn(text)}
            text = ""
        text = f"{text}\n{piece}" if text else piece
    if text:
        yield {"type": "section", "text": _mrkdwn(text)}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [_plain(clip(text, _FIELD))]}


def _plain(text: str) -> Block:
    return {"type": "plain_text", "text": text, "emoji": False}


def _mrkdwn(text: str) -> Block:
    # Verbatim: Slack makes no links and mentions out of what looks like one.
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def escaped(text: str, limit: int) -> str:
    """Escaped as Slack asks for, and cut between characters, never inside an escape."""
    found = escape(clip(text, limit), quote=False)
    # No character takes more than five.
    return found if len(found) <= limit else escape(clip(text, limit // 5), quote=False)
