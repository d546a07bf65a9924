"""Advice comes after the warning, once for a type and a zone, and never in the way of anything."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from governor.alerts.model import AlertKind, Severity
from governor.core.errors import Unavailable
from governor.core.instance import Lifecycle
from governor.events.model.interruption import SpotPrice
from governor.events.notify_warning import SpotPrices
from governor.policy.model.notices import Events
from tests.unit.worlds.warned_world import WarnedWorld

PRICES = (
    SpotPrice("us-west-2", "us-west-2b", Decimal("0.3021")),
    SpotPrice("us-east-1", "us-east-1c", Decimal("0.4")),
    SpotPrice("us-east-1", "us-east-1a", Decimal("0.55")),
)


def priced(events: Events | None = None, prices: tuple[SpotPrice, ...] = PRICES) -> WarnedWorld:
    """A warned instance, and a market with these prices."""
    world = WarnedWorld(events or Events())
    world.market.answer = SpotPrices(prices, {"eu-west-1": "AccessDenied"})
    return world


def test_the_cheapest_zones_are_told_after_the_warning() -> None:
    """With what it costs where it was taken; its own Region is always among those that are read."""
    world = priced()

    reaction = world.interruption(world.warned())

    assert [AlertKind.SPOT_INTERRUPTION, AlertKind.INTERRUPTION_ADVICE] == world.kinds
    alert = world.sent[1]
    assert (Severity.INFO, "ada", True) == (alert.severity, alert.owner, reaction.advised)
    assert "from $0.30 an hour in us-west-2b" in alert.subject
    assert ["us-west-2b", "us-east-1c"] == [
        line.split()[1] for line in alert.lines if line.startswith("- us-")
    ]
    assert "costs $0.55 an hour in us-east-1a. In another zone, it may be cheaper" in alert.lines[0]
    assert ("us-east-1", "us-east-1", "us-west-2", "eu-west-1") == world.market.asked[0]
    assert ["no Spot prices of eu-west-1: AccessDenied"] == reaction.notes


def test_a_zone_that_costs_as_much_is_called_no_cheaper() -> None:
    """It may still run longer there."""
    world = priced(prices=tuple(one._replace(usd_per_hour=Decimal("0.55")) for one in PRICES))
    world.interruption(world.warned())
    assert "Other zones are not cheaper, but it may run longer there" in world.sent[1].lines[0]


def test_one_advice_for_a_type_in_a_zone() -> None:
    """However many of its instances are warned; another zone, or a later time, is another
    matter."""
    world = priced()
    for number in range(4):
        world.interruption(
            world.warned(event_id=f"event-{number}", instance_id=world.add(number + 1))
        )
    assert 1 == world.kinds.count(AlertKind.INTERRUPTION_ADVICE)

    elsewhere = world.add(9, availability_zone="us-east-1b")
    world.interruption(world.warned(event_id="event-9", instance_id=elsewhere))
    assert 2 == world.kinds.count(AlertKind.INTERRUPTION_ADVICE)
    world.world.clock.moment += timedelta(minutes=11)
    world.interruption(world.warned(event_id="event-10", at=world.world.clock.moment))
    assert 3 == world.kinds.count(AlertKind.INTERRUPTION_ADVICE)


@pytest.mark.parametrize("prices", [(), PRICES[2:]])
def test_nothing_is_said_where_nothing_is_known(prices: tuple[SpotPrice, ...]) -> None:
    """No price, or only that of the zone that is taken back."""
    world = priced(prices=prices)

    assert not world.interruption(world.warned()).advised
    assert [AlertKind.SPOT_INTERRUPTION] == world.kinds


def test_it_is_not_asked_for_where_it_has_no_place() -> None:
    """Switched off; not Spot; or a repeated event, whose advice was given."""
    world = priced(Events(compare_spot_prices=False))
    world.interruption(world.warned())
    assert [] == world.market.asked

    world = priced()
    world.world.change_instance(lifecycle=Lifecycle.INTERRUPTIBLE_RESERVATION)
    world.interruption(world.warned())
    assert [] == world.market.asked

    world = priced()
    world.interruption(world.warned())
    world.interruption(world.warned())
    assert 1 == len(world.market.asked)


def test_advice_that_cannot_be_sent_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """The warning is out; nothing is repeated for an advice."""
    world = priced()
    announce = world.world.announcer.announce

    def only_warnings(alert: object) -> None:
        if getattr(alert, "kind", None) is AlertKind.INTERRUPTION_ADVICE:
            raise Unavailable("SNS is down", operation="sns:Publish")
        announce(alert)  # type: ignore[arg-type]

    monkeypatch.setattr(world.world.announcer, "announce", only_warnings)

    reaction = world.interruption(world.warned())

    assert not reaction.advised
    assert "no advice: SNS is down" in reaction.notes


def test_scores_are_told_in_the_same_message_where_the_policy_asks_for_them() -> None:
    """Scores of all types with the same GPUs: about one type alone EC2 says little."""
    world = priced(Events(placement_scores=True))
    world.market.by_region = {"us-west-2": 9, "us-east-1": 2, "ap-south-1": 10}

    world.interruption(world.warned())

    (alert,) = world.sent[1:]
    assert "from 10 (likely) to 1 (unlikely): us-west-2 9, us-east-1 2" in " ".join(alert.lines)
    assert {"us-west-2": 9, "us-east-1": 2} == alert.facts["placement_scores"]
    (types,) = world.market.scored
    assert world.instance.instance_type in types
    assert {"g5"} == {name.split(".")[0] for name in types}
    assert 5 == len(types)


def test_no_score_is_asked_for_unless_the_policy_says_so_and_three_types_have_the_gpus() -> None:
    """A permission and a quota that nobody has to give for nothing."""
    world = priced()
    world.interruption(world.warned())
    assert ([], {}) == (world.market.scored, world.sent[1].facts["placement_scores"])

    for instance_type in ("p5.48xlarge", "x1.unheard-of"):
        world = priced(Events(placement_scores=True))
        world.world.change_instance(instance_type=instance_type)
        reaction = world.interruption(world.warned())
        assert [] == world.market.scored
        assert any("no placement scores" in note for note in reaction.notes)
        assert reaction.advised


def test_scores_that_are_refused_keep_no_price_back() -> None:
    """A role without the permission, or an account that has asked for too much today."""
    world = priced(Events(placement_scores=True))
    world.market.failure = Unavailable(
        "MaxConfigLimitExceeded", operation="ec2:GetSpotPlacementScores"
    )

    reaction = world.interruption(world.warned())

    assert reaction.advised
    assert "no placement scores: MaxConfigLimitExceeded" in reaction.notes
    assert {} == world.sent[1].facts["placement_scores"]
