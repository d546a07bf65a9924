"""Reads CloudWatch metrics in as few calls as possible, and alarms by their names.

A call has 500 queries, and several calls run at a time. A query that could not be answered is named
as a problem; it must never look like a silent instance.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from governor.alerts.model import Alert, AlertKind, Severity
from governor.aws.clients import Adapter, at_once
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.units import as_utc, in_parts, not_none
from governor.evidence.model import Series, Window
from governor.evidence.ports import Listed, MetricAnswer, MetricQuery, SeriesFilter
from governor.evidence.rules.series import peak

_QUERIES_PER_CALL = 500
_DATAPOINTS_PER_CALL = 100_800
_COMPLETE = "Complete"


class CloudWatchMetrics(Adapter):
    """Reads and lists metrics."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        """Return the series of the window by the queries' keys, and by key the problem of each
        query that could not be read as a whole. A call that fails is a problem of its queries, and
        raises nothing. A query that CloudWatch has no readings for has no series."""
        read_part = partial(self._read, target, window)
        series: dict[str, Series] = {}
        problems: dict[str, str] = {}
        for answer in at_once(read_part, list(in_parts(queries, _QUERIES_PER_CALL))):
            series.update(answer.series)
            problems.update(answer.problems)
        return MetricAnswer(series, problems)

    def _read(self, target: Target, window: Window, queries: Sequence[MetricQuery]) -> MetricAnswer:
        """Return the series and problems of at most 500 queries, from all pages of one call.

        If a page fails or cannot be read, nothing is raised: the readings before it are kept,
        because they may prove activity, and all queries have the failure as their problem.
        """
        readings = _Readings(queries, window)
        period = int(window.period.total_seconds())
        sent_queries = []
        for number, query in enumerate(queries):
            sent_queries.append(_query(_query_id(number), query, period))
        pages = self._pages(
            "cloudwatch:GetMetricData",
            target,
            MetricDataQueries=sent_queries,
            StartTime=window.start,
            EndTime=window.end,
            ScanBy="TimestampAscending",
            MaxDatapoints=_DATAPOINTS_PER_CALL,
        )
        try:
            for page in pages:
                readings.add(page)
        except CloudError as error:
            readings.messages = [str(error)]
        except (AttributeError, TypeError) as error:
            readings.messages = [_unreadable(error)]
        return readings.answer()

    def list_series(
        self, target: Target, wanted: SeriesFilter, instance_id: str | None = None
    ) -> dict[str, list[Listed]]:
        """Return the series that CloudWatch lists for this filter, by instance id; with
        `instance_id`, only those of that instance. A part of the filter that is `None` leaves
        nothing out, and `recently` leaves out series without readings in the last three hours.

        A series that cannot be read is missing, which is safe: without readings of every GPU of the
        type there is no verdict. Raises: CloudError, also if none can be read.
        """
        dimension = {"Name": "InstanceId"}
        if instance_id:
            dimension["Value"] = instance_id
        parameters: dict[str, Any] = {"Dimensions": [dimension]}
        if wanted.namespace:
            parameters["Namespace"] = wanted.namespace
        if wanted.metric:
            parameters["MetricName"] = wanted.metric
        if wanted.recently:
            # Without it CloudWatch lists series of instances long gone, too.
            parameters["RecentlyActive"] = "PT3H"
        series_by_instance: dict[str, list[Listed]] = defaultdict(list)
        records = self._records(
            "cloudwatch:ListMetrics", target, ("Metrics",), _series, **parameters
        )
        for owner, series in records:
            series_by_instance[owner].append(series)
        return series_by_instance


class _Readings:
    """The readings and problems of one call, page by page."""

    def __init__(self, queries: Sequence[MetricQuery], window: Window) -> None:
        """Begin with no readings: each query counts as not answered until a page has its result."""
        self._key_by_id = {_query_id(number): query.key for number, query in enumerate(queries)}
        self._window = window
        self._values: dict[str, list[float | None]] = {}
        self._status = {query.key: "CloudWatch gave no answer" for query in queries}
        self._unreadable: dict[str, str] = {}
        self.messages: list[str] = []
        """The reasons why no query of the call is complete."""

    def add(self, page: Any) -> None:
        """Add a page of the answer. A result that cannot be read becomes a problem of its query, or
        is left out if it names no query that was sent. Raises: AttributeError or TypeError if the
        page itself cannot be read."""
        self.messages += [_text(message) for message in page.get("Messages") or ()]
        for result in page.get("MetricDataResults") or ():
            try:
                key = self._key_by_id[result["Id"]]
            except (KeyError, TypeError):
                # The query that it should answer stays without an answer, which is its problem.
                continue
            try:
                # A series may go on in a later page, whose status then counts.
                self._status[key] = _status(result)
                _put_points(result, self._window, key, self._values)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                self._unreadable[key] = _unreadable(error)

    def answer(self) -> MetricAnswer:
        """Return the series, and by key the reason why a query is not complete. If CloudWatch sent
        messages about the whole call, they are the reason for every query. Call it after the last
        page."""
        if self.messages:
            problems = dict.fromkeys(self._status, "; ".join(self.messages))
        else:
            problems = {key: status for key, status in self._status.items() if status != _COMPLETE}
            problems |= self._unreadable
        series = {key: tuple(points) for key, points in self._values.items()}
        return MetricAnswer(series, problems)


def _series(record: Any) -> tuple[str, Listed]:
    """Return the instance id of a listed series, and the series. Raises: TypeError for anything but
    text, which a query cannot name; KeyError if it has no instance.

    Equal texts are one object: a pass over a large namespace lists each of them many times.
    """
    namespace = sys.intern(record["Namespace"])
    metric = sys.intern(record["MetricName"])
    pairs = []
    for dimension in record["Dimensions"]:
        pairs.append((sys.intern(dimension["Name"]), sys.intern(dimension["Value"])))
    dimensions = tuple(sorted(pairs))
    return dict(dimensions)["InstanceId"], Listed(namespace, metric, dimensions)


def _put_points(
    result: Any, window: Window, key: str, values: dict[str, list[float | None]]
) -> None:
    """Put the points of a result into `values[key]`, which has one value for each period of the
    window. Points outside of the window are left out; without any other, nothing is put. Raises:
    AttributeError, TypeError or ValueError for a result of another form."""
    start = window.start.timestamp()
    period = window.period.total_seconds()
    bins = window.bins
    points = values.get(key)
    for moment, value in zip(result.get("Timestamps", ()), result.get("Values", ()), strict=True):
        index = int((moment.timestamp() - start) // period)
        if not 0 <= index < bins:
            continue
        if points is None:
            points = [None] * bins
            values[key] = points
        known = points[index]
        # CloudWatch never gives two in one period; if it did, the larger one counts as activity.
        points[index] = float(value) if known is None else peak((known, float(value)))


def _status(result: Any) -> str:
    """Return `Complete` for a complete result, else its status with CloudWatch's messages. Raises:
    AttributeError or TypeError for messages of another form."""
    status: str = result.get("StatusCode") or "CloudWatch gave no status"
    if status == _COMPLETE:
        return _COMPLETE
    messages = [_text(message) for message in result.get("Messages") or ()]
    return " ".join([status, *messages])


def _text(message: Any) -> str:
    """Return a message of CloudWatch as one text: its code, then its words. Raises: AttributeError
    for anything but a mapping."""
    return f"{message.get('Code', '')}: {message.get('Value', '')}"


def _unreadable(error: Exception) -> str:
    """Return the problem of an answer that could not be read because of this error."""
    return f"CloudWatch's answer cannot be read: {error!r}"


def _query_id(position: int) -> str:
    """Return the id of the query at this position of a call, as `q7`, which its results name."""
    return f"q{position}"


def _query(query_id: str, query: MetricQuery, period: int) -> dict[str, Any]:
    """Return one query as GetMetricData takes it, for periods of this many seconds."""
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
    """Fulfils `governor.notify.verify_alert.Alarms`: alarms as CloudWatch itself describes them."""

    def __call__(self, name: str) -> Alert | None:
        """Return an alert about the alarm in its present state; `None` if there is no alarm of this
        name, or it does not publish to the topic. Raises: CloudError."""
        kinds = ["MetricAlarm", "CompositeAlarm"]
        answer = self._call("cloudwatch:DescribeAlarms", AlarmNames=[name], AlarmTypes=kinds)
        for record in (*answer.get("MetricAlarms", ()), *answer.get("CompositeAlarms", ())):
            if self._publishes(record):
                is_of_money = _is_of_money(record) or self._combines_money(record)
                return _alarm(record, is_of_money=is_of_money)
        return None

    def _combines_money(self, record: Any) -> bool:
        """Return whether a composite alarm combines alarms about money alone. Return false if it
        combines other alarms, composite ones too, none, or more than one call describes (100), or
        if they cannot be read."""
        names = _combined_names(record.get("AlarmRule") or "")
        if not 0 < len(names) <= _ALARMS_OF_A_CALL:
            return False
        limits: Any = {"AlarmTypes": ["MetricAlarm"], "MaxRecords": _ALARMS_OF_A_CALL}
        try:
            answer = self._call("cloudwatch:DescribeAlarms", AlarmNames=sorted(names), **limits)
        except CloudError:
            return False
        names_about_money = set()
        for alarm in answer.get("MetricAlarms", ()):
            if _is_of_money(alarm):
                names_about_money.add(alarm["AlarmName"])
        return names == names_about_money

    def _publishes(self, record: Any) -> bool:
        """Return whether one of the alarm's actions publishes to the topic of these alarms, whose
        ARN is `_resource`."""
        kinds = ("AlarmActions", "OKActions", "InsufficientDataActions")
        return any(self._resource in record.get(kind, ()) for kind in kinds)


_ALARMS_OF_A_CALL = 100
"""The most alarms that one call describes, and that a composite alarm combines."""
_CONDITION = re.compile(r"\b(?:ALARM|OK|INSUFFICIENT_DATA)\s*\(")
_NAMED_CONDITION = re.compile(_CONDITION.pattern + r"""\s*["']?([^"'()]+?)["']?\s*\)""")
"""A condition of a composite alarm: `ALARM("too expensive")`, `OK(name)`, or with an ARN."""
_MONEY_METRICS = (
    "EstimatedCharges",
    "EstimatedCost",
    "HighestBudgetUsedPercent",
    "SavedMonthToDate",
)
"""Metrics of `sum_up_month`, and `EstimatedCharges` of AWS Billing. An alarm on them is
information: nobody is woken because of money."""
_INSIGHTS_QUERY = re.compile(r"\s*SELECT\b", re.IGNORECASE)
_INSIGHTS_METRIC = re.compile(r"""\s*SELECT\s+\w+\s*\(\s*"?([^"()]+?)"?\s*\)""", re.IGNORECASE)
"""A query of CloudWatch Metrics Insights, which names one metric: `SELECT MAX(Cost) FROM Shop`."""


def _is_of_money(record: Any) -> bool:
    """Return whether all metrics that the alarm names are figures of money; false if it names none.
    An alarm by metric math, anomaly detection or Metrics Insights names them in its queries."""
    names = [record.get("MetricName")]
    for query in record.get("Metrics") or ():
        if "MetricStat" in query:
            names.append(query["MetricStat"]["Metric"]["MetricName"])
        elif _INSIGHTS_QUERY.match(query.get("Expression") or ""):
            selected = _INSIGHTS_METRIC.match(query["Expression"])
            # A query that cannot be read may be about anything.
            names.append(selected[1] if selected else "")
    named = not_none(names)
    return bool(named) and all(name in _MONEY_METRICS for name in named)


def _combined_names(rule: str) -> set[str]:
    """Return the names of the alarms that the rule of a composite alarm combines; an empty set if
    there are none, or if not all can be read."""
    names = _NAMED_CONDITION.findall(rule)
    if len(names) != len(_CONDITION.findall(rule)):
        return set()
    return {name.rpartition(":alarm:")[2] for name in names}


def _alarm(record: Any, *, is_of_money: bool) -> Alert:
    """Return the alert about an alarm as CloudWatch describes it: `ALARM_OVER` if its state is
    `OK`, else `ALARM`, which is critical unless it is about money. Its lines are the alarm's
    description and the reason of its state, without those that are missing."""
    # An ARN is arn:partition:service:region:account:resource.
    _, _, _, region, account, *_ = record["AlarmArn"].split(":")
    name = record["AlarmName"]
    state = record["StateValue"]
    kind = AlertKind.ALARM
    severity = Severity.INFO if is_of_money else Severity.CRITICAL
    if state == "OK":
        kind = AlertKind.ALARM_OVER
        severity = Severity.INFO
    since = as_utc(record.get("StateTransitionedTimestamp") or record["StateUpdatedTimestamp"])
    lines = (record.get("AlarmDescription"), record.get("StateReason"))
    return Alert(
        kind=kind,
        severity=severity,
        account=account,
        region=region,
        subject=f"{name}: {state}",
        lines=tuple(line for line in lines if line),
        dedup_id=f"alarm-{name}-{since.isoformat()}"[:512],
        at=since,
        facts={"alarm": name, "incident": record["AlarmArn"]},
    )
