"""The IAM permissions that a scan needs, as policies.

They are made from the lists of the kinds of resource, so that a policy never lacks an operation
that is called, and has none that is not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from governor.scan.kind import Kind

EVERYWHERE = ("ec2:DescribeRegions", "pricing:GetProducts")
"""Operations of every scan, in each account. EC2's prices are read in the account of the caller or
the hub alone, SageMaker's with the credentials of the account that has the endpoint."""
_ROLE_NAME = re.compile(r"(?:[!-.0-~]+/)*[A-Za-z0-9_+=,.@-]{1,64}")
"""The name of a role, perhaps behind a path without its first `/`. Source: IAM API, CreateRole."""
OF_THE_CALLER = ("sts:GetCallerIdentity",)
OF_AN_ORGANIZATION = (
    "organizations:ListAccountsForParent",
    "organizations:ListOrganizationalUnitsForParent",
    "sts:AssumeRole",
)
"""Operations of a scan of many accounts, in the account of the caller."""


def is_role_name(name: str) -> bool:
    """Return whether IAM takes this as the name of a role, also behind its path, as in `team/scan`.
    Return false for one with a `*`, which in the ARN of a policy would stand for any text."""
    return _ROLE_NAME.fullmatch(name) is not None and "*" not in name


def operations_in_accounts(kinds: Iterable[Kind[Any, Any]]) -> tuple[str, ...]:
    """Return the operations that a scan of these kinds calls in each account, sorted."""
    operations = set(EVERYWHERE)
    for kind in kinds:
        operations.update(kind.operations)
    return tuple(sorted(operations))


def kinds_of_the_stack(kinds: Iterable[Kind[Any, Any]]) -> tuple[Kind[Any, Any], ...]:
    """Return the kinds that the daily scan of a stack reads: those whose calls AWS does not bill
    one by one."""
    return tuple(kind for kind in kinds if not kind.is_billed)


def operations_of_the_stack(kinds: Iterable[Kind[Any, Any]]) -> tuple[str, ...]:
    """Return the operations that the daily scan of a stack calls in each account, sorted."""
    return operations_in_accounts(kinds_of_the_stack(kinds))


def policy_of_the_stack(kinds: Iterable[Kind[Any, Any]]) -> str:
    """Return the session policy, as JSON, of the roles that the daily scan assumes in members."""
    return session_policy(kinds_of_the_stack(kinds))


def operations_of_a_scan(kinds: Iterable[Kind[Any, Any]]) -> frozenset[str]:
    """Return all operations that a scan of these kinds may call anywhere. No other is sent."""
    in_accounts = operations_in_accounts(kinds)
    return frozenset((*in_accounts, *OF_THE_CALLER, *OF_AN_ORGANIZATION))


def session_policy(kinds: Iterable[Kind[Any, Any]]) -> str:
    """Return the session policy, as JSON, of the roles that a scan assumes in other accounts: the
    role may be an administrator's, and the session still only reads."""
    return _policy([_statement("Read", operations_in_accounts(kinds))])


def policy_to_attach(
    kinds: Iterable[Kind[Any, Any]], role_name: str | None = None, partition: str = "aws"
) -> str:
    """Return the policy, as JSON, of the person or role that scans. With `role_name` it includes
    the permissions to read the organization and to assume that role in its accounts, whose ARN is
    in this `partition`."""
    statements = [_statement("Read", (*operations_in_accounts(kinds), *OF_THE_CALLER))]
    if role_name is not None:
        *read, assume = OF_AN_ORGANIZATION
        role_arn = f"arn:{partition}:iam::*:role/{role_name}"
        statements.append(_statement("ReadTheOrganization", read))
        statements.append(_statement("ReadMemberAccounts", [assume], role_arn))
    return _policy(statements, indent=2)


def _statement(sid: str, actions: Sequence[str], resource: str = "*") -> dict[str, Any]:
    """Return a statement that allows these actions. Nearly none of them, as lists of EC2 and
    CloudWatch, takes a narrower resource than `*`."""
    return {"Sid": sid, "Effect": "Allow", "Action": sorted(actions), "Resource": resource}


def _policy(statements: Sequence[dict[str, Any]], *, indent: int | None = None) -> str:
    """Return the policy as JSON; without `indent` as short as it can be, as STS limits a session
    policy to 2,048 characters."""
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    separators = None if indent else (",", ":")
    return json.dumps(document, indent=indent, separators=separators)
