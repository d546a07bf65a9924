"""Judges whether a SageMaker endpoint is idle, by its invocations."""

from __future__ import annotations

from datetime import timedelta

from governor.core.units import Percent, UtcDatetime, printable, span
from governor.scan.kinds.calls import GRACE
from governor.scan.kinds.sagemaker_endpoint.list import Endpoint
from governor.scan.kinds.sagemaker_endpoint.measure import EndpointUse
from governor.scan.model import Finding, Judgment, Strength


def judge_endpoint(
    endpoint: Endpoint,
    use: EndpointUse | None,
    now: UtcDatetime,
    minimum_coverage_percent: Percent,
    busy_from_percent: Percent,
) -> Judgment:
    """Return the judgment of an endpoint. `use` is `None` if its metrics were not read.

    One invoked variant, or a waiting request, makes it busy. Without any it is unused if it is old
    enough, its instances were measured in enough of the time, and do not work for themselves; only
    likely idle if it has metrics by instance, which are not read. `busy_from_percent` is the mean
    utilization of a GPU in an hour from which it works.
    """
    if use is None:
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, "its metrics were not read")
    if sum(use.calls.values()) > 0 or use.backlog > 0:
        return Judgment(Finding.BUSY, Strength.STRONG, _calls(use, now))
    age = now - use.since
    if age < GRACE:
        return _too_young(age)
    if use.problem:
        evidence = f"CloudWatch could not be read: {printable(use.problem)}"
        return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)
    if use.measured_percent < minimum_coverage_percent:
        return _not_measured(use, age, minimum_coverage_percent)
    if use.gpu_percent is not None and use.gpu_percent >= busy_from_percent:
        evidence = f"{_calls(use, now)}, but its GPUs work without any"
        return Judgment(Finding.BUSY, Strength.STRONG, evidence)
    if endpoint.has_enhanced_metrics:
        evidence = f"{_calls(use, now)}; its metrics by instance were not read"
        return Judgment(Finding.LIKELY_IDLE, Strength.WEAK, evidence, use.since)
    return Judgment(Finding.UNUSED, Strength.STRONG, _calls(use, now), use.since)


def _too_young(age: timedelta) -> Judgment:
    """Return the judgment of an endpoint that nobody has invoked yet."""
    evidence = f"created {span(age)} ago, not invoked yet; judged after {span(GRACE)}"
    return Judgment(Finding.TOO_YOUNG, Strength.NONE, evidence)


def _not_measured(use: EndpointUse, age: timedelta, minimum: Percent) -> Judgment:
    """Return the judgment of an endpoint whose instances published too little."""
    evidence = (
        f"no invocation was published in {span(age)}, but its instances were measured in "
        f"{use.measured_percent:.0f}% of that time; {minimum:.0f}% is required"
    )
    return Judgment(Finding.NOT_MEASURED, Strength.NONE, evidence)


def _calls(use: EndpointUse, now: UtcDatetime) -> str:
    """Return how often the endpoint was invoked, by variant if it has several; with the requests
    that wait and the GPU utilization, where these are known."""
    total = sum(use.calls.values())
    text = f"{total:,.0f} invocations in {span(now - use.since)}"
    if total == 1:
        text = text.replace("invocations", "invocation")
    if total > 0 and len(use.calls) > 1:
        parts = [f"{printable(name)}: {count:,.0f}" for name, count in use.calls.items()]
        text += f" ({', '.join(parts)})"
    if use.backlog > 0:
        text += f", up to {use.backlog:,.0f} requests waiting"
    if use.gpu_percent is not None:
        text += f"; utilization per GPU up to {use.gpu_percent:.0f}%"
    return text
