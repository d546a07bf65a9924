"""The Fleet is searched, filtered, sorted and paged by its address, within what its reader may
see."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.model.terms import Scope
from governor.console.page import Caller, Page
from governor.console.views.figures import Rate
from governor.console.views.fleet import fleet
from governor.console.views.instance import instance
from governor.console.views.overview import overview
from governor.core.errors import InputError, NotFound
from governor.fleet.model import UNGOVERNED
from governor.verdict.model import IdleParts
from tests.builders import NOW
from tests.console_world import (
    TARGETS,
    ConsoleWorld,
    asked,
    caller,
    html,
    make_row,
    many_rows,
    without_argument_marks,
)
from tests.rights import only_what_the_role_allows

LATER = NOW + timedelta(hours=1)
SEVEN_OF_EIGHT = IdleParts(7, 8, "GPU")
WORKING: Any = {"idle_since": None, "hours": (96,) * 24}
__all__ = ["only_what_the_role_allows"]


def show(world: ConsoleWorld, who: Caller | None = None, /, **query: str) -> Page:
    return fleet(world.asked(who, **query))


def names(page: Page) -> list[str]:
    instances: Any = page.document["instances"]
    return [one["name"] for one in instances]


def world_of(count: int) -> ConsoleWorld:
    world = ConsoleWorld()
    world.keep(*many_rows(count))
    return world


def test_idle_instances_come_first_and_the_most_expensive_of_them_on_top() -> None:
    """Those of unknown price come after those that have one."""
    world = ConsoleWorld()
    busy = make_row(1, name="busy", verdict="busy", usd_per_hour=Decimal(99))
    cheap, dear = make_row(2, name="cheap"), make_row(3, name="dear", usd_per_hour=Decimal(55))
    world.keep(busy, cheap, dear, make_row(4, name="unpriced", usd_per_hour=None))

    assert ["dear", "cheap", "unpriced", "busy"] == names(show(world))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "TRAIN"}, ["train-1", "train-2"]),
        ({"q": "i-00000000000000003"}, ["serve-3"]),
        ({"q": "Train research"}, ["train-2"]),
        ({"owner": "Research"}, ["train-2"]),
        ({"project": "vision", "verdict": "idle"}, ["train-1"]),
        ({"region": "eu-west-1"}, ["serve-3"]),
        ({"q": "nothing like it"}, []),
    ],
)
def test_filters_narrow_rows_totals_and_csv(query: dict[str, str], expected: list[str]) -> None:
    """All three alike, in any letter case."""
    world = ConsoleWorld()
    world.keep(
        make_row(1, name="train-1"),
        make_row(2, name="train-2", owner="research", project="llm"),
        make_row(3, name="serve-3", verdict="busy", account="210987654321", region="eu-west-1"),
    )
    page = show(world, sort="name", **query)

    assert sorted(expected) == names(page)
    assert sorted(expected) == sorted(str(row[1]) for row in page.tables[0].rows)
    assert Rate(len(expected), Decimal("1.006") * len(expected), 0) == page.document["total"]


def test_one_search_box_stands_beside_filters_that_fold() -> None:
    """Without scripts: a folded field is sent like any other, so no choice is lost."""
    text = html(fleet, world_of(3), None, "/fleet")
    form = text.partition('role="search">')[2].partition("</form>")[0]
    before, _, folded = form.partition("<details>")

    assert 1 == form.count('type="search"') == before.count('type="search"')
    for field in ("state", "owner", "project", "account", "region", "sort", "size"):
        assert f'name="{field}"' in folded.partition("</details>")[0]
        assert f'name="{field}"' not in before
    assert "<summary>Filters</summary>" in folded


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"q": "train", "sort": "name"}, "Filters"),
        ({"state": "running"}, "Filters: state <bdi>running</bdi>"),
        (
            {"state": "idle", "owner": "<b>", "region": "us-east-1"},
            "Filters: state <bdi>idle</bdi>, owner <bdi>&lt;b&gt;</bdi>, "
            "region <bdi>us-east-1</bdi>",
        ),
    ],
)
def test_folded_filters_are_named_while_they_are_set(query: dict[str, str], expected: str) -> None:
    """Nobody takes a part of the fleet for all of it."""
    assert f"<summary>{expected}</summary>" in html(fleet, world_of(3), None, "/fleet", **query)


def test_the_scope_limits_rows_totals_offers_and_csv() -> None:
    """Not even a filter offers the name of a foreign owner, project or account."""
    world = world_of(200)
    mine = Scope(owners=frozenset({"research"}))
    page, text = show(world, caller(mine)), html(fleet, world, caller(mine), "/fleet")

    assert names(page)
    for row in page.tables[0].rows:
        assert "research" == row[5]
    for foreign in ("ml-team", "ml-platform", "unassigned", "vision", "speech"):
        assert foreign not in text
    total: Any = page.document["total"]
    assert total.instances == len(page.tables[0].rows)


def test_what_is_not_governed_is_a_view_of_its_own_with_the_tag_to_set() -> None:
    """In no other list or sum; sorted, searched and exported as the others, without a page of its
    own."""
    world = ConsoleWorld()
    loose = [
        make_row(
            number,
            name=f"loose-{number}",
            verdict=UNGOVERNED,
            usd_per_hour=Decimal(number),
            owner=owner,
        )
        for number, owner in ((2, "ml-team"), (3, "research"))
    ]
    world.keep(make_row(1), *loose)
    usual, page = show(world), show(world, verdict="ungoverned")
    text = html(fleet, world, verdict="ungoverned")

    assert (["notebook-1"], Rate(1, Decimal("1.006"), 0)) == (names(usual), usual.document["total"])
    assert ["notebook-1"] == [row[1] for row in usual.tables[0].rows]
    assert (["loose-3", "loose-2"], Rate(2, Decimal(5), 0)) == (names(page), page.document["total"])
    assert ["loose-3", "loose-2"] == [row[1] for row in page.tables[0].rows]
    assert ["loose-2"] == names(show(world, verdict="ungoverned", q="loose-2"))
    assert "the tag Purpose=GPU-Workload: nobody is asked" in text
    assert "/instances/" not in text
    assert "$72</b> <wbr>($2,190 a month)" in text
    command = f"--resources {loose[1].instance_id} --tags Key=Purpose,Value=GPU-Workload</code>"
    found = f"aws ec2 create-tags --region {loose[1].region} {command}"
    assert found in without_argument_marks(text)
    assert (
        "2 more instances</a> with accelerators, $120 a day or $3,650 a month, are not governed"
        in html(fleet, world)
    )
    mine = caller(Scope(owners=frozenset({"ml-team"})))
    assert "The list ends early" not in text
    assert ["loose-2"] == names(show(world, mine, verdict="ungoverned"))
    assert "research" not in html(fleet, world, mine, verdict="ungoverned")
    assert "cannot be judged" not in html(overview, world)
    with pytest.raises(NotFound):
        instance(
            world.asked(
                account=TARGETS[0].account, region="us-east-1", instance_id=loose[0].instance_id
            )
        )


@pytest.mark.parametrize(
    "query",
    [
        {"state": "terminated"},
        {"state": "ungoverned"},
        {"state": "stopped"},
        {"q": "nothing like it"},
    ],
)
def test_a_filter_that_nothing_matches_offers_all_that_is_visible(query: dict[str, str]) -> None:
    """It said that no instance is visible, with advice how to govern one."""
    page = html(fleet, world_of(3), None, **query)

    assert '<p>No instance matches. <a href="/fleet">Show all 3</a>.</p>' in page
    assert "visible to you" not in page
    assert "No instance here is visible to you." in html(fleet, ConsoleWorld(), None, **query)


def test_many_rows_are_paged_and_none_is_lost() -> None:
    """Pages of the same address, one after another; the CSV has them all."""
    world, seen = world_of(1234), []
    for number in range(1, 4):
        seen += names(show(world, size="500", page=str(number)))

    assert sorted(row.name for row in many_rows(1234)) == sorted(seen)
    assert 1234 == len(show(world).tables[0].rows)
    assert 'href="/fleet?size=500&amp;page=3"' in html(fleet, world, size="500", page="2")


def test_a_page_of_500_rows_is_less_than_200_kib() -> None:
    """Sparklines included."""
    assert 200 * 1024 > len(html(fleet, world_of(500), size="500").encode())


def test_a_cell_of_the_next_step_is_empty_if_nothing_happens_next() -> None:
    """White space in it would leave a dot at the end of a card."""
    world = ConsoleWorld()
    world.keep(make_row(1, verdict="busy", idle_since=None))

    assert html(fleet, world).count("<td></tbody>") == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"sort": "color"}, "sort can be idle, price"),
        ({"verdict": "dead"}, "verdict can be busy"),
        ({"page": "0"}, "page must be a number from 1 to 1"),
        ({"page": "2"}, "page must be a number from 1 to 1"),
        ({"page": "٣"}, "page must be a number"),
        ({"size": "99999"}, "size can be 100"),
        ({"q": "x" * 301}, "the search is longer than 300 characters"),
        ({"owner": "x" * 5000}, "owner is longer than 300 characters"),
    ],
)
def test_a_query_that_cannot_be_is_refused_with_what_could(
    query: dict[str, str], said: str
) -> None:
    """A clear page, never a stack trace."""
    with pytest.raises(InputError, match=said):
        show(world_of(3), **query)


@pytest.mark.parametrize(
    "name",
    [
        "x" * 300,
        "مثيل للتدريب",
        "\U0001f680 rocket \U0001f469\u200d\U0001f52c",
        "<script>alert(1)</script>",
        "' onload='",
    ],
)
def test_any_name_is_shown_as_text(name: str) -> None:
    """Isolated, so that its direction turns nothing beside it."""
    world = ConsoleWorld()
    world.keep(make_row(1, name=name, owner=name, project=name))
    text = html(fleet, world, q=name)

    assert "<script>alert" not in text
    assert " onload='" not in text
    assert 3 <= text.count("<bdi")
    assert [name] == names(show(world, q=name))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": "busy", "idle_since": None}, ("good", "busy 2%", "")),
        (
            {"verdict": "partly-idle", "idle_parts": SEVEN_OF_EIGHT, **WORKING},
            ("good", "partly idle: 7 of 8 GPUs", "a smaller type may do"),
        ),
        (
            {"verdict": "partly-idle", **WORKING},
            ("good", "partly idle", "a smaller type may do"),
        ),
        ({"verdict": "idle"}, ("bad", "idle 7 h", "question follows")),
        ({"verdict": "frozen"}, ("bad", "idle 7 h", "plans are frozen")),
        (
            {"verdict": "managed-elsewhere", "managed_by": "Amazon EKS"},
            ("bad", "idle 7 h", "left alone (Amazon EKS runs it)"),
        ),
        ({"verdict": "no-data", "idle_since": None}, ("warn", "no data", "check its agent")),
        (
            {"verdict": "exempt", "idle_since": None},
            ("soft", "exempt", "left alone until the exemption ends"),
        ),
        (
            {"verdict": "too-young", "idle_since": None},
            ("soft", "too young", "judged once it has run long enough"),
        ),
        # Somebody has just started it again after a stop.
        (
            {"verdict": "too-young", "idle_since": None, "kept_until": NOW + timedelta(hours=3)},
            ("soft", "too young", "kept until Fri 16:02 Berlin (15:02 UTC)"),
        ),
        (
            {"verdict": "snoozed", "kept_until": NOW + timedelta(hours=3)},
            ("soft", "kept", "kept until Fri 16:02 Berlin (15:02 UTC)"),
        ),
        ({"verdict": "unheard-of"}, ("warn", "unheard of", "")),
    ],
)
def test_each_verdict_has_its_words_and_what_happens_next(
    changes: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    """Times in the reader's zone, with its name."""
    world = ConsoleWorld()
    world.keep(make_row(1, **changes))
    page = fleet(world.asked(caller(zone="Europe/Berlin")))
    lines: Any = page.values["lines"]

    assert [expected] == [(line.kind, line.verdict, line.next) for line in lines]


@pytest.mark.parametrize(
    ("mode", "changes", "expected"),
    [
        ("ask", {}, "asked, 22 h left"),
        ("ask", {"acts_on_silence": True}, "stopped in 22 h"),
        ("ask", {"acts_on_silence": True, "verb": "terminate"}, "terminated in 22 h"),
        ("ask", {"expires_at": NOW}, "time to answer is over"),
        ("ask", {"asked_at": None}, "question not sent yet"),
        ("ask", {"asked_at": None, "approval_id": None}, "decided, in progress"),
        ("auto", {"asked_at": None}, "stop follows, can be held"),
        ("observe", {}, "rehearsal, nothing is changed"),
        ("observe", {"episode": None}, "only reported (observe)"),
        ("ask", {"episode": None}, "question follows"),
        ("auto", {"episode": None}, "owner is notified next"),
        ("ask", {"episode": None, "quiet_until": LATER}, "checked again Fri 13:02 UTC"),
        (
            "ask",
            {"episode": None, "quiet_until": LATER, "restarts_quiet_until": LATER},
            "others start it again; not asked until Fri 13:02 UTC",
        ),
        ("ask", {"episode": None, "quiet_until": NOW}, "question follows"),
        ("auto", {"asked_at": None, "verb": None, "is_reported": True}, "only reported"),
        ("ask", {"episode": None, "is_reported": True}, "only reported"),
        (
            "ask",
            {"episode": None, "is_reported": True, "quiet_until": LATER},
            "only reported, checked again Fri 13:02 UTC",
        ),
    ],
)
def test_what_happens_to_an_idle_instance_follows_from_the_mode(
    mode: str, changes: dict[str, Any], expected: str
) -> None:
    """In observe nothing is ever done, and the page says so."""
    world = ConsoleWorld()
    world.keep(replace(asked(make_row(1)), **changes), mode=mode)
    lines: Any = show(world).values["lines"]

    assert [expected] == [line.next for line in lines]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Its creator has not been looked up yet."),
        ({"created_by": ""}, "Creator unknown."),
        ({"created_by": "arn:<b>"}, "Created by <bdi>arn:&lt;b&gt;</bdi>."),
        ({"managed_by": "Amazon EKS"}, "Amazon EKS runs it. Its creator"),
    ],
)
def test_what_is_not_governed_shows_who_created_it(changes: dict[str, Any], said: str) -> None:
    """As far as CloudTrail has been asked, and knows."""
    world = ConsoleWorld()
    world.keep(make_row(1, verdict=UNGOVERNED, **changes))

    assert said in html(fleet, world, verdict="ungoverned")


def test_a_list_of_what_is_not_governed_that_ends_early_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To whoever sees the whole account: how many there are is not for others."""
    monkeypatch.setattr("governor.console.views.fleet.MOST_UNGOVERNED", 2)
    world = ConsoleWorld()
    world.keep(*(make_row(number, verdict=UNGOVERNED, owner="web") for number in (1, 2)))
    early = f"The list ends early: only the first 2 of {TARGETS[0]} are in it."
    mine = caller(Scope(owners=frozenset({"web"})))

    assert early in html(fleet, world, verdict="ungoverned")
    assert "At least <a" in html(fleet, world)
    assert "The list ends early" not in html(fleet, world, mine, verdict="ungoverned")
    assert "At least <a" not in html(fleet, world, mine)

    monkeypatch.setattr("governor.console.views.fleet.MOST_UNGOVERNED", 3)
    assert "The list ends early" not in html(fleet, world, verdict="ungoverned")
