"""Compute environments of AWS Batch, read only: what keeps their instances, and whether jobs want them."""

from __future__ import annotations

from typing import Any

from governor.adapters.clients import Adapter, call, pages
from governor.domain.instance import Target
from governor.domain.sweep.managed import BatchEnvironment

_WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
_RUNNING = ("STARTING", "RUNNING")
_JOBS = 100
"""One page: more jobs make no difference."""


class AwsBatch(Adapter):
    """The port `BatchReader`."""

    def environment(self, target: Target, name: str) -> BatchEnvironment | None:
        client = self._clients.client("batch", target)
        found = call("batch:DescribeComputeEnvironments", client, computeEnvironments=[name])
        if not found["computeEnvironments"]:
            return None
        described = found["computeEnvironments"][0]
        resources = described.get("computeResources") or {}
        queues = self._queues(client, described["computeEnvironmentArn"])
        return BatchEnvironment(
            name=described["computeEnvironmentName"],
            minimum_vcpus=resources.get("minvCpus", 0),
            desired_vcpus=resources.get("desiredvCpus", 0),
            jobs_waiting=self._jobs(client, queues, _WAITING),
            jobs_running=self._jobs(client, queues, _RUNNING),
            tags=described.get("tags") or {},
        )

    def _queues(self, client: Any, environment_arn: str) -> list[str]:
        return [
            queue["jobQueueArn"]
            for page in pages("batch:DescribeJobQueues", client, following="nextToken")
            for queue in page["jobQueues"]
            if any(
                order["computeEnvironment"] == environment_arn
                for order in queue.get("computeEnvironmentOrder") or ()
            )
        ]

    def _jobs(self, client: Any, queues: list[str], states: tuple[str, ...]) -> int:
        return sum(
            len(found["jobSummaryList"])
            for queue in queues
            for state in states
            for found in [call("batch:ListJobs", client, jobQueue=queue, jobStatus=state, maxResults=_JOBS)]
        )
