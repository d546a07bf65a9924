"""A simulator of CloudWatch metrics: exact dimension sets, periods aligned as CloudWatch aligns
them.

Alarms and everything else stay with the engine. Points are kept per series; nothing is filled in.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from local.engine.simulators.faults import AwsError, Faults

Dimensions = tuple[tuple[str, str], ...]
Key = tuple[str, str, Dimensions]
Rows = list[tuple[float, float]]


class Past(NamedTuple):
    """The part of a series before its points, by hour from `start` to `end`: computed when it is
    read, as weeks of minutes would fill the memory. `None` where nothing was published;
    `per_minute` counts samples."""

    start: float
    end: float
    hours: Sequence[float | None]
    per_minute: float

    def rows(self, start: float, end: float, period: int) -> Iterator[tuple[int, float]]:
        """The value of each whole period that lies in both."""
        first = int(-(-max(start, self.start) // period) * period)
        for at in range(first, int(min(end, self.end)) - period + 1, period):
            value = self.hours[int((at - self.start) // 3600)]
            if value is not None:
                yield at, value


class Series(list[tuple[float, float]]):
    """Points, and what was before them."""

    past: Past | None = None

    def has_reading_since(self, since: float) -> bool:
        """Return whether anything was published from then until now."""
        if any(at >= since for at, _ in self):
            return True
        now = datetime.now(tz=UTC).timestamp()
        return self.past is not None and any(self.past.rows(since, now, 60))


Place = dict[Key, Series]

_QUERY_LIMIT = 500
_LIST_PAGE = 500
_PUT_LIMIT = 1000
_DATAPOINTS = 100_800
_RECENT = timedelta(hours=3)
_LISTED = timedelta(days=14)
_RETENTION = ((timedelta(days=15), 60), (timedelta(days=63), 300), (timedelta(days=455), 3600))
"""Points younger than that are kept at that period, in seconds; older ones only at longer
periods."""


class CloudWatchSimulator:
    """GetMetricData, ListMetrics and PutMetricData. Times come in and go out as seconds since the
    epoch."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.partial: set[str] = set()
        """Metrics whose answers come back as PartialData."""
        self._lock = threading.RLock()
        self._places: dict[tuple[str, str], Place] = {}
        self._operations: dict[str, Callable[[str, str, Mapping[str, Any]], dict[str, Any]]] = {
            "GetMetricData": self._get_metric_data,
            "ListMetrics": self._list_metrics,
            "PutMetricData": self._put_metric_data,
        }

    def knows(self, operation: str) -> bool:
        """Return whether this simulator answers the operation."""
        return operation in self._operations

    def operation(
        self, name: str, account: str, region: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        """One call. Raises: AwsError."""
        with self._lock:
            self.faults.enter(f"cloudwatch:{name}", request)
            return self._operations[name](account, region, request)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._places.clear()
            self.partial.clear()

    def put(self, account: str, region: str, series: Sequence[Mapping[str, Any]]) -> None:
        """Adds points in bulk: `namespace`, `metric`, `dimensions`, `points` as `[epoch, value]`,
        and perhaps `past`, the fields of a `Past`."""
        with self._lock:
            for one in series:
                key = (one["namespace"], one["metric"], tuple(sorted(one["dimensions"].items())))
                found = self._place(account, region).setdefault(key, Series())
                found.extend((float(at), float(value)) for at, value in one["points"])
                if "past" in one:
                    found.past = Past(**one["past"])

    def drop(self, account: str, region: str, instance_id: str) -> None:
        """Forgets all series of an instance."""
        with self._lock:
            place = self._place(account, region)
            for key in [key for key in place if ("InstanceId", instance_id) in key[2]]:
                del place[key]

    # reading

    def _get_metric_data(
        self, account: str, region: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        queries = request["MetricDataQueries"]
        _check_queries(queries)
        start, end = float(request["StartTime"]), float(request["EndTime"])
        if start >= end:
            raise AwsError(
                "ValidationError", "The parameter StartTime must be less than the parameter EndTime"
            )
        place = self._place(account, region)
        newest_first = request.get("ScanBy", "TimestampDescending") == "TimestampDescending"
        limit = int(request.get("MaxDatapoints") or _DATAPOINTS)
        if not 0 < limit <= _DATAPOINTS:
            raise AwsError("ValidationError", f"MaxDatapoints must be between 1 and {_DATAPOINTS}")
        first, offset = _position(request.get("NextToken"))
        results: list[dict[str, Any]] = []
        for number, query in enumerate(queries[first:], start=first):
            rows = _rows(place, query["MetricStat"], _rounded(start), end)
            if newest_first:
                rows.reverse()
            done = offset if number == first else 0
            room = limit - sum(len(result["Values"]) for result in results)
            results.append(
                self._result(query, rows[done : done + room], cut=len(rows) - done > room)
            )
            if len(rows) - done > room:
                return {"MetricDataResults": results, "NextToken": f"{number}.{done + room}"}
        return {"MetricDataResults": results}

    def _result(self, query: Mapping[str, Any], rows: Rows, *, cut: bool) -> dict[str, Any]:
        """A series cut by the page is PartialData until its last page."""
        metric = query["MetricStat"]["Metric"]["MetricName"]
        return {
            "Id": query["Id"],
            "Label": query.get("Label") or metric,
            "Timestamps": [at for at, _ in rows],
            "Values": [value for _, value in rows],
            "StatusCode": "PartialData" if cut or metric in self.partial else "Complete",
        }

    def _list_metrics(
        self, account: str, region: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        recent = request.get("RecentlyActive")
        if recent not in (None, "PT3H"):
            raise AwsError(
                "InvalidParameterValue", "The only valid value of RecentlyActive is PT3H"
            )
        since = (datetime.now(tz=UTC) - (_RECENT if recent else _LISTED)).timestamp()
        wanted = [(d["Name"], d.get("Value")) for d in request.get("Dimensions", ())]
        found = [
            key
            for key, points in sorted(self._place(account, region).items())
            if request.get("Namespace") in (None, key[0])
            and request.get("MetricName") in (None, key[1])
            and all(_has(key[2], name, value) for name, value in wanted)
            and points.has_reading_since(since)
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

    # writing

    def _put_metric_data(
        self, account: str, region: str, request: Mapping[str, Any]
    ) -> dict[str, Any]:
        if request["Namespace"].startswith("AWS/"):
            raise AwsError(
                "InvalidParameterValue", "The value AWS/ for parameter Namespace is invalid."
            )
        if len(request["MetricData"]) > _PUT_LIMIT:
            raise AwsError("InvalidParameterValue", f"at most {_PUT_LIMIT} metrics a call")
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

    def _place(self, account: str, region: str) -> Place:
        return self._places.setdefault((account, region), {})


def _check_queries(queries: Sequence[Mapping[str, Any]]) -> None:
    if len(queries) > _QUERY_LIMIT:
        raise AwsError("ValidationError", f"at most {_QUERY_LIMIT} queries, not {len(queries)}")
    ids = [query["Id"] for query in queries]
    if len(set(ids)) != len(ids):
        raise AwsError(
            "ValidationError", "The values for parameter id in MetricDataQueries must be unique"
        )
    for query in queries:
        if not re.fullmatch(r"[a-z][A-Za-z0-9_]*", query["Id"]):
            raise AwsError(
                "ValidationError", f"The value {query['Id']} for parameter id is invalid"
            )
        if "MetricStat" not in query:
            raise AwsError("ValidationError", "only MetricStat is simulated")
        period = int(query["MetricStat"]["Period"])
        if period not in (1, 5, 10, 20, 30) and (period <= 0 or period % 60):
            raise AwsError("ValidationError", f"The period {period} is no multiple of 60")


def _position(token: str | None) -> tuple[int, int]:
    """The query that a page begins with, and how many of its points have been answered."""
    if not token:
        return 0, 0
    match = re.fullmatch(r"(\d+)\.(\d+)", token)
    if match is None:
        raise AwsError("InvalidNextToken", "The service does not know this token")
    return int(match[1]), int(match[2])


def _rounded(start: float) -> float:
    """CloudWatch rounds a start down to what it keeps of that age."""
    age = datetime.now(tz=UTC).timestamp() - start
    unit = next((unit for younger, unit in _RETENTION if age <= younger.total_seconds()), 3600)
    return start // unit * unit


def _rows(place: Mapping[Key, Series], stat: Mapping[str, Any], start: float, end: float) -> Rows:
    """The points of one query, oldest first: the start is included, the end is not."""
    metric, period = stat["Metric"], int(stat["Period"])
    dimensions = tuple(sorted((d["Name"], d["Value"]) for d in metric.get("Dimensions", ())))
    series = place.get((metric["Namespace"], metric["MetricName"], dimensions), Series())
    bins: dict[int, list[float]] = {}
    for at, value in _kept(series, period):
        if start <= at < end:
            # A period is named by its start.
            bins.setdefault(int(at // period) * period, []).append(value)
    rows = {at: _statistic(values, stat["Stat"]) for at, values in bins.items()}
    if series.past is not None:
        samples = series.past.per_minute * period / 60
        for at, value in _kept(series.past.rows(start, end, period), period):
            of_all = {"Sum": value * samples, "SampleCount": samples}
            rows.setdefault(int(at), of_all.get(stat["Stat"], value))
    return [(float(at), value) for at, value in sorted(rows.items())]


def _kept(points: Iterable[tuple[float, float]], period: int) -> Iterator[tuple[float, float]]:
    """Points that CloudWatch still has at that period."""
    now = datetime.now(tz=UTC).timestamp()
    oldest = max((younger for younger, unit in _RETENTION if period >= unit), default=_RECENT)
    return ((at, value) for at, value in points if now - at <= oldest.total_seconds())


def _has(dimensions: Dimensions, name: str, value: str | None) -> bool:
    """A dimension asked for without a value is met by any."""
    return any(found == name and value in (None, told) for found, told in dimensions)


def _values(datum: Mapping[str, Any]) -> list[float]:
    if "Value" in datum:
        return [float(datum["Value"])]
    if "Values" not in datum:
        raise AwsError("InvalidParameterCombination", "only Value and Values are simulated")
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
