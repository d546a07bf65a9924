"""Spot fleets and EC2 fleets that maintain a capacity of accelerated instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from governor.core.instance import Lifecycle
from governor.core.units import as_utc
from governor.scan.kind import Place
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import SPOT_PRICES
from governor.scan.kinds.groups.keeper import Keeper, Keepers
from governor.scan.kinds.groups.rules import Choice, in_words
from governor.scan.kinds.groups.templates import (
    DESCRIBE_TEMPLATE,
    Launches,
    launches_of,
    launches_of_configs,
)
from governor.scan.kinds.tags import name_in, tags_in
from governor.scan.model import Judgment

_SPOT_FLEETS = "Spot fleets"
_DESCRIBE_SPOT_FLEETS = "ec2:DescribeSpotFleetRequests"
_EC2_FLEETS = "EC2 fleets"
_DESCRIBE_FLEETS = "ec2:DescribeFleets"
_PAGE = 1000
_SPOT_FLEET_PAGE = 100
_MAINTAIN = "maintain"
"""Fleets of another type replace no instance that ends."""
_ACTIVE = ("active", "modifying")
_UNITS = ("units", None)
"""Targets in vCPUs or memory are not counted in instances."""


class SpotFleets(Keepers):
    """Spot fleets of accelerated types with a target capacity above zero."""

    name = "spot-fleet"
    words = _SPOT_FLEETS
    operations = (_DESCRIBE_SPOT_FLEETS, DESCRIBE_TEMPLATE, SPOT_PRICES)

    def list(self, place: Place) -> Sequence[Keeper]:
        """Return the fleets; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Keeper | None:
            """Return a fleet that maintains accelerated instances; `None` for any other."""
            return _spot_fleet(place, record)

        fleets: list[Keeper] = []
        for page in place.pages(_DESCRIBE_SPOT_FLEETS, MaxResults=_SPOT_FLEET_PAGE):
            records = page.get("SpotFleetRequestConfigs") or ()
            fleets += place.read_each(_SPOT_FLEETS, _DESCRIBE_SPOT_FLEETS, records, read)
        return fleets

    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that shows the instances of the fleet: to lower its capacity would end
        some of them."""
        return aws_command(
            resource.target,
            "ec2",
            "describe-spot-fleet-instances",
            spot_fleet_request_id=resource.resource_id,
        )


class Ec2Fleets(Keepers):
    """EC2 fleets of accelerated types with a target capacity above zero."""

    name = "ec2-fleet"
    words = _EC2_FLEETS
    operations = (_DESCRIBE_FLEETS, DESCRIBE_TEMPLATE, SPOT_PRICES)

    def list(self, place: Place) -> Sequence[Keeper]:
        """Return the fleets; empty if there are none. Raises: CloudError."""

        def read(record: Any) -> Keeper | None:
            """Return a fleet that maintains accelerated instances; `None` for any other."""
            return _ec2_fleet(place, record)

        fleets: list[Keeper] = []
        for page in place.pages(_DESCRIBE_FLEETS, MaxResults=_PAGE):
            records = page.get("Fleets") or ()
            fleets += place.read_each(_EC2_FLEETS, _DESCRIBE_FLEETS, records, read)
        return fleets

    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that shows the instances of the fleet: to lower its capacity would end
        some of them."""
        return aws_command(
            resource.target, "ec2", "describe-fleet-instances", fleet_id=resource.resource_id
        )


def _spot_fleet(place: Place, record: Mapping[str, Any]) -> Keeper | None:
    """Return a Spot fleet that is active and maintains accelerated instances; `None` for any other.
    Raises: ArithmeticError, LookupError, TypeError or ValueError for a record in another form."""
    config = record["SpotFleetRequestConfig"]
    capacity = config.get("TargetCapacity") or 0
    is_maintained = config.get("Type", _MAINTAIN) == _MAINTAIN
    if record["SpotFleetRequestState"] not in _ACTIVE or not is_maintained or capacity <= 0:
        return None
    launches = launches_of(config.get("LaunchSpecifications") or ())
    if not launches.is_known:
        configs = config.get("LaunchTemplateConfigs") or ()
        launches = launches_of_configs(place, _SPOT_FLEETS, configs)
    on_demand = config.get("OnDemandTargetCapacity") or 0
    return _fleet(
        place,
        record,
        record["SpotFleetRequestId"],
        launches,
        capacity,
        is_spot=not on_demand,
        unit=config.get("TargetCapacityUnitType"),
    )


def _ec2_fleet(place: Place, record: Mapping[str, Any]) -> Keeper | None:
    """Return an EC2 fleet that is active and maintains accelerated instances; `None` for any other.
    Raises: ArithmeticError, LookupError, TypeError or ValueError for a record in another form."""
    target = record.get("TargetCapacitySpecification") or {}
    capacity = target.get("TotalTargetCapacity") or 0
    is_maintained = record.get("Type") == _MAINTAIN
    if record["FleetState"] not in _ACTIVE or not is_maintained or capacity <= 0:
        return None
    configs = record.get("LaunchTemplateConfigs") or ()
    on_demand = target.get("OnDemandTargetCapacity") or 0
    is_spot = target.get("DefaultTargetCapacityType") == "spot" and not on_demand
    return _fleet(
        place,
        record,
        record["FleetId"],
        launches_of_configs(place, _EC2_FLEETS, configs),
        capacity,
        is_spot=is_spot,
        unit=target.get("TargetCapacityUnitType"),
    )


def _fleet(
    place: Place,
    record: Mapping[str, Any],
    fleet_id: str,
    launches: Launches,
    capacity: int,
    *,
    is_spot: bool,
    unit: str | None,
) -> Keeper | None:
    """Return a fleet; `None` if it launches nothing accelerated. `capacity` is the target of the
    fleet, counted in `unit`: instances for `units` and `None`. A fleet that counts anything else,
    such as `vcpu`, has no price."""
    if not launches.is_accelerated:
        return None
    tags = tags_in(record)
    created_at = record.get("CreateTime")
    choices: tuple[Choice, ...] = ()
    what = f"{capacity} {unit} of accelerated instances"
    if unit in _UNITS:
        choices = launches.choices
        what = in_words(choices, capacity)
    return Keeper(
        target=place.target,
        resource_id=fleet_id,
        what=what,
        name=name_in(tags),
        tags=tags,
        since=as_utc(created_at) if created_at else None,
        choices=choices,
        capacity=capacity,
        lifecycle=Lifecycle.SPOT if is_spot else Lifecycle.ON_DEMAND,
        evidence=f"it maintains a target capacity of {capacity}, whether used or not",
    )
