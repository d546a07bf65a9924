"""Reads EBS volumes, and prices volumes and public addresses.

The prices are those of AWS's price list of the Region if it was read, else the policy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from governor.core.instance import Instance, Volume
from governor.core.units import HOURS_PER_MONTH, Usd, UsdPerHour
from governor.episode.model.plan import StoragePrices
from governor.episode.rules.plan_effects import ADDRESS_USD_PER_HOUR
from governor.scan.kind import Place

DESCRIBE_VOLUMES = "ec2:DescribeVolumes"


def read_volume(record: Mapping[str, Any]) -> Volume:
    """Return the volume in a record of DescribeVolumes. Raises: LookupError or TypeError for a
    record without an id and a size."""
    attachments = record.get("Attachments") or ()
    device = attachments[0].get("Device") or "" if attachments else ""
    return Volume(
        volume_id=record["VolumeId"],
        device=device,
        delete_on_termination=any(one.get("DeleteOnTermination") for one in attachments),
        size_gib=int(record["Size"]),
        volume_type=record.get("VolumeType"),
        iops=record.get("Iops"),
        throughput=record.get("Throughput"),
    )


def price_of_volumes(place: Place, volumes: Iterable[Volume]) -> UsdPerHour | None:
    """Return the price of volumes; `None` if the size of any is not known. A type without a price
    in the list has the policy's price for a GiB."""
    prices = _storage_prices(place)
    usd_per_month: Usd = Decimal(0)
    for volume in volumes:
        usd = prices.usd_per_month(volume)
        if usd is None and volume.size_gib is not None:
            usd = volume.size_gib * place.policy.prices.ebs_usd_per_gib_month
        if usd is None:
            return None
        usd_per_month += usd
    return usd_per_month / HOURS_PER_MONTH


def price_of_address(place: Place) -> UsdPerHour:
    """Return the price of a public IPv4 address."""
    usd = _storage_prices(place).address_usd_per_hour
    return ADDRESS_USD_PER_HOUR if usd is None else usd


def _storage_prices(place: Place) -> StoragePrices:
    """Return the prices of storage in the Region of this place, read once for each target; all
    unknown if the Region's price list was not read."""

    def read_prices() -> StoragePrices:
        """Return the same, read now. An instance of no type asks for them: the price of any
        instance holds those of storage, too."""
        untyped = Instance(
            target=place.target,
            instance_id="",
            instance_type="",
            state="",
            launch_time=place.now,
        )
        return place.prices.price(untyped, place.policy).storage or StoragePrices()

    return place.kept.get(("storage-prices", str(place.target)), read_prices)
