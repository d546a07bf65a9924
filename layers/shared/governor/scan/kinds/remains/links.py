"""Links an unattached volume or an unused address to the GPU host that left it. Without such a link
nobody knows whose remainder it is: AWS keeps no history of either.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from governor.core.units import letters_and_digits
from governor.policy.model.policy import Policy
from governor.scan.kind import Place
from governor.scan.kinds.remains.stopped import stopped_here
from governor.scan.model import Resource

NO_LINK = "it may be left over from a GPU host, but AWS does not say who left it"
_OURS = "gpugovernor"
"""The beginning of the keys of GPU Governor's tags, by letters and digits alone."""
_INSTANCE_ID = re.compile(r"\bi-(?:[0-9a-f]{17}|[0-9a-f]{8})\b")


def host_ids(place: Place, resources: Iterable[Resource]) -> Collection[str]:
    """Return the ids of the stopped accelerated instances here; none, without a call, if no tag of
    these resources names any instance. Raises: CloudError."""
    if not any(_named_ids(resource) for resource in resources):
        return ()
    return {instance.instance_id for instance in stopped_here(place)}


@dataclass(frozen=True, slots=True)
class Links:
    """The things by which a remainder is known to be one of a GPU host."""

    policy: Policy
    our_snapshots: Collection[str]
    """The ids of GPU Governor's snapshots, all of which are of GPU hosts."""
    host_ids: Collection[str]
    """The ids of accelerated instances that are stopped."""

    def of_tags(self, resource: Resource) -> str:
        """Return the link that the tags of a resource prove, in words; empty if they prove none.
        A name alone proves nothing."""
        if self.policy.selector.is_on(resource):
            return f"it bears the tag {self.policy.selector} of governed instances"
        if any(letters_and_digits(key).startswith(_OURS) for key in resource.tags):
            return "it bears a tag of GPU Governor"
        for instance_id in sorted(_named_ids(resource)):
            if instance_id in self.host_ids:
                return f"a tag names {instance_id}, a stopped GPU host"
        return ""

    def of_volume(self, volume: Resource, snapshot_id: str) -> str:
        """Return the link of a volume that was made from this snapshot, in words; empty if there is
        none."""
        link = self.of_tags(volume)
        if link or snapshot_id not in self.our_snapshots:
            return link
        return f"made from {snapshot_id}, which GPU Governor took of a GPU host"


def _named_ids(resource: Resource) -> set[str]:
    """Return the ids of instances that the values of its tags name; empty if there are none."""
    found: set[str] = set()
    for value in resource.tags.values():
        found.update(_INSTANCE_ID.findall(value))
    return found
