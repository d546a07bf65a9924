"""The button of a message about no single instance names the page that it leads to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from governor.alerts.console_pages import ConsolePage, console_page_of
from governor.alerts.model import AlertKind
from governor.notify.compose import message_of
from tests.builders import TARGET
from tests.console_world import html, lively, view_of
from tests.unit.notify.test_dispatch import Post, sealed
from tests.unit.notify.test_truth import EVENTS, SUMMARIES, queued

ONE = ("instances", TARGET.account, TARGET.region, "i-0123456789abcdef0")
FLEET = ConsolePage(("fleet",), "See the fleet")
FREEZES = ConsolePage(("freezes",), "See the freezes")
EXPECTED = {
    "spot": ConsolePage(ONE, "See the instance"),
    "silent": ConsolePage(ONE, "See the instance"),
    "mass": FLEET,
    "managed": FLEET,
    "budget": ConsolePage(("projects", "vision"), "See the project"),
    "report": ConsolePage(("savings",), "See the savings", "month=2026-11"),
    "freeze": FREEZES,
    "still": FREEZES,
    "thaw": FREEZES,
    "recovered": ConsolePage(("",), "See the overview"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_button_names_the_page_of_its_kind(name: str) -> None:
    """A message about one instance leads to it; before, every button said so."""
    alert, _ = {**EVENTS, **SUMMARIES}[name]

    assert EXPECTED[name] == console_page_of(alert)
    message = message_of(queued(alert), None, link="https://governor.example/")
    assert EXPECTED[name].button == message.button


@pytest.mark.parametrize("name", [name for name in EXPECTED if EXPECTED[name].path != ONE])
def test_a_message_leads_to_a_page_that_the_console_has(name: str) -> None:
    """With the query that its link has."""
    page = EXPECTED[name]
    path = "/" + "/".join(page.path)
    view, named = view_of(path)
    query = dict([page.query.split("=")]) if page.query else {}

    assert "<h1" in html(view, lively(3, 3), None, path, **named, **query)


@pytest.mark.parametrize("name", ["budget", "report", "recovered"])
def test_the_foot_of_a_message_about_everything_names_no_place(name: str) -> None:
    """The account and Region of the alert are those of GPU Governor."""
    alert, _ = SUMMARIES[name]

    assert [] == [
        label
        for label, _ in message_of(queued(alert), None, link=None).rows
        if label in ("Account", "Region")
    ]


def test_a_message_is_sent_with_the_link_of_its_page() -> None:
    """To the month of a report, also once that is over; a change of the policy has no page."""
    office = Post()
    report, _ = SUMMARIES["report"]
    policy_changed = replace(report, kind=AlertKind.POLICY_CHANGED, dedup_id="policy-1")
    office.dispatch([sealed(report)])
    office.dispatch([sealed(policy_changed)])

    links = [(message.link, message.button) for message in office.mail.sent]
    page = "https://api.example.com/savings?month=2026-11"
    assert [(page, "See the savings"), (None, "See the record")] == links
