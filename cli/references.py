"""Finds the one thing that a person means by a name, an ID, or the first characters of an ID."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cli.errors import CommandError
from cli.nearest import nearest
from governor.core.units import printable

_SHORT = 8
"""Characters of an id in a list; more where two begin alike."""
_FEWEST = 4
"""Characters of an id that a person types at least."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A thing that can be named by its `id`, or by the start of that, or by one of its `names`.

    `text` describes it to a person who has to choose between several.
    """

    id: str
    names: tuple[str, ...]
    text: str


def short_ids(ids: Sequence[str]) -> dict[str, str]:
    """Return the first characters of each id, as many as tell all of them apart."""
    longest = max(map(len, ids), default=_SHORT)
    length = _SHORT
    while length < longest and len({one[:length] for one in ids}) < len(set(ids)):
        length += 1
    return {one: one[:length] for one in ids}


def find(
    text: str, candidates: Sequence[Candidate], what: str, *, to_read: bool = False
) -> Candidate | None:
    """Return the candidate that this text names, or `None` if it names none.

    A whole id counts before all else. `what` is the plural by which the candidates are called. Who
    only wants to read (`to_read`) may type the first characters of a name, too.

    Raises:
        CommandError: it fits several; the message lists them with their ids.
    """
    for candidate in candidates:
        if candidate.id == text:
            return candidate
    fitting = [candidate for candidate in candidates if _fits(text, candidate)]
    if to_read and not fitting:
        fitting = [candidate for candidate in candidates if _begins_a_name(text, candidate)]
    if len(fitting) > 1:
        raise CommandError(_ambiguous(text, fitting, candidates, what))
    return fitting[0] if fitting else None


def _fits(text: str, candidate: Candidate) -> bool:
    if text in candidate.names:
        return True
    return len(text) >= _FEWEST and candidate.id.startswith(text)


def _begins_a_name(text: str, candidate: Candidate) -> bool:
    return len(text) >= _FEWEST and any(name.startswith(text) for name in candidate.names)


def _ambiguous(
    text: str, fitting: Sequence[Candidate], candidates: Sequence[Candidate], what: str
) -> str:
    shorts = short_ids([candidate.id for candidate in candidates])
    lines = [f"{printable(text)!r} fits {len(fitting)} {what}. Name one by its ID:"]
    for candidate in fitting:
        lines.append(f"  {shorts[candidate.id]}  {printable(candidate.text)}")
    return "\n".join(lines)


def suggestion(text: str, candidates: Sequence[Candidate]) -> str:
    """Return the question after a text that names nothing; an empty text without a guess."""
    names: list[str] = []
    for candidate in candidates:
        names += candidate.names
    return printable(nearest(text, names))
