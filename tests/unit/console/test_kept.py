"""The page of what stays: who keeps it, until when, and only what the caller may see."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from governor.approvals.model.terms import Scope
from governor.console.views.fleet import fleet
from governor.console.views.kept import kept
from governor.console.views.overview import overview
from governor.console.views.savings import savings
from tests.builders import NOW
from tests.console_world import ConsoleWorld, caller, html, make_row

UNTIL = NOW + timedelta(days=2)


def stored() -> ConsoleWorld:
    """A fleet with one kept instance of each of two projects, and one that nothing keeps."""
    world = ConsoleWorld()
    world.keep(
        make_row(
            1, verdict="snoozed", kept_because="keep", kept_by="link:<b>ada</b>", stays_until=UNTIL
        ),
        make_row(2, project="llm", kept_because="unanswered", stays_until=UNTIL),
        make_row(3),
    )
    return world


def test_kept_means_one_thing_and_the_page_of_all_reasons_is_called_left_alone() -> None:
    """The page was called Kept and listed six instances, of which the filter "kept" listed one."""
    world = stored()
    page = html(kept, world, path="/kept")
    [kept_row] = fleet(world.asked(state="kept")).tables[0].documents

    assert "<h1><bdi>Left alone</bdi></h1>" in page
    assert '<a href="/kept" aria-current="page">Left alone</a>' in page
    assert ">Kept" not in page
    assert "keep" == kept_row["kept_because"]
    assert 1 == len(re.findall(r"\bkept\b(?!\.csv)", page.partition("Instances, most")[2]))
    assert "2 instances are left alone</a>" in html(overview, world)


def test_the_page_names_who_keeps_it_and_until_when() -> None:
    """With the reason in words; a name cannot become markup."""
    text = html(kept, stored(), path="/kept")

    assert "kept by an answer" in text
    assert "nobody answered the question" in text
    assert "link:<wbr>&lt;b&gt;ada&lt;/<wbr>b&gt;" in text
    assert "notebook-1" in text
    assert "notebook-3" not in text


def test_amounts_are_a_day_as_on_every_page_of_the_console() -> None:
    """The rows, the sum of each reason, and the figures of the pages that lead here; the report and
    the CSV keep the month."""
    world = stored()
    text = html(kept, world, path="/kept")
    idle_now = "$24 a day goes to idle instances"

    assert f"<strong>{idle_now}</strong>" in text
    assert "Another $24 a day goes to instances whose metrics are not read now" in text
    assert 2 == text.count('<td class="number day">$24</td>')
    assert 2 == text.count('<td class="number"><b class=rate>$24</b></td>')
    assert (
        "$24 a day goes to idle ones, and $24 a day to ones whose metrics are not read now"
        in html(savings, world)
    )
    assert "$48 a day. See why, by whom" in html(overview, world)
    for view in (kept, savings, overview):
        assert "month is" not in html(view, world)
        assert "USD a month</th>" not in html(view, world)


def test_a_caller_sees_their_own_scope_alone() -> None:
    """In the rows and in every sum, also on the pages that lead there."""
    world = stored()
    who = caller(Scope(projects=frozenset({"llm"})))
    document: Any = kept(world.asked(who)).document
    savings_document: Any = savings(world.asked(who)).document

    assert ["notebook-2"] == [row["name"] for row in document["instances"]]
    assert document["idle_usd_per_month"] == document["usd_per_month"] > 0
    assert document == savings_document["kept"]
    assert "1 instance is left alone" in html(overview, world, who)
    assert "ada" not in html(kept, world, who, path="/kept")


def test_the_pages_lead_to_the_list_if_it_has_rows() -> None:
    """The overview and the savings; without rows the page says so, and only the navigation leads to
    it."""
    world = stored()
    empty = ConsoleWorld()
    for view in (overview, savings):
        assert 'href="/kept"' in html(view, world).partition("<main")[2]
        assert 'href="/kept"' not in html(view, empty).partition("<main")[2]
    assert "No instance that you may see is left alone" in html(kept, empty, path="/kept")
