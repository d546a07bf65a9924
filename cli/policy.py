"""`governor policy check|explain|schema`: check and explain a policy before it decides anything."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
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
from cli.policy_names import odd_names
from cli.policy_production import UNSEEN, missing
from cli.policy_schema import policy_schema, setting_paths, settings_at
from governor.aws.clients import Clients
from governor.aws.ec2 import Ec2Instances
from governor.core.episode_ref import is_instance_id
from governor.core.errors import GovernorError, PolicyError, PolicyProblem
from governor.core.instance import Instance, Target
from governor.core.units import printable
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.messages import consent_line
from governor.policy.model.policy import Policy
from governor.policy.rules.consent import Acceptances
from governor.policy.yaml_document import PartlyRead, read_document


def check(arguments: argparse.Namespace) -> int:
    """Print each mistake with its line and path, and each dangerous combination.

    Return 1 when there is a mistake.
    """
    path = Path(arguments.file)
    with Output(arguments) as out:
        return int(not is_usable(path, read(path), out, production=arguments.production))


def is_usable(path: Path, text: str, out: Output, *, production: bool = False) -> bool:
    """Say what is wrong with a document or not wise. Return whether it can be used."""
    usable = _is_usable(path, text, out, production=production)
    out.say("", usable=usable)
    return usable


NamedPolicy = tuple[tuple[str, ...], Policy]
"""A policy with the names of the overrides in it; no name stands for the base alone."""


def _is_usable(path: Path, text: str, out: Output, *, production: bool) -> bool:
    try:
        book = parse_policy(text)
    except PolicyError as error:
        _say_errors(path, error.problems, out, _override_names(text))
        return False
    for problem in book.retired:
        _warn(path, out, problem.path, problem.reason, problem.line or 1)
    for place, reason in odd_names(book.document):
        _warn(path, out, ".".join(place), reason, book.document.line(place) or 1)
    combined = meetings(book)
    policies = [*_single_policies(book), *combined.policies]
    _warn_of_each(path, policies, out)
    if not combined.all_tried:
        _warn(
            path,
            out,
            "overrides",
            "so many can meet in one instance that not all were tried together; let "
            "their tags, families, accounts or Regions rule each other out",
        )
    refused = _refusals(book, policies)
    if combined.problems or refused:
        names = [override.name for override in book.overrides]
        _say_errors(path, combined.problems, out, names)
        for overrides, problem in refused:
            reason = f"{_joined(overrides)}: {problem.reason}"
            whose = f"override {_joined(overrides)}" if overrides else "base"
            _say_error(path, out, whose, problem, problem.path, reason)
        return False
    if production and not _is_fit(path, book, policies, out):
        return False
    if not production:
        for setting, why in of_two_people(book):
            _warn(path, out, setting, why)
    say_unaccepted(path, book, out)
    version = book.base().version
    mode = book.base().policy.mode.value
    out.say(f"{path}: {verdict(book)}, version {version}, mode {mode}", version=version, mode=mode)
    return True


def _single_policies(book: PolicyBook) -> list[NamedPolicy]:
    """Return the base, and each override by itself on top of it."""
    policies: list[NamedPolicy] = [((), book.base().policy)]
    for name, policy in policies_of(book)[1:]:
        policies.append(((name,), policy))
    return policies


def _joined(names: Sequence[str]) -> str:
    return " + ".join(names) or "base"


def _warn(path: Path, out: Output, whose: str, reason: str, line: int | None = None) -> None:
    """Say a warning about a setting, or about the policy under some overrides."""
    place = f"{path}:{line}" if line else f"{path}"
    fact = {"severity": "warning", "line": line, "path": whose, "reason": reason}
    out.list(f"{place}: warning: {printable(whose)}: {printable(reason)}", "problems", fact)


def _warn_of_each(path: Path, policies: Sequence[NamedPolicy], out: Output) -> None:
    """Warn about each policy; a warning about fewer of its overrides is not repeated."""
    given: dict[tuple[str, ...], frozenset[str]] = {}
    for names, policy in policies:
        known: set[str] = set()
        for fewer_names, given_texts in given.items():
            if set(fewer_names) <= set(names):
                known |= given_texts
        texts = warnings(policy)
        given[names] = frozenset(texts)
        for text in texts:
            if text not in known:
                _warn(path, out, _joined(names), text)


def _refusals(
    book: PolicyBook, policies: Sequence[NamedPolicy]
) -> list[tuple[tuple[str, ...], PolicyProblem]]:
    """Return what is refused of each policy, with the names of its overrides."""
    problems = []
    for names, policy in policies:
        for setting, why in refusals(policy):
            line = book.document.line(tuple(setting.split(".")))
            problems.append((names, PolicyProblem(setting, why, line)))
    return problems


def _is_fit(path: Path, book: PolicyBook, policies: Sequence[NamedPolicy], out: Output) -> bool:
    """Say what is not fit for production, each once, and what the document cannot show."""
    severity = "not for production"
    printed: set[tuple[str, str]] = set()
    of_document = list(of_two_people(book))
    for names, policy in policies:
        unfit = list(missing(policy))
        if not names:
            unfit += of_document
        whose = _joined(names)
        for setting, why in unfit:
            if (setting, why) in printed:
                continue
            printed.add((setting, why))
            fact = {
                "severity": severity,
                "line": None,
                "path": setting,
                "reason": f"{whose}: {why}",
            }
            out.list(f"{path}: {severity}: {printable(whose)}: {setting} {why}", "problems", fact)
    for what in UNSEEN:
        out.list(
            f"{path}: check by hand, the document cannot show it: {what}", "unseen", {"what": what}
        )
    return not printed


def _say_errors(
    path: Path, problems: Sequence[PolicyProblem], out: Output, names: Sequence[str]
) -> None:
    """Say each mistake, with whose it is. `names` are those of the overrides, in their order."""
    for problem in problems:
        whose, setting = _place(problem.path, names)
        meant = _meant_value(problem.reason)
        if problem.reason == "unknown setting":
            meant = _meant(problem.path)
        _say_error(path, out, whose, problem, setting, problem.reason + meant)


def _say_error(
    path: Path, out: Output, whose: str, problem: PolicyProblem, setting: str, reason: str
) -> None:
    """Say a mistake: in the text with whose it is, in the JSON with its path."""
    fact = {
        "severity": "error",
        "line": problem.line,
        "path": problem.path,
        "reason": printable(reason),
    }
    words = [f"{path}:{problem.line or 1}: error", whose, setting]
    parts = []
    for word in words:
        if word:
            parts.append(printable(word))
    text = ": ".join(parts)
    shown = reason.removeprefix(f"{whose.removeprefix('override ')}: ")
    out.list(f"{text}: {printable(shown)}", "problems", fact)


def _place(path: str, names: Sequence[str]) -> tuple[str, str]:
    """Return whose setting a path names, in words, and its path in that."""
    if not path:
        return "(document)", ""
    first, _, rest = path.partition(".")
    index, _, inner = rest.partition(".")
    if first != "overrides" or not index:
        return "base", path
    if not index.isdecimal():
        return f"overrides {index.replace('+', ' + ')} together", inner
    number = int(index)
    name = names[number] if number < len(names) else ""
    whose = f"override {name}" if name else f"override number {number + 1}"
    return whose, inner.removeprefix("set.")


def _override_names(text: str) -> list[str]:
    """Return the names of a refused document's overrides, in their order; an empty text for one
    without a name, and an empty list where the document cannot be read."""
    try:
        settings = read_document(text).settings
    except PartlyRead as error:
        settings = error.document.settings
    except PolicyError:
        return []
    overrides = settings.get("overrides")
    names = []
    for override in overrides if isinstance(overrides, list) else []:
        name = override.get("name") if isinstance(override, dict) else None
        names.append(name if isinstance(name, str) else "")
    return names


def _meant_value(reason: str) -> str:
    """Return the question after a value that is none of a choice; an empty text for another reason,
    or without a guess."""
    value, is_choice, choice = reason.partition("; it must be '")
    if not is_choice:
        return ""
    return nearest(value.removeprefix("is ").strip("'\""), re.findall(r"[\w-]+", choice))


def _meant(path: str) -> str:
    """Return the question after a setting that does not exist; an empty text without a guess.

    It names a near setting of the same section, or one of the same name elsewhere.
    """
    *section, name = path.split(".")
    question = nearest(name, settings_at(section))
    if question:
        return question
    elsewhere = [known for known in setting_paths() if known.rpartition(".")[2] == name]
    return f"; did you mean {elsewhere[0]}?" if elsewhere else ""


def explain(arguments: argparse.Namespace) -> int:
    """Print which overrides apply to an instance, what they set, and what is not a default.

    Raises:
        CommandError: the policy or the instance could not be read, or its overrides contradict
            each other.
    """
    session = aws.session()
    book = _book(arguments, session)
    instance = _instance(arguments.instance, session)
    try:
        applied = book.applied_to(instance)
    except PolicyError as error:
        raise CommandError(f"{instance.instance_id} is never judged: {error}") from None
    with Output(arguments) as out:
        who = f"{printable(instance.name)} ({instance.instance_id}, {instance.instance_type})"
        out.say(f"{who} in {instance.target}", instance_id=instance.instance_id)
        overrides = ", ".join(printable(name) for name in applied.overrides)
        out.say(
            f"policy version {applied.version}; overrides that apply: {overrides or 'none'}",
            version=applied.version,
            overrides=list(applied.overrides),
        )
        _say_settings(applied.policy, book.base().policy, out)
        for override in book.unaccepted():
            if override.name in applied.overrides:
                out.say(f"  {printable(consent_line(override))}")
        for warning in warnings(applied.policy):
            out.list(f"  warning: {printable(warning)}", "warnings", {"warning": warning})
    return 0


def _book(arguments: argparse.Namespace, session: boto3.Session) -> PolicyBook:
    """Return the policy of the file, else of the stack with the acceptances that count."""
    acceptances = Acceptances()
    if arguments.file:
        text = read(Path(arguments.file))
    else:
        answer = deployed_answer(arguments.stack_name, session)
        text = str(answer["document"])
        acceptances = acceptances_of(answer)
    try:
        return parse_policy(text).apply_acceptances(acceptances)
    except PolicyError as error:
        raise CommandError(f"the policy is refused: {error}; run `governor policy check`") from None


def _say_settings(policy: Policy, base: Policy, out: Output) -> None:
    """Say each setting that an override or the document has set, and what it would be else."""
    base_values = _flat(asdict(base))
    defaults = _flat(asdict(Policy()))
    for path, value in _flat(asdict(policy)).items():
        base_value = base_values.get(path)
        default = defaults.get(path)
        if value != base_value:
            source = "an override"
            otherwise = f"the document says {_written(base_value)}"
        elif value != default:
            source = "the document"
            otherwise = f"the default is {_written(default)}"
        else:
            continue
        set_by = source.removeprefix("an ").removeprefix("the ")
        text = f"  {printable(path)}: {_written(value)}   ({source}; {otherwise})"
        out.list(text, "settings", {"path": path, "value": value, "set_by": set_by})


def schema(_: argparse.Namespace) -> int:
    """Print the JSON Schema of the document, for editors."""
    print(json.dumps(policy_schema(), indent=2))
    return 0


def deployed(stack: str, session: boto3.Session) -> str:
    """Return the document that a stack uses now. Raises: as `deployed_answer`."""
    return str(deployed_answer(stack, session)["document"])


def deployed_answer(stack: str, session: boto3.Session) -> dict[str, Any]:
    """Return the document that a stack uses now, with the acceptances of it that count.

    It is the answer of the stack's API or, where a stack has no bucket, its parameter.

    Raises:
        CommandError: the stack, its API or its parameter cannot be read.
    """
    outputs, _ = described(stack, session)
    try:
        if "PolicyBucketName" in outputs:
            return dict(Api(find_api(stack, session), session).call("GET", "/api/policy"))
        # A stack of the release before.
        answer = session.client("ssm").get_parameter(Name=outputs["PolicyParameterName"])
    except (ClientError, BotoCoreError, KeyError) as error:
        raise CommandError(
            f"the policy of the stack {stack!r} could not be read ({aws.reason(error)}): "
            "pass --stack-name, or --file where the command takes one"
        ) from None
    return {"document": answer["Parameter"].get("Value", "")}


def _instance(instance_id: str, session: boto3.Session) -> Instance:
    if not is_instance_id(instance_id):
        raise CommandError(
            f"{printable(instance_id)!r} is no instance ID like i-0123456789abcdef0: EC2 and the "
            "console show the ID of an instance with this name"
        )
    region = session.region_name
    try:
        account = session.client("sts").get_caller_identity()["Account"]
        instance = Ec2Instances(Clients()).describe(Target(account, region), instance_id)
    except (ClientError, BotoCoreError, GovernorError) as error:
        raise CommandError(f"{instance_id} could not be read: {aws.reason(error)}") from None
    if instance is None:
        raise CommandError(f"there is no instance {instance_id} in {account}/{region}")
    return instance


def _written(value: object) -> str:
    """Return a value as the document would hold it.

    No tag or name in it can be read as a command.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        pairs = [f"{_written(key)}: {_written(inner)}" for key, inner in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_written, value)) + "]"
    return printable(str(value))


def _flat(document: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return each setting by its dotted path."""
    settings: dict[str, Any] = {}
    for key, value in document.items():
        inner_path = f"{path}.{key}".strip(".")
        if isinstance(value, dict) and value:
            settings |= _flat(value, inner_path)
        else:
            settings[inner_path] = value
    return settings


def read(path: Path) -> str:
    """Return a file's text, or that of standard input for `-`.

    Raises:
        CommandError: it cannot be read.
    """
    try:
        content = _content(path)
    except OSError as error:
        why = error.strerror or str(error)
        raise CommandError(f"{path} could not be read: {why}") from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(
            f"{path}:{line}: this line has the byte {content[error.start]:#04x}, which is not text "
            "in UTF-8: save as UTF-8 in your editor"
        ) from None


def _content(path: Path) -> bytes:
    """Return a file's bytes, or those of standard input for `-`. Raises: OSError."""
    if str(path) == "-":
        return sys.stdin.buffer.read()
    return path.read_bytes()
