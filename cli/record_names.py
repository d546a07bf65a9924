"""The records of the state table, in words: `3 episodes` for items with the key `EPISODE#...`.

It only names them. `docs/state.md` says what each record contains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from governor.core.units import plural

_NAMES: tuple[tuple[str, str, str, str], ...] = (
    ("TARGET#", "INSTANCE#", "record of an instance", "records of instances"),
    ("TARGET#", "OPENLEDGER#", "saving that has not ended", "savings that have not ended"),
    ("TARGET#", "BURST#", "count of warnings", "counts of warnings"),
    ("TARGET#", "NOTICE#", "date that AWS announced", "dates that AWS announced"),
    ("TARGET#", "TOLD#", "record of a sent message", "records of sent messages"),
    ("TARGET#", "SWEEP-DAYS", "count of idle instances by day", "counts of idle instances by day"),
    ("TARGET#", "BREAKER", "freeze", "freezes"),
    ("EPISODE#", "EPISODE", "episode", "episodes"),
    ("EPISODE#", "JOURNAL#", "audit note of a step", "audit notes of steps"),
    ("APPROVAL#", "REQUEST", "question", "questions"),
    ("APPROVAL#", "REFUSED#", "refused answer", "refused answers"),
    ("DELIVERIES#", "", "delivery of a message", "deliveries of messages"),
    ("LINK#", "", "recipient of a link", "recipients of links"),
    ("POLICY", "ACCEPTED", "copy of the accepted policy", "copies of the accepted policy"),
    ("VERSION#in-force", "POLICY", "version in force", "versions in force"),
    ("VERSION#in-force", "ACCOUNTS", "list of accounts", "lists of accounts"),
    ("VERSION#in-force", "OVER-BUDGET", "list of budgets", "lists of budgets"),
    ("VERSION#items", "SCHEMA", "schema number", "schema numbers"),
    ("VERSION#", "WRITER", "author of a policy version", "authors of policy versions"),
    ("ACCEPTED#refused#", "", "refused acceptance", "refused acceptances"),
    ("ACCEPTED#", "", "acceptance of a policy version", "acceptances of policy versions"),
    ("ENDED#sessions", "", "ended sign-in", "ended sign-ins"),
    ("ENDED#", "FREEZE#", "ended freeze", "ended freezes"),
    ("ENDED#", "", "ended keep or exemption", "ended keeps and exemptions"),
    ("LEDGER#", "", "entry of the ledger", "entries of the ledger"),
    ("STATEMENT#", "", "monthly statement", "monthly statements"),
    ("COST#", "", "monthly cost of a target", "monthly costs of targets"),
    ("UNSWEPT", "", "failed sweep", "failed sweeps"),
    ("DAYS#", "", "daily cost of a target", "daily costs of targets"),
    ("PRICES", "COMMITMENTS", "list of Savings Plans", "lists of Savings Plans"),
    ("PRICES", "", "price list", "price lists"),
    ("EVENT#health#", "", "health check", "health checks"),
    ("EVENT#", "", "handled event", "handled events"),
    ("INCIDENT#", "", "PagerDuty incident", "PagerDuty incidents"),
    ("FAILING#", "CAUSE#", "failed workflow", "failed workflows"),
    ("FAILING#", "WORKED#", "time of the last success", "times of the last success"),
    ("FAILING#", "STATE#", "state of a place", "states of places"),
    ("ADVICE#", "", "dismissal of advice", "dismissals of advice"),
    ("EXPIRY#", "", "record of a snapshot", "records of snapshots"),
    (
        "BREAKER#hub",
        "",
        "record of the freeze of all targets",
        "records of the freeze of all targets",
    ),
    ("BREAKER#", "BREAKER", "freeze", "freezes"),
    ("PAUSE#all", "PAUSE", "pause", "pauses"),
    ("PAUSE#log", "", "start or end of a pause", "starts and ends of pauses"),
    ("PAUSE#messages", "", "message about a pause", "messages about pauses"),
    ("CAPS#", "", "count of a cap", "counts of caps"),
    ("LOCK#", "LOCK#", "lock", "locks"),
    ("HOLD#", "HOLD#", "keep or exemption", "keeps and exemptions"),
)
"""Names of a record and of several, by the beginnings of its partition key and its sort key. The
first row that fits counts."""


def counted_records(keys: Iterable[tuple[str, str]]) -> str:
    """Return how many records of each kind these keys (`pk`, `sk`) are of, such as `3 episodes, 1
    question`, the most frequent first. A kind without a name is written as it is stored, such as `2
    EPISODE`. Return an empty text for no keys."""
    number_by_names = Counter(record_name(pk, sk) for pk, sk in keys)
    counts = sorted(number_by_names.items(), key=lambda count: (-count[1], count[0]))
    return ", ".join(plural(number, *names) for names, number in counts)


def record_name(pk: str, sk: str) -> tuple[str, str]:
    """Return the name of a record with this key (`pk`, `sk`), and that of several such records. For
    an unknown kind, both are the first part of `pk`, as it is stored."""
    for pk_start, sk_start, one, several in _NAMES:
        if pk.startswith(pk_start) and sk.startswith(sk_start):
            return one, several
    stored_kind = pk.partition("#")[0]
    return stored_kind, stored_kind
