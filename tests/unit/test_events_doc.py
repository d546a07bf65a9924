"""`docs/events.md` names every event that a rule lets through, and every function that answers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from governor.domain.policy import Events
from tests.unit.template.machines import ROOT, template

TEXT = (ROOT / "docs" / "events.md").read_text()


def rules() -> list[tuple[str, dict[str, Any]]]:
    """The folder of the function and the pattern of every rule, those that end at a queue included."""
    resources = template()["Resources"].values()
    patterns = {
        target["Arn"]["Fn::GetAtt"][0]: r["Properties"]["EventPattern"]
        for r in resources
        if r["Type"] == "AWS::Events::Rule"
        for target in r["Properties"]["Targets"]
    }
    found = []
    for properties in (r["Properties"] for r in resources if r["Type"].endswith("::Function")):
        folder = properties["CodeUri"].removeprefix("functions/").rstrip("/")
        for event in properties.get("Events", {}).values():
            if event["Type"] == "EventBridgeRule":
                found.append((folder, event["Properties"]["Pattern"]))
            elif event["Type"] == "SQS" and event["Properties"]["Queue"]["Fn::GetAtt"][0] in patterns:
                found.append((folder, patterns[event["Properties"]["Queue"]["Fn::GetAtt"][0]]))
    return found


def test_every_rule_is_described() -> None:
    """By its detail types, a star written as dots, and by the function that has samples."""
    assert 6 == len(rules())
    for function, pattern in rules():
        assert f"`{function}`" in TEXT
        assert list((ROOT / "events" / function).glob("*.json"))
        for one in pattern["detail-type"]:
            name = one if isinstance(one, str) else one["wildcard"].replace("*", " ... ")
            assert f"`{name}`" in TEXT


def test_every_setting_is_in_the_policy_document() -> None:
    """With its default."""
    policy = (ROOT / "docs" / "policy.md").read_text()
    for one in fields(Events):
        default = str(one.default).lower() if isinstance(one.default, bool) else None
        assert f"  {one.name}: {default or ''}" in policy
