"""AWS Batch's facts about a compute environment: its minimum, its queues' jobs, its tags."""

from __future__ import annotations

from typing import Any

import pytest

from governor.aws.managing import AwsBatch
from governor.core.errors import AccessDenied, CloudError
from governor.sweep.model import BatchEnvironment
from tests.builders import NOW
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.aws.state_samples import TARGET

ARN = "arn:aws:batch:us-east-1:111122223333:compute-environment/train-gpu"
CLUSTER = "arn:aws:ecs:us-east-1:111122223333:cluster/train-gpu"
ENVIRONMENT = {
    "computeEnvironmentName": "train-gpu",
    "computeEnvironmentArn": ARN,
    "computeResources": {"minvCpus": 16, "desiredvCpus": 32, "maxvCpus": 256},
    "tags": {"Owner": "ada"},
    "ecsClusterArn": CLUSTER,
}


def queue(name: str, *environments: str) -> dict[str, Any]:
    """A queue that sends its jobs to these."""
    orders = [{"order": n, "computeEnvironment": arn} for n, arn in enumerate(environments)]
    return {"jobQueueArn": name, "computeEnvironmentOrder": orders}


def jobs_by_state(jobQueue: str, jobStatus: str, maxResults: int) -> dict[str, Any]:
    """In one queue three jobs wait, one of them for another, and one runs; the other is empty."""
    assert 100 == maxResults
    numbers = {("fast", "RUNNABLE"): 2, ("fast", "PENDING"): 1, ("fast", "RUNNING"): 1}
    number = numbers.get((jobQueue, jobStatus), 0)
    return {"jobSummaryList": [{"jobId": str(n)} for n in range(number)]}


def test_jobs_of_all_its_queues_are_counted() -> None:
    """Queues come by pages; those of other environments are not looked at."""
    client = ScriptedClient(
        describe_compute_environments={"computeEnvironments": [ENVIRONMENT]},
        describe_job_queues=[
            {
                "jobQueues": [queue("fast", "arn:other", ARN), queue("foreign", "arn:other")],
                "nextToken": "2",
            },
            {"jobQueues": [queue("slow", ARN)]},
        ],
        list_jobs=jobs_by_state,
    )
    clients = FakeClients(client)

    found = AwsBatch(clients).environment(TARGET, "train-gpu", NOW)

    expected = BatchEnvironment(
        "train-gpu", 16, 32, 3, 1, {"Owner": "ada"}, 1, CLUSTER, jobs_perhaps_elsewhere=1
    )
    assert expected == found
    assert {"fast", "slow"} == {p["jobQueue"] for name, p in client.calls if name == "list_jobs"}
    assert [("batch", TARGET, True)] == clients.asked


def test_an_environment_on_eks_names_its_cluster_and_namespace() -> None:
    """It has no cluster of ECS."""
    bare = {
        "computeEnvironmentName": "pods",
        "computeEnvironmentArn": ARN,
        "ecsClusterArn": "",
        "eksConfiguration": {"eksClusterArn": "arn:eks/prod", "kubernetesNamespace": "train"},
    }
    client = ScriptedClient(
        describe_compute_environments={"computeEnvironments": [bare]},
        describe_job_queues={"jobQueues": []},
    )

    found = AwsBatch(FakeClients(client)).environment(TARGET, "pods", NOW)

    assert found is not None
    assert ("", "arn:eks/prod", "train") == (
        found.ecs_cluster,
        found.eks_cluster,
        found.eks_namespace,
    )


def test_running_jobs_of_a_queue_without_another_environment_run_here() -> None:
    """Three run in a queue of its own, two in one that it shares."""

    def page(jobQueue: str, jobStatus: str, maxResults: int) -> dict[str, Any]:
        """Return jobs that run, and no others."""
        numbers = {("own", "RUNNING"): 3, ("shared", "STARTING"): 2}
        number = numbers.get((jobQueue, jobStatus), 0)
        return {"jobSummaryList": [{"jobId": str(n)} for n in range(number)]}

    client = ScriptedClient(
        describe_compute_environments={"computeEnvironments": [ENVIRONMENT]},
        describe_job_queues={"jobQueues": [queue("own", ARN), queue("shared", "arn:other", ARN)]},
        list_jobs=page,
    )

    found = AwsBatch(FakeClients(client)).environment(TARGET, "train-gpu", NOW)

    assert found is not None
    assert (5, 2) == (found.jobs_running, found.jobs_perhaps_elsewhere)


@pytest.mark.parametrize(
    ("ages", "is_stuck"),
    [
        ([0], False),
        ([5, 899], False),
        ([900], True),
        ([5, 900], True),
        ([86_400], True),
        ([], False),
        ([None], True),
    ],
)
def test_jobs_that_were_only_just_submitted_are_not_stuck(
    ages: list[int | None], is_stuck: bool
) -> None:
    """Every job is RUNNABLE for seconds. Batch then needs some minutes to place it."""

    def page(jobQueue: str, jobStatus: str, maxResults: int) -> dict[str, Any]:
        """Return runnable jobs of these ages in seconds, and no others."""
        jobs: list[dict[str, Any]] = []
        for age in ages if jobStatus == "RUNNABLE" else []:
            created = {} if age is None else {"createdAt": int((NOW.timestamp() - age) * 1000)}
            jobs.append({"jobId": "job", **created})
        return {"jobSummaryList": jobs}

    client = ScriptedClient(
        describe_compute_environments={"computeEnvironments": [ENVIRONMENT]},
        describe_job_queues={"jobQueues": [queue("fast", ARN)]},
        list_jobs=page,
    )

    found = AwsBatch(FakeClients(client)).environment(TARGET, "train-gpu", NOW)

    assert found is not None
    assert (len(ages), is_stuck) == (found.jobs_waiting, found.has_stuck_jobs)


@pytest.mark.parametrize("state", ["PENDING", "RUNNABLE", "RUNNING"])
@pytest.mark.parametrize("has_more", [False, True])
def test_more_jobs_than_were_counted_are_known(state: str, has_more: bool) -> None:
    """Exactly 100 jobs are not 100 or more."""

    def page(jobQueue: str, jobStatus: str, maxResults: int) -> dict[str, Any]:
        """Return a full page of one state."""
        if jobStatus != state:
            return {"jobSummaryList": []}
        jobs = [{"jobId": str(n)} for n in range(maxResults)]
        return {"jobSummaryList": jobs, **({"nextToken": "2"} if has_more else {})}

    client = ScriptedClient(
        describe_compute_environments={"computeEnvironments": [ENVIRONMENT]},
        describe_job_queues={"jobQueues": [queue("fast", ARN)]},
        list_jobs=page,
    )

    found = AwsBatch(FakeClients(client)).environment(TARGET, "train-gpu", NOW)

    assert found is not None
    assert 100 == found.jobs_running + found.jobs_waiting
    assert (has_more and state == "RUNNING") == found.has_more_running
    assert (has_more and state != "RUNNING") == found.has_more_waiting


def test_an_environment_that_is_gone_is_none() -> None:
    """Its instances may outlive it by minutes."""
    client = ScriptedClient(describe_compute_environments={"computeEnvironments": []})

    assert AwsBatch(FakeClients(client)).environment(TARGET, "train-gpu", NOW) is None


def test_an_unmanaged_environment_has_no_minimum() -> None:
    """Batch describes no resources of it."""
    bare = {"computeEnvironmentName": "own", "computeEnvironmentArn": ARN}
    client = ScriptedClient(
        describe_compute_environments={"computeEnvironments": [bare]},
        describe_job_queues={"jobQueues": []},
    )

    assert BatchEnvironment("own", 0, 0, 0, 0, {}) == AwsBatch(FakeClients(client)).environment(
        TARGET, "own", NOW
    )


def test_a_refusal_is_translated() -> None:
    """It names the call."""
    client = ScriptedClient(describe_compute_environments=client_error("AccessDeniedException"))

    with pytest.raises(AccessDenied) as refused:
        AwsBatch(FakeClients(client)).environment(TARGET, "train-gpu", NOW)
    assert "batch:DescribeComputeEnvironments" == refused.value.operation


def test_an_odd_queue_sinks_no_other_and_an_answer_without_its_list_has_failed() -> None:
    """Also where the environment itself cannot be read: the message about it says so."""
    odd, whole = {"computeEnvironmentOrder": [{"computeEnvironment": ARN}]}, queue("fast", ARN)
    scripts: list[dict[str, Any]] = [
        {"describe_compute_environments": {"computeEnvironments": [ENVIRONMENT]}},
        {"describe_compute_environments": {"computeEnvironments": [{"tags": {}}]}},
        {"describe_compute_environments": {}},
    ]
    rest: dict[str, Any] = {
        "describe_job_queues": {"jobQueues": [odd, whole]},
        "list_jobs": jobs_by_state,
    }
    readers = [AwsBatch(FakeClients(ScriptedClient(**one, **rest))) for one in scripts]

    found = readers[0].environment(TARGET, "train-gpu", NOW)
    assert found is not None
    assert (3, 1) == (found.jobs_waiting, found.jobs_running)
    for one in readers[1:]:
        with pytest.raises(CloudError, match="gave a record that cannot be read"):
            one.environment(TARGET, "train-gpu", NOW)
