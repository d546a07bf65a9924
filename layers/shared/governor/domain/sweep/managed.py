"""Instances that another service runs: which environment they belong to, and what its owner can do.

The governor never acts on them; what keeps them running idle is a setting of that service.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of, ids, named
from governor.domain.alerts.owner import Owner, short_hash
from governor.domain.instance import Instance, Manager, Target
from governor.domain.tags import AUTO_SCALING_TAG
from governor.domain.units import UsdPerHour, UtcDatetime, iso
from governor.domain.wording import bullets, clock, span, usd

_NAMED = 20
"""Instances named in the text; the facts hold all."""
_BATCH_GROUP = re.compile(r"AWSBatch-(?P<name>.+?)-asg-[0-9a-f-]+")
"""The Auto Scaling group that Batch makes for a compute environment. Source: public users of Batch."""
_CLUSTER_PREFIX = "kubernetes.io/cluster/"


class Kind(StrEnum):
    BATCH = "AWS Batch compute environment"
    KARPENTER = "Karpenter node pool"
    NODE_GROUP = "EKS node group"
    KUBERNETES = "Kubernetes cluster"
    ECS = "ECS cluster"
    GROUP = "Auto Scaling group"
    OTHER = "environment"


@dataclass(frozen=True, slots=True)
class Home:
    """The environment of an instance; `name` is empty where no tag tells, `cluster` outside of Kubernetes."""

    kind: Kind
    service: str
    name: str
    cluster: str = ""

    @property
    def title(self) -> str:
        """For a sentence: `EKS node group gpu of prod`."""
        kind = f"{self.kind.value}" if self.kind is not Kind.OTHER else f"{self.service} environment"
        named = f"{kind} {self.name}" if self.name else f"{kind} without a name in its tags"
        return f"{named} of {self.cluster}" if self.cluster and self.cluster != self.name else named


@dataclass(frozen=True, slots=True)
class BatchEnvironment:
    """A compute environment as AWS Batch describes it. Jobs of all its queues, counted up to 100 a state."""

    name: str
    minimum_vcpus: int
    desired_vcpus: int
    jobs_waiting: int
    jobs_running: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class IdleMember:
    instance: Instance
    since: UtcDatetime
    usd_per_hour: UsdPerHour | None


def home_of(instance: Instance, manager: Manager) -> Home:
    tags, service = instance.tags, manager.service
    group = tags.get(AUTO_SCALING_TAG, "")
    cluster = _cluster(tags)
    if service == "AWS Batch":
        named, match = tags.get("aws:batch:compute-environment", ""), _BATCH_GROUP.fullmatch(group)
        return Home(Kind.BATCH, service, named.rpartition("/")[2] or (match["name"] if match else ""))
    if service == "Karpenter":
        pool = tags.get("karpenter.sh/nodepool") or tags.get("karpenter.sh/provisioner-name") or ""
        return Home(Kind.KARPENTER, service, pool, cluster)
    if service == "Amazon EKS" and (node_group := tags.get("eks:nodegroup-name")):
        return Home(Kind.NODE_GROUP, service, node_group, cluster)
    if service in ("Amazon EKS", "Kubernetes"):
        return Home(Kind.KUBERNETES, service, cluster)
    if service == "Amazon ECS":
        return Home(Kind.ECS, service, tags.get("aws:ecs:clusterName") or group)
    if service == "EC2 Auto Scaling":
        return Home(Kind.GROUP, service, group)
    return Home(Kind.OTHER, service, tags.get(manager.mark, ""))


def _cluster(tags: Mapping[str, str]) -> str:
    keys = ("eks:cluster-name", "aws:eks:cluster-name", "eks:eks-cluster-name")
    named = next((tags[key] for key in keys if tags.get(key)), "")
    owned = (key.removeprefix(_CLUSTER_PREFIX) for key in tags if key.startswith(_CLUSTER_PREFIX))
    return named or next(owned, "")


_ADVICE: Mapping[Kind, tuple[str, ...]] = {
    Kind.KARPENTER: (
        "Karpenter removes what is empty or hardly used when the node pool's disruption has "
        "consolidationPolicy: WhenEmptyOrUnderutilized and a short consolidateAfter, no budget of 0 "
        "nodes forbids it, and no pod carries karpenter.sh/do-not-disrupt.",
        "See what holds it: kubectl get nodepool {name} -o yaml; and kubectl get pods -A -o wide, "
        "for pods that ask for nvidia.com/gpu and do nothing with it.",
    ),
    Kind.NODE_GROUP: (
        "A node group keeps its minimum and desired size whether pods run or not: aws eks "
        "update-nodegroup-config --cluster-name {cluster} --nodegroup-name {name} --scaling-config "
        "minSize=0,desiredSize=0; an autoscaler brings nodes back when pods ask for GPUs.",
        "Where an autoscaler runs already, a pod that asks for nvidia.com/gpu and does nothing with "
        "it holds the node: kubectl get pods -A -o wide.",
    ),
    Kind.KUBERNETES: (
        "A pod that asks for nvidia.com/gpu and does nothing with it holds its node: "
        "kubectl get pods -A -o wide. Nodes without such pods go when an autoscaler runs and the "
        "minimum size of their group is 0; in EKS Auto Mode, by the consolidation of the node pool.",
    ),
    Kind.ECS: (
        "Instances without tasks go when the capacity provider has managed scaling with "
        "targetCapacity 100 and the minimum size of its Auto Scaling group is 0.",
        "A task or service that reserves GPUs and does nothing with them holds its instance: "
        "aws ecs list-tasks --cluster {name}.",
    ),
    Kind.GROUP: (
        "The group keeps its desired size: aws autoscaling update-auto-scaling-group "
        "--auto-scaling-group-name {name} --min-size 0 --desired-capacity 0, or a schedule, or a "
        "scaling policy on the GPUs' utilization.",
    ),
    Kind.OTHER: ("Only {service} can release them for good; look for its minimum or target capacity.",),
}


def advice_for(home: Home, batch: BatchEnvironment | None) -> tuple[str, ...]:
    """What keeps idle instances in such an environment, and how its owner changes it."""
    name, cluster = home.name or "NAME", home.cluster or "CLUSTER"
    if home.kind is not Kind.BATCH:
        texts = _ADVICE[home.kind]
        return tuple(text.format(name=name, cluster=cluster, service=home.service) for text in texts)
    change = (
        f"aws batch update-compute-environment --compute-environment {name} --compute-resources minvCpus=0"
    )
    if batch is None:
        return (
            "AWS Batch keeps instances for minvCpus whether jobs run or not. If it is above 0 and no job has "
            f"run for an hour: {change}.",
            "If it is 0, a scale-down delay (scalingPolicy.minScaleDownDelayMinutes) or a job that does "
            "nothing with its GPUs holds them.",
        )
    facts = (
        f"minvCpus is {batch.minimum_vcpus}, desired are {batch.desired_vcpus}; "
        f"{_jobs(batch.jobs_running, 'running')}, {_jobs(batch.jobs_waiting, 'waiting')}."
    )
    if batch.jobs_running:
        return (facts, "A job that runs does nothing with its GPUs: look at the jobs before the environment.")
    if batch.minimum_vcpus:
        return (facts, f"minvCpus keeps these instances without any job: {change}.")
    return (
        facts,
        "With minvCpus 0 Batch releases them by itself; a scale-down delay "
        "(scalingPolicy.minScaleDownDelayMinutes) keeps them for its time.",
    )


def _jobs(number: int, what: str) -> str:
    text = "no job is" if number == 0 else "1 job is" if number == 1 else f"{number} jobs are"
    return f"{text} {what}"


def managed_alert(
    home: Home,
    idle: Sequence[IdleMember],
    governed: int,
    target: Target,
    now: UtcDatetime,
    *,
    owner: Owner,
    advice: Sequence[str],
) -> Alert:
    """Return one message to the owner of one environment about its idle members, at least one.

    `governed` is how many of its instances the governor sees in all; `advice` is a sentence each.
    """
    longest = span(now - min(member.since for member in idle))
    cost = sum((member.usd_per_hour or Decimal(0) for member in idle), Decimal(0))
    unknown = sum(member.usd_per_hour is None for member in idle)
    unpriced = f"; the price of {unknown} of them is not known" if unknown else ""
    only = idle[0].instance if len(idle) == 1 else None
    which = f"{only.name} ({only.instance_type})" if only else f"{len(idle)} GPU instances"
    return alert_of(
        AlertKind.MANAGED_IDLE,
        Severity.INFO,
        target,
        f"{which} idle for {longest} in {home.title}, {usd(cost * 24)}/day",
        [
            f"{len(idle)} of {governed} governed instances in {home.title} ({target}) are idle, for up to "
            f"{longest}. They cost {usd(cost * 24)} a day{unpriced}.",
            f"GPU Governor leaves them alone: {home.service} would replace them or lose track of them.",
            *advice,
            "The idle instances:",
            *bullets([_member_line(member, owner, now) for member in idle], _NAMED),
        ],
        f"managed-{short_hash(str(target), *_key(home), owner.name, owner.project)}-{iso(now)}",
        now,
        owner=owner,
        facts={
            "service": home.service,
            "environment_kind": home.kind.name.lower().replace("_", "-"),
            "environment": home.name,
            "cluster": home.cluster,
            "instance_ids": ids([member.instance for member in idle]),
            "usd_per_hour": cost,
        },
    )


def group_key(target: Target, home: Home, owner: Owner) -> str:
    """Return the name of a group that gets one message."""
    return f"managed#{target}#{short_hash(*_key(home), owner.name, owner.project)}"


def _key(home: Home) -> tuple[str, str, str, str]:
    return home.kind.value, home.service, home.name, home.cluster


def _member_line(member: IdleMember, owner: Owner, now: UtcDatetime) -> str:
    one, since = member.instance, clock(member.since, owner.time_zone, now)
    return f"{named(one)}: idle since {since}"
