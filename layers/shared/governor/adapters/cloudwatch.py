"""CloudWatch metrics in as few calls as possible: 500 queries a call, several calls at a time.

A part that could not be read is named by its key and never looks like silence. This module must not know
what the figures mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from governor.adapters.clients import Adapter, pages
from governor.domain.evidence import Dimensions, Series, Window, peak
from governor.domain.instance import Target
from governor.domain.parts import in_parts
from governor.errors import CloudError
from governor.ports import MetricAnswer, MetricQuery

_QUERIES_PER_CALL = 500
_DATAPOINTS_PER_CALL = 100_800
_CALLS_AT_A_TIME = 8
_COMPLETE = "Complete"
_RECENTLY: Any = {"RecentlyActive": "PT3H"}
"""More would list series of machines long gone; a GPU silent for longer is silent."""


class CloudWatchMetrics(Adapter):
    """The port `MetricReader`."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        series: dict[str, Series] = {}
        problems: dict[str, str] = {}
        if not queries:
            return MetricAnswer(series, problems)
        client = self._clients.client("cloudwatch", target)
        batches = [_Batch(client, part, window) for part in in_parts(queries, _QUERIES_PER_CALL)]
        if len(batches) == 1:
            batches[0].read()
        else:
            with ThreadPoolExecutor(max_workers=min(_CALLS_AT_A_TIME, len(batches))) as pool:
                list(pool.map(_Batch.read, batches))
        for batch in batches:
            series |= batch.series
            problems |= batch.problems
        return MetricAnswer(series, problems)

    def list_series(
        self, target: Target, namespace: str, metric: str, instance_id: str | None = None
    ) -> dict[str, list[Dimensions]]:
        only = {} if instance_id is None else {"Dimensions": [_instance_dimension(instance_id)]}
        found: dict[str, list[Dimensions]] = {}
        for owner, _, dimensions in self._listed(
            target, Namespace=namespace, MetricName=metric, **_RECENTLY, **only
        ):
            found.setdefault(owner, []).append(dimensions)
        return found

    def list_published(
        self, target: Target, namespace: str, instance_id: str | None = None, *, recently: bool = True
    ) -> dict[str, list[tuple[str, Dimensions]]]:
        when = _RECENTLY if recently else {}
        found: dict[str, list[tuple[str, Dimensions]]] = {}
        for owner, metric, dimensions in self._listed(
            target, Namespace=namespace, Dimensions=[_instance_dimension(instance_id)], **when
        ):
            found.setdefault(owner, []).append((metric, dimensions))
        return found

    def _listed(self, target: Target, **parameters: Any) -> Iterator[tuple[str, str, Dimensions]]:
        """Instance, metric and dimensions of every series of all pages that belongs to an instance."""
        client = self._clients.client("cloudwatch", target)
        for page in pages("cloudwatch:ListMetrics", client, **parameters):
            for listed in page["Metrics"]:
                dimensions = tuple(sorted((d["Name"], d["Value"]) for d in listed.get("Dimensions", ())))
                owner = dict(dimensions).get("InstanceId")
                if owner is not None:
                    yield owner, listed.get("MetricName", ""), dimensions


def _instance_dimension(instance_id: str | None) -> dict[str, str]:
    return {"Name": "InstanceId"} if instance_id is None else {"Name": "InstanceId", "Value": instance_id}


class _Batch:
    """One call with all its pages, and what came of it."""

    def __init__(self, client: Any, queries: Sequence[MetricQuery], window: Window) -> None:
        self._client = client
        self._queries = queries
        self._window = window
        self.series: dict[str, Series] = {}
        self.problems: dict[str, str] = {}

    def read(self) -> None:
        """Reads all pages. What came before a failure is kept: it may prove activity."""
        values: dict[str, list[float | None]] = {}
        status = {query.key: "CloudWatch gave no answer" for query in self._queries}
        try:
            whole = self._read_pages(values, status)
        except CloudError as error:
            whole = str(error)
        self.series = {key: tuple(points) for key, points in values.items()}
        if whole:
            self.problems = dict.fromkeys(status, whole)
        else:
            self.problems = {key: last for key, last in status.items() if last != _COMPLETE}

    def _read_pages(self, values: dict[str, list[float | None]], status: dict[str, str]) -> str:
        """Fills values and each key's last status; returns what is wrong with the answer as a whole."""
        period = int(self._window.period.total_seconds())
        messages: list[str] = []
        for page in pages(
            "cloudwatch:GetMetricData",
            self._client,
            MetricDataQueries=[_query(f"q{n}", query, period) for n, query in enumerate(self._queries)],
            StartTime=self._window.start,
            EndTime=self._window.end,
            ScanBy="TimestampAscending",
            MaxDatapoints=_DATAPOINTS_PER_CALL,
        ):
            messages += (_text(message) for message in page.get("Messages") or ())
            for result in page["MetricDataResults"]:
                key = self._queries[int(result["Id"][1:])].key
                self._place(result, key, values)
                # Of a series cut by the page limit, the later page says whether the rest came.
                status[key] = _status(result)
        return "; ".join(messages)

    def _place(self, result: Any, key: str, values: dict[str, list[float | None]]) -> None:
        start, bins = self._window.start.timestamp(), self._window.bins
        period = self._window.period.total_seconds()
        for moment, value in zip(result.get("Timestamps", ()), result.get("Values", ()), strict=True):
            index = int((moment.timestamp() - start) // period)
            if not 0 <= index < bins:
                continue
            points = values.get(key)
            if points is None:
                points = values[key] = [None] * bins
            known = points[index]
            # Never two in one period by CloudWatch's rules; if ever, the larger one counts as activity.
            points[index] = float(value) if known is None else peak((known, float(value)))


def _status(result: Any) -> str:
    status = result.get("StatusCode") or _COMPLETE
    if status == _COMPLETE:
        return _COMPLETE
    return " ".join((status, *(_text(message) for message in result.get("Messages") or ())))


def _text(message: Any) -> str:
    return f"{message.get('Code', '')}: {message.get('Value', '')}"


def _query(query_id: str, query: MetricQuery, period: int) -> dict[str, Any]:
    return {
        "Id": query_id,
        "MetricStat": {
            "Metric": {
                "Namespace": query.namespace,
                "MetricName": query.metric,
                "Dimensions": [{"Name": name, "Value": value} for name, value in query.dimensions],
            },
            "Period": period,
            "Stat": query.statistic,
        },
        "ReturnData": True,
    }
