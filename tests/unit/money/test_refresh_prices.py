"""The hourly refresh: what is due, what fails alone, and what is said of what could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal

from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.units import UsdPerHour
from governor.episode.model.plan import StoragePrices
from governor.fleet.model import FleetPage, FleetRow
from governor.money.refresh_prices import Refreshed, RefreshPrices
from governor.money.rules.prices import (
    SAVINGS_PLANS,
    STORAGE,
    Commitment,
    CommitmentKind,
    key_of,
    may_commitment_pay,
)
from governor.policy.model.policy import Policy
from tests.builders import NOW, TARGET
from tests.twins import FakeClock, MemoryStateTable, StaticPolicies

HERE, THERE = "us-east-1", "eu-central-1"
PLAN = Commitment(
    CommitmentKind.COMPUTE_PLAN, "sp-1", "", "", Decimal(5), NOW, NOW + timedelta(days=365)
)
RESERVED = replace(
    PLAN, kind=CommitmentKind.RESERVED, id="r-1", region=THERE, family="g5", platform="Linux/UNIX"
)


@dataclass
class MadeUpLists:
    """Prices by Region; what fails; what was asked."""

    usd: dict[str, str] = field(default_factory=lambda: {HERE: "1.006", THERE: "1.258"})
    fails: dict[str, CloudError] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def _ask(self, *names: str) -> None:
        self.asked.append(" ".join(names))
        for name in names:
            if name in self.fails:
                raise self.fails[name]

    def on_demand(self, region: str, instance_type: str) -> dict[str, UsdPerHour]:
        self._ask(region, instance_type)
        return {key_of(instance_type, "RunInstances", "Shared"): Decimal(self.usd[region])}

    def storage(self, region: str) -> StoragePrices:
        self._ask(region, STORAGE)
        return StoragePrices({"gp3": Decimal("0.0952")})

    def savings_plans(self) -> list[Commitment]:
        self._ask(SAVINGS_PLANS)
        return []

    def reserved(self, region: str) -> list[Commitment]:
        self._ask(region, "reserved")
        return [RESERVED] if region == THERE else []


class PriceWorld:
    """A fleet in two Regions, and lists of prices."""

    def __init__(self) -> None:
        self.clock, self.state, self.lists = FakeClock(NOW), MemoryStateTable(), MadeUpLists()
        self.policies = StaticPolicies(Policy())
        self.refresh = RefreshPrices(
            self.clock,
            self.policies,
            fleet_store=self.state,
            price_store=self.state,
            price_reader=self.lists,
        )
        self.runs(HERE, "g5.xlarge")
        self.runs(THERE, "g5.xlarge", "p5.48xlarge")

    def runs(self, region: str, *types: str) -> None:
        """Note the sight of the last sweep of a Region, each type twice."""
        rows = [self._row(region, kind, number) for kind in types for number in (1, 2)]
        page = FleetPage(TARGET.account, region, self.clock.now(), "ask", None, tuple(rows))
        self.state.keep_page(page)

    @staticmethod
    def _row(region: str, kind: str, number: int) -> FleetRow:
        where = TARGET.account, region, kind
        return FleetRow(f"i-{number}", "one", *where, "ada", "llm", "busy", "", None, NOW)

    def __call__(self, **later: int) -> Refreshed:
        self.clock.moment += timedelta(**later)
        self.lists.asked.clear()
        return self.refresh()

    def price(self, region: str, kind: str = "g5.xlarge") -> str:
        """As the table has it."""
        found = self.state.price_list(region)
        assert found is not None
        return str(found.usd_per_hour.get(key_of(kind, "RunInstances", "Shared")))


def test_each_type_is_read_once_a_day_for_its_region() -> None:
    """However many instances run, and never for a Region where it does not."""
    world = PriceWorld()

    first = world()

    assert {
        HERE: [STORAGE, "g5.xlarge"],
        THERE: [STORAGE, "g5.xlarge", "p5.48xlarge"],
    } == first.types
    assert ("1.006", "1.258") == (world.price(HERE), world.price(THERE))
    assert {} == world(hours=1).types == world(hours=22).types
    assert [] == world.lists.asked
    assert first.types == world(hours=1).types


def test_a_new_type_is_read_within_the_hour_and_a_price_may_change() -> None:
    """The others keep theirs until they are due."""
    world = PriceWorld()
    world()
    world.lists.usd[HERE] = "1.1"
    world.clock.moment += timedelta(hours=1)
    world.runs(HERE, "g5.xlarge", "g6.xlarge")

    assert {HERE: ["g6.xlarge"]} == world().types
    assert ("1.006", "1.1") == (world.price(HERE), world.price(HERE, "g6.xlarge"))
    world(hours=24)
    assert "1.1" == world.price(HERE)


def test_a_region_that_fails_does_not_sink_the_others() -> None:
    """Its prices before stay in force, and it is tried again in an hour, not a day."""
    world = PriceWorld()
    world()
    world.lists.usd = dict.fromkeys((HERE, THERE), "2")
    world.lists.fails = {THERE: Throttled("slow down", operation="pricing:GetProducts")}

    refreshed = world(days=1)

    assert {HERE: [STORAGE, "g5.xlarge"]} == refreshed.types
    assert 3 == len(refreshed.problems)
    assert "the price of p5.48xlarge in eu-central-1" in refreshed.problems[-1]
    assert ("2", "1.258") == (world.price(HERE), world.price(THERE))
    world.lists.fails = {}
    assert {THERE: [STORAGE, "g5.xlarge", "p5.48xlarge"]} == world(hours=1).types


def test_a_run_that_is_repeated_changes_nothing() -> None:
    """The schedule delivers at least once."""
    world = PriceWorld()
    world()
    before = world.state.price_list(THERE), world.state.commitments()

    assert Refreshed() == world()
    assert before == (world.state.price_list(THERE), world.state.commitments())


def test_before_the_first_sweep_nothing_is_asked() -> None:
    """Nothing runs, as far as is known."""
    world = PriceWorld()
    empty = MemoryStateTable()
    world.refresh = replace(world.refresh, fleet_store=empty, price_store=empty)

    assert Refreshed() == world()
    assert [] == world.lists.asked


def test_commitments_are_read_with_the_regions_that_are_swept() -> None:
    """Once a day, and sooner for a new Region."""
    world = PriceWorld()
    found = world().commitments

    assert found == world.state.commitments()
    assert found is not None
    assert ((RESERVED,), frozenset({SAVINGS_PLANS, HERE, THERE})) == (found.found, found.read)
    assert world(hours=23).commitments is None
    world.lists.usd["us-west-2"] = "1"
    world.runs("us-west-2", "g5.xlarge")
    again = world().commitments
    assert again is not None
    assert "us-west-2" in again.read


def test_what_may_not_be_read_of_commitments_is_said_and_no_failure() -> None:
    """Where it is not known, one may apply."""
    world = PriceWorld()
    world.lists.fails = {
        SAVINGS_PLANS: AccessDenied("an SCP says no", operation="savingsplans:Describe")
    }

    refreshed = world()

    assert [] == refreshed.problems
    assert refreshed.commitments is not None
    assert {SAVINGS_PLANS: "an SCP says no"} == refreshed.commitments.unread
    assert may_commitment_pay(refreshed.commitments, "p5.48xlarge", HERE, "Linux/UNIX")
    world.lists.fails = {}
    later = world(hours=1).commitments
    assert later is not None
    assert not may_commitment_pay(later, "p5.48xlarge", HERE, "Linux/UNIX")
