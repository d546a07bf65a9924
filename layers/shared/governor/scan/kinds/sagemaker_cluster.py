"""SageMaker HyperPod clusters, which are shown with their price. They are never called idle,
because SageMaker publishes no utilization of their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from shlex import join
from typing import Any

from governor.core.units import UsdPerHour, as_utc, printable, span
from governor.scan.kind import Kind, Place
from governor.scan.kinds.sagemaker.hardware import hardware, is_accelerated
from governor.scan.kinds.sagemaker.price_list import CLUSTER, GET_PRODUCTS, usd_per_hour
from governor.scan.kinds.sagemaker.reading import SERVICE, described
from governor.scan.model import Finding, Judgment, Resource, Strength

_LIST = "sagemaker:ListClusters"
_DESCRIBE = "sagemaker:DescribeCluster"
_TOPIC = "SageMaker HyperPod clusters"
_PAGE = 100


@dataclass(frozen=True, slots=True)
class Cluster(Resource):
    """A HyperPod cluster with accelerated nodes."""

    count_by_type: tuple[tuple[str, int], ...] = ()
    """Its accelerated nodes by type, such as `ml.p5.48xlarge`."""
    has_training_plan: bool = False
    """True if a training plan, which is paid in advance, pays for some of its nodes."""


class SageMakerClusters(Kind[Cluster, None]):
    """HyperPod clusters with accelerated nodes. SageMaker publishes no utilization of nodes."""

    name = "sagemaker-cluster"
    words = _TOPIC
    service = SERVICE
    operations = (_LIST, _DESCRIBE, GET_PRODUCTS)

    def list(self, place: Place) -> Sequence[Cluster]:
        """Return the clusters that have accelerated nodes; empty if there are none. Raises:
        CloudError."""
        names: list[str] = []
        for page in place.pages(_LIST, MaxResults=_PAGE):
            names += [record["ClusterName"] for record in page["ClusterSummaries"]]
        parameters = [{"ClusterName": name} for name in names]
        answers = described(place, _TOPIC, _DESCRIBE, parameters)

        def read(record: Any) -> Cluster | None:
            """Return a cluster; `None` if it has no accelerated nodes."""
            return _cluster(place, record)

        records = [answer for answer in answers if answer]
        return list(place.read_each(_TOPIC, _DESCRIBE, records, read))

    def price(self, place: Place, resource: Cluster) -> UsdPerHour | None:
        """Return the list price of the accelerated nodes; `None` if one is not known, or a training
        plan pays."""
        if resource.has_training_plan:
            return None
        total = Decimal()
        for ml_type, count in resource.count_by_type:
            each = usd_per_hour(place, ml_type, CLUSTER)
            if each is None:
                return None
            total += each * count
        return total

    def own_judgment(self, place: Place, resource: Cluster, measured: None) -> Judgment:
        """Return the judgment that the cluster's activity is not measured, and what is known
        instead."""
        since = resource.since or place.now
        evidence = f"created {span(place.now - since)} ago; activity of its nodes not measured"
        if resource.has_training_plan:
            evidence += "; a training plan pays in advance"
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)

    def own_command(self, resource: Cluster, judgment: Judgment) -> str:
        """Return the command that lists the nodes of the cluster."""
        where = ("--region", resource.target.region)
        name = ("--cluster-name", resource.resource_id)
        return join(("aws", "sagemaker", "list-cluster-nodes", *where, *name))


def _cluster(place: Place, record: Mapping[str, Any]) -> Cluster | None:
    """Return a cluster; `None` if it has no accelerated nodes. Raises: LookupError, TypeError or
    ValueError for a record in another form."""
    restricted = record.get("RestrictedInstanceGroups") or ()
    count_by_type: dict[str, int] = {}
    planned = 0
    for group in (*record["InstanceGroups"], *restricted):
        for ml_type, count in _nodes(group):
            if not count or not is_accelerated(ml_type):
                continue
            count_by_type[ml_type] = count_by_type.get(ml_type, 0) + count
            if group.get("TrainingPlanArn"):
                planned += count
    if not count_by_type:
        return None
    name = record.get("ClusterName") or record["ClusterArn"]
    created = record.get("CreationTime")
    return Cluster(
        target=place.target,
        resource_id=name,
        what=hardware(count_by_type),
        name=printable(name),
        since=None if created is None else as_utc(created),
        count_by_type=tuple(count_by_type.items()),
        has_training_plan=bool(planned),
        is_prepaid=planned == sum(count_by_type.values()),
    )


def _nodes(group: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the current nodes of an instance group by type: of each type if it has several, else
    of its only one."""
    details = group.get("InstanceTypeDetails") or ()
    if details:
        return [(detail["InstanceType"], detail.get("CurrentCount", 0)) for detail in details]
    return [(group.get("InstanceType", ""), group.get("CurrentCount", 0))]
