"""`governor env-vars`: what `sam local invoke --env-vars` needs to run functions against a deployed
stack.

SAM resolves no reference to a resource that is deployed: without this file a function would look
for a table named StateTable. Reads the stack alone: `cloudformation:DescribeStacks`,
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


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command."""
    areas.add_parser("env-vars").set_defaults(run=_run)


def _run(given: argparse.Namespace) -> None:
    found = env_vars(given.stack_name, aws.session())
    print(json.dumps(found, indent=2, sort_keys=True))


def env_vars(stack: str, session: boto3.Session) -> dict[str, Mapping[str, str]]:
    """The environment of each function of a stack, by its logical id.

    Raises:
        CommandError: no such stack, none of GPU Governor, or it may not be read.
    """
    described(stack, session)  # says what to set where there is none
    functions = session.client("lambda")
    try:
        found: dict[str, Mapping[str, str]] = {
            logical: functions.get_function_configuration(FunctionName=name)["Environment"][
                "Variables"
            ]
            for logical, name in _functions(stack, session)
        }
    except (ClientError, BotoCoreError) as error:
        raise CommandError(f"the stack {stack!r} could not be read: {aws.reason(error)}") from None
    if not found:
        raise CommandError(f"the stack {stack!r} has no functions: is it a stack of GPU Governor?")
    return found


def _functions(stack: str, session: boto3.Session) -> Iterator[tuple[str, str]]:
    pages = (
        session.client("cloudformation")
        .get_paginator("list_stack_resources")
        .paginate(StackName=stack)
    )
    for page in pages:
        for one in page["StackResourceSummaries"]:
            if one["ResourceType"] == "AWS::Lambda::Function":
                yield one["LogicalResourceId"], one["PhysicalResourceId"]
