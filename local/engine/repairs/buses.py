"""Event buses of other accounts and Regions.

- AWS: a rule may send to a bus of another Region, and of another account whose policy lets it; the
  event keeps the account and Region it came from. Engine: sends within one account and Region only.
- AWS: a bus takes its policy from `AWS::Events::EventBus`. Engine: the property is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

_log = logging.getLogger("events")


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every call."""
    from ministack.services import eventbridge as engine
    from ministack.services.cloudformation import provisioners

    engine._dispatch_to_event_bus = _with_other_places(engine, engine._dispatch_to_event_bus)
    handlers = provisioners._RESOURCE_HANDLERS["AWS::Events::EventBus"]
    handlers["create"] = _with_policy(engine, handlers["create"])


def _with_policy(engine: Any, create: Callable[..., Any]) -> Callable[..., Any]:
    def made(logical_id: str, props: dict[str, Any], stack_name: str) -> Any:
        answer = create(logical_id, props, stack_name)
        if props.get("Policy"):
            engine._event_bus_policies[props["Name"]] = props["Policy"]
        return answer

    return made


def _with_other_places(engine: Any, within: Callable[..., None]) -> Callable[..., None]:
    def dispatch(
        spec: Any,
        event: dict[str, Any],
        rule: dict[str, Any],
        path: set[str],
        payload: str | None = None,
    ) -> None:
        from ministack.core.responses import get_account_id, get_region, request_scope

        here = get_account_id(), get_region()
        if (spec.account_id, spec.region) == here:
            within(spec, event, rule, path, payload)
            return
        bus = spec.resource.partition("/")[2]
        with request_scope(spec.account_id, spec.region):
            policy = engine._event_bus_policies.get(bus) or {}
            if bus not in engine._event_buses:
                _log.warning("the bus %s is not there", spec)
            elif here[0] != spec.account_id and not lets_in(policy, here[0], event["Source"]):
                _log.warning("the bus %s takes nothing from %s", spec, here[0])
            else:
                # One hop: the rules of that bus send nothing on to a third.
                engine._dispatch_event({**event, "EventBusName": bus})

    return dispatch


def lets_in(policy: dict[str, Any], account: str, source: str) -> bool:
    """Return whether a statement allows this account to put events of this source. Organizations
    are not known."""
    for statement in policy.get("Statement", ()):
        principal = statement.get("Principal")
        named = principal.get("AWS", ()) if isinstance(principal, dict) else ()
        accounts = [named] if isinstance(named, str) else named
        condition = statement.get("Condition", {}).get("ForAllValues:StringEquals", {})
        sources = condition.get("events:source", source)
        fits = source in ([sources] if isinstance(sources, str) else sources)
        if fits and any(
            account in (one, one.rpartition("::")[2].removesuffix(":root")) for one in accounts
        ):
            return True
    return False
