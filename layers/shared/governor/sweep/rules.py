"""Instances that another service runs: the environment they belong to, and what its owner can do.

The governor never acts on them: a setting of that service keeps them running idle, and only its
owner may change it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from governor.alerts.model import Owner
from governor.core.hashing import short_hash
from governor.core.instance import AUTO_SCALING_TAG, Instance, Target
from governor.core.managers import Manager
from governor.sweep.model import Home, Kind

_BATCH_GROUP = re.compile(r"AWSBatch-(?P<name>.+?)-asg-[0-9a-f-]+")
"""The name of the Auto Scaling group that Batch makes for a compute environment. Source: public
users of Batch."""


_CLUSTER_PREFIX = "kubernetes.io/cluster/"


def home_of(instance: Instance, manager: Manager) -> Home:
    """Return the environment that an instance belongs to, by its tags. `manager` is the service
    that runs it. The name of the environment is empty if no tag gives it."""
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
    """Return the name of the AWS Batch compute environment: from the ARN in its own tag, else from
    the name of its Auto Scaling group. Empty if neither tag gives it."""
    arn = tags.get("aws:batch:compute-environment", "")
    name = arn.rpartition("/")[2]
    if name:
        return name
    match = _BATCH_GROUP.fullmatch(tags.get(AUTO_SCALING_TAG, ""))
    return match["name"] if match else ""


def _kubernetes_home(tags: Mapping[str, str], service: str) -> Home:
    """Return the node pool of Karpenter or the node group of EKS, each with its cluster. For
    anything else, return the cluster as a whole. Names that no tag gives are empty."""
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


def group_key(target: Target, home: Home, owner: Owner) -> str:
    """Return the key under which messages about an environment to an owner are counted as one:
    `managed#` with the target and a hash of both."""
    parts = (home.kind.value, home.service, home.name, home.cluster, owner.name, owner.project)
    return f"managed#{target}#{short_hash(*parts)}"
