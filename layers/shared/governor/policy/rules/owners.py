"""The owner of an instance, by its tags and the policy's contacts.

An owner says who is asked. Who may answer is decided in `approvals.rules.terms`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from governor.alerts.model import UNASSIGNED, Owner
from governor.core.instance import Instance
from governor.core.units import printable
from governor.policy.model.contacts import Ownership


def owner_of(instance: Instance, rule: Ownership) -> Owner:
    """Return the owner and project: for each, the first tag of the policy's list that is set.

    Without such a tag the owner is the policy's `default_owner`, and the project `unassigned`.
    """
    name = _first_tag(instance, rule.owner_tag_keys) or rule.default_owner
    project = _first_tag(instance, rule.project_tag_keys) or UNASSIGNED
    contacts = rule.asked(name, project)
    time_zone = contacts[0].time_zone if contacts else "UTC"
    return Owner(name, project, time_zone)


def by_owner(instances: Sequence[Instance], rule: Ownership) -> dict[Owner, list[Instance]]:
    """Return the instances of each owner; owners without any are left out."""
    instances_by_owner: dict[Owner, list[Instance]] = defaultdict(list)
    for instance in instances:
        instances_by_owner[owner_of(instance, rule)].append(instance)
    return dict(instances_by_owner)


def _first_tag(instance: Instance, keys: tuple[str, ...]) -> str:
    """Return the value of the first of these tags that is set; an empty text if none is."""
    for key in keys:
        value = printable(instance.tags.get(key, ""))
        if value:
            return value
    return ""
