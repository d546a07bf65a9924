"""Each hour: reads what AWS lists for the types that run, and what the hub's account is committed
to, where that was never read or too long ago."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from governor.domain.money.prices import SAVINGS_PLANS, STORAGE, Commitment, Commitments, PriceList
from governor.domain.units import UtcDatetime
from governor.errors import CloudError
from governor.ports import Clock, Policies, PriceReader
from governor.stores import StateTable


@dataclass(slots=True)
class Refreshed:
    """Result of one refresh: types by Region, whether commitments were read, and what was not."""

    types: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    commitments: Commitments | None = None


@dataclass(frozen=True, slots=True)
class RefreshPrices:
    clock: Clock
    policies: Policies
    state: StateTable
    price_reader: PriceReader

    def __call__(self) -> Refreshed:
        """Read what is due. What fails holds up nothing else, and leaves the prices before in
        force."""
        now, refreshed = self.clock.now(), Refreshed()
        since = now - timedelta(hours=self.policies.base().policy.prices.refresh_hours)
        running = defaultdict[str, set[str]](set)
        for page in self.state.pages():
            running[page.region] |= {row.instance_type for row in page.rows}
        for region, types in sorted(running.items()):
            try:
                self._refresh(region, sorted(types), since, now, refreshed)
            except CloudError as error:
                refreshed.problems.append(f"the prices of {region}: {error}")
        if running:
            self._commit(sorted(running), since, now, refreshed)
        return refreshed

    def _refresh(
        self,
        region: str,
        types: Collection[str],
        since: UtcDatetime,
        now: UtcDatetime,
        refreshed: Refreshed,
    ) -> None:
        before = self.state.price_list(region) or PriceList(region)
        listed = before
        for name in (STORAGE, *types):
            if name in before.read_at and before.read_at[name] > since:
                continue
            try:
                if name == STORAGE:
                    listed = listed.with_storage(self.price_reader.storage(region), now)
                else:
                    listed = listed.with_type(name, self.price_reader.on_demand(region, name), now)
                refreshed.types.setdefault(region, []).append(name)
            except CloudError as error:
                refreshed.problems.append(f"the price of {name} in {region}: {error}")
        if listed is not before:
            self.state.keep_price_list(listed)

    def _commit(
        self, regions: Collection[str], since: UtcDatetime, now: UtcDatetime, refreshed: Refreshed
    ) -> None:
        """Commitments are no prices: where they may not be read, that is kept, and is no
        failure."""
        before = self.state.commitments()
        if before and before.read_at > since and before.read.issuperset((SAVINGS_PLANS, *regions)):
            return
        parts: dict[str, Callable[[], Collection[Commitment]]] = {
            SAVINGS_PLANS: self.price_reader.savings_plans
        }
        parts |= {region: partial(self.price_reader.reserved, region) for region in regions}
        found: list[Commitment] = []
        unread: dict[str, str] = {}
        for name, read in parts.items():
            try:
                found += read()
            except CloudError as error:
                unread[name] = str(error)
        read_now = frozenset(parts) - unread.keys()
        refreshed.commitments = Commitments(now, tuple(found), read_now, unread)
        try:
            self.state.keep_commitments(refreshed.commitments)
        except CloudError as error:
            refreshed.problems.append(f"the commitments: {error}")
