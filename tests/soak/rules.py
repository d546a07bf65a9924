"""The policy as a person reads it: YAML, overrides by tags, defaults from the reference.

This must not use the product's own reading of the policy: the invariants compare the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import yaml

DEFAULTS: Mapping[str, Any] = {
    "mode": "observe",
    "selector.tag_key": "Purpose",
    "selector.tag_value": "GPU-Workload",
    "exemption.tag_key": "GpuGovernor",
    "targets.accounts": (),
    "metrics.publishers_are_trusted": False,
    "metrics.period_seconds": 300,
    "idle.utilization_below_percent": 5.0,
    "vetoes.cpu_percent": 30.0,
    "vetoes.session_younger_than_hours": 12,
    "plan.action": "stop",
    "plan.when_stop_is_unsupported": "notify-only",
    "plan.running_snapshot_valid_minutes": 240,
    "approval.ask_after_minutes": 180,
    "approval.remind_after_minutes": 240,
    "approval.escalate_after_minutes": 240,
    "approval.expire_after_minutes": 960,
    "approval.notice_minutes": 60,
    "approval.on_expiry": "no-action",
    "approval.people_to_stop": 1,
    "approval.people_to_terminate": 2,
    "approval.ask_about_stopped_after_days": None,
    "breaker.hold_minutes": 180,
    "breaker.lift_freezes_before": None,
    "caps.organization_actions_per_hour": 20,
    "caps.account_actions_per_hour": 5,
    "caps.owner_actions_per_hour": 5,
}
"""The defaults of the settings that invariants look at. A test compares them with the product's."""


@lru_cache(512)
def _document(text: str) -> Mapping[str, Any]:
    return yaml.safe_load(text) or {}


@dataclass(frozen=True, slots=True)
class Rules:
    """The policy for one instance, at one moment."""

    text: str
    tags: Mapping[str, str]

    def get(self, path: str) -> Any:
        """Return a setting: of the last override for these tags that names it, of the document, or
        its default."""
        document = _document(self.text)
        value = _in(document, path, DEFAULTS[path])
        for override in self.overrides():
            value = _in(override["set"], path, value)
        return value

    def overrides(self) -> list[Mapping[str, Any]]:
        """Return the overrides for these tags, in their order."""
        overrides = _document(self.text).get("overrides", [])
        return [one for one in overrides if self._is_for_us(one)]

    def people(self) -> frozenset[str]:
        """Return the addresses of all people whom the policy names."""
        contacts = _document(self.text).get("ownership", {}).get("contacts", {})
        return frozenset(address for one in contacts.values() for address in one.get("emails", ()))

    def owners(self) -> frozenset[str]:
        """Return the addresses of those who are notified first of the instance with these tags."""
        ownership = _document(self.text).get("ownership", {})
        contacts = ownership.get("contacts", {})
        owner = self.tags.get("Owner", "")
        if "@" in owner:
            return frozenset({owner.lower()})
        named = contacts.get(owner)
        found = (
            [named] if named else [contacts[one] for one in ownership.get("default_contacts", ())]
        )
        return frozenset(
            address for one in found for address in (*one.get("emails", ()), *one.get("lists", ()))
        )

    def _is_for_us(self, override: Mapping[str, Any]) -> bool:
        wanted = override.get("match", {}).get("tags", {})
        return all(self.tags.get(key) == value for key, value in wanted.items())


def _in(document: Mapping[str, Any], path: str, absent: Any) -> Any:
    found: Any = document
    for name in path.split("."):
        if not isinstance(found, Mapping) or name not in found:
            return absent
        found = found[name]
    return found
