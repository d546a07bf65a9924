"""`docs/events.md` names every event that a rule lets through, and every function that answers."""

from __future__ import annotations

from tests.unit.template.machines import ROOT, rules

TEXT = (ROOT / "docs" / "events.md").read_text()


def test_every_rule_is_described() -> None:
    """By its detail types, the rest of a prefix written as dots, and by the function that has
    samples."""
    assert rules()
    for rule in rules():
        assert f"`{rule.folder}`" in TEXT
        assert list((ROOT / "events" / rule.folder).glob("*.json"))
        for one in rule.pattern["detail-type"]:
            name = one if isinstance(one, str) else f"{one['prefix']}..."
            assert f"`{name}`" in TEXT
