"""Savings of actions: the steps of the waterfall add up to the net figure, and the days do, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from governor.money.model.ledger import LedgerEntry, Saved
from governor.money.rules.cost import months
from governor.money.rules.ledger import net_by_day, saved_in, sum_saved
from tests.builders import NOW, make_entry

COUNTS_FOR = timedelta(days=30)
MONTH = datetime(2026, 11, 1, tzinfo=UTC)
DAYS = [(MONTH + timedelta(days=number)).date() for number in range(20)]


def entry(**changes: Any) -> LedgerEntry:
    """A stop of ten hours ago that saves a dollar an hour: 1.10 before, 0.10 of storage after."""
    costs = {
        "cost_before_usd_per_hour": Decimal("1.10"),
        "cost_after_usd_per_hour": Decimal("0.10"),
        "saved_usd_per_hour": Decimal("1.00"),
    }
    return make_entry(**{"booked_at": NOW - timedelta(hours=10), **costs, **changes})


@st.composite
def entries(draw: st.DrawFn) -> LedgerEntry:
    """Draw entries of this month or of the two before, still open or ended, with a price or
    without."""
    before, after = draw(st.decimals(0, 100, places=4)), draw(st.decimals(0, 100, places=4))
    booked = NOW - draw(st.timedeltas(timedelta(0), timedelta(days=70)))
    ended = draw(st.none() | st.timedeltas(timedelta(0), timedelta(days=40)))
    is_priced = draw(st.booleans())
    return entry(
        booked_at=booked,
        ended_at=None if ended is None else min(NOW, booked + ended),
        false_stop=ended is not None and draw(st.booleans()),
        ours=draw(st.booleans()),
        cost_before_usd_per_hour=before if is_priced else None,
        cost_after_usd_per_hour=after if is_priced else None,
        saved_usd_per_hour=before - after if is_priced else None,
    )


@given(st.lists(entries(), max_size=8))
def test_the_steps_of_the_waterfall_end_at_the_net_saving(booked: list[LedgerEntry]) -> None:
    """And the net saving is the sum of what each action of ours has saved."""
    found = sum_saved(booked, MONTH, NOW, COUNTS_FOR)
    single = [saved_in(one, MONTH, NOW, COUNTS_FOR) for one in booked if one.ours]

    assert_same(sum((one for one in single if one is not None), Decimal(0)), found.net_usd)
    assert_same(found.net_usd, found.avoided_usd - found.undone_usd - found.storage_usd)


@given(st.lists(entries(), max_size=8))
def test_the_days_of_a_month_add_up_to_its_net_saving(booked: list[LedgerEntry]) -> None:
    """Also where an action is older than the month, or ended in it."""
    assert_same(
        sum_saved(booked, MONTH, NOW, COUNTS_FOR).net_usd,
        sum(net_by_day(booked, DAYS, NOW, COUNTS_FOR)),
    )


def test_a_false_stop_saves_nothing() -> None:
    """The avoided cost is shown, and taken off again: its instance was needed."""
    undone = entry(ended_at=NOW - timedelta(hours=9), false_stop=True)

    assert Saved(
        avoided_usd=Decimal("1.10"), undone_usd=Decimal("1.10"), actions=1, false_stops=1
    ) == sum_saved([undone], MONTH, NOW, COUNTS_FOR)
    assert Decimal(0) == saved_in(undone, MONTH, NOW, COUNTS_FOR)


def test_an_unknown_price_is_counted_and_in_no_amount() -> None:
    """Unknown is never booked as zero."""
    unpriced = entry(cost_before_usd_per_hour=None, saved_usd_per_hour=None)

    assert Saved(actions=1, unpriced=1) == sum_saved([unpriced], MONTH, NOW, COUNTS_FOR)


def test_what_others_did_is_not_counted() -> None:
    """It is on the bill, and no saving of the governor's."""
    assert Saved() == sum_saved([entry(ours=False)], MONTH, NOW, COUNTS_FOR)


def test_months_are_named_once_each() -> None:
    """Over the end of a year, both ends included."""
    assert ["2026-11", "2026-12", "2027-01"] == months(NOW, datetime(2027, 1, 31, tzinfo=UTC))


def assert_same(left: Decimal, right: Decimal | int) -> None:
    """To a billionth of a cent: hours are divided, and not every part of one has an end in
    digits."""
    assert abs(left - right) < Decimal("1e-11")
