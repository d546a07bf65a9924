"""A made-up organization as AWS would answer about it: two accounts in three Regions, and a third
account that cannot be entered. The example of docs/scan.md is a scan of it by all kinds of
resource.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from local.engine.simulators.pricing import instance_product
from tests.unit.scan.cloud_twin import OWN, Asked, CloudTwin, Refused
from tests.unit.scan.sagemaker_answers import endpoint_config, price_list, product, variant

NOW = datetime(2026, 11, 27, 14, tzinfo=UTC)
UNIT = "r-ab12"
ROLE = "Audit"
EAST = "us-east-1"
WEST = "eu-west-1"
_VISION = "210987654321"
_CLOSED = "310987654321"
_REGIONS = (EAST, "us-west-2", WEST)
_ENDPOINT = "chat-poc"
_RESERVATION = "cr-0a1b2c3d4e5f60718"
_NOTEBOOK = "ada-notebook"
_OF_A_GPU = "nvidia_smi_utilization_gpu"


@dataclass(frozen=True, slots=True)
class _Host:
    """A running instance of the caller's account in us-east-1."""

    instance_id: str
    instance_type: str
    tags: Mapping[str, str]
    gpus: int
    gpu_percent: float | None
    """The utilization that the agent publishes for each GPU; `None` without an agent."""
    days: float


_HOSTS = (
    _Host(
        instance_id="i-0a1b2c3d4e5f60718",
        instance_type="p5.48xlarge",
        tags={"Name": "llm-pretrain-3", "Owner": "ada@example.com"},
        gpus=8,
        gpu_percent=2.0,
        days=16,
    ),
    _Host(
        instance_id="i-0b2c3d4e5f6071829",
        instance_type="g5.12xlarge",
        tags={"Name": "notebook-7"},
        gpus=4,
        gpu_percent=None,
        days=9,
    ),
    _Host(
        instance_id="i-0c3d4e5f607182930",
        instance_type="p4d.24xlarge",
        tags={"Name": "vision-train", "Owner": "vision", "Purpose": "GPU-Workload"},
        gpus=8,
        gpu_percent=97.0,
        days=3,
    ),
)
_EC2_USD = {
    ("p5.48xlarge", EAST): "55.04",
    ("g5.12xlarge", EAST): "5.672",
    ("p4d.24xlarge", EAST): "21.957642",
    ("p4d.24xlarge", WEST): "23.953791",
}
_SAGEMAKER_USD = {
    "ml.g5.12xlarge": ("EU-Host:ml.g5.12xlarge", "7.9186"),
    "ml.g4dn.xlarge": ("EU-Notebk:ml.g4dn.xlarge", "0.8225"),
}
"""Usage types and prices, made up like all amounts here."""


def cloud() -> CloudTwin:
    """Return AWS as the scan of the example sees it."""
    twin = CloudTwin(accounts_by_unit={UNIT: (OWN, _VISION, _CLOSED)})
    usual = twin._usual
    answers: dict[str, Callable[[Asked], Any]] = {
        "ec2:DescribeInstances": _instances,
        "ec2:DescribeAddresses": _addresses,
        "ec2:DescribeCapacityReservations": _reservations,
        "cloudwatch:ListMetrics": _series,
        "cloudwatch:GetMetricData": _readings,
        "pricing:GetProducts": _prices,
        "sagemaker:ListEndpoints": _endpoints,
        "sagemaker:ListNotebookInstances": _notebooks,
        "sagemaker:ListTags": _tags,
    }

    def assume(asked: Asked) -> Any:
        """Refuse the role of the third account."""
        role_arn = asked.parameters["RoleArn"]
        if _CLOSED in role_arn:
            who = f"arn:aws:iam::{OWN}:user/ada"
            words = f"User: {who} is not authorized to perform: sts:AssumeRole on resource: "
            raise Refused("AccessDenied", words + role_arn, 403)
        return usual(asked)

    twin.answers |= answers
    twin.answers |= {
        "sts:AssumeRole": assume,
        "ec2:DescribeRegions": {"Regions": [{"RegionName": region} for region in _REGIONS]},
        "sagemaker:DescribeEndpoint": _endpoint(),
        "sagemaker:DescribeEndpointConfig": endpoint_config(_ENDPOINT, main="ml.g5.12xlarge"),
    }
    return twin


def _is_in(asked: Asked, account: str, region: str) -> bool:
    """Return whether a call went to this account and Region."""
    return (asked.account, asked.region) == (account, region)


def _instances(asked: Asked) -> Any:
    """Return the running instances; there are no stopped ones."""
    filters = asked.parameters.get("Filters") or ()
    asks_for_stopped = any("stopped" in one["Values"] for one in filters)
    if asks_for_stopped or not _is_in(asked, OWN, EAST):
        return {"Reservations": []}
    return {"Reservations": [{"Instances": [_instance(host) for host in _HOSTS]}]}


def _instance(host: _Host) -> dict[str, Any]:
    """Return the record of an instance."""
    return {
        "InstanceId": host.instance_id,
        "InstanceType": host.instance_type,
        "LaunchTime": NOW - timedelta(days=host.days),
        "State": {"Code": 16, "Name": "running"},
        "Placement": {"AvailabilityZone": f"{EAST}a", "Tenancy": "default"},
        "RootDeviceType": "ebs",
        "RootDeviceName": "/dev/xvda",
        "BlockDeviceMappings": [],
        "PlatformDetails": "Linux/UNIX",
        "Tags": _tag_list(host.tags),
    }


def _tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """Return tags as AWS lists them."""
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def _addresses(asked: Asked) -> Any:
    """Return an address that leads nowhere."""
    if not _is_in(asked, OWN, "us-west-2"):
        return {"Addresses": []}
    address = {"PublicIp": "203.0.113.7", "AllocationId": "eipalloc-0a1b2c3d4e5f60718"}
    return {"Addresses": [{**address, "Domain": "vpc", "PublicIpv4Pool": "amazon"}]}


def _reservations(asked: Asked) -> Any:
    """Return a reservation of which nothing is used."""
    if not _is_in(asked, _VISION, WEST):
        return {"CapacityReservations": []}
    reservation = {
        "CapacityReservationId": _RESERVATION,
        "OwnerId": _VISION,
        "InstanceType": "p4d.24xlarge",
        "InstancePlatform": "Linux/UNIX",
        "Tenancy": "default",
        "TotalInstanceCount": 2,
        "AvailableInstanceCount": 2,
        "State": "active",
        "CreateDate": NOW - timedelta(days=20),
        "Tags": _tag_list({"Team": "vision"}),
    }
    return {"CapacityReservations": [reservation]}


def _series(asked: Asked) -> Any:
    """Return the CloudWatch agent's series of each GPU."""
    is_here = _is_in(asked, OWN, EAST)
    if not is_here or asked.parameters.get("MetricName") != _OF_A_GPU:
        return {"Metrics": []}
    metrics: list[Any] = []
    for host in _HOSTS:
        if host.gpu_percent is None:
            continue
        for gpu in range(host.gpus):
            dimensions = {"InstanceId": host.instance_id, "index": str(gpu)}
            listed = [{"Name": name, "Value": value} for name, value in dimensions.items()]
            metrics.append({"Namespace": "CWAgent", "MetricName": _OF_A_GPU, "Dimensions": listed})
    return {"Metrics": metrics}


def _readings(asked: Asked) -> Any:
    """Return a value in each period of every series that somebody publishes."""
    queries = asked.parameters["MetricDataQueries"]
    period = timedelta(seconds=queries[0]["MetricStat"]["Period"])
    moments: list[datetime] = []
    moment = asked.parameters["StartTime"]
    while moment < min(asked.parameters["EndTime"], NOW):
        moments.append(moment)
        moment += period
    results: list[Any] = []
    for query in queries:
        value = _value(query["MetricStat"]["Metric"])
        result = {"Id": query["Id"], "StatusCode": "Complete", "Timestamps": [], "Values": []}
        if value is not None:
            result = {**result, "Timestamps": moments, "Values": [value] * len(moments)}
        results.append(result)
    return {"MetricDataResults": results}


_VALUES = {
    ("AWS/EC2", "CPUUtilization"): 1.2,
    ("AWS/EC2", "NetworkIn"): 1_000_000.0,
    ("AWS/EC2", "NetworkOut"): 1_000_000.0,
    ("AWS/EC2", "EBSReadBytes"): 0.0,
    ("AWS/EC2", "EBSWriteBytes"): 1_000_000.0,
    ("AWS/EC2", "EBSReadOps"): 0.0,
    ("AWS/EC2", "EBSWriteOps"): 30.0,
    ("AWS/EC2CapacityReservations", "UsedInstanceCount"): 0.0,
    ("/aws/sagemaker/Endpoints", "CPUUtilization"): 3.0,
    ("/aws/sagemaker/Endpoints", "GPUUtilization"): 0.0,
}
"""Readings by namespace and metric. Of what is missing here nothing is published."""


def _value(metric: Mapping[str, Any]) -> float | None:
    """Return the reading of a metric; `None` if it is not published."""
    value_by_dimension = {one["Name"]: one["Value"] for one in metric["Dimensions"]}
    if metric["MetricName"] == _OF_A_GPU:
        for host in _HOSTS:
            if host.instance_id == value_by_dimension.get("InstanceId"):
                return host.gpu_percent
    return _VALUES.get((metric["Namespace"], metric["MetricName"]))


def _prices(asked: Asked) -> Any:
    """Return the list prices of a type in a Region."""
    wanted = {one["Field"]: one["Value"] for one in asked.parameters["Filters"]}
    region = wanted["regionCode"]
    if asked.parameters["ServiceCode"] == "AmazonSageMaker":
        usage_type, usd = _SAGEMAKER_USD[wanted["instanceName"]]
        return price_list(product(usage_type, usd, region))
    instance_type = wanted.get("instanceType", "")
    usd = _EC2_USD.get((instance_type, region), "")
    return {"PriceList": [instance_product(instance_type, usd, region)] if usd else []}


def _endpoints(asked: Asked) -> Any:
    """Return the name of the endpoint."""
    if not _is_in(asked, _VISION, WEST):
        return {"Endpoints": []}
    return {"Endpoints": [{"EndpointName": _ENDPOINT, "EndpointStatus": "InService"}]}


def _endpoint() -> dict[str, Any]:
    """Return the description of the endpoint."""
    return {
        "EndpointName": _ENDPOINT,
        "EndpointArn": f"arn:aws:sagemaker:{WEST}:{_VISION}:endpoint/{_ENDPOINT}",
        "EndpointConfigName": _ENDPOINT,
        "EndpointStatus": "InService",
        "CreationTime": NOW - timedelta(days=40),
        "ProductionVariants": [variant("main")],
    }


def _notebooks(asked: Asked) -> Any:
    """Return a notebook instance."""
    if not _is_in(asked, _VISION, WEST):
        return {"NotebookInstances": []}
    notebook = {
        "NotebookInstanceName": _NOTEBOOK,
        "NotebookInstanceArn": f"arn:aws:sagemaker:{WEST}:{_VISION}:notebook-instance/{_NOTEBOOK}",
        "InstanceType": "ml.g4dn.xlarge",
        "LastModifiedTime": NOW - timedelta(days=9),
    }
    return {"NotebookInstances": [notebook]}


def _tags(asked: Asked) -> Any:
    """Return the owner of the endpoint or the notebook instance."""
    owner = "research" if _ENDPOINT in asked.parameters["ResourceArn"] else "ada@example.com"
    return {"Tags": _tag_list({"Owner": owner})}
