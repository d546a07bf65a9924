"""What an instance costs: the policy's own price, the Spot price, the shipped list, or unpriced; never zero."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from governor.adapters.catalogue import PRICES_AS_OF, list_price
from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.domain.instance import Instance, Lifecycle
from governor.domain.plan import Price
from governor.domain.policy import Policy
from governor.domain.units import UtcDatetime, iso
from governor.errors import CloudError

_LIST_REGION = "us-east-1"
_LINUX = "Linux/UNIX"


class AwsPriceBook:
    """The port `PriceBook`. Spot prices are read once per type, zone and process."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._spot: dict[tuple[str, str, str], Price | None] = {}

    def price(self, instance: Instance, policy: Policy) -> Price:
        """As the port says."""
        own = policy.prices.usd_per_hour.get(instance.instance_type)
        if own is not None:
            return Price(own, "price from the policy")
        if instance.lifecycle is Lifecycle.SPOT:
            return self._spot_price(instance) or Price(None, "the Spot price could not be read")
        return _list_price(instance)

    def _spot_price(self, instance: Instance) -> Price | None:
        key = (instance.instance_type, instance.availability_zone, instance.platform)
        if key not in self._spot:
            try:
                self._spot[key] = self._read_spot_price(instance)
            except CloudError:
                # Not kept: the next instance may be luckier. Unpriced is told as such.
                return None
        return self._spot[key]

    def _read_spot_price(self, instance: Instance) -> Price | None:
        now = datetime.now(tz=UTC)
        with aws_errors("ec2:DescribeSpotPriceHistory"):
            answer = self._clients.client("ec2", instance.target).describe_spot_price_history(
                InstanceTypes=[instance.instance_type],
                ProductDescriptions=[instance.platform],
                AvailabilityZone=instance.availability_zone,
                StartTime=now,
                EndTime=now,
            )
        history = answer["SpotPriceHistory"]
        if not history:
            return None
        latest = max(history, key=_time_of)
        source = f"Spot price in {instance.availability_zone} at {iso(now)}"
        return Price(Decimal(latest["SpotPrice"]), source, as_of=now)


def _time_of(entry: dict[str, datetime]) -> UtcDatetime:
    return entry["Timestamp"]


def _list_price(instance: Instance) -> Price:
    amount = list_price(instance.instance_type)
    if amount is None:
        return Price(None, f"no list price is known for {instance.instance_type}; set prices.usd_per_hour")
    notes = [f"list price {_LIST_REGION}, Linux, {PRICES_AS_OF}"]
    if instance.target.region != _LIST_REGION:
        notes.append(f"{instance.target.region} may differ")
    if instance.platform != _LINUX:
        notes.append(f"{instance.platform} costs more")
    as_of = datetime.fromisoformat(PRICES_AS_OF).replace(tzinfo=UTC)
    return Price(amount, "; ".join(notes), as_of=as_of)
