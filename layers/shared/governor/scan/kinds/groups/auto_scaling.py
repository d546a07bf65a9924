"""Auto Scaling groups with accelerated types and a minimum above zero, read once for the kinds that
show them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from governor.core.errors import CloudError
from governor.core.instance import Lifecycle
from governor.core.units import as_utc, plural, printable
from governor.scan.kind import Place
from governor.scan.kinds.groups.keeper import Keeper
from governor.scan.kinds.groups.rules import in_words
from governor.scan.kinds.groups.templates import (
    DESCRIBE_TEMPLATE,
    Launches,
    launches_of,
    launches_of_template,
)
from governor.scan.kinds.tags import name_in, tags_in

DESCRIBE = "autoscaling:DescribeAutoScalingGroups"
DESCRIBE_CONFIGURATION = "autoscaling:DescribeLaunchConfigurations"
OPERATIONS = (DESCRIBE, DESCRIBE_CONFIGURATION, DESCRIBE_TEMPLATE)
NODE_GROUP_TAG = "eks:nodegroup-name"
CLUSTER_TAG = "eks:cluster-name"
BATCH_TAG = "AWSBatchServiceTag"
_PAGE = 100
_IN_SERVICE = "InService"


def records_here(place: Place) -> Sequence[Mapping[str, Any]]:
    """Return the records of all groups here, read once. Raises: CloudError."""

    def ask() -> list[Mapping[str, Any]]:
        """Return the records of all pages of Auto Scaling's answer. Raises: CloudError."""
        pages = place.pages(DESCRIBE, MaxRecords=_PAGE)
        records: list[Any] = []
        for page in pages:
            records += page.get("AutoScalingGroups") or ()
        return records

    return place.kept.get((DESCRIBE, str(place.target)), ask)


def read_group(place: Place, topic: str, record: Mapping[str, Any]) -> Keeper | None:
    """Return a group that keeps accelerated instances; `None` if its minimum is zero, or it has no
    accelerated types. Raises: ArithmeticError, LookupError, TypeError or ValueError for a record in
    another form."""
    minimum = record["MinSize"]
    if minimum <= 0:
        return None
    launches = _launches(place, topic, record)
    if not launches.is_accelerated:
        return None
    in_service = [
        instance
        for instance in record.get("Instances") or ()
        if instance.get("LifecycleState") == _IN_SERVICE
    ]
    tags = tags_in(record)
    created_at = record.get("CreatedTime")
    running = f"{plural(len(in_service), 'instance')} in service"
    return Keeper(
        target=place.target,
        resource_id=record["AutoScalingGroupName"],
        what=in_words(launches.choices, minimum),
        name=name_in(tags) or printable(record["AutoScalingGroupName"]),
        tags=tags,
        since=as_utc(created_at) if created_at else None,
        choices=launches.choices,
        capacity=minimum,
        lifecycle=_lifecycle(record),
        evidence=f"its minimum size is {minimum}, which stays whether used or not; {running}",
    )


def _launches(place: Place, topic: str, record: Mapping[str, Any]) -> Launches:
    """Return what a group launches: by its overrides, by the instances that it has, or else by its
    launch template or configuration. Only those last need a call. Nothing is known of a group that
    names none of them."""
    mixed = (record.get("MixedInstancesPolicy") or {}).get("LaunchTemplate") or {}
    launches = launches_of(mixed.get("Overrides") or ())
    if launches.choices:
        return launches
    by_instances = launches_of(record.get("Instances") or ())
    if by_instances.choices:
        return by_instances
    if launches.is_known:
        return launches
    template = record.get("LaunchTemplate") or mixed.get("LaunchTemplateSpecification")
    if template:
        return launches_of_template(place, topic, template)
    configuration = record.get("LaunchConfigurationName")
    if configuration:
        return _launches_of_configuration(place, topic, configuration)
    return Launches()


def _launches_of_configuration(place: Place, topic: str, name: str) -> Launches:
    """Return what a launch configuration launches, read once; nothing is known if Auto Scaling does
    not show it, which is reported."""

    def ask() -> Launches:
        """Read the configuration, and return what it launches. Raises: CloudError."""
        page = place.call(DESCRIBE_CONFIGURATION, LaunchConfigurationNames=[name])
        return launches_of(page.get("LaunchConfigurations") or ())

    try:
        return place.kept.get((DESCRIBE_CONFIGURATION, str(place.target), name), ask)
    except CloudError as error:
        place.could_not_read(f"launch configurations of {topic}", error)
        return Launches()


def _lifecycle(record: Mapping[str, Any]) -> Lifecycle:
    """Return Spot if a group launches nothing else, and On-Demand otherwise."""
    mixed = record.get("MixedInstancesPolicy") or {}
    distribution = mixed.get("InstancesDistribution") or {}
    is_spot = (
        distribution.get("OnDemandBaseCapacity") == 0
        and distribution.get("OnDemandPercentageAboveBaseCapacity") == 0
    )
    return Lifecycle.SPOT if is_spot else Lifecycle.ON_DEMAND
