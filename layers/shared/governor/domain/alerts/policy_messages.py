"""Messages about versions of the policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from difflib import unified_diff
from typing import Literal

from governor.domain.alerts.alert import Alert, Owner, Severity, short_hash
from governor.domain.alerts.templates import written
from governor.domain.instance import Target
from governor.domain.policy.consent import Unaccepted
from governor.domain.units import UtcDatetime, bullets, listed

_MOST_LINES = 40
_MOST_CHARACTERS = 160
_MOST_COMPARED = 3_000
"""Lines of both documents. The time a diff takes grows with their square: seconds, for the
longest."""
_NAMED = 12
State = Literal["in-force", "waits", "refused", "writer", "parameter"]


def who(writer: str, author: str) -> str:
    """Return who wrote a version and how that is known: the ARN that CloudTrail has seen, or a
    claim."""
    if writer:
        return f"{writer} (CloudTrail)"
    claim = f"{author}, as stated by the writer" if author else "somebody unknown"
    return f"{claim} (turn on CloudTrail data events of the policy's bucket to be sure)"


def difference(before: str, after: str) -> list[str]:
    """Return a short unified diff: printable lines, as many as fit into a message."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) + len(new) > _MOST_COMPARED:
        gone, come = Counter(old), Counter(new)
        removed, added = (gone - come).total(), (come - gone).total()
        return [f"Changes: {removed} lines removed and {added} added, too many lines for a diff."]
    lines = list(unified_diff(old, new, n=1, lineterm=""))[2:]
    shown = [
        ("".join(c if c.isprintable() else " " for c in one))[:_MOST_CHARACTERS] for one in lines
    ]
    more = [f"... and {len(shown) - _MOST_LINES} more lines"] if len(shown) > _MOST_LINES else []
    return ["Changes (- before, + after):", *shown[:_MOST_LINES], *more] if lines else []


def version_alert(
    hub: Target,
    version: str,
    writer: str,
    state: State,
    now: UtcDatetime,
    *,
    risky: Sequence[str] = (),
    behind: Collection[str] = (),
    consents: Sequence[str] = (),
    more: Sequence[str] = (),
) -> Alert:
    """Return what became of a version, or who wrote it. `consents` says which acceptances are
    missing; `more` is its diff or why it was refused."""
    facts = {"version": version, "state": state, "written_by": writer, "risky": list(risky)}
    words = {
        "which": f": {listed(risky, 3)}" if risky else "",
        "behind": ", ".join(sorted(behind)) or "nobody",
        "listed": bullets(risky, _NAMED),
        "consents": consents,
        "more": more,
    }
    severity = Severity.WARNING if risky or state in ("refused", "parameter") else None
    return written("policy", hub, f"policy-{version}-{state}", now, facts, words, severity=severity)


def consent_line(one: Unaccepted) -> str:
    """Return that an override counts as `ask`, and whose acceptance is missing."""
    if len(one.missing) == 0:
        return f"Override {one.name} counts as ask: approved_by must name two people."
    verb = "accepts" if len(one.missing) == 1 else "accept"
    return f"Override {one.name} counts as ask until {_all_of(one.missing)} {verb} this version."


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
    """Return the message to one person whose acceptance is missing; one for all overrides with
    these terms.

    `version` is `None` where the policy is only the stack's parameter. `cannot_accept` says why the
    person could not accept as things stand.
    """
    facts = {"version": version, "overrides": list(overrides)}
    words = {
        "name": overrides[0],
        "overrides": ", ".join(overrides),
        "can_accept": bool(version) and not cannot_accept,
        "cannot_accept": cannot_accept if version else "",
    }
    dedup_id = f"consent-{short_hash(version or 'parameter', terms, person)}"
    return written("consent", hub, dedup_id, now, facts, words, owner=Owner(person))


def _all_of(people: Sequence[str]) -> str:
    *others, last = people
    return f"{', '.join(others)} and {last}" if others else last
