"""Messages about versions of the policy: who wrote one, what it changes, and whose acceptance is
missing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Literal

from governor.alerts.model import EVERYWHERE, Alert, Owner, Severity
from governor.alerts.templates import alert_from_template
from governor.core.hashing import short_hash
from governor.core.instance import Target
from governor.core.units import UtcDatetime, all_listed, clip, listed, some_of
from governor.policy.rules.consent import Unaccepted

_MOST_LINES = 40
"""The most lines of a diff in one message."""
_MOST_CHARACTERS = 160
"""The most characters of each of these lines."""
_MOST_COMPARED = 3_000
"""Lines of both documents together. The time of a diff grows with their square: it takes seconds
for the longest."""
_PART = re.compile(r"@@ -\S+ \+(?P<first>\d+)\S* @@")
_MOST_SETTINGS_NAMED = 12
"""The most risky settings that one message lists."""
State = Literal["in-force", "waits", "refused", "writer", "parameter"]


def writer_text(writer: str, author: str) -> str:
    """Return who wrote a version and how that is known, as text. `writer` is the ARN that
    CloudTrail recorded, and goes first; `author` is the author's own statement. Either may be
    empty: `somebody unknown`."""
    if writer:
        return f"{writer} (CloudTrail)"
    events = "turn on CloudTrail data events for the policy's bucket"
    if author:
        return f"{author}, as stated by the writer (to verify this, {events})"
    return f"somebody unknown (to see who writes later versions, {events})"


@dataclass(frozen=True, slots=True)
class Difference:
    """The changes between two documents: the lines of a diff, or a `summary` if it is too long.

    Both are empty if nothing changed.
    """

    lines: tuple[str, ...] = ()
    summary: str = ""


def difference(before: str, after: str) -> Difference:
    """Return a unified diff of two documents: at most 40 lines of 160 printable characters, and how
    many more lines there are.

    Return a `summary` with counts of lines instead if the documents are too long, and an empty
    `Difference` if they are the same.
    """
    old_lines = before.splitlines()
    new_lines = after.splitlines()
    if len(old_lines) + len(new_lines) > _MOST_COMPARED:
        return Difference(summary=_count_of_changes(old_lines, new_lines))
    # The first two lines of a unified diff name the files.
    diff_lines = list(unified_diff(old_lines, new_lines, n=1, lineterm=""))
    changes = diff_lines[2:]
    lines = [clip(_shown(line), _MOST_CHARACTERS) for line in changes[:_MOST_LINES]]
    if len(changes) > _MOST_LINES:
        lines.append(f"... and {len(changes) - _MOST_LINES} more lines")
    return Difference(lines=tuple(lines))


def _count_of_changes(old_lines: Sequence[str], new_lines: Sequence[str]) -> str:
    """Return the sentence that says how many lines were removed and added. A line that moved counts
    as neither."""
    lines_before = Counter(old_lines)
    lines_after = Counter(new_lines)
    removed = (lines_before - lines_after).total()
    added = (lines_after - lines_before).total()
    return f"Changes: {removed} lines removed and {added} added, too many lines for a diff."


def _shown(line: str) -> str:
    """Return a line of a unified diff as people read it: `line 4:` in place of the line that names
    the lines of a part, as in `@@ -4 +4,6 @@`."""
    part = _PART.match(line)
    if part:
        return f"line {part['first']}:"
    return _printable(line)


def _printable(line: str) -> str:
    """Return a line with spaces in place of characters that cannot be printed."""
    return "".join(character if character.isprintable() else " " for character in line)


def version_alert(
    hub: Target,
    version: str,
    writer: str,
    state: State,
    now: UtcDatetime,
    *,
    risky: Sequence[str] = (),
    supporters: Collection[str] = (),
    consents: Sequence[str] = (),
    changes: Difference = Difference(),
    why_refused: str = "",
) -> Alert:
    """Return the message that a version of the policy is in a state: in force, waiting, refused, or
    only its `writer` became known. For `parameter`, the SSM parameter changed. It is a warning for
    risky settings and the states `refused` and `parameter`.

    `writer` is the text of `writer_text`. `risky` are the paths of risky settings, `supporters` the
    addresses of people who wrote or accepted the version, `consents` the sentences of
    `consent_line`, `changes` the difference from the text in force, `why_refused` the mistakes; all
    empty if there are none.
    """
    facts = {
        EVERYWHERE: True,
        "version": version,
        "state": state,
        "written_by": writer,
        "risky": list(risky),
    }
    words = {
        "which": f": {listed(risky, 3)}" if risky else "",
        "behind": ", ".join(sorted(supporters)) or "nobody",
        "listed": some_of(risky, _MOST_SETTINGS_NAMED),
        "consents": consents,
        "changes": changes,
        "why_refused": why_refused,
    }
    needs_attention = bool(risky) or state in ("refused", "parameter")
    severity = Severity.WARNING if needs_attention else None
    return alert_from_template(
        "policy", hub, f"policy-{version}-{state}", now, facts, words, severity=severity
    )


def consent_line(override: Unaccepted) -> str:
    """Return the sentence that an override counts as `ask`, with the people who must still accept
    it, or that it names too few people."""
    missing = override.missing
    if not missing:
        return f'Override "{override.name}" counts as ask: approved_by must name two people.'
    verb = "accepts" if len(missing) == 1 else "accept"
    return (
        f'Override "{override.name}" counts as ask until {all_listed(missing)} {verb} this version.'
    )


def consent_alert(
    hub: Target,
    version: str | None,
    terms: str,
    person: str,
    overrides: Sequence[str],
    now: UtcDatetime,
    *,
    cannot_accept: str = "",
) -> Alert:
    """Return the message to one person whose acceptance is missing, about all overrides with these
    terms.

    `version` is `None` if the policy is only the stack's parameter. `terms` is the hash of what the
    person accepts. `cannot_accept` says why the person cannot accept now; empty if they can.
    """
    facts = {EVERYWHERE: True, "version": version, "overrides": list(overrides)}
    words = {
        "name": overrides[0],
        "overrides": ", ".join(f'"{name}"' for name in overrides),
        "can_accept": bool(version) and not cannot_accept,
        "cannot_accept": cannot_accept if version else "",
    }
    dedup_id = f"consent-{short_hash(version or 'parameter', terms, person)}"
    return alert_from_template("consent", hub, dedup_id, now, facts, words, owner=Owner(person))
