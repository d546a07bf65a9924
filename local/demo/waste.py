"""Accelerators that nobody governs, and what they left behind: a fleet for `governor scan`, with
every kind of resource that a scan knows.

It is in a Region of its own, where no stack looks, so that it changes nothing in the demo's story.
Its metrics are steady: CloudWatch has them for days, and goes on having them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from local.engine.cloud import ACCOUNT, LocalCloud
from local.engine.simulation import InstanceSpec, Points, Simulation, VolumeSpec

REGION = "eu-west-1"
"""Where the fleet is. The stacks of the demo sweep their own Region."""
ROLE = f"arn:aws:iam::{ACCOUNT}:role/sagemaker"
SAVINGS_PLAN = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
CLUSTER = "research"
"""An EKS cluster."""
_KEPT_DAYS = 8
_COMING_DAYS = 8
"""The days before and after the launch for which CloudWatch has metrics."""
_EACH_MINUTE = 1.0
_EACH_FIVE_MINUTES = 0.2
Dimensions = Mapping[str, str]
PRICES = {
    "Host:ml.g5.12xlarge": "7.9186",
    "Host:ml.g5.2xlarge": "1.6922",
    "Notebk:ml.g4dn.xlarge": "0.8225",
    "Studio:JupyterLab-ml.g5.2xlarge": "1.6922",
    "Cluster:ml.g6.12xlarge": "6.3294",
}
"""USD an hour of SageMaker's instances, made up."""


@dataclass(frozen=True)
class Host:
    """An instance without the selector's tag. `why` says what a scan must make of it."""

    name: str
    instance_type: str
    devices: int
    publisher: str
    """`agent`, `container-insights`, `neuron`, or empty for one that publishes nothing itself."""
    device_percent: float
    cpu_percent: float
    finding: str
    why: str
    tags: Mapping[str, str] = field(default_factory=dict)
    days: float = 20


HOSTS = (
    Host(
        name="abandoned-training",
        instance_type="p4d.24xlarge",
        devices=8,
        publisher="agent",
        device_percent=0.4,
        cpu_percent=1.5,
        finding="idle",
        why="its agent publishes eight idle GPUs",
        tags={"Owner": "research"},
    ),
    Host(
        name="quiet-host",
        instance_type="g5.12xlarge",
        devices=4,
        publisher="",
        device_percent=0.0,
        cpu_percent=0.8,
        finding="likely idle",
        why="no agent; CPU, network and disk are quiet",
    ),
    Host(
        name="busy-trainer",
        instance_type="g5.48xlarge",
        devices=8,
        publisher="agent",
        device_percent=91.0,
        cpu_percent=40.0,
        finding="busy",
        why="40% CPU, and its GPUs work",
    ),
    Host(
        name="eks-node",
        instance_type="p4d.24xlarge",
        devices=8,
        publisher="container-insights",
        device_percent=0.2,
        cpu_percent=3.0,
        finding="idle",
        why="eight idle GPUs under Container Insights; EKS runs it",
        tags={
            "eks:cluster-name": CLUSTER,
            "eks:nodegroup-name": "gpu",
            f"kubernetes.io/cluster/{CLUSTER}": "owned",
        },
    ),
    Host(
        name="neuron-trainer",
        instance_type="trn1.32xlarge",
        devices=32,
        publisher="neuron",
        device_percent=0.0,
        cpu_percent=2.0,
        finding="idle",
        why="32 idle cores of 16 Neuron devices",
        tags={"Owner": "speech"},
    ),
)
"""`finding` is the one that a scan must come to."""
EXPECTED: Mapping[str, Mapping[str, str]] = {
    "ec2-instance": {host.name: host.finding for host in HOSTS},
    "sagemaker-endpoint": {"chat-poc": "unused", "search": "busy"},
    "sagemaker-notebook": {"ada-notebook": "not measured"},
    "sagemaker-app": {"bob-space": "not measured"},
    "bedrock-throughput": {"titan-poc": "likely idle"},
    "auto-scaling-group": {"inference": "keeps running"},
    "spot-fleet": {"render": "keeps running"},
    "capacity-reservation": {"launch-week": "unused"},
    "stopped-instance": {"paper-2025": "unused"},
    "unattached-volume": {"datasets": "unattached"},
    "elastic-ip": {"unknown-use": "unattached"},
    "savings-plan": {SAVINGS_PLAN: "unused"},
    "sagemaker-cluster": {"llm-hyperpod": "not measured"},
    "batch-environment": {"rendering": "keeps running"},
    "eks-node-group": {f"{CLUSTER}/gpu": "keeps running"},
}
"""The finding of each resource by its name, or its id without one, by the kind of resource in a
scan. The Savings Plan is read only if that was asked for: AWS bills it."""


def put_waste(cloud: LocalCloud, now: datetime) -> None:
    """Put the fleet into its Region, as of this time."""
    simulation = cloud.simulation(region=REGION)
    for host in HOSTS:
        instance_id = simulation.put_instance(_spec(host, now))
        simulation.put_metrics(_series_of(host, instance_id, now))
    put_sagemaker(cloud, now, REGION)
    _put_bedrock(cloud, simulation, now)
    _put_groups(cloud, simulation, now)
    _put_remains(cloud, simulation, now)
    _put_savings_plan(cloud, now)


def _spec(host: Host, now: datetime) -> InstanceSpec:
    """Return the instance of a host."""
    return InstanceSpec(
        instance_type=host.instance_type,
        launch_time=(now - timedelta(days=host.days)).replace(microsecond=0),
        tags={"Name": host.name, **host.tags},
    )


def _series_of(host: Host, instance_id: str, now: datetime) -> Iterator[Points]:
    """Yield all that EC2 and the publisher of a host's metrics publish."""
    own = {"InstanceId": instance_id}
    is_busy = host.finding == "busy"
    traffic = 2e9 if is_busy else 12e6
    operations = 9_000.0 if is_busy else 60.0
    of_ec2 = {
        "CPUUtilization": host.cpu_percent,
        "NetworkIn": traffic,
        "NetworkOut": traffic,
        "EBSReadBytes": traffic,
        "EBSWriteBytes": traffic,
        "EBSReadOps": operations,
        "EBSWriteOps": operations,
    }
    for metric, value in of_ec2.items():
        yield _steady("AWS/EC2", metric, own, value, now, _EACH_FIVE_MINUTES)
    for device in range(host.devices):
        if host.publisher == "agent":
            yield from _agent_series(host, instance_id, device, now)
        elif host.publisher == "container-insights":
            yield from _insights_series(host, instance_id, device, now)
        elif host.publisher == "neuron":
            yield _neuron_series(host, instance_id, device, now)


def _agent_series(host: Host, instance_id: str, device: int, now: datetime) -> Iterator[Points]:
    """Yield what the CloudWatch agent publishes of a GPU."""
    dimensions = {
        "InstanceId": instance_id,
        "InstanceType": host.instance_type,
        "index": str(device),
        "name": "NVIDIA",
        "arch": "Ampere",
    }
    values = {
        "nvidia_smi_utilization_gpu": host.device_percent,
        "nvidia_smi_memory_used": 30_000.0 if host.finding == "busy" else 400.0,
        "nvidia_smi_memory_total": 40_960.0,
        "nvidia_smi_power_draw": 280.0 if host.finding == "busy" else 40.0,
    }
    for metric, value in values.items():
        yield _steady("CWAgent", metric, dimensions, value, now, _EACH_MINUTE)


def _insights_series(host: Host, instance_id: str, device: int, now: datetime) -> Iterator[Points]:
    """Yield what Container Insights publishes of a GPU of a node."""
    dimensions = {
        **_node(instance_id),
        "InstanceType": host.instance_type,
        "GpuDevice": f"nvidia{device}",
    }
    values = {
        "node_gpu_utilization": host.device_percent,
        "node_gpu_power_draw": 48.0,
        "node_gpu_memory_used": 400.0 * 2**20,
        "node_gpu_memory_total": 40_960.0 * 2**20,
    }
    for metric, value in values.items():
        yield _steady("ContainerInsights", metric, dimensions, value, now, _EACH_MINUTE)


def _neuron_series(host: Host, instance_id: str, core: int, now: datetime) -> Points:
    """Return what Container Insights publishes of a NeuronCore; a device has two."""
    dimensions = {
        **_node(instance_id),
        "InstanceType": host.instance_type,
        "NeuronDevice": f"device{core // 2}",
        "NeuronCore": f"core{core}",
    }
    metric = "node_neuroncore_utilization"
    return _steady("ContainerInsights", metric, dimensions, host.device_percent, now, _EACH_MINUTE)


def _node(instance_id: str) -> Dimensions:
    """Return the dimensions of a node of the cluster."""
    node = f"ip-10-0-0-{int(instance_id[-2:], 16)}.{REGION}.compute.internal"
    return {"ClusterName": CLUSTER, "NodeName": node, "InstanceId": instance_id}


def put_sagemaker(cloud: LocalCloud, now: datetime, region: str) -> None:
    """Put an unused endpoint, an invoked one, a notebook instance, an app of Studio and a HyperPod
    cluster into a Region."""
    simulation = cloud.simulation(region=region)
    sagemaker = cloud.client("sagemaker", region=region)
    simulation.set_sagemaker_prices(PRICES)
    _put_endpoint(sagemaker, "chat-poc", "ml.g5.12xlarge", "research")
    _put_endpoint(sagemaker, "search", "ml.g5.2xlarge", "shop")
    simulation.set_sagemaker_times("endpoint", "chat-poc", now - timedelta(days=41))
    simulation.set_sagemaker_times("endpoint", "search", now - timedelta(days=90))
    series = [
        *_endpoint_series("chat-poc", now, cpu_percent=0.3, gpu_percent=0.0),
        *_endpoint_series("search", now, cpu_percent=22.0, gpu_percent=37.0),
    ]
    series.append(_steady("AWS/SageMaker", "Invocations", _variant("search"), 12.0, now))
    simulation.put_metrics(series)
    sagemaker.create_notebook_instance(
        NotebookInstanceName="ada-notebook", InstanceType="ml.g4dn.xlarge", RoleArn=ROLE
    )
    created = now - timedelta(days=120)
    started = now - timedelta(days=9)
    simulation.set_sagemaker_times("notebook-instance", "ada-notebook", created, started)
    _put_studio(simulation, now)
    _put_hyperpod(simulation, now, region)


def _put_endpoint(sagemaker: Any, name: str, ml_type: str, owner: str) -> None:
    """Create an endpoint with one instance."""
    sagemaker.create_model(
        ModelName=name, ExecutionRoleArn=ROLE, PrimaryContainer={"Image": "model"}
    )
    variant = {
        "VariantName": "main",
        "ModelName": name,
        "InstanceType": ml_type,
        "InitialInstanceCount": 1,
    }
    sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
    tags = [{"Key": "Owner", "Value": owner}]
    sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name, Tags=tags)


def _endpoint_series(
    name: str, now: datetime, cpu_percent: float, gpu_percent: float
) -> Iterator[Points]:
    """Yield the utilization of the instances of an endpoint."""
    values = {"CPUUtilization": cpu_percent, "GPUUtilization": gpu_percent}
    for metric, value in values.items():
        yield _steady("/aws/sagemaker/Endpoints", metric, _variant(name), value, now)


def _variant(endpoint: str) -> Dimensions:
    """Return the dimensions of the one variant of an endpoint."""
    return {"EndpointName": endpoint, "VariantName": "main"}


def _put_studio(simulation: Simulation, now: datetime) -> None:
    """Invent an app of Studio in a private space, whose domain has no idle shutdown."""
    domain = {"DomainId": "d-a1b2c3d4e5f6"}
    space = {**domain, "SpaceName": "bob-space"}
    profile = {**domain, "UserProfileName": "bob"}
    app = {
        **space,
        "AppType": "JupyterLab",
        "AppName": "default",
        "Status": "InService",
        "CreationTime": now - timedelta(days=16),
        "ResourceSpec": {"InstanceType": "ml.g5.2xlarge"},
    }
    ownership = {
        "OwnershipSettings": {"OwnerUserProfileName": "bob"},
        "SpaceSharingSettings": {"SharingType": "Private"},
    }
    simulation.put_answer("sagemaker:ListApps", {"Apps": [app]})
    simulation.put_answer("sagemaker:DescribeSpace", {**space, **ownership}, space)
    simulation.put_answer("sagemaker:DescribeUserProfile", profile, profile)
    simulation.put_answer("sagemaker:DescribeDomain", domain, domain)


def _put_hyperpod(simulation: Simulation, now: datetime, region: str) -> None:
    """Invent a HyperPod cluster of two nodes."""
    summary = {
        "ClusterArn": f"arn:aws:sagemaker:{region}:{ACCOUNT}:cluster/a1b2c3d4e5f6",
        "ClusterName": "llm-hyperpod",
        "CreationTime": now - timedelta(days=60),
        "ClusterStatus": "InService",
    }
    nodes = {"InstanceGroupName": "workers", "InstanceType": "ml.g6.12xlarge", "CurrentCount": 2}
    simulation.put_answer("sagemaker:ListClusters", {"ClusterSummaries": [summary]})
    simulation.put_answer(
        "sagemaker:DescribeCluster",
        {**summary, "InstanceGroups": [nodes]},
        {"ClusterName": "llm-hyperpod"},
    )


def _put_bedrock(cloud: LocalCloud, simulation: Simulation, now: datetime) -> None:
    """Put a provisioned throughput that nobody calls, committed for six months."""
    cloud.client("bedrock", region=REGION).create_provisioned_model_throughput(
        provisionedModelName="titan-poc",
        modelId="amazon.titan-text-express-v1",
        modelUnits=1,
        commitmentDuration="SixMonths",
    )
    simulation.set_throughput_time("titan-poc", now - timedelta(days=40))


def _put_groups(cloud: LocalCloud, simulation: Simulation, now: datetime) -> None:
    """Put an Auto Scaling group that keeps an instance, a Spot fleet that keeps two, and a Capacity
    Reservation that no instance uses."""
    ec2 = cloud.client("ec2", region=REGION)
    template = ec2.create_launch_template(
        LaunchTemplateName="inference", LaunchTemplateData={"InstanceType": "g6.12xlarge"}
    )
    template_id = template["LaunchTemplate"]["LaunchTemplateId"]
    cloud.client("autoscaling", region=REGION).create_auto_scaling_group(
        AutoScalingGroupName="inference",
        MinSize=1,
        MaxSize=4,
        LaunchTemplate={"LaunchTemplateId": template_id, "Version": "$Default"},
        AvailabilityZones=[f"{REGION}a"],
    )
    _put_node_group(cloud)
    _put_batch(cloud)
    config = {
        "IamFleetRole": f"arn:aws:iam::{ACCOUNT}:role/fleet",
        "TargetCapacity": 2,
        "Type": "maintain",
        "LaunchSpecifications": [{"InstanceType": "g6e.xlarge"}],
    }
    # No instance of the demo has this type, whose price would change the advice about it.
    simulation.set_spot_prices({"g6e.xlarge": "0.8204"})
    record = {
        "SpotFleetRequestState": "active",
        "ActivityStatus": "fulfilled",
        "SpotFleetRequestConfig": config,
        "Tags": [{"Key": "Name", "Value": "render"}],
    }
    created = (now - timedelta(days=33)).replace(microsecond=0)
    simulation.put_spot_fleet(created, record)
    tags = {"Name": "launch-week", "Owner": "research"}
    reservation_id = simulation.put_reservation("p5.48xlarge", 1, created, tags)
    dimensions = {"CapacityReservationId": reservation_id}
    used = _steady("AWS/EC2CapacityReservations", "UsedInstanceCount", dimensions, 0.0, now)
    simulation.put_metrics([used])


def _put_node_group(cloud: LocalCloud) -> None:
    """Put a managed node group of EKS that keeps a node, with the Auto Scaling group that EKS makes
    for it: the engine makes none."""
    trust = {
        "Effect": "Allow",
        "Principal": {"Service": "eks.amazonaws.com"},
        "Action": "sts:AssumeRole",
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    iam = cloud.client("iam")
    made = iam.create_role(RoleName=f"{CLUSTER}-eks", AssumeRolePolicyDocument=document)
    role = made["Role"]["Arn"]
    eks = cloud.client("eks", region=REGION)
    eks.create_cluster(name=CLUSTER, roleArn=role, resourcesVpcConfig={"subnetIds": ["subnet-1"]})
    eks.create_nodegroup(
        clusterName=CLUSTER,
        nodegroupName="gpu",
        nodeRole=role,
        subnets=["subnet-1"],
        instanceTypes=["p4d.24xlarge"],
        scalingConfig={"minSize": 1, "maxSize": 2, "desiredSize": 1},
    )
    template = cloud.client("ec2", region=REGION).create_launch_template(
        LaunchTemplateName="eks-gpu", LaunchTemplateData={"InstanceType": "p4d.24xlarge"}
    )
    template_id = template["LaunchTemplate"]["LaunchTemplateId"]
    tags = {"eks:cluster-name": CLUSTER, "eks:nodegroup-name": "gpu"}
    cloud.client("autoscaling", region=REGION).create_auto_scaling_group(
        AutoScalingGroupName="eks-gpu",
        MinSize=1,
        MaxSize=2,
        LaunchTemplate={"LaunchTemplateId": template_id, "Version": "$Default"},
        AvailabilityZones=[f"{REGION}a"],
        Tags=[
            {"Key": key, "Value": value, "PropagateAtLaunch": True} for key, value in tags.items()
        ],
    )


def _put_batch(cloud: LocalCloud) -> None:
    """Put a compute environment of AWS Batch that keeps an instance between jobs."""
    cloud.client("batch", region=REGION).create_compute_environment(
        computeEnvironmentName="rendering",
        type="MANAGED",
        computeResources={
            "type": "EC2",
            "minvCpus": 48,
            "maxvCpus": 96,
            "instanceTypes": ["g5.12xlarge"],
            "subnets": ["subnet-1"],
            "instanceRole": f"arn:aws:iam::{ACCOUNT}:instance-profile/batch",
        },
    )


def _put_remains(cloud: LocalCloud, simulation: Simulation, now: datetime) -> None:
    """Put an instance that was stopped with a large volume, a volume without an instance, and an
    address that belongs to nothing."""
    launched = (now - timedelta(days=200)).replace(microsecond=0)
    simulation.put_instance(
        InstanceSpec(
            instance_type="p3.8xlarge",
            launch_time=launched,
            tags={"Name": "paper-2025", "Owner": "research"},
            state="stopped",
            stopped_at=launched + timedelta(days=120),
            volumes=(VolumeSpec(100), VolumeSpec(4_000, "/dev/sdb", delete_on_termination=False)),
        )
    )
    simulation.put_volume(8_000, launched, {"Name": "datasets"})
    named = {"ResourceType": "elastic-ip", "Tags": [{"Key": "Name", "Value": "unknown-use"}]}
    cloud.client("ec2", region=REGION).allocate_address(Domain="vpc", TagSpecifications=[named])


def _put_savings_plan(cloud: LocalCloud, now: datetime) -> None:
    """Invent a Savings Plan of which a quarter was not used in the last week."""
    plan = {
        "SavingsPlanArn": f"arn:aws:savingsplans::{ACCOUNT}:savingsplan/{SAVINGS_PLAN}",
        "Attributes": {
            "SavingsPlansType": "EC2InstanceSavingsPlans",
            "InstanceFamily": "p4d",
            "StartDateTime": f"{now - timedelta(days=200):%Y-%m-%dT%H:%M:%SZ}",
        },
        "Utilization": {
            "TotalCommitment": "3360.00",
            "UsedCommitment": "2520.00",
            "UnusedCommitment": "840.00",
            "UtilizationPercentage": "75.00",
        },
    }
    period = {"Start": f"{now - timedelta(days=8):%Y-%m-%d}", "End": f"{now:%Y-%m-%d}"}
    answer = {"SavingsPlansUtilizationDetails": [plan], "TimePeriod": period}
    cloud.simulation().put_answer("ce:GetSavingsPlansUtilizationDetails", answer)


def _steady(
    namespace: str,
    metric: str,
    dimensions: Dimensions,
    value: float,
    now: datetime,
    per_minute: float = _EACH_MINUTE,
) -> Points:
    """Return a series that has the same value for days before and after `now`."""
    hour = now.replace(minute=0, second=0, microsecond=0)
    start = hour - timedelta(days=_KEPT_DAYS)
    hours: Sequence[float] = [value] * (24 * (_KEPT_DAYS + _COMING_DAYS))
    end = start + timedelta(hours=len(hours))
    past: dict[str, object] = {
        "start": start.timestamp(),
        "end": end.timestamp(),
        "hours": hours,
        "per_minute": per_minute,
    }
    return Points(namespace, metric, dimensions, (), past)
