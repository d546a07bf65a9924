"""Stores prices as they were last read from AWS, one item for each Region.

This store asks nobody for a price: `money.refresh_prices` does.
"""

from __future__ import annotations

from governor.core.errors import CloudError
from governor.money.rules.prices import Commitments, PriceList
from governor.table.table import DAMAGED, Store, packed, put, unpacked_one

_COMMITMENTS = "PRICES", "COMMITMENTS"


class Prices(Store):
    """Stored prices. Every method may raise CloudError."""

    def price_list(self, region: str) -> PriceList | None:
        """Return the prices last read for a Region. Return `None` if none were read, or they are
        damaged, which is logged. Raises: CloudError."""
        item = self._table.get(("PRICES", region))
        if item is None:
            return None
        try:
            document = unpacked_one([item["list"]])
            return next(iter(self._table.records(PriceList, [document])))
        except (CloudError, *DAMAGED):
            self._table.log_left_out(f"the prices of {region}")
            return None

    def keep_price_list(self, price_list: PriceList) -> None:
        """Store the prices of a Region in place of all earlier ones. Raises: CloudError."""
        # The prices of a Region are few enough to fit into one part.
        parts = packed([self._table.document(price_list)])
        self._table.write(put(("PRICES", price_list.region), {"list": parts[0]}))

    def commitments(self) -> Commitments | None:
        """Return the commitments last read for the hub's account; `None` if they were never read.
        Raises: CloudError also if they are damaged."""
        return self._table.read(Commitments, _COMMITMENTS)

    def keep_commitments(self, commitments: Commitments) -> None:
        """Store the commitments of the hub's account in place of earlier ones. Raises:
        CloudError."""
        self._table.write(put(_COMMITMENTS, commitments))
