"""Reads AWS Batch and the accounts of organizational units, and completes lifecycle hooks of Auto
Scaling groups.

Of AWS Batch it reads what keeps the instances of a compute environment, and whether jobs wait for
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from operator import itemgetter
from typing import Any, NamedTuple

from governor.aws.clients import Adapter
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.units import UtcDatetime
from governor.events.model.interruption import LifecycleAction
from governor.sweep.model import BatchEnvironment

_PENDING = ("SUBMITTED", "PENDING")
_RUNNABLE = ("RUNNABLE",)
_RUNNING = ("STARTING", "RUNNING")
_PLACED_WITHIN = timedelta(minutes=15)
"""Batch may need minutes to place a runnable job, as it launches an instance first."""
_JOBS_OF_A_PAGE = 100
"""Only one page is read: more jobs make no difference."""
_OVER = "No active Lifecycle Action found"
"""The start of the message when an action is over; its code is that of any validation. Source:
AWS's answers in spacelift-io/terraform-aws-spacelift-workerpool-on-ec2 #197."""


class _JobCount(NamedTuple):
    """How many jobs were counted, and whether there are more."""

    number: int
    has_more: bool
    new: int = 0
    """The part of `number` that was submitted after the time asked for."""


class _Queue(NamedTuple):
    """A job queue that uses a compute environment."""

    arn: str
    is_shared: bool
    """True if it also uses another environment."""


class AwsBatch(Adapter):
    """Fulfils `governor.sweep.sweep_alerts.BatchReader`."""

    def environment(self, target: Target, name: str, now: UtcDatetime) -> BatchEnvironment | None:
        """Return the compute environment with its jobs, of which each count ends at 100 for each
        queue and state; `None` if Batch does not know it. Runnable jobs that were submitted less
        than 15 minutes before `now` count as pending: Batch may still place them. Raises:
        CloudError, also if its record cannot be read."""
        placed_until = now - _PLACED_WITHIN

        def read(record: Mapping[str, Any]) -> BatchEnvironment:
            """Return the environment of a record; its queues and jobs are asked for. Raises:
            KeyError if the record lacks a field; CloudError."""
            resources = record.get("computeResources") or {}
            queues = self._queues(target, record["computeEnvironmentArn"])
            arns = [queue.arn for queue in queues]
            own_arns = [queue.arn for queue in queues if not queue.is_shared]
            shared_arns = [queue.arn for queue in queues if queue.is_shared]
            pending = self._jobs(target, arns, _PENDING)
            runnable = self._jobs(target, arns, _RUNNABLE, created_after=placed_until)
            running = self._jobs(target, own_arns, _RUNNING)
            # Batch lists the jobs of a queue, and not where they run. To ask for each job would
            # show its environment variables, which may hold secrets.
            perhaps_elsewhere = self._jobs(target, shared_arns, _RUNNING)
            jobs_waiting = pending.number + runnable.number
            has_more_waiting = pending.has_more or runnable.has_more
            on_eks = record.get("eksConfiguration") or {}
            eks_cluster = on_eks.get("eksClusterArn") or ""
            eks_namespace = on_eks.get("kubernetesNamespace") or ""
            return BatchEnvironment(
                name=record["computeEnvironmentName"],
                minimum_vcpus=resources.get("minvCpus", 0),
                desired_vcpus=resources.get("desiredvCpus", 0),
                jobs_waiting=jobs_waiting,
                jobs_running=running.number + perhaps_elsewhere.number,
                tags=record.get("tags") or {},
                jobs_pending=pending.number + runnable.new,
                ecs_cluster=record.get("ecsClusterArn") or "",
                eks_cluster=eks_cluster,
                eks_namespace=eks_namespace,
                has_more_waiting=has_more_waiting,
                has_more_running=running.has_more or perhaps_elsewhere.has_more,
                jobs_perhaps_elsewhere=perhaps_elsewhere.number,
            )

        operation = "batch:DescribeComputeEnvironments"
        path = ("computeEnvironments",)
        environments = self._records(operation, target, path, read, computeEnvironments=[name])
        return next(environments, None)

    def _queues(self, target: Target, environment_arn: str) -> list[_Queue]:
        """Return the job queues that use the compute environment; empty if none does. Raises:
        CloudError."""

        def queue_if_using(queue: Mapping[str, Any]) -> _Queue | None:
            """Return the queue; `None` if it does not use the environment. Raises: KeyError if the
            record lacks a field."""
            orders = queue.get("computeEnvironmentOrder") or ()
            environments = {order["computeEnvironment"] for order in orders}
            if environment_arn not in environments:
                return None
            return _Queue(str(queue["jobQueueArn"]), is_shared=len(environments) > 1)

        operation = "batch:DescribeJobQueues"
        queues = self._records(
            operation, target, ("jobQueues",), queue_if_using, following="nextToken"
        )
        return list(queues)

    def _jobs(
        self,
        target: Target,
        queues: list[str],
        states: tuple[str, ...],
        created_after: UtcDatetime | None = None,
    ) -> _JobCount:
        """Return how many jobs of the queues are in these states, at most 100 for each queue and
        state, and how many of them were submitted after the time `created_after`; 0 without that
        time. Raises: CloudError."""
        pages = [*self._job_pages(target, queues, states)]
        jobs = [*self._records("batch:ListJobs", target, ("jobSummaryList",), dict, answers=pages)]
        new = 0
        if created_after is not None:
            # A job without a time counts as an old one. Batch counts in milliseconds.
            limit = created_after.timestamp() * 1000
            new = sum(job.get("createdAt", 0) > limit for job in jobs)
        has_more = any(page.get("nextToken") for page in pages)
        return _JobCount(len(jobs), has_more, new)

    def _job_pages(
        self, target: Target, queues: list[str], states: tuple[str, ...]
    ) -> Iterator[Any]:
        """Yield the first page of jobs (100) for each queue and state. Raises: CloudError."""
        for queue in queues:
            for state in states:
                parameters: Any = {"jobStatus": state, "maxResults": _JOBS_OF_A_PAGE}
                yield self._call("batch:ListJobs", target, jobQueue=queue, **parameters)


class AutoScalingHooks(Adapter):
    """Fulfils `governor.events.respond_to_warnings.LifecycleHooks`."""

    def heartbeat(self, target: Target, group: str, hook: str) -> timedelta | None:
        """Return how long a lifecycle hook of an Auto Scaling group waits; `None` if the group has
        no such hook, or its record does not say. Raises: CloudError.

        The request is sent once: the answer is only a help, and an instance may have only two
        minutes left.
        """
        names: Any = {"AutoScalingGroupName": group, "LifecycleHookNames": [hook]}
        answer = self._call("autoscaling:DescribeLifecycleHooks", target, repeat=False, **names)
        for record in answer.get("LifecycleHooks", ()):
            if record.get("LifecycleHookName") == hook and "HeartbeatTimeout" in record:
                return timedelta(seconds=record["HeartbeatTimeout"])
        return None

    def complete(self, target: Target, instance_id: str, action: LifecycleAction) -> None:
        """Let Auto Scaling go on with the instance, before the hook's time is over. Do nothing if
        the action is over already. Raises: CloudError."""
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
    """Reads accounts of AWS Organizations. It works in the management account, or in one that
    administers a service for it."""

    def accounts(self, units: Collection[str], without: Collection[str]) -> tuple[str, ...]:
        """Return the ids of the active accounts in these organizational units and in the units
        below them, sorted; units of `without`, and units below those, are left out. Raises:
        CloudError."""
        account_ids: set[str] = set()
        seen_units = {*without}
        units_left = [*units]
        while units_left:
            unit = units_left.pop()
            if unit in seen_units:
                continue
            seen_units.add(unit)
            accounts = self._records(
                "organizations:ListAccountsForParent",
                None,
                ("Accounts",),
                _id_if_active,
                ParentId=unit,
            )
            account_ids.update(accounts)
            units_left += self._records(
                "organizations:ListOrganizationalUnitsForParent",
                None,
                ("OrganizationalUnits",),
                itemgetter("Id"),
                ParentId=unit,
            )
        return tuple(sorted(account_ids))


def _id_if_active(account: Mapping[str, str]) -> str | None:
    """Return the id of the account in a record; `None` if it is not active."""
    # AWS retires Status, and answers State instead.
    state = account.get("State", account.get("Status"))
    return account["Id"] if state == "ACTIVE" else None
