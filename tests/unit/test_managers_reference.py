"""The page of recognized tools is that of the data."""

from __future__ import annotations

from scripts.managers_reference import PAGE, page


def test_the_page_of_managers_is_that_of_the_code() -> None:
    """`make fix` writes it."""
    assert page() == PAGE.read_text(encoding="utf-8")
