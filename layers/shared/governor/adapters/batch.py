"""Compute environments of AWS Batch, read only: what keeps their instances, and whether jobs want them.

This module must not know what is advised.
"""

from __future__ import annotations

from typing import Any

from governor.adapters.clients import Adapter, pages
from governor.adapters.errors import aws_errors
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
        with aws_errors("batch:DescribeComputeEnvironments"):
            found = client.describe_compute_environments(computeEnvironments=[name])["computeEnvironments"]
        if not found:
            return None
        described = found[0]
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
        """Those that send their jobs to the environment."""
        return [
            queue["jobQueueArn"]
            for page in pages("batch:DescribeJobQueues", client.describe_job_queues, following="nextToken")
            for queue in page["jobQueues"]
            if any(
                order["computeEnvironment"] == environment_arn
                for order in queue.get("computeEnvironmentOrder") or ()
            )
        ]

    def _jobs(self, client: Any, queues: list[str], states: tuple[str, ...]) -> int:
        number = 0
        for queue in queues:
            for state in states:
                with aws_errors("batch:ListJobs"):
                    page = client.list_jobs(jobQueue=queue, jobStatus=state, maxResults=_JOBS)
                number += len(page["jobSummaryList"])
        return number
