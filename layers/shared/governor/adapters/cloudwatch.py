"""CloudWatch metrics in as few calls as possible: 500 queries a call, several calls at a time. A
part that could not be read is named by its key and never looks like silence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from governor.adapters.clients import Adapter, at_once
from governor.domain.alerts.alert import Alert, AlertKind, Severity
from governor.domain.evidence import Window, peak
from governor.domain.instance import Target
from governor.domain.units import as_utc, in_parts
from governor.errors import CloudError
from governor.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter

_QUERIES_PER_CALL = 500
_DATAPOINTS_PER_CALL = 100_800
_COMPLETE = "Complete"


class CloudWatchMetrics(Adapter):
    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        answers = at_once(
            partial(self._read, target, window), [*in_parts(queries, _QUERIES_PER_CALL)]
        )
        return MetricAnswer(
            {key: series for one in answers for key, series in one.series.items()},
            {key: problem for one in answers for key, problem in one.problems.items()},
        )

    def _read(self, target: Target, window: Window, queries: Sequence[MetricQuery]) -> MetricAnswer:
        """One call with all its pages. What came before a failure is kept: it may prove
        activity."""
        values: dict[str, list[float | None]] = {}
        status = {query.key: "CloudWatch gave no answer" for query in queries}
        messages: list[str] = []
        odd: dict[str, str] = {}
        period = int(window.period.total_seconds())
        try:
            for page in self._pages(
                "cloudwatch:GetMetricData",
                target,
                MetricDataQueries=[
                    _query(f"q{n}", query, period) for n, query in enumerate(queries)
                ],
                StartTime=window.start,
                EndTime=window.end,
                ScanBy="TimestampAscending",
                MaxDatapoints=_DATAPOINTS_PER_CALL,
            ):
                messages += (_text(message) for message in page.get("Messages") or ())
                for result in page.get("MetricDataResults") or ():
                    try:
                        key = queries[int(result["Id"][1:])].key
                    except (KeyError, ValueError, IndexError):
                        continue  # whatever it answers has no answer then, and that is a problem
                    # Of a series cut by the page limit, the later page says whether the rest came.
                    status[key] = _status(result)
                    try:
                        _place(result, window, key, values)
                    except (AttributeError, KeyError, TypeError, ValueError) as error:
                        odd[key] = f"CloudWatch's answer cannot be read: {error!r}"
        except CloudError as error:
            messages = [str(error)]
        if messages:
            problems = dict.fromkeys(status, "; ".join(messages))
        else:
            problems = {key: last for key, last in status.items() if last != _COMPLETE} | odd
        return MetricAnswer({key: tuple(points) for key, points in values.items()}, problems)

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        only = {"Name": "InstanceId"} | ({"Value": instance_id} if instance_id else {})
        asked: Any = {
            "Namespace": wanted.namespace,
            "MetricName": wanted.metric,
            "Dimensions": [only],
            # More would list series of machines long gone; a GPU silent for longer is silent.
            "RecentlyActive": "PT3H" if wanted.recently else None,
        }
        asked = {name: value for name, value in asked.items() if value}
        found: dict[str, list[Listed]] = defaultdict(list)
        # An odd one is one GPU less: every GPU of the type must have readings, or there is no
        # verdict.
        for owner, one in self._records(
            "cloudwatch:ListMetrics", target, ("Metrics",), _series, **asked
        ):
            found[owner].append(one)
        return found


def _series(found: Any) -> tuple[str, Listed]:
    dimensions = tuple(sorted((d["Name"], d["Value"]) for d in found["Dimensions"]))
    texts = (found["Namespace"], found["MetricName"], *(one for pair in dimensions for one in pair))
    if not all(isinstance(one, str) for one in texts):
        raise TypeError("a query can name text alone")
    return dict(dimensions)["InstanceId"], Listed(
        found["Namespace"], found["MetricName"], dimensions
    )


def _place(result: Any, window: Window, key: str, values: dict[str, list[float | None]]) -> None:
    start, period, bins = window.start.timestamp(), window.period.total_seconds(), window.bins
    points = values.get(key)
    for moment, value in zip(result.get("Timestamps", ()), result.get("Values", ()), strict=True):
        index = int((moment.timestamp() - start) // period)
        if not 0 <= index < bins:
            continue
        if points is None:
            points = values[key] = [None] * bins
        known = points[index]
        # Never two in one period by CloudWatch's rules; if ever, the larger one counts as activity.
        points[index] = float(value) if known is None else peak((known, float(value)))


def _status(result: Any) -> str:
    status = result.get("StatusCode") or "CloudWatch gave no status"
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


class CloudWatchAlarms(Adapter):
    """Fulfils `governor.channels.vouch.Alarms`: alarms as CloudWatch itself describes them."""

    def __call__(self, name: str) -> Alert | None:
        """Return how the alarm stands; `None` unless there is one that publishes to the topic."""
        kinds = ["MetricAlarm", "CompositeAlarm"]
        known = self._call("cloudwatch:DescribeAlarms", AlarmNames=[name], AlarmTypes=kinds)
        for one in (*known.get("MetricAlarms", ()), *known.get("CompositeAlarms", ())):
            actions = ("AlarmActions", "OKActions", "InsufficientDataActions")
            if any(self._resource in one.get(kind, ()) for kind in actions):
                return _alarm(one)
        return None


def _alarm(one: Any) -> Alert:
    _, _, _, region, account, *_ = one["AlarmArn"].split(":")
    state, name = one["StateValue"], one["AlarmName"]
    since = as_utc(one.get("StateTransitionedTimestamp") or one["StateUpdatedTimestamp"])
    return Alert(
        kind=AlertKind.ALARM_OVER if state == "OK" else AlertKind.ALARM,
        severity=Severity.INFO if state == "OK" else Severity.CRITICAL,
        account=account,
        region=region,
        subject=f"{name}: {state}",
        lines=tuple(line for line in (one.get("AlarmDescription"), one.get("StateReason")) if line),
        dedup_id=f"alarm-{name}-{since.isoformat()}"[:512],
        at=since,
        facts={"alarm": name, "incident": one["AlarmArn"]},
    )
