"""A simulator of CloudWatch metrics: exact dimension sets, periods aligned as CloudWatch aligns them.

Alarms and everything else stay with the engine. Points are kept per series; nothing is filled in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from local.engine.ec2 import AwsError, Faults

Dimensions = tuple[tuple[str, str], ...]
Key = tuple[str, str, Dimensions]

_QUERY_LIMIT = 500
_LIST_PAGE = 500
_RECENT = timedelta(hours=3)


class CloudWatchSimulator:
    """GetMetricData, ListMetrics and PutMetricData over JSON."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.partial: set[str] = set()
        """Metrics whose answers come back as PartialData."""
        self._lock = threading.RLock()
        self._places: dict[tuple[str, str], dict[Key, list[tuple[float, float]]]] = {}
        self._operations: dict[str, Callable[[str, str, Mapping[str, Any]], dict[str, Any]]] = {
            "GetMetricData": self._get_metric_data,
            "ListMetrics": self._list_metrics,
            "PutMetricData": self._put_metric_data,
        }

    def knows(self, operation: str) -> bool:
        """Whether this simulator answers the operation."""
        return operation in self._operations

    def operation(self, name: str, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """One call. Raises: AwsError."""
        self.faults.enter(f"cloudwatch:{name}")
        with self._lock:
            return self._operations[name](account, region, request)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._places.clear()
            self.partial.clear()

    def put(self, account: str, region: str, series: Sequence[Mapping[str, Any]]) -> None:
        """Adds points in bulk: `namespace`, `metric`, `dimensions`, `points` as `[epoch, value]`."""
        with self._lock:
            for one in series:
                key = (one["namespace"], one["metric"], tuple(sorted(one["dimensions"].items())))
                self._place(account, region).setdefault(key, []).extend(
                    (float(at), float(value)) for at, value in one["points"]
                )

    def drop(self, account: str, region: str, instance_id: str) -> None:
        """Forgets all series of an instance."""
        with self._lock:
            place = self._place(account, region)
            for key in [key for key in place if ("InstanceId", instance_id) in key[2]]:
                del place[key]

    def _get_metric_data(self, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        queries = request["MetricDataQueries"]
        if len(queries) > _QUERY_LIMIT:
            raise AwsError("ValidationError", f"at most {_QUERY_LIMIT} queries, not {len(queries)}")
        start, end = float(request["StartTime"]), float(request["EndTime"])
        place = self._place(account, region)
        newest_first = request.get("ScanBy", "TimestampDescending") == "TimestampDescending"
        return {"MetricDataResults": [self._result(place, q, start, end, newest_first) for q in queries]}

    def _result(
        self,
        place: Mapping[Key, list[tuple[float, float]]],
        query: Mapping[str, Any],
        start: float,
        end: float,
        newest_first: bool,
    ) -> dict[str, Any]:
        if "MetricStat" not in query:
            raise AwsError("ValidationError", "only MetricStat is simulated")
        statistic = query["MetricStat"]
        metric, period = statistic["Metric"], int(statistic["Period"])
        dimensions = tuple(sorted((d["Name"], d["Value"]) for d in metric.get("Dimensions", ())))
        bins: dict[int, list[float]] = {}
        for at, value in place.get((metric["Namespace"], metric["MetricName"], dimensions), ()):
            # The start is included, the end is not; a period is named by its start.
            if start <= at < end:
                bins.setdefault(int(at // period) * period, []).append(value)
        rows = [(at, _statistic(values, statistic["Stat"])) for at, values in sorted(bins.items())]
        if newest_first:
            rows.reverse()
        partial = metric["MetricName"] in self.partial
        return {
            "Id": query["Id"],
            "Label": metric["MetricName"],
            "Timestamps": [float(at) for at, _ in rows],
            "Values": [value for _, value in rows],
            "StatusCode": "PartialData" if partial else "Complete",
        }

    def _list_metrics(self, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        since = 0.0
        if request.get("RecentlyActive") == "PT3H":
            since = (datetime.now(tz=UTC) - _RECENT).timestamp()
        wanted = {(d["Name"], d.get("Value")) for d in request.get("Dimensions", ())}
        found = [
            key
            for key, points in sorted(self._place(account, region).items())
            if request.get("Namespace") in (None, key[0])
            and request.get("MetricName") in (None, key[1])
            and all((name, value) in key[2] for name, value in wanted)
            and any(at >= since for at, _ in points)
        ]
        start = int(request.get("NextToken") or 0)
        answer: dict[str, Any] = {
            "Metrics": [
                {
                    "Namespace": namespace,
                    "MetricName": metric,
                    "Dimensions": [{"Name": name, "Value": value} for name, value in dimensions],
                }
                for namespace, metric, dimensions in found[start : start + _LIST_PAGE]
            ]
        }
        if start + _LIST_PAGE < len(found):
            answer["NextToken"] = str(start + _LIST_PAGE)
        return answer

    def _put_metric_data(self, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        now = datetime.now(tz=UTC).timestamp()
        series = [
            {
                "namespace": request["Namespace"],
                "metric": datum["MetricName"],
                "dimensions": {d["Name"]: d["Value"] for d in datum.get("Dimensions", ())},
                "points": [(datum.get("Timestamp", now), value) for value in _values(datum)],
            }
            for datum in request["MetricData"]
        ]
        self.put(account, region, series)
        return {}

    def _place(self, account: str, region: str) -> dict[Key, list[tuple[float, float]]]:
        return self._places.setdefault((account, region), {})


def _values(datum: Mapping[str, Any]) -> list[float]:
    if "Value" in datum:
        return [float(datum["Value"])]
    counts = datum.get("Counts") or [1] * len(datum["Values"])
    return [float(v) for v, n in zip(datum["Values"], counts, strict=True) for _ in range(int(n))]


def _statistic(values: Sequence[float], name: str) -> float:
    match name:
        case "Maximum":
            return max(values)
        case "Minimum":
            return min(values)
        case "Sum":
            return sum(values)
        case "SampleCount":
            return float(len(values))
        case "Average":
            return sum(values) / len(values)
        case _:
            raise AwsError("ValidationError", f"the statistic {name} is not simulated")
