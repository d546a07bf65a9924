"""`docs/events.md` names every event that a rule lets through, and every function that answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import events_reference
from scripts.events_reference import PAGE, section, with_events
from tests.unit.template.machines import ROOT, rules

TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [line for line in TEXT.splitlines() if line.startswith("| `")]


def test_the_section_is_that_of_the_rules() -> None:
    """`make fix` writes it."""
    assert with_events(TEXT) == TEXT


def test_every_rule_is_described() -> None:
    """By its detail types, the rest of a prefix written as dots, its source and the function."""
    assert rules()
    for rule in rules():
        assert list((ROOT / "events" / rule.folder).glob("*.json"))
        (source,) = rule.pattern["source"]
        for one in rule.pattern["detail-type"]:
            name = one if isinstance(one, str) else f"{one['prefix']}..."
            (row,) = [row for row in ROWS if f"`{name}`" in row and f"| `{rule.folder}` |" in row]
            assert f"| `{source}`" in row
            assert not rule.is_forwarded or f"`{source}`, forwarded |" in row


def test_a_row_names_samples_of_its_event_alone() -> None:
    """A warning in a message of a queue counts; a malformed sample does not."""
    (block,) = [row for row in ROWS if row.startswith("| `Capacity Block ...`")]
    (spot,) = [row for row in ROWS if row.startswith("| `EC2 Spot")]
    (undo,) = [row for row in ROWS if "| `undo_episode` |" in row]

    assert block.endswith("| `handle_notice/block-scheduled` |")
    assert "`handle_spot_interruption/batch`" in spot
    assert undo.endswith("| `handle_state_change/stopped` |")
    assert "malformed" not in TEXT


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("[Object Created]", "[Object Gone]", "does not say what plan_sweep does with 'Object Cr"),
        ("[Object Created]", "[Object Created, Gone]", "no rule brings 'Gone' to plan_sweep"),
    ],
)
def test_an_event_without_words_is_refused(
    old: str, new: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A new rule comes with what it does, and words without a rule go."""
    text = events_reference.WORDS.read_text(encoding="utf-8")
    (tmp_path / "events.yaml").write_text(text.replace(old, new), encoding="utf-8")
    monkeypatch.setattr(events_reference, "WORDS", tmp_path / "events.yaml")

    with pytest.raises(ValueError, match=why):
        section()


def test_a_page_without_the_section_is_refused() -> None:
    """Nothing would be generated."""
    with pytest.raises(ValueError, match="no section '## Every event'"):
        with_events("# Events\n")
