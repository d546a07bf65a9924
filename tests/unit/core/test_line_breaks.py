"""Times, dates and lengths stay on one line, in texts and in pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core.line_breaks import steady, steady_page


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


def test_only_the_text_of_a_page_changes() -> None:
    """Tags, styles, scripts and the title stay as they are, so the hashes of the security policy
    stay true."""
    page = (
        "<title>Fri 12:02 UTC</title><style>/* 5 min */</style><script>'6 h'</script>"
        '<p title="Fri 12:02 UTC">Stopped on Fri 13:02 Berlin (12:02 UTC) after 6 h 40 min</p>'
    )
    body = "Stopped on Fri~13:02~Berlin (12:02~UTC) after 6~h~40~min".replace("~", "\xa0")
    expected = page[: page.index("Stopped")] + body + "</p>"
    assert expected == steady_page(page)


@given(st.text())
def test_no_page_loses_a_character(page: str) -> None:
    assert page.replace("\xa0", " ") == steady_page(page).replace("\xa0", " ")
