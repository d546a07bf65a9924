"""The owner of an instance with their time zone, its project and its job, by its tags and the
policy's contacts.

An owner says who is asked. Who may answer is decided in `approvals.rules.terms`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from governor.alerts.model import UNASSIGNED, Owner
from governor.core.instance import Instance
from governor.core.units import printable
from governor.policy.model.contacts import Ownership
from governor.policy.model.money import Money
from governor.policy.model.names import Tagged


@dataclass(frozen=True, slots=True)
class NamingTag:
    """A tag that names the owner, project or job of an instance. The value is one printable
    line."""

    key: str
    value: str


def owner_of(instance: Tagged, rule: Ownership) -> Owner:
    """Return the owner and project of an instance, or of another resource, by its tags, with the
    time zone of the first person who is asked.

    Without an owner tag the owner is the policy's `default_owner`; without a project tag the
    project is `unassigned`. The zone is `UTC` if nobody is asked.
    """
    name = named_owner(instance, rule) or rule.default_owner
    return owner_named(name, project_of(instance, rule), rule)


def owner_named(name: str, project: str, rule: Ownership) -> Owner:
    """Return the owner of this name with a project, and with the time zone of the first person who
    is asked; `UTC` if nobody is asked."""
    contacts = rule.asked(name, project)
    time_zone = contacts[0].time_zone if contacts else "UTC"
    return Owner(name, project, time_zone)


def named_owner(instance: Tagged, rule: Ownership) -> str | None:
    """Return the owner whom the policy's owner tags name; `None` if they name nobody."""
    owner_tag = _first_tag(instance, rule.owner_tag_keys)
    return owner_tag.value if owner_tag else None


def project_of(instance: Tagged, rule: Ownership) -> str:
    """Return the project of an instance, or of another resource, by its tags; `unassigned` without
    a project tag."""
    project_tag = _first_tag(instance, rule.project_tag_keys)
    return project_tag.value if project_tag else UNASSIGNED


def job_of(instance: Instance, rule: Money) -> str | None:
    """Return the job of an instance by its tags, as one printable line; `None` if none names a
    job."""
    job_tag = _first_tag(instance, rule.job_tag_keys)
    return job_tag.value if job_tag else None


def by_owner(instances: Sequence[Instance], rule: Ownership) -> dict[Owner, list[Instance]]:
    """Return the instances of each owner and project in their order; empty if there are no
    instances. The key is an owner with one project, so an owner may have several."""
    instances_by_owner: dict[Owner, list[Instance]] = defaultdict(list)
    for instance in instances:
        instances_by_owner[owner_of(instance, rule)].append(instance)
    return dict(instances_by_owner)


def unknown_owner(instance: Instance, rule: Ownership) -> NamingTag | None:
    """Return the owner tag of an instance if it names nobody whom the policy knows, so that others
    are asked. Return `None` if it names a contact, or the instance has no owner tag."""
    owner_tag = _first_tag(instance, rule.owner_tag_keys)
    if owner_tag is None or owner_tag.value == rule.default_owner:
        return None
    if rule.named_by(owner_tag.value).contacts:
        return None
    return owner_tag


def _first_tag(instance: Tagged, keys: tuple[str, ...]) -> NamingTag | None:
    """Return the first of the tags with these keys that has a printable value; `None` if the
    instance has none."""
    for key in keys:
        value = printable(instance.tags.get(key, ""))
        if value:
            return NamingTag(key, value)
    return None
