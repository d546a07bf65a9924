"""A stack deployed from an earlier release is updated while a question is open."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.cloud import ROOT, LocalCloud
from local.receivers import Receivers
from local.scene import STACK, TEMPLATE, deploy_scene
from tests.integration.people import decide
from tests.integration.stage import Stage

EARLIER = Path(__file__).with_name("template_2428e04.yaml.gz")
"""The template of that release; the functions and state machines in it are today's."""
SEALING = {
    "        LOG_LEVEL: INFO\n": """        LOG_LEVEL: INFO
        ALERT_KEY_ARN: !GetAtt AlertKey.Arn
        ALARM_TOPIC_ARN: !Ref AlertTopic
        ALERT_TOPIC_ARN: !Ref AlertTopic
        TABLE_NAME: !Ref StateTable
        POLICY_BUCKET: there-is-none-yet
""",
    "\nResources:\n": """
Resources:
  AlertKey:
    Type: AWS::KMS::Key
    Properties: { KeySpec: HMAC_256, KeyUsage: GENERATE_VERIFY_MAC }
""",
    "            - Sid: Announce\n": """            - Sid: Seal
              Effect: Allow
              Action: [kms:GenerateMac, sns:GetSubscriptionAttributes]
              Resource: "*"
            - Sid: Announce
""",
    **{
        f"  {function}Logs:\n": f"""            - Sid: InForce
              Effect: Allow
              Action: dynamodb:GetItem
              Resource: !GetAtt StateTable.Arn
  {function}Logs:
"""
        for function in ("PlanSweep", "SumUpMonth", "CheckHealth")
    },
}
"""What today's functions need beside: the key of alerts, a look at whom a subscription is for, and at the
version of the policy that is in force."""
READER = (
    "ownership: {contacts: {reader: {emails: [reader@example.com, alice@example.com]}}, "
    "default_contacts: [reader]}"
)


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Stage]:
    """A stack of the earlier template, in an engine of its own that enforces IAM."""
    template = tmp_path / "template.yaml"
    text = gzip.decompress(EARLIER.read_bytes()).decode()
    for found, needed in SEALING.items():
        text = text.replace(found, needed)
    template.write_text(text)
    for folder in ("functions", "layers", "statemachines"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    with (
        Receivers() as receivers,
        LocalCloud(wait_scale=0.05, enforce_iam=True, trust=receivers.certificate) as cloud,
    ):
        before = dict(os.environ)
        os.environ.update(cloud.environment())
        try:
            scene = deploy_scene(cloud, receivers, mode="ask", policy=READER, template=template)
            scene.subscribe_a_person()
            yield Stage(scene)
        finally:
            os.environ.clear()
            os.environ.update(before)


def resources(cloud: LocalCloud) -> dict[str, str]:
    """The physical id of every resource of the stack, by its logical id."""
    pages = cloud.client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK)
    return {
        one["LogicalResourceId"]: one["PhysicalResourceId"]
        for page in pages
        for one in page["StackResourceSummaries"]
    }


def test_an_update_replaces_nothing_and_a_question_asked_before_is_answered_after(earlier: Stage) -> None:
    """Every resource keeps its physical id; link, task token and episode of the question still work."""
    cloud = earlier.scene.cloud
    instance_id, link = earlier.ask()
    before = resources(cloud)

    outputs = cloud.update(TEMPLATE, STACK)

    after = resources(cloud)
    assert {name: after.get(name) for name in before} == before
    assert earlier.scene.outputs.items() <= outputs.items()
    assert 303 == decide(earlier.personal(link), "approve")[0]
    assert "stopped" == earlier.outcome(instance_id)

    # The parameter counts on, until a first version of the policy is stored; every role may read that.
    earlier.scene.sweep()
    assert earlier.state.version_in_force() is None
    version = cloud.client("s3").put_object(
        Bucket=outputs["PolicyBucketName"], Key="policy.yaml", Body=f"mode: ask\n{READER}\n".encode()
    )["VersionId"]
    earlier.eventually(
        lambda: earlier.state.version_in_force() == version or None, "the first version is not in force"
    )
    next_id, _ = earlier.ask()
    assert "ask" == earlier.episode(next_id).mode.value
