"""Unused Elastic IP addresses: each costs the same as one in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from governor.core.units import UsdPerHour, UtcDatetime
from governor.scan.kind import Kind, Place
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.remains.links import NO_LINK, Links, host_ids
from governor.scan.kinds.remains.rules import judge_stopped
from governor.scan.kinds.remains.stopped import DESCRIBE_INSTANCES, stopped_here
from governor.scan.kinds.remains.storage import price_of_address
from governor.scan.kinds.tags import name_in, tags_in
from governor.scan.model import Finding, Judgment, Resource, Strength

_TOPIC = "Elastic IP addresses"
_DESCRIBE = "ec2:DescribeAddresses"
_OF_AMAZON = ("amazon", None)
"""Pools of addresses that AWS charges. Those that a customer brought cost nothing."""


@dataclass(frozen=True, slots=True)
class Address(Resource):
    """An address that leads to nothing that runs. `since` is when its instance was stopped."""

    allocation_id: str = ""
    instance_id: str = ""
    """The stopped instance that it belongs to; empty if it belongs to none."""
    link: str = ""
    """The tag that connects it with a GPU host, in words; empty if there is none."""


class ElasticIps(Kind[Address, None]):
    """Addresses without an association, or of a stopped accelerated instance."""

    name = "elastic-ip"
    words = _TOPIC
    operations = (_DESCRIBE, DESCRIBE_INSTANCES)

    def list(self, place: Place) -> Sequence[Address]:
        """Return the addresses; empty if there are none. Raises: CloudError."""
        records = [*(place.call(_DESCRIBE).get("Addresses") or ())]
        stopped_at_by_id: dict[str, UtcDatetime | None] = {}
        if any(record.get("InstanceId") for record in records):
            for instance in stopped_here(place):
                stopped_at_by_id[instance.instance_id] = instance.stopped_at

        def read(record: Any) -> Address | None:
            """Return an address that leads nowhere; `None` for any other."""
            return _address(place, record, stopped_at_by_id)

        addresses = list(place.read_each(_TOPIC, _DESCRIBE, records, read))
        links = Links(place.policy, (), host_ids(place, addresses))
        return [replace(address, link=links.of_tags(address)) for address in addresses]

    def price(self, place: Place, resource: Address) -> UsdPerHour | None:
        """Return the price of a public IPv4 address, which is always known."""
        return price_of_address(place)

    def own_judgment(self, place: Place, resource: Address, measured: None) -> Judgment:
        """Return the judgment that the address is unused, if it belongs to an instance that was
        stopped for 30 days, or belongs to nothing and its tags connect it with a GPU host; only
        that it is unattached if they do not."""
        if resource.instance_id:
            rest = f"the address belongs to {resource.instance_id}"
            return judge_stopped(resource.since, place.now, rest)
        evidence = "not associated with anything (AWS does not say since when)"
        if not resource.link:
            return Judgment(Finding.UNATTACHED, Strength.WEAK, f"{evidence}; {NO_LINK}")
        return Judgment(Finding.UNUSED, Strength.STRONG, f"{evidence}; {resource.link}")

    def own_command(self, resource: Address, judgment: Judgment) -> str:
        """Return the command that releases an address that a GPU host left; the one that shows it
        if it belongs to an instance, or may be somebody else's. A released address does not come
        back."""
        if resource.instance_id or not resource.link:
            operation = "describe-addresses"
            return aws_command(
                resource.target, "ec2", operation, allocation_ids=resource.allocation_id
            )
        return aws_command(
            resource.target, "ec2", "release-address", allocation_id=resource.allocation_id
        )


def _address(
    place: Place,
    record: Mapping[str, Any],
    stopped_at_by_id: Mapping[str, UtcDatetime | None],
) -> Address | None:
    """Return an address that leads nowhere; `None` for one in use, and one that AWS does not charge
    or runs itself. Raises: LookupError or TypeError for a record in another form."""
    if record.get("ServiceManaged") or record.get("PublicIpv4Pool") not in _OF_AMAZON:
        return None
    instance_id = record.get("InstanceId") or ""
    is_associated = bool(record.get("AssociationId")) or bool(instance_id)
    if is_associated and instance_id not in stopped_at_by_id:
        return None
    tags = tags_in(record)
    return Address(
        target=place.target,
        resource_id=record["PublicIp"],
        what="public IPv4 address",
        name=name_in(tags),
        tags=tags,
        since=stopped_at_by_id.get(instance_id),
        allocation_id=record["AllocationId"],
        instance_id=instance_id,
    )
