"""Writes the state machine definitions (JSON) from their sources (YAML with shared parts)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "statemachines"


def definition(source: Path) -> dict[str, Any]:
    """Return the definition of a source: everything but the parts that its states share."""
    document: dict[str, Any] = yaml.safe_load(source.read_text(encoding="utf-8"))
    del document["Shared"]
    return document


def rendered(source: Path) -> str:
    """Return the definition as the text of its committed file."""
    return json.dumps(definition(source), indent=2, ensure_ascii=False) + "\n"


def main() -> None:
    """Write the definition of every source next to it."""
    for source in sorted(FOLDER.glob("*.yaml")):
        source.with_suffix(".asl.json").write_text(rendered(source), encoding="utf-8")


if __name__ == "__main__":
    main()
