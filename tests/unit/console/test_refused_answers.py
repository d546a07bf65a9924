"""A refused answer is not lost: its ticks stay, and a page without a session says what happened."""

from __future__ import annotations

import re

import pytest

from tests.unit.console.asking import Site
from tests.unit.console.entrance import token
from tests.unit.worlds.world import APPROVAL_ID


def ticked(body: str) -> list[str]:
    """Return the names of the ticked boxes of a page."""
    return re.findall(r'name="(pick-[^"]+)"[^>]* checked', body)


@pytest.mark.parametrize("accepted", [False, True])
def test_a_refused_bulk_answer_keeps_its_ticks(accepted: bool) -> None:
    """The reader ticked eleven again because one box below them was missing."""
    site = Site()
    cookies = site.cookies()
    page = site.ask("/questions", cookies=cookies)
    form = {
        "csrf": token(page["body"], "/questions"),
        f"pick-{APPROVAL_ID}": "yes",
        "answer": "approve",
    }
    if accepted:
        form["losses"] = "accepted"
    body = site.ask("/questions", "POST", cookies=cookies, form=form)["body"]

    assert accepted is ("Not recorded" not in body)
    assert ([] if accepted else [f"pick-{APPROVAL_ID}"]) == ticked(body)


def test_nothing_is_ticked_before_an_answer() -> None:
    """An address ticks nothing."""
    site = Site()

    assert [] == ticked(site.ask("/questions", cookies=site.cookies())["body"])


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/questions", "your answer was not recorded"),
        (f"/questions/{APPROVAL_ID}", "your answer was not recorded"),
        ("/sign-out", "nothing was done"),
    ],
)
def test_a_form_without_a_session_says_that_it_was_lost(address: str, expected: str) -> None:
    """It said only to sign in: people took their answer for recorded."""
    site = Site()
    found = site.ask(address, "POST", cookies={}, form={"answer": "keep"})

    assert 401 == found["statusCode"]
    assert "session has ended" in found["body"]
    assert expected in found["body"]
