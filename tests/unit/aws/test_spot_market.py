"""Spot prices of several Regions: the latest of each zone, and Regions that refuse named apart."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from governor.aws.clients import Clients
from governor.aws.pricing import AwsPrices
from governor.core.errors import AccessDenied
from governor.core.instance import Target
from governor.events.model.interruption import SpotPrice
from tests.unit.aws.fakes import ScriptedClient, client_error
from tests.unit.aws.state_samples import NOW, TARGET


class RegionalClients(Clients):
    """A client a Region."""

    def __init__(self, **by_region: ScriptedClient) -> None:
        super().__init__()
        self._by_region = {name.replace("_", "-"): client for name, client in by_region.items()}

    def client(
        self, service: str, target: Target | None = None, *, repeat: bool = True, **_: bool
    ) -> Any:
        """That of the target's Region; every call is sent once."""
        assert target is not None
        assert ("ec2", False) == (service, repeat)
        return self._by_region[target.region]


def entry(zone: str, price: str, hour: int = 0) -> dict[str, Any]:
    """One line of the history."""
    return {
        "AvailabilityZone": zone,
        "SpotPrice": price,
        "Timestamp": datetime(2026, 11, 20, hour, tzinfo=UTC),
    }


def history(*entries: dict[str, Any]) -> ScriptedClient:
    """A Region with this history."""
    return ScriptedClient(
        describe_spot_price_history=lambda **_: {"SpotPriceHistory": list(entries)}
    )


def test_the_latest_price_of_every_zone_cheapest_first() -> None:
    """A history may hold older prices; a Region named twice is read once."""
    east = history(
        entry("us-east-1a", "0.9", 2), entry("us-east-1a", "0.5", 1), entry("us-east-1b", "0.6")
    )
    west = history(entry("us-west-2b", "0.4"))
    market = AwsPrices(RegionalClients(us_east_1=east, us_west_2=west), now=lambda: NOW)

    found = market.prices(
        TARGET, ["us-east-1", "us-west-2", "us-east-1"], "g5.xlarge", "Linux/UNIX"
    )

    assert (
        SpotPrice("us-west-2", "us-west-2b", Decimal("0.4")),
        SpotPrice("us-east-1", "us-east-1b", Decimal("0.6")),
        SpotPrice("us-east-1", "us-east-1a", Decimal("0.9")),
    ) == found.prices
    ((_, call),) = east.calls
    assert (["g5.xlarge"], ["Linux/UNIX"]) == (call["InstanceTypes"], call["ProductDescriptions"])
    assert (NOW, NOW) == (call["StartTime"], call["EndTime"])


def test_a_region_that_refuses_is_named_and_sinks_no_other() -> None:
    """An opt-in Region that is off, or a policy of the organization."""
    closed = ScriptedClient(describe_spot_price_history=[client_error("UnauthorizedOperation")])
    market = AwsPrices(
        RegionalClients(us_east_1=history(entry("us-east-1a", "0.5")), eu_west_1=closed)
    )

    found = market.prices(TARGET, ["us-east-1", "eu-west-1"], "g5.xlarge", "Linux/UNIX")

    assert ["us-east-1a"] == [price.zone for price in found.prices]
    assert ["eu-west-1"] == list(found.problems)


@pytest.mark.parametrize("changed", [{"SpotPrice": "?"}, {"SpotPrice": None}, {"Timestamp": None}])
def test_an_odd_entry_sinks_no_other(changed: dict[str, Any]) -> None:
    """It is left out; a Region with nothing else has a problem, as one that answers without its
    list."""
    whole = {**entry("us-east-1a", "0.5"), **changed}
    odd = {key: value for key, value in whole.items() if value is not None}
    empty = ScriptedClient(describe_spot_price_history=[{}])
    regions = RegionalClients(
        us_east_1=history(odd, entry("us-east-1b", "0.6")), us_west_2=history(odd), eu_west_1=empty
    )
    names = ["us-east-1", "us-west-2", "eu-west-1"]

    found = AwsPrices(regions).prices(TARGET, names, "g5.xlarge", "Linux/UNIX")

    assert ["us-east-1b"] == [price.zone for price in found.prices]
    assert ["eu-west-1", "us-west-2"] == sorted(found.problems)


def test_no_region_is_no_price() -> None:
    """Nothing is asked for."""
    assert () == AwsPrices(RegionalClients()).prices(TARGET, [], "g5.xlarge", "Linux/UNIX").prices


def test_scores_are_one_question_about_regions() -> None:
    """From the instance's own Region, once, of ten Regions at most; a score is of a whole
    Region."""
    scores = [{"Region": "us-west-2", "Score": 9}, {"Region": "us-east-1", "Score": 1}]
    east = ScriptedClient(get_spot_placement_scores=lambda **_: {"SpotPlacementScores": scores})
    regions = ["us-east-1", "us-east-1", *(f"eu-west-{number}" for number in range(1, 20))]

    found = AwsPrices(RegionalClients(us_east_1=east)).scores(
        TARGET, regions, ["g5.xlarge", "g6.xlarge"]
    )

    assert {"us-west-2": 9, "us-east-1": 1} == found
    ((_, call),) = east.calls
    assert (1, False, ["g5.xlarge", "g6.xlarge"]) == (
        call["TargetCapacity"],
        call["SingleAvailabilityZone"],
        call["InstanceTypes"],
    )
    assert ["us-east-1", *(f"eu-west-{number}" for number in range(1, 10))] == call["RegionNames"]


def test_scores_that_are_refused_are_raised() -> None:
    """Their meaning is the use case's business."""
    refused = client_error("UnauthorizedOperation")
    market = AwsPrices(
        RegionalClients(us_east_1=ScriptedClient(get_spot_placement_scores=[refused]))
    )

    with pytest.raises(AccessDenied):
        market.scores(TARGET, ["us-east-1"], ["g5.xlarge"])
