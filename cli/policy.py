"""`governor policy check|explain|schema`: what a policy document says, before it decides
anything."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.api import Api, described, find_api
from cli.errors import CommandError
from cli.nearest import nearest
from cli.output import Output
from cli.policy_advice import refusals, warnings
from cli.policy_consent import acceptances_of, of_two_people, say_unaccepted, verdict
from cli.policy_meetings import meetings, policies_of
from cli.policy_production import UNSEEN, missing
from cli.policy_schema import policy_schema, setting_paths, settings_at
from governor.adapters.clients import Clients
from governor.adapters.ec2 import Ec2Instances
from governor.contracts.policy import PolicyBook, parse_policy
from governor.domain.alerts.policy_messages import consent_line
from governor.domain.instance import Instance, Target
from governor.domain.policy.consent import Acceptances
from governor.domain.policy.policy import Policy
from governor.domain.units import printable
from governor.errors import GovernorError, PolicyError, PolicyProblem


def check(arguments: argparse.Namespace) -> int:
    """Every mistake with its line and path, every dangerous combination; 1 when there is a
    mistake."""
    path = Path(arguments.file)
    with Output(arguments) as out:
        return int(not is_usable(path, read(path), out, production=arguments.production))


def is_usable(path: Path, text: str, out: Output, *, production: bool = False) -> bool:
    """Say what is wrong with a document, or not wise."""
    usable = _is_usable(path, text, out, production=production)
    out.say("", usable=usable)
    return usable


Warn = Callable[[str, str], None]
"""Says a warning about a setting, or about the policy under some overrides."""


def _is_usable(path: Path, text: str, out: Output, *, production: bool) -> bool:
    def warn(whose: str, what: str, line: int | None = None) -> None:
        at = f"{path}:{line}" if line else f"{path}"
        fact = {"severity": "warning", "line": line, "path": whose, "reason": what}
        out.list(f"{at}: warning: {printable(whose)}: {printable(what)}", "problems", fact)

    try:
        book = parse_policy(text)
    except PolicyError as error:
        _say_errors(path, error.problems, out)
        return False
    for problem in book.retired:
        warn(problem.path, problem.reason, problem.line or 1)
    met = meetings(book)
    alone = [
        ((), book.base().policy),
        *(((name,), policy) for name, policy in policies_of(book)[1:]),
    ]
    policies = [*alone, *met.policies]
    _warn_of_each(policies, warn)
    if not met.all_tried:
        warn(
            "overrides",
            "so many can meet in one instance that not all were tried together; let "
            "their tags, families, "
            "accounts or Regions rule each other out",
        )
    refused = _refused(book, policies)
    if met.problems or refused:
        _say_errors(path, (*met.problems, *refused), out)
        return False
    if production and not _is_fit(path, book, policies, out):
        return False
    if not production:
        for setting, why in of_two_people(book):
            warn(setting, why)
    say_unaccepted(path, book, out)
    version = book.base().version
    mode = book.base().policy.mode.value
    out.say(f"{path}: {verdict(book)}, version {version}, mode {mode}", version=version, mode=mode)
    return True


def _warn_of_each(policies: Sequence[tuple[tuple[str, ...], Policy]], warn: Warn) -> None:
    """Warn about each policy; a warning about fewer of its overrides is not repeated."""
    given: dict[tuple[str, ...], frozenset[str]] = {}
    for names, policy in policies:
        known = frozenset[str]().union(
            *(said for few, said in given.items() if set(few) <= set(names))
        )
        given[names] = frozenset(warnings(policy))
        for warning in warnings(policy):
            if warning not in known:
                warn(" + ".join(names) or "base", warning)


def _refused(
    book: PolicyBook, policies: Sequence[tuple[tuple[str, ...], Policy]]
) -> list[PolicyProblem]:
    found = []
    for names, policy in policies:
        for setting, why in refusals(policy):
            line = book.document.line(tuple(setting.split(".")))
            found.append(PolicyProblem(setting, f"{' + '.join(names) or 'base'}: {why}", line))
    return found


def _is_fit(
    path: Path, book: PolicyBook, policies: Sequence[tuple[tuple[str, ...], Policy]], out: Output
) -> bool:
    """Say what is not fit for production, each once, and what the document cannot show."""
    printed: set[tuple[str, str]] = set()
    of_document = list(of_two_people(book))
    for names, policy in policies:
        of_policy = list(missing(policy))
        for setting, why in of_policy if names else [*of_policy, *of_document]:
            if (setting, why) not in printed:
                whose, severity = " + ".join(names) or "base", "not for production"
                fact = {
                    "severity": severity,
                    "line": None,
                    "path": setting,
                    "reason": f"{whose}: {why}",
                }
                out.list(
                    f"{path}: {severity}: {printable(whose)}: {setting} {why}", "problems", fact
                )
            printed.add((setting, why))
    for what in UNSEEN:
        out.list(f"{path}: not in the document, look yourself: {what}", "unseen", {"what": what})
    return not printed


def _say_errors(path: Path, problems: Sequence[PolicyProblem], out: Output) -> None:
    for problem in problems:
        where, reason = problem.path or "(document)", printable(problem.reason)
        meant = _meant(problem.path) if problem.reason == "unknown setting" else ""
        fact = {
            "severity": "error",
            "line": problem.line,
            "path": problem.path,
            "reason": reason + meant,
        }
        out.list(f"{path}:{problem.line or 1}: error: {where}: {reason}{meant}", "problems", fact)


def _meant(path: str) -> str:
    """The question after a setting that does not exist: a near one there, or one of its name
    elsewhere."""
    *section, name = path.split(".")
    if found := nearest(name, settings_at(section)):
        return found
    elsewhere = [one for one in setting_paths() if one.rpartition(".")[2] == name]
    return f"; did you mean {elsewhere[0]}?" if elsewhere else ""


def explain(arguments: argparse.Namespace) -> int:
    """Which overrides apply to an instance, what they set, and what differs from the defaults."""
    session = aws.session()
    acceptances = Acceptances()
    if arguments.file:
        text = read(Path(arguments.file))
    else:
        answer = deployed_answer(arguments.stack_name, session)
        text = str(answer["document"])
        acceptances = acceptances_of(answer)
    try:
        book = parse_policy(text).accepted_by(acceptances)
    except PolicyError as error:
        raise CommandError(f"the policy is refused: {error}; run `governor policy check`") from None
    instance = _instance(arguments.instance, session)
    try:
        applied = book.applied_to(instance)
    except PolicyError as error:
        raise CommandError(f"{instance.instance_id} is never judged: {error}") from None
    base, defaults = _flat(asdict(book.base().policy)), _flat(asdict(Policy()))
    with Output(arguments) as out:
        who = f"{printable(instance.name)} ({instance.instance_id}, {instance.instance_type})"
        out.say(f"{who} in {instance.target}", instance_id=instance.instance_id)
        overrides = ", ".join(printable(name) for name in applied.overrides)
        facts = {"version": applied.version, "overrides": list(applied.overrides)}
        out.say(
            f"policy version {applied.version}; overrides that apply: {overrides or 'none'}",
            **facts,
        )
        for path, value in _flat(asdict(applied.policy)).items():
            if value != base.get(path):
                source, other = "an override", f"the document says {_written(base.get(path))}"
            elif value != defaults.get(path):
                source, other = "the document", f"the default is {_written(defaults.get(path))}"
            else:
                continue
            fact = {
                "path": path,
                "value": value,
                "set_by": source.removeprefix("an ").removeprefix("the "),
            }
            out.list(
                f"  {printable(path)}: {_written(value)}   ({source}; {other})", "settings", fact
            )
        for override in book.unaccepted():
            if override.name in applied.overrides:
                out.say(f"  {printable(consent_line(override))}")
        for warning in warnings(applied.policy):
            out.list(f"  warning: {printable(warning)}", "warnings", {"warning": warning})
    return 0


def schema(_: argparse.Namespace) -> int:
    """The JSON Schema of the document, for editors."""
    print(json.dumps(policy_schema(), indent=2))
    return 0


def deployed(stack: str, session: boto3.Session) -> str:
    """Return the document that a stack uses now. Raises: as `deployed_answer`."""
    return str(deployed_answer(stack, session)["document"])


def deployed_answer(stack: str, session: boto3.Session) -> dict[str, Any]:
    """Return the document that a stack uses now, and whose acceptances of it count: as its API says
    or, where it has none in its bucket, the parameter.

    Raises:
        CommandError: the stack, its API or its parameter cannot be read.
    """
    outputs, _ = described(stack, session)
    try:
        if "PolicyBucketName" in outputs:
            return dict(Api(find_api(stack, session), session).call("GET", "/api/policy"))
        # A stack of the release before.
        found = session.client("ssm").get_parameter(Name=outputs["PolicyParameterName"])
    except (ClientError, BotoCoreError, KeyError) as error:
        raise CommandError(
            f"the policy of the stack {stack!r} could not be read ({aws.reason(error)}): "
            "pass --stack-name, "
            "or --file where the command takes one"
        ) from None
    return {"document": found["Parameter"].get("Value", "")}


def _instance(instance_id: str, session: boto3.Session) -> Instance:
    region = session.region_name
    try:
        account = session.client("sts").get_caller_identity()["Account"]
        found = Ec2Instances(Clients()).describe(Target(account, region), instance_id)
    except (ClientError, BotoCoreError, GovernorError) as error:
        raise CommandError(f"{instance_id} could not be read: {aws.reason(error)}") from None
    if found is None:
        raise CommandError(f"there is no instance {instance_id} in {account}/{region}")
    return found


def _written(value: object) -> str:
    """A value as the document would hold it; no tag or name in it can be read as a command."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, Mapping):
        return (
            "{" + ", ".join(f"{_written(key)}: {_written(one)}" for key, one in value.items()) + "}"
        )
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
