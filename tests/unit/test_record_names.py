"""`governor restore` says in words which records are missing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from cli.record_names import counted_records, record_name
from cli.restore import _why_left_out

STATE = Path(__file__).parents[2] / "docs/state.md"
_ROW = re.compile(r"^\| (.*?) \| (.*?) \| ", re.MULTILINE)


def documented_keys() -> Iterator[tuple[str, str]]:
    """Yield each key that `docs/state.md` lists. A row without a partition key belongs to the one
    above it."""
    partitions: list[str] = []
    for pk_cell, sk_cell in _ROW.findall(STATE.read_text(encoding="utf-8")):
        if pk_cell.startswith("`"):
            partitions = re.findall(r"`([^`]+)`", pk_cell)
        is_key = pk_cell.startswith("`") or pk_cell == ""
        sort_keys = re.findall(r"`([^`]+)`", sk_cell) or [sk_cell]
        for pk in partitions if is_key else []:
            for sk in sort_keys:
                yield pk, sk


def test_records_are_counted_in_words() -> None:
    """The most frequent ones first. What this release does not know stays as it is stored."""
    keys = [("EPISODE#a", "EPISODE"), ("EPISODE#b", "EPISODE"), ("EPISODE#b", "JOURNAL#1#stop")]
    keys += [("APPROVAL#a", "REQUEST"), ("FUTURE#x", "ANY"), ("FUTURE#y", "ANY")]

    assert "2 FUTURE, 2 episodes, 1 audit note of a step, 1 question" == counted_records(keys)
    assert "" == counted_records([])


def test_every_record_of_the_docs_has_a_name() -> None:
    """Or it is left out, and the command says why."""
    keys = list(documented_keys())
    unnamed = []
    for pk, sk in keys:
        if _why_left_out(pk, sk) is None and record_name(pk, sk)[0] == pk.partition("#")[0]:
            unnamed.append((pk, sk))

    assert len(keys) > 50
    assert [] == unnamed
