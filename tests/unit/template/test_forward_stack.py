"""Promises of the stack that forwards events: all that the hub answers and nothing else, to one
bus, with nothing lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local.engine.repairs.buses import lets_in
from scripts import forwarded_events
from tests.unit.template.machines import rules, template

STACK = template("stacks/forward_events.yaml")
HUB = template()
RULES = {
    k: r["Properties"] for k, r in STACK["Resources"].items() if r["Type"] == "AWS::Events::Rule"
}
BUS = "arn:${AWS::Partition}:events:${HubRegion}:${HubAccountId}:event-bus/${HubStackName}-members"
SOURCES = sorted({source for rule in RULES.values() for source in rule["EventPattern"]["source"]})
DEPLOYED = {
    "StateChanges",
    "Interruptions",
    "Recommendations",
    "LifecycleActions",
    "ScheduledChanges",
    "CapacityBlocks",
}
"""Rules of stacks in use: under another name each would be replaced."""


def hub_patterns(*, forwarded: bool) -> list[str]:
    """The patterns of the hub's rules, on its default bus or on the one for members, in order."""
    all_of_a_bus = [rule.pattern for rule in rules() if rule.is_forwarded is forwarded]
    own = (["aws.states"], ["aws.s3"], ["aws.cloudwatch"])
    found = [p for p in all_of_a_bus if p["source"] not in own and not is_of_two(p, all_of_a_bus)]
    return sorted(json.dumps(p, sort_keys=True) for p in found)


def is_of_two(pattern: dict[str, Any], patterns: list[dict[str, Any]]) -> bool:
    """Return whether another rule lets the same events through, and more."""
    return any(forwarded_events.is_part_of(pattern, other) for other in patterns)


def test_exactly_what_the_hub_answers_is_forwarded_and_answered() -> None:
    """The same patterns thrice: there, on the hub's bus for members, and on its default bus."""
    sent = sorted(json.dumps(rule["EventPattern"], sort_keys=True) for rule in RULES.values())

    assert hub_patterns(forwarded=False) == hub_patterns(forwarded=True) == sent


def test_the_rules_are_generated_from_those_of_the_hub() -> None:
    """`make fix` writes them; edits by hand would be lost."""
    text = forwarded_events.STACK.read_text(encoding="utf-8")

    assert forwarded_events.rendered() == text


def test_a_new_rule_of_the_hub_is_forwarded_under_a_name_of_its_own() -> None:
    """One of a function, or of a queue. Rules of the hub's own bus stay there."""
    pattern = {"source": ["aws.ec2fleet"], "detail-type": ["EC2 Fleet Instance Change"]}
    rule = {"Type": "EventBridgeRule", "Properties": {"Pattern": pattern}}
    forwarded = {**rule, "Properties": {"Pattern": pattern, "EventBusName": {"Ref": "Members"}}}
    function = {
        "Type": "AWS::Serverless::Function",
        "Properties": {"Events": {"Happened": rule, "Forwarded": forwarded}},
    }
    text = forwarded_events.rules_text({"Resources": {"HandleFleet": function}})

    assert text.startswith("  HandleFleetForwarded:\n")
    assert "        source: [aws.ec2fleet]\n" in text
    assert 1 == text.count("AWS::Events::Rule")


def test_an_event_that_two_rules_of_the_hub_answer_is_sent_once() -> None:
    """`stopped` reaches two functions of the hub; members send it by one rule."""
    stopped_rules = [
        name
        for name, rule in RULES.items()
        if "stopped" in rule["EventPattern"].get("detail", {}).get("state", [])
    ]
    assert ["StateChanges"] == stopped_rules


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"source": ["a"]}, {"source": ["a", "b"]}, True),
        ({"source": ["a"]}, {"source": ["a"]}, False),
        ({"source": ["a"]}, {"source": ["b", "c"]}, False),
        ({"source": ["a"]}, {"source": ["a", "b"], "detail": {"state": ["x"]}}, False),
        (
            {"source": ["a"], "detail": {"s": ["x"]}},
            {"source": ["a"], "detail": {"s": ["x", "y"]}},
            True,
        ),
    ],
)
def test_a_rule_is_left_out_only_where_another_sends_all_of_its_events(
    one: dict[str, Any], other: dict[str, Any], expected: bool
) -> None:
    assert expected is forwarded_events.is_part_of(one, other)


def test_rules_in_use_keep_their_names() -> None:
    """A renamed rule is created again, and the old one deleted."""
    assert set(RULES) >= DEPLOYED


def test_a_stack_without_a_place_for_rules_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written into the wrong place."""
    stack = tmp_path / "forward_events.yaml"
    stack.write_text("Resources: {}\n", encoding="utf-8")
    monkeypatch.setattr(forwarded_events, "STACK", stack)
    with pytest.raises(ValueError, match="no place for generated rules"):
        forwarded_events.rendered()


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_sends_to_the_hub_and_keeps_what_was_not_taken(name: str) -> None:
    """With the role that EventBridge needs for it."""
    (target,) = RULES[name]["Targets"]

    assert {"Fn::Sub": BUS} == target["Arn"]
    assert {"Fn::GetAtt": ["ForwarderRole", "Arn"]} == target["RoleArn"]
    assert {"Fn::GetAtt": ["Unsent", "Arn"]} == target["DeadLetterConfig"]["Arn"]
    assert target["RetryPolicy"]["MaximumRetryAttempts"] > 0


def test_beside_the_hub_nothing_is_sent_to_it() -> None:
    """It hears its own events already; each would be answered twice."""
    rules_there = [r for r in STACK["Resources"].values() if r["Type"] == "AWS::Events::Rule"]
    both = STACK["Conditions"]["IsElsewhere"]["Fn::Not"][0]["Fn::And"]

    assert {"IsElsewhere"} == {rule["Condition"] for rule in rules_there}
    assert [
        [{"Ref": "AWS::AccountId"}, {"Ref": "HubAccountId"}],
        [{"Ref": "AWS::Region"}, {"Ref": "HubRegion"}],
    ] == [one["Fn::Equals"] for one in both]


def test_the_role_may_put_events_on_that_bus_alone() -> None:
    """And the bus is the one that the hub's stack makes."""
    (policy,) = STACK["Resources"]["ForwarderRole"]["Properties"]["Policies"]
    (statement,) = policy["PolicyDocument"]["Statement"]

    assert ("events:PutEvents", {"Fn::Sub": BUS}) == (statement["Action"], statement["Resource"])
    made = HUB["Resources"]["MemberEvents"]["Properties"]["Name"]["Fn::Sub"]
    assert BUS.rpartition("/")[2] == made.replace("AWS::StackName", "HubStackName")


def statements() -> dict[str, dict[str, Any]]:
    """The statements of the bus by name, with the conditions under which each is there."""
    condition, policy, nothing = HUB["Resources"]["MemberEvents"]["Properties"]["Policy"]["Fn::If"]
    assert ("HasSenders", {"Ref": "AWS::NoValue"}) == (condition, nothing)
    found = {}
    for one in policy["Statement"]:
        needs, statement, _ = one["Fn::If"]
        found[statement["Sid"]] = {**statement, "needs": needs}
    return found


def test_the_bus_takes_events_of_aws_from_members_only() -> None:
    """Events of the forwarded sources, which only AWS can put; an organization by its id; nobody at
    all by default."""
    found = statements()

    assert {"Members": "HasMembers", "Organization": "HasOrganization"} == {
        sid: one["needs"] for sid, one in found.items()
    }
    for one in found.values():
        assert "events:PutEvents" == one["Action"]
        # A call may hold several events, so the key has several values.
        allowed = one["Condition"]["ForAllValues:StringEquals"]["events:source"]
        assert SOURCES == sorted(allowed)
    assert {"AWS": {"Ref": "MemberAccountIds"}} == found["Members"]["Principal"]
    by_organization = found["Organization"]["Condition"]["StringEquals"]
    assert {"Ref": "OrganizationId"} == by_organization["aws:PrincipalOrgID"]
    assert ["", ""] == [
        HUB["Parameters"][p]["Default"] for p in ("MemberAccountIds", "OrganizationId")
    ]


@pytest.mark.parametrize(
    ("account", "source", "taken"),
    [
        ("210987654321", "aws.ec2", True),
        ("210987654321", "aws.s3", False),
        ("333333333333", "aws.ec2", False),
    ],
)
def test_the_local_cloud_lets_in_whom_the_policy_names(
    account: str, source: str, taken: bool
) -> None:
    """The tests of members rest on this."""
    statement = statements()["Members"] | {"Principal": {"AWS": ["210987654321"]}}

    assert taken is lets_in({"Statement": [statement]}, account, source)
    assert not lets_in({}, account, source)
