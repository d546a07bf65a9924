"""Keys that several stores share. `docs/state.md` lists all keys of the table."""

from __future__ import annotations

from governor.core.episode_ref import EpisodeRef
from governor.core.instance import Target
from governor.table.table import Key


def place(target: Target) -> str:
    return f"{target.account}#{target.region}"


def target_pk(target: Target) -> str:
    return f"TARGET#{place(target)}"


def instance(target: Target, instance_id: str) -> Key:
    return target_pk(target), f"INSTANCE#{instance_id}"


def lock(target: Target, instance_id: str) -> Key:
    """Return the key of a lock, in a partition that no function facing the internet may write."""
    return f"LOCK#{place(target)}", f"LOCK#{instance_id}"


def holds(target: Target, instance_id: str) -> tuple[Key, Key]:
    """Return the key of a keep or an exemption, which only answers write, and the key where the
    release before this one reads it, for a rollback.

    Both are written and read for one release; the stricter hold counts.
    """
    hold_key = (f"HOLD#{place(target)}", f"HOLD#{instance_id}")
    return hold_key, instance(target, instance_id)


def episode(ref: EpisodeRef) -> Key:
    return f"EPISODE#{ref.execution_name}", "EPISODE"


def approval(approval_id: str) -> Key:
    return f"APPROVAL#{approval_id}", "REQUEST"
