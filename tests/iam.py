"""Evaluates IAM policies of the templates: what no local cloud does with keys of DynamoDB and tags
of EC2.

Source of the rules: IAM User Guide, "Policy evaluation logic" and "Condition operators". An
operator that is not known here is an error: a condition that nobody evaluates must not pass for one
that holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from local.engine.templates import expand_template, load_template

ROOT = Path(__file__).parents[1]
ACCOUNT = "123456789012"
PSEUDO = {
    "AWS::Partition": "aws",
    "AWS::Region": "us-east-1",
    "AWS::AccountId": ACCOUNT,
    "AWS::StackName": "gpu-governor",
}
_CONDITIONS = {"HasOrganization": "OrganizationId", "HasBreakGlassRole": "BreakGlassRoleArn"}
"""The parameter that a condition asks for; others count as given."""
Value = str | Sequence[str]


@dataclass(frozen=True)
class Request:
    """One call: its action, the resource it names, and the keys of its context."""

    action: str
    resource: str
    context: Mapping[str, Value] = field(default_factory=dict)


def allows(policy: Iterable[Mapping[str, Any]], request: Request) -> bool:
    """Return whether a statement allows it and none denies it."""
    matching = [one["Effect"] for one in policy if _matches(one, request)]
    return "Allow" in matching and "Deny" not in matching


def _matches(statement: Mapping[str, Any], request: Request) -> bool:
    return (
        _named(statement, "Action", request.action, re.IGNORECASE)
        and _named(statement, "Resource", request.resource)
        and all(
            _holds(operator, _filled(wanted, request.context), request.context.get(key))
            for operator, keys in statement.get("Condition", {}).items()
            for key, wanted in keys.items()
        )
    )


def _filled(wanted: Any, context: Mapping[str, Value]) -> list[str]:
    """The values of a condition with its variables, as `${aws:userid}`, as the request has them."""
    return [
        re.sub(r"\$\{([\w:]+)\}", lambda found: str(context.get(found[1], found[0])), one)
        for one in listed(wanted)
    ]


def _named(statement: Mapping[str, Any], part: str, name: str, flags: int = 0) -> bool:
    if f"Not{part}" in statement:
        return not any(_like(name, one, flags) for one in listed(statement[f"Not{part}"]))
    return any(_like(name, one, flags) for one in listed(statement[part]))


def _holds(operator: str, wanted: Sequence[str], found: Value | None) -> bool:
    if operator == "Null":
        return (found is None) == (wanted[0] == "true")
    quantifier, _, plain = operator.rpartition(":")
    if plain.endswith("IfExists"):
        if found is None:
            return True
        plain = plain.removesuffix("IfExists")
    test = _OPERATORS[plain]
    values = [] if found is None else listed(found)
    each = [test(value, wanted) for value in values]
    # Of no values all do, and a negated operator holds of a key that is not there.
    if quantifier == "ForAllValues":
        return all(each)
    return any(each) if each else plain in _NEGATED


@cache
def _pattern(text: str, flags: int) -> re.Pattern[str]:
    return re.compile(re.escape(text).replace(r"\*", ".*").replace(r"\?", "."), flags)


def _like(value: str, pattern: str, flags: int = 0) -> bool:
    return _pattern(pattern, int(flags)).fullmatch(value) is not None


_OPERATORS: dict[str, Callable[[str, Sequence[str]], bool]] = {
    "StringEquals": lambda value, wanted: value in wanted,
    "StringNotEquals": lambda value, wanted: value not in wanted,
    "Bool": lambda value, wanted: value in wanted,
    "StringLike": lambda value, wanted: any(_like(value, one) for one in wanted),
    "StringNotLike": lambda value, wanted: not any(_like(value, one) for one in wanted),
    "ArnLike": lambda value, wanted: any(_like(value, one) for one in wanted),
    "ArnNotLike": lambda value, wanted: not any(_like(value, one) for one in wanted),
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() in map(str.lower, wanted),
    "ArnEquals": lambda value, wanted: any(_like(value, one) for one in wanted),
    "ArnNotEquals": lambda value, wanted: not any(_like(value, one) for one in wanted),
}
_NEGATED = frozenset({"StringNotEquals", "StringNotLike", "ArnNotLike", "ArnNotEquals"})


def listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


@cache
def functions() -> dict[str, list[dict[str, Any]]]:
    """The statements of the role of each function of the hub, shared policies included, for one
    account."""
    return _functions(expand_template(ROOT / "template.yaml"))


@cache
def own_statements() -> dict[str, list[dict[str, Any]]]:
    """The same without shared policies, which loops make: loops take two seconds to be written
    out."""
    return _functions(load_template(ROOT / "template.yaml"))


@cache
def actor(**parameters: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The statements and the trust of the role that stops and terminates in the hub's account."""
    document = load_template(ROOT / "template.yaml")
    known = {**_parameters(document), **parameters}
    return _role(document["Resources"]["ActorRole"], known)


def hub_roles() -> dict[str, list[dict[str, Any]]]:
    """The statements of each role of the hub, by its function; `Actor` is the role that put_away
    assumes."""
    return {**functions(), "Actor": actor()[0]}


def _role(
    resource: Mapping[str, Any], known: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The statements of a role's inline policies, and its trust."""
    role = written_out(resource["Properties"], known)
    statements = [
        statement
        for policy in role["Policies"]
        for statement in inline_document(policy["PolicyDocument"])["Statement"]
    ]
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    return statements, {**trust, "Resource": "*"}


def inline_document(document: Any) -> dict[str, Any]:
    """The same document where it is written as JSON text, as keys that a parameter names have to
    be."""
    found: dict[str, Any] = json.loads(document) if isinstance(document, str) else document
    return found


def _functions(document: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    # With an organization: the most that they may ever do.
    resources, known = (
        document["Resources"],
        {**_parameters(document), "OrganizationId": "o-abcdefghij"},
    )
    return {
        name.removesuffix("Function"): [
            written_out(statement, known)
            for policy in policies_of(resource["Properties"], resources, name)
            for statement in policy["Statement"]
        ]
        for name, resource in resources.items()
        if isinstance(resource, dict) and resource["Type"] == "AWS::Serverless::Function"
    }


def policies_of(
    properties: Mapping[str, Any], resources: Mapping[str, Any], name: str = ""
) -> list[Mapping[str, Any]]:
    """The documents on the role of the function or state machine of this name: SAM makes it, or a
    loop.

    Where the loops are not written out, what the loop puts on each of its roles is missing.
    """
    if "Role" not in properties:
        given = properties["Policies"]
        own = [_document(one, resources) if "Ref" in one else one for one in given]
        return [
            *own,
            *(_document({"Ref": one}, resources) for one in attached(f"{name}Role", resources)),
        ]
    role = properties["Role"]["Fn::GetAtt"][0]
    named = resources.get(role, {}).get("Properties", {})
    refs = [one for one in named.get("ManagedPolicyArns", ()) if "Ref" in one]
    refs = refs or [{"Ref": "BaseAccess"}, {"Ref": role.removesuffix("FunctionRole") + "Access"}]
    shared = [{"Ref": one} for one in attached(role, resources)]
    inline = [one["PolicyDocument"] for one in named.get("Policies", ())]
    return [*(_document(one, resources) for one in (*refs, *shared)), *inline]


def attached(role: str, resources: Mapping[str, Any]) -> list[str]:
    """Return the managed policies that name this role themselves."""
    found = []
    for name, one in resources.items():
        if isinstance(one, dict) and {"Ref": role} in one.get("Properties", {}).get("Roles", ()):
            found.append(name)
    return found


def _document(policy: Mapping[str, Any], resources: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = resources[policy["Ref"]]["Properties"]["PolicyDocument"]
    return found


@cache
def _member_stack() -> dict[str, Any]:
    return load_template(ROOT / "stacks/member.yaml")


def members(**parameters: Any) -> dict[str, tuple[list[dict[str, Any]], dict[str, Any]]]:
    """The statements and the trust of each member role, by the end of its name; trust of its one
    statement.

    A condition of the template holds where the parameter that it is named after is given.
    """
    document = _member_stack()
    known = {
        **_parameters(document),
        "HubAccountId": ACCOUNT,
        "HubRegion": "us-east-1",
        **parameters,
    }
    found = {}
    for resource in document["Resources"].values():
        name = written_out(resource["Properties"]["RoleName"], known)
        found[name.rpartition("-")[2]] = _role(resource, known)
    return found


def written_out(node: Any, known: Mapping[str, Any]) -> Any:
    """The same with references, substitutions and attributes as the text they stand for."""
    if isinstance(node, list):
        written = (written_out(one, known) for one in node)
        return [one for one in written if one != "the-AWS::NoValue"]
    if not isinstance(node, dict):
        return node
    match node:
        case {"Ref": name}:
            return known.get(name) or f"the-{name}"
        case {"Fn::Sub": [text, given]}:
            return written_out({"Fn::Sub": text}, {**known, **written_out(given, known)})
        case {"Fn::Sub": text}:
            return re.sub(
                r"\$\{([\w:]+)\}", lambda found: known.get(found[1]) or f"the-{found[1]}", text
            )
        case {"Fn::GetAtt": [name, "Arn"]}:
            return f"arn:of:{name}"
        case {"Fn::If": [condition, then, otherwise]}:
            return written_out(
                otherwise if known.get(_CONDITIONS.get(condition, "")) == "" else then, known
            )
    parts = {key: written_out(value, known) for key, value in node.items()}
    return {key: part for key, part in parts.items() if part != "the-AWS::NoValue"}


def _parameters(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **PSEUDO,
        **{name: str(one.get("Default", "")) for name, one in document["Parameters"].items()},
    }
