"""Instances that another service runs: which environment they belong to, and what its owner can do.
The governor never acts on them; what keeps them running idle is a setting of that service."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from governor.domain.alerts.alert import Alert, Owner, ids, named, short_hash
from governor.domain.alerts.templates import said, written
from governor.domain.instance import AUTO_SCALING_TAG, Instance, Manager, Target
from governor.domain.units import UsdPerHour, UtcDatetime, bullets, clock, iso, span

_NAMED = 20
"""Instances named in the text; the facts hold all."""
_BATCH_GROUP = re.compile(r"AWSBatch-(?P<name>.+?)-asg-[0-9a-f-]+")
"""The Auto Scaling group that Batch makes for a compute environment. Source: public users of
Batch."""
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
    """The environment of an instance; `name` is empty where no tag tells, `cluster` outside of
    Kubernetes."""

    kind: Kind
    service: str
    name: str
    cluster: str = ""

    @property
    def title(self) -> str:
        """For a sentence: `EKS node group gpu of prod`."""
        kind = (
            f"{self.kind.value}" if self.kind is not Kind.OTHER else f"{self.service} environment"
        )
        named = f"{kind} {self.name}" if self.name else f"{kind} without a name in its tags"
        return f"{named} of {self.cluster}" if self.cluster and self.cluster != self.name else named


@dataclass(frozen=True, slots=True)
class BatchEnvironment:
    """A compute environment as AWS Batch describes it. Jobs of all its queues, counted up to 100 a
    state."""

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
        return Home(
            Kind.BATCH, service, named.rpartition("/")[2] or (match["name"] if match else "")
        )
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


def _slug(kind: Kind) -> str:
    return kind.name.lower().replace("_", "-")


def advice_for(home: Home, batch: BatchEnvironment | None) -> list[str]:
    """Return what keeps idle instances in such an environment, and how its owner changes it."""
    state = "unread"
    if batch is not None:
        state = "jobs" if batch.jobs_running else "minimum" if batch.minimum_vcpus else "free"
    values = {
        "kind": _slug(home.kind),
        "service": home.service,
        "name": home.name or "NAME",
        "cluster": home.cluster or "CLUSTER",
        "state": state,
        "batch": batch,
        "running": batch and _jobs(batch.jobs_running, "running"),
        "waiting": batch and _jobs(batch.jobs_waiting, "waiting"),
    }
    return said("managed advice", values)


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
    """Return one message to the owner of an environment about its idle members, of all `governed`
    there."""
    cost = sum((member.usd_per_hour or Decimal(0) for member in idle), Decimal(0))
    unknown = sum(member.usd_per_hour is None for member in idle)
    first = idle[0].instance
    facts = {
        "service": home.service,
        "environment_kind": _slug(home.kind),
        "environment": home.name,
        "cluster": home.cluster,
        "instance_ids": ids([member.instance for member in idle]),
        "usd_per_hour": cost,
    }
    words = {
        "home": home,
        "which": f"{len(idle)} GPU instances"
        if len(idle) > 1
        else f"{first.name} ({first.instance_type})",
        "longest": span(now - min(member.since for member in idle)),
        "usd": cost * 24 if unknown < len(idle) else None,
        "number": len(idle),
        "governed": governed,
        "unpriced": f"; the price of {unknown} of them is not known" if unknown else "",
        "advice": advice,
        "listed": bullets(
            [
                f"{named(one.instance)}: idle since {clock(one.since, owner.time_zone, now)}"
                for one in idle
            ],
            _NAMED,
        ),
    }
    dedup_id = f"managed-{short_hash(group_key(target, home, owner))}-{iso(now)}"
    return written("managed", target, dedup_id, now, facts, words, owner=owner)


def group_key(target: Target, home: Home, owner: Owner) -> str:
    parts = home.kind.value, home.service, home.name, home.cluster, owner.name, owner.project
    return f"managed#{target}#{short_hash(*parts)}"
