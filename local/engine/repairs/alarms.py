"""Alarms on metric math.

AWS: `AWS::CloudWatch::Alarm` takes `Metrics`, an expression over several metrics or a query.
Engine: refuses the stack. No alarm goes off in the local cloud, so here such an alarm is kept as
one on the first metric that it names, or on one with the label of its query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def repair() -> None:
    """Wraps the engine's function; it is looked up by name for every alarm."""
    from ministack.services.cloudformation import provisioners

    provisioners._cw_metric_alarm_record = _with_math(provisioners._cw_metric_alarm_record)


def _with_math(
    engine: Callable[[str, dict[str, Any]], Any],
) -> Callable[[str, dict[str, Any]], Any]:
    def record(name: str, props: dict[str, Any]) -> Any:
        if not props.get("Metrics"):
            return engine(name, props)
        first = props["Metrics"][0]
        query = {
            "Metric": {"Namespace": "query", "MetricName": first.get("Label", first["Id"])},
            "Stat": "Average",
        }
        stats = (one["MetricStat"] for one in props["Metrics"] if "MetricStat" in one)
        stat = next(stats, {**query, "Period": first.get("Period", 300)})
        rest = {key: value for key, value in props.items() if key != "Metrics"}
        return engine(
            name, {**rest, **stat["Metric"], "Period": stat["Period"], "Statistic": stat["Stat"]}
        )

    return record
