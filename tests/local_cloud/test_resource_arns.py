"""IAM limits calls of SageMaker and EKS to the resources that they name, as on AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import pytest_socket
from botocore.exceptions import ClientError

from local.engine.cloud import ACCOUNT, REGION, LocalCloud

pytestmark = pytest.mark.integration

STATEMENT = {
    "Effect": "Allow",
    "Action": ["sagemaker:DescribeEndpoint", "sagemaker:ListTags", "eks:DescribeNodegroup"],
    "Resource": [
        f"arn:aws:sagemaker:*:{ACCOUNT}:endpoint/mine-*",
        f"arn:aws:eks:*:{ACCOUNT}:nodegroup/mine/*",
    ],
}


@pytest.fixture(scope="module")
def enforcing() -> Iterator[LocalCloud]:
    """An engine that enforces IAM, with nothing deployed."""
    pytest_socket.enable_socket()
    with LocalCloud(enforce_iam=True) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def key(enforcing: LocalCloud) -> dict[str, str]:
    """The key of a user who may look at some resources alone."""
    iam = enforcing.client("iam")
    iam.create_user(UserName="looker")
    document = json.dumps({"Version": "2012-10-17", "Statement": [STATEMENT]})
    iam.put_user_policy(UserName="looker", PolicyName="look", PolicyDocument=document)
    made = iam.create_access_key(UserName="looker")["AccessKey"]
    return {
        "aws_access_key_id": made["AccessKeyId"],
        "aws_secret_access_key": made["SecretAccessKey"],
    }


def refusal(cloud: LocalCloud, key: dict[str, str], service: str, call: str, **asked: Any) -> str:
    """Return the code of the error of a call about a thing that does not exist."""
    url = cloud.client(service).meta.endpoint_url
    make: Any = boto3.client
    client = make(service, region_name=REGION, endpoint_url=url, **key)
    with pytest.raises(ClientError) as error:
        getattr(client, call)(**asked)
    return str(error.value.response["Error"]["Code"])


@pytest.mark.parametrize(
    ("service", "call", "own", "other"),
    [
        (
            "sagemaker",
            "describe_endpoint",
            {"EndpointName": "mine-1"},
            {"EndpointName": "yours-1"},
        ),
        (
            "eks",
            "describe_nodegroup",
            {"clusterName": "mine", "nodegroupName": "gpus"},
            {"clusterName": "yours", "nodegroupName": "gpus"},
        ),
    ],
)
def test_a_call_is_allowed_for_the_named_resources_alone(
    enforcing: LocalCloud,
    key: dict[str, str],
    service: str,
    call: str,
    own: dict[str, str],
    other: dict[str, str],
) -> None:
    """An allowed call reaches the service, which does not know the resource."""
    assert "AccessDenied" in refusal(enforcing, key, service, call, **other)
    assert "AccessDenied" not in refusal(enforcing, key, service, call, **own)
