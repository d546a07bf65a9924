"""Writes messages as Slack's Block Kit, with their buttons.

Anybody who launches an instance chooses its name and tags. So all text is escaped, and no text may
become a link or a mention. Limits: docs.slack.dev, "Blocks" and "Block elements".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from governor.alerts.model import AlertKind, Section
from governor.approvals.model.approval import Answer
from governor.core.units import clip, plural
from governor.notify.message import ANSWER_TEXT, NOTE_IF_SHORTENED, Message

LINES = 12
"""About the most lines before the buttons."""
BLOCKS = 50
"""The most blocks of a message."""
_HEADER_CHARACTERS = 150
_CONTEXT_CHARACTERS = 2000
_SECTION_CHARACTERS = 3000
_QUESTION_CHARACTERS = 300
"""The longest question that Slack asks before it sends an answer."""
_LINE_CHARACTERS = 1000
_BETWEEN_JOINED = " · "
"""Stands between lines that are joined into one. A `;` may stand in a line of its own."""
_SECTIONS_WITH_LINES = 3
"""The most sections that are shortened to their heading and first line; of more, as in a digest,
only the headings are shown above the buttons."""
NOTIFICATION_CHARACTERS = 3000
"""The longest escaped text that notifications show. Slack cuts it at 40,000, and asks for less than
4,000."""
ACTION_PREFIX = "governor."
OPEN_ACTION = "governor.open"
REASON_BLOCK = "governor.reason"
REASON_ACTION = "governor.reason_text"

Block = dict[str, object]


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
    if message.kind is AlertKind.POLICY_CHANGED:
        # Nobody answers below it, and joined lines of a diff could not be read.
        brief, whole = message.sections, ()
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
    if message.facts.usd_per_day is None:
        # Without its label, "not known" would seem to be about the owner.
        rows.pop("Cost", None)
    values = []
    for label in ("Instance", "Owner", "Cost"):
        if label in rows:
            values.append(rows[label])
    about = ", ".join(values)
    text = f"{message.title} · {message.happens} {about}"
    return escaped(clip(text, _LINE_CHARACTERS), NOTIFICATION_CHARACTERS)


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
    """Return the escaped lines below the title, the bold `happens` first. It is not bold if it
    contains a `*`, which would end the bold part."""
    lines = [_line(line) for line in message.lead]
    if message.happens:
        happens = _line(message.happens)
        lines.insert(0, happens if "*" in happens else f"*{happens}*")
    return lines


def _in_brief(
    sections: Sequence[Section], room: int
) -> tuple[Sequence[Section], Sequence[Section]]:
    """Return the sections to show above the buttons, which take at most about `room` lines, and
    those to show below, empty if nothing is.

    If all fit, all stand above. One long section is shortened, and only its other lines stand
    below. Several become one section above, and all of them stand below. Up to
    `_SECTIONS_WITH_LINES` have a line each, with their heading and first line, however little room
    there is: such a line may decide about the answer. More have only their headings there.
    """
    if sum(1 + len(section.lines) for section in sections) <= room:
        return sections, ()
    if len(sections) == 1:
        return _one_in_brief(sections[0], room)
    if len(sections) <= _SECTIONS_WITH_LINES:
        lines = tuple(_heading_and_first(section) for section in sections)
        return [Section("In short", lines)], sections
    headings = tuple(_heading_and_count(section) for section in sections)
    return [Section("Listed below", _first_of(headings, room))], sections


def _heading_and_count(section: Section) -> str:
    """Return the heading of a section with the number of its lines, as in `What is lost (4)`."""
    return f"{section.heading} ({len(section.lines)})"


def _heading_and_first(section: Section) -> str:
    """Return a section as one line: its heading, its first line, and how many lines follow below.
    Without lines it is the heading alone."""
    if not section.lines:
        return section.heading
    text = f"{section.heading}: {section.lines[0]}"
    others = len(section.lines) - 1
    if others == 0:
        return text
    return f"{text} (and {_more_lines(others)})"


def _more_lines(count: int) -> str:
    """Return how many lines stand below the buttons, such as `20 more lines below`."""
    return f"{plural(count, 'more line')} below"


def _one_in_brief(section: Section, room: int) -> tuple[Sequence[Section], Sequence[Section]]:
    """Return one section shortened to about `room` lines, and its other lines as a section to show
    below the buttons. There is none if the other lines are short enough to stand as one last line,
    joined by `_BETWEEN_JOINED`. Call it for a section that does not fit."""
    # Two lines go to the heading and to the last line, about the others.
    kept_count = max(0, room - 2)
    others = section.lines[kept_count:]
    joined = _BETWEEN_JOINED.join(others)
    can_be_told_apart = all(_BETWEEN_JOINED not in line for line in others)
    if can_be_told_apart and len(joined) <= _LINE_CHARACTERS:
        return [Section(section.heading, (*section.lines[:kept_count], joined))], ()
    brief = Section(section.heading, _first_of(section.lines, room))
    rest = Section(section.heading, section.lines[max(1, room - 2) :])
    return [brief], [rest]


def _first_of(lines: tuple[str, ...], room: int) -> tuple[str, ...]:
    """Return the first lines, `room` less two but at least one, and a line with the number of the
    others if there are any."""
    kept = lines[: max(1, room - 2)]
    if len(lines) == len(kept):
        return kept
    return (*kept, f"and {_more_lines(len(lines) - len(kept))}")


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
            "label": _plain("Reason, if you choose Never ask again"),
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
    """Yield the blocks of the sections, each with a bold heading and its lines, which have
    bullets unless they are text."""
    for section in sections:
        heading = f"*{escaped(section.heading, 1000)}*"
        bullet = "" if section.is_text else "• "
        items = [f"{bullet}{_line(line)}" for line in section.lines]
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
