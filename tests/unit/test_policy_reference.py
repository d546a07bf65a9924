"""The reference of the policy is generated, complete, and says what every setting means."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.policy_schema import meanings, policy_schema, sections
from governor.evidence.rules.figures import FIGURES
from governor.policy.model.policy import Override, Policy
from governor.policy.model.profiles import PROFILES
from scripts.policy_reference import PAGE, SCHEMA, page, reference, setting_paths
from scripts.policy_who_sets import ENTRIES, UnplacedSettingError, who_sets_chapter

TABLES = reference(policy_schema())
PATHS = setting_paths(policy_schema())
ROWS = [line for line in TABLES.splitlines() if line.startswith("| `")]


def section(name: str, setting: dict[str, Any]) -> dict[str, Any]:
    """A schema with one section of one setting."""
    inner = {
        "description": "About it.",
        "properties": {name: {"description": "What it is.", **setting}},
    }
    return {
        "description": "All.",
        "properties": {"idle": {"$ref": "#/$defs/Idle", "description": "Idle."}},
        "$defs": {
            "Idle": inner,
            "OverrideMatch": {"description": "Whom.", "properties": {}},
            "Kind": {"enum": ["a", "b"], "type": "string"},
        },
    }


def test_the_policy_reference_is_that_of_the_code() -> None:
    """`make fix` writes it, and the schema beside the examples."""
    assert page(policy_schema()) == PAGE.read_text(encoding="utf-8")
    assert policy_schema() == json.loads(SCHEMA.read_text(encoding="utf-8"))


def test_every_setting_says_who_sets_it_and_when() -> None:
    """A setting that nobody would set is noticed when it is added."""
    assert len(PATHS) == sum(len(entry.paths) for entry in ENTRIES)
    assert [] == [entry for entry in ENTRIES if not entry.who or not entry.when]
    for wrong in (
        [*PATHS, "idle.brand_new"],
        [path for path in PATHS if path != "idle.window_minutes"],
    ):
        with pytest.raises(UnplacedSettingError, match=r": idle\.(brand_new|window_minutes)$"):
            who_sets_chapter(wrong)


def test_a_setting_has_one_entry_on_who_sets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would say different things one day."""
    monkeypatch.setattr("scripts.policy_who_sets.ENTRIES", (*ENTRIES, ENTRIES[0]))
    with pytest.raises(UnplacedSettingError, match=r": version$"):
        who_sets_chapter(PATHS)


def test_every_setting_says_what_it_means() -> None:
    """A row without a meaning sends its reader into the code."""
    assert [] == [row for row in ROWS if row.endswith("|  |")]
    for kind in (Policy, Override, *sections(Policy), *sections(Override)):
        assert [] == [
            name for name, meaning in meanings(kind).items() if not meaning.endswith(".")
        ], kind


def test_every_setting_has_a_row() -> None:
    """As many as there are, less the sections, which have a table each."""
    kinds = {
        kind.__name__: len(meanings(kind)) for kind in (*sections(Policy), *sections(Override))
    }
    within = 4  # `contacts`, `scopes`, `work` and `without` have a row and a table.
    tables = TABLES.count("\n### ")
    # A tag stands for two tables; of the document itself `mode`, `version` and
    # `two_people_for_policy` are rows.
    assert sum(kinds.values()) + kinds["TagMatch"] + 3 == len(ROWS) - len(FIGURES) - len(PROFILES)
    # One table is of the figures, and one of the metric profiles.
    assert len(kinds) + 1 + 1 == tables - 2
    assert within == sum("section" in row.split("|")[3] for row in ROWS)


@pytest.mark.parametrize(
    ("setting", "row"),
    [
        (
            {"type": "integer", "minimum": 5, "maximum": 20160, "default": 60},
            "| `60` | 5 to 20,160 |",
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "maximum": 10, "default": 1.5},
            "| `1.5` | above 0 to 10 |",
        ),
        ({"type": "number", "exclusiveMinimum": 0, "default": 1e6}, "| `1000000` | above 0 |"),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "| `null` | text, or `null` |",
        ),
        ({"$ref": "#/$defs/Kind", "default": "a"}, "| `a` | `a`, `b` |"),
        (
            {"type": "array", "items": {"type": "string"}, "default": ["x"]},
            "| `[x]` | list: text |",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            "| `{}` | by name: text |",
        ),
        ({"type": "boolean", "default": False}, "| `false` | `true`, `false` |"),
    ],
)
def test_a_row_holds_default_and_values(setting: dict[str, Any], row: str) -> None:
    """As the document would write them."""
    assert f"| `one` {row} What it is. |" in reference(section("one", setting))


def test_a_section_that_no_chapter_holds_is_noticed() -> None:
    """A new one must be placed."""
    schema = section("one", {"type": "boolean", "default": True})
    schema["properties"] = {"fresh": schema["properties"]["idle"]}
    with pytest.raises(KeyError, match="fresh"):
        reference(schema)
