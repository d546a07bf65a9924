"""Idle instances of AWS Batch: told to their owner with what Batch itself says, on the local
cloud."""

from __future__ import annotations

from tests.integration.stage import Stage

ENVIRONMENT = "train-gpu"


def create_environment(stage: Stage, minimum: int) -> None:
    """A compute environment without any queue, and the role that it names."""
    role = stage.scene.cloud.client("iam").create_role(
        RoleName="batch", AssumeRolePolicyDocument="{}"
    )
    stage.scene.cloud.client("batch").create_compute_environment(
        computeEnvironmentName=ENVIRONMENT,
        type="MANAGED",
        computeResources={
            "type": "EC2",
            "minvCpus": minimum,
            "maxvCpus": 64,
            "desiredvCpus": minimum,
            "instanceTypes": ["g5.xlarge"],
            "subnets": ["subnet-1"],
            "securityGroupIds": ["sg-1"],
            "instanceRole": "ecsInstanceRole",
        },
        serviceRole=role["Role"]["Arn"],
    )


def test_one_message_for_the_instances_of_a_compute_environment(stage: Stage) -> None:
    """With its minimum, no workflow, no tag, and no second message."""
    create_environment(stage, 4)
    tags = {
        "AWSBatchServiceTag": "batch",
        "aws:batch:compute-environment": ENVIRONMENT,
        "Owner": "ada",
    }
    ids = [
        stage.launch(name=f"worker-{n}", expected="managed-elsewhere", tags=tags) for n in (1, 2)
    ]

    summaries = [stage.scene.sweep()["results"][0]["summary"] for _ in range(2)]
    mails = stage.scene.await_mail("managed-idle")
    (mail,) = [one for one in mails if one["facts"]["environment"] == ENVIRONMENT]

    assert [0, 0] == [summary["problems"] + summary["episodes_started"] for summary in summaries]
    assert sorted(ids) == sorted(mail["facts"]["instance_ids"])
    assert "minvCpus is 4" in " ".join(mail["lines"])
    assert not set(ids) & set(stage.scene.executions())
