"""Writes `docs/policy-reference.md` from the JSON Schema of the policy: page and code cannot
differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from cli.policy_schema import policy_schema
from governor.evidence.rules.figures import FIGURES, Figure, metrics_of
from governor.policy.model.judging import Metrics
from governor.policy.model.profiles import PROFILES, ProfileName
from scripts.policy_who_sets import who_sets_chapter

ROOT = Path(__file__).parents[1]
SCHEMA = ROOT / "examples/policy.schema.json"
PAGE = ROOT / "docs/policy-reference.md"
CHAPTERS: Mapping[str, tuple[str, ...]] = {
    "What is judged, and how": (
        "targets",
        "selector",
        "exemption",
        "metrics",
        "idle",
        "vetoes",
    ),
    "Who is asked, and what is done": ("plan", "approval", "ownership"),
    "Who sees the console": ("console",),
    "What holds actions back": ("breaker", "caps"),
    "Events, health, hints and money": (
        "events",
        "health",
        "managed",
        "prices",
        "money",
        "ledger",
        "budget",
    ),
    "What `governor advice` looks for": ("advice",),
}
"""Title and sections of each chapter."""
_LEAD = """\
# Policy reference

This page lists every setting of a policy. [The policy](policy.md) explains how to write one, and
[Who sets what](#who-sets-what) says who changes each setting, and when. The
[glossary](index.md#glossary) explains words such as sweep and verdict. `make fix` generates this
page.
"""
_KINDS = {
    "string": "text",
    "boolean": "`true`, `false`",
    "integer": "whole number",
    "number": "number",
    "object": "section",
}


def reference(schema: Mapping[str, Any]) -> str:
    """Return the tables of all settings, without who sets them.

    Raises:
        KeyError: a section of the policy is in no chapter.
    """
    tables = dict(_tables(schema, schema, ""))
    placed = {name for names in CHAPTERS.values() for name in names}
    if missing := {path.partition(".")[0] for path in tables} - placed:
        raise KeyError(f"no chapter of CHAPTERS holds {', '.join(sorted(missing))}")
    parts = [_LEAD]
    for title, names in CHAPTERS.items():
        own = [table for path, table in tables.items() if path.partition(".")[0] in names]
        parts += [f"## {title}\n", *own]
    parts += ["## Metrics that are known by name\n", _profiles_table(), _figures_table()]
    parts += ["## The document and its overrides\n", *_document_tables(schema)]
    return "\n".join(parts)


def page(schema: Mapping[str, Any]) -> str:
    """Return the text of the whole page."""
    return f"{reference(schema)}\n{who_sets_chapter(setting_paths(schema))}"


def _document_tables(schema: Mapping[str, Any]) -> list[str]:
    """Return the tables of the document itself, of `match`, and of a place that is left out."""
    match = schema["$defs"]["OverrideMatch"]
    found = [
        _table("The document itself", schema["description"], schema, schema),
        _table("`match` of an override", match["description"], match, schema),
    ]
    place = schema["$defs"].get("Place")
    if place is not None:
        found.append(_table("A place of `targets.without`", place["description"], place, schema))
    return found


def _profiles_table() -> str:
    """Return the publishers that each metric profile knows, from the table that the product
    reads."""
    lines = [
        "### Metric profiles",
        "",
        "`metrics.profile` selects a profile. If a profile has several rows, the first one counts,",
        "unless `metrics.utilization` names the metric of another row. `custom` has no row.",
        "",
        "| profile | publisher | namespace | utilization | power | memory | dimension | unit |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for profile in sorted(PROFILES, key=lambda profile: list(ProfileName).index(profile.name)):
        dimensions = " or ".join(f"`{name}`" for name in profile.device_dimensions)
        cells = (
            f"`{profile.name}`",
            profile.publisher,
            f"`{profile.usual_namespace}`" if profile.usual_namespace else "as configured",
            f"`{profile.utilization}`",
            f"`{profile.power}`" if profile.power else "none",
            f"`{profile.memory}`" if profile.memory else "none",
            f"{dimensions}, one per {profile.part.value}",
            "percent" if profile.percent_per_unit == 1 else "share from 0 to 1",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _figures_table() -> str:
    """Return the figures that may veto, from the table that the product reads."""
    lines = [
        "### Metrics of the vetoes",
        "",
        "If an instance looks idle by GPU utilization alone, the sweep also reads these metrics.",
        "",
        "| veto | meaning | published by | metric | statistic | unit | limit |",
        "|---|---|---|---|---|---|---|",
    ]
    for figure, row in FIGURES.items():
        cells = (
            f"`{figure}`",
            row.words,
            row.publisher.value,
            _metrics_text(figure, row),
            row.statistic,
            row.scale.value,
            f"`{row.limit}`",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _metrics_text(figure: str, row: Figure) -> str:
    """Return the metrics of a figure, with the settings that hold their names."""
    names = metrics_of(figure, Metrics())
    if names == row.metrics:
        return ", ".join(f"`{name}`" for name in names)
    settings = (f"`metrics.{setting}`" for setting in row.metrics)
    return ", ".join(f"{setting} (`{name}`)" for setting, name in zip(settings, names, strict=True))


def _tables(
    section: Mapping[str, Any], schema: Mapping[str, Any], above: str
) -> Iterator[tuple[str, str]]:
    """Yield the table of every section within a section by its path, except of overrides."""
    for name, setting in section["properties"].items():
        inner = _section(setting, schema)
        if name == "overrides" or inner is None:
            continue
        path = f"{above}{name}{'.<name>' if 'additionalProperties' in setting else ''}"
        lead = inner["description"]
        if "required" in inner:  # It has no defaults of its own.
            lead = f"{setting['description']} Default: `{_written(setting['default'])}`."
        yield path, _table(f"`{path}`", lead, inner, schema)
        yield from _tables(inner, schema, f"{path}.")


def setting_paths(schema: Mapping[str, Any]) -> list[str]:
    """Return the path of every setting of the document, except of overrides."""
    return [*_setting_paths(schema, schema, "")]


def _setting_paths(
    section: Mapping[str, Any], schema: Mapping[str, Any], above: str
) -> Iterator[str]:
    for name, setting in section["properties"].items():
        inner = _section(setting, schema)
        if name == "overrides":
            continue
        if inner is None:
            yield f"{above}{name}"
            continue
        each_name = ".<name>" if "additionalProperties" in setting else ""
        yield from _setting_paths(inner, schema, f"{above}{name}{each_name}.")


def _section(setting: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the section that a setting is, may be, or maps names to; `None` if it is a plain
    value."""
    inside = setting.get("additionalProperties") or {}
    options = (setting, *setting.get("anyOf", ()), inside if isinstance(inside, Mapping) else {})
    found = (_resolved(one, schema) for one in options)
    return next((one for one in found if "properties" in one), None)


def _resolved(setting: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    name = setting.get("$ref", "").rpartition("/")[2]
    resolved: Mapping[str, Any] = schema["$defs"][name] if name else setting
    return resolved


def _table(title: str, lead: str, section: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    head = [
        f"### {title}",
        "",
        *wrap(_linked(lead), 100, break_on_hyphens=False),
        "",
        "| setting | default | values | meaning |",
    ]
    rows = []
    for name, setting in section["properties"].items():
        if "properties" in _resolved(setting, schema) or name == "overrides":
            continue
        is_required = name in section.get("required", ())
        default = "required" if is_required else f"`{_written(_default(setting))}`"
        meaning = _linked(setting["description"]).replace("|", "\\|")
        rows.append(f"| `{name}` | {default} | {_values(setting, schema)} | {meaning} |")
    return "\n".join([*head, "|---|---|---|---|", *rows, ""])


def _linked(description: str) -> str:
    """Return a description in which a page in parentheses, such as `(money.md)`, is a link."""
    return re.sub(r"\((\w+)\.md\)", r"([\1](\1.md))", description)


def _default(setting: Mapping[str, Any]) -> Any:
    """Return the default. Mappings have none in the schema, and are empty."""
    return setting.get("default", setting.get("const", {}))


def _values(setting: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    setting = _resolved(setting, schema)
    if "anyOf" in setting:
        return f"{_values(setting['anyOf'][0], schema)}, or `null`"
    if "const" in setting or "enum" in setting:
        return ", ".join(
            f"`{_written(one)}`" for one in setting.get("enum", [setting.get("const")])
        )
    if "maximum" in setting:
        low = f"above {setting['exclusiveMinimum']:,}" if "exclusiveMinimum" in setting else ""
        return f"{low or format(setting['minimum'], ',')} to {setting['maximum']:,}"
    if "exclusiveMinimum" in setting:
        return f"above {setting['exclusiveMinimum']:,}"
    if setting["type"] == "array":
        return f"list: {_values(setting['items'], schema)}"
    if isinstance(setting.get("additionalProperties"), Mapping):
        return f"by name: {_values(setting['additionalProperties'], schema)}"
    return _KINDS[setting["type"]]


def _written(value: Any) -> str:
    """Return a value as the document would hold it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_written(one)}" for key, one in value.items()) + "}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value if isinstance(value, str) else json.dumps(value)


def main() -> None:
    """Write the schema and the page."""
    schema = policy_schema()
    SCHEMA.write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(page(schema), encoding="utf-8")


if __name__ == "__main__":
    main()
