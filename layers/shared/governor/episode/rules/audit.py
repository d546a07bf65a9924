"""Makes the documents of the audit: one for each change of an episode, its question, journal or
deliveries.

Also for each change of the policy's version in force, its writer and the people who accepted it. A
document must never hold a task token.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from governor.core.episode_ref import episode_from_execution_name
from governor.core.hashing import short_hash
from governor.core.units import UtcDatetime, iso
from governor.episode.model.start_try import StartStatus

_WORDS_BY_ATTRIBUTE = (
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
"""Attributes whose change says what happened. The first that changed counts."""
_INSERTED = {"EPISODE": "opened", "REQUEST": "question made"}
_PARTITIONS = {
    "DELIVERIES": "delivery",
    "ACCEPTED": "policy accepted",
    "VERSION": "policy in force",
}
_WRITER = "WRITER"
_UNSEEN = frozenset({"task_token"})
"""Attributes that are left out: with a task token anybody could end the wait of a workflow."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one item of the state table."""

    pk: str
    sk: str
    operation: str
    at: UtcDatetime
    sequence: str
    """Orders the changes of an item."""
    before: Mapping[str, Any]
    """Empty for a new item."""
    after: Mapping[str, Any]
    """Empty for a removed item."""
    principal: str | None = None
    """The AWS principal of a change that DynamoDB made itself, by deleting an item that has
    expired; `None` for any other change."""

    @property
    def subject(self) -> str:
        """Return the execution name of the episode; for an item of no episode the part of its `pk`
        after the `#`."""
        item = self.after or self.before
        return str(item.get("episode") or self.pk.partition("#")[2])

    @property
    def key(self) -> str:
        """Return the key of the document in the bucket: the same for the same change, however often
        the stream delivers it."""
        item = short_hash(self.pk, self.sk)
        return f"audit/day={self.at:%Y-%m-%d}/{self.subject}/{self.sequence:0>40}-{item}.json"

    def document(self) -> dict[str, Any]:
        """Return the document of the change, as JSON data without task tokens: what happened, who
        did it and when, the episode, and the attributes that changed, `before` and `after`. The
        place is `None` for an item of no episode."""
        item = self.after or self.before
        changed = self._changed_attributes()
        plan = item.get("plan")
        return {
            "what": self._what(changed),
            "who": self._who(changed),
            "when": iso(self.at),
            "episode": self.subject,
            **_place(self.subject),
            "evidence_hash": item.get("evidence_hash"),
            "plan_hash": _hash(plan) if plan else plan,
            "request_ids": item.get("request_ids"),
            "operation": self.operation,
            "item": f"{self.pk} / {self.sk}",
            "sequence": self.sequence,
            "before": _attributes(self.before, changed),
            "after": _attributes(self.after, changed),
        }

    def _changed_attributes(self) -> set[str]:
        """Return the names of the attributes that differ before and after, without task tokens;
        empty if none differs."""
        changed: set[str] = set()
        for name in {*self.before, *self.after} - _UNSEEN:
            if self.before.get(name) != self.after.get(name):
                changed.add(name)
        return changed

    def _what(self, changed: set[str]) -> str:
        """Return what happened, in two or three words; `changed` if nothing says more. `changed`
        are the names of the attributes that differ."""
        if not self.after:
            return "removed"
        if not self.before and self.sk in _INSERTED:
            return _INSERTED[self.sk]
        if self.sk == _WRITER:
            return "policy written"
        if "what" in self.after:
            # The entry of a journal names its event itself.
            return str(self.after["what"])
        partition = self.pk.partition("#")[0]
        if partition in _PARTITIONS:
            return _PARTITIONS[partition]
        for name, words in _WORDS_BY_ATTRIBUTE:
            if name in changed and self.after.get(name):
                return words
        if "start_try" in changed:
            return f"start {self._start_try().get('status')}"
        return "changed"

    def _start_try(self) -> Mapping[str, Any]:
        """Return the try to start the instance again, as it is stored; empty if there is none."""
        return self.after.get("start_try") or {}

    def _who(self, changed: set[str]) -> str:
        """Return the author of the change: the person whom the item or a changed answer names, else
        the AWS principal that deleted an expired item, else `gpu-governor`. `changed` are the names
        of the attributes that differ."""
        if self.pk.startswith("ACCEPTED#"):
            return self.sk
        new_values = {name: self.after[name] for name in changed if self.after.get(name)}
        for name in ("decision", "brake", "first_yes", "refused"):
            answer = new_values.get(name)
            # A delivery has a `refused`, too: a text with the reason of its channel.
            if isinstance(answer, Mapping) and "by" in answer:
                return str(answer["by"])
        for name in ("undone_by", "keep_ended_by", "by", "arn"):
            if name in new_values:
                return str(new_values[name])
        start_try = self._start_try()
        if "start_try" in changed and start_try.get("status") == StartStatus.ASKED:
            return str(start_try["asked_by"])
        return self.principal or "gpu-governor"


def _attributes(item: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Return those attributes of the item that are in `names`, with their values, in order of their
    names; empty if the item has none of them."""
    return {name: item[name] for name in sorted(names & item.keys())}


def _hash(plan: object) -> str:
    """Return the SHA-256 of a plan as it is stored, in 64 hexadecimal digits. Equal plans have one
    hash, whatever the order of their attributes."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _place(subject: str) -> dict[str, str | None]:
    """Return the account, Region and instance of an episode by its execution name; `None` for each
    if the subject is no episode."""
    try:
        ref = episode_from_execution_name(subject)
    except ValueError:
        return {"account": None, "region": None, "instance_id": None}
    return {"account": ref.account, "region": ref.region, "instance_id": ref.instance_id}
