"""Instances that another service runs: the environment they belong to, and what its owner can do.

The governor never acts on them: a setting of that service keeps them running idle, and only its
owner may change it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from governor.domain.alerts.alert import Alert, Owner, ids, named, short_hash
from governor.domain.alerts.templates import said, written
from governor.domain.instance import AUTO_SCALING_TAG, Instance, Manager, Target
from governor.domain.units import UsdPerHour, UtcDatetime, clock, iso, some_of, span

_MEMBERS_NAMED = 20
"""Instances named in the text; the facts hold all."""
_BATCH_GROUP = re.compile(r"AWSBatch-(?P<name>.+?)-asg-[0-9a-f-]+")
"""The name of the Auto Scaling group that Batch makes for a compute environment. Source: public
users of Batch."""
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
    """The environment of an instance. `name` is empty if no tag gives it, `cluster` outside of
    Kubernetes."""

    kind: Kind
    service: str
    name: str
    cluster: str = ""

    @property
    def title(self) -> str:
        """Return it for a sentence: `EKS node group gpu of prod`."""
        kind = self.kind.value
        if self.kind is Kind.OTHER:
            kind = f"{self.service} environment"
        title = f"{kind} {self.name}" if self.name else f"{kind} without a name in its tags"
        if not self.cluster or self.cluster == self.name:
            return title
        return f"{title} of {self.cluster}"


@dataclass(frozen=True, slots=True)
class BatchEnvironment:
    """A compute environment as AWS Batch describes it. Its jobs are those of all its queues,
    counted up to 100 a state."""

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
    """Return the environment of an instance, by its tags."""
    tags = instance.tags
    service = manager.service
    group = tags.get(AUTO_SCALING_TAG, "")
    match service:
        case "AWS Batch":
            return Home(Kind.BATCH, service, _batch_environment_name(tags))
        case "Karpenter" | "Amazon EKS" | "Kubernetes":
            return _kubernetes_home(tags, service)
        case "Amazon ECS":
            return Home(Kind.ECS, service, tags.get("aws:ecs:clusterName") or group)
        case "EC2 Auto Scaling":
            return Home(Kind.GROUP, service, group)
        case _:
            return Home(Kind.OTHER, service, tags.get(manager.mark, ""))


def _batch_environment_name(tags: Mapping[str, str]) -> str:
    """Return the name of the compute environment; empty if no tag gives it."""
    arn = tags.get("aws:batch:compute-environment", "")
    name = arn.rpartition("/")[2]
    if name:
        return name
    match = _BATCH_GROUP.fullmatch(tags.get(AUTO_SCALING_TAG, ""))
    return match["name"] if match else ""


def _kubernetes_home(tags: Mapping[str, str], service: str) -> Home:
    cluster = _cluster(tags)
    if service == "Karpenter":
        pool = tags.get("karpenter.sh/nodepool") or tags.get("karpenter.sh/provisioner-name") or ""
        return Home(Kind.KARPENTER, service, pool, cluster)
    node_group = tags.get("eks:nodegroup-name")
    if service == "Amazon EKS" and node_group:
        return Home(Kind.NODE_GROUP, service, node_group, cluster)
    return Home(Kind.KUBERNETES, service, cluster)


def _cluster(tags: Mapping[str, str]) -> str:
    """Return the name of the Kubernetes cluster; empty if no tag gives it."""
    for key in ("eks:cluster-name", "aws:eks:cluster-name", "eks:eks-cluster-name"):
        if tags.get(key):
            return tags[key]
    for key in tags:
        if key.startswith(_CLUSTER_PREFIX):
            return key.removeprefix(_CLUSTER_PREFIX)
    return ""


def _slug(kind: Kind) -> str:
    return kind.name.lower().replace("_", "-")


def advice_for(home: Home, batch: BatchEnvironment | None) -> list[str]:
    """Return what keeps idle instances in such an environment, and how its owner changes it."""
    values = {
        "kind": _slug(home.kind),
        "service": home.service,
        "name": home.name or "NAME",
        "cluster": home.cluster or "CLUSTER",
        "state": _batch_state(batch),
        "batch": batch,
        "running": None,
        "waiting": None,
    }
    if batch is not None:
        values["running"] = _jobs(batch.jobs_running, "running")
        values["waiting"] = _jobs(batch.jobs_waiting, "waiting")
    return said("managed advice", values)


def _batch_state(batch: BatchEnvironment | None) -> str:
    """Return what keeps instances in a compute environment, by the name that the advice uses."""
    if batch is None:
        return "unread"
    if batch.jobs_running:
        return "jobs"
    return "minimum" if batch.minimum_vcpus else "free"


def _jobs(count: int, state: str) -> str:
    if count == 0:
        return f"no job is {state}"
    if count == 1:
        return f"1 job is {state}"
    return f"{count} jobs are {state}"


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
    """Return one message to the owner of an environment about its idle members. `governed` counts
    all members there."""
    usd_per_hour = _usd_per_hour(idle)
    usd_per_day = usd_per_hour * 24
    unpriced = sum(member.usd_per_hour is None for member in idle)
    unpriced_text = f"; the price of {unpriced} of them is not known" if unpriced else ""
    idle_since = min(member.since for member in idle)
    lines = [_line(member, owner, now) for member in idle]
    facts = {
        "service": home.service,
        "environment_kind": _slug(home.kind),
        "environment": home.name,
        "cluster": home.cluster,
        "instance_ids": ids([member.instance for member in idle]),
        "usd_per_hour": usd_per_hour,
    }
    words = {
        "home": home,
        "which": _which(idle),
        "longest": span(now - idle_since),
        "usd": usd_per_day if unpriced < len(idle) else None,
        "number": len(idle),
        "governed": governed,
        "unpriced": unpriced_text,
        "advice": advice,
        "listed": some_of(lines, _MEMBERS_NAMED),
    }
    dedup_id = f"managed-{short_hash(group_key(target, home, owner))}-{iso(now)}"
    return written("managed", target, dedup_id, now, facts, words, owner=owner)


def _usd_per_hour(idle: Sequence[IdleMember]) -> UsdPerHour:
    """Return the price of all members whose price is known."""
    return sum((member.usd_per_hour or Decimal(0) for member in idle), Decimal(0))


def _which(idle: Sequence[IdleMember]) -> str:
    if len(idle) > 1:
        return f"{len(idle)} GPU instances"
    instance = idle[0].instance
    return f"{instance.name} ({instance.instance_type})"


def _line(member: IdleMember, owner: Owner, now: UtcDatetime) -> str:
    return f"{named(member.instance)}: idle since {clock(member.since, owner.time_zone, now)}"


def group_key(target: Target, home: Home, owner: Owner) -> str:
    """Return the key of this environment and owner, under which its messages are counted."""
    parts = (home.kind.value, home.service, home.name, home.cluster, owner.name, owner.project)
    return f"managed#{target}#{short_hash(*parts)}"
