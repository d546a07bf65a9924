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
their tags in the policy's `managed.tag_keys`, or exempt them. Instances with any other tag that
begins with `aws:` are left alone, because an AWS service runs them. Tags that begin with
`aws:cloudformation:`, `aws:ec2launchtemplate:`, `aws:createdBy` or `aws:backup:` are exceptions.

## How a tag counts

- Letter case does not matter.
- *In a key* means that a word of the tag's key begins with the text. `rancher` is in `my-rancher`
  and `myRancher`, but not in `brancher`. Such a tag does not count if its value is empty, unless
  the key contains `/` or `:`.
- *Creator* means that the value of `CreatedBy`, `DeployedBy`, `IaC`, `IaCTool`, `ManagedBy`,
  `ProvisionedBy` or `Provisioner` contains the text as a whole word. `terraform` is in
  `terraform-prod`, but not in `my-terraform`. Spaces and punctuation in these keys do not matter:
  `managed-by` counts, too.
- A tag does not count if its value says no (`false`, `no`, `off`, `none`, `disabled`, `n/a`).
  Examples are `k8s=false` and `AutoStart=no`.
- Even with such a value, these tags count: tags whose key contains `/` or `:`, tags that the tables
  list with `...`, and tags with a key for which [IAM denies a
  stop](accounts.md#what-iam-allows-at-the-moment-of-a-call), such as `AmazonECSManaged`.

The message that asks people about an instance also names the role or user that [launched
it](approvals.md#who-launched-it). If that name contains a word from these tables, the message adds
a guess, such as "perhaps on behalf of Jenkins". No decision depends on the guess.
"""
_SECTIONS = {
    "leave-alone": (
        "Left alone",
        "These tools launch and terminate their own instances, so GPU Governor never stops them.\n"
        "The owner of an [environment](index.md#environment), such as a cluster or a node group,\n"
        "gets one message for [all of its idle\n"
        "instances](policy.md#instances-that-another-service-runs).",
    ),
    "ask": (
        "People are asked, because the tool may undo a stop",
        "These tools created the instance, and their next run may undo a stop or a termination.\n"
        "People are asked, and the question says so under *Other tools may undo it*.",
    ),
    "schedule": (
        "Started by a schedule",
        "A stop lasts until the next start time, and the question says so. After a start, the\n"
        "idle time begins again. After two such starts, [the escalation contacts are\n"
        "asked](approvals.md#when-others-restart-an-instance).",
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
    tags = [f"`{key}`" for key in manager.get("keys", ())]
    for key, patterns in manager.get("values", {}).items():
        tags += [f"`{key}={pattern}`" for pattern in patterns]
    tags += [f"`{prefix}...`" for prefix in manager.get("prefixes", ())]
    creators = [f"`{creator}`" for creator in manager.get("created_by", ())]
    words = [f"`{word}`" for word in manager.get("words", ())]
    texts = [", ".join(tags)] if tags else []
    if creators:
        texts.append(f"creator: {', '.join(creators)}")
    if words:
        texts.append(f"in a key: {', '.join(words)}")
    return "; ".join(texts)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
