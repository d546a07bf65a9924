"""Writes the rules of `stacks/forward_events.yaml` from those of the hub.

The hub's rules on its bus for members say which events it answers. Other accounts and Regions must
send exactly these, so each rule there has the pattern of one rule here. A rule here whose events
another one lets through as well needs no rule there: each event would be sent twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from local.engine.templates import load_template

ROOT = Path(__file__).parents[1]
HUB = ROOT / "template.yaml"
STACK = ROOT / "stacks/forward_events.yaml"
FIRST_LINE = "  # Rules generated from template.yaml: `make fix` writes them.\n"
LAST_LINE = "  # End of the generated rules.\n"
_DEPLOYED_NAMES = {
    "HandleStateChangeFunction.Forwarded": "StateChanges",
    "ForwardedInterruptionRule": "Interruptions",
    "HandleRebalanceRecommendationFunction.Forwarded": "Recommendations",
    "HandleLifecycleActionFunction.Forwarded": "LifecycleActions",
    "HandleNoticeFunction.ForwardedScheduledChange": "ScheduledChanges",
    "HandleNoticeFunction.ForwardedCapacityBlock": "CapacityBlocks",
}
"""Logical ids of the first rules, which stacks in use know. A later rule is named like the hub's,
without the dot."""
_BUS = "arn:${AWS::Partition}:events:${HubRegion}:${HubAccountId}:event-bus/${HubStackName}-members"
_RULE = """\
  {name}:
    Type: AWS::Events::Rule
    Condition: IsElsewhere
    Properties:
      EventPattern:
{pattern}
      Targets:
        - Id: hub
          Arn: !Sub {bus}
          RoleArn: !GetAtt ForwarderRole.Arn
          RetryPolicy: {{ MaximumEventAgeInSeconds: 3600, MaximumRetryAttempts: 20 }}
          DeadLetterConfig: {{ Arn: !GetAtt Unsent.Arn }}
"""


def forwarded_patterns(hub: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the pattern of each rule on the hub's bus for members."""
    for name, resource in hub["Resources"].items():
        # A loop of the template is a list; no rule is in one.
        if not isinstance(resource, dict):
            continue
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Events::Rule" and "EventBusName" in properties:
            yield name, properties["EventPattern"]
        if resource["Type"] == "AWS::Serverless::Function":
            yield from _patterns_of_function(name, properties.get("Events", {}))


def _patterns_of_function(
    function: str, events: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    for event_name, event in events.items():
        properties = event.get("Properties", {})
        if event["Type"] == "EventBridgeRule" and "EventBusName" in properties:
            yield f"{function}.{event_name}", properties["Pattern"]


def is_part_of(pattern: object, other: object) -> bool:
    """Return whether `other` lets through all that `pattern` does, and more. It knows values that
    are named one by one; others count as different."""
    if isinstance(pattern, Mapping) and isinstance(other, Mapping):
        is_same_shape = pattern.keys() == other.keys()
        return (
            pattern != other
            and is_same_shape
            and all(
                pattern[key] == other[key] or is_part_of(pattern[key], other[key])
                for key in pattern
            )
        )
    if isinstance(pattern, list) and isinstance(other, list):
        return len(pattern) < len(other) and all(value in other for value in pattern)
    return False


def rules_text(hub: Mapping[str, Any]) -> str:
    """Return the rules of the forwarding stack as YAML."""
    rules: list[str] = []
    named_patterns = dict(forwarded_patterns(hub))
    for hub_name, pattern in named_patterns.items():
        others = [other for name, other in named_patterns.items() if name != hub_name]
        if any(is_part_of(pattern, other) for other in others):
            continue
        name = _DEPLOYED_NAMES.get(hub_name, hub_name.replace(".", ""))
        rules.append(_RULE.format(name=name, pattern=_pattern_text(pattern), bus=_BUS))
    return "".join(rules)


def _pattern_text(pattern: Mapping[str, Any]) -> str:
    """Return a pattern as lines of YAML, at the depth of `EventPattern`."""
    lines: list[str] = []
    for key, value in pattern.items():
        flow = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000)
        lines.append(f"        {key}: {flow.strip()}")
    return "\n".join(lines)


def rendered() -> str:
    """Return the text of the forwarding stack with the hub's rules of now.

    Raises: ValueError if the stack has no place for them.
    """
    text = STACK.read_text(encoding="utf-8")
    start, first_mark, rest = text.partition(FIRST_LINE)
    _, last_mark, end = rest.partition(LAST_LINE)
    if not first_mark or not last_mark:
        raise ValueError(f"{STACK.name} has no place for generated rules")
    return f"{start}{FIRST_LINE}{rules_text(load_template(HUB))}{LAST_LINE}{end}"


def main() -> None:
    """Write the rules into the stack."""
    STACK.write_text(rendered(), encoding="utf-8")


if __name__ == "__main__":
    main()
