"""Prices in the state table: kept as they were read, and never a reason to fail."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from governor.money.rules.prices import PriceList, key_of
from governor.table.table import put
from tests.builders import NOW
from tests.twins.stores import EveryStore
from tests.twins.table import MemoryTable

ONE = PriceList("eu-central-1").with_type(
    "g5.xlarge", {key_of("g5.xlarge", "RunInstances", "Shared"): Decimal("1.2580000000")}, NOW
)


def test_a_list_is_kept_by_region() -> None:
    """The later one in place of the one before."""
    state = EveryStore(MemoryTable())
    assert state.price_list("eu-central-1") is None

    later = ONE.with_type("p5.48xlarge", {}, NOW)
    for one in (ONE, later, replace(ONE, region="us-east-1")):
        state.keep_price_list(one)

    assert later == state.price_list("eu-central-1")
    assert ONE.usd_per_hour == (state.price_list("us-east-1") or later).usd_per_hour


@given(
    st.dictionaries(
        st.text(max_size=20), st.decimals(allow_nan=False, allow_infinity=False), max_size=5
    )
)
def test_an_amount_is_kept_to_the_last_digit(usd: dict[str, Decimal]) -> None:
    """As text: no float comes between."""
    state = EveryStore(MemoryTable())
    state.keep_price_list(replace(ONE, usd_per_hour=usd))

    found = state.price_list("eu-central-1")
    assert found is not None
    assert {key: str(one) for key, one in usd.items()} == {
        key: str(one) for key, one in found.usd_per_hour.items()
    }


def test_a_damaged_list_is_none() -> None:
    """It is read again with the next refresh; until then the shipped list counts."""
    table = MemoryTable()
    for damage in (b"", b"x", b"x\x9c"):
        table.write(put(("PRICES", "eu-central-1"), {"list": damage}))
        assert EveryStore(table).price_list("eu-central-1") is None
