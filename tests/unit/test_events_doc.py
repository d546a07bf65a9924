"""`docs/events.md` names every event that a rule lets through, and every function that answers."""

from __future__ import annotations

from dataclasses import fields

from governor.domain.policy import Events
from tests.unit.template.machines import ROOT, rules

TEXT = (ROOT / "docs" / "events.md").read_text()


def test_every_rule_is_described() -> None:
    """By its detail types, the rest of a prefix written as dots, and by the function that has samples."""
    assert 13 == len(rules())
    for rule in rules():
        assert f"`{rule.folder}`" in TEXT
        assert list((ROOT / "events" / rule.folder).glob("*.json"))
        for one in rule.pattern["detail-type"]:
            name = one if isinstance(one, str) else f"{one['prefix']}..."
            assert f"`{name}`" in TEXT


def test_every_setting_is_in_the_policy_document() -> None:
    """With its default."""
    policy = (ROOT / "docs" / "policy.md").read_text()
    for one in fields(Events):
        default = str(one.default).lower() if isinstance(one.default, bool) else None
        assert f"  {one.name}: {default or ''}" in policy
