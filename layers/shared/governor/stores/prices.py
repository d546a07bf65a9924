"""Prices as they were last read from AWS, an item a Region."""

from __future__ import annotations

from governor.domain.money.prices import Commitments, PriceList
from governor.errors import CloudError
from governor.stores.table import DAMAGED, Store, packed, put, unpacked

_COMMITMENTS = "PRICES", "COMMITMENTS"


class Prices(Store):
    def price_list(self, region: str) -> PriceList | None:
        """Return what was read of a Region; nothing where nobody did, or it is damaged."""
        item = self._table.get(("PRICES", region))
        if item is None:
            return None
        try:
            return next(iter(self._table.records(PriceList, unpacked([item["list"]]))))
        except (CloudError, *DAMAGED):
            self._table.leave_out(f"the prices of {region}")
            return None

    def keep_price_list(self, one: PriceList) -> None:
        self._table.write(
            put(("PRICES", one.region), {"list": packed([self._table.document(one)])[0]})
        )

    def commitments(self) -> Commitments | None:
        """Return what was read last of the hub's account; nothing where nobody did."""
        return self._table.read(Commitments, _COMMITMENTS)

    def keep_commitments(self, one: Commitments) -> None:
        self._table.write(put(_COMMITMENTS, one))
