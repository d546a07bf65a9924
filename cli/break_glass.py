"""Explain why a command may not write into the state table, and name the role that may.

The table takes data from the stack's own roles, and from the one role that `BreakGlassRoleArn`
names.
"""

from __future__ import annotations

import boto3

from cli import aws
from cli.api import described
from cli.errors import CommandError

PARAMETER = "BreakGlassRoleArn"
_BY_THE_TABLE = "explicit deny in a resource-based policy"
"""AWS's words when the table's own policy denies."""
_ONLY = "only roles of the stack may write into the state table"


def reason(error: Exception, session: boto3.Session, stack: str) -> str:
    """Return why a write into the state table failed.

    It says what to do where the table's policy denied the write.
    """
    if _BY_THE_TABLE not in str(error):
        return aws.reason(error)
    try:
        _, parameters = described(stack, session)
    except CommandError:
        return f"{_ONLY}, and the role that its parameter {PARAMETER} names: run this as that role"
    role = parameters.get(PARAMETER, "")
    if role:
        return f"{_ONLY}, and {role}: assume that role, and run this again"
    return (
        f"{_ONLY}. Set the stack's parameter {PARAMETER} to a role that you can assume "
        f"(`make deploy PARAMETERS={PARAMETER}=ARN`), and run this again as that role"
    )
