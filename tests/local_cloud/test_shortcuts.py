"""Answers that the engine keeps from request to request are never out of date."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.engine.cloud import ACCOUNT, REGION, LocalCloud

pytestmark = pytest.mark.integration
ROLE = "shortcuts"
QUEUE = f"arn:aws:sqs:{REGION}:{ACCOUNT}:shortcuts"


@pytest.fixture
def client_of_role(enforcing: LocalCloud) -> Iterator[Callable[[str], Any]]:
    """Clients in a session of a role that has no policy yet."""
    iam, sts = enforcing.client("iam"), enforcing.client("sts")
    trust = policy("Allow", "sts:AssumeRole", Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:root"})
    role = iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=trust)["Role"]
    given = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="probe")["Credentials"]

    def client(service: str) -> Any:
        return boto3.client(
            service,  # type: ignore[call-overload]
            region_name=REGION,
            endpoint_url=enforcing.endpoint_url,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )

    yield client
    for name in iam.list_role_policies(RoleName=ROLE)["PolicyNames"]:
        iam.delete_role_policy(RoleName=ROLE, PolicyName=name)
    iam.delete_role(RoleName=ROLE)


def policy(effect: str, action: str, **more: Any) -> str:
    """Return a policy of one statement. A role's policies name a resource, a trust none."""
    statement = {"Effect": effect, "Action": action, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def is_allowed(call: Callable[[], object]) -> bool:
    """Return whether IAM lets a call through."""
    try:
        call()
    except ClientError as error:
        if "AccessDenied" not in error.response["Error"]["Code"]:
            raise
        return False
    return True


def test_a_roles_policy_holds_as_soon_as_it_changes(
    enforcing: LocalCloud, client_of_role: Callable[[str], Any]
) -> None:
    """None, one that allows, one that denies, the first one again, none."""
    iam, tables = enforcing.client("iam"), client_of_role("dynamodb")
    found = [is_allowed(tables.list_tables)]
    for effect in ("Allow", "Deny", "Allow"):
        document = policy(effect, "dynamodb:ListTables", Resource="*")
        iam.put_role_policy(RoleName=ROLE, PolicyName="tables", PolicyDocument=document)
        found.append(is_allowed(tables.list_tables))
    iam.delete_role_policy(RoleName=ROLE, PolicyName="tables")
    found.append(is_allowed(tables.list_tables))

    assert found == [False, True, False, True, False]


def test_a_queues_policy_knows_its_caller_and_holds_as_soon_as_it_changes(
    enforcing: LocalCloud, client_of_role: Callable[[str], Any]
) -> None:
    """A denial for the role's sessions, for somebody else's, and none."""
    owner, queues = enforcing.client("sqs"), client_of_role("sqs")
    url = owner.create_queue(QueueName="shortcuts")["QueueUrl"]
    enforcing.client("iam").put_role_policy(
        RoleName=ROLE, PolicyName="queues", PolicyDocument=policy("Allow", "sqs:*", Resource="*")
    )
    found = []
    for role in (ROLE, "another", ROLE):
        denied = policy(
            "Deny",
            "sqs:SendMessage",
            Resource=QUEUE,
            Principal={"AWS": f"arn:aws:iam::{ACCOUNT}:role/{role}"},
        )
        owner.set_queue_attributes(QueueUrl=url, Attributes={"Policy": denied})
        found.append(is_allowed(lambda: queues.send_message(QueueUrl=url, MessageBody="text")))
    owner.delete_queue(QueueUrl=url)

    assert found == [False, True, False]


def test_a_condition_is_refused_each_time_it_is_wrong(bare_cloud: LocalCloud) -> None:
    """A right one that was kept changes nothing about it."""
    tables = bare_cloud.client("dynamodb")
    tables.create_table(
        TableName="shortcuts",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )

    def put(condition: str) -> None:
        item = {"pk": {"S": "1"}}
        tables.put_item(TableName="shortcuts", Item=item, ConditionExpression=condition)

    put("attribute_not_exists(pk)")
    for _ in range(2):
        with pytest.raises(ClientError, match="ConditionalCheckFailed"):
            put("attribute_not_exists(pk)")
        with pytest.raises(ClientError, match="Syntax error"):
            put("attribute_exists(pk) AND")
    tables.delete_table(TableName="shortcuts")


@pytest.mark.parametrize(
    ("service", "operation", "content_type"),
    [
        ("dynamodb", "list_tables", "application/x-amz-json-1.0"),
        ("stepfunctions", "list_state_machines", "application/x-amz-json-1.0"),
        ("events", "list_rules", "application/x-amz-json-1.1"),
        ("lambda", "list_functions", "application/json"),
        ("sns", "list_topics", "text/xml"),
        ("s3", "list_buckets", "application/xml"),
    ],
)
def test_an_answer_has_the_content_type_of_its_services_protocol(
    bare_cloud: LocalCloud, service: str, operation: str, content_type: str
) -> None:
    """As botocore describes the service."""
    answer = getattr(bare_cloud.client(service), operation)()

    assert answer["ResponseMetadata"]["HTTPHeaders"]["content-type"] == content_type
