"""One instance: its facts, what was done about it and what that saved, in its reader's zone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.approvals.model.terms import Scope
from governor.approvals.rules.approval import first_approval
from governor.console.page import Caller, Page
from governor.console.views import instance_strip
from governor.console.views.fleet import fleet
from governor.console.views.instance import instance
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import InputError, NotFound
from governor.core.instance import Target
from governor.episode.model.episode import EpisodeEnding, InstanceRecord, Outcome, Phase
from governor.evidence.model import GpuReadings, Window
from governor.evidence.rules.history import History
from governor.money.model.ledger import Ending
from governor.policy.model.acting import Action
from governor.verdict.model import Hold
from tests.builders import NOW, make_entry
from tests.console_world import ConsoleWorld, asked, caller, html, make_episode, make_row
from tests.twins.stores import EveryEventStore

ROW = asked(make_row(1))
PLACE = {"account": ROW.account, "region": ROW.region, "instance_id": ROW.instance_id}


def show(world: ConsoleWorld, who: Caller | None = None, /, **query: str) -> Page:
    return instance(world.asked(who, **{**PLACE, **query}))


def text(world: ConsoleWorld, who: Caller | None = None, **query: str) -> str:
    """As a phone shows it, where a table's headings are words in its cells; with plain spaces."""
    page = html(instance, world, who, "/", **{**PLACE, **query}).replace("\xa0", " ")
    return re.sub(r'<span class="phone">(.*?)</span>', r"\1", page)


def test_an_open_question_is_shown_with_its_evidence_and_where_to_answer() -> None:
    """The reason, each GPU, and a link to the question."""
    world = ConsoleWorld()
    world.keep(ROW)
    world.state.put(make_episode(ROW))
    found = text(world)

    assert "What happens next: asked, 22 h left." in found
    assert 'href="/questions/approval-notebook-1"' in found
    assert "Idle for 7 h (every GPU under 5%)." in found
    assert "highest 1.0%" in found


def test_a_stop_that_goes_on_is_no_further_stop_on_the_page() -> None:
    """The strip shows it stopped since the stop, except for the minutes after the start that fell
    back; also if the stop was longer ago than the page looks back."""
    world = ConsoleWorld()
    ref = make_episode(ROW).ref
    stopped_at = NOW - timedelta(days=80)
    again_at = NOW - timedelta(days=3)
    plain = make_entry(1, episode=ref, owner=ROW.owner, project=ROW.project)
    again = replace(plain, booked_at=again_at, first_booked_at=stopped_at)
    later = NOW - timedelta(days=1)
    ended = replace(again, ended_at=later, ended=Ending.STARTED)
    last = replace(again, booked_at=later + timedelta(minutes=20))
    world.book(replace(plain, booked_at=stopped_at, ended_at=again_at), ended, last)
    request = world.asked(None, **PLACE)

    spans = list(instance_strip.spans(request, None, [last, ended], ()))
    assert [
        ("running", ref.launch_time, stopped_at),
        ("stopped", stopped_at, NOW),
        ("stopped", stopped_at, later),
        ("running", later, last.booked_at),
    ] == list(dict.fromkeys(spans))
    assert 2 == text(world).count("Stopped again after a start")
    assert "still counts" not in text(world)
    rows = show(world).tables[0].rows
    assert [stopped_at] * 2 == [row[-1] for row in rows[:2]]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ApprovalStatus.APPROVED, "approved since the last sweep"),
        (ApprovalStatus.KEPT, "kept since the last sweep"),
        (ApprovalStatus.EXEMPTED, "exempted since the last sweep"),
        (ApprovalStatus.VOID, "question canceled since the last sweep"),
    ],
)
def test_an_answer_is_shown_before_the_next_sweep(status: ApprovalStatus, words: str) -> None:
    """Also in the Fleet: what the last sweep saw of the question is over."""
    world, episode = ConsoleWorld(), make_episode(ROW)
    world.keep(ROW)
    decision = Decision(Answer.APPROVE, "link:bob@example.com", "page", NOW)
    answered = replace(first_approval(episode), status=status, decision=decision)
    world.state.put(episode, answered)

    for found in (text(world), html(fleet, world, None, "/fleet")):
        assert words in found
        assert "left" not in found.partition("<main")[2]


def test_the_fleet_says_that_an_approved_plan_is_on_hold() -> None:
    """A hold counts more than the approval before it."""
    world, episode = ConsoleWorld(), make_episode(ROW)
    world.keep(ROW)
    approval = replace(first_approval(episode), status=ApprovalStatus.APPROVED)
    hold = Decision(Answer.HOLD, "link:bob@example.com", "page", NOW)
    world.state.put(episode, replace(approval, hold=hold))

    assert "put on hold since the last sweep" in html(fleet, world, None, "/fleet")


def test_an_answer_says_by_whom() -> None:
    """As people know them, with the reason."""
    world = ConsoleWorld()
    world.keep(replace(ROW, episode=None))
    episode = make_episode(ROW, phase=Phase.CLOSED, ending=EpisodeEnding(Outcome.KEPT, "kept", NOW))
    decision = Decision(
        Answer.KEEP, "link:bob@example.com", "page", NOW, NOW + timedelta(days=1), "demo"
    )
    target = Target(ROW.account, ROW.region)
    world.state.put(episode, replace(first_approval(episode), decision=decision))
    world.state.put(InstanceRecord(target, ROW.instance_id, episodes=1))

    assert "Answered by <bdi>bob@example.com (mail link)</bdi>" in text(world)
    [found] = episodes(show(world))
    assert ("kept", "keep", "bob@example.com (mail link)") == tuple(
        found[name] for name in ("outcome", "answer", "by")
    )


def test_an_episode_that_was_only_reported_says_so_in_the_words_of_the_ledger() -> None:
    world = ConsoleWorld()
    world.keep(replace(ROW, episode=None))
    ending = EpisodeEnding(Outcome.TOLD, "the plan is to notify only", NOW)
    target = Target(ROW.account, ROW.region)
    episode = make_episode(ROW, phase=Phase.CLOSED, ending=ending)
    why = ("stop protection (disableApiStop) is on, so it is not stopped",)
    protected = replace(episode.plan, action=Action.NOTIFY_ONLY, replaced_because=why)
    world.state.put(replace(episode, plan=protected))
    world.state.put(InstanceRecord(target, ROW.instance_id, episodes=1))
    page = text(world)

    assert "UTC: only reported</h3>" in page
    assert "UTC: told" not in page
    assert "Stop protection (disableApiStop) is on, so it is not stopped." in page


def test_an_episode_that_was_only_reported_names_the_policy_if_it_wants_no_more() -> None:
    world = ConsoleWorld()
    world.keep(replace(ROW, episode=None))
    ending = EpisodeEnding(Outcome.TOLD, "the plan is to notify only", NOW)
    episode = make_episode(ROW, phase=Phase.CLOSED, ending=ending)
    only = Action.NOTIFY_ONLY
    wanted = replace(episode.plan, wanted=only, action=only, replaced_because=())
    world.state.put(replace(episode, plan=wanted))
    world.state.put(InstanceRecord(Target(ROW.account, ROW.region), ROW.instance_id, episodes=1))

    assert "The policy says so." in text(world)


def test_faults_that_last_and_advice_are_on_the_page() -> None:
    """With what to do; only of this start of this instance, and each GPU once, however many errors
    it has."""
    world = ConsoleWorld()
    world.keep(
        replace(ROW, advice=("right-size: GPU 3 did nothing; a type with 1 accelerator would do",))
    )
    start = int(ROW.launched_at.timestamp())
    keys = [
        *(f"{ROW.instance_id}#{start}#memory-error#{gpu}" for gpu in ("1#0", "1#2", "0#0")),
        f"{ROW.instance_id}#{start - 9}#lost#7#0",
        f"{make_row(2).instance_id}#{start}#hot#5#0",
    ]
    target = Target(ROW.account, ROW.region)
    EveryEventStore(world.table).note_known(target, keys, NOW + timedelta(hours=1))
    EveryEventStore(world.table).note_known(target, [f"{ROW.instance_id}#{start}#hot#6#0"], NOW)
    page = text(world)

    assert (
        "<strong>Memory error</strong> on GPUs 0, 1. Do not trust results produced since then"
        in page
    )
    assert "Right-size: GPU 3 did nothing; a type with 1 accelerator would do.</li>" in page
    assert [("memory-error", ["0", "1"])] == [
        (one["kind"], one["gpus"])
        for one in show(world).document["health"]  # type: ignore[attr-defined]
    ]
    world.keep(make_row(3))
    assert "Health and advice" not in text(world, instance_id=make_row(3).instance_id)


def test_episodes_that_are_not_stored_any_more_are_said() -> None:
    """The instance was idle for long; only its records are gone, or of an earlier start."""
    world = ConsoleWorld()
    world.keep(replace(ROW, episode=None))
    assert "No question about it is stored." in text(world)
    world.state.put(InstanceRecord(Target(ROW.account, ROW.region), ROW.instance_id, episodes=2))
    page = text(world)
    assert "2 earlier episodes are not shown: from an earlier start, or no longer stored." in page
    assert "No question about it" not in page
    world.keep(ROW)
    assert "Its open episode could not be read." in text(world)


def episodes(page: Page) -> list[dict[str, Any]]:
    found: Any = page.document["episodes"]
    return list(found)


def test_what_its_stops_saved_is_shown_also_when_it_is_gone() -> None:
    """From the ledger alone: 3 days at 5.67 an hour."""
    world = ConsoleWorld()
    world.book(make_entry(1), make_entry(2))
    page = show(world)
    [stop] = page.tables[0].rows

    assert Decimal("5.67") * 72 == stop[-2]
    assert "This saves $136 a day." in text(world)
    assert "It is not one of the instances that you can see now" not in text(world)
    assert "$408 saved" in text(world)
    entry = make_entry(1)
    ended = ConsoleWorld()
    ended.book(replace(entry, ended_at=NOW))
    assert "It is not one of the instances that you can see now" in text(ended)
    for fact in (
        entry.instance_type,
        entry.owner,
        entry.project,
        "$136 a day while it ran, and $0.72 for its storage; $0.72 a day now",
    ):
        assert fact in text(world)


def test_a_question_that_was_kept_is_no_stop() -> None:
    """The ledger has it, with the idle cost that was found; this page lists by what it was put
    away."""
    world = ConsoleWorld()
    world.keep(make_row(1))
    world.book(
        make_entry(
            1, outcome=Outcome.KEPT, ours=False, saved_usd_per_hour=Decimal(0), ended_at=NOW
        ),
    )

    assert () == show(world).tables[0].rows
    assert "Kept by others" not in text(world)


def test_six_weeks_show_what_was_measured_before_each_stop() -> None:
    """Work, idle and holes of the day before its question; when it ran, and was stopped."""
    world, entry = ConsoleWorld(), make_entry(1)
    world.book(entry)
    end = entry.booked_at - timedelta(hours=1)
    window = Window(end - timedelta(hours=24), end, timedelta(hours=1))
    seen = History(window, (GpuReadings("0", (None,) * 4 + (90.0,) * 14 + (1.0,) * 6),))
    closed = {
        "phase": Phase.CLOSED,
        "ending": EpisodeEnding(Outcome.STOPPED, "approved", entry.booked_at),
    }
    world.state.put(
        make_episode(
            ROW, ref=entry.episode, opened_at=end, history=seen, owner=entry.owner, **closed
        )
    )
    found = text(world)
    kinds = ("running", "no-data", "used", "idle", "asked", "stopped")
    assert [found.count(f'class="{kind}" d=') for kind in kinds] == [1] * 6


@pytest.mark.parametrize("stopped_days_ago", [3, 80])
@pytest.mark.parametrize(("ended_at", "offers"), [(None, True), (NOW - timedelta(days=1), False)])
def test_a_stop_after_which_it_ran_again_cannot_be_undone(
    ended_at: datetime | None, offers: bool, stopped_days_ago: int
) -> None:
    """Another episode stopped it now. The page lists the stops of six weeks, and offered to start
    an instance of an older one, although the ledger knew its end."""
    world = ConsoleWorld()
    entry = make_entry(1, booked_at=NOW - timedelta(days=stopped_days_ago))
    world.book(replace(entry, ended_at=ended_at))
    ending = EpisodeEnding(Outcome.STOPPED, "approved", entry.booked_at, Outcome.STOPPED)
    closed = {"phase": Phase.CLOSED, "ending": ending}
    done = {"steps_done": {"stop": entry.booked_at}}
    world.state.put(make_episode(ROW, ref=entry.episode, owner=entry.owner, **closed, **done))

    assert offers is ("Start it again" in text(world, episode=entry.episode.execution_name))


def test_a_stop_that_was_undone_is_called_undone() -> None:
    """And until when it lasted, in the reader's zone."""
    world = ConsoleWorld()
    ended = NOW - timedelta(days=2, hours=23, minutes=30)
    world.book(make_entry(1, ended_at=ended, false_stop=True))

    assert "until Tue 13:32 Berlin (12:32 UTC) (undone)" in text(
        world, caller(zone="Europe/Berlin")
    )


def test_a_stop_of_long_ago_says_until_when_it_counted() -> None:
    """The policy ends a saving after 30 days, though the instance stays away."""
    world = ConsoleWorld()
    world.book(make_entry(1, booked_at=NOW - timedelta(days=31)))

    assert "until Thu 12:02 UTC" in text(world)
    assert "still counts" not in text(world)


def test_a_keep_and_an_exemption_are_shown() -> None:
    """As they stand in the table, with who said so; a keep that is over is not."""
    world = ConsoleWorld()
    world.keep(ROW)
    target = Target(ROW.account, ROW.region)
    hold = Hold(NOW + timedelta(hours=3), "license server (link:bob@example.com)")
    world.state.put(InstanceRecord(target, ROW.instance_id, hold=hold))
    found = text(world)
    assert "<dt>Kept until</dt><dd>Fri 15:02 UTC</dd>" in found
    assert "license server (bob@example.com (mail link))" in found

    world.state.put(InstanceRecord(target, ROW.instance_id, hold=Hold(NOW)))
    assert "Kept until" not in text(world)


def test_an_episode_of_another_instance_is_not_shown() -> None:
    """Whatever the address says; what is no name of an episode is refused."""
    world = ConsoleWorld()
    world.keep(ROW)
    other = make_episode(make_row(2, approval_id="other"), reason="SECRET")
    world.state.put(other)

    assert "SECRET" not in text(world, episode=other.ref.execution_name)
    with pytest.raises(InputError, match="follow a link of this page"):
        show(world, episode="../../etc")


@pytest.mark.parametrize("end", ["9" * 20 + "-1", "9" * 12 + "-1", "1-" + "9" * 99])
def test_an_episode_of_no_time_is_refused(end: str) -> None:
    """Not an error of ours: anybody who has signed in can write such an address."""
    world = ConsoleWorld()
    world.keep(ROW)
    with pytest.raises(InputError, match="not the name"):
        show(world, episode=f"{ROW.account}-{ROW.region}-{ROW.instance_id}-{end}")


def test_an_episode_of_a_former_owner_stays_with_them() -> None:
    """The instance changed hands: what was said before is not the new owner's to read."""
    world = ConsoleWorld()
    world.keep(ROW)
    world.state.put(make_episode(ROW, owner="rivals", project="secret", reason="SECRET"))
    mine = caller(Scope(owners=frozenset({"ml-team"})))

    assert "SECRET" not in text(world, mine)
    assert "SECRET" in text(world)


@pytest.mark.parametrize(
    "place",
    [
        {"instance_id": "i-99999999999999999"},
        {"account": "999999999999"},
        {"region": "mars-north-1"},
        {"instance_id": "x" * 300},
    ],
)
def test_an_instance_that_is_not_there_is_not_found(place: dict[str, str]) -> None:
    """Nothing of its name is looked up."""
    world = ConsoleWorld()
    world.keep(ROW)

    with pytest.raises(NotFound):
        show(world, **place)


def test_an_episode_can_be_asked_for_by_name() -> None:
    """The links of the ledger lead to it."""
    world = ConsoleWorld()
    entry = make_entry(1)
    world.book(entry)
    ref = EpisodeRef(ROW.account, ROW.region, ROW.instance_id, entry.episode.launch_time, 1)
    closed = make_episode(
        ROW, ref=ref, phase=Phase.CLOSED, ending=EpisodeEnding(Outcome.STOPPED, "approved", NOW)
    )
    world.state.put(closed)

    assert [ref.execution_name] == [
        one["episode"] for one in episodes(show(world, episode=ref.execution_name))
    ]


def test_what_holds_an_instance_that_others_have_by_now_is_theirs() -> None:
    """Its owner before sees what was booked then, and not why it is exempt today."""
    world = ConsoleWorld()
    world.book(make_entry(1))
    world.keep(replace(ROW, owner="rivals", project="secret"))
    hold = Hold(NOW + timedelta(hours=3), "SECRET")
    world.state.put(InstanceRecord(Target(ROW.account, ROW.region), ROW.instance_id, hold=hold))
    found = text(world, caller(Scope(owners=frozenset({"ml-team"}))))

    assert "$408 saved" in found
    assert "SECRET" not in found
    assert "Kept until" not in found


def test_an_instance_without_power_says_so() -> None:
    """A low utilization that nothing confirms is not shown as if something did."""
    world = ConsoleWorld()
    hint = "power: not measured. Only GPU utilization says that it is idle"
    world.keep(replace(ROW, advice=(hint,)))

    assert "Power: not measured. Only GPU utilization says that it is idle." in text(world)
