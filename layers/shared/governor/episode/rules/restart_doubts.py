"""Doubts whether an instance can be restarted after a stop: KMS keys of its volumes, capacity.

Nothing is decided here: people read the doubts in the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from governor.core.instance import Instance, Lifecycle

_ENABLED = "Enabled"
_KEY_STATES = {
    "Disabled": "is disabled",
    "PendingDeletion": "is about to be deleted",
    "PendingReplicaDeletion": "is about to be deleted",
    "PendingImport": "has no key material",
    "Unavailable": "is not available: its key store is disconnected",
    "Creating": "is still being created",
    "Updating": "is being updated",
}
"""States of a key in words. Source: KMS developer guide, key states."""
_SCARCE_FAMILY = re.compile(r"(u-)?p([4-9]|[1-9][0-9])(?![0-9])|trn[0-9]")
"""The beginning of families that AWS also sells as Capacity Blocks, as On-Demand capacity is not
assured: the classes P from the fourth generation on, also as an UltraServer (`u-p6e-gb200x72`), and
Trn. Source: EC2 user guide, Capacity Blocks for ML, supported instance types."""


@dataclass(frozen=True, slots=True)
class VolumeKey:
    """The KMS key of one or more volumes, as KMS describes it."""

    key_id: str
    """Its ARN."""
    state: str | None = None
    """`None` if it could not be read."""
    problem: str = ""
    """Why it could not be read."""
    is_of_aws: bool = False
    """True for a key that AWS manages: EC2 can always use it."""

    @property
    def account(self) -> str:
        """Return the account that holds the key; empty if its name does not say."""
        parts = self.key_id.split(":")
        return parts[4] if len(parts) > 5 else ""


def keys_of(instance: Instance) -> tuple[str, ...]:
    """Return the ids of the KMS keys of the instance's volumes, each once; empty if no volume has
    one."""
    keys = [volume.kms_key_id for volume in instance.volumes]
    return tuple(dict.fromkeys(key for key in keys if key))


def doubts_of(instance: Instance, keys: Iterable[VolumeKey]) -> tuple[str, ...]:
    """Return what is doubtful about the next start of the instance once it is stopped, a sentence
    each: its volumes' keys, its Spot request, or the capacity for its type. Empty if nothing is
    known to stand against it."""
    doubts = []
    for key in keys:
        key_doubt = _key_doubt(instance, key)
        if key_doubt:
            doubts.append(key_doubt)
    if instance.lifecycle is Lifecycle.SPOT:
        doubts.append(
            "A Spot Instance starts only while its Spot request is open, and EC2 may interrupt it "
            "again at once."
        )
    elif _SCARCE_FAMILY.match(instance.family):
        doubts.append(
            f"EC2 rarely has {instance.instance_type} free On-Demand. Without a Capacity "
            "Reservation or a Capacity Block it may not start for days or weeks."
        )
    return tuple(doubts)


def _key_doubt(instance: Instance, key: VolumeKey) -> str:
    """Return what is doubtful about one key, as sentences that name it once: it could not be looked
    at, is not enabled, or belongs to another account. Empty if EC2 can use it, as any key of
    AWS."""
    if key.is_of_aws:
        return ""
    name = f"The KMS key {key.key_id} of {_volumes_text(instance, key.key_id)}"
    if key.state is None:
        why = f": {key.problem}" if key.problem else ""
        return f"{name} could not be checked, so EC2 may be unable to use it{why}."
    sentences = []
    subject = name
    if key.state != _ENABLED:
        state = _KEY_STATES.get(key.state, f"is in the state {key.state}")
        sentences.append(f"{name} {state}. EC2 cannot start the instance until that changes.")
        subject = "It"
    if key.account and key.account != instance.target.account:
        account = key.account
        sentences.append(
            f"{subject} belongs to account {account}, which must still let EC2 use it."
        )
    return " ".join(sentences)


def _volumes_text(instance: Instance, key_id: str) -> str:
    """Return the volumes with this key, by their devices: `volume /dev/sda1`, or with more of them
    `volumes /dev/sda1, /dev/sdb`. At least one volume of the instance must have the key."""
    devices = []
    for volume in instance.volumes:
        if volume.kms_key_id == key_id:
            devices.append(volume.device)
    return f"volume {devices[0]}" if len(devices) == 1 else f"volumes {', '.join(devices)}"
