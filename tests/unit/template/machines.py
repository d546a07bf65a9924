"""State machine definitions as graphs, and the template as plain data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from local.engine.templates import expand_template
from tests.iam import policies_of

ROOT = Path(__file__).parents[3]
MACHINES = ("remediation", "sweep")


def definition(name: str) -> dict[str, Any]:
    """The definition of a machine."""
    document: dict[str, Any] = json.loads((ROOT / "statemachines" / f"{name}.asl.json").read_text())
    return document


@cache
def template(path: str = "template.yaml") -> dict[str, Any]:
    """A template of the project, its loops written out. The same one for all: who changes it,
    copies it."""
    return expand_template(ROOT / path)


def statements(properties: dict[str, Any]) -> list[dict[str, Any]]:
    """All statements of the role of a function or state machine, those of shared policies
    included."""
    policies = policies_of(properties, template()["Resources"])
    found = [s for policy in policies for s in policy["Statement"]]
    # A statement may depend on a parameter: what it is when it is there.
    return [s["Fn::If"][1] if "Fn::If" in s else s for s in found]


@dataclass(frozen=True)
class Rule:
    """One rule of the hub's: the folder of the function that answers, at once or out of a queue."""

    folder: str
    pattern: dict[str, Any]
    is_forwarded: bool
    """On the bus for members, not on the default one."""


def rules() -> list[Rule]:
    """Every rule that leads to a function."""
    resources = template()["Resources"].values()
    found: list[Rule] = []
    for function in (
        r["Properties"] for r in resources if r["Type"] == "AWS::Serverless::Function"
    ):
        folder = function["CodeUri"].removeprefix("functions/").rstrip("/")
        for event in function.get("Events", {}).values():
            given = event["Properties"]
            if event["Type"] == "EventBridgeRule":
                found.append(Rule(folder, given["Pattern"], "EventBusName" in given))
            elif event["Type"] == "SQS":
                found += [
                    Rule(folder, r["Properties"]["EventPattern"], "EventBusName" in r["Properties"])
                    for r in resources
                    if r["Type"] == "AWS::Events::Rule"
                    and given["Queue"] in [target["Arn"] for target in r["Properties"]["Targets"]]
                ]
    return found


def scopes(machine: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The machine itself and every map's own machine: names of states do not leave their scope."""
    yield machine
    for state in machine["States"].values():
        if state["Type"] == "Map":
            yield from scopes(state["ItemProcessor"])


def targets(state: dict[str, Any]) -> set[str]:
    """Return where a state can lead, errors included."""
    found = {state[key] for key in ("Next", "Default") if key in state}
    found |= {choice["Next"] for choice in state.get("Choices", ())}
    return found | {catcher["Next"] for catcher in state.get("Catch", ())}


def reachable(
    machine: dict[str, Any], start: str, without: frozenset[str] = frozenset()
) -> set[str]:
    """States that can be reached from one, when no path may lead through `without`."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name in seen or name in without:
            continue
        seen.add(name)
        waiting += targets(machine["States"][name])
    return seen
