"""Metrics leave this process as CloudWatch takes them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
from aws_lambda_powertools.metrics import MetricUnit

from governor.wiring import observability
from governor.wiring.observability import count, observed, tally


@pytest.mark.parametrize(
    ("project", "dimension"),
    [
        ("llm", "llm"),
        ("größe", "gr\\xf6\\xdfe"),
        (":colon", "_:colon"),
        ("  ", "_"),
        ("two\tlines\n", "two?lines"),
        ("x" * 2_000, "x" * 1_024),
    ],
)
def test_a_dimension_is_one_that_cloudwatch_takes(
    project: str,
    dimension: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It drops a metric with any other without a word, and people choose the names of their
    projects."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "gpu-governor")
    count("EstimatedCost", 12.5, MetricUnit.NoUnit, Project=project)

    written = json.loads(capsys.readouterr().out)

    assert (dimension, [12.5]) == (written["Project"], written["EstimatedCost"])


def test_a_tally_is_one_value_of_an_invocation_also_of_one_that_fails(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads add to it; what one invocation has published, the next one does not."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "gpu-governor")
    monkeypatch.setattr(observability, "_tallied", [])

    @observed(None)
    def handler(event: dict[str, int], _context: object, _wired: None) -> dict[str, int]:
        with ThreadPoolExecutor() as pool:
            list(pool.map(partial(tally, "MetricsRead"), [event["each"]] * 300))
        if not event["each"]:
            raise ValueError("none")
        return {}

    context = SimpleNamespace(
        function_name="f", memory_limit_in_mb=1, invoked_function_arn="arn", aws_request_id="1"
    )
    handler({"each": 2}, context)
    with pytest.raises(ValueError, match="none"):
        handler({"each": 0}, context)

    found = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    assert [[600.0], [0.0]] == [one["MetricsRead"] for one in found]
