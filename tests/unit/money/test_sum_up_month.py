"""The sums of a month: projects over all targets, budgets told once, savings that count."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.alerts.model import Alert, AlertKind, Severity
from governor.core.documents import plain
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Throttled
from governor.core.instance import Target
from governor.episode.model.episode import Outcome
from governor.fleet.model import DayCosts, FleetPage, Share
from governor.money.costs import Month, SumUpMonth
from governor.money.model.ledger import LedgerEntry
from governor.money.rules.cost import UNTAGGED, Meter, cost_between, month_end, new_meter
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.money import Budget, Ledger
from governor.policy.model.policy import Mode, Policy
from governor.table.once import Once
from governor.verdict.model import IdleParts
from tests.builders import NOW, TARGET
from tests.console_world import make_row
from tests.twins import (
    FakeClock,
    MemoryEventLog,
    MemoryStateTable,
    RecordingAnnouncer,
    StaticPolicies,
)

THERE = replace(TARGET, region="eu-west-1")


class MonthWorld:
    """A state table with the last step of a sweep behind it."""

    def __init__(self, **changes: Any) -> None:
        self.clock, self.state = FakeClock(NOW), MemoryStateTable()
        self.announcer, self.log = RecordingAnnouncer(), MemoryEventLog()
        self.policies = StaticPolicies(Policy(**changes))
        self.sum_up = SumUpMonth(
            clock=self.clock,
            policies=self.policies,
            ledger_store=self.state,
            fleet_store=self.state,
            once=Once(self.clock, self.log),
            announcer=self.announcer,
            hub=TARGET,
        )

    def cost(self, project: str, usd: str, target: Target = TARGET, **changes: Any) -> None:
        """The project has cost so much in a target this month; what stood there is forgotten."""
        at = self.clock.now()
        seen = self.state.meter(target, f"{at:%Y-%m}")
        meter = seen or new_meter(target, at)
        usd_of = {**meter.usd, project: Decimal(usd)}
        until = meter.counted_until + timedelta(seconds=1)
        self.state.bring_forward(replace(meter, usd=usd_of, counted_until=until, **changes), seen)

    def book(
        self, number: int, booked_at: datetime, usd_per_hour: str | None, **changes: Any
    ) -> None:
        """An action that saves so much from then on."""
        ref = EpisodeRef(TARGET.account, TARGET.region, "i-0123456789abcdef0", NOW, number)
        amount = None if usd_per_hour is None else Decimal(usd_per_hour)
        plain = LedgerEntry(
            ref,
            Outcome.STOPPED,
            "g5.xlarge",
            "ada",
            "llm",
            "list price",
            booked_at,
            amount,
            amount,
            amount,
        )
        self.state.take_lock(ref)
        self.state.close_episode(
            ref,
            Outcome.STOPPED,
            "done",
            booked_at,
            quiet_until=None,
            ledger=replace(plain, **changes),
        )

    def told(self) -> list[Alert]:
        """Every message so far."""
        assert {AlertKind.BUDGET_REACHED} >= {alert.kind for alert in self.announcer.sent}
        return self.announcer.sent


def test_a_month_without_anything_is_nothing() -> None:
    """The figures exist from the first sweep on, or alarms would have nothing to look at."""
    month = MonthWorld().sum_up()

    assert Month("2026-11", (), (), Decimal(0), Decimal(0), 0, (), ()) == month


def test_projects_are_summed_over_targets() -> None:
    """A budget is the project's, not a Region's."""
    world = MonthWorld()
    world.cost("llm", "6000")
    world.cost("llm", "5000", THERE)
    world.cost("vision", "20")

    month = world.sum_up()

    assert [("llm", Decimal(11_000)), ("vision", Decimal(20))] == [
        (c.project, c.usd) for c in month.costs
    ]
    assert (Decimal(110), ("llm",)) == (month.highest_budget_used_percent, month.notified)
    (alert,) = world.told()
    assert (Severity.INFO, "llm") == (alert.severity, alert.project)
    text = " ".join(alert.lines)
    assert "$11,000 in November 2026 so far" in text
    assert "110% of the budget of $10,000" in text
    assert f"{TARGET} $6,000, {THERE} $5,000" in text


def test_a_budget_is_told_once_for_each_share_and_month() -> None:
    """At 80% and at 100%, however many sweeps there are; and anew in the next month."""
    world = MonthWorld()
    severities = []
    for usd in ("7999.99", "8000", "9000", "10000", "12000"):
        world.cost("llm", usd)
        for _ in range(2):
            world.sum_up()
            world.clock.moment += timedelta(minutes=5)
        severities.append([alert.severity for alert in world.told()])

    one, both = [Severity.INFO], [Severity.INFO, Severity.INFO]
    assert [[], one, one, both, both] == severities
    world.clock.moment = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)
    assert () == world.sum_up().costs
    world.cost("llm", "8500")
    assert ("llm",) == world.sum_up().notified


def test_a_budget_message_gives_its_time_in_the_zone_of_the_projects_owner() -> None:
    """UTC stands beside it."""
    berlin = Contact(emails=("ml@example.com",), time_zone="Europe/Berlin")
    ownership = Ownership(contacts={"ml": berlin}, project_owners={"llm": "ml"})
    world = MonthWorld(ownership=ownership)
    world.cost("llm", "9000", usd_per_hour={"llm": Decimal(100)})
    world.sum_up()

    (alert,) = world.told()
    assert "the budget will run out Fri 23:02 Berlin (22:02 UTC)" in " ".join(alert.lines)


def test_a_budget_message_says_what_past_weeks_and_what_runs_now_point_to() -> None:
    """Days are read for a message alone, of the project alone, over all targets."""
    world = MonthWorld()
    world.cost("llm", "9000", usd_per_hour={"llm": Decimal(10)})
    for day in sorted(NOW.date() - timedelta(days=n) for n in range(1, 43)):
        costs = DayCosts(day, TARGET.account, TARGET.region, {("ada", "llm"): Share(Decimal(100))})
        before = world.state.meter(TARGET, f"{day:%Y-%m}")
        meter = before or Meter(TARGET, f"{day:%Y-%m}", NOW)
        at = meter.counted_until + timedelta(seconds=1)
        world.state.bring_forward(replace(meter, counted_until=at), before, [costs])
    world.sum_up()

    (alert,) = world.told()
    left = cost_between(Decimal(100) / 24, NOW, month_end(NOW))
    assert plain(9000 + left) == alert.facts["forecast_usd"]
    assert Decimal(str(alert.facts["forecast_error_percent"])) == 0
    assert (
        plain(9000 + cost_between(Decimal(10), NOW, month_end(NOW)))
        == alert.facts["flat_forecast_usd"]
    )
    assert "At the pace of recent weeks" in " ".join(alert.lines)


def test_a_budget_message_says_what_follows_and_what_is_used_least() -> None:
    """Advice about what works; idle instances get questions of their own, where the policy says
    so."""
    hours = {"busy": 95, "quiet": 6, "middle": 40, "low": 20}
    rows = [
        make_row(number, name=name, verdict="busy", hours=(None,) * 22 + (most, most))
        for number, (name, most) in enumerate(hours.items(), 1)
    ]
    parts = IdleParts(7, 8, "GPU")
    most_used = (None,) * 22 + (30, 30)
    rows[2] = replace(rows[2], verdict="partly-idle", idle_parts=parts, hours=most_used)
    idle = make_row(9, name="asleep", verdict="idle", hours=(0,) * 24)
    other = make_row(8, name="theirs", verdict="busy", project="llm", hours=(1,) * 24)
    texts = []
    asks = Budget(act="ask")
    for mode, budget in ((Mode.ASK, asks), (Mode.OBSERVE, asks), (Mode.ASK, Budget())):
        world = MonthWorld(mode=mode, budget=budget)
        page = FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, (*rows, idle, other))
        world.state.keep_page(page)
        world.cost("vision", "15000")
        world.sum_up()
        texts.append(list(world.told()[0].lines))

    least = ["quiet", "low", "middle"]
    partly_idle = "30% in its last 2 hours, partly idle: 7 of 8 GPUs, $24 a day"
    assert f"- middle (g5.xlarge): {partly_idle}" in texts[0]
    assert least == [line.split()[1] for line in texts[0] if line.startswith("- ")]
    assert "- quiet (g5.xlarge): 6% in its last 2 hours, $24 a day" in texts[0]
    assert ["Nothing is stopped without an approval." in " ".join(lines) for lines in texts] == [
        True,
        False,
        False,
    ]
    assert ["Nothing is stopped because of a budget." in lines for lines in texts] == [
        False,
        True,
        True,
    ]


def test_without_two_weeks_of_days_a_budget_message_says_so() -> None:
    """Nothing is guessed."""
    world = MonthWorld()
    world.cost("llm", "9000")
    world.sum_up()

    (alert,) = world.told()
    assert alert.facts["forecast_usd"] is None
    assert "two weeks of costs" in " ".join(alert.lines)


def test_what_leaps_over_two_shares_is_one_message() -> None:
    """The higher one."""
    world = MonthWorld()
    world.cost("llm", "15000")
    world.sum_up()

    assert [100.0] == [alert.facts["reached_percent"] for alert in world.told()]


def test_another_budget_is_told_anew() -> None:
    """Whoever raises it wants to hear when that is reached."""
    world = MonthWorld(budget=Budget(projects={"llm": Decimal(100)}))
    world.cost("llm", "150")
    world.sum_up()
    world.policies.policy = Policy(budget=Budget(projects={"llm": Decimal(150)}))
    world.sum_up()

    assert ["100", "150"] == [alert.facts["budget_usd"] for alert in world.told()]


def test_budgets_of_single_projects_go_first_and_none_is_none() -> None:
    """Here only `llm` has one."""
    world = MonthWorld(budget=Budget(monthly_usd=None, projects={"llm": Decimal(1_000)}))
    world.cost("llm", "500")
    world.cost("vision", "90000")

    assert (Decimal(50), ()) == (world.sum_up().highest_budget_used_percent, tuple(world.told()))


def test_what_has_no_project_goes_to_whoever_owns_nothing_else() -> None:
    """Filters and directory know it by the word they always had for it."""
    world = MonthWorld(ownership=Ownership(default_owner="finops"))
    world.cost(UNTAGGED, "20000")
    world.sum_up()

    (alert,) = world.told()
    assert ("finops", "unassigned") == (alert.owner, alert.project)
    assert "Instances without a project" in alert.subject


def test_the_owner_of_the_project_is_told() -> None:
    """Although a default owner is named: that one has only what nobody else has."""
    contacts = {"finops": Contact(), "ml-team": Contact()}
    rule = Ownership(default_owner="finops", contacts=contacts, project_owners={"llm": "ml-team"})
    world = MonthWorld(ownership=rule)
    for project in ("llm", "vision"):
        world.cost(project, "20000")
    world.sum_up()

    assert [("llm", "ml-team"), ("vision", "finops")] == [
        (a.project, a.owner) for a in world.told()
    ]


def test_the_outlook_says_when_the_budget_will_be_used_up() -> None:
    """10,000 USD at 100 an hour, 8,000 gone: twenty hours from now."""
    world = MonthWorld()
    world.cost(
        "llm", "8000", usd_per_hour={"llm": Decimal(100)}, unpriced_hours={"llm": Decimal("2.5")}
    )
    world.sum_up()

    text = " ".join(world.told()[0].lines)
    assert "run out Sat 08:02 UTC" in text
    assert "the month will cost $33,196" in text
    assert "2.5 instance hours without a known price" in text


def test_a_message_that_nobody_took_is_sent_by_the_next_sweep() -> None:
    """The figures are there all the same."""
    world = MonthWorld()
    world.cost("llm", "20000")
    world.announcer.failure = Throttled("later")
    month = world.sum_up()
    world.announcer.failure = None
    world.clock.moment += timedelta(minutes=5)

    assert ("budget of llm: Throttled: later",) == month.problems
    assert (1, ("llm",)) == (len(month.costs), world.sum_up().notified)


def test_only_the_dearest_projects_get_a_metric() -> None:
    """CloudWatch charges for each; the budgets of the others are watched all the same."""
    world = MonthWorld(budget=Budget(publish_at_most_projects=2))
    for number in range(5):
        world.cost(f"p{number}", str(20_000 + number))

    month = world.sum_up()

    assert ["p4", "p3"] == [cost.project for cost in month.published]
    assert 5 == len(month.costs) == len(month.notified)


# savings


def november(day: int) -> datetime:
    """Noon of that day, by the second of the tests' now."""
    return NOW.replace(day=day)


def test_savings_of_this_month_count_from_their_booking() -> None:
    """Two days at 10 USD an hour, and one that ended after an hour."""
    world = MonthWorld()
    world.book(1, november(18), "10")
    world.book(2, november(19), "5", ended_at=november(19) + timedelta(hours=1))

    assert Decimal(2 * 24 * 10 + 5) == world.sum_up().saved_usd


def test_an_action_of_last_month_saves_in_this_one_until_its_days_are_over() -> None:
    """Stopped on October 30: of its 30 days, all of November so far. After five, nothing of it."""
    entry_at = datetime(2026, 10, 30, tzinfo=UTC)
    whole, short = MonthWorld(), MonthWorld(ledger=Ledger(saving_counts_days=5))
    for world in (whole, short):
        world.book(1, entry_at, "1")

    hours = Decimal((NOW - datetime(2026, 11, 1, tzinfo=UTC)) // timedelta(seconds=1)) / 3600
    assert (hours.quantize(Decimal("0.0001")), Decimal(72)) == (
        whole.sum_up().saved_usd.quantize(Decimal("0.0001")),
        short.sum_up().saved_usd,
    )


@pytest.mark.parametrize(
    ("usd_per_hour", "changes"),
    [(None, {}), ("10", {"ours": False, "saved_usd_per_hour": Decimal(10)})],
)
def test_what_is_not_ours_or_has_no_price_saves_nothing(
    usd_per_hour: str | None, changes: dict[str, Any]
) -> None:
    """Never more than can be shown."""
    world = MonthWorld()
    world.book(1, november(18), usd_per_hour, **changes)

    assert Decimal(0) == world.sum_up().saved_usd


def test_false_stops_count_in_the_month_they_were_undone_in() -> None:
    """One of this month, one that was undone in October."""
    world = MonthWorld()
    world.book(1, november(18), "10", ended_at=november(18), false_stop=True)
    october = datetime(2026, 10, 30, tzinfo=UTC)
    world.book(2, october, "10", ended_at=october, false_stop=True)

    assert 1 == world.sum_up().false_stops
