"""EC2's accelerated instance types in a scan: their hardware in words, and their price an hour."""

from __future__ import annotations

from governor.core.catalog import families, shape_of
from governor.core.instance import LINUX, PLAIN_OPERATION, Instance, Lifecycle
from governor.core.units import UsdPerHour
from governor.scan.kind import Place

SPOT_PRICES = "ec2:DescribeSpotPriceHistory"
"""The operation by which the price of a Spot instance is read."""
_OPERATIONS = {
    LINUX: PLAIN_OPERATION,
    "Windows": "RunInstances:0002",
    "Red Hat Enterprise Linux": "RunInstances:0010",
    "SUSE Linux": "RunInstances:000g",
}
"""AWS's name on the bill by platform. Source: EC2 user guide, AMI billing information fields."""
_TENANCIES = {"default": "Shared", "dedicated": "Dedicated", "host": "Host"}
"""The price list's name of a tenancy by EC2's."""


def is_accelerated(instance_type: str) -> bool:
    """Return whether a type such as `g5.xlarge` has accelerators. A size that the table of types
    does not have counts by its family."""
    return instance_type.partition(".")[0] in families()


def hardware(instance_type: str, count: int = 1) -> str:
    """Return `count` instances of a type in words: `2 x p5.48xlarge, 8 x NVIDIA H100 each`; only
    `2 x p5.48xlarge` if the accelerators of the type are not known."""
    text = instance_type
    each = ""
    if count > 1:
        text = f"{count} x {instance_type}"
        each = " each"
    shape = shape_of(instance_type)
    if shape is None or shape.accelerator_count is None:
        return text
    return f"{text}, {shape.accelerator_count} x {shape.accelerator}{each}"


def price_of_type(
    place: Place,
    instance_type: str,
    *,
    platform: str = LINUX,
    tenancy: str = "default",
    lifecycle: Lifecycle = Lifecycle.ON_DEMAND,
) -> UsdPerHour | None:
    """Return the price of one instance of a type here; `None` if it is not known."""
    unnamed = Instance(
        target=place.target,
        instance_id="",
        instance_type=instance_type,
        state="",
        launch_time=place.now,
        lifecycle=lifecycle,
        platform=platform,
        operation=_OPERATIONS.get(platform, PLAIN_OPERATION),
        tenancy=_TENANCIES.get(tenancy, tenancy),
    )
    return place.prices.price(unnamed, place.policy).usd_per_hour
