"""Texts of cells: what stays on one line, and where a name may break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.console.cells import name_html, steady


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("asked, 17 h left", "asked, 17~h left"),
        ("idle 6 h 40 min, 2 days", "idle 6~h~40~min, 2~days"),
        ("kept until Sun 12:02 UTC", "kept until Sun~12:02~UTC"),
        ("Until Sat Dec 5, 04:02 Berlin (03:02 UTC)", "Until Sat~Dec~5,~04:02~Berlin (03:02~UTC)"),
        ("Mon 09:00 Los Angeles by hand", "Mon~09:00~Los~Angeles by hand"),
        ("Nov 3: 5 hosts, 30 minutes", "Nov~3: 5 hosts, 30 minutes"),
        ("", ""),
    ],
)
def test_times_dates_and_lengths_stay_whole(text: str, expected: str) -> None:
    """The other spaces still break."""
    assert expected.replace("~", "\xa0") == steady(text)


@given(st.text())
def test_no_text_loses_a_character(text: str) -> None:
    assert text.replace("\xa0", " ") == steady(text).replace("\xa0", " ")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("notebook-7", "<bdi>notebook-7</bdi>"),
        ("link:alice@example.com", '<bdi class="name">link:<wbr>alice@<wbr>example.<wbr>com</bdi>'),
        ("a" * 21, f'<bdi class="long">{"a" * 21}</bdi>'),
        ("<b>&", "<bdi>&lt;b&gt;&amp;</bdi>"),
        (
            "<script>alert(1)</script>:x",
            '<bdi class="name">&lt;script&gt;alert(1)&lt;/<wbr>script&gt;:<wbr>x</bdi>',
        ),
    ],
)
def test_a_name_breaks_after_its_marks_alone(name: str, expected: str) -> None:
    """Unless a piece of it is longer than a column: that one breaks anywhere."""
    assert expected == name_html(name)
