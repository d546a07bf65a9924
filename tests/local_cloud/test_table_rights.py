"""IAM holds for a table as on AWS: policies of the table itself, partitions, and attributes of an
item."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from local.engine.cloud import ACCOUNT, REGION, LocalCloud

pytestmark = pytest.mark.integration

ANYBODY = f"arn:aws:iam::{ACCOUNT}:root"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"AWS": ANYBODY}, "Action": "sts:AssumeRole"}],
}
WRITER = f"arn:aws:iam::{ACCOUNT}:role/probe/*"
ONLY_WRITERS = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Deny",
            "Principal": "*",
            "Action": [
                "dynamodb:PutItem",
                "dynamodb:UpdateItem",
                "dynamodb:DeleteItem",
                "dynamodb:BatchWriteItem",
            ],
            "Resource": "*",
            "Condition": {"ArnNotLike": {"aws:PrincipalArn": [WRITER]}},
        }
    ],
}
PROPERTIES: dict[str, Any] = {
    "BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
    "KeySchema": [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ],
}
QUESTION = {"pk": {"S": "APPROVAL#1"}, "sk": {"S": "REQUEST"}}


@pytest.fixture
def deploy(
    enforcing: LocalCloud, tmp_path: Path, request: pytest.FixtureRequest
) -> Callable[..., str]:
    """Create or update a stack of one table, with this policy or none; return the table's name."""
    stack = request.node.name.replace("_", "-")
    made: list[str] = []

    def deployed(policy: dict[str, Any] | None) -> str:
        properties = dict(PROPERTIES)
        if policy is not None:
            properties["ResourcePolicy"] = {"PolicyDocument": policy}
        template = {
            "Parameters": {},
            "Resources": {"Table": {"Type": "AWS::DynamoDB::Table", "Properties": properties}},
            "Outputs": {"Name": {"Value": {"Ref": "Table"}}},
        }
        path = tmp_path / "template.json"
        path.write_text(json.dumps(template))
        outputs = enforcing.update(path, stack) if made else enforcing.deploy(path, stack, {})
        made.append(stack)
        return outputs["Name"]

    return deployed


@pytest.fixture
def as_role(enforcing: LocalCloud) -> Iterator[Callable[..., Any]]:
    """A client of DynamoDB in the session of a new role with this path and statement."""
    iam, sts = enforcing.client("iam"), enforcing.client("sts")
    made: list[str] = []

    def session(path: str = "/", **condition: Any) -> Any:
        name = f"role-{len(made)}"
        made.append(name)
        allowed: dict[str, Any] = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}
        if condition:
            allowed["Condition"] = condition
        document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        role = iam.create_role(
            RoleName=name, Path=path, AssumeRolePolicyDocument=json.dumps(TRUST)
        )["Role"]
        iam.put_role_policy(RoleName=name, PolicyName="all", PolicyDocument=document)
        given = sts.assume_role(RoleArn=role["Arn"], RoleSessionName="probe")["Credentials"]
        return boto3.client(
            "dynamodb",
            region_name=REGION,
            endpoint_url=enforcing.endpoint_url,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )

    yield session
    for name in made:
        iam.delete_role_policy(RoleName=name, PolicyName="all")
        iam.delete_role(RoleName=name)


def writes(client: Any, table: str) -> tuple[Callable[[], Any], ...]:
    """Every way to write an item that the engine knows, a transaction among them."""
    update = {
        "TableName": table,
        "Key": QUESTION,
        "UpdateExpression": "SET a = :a",
        "ExpressionAttributeValues": {":a": {"S": "a"}},
    }
    return (
        lambda: client.put_item(TableName=table, Item=QUESTION),
        lambda: client.update_item(**update),
        lambda: client.transact_write_items(TransactItems=[{"Update": update}]),
        lambda: client.batch_write_item(RequestItems={table: [{"PutRequest": {"Item": QUESTION}}]}),
        lambda: client.delete_item(TableName=table, Key=QUESTION),
    )


def test_a_denial_in_a_tables_policy_holds_whatever_a_role_may(
    deploy: Callable[..., str], as_role: Callable[..., Any]
) -> None:
    """Its own policy allows all; a role of the path that the table names writes, and everybody
    reads."""
    table = deploy(ONLY_WRITERS)
    named, other, alike = as_role("/probe/"), as_role(), as_role("/another/probe/")

    for write in writes(named, table):
        write()
    for client in (other, alike):
        assert "Item" not in client.get_item(TableName=table, Key=QUESTION)
        for write in writes(client, table):
            with pytest.raises(ClientError, match=r"AccessDenied.*explicit deny"):
                write()


def test_a_stack_gives_a_table_its_policy_and_takes_it_off(
    deploy: Callable[..., str], as_role: Callable[..., Any], enforcing: LocalCloud
) -> None:
    """By an update of the stack, the table's items stay."""
    other = as_role()
    table = deploy(None)
    other.put_item(TableName=table, Item=QUESTION)

    assert table == deploy(ONLY_WRITERS)
    with pytest.raises(ClientError, match="AccessDenied"):
        other.put_item(TableName=table, Item=QUESTION)
    assert QUESTION == other.get_item(TableName=table, Key=QUESTION)["Item"]

    assert table == deploy(None)
    other.put_item(TableName=table, Item=QUESTION)


def test_attributes_that_a_write_sets_or_compares_are_a_condition(
    deploy: Callable[..., str], as_role: Callable[..., Any]
) -> None:
    """An update, a whole item, a member of a transaction or a batch; the first part of a path; the
    keys."""
    table = deploy(None)
    narrow = as_role(
        **{
            "ForAllValues:StringEquals": {"dynamodb:Attributes": ["pk", "sk", "status", "steps"]},
            "Null": {"dynamodb:Attributes": "false"},
        }
    )
    update = {"TableName": table, "Key": QUESTION, "ExpressionAttributeValues": {":a": {"S": "a"}}}

    narrow.put_item(
        TableName=table, Item={**QUESTION, "status": {"S": "PENDING"}, "steps": {"M": {}}}
    )
    named = {"#status": "status", "#d": "decision"}
    narrow.update_item(
        **update,
        UpdateExpression="SET #status = :a",
        ConditionExpression="attribute_exists(pk) AND #status <> :a",
        ExpressionAttributeNames={"#status": "status"},
    )
    narrow.update_item(**update, UpdateExpression="SET steps.stop = :a")
    refused: tuple[Callable[[], Any], ...] = (
        lambda: narrow.put_item(TableName=table, Item={**QUESTION, "decision": {"S": "yes"}}),
        lambda: narrow.update_item(**update, UpdateExpression="SET decision = :a"),
        lambda: narrow.update_item(
            **update, UpdateExpression="SET #status = :a, #d = :a", ExpressionAttributeNames=named
        ),
        lambda: narrow.update_item(
            **update, UpdateExpression="SET steps.stop = :a", ConditionExpression="decision = :a"
        ),
        lambda: narrow.update_item(
            TableName=table, Key=QUESTION, UpdateExpression="REMOVE decision"
        ),
        lambda: narrow.transact_write_items(
            TransactItems=[{"Update": {**update, "UpdateExpression": "SET decision.answer = :a"}}]
        ),
        lambda: narrow.batch_write_item(
            RequestItems={table: [{"PutRequest": {"Item": {**QUESTION, "decision": {"S": "yes"}}}}]}
        ),
        lambda: narrow.scan(TableName=table),
    )
    for call in refused:
        with pytest.raises(ClientError, match="AccessDenied"):
            call()
