"""`governor policy check|explain|schema`: what a policy document says, before it decides anything."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli.api import Api, described, find_api
from cli.errors import CommandError
from cli.policy_advice import refusals, warnings
from cli.policy_meetings import meetings, policies_of
from cli.policy_production import UNSEEN, missing
from cli.policy_schema import policy_schema
from governor.adapters.clients import Clients
from governor.adapters.ec2 import Ec2Instances
from governor.contracts.policy import parse_policy
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import Policy
from governor.domain.units import printable
from governor.errors import GovernorError, PolicyError, PolicyProblem


def check(arguments: argparse.Namespace) -> int:
    """Every mistake with its line and path, every dangerous combination; 1 when there is a mistake."""
    path = Path(arguments.file)
    return checked(path, read(path), production=arguments.production)


def checked(path: Path, text: str, *, production: bool = False) -> int:
    """Print what is wrong with a document, or not wise; 1 when it cannot be used."""
    try:
        book = parse_policy(text)
    except PolicyError as error:
        _print_errors(path, error.problems)
        return 1
    for problem in book.retired:
        print(f"{path}:{problem.line or 1}: warning: {printable(problem.path)}: {problem.reason}")
    met = meetings(book)
    alone = [((), book.base().policy), *(((name,), policy) for name, policy in policies_of(book)[1:])]
    given: dict[tuple[str, ...], frozenset[str]] = {}
    for names, policy in (*alone, *met.policies):
        # A warning about fewer of them is not repeated.
        known = frozenset[str]().union(*(said for few, said in given.items() if set(few) <= set(names)))
        given[names] = frozenset(warnings(policy))
        for warning in warnings(policy):
            if warning not in known:
                print(f"{path}: warning: {printable(' + '.join(names) or 'base')}: {printable(warning)}")
    if not met.all_tried:
        print(
            f"{path}: warning: so many overrides can meet in one instance that not all were tried together; "
            "let their tags, families, accounts or Regions rule each other out"
        )
    refused = [
        PolicyProblem(
            setting, f"{' + '.join(names) or 'base'}: {why}", book.document.line(tuple(setting.split(".")))
        )
        for names, policy in (*alone, *met.policies)
        for setting, why in refusals(policy)
    ]
    if met.problems or refused:
        _print_errors(path, (*met.problems, *refused))
        return 1
    version = book.base().version
    if production and not _is_fit(path, [*alone, *met.policies]):
        return 1
    print(f"{path}: ok, version {version}, mode {book.base().policy.mode.value}")
    return 0


def _is_fit(path: Path, policies: Sequence[tuple[tuple[str, ...], Policy]]) -> bool:
    """Print what is not fit for production, each once, and what the document cannot show."""
    printed: set[tuple[str, str]] = set()
    for names, policy in policies:
        for setting, why in missing(policy):
            if (setting, why) not in printed:
                print(
                    f"{path}: not for production: {printable(' + '.join(names) or 'base')}: {setting} {why}"
                )
            printed.add((setting, why))
    for what in UNSEEN:
        print(f"{path}: not in the document, look yourself: {what}")
    return not printed


def _print_errors(path: Path, problems: Sequence[PolicyProblem]) -> None:
    for problem in problems:
        where, reason = problem.path or "(document)", printable(problem.reason)
        print(f"{path}:{problem.line or 1}: error: {where}: {reason}")


def explain(arguments: argparse.Namespace) -> int:
    """Which overrides apply to an instance, what they set, and what differs from the defaults."""
    session = boto3.Session()
    text = read(Path(arguments.file)) if arguments.file else deployed(arguments.stack_name, session)
    try:
        book = parse_policy(text)
    except PolicyError as error:
        raise CommandError(f"the policy is refused: {error}; run `governor policy check`") from None
    instance = _instance(arguments.instance, arguments.region or session.region_name)
    try:
        applied = book.applied_to(instance)
    except PolicyError as error:
        raise CommandError(f"{instance.instance_id} is never judged: {error}") from None
    base, defaults = _flat(asdict(book.base().policy)), _flat(asdict(Policy()))
    print(f"{instance.name} ({instance.instance_id}, {instance.instance_type}) in {instance.target}")
    overrides = ", ".join(printable(name) for name in applied.overrides)
    print(f"policy version {applied.version}; overrides that apply: {overrides or 'none'}")
    for path, value in _flat(asdict(applied.policy)).items():
        if value != base.get(path):
            said = f"an override; the document says {_written(base.get(path))}"
        elif value != defaults.get(path):
            said = f"the document; the default is {_written(defaults.get(path))}"
        else:
            continue
        print(f"  {printable(path)}: {_written(value)}   ({said})")
    for warning in warnings(applied.policy):
        print(f"  warning: {printable(warning)}")
    return 0


def schema(_: argparse.Namespace) -> int:
    """The JSON Schema of the document, for editors."""
    print(json.dumps(policy_schema(), indent=2))
    return 0


def deployed(stack: str, session: boto3.Session) -> str:
    """The document that a stack uses now: as its API says or, where it has none in its bucket, the parameter.

    Raises:
        CommandError: the stack, its API or its parameter cannot be read.
    """
    outputs, _ = described(stack, session)
    try:
        if "PolicyBucketName" in outputs:
            return str(Api(find_api(stack, session), session).call("GET", "/api/policy")["document"])
        # A stack of the release before.
        found = session.client("ssm").get_parameter(Name=outputs["PolicyParameterName"])
    except (ClientError, BotoCoreError, KeyError) as error:
        raise CommandError(
            f"the policy of the stack {stack!r} could not be read ({error}): give --file, or --stack-name"
        ) from None
    return str(found["Parameter"].get("Value", ""))


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


def _written(value: object) -> str:
    """A value as the document would hold it; no tag or name in it can be read as a command."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_written(key)}: {_written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_written(one) for one in value) + "]"
    return printable(str(value))


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
