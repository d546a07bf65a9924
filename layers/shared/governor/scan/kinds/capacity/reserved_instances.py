"""Unused Reserved Instances of accelerated types.

It compares them with what runs at this moment in this account, so it proves nothing about other
hours. In an organization other accounts may use them, and then they are not called unused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from governor.core.catalog import shape_of
from governor.core.errors import CloudError
from governor.core.instance import LINUX, Lifecycle
from governor.core.regions import organizations_region
from governor.core.units import UsdPerHour, UtcDatetime, as_utc
from governor.scan.kind import Kind, Place
from governor.scan.kinds.capacity.reservations import DESCRIBE, records_here
from governor.scan.kinds.capacity.rules import Reserved, Use, unused_by_id
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import hardware, is_accelerated
from governor.scan.kinds.tags import name_in, tags_in
from governor.scan.model import Finding, Judgment, Resource, Strength

_TOPIC = "Reserved Instances"
_DESCRIBE_RESERVED = "ec2:DescribeReservedInstances"
_DESCRIBE_INSTANCES = "ec2:DescribeInstances"
_DESCRIBE_ORGANIZATION = "organizations:DescribeOrganization"
_NO_ORGANIZATION = "AWSOrganizationsNotInUseException"
_TENANCIES = {"default": "Shared", "dedicated": "Dedicated", "host": "Host"}
_VPC = " (Amazon VPC)"


@dataclass(frozen=True, slots=True)
class Purchase(Resource):
    """A purchase of Reserved Instances, of which some pay for nothing."""

    reserved: Reserved = Reserved("", "", LINUX, "", "Shared", 0)
    usd_of_one: UsdPerHour | None = None
    """The price of one an hour, paid in advance or not; `None` if it is not in USD."""
    unused: int = 0
    ends_at: UtcDatetime | None = None
    is_shared: bool = True
    """True if other accounts may use it, or that is not known."""


class ReservedInstances(Kind[Purchase, None]):
    """Active Reserved Instances of accelerated types that no instance here uses: what runs now is
    compared with the list."""

    name = "reserved-instances"
    words = _TOPIC
    operations = (_DESCRIBE_RESERVED, _DESCRIBE_INSTANCES, DESCRIBE, _DESCRIBE_ORGANIZATION)

    def list(self, place: Place) -> Sequence[Purchase]:
        """Return the purchases with an unused part; empty if there are none. Raises:
        CloudError."""

        def read(record: Any) -> Purchase | None:
            """Return a purchase of an accelerated type; `None` for any other record. Raises:
            ArithmeticError, LookupError, TypeError or ValueError for a record in another form."""
            return _purchase(place, record)

        active = [{"Name": "state", "Values": ["active"]}]
        records = place.call(_DESCRIBE_RESERVED, Filters=active).get("ReservedInstances") or ()
        purchases = list(place.read_each(_TOPIC, _DESCRIBE_RESERVED, records, read))
        if not purchases:
            return []
        uses = [*_running(place), *_free(place)]
        types = {purchase.reserved.instance_type for purchase in purchases}
        types.update(use.instance_type for use in uses)
        reserved = [purchase.reserved for purchase in purchases]
        unused = unused_by_id(reserved, uses, {name: _vcpus(name) for name in types})
        is_shared = any(unused.values()) and _may_be_shared(place)
        with_unused: list[Purchase] = []
        for purchase in purchases:
            count = unused[purchase.resource_id]
            if count:
                what = hardware(purchase.reserved.instance_type, count)
                changed = replace(purchase, unused=count, is_shared=is_shared, what=what)
                with_unused.append(changed)
        return with_unused

    def price(self, place: Place, resource: Purchase) -> UsdPerHour | None:
        """Return what an hour of the unused instances costs; `None` if that is not known."""
        if resource.usd_of_one is None:
            return None
        return resource.usd_of_one * resource.unused

    def own_judgment(self, place: Place, resource: Purchase, measured: None) -> Judgment:
        """Return the judgment that the purchase is unused, by weak evidence, if no other account
        can use it; else that its use is not measured."""
        until = "" if resource.ends_at is None else f", until {resource.ends_at:%Y-%m-%d}"
        evidence = (
            f"{resource.unused} of {resource.reserved.count} pay for nothing that runs here "
            f"now{until}"
        )
        if resource.is_shared:
            evidence = f"{evidence}; other accounts of the organization may use them"
            return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)
        return Judgment(Finding.UNUSED, Strength.WEAK, evidence)

    def own_command(self, resource: Purchase, judgment: Judgment) -> str:
        """Return the command that shows the purchase: none ends it early."""
        return aws_command(
            resource.target,
            "ec2",
            "describe-reserved-instances",
            reserved_instances_ids=resource.resource_id,
        )


def _purchase(place: Place, record: Mapping[str, Any]) -> Purchase | None:
    """Return the purchase in a record; `None` if it is of no accelerated type. Raises:
    ArithmeticError, LookupError, TypeError or ValueError for a record in another form."""
    instance_type = record["InstanceType"]
    if not is_accelerated(instance_type):
        return None
    tags = tags_in(record)
    started_at = record.get("Start")
    ends_at = record.get("End")
    tenancy = record.get("InstanceTenancy", "default")
    reserved = Reserved(
        reserved_id=record["ReservedInstancesId"],
        instance_type=instance_type,
        platform=record.get("ProductDescription", LINUX).removesuffix(_VPC),
        zone=record.get("AvailabilityZone") or "",
        tenancy=_TENANCIES.get(tenancy, tenancy),
        count=record["InstanceCount"],
    )
    return Purchase(
        target=place.target,
        resource_id=reserved.reserved_id,
        what=hardware(instance_type, reserved.count),
        name=name_in(tags),
        tags=tags,
        since=as_utc(started_at) if started_at else None,
        reserved=reserved,
        usd_of_one=_usd_of_one(record),
        ends_at=as_utc(ends_at) if ends_at else None,
    )


def _usd_of_one(record: Mapping[str, Any]) -> UsdPerHour | None:
    """Return what one Reserved Instance costs an hour: what was paid in advance over the term, and
    what is charged each hour. `None` if it is not in USD. Raises: ArithmeticError or LookupError
    for a record in another form."""
    if record.get("CurrencyCode", "USD") != "USD":
        return None
    hours = Decimal(record["Duration"]) / 3600
    usd = Decimal(str(record.get("FixedPrice", 0))) / hours
    usd += Decimal(str(record.get("UsagePrice", 0)))
    for charge in record.get("RecurringCharges") or ():
        if charge.get("Frequency") == "Hourly":
            usd += Decimal(str(charge["Amount"]))
    return usd


def _running(place: Place) -> Iterator[Use]:
    """Yield the running instances that Reserved Instances may pay for. Raises: CloudError."""
    for instance in place.instances.list_accelerated(place.target):
        if instance.lifecycle is Lifecycle.ON_DEMAND and instance.host_id is None:
            yield Use(
                instance_type=instance.instance_type,
                platform=instance.platform,
                zone=instance.availability_zone,
                tenancy=instance.tenancy,
            )


def _free(place: Place) -> list[Use]:
    """Return the free instances of Capacity Reservations, except Capacity Blocks: Reserved
    Instances of a Region pay for them, and those of a zone do not. Source: EC2 user guide, Capacity
    Reservation pricing. Raises: CloudError."""

    def read(record: Any) -> Use | None:
        """Return the free instances of an active reservation; `None` if it has none, and for a
        Capacity Block. Raises: LookupError or TypeError for a record in another form."""
        is_block = record.get("ReservationType") == "capacity-block"
        if record["State"] != "active" or is_block or not record["AvailableInstanceCount"]:
            return None
        return Use(
            instance_type=record["InstanceType"],
            platform=record.get("InstancePlatform", LINUX),
            zone="",
            tenancy=_TENANCIES.get(record.get("Tenancy", "default"), "Shared"),
            count=record["AvailableInstanceCount"],
        )

    return list(place.read_each(_TOPIC, DESCRIBE, records_here(place), read))


def _vcpus(instance_type: str) -> int | None:
    """Return the vCPUs of a type; `None` if they are not known."""
    shape = shape_of(instance_type)
    return None if shape is None else shape.vcpus


def _may_be_shared(place: Place) -> bool:
    """Return whether the account is in an organization, read once; true also if that is not known,
    which is reported."""
    account = place.target.account
    home = organizations_region(place.target.region)

    def ask() -> bool:
        """Return whether AWS Organizations knows the account."""
        try:
            place.api.call(replace(place.target, region=home), _DESCRIBE_ORGANIZATION)
        except CloudError as error:
            if error.code == _NO_ORGANIZATION:
                return False
            raise
        return True

    try:
        return place.kept.get((_DESCRIBE_ORGANIZATION, account), ask)
    except CloudError as error:
        place.could_not_read(f"sharing of {_TOPIC}", error)
        return True
