"""Environments that other services manage.

GPU Governor never stops their instances: owners get advice on how to do it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from governor.core.instance import Instance
from governor.core.managers import Runs, runs_of
from governor.core.units import UsdPerHour, UtcDatetime


class Kind(StrEnum):
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
class Home:
    """The environment of an instance. `name` is empty if no tag gives it, `cluster` outside of
    Kubernetes."""

    kind: Kind
    service: str
    name: str
    cluster: str = ""

    @property
    def runs(self) -> Runs | None:
        """Return the use of its instances; `None` if it is none of those with own advice."""
        return runs_of(self.service) if self.kind is Kind.OTHER else None

    @property
    def title(self) -> str:
        """Return the environment's name for a sentence: `EKS node group gpu of prod`."""
        kind = self.kind.value
        if self.kind is Kind.OTHER:
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
    jobs_pending: int = 0
    """The part of `jobs_waiting` that waits for other jobs, or was only just submitted."""
    ecs_cluster: str = ""
    """ARN of the ECS cluster in which its hosts register; empty if Batch does not name it."""
    eks_cluster: str = ""
    """ARN of the EKS cluster in which its jobs run as pods; empty if it is not on EKS."""
    eks_namespace: str = ""
    """The namespace of these pods; empty if it is not on EKS."""
    has_more_waiting: bool = False
    """True if more jobs wait than were counted."""
    has_more_running: bool = False
    """True if more jobs run than were counted."""

    @property
    def has_stuck_jobs(self) -> bool:
        """Return whether jobs could run and none does."""
        return self.jobs_waiting > self.jobs_pending and not self.jobs_running


@dataclass(frozen=True, slots=True)
class Devices:
    """The words for the accelerators of idle instances, by their vendor."""

    vendor: str
    """As in the catalog; empty if the type is not in it, or the types have several vendors."""
    plural: str
    resource: str
    """The name by which a Kubernetes pod asks for one."""


@dataclass(frozen=True, slots=True)
class IdleMember:
    """An idle instance of an environment. `usd_per_hour` is `None` if its price is not known."""

    instance: Instance
    since: UtcDatetime
    usd_per_hour: UsdPerHour | None
