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
    """Return the owner and project of an instance by its tags, with the time zone of the first
    person who is asked.

    Without an owner tag the owner is the policy's `default_owner`; without a project tag the
    project is `unassigned`. The zone is `UTC` if nobody is asked.
    """
    name = _first_tag(instance, rule.owner_tag_keys) or rule.default_owner
    project = _first_tag(instance, rule.project_tag_keys) or UNASSIGNED
    contacts = rule.asked(name, project)
    time_zone = contacts[0].time_zone if contacts else "UTC"
    return Owner(name, project, time_zone)


def by_owner(instances: Sequence[Instance], rule: Ownership) -> dict[Owner, list[Instance]]:
    """Return the instances of each owner and project in their order; empty if there are no
    instances. The key is an owner with one project, so an owner may have several."""
    instances_by_owner: dict[Owner, list[Instance]] = defaultdict(list)
    for instance in instances:
        instances_by_owner[owner_of(instance, rule)].append(instance)
    return dict(instances_by_owner)


def _first_tag(instance: Instance, keys: tuple[str, ...]) -> str:
    """Return the value of the first of these tag keys that the instance has with a printable value,
    as one line; an empty text if it has none."""
    for key in keys:
        value = printable(instance.tags.get(key, ""))
        if value:
            return value
    return ""
