"""`governor policy check|explain|schema`: what a policy document says, before it decides anything."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import BotoCoreError, ClientError

from cli.errors import CommandError
from governor.adapters.clients import Clients
from governor.adapters.ec2 import Ec2Instances
from governor.contracts.policy import parse_policy, policy_schema
from governor.domain.instance import Instance, Target
from governor.domain.policy import Policy
from governor.domain.policy_advice import warnings
from governor.errors import GovernorError, PolicyError


def check(arguments: argparse.Namespace) -> int:
    """Every mistake with its line and path, every dangerous combination; 1 when there is a mistake."""
    path = Path(arguments.file)
    text = read(path)
    try:
        book = parse_policy(text)
    except PolicyError as error:
        lines = line_numbers(text)
        for where, why in error.problems:
            print(f"{path}:{_line(lines, where)}: error: {where or '(document)'}: {why}")
        return 1
    for name, policy in book.policies():
        for warning in warnings(policy):
            print(f"{path}: warning: {name}: {warning}")
    version = book.base().version
    print(f"{path}: ok, version {version}, mode {book.base().policy.mode.value}")
    return 0


def explain(arguments: argparse.Namespace) -> int:
    """Which overrides apply to an instance, what they set, and what differs from the defaults."""
    session = boto3.Session()
    text = read(Path(arguments.file)) if arguments.file else deployed(arguments.stack_name, session)
    try:
        book = parse_policy(text)
    except PolicyError as error:
        raise CommandError(f"the policy is refused: {error}; run `governor policy check`") from None
    instance = _instance(arguments.instance, arguments.region or session.region_name)
    applied = book.applied_to(instance)
    base, defaults = _flat(asdict(book.base().policy)), _flat(asdict(Policy()))
    print(f"{instance.name} ({instance.instance_id}, {instance.instance_type}) in {instance.target}")
    print(f"policy version {applied.version}; overrides that apply: {', '.join(applied.overrides) or 'none'}")
    for path, value in _flat(asdict(applied.policy)).items():
        if value != base.get(path):
            print(f"  {path}: {value}   (an override; the document says {base.get(path)})")
        elif value != defaults.get(path):
            print(f"  {path}: {value}   (the document; the default is {defaults.get(path)})")
    for warning in warnings(applied.policy):
        print(f"  warning: {warning}")
    return 0


def schema(_: argparse.Namespace) -> int:
    """The JSON Schema of the document, for editors."""
    print(json.dumps(policy_schema(), indent=2))
    return 0


def deployed(stack: str, session: boto3.Session) -> str:
    """The document that a stack uses now.

    Raises:
        CommandError: the stack or its parameter cannot be read.
    """
    try:
        described = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
        outputs = {one["OutputKey"]: one["OutputValue"] for one in described.get("Outputs", ())}
        found = session.client("ssm").get_parameter(Name=outputs["PolicyParameterName"])
    except (ClientError, BotoCoreError, KeyError) as error:
        raise CommandError(
            f"the policy of the stack {stack!r} could not be read ({error}): give --file, or --stack-name"
        ) from None
    return str(found["Parameter"].get("Value", ""))


def line_numbers(text: str) -> Mapping[str, int]:
    """The line of every setting, by its path as problems name it (`overrides.0.set.mode`)."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        return {"": mark.line + 1 if mark else 1}
    return {"": 1} if root is None else dict(_lines(root, ""))


def _lines(node: yaml.Node, path: str) -> Iterator[tuple[str, int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = f"{path}.{key.value}".strip(".")
            yield from _lines(value, inner)
            # The key's own line: a block value begins on the next one.
            yield inner, key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _lines(item, f"{path}.{index}".strip("."))


def _line(lines: Mapping[str, int], path: str) -> int:
    """Of the setting itself, else of what it stands in."""
    parts = path.split(".")
    while parts:
        if ".".join(parts) in lines:
            return lines[".".join(parts)]
        parts.pop()
    return lines.get("", 1)


def _instance(instance_id: str, region: str | None) -> Instance:
    if not region:
        raise CommandError("there is no Region: give --region, or set AWS_DEFAULT_REGION")
    try:
        account = boto3.client("sts").get_caller_identity()["Account"]
        found = Ec2Instances(Clients()).describe(Target(account, region), instance_id)
    except (ClientError, BotoCoreError, GovernorError) as error:
        raise CommandError(f"{instance_id} could not be read: {error}") from None
    if found is None:
        raise CommandError(f"there is no instance {instance_id} in {account}/{region}")
    return found


def _flat(document: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in document.items():
        inner = f"{path}.{key}".strip(".")
        if isinstance(value, dict) and value:
            found |= _flat(value, inner)
        else:
            found[inner] = value
    return found


def read(path: Path) -> str:
    """A file's text, or that of standard input for `-`.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        return sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} could not be read: {error}") from None


def printable(text: str) -> str:
    """Names and tags are whatever somebody chose; a terminal must not read them as commands."""
    return "".join(character if character.isprintable() else "?" for character in text)
