"""Prices as AWS lists them: what counts, what is left out, and what a key names."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.instance import Target
from governor.money.rules.prices import (
    SAVINGS_PLANS,
    Commitment,
    CommitmentKind,
    Commitments,
    PriceList,
    key_of,
    may_commitment_pay,
    on_demand,
)
from local.engine.simulators.pricing import instance_product
from tests.builders import NOW, make_instance

HERE = "eu-central-1"
TYPE = "g5.xlarge"
LINUX, WINDOWS = key_of(TYPE, "RunInstances", "Shared"), key_of(TYPE, "RunInstances:0002", "Shared")


def one(price: str | dict[str, str] = "1.258", **changes: str) -> str:
    """A product of the type here."""
    return instance_product(TYPE, price, HERE, **changes)


def known(**usd: str) -> PriceList:
    """A list of the type's plain price, or of others by tenancy."""
    found = {
        key_of(TYPE, "RunInstances", tenancy): Decimal(price) for tenancy, price in usd.items()
    }
    return PriceList(HERE).with_type(TYPE, found, NOW)


def test_a_price_is_known_by_type_operation_and_tenancy() -> None:
    """Windows, and an instance alone on its host, cost something else."""
    dedicated = key_of(TYPE, "RunInstances", "Dedicated")
    documents = [
        one("1.2580000000"),
        one("1.4420000000", operation="RunInstances:0002", operatingSystem="Windows"),
        one("1.3838000000", tenancy="Dedicated"),
    ]

    found = on_demand(documents, HERE)

    assert {LINUX: "1.2580000000", WINDOWS: "1.4420000000", dedicated: "1.3838000000"} == {
        key: str(usd) for key, usd in found.items()
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"capacitystatus": "UnusedCapacityReservation"},
        {"capacitystatus": "AllocatedCapacityReservation"},
        {"marketoption": "CapacityBlock"},
        {"regionCode": "us-east-1"},
        {"operation": ""},
    ],
    ids=str,
)
def test_other_products_of_the_type_are_no_price(changes: dict[str, str]) -> None:
    """A reservation that is allocated is listed at zero, and a Capacity Block under the same
    type."""
    assert {} == on_demand([one("0.5", **changes)], HERE)
    assert {LINUX: Decimal("1.258")} == on_demand([one("0.5", **changes), one()], HERE)


@pytest.mark.parametrize(
    "price", ["0", "0.0000000000", "-1", "NaN", "Infinity", {"CNY": "8.1"}, {}], ids=str
)
def test_unknown_is_unpriced_and_never_zero(price: str | dict[str, str]) -> None:
    """Another currency is not converted."""
    assert {} == on_demand([one(price)], HERE)


def test_two_prices_are_no_price(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing says which of them counts; the same price twice is one."""
    windows = one("1.5", operation="RunInstances:0002")

    assert {WINDOWS: Decimal("1.5")} == on_demand(
        [one("1.258"), one("1.259"), windows, windows], HERE
    )
    assert f"{LINUX} has 2 prices" in caplog.text


@pytest.mark.parametrize(
    "damage", ["", "{}", "[]", '{"product": null}', one().replace("1.258", "much")]
)
def test_a_document_that_cannot_be_read_sinks_no_other(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged."""
    assert {LINUX: Decimal("1.258")} == on_demand([damage, one()], HERE)
    assert "cannot be read" in caplog.text


def test_a_price_by_another_unit_is_none() -> None:
    """A month, or a quantity, is no hour."""
    assert {} == on_demand([one().replace('"Hrs"', '"Quantity"')], HERE)


@given(st.decimals(min_value="0.0000000001", max_value="1000000", places=10))
def test_an_amount_stays_what_was_listed(usd: Decimal) -> None:
    """To the last digit: no float comes between."""
    assert {LINUX: usd} == on_demand([one(str(usd))], HERE)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "1.2"),
        ({"tenancy": "Dedicated"}, "1.4"),
        ({"tenancy": "Host"}, None),
        ({"instance_type": "g5.2xlarge"}, None),
        ({"operation": "RunInstances:0002", "platform": "Windows"}, None),
        ({"platform": "Windows"}, None),
    ],
    ids=str,
)
def test_an_instance_has_the_price_of_what_it_is_charged_as(
    changes: dict[str, Any], expected: str | None
) -> None:
    """Records of earlier releases know a platform and no operation: such a one may be anything."""
    instance = replace(make_instance(target=Target("1", HERE), instance_type=TYPE), **changes)

    price = known(Shared="1.2", Dedicated="1.4").price(instance)

    assert expected == (None if price is None else str(price))


def test_bare_metal_is_alone_on_its_host() -> None:
    """Where the list has no shared price for it, which EC2 says it has."""
    instance = make_instance(instance_type="g4dn.metal")
    found = {key_of("g4dn.metal", "RunInstances", "Dedicated"): Decimal(8)}

    assert Decimal(8) == PriceList(HERE).with_type("g4dn.metal", found, NOW).price(instance)
    assert known(Dedicated="1.4").price(make_instance(instance_type=TYPE)) is None


def test_a_type_that_is_read_again_keeps_nothing_of_before() -> None:
    """Not even where it has no price any more; other types stay, also those whose name begins
    alike."""
    later, longer = (
        NOW + timedelta(days=1),
        {key_of("g5.xlarge2", "RunInstances", "Shared"): Decimal(3)},
    )
    lists = known(Shared="1.2").with_type("g5.xlarge2", longer, NOW).with_type(TYPE, {}, later)

    assert longer == lists.usd_per_hour
    assert {TYPE: later, "g5.xlarge2": NOW} == lists.read_at


PLAN = Commitment(
    CommitmentKind.COMPUTE_PLAN, "sp-1", "", "", Decimal(5), NOW, NOW + timedelta(days=9)
)


@pytest.mark.parametrize(
    ("changes", "applies"),
    [
        ({}, True),
        ({"region": HERE, "family": "g5"}, True),
        ({"region": "us-east-1", "family": "g5"}, False),
        ({"region": HERE, "family": "g6"}, False),
        ({"region": HERE, "family": "g5", "platform": "Linux/UNIX"}, True),
        ({"region": HERE, "family": "g5", "platform": "Windows"}, False),
    ],
    ids=str,
)
def test_a_commitment_pays_for_what_it_names(changes: dict[str, str], applies: bool) -> None:
    """A Compute Savings Plan for everything."""
    read = frozenset({SAVINGS_PLANS, HERE})
    known = Commitments(NOW, (replace(PLAN, **changes),), read)  # type: ignore[arg-type]

    assert applies is may_commitment_pay(known, TYPE, HERE, "Linux/UNIX")


@pytest.mark.parametrize(
    "read", [None, {HERE}, {SAVINGS_PLANS}, {SAVINGS_PLANS, "us-east-1"}], ids=str
)
def test_a_commitment_that_nobody_could_read_may_apply(read: set[str] | None) -> None:
    """An unknown commitment is no reason to promise cash."""
    known = None if read is None else Commitments(NOW, (), frozenset(read))
    assert may_commitment_pay(known, TYPE, HERE, "Linux/UNIX")
    assert not may_commitment_pay(
        Commitments(NOW, (), frozenset({SAVINGS_PLANS, HERE})), TYPE, HERE, "Linux/UNIX"
    )


def test_the_documents_are_text() -> None:
    """As botocore leaves them."""
    assert "product" in json.loads(one())
