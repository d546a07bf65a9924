"""The environments in which other services run instances: Auto Scaling groups, EKS node groups,
Batch compute environments and others, by the tags of an instance.

This module reads tags only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from governor.core.instance import AUTO_SCALING_TAG, Instance
from governor.core.managers import Manager, Runs, runs_of

_BATCH_GROUP = re.compile(r"AWSBatch-(?P<name>.+?)-asg-[0-9a-f-]+")
"""The name of the Auto Scaling group that Batch makes for a compute environment. Source: public
users of Batch."""
_CLUSTER_PREFIX = "kubernetes.io/cluster/"


class EnvironmentKind(StrEnum):
    """The kind of an environment, as messages name it."""

    BATCH = "AWS Batch compute environment"
    KARPENTER = "Karpenter node pool"
    NODE_GROUP = "EKS node group"
    KUBERNETES = "Kubernetes cluster"
    ECS = "ECS cluster"
    GROUP = "Auto Scaling group"
    OTHER = "environment"


_RUNS = {
    Runs.RUNNERS: "the runners",
    Runs.BUILDS: "the build instances",
    Runs.WORKSPACES: "the workspaces",
}
"""The words for instances by their use."""


@dataclass(frozen=True, slots=True)
class ManagedEnvironment:
    """The environment of an instance. `name` is empty if no tag gives it, `cluster` outside of
    Kubernetes."""

    kind: EnvironmentKind
    service: str
    name: str
    cluster: str = ""

    @property
    def runs(self) -> Runs | None:
        """Return the use of its instances; `None` if it is none of those with own advice."""
        return runs_of(self.service) if self.kind is EnvironmentKind.OTHER else None

    @property
    def title(self) -> str:
        """Return the environment's name for a sentence: `EKS node group gpu of cluster prod`."""
        kind = self.kind.value
        if self.kind is EnvironmentKind.OTHER:
            runs = self.runs
            if runs is not None:
                title = f"{_RUNS[runs]} of {self.service}"
                # Marks of runners tell pools apart; those of the others hold no name.
                has_pool = runs is Runs.RUNNERS and bool(self.name)
                return f"{title} ({self.name})" if has_pool else title
            kind = f"{self.service} environment"
        title = f"{kind} {self.name}" if self.name else f"{kind} without a name in its tags"
        if not self.cluster or self.cluster == self.name:
            return title
        return f"{title} of cluster {self.cluster}"


def environment_of(instance: Instance, manager: Manager) -> ManagedEnvironment:
    """Return the environment that an instance belongs to, by its tags. `manager` is the service
    that runs it. The name of the environment is empty if no tag gives it."""
    tags = instance.tags
    service = manager.service
    group = tags.get(AUTO_SCALING_TAG, "")
    match service:
        case "AWS Batch":
            return ManagedEnvironment(EnvironmentKind.BATCH, service, _batch_environment_name(tags))
        case "Karpenter" | "Amazon EKS" | "Kubernetes":
            return _kubernetes_environment(tags, service)
        case "Amazon ECS":
            return ManagedEnvironment(
                EnvironmentKind.ECS, service, tags.get("aws:ecs:clusterName") or group
            )
        case "EC2 Auto Scaling":
            return ManagedEnvironment(EnvironmentKind.GROUP, service, group)
        case _:
            return ManagedEnvironment(EnvironmentKind.OTHER, service, tags.get(manager.mark, ""))


def _batch_environment_name(tags: Mapping[str, str]) -> str:
    """Return the name of the AWS Batch compute environment: from the ARN in its own tag, else from
    the name of its Auto Scaling group. Empty if neither tag gives it."""
    arn = tags.get("aws:batch:compute-environment", "")
    name = arn.rpartition("/")[2]
    if name:
        return name
    match = _BATCH_GROUP.fullmatch(tags.get(AUTO_SCALING_TAG, ""))
    return match["name"] if match else ""


def _kubernetes_environment(tags: Mapping[str, str], service: str) -> ManagedEnvironment:
    """Return the node pool of Karpenter or the node group of EKS, each with its cluster. For
    anything else, return the cluster as a whole. Names that no tag gives are empty."""
    cluster = _cluster(tags)
    if service == "Karpenter":
        pool = tags.get("karpenter.sh/nodepool") or tags.get("karpenter.sh/provisioner-name") or ""
        return ManagedEnvironment(EnvironmentKind.KARPENTER, service, pool, cluster)
    node_group = tags.get("eks:nodegroup-name")
    if service == "Amazon EKS" and node_group:
        return ManagedEnvironment(EnvironmentKind.NODE_GROUP, service, node_group, cluster)
    return ManagedEnvironment(EnvironmentKind.KUBERNETES, service, cluster)


def _cluster(tags: Mapping[str, str]) -> str:
    """Return the name of the Kubernetes cluster; empty if no tag gives it."""
    for key in ("eks:cluster-name", "aws:eks:cluster-name", "eks:eks-cluster-name"):
        if tags.get(key):
            return tags[key]
    for key in tags:
        if key.startswith(_CLUSTER_PREFIX):
            return key.removeprefix(_CLUSTER_PREFIX)
    return ""
