"""Partition and sort keys of the state table that several stores use. `docs/state.md` lists all
keys of the table."""

from __future__ import annotations

from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Target
from governor.table.table import Key


def place(target: Target) -> str:
    """Return account and Region as they stand in keys, as in `123456789012#us-east-1`."""
    return f"{target.account}#{target.region}"


def target_pk(target: Target) -> str:
    """Return the partition key of a target's items, as in `TARGET#123456789012#us-east-1`."""
    return f"TARGET#{place(target)}"


def instance(target: Target, instance_id: str) -> Key:
    """Return the key (`pk`, `sk`) of an instance's record: `TARGET#<place>`, `INSTANCE#<id>`."""
    return target_pk(target), f"INSTANCE#{instance_id}"


def lock(target: Target, instance_id: str) -> Key:
    """Return the key of an instance's lock: `LOCK#<place>`, `LOCK#<id>`. No function that faces the
    internet may write this partition."""
    return f"LOCK#{place(target)}", f"LOCK#{instance_id}"


def holds(target: Target, instance_id: str) -> tuple[Key, Key]:
    """Return two keys of a keep or an exemption: first the key of this release, which only answers
    write; then the key where the previous software release reads it, so that a rollback finds it.

    Both are written and read for one release; the stricter of the two counts.
    """
    hold_key = (f"HOLD#{place(target)}", f"HOLD#{instance_id}")
    return hold_key, instance(target, instance_id)


def episode(ref: EpisodeRef) -> Key:
    """Return the key of an episode: `EPISODE#<execution name>`, `EPISODE`."""
    return f"EPISODE#{ref.execution_name}", "EPISODE"


def approval(approval_id: str) -> Key:
    """Return the key of a question: `APPROVAL#<id>`, `REQUEST`."""
    return f"APPROVAL#{approval_id}", "REQUEST"
