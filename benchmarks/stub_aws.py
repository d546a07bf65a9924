"""A stub of the AWS clients a sweep uses: answers from arithmetic, counts every call, keeps nothing.

It speaks as boto3 clients do, so that the real adapters run in front of it; their time is part of what is
measured. Answers are built as lists and dicts exactly once per call, as boto3 builds them from the wire.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Literal

ACCOUNT = "123456789012"
REGION = "us-east-1"

DATAPOINTS_OF_A_PAGE = 100_800

Style = Literal["aggregate", "per-gpu"]


@dataclass
class StubFleet:
    """`size` instances, `idle_share` of them idle since hours, the rest busy all the time.

    Every fifth instance has eight GPUs, the others one. `style` is how their agents publish.
    """

    size: int
    style: Style
    now: datetime
    idle_share: float = 0.05
    calls: Counter[str] = field(default_factory=Counter)
    queries: int = 0

    def gpus(self, number: int) -> int:
        """GPUs of an instance."""
        return 8 if number % 5 == 0 else 1

    def is_idle(self, number: int) -> bool:
        """Idle instances are spread evenly."""
        return (number * 7919) % 1000 < self.idle_share * 1000

    def instance_type(self, number: int) -> str:
        """A type with as many GPUs."""
        return "p4d.24xlarge" if self.gpus(number) == 8 else "g5.xlarge"

    @property
    def series(self) -> int:
        """Utilization series by GPU."""
        return sum(self.gpus(number) for number in range(self.size))

    def floor(self) -> int:
        """Fewest reads of a first sweep: describes, metric reads, and lists where GPUs must be found."""
        calls = math.ceil(self.size / 1000) + math.ceil(self.size / 500)
        if self.style == "per-gpu":
            calls += 2 * math.ceil(self.series / 500)
        return calls + self._longer_looks()

    def _longer_looks(self) -> int:
        """Pages of the longer window of each idle instance, of which a first sweep knows nothing yet."""
        metrics = sum(
            3 * (self.gpus(number) if self.style == "per-gpu" else 1) + 3
            for number in range(self.size)
            if self.is_idle(number)
        )
        return math.ceil(metrics / 500)

    def client(self, service: str, target: object = None) -> Any:
        """A client of the service."""
        return {"ec2": _Ec2, "cloudwatch": _CloudWatch}[service](self)


def series_of_a_page(length: timedelta, period: timedelta) -> int:
    """How many series of this length an answer of GetMetricData holds."""
    return max(1, int(DATAPOINTS_OF_A_PAGE // (length / period)))


def instance_id(number: int) -> str:
    """The id of the instance with that number."""
    return f"i-{number:017x}"


def number_of(instance: str) -> int:
    """The inverse of `instance_id`."""
    return int(instance[2:], 16)


class _Meta:
    """What the adapters look at to learn which parameters a client knows."""

    def __init__(self, service: str) -> None:
        self.service_model = _boto_model(service)
        self.region_name = REGION


def _boto_model(service: str) -> Any:
    import botocore.session

    return botocore.session.get_session().get_service_model(service)


class _Client:
    service = ""

    def __init__(self, fleet: StubFleet) -> None:
        self._fleet = fleet

    @property
    def meta(self) -> _Meta:
        """As of a boto3 client."""
        return _Meta(self.service)

    def _count(self, operation: str) -> None:
        self._fleet.calls[f"{self.service}:{operation}"] += 1

    def get_paginator(self, operation: str) -> _Paginator:
        """As of a boto3 client."""
        return _Paginator(self, operation)


class _Paginator:
    def __init__(self, client: _Client, operation: str) -> None:
        self._call = getattr(client, operation)

    def paginate(self, **parameters: Any) -> Iterable[dict[str, Any]]:
        """Pages until there is no further token."""
        config = parameters.pop("PaginationConfig", {})
        if "PageSize" in config:
            parameters["MaxResults"] = config["PageSize"]
        while True:
            page = self._call(**parameters)
            yield page
            if "NextToken" not in page:
                return
            parameters["NextToken"] = page["NextToken"]


class _Ec2(_Client):
    service = "ec2"

    def describe_instances(self, *, MaxResults: int = 1000, NextToken: str = "0", **_: Any) -> dict[str, Any]:
        """1,000 a page."""
        self._count("DescribeInstances")
        start = int(NextToken)
        end = min(start + MaxResults, self._fleet.size)
        page: dict[str, Any] = {
            "Reservations": [
                {"OwnerId": ACCOUNT, "Instances": [self._instance(n)]} for n in range(start, end)
            ]
        }
        if end < self._fleet.size:
            page["NextToken"] = str(end)
        return page

    def _instance(self, number: int) -> dict[str, Any]:
        fleet = self._fleet
        return {
            "InstanceId": instance_id(number),
            "InstanceType": fleet.instance_type(number),
            "State": {"Code": 16, "Name": "running"},
            "LaunchTime": datetime(2026, 11, 1, tzinfo=UTC),
            "RootDeviceType": "ebs",
            "Placement": {"AvailabilityZone": "us-east-1a", "Tenancy": "default"},
            "PlatformDetails": "Linux/UNIX",
            "Tags": [
                {"Key": "Purpose", "Value": "GPU-Workload"},
                {"Key": "Name", "Value": f"node-{number}"},
                {"Key": "Owner", "Value": f"team-{number % 20}"},
            ],
            "BlockDeviceMappings": [
                {
                    "DeviceName": "/dev/xvda",
                    "Ebs": {
                        "VolumeId": f"vol-{number:017x}",
                        "DeleteOnTermination": True,
                        "Status": "attached",
                    },
                }
            ],
        }

    def create_tags(self, *, Resources: Sequence[str], **_: Any) -> dict[str, Any]:
        """Tags in batches; in a dry run EC2 answers with an error that says it would have worked."""
        from botocore.exceptions import ClientError

        self._count("CreateTags")
        error = {"Error": {"Code": "DryRunOperation", "Message": "would have succeeded"}}
        raise ClientError(error, "CreateTags")  # type: ignore[arg-type]


class _CloudWatch(_Client):
    service = "cloudwatch"

    def get_metric_data(
        self,
        *,
        MetricDataQueries: Sequence[dict[str, Any]],
        StartTime: datetime,
        EndTime: datetime,
        NextToken: str = "0",
        **_: Any,
    ) -> dict[str, Any]:
        """Up to 500 queries a call; pages of whole series, as many as 100,800 datapoints have room for."""
        if len(MetricDataQueries) > 500:
            raise AssertionError("GetMetricData takes 500 queries")
        self._count("GetMetricData")
        first = int(NextToken)
        if not first:
            self._fleet.queries += len(MetricDataQueries)
        period = min(query["MetricStat"]["Period"] for query in MetricDataQueries)
        end = first + series_of_a_page(EndTime - StartTime, timedelta(seconds=period))
        page = {
            "MetricDataResults": [
                self._result(query, StartTime, EndTime) for query in MetricDataQueries[first:end]
            ]
        }
        return page if end >= len(MetricDataQueries) else {**page, "NextToken": str(end)}

    def _result(self, query: dict[str, Any], start: datetime, end: datetime) -> dict[str, Any]:
        statistic = query["MetricStat"]
        metric, period = statistic["Metric"], timedelta(seconds=statistic["Period"])
        dimensions = {d["Name"]: d["Value"] for d in metric["Dimensions"]}
        value = self._value(metric["MetricName"], dimensions, statistic["Stat"])
        times: list[datetime] = []
        if value is not None:
            times = [start + period * n for n in range(int((end - start) / period))]
        return {
            "Id": query["Id"],
            "Label": "",
            "Timestamps": times,
            "Values": [value] * len(times),
            "StatusCode": "Complete",
        }

    def _value(self, metric: str, dimensions: dict[str, str], statistic: str) -> float | None:
        fleet = self._fleet
        number = number_of(dimensions["InstanceId"])
        idle = fleet.is_idle(number)
        if metric.startswith("nvidia_smi_"):
            aggregate = "index" not in dimensions
            if aggregate and fleet.style == "per-gpu":
                return None
            if statistic == "SampleCount":
                return 5.0 * (fleet.gpus(number) if aggregate else 1)
            if metric == "nvidia_smi_temperature_gpu":
                return 35.0 if idle else 65.0
            if metric == "nvidia_smi_utilization_memory":
                return 0.1 if idle else 45.0
            if metric == "nvidia_smi_utilization_gpu":
                return 0.4 if idle else 60.0 + zlib.crc32(dimensions["InstanceId"].encode()) % 40
            return 20.0 if idle else 250.0
        if metric == "CPUUtilization":
            return 1.5 if idle else 50.0
        return 1e6 if idle else 5e9

    def list_metrics(
        self, *, Namespace: str, MetricName: str | None = None, NextToken: str = "0", **_: Any
    ) -> dict[str, Any]:
        """500 series a page; only what the CloudWatch agent publishes, and nothing of jobs."""
        self._count("ListMetrics")
        if Namespace == "GPU/Custom" or MetricName is None:
            return {"Metrics": []}
        start = int(NextToken)
        page: dict[str, Any] = {
            "Metrics": [
                {
                    "Namespace": Namespace,
                    "MetricName": MetricName,
                    "Dimensions": _dimensions(number, index),
                }
                for number, index in islice(self._series(), start, start + 500)
            ]
        }
        if start + 500 < sum(1 for _ in self._series()):
            page["NextToken"] = str(start + 500)
        return page

    def _series(self) -> Iterator[tuple[int, int | None]]:
        """By instance and GPU; without a GPU the aggregate."""
        for number in range(self._fleet.size):
            if self._fleet.style == "aggregate":
                yield number, None
            for index in range(self._fleet.gpus(number)):
                yield number, index


def _dimensions(number: int, index: int | None) -> list[dict[str, str]]:
    of_gpu = {} if index is None else {"index": str(index), "name": "NVIDIA", "arch": "Ampere"}
    named = {"InstanceId": instance_id(number), **of_gpu}
    return [{"Name": name, "Value": value} for name, value in named.items()]
