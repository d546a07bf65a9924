"""Posts messages to Microsoft Teams as an Adaptive Card 1.4, through a workflow ("When a Teams
webhook request is received").

The text blocks of a card read Markdown, so a name could become a link. All text stands in text runs
instead, which do not read Markdown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from governor.alerts.model import Section, Severity
from governor.core.units import clip
from governor.notify.message import NOTE_IF_SHORTENED, Delivered, Message
from governor.notify.transport import HttpsChannel

_PAYLOAD_BYTES = 26_000
"""The largest payload. A workflow takes 28 KB (learn.microsoft.com, "Create incoming webhooks");
2 KB are a margin."""
_TITLE_CHARACTERS = 250
_LINE_CHARACTERS = 1024
"""The longest line of a message, so the end of none is lost: it often says what to do."""
_SHORT_LINE_CHARACTERS = 500
"""The longest first line that a shortened message keeps, and the longest about the instance. Even
emojis, which take twelve bytes in JSON, then fit into `_PAYLOAD_BYTES` and the margin."""
_HEADING_CHARACTERS = 100
_CELL_CHARACTERS = 100
_COLORS = {Severity.INFO: "Default", Severity.WARNING: "Warning", Severity.CRITICAL: "Attention"}
_DETAILS = "details"

Element = dict[str, object]


class TeamsChannel(HttpsChannel):
    """Posts a card to a workflow. A workflow cannot change a card, so an outcome is a new card."""

    name = "teams"

    def send(self, message: Message) -> Delivered:
        """Post the card. A workflow gives it no id, so the delivery id is the message's own key.
        Raises: DeliveryRetryable, DeliveryRefused."""
        self.post(json.dumps(teams_envelope(message)))
        return Delivered(message.delivery_key)


def teams_envelope(message: Message) -> Element:
    """Return the message as a card in the envelope that a workflow takes, shortened until it fits
    into `_PAYLOAD_BYTES`, or as short as it gets."""
    for shown in message.shortened():
        envelope = _envelope(shown, "" if shown is message else NOTE_IF_SHORTENED)
        if len(json.dumps(envelope)) <= _PAYLOAD_BYTES:
            break
    return envelope


def _envelope(message: Message, note_if_shortened: str) -> Element:
    """Return the message as a card in its envelope, with a button for its link and one that unfolds
    its details. `note_if_shortened` is an empty text if the message is whole."""
    body = list(_body(message, note_if_shortened))
    card: Element = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "fallbackText": clip(message.title, _TITLE_CHARACTERS),
        "msteams": {"width": "Full"},
        "body": body,
    }
    details = list(_details(message))
    actions: list[Element] = []
    if message.link is not None:
        actions.append({"type": "Action.OpenUrl", "title": message.button, "url": message.link})
    if details:
        body.append({"type": "Container", "id": _DETAILS, "isVisible": False, "items": details})
        actions.append(
            {"type": "Action.ToggleVisibility", "title": "Details", "targetElements": [_DETAILS]}
        )
    if actions:
        card["actions"] = actions
    attachment = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _body(message: Message, note_if_shortened: str) -> Iterator[Element]:
    """Yield the elements that are shown without a click: the title in the color of the severity;
    then what happens, the lead, the sections, the chart, the facts about the instance, the note and
    the reason of the message, each only if there is one. Long lines are clipped."""
    title = _run(message.title, _TITLE_CHARACTERS, size="Large", weight="Bolder")
    yield _text({**title, "color": _COLORS[message.severity]})
    if message.happens:
        limit = _SHORT_LINE_CHARACTERS if note_if_shortened else _LINE_CHARACTERS
        yield _text(_run(message.happens, limit, weight="Bolder"))
    for line in message.lead:
        yield {**_text(_run(line, _LINE_CHARACTERS)), "spacing": "Small"}
    yield from _sections(message.sections)
    if message.chart:
        yield _text(_run(message.chart.line, _SHORT_LINE_CHARACTERS))
    if message.about:
        yield _text(_run(message.about, _SHORT_LINE_CHARACTERS, size="Small"))
    if note_if_shortened:
        yield _text(_run(note_if_shortened, _SHORT_LINE_CHARACTERS))
    if message.why:
        why = _run(message.why, _SHORT_LINE_CHARACTERS, size="Small", isSubtle=True)
        yield {**_text(why), "separator": True}


def _sections(sections: Iterable[Section]) -> Iterator[Element]:
    """Yield a text block for each heading and each line of these sections."""
    for section in sections:
        heading = _run(section.heading, _HEADING_CHARACTERS, weight="Bolder")
        yield {**_text(heading), "separator": True}
        for line in section.lines:
            yield {**_text(_run(line, _LINE_CHARACTERS)), "spacing": "Small"}


def _details(message: Message) -> Iterator[Element]:
    """Yield the elements that the button `Details` unfolds; none if the message has neither details
    nor evidence."""
    yield from _sections(message.details)
    if message.evidence is not None:
        caption = _run(message.evidence.caption, _HEADING_CHARACTERS, weight="Bolder")
        yield {**_text(caption), "separator": True}
        yield _row(message.evidence.columns, weight="Bolder")
        for row in message.evidence.rows:
            yield {**_row(row), "spacing": "Small"}


def _row(cells: Sequence[str], **style: str) -> Element:
    """Return a row of a table with these cells; `style` is that of their text."""
    columns: list[Element] = []
    for cell in cells:
        text = _text(_run(cell, _CELL_CHARACTERS, **style))
        columns.append({"type": "Column", "width": "stretch", "items": [text]})
    return {"type": "ColumnSet", "columns": columns}


def _text(*runs: Element) -> Element:
    """Return a block of these text runs."""
    return {"type": "RichTextBlock", "inlines": list(runs)}


def _run(text: str, limit: int, **style: str | bool) -> Element:
    """Return a text run of at most `limit` characters; a space for an empty text. `style` are
    properties of an Adaptive Card's `TextRun`, such as `weight`."""
    return {"type": "TextRun", "text": clip(text, limit) or " ", **style}
