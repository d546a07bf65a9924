"""Writes `docs/managers.md` from `managers.json`: page and code cannot differ."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "layers/shared/governor/core/managers.json"
PAGE = ROOT / "docs/managers.md"
_HEAD = """\
# Tools that run GPU instances, and how they are recognized

Other tools also launch, stop or schedule instances. GPU Governor recognizes them by the tags of an
instance, and leaves the instance alone, asks people, or warns that a stop will not last. The tables
below list the tools and their tags.

If a tool is missing here, its instances are treated like all others. To protect them, list one of
their tags in the policy's `managed.tag_keys`, or exempt them. Instances with an unknown tag
that begins with `aws:` are left alone, because an AWS service has set it.

## How a tag counts

- Letter case does not matter.
- A tag does not count if its value says no (`false`, `no`, `off`, `none`, `disabled`, `n/a`).
  Examples are `k8s=false` and `AutoStart=no`.
- *In a key* means that a word of the tag's key begins with the text. `rancher` is in `my-rancher`
  and `myRancher`, but not in `brancher`. Such a tag does not count if its value is empty.
- Some tags count whatever their value is: tags of AWS (`aws:...`), keys with a `/` or `:`, and
  keys that the roles' IAM policies deny, such as `AmazonECSManaged`.

A question also names the role or user that [launched the
instance](approvals.md#who-launched-it). If that name contains a word from these tables, the
question adds a guess, such as "perhaps by Jenkins". The guess decides nothing.
"""
_SECTIONS = {
    "leave-alone": (
        "Left alone",
        "These tools launch and end their instances themselves, so GPU Governor never stops one.\n"
        "The owner of the environment gets one message for [all its idle\n"
        "instances](policy.md#instances-that-another-service-runs).",
    ),
    "ask": (
        "Asked about, because the tool may undo it",
        "These tools created the instance, and their next run may undo a stop or a termination.\n"
        "People are asked, and the question says so under *Other tools may undo it*.",
    ),
    "schedule": (
        "Started by a schedule",
        "A stop lasts until the next start time, and the question says so. After a start, the\n"
        "idle time begins again. After two such starts, [the escalation contacts are\n"
        "asked](approvals.md#others-start-it-again).",
    ),
}
_FOOT = """\
## Add a tool

This page is generated from `layers/shared/governor/core/managers.json`. Add an object there (see
[its fields](../layers/shared/governor/core/README.md#managers)), and run `make fix`.
"""


def page() -> str:
    """Return the text of the page."""
    managers: list[Mapping[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
    parts = [_HEAD]
    for manager_class, (title, lead) in _SECTIONS.items():
        parts.append(f"## {title}\n\n{lead}\n")
        parts.append(_table(manager_class, managers))
    parts.append(_FOOT)
    return "\n".join(parts)


def _table(manager_class: str, managers: list[Mapping[str, Any]]) -> str:
    """Return the table of one class."""
    is_asked = manager_class == "ask"
    after = "after a stop | after a termination | " if is_asked else ""
    lines = [
        f"| tool | recognized by | {after}source |",
        f"|---|---|{'---|---|' if is_asked else ''}---|",
    ]
    for manager in managers:
        if manager["class"] != manager_class:
            continue
        cells = [manager["manager"], _marks_text(manager)]
        if is_asked:
            cells += [manager["after_stop"], manager["after_termination"]]
        lines.append(f"| {' | '.join([*cells, manager['source']])} |")
    return "\n".join([*lines, ""])


def _marks_text(manager: Mapping[str, Any]) -> str:
    """Return the marks of a manager, in the order in which they count."""
    marks = [f"`{key}`" for key in manager.get("keys", ())]
    for key, patterns in manager.get("values", {}).items():
        marks += [f"`{key}={pattern}`" for pattern in patterns]
    marks += [f"`{prefix}...`" for prefix in manager.get("prefixes", ())]
    for creator in manager.get("created_by", ()):
        marks.append(f"`{creator}` in `ManagedBy`, `CreatedBy` and the like")
    marks += [f"`{word}` in a key" for word in manager.get("words", ())]
    return ", ".join(marks)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
