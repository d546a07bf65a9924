"""A stack deployed from an earlier version updates in place: nothing that holds state is
replaced."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from tests.unit.template.machines import ROOT, template

DEPLOYED: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "tests" / "unit" / "template" / "deployed.json").read_text(encoding="utf-8")
)
"""Functions, and what has a name or holds state, as the template of 2428e04 declares them: the type
of each, and the values that CloudFormation may not be able to change without a replacement."""
FIXED_BY_SAM = {
    "AWS::Serverless::Function": ("FunctionName", "PackageType"),
    "AWS::Serverless::LayerVersion": (),
    "AWS::Serverless::StateMachine": ("Name", "Type"),
}
RESOURCES: dict[str, dict[str, Any]] = template()["Resources"]


def fixed(resource: dict[str, Any]) -> dict[str, Any]:
    """Return what a resource declares that only a replacement can change, a plain `Fn::Sub`
    resolved."""
    kind, properties = resource["Type"], resource.get("Properties", {})
    names: tuple[str, ...] | None = FIXED_BY_SAM.get(kind)
    if names is None:
        schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
        listed = (
            *schema.get("createOnlyProperties", ()),
            *schema.get("conditionalCreateOnlyProperties", ()),
        )
        names = tuple(one.split("/")[2] for one in listed)
    return {name: resolved(properties[name]) for name in sorted({*names}) if name in properties}


def resolved(value: Any) -> Any:
    """The same for both ways to write a substitution."""
    match value:
        case {"Fn::Sub": [str(text), dict(variables)]}:
            for name, given in variables.items():
                text = text.replace(f"${{{name}}}", str(given))
            return {"Fn::Sub": text}
        case {"Fn::GetAtt": [str(name), str(attribute)]}:
            return {"Fn::GetAtt": f"{name}.{attribute}"}
    return value


@pytest.mark.parametrize("name", sorted(DEPLOYED))
def test_nothing_that_was_deployed_is_removed_or_replaced(name: str) -> None:
    """The same logical id stands for the same type, with the same values where a change would
    replace it."""
    before, now = DEPLOYED[name], RESOURCES[name]

    assert (before["type"], before["condition"]) == (now["Type"], now.get("Condition"))
    assert before["fixed"] == fixed(now)
