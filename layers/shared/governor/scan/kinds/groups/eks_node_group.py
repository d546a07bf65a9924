"""Managed node groups of EKS, by the Auto Scaling groups that EKS makes for them.

Those are listed by one call, with the cluster and the node group in their tags. To ask EKS itself
would take a call for each node group of each cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from governor.core.errors import CloudError
from governor.core.units import plural, printable
from governor.scan.kind import Place
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import SPOT_PRICES
from governor.scan.kinds.groups import auto_scaling
from governor.scan.kinds.groups.keeper import Keeper, Keepers
from governor.scan.kinds.groups.rules import in_words
from governor.scan.kinds.tags import tags_in
from governor.scan.model import Judgment

_TOPIC = "EKS node groups"
_DESCRIBE = "eks:DescribeNodegroup"
_WARNING = "the command ends its nodes and evicts their pods"


@dataclass(frozen=True, slots=True)
class NodeGroup(Keeper):
    """A managed node group."""

    cluster: str = ""
    node_group: str = ""


class EksNodeGroups(Keepers):
    """Managed node groups with accelerated types and a minimum size above zero."""

    name = "eks-node-group"
    words = _TOPIC
    operations = (*auto_scaling.OPERATIONS, SPOT_PRICES, _DESCRIBE)

    def list(self, place: Place) -> Sequence[NodeGroup]:
        """Return the node groups; empty if there are none. Raises: CloudError.

        EKS is asked for the accelerated ones alone, and its minimum size counts.
        """

        def read(record: Any) -> NodeGroup | None:
            """Return the node group of an Auto Scaling group; `None` if it is of none."""
            return _node_group(place, record)

        records = auto_scaling.records_here(place)
        groups = list(place.read_each(_TOPIC, auto_scaling.DESCRIBE, records, read))
        parameters = [
            {"clusterName": group.cluster, "nodegroupName": group.node_group} for group in groups
        ]
        answers = place.call_each(_DESCRIBE, parameters) if parameters else ()
        checked: list[NodeGroup] = []
        for group, answer in zip(groups, answers, strict=True):
            if isinstance(answer, CloudError):
                place.could_not_read("minimum sizes and tags of EKS node groups", answer)
                checked.append(group)
                continue
            described = _as_described(group, answer.get("nodegroup") or {})
            if described.capacity > 0:
                checked.append(described)
        return checked

    def own_judgment(self, place: Place, resource: Keeper, measured: None) -> Judgment:
        """Return that it keeps instances running, and what its command does."""
        judgment = super().own_judgment(place, resource, measured)
        return replace(judgment, evidence=f"{judgment.evidence}; {_WARNING}")

    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that shrinks the node group to nothing. A minimum of zero alone would
        change nothing: the desired size stays, and no autoscaler need be there to lower it."""
        assert isinstance(resource, NodeGroup)
        return aws_command(
            resource.target,
            "eks",
            "update-nodegroup-config",
            cluster_name=resource.cluster,
            nodegroup_name=resource.node_group,
            scaling_config="minSize=0,desiredSize=0",
        )


def _node_group(place: Place, record: Mapping[str, Any]) -> NodeGroup | None:
    """Return the node group of an Auto Scaling group; `None` if it is of none, or keeps nothing
    accelerated."""
    tags = tags_in(record)
    node_group = tags.get(auto_scaling.NODE_GROUP_TAG)
    cluster = tags.get(auto_scaling.CLUSTER_TAG)
    if not node_group or not cluster:
        return None
    group = auto_scaling.read_group(place, _TOPIC, record)
    if group is None:
        return None
    return NodeGroup(
        target=group.target,
        resource_id=f"{cluster}/{node_group}",
        what=group.what,
        name=printable(f"{cluster}/{node_group}"),
        tags=tags,
        since=group.since,
        manager="EKS",
        choices=group.choices,
        capacity=group.capacity,
        lifecycle=group.lifecycle,
        evidence=group.evidence,
        cluster=cluster,
        node_group=node_group,
    )


def _as_described(group: NodeGroup, record: Mapping[str, Any]) -> NodeGroup:
    """Return the node group with the tags and the minimum size of its record in EKS. Both may
    differ from those of its Auto Scaling group."""
    tagged = replace(group, tags={**group.tags, **(record.get("tags") or {})})
    minimum = (record.get("scalingConfig") or {}).get("minSize")
    if minimum is None or minimum == group.capacity:
        return tagged
    nodes = plural(minimum, "node")
    return replace(
        tagged,
        capacity=minimum,
        what=in_words(group.choices, minimum),
        evidence=f"its minimum size is {nodes}, which stay whether used or not",
    )
