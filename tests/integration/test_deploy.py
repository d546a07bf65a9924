"""`make deploy` with the pinned SAM CLI against the local cloud: change sets, protection, a second
stack."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.demo.scene import TEMPLATE
from local.engine.cloud import ROOT, LocalCloud
from local.engine.templates import load_template
from scripts.deploy import SAM, Deployment
from scripts.deploy_parameters import DeployError

pytestmark = pytest.mark.skipif(not SAM.exists(), reason="SAM CLI is not installed: make env-sam")
KEPT = (
    "StateTable",
    "PolicyBucket",
    "PolicyParameter",
    "Key",
    "AlertTopic",
    "AlertEmailSubscription",
)
Deploy = Callable[..., str]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCloud]:
    """An engine of its own, which everything in this process finds."""
    with LocalCloud() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The settings of SAM CLI, and the template with its parameters and what holds data: little, so
    quick."""
    document = load_template(TEMPLATE)
    document["Resources"] = {name: document["Resources"][name] for name in KEPT}
    document["Outputs"] = {"PolicyBucketName": document["Outputs"]["PolicyBucketName"]}
    del document["Globals"], document["Metadata"]
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "template.yaml").write_text(json.dumps(document))
    (folder / "samconfig.toml").symlink_to(ROOT / "samconfig.toml")
    return folder


@pytest.fixture
def deploy(cloud: LocalCloud, checkout: Path) -> Deploy:
    """`make deploy` without its build; returns what SAM CLI prints."""

    def run_it(**given: str) -> str:
        printed: list[str] = []

        def run(command: list[str], **_: bool) -> int:
            if command[:2] != [str(SAM), "deploy"]:
                return 0
            environment = {
                "PATH": os.environ["PATH"],
                "HOME": str(checkout.parent),
                **cloud.environment(),
            }
            done = subprocess.run(
                command,
                cwd=checkout,
                env={**environment, "SAM_CLI_TELEMETRY": "0"},
                capture_output=True,
                text=True,
                check=False,
            )
            printed.append(done.stdout + done.stderr)
            return done.returncode

        Deployment({"YES": "1", "REGION": "us-east-1", **given}, run=run)()
        return "\n".join(printed)

    return run_it


def stacks(cloud: LocalCloud) -> dict[str, dict[str, Any]]:
    """By their names, but for the one with SAM's own bucket."""
    every = cloud.client("cloudformation").describe_stacks()["Stacks"]
    return {
        one["StackName"]: one for one in every if one["StackName"] != "aws-sam-cli-managed-default"
    }


def parameters(stack: dict[str, Any]) -> dict[str, str]:
    """Return a stack's parameters."""
    return {one["ParameterKey"]: one["ParameterValue"] for one in stack["Parameters"]}


def test_from_nothing_to_a_protected_stack_that_no_second_one_joins(
    cloud: LocalCloud, checkout: Path, deploy: Deploy, tmp_path: Path
) -> None:
    """Each change set is shown; parameters that are not named keep their values; no file is
    written."""
    before = sorted(checkout.iterdir())
    policy = tmp_path / "policy.yaml"
    policy.write_text('targets: {regions: ["us-east-1"]} # "all" of them\n')
    printed = deploy(MODE="ask", POLICY=str(policy), PARAMETERS="LogRetentionDays=365")

    assert re.search(r"\+ Add +StateTable", printed)
    assert re.search(r"\* Modify +StateTable", printed)
    (stack,) = stacks(cloud).values()
    expected = {"Mode": "ask", "PolicyYaml": policy.read_text(), "LogRetentionDays": "365"}
    assert {**expected, "DeletionProtection": "true"}.items() <= parameters(stack).items()
    (table,) = cloud.client("dynamodb").list_tables()["TableNames"]
    found = cloud.client("dynamodb").describe_table(TableName=table)["Table"]
    assert str(found["DeletionProtectionEnabled"]).lower() == "true"
    assert before == sorted(checkout.iterdir())

    with pytest.raises(DeployError, match="the stack gpu-governor governs the instances"):
        deploy(STACK="gpu-governor-prod")
    assert ["gpu-governor"] == list(stacks(cloud))

    cloud.client("logs").create_log_group(logGroupName="/aws/lambda/other/put_away")
    with pytest.raises(DeployError, match="has left /aws/lambda/other/put_away"):
        deploy(STACK="other", SELECTOR="Other")
    assert ["gpu-governor"] == list(stacks(cloud))

    deploy(ALERT_EMAIL="ops@example.com")
    changed = parameters(stacks(cloud)["gpu-governor"])
    assert {**parameters(stack), "AlertEmail": "ops@example.com"} == changed


def test_a_deploy_leaves_a_stored_policy_alone(
    cloud: LocalCloud, checkout: Path, deploy: Deploy
) -> None:
    """And says which command changes it."""
    bucket = cloud.deploy(checkout / "template.yaml", "gpu-governor", {"Mode": "ask"})[
        "PolicyBucketName"
    ]
    cloud.client("s3").put_object(Bucket=bucket, Key="policy.yaml", Body=b"mode: ask\n")

    with pytest.raises(
        DeployError, match="use bin/governor mode observe --region us-east-1, without a deploy"
    ):
        deploy(MODE="observe")
    deploy(ALERT_EMAIL="ops@example.com")
    assert (
        b"mode: ask\n"
        == cloud.client("s3").get_object(Bucket=bucket, Key="policy.yaml")["Body"].read()
    )
    assert "ask" == parameters(stacks(cloud)["gpu-governor"])["Mode"]
