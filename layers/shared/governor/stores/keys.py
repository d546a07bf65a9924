"""Keys that several stores share. `docs/state.md` lists all keys of the table."""

from __future__ import annotations

from governor.domain.episode.episode import EpisodeRef
from governor.domain.instance import Target
from governor.stores.table import Key


def target_pk(target: Target) -> str:
    """The partition of an account and Region."""
    return f"TARGET#{target.account}#{target.region}"


def instance(target: Target, instance_id: str) -> Key:
    return target_pk(target), f"INSTANCE#{instance_id}"


def lock_pk(target: Target) -> str:
    """The partition of the locks of an account and Region, which nothing on the internet's side writes."""
    return f"LOCK#{target.account}#{target.region}"


def lock(target: Target, instance_id: str) -> Key:
    return lock_pk(target), f"LOCK#{instance_id}"


def hold_pk(target: Target) -> str:
    """The partition of keeps and exemptions in an account and Region, which only people's answers write."""
    return f"HOLD#{target.account}#{target.region}"


def holds(target: Target, instance_id: str) -> tuple[Key, Key]:
    """Where a keep or an exemption is, and where the release before this one reads it: a rollback brings that
    one back. Both are written and read for one release; the stricter counts."""
    return (hold_pk(target), f"HOLD#{instance_id}"), instance(target, instance_id)


def episode(ref: EpisodeRef) -> Key:
    return f"EPISODE#{ref.execution_name}", "EPISODE"


def approval(approval_id: str) -> Key:
    return f"APPROVAL#{approval_id}", "REQUEST"
