"""A fleet of GPU instances behind the wire: EC2 and CloudWatch, answered from arithmetic.

Answers are put together from bytes that were made once, so that the stub itself costs little.
"""

from __future__ import annotations

import json
import math
import statistics
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache, cached_property
from typing import Any, Literal

from benchmarks.wire import Answered, Asked, Service, as_json

ACCOUNT = "123456789012"
REGION = "us-east-1"
Style = Literal["aggregate", "per-gpu"]
DATAPOINTS_OF_A_PAGE = 100_800
GPU_METRICS = (
    "nvidia_smi_utilization_gpu",
    "nvidia_smi_utilization_memory",
    "nvidia_smi_memory_used",
    "nvidia_smi_power_draw",
    "nvidia_smi_temperature_gpu",
)
UTILIZATION, _, MEMORY, POWER, _ = GPU_METRICS
AGENTLESS = "GPUPowerUtilization"
_STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "Maximum": max,
    "Average": statistics.fmean,
    "Sum": math.fsum,
    "SampleCount": len,
}


@dataclass(frozen=True)
class Host:
    """One instance that is told apart. `sample` gives a metric of a GPU (or of the instance:
    `None`) so many minutes ago, or nothing where nothing was published."""

    name: str
    sample: Callable[[str, int | None, int], float | None]
    gpus: int = 1
    tags: Mapping[str, str] = field(default_factory=dict)
    up_minutes: int = 14 * 24 * 60
    aggregates: bool = True
    """True if the agent publishes the metrics under `InstanceId` alone, too."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Dimensions of that aggregate beside `InstanceId`."""
    published: Sequence[tuple[str, str]] = ()
    """Metrics beside those of the agent and of EC2: namespace and name."""
    is_idle: bool = False
    """The truth about it."""


@dataclass
class Fleet:
    """`size` instances, `idle_share` of them idle since hours, the others busy all the time;
    `hosts` first.

    Without `gpus` every fifth instance has eight GPUs, the others one. `style` is how their agents
    publish.
    """

    size: int
    style: Style
    now: datetime
    idle_share: float = 0.05
    gpus_each: int | None = None
    hosts: Sequence[Host] = ()
    queries: int = 0
    """Metrics that were asked for by GetMetricData, as CloudWatch bills them."""
    tags: defaultdict[tuple[str, int], dict[str, str]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Set by whoever tags instances, in each account and Region by itself."""

    def services(self) -> dict[str, Service]:
        """Return what answers for the fleet, by host name."""
        return {"ec2": self._ec2, "monitoring": self._monitoring}

    def gpus(self, number: int) -> int:
        """GPUs of an instance."""
        if number < len(self.hosts):
            return self.hosts[number].gpus
        return self.gpus_each or (8 if number % 5 == 0 else 1)

    def is_idle(self, number: int) -> bool:
        """Idle instances are spread evenly. Not of one that is told apart."""
        return (number * 7919) % 1000 < self.idle_share * 1000

    @cached_property
    def series(self) -> list[tuple[int, int | None]]:
        """Every series of a GPU metric, by instance and GPU; without a GPU the aggregate."""
        found: list[tuple[int, int | None]] = []
        for number in range(self.size):
            host = self.hosts[number] if number < len(self.hosts) else None
            if host.aggregates if host else self.style == "aggregate":
                found.append((number, None))
            found += [(number, index) for index in range(self.gpus(number))]
        return found

    def floor(self) -> int:
        """Fewest reads of a first sweep: describes, metric reads, and lists where GPUs must be
        found."""
        calls = math.ceil(self.size / 1000) + math.ceil(self.size / 500)
        if self.style == "per-gpu":
            calls += 2 * math.ceil(len(self.series) / 500)
        # The longer window of each idle instance, of which a first sweep knows nothing yet.
        longer = sum(
            3 * (self.gpus(number) if self.style == "per-gpu" else 1) + 3
            for number in range(self.size)
            if self.is_idle(number)
        )
        return calls + math.ceil(longer / 500)

    # EC2

    def _ec2(self, asked: Asked) -> Answered:
        if asked.operation in ("CreateTags", "DeleteTags"):
            return self._tag(asked)
        if asked.operation == "DescribeCapacityReservations":
            return Answered(
                b'<DescribeCapacityReservationsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
                b"<capacityReservationSet/></DescribeCapacityReservationsResponse>"
            )
        assert asked.operation == "DescribeInstances", asked.operation
        start = int(asked.values.get("NextToken", 0))
        end = min(start + int(asked.values.get("MaxResults", 1000)), self.size)
        more = f"<nextToken>{end}</nextToken>" if end < self.size else ""
        found = "".join(self._reservation(asked.place, number) for number in range(start, end))
        return Answered(
            f'<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">'
            f"<reservationSet>{found}</reservationSet>{more}</DescribeInstancesResponse>".encode()
        )

    def _reservation(self, place: str, number: int) -> str:
        host = self.hosts[number] if number < len(self.hosts) else None
        tags = {
            "Purpose": "GPU-Workload",
            "Name": host.name if host else f"node-{number}",
            "Owner": f"team-{number % 20}",
            **(host.tags if host else {}),
            **self.tags.get((place, number), {}),
        }
        return _RESERVATION.format(
            id=instance_id(number),
            account=ACCOUNT,
            type="p4d.24xlarge" if self.gpus(number) == 8 else "g5.xlarge",
            launched=_iso(self.now - timedelta(minutes=host.up_minutes if host else 14 * 24 * 60)),
            tags="".join(
                f"<item><key>{key}</key><value>{tags[key]}</value></item>" for key in tags
            ),
            octet=number % 250,
        )

    def _tag(self, asked: Asked) -> Answered:
        if asked.values.get("DryRun") == "true":
            error = "<Code>DryRunOperation</Code><Message>Request would have succeeded</Message>"
            return Answered(
                f"<Response><Errors><Error>{error}</Error></Errors></Response>".encode(), 412
            )
        keys = {name: value for name, value in asked.values.items() if name.endswith(".Key")}
        for name, resource in asked.values.items():
            if name.startswith("ResourceId"):
                own = self.tags[asked.place, number_of(resource)]
                for field_name, key in keys.items():
                    own.pop(key, None)
                    if asked.operation == "CreateTags":
                        own[key] = asked.values[f"{field_name.removesuffix('Key')}Value"]
        return Answered(
            f"<{asked.operation}Response><return>true</return></{asked.operation}Response>".encode()
        )

    # CloudWatch

    def _monitoring(self, asked: Asked) -> Answered:
        answers = {
            "GetMetricData": self._metric_data,
            "GetMetricStatistics": self._metric_statistics,
            "ListMetrics": self._list_metrics,
        }
        return answers[asked.operation](asked.values)

    def _metric_data(self, asked: Mapping[str, Any]) -> Answered:
        """Up to 500 queries a call; pages of whole series, as many as 100,800 datapoints have room
        for."""
        queries = asked["MetricDataQueries"]
        assert len(queries) <= 500, "GetMetricData takes 500 queries"
        first = int(asked.get("NextToken") or 0)
        if not first:
            self.queries += len(queries)
        start, end = int(asked["StartTime"]), int(asked["EndTime"])
        period = min(query["MetricStat"]["Period"] for query in queries)
        last = first + max(1, DATAPOINTS_OF_A_PAGE // ((end - start) // period))
        results = b",".join(self._result(query, start, end) for query in queries[first:last])
        more = b"" if last >= len(queries) else f',"NextToken":"{last}"'.encode()
        return Answered(b'{"MetricDataResults":[' + results + b'],"Messages":[]' + more + b"}")

    def _result(self, query: Mapping[str, Any], start: int, end: int) -> bytes:
        asked = query["MetricStat"]
        times, values = self._points(asked["Metric"], asked["Stat"], start, end, asked["Period"])
        return b'{"Id":"%s","Label":"%s","StatusCode":"Complete","Timestamps":%s,"Values":%s}' % (
            query["Id"].encode(),
            asked["Metric"]["MetricName"].encode(),
            times,
            values,
        )

    def _points(
        self, metric: Mapping[str, Any], statistic: str, start: int, end: int, period: int
    ) -> tuple[bytes, bytes]:
        """Times and values, as JSON."""
        number, index = _of(metric["Dimensions"])
        bins = (end - start) // period
        if number < len(self.hosts):
            known = self._of_host(number, index, metric, statistic, start, period, bins)
            return json.dumps([*known]).encode(), json.dumps([*known.values()]).encode()
        value = self._value(metric["MetricName"], number, index, statistic)
        return _constant(value, start, period, bins) if value is not None else (b"[]", b"[]")

    def _value(self, metric: str, number: int, index: int | None, statistic: str) -> float | None:
        idle = self.is_idle(number)
        if metric.startswith("nvidia_smi_"):
            if index is None and self.style == "per-gpu":
                return None
            if metric not in GPU_METRICS:
                return None  # The agent publishes these five alone.
            if statistic == "SampleCount":
                return 5.0 * (self.gpus(number) if index is None else 1)
            if metric == UTILIZATION:
                return 0.4 if idle else 60.0 + zlib.crc32(instance_id(number).encode()) % 40
            return (
                {"temperature_gpu": 35.0, "utilization_memory": 0.1}.get(metric[11:], 20.0)
                if idle
                else 65.0
            )
        if metric == "CPUUtilization":
            return 1.5 if idle else 50.0
        if metric == AGENTLESS:
            return 12.0 if idle else 70.0
        return 1e6 if idle else 5e9

    def _of_host(
        self,
        number: int,
        index: int | None,
        metric: Mapping[str, Any],
        statistic: str,
        start: int,
        period: int,
        bins: int,
    ) -> dict[int, float]:
        """Readings by time. The aggregate is of all GPUs at once."""
        host, now = self.hosts[number], int(self.now.timestamp())
        name = metric["MetricName"]
        own = name in GPU_METRICS and index is None
        asked = {one["Name"] for one in metric["Dimensions"]}
        if own and (not host.aggregates or asked != {"InstanceId", *host.named}):
            return {}
        # EC2's basic monitoring publishes once in five minutes, the agent once a minute.
        step = 300 if metric["Namespace"] == "AWS/EC2" else 60
        found = {}
        for at in range(start, start + bins * period, period):
            moments = range(at, min(at + period, now), step)
            of = range(host.gpus) if own else [index]
            samples = [
                host.sample(name, gpu, (now - moment) // 60) for moment in moments for gpu in of
            ]
            known = [one for one in samples if one is not None]
            if known:
                found[at] = float(_STATISTICS[statistic](known))
        return found

    def _metric_statistics(self, asked: Mapping[str, Any]) -> Answered:
        [statistic] = asked["Statistics"]
        start, end = int(asked["StartTime"]), int(asked["EndTime"])
        times, values = self._points(asked, statistic, start, end, asked["Period"])
        points = [
            {"Timestamp": at, statistic: value, "Unit": "None"}
            for at, value in zip(json.loads(times), json.loads(values), strict=True)
        ]
        return as_json({"Label": asked["MetricName"], "Datapoints": points})

    def _list_metrics(self, asked: Mapping[str, Any]) -> Answered:
        """500 series a page: the agent's, EC2's own of GPUs, and those that a host publishes beside
        them."""
        namespace, name = asked.get("Namespace"), asked.get("MetricName")
        if name is None or namespace not in ("GPU/EC2", "AWS/EC2"):
            return as_json({"Metrics": self._published(namespace, name)})
        start = int(asked.get("NextToken") or 0)
        listed = self.series if namespace == "GPU/EC2" else self._by_gpu
        only = asked.get("Dimensions", [{}])[0].get("Value")
        if only is not None:
            listed = [one for one in listed if one[0] == number_of(only)]
        found = ",".join(
            _listed(namespace, name, number, index, self._named(number))
            for number, index in listed[start : start + 500]
        )
        more = f',"NextToken":"{start + 500}"' if start + 500 < len(listed) else ""
        return Answered(f'{{"Metrics":[{found}]{more}}}'.encode())

    @cached_property
    def _by_gpu(self) -> list[tuple[int, int | None]]:
        """EC2's own metric has no aggregate."""
        return [one for one in self.series if one[1] is not None]

    def _named(self, number: int) -> Mapping[str, str]:
        return self.hosts[number].named if number < len(self.hosts) else {}

    def _published(self, namespace: str | None, name: str | None) -> list[dict[str, Any]]:
        return [
            {
                "Namespace": own,
                "MetricName": metric,
                "Dimensions": [{"Name": "InstanceId", "Value": instance_id(number)}],
            }
            for number, host in enumerate(self.hosts)
            for own, metric in host.published
            if own == namespace and name in (None, metric)
        ]


def instance_id(number: int) -> str:
    """The id of the instance with that number."""
    return f"i-{number:017x}"


def number_of(instance: str) -> int:
    """The inverse of `instance_id`."""
    return int(instance[2:], 16)


def series_of_a_page(length: timedelta, period: timedelta) -> int:
    """How many series of this length an answer of GetMetricData holds."""
    return max(1, int(DATAPOINTS_OF_A_PAGE // (length / period)))


def reads(calls: Counter[str]) -> int:
    """Return how many of the calls the floor counts."""
    return sum(calls[name] for name in _READS)


_READS = ("ec2:DescribeInstances", "monitoring:GetMetricData", "monitoring:ListMetrics")


def _of(dimensions: Sequence[Mapping[str, str]]) -> tuple[int, int | None]:
    named = {one["Name"]: one["Value"] for one in dimensions}
    index = named.get("index", named.get("GpuId"))
    return number_of(named["InstanceId"]), None if index is None else int(index)


@cache
def _constant(value: float, start: int, period: int, bins: int) -> tuple[bytes, bytes]:
    # As AWS writes times in JSON: seconds, as a fraction.
    times = ",".join(f"{start + n * period}.0" for n in range(bins))
    return f"[{times}]".encode(), f"[{','.join([str(value)] * bins)}]".encode()


def _listed(
    namespace: str, name: str, number: int, index: int | None, named: Mapping[str, str]
) -> str:
    more = "".join(map(_DIMENSION.__mod__, named.items() if index is None else (("GpuId", index),)))
    if index is not None and namespace != "AWS/EC2":
        more = _GPU % index
    return (
        f'{{"Namespace":"{namespace}","MetricName":"{name}","Dimensions":'
        f'[{{"Name":"InstanceId","Value":"{instance_id(number)}"}}{more}]}}'
    )


_DIMENSION = ',{"Name":"%s","Value":"%s"}'
_GPU = (
    ',{"Name":"index","Value":"%s"},{"Name":"name","Value":"NVIDIA A100-SXM4-40GB"}'
    ',{"Name":"arch","Value":"Ampere"}'
)


def _iso(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.000Z}"


_RESERVATION = "".join(
    line.strip()
    for line in """
<item><reservationId>r-{id}</reservationId><ownerId>{account}</ownerId><groupSet/><instancesSet><item>
<instanceId>{id}</instanceId><imageId>ami-0123456789abcdef0</imageId>
<instanceState><code>16</code><name>running</name></instanceState>
<privateDnsName>ip-10-0-0-{octet}.ec2.internal</privateDnsName><dnsName/><reason/>
<keyName>research</keyName><amiLaunchIndex>0</amiLaunchIndex><productCodes/>
<instanceType>{type}</instanceType><launchTime>{launched}</launchTime>
<placement><availabilityZone>us-east-1a</availabilityZone><groupName/><tenancy>default</tenancy></placement>
<monitoring><state>disabled</state></monitoring><subnetId>subnet-0123456789abcdef0</subnetId>
<vpcId>vpc-0123456789abcdef0</vpcId><privateIpAddress>10.0.0.{octet}</privateIpAddress>
<sourceDestCheck>true</sourceDestCheck>
<groupSet><item><groupId>sg-0123456789abcdef0</groupId><groupName>research</groupName></item></groupSet>
<architecture>x86_64</architecture><rootDeviceType>ebs</rootDeviceType>
<rootDeviceName>/dev/xvda</rootDeviceName>
<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-{id}</volumeId>
<status>attached</status><attachTime>{launched}</attachTime><deleteOnTermination>true</deleteOnTermination>
</ebs></item></blockDeviceMapping><virtualizationType>hvm</virtualizationType>
<clientToken>11111111-2222-3333-4444-{octet:012d}</clientToken><tagSet>{tags}</tagSet>
<hypervisor>xen</hypervisor><networkInterfaceSet><item>
<networkInterfaceId>eni-0123456789abcdef0</networkInterfaceId><subnetId>subnet-0123456789abcdef0</subnetId>
<vpcId>vpc-0123456789abcdef0</vpcId><description/><ownerId>{account}</ownerId><status>in-use</status>
<macAddress>02:00:00:00:00:{octet:02x}</macAddress><privateIpAddress>10.0.0.{octet}</privateIpAddress>
<sourceDestCheck>true</sourceDestCheck>
<groupSet><item><groupId>sg-0123456789abcdef0</groupId><groupName>research</groupName></item></groupSet>
<attachment><attachmentId>eni-attach-0123456789abcdef0</attachmentId><deviceIndex>0</deviceIndex>
<status>attached</status><attachTime>{launched}</attachTime><deleteOnTermination>true</deleteOnTermination>
<networkCardIndex>0</networkCardIndex></attachment><privateIpAddressesSet><item>
<privateIpAddress>10.0.0.{octet}</privateIpAddress><primary>true</primary></item></privateIpAddressesSet>
<ipv6AddressesSet/><interfaceType>interface</interfaceType></item></networkInterfaceSet>
<iamInstanceProfile><arn>arn:aws:iam::{account}:instance-profile/gpu</arn><id>AIPA0123456789ABCDEFG</id>
</iamInstanceProfile><ebsOptimized>false</ebsOptimized><enaSupport>true</enaSupport>
<cpuOptions><coreCount>2</coreCount><threadsPerCore>2</threadsPerCore></cpuOptions>
<capacityReservationSpecification><capacityReservationPreference>open</capacityReservationPreference>
</capacityReservationSpecification><hibernationOptions><configured>false</configured></hibernationOptions>
<enclaveOptions><enabled>false</enabled></enclaveOptions><metadataOptions><state>applied</state>
<httpTokens>required</httpTokens><httpPutResponseHopLimit>2</httpPutResponseHopLimit>
<httpEndpoint>enabled</httpEndpoint><instanceMetadataTags>disabled</instanceMetadataTags></metadataOptions>
<platformDetails>Linux/UNIX</platformDetails><usageOperation>RunInstances</usageOperation>
<usageOperationUpdateTime>{launched}</usageOperationUpdateTime>
<maintenanceOptions><autoRecovery>default</autoRecovery></maintenanceOptions>
</item></instancesSet></item>
""".strip().splitlines()
)
