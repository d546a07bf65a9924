"""An instance that was stopped stays in sight until it runs again, and a terminated one is found as
long as its record is stored."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.model.terms import Grant, Rank, Scope
from governor.console.page import Page
from governor.console.views.fleet import fleet
from governor.console.views.instance import instance
from governor.console.views.overview import overview
from governor.console.views.project import project
from governor.core.errors import NotFound
from governor.episode.model.episode import EpisodeEnding, Outcome, Phase
from governor.episode.model.start_try import StartStatus, StartTry
from governor.fleet.model import FleetRow
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.rules.closed import closed_row
from governor.policy.document import parse_policy
from governor.policy.model.acting import ApprovalRule
from tests.builders import NOW, make_entry
from tests.console_world import TARGETS, ConsoleWorld, caller, html, make_episode, make_row
from tests.rights import only_what_the_role_allows

__all__ = ["only_what_the_role_allows"]
ROW = make_row(1, name="notebook-1")


def stop_of(row: FleetRow, **changes: Any) -> LedgerEntry:
    """The ledger's entry of a stop of this instance, two minutes ago."""
    episode = make_episode(row).ref
    plain = make_entry(
        1,
        episode=episode,
        resource_name=row.name,
        owner=row.owner,
        project=row.project,
        booked_at=NOW - timedelta(minutes=2),
        saved_usd_per_hour=Decimal("1.00"),
        storage_usd_per_hour=Decimal("0.006"),
    )
    return replace(plain, **changes)


def store_episode(world: ConsoleWorld, entry: LedgerEntry) -> None:
    """The episode that stopped the instance of the entry."""
    ending = EpisodeEnding(Outcome.STOPPED, "approved", entry.booked_at, Outcome.STOPPED)
    row = make_row(1, instance_id=entry.episode.instance_id, launched_at=entry.episode.launch_time)
    world.state.put(
        make_episode(
            row,
            ref=entry.episode,
            owner=entry.owner,
            phase=Phase.CLOSED,
            ending=ending,
            steps_done={"stop": entry.booked_at},
        )
    )


def just_stopped() -> ConsoleWorld:
    """The last sweep still saw it running; the ledger knows better."""
    world = ConsoleWorld()
    world.keep(ROW, make_row(2, verdict="busy", project="llm"), minutes_ago=4)
    entry = stop_of(ROW)
    world.book(entry)
    store_episode(world, entry)
    return world


def stopped_long_ago() -> ConsoleWorld:
    """The stop was booked in a month that no page reads; the sweep has seen it stopped."""
    world = ConsoleWorld()
    entry = stop_of(ROW, booked_at=NOW - timedelta(days=120))
    world.keep(closed_row(entry), make_row(2, verdict="busy", project="llm"))
    world.book(entry)
    store_episode(world, entry)
    return world


def named(page: Page) -> list[str]:
    rows: Any = page.document["instances"]
    return [f"{row['name']}: {row['state']}" for row in rows]


WORLDS = pytest.mark.parametrize("make", [just_stopped, stopped_long_ago])


@WORLDS
def test_a_stopped_instance_is_everywhere(make: Any) -> None:
    """On the Overview, in the Fleet, its search, filter, CSV and JSON, and in its project."""
    world = make()
    stopped = "notebook-1: stopped"
    page = overview(world.asked())
    found = html(overview, world)
    csv = fleet(world.asked()).tables[0]

    assert Decimal("1.006") == page.document["stopped"].usd_per_hour  # type: ignore[attr-defined]
    assert "1 stopped" in found
    assert "$24 a day if started again" in found
    assert stopped in named(fleet(world.asked()))
    assert [stopped] == named(fleet(world.asked(q="notebook-1")))
    assert [stopped] == named(fleet(world.asked(q=ROW.instance_id)))
    assert [stopped] == named(fleet(world.asked(state="stopped")))
    assert [] == named(fleet(world.asked(state="idle")))
    assert [stopped] == [
        f"{row['name']}: {row['state']}" for row in csv.documents if row["project"] == "vision"
    ]
    for shown in (html(fleet, world), html(project, world, name="vision")):
        assert "stopped by gpu governor" in shown.replace("<wbr>", "").lower()
        assert "notebook-1" in shown


def test_the_page_of_a_stopped_instance_gives_the_stop_in_one_sentence() -> None:
    """It said when and by whom in two sentences in a row."""
    shown = html(
        instance,
        just_stopped(),
        account=ROW.account,
        region=ROW.region,
        instance_id=ROW.instance_id,
    )

    assert "This saves $" in shown
    assert re.search(r"Stopped [A-Z][a-z]{2} ", shown) is None
    assert 1 == shown.count("<p>Stopped since ")


@WORLDS
def test_what_a_stopped_instance_cost_is_the_same_figure_on_all_pages(make: Any) -> None:
    """Its own page added the storage, which no other page does."""
    world = make()
    place = {"account": ROW.account, "region": ROW.region, "instance_id": ROW.instance_id}

    assert "$24 a day if started again" in html(overview, world)
    assert '<td class="number"><b class=rate>$24</b></td>' in html(project, world, name="vision")
    assert "<dd>$24 a day while it ran" in html(instance, world, None, **place)


def test_the_storage_of_a_stopped_instance_stands_beside_its_price() -> None:
    """Only where there is some. After a termination of a stopped instance, there is nothing else
    that it cost."""
    ours = stop_of(ROW)
    costs = {
        replace(ours, cost_before_usd_per_hour=Decimal("1.106")): (
            "$24 a day while it ran, and $2.40 for its storage; "
        ),
        replace(ours, cost_before_usd_per_hour=Decimal("1.006")): "$24 a day while it ran; ",
        replace(
            ours,
            outcome=Outcome.TERMINATED,
            cost_before_usd_per_hour=Decimal("0.1"),
            saved_usd_per_hour=Decimal("0.1"),
            storage_usd_per_hour=Decimal("-0.1"),
        ): "$2.40 a day for its storage before; ",
    }
    for entry, words in costs.items():
        world = ConsoleWorld()
        world.book(entry)
        page = html(
            instance,
            world,
            account=ROW.account,
            region=ROW.region,
            instance_id=ROW.instance_id,
            episode=entry.episode.execution_name,
        )
        assert f"<dt>Costs</dt><dd>{words}" in page


@WORLDS
def test_a_stop_is_undone_by_two_clicks_from_the_overview_and_confirmed_with_its_cost(
    make: Any,
) -> None:
    """The first leads to the open confirmation, the second starts it."""
    world = make()
    [link] = re.findall(r'href="(/instances/[^"]+start=1#start)"', html(overview, world))
    path, _, query = link.replace("&amp;", "&").partition("#")[0].partition("?")
    _, _, account, region, instance_id = path.split("/")
    fields = dict(part.split("=") for part in query.split("&"))
    page = html(
        instance,
        world,
        None,
        path,
        account=account,
        region=region,
        instance_id=instance_id,
        **fields,
    )

    assert '<details id="start" open><summary>Start it again…</summary>' in page
    assert "It costs $24 a day again while it runs." in page
    assert "For 24 h after the start, nobody is asked about it." in page
    assert ">Start it: $24 a day</button>" in page


def test_a_viewer_is_offered_no_start() -> None:
    """They see that it is stopped."""
    world = just_stopped()
    viewer = caller(grants=(Grant(Rank.VIEWER, Scope(everything=True)),))
    page = html(overview, world, viewer)

    assert "only its approvers can" in page
    assert "start=1" not in page


def test_others_see_nothing_of_it() -> None:
    """A stop is shown to those who may see its project."""
    other = caller(Scope(projects=frozenset({"llm"})))
    for world in (just_stopped(), stopped_long_ago()):
        assert "notebook-1" not in html(overview, world, other)
        assert ["notebook-2: busy"] == named(fleet(world.asked(other)))


def test_an_instance_that_was_started_again_is_never_out_of_sight() -> None:
    """Until the next sweep it counts as one that just started."""
    world = ConsoleWorld()
    entry = stop_of(ROW, booked_at=NOW - timedelta(hours=3))
    world.keep(closed_row(entry))
    world.book(replace(entry, ended_at=NOW - timedelta(minutes=1), ended=Ending.STARTED))

    assert ["notebook-1: too-young"] == named(fleet(world.asked()))
    assert 0 == overview(world.asked()).document["stopped"].instances  # type: ignore[attr-defined]


@pytest.mark.parametrize("why", [Ending.STARTED, Ending.TERMINATED])
def test_a_stop_of_an_earlier_month_that_ended_since_the_sweep_is_seen_at_once(
    why: Ending,
) -> None:
    """No page reads the month of its booking; its end has a key of its own."""
    world = stopped_long_ago()
    [entry] = world.state.open_of(TARGETS[0])
    at = NOW - timedelta(minutes=2)
    assert world.state.settle_entry(entry, at, why, at)

    assert [] == world.asked().stopped
    running = {row.instance_id: (row.verdict, row.launched_at) for row, _ in world.asked().running}
    expected = ("too-young", at) if why is Ending.STARTED else None
    assert expected == running.get(ROW.instance_id)
    terminated = [row.instance_id for row, _ in world.asked().current_fleet.terminated_lately]
    assert ([] if why is Ending.STARTED else [ROW.instance_id]) == terminated


@pytest.mark.parametrize("is_started", [False, True])
def test_a_stop_whose_place_another_took_is_stopped_until_its_own_start(is_started: bool) -> None:
    """The ledger keeps it among the open ones until then."""
    world = ConsoleWorld()
    entry = stop_of(ROW)
    world.book(entry)
    at = NOW - timedelta(minutes=1)
    assert world.state.settle_entry(entry, at, Ending.REPLACED, at, by="i-2")
    [replaced] = world.state.open_of(TARGETS[0])
    world.keep(closed_row(replaced), minutes_ago=0)
    if is_started:
        world.state.settle_entry(replaced, NOW, Ending.STARTED, NOW)

    expected = [] if is_started else [ROW.instance_id]
    assert expected == [row.instance_id for row, _ in world.asked().stopped]
    assert is_started is (["too-young"] == [row.verdict for row, _ in world.asked().running])


@pytest.mark.parametrize("status", [StartStatus.RUNNING, StartStatus.FELL_BACK])
def test_a_start_that_was_taken_back_since_the_sweep_leaves_the_instance_stopped(
    status: StartStatus,
) -> None:
    """EC2's event says so at once; the ledger follows with the next sweep."""
    world = stopped_long_ago()
    [entry] = world.state.open_of(TARGETS[0])
    at = NOW - timedelta(minutes=3)
    assert world.state.settle_entry(entry, at, Ending.STARTED, at)
    episode = world.state.episode(entry.episode)
    assert episode is not None
    start_try = StartTry(at, "link:ada@example.com", "page", ROW.launched_at, "", status, ran_at=at)
    world.state.put(replace(episode, start_try=start_try))

    fell_back = status is StartStatus.FELL_BACK
    found = {row["name"]: row["state"] for row in named_states(world)}
    assert ("stopped" if fell_back else "too-young") == found["notebook-1"]
    assert ([ROW.instance_id] if fell_back else []) == [
        row.instance_id for row, _ in world.asked().stopped
    ]


def named_states(world: ConsoleWorld) -> list[Any]:
    """The rows of the Fleet."""
    rows: Any = fleet(world.asked()).document["instances"]
    return list(rows)


def test_a_stop_that_the_sweep_has_not_seen_does_not_count_twice() -> None:
    """Neither as running nor as idle."""
    page = overview(just_stopped().asked())

    assert 1 == page.document["fleet"].instances  # type: ignore[attr-defined]
    assert 0 == page.document["idle"].instances  # type: ignore[attr-defined]


def test_a_stop_of_a_target_that_is_no_longer_swept_stays() -> None:
    """No page is stored of it."""
    world = ConsoleWorld()
    world.book(stop_of(ROW))

    assert ["notebook-1: stopped"] == named(fleet(world.asked()))


def test_no_question_is_promised_about_an_instance_that_ran_since_its_stop() -> None:
    """Sweeps ask about the run that was stopped alone."""
    world = just_stopped()
    rule = replace(ApprovalRule(), ask_about_stopped_after_days=3)
    world.policy = replace(world.policy, approval=rule)
    ref = stop_of(ROW).episode
    stored = world.state.episode(ref)
    assert stored is not None
    fell_back = StartTry(
        asked_at=NOW,
        asked_by="link:ada@example.com",
        channel="page",
        launched_before=ref.launch_time,
        reason_before="",
        status=StartStatus.FELL_BACK,
        ended_at=NOW,
        ran_at=NOW,
    )
    world.state.put(replace(stored, start_try=fell_back))
    lines: Any = fleet(world.asked(state="stopped")).values["lines"]

    assert ["since Fri 12:00 UTC, until somebody starts it"] == [line.next for line in lines]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (None, "since Fri 12:00 UTC, until somebody starts it"),
        (3, "since Fri 12:00 UTC; after Mon 12:00 UTC, people are asked whether to terminate it"),
    ],
)
def test_what_comes_next_has_its_date(days: int | None, expected: str) -> None:
    """As the policy says."""
    world = just_stopped()
    rule = replace(ApprovalRule(), ask_about_stopped_after_days=days)
    world.policy = replace(world.policy, approval=rule)
    lines: Any = fleet(world.asked(state="stopped")).values["lines"]

    assert [expected] == [line.next for line in lines]


_OVERRIDE = """
mode: ask
approval: {ask_about_stopped_after_days: 3, keep_after_undo_hours: 24}
overrides:
  - name: notebooks
    match: {tags: {Team: research}}
    set: {approval: {ask_about_stopped_after_days: 5, keep_after_undo_hours: 6}}
"""


@pytest.mark.parametrize(
    ("team", "kept_for", "asked_from"),
    [("research", "6 h", "Wed 12:00 UTC"), ("vision", "24 h", "Mon 12:00 UTC")],
)
def test_what_comes_next_is_by_the_policy_of_the_instance(
    team: str, kept_for: str, asked_from: str
) -> None:
    """An override may wait longer before the question, and keep it for less after a start."""
    world = just_stopped()
    world.policies = parse_policy(_OVERRIDE)
    ref = stop_of(ROW).episode
    stored = world.state.episode(ref)
    assert stored is not None
    world.state.put(replace(stored, instance=replace(stored.instance, tags={"Team": team})))
    page = html(
        instance,
        world,
        account=ROW.account,
        region=ROW.region,
        instance_id=ROW.instance_id,
        start="1",
    )
    lines: Any = fleet(world.asked(state="stopped")).values["lines"]

    assert f"For {kept_for} after the start, nobody is asked about it." in page
    assert [
        f"since Fri 12:00 UTC; after {asked_from}, people are asked whether to terminate it"
    ] == [line.next for line in lines]


@pytest.mark.parametrize("months_ago", [0, 1, 14, 50])
def test_a_terminated_instance_is_found_by_its_name_and_id(months_ago: int) -> None:
    """As long as its record is stored, and its page opens from there."""
    world = ConsoleWorld()
    world.keep(make_row(2, verdict="busy"))
    booked_at = NOW - timedelta(days=31 * months_ago, minutes=2)
    row = replace(ROW, launched_at=booked_at - timedelta(days=3))
    entry = stop_of(row, outcome=Outcome.TERMINATED, booked_at=booked_at)
    world.book(entry)
    store_episode(world, entry)

    older = {"q": "notebook-1", "state": "terminated"}
    for query in (older, {"q": ROW.instance_id}, {"state": "terminated"}):
        assert ["notebook-1: terminated"] == named(fleet(world.asked(None, **query)))
    by_name = fleet(world.asked(None, q="notebook-1"))
    assert (["notebook-1: terminated"] if months_ago == 0 else []) == named(by_name)
    assert "/fleet?q=notebook-1&state=terminated" == by_name.values["older"]
    assert ["notebook-2: busy"] == named(fleet(world.asked()))
    page = instance(
        world.asked(
            account=row.account,
            region=row.region,
            instance_id=row.instance_id,
            episode=entry.episode.execution_name,
        )
    )
    assert "notebook-1" in html(fleet, world, state="terminated")
    episodes: Any = page.document["episodes"]
    assert [entry.episode.execution_name] == [one["episode"] for one in episodes]


def test_a_termination_by_others_after_a_stop_is_found_too() -> None:
    """The end of the stop says so."""
    world = ConsoleWorld()
    entry = stop_of(ROW, booked_at=NOW - timedelta(days=90))
    world.book(entry)
    world.state.settle_entry(entry, NOW - timedelta(days=80), Ending.TERMINATED, NOW)

    assert ["notebook-1: terminated"] == named(fleet(world.asked(q=ROW.instance_id)))


def test_the_record_of_another_project_opens_no_page() -> None:
    """Not even by the name of its episode."""
    world = ConsoleWorld()
    entry = stop_of(ROW, booked_at=NOW - timedelta(days=400))
    store_episode(world, entry)
    asked = {
        "account": ROW.account,
        "region": ROW.region,
        "instance_id": ROW.instance_id,
        "episode": entry.episode.execution_name,
    }

    assert instance(world.asked(None, **asked))
    with pytest.raises(NotFound):
        instance(world.asked(caller(Scope(projects=frozenset({"llm"}))), **asked))


def test_a_held_and_a_kept_instance_are_states_with_their_end() -> None:
    """Fleet, filter and what comes next."""
    world = ConsoleWorld()
    until = NOW + timedelta(hours=3)
    held = make_row(3, kept_because="hold", stays_until=until, quiet_until=until)
    kept = make_row(4, verdict="snoozed", idle_since=None, kept_until=until)
    world.keep(held, kept)
    lines: Any = fleet(world.asked(sort="name")).values["lines"]

    assert [
        ("idle 7 h, held", "held until Fri 15:02 UTC"),
        ("kept", "kept until Fri 15:02 UTC"),
    ] == [(line.verdict, line.next) for line in lines]
    assert ["notebook-3: held"] == named(fleet(world.asked(state="held")))
    assert ["notebook-4: kept"] == named(fleet(world.asked(state="kept")))
    assert ["notebook-3: held"] == named(fleet(world.asked(state="idle")))
