"""Reads a CloudFormation template as plain data, short intrinsic functions written out."""

from __future__ import annotations

import json
import sys
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

try:  # ten times faster; not every build of PyYAML has it
    from yaml import CSafeLoader as _Safe
except ImportError:
    from yaml import SafeLoader as _Safe  # type: ignore[assignment]


class _Loader(_Safe):
    """Knows `!Ref`, `!Sub` and their kin."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    value: Any
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)  # type: ignore[arg-type]
    if suffix in ("Ref", "Condition"):
        return {suffix: value}
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {f"Fn::{suffix}": value}


_Loader.add_multi_constructor("!", _intrinsic)  # type: ignore[no-untyped-call]


def load_template(path: Path) -> dict[str, Any]:
    """Return the template as dicts and lists, which the caller may change."""
    return deepcopy(_parsed(path.read_text(encoding="utf-8")))


@cache
def _parsed(text: str) -> dict[str, Any]:
    """Return the template of this text. To parse it takes many times as long as to copy it."""
    # _Loader is a SafeLoader with CloudFormation's tags.
    document: dict[str, Any] = yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader
    return document


def expand_template(path: Path) -> dict[str, Any]:
    """Return the template with the loops of its resources written out.

    cfn-lint's own `AWS::LanguageExtensions` does it. A look-up inside a loop by the value of a
    parameter comes back as the value for one of those that are allowed.
    """
    return deepcopy(_expanded(path))


@cache
def _expanded(path: Path) -> dict[str, Any]:
    document = load_template(path)
    loops = {}
    written = {}
    for name, resource in document["Resources"].items():
        if name.startswith("Fn::ForEach::"):
            loops[name] = resource
        else:
            written[name] = resource
    if not loops:
        return document
    # Imported late: it takes two seconds, and only tests and linters need it.
    from cfnlint.template import Template
    from cfnlint.template.transforms._language_extensions import language_extension

    # Loops refer to no other resource, and cfn-lint copies all that it is given many times. A
    # copy, because it sorts what it reads.
    with_loops_alone = deepcopy({**document, "Resources": loops, "Outputs": {}})
    template = Template(str(path), with_loops_alone, ["us-east-1"])
    problems, expanded = language_extension(template)
    if problems:
        raise ValueError(f"{path.name} cannot be expanded: {problems[0].message}")
    return {**document, "Resources": {**expanded["Resources"], **written}}


if __name__ == "__main__":
    print(json.dumps(expand_template(Path(sys.argv[1])), indent=1))
