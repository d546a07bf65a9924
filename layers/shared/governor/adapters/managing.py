"""AWS Batch, read only: what keeps the instances of a compute environment, and whether jobs want
them; Auto Scaling's lifecycle hooks; and the accounts in units of AWS Organizations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from functools import partial
from operator import itemgetter
from typing import Any

from governor.adapters.clients import Adapter
from governor.domain.events.interruption import LifecycleAction
from governor.domain.instance import Target
from governor.domain.sweep.managed import BatchEnvironment
from governor.errors import CloudError

_WAITING = ("SUBMITTED", "PENDING", "RUNNABLE")
_RUNNING = ("STARTING", "RUNNING")
_JOBS = 100
"""One page: more jobs make no difference."""
_OVER = "No active Lifecycle Action found"
"""How the message begins when an action is over; its code is any validation's. Source: AWS's own
answers, in spacelift-io/terraform-aws-spacelift-workerpool-on-ec2 #197."""


class AwsBatch(Adapter):
    def environment(self, target: Target, name: str) -> BatchEnvironment | None:
        def read(found: Mapping[str, Any]) -> BatchEnvironment:
            resources = found.get("computeResources") or {}
            queues = self._queues(target, found["computeEnvironmentArn"])
            return BatchEnvironment(
                name=found["computeEnvironmentName"],
                minimum_vcpus=resources.get("minvCpus", 0),
                desired_vcpus=resources.get("desiredvCpus", 0),
                jobs_waiting=self._jobs(target, queues, _WAITING),
                jobs_running=self._jobs(target, queues, _RUNNING),
                tags=found.get("tags") or {},
            )

        operation, path = "batch:DescribeComputeEnvironments", ("computeEnvironments",)
        return next(self._records(operation, target, path, read, computeEnvironments=[name]), None)

    def _queues(self, target: Target, environment_arn: str) -> list[str]:
        def read(queue: Mapping[str, Any]) -> str | None:
            orders = queue.get("computeEnvironmentOrder") or ()
            is_its = any(order["computeEnvironment"] == environment_arn for order in orders)
            return str(queue["jobQueueArn"]) if is_its else None

        operation, path = "batch:DescribeJobQueues", ("jobQueues",)
        return [*self._records(operation, target, path, read, following="nextToken")]

    def _jobs(self, target: Target, queues: list[str], states: tuple[str, ...]) -> int:
        listed = partial(self._call, "batch:ListJobs", target, maxResults=_JOBS)
        pages = (listed(jobQueue=queue, jobStatus=state) for queue in queues for state in states)
        jobs = self._records("batch:ListJobs", target, ("jobSummaryList",), dict, answers=pages)
        return sum(1 for _ in jobs)


class AutoScalingHooks(Adapter):
    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        # Sent once: what is read is a comfort, and of a Spot instance two minutes are all there is.
        names: Any = {"AutoScalingGroupName": group, "LifecycleHookNames": [hook]}
        found = self._call("autoscaling:DescribeLifecycleHooks", target, repeat=False, **names)
        for one in found.get("LifecycleHooks", ()):
            if one.get("LifecycleHookName") == hook and "HeartbeatTimeout" in one:
                return timedelta(seconds=one["HeartbeatTimeout"])
        return None

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        try:
            self._call(
                "autoscaling:CompleteLifecycleAction",
                target,
                AutoScalingGroupName=action.group,
                LifecycleHookName=action.hook,
                LifecycleActionToken=action.token,
                InstanceId=instance_id,
                LifecycleActionResult="CONTINUE",
            )
        except CloudError as error:
            if _OVER not in str(error):
                raise


class OrganizationUnits(Adapter):
    """Answers in the management account, or in one that administers a service for it."""

    def accounts(self, units: Collection[str], without: Collection[str]) -> tuple[str, ...]:
        found, seen, waiting = set[str](), {*without}, [*units]
        while waiting:
            if (unit := waiting.pop()) in seen:
                continue
            seen.add(unit)
            operation, path = "organizations:ListAccountsForParent", ("Accounts",)
            found.update(self._records(operation, None, path, _active, ParentId=unit))
            operation, path = (
                "organizations:ListOrganizationalUnitsForParent",
                ("OrganizationalUnits",),
            )
            waiting += self._records(operation, None, path, itemgetter("Id"), ParentId=unit)
        return tuple(sorted(found))


def _active(account: Mapping[str, str]) -> str | None:
    # AWS retires Status, and answers State instead.
    return account["Id"] if account.get("State", account.get("Status")) == "ACTIVE" else None
