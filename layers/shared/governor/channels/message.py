"""One message to people, as every channel renders it, and the Protocol of a channel with its
errors.

Errors say the status, never an address or a token. So the foreign error is not chained; its class
name is in the message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from governor.domain.alerts.alert import ENDS, AlertKind, Facts, Section, Severity
from governor.domain.approvals.approval import Answer
from governor.domain.approvals.messages import stage_name
from governor.domain.units import UtcDatetime, printable
from governor.errors import GovernorError

ANSWER_TEXT = {Answer.APPROVE: "Stop it", Answer.EXEMPT: "Never ask again", Answer.HOLD: "Hold it"}
"""The text of each button, at most 75 characters as Slack allows; that of a keep is its message's
own."""

CUT = "There is more on the page."
_LINE, _SHORT, _HEADING, _CELL = 1024, 300, 200, 100
"""Characters."""


@dataclass(frozen=True, slots=True)
class Table:
    """Evidence in figures, already formatted. Every row is as long as `columns`."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of an episode and stage, every text of it on one line of bounded length: names
    and tags are text that anybody who can launch an instance chooses.

    Reading order: title, `happens` (by itself, and when), `lead`, `sections`, the picture or
    `chart`, the link and the answers; then what may be folded: `details`, `evidence`, and `why`
    somebody gets it. `acts`: something happens unless somebody prevents it. `data` are the exact
    figures.

    `link`, which may be personal, leads to the approval page or the record. `approval_id` and
    `answers` are for channels that take an answer themselves, and hold none that must not be given
    there. `thread` is what `Delivered.thread` of the first message said.
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
    chart: str = ""
    """The day before as one line of text, for channels without pictures."""
    evidence: Table | None = None
    picture_png: bytes | None = field(default=None, repr=False)
    picture_alt: str = ""
    link: str | None = field(default=None, repr=False)
    approval_id: str | None = None
    answers: tuple[Answer, ...] = ()
    keep_until: UtcDatetime | None = None
    keep_text: str = ""
    thread: str | None = None

    def __post_init__(self) -> None:
        for name in ("title", "happens", "lead", "sections", "details", "why", "evidence"):
            object.__setattr__(self, name, _on_lines(getattr(self, name)))

    @property
    def is_outcome(self) -> bool:
        """Say whether the question is over: a channel that can changes the first message."""
        return self.kind in ENDS

    @property
    def about(self) -> str:
        named = ("Owner", "Project", "Cost")
        return " · ".join(
            f"{label}: {value}" if label in named else value for label, value in self.rows
        )

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        return tuple((label, one_line(value, _LINE)) for label, value in self.facts.rows())

    @property
    def reference(self) -> str:
        """The term to search records for, where it is about an episode."""
        named = f"{stage_name(self.stage)} · {self.episode}"
        return "" if self.stage == self.episode else one_line(named, _LINE)

    @property
    def delivery_key(self) -> str:
        """The same for the same message, so that a repeated delivery is recognized."""
        return f"{self.stage}-{self.episode}"

    def shortened(self) -> Iterator[Message]:
        """The message, then with ever less of it, for channels that take only so much."""
        brief = replace(
            self,
            lead=_on_lines(self.lead[:5], _SHORT),
            sections=tuple(
                Section(one.heading, _on_lines(one.lines[:5], _SHORT)) for one in self.sections[:8]
            ),
            details=(),
            evidence=None,
        )
        yield from (self, replace(self, evidence=None), brief, replace(brief, lead=(), sections=()))


@dataclass(frozen=True, slots=True)
class Delivered:
    """A channel has taken the message. `delivery_id` is what the channel calls it; `thread` what
    later messages of the episode must name to be kept together with it, if the channel has
    threads."""

    delivery_id: str
    thread: str | None = None


class DeliveryError(GovernorError):
    """A channel did not take a message."""


class DeliveryRetryable(DeliveryError):
    """The same delivery may succeed later: not before `retry_after_seconds`, or `None` when nobody
    said."""

    def __init__(self, message: str, retry_after_seconds: int | None = None) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class DeliveryRefused(DeliveryError):
    """Repeating the same delivery never helps; the message says what to do."""


class CallbackRefused(GovernorError):
    """A request that claims to come from a chat system was not let through; the message says
    why."""


class Channel(Protocol):
    """A way to people. Taken means taken by the channel's own service, not read by anybody."""

    name: str
    """`email`, `slack`, `teams`, `pagerduty` or `webhook`; safe to record and to log."""

    def takes(self, message: Message) -> bool:
        """Say whether this channel is for messages like this one. By default it is for all."""
        del message
        return True

    def send(self, message: Message) -> Delivered:
        """Return when the channel has taken the message. Raises: DeliveryRetryable;
        DeliveryRefused."""
        ...


def _on_lines(part: Any, limit: int = _LINE) -> Any:
    match part:
        case str():
            return one_line(part, limit)
        case tuple() | list():
            return tuple(_on_lines(one, limit) for one in part)
        case Section():
            return Section(one_line(part.heading, _HEADING), _on_lines(part.lines))
        case Table():
            columns, rows = _on_lines(part.columns, _CELL), _on_lines(part.rows, _CELL)
            return Table(one_line(part.caption, _HEADING), columns, rows)
    return part


def one_line(text: str, limit: int) -> str:
    return clip(printable(text), limit)


def clip(text: str, limit: int) -> str:
    """At most `limit` characters; the last one is an ellipsis when something was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
