"""CloudWatch metrics in as few calls as possible: 500 queries a call, several calls at a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.domain.evidence import Series, Window
from governor.domain.instance import Target
from governor.errors import CloudError
from governor.ports import MetricAnswer, MetricQuery

_QUERIES_PER_CALL = 500
_DATAPOINTS_PER_CALL = 100_800
_CALLS_AT_A_TIME = 8
_Found = tuple[dict[str, Series], dict[str, str]]


class CloudWatchMetrics:
    """The port `MetricReader`."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """As the port says."""
        batches = [queries[i : i + _QUERIES_PER_CALL] for i in range(0, len(queries), _QUERIES_PER_CALL)]
        client = self._clients.client("cloudwatch", target)
        series: dict[str, Series] = {}
        problems: dict[str, str] = {}
        if len(batches) == 1:
            answers = [_read_batch(client, batches[0], window)]
        else:
            with ThreadPoolExecutor(max_workers=_CALLS_AT_A_TIME) as pool:
                answers = list(pool.map(lambda batch: _read_batch(client, batch, window), batches))
        for found, failed in answers:
            series |= found
            problems |= failed
        return MetricAnswer(series=series, problems=problems)

    def list_series(
        self, target: Target, namespace: str, metric: str, instance_id: str | None = None
    ) -> Mapping[str, Sequence[tuple[tuple[str, str], ...]]]:
        """As the port says."""
        client = self._clients.client("cloudwatch", target)
        parameters: dict[str, Any] = {
            "Namespace": namespace,
            "MetricName": metric,
            # More would list series of machines long gone; a GPU silent for longer is silent.
            "RecentlyActive": "PT3H",
        }
        if instance_id is not None:
            parameters["Dimensions"] = [{"Name": "InstanceId", "Value": instance_id}]
        found: dict[str, list[tuple[tuple[str, str], ...]]] = defaultdict(list)
        with aws_errors("cloudwatch:ListMetrics"):
            while True:
                page = client.list_metrics(**parameters)
                for listed in page["Metrics"]:
                    dimensions = tuple((d["Name"], d["Value"]) for d in listed.get("Dimensions", ()))
                    owner = dict(dimensions).get("InstanceId")
                    if owner is not None:
                        found[owner].append(dimensions)
                if not page.get("NextToken"):
                    return found
                parameters["NextToken"] = page["NextToken"]


def _read_batch(client: Any, queries: Sequence[MetricQuery], window: Window) -> _Found:
    """One call with all its pages. A call that fails is a problem of every query in it."""
    try:
        with aws_errors("cloudwatch:GetMetricData"):
            return _read_pages(client, queries, window)
    except CloudError as error:
        return {}, {query.key: str(error) for query in queries}


def _read_pages(client: Any, queries: Sequence[MetricQuery], window: Window) -> _Found:
    period = int(window.period.total_seconds())
    start, bins = window.start.timestamp(), window.bins
    values: dict[str, list[float | None]] = {}
    problems: dict[str, str] = {}
    parameters: dict[str, Any] = {
        "MetricDataQueries": [_query(f"q{n}", query, period) for n, query in enumerate(queries)],
        "StartTime": window.start,
        "EndTime": window.end,
        "ScanBy": "TimestampAscending",
        "MaxDatapoints": _DATAPOINTS_PER_CALL,
    }
    while True:
        page = client.get_metric_data(**parameters)
        for result in page["MetricDataResults"]:
            key = queries[int(result["Id"][1:])].key
            for moment, value in zip(result.get("Timestamps", ()), result.get("Values", ()), strict=True):
                index = int((moment.timestamp() - start) // period)
                if 0 <= index < bins:
                    values.setdefault(key, [None] * bins)[index] = float(value)
            status = result.get("StatusCode", "Complete")
            if status in ("InternalError", "Forbidden") or (
                status == "PartialData" and not page.get("NextToken")
            ):
                told = " ".join(message.get("Value", "") for message in result.get("Messages", ()))
                problems[key] = f"{status} {told}".strip()
        if not page.get("NextToken"):
            return {key: tuple(series) for key, series in values.items()}, problems
        parameters["NextToken"] = page["NextToken"]


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
