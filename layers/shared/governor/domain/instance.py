"""An EC2 instance as the governor knows it, and its owner: facts only, as EC2 tells them."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from shlex import join

from governor.domain.units import UtcDatetime, iso, printable

SELECTOR_TAG = "Purpose"
"""Marks a governed instance, by default. IAM policies of the stack ask for the same key."""
EXEMPTION_TAG = "GpuGovernor"
"""With the value `exempt`: never stopped or terminated, by default."""
CHECKPOINT_TAG = "GpuGovernorCheckpoint"
"""`off`, `hook`, or `signal` (the hook, or SIGTERM where there is none). Anything else: the
policy."""
NAME_TAG = "Name"
AUTO_SCALING_TAG = "aws:autoscaling:groupName"
"""Set by EC2 Auto Scaling on the instances of a group."""
LOW_UTILIZATION_TAG = "LowUtilization"
"""Since when it is known to be idle."""
REVIEW_TAG = "ReviewForTermination"
MARKS = (LOW_UTILIZATION_TAG, REVIEW_TAG)
"""Tags that the sweep writes on an idle instance, and removes when it works again."""
EPISODE_TAG = "GpuGovernor:Episode"
"""On snapshots, as those after it. The gate before termination counts snapshots by it."""
INSTANCE_TAG = "GpuGovernor:Instance"
EVENT_TAG = "GpuGovernor:Event"
"""The interruption for which it was made."""
DELETE_AFTER_TAG = "DeleteAfter"
OWN_TAGS = frozenset({EPISODE_TAG, INSTANCE_TAG, EVENT_TAG, CHECKPOINT_TAG})
"""Keys like the exemption's that mean something else: none of them exempts an instance."""
LINUX = "Linux/UNIX"
PLAIN_OPERATION = "RunInstances"
"""AWS's name of plain Linux on the bill. Source: EC2 user guide, AMI billing information fields."""


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """One account and Region to sweep. `role_arn` is assumed when the account is not the hub's
    own."""

    account: str
    region: str
    role_arn: str | None = None
    session: tuple[str, str] | None = field(default=None, compare=False)
    """The episode and the person that a session with the role names, so that CloudTrail there can
    say who."""

    def __str__(self) -> str:
        return f"{self.account}/{self.region}"


TAG_VALUE_CHARACTERS = 256
"""Longest value of a tag. Source: EC2 user guide, tag restrictions."""


class Lifecycle(StrEnum):
    """How the capacity was bought (`InstanceLifecycle`; absent there means on-demand)."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    SCHEDULED = "scheduled"
    CAPACITY_BLOCK = "capacity-block"
    INTERRUPTIBLE_RESERVATION = "interruptible-capacity-reservation"
    UNKNOWN = "unknown"
    """A value AWS added later: what a stop would do or save is not known, so nothing is ever
    planned."""


@dataclass(frozen=True, slots=True)
class Volume:
    """An attached EBS volume. Size in GiB; `None` until DescribeVolumes was read. Throughput in
    MiB/s."""

    volume_id: str
    device: str
    delete_on_termination: bool
    size_gib: int | None = None
    volume_type: str | None = None
    iops: int | None = None
    throughput: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchFacts:
    """Parameters to launch the like of an instance again (`RunInstances`), as far as EC2 still
    tells. User data may hold secrets, and is kept apart (`UserData`)."""

    image_id: str | None = None
    subnet_id: str | None = None
    security_group_ids: tuple[str, ...] = ()
    key_name: str | None = None
    instance_profile_arn: str | None = None
    private_ip: str | None = None
    ebs_optimized: bool = False
    placement_group: str | None = None
    network_interfaces: int | None = None
    """`None` in episodes of earlier releases."""
    efa_interfaces: int = 0
    elastic_ips: tuple[str, ...] = ()
    """Public IPv4 addresses of the account: they stay, and are charged, while it is stopped."""

    @property
    def network(self) -> str | None:
        if not self.network_interfaces:
            return None
        efa = f", {self.efa_interfaces} of them with EFA" if self.efa_interfaces else ""
        return f"{self.network_interfaces}{efa}"


@dataclass(frozen=True, slots=True)
class UserData:
    """The record of an instance's user data, whose text is in the archive alone: `kept_at` is an
    `s3://` address; size in bytes. All is empty where the instance has none."""

    size: int = 0
    sha256: str = ""
    kept_at: str = ""

    def is_of(self, data: bytes) -> bool:
        return self.sha256 == (hashlib.sha256(data).hexdigest() if data else "")

    def __str__(self) -> str:
        if not self.size:
            return "none"
        return (
            f"{self.size:,} bytes, SHA-256 {self.sha256}. Read it: aws s3 cp "
            f"{self.kept_at} user-data"
        )


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance as EC2 describes it. `launch_time` is the last start, as everywhere in EC2."""

    target: Target
    instance_id: str
    instance_type: str
    state: str
    launch_time: UtcDatetime
    lifecycle: Lifecycle = Lifecycle.ON_DEMAND
    root_device_type: str = "ebs"
    tags: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    availability_zone: str = ""
    platform: str = LINUX
    operation: str = PLAIN_OPERATION
    """AWS's name of its software on the bill (`UsageOperation`)."""
    tenancy: str = "Shared"
    """As the price list calls it: `Shared`, `Dedicated`, `Host`."""
    public_ip: str | None = None
    spot_request_id: str | None = None
    capacity_reservation_id: str | None = None
    host_id: str | None = None
    operator_managed: bool = False
    operator_principal: str | None = None
    launch: LaunchFacts | None = None
    """Only where one instance is described by itself; a sweep does not carry it."""
    state_transition_reason: str = ""
    """EC2's words for the last change of the state, such as `User initiated (2026-11-27 14:00:00
    GMT)`."""

    @property
    def name(self) -> str:
        """Return the `Name` tag as one printable line, or the id. Whoever may tag can write
        anything."""
        return printable(self.tags.get(NAME_TAG, "")) or self.instance_id

    @property
    def volume_ids(self) -> frozenset[str]:
        return frozenset(volume.volume_id for volume in self.volumes)

    def snapshot_tags(
        self, occasion: str, until: UtcDatetime, mark: Mapping[str, str]
    ) -> dict[str, str]:
        """The tags of its snapshots: a name as long as EC2 takes one, and the `mark` of what made
        them."""
        name = f"{self.name[: TAG_VALUE_CHARACTERS - len(occasion) - 1]} {occasion}"
        return {
            NAME_TAG: name,
            **mark,
            INSTANCE_TAG: self.instance_id,
            DELETE_AFTER_TAG: iso(until),
        }

    @property
    def family(self) -> str:
        return self.instance_type.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`state`: `pending`, `completed` or `error`. `start_time` is the same for all of one call."""

    snapshot_id: str
    volume_id: str
    state: str
    start_time: UtcDatetime | None = None
    owner_id: str = ""
    size_gib: int | None = None
    """Size of its volume: more than what is billed."""
    tags: Mapping[str, str] = field(default_factory=dict)

    def counts(self, account: str, since: UtcDatetime) -> bool:
        """Return whether it belongs to the account and was begun then or later; if unknown, it does
        not."""
        return self.owner_id == account and self.start_time is not None and self.start_time >= since


@dataclass(frozen=True, slots=True)
class Protection:
    """The two flags by which a human says no (DescribeInstanceAttribute). Never cleared by the
    governor."""

    stop: bool = False
    termination: bool = False


class SpotRequestType(StrEnum):
    """One-time instances cannot be stopped; a persistent request launches a successor when one
    ends."""

    ONE_TIME = "one-time"
    PERSISTENT = "persistent"


@dataclass(frozen=True, slots=True)
class Shape:
    """Hardware of an instance type, each figure per accelerator. Source: the shipped catalogue, or
    DescribeInstanceTypes. `accelerator_count` is `None` when unknown; a fraction of a GPU counts as
    one."""

    instance_type: str
    accelerator: str
    accelerator_count: int | None
    memory_mib_each: int | None = None
    board_power_watts: int | None = None
    local_nvme: str | None = None


@dataclass(frozen=True, slots=True)
class Manager:
    service: str
    mark: str


# Marks by which managed instances are known. `aws:` tags cannot be forged by users; the others can,
# which errs on the safe side: a forged mark only keeps the governor away. The first that fits names
# the service, so what says more comes first. Sources: facts, section 5.
_MANAGED_TAGS = {
    "Karpenter": "karpenter.sh/nodepool karpenter.sh/nodeclaim karpenter.sh/provisioner-name "
    "karpenter.k8s.aws/ec2nodeclass",
    "Amazon EKS": "eks:cluster-name eks:nodegroup-name eks:eks-cluster-name aws:eks:cluster-name",
    "AWS Batch": "AWSBatchServiceTag aws:batch:compute-environment",
    # After Batch, whose instances are in an ECS cluster of its own.
    "Amazon ECS": "AmazonECSManaged aws:ecs:clusterName",
    "Amazon EMR": "aws:elasticmapreduce:job-flow-id aws:elasticmapreduce:instance-group-role",
    "AWS ParallelCluster": "parallelcluster:cluster-name aws-parallelcluster-cluster-name",
    "AWS Elastic Beanstalk": "elasticbeanstalk:environment-name",
    "AWS OpsWorks": "opsworks:stack",
    "AWS Cloud9": "aws:cloud9:environment",
    # After the others: most of the services above sit on an Auto Scaling group, and their name says
    # more.
    "EC2 Auto Scaling": AUTO_SCALING_TAG,
    "EC2 Fleet": "aws:ec2:fleet-id",
    "Spot Fleet": "aws:ec2spot:fleet-request-id",
}
_SAY_LITTLE = (AUTO_SCALING_TAG, "aws:ec2:fleet-id", "aws:ec2spot:fleet-request-id")


def _by_key(listed: Mapping[str, str]) -> dict[str, str]:
    return {key: service for service, keys in listed.items() for key in keys.split()}


_LISTED = _by_key(_MANAGED_TAGS)
_BY_TRUST = sorted(_LISTED, key=lambda key: not key.startswith("aws:") or key in _SAY_LITTLE)
"""Tags that users cannot set come first, unless all they say is how instances are started."""
_MANAGED_TAG_PREFIXES = {
    "kubernetes.io/cluster/": "Kubernetes",
    "aws:batch:": "AWS Batch",
    "aws:servicecatalog:": "AWS Service Catalog",
}
_HARMLESS_AWS_TAGS = (
    "aws:cloudformation:",
    "aws:ec2launchtemplate:",
    "aws:createdby",
    "aws:backup:",
)
"""Say how an instance was made or is saved, and that nobody runs it. Any other `aws:` tag is a
service's."""
_MANAGED_WORDS = _by_key(
    {
        "Karpenter": "karpenter",
        "Kubernetes": "kubernetes k8s",
        "OpenShift": "openshift",
        "Databricks": "databricks",
        "SkyPilot": "skypilot",
        "Ray": "ray-cluster ray-node ray.io",
        "Spot.io": "spotinst spot.io elastigroup",
        "Run:ai": "run.ai run:ai runai",
        "Rancher": "rancher",
        "Anyscale": "anyscale",
        "AWS ParallelCluster": "parallelcluster",
        "Amazon SageMaker": "sagemaker",
    }
)
"""Words in tag keys, in lower case, by which managers are known whose tags differ by version and
flavour."""


def managed_by(instance: Instance, more: Sequence[str]) -> Manager | None:
    """Return the service that would replace, restart or miss it, if any; `more` are the policy's
    tag keys."""
    if instance.operator_managed:
        return Manager(instance.operator_principal or "an AWS service", "Operator.Managed")
    for key in _BY_TRUST if instance.tags.keys() & _LISTED.keys() else ():
        if key in instance.tags:
            of_batch = key == AUTO_SCALING_TAG and instance.tags[key].startswith("AWSBatch-")
            return Manager("AWS Batch" if of_batch else _LISTED[key], key)
    for prefix, service in _MANAGED_TAG_PREFIXES.items():
        for key in instance.tags:
            if key.startswith(prefix):
                return Manager(service, key)
    added = {key.casefold() for key in more}
    # An aws: tag first: it is no guess.
    for key in sorted(instance.tags, key=lambda one: not one.lower().startswith("aws:")):
        found = _unnamed_manager(key.casefold(), instance.tags[key].strip().casefold(), added)
        if found is not None:
            return Manager(found, key)
    return None


def _unnamed_manager(key: str, value: str, added: Collection[str]) -> str | None:
    """Return who sets a tag that no list names, by pattern; key and value in lower case."""
    if key.startswith("aws:"):
        return (
            None if key.startswith(_HARMLESS_AWS_TAGS) else f"an AWS service ({key.split(':')[1]})"
        )
    if key == "vendor" and value == "databricks":
        return "Databricks"
    if key in added:
        return "a service that the policy names"
    return next((service for word, service in _MANAGED_WORDS.items() if word in key), None)


@dataclass(frozen=True, slots=True)
class Session:
    """A Session Manager session: whose it is, as IAM names them, and since when. AWS knows no last
    input."""

    owner: str
    since: UtcDatetime


@dataclass(frozen=True, slots=True)
class Reservation:
    """An On-Demand Capacity Reservation or a Capacity Block as EC2 describes it, by its payer.
    `available` instances of `total` stand empty."""

    reservation_id: str
    target: Target
    instance_type: str
    platform: str
    total: int
    available: int
    is_block: bool
    began_at: UtcDatetime
    ends_at: UtcDatetime | None
    account: str
    """That which holds it; another one may pay for what is unused."""
    tags: Mapping[str, str]

    @property
    def holder(self) -> str:
        name = printable(self.tags.get(NAME_TAG, ""))
        return f"{name} of account {self.account}" if name else f"account {self.account}"

    @property
    def ends(self) -> str:
        return f"until {self.ends_at:%Y-%m-%d %H:%M} UTC" if self.ends_at else "without an end date"

    @property
    def like(self) -> Instance:
        """An instance of its kind, with its tags: for its price, and its owner."""
        return Instance(
            *(self.target, self.reservation_id, self.instance_type, "", self.began_at),
            tags=self.tags,
            platform=self.platform,
        )


def tag_command(instance_id: str, region: str, key: str, value: str) -> str:
    """The command that sets a tag, for people to copy: quoted, whatever the tag holds."""
    where = ("--region", region, "--resources", instance_id)
    return join(("aws", "ec2", "create-tags", *where, "--tags", f"Key={key},Value={value}"))


def console_url(instance: Instance) -> str:
    region = instance.target.region
    return (
        f"https://{region}.console.aws.amazon.com/ec2/home?region={region}"
        f"#InstanceDetails:instanceId={instance.instance_id}"
    )
