"""Each sweep follows starts that EC2 was asked for, also in accounts that forward no events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.messages.sentences import comes_next_text
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Unavailable
from governor.core.units import iso
from governor.episode.model.episode import Outcome, Undo
from governor.episode.model.start_try import StartStatus, StartTry
from governor.episode.rules.start import reason_of_state
from governor.fleet.model import STOPPED
from governor.money.book_saving import ContinueSaving
from governor.money.model.ledger import Cash, Ending, LedgerEntry
from governor.money.rules.ledger import sum_saved
from governor.money.store.ledger import booking
from governor.policy.rules.changes import asked_under
from governor.remediation.follow_start import MAY_FALL_BACK_FOR
from governor.table.table import Document, Write, insert
from tests.builders import NOW, TARGET, make_entry
from tests.unit.worlds.builders import open_question, stored_episode
from tests.unit.worlds.fleet_world import FleetWorld

KEY_ERROR = "Client.InternalError: Client error on launch"


def starting(
    stopped_for: timedelta = timedelta(0), *, is_closed: bool = True
) -> tuple[FleetWorld, EpisodeRef]:
    """An instance that an episode has stopped, and that EC2 was asked to start some time later. The
    episode may still be open then, as it makes snapshots."""
    world = FleetWorld()
    instance_id = world.add(1)
    world.sweep()
    ref = open_question(world, instance_id)
    world.state.clear_step(ref, "stop", NOW)
    world.state.note_step(ref, "stop", NOW)
    world.ec2.stop(TARGET, instance_id, dry_run=False)
    if is_closed:
        close(world, ref)
    world.clock.moment += stopped_for
    assert world.state.note_start_try(ref, accepted_start(world, instance_id), None)
    world.ec2.instant = False
    world.ec2.start(TARGET, instance_id)
    world.announcer.sent.clear()
    return world, ref


def close(world: FleetWorld, ref: EpisodeRef, *, booked: Sequence[Write] = ()) -> None:
    """Close the episode as its workflow does, with the writes that book its saving."""
    world.state.close_episode(
        ref,
        Outcome.STOPPED,
        "as approved",
        world.clock.now(),
        quiet_until=None,
        became=Outcome.STOPPED,
        booking=booked,
    )
    world.state.note_told(ref, world.clock.now())


def swept(world: FleetWorld) -> list[AlertKind]:
    """The next sweep, five minutes later; the messages about the start that it sends."""
    world.clock.moment += timedelta(minutes=5)
    world.announcer.sent.clear()
    world.sweep()
    kinds = (AlertKind.UNDONE, AlertKind.START_FAILED)
    return [alert.kind for alert in world.announcer.sent if alert.kind in kinds]


def followed(world: FleetWorld, ref: EpisodeRef) -> EpisodeRef | None:
    """The start that later sweeps look at."""
    return world.state.record(TARGET, ref.instance_id).starting


def test_while_it_is_pending_nothing_is_said_and_it_is_looked_at_again() -> None:
    world, ref = starting()
    assert ([], ref) == (swept(world), followed(world, ref))
    assert stored_episode(world, ref).undo is None


def test_the_sweep_that_sees_it_run_says_so_once() -> None:
    world, ref = starting()
    world.change(ref.instance_id, state="running")

    assert [AlertKind.UNDONE] == swept(world)
    assert Undo("link:ada@example.com", world.clock.now()) == stored_episode(world, ref).undo
    assert ([], ref) == (swept(world), followed(world, ref))
    world.clock.moment += MAY_FALL_BACK_FOR
    assert ([], None) == (swept(world), followed(world, ref))


def test_a_later_sweep_sees_that_it_ran_and_is_stopped_again() -> None:
    """EC2 shows some starts as running before it takes them back. The sweep does not list it."""
    world, ref = starting()
    world.change(ref.instance_id, state="running")
    swept(world)
    world.ec2.fall_back(ref.instance_id, KEY_ERROR)

    assert [AlertKind.START_FAILED] == swept(world)
    episode = stored_episode(world, ref)
    assert (None, True) == (episode.undo, episode.can_be_started)
    assert ([], None) == (swept(world), followed(world, ref))


@pytest.mark.parametrize("stopped_for", [timedelta(minutes=9), timedelta(hours=2)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_saving_goes_on_from_when_a_start_that_ran_fell_back(
    times: int, stopped_for: timedelta
) -> None:
    """The minutes for which it ran save nothing, every amount counts once, and the stop stays one
    action, also if a second start falls back. A start within the first hour still makes the time
    before it a false stop. The instance is in the fleet's list again."""
    world, ref = starting(stopped_for)
    stop = make_entry(1, episode=ref, booked_at=NOW, saves_from=NOW, recorded_at=NOW)
    world.state._table.transact(*booking(stop))
    saved_for = timedelta(0)
    saves_since = NOW
    for number in range(times):
        if number:
            start_again(world, ref)
        started_at = world.clock.now()
        is_false_stop = not number and stopped_for < timedelta(hours=1)
        if not is_false_stop:
            saved_for += started_at - saves_since
        world.change(ref.instance_id, state="running", launch_time=started_at)
        swept(world)
        world.ec2.fall_back(ref.instance_id, KEY_ERROR, launch_time=started_at)
        swept(world)
        saves_since = world.clock.now()
        swept(world)

    now = world.clock.now()
    saved_for += now - saves_since
    entries = world.state.entries("2026-11")
    saved = sum_saved(entries, NOW, now, timedelta(days=30))
    assert stop.saved_usd_per_hour is not None
    hours = Decimal(int(saved_for.total_seconds())) / 3600
    assert abs(stop.saved_usd_per_hour * hours - saved.net_usd) < Decimal("0.000001")
    is_false = stopped_for < timedelta(hours=1)
    assert (times + 1, 1, int(is_false)) == (len(entries), saved.actions, saved.false_stops)
    [still_open] = world.state.open_of(TARGET)
    assert (saves_since, NOW) == (still_open.booked_at, still_open.first_booked_at)
    page = world.state.page(TARGET)
    assert page is not None
    assert [(ref.instance_id, STOPPED)] == [(row.instance_id, row.verdict) for row in page.rows]
    assert NOW + timedelta(days=30) == still_open.counts_until(timedelta(days=30))


def test_a_stop_whose_place_another_took_saves_no_more_after_such_a_start() -> None:
    """The instance in its place costs as much."""
    world, ref = starting()
    stop = make_entry(1, episode=ref, booked_at=NOW)
    world.state._table.transact(*booking(stop))
    world.state.settle_entry(stop, NOW, Ending.REPLACED, NOW, by="i-2")
    run_and_fall_back(world, ref)

    [entry] = world.state.entries("2026-11")
    assert Ending.REPLACED is entry.ended


def test_a_saving_whose_place_another_took_after_one_such_start_ends_with_the_next() -> None:
    """The saving goes on after the first start, another instance takes its place, and a second
    start falls back: only the instance in its place costs and saves from then on."""
    world, ref = starting(timedelta(hours=2))
    world.state._table.transact(*booking(make_entry(1, episode=ref, booked_at=NOW)))
    run_and_fall_back(world, ref)
    [continued] = world.state.open_of(TARGET)
    replaced_at = world.clock.now()
    assert world.state.settle_entry(continued, replaced_at, Ending.REPLACED, replaced_at, by="i-2")
    start_again(world, ref)
    run_and_fall_back(world, ref)

    entries = world.state.entries("2026-11")
    assert [Ending.STARTED, Ending.REPLACED] == [entry.ended for entry in entries]
    assert [] == world.state.open_of(TARGET)


def test_a_saving_that_goes_on_keeps_the_cash_figures_of_the_bill() -> None:
    """It also ends as any other."""
    world, ref = starting(timedelta(hours=2))
    stop = make_entry(1, episode=ref, booked_at=NOW)
    world.state._table.transact(*booking(stop))
    billed = Cash(Decimal("1.5"), Decimal("2.5"))
    world.state.correct(stop, billed, "bill.csv", world.clock.now())
    run_and_fall_back(world, ref)

    [continued] = world.state.open_of(TARGET)
    figures = (continued.cash_low_usd_per_hour, continued.cash_high_usd_per_hour)
    assert (billed, "bill.csv") == (figures, continued.cash_source)
    ended_at = world.clock.now()
    assert world.state.settle_entry(continued, ended_at, Ending.STARTED, ended_at)
    assert [Ending.STARTED] * 2 == [entry.ended for entry in world.state.entries("2026-11")]


@pytest.mark.parametrize("stopped_for", [timedelta(minutes=9), timedelta(hours=2)])
def test_a_start_that_fell_back_before_the_stop_was_booked_is_followed_until_it_is(
    stopped_for: timedelta,
) -> None:
    """The workflow books a stop at its end, after its snapshots. The minutes for which the instance
    ran save nothing, and a stop undone within the hour stays a false stop."""
    world, ref = starting(stopped_for, is_closed=False)
    started_at = world.clock.now()
    run_and_fall_back(world, ref)
    fell_back_at = world.clock.now()
    assert ref == followed(world, ref)

    close(world, ref, booked=booking(make_entry(1, episode=ref, booked_at=NOW)))
    swept(world)
    stop, continued = world.state.entries("2026-11")
    is_false_stop = stopped_for < timedelta(hours=1)
    assert (started_at, is_false_stop) == (stop.ended_at, stop.false_stop)
    assert (fell_back_at, NOW) == (continued.booked_at, continued.first_booked_at)
    assert followed(world, ref) is None


@pytest.mark.parametrize("ended", [None, Ending.STARTED, Ending.REPLACED])
@pytest.mark.parametrize("stopped_for", [timedelta(minutes=9), timedelta(hours=2)])
def test_the_previous_release_counts_less_and_never_more_of_a_saving_that_goes_on(
    stopped_for: timedelta, ended: Ending | None
) -> None:
    """A rollback reads the stop alone, until the start that fell back; nothing of a false stop."""
    world, ref = starting(stopped_for)
    stop = make_entry(1, episode=ref, booked_at=NOW, saves_from=NOW, recorded_at=NOW)
    world.state._table.transact(*booking(stop))
    run_and_fall_back(world, ref)
    [continued] = world.state.open_of(TARGET)
    billed_at = world.clock.now()
    world.state.correct(continued, Cash(Decimal(1), Decimal(2)), "bill.csv", billed_at)
    world.clock.moment += timedelta(days=1)
    if ended is not None:
        by = "i-2" if ended is Ending.REPLACED else ""
        assert world.state.settle_entry(continued, world.clock.now(), ended, billed_at, by=by)

    counted_days = timedelta(days=30)
    before = read_by_the_previous_release(world)
    [entry] = before
    assert stop.saved_usd_per_hour is not None
    saved_before = sum_saved(before, NOW, world.clock.now(), counted_days)
    is_false_stop = stopped_for < timedelta(hours=1)
    hours = 0 if is_false_stop else 2
    assert stop.saved_usd_per_hour * hours == saved_before.net_usd
    assert (NOW, is_false_stop) == (entry.booked_at, entry.false_stop)
    now = sum_saved(world.state.entries("2026-11"), NOW, world.clock.now(), counted_days)
    assert now.net_usd > saved_before.net_usd


def test_an_end_that_the_previous_release_wrote_counts_after_the_next_update() -> None:
    """During a rollback the instance is started: that release writes the end beside the time."""
    world, ref = starting(timedelta(hours=2))
    world.state._table.transact(*booking(make_entry(1, episode=ref, booked_at=NOW)))
    run_and_fall_back(world, ref)
    [continued] = world.state.open_of(TARGET)
    ended_at = world.clock.now()
    end = replace(
        continued, ended_at=ended_at, ended=Ending.STARTED, ours=False, first_booked_at=None
    )
    name = f"{iso(continued.booked_at)}#{ref.execution_name}#END"
    world.state._table.write(insert(("LEDGER#2026-11", name), end))

    entries = world.state.entries("2026-11")
    assert [Ending.STARTED, Ending.STARTED] == [entry.ended for entry in entries]
    assert ended_at == entries[-1].ended_at


def read_by_the_previous_release(world: FleetWorld) -> list[LedgerEntry]:
    """The entries of the month as the release reads them that knew one entry of each episode."""
    table = world.state._table
    booked: list[Document] = []
    additions: list[Document] = []
    for item in table.query("LEDGER#2026-11"):
        is_addition = "#END" in item["sk"] or "#BILL#" in item["sk"]
        (additions if is_addition else booked).append(item)
    entries = {entry.episode: entry for entry in table.records(LedgerEntry, booked)}
    for addition in table.records(LedgerEntry, additions):
        changes = addition.correction_fields if addition.corrected_at else addition.end_fields
        entries[addition.episode] = replace(entries[addition.episode], **changes)
    return list(entries.values())


@pytest.mark.parametrize("months", [0, 6])
def test_a_first_start_that_fell_back_reads_no_month_of_the_ledger(months: int) -> None:
    """Only the entry of the stop itself is read: its end names this start."""
    world, ref = starting(timedelta(days=30 * months, hours=2))
    world.state._table.transact(*booking(make_entry(1, episode=ref, booked_at=NOW)))
    asked: list[tuple[str, str]] = []
    query = world.state._table.query

    def listening(pk: str, prefix: str = "", *, after: str | None = None) -> Iterator[Document]:
        if pk.startswith("LEDGER#"):
            asked.append((pk, prefix))
        return query(pk, prefix, after=after)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.state._table, "query", listening)
        run_and_fall_back(world, ref)

    assert [("LEDGER#2026-11", f"{iso(NOW)}#{ref.execution_name}")] == asked
    assert [True] == [entry.is_continuation for entry in world.state.open_of(TARGET)]


def test_nobody_is_asked_about_a_stopped_instance_that_ran_since_its_stop() -> None:
    """The question belongs to the run that was stopped. EC2 shows a newer one, so each question
    would be void, once an hour."""
    world, ref = starting(timedelta(hours=2))
    policy = world.policies.policy
    approval = replace(policy.approval, ask_about_stopped_after_days=14)
    world.policies.policy = replace(policy, approval=approval)
    world.state._table.transact(*booking(make_entry(1, episode=ref, booked_at=NOW)))
    run_and_fall_back(world, ref)
    executions = list(world.workflow.executions)
    world.clock.moment += timedelta(days=15)
    for _ in range(13):
        swept(world)

    assert executions == list(world.workflow.executions)
    [still_open] = world.state.open_of(TARGET)
    assert still_open.is_continuation
    episode = stored_episode(world, ref)
    approval_then = replace(episode.asking, asked_under=asked_under(world.policies.policy))
    next_text = comes_next_text(replace(episode, asking=approval_then), world.clock.now())
    assert "terminate" not in " ".join(next_text)


def test_a_start_asked_for_while_a_sweep_ends_the_last_one_is_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody starts the instance again while the sweep goes on with the saving."""
    world, ref = starting()

    def start_again_meanwhile(*_: object) -> bool:
        start_again(world, ref)
        return False

    monkeypatch.setattr(ContinueSaving, "__call__", start_again_meanwhile)
    run_and_fall_back(world, ref)
    assert ref == followed(world, ref)

    monkeypatch.undo()
    world.change(ref.instance_id, state="running", launch_time=world.clock.now())
    assert [AlertKind.UNDONE] == swept(world)


def run_and_fall_back(world: FleetWorld, ref: EpisodeRef) -> None:
    """A sweep sees the started instance run, and the next one sees it stopped again."""
    started_at = world.clock.now()
    world.change(ref.instance_id, state="running", launch_time=started_at)
    swept(world)
    world.ec2.fall_back(ref.instance_id, KEY_ERROR, launch_time=started_at)
    swept(world)


def accepted_start(world: FleetWorld, instance_id: str) -> StartTry:
    """A start of the stopped instance that a person asks for now, and EC2 accepts."""
    stopped = world.ec2.instances[instance_id]
    return StartTry(
        asked_at=world.clock.now(),
        asked_by="link:ada@example.com",
        channel="page",
        launched_before=stopped.launch_time,
        reason_before=reason_of_state(stopped),
        status=StartStatus.ACCEPTED,
    )


def start_again(world: FleetWorld, ref: EpisodeRef) -> None:
    """A person asks for a further start of the stopped instance, and EC2 accepts it."""
    episode = stored_episode(world, ref)
    assert episode.start_try is not None
    asked = accepted_start(world, ref.instance_id)
    assert world.state.note_start_try(ref, asked, episode.start_try)


def test_the_sweep_that_sees_it_stopped_again_gives_ec2_s_reason() -> None:
    """It lists running instances alone; the record says where to look."""
    world, ref = starting()
    world.ec2.fall_back(ref.instance_id, KEY_ERROR)

    assert [AlertKind.START_FAILED] == swept(world)
    episode = stored_episode(world, ref)
    assert episode.start_try is not None
    assert StartStatus.FELL_BACK is episode.start_try.status
    assert ("Client.InternalError", "Client error on launch") == (
        episode.start_try.code,
        episode.start_try.words,
    )
    assert episode.can_be_started
    assert ([], None) == (swept(world), followed(world, ref))


@pytest.mark.parametrize("fault", ["describe", "sns"])
def test_a_sweep_that_cannot_look_or_notify_leaves_it_to_the_next(fault: str) -> None:
    """Nobody misses the message."""
    world, ref = starting()
    world.change(ref.instance_id, state="running")
    if fault == "describe":
        world.ec2.failures["describe"] = [Unavailable("EC2 is down")]
    else:
        world.announcer.failure = Unavailable("SNS is down")
    assert ([], ref) == (swept(world), followed(world, ref))
    world.announcer.failure = None

    assert [AlertKind.UNDONE] == swept(world)


def test_a_note_without_an_open_try_is_dropped() -> None:
    """As a function leaves it that dies between two writes."""
    world, ref = starting()
    start_try = stored_episode(world, ref).start_try
    assert start_try is not None
    world.state.items["EPISODE#" + ref.execution_name, "EPISODE"].pop("start_try")

    assert ([], None) == (swept(world), followed(world, ref))
