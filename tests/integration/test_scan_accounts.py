"""`governor scan` of an organization on the local cloud, by somebody who has the printed policy.

IAM is enforced, and the role in the other account is an administrator's.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import pytest_socket
from botocore.exceptions import ClientError

from governor.scan.registry import KINDS
from governor.scan.rights import policy_to_attach, session_policy
from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud

ROLE = "OrganizationAccountAccessRole"
EVERYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    """A cloud that enforces IAM, with nothing deployed."""
    pytest_socket.enable_socket()
    with LocalCloud(enforce_iam=True) as cloud:
        yield cloud


@pytest.fixture(scope="module")
def root(cloud: LocalCloud) -> str:
    """Return the root of an organization of the caller's account and two others, of which one has
    the role of an administrator."""
    api = cloud.client("organizations")
    root = str(api.list_roots()["Roots"][0]["Id"])
    made = [
        api.create_account(Email=f"{name}@example.com", AccountName=name)["CreateAccountStatus"]
        for name in ("research", "stranger")
    ]
    member = made[0]["AccountId"]
    trust = {"Effect": "Allow", "Principal": {"AWS": ACCOUNT}, "Action": "sts:AssumeRole"}
    iam = cloud.client("iam", account=member)
    iam.create_role(RoleName=ROLE, AssumeRolePolicyDocument=_document(trust))
    iam.put_role_policy(RoleName=ROLE, PolicyName="all", PolicyDocument=_document(EVERYTHING))
    return root


@pytest.fixture(scope="module")
def reader(cloud: LocalCloud) -> dict[str, str]:
    """Return the environment of a user with the printed policy and no other permission."""
    iam = cloud.client("iam")
    iam.create_user(UserName="auditor")
    policy = policy_to_attach(KINDS, ROLE)
    iam.put_user_policy(UserName="auditor", PolicyName="scan", PolicyDocument=policy)
    key = iam.create_access_key(UserName="auditor")["AccessKey"]
    return {
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
    }


def test_the_printed_policy_reads_every_account_that_has_the_role(
    cloud: LocalCloud, root: str, reader: dict[str, str]
) -> None:
    """The account without the role is a line, and the report incomplete."""
    line = ["bin/governor", "scan", "--region", REGION, "--json", "--role", ROLE, "--units", root]
    environment = {**os.environ, **cloud.environment(), **reader}
    environment.pop("AWS_SESSION_TOKEN", None)
    done = subprocess.run(
        line, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert 4 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    accounts = {place["account"] for place in report["places"]}
    assert ACCOUNT in accounts
    assert 2 == len(accounts)
    (unread,) = report["not_read"]
    assert ("sts:AssumeRole", True) == (unread["operation"], unread["is_missing_right"])
    assert unread["place"] not in accounts


def test_the_session_policy_takes_every_write_from_an_administrator(
    cloud: LocalCloud, root: str
) -> None:
    """A session with it reads, and tags nothing."""
    accounts = cloud.client("organizations").list_accounts_for_parent(ParentId=root)["Accounts"]
    (member,) = [one["Id"] for one in accounts if one["Name"] == "research"]
    given = cloud.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{member}:role/{ROLE}",
        RoleSessionName="scan",
        Policy=session_policy(KINDS),
    )["Credentials"]
    ec2 = _client(cloud, "ec2", given)
    assert ec2.describe_regions()["Regions"]
    with pytest.raises(ClientError, match=r"UnauthorizedOperation|AccessDenied"):
        ec2.create_tags(Resources=["i-0123456789abcdef0"], Tags=[{"Key": "a", "Value": "b"}])


def _document(statement: dict[str, Any]) -> str:
    """Return a policy of one statement as JSON."""
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _client(cloud: LocalCloud, service: str, given: dict[str, str]) -> Any:
    """Return a client with these credentials."""
    return boto3.client(
        service,  # type: ignore[call-overload]
        region_name=REGION,
        endpoint_url=cloud.endpoint_url,
        aws_access_key_id=given["AccessKeyId"],
        aws_secret_access_key=given["SecretAccessKey"],
        aws_session_token=given["SessionToken"],
    )
