"""`docs/events.md` names every event that a rule lets through, and every function that answers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from governor.domain.policy import Events
from tests.unit.template.machines import ROOT, template

TEXT = (ROOT / "docs" / "events.md").read_text()


def rules() -> list[tuple[str, dict[str, Any]]]:
    """The folder of the function and the pattern of every rule."""
    functions = [
        r["Properties"] for r in template()["Resources"].values() if r["Type"].endswith("::Function")
    ]
    return [
        (properties["CodeUri"].removeprefix("functions/").rstrip("/"), event["Properties"]["Pattern"])
        for properties in functions
        for event in properties.get("Events", {}).values()
        if event["Type"] == "EventBridgeRule"
    ]


def test_every_rule_is_described() -> None:
    """By its detail types, a star written as dots, and by the function that has samples."""
    assert 13 == len(rules())
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
