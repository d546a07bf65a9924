"""One message to people, as every channel renders it; the protocol of a channel, and its errors.

An error names the status, never an address or a token. For the same reason an error of a library is
not chained: only the name of its class is repeated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from governor.alerts.model import ENDS, AlertKind, Facts, Section, Severity
from governor.approvals.messages.questions import stage_name
from governor.approvals.model.approval import Answer
from governor.core.errors import GovernorError
from governor.core.units import UtcDatetime, clip, printable

ANSWER_TEXT = {Answer.APPROVE: "Stop it", Answer.EXEMPT: "Never ask again", Answer.HOLD: "Hold it"}
"""The text of each button, at most 75 characters as Slack allows. The button of a keep shows the
`keep_text` of its message."""

NOTE_IF_SHORTENED = "There is more on the page."
"""The note under a message that does not show everything."""
_LINE_CHARACTERS = 1024
_SHORT_LINE_CHARACTERS = 300
_HEADING_CHARACTERS = 200
_CELL_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Table:
    """Evidence in figures, already formatted. Every row is as long as `columns`."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


BARS = "▁▂▃▄▅▆▇█"
"""Bars for 0 to 100%."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Measurements as a line of block characters, which are shown in the color of the text. Mail
    draws them as cells of a table, which need no font.

    `title` stands before the bars on one line; `caption` stands above them if there is room.
    """

    title: str
    bars: str
    caption: str
    legend: str = ""

    @property
    def levels(self) -> tuple[int, ...]:
        """Return the height of each bar, from 1 to 8; 0 for one without data."""
        return tuple(BARS.find(bar) + 1 for bar in self.bars)

    @property
    def line(self) -> str:
        """Return title, bars and legend (if there is one) on one line: `Busiest GPU by hour, last
        24 h: ▁▁▃ (· no data)`."""
        line = f"{self.title}: {self.bars}"
        if self.legend:
            return f"{line} ({self.legend})"
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of an episode and stage.

    Each of its texts is made one line of bounded length, because anybody who can launch an instance
    chooses its names and tags.

    Channels show it in this order: `title`, `happens` (what happens by itself, and when), `lead`,
    `sections`, `chart`, the link and the answers. `details`, `evidence` and `why` (a person gets
    it) come last, and may be folded. `acts` is true if something happens unless somebody prevents
    it. `data` are the exact figures.

    `link`, which may be personal, leads to the approval page or the record. `approval_id` and
    `answers` are for channels with buttons, and hold no answer that a button must not give.
    `thread` is the `Delivered.thread` of the episode's first message.
    """

    title: str
    happens: str = ""
    lead: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    details: tuple[Section, ...] = ()
    button: str = "See the record"
    acts: bool = False
    kind: AlertKind
    severity: Severity
    facts: Facts
    episode: str
    stage: str
    at: UtcDatetime
    why: str = ""
    data: Mapping[str, object] = field(default_factory=dict, repr=False)
    chart: Chart | None = None
    evidence: Table | None = None
    link: str | None = field(default=None, repr=False)
    approval_id: str | None = None
    answers: tuple[Answer, ...] = ()
    keep_until: UtcDatetime | None = None
    keep_text: str = ""
    thread: str | None = None

    def __post_init__(self) -> None:
        """Make each text one line of bounded length."""
        for name in ("title", "happens", "lead", "sections", "details", "why", "evidence"):
            object.__setattr__(self, name, _on_lines(getattr(self, name)))

    @property
    def is_outcome(self) -> bool:
        """Return whether the message says how its episode ended. A channel then changes the first
        message of the episode if it can."""
        return self.kind in ENDS

    @property
    def about(self) -> str:
        """Return the facts about the instance as one line; empty if there are none."""
        parts: list[str] = []
        for label, value in self.rows:
            needs_label = label in ("Owner", "Project", "Cost")
            parts.append(f"{label}: {value}" if needs_label else value)
        return " · ".join(parts)

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """Return the facts about the instance as pairs of a label and a text, in reading order."""
        rows = self.facts.rows()
        return tuple((label, one_line(value, _LINE_CHARACTERS)) for label, value in rows)

    @property
    def reference(self) -> str:
        """Return the stage and episode to search records for; an empty text for a message of no
        episode."""
        if self.stage == self.episode:
            return ""
        return one_line(f"{stage_name(self.stage)} · {self.episode}", _LINE_CHARACTERS)

    @property
    def delivery_key(self) -> str:
        """Return the key of the message: stage and episode. A repeat has the same key, by which a
        receiver recognizes it."""
        return f"{self.stage}-{self.episode}"

    def shortened(self) -> Iterator[Message]:
        """Yield the message itself, then three versions, each shorter than the one before, for
        channels that limit the size: the first that fits is sent.

        The second has no evidence. The third has no details either, and of the lead and of each of
        the first 8 sections only 5 lines of 300 characters. The last has no lead and no sections.
        """
        yield self
        yield replace(self, evidence=None)
        brief_sections = []
        for section in self.sections[:8]:
            lines = _on_lines(section.lines[:5], _SHORT_LINE_CHARACTERS)
            brief_sections.append(replace(section, lines=lines))
        brief = replace(
            self,
            lead=_on_lines(self.lead[:5], _SHORT_LINE_CHARACTERS),
            sections=tuple(brief_sections),
            details=(),
            evidence=None,
        )
        yield brief
        yield replace(brief, lead=(), sections=())


@dataclass(frozen=True, slots=True)
class Delivered:
    """The record that a channel has taken a message.

    `delivery_id` is the channel's id of the message. Later messages of the episode name `thread`,
    and the channel keeps them together; `None` if the channel has no threads.
    """

    delivery_id: str
    thread: str | None = None


class DeliveryError(GovernorError):
    """A channel did not take a message."""


class DeliveryRetryable(DeliveryError):
    """The same delivery may succeed later. `retry_after_seconds` is the wait that the channel asked
    for; `None` if it named none."""

    def __init__(self, message: str, retry_after_seconds: int | None = None) -> None:
        """Keep the wait that the channel asked for, in seconds; `None` if it named none."""
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class DeliveryRefused(DeliveryError):
    """The same delivery would fail again; the error's text says what to do."""


class CallbackRefused(GovernorError):
    """A request that claims to come from a chat system was refused; the error's text says why."""


class Channel(Protocol):
    """A way to people. A message is taken once the channel's service has it; perhaps nobody has
    read it."""

    name: str
    """Its name in `governor.notify.registry.CHANNELS`; safe to record and to log."""

    def takes(self, message: Message) -> bool:
        """Return whether this channel is for messages like this one; one that it is not for is not
        sent and not recorded. By default it is for all messages."""
        del message
        return True

    def send(self, message: Message) -> Delivered:
        """Send the message; return once the channel has taken it. Raises: DeliveryRetryable,
        DeliveryRefused."""
        ...


def _on_lines(part: Any, limit: int = _LINE_CHARACTERS) -> Any:
    """Return this part of a message with each of its texts on one line, of at most `limit`
    characters (headings, captions and cells have limits of their own). Anything but texts, sections
    and tables is returned as it is."""
    match part:
        case str():
            return one_line(part, limit)
        case tuple() | list():
            return tuple(_on_lines(member, limit) for member in part)
        case Section():
            heading = one_line(part.heading, _HEADING_CHARACTERS)
            return replace(part, heading=heading, lines=_on_lines(part.lines))
        case Table():
            columns = _on_lines(part.columns, _CELL_CHARACTERS)
            rows = _on_lines(part.rows, _CELL_CHARACTERS)
            return Table(one_line(part.caption, _HEADING_CHARACTERS), columns, rows)
    return part


def one_line(text: str, limit: int) -> str:
    """Return the text without control characters, shortened to `limit` characters."""
    return clip(printable(text), limit)
