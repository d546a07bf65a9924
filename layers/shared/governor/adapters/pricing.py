"""What an instance costs: the policy's price, the Spot price, the shipped list, or unpriced; never zero.

Unpriced is `None`. This module must not know what is saved by what.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from governor.adapters.catalogue import PRICES_AS_OF, list_price
from governor.adapters.clients import Clients
from governor.adapters.clock import utc_now
from governor.adapters.spot_market import spot_history
from governor.domain.episode.plan import Price
from governor.domain.instance import Instance, Lifecycle
from governor.domain.policy.policy import Policy
from governor.domain.units import iso
from governor.errors import CloudError

_log = logging.getLogger(__name__)

_LIST_REGION = "us-east-1"
_LINUX = "Linux/UNIX"
_SPOT_KEPT = timedelta(hours=1)


class AwsPriceBook:
    """The port `PriceBook`. Spot prices are read once an hour per type, zone, platform and target."""

    def __init__(self, clients: Clients, *, now: Callable[[], datetime] = utc_now) -> None:
        self._clients = clients
        self._now = now
        self._spot: dict[tuple[str, ...], tuple[datetime, Price]] = {}

    def price(self, instance: Instance, policy: Policy) -> Price:
        own = policy.prices.usd_per_hour.get(instance.instance_type)
        if own is not None:
            return Price(own, "price from the policy")
        if instance.lifecycle is Lifecycle.SPOT:
            return self._spot_price(instance)
        return _list_price(instance)

    def _spot_price(self, instance: Instance) -> Price:
        target = instance.target
        # Zone names mean different zones in different accounts.
        zone = (target.account, target.region, instance.availability_zone)
        key = (*zone, instance.instance_type, instance.platform)
        now = self._now()
        kept = self._spot.get(key)
        if kept is not None and now - kept[0] < _SPOT_KEPT:
            return kept[1]
        try:
            price = self._read_spot_price(instance, now)
        except CloudError as error:
            # Not kept: the next instance may be luckier. The list price would overstate the saving.
            _log.warning("no Spot price for %s: %s", instance.instance_type, error)
            return Price(None, "the Spot price could not be read")
        self._spot[key] = (now, price)
        return price

    def _read_spot_price(self, instance: Instance, now: datetime) -> Price:
        zone = {"AvailabilityZone": instance.availability_zone} if instance.availability_zone else {}
        client = self._clients.client("ec2", instance.target)
        history = spot_history(client, instance.instance_type, instance.platform, now, **zone)
        if not history:
            return Price(None, f"EC2 knows no Spot price for {instance.instance_type} here")
        where = instance.availability_zone or instance.target.region
        return Price(Decimal(history[-1]["SpotPrice"]), f"Spot price in {where} at {iso(now)}", as_of=now)


def _list_price(instance: Instance) -> Price:
    amount = list_price(instance.instance_type)
    if amount is None:
        return Price(None, f"no list price is known for {instance.instance_type}; set prices.usd_per_hour")
    notes = [f"list price {_LIST_REGION}, Linux, {PRICES_AS_OF}"]
    if instance.target.region != _LIST_REGION:
        notes.append(f"{instance.target.region} may differ")
    if instance.platform != _LINUX:
        notes.append(f"the instance runs {instance.platform}, which costs more")
    as_of = datetime.fromisoformat(PRICES_AS_OF).replace(tzinfo=UTC)
    return Price(amount, "; ".join(notes), as_of=as_of)
