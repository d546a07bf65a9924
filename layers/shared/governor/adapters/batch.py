"""Compute environments of AWS Batch, read only: what keeps their instances, and whether jobs want them."""

from __future__ import annotations

from functools import partial

from governor.adapters.clients import Adapter
from governor.domain.instance import Target
from governor.domain.sweep.managed import BatchEnvironment

_WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
_RUNNING = ("STARTING", "RUNNING")
_JOBS = 100
"""One page: more jobs make no difference."""


class AwsBatch(Adapter):
    """The port `BatchReader`."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None:
        found = self._call("batch:DescribeComputeEnvironments", target, computeEnvironments=[name])
        if not found["computeEnvironments"]:
            return None
        described = found["computeEnvironments"][0]
        resources = described.get("computeResources") or {}
        queues = self._queues(target, described["computeEnvironmentArn"])
        return BatchEnvironment(
            name=described["computeEnvironmentName"],
            minimum_vcpus=resources.get("minvCpus", 0),
            desired_vcpus=resources.get("desiredvCpus", 0),
            jobs_waiting=self._jobs(target, queues, _WAITING),
            jobs_running=self._jobs(target, queues, _RUNNING),
            tags=described.get("tags") or {},
        )

    def _queues(self, target: Target, environment_arn: str) -> list[str]:
        return [
            queue["jobQueueArn"]
            for page in self._pages("batch:DescribeJobQueues", target, following="nextToken")
            for queue in page["jobQueues"]
            if any(
                order["computeEnvironment"] == environment_arn
                for order in queue.get("computeEnvironmentOrder") or ()
            )
        ]

    def _jobs(self, target: Target, queues: list[str], states: tuple[str, ...]) -> int:
        listed = partial(self._call, "batch:ListJobs", target, maxResults=_JOBS)
        pages = (listed(jobQueue=queue, jobStatus=state) for queue in queues for state in states)
        return sum(len(page["jobSummaryList"]) for page in pages)
