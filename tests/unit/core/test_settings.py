"""Settings check themselves, and every mistake says which setting it is."""

from __future__ import annotations

from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest

from governor.core.settings import SettingError
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.judging import IdleRule, Metrics, Vetoes
from governor.policy.model.limits import Breaker
from governor.policy.model.money import Budget, Ledger, Prices
from governor.policy.model.notices import Health


@pytest.mark.parametrize(
    ("section", "settings", "named"),
    [
        (
            IdleRule,
            {"window_minutes": 4, "minimum_coverage_percent": nan},
            {"window_minutes", "minimum_coverage_percent"},
        ),
        (IdleRule, {"window_minutes": 20_161}, {"window_minutes"}),
        (
            Vetoes,
            {"cpu_percent": 0.0, "network_bytes_per_second": inf},
            {"cpu_percent", "network_bytes_per_second"},
        ),
        (Vetoes, {"network_bytes_per_second": nan}, {"network_bytes_per_second"}),
        (Metrics, {"period_seconds": 120}, {"period_seconds"}),
        (Metrics, {"collection_interval_seconds": 600}, {"collection_interval_seconds"}),
        (Breaker, {"hold_minutes": -1}, {"hold_minutes"}),
        (Ledger, {"false_stop_within_minutes": -1}, {"false_stop_within_minutes"}),
        (Prices, {"ebs_usd_per_gib_month": Decimal(-1)}, {"ebs_usd_per_gib_month"}),
        (Prices, {"usd_per_hour": {"p5.48xlarge": Decimal("1e7")}}, {"usd_per_hour"}),
        (Prices, {"usd_per_hour": {"p5.48xlarge": Decimal("nan")}}, {"usd_per_hour"}),
        (Prices, {"ebs_usd_per_gib_month": Decimal("nan")}, {"ebs_usd_per_gib_month"}),
        (Budget, {"monthly_usd": Decimal("1e10")}, {"monthly_usd"}),
        (Budget, {"monthly_usd": Decimal("nan")}, {"monthly_usd"}),
        (
            Health,
            {"hot_above_celsius": 0, "check_every_minutes": 4},
            {"hot_above_celsius", "check_every_minutes"},
        ),
        (ApprovalRule, {"ask_after_minutes": 60}, {"ask_after_released_minutes"}),
    ],
)
def test_each_setting_out_of_range_is_named(
    section: type[Any], settings: dict[str, Any], named: set[str]
) -> None:
    """Contradictions are looked at where all is in its range."""
    with pytest.raises(SettingError) as refused:
        section(**settings)

    assert named == {path[0] for path, _ in refused.value.mistakes}
    assert all(name in str(refused.value) for name in named)


@pytest.mark.parametrize("limit", [1e-9, 0.5, 5e12, 1e300])
def test_an_update_refuses_no_limit_of_network_traffic_that_was_right(limit: float) -> None:
    """A policy that is refused stops sweeps and actions, and ends open questions."""
    assert limit == Vetoes(network_bytes_per_second=limit).network_bytes_per_second


@pytest.mark.parametrize("edge", [0.1, 100.0, None])
def test_both_ends_of_a_range_are_in_it(edge: float | None) -> None:
    """And a veto that is off is in every range."""
    assert edge == Vetoes(cpu_percent=edge).cpu_percent
