"""Reads tags and the name of a resource in AWS's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from governor.core.instance import NAME_TAG
from governor.core.units import printable


def tags_in(record: Mapping[str, Any]) -> dict[str, str]:
    """Return the tags of a record by key; empty if it has none."""
    return {tag["Key"]: tag.get("Value") or "" for tag in record.get("Tags") or ()}


def name_in(tags: Mapping[str, str]) -> str:
    """Return the `Name` tag as one line; empty without one."""
    return printable(tags.get(NAME_TAG, ""))
