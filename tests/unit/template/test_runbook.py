"""Whoever gets an alarm finds what it means and what to do, and nothing is explained that no longer
fires."""

from __future__ import annotations

import json
import re

import pytest

from tests.unit.template.machines import ROOT, template

STACKS = [
    "template.yaml",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "stacks").glob("*.yaml"))),
]
ALARMS = {
    f"{stack}/{name}": resource["Properties"]
    for stack in STACKS
    for name, resource in template(stack)["Resources"].items()
    if resource["Type"] == "AWS::CloudWatch::Alarm"
}
ROW = re.compile(r'^\| <a id="(\w+)"></a>`\1`.* \| \S.* \| \S.* \| \S.* \| \S.* \|$', re.MULTILINE)
LINK = re.compile(r"Runbook: docs/alarms\.md#(\w+)")


def linked(alarm: dict[str, object]) -> list[str]:
    """The sections that an alarm's description names, and therefore every message about it."""
    return LINK.findall(json.dumps(alarm["AlarmDescription"]))


@pytest.mark.parametrize("name", sorted(ALARMS))
def test_an_alarm_leads_to_its_row(name: str) -> None:
    """A row of its own name; an alarm for further messages shares the row of the first."""
    (section,) = linked(ALARMS[name])
    assert section == name.rpartition("/")[2].removeprefix("More").removesuffix("Alarm")


def test_every_row_is_of_an_alarm() -> None:
    rows = ROW.findall((ROOT / "docs" / "alarms.md").read_text(encoding="utf-8"))
    assert sorted({section for alarm in ALARMS.values() for section in linked(alarm)}) == sorted(
        rows
    )


@pytest.mark.parametrize(
    "name", [name for name in sorted(ALARMS) if name.startswith("template.yaml")]
)
def test_an_alarm_is_heard_when_it_begins_and_when_it_ends(name: str) -> None:
    """It begins at the topic; its end is taken from EventBridge, so that no mail says that all is
    well."""
    assert [{"Ref": "AlertTopic"}] == ALARMS[name]["AlarmActions"]
    assert "OKActions" not in ALARMS[name]
    over = template()["Resources"]["AlarmOverRule"]["Properties"]["EventPattern"]
    named = [str(one.get("prefix")) for one in over["resources"]]
    assert any(one.endswith("alarm:${AWS::StackName}-'}") for one in named)
    assert {"state": {"value": ["OK"]}, "previousState": {"value": ["ALARM"]}} == over["detail"]


RESOURCES = template()["Resources"]
WATCHED = {
    one["Ref"]
    for alarm in ALARMS.values()
    for dimension in alarm.get("Dimensions", ())
    for one in [dimension["Value"]]
    if isinstance(one, dict) and "Ref" in one
}
"""The services whose failures an alarm of the stack counts."""
QUEUES = {
    str(dimension["Value"]["Fn::GetAtt"][0])
    for name, alarm in ALARMS.items()
    if name.startswith("template.yaml")
    for dimension in alarm.get("Dimensions", ())
    if dimension["Name"] == "QueueName"
}


def named(node: object) -> set[str]:
    """The resources that a part of the template refers to."""
    text = json.dumps(node)
    return {*re.findall(r'"(?:Ref|Fn::GetAtt)": (?:\["|")(\w+)', text)}


def hears(function: str) -> set[str]:
    """The alarms' sources by which a failure of a function is heard."""
    properties = RESOURCES[function]["Properties"]
    found = {function} & WATCHED
    found |= named(properties.get("EventInvokeConfig")) & QUEUES
    for event in properties.get("Events", {}).values():
        if event["Type"] == "SQS":
            queue = RESOURCES[event["Properties"]["Queue"]["Fn::GetAtt"][0]]["Properties"]
            found |= named(queue["RedrivePolicy"]) & QUEUES
    for name, resource in RESOURCES.items():
        kind, more = resource["Type"], resource["Properties"]
        if kind == "AWS::Serverless::StateMachine" and function in named(
            more["DefinitionSubstitutions"]
        ):
            found |= {name} & WATCHED
        if kind == "AWS::ApiGatewayV2::Integration" and function in named(more["IntegrationUri"]):
            found |= {"Api"} & WATCHED
    return found


@pytest.mark.parametrize(
    "function",
    [name for name, one in RESOURCES.items() if one["Type"] == "AWS::Serverless::Function"],
)
def test_a_failure_of_each_function_is_heard(function: str) -> None:
    """By an alarm on its errors, its queue of failures, its state machine, or the answers of the
    API."""
    assert hears(function)


def test_each_queue_for_what_failed_has_an_alarm() -> None:
    """In all stacks: what waits in one unseen is lost after 14 days."""
    for stack in STACKS:
        resources = template(stack)["Resources"]
        dead = {
            target
            for one in resources.values()
            for key in (
                "RedrivePolicy",
                "DeadLetterConfig",
                "DestinationConfig",
                "Targets",
                "EventInvokeConfig",
            )
            for target in named(one.get("Properties", {}).get(key))
            if resources.get(target, {}).get("Type") == "AWS::SQS::Queue"
        } - {"DeliveryQueue", "InterruptionQueue"}
        alarmed = {
            target
            for one in resources.values()
            if one["Type"] == "AWS::CloudWatch::Alarm"
            for target in named(one["Properties"])
        }
        assert dead <= alarmed, stack
