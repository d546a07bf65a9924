"""The owner of an instance, by its tags: whom to ask, and which project pays."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from governor.domain.instance import Instance
from governor.domain.policy.contacts import Ownership
from governor.domain.units import printable

UNASSIGNED = "unassigned"
"""The project of an instance without a project tag."""


def short_hash(*parts: str) -> str:
    """Return twelve hexadecimal digits of a hash of these texts: tags may have 256 characters."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


class Owner(NamedTuple):
    name: str
    project: str = UNASSIGNED
    time_zone: str = "UTC"
    """The zone of the first contact who is notified about it."""

    @property
    def key(self) -> str:
        """Return the owner's part in the id of a message: each owner gets one of their own."""
        return short_hash(self.name, self.project)


NOBODY = Owner(UNASSIGNED)


def owner_of(instance: Instance, rule: Ownership) -> Owner:
    """Return the owner and project: for each, the first tag of the policy's list that is set."""

    def first(keys: tuple[str, ...], otherwise: str) -> str:
        return next((value for key in keys if (value := printable(instance.tags.get(key, "")))), otherwise)

    name, project = first(rule.owner_tag_keys, rule.default_owner), first(rule.project_tag_keys, UNASSIGNED)
    contacts = rule.asked(name, project)
    return Owner(name, project, contacts[0].time_zone if contacts else "UTC")


def by_owner(instances: Sequence[Instance], rule: Ownership) -> dict[Owner, list[Instance]]:
    found: dict[Owner, list[Instance]] = defaultdict(list)
    for instance in instances:
        found[owner_of(instance, rule)].append(instance)
    return dict(found)
