"""Reads AWS's list prices of the types that run, and the Savings Plans and Reserved Instances of
the hub's account, each hour if they are due. This module must not read other accounts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Protocol

from governor.core.errors import CloudError
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.fleet.store import Fleet
from governor.money.rules.prices import SAVINGS_PLANS, STORAGE, Commitment, Commitments, PriceList
from governor.money.store.prices import Prices
from governor.policy.ports import Policies

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    from governor.core.units import UsdPerHour
    from governor.episode.model.plan import StoragePrices


_READ_AGAIN_AFTER = timedelta(hours=24)
"""Age at which a list price is read again. AWS changes them a few times a year, and a query for
each type and Region once a day costs nothing."""


class PriceReader(Protocol):
    """AWS's prices of a Region, and the commitments of the hub's account. Raises: CloudError."""

    def on_demand(self, region: str, instance_type: str) -> Mapping[str, UsdPerHour]:
        """Return the hourly On-Demand prices of a type, by `key_of`; empty if it has none. Raises:
        CloudError."""

    def storage(self, region: str) -> StoragePrices:
        """Return the prices of storage and addresses; a price that AWS does not list is missing.
        Raises: CloudError."""

    def savings_plans(self) -> Sequence[Commitment]:
        """Return the active Savings Plans; empty if there are none. Raises: CloudError."""

    def reserved(self, region: str) -> Sequence[Commitment]:
        """Return the active Reserved Instances of a Region; empty if there are none. Raises:
        CloudError."""


@dataclass(slots=True)
class Refreshed:
    """Result of one refresh. `problems` are texts about failed reads and writes."""

    types: dict[str, list[str]] = field(default_factory=dict)
    """By Region, the types whose prices were read, and `STORAGE`."""
    problems: list[str] = field(default_factory=list)
    commitments: Commitments | None = None
    """`None` if no read of them was due."""


@dataclass(frozen=True, slots=True)
class RefreshPrices:
    """Reads prices and commitments that are due, and stores them."""

    clock: Clock
    policies: Policies
    fleet_store: Fleet
    price_store: Prices
    price_reader: PriceReader

    def __call__(self) -> Refreshed:
        """Read and store the prices of the types that run, and the commitments, unless they were
        read within the last day.

        A failed read or write of prices becomes a problem; the earlier prices stay. Raises:
        CloudError if the pages of the fleet, or the stored commitments, cannot be read.
        """
        now = self.clock.now()
        refreshed = Refreshed()
        due_since = now - _READ_AGAIN_AFTER
        types_by_region: dict[str, set[str]] = defaultdict(set)
        for page in self.fleet_store.pages():
            types_by_region[page.region] |= {row.instance_type for row in page.rows}
        for region, types in sorted(types_by_region.items()):
            try:
                self._refresh_prices(region, sorted(types), due_since, now, refreshed)
            except CloudError as error:
                refreshed.problems.append(f"the prices of {region}: {error}")
        if types_by_region:
            self._refresh_commitments(sorted(types_by_region), due_since, now, refreshed)
        return refreshed

    def _refresh_prices(
        self,
        region: str,
        types: Collection[str],
        due_since: UtcDatetime,
        now: UtcDatetime,
        refreshed: Refreshed,
    ) -> None:
        """Read the prices of storage and of these types in a Region, unless they were read after
        `due_since`, and store them. Add what was read, and each failed read, to `refreshed`.

        Raises: CloudError if the stored prices cannot be read or written.
        """
        stored = self.price_store.price_list(region) or PriceList(region)
        prices = stored
        for name in (STORAGE, *types):
            if name in stored.read_at and stored.read_at[name] > due_since:
                continue
            try:
                if name == STORAGE:
                    prices = prices.with_storage(self.price_reader.storage(region), now)
                else:
                    prices = prices.with_type(name, self.price_reader.on_demand(region, name), now)
                refreshed.types.setdefault(region, []).append(name)
            except CloudError as error:
                refreshed.problems.append(f"the price of {name} in {region}: {error}")
        if prices is not stored:
            self.price_store.keep_price_list(prices)

    def _refresh_commitments(
        self,
        regions: Collection[str],
        due_since: UtcDatetime,
        now: UtcDatetime,
        refreshed: Refreshed,
    ) -> None:
        """Read the Savings Plans, and the Reserved Instances of these Regions, and store them in
        place of the stored ones. Do nothing if all were read after `due_since`.

        A failed read is stored with the commitments and is no problem, as no price depends on it; a
        failed write is one. Raises: CloudError if the stored commitments cannot be read.
        """
        stored = self.price_store.commitments()
        wanted = (SAVINGS_PLANS, *regions)
        if stored and stored.read_at > due_since and stored.read.issuperset(wanted):
            return
        readers: dict[str, Callable[[], Collection[Commitment]]] = {
            SAVINGS_PLANS: self.price_reader.savings_plans
        }
        for region in regions:
            readers[region] = partial(self.price_reader.reserved, region)
        commitments: list[Commitment] = []
        unread: dict[str, str] = {}
        for name, read in readers.items():
            try:
                commitments += read()
            except CloudError as error:
                unread[name] = str(error)
        read_now = frozenset(readers) - unread.keys()
        refreshed.commitments = Commitments(now, tuple(commitments), read_now, unread)
        try:
            self.price_store.keep_commitments(refreshed.commitments)
        except CloudError as error:
            refreshed.problems.append(f"the commitments: {error}")
