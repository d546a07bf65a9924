"""EKS managed node groups, by the Auto Scaling groups that EKS makes for them.

Those are listed by one call, with the cluster and the node group in their tags. To ask EKS itself
would take a call for each node group of each cluster.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from governor.core.errors import CloudError
from governor.core.units import full_stop, plural, printable
from governor.scan.kind import Place
from governor.scan.kinds.commands import aws_command, describe_node_group
from governor.scan.kinds.ec2_types import SPOT_PRICES
from governor.scan.kinds.groups import auto_scaling
from governor.scan.kinds.groups.keeper import Keeper, Keepers
from governor.scan.kinds.groups.rules import in_words
from governor.scan.kinds.tags import tags_in
from governor.scan.model import Finding, Judgment, Row, Strength

_TOPIC = "EKS node groups"
_DESCRIBE = "eks:DescribeNodegroup"
_WARNING = "All {nodes} nodes of its group are idle: the command ends them and evicts their pods."
_WARNING_OF_ONE = "The only node of its group is idle: the command ends it and evicts its pods."
_INSTANCE = "ec2-instance"
"""The kind of the rows of nodes."""


@dataclass(frozen=True, slots=True)
class NodeGroup(Keeper):
    """A managed node group."""

    cluster: str = ""
    node_group: str = ""
    node_ids: frozenset[str] = frozenset()
    """The ids of all instances of its Auto Scaling group, in service or not."""


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
        parameters = []
        for group in groups:
            parameters.append({"clusterName": group.cluster, "nodegroupName": group.node_group})
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

    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that shows the node group. None that shrinks it is given: that could
        end nodes that work."""
        assert isinstance(resource, NodeGroup)
        return describe_node_group(resource.target, resource.cluster, resource.node_group)

    def beside_others(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows with the command that ends a node group, on its own row and on those of
        its nodes, if all its nodes are idle by strong evidence and it is not exempt."""
        completed = list(rows)
        for row in rows:
            group = row.resource
            if not isinstance(group, NodeGroup) or row.judgment.finding is Finding.EXEMPT:
                continue
            if _are_all_nodes_idle(group, rows):
                completed = [_with_end(group, other) for other in completed]
        return completed


def _are_all_nodes_idle(group: NodeGroup, rows: Sequence[Row]) -> bool:
    """Return whether a group has nodes, and each of them has a row that is idle by strong evidence.
    A node without a row may work: it may have no accelerators, or an unreadable record."""
    idle_ids: set[str] = set()
    for row in rows:
        if row.kind != _INSTANCE or not _is_node(group, row):
            continue
        judgment = row.judgment
        if judgment.finding is not Finding.IDLE or judgment.strength is not Strength.STRONG:
            return False
        idle_ids.add(row.resource.resource_id)
    return bool(group.node_ids) and idle_ids == group.node_ids


def _is_node(group: NodeGroup, row: Row) -> bool:
    """Return whether an instance is a node of a group, by the group's record or by its tags."""
    if row.resource.resource_id in group.node_ids:
        return True
    tags = row.resource.tags
    is_same_cluster = tags.get(auto_scaling.CLUSTER_TAG) == group.cluster
    return is_same_cluster and tags.get(auto_scaling.NODE_GROUP_TAG) == group.node_group


def _with_end(group: NodeGroup, row: Row) -> Row:
    """Return the row with the command that ends all nodes of a group, and a warning, if it is that
    of the group or of one of its nodes; else the same row.

    A minimum of zero alone would end nothing: the desired size stays, and no autoscaler need be
    there to lower it.
    """
    is_node = row.kind == _INSTANCE and row.resource.resource_id in group.node_ids
    if row.resource is not group and not is_node:
        return row
    command = aws_command(
        group.target,
        "eks",
        "update-nodegroup-config",
        cluster_name=group.cluster,
        nodegroup_name=group.node_group,
        scaling_config="minSize=0,desiredSize=0",
    )
    warning = _WARNING_OF_ONE
    if len(group.node_ids) > 1:
        warning = _WARNING.format(nodes=len(group.node_ids))
    evidence = f"{full_stop(row.judgment.evidence)} {warning}"
    return replace(row, command=command, judgment=replace(row.judgment, evidence=evidence))


def _node_group(place: Place, record: Mapping[str, Any]) -> NodeGroup | None:
    """Return the node group of an Auto Scaling group; `None` if it is of none, or keeps nothing
    accelerated. Raises: LookupError, TypeError, ValueError or ArithmeticError for a record in
    another form."""
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
        node_ids=_node_ids(record),
    )


def _node_ids(record: Mapping[str, Any]) -> frozenset[str]:
    """Return the ids of all instances of an Auto Scaling group; empty if it has none."""
    return frozenset(instance["InstanceId"] for instance in record.get("Instances") or ())


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
