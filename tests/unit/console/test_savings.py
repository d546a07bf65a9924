"""Savings of a month: the steps add up to the net figure, the groups and the entries do, too."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.terms import Scope
from governor.console import formats
from governor.console.page import Caller, Page
from governor.console.parts import document_part
from governor.console.views.savings import savings
from governor.core.errors import InputError
from governor.episode.model.episode import Outcome
from governor.fleet.model import Share
from governor.money.model.ledger import Ending, LedgerEntry
from tests.builders import NOW, make_entry
from tests.console_world import ConsoleWorld, caller, html, lively, make_row

CENT = Decimal("1e-9")


def show(world: ConsoleWorld, who: Caller | None = None, /, **query: str) -> Page:
    return savings(world.asked(who, **query))


@st.composite
def entries(draw: st.DrawFn) -> list[LedgerEntry]:
    """Draw entries of three months, of several owners, with a price or without."""
    made = []
    for number in range(draw(st.integers(0, 8))):
        booked = NOW - draw(st.timedeltas(timedelta(minutes=1), timedelta(days=80)))
        lasted = draw(st.none() | st.timedeltas(timedelta(0), timedelta(days=50)))
        before, is_priced = draw(st.decimals(1, 60, places=3)), draw(st.integers(0, 4)) > 0
        made.append(
            make_entry(
                number,
                owner=draw(st.sampled_from(["ml-team", "research"])),
                instance_type=draw(st.sampled_from(["g5.xlarge", "p5.48xlarge"])),
                booked_at=booked,
                ended_at=None if lasted is None else min(NOW, booked + lasted),
                false_stop=lasted is not None and lasted < timedelta(hours=1),
                ours=draw(st.integers(0, 4)) > 0,
                cost_before_usd_per_hour=before if is_priced else None,
                cost_after_usd_per_hour=Decimal("0.5") if is_priced else None,
                saved_usd_per_hour=before - Decimal("0.5") if is_priced else None,
            )
        )
    return made


def test_a_thousand_entries_come_in_parts_that_lambda_can_answer() -> None:
    """As JSON, whose sums are those of the whole month in each part."""
    world = ConsoleWorld()
    long_name = "\N{ROCKET}" * 350
    world.book(*[make_entry(number, resource_name=long_name) for number in range(1_000)])
    page = show(world)
    found: list[object] = []
    document = document_part(page, "")
    for number in range(1, cast(int, document["parts"]) + 1):
        document = document_part(page, str(number))
        answer = formats.as_json(200, {"is_incomplete": False, **document})
        assert len(json.dumps(answer.body)) < 6_000_000
        assert page.document["net_usd"] == document["net_usd"]
        found += cast(list[object], document["entries"])
    assert document["parts"] != 1
    assert page.document["entries"] == found


def goes_on(**changes: Any) -> list[LedgerEntry]:
    """A stop whose instance was started after a day, fell back, and saves again since."""
    stopped_at = NOW - timedelta(days=3)
    started_at = stopped_at + timedelta(days=1)
    stop = make_entry(
        1, booked_at=stopped_at, ended_at=started_at, ended=Ending.STARTED, settled_at=started_at
    )
    saves_again_at = started_at + timedelta(minutes=10)
    again = make_entry(1, booked_at=saves_again_at, first_booked_at=stopped_at, **changes)
    return [stop, again]


def test_a_row_says_with_which_stop_it_goes_on() -> None:
    """On the page in words, in CSV, JSON and the copy in S3 by the time of that stop."""
    world = ConsoleWorld()
    stop, again = goes_on()
    world.book(stop, again)
    page = show(world)

    rows = page.document["entries"]
    assert isinstance(rows, list)
    times = [(row["x_BookedAt"], row["x_FirstBookedAt"]) for row in rows]
    assert [(again.booked_at, stop.booked_at), (stop.booked_at, None)] == times
    assert "stopped again after a start" in html(savings, world)


def test_a_saving_that_goes_on_counts_no_longer_than_its_stop() -> None:
    """The page says until when: the days count from the stop."""
    world = ConsoleWorld()
    stopped_at = NOW - timedelta(days=31)
    started_at = NOW - timedelta(days=3)
    stop = make_entry(1, booked_at=stopped_at, ended_at=started_at, ended=Ending.STARTED)
    world.book(stop, make_entry(1, booked_at=started_at, first_booked_at=stopped_at))

    assert "Still counts" not in html(savings, world)


@given(entries(), st.sampled_from(["2026-11", "2026-10", "2026-09"]))
def test_steps_groups_and_entries_add_up_to_the_net_figure(
    booked: list[LedgerEntry], month: str
) -> None:
    """Each to the last digit that an hour can be divided into; idle and kept cost cancel out."""
    world = ConsoleWorld()
    world.book(*booked)
    share = Share(Decimal(100), Decimal("30.5"), Decimal(7), Decimal(1))
    world.spend(NOW.date(), {("ml-team", "vision"): share})
    document: Any = show(world, month=month).document
    first, *middle, last = [one["usd"] for one in document["steps"]]

    assert document["net_usd"] == last
    assert abs(first + sum(middle) - last) < CENT
    for name in ("owner", "project", "type", "account"):
        assert abs(sum(one["net_usd"] for one in document[f"by_{name}"]) - last) < CENT
    assert abs(sum(one["x_NetSavedUsd"] or 0 for one in document["entries"]) - last) < CENT


def test_the_csv_names_what_focus_knows_as_focus_does() -> None:
    """Everything else begins with x_; times are ISO 8601, amounts exact."""
    world = ConsoleWorld()
    world.book(make_entry(1))
    head, line, *_ = show(world).tables[0].csv.splitlines()
    row = dict(zip(head.split(","), line.split(","), strict=True))

    own = [name for name in row if not name.startswith("x_")]
    assert [
        *(
            "SubAccountId",
            "RegionId",
            "ResourceId",
            "ChargePeriodStart",
            "ChargePeriodEnd",
            "ResourceName",
        )
    ] == own
    assert ("123456789012", "us-east-1", "i-00000000000000001") == tuple(
        row[name] for name in own[:3]
    )
    assert ("2026-11-17T12:02:30Z", "2026-11-20T12:02:30Z") == tuple(row[name] for name in own[3:5])
    assert Decimal("5.67") * 72 == Decimal(row["x_NetSavedUsd"])


def test_a_month_counts_what_was_booked_before_it_and_lasts() -> None:
    """Its period begins with the month, and ends with the days that a saving counts."""
    world = ConsoleWorld()
    world.book(make_entry(1, booked_at=NOW - timedelta(days=25)))
    [row] = show(world).tables[0].rows

    assert "2026-11-01 00:00:00+00:00" == str(row[3])
    assert "from 0 stops" in html(savings, world)


def test_the_newest_entry_comes_first() -> None:
    """Whoever has just stopped one finds it, however little it has saved by now."""
    world = ConsoleWorld()
    world.book(
        *(
            make_entry(n, booked_at=NOW - timedelta(hours=hours))
            for n, hours in enumerate((5, 1, 9))
        )
    )

    booked = [str(row[11]) for row in show(world).tables[0].rows]
    assert sorted(booked, reverse=True) == booked


def test_each_entry_leads_to_its_record() -> None:
    """On the page of its instance."""
    world = ConsoleWorld()
    entry = make_entry(1)
    world.book(entry)

    name = entry.episode.execution_name
    assert f"/instances/123456789012/us-east-1/i-00000000000000001?episode={name}" in html(
        savings, world
    )


def test_an_entry_has_the_name_that_its_instance_had() -> None:
    """Also when it does not run any more; of an earlier release's entry, the name of what runs, or
    the id."""
    world = ConsoleWorld()
    world.keep(make_row(2, name="runs"))
    world.book(make_entry(1, resource_name="gone"), make_entry(2), make_entry(3))
    page, text = show(world), html(savings, world)

    for name in ("gone", "runs", "i-00000000000000003"):
        assert f">{name}</bdi></a>" in text
    assert ["", "", "gone"] == sorted(str(row[5]) for row in page.tables[0].rows)
    assert "ResourceName" == page.tables[0].columns[5]


def test_the_ledger_shows_whole_dollars_like_every_other_figure() -> None:
    """And cents only below ten dollars. The CSV is exact."""
    world = ConsoleWorld()
    world.book(make_entry(1), make_entry(2, saved_usd_per_hour=Decimal("0.1234")))
    page, text = show(world), html(savings, world)

    assert '<td class="number saved">$408</td>' in text
    assert '<td class="number saved">$8.88</td>' in text
    assert "408.24" not in text
    assert {"408.24", "8.8848"} == {
        f"{row['x_NetSavedUsd'].normalize():f}" for row in cast(Any, page.tables[0].documents)
    }


def test_only_the_tables_of_a_project_have_cents() -> None:
    """Their rows add up to an amount beside them. All other amounts are whole dollars."""
    folder = Path(formats.__file__).parent / "templates"
    with_cents = [path.name for path in folder.glob("*.html") if "|cents" in path.read_text()]

    assert ["project.html"] == with_cents


def test_what_others_did_is_listed_and_saves_nothing() -> None:
    """It is on the bill all the same."""
    world = ConsoleWorld()
    world.book(make_entry(1, ours=False, outcome=Outcome.VOID))
    page = show(world)

    assert Decimal(0) == page.document["net_usd"]
    assert [Decimal(0)] == [row["x_NetSavedUsd"] for row in page.tables[0].documents]
    assert "void by others" in html(savings, world)


def test_the_month_before_leads_back_to_the_address_of_this_month() -> None:
    """Which the navigation has, too: a copy of the site holds it once."""
    text, older = (html(savings, ConsoleWorld(), month=month) for month in ("2026-10", "2026-09"))
    assert '<a href="/savings" rel="next">Later: November 2026</a>' in text
    assert '<a href="/savings?month=2026-10" rel="next">Later: October 2026</a>' in older
    assert '<a href="/savings?month=2026-08" rel="prev">Earlier: August 2026</a>' in older
    assert "Later" not in html(savings, ConsoleWorld())


@pytest.mark.parametrize(
    ("month", "said"),
    [
        ("2026-13", "written as 2026-11"),
        ("yesterday", "written as 2026-11"),
        ("2026-11-20", "written as 2026-11"),
        ("2026-12", "up to 2026-11"),
        ("1999-01", "last five years"),
        ("9" * 400, "longer than 300"),
    ],
)
def test_a_month_that_cannot_be_is_refused_with_how_one_is_written(month: str, said: str) -> None:
    """A clear page, never an error of ours."""
    with pytest.raises(InputError, match=said):
        show(ConsoleWorld(), month=month)


def test_a_month_without_an_entry_says_where_to_look_next() -> None:
    """In observe nothing is ever stopped."""
    assert "see what is idle now" in html(savings, ConsoleWorld(), month="2026-03")


def test_the_ledger_is_paged_and_its_csv_is_whole() -> None:
    """101 entries are two pages."""
    world = ConsoleWorld()
    world.book(*(make_entry(number) for number in range(101)))

    assert "Page 1 of 2" in html(savings, world)
    assert 1 == html(savings, world, page="2").count("?episode=")
    assert 101 == len(show(world).tables[0].rows)


def test_sums_are_of_what_the_reader_sees() -> None:
    """One owner's, in all groups."""
    mine = caller(Scope(owners=frozenset({"research"})))
    document: Any = show(lively(), mine).document

    assert ["research"] == [one["owner"] for one in document["by_owner"]]
    assert {"research"} == {one["x_Owner"] for one in document["entries"]}
