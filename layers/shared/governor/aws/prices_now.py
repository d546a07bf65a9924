"""Prices of instances where none are stored, as for a scan before anything is deployed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock

from governor.aws.clients import Clients
from governor.aws.price_lists import AwsPriceLists
from governor.aws.pricing import AwsPrices
from governor.core.errors import AccessDenied, CloudError
from governor.core.instance import Instance, Lifecycle, Target
from governor.episode.model.plan import Price
from governor.money.rules.prices import PriceList

_log = logging.getLogger(__name__)


class AwsPricesNow(AwsPrices):
    """The port `PriceBook`: AWS's list is read once for each type and Region. A type that cannot be
    read has the shipped list price."""

    def __init__(
        self,
        clients: Clients,
        hub: Target,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Read prices as the account of `hub`. Nothing is read yet."""
        super().__init__(clients, now=now)
        self._reader = AwsPriceLists(clients, hub)
        self._read: dict[tuple[str, str], PriceList] = {}
        self._reading = Lock()
        self.problem: CloudError | None = None
        """The first refusal of a price, so that shipped ones are used; `None` if there was none."""
        self.spot_problems: dict[Target, CloudError] = {}
        """The last refusal of Spot prices by place: those instances have no price."""

    def _prices_for(self, instance: Instance) -> PriceList:
        """Return the prices of an instance's type in its Region; an empty list for Spot, without a
        type, as where only storage is asked for, or if they could not be read."""
        region = instance.target.region
        if instance.lifecycle is Lifecycle.SPOT or not instance.instance_type:
            return PriceList(region)
        key = (region, instance.instance_type)
        # One read at a time: GetProducts allows five a second.
        with self._reading:
            if key not in self._read:
                self._read[key] = self._read_type(region, instance.instance_type)
            return self._read[key]

    def _read_spot_price(self, instance: Instance, now: datetime) -> Price:
        """Return the Spot price of the instance; its amount is `None` if EC2 knows none. Raises:
        CloudError, which is also kept in `spot_problems`."""
        try:
            return super()._read_spot_price(instance, now)
        except CloudError as error:
            self.spot_problems[instance.target] = error
            raise

    def _read_type(self, region: str, instance_type: str) -> PriceList:
        """Return the prices of a type in a Region; an empty list if there are none, or they cannot
        be read. Once the permission is missing, AWS is not asked again."""
        prices = PriceList(region)
        if isinstance(self.problem, AccessDenied):
            return prices
        try:
            found = self._reader.on_demand(region, instance_type)
        except CloudError as error:
            _log.info("the prices of %s in %s were not read: %s", instance_type, region, error)
            self.problem = self.problem or error
            return prices
        if not found:
            return prices
        return prices.with_type(instance_type, found, self._now())
