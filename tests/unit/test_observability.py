"""Metrics leave this process as CloudWatch takes them."""

from __future__ import annotations

import json

import pytest

from governor.observability import MetricUnit, count


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
    project: str, dimension: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drops a metric with any other without a word, and people choose the names of their projects."""
    monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", "gpu-governor")
    count("EstimatedCost", 12.5, MetricUnit.NoUnit, Project=project)

    written = json.loads(capsys.readouterr().out)

    assert (dimension, [12.5]) == (written["Project"], written["EstimatedCost"])
