"""Names the outcome of an episode by the error that ended it, or by its entry in the ledger.

An error that is not listed here has failed.
"""

from __future__ import annotations

from collections.abc import Mapping

from governor.core import errors
from governor.episode.model.episode import (
    Outcome,
)
from governor.money.model.ledger import LedgerEntry

_OUTCOME_OF_ERROR = {
    errors.Held.__name__: Outcome.HELD,
    errors.Interrupted.__name__: Outcome.INTERRUPTED,
    errors.Unsealed.__name__: Outcome.VOID,
    errors.SafetyError.__name__: Outcome.REFUSED,
    errors.MustWait.__name__: Outcome.REFUSED,
    # Late metrics were waited for long enough, and are nobody's fault.
    errors.MetricsLate.__name__: Outcome.REFUSED,
    errors.Protected.__name__: Outcome.REFUSED,
    errors.Unsupported.__name__: Outcome.REFUSED,
    errors.WrongState.__name__: Outcome.REFUSED,
    errors.NotFound.__name__: Outcome.REFUSED,
}
"""Outcome of a step that ended with this error; any other one has failed."""


def became_of(entry: LedgerEntry | None) -> Outcome | None:
    """Return `STOPPED` or `TERMINATED` if the entry books that GPU Governor did that to the
    instance; `None` if there is no entry, or others did it."""
    if entry is None or not entry.ours:
        return None
    return entry.outcome


def outcome_of_error(error: Mapping[str, str]) -> tuple[Outcome, str]:
    """Return the outcome of a step that failed, and a reason such as `Protected: stop protection is
    on`, cut to 1,000 characters.

    `error` is as Step Functions writes it: the name of an error class in `Error`, its text in
    `Cause`. The outcome is `failed` for a name that is not listed here.
    """
    name = error.get("Error", "unknown error")
    cause = error.get("Cause", "")
    reason = f"{name}: {cause}"[:1000]
    return _OUTCOME_OF_ERROR.get(name, Outcome.FAILED), reason
