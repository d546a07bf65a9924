"""The example in the docs is what the code prints."""

from __future__ import annotations

from scripts.simulate_example import PAGE, page_with, table


def test_the_table_in_the_docs_is_that_of_the_code() -> None:
    """`make fix` writes it anew."""
    assert PAGE.read_text(encoding="utf-8") == page_with(table())
