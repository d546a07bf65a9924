"""The audit: one document for each change of an episode, its question, journal or deliveries, and
of which version of the policy counts, who wrote it and who accepted it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from governor.domain.alerts.alert import short_hash
from governor.domain.episode.episode import episode_from_execution_name
from governor.domain.units import UtcDatetime, iso

_MEANS = (
    ("outcome_told_at", "outcome sent"),
    ("undone_by", "undone"),
    ("keep_ended_by", "keep ended"),
    ("outcome", "closed"),
    ("brake", "held"),
    ("decision", "answered"),
    ("first_yes", "first yes"),
    ("void_reason", "canceled"),
    ("snapshots", "snapshots made"),
    ("user_data", "user data kept"),
    ("steps_done", "step begun"),
    ("cleared_step", "rechecked"),
    ("stage", "asked"),
)
"""Attributes that say what happened, most telling first."""
_INSERTED = {"EPISODE": "opened", "REQUEST": "question made"}
_PARTITIONS = {
    "DELIVERIES": "delivery",
    "ACCEPTED": "policy accepted",
    "VERSION": "policy in force",
}
_WRITER = "WRITER"
_UNSEEN = frozenset({"task_token"})
"""Whoever has it may end the wait of a workflow."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one item: before and after, or empty. `sequence` orders the changes of an
    item."""

    pk: str
    sk: str
    operation: str
    at: UtcDatetime
    sequence: str
    before: Mapping[str, Any]
    after: Mapping[str, Any]
    principal: str | None = None
    """Author of a change by the table itself: DynamoDB deletes what has expired."""

    @property
    def subject(self) -> str:
        """The execution name of the episode; of a message about none what that is about."""
        item = self.after or self.before
        return str(item.get("episode") or self.pk.partition("#")[2])

    @property
    def key(self) -> str:
        """Return where its document is kept: the same for the same change in any shard."""
        item = short_hash(self.pk, self.sk)
        return f"audit/day={self.at:%Y-%m-%d}/{self.subject}/{self.sequence:0>40}-{item}.json"

    def document(self) -> dict[str, Any]:
        item = self.after or self.before
        changed = {
            name
            for name in {*self.before, *self.after} - _UNSEEN
            if self.before.get(name) != self.after.get(name)
        }
        plan = item.get("plan")
        return {
            "what": self._what(changed),
            "who": self._who(changed),
            "when": iso(self.at),
            "episode": self.subject,
            **_place(self.subject),
            "evidence_hash": item.get("evidence_hash"),
            "plan_hash": plan
            and hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest(),
            "request_ids": item.get("request_ids"),
            "operation": self.operation,
            "item": f"{self.pk} / {self.sk}",
            "sequence": self.sequence,
            "before": {name: self.before[name] for name in sorted(changed & self.before.keys())},
            "after": {name: self.after[name] for name in sorted(changed & self.after.keys())},
        }

    def _what(self, changed: set[str]) -> str:
        if not self.after:
            return "removed"
        if not self.before and self.sk in _INSERTED:
            return _INSERTED[self.sk]
        if self.sk == _WRITER:
            return "policy written"
        if "what" in self.after:
            return str(self.after["what"])  # an entry of a journal
        if (partition := self.pk.partition("#")[0]) in _PARTITIONS:
            return _PARTITIONS[partition]
        return next(
            (words for name, words in _MEANS if name in changed and self.after.get(name)), "changed"
        )

    def _who(self, changed: set[str]) -> str:
        if self.pk.startswith("ACCEPTED#"):
            return self.sk
        now = {name: self.after[name] for name in changed if self.after.get(name)}
        for name in ("decision", "brake", "first_yes", "refused"):
            # A delivery has a `refused`, too: the reason of its channel.
            if isinstance(now.get(name), Mapping) and "by" in now[name]:
                return str(now[name]["by"])
        if by := [now[name] for name in ("undone_by", "keep_ended_by", "by", "arn") if name in now]:
            return str(by[0])
        return self.principal or "gpu-governor"


def _place(subject: str) -> dict[str, str | None]:
    try:
        ref = episode_from_execution_name(subject)
    except ValueError:
        return {"account": None, "region": None, "instance_id": None}
    return {"account": ref.account, "region": ref.region, "instance_id": ref.instance_id}
