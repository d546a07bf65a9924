"""`governor env-vars`: print the file for `sam local invoke --env-vars` against a deployed stack.

SAM resolves no reference to a deployed resource: without this file a function would look for a
table named StateTable. It reads only the stack: `cloudformation:DescribeStacks`,
`cloudformation:ListStackResources` and `lambda:GetFunctionConfiguration`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.api import described
from cli.errors import CommandError


def run(given: argparse.Namespace) -> None:
    document = env_vars(given.stack_name, aws.session())
    print(json.dumps(document, indent=2, sort_keys=True))


def env_vars(stack: str, session: boto3.Session) -> dict[str, Mapping[str, str]]:
    """Return the environment of each function of a stack, by its logical id.

    Raises:
        CommandError: no such stack, none of GPU Governor, or it may not be read.
    """
    described(stack, session)  # says what to set where there is none
    functions = session.client("lambda")
    environments: dict[str, Mapping[str, str]] = {}
    try:
        for logical_id, name in _functions(stack, session):
            configuration = functions.get_function_configuration(FunctionName=name)
            environments[logical_id] = configuration["Environment"]["Variables"]
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the stack {stack!r} could not be read: {aws.reason(error)}") from None
    if not environments:
        raise CommandError(f"the stack {stack!r} has no functions: is it a stack of GPU Governor?")
    return environments


def _functions(stack: str, session: boto3.Session) -> Iterator[tuple[str, str]]:
    """Yield the logical id and the name of each function."""
    paginator = session.client("cloudformation").get_paginator("list_stack_resources")
    for page in paginator.paginate(StackName=stack):
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] == "AWS::Lambda::Function":
                yield resource["LogicalResourceId"], resource["PhysicalResourceId"]
