"""Made-up weeks of an instance, by the hour."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from math import nan
from typing import Any

from governor.alerts.model import Owner
from governor.core.catalog import list_price, shape_of
from governor.episode.model.plan import Price
from governor.evidence.model import Window
from governor.policy.model.policy import Policy
from simulation.past import Past
from tests.builders import make_instance

MONDAY = datetime(2026, 10, 5, tzinfo=UTC)
WEEKS = 6
HOURS = WEEKS * 168
HOLE = nan

Series = float | Callable[[int], float]


def series(what: Series, hours: int = HOURS) -> array[float]:
    """A value an hour, or one for all of them."""
    return array("d", (what(hour) if callable(what) else what for hour in range(hours)))


def make_past(
    instance_type: str = "g5.48xlarge",
    high: Sequence[Series] = (),
    *,
    mean: Sequence[Series] | None = None,
    memory: Sequence[Series] | None = None,
    traffic: Sequence[Series] = (),
    cpu: Series = 5.0,
    aggregate: bool = False,
    zone: str = "UTC",
    tens: Sequence[Series] | None = None,
    hours: int = HOURS,
    policy: Policy | None = None,
    **of_instance: Any,
) -> Past:
    """Everything is measured unless it says otherwise; a GPU holds 1 GiB, and its mean is its
    maximum, all hour long. `tens`: its mean by the number of ten minutes."""
    instance = make_instance(instance_type=instance_type, launch_time=MONDAY, **of_instance)
    labels = ["all"] if aggregate else [str(number) for number in range(len(high))]

    def by_gpu(figures: Sequence[Series]) -> dict[str, array[float]]:
        return {label: series(one, hours) for label, one in zip(labels, figures, strict=False)}

    means = high if mean is None else mean
    of_hours = [one if isinstance(one, float) else partial(_of_hour, one) for one in means]
    by_ten = of_hours if tens is None else tens
    price = list_price(instance_type)
    return Past(
        instance=instance,
        shape=shape_of(instance_type),
        owner=Owner("ann", "llm", zone),
        policy=policy or Policy(),
        price=Price(price, "list price"),
        price_of=list_price,
        hours=Window(MONDAY, MONDAY + timedelta(hours=hours), timedelta(hours=1)),
        high=by_gpu(high),
        mean=by_gpu(means),
        memory=by_gpu([1024.0] * len(high) if memory is None else memory),
        traffic=by_gpu(traffic),
        cpu=series(cpu, hours),
        tens={label: series(one, 6 * hours) for label, one in zip(labels, by_ten, strict=False)},
    )


def _of_hour(by_hour: Callable[[int], float], ten: int) -> float:
    return by_hour(ten // 6)


def usd(text: str) -> Decimal:
    """An amount."""
    return Decimal(text)
