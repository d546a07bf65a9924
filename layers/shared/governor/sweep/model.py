"""Records of environments that other services manage, such as a Batch compute environment.

GPU Governor never stops their instances: owners get advice on how to do it there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from governor.core.instance import Instance
from governor.core.units import UsdPerHour, UtcDatetime


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
    jobs_perhaps_elsewhere: int = 0
    """The part of `jobs_running` whose queues also use other environments: they may run there."""

    @property
    def has_stuck_jobs(self) -> bool:
        """Return whether jobs could run, and have for some minutes, and none does."""
        return self.jobs_waiting > self.jobs_pending and not self.jobs_running

    @property
    def may_have_stuck_jobs(self) -> bool:
        """Return whether jobs could run, and have for some minutes, and each job that runs may run
        in another environment."""
        could_run = self.jobs_waiting > self.jobs_pending
        all_perhaps_elsewhere = self.jobs_running == self.jobs_perhaps_elsewhere
        return could_run and self.jobs_running > 0 and all_perhaps_elsewhere


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
