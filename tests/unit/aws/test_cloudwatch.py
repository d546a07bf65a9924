"""CloudWatch: few calls, holes kept as holes, and doubt never taken for silence."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from governor.aws.clients import Clients
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.instance import Target
from governor.evidence.model import Window
from governor.evidence.ports import MetricQuery, SeriesFilter
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error

TARGET = Target("111122223333", "us-east-1")
START = datetime(2026, 11, 20, 11, 0, tzinfo=UTC)
WINDOW = Window(START, START + timedelta(minutes=20), timedelta(minutes=5))
NAMESPACE = "GPU/EC2"
METRIC = "nvidia_smi_utilization_gpu"


def query(key: str, statistic: str = "Maximum", **dimensions: str) -> MetricQuery:
    """A query of the utilization metric."""
    pairs = tuple((dimensions or {"InstanceId": key}).items())
    return MetricQuery(key, NAMESPACE, METRIC, pairs, statistic)


def at(minute: int) -> datetime:
    """A moment of the window's hour."""
    return START + timedelta(minutes=minute)


def result(number: int, points: Mapping[int, float], status: str = "Complete") -> dict[str, Any]:
    """One entry of `MetricDataResults`."""
    return {
        "Id": f"q{number}",
        "Timestamps": [at(minute) for minute in points],
        "Values": list(points.values()),
        "StatusCode": status,
    }


def reader(**answers: Any) -> tuple[CloudWatchMetrics, ScriptedClient]:
    """The adapter over a scripted client."""
    client = ScriptedClient(**answers)
    return CloudWatchMetrics(FakeClients(client)), client


def test_points_land_in_their_periods() -> None:
    """Each value in the bin of its timestamp, holes as `None`, what lies outside is left out."""
    metrics, _ = reader(
        get_metric_data=[
            {"MetricDataResults": [result(0, {-5: 99.0, 0: 1.0, 10: 3.0, 20: 98.0}), result(1, {})]}
        ]
    )

    answer = metrics.read(TARGET, [query("i-1"), query("i-2")], WINDOW)

    assert {"i-1": (1.0, None, 3.0, None)} == dict(answer.series)
    assert {} == dict(answer.problems)


def test_no_query_is_no_call() -> None:
    """Nothing asked, nothing called."""
    metrics, client = reader(get_metric_data=[])
    assert {} == dict(metrics.read(TARGET, [], WINDOW).series)
    assert [] == client.calls


def test_500_queries_a_call() -> None:
    """1,001 queries are three calls, each aligned to the window and in ascending order."""

    def answer(**parameters: Any) -> dict[str, Any]:
        return {
            "MetricDataResults": [
                result(n, {0: n}) for n in range(len(parameters["MetricDataQueries"]))
            ]
        }

    metrics, client = reader(get_metric_data=answer)

    found = metrics.read(TARGET, [query(f"i-{n}") for n in range(1001)], WINDOW)

    assert [1, 500, 500] == sorted(len(call["MetricDataQueries"]) for _, call in client.calls)
    assert {(WINDOW.start, WINDOW.end, "TimestampAscending")} == {
        (call["StartTime"], call["EndTime"], call["ScanBy"]) for _, call in client.calls
    }
    assert 1001 == len(found.series)
    assert (0.0, None, None, None) == found.series["i-1000"]
    assert (499.0, None, None, None) == found.series["i-999"]


def test_calls_run_at_the_same_time_but_not_all() -> None:
    """Several calls at a time, at most eight."""
    running, most, lock, together = 0, 0, threading.Lock(), threading.Barrier(8, timeout=300)

    def answer(**parameters: Any) -> dict[str, Any]:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        together.wait()
        with lock:
            running -= 1
        return {
            "MetricDataResults": [
                result(n, {}) for n in range(len(parameters["MetricDataQueries"]))
            ]
        }

    metrics, _ = reader(get_metric_data=answer)
    metrics.read(TARGET, [query(f"i-{n}") for n in range(500 * 16)], WINDOW)

    assert 8 == most


@pytest.mark.parametrize(
    "values", [(float("nan"), 88.0), (88.0, float("nan")), (-1.0, 88.0), (88.0, 5.0)]
)
def test_of_two_values_in_one_period_the_highest_reading_counts(
    values: tuple[float, float],
) -> None:
    """A value that is no number never hides one that shows work."""
    first, second = values
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [result(0, {0: first, 1: second})]}])

    assert (88.0, None, None, None) == metrics.read(TARGET, [query("i-1")], WINDOW).series["i-1"]


def test_pages_are_put_together() -> None:
    """A series cut by the page limit is whole after the next page, and no problem."""
    metrics, client = reader(
        get_metric_data=[
            {"MetricDataResults": [result(0, {0: 1.0}, "PartialData")], "NextToken": "more"},
            {"MetricDataResults": [result(0, {5: 2.0}), result(1, {15: 4.0})]},
        ]
    )

    answer = metrics.read(TARGET, [query("i-1"), query("i-2")], WINDOW)

    assert {"i-1": (1.0, 2.0, None, None), "i-2": (None, None, None, 4.0)} == dict(answer.series)
    assert {} == dict(answer.problems)
    assert [None, "more"] == [call.get("NextToken") for _, call in client.calls]


@pytest.mark.parametrize("status", ["PartialData", "InternalError", "Forbidden", "SomethingNew"])
def test_a_part_that_fails_is_a_problem_of_its_key_alone(status: str) -> None:
    """The others stand; what did come for the failed one is kept, because it may prove activity."""
    metrics, _ = reader(
        get_metric_data=[{"MetricDataResults": [result(0, {0: 88.0}, status), result(1, {0: 1.0})]}]
    )

    answer = metrics.read(TARGET, [query("i-1"), query("i-2")], WINDOW)

    assert ["i-1"] == list(answer.problems)
    assert status in answer.problems["i-1"]
    assert (88.0, None, None, None) == answer.series["i-1"]


def test_a_partial_series_that_is_never_completed_is_a_problem() -> None:
    """The later page did not speak of it: the rest is missing, which must not look like silence."""
    metrics, _ = reader(
        get_metric_data=[
            {"MetricDataResults": [result(0, {0: 1.0}, "PartialData")], "NextToken": "more"},
            {"MetricDataResults": [result(1, {})]},
        ]
    )
    assert ["i-1"] == list(metrics.read(TARGET, [query("i-1"), query("i-2")], WINDOW).problems)


def test_a_query_without_an_answer_is_a_problem() -> None:
    """CloudWatch answers every query, if with nothing; no answer at all is not silence."""
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [result(0, {0: 1.0})]}])
    assert {"i-2": "CloudWatch gave no answer"} == dict(
        metrics.read(TARGET, [query("i-1"), query("i-2")], WINDOW).problems
    )


def test_a_message_about_the_whole_answer_is_a_problem_of_all() -> None:
    """CloudWatch says that it could not do what was asked."""
    message = {"Code": "MaxQueryTimeRangeExceeded", "Value": "too long"}
    metrics, _ = reader(
        get_metric_data=[{"MetricDataResults": [result(0, {0: 1.0})], "Messages": [message]}]
    )
    problems = metrics.read(TARGET, [query("i-1")], WINDOW).problems
    assert {"i-1": "MaxQueryTimeRangeExceeded: too long"} == dict(problems)


@pytest.mark.parametrize(
    "error",
    [
        client_error("Throttling"),
        client_error("InternalFailure", status=500),
        client_error("AccessDenied"),
    ],
)
def test_a_call_that_fails_is_a_problem_of_its_500_keys(error: Exception) -> None:
    """Nothing is raised and the other calls stand."""

    def answer(**parameters: Any) -> Any:
        queries = parameters["MetricDataQueries"]
        if queries[0]["MetricStat"]["Metric"]["Dimensions"][0]["Value"] == "i-500":
            return error
        return {"MetricDataResults": [result(n, {0: 1.0}) for n in range(len(queries))]}

    metrics, _ = reader(get_metric_data=answer)
    found = metrics.read(TARGET, [query(f"i-{n}") for n in range(1500)], WINDOW)

    assert {f"i-{n}" for n in range(500, 1000)} == set(found.problems)
    assert 1000 == len(found.series)


def test_a_failure_on_a_later_page_keeps_what_was_read() -> None:
    """The pages before may prove activity; every key of the call is in doubt."""
    metrics, _ = reader(
        get_metric_data=[
            {"MetricDataResults": [result(0, {0: 77.0})], "NextToken": "more"},
            client_error("Throttling"),
        ]
    )
    answer = metrics.read(TARGET, [query("i-1"), query("i-2")], WINDOW)
    assert (77.0, None, None, None) == answer.series["i-1"]
    assert {"i-1", "i-2"} == set(answer.problems)


def test_series_of_one_instance_are_filtered_by_cloudwatch() -> None:
    """One instance is not found by listing all."""
    metrics, client = reader(list_metrics=[{"Metrics": []}])
    assert {} == metrics.list_series(TARGET, SeriesFilter(NAMESPACE, METRIC), "i-1")
    assert [{"Name": "InstanceId", "Value": "i-1"}] == client.calls[0][1]["Dimensions"]
    assert METRIC == client.calls[0][1]["MetricName"]


def test_all_that_a_namespace_holds_is_listed_with_its_metrics() -> None:
    """By instance; what names none is left out by CloudWatch itself."""

    def metric(name: str, **dimensions: str) -> dict[str, Any]:
        listed = [{"Name": key, "Value": value} for key, value in dimensions.items()]
        return {"Namespace": "MLTraining", "MetricName": name, "Dimensions": listed}

    metrics, client = reader(
        list_metrics=[
            {"Metrics": [metric("Loss", Job="a", InstanceId="i-1")], "NextToken": "more"},
            {"Metrics": [metric("Throughput", InstanceId="i-1"), metric("Loss", InstanceId="i-2")]},
        ]
    )

    found = metrics.list_series(TARGET, SeriesFilter("MLTraining", None))

    assert {
        "i-1": [
            ("MLTraining", "Loss", (("InstanceId", "i-1"), ("Job", "a"))),
            ("MLTraining", "Throughput", (("InstanceId", "i-1"),)),
        ],
        "i-2": [("MLTraining", "Loss", (("InstanceId", "i-2"),))],
    } == found
    assert [None, "more"] == [call.get("NextToken") for _, call in client.calls]
    first = client.calls[0][1]
    assert ("MLTraining", "PT3H", [{"Name": "InstanceId"}]) == (
        first["Namespace"],
        first["RecentlyActive"],
        first["Dimensions"],
    )
    assert "MetricName" not in first


@pytest.mark.parametrize(
    "odd", [{"Namespace": 1}, {"MetricName": b"x"}, {"Dimensions": [("index", 0)]}]
)
def test_a_series_that_is_named_by_no_text_sinks_no_read(odd: dict[str, Any]) -> None:
    """Nobody checks a query before CloudWatch does, and none could be written for it."""
    metric: dict[str, Any] = {"Namespace": NAMESPACE, "MetricName": METRIC}
    known = [{"Name": "InstanceId", "Value": "i-1"}]
    more = [{"Name": name, "Value": value} for name, value in odd.get("Dimensions", ())]
    bad = {**metric, **odd, "Dimensions": [*known, *more]}
    metrics, _ = reader(list_metrics=[{"Metrics": [bad, {**metric, "Dimensions": known}]}])

    found = metrics.list_series(TARGET, SeriesFilter(NAMESPACE, METRIC))

    assert {"i-1": [(NAMESPACE, METRIC, (("InstanceId", "i-1"),))]} == found


def test_one_instances_share_of_a_namespace_may_be_older() -> None:
    """A window of days holds what was published days ago."""
    metrics, client = reader(list_metrics=[{"Metrics": []}])
    assert {} == metrics.list_series(
        TARGET, SeriesFilter("MLTraining", None, recently=False), "i-1"
    )

    ((_, parameters),) = client.calls
    assert [{"Name": "InstanceId", "Value": "i-1"}] == parameters["Dimensions"]
    assert "RecentlyActive" not in parameters


@pytest.mark.parametrize(
    ("code", "kind"), [("Throttling", Throttled), ("AccessDenied", AccessDenied)]
)
def test_a_failed_list_is_raised(code: str, kind: type[Exception]) -> None:
    """A list that could not be read is not an empty list."""
    metrics, _ = reader(list_metrics=[client_error(code)])
    with pytest.raises(kind):
        metrics.list_series(TARGET, SeriesFilter(NAMESPACE, METRIC))


def test_what_was_published_is_read(aws: Clients) -> None:
    """Against moto: exact dimension sets, the maximum of a period, holes."""
    client = aws.client("cloudwatch", TARGET)
    now = datetime.now(tz=UTC).replace(minute=0, second=0, microsecond=0)
    window = Window(now - timedelta(minutes=60), now - timedelta(minutes=40), timedelta(minutes=5))
    dimensions = [{"Name": "InstanceId", "Value": "i-1"}]
    for minutes, value in ((0, 2.0), (1, 7.0), (10, 3.0)):
        client.put_metric_data(
            Namespace=NAMESPACE,
            MetricData=[
                {
                    "MetricName": METRIC,
                    "Dimensions": dimensions,
                    "Timestamp": window.start + timedelta(minutes=minutes),
                    "Value": value,
                }
            ],
        )

    answer = CloudWatchMetrics(aws).read(
        TARGET, [query("a", InstanceId="i-1"), query("b", InstanceId="i-2")], window
    )

    assert {"a": (7.0, None, 3.0, None)} == dict(answer.series)
    assert {} == dict(answer.problems)


@pytest.mark.parametrize(
    "changed",
    [
        {"Values": [1.0]},
        {"Timestamps": [at(0)]},
        {"Values": [1.0, None]},
        {"Timestamps": [at(0), None]},
        {"Values": [1.0, "x"]},
    ],
)
def test_an_odd_series_is_a_problem_and_sinks_no_other(changed: dict[str, Any]) -> None:
    """Also where a later page of it is whole: what was lost between is not silence."""
    odd = {**result(0, {0: 1.0, 5: 2.0}), **changed}
    pages = [
        {"MetricDataResults": [odd, result(1, {0: 3.0})], "NextToken": "more"},
        {"MetricDataResults": [result(0, {10: 1.0})]},
    ]
    metrics, _ = reader(get_metric_data=pages)

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert (3.0, None, None, None) == answer.series["i-1"]
    assert ["i-0"] == list(answer.problems)
    assert answer.problems["i-0"].startswith("CloudWatch's answer cannot be read: ")


@pytest.mark.parametrize(
    "odd", [None, "q0", {}, {"Id": None}, {"Id": 0}, {"Id": []}, {"Id": "q9"}, {"Id": "q0x"}]
)
def test_an_odd_result_is_an_answer_to_no_query(odd: Any) -> None:
    """The query has its problem, and the others their readings."""
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [odd, result(1, {0: 3.0})]}])

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert {"i-1": (3.0, None, None, None)} == answer.series
    assert {"i-0": "CloudWatch gave no answer"} == answer.problems


def test_a_result_with_a_negative_number_answers_no_query() -> None:
    """Not the last one of the call, whose reading it would be."""
    odd = {**result(0, {0: 99.0}), "Id": "q-1"}
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [odd, result(1, {0: 3.0})]}])

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert {"i-1": (3.0, None, None, None)} == answer.series


@pytest.mark.parametrize("messages", [1, ["half of it"], [None]])
def test_odd_messages_of_a_result_are_a_problem_of_its_query(messages: Any) -> None:
    """They are read only beside a status other than `Complete`."""
    odd = {**result(0, {0: 1.0}, status="PartialData"), "Messages": messages}
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [odd, result(1, {0: 3.0})]}])

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert ["i-0"] == list(answer.problems)
    assert answer.problems["i-0"].startswith("CloudWatch's answer cannot be read: ")
    assert (3.0, None, None, None) == answer.series["i-1"]


@pytest.mark.parametrize("page", [{"Messages": ["half of it"]}, {"MetricDataResults": 1}])
def test_an_odd_page_is_a_problem_of_all_its_queries(page: dict[str, Any]) -> None:
    """Nothing that it should answer looks silent."""
    metrics, _ = reader(get_metric_data=[page])

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert ["i-0", "i-1"] == list(answer.problems)
    assert {} == answer.series


def test_a_series_without_a_status_may_be_cut_short() -> None:
    """Half of it would look like an instance that fell silent."""
    odd = {key: value for key, value in result(0, {0: 1.0}).items() if key != "StatusCode"}
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [odd, result(1, {0: 3.0})]}])

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert {"i-0": "CloudWatch gave no status"} == dict(answer.problems)


@pytest.mark.parametrize("name", [None, "x", "q7"])
def test_an_answer_to_nothing_leaves_its_query_without_one(name: str | None) -> None:
    odd = {**result(0, {0: 1.0}), "Id": name}
    found = {key: value for key, value in odd.items() if value is not None}
    metrics, _ = reader(get_metric_data=[{"MetricDataResults": [found, result(1, {0: 3.0})]}])

    answer = metrics.read(TARGET, [query("i-0"), query("i-1")], WINDOW)

    assert ({"i-0": "CloudWatch gave no answer"}, ["i-1"]) == (answer.problems, list(answer.series))


@pytest.mark.parametrize("lacks", ["Namespace", "MetricName", "Dimensions"])
def test_a_listed_series_that_lacks_a_key_is_left_out(lacks: str) -> None:
    whole: dict[str, Any] = {
        "Namespace": NAMESPACE,
        "MetricName": METRIC,
        "Dimensions": [{"Name": "InstanceId", "Value": "i-1"}, {"Name": "index", "Value": "0"}],
    }
    odd = {key: value for key, value in whole.items() if key != lacks}
    metrics, _ = reader(
        list_metrics=[{"Metrics": [odd, whole, {**whole, "Dimensions": [{"Name": "x"}]}]}]
    )

    assert [1] == [
        len(one) for one in metrics.list_series(TARGET, SeriesFilter(NAMESPACE, METRIC)).values()
    ]


def test_a_list_that_lacks_all_its_series_has_failed() -> None:
    """An instance whose series are not in it is not silent."""
    metrics, _ = reader(list_metrics=[{}])
    with pytest.raises(
        CloudError, match="cloudwatch:ListMetrics gave a record that cannot be read"
    ):
        metrics.list_series(TARGET, SeriesFilter(NAMESPACE, METRIC))


def test_an_answer_without_results_is_a_problem_of_its_queries() -> None:
    metrics, _ = reader(get_metric_data=[{}])
    answer = metrics.read(TARGET, [query("i-0")], WINDOW)
    assert ({"i-0": "CloudWatch gave no answer"}, {}) == (answer.problems, answer.series)
