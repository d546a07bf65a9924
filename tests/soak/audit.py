"""The audit of a story: the documents that changes of the state table leave outside of it.

The stream of the table hands over the partitions that the template names. This module keeps of each
document what invariants ask for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from governor.core.units import UtcDatetime
from governor.episode.rules.audit import Change
from governor.table.table import Key
from local.engine.templates import load_template
from tests.soak.parts import ROOT


@dataclass(frozen=True)
class Audited:
    """A document of the audit, in short."""

    what: str
    who: str
    episode: str
    steps: frozenset[str]
    """The steps of the episode that were begun by then."""


def audited(
    key: Key, before: Mapping[str, Any], after: Mapping[str, Any], at: UtcDatetime
) -> Audited | None:
    """Return the document of a change; `None` if the stream does not hand it over."""
    is_same = before == after
    if is_same or not key[0].startswith(_prefixes()):
        return None
    operation = "MODIFY" if before else "INSERT"
    change = Change(key[0], key[1], operation, at, sequence="1", before=before, after=after)
    document = change.document()
    steps = frozenset(after.get("steps_done") or ())
    return Audited(document["what"], document["who"], document["episode"], steps)


@cache
def _prefixes() -> tuple[str, ...]:
    """Return the beginnings of the partitions that the stream hands over."""
    template = load_template(ROOT / "template.yaml")
    stream = template["Resources"]["AuditStream"]["Properties"]
    pattern = json.loads(stream["FilterCriteria"]["Filters"][0]["Pattern"])
    return tuple(one["prefix"] for one in pattern["dynamodb"]["Keys"]["pk"]["S"])
