"""Cells of a CSV: those that need no search for a formula are the same as if they were searched."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core import documents
from governor.core.documents import csv_text

_OF_FORMULAS = st.sampled_from("=+-@;,|\t\r\n \x0b\x1f\"'a1\u200b\uff1d")


def searched(text: str) -> str:
    """Return a CSV of this cell, as if every cell were searched for a formula."""
    with mock.patch.object(documents, "_is_plain", return_value=False):
        return csv_text((), [[text]])


@given(st.text(_OF_FORMULAS) | st.text())
def test_a_cell_that_is_not_searched_is_the_same(text: str) -> None:
    assert searched(text) == csv_text((), [[text]])


@pytest.mark.parametrize("text", ["us-east-1", "2026-11-20T12:02:30+00:00", "i-0a=b", "7.09"])
def test_most_cells_are_not_searched(text: str) -> None:
    assert documents._is_plain(text)


@pytest.mark.parametrize(
    "text", ["", "=1", " =1", "a;=1", "a\n=1", "a\t-1", "a,@x", "a|+1", "\uff1d1", "a\u200b=1"]
)
def test_what_a_formula_may_begin_in_is_searched(text: str) -> None:
    assert not documents._is_plain(text)
