"""One suite over the state table and its in-memory twin: what both promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import product
from typing import Any

import pytest

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Answer, ApprovalStatus
from governor.approvals.rules.approval import STATUS_AFTER
from governor.core.errors import ConflictError, DecisionRefused, NotFound
from governor.core.instance import Target, UserData
from governor.core.settings import SettingError
from governor.core.units import parse_iso
from governor.episode.model.episode import Clearance, InstanceRecord, Outcome, Phase, Undo
from governor.limits.model.breaker import BreakerState, SweepDay
from governor.money.model.ledger import Ending, LedgerEntry
from governor.money.rules.cost import Meter
from governor.money.store.ledger import booking
from governor.policy.model.judging import Targets
from governor.policy.model.money import Ledger as LedgerSettings
from governor.table import keys
from governor.table.table import delete, put, update
from governor.verdict.model import Hold, IdleParts
from tests.episodes import ending_of
from tests.twins.stores import EveryStore
from tests.unit.aws.state_samples import (
    INSTANCE_ID,
    LAUNCHED,
    NOW,
    TARGET,
    decision,
    entry,
    episode,
    observation,
    ref,
)


@pytest.fixture
def opened(table: EveryStore) -> EveryStore:
    """With one opened episode."""
    assert table.take_lock(ref())
    table.save_opened(episode())
    return table


# the sweep's memory


def test_a_first_sweep_remembers_nothing(table: EveryStore) -> None:
    """Before the first sweep there are no observations."""
    assert {} == table.observations(TARGET)


def test_observations_come_back_as_they_were(table: EveryStore) -> None:
    """Observations are read back field by field, and a later set replaces an earlier one."""
    table.remember(TARGET, {INSTANCE_ID: observation(), "i-00000001": observation()}, NOW)
    bare = observation(
        dimensions=None, last_busy=None, source=None, searched_at=None, next_gpu_check_at=None
    )
    partly_idle = observation(verdict="partly-idle", idle_parts=IdleParts(7, 8, "GPU"))
    second = {INSTANCE_ID: observation(), "i-00000002": bare, "i-00000003": partly_idle}

    table.remember(TARGET, second, NOW)

    assert second == table.observations(TARGET)


def test_what_a_sweep_saved_that_did_not_end_counts_until_one_ends(table: EveryStore) -> None:
    """Each part by itself; what a slower sweep adds to a newer one's whole is nothing."""
    other, third = "i-00000001", "i-00000002"
    later = NOW + timedelta(minutes=5)
    table.remember_part(TARGET, {third: observation(at=NOW)}, NOW)
    assert {third} == set(table.observations(TARGET))

    table.remember(TARGET, {INSTANCE_ID: observation(at=NOW), other: observation(at=NOW)}, NOW)
    table.remember_part(TARGET, {other: observation(at=later)}, later)
    table.remember_part(
        TARGET, {third: observation(at=later), INSTANCE_ID: observation(at=NOW)}, later
    )
    found = table.observations(TARGET)
    assert {INSTANCE_ID: NOW, other: later, third: later} == {
        key: one.at for key, one in found.items()
    }

    table.remember(TARGET, {INSTANCE_ID: observation(at=later)}, later)
    assert {INSTANCE_ID: observation(at=later)} == table.observations(TARGET)


def test_targets_do_not_mix(table: EveryStore) -> None:
    """Each account and Region has its own memory; the role used to reach it makes no difference."""
    table.remember(TARGET, {INSTANCE_ID: observation()}, NOW)
    table.set_marked(TARGET, NOW, INSTANCE_ID)

    assert {} == table.observations(replace(TARGET, region="eu-west-1"))
    assert {} == table.records(replace(TARGET, account="999999999999"))
    assert [INSTANCE_ID] == list(
        table.observations(replace(TARGET, role_arn="arn:aws:iam::1:role/x"))
    )


def test_an_unknown_instance_has_an_empty_record(table: EveryStore) -> None:
    """A record exists for every id; a new one holds nothing."""
    assert InstanceRecord(TARGET, INSTANCE_ID) == table.record(TARGET, INSTANCE_ID)
    assert InstanceRecord(TARGET, INSTANCE_ID) == table.record(
        Target(TARGET.account, TARGET.region, "arn:aws:iam::1:role/x"), INSTANCE_ID
    )


def test_marks_are_noted_and_removed(table: EveryStore) -> None:
    """`marked_at` is set and removed; removing it from an instance without a record makes none."""
    table.set_marked(TARGET, None, INSTANCE_ID)
    table.clear_quiet(TARGET, INSTANCE_ID)
    assert {} == table.records(TARGET)

    table.set_marked(TARGET, NOW, INSTANCE_ID)
    assert table.record(TARGET, INSTANCE_ID).marked_at == NOW

    table.set_marked(TARGET, None, INSTANCE_ID)
    assert table.record(TARGET, INSTANCE_ID).marked_at is None


def test_warnings_are_noted_of_many_at_once_and_the_last_one_counts(table: EveryStore) -> None:
    """More than one transaction takes; known instances keep what else is known of them."""
    ids = [f"i-{number:017x}" for number in range(101)]
    table.set_marked(TARGET, NOW, ids[0])

    table.note_warned(TARGET, dict.fromkeys(ids, NOW))
    table.note_warned(TARGET, {ids[0]: NOW + timedelta(minutes=7)})

    records = table.records(TARGET)
    assert [NOW] * 100 == [records[one].warned_until for one in ids[1:]]
    assert (NOW, NOW + timedelta(minutes=7)) == (
        records[ids[0]].marked_at,
        records[ids[0]].warned_until,
    )


def test_a_record_that_holds_an_old_warning_alone_is_forgotten(table: EveryStore) -> None:
    """And no other: not while the warning stands, and not what holds a lock, a mark or an
    answer."""
    later = NOW + timedelta(minutes=7)
    table.drop_warning(TARGET, INSTANCE_ID, later)
    for instance_id in (INSTANCE_ID, "i-0000000a", "i-0000000b", "i-0000000c"):
        table.note_warned(TARGET, {instance_id: later})
    table.set_marked(TARGET, NOW, "i-0000000a")
    table.take_lock(ref(1, "i-0000000b"))
    table.store_hold(TARGET, "i-0000000c", Hold(snoozed_until=later))

    table.drop_warning(TARGET, INSTANCE_ID, NOW)
    assert later == table.record(TARGET, INSTANCE_ID).warned_until
    for instance_id in table.records(TARGET):
        table.drop_warning(TARGET, instance_id, later)

    assert {"i-0000000a", "i-0000000b", "i-0000000c"} == set(table.records(TARGET))


def test_what_sweeps_have_seen_is_kept_by_target(table: EveryStore) -> None:
    """As it was set last, in the order of days."""
    days = (SweepDay(date(2026, 11, 19), 3, 0), SweepDay(date(2026, 11, 20), 0, 7))
    assert () == tuple(table.sweep_days(TARGET))

    table.set_sweep_days(TARGET, days[:1])
    table.set_sweep_days(TARGET, days)

    assert days == tuple(table.sweep_days(TARGET))
    assert () == tuple(table.sweep_days(replace(TARGET, region="eu-west-1")))


def test_the_breaker_changes_once(table: EveryStore) -> None:
    """Only the call that trips or releases it is told so; a new reason is no change, and whoever
    has read another one releases nothing."""
    first, second = (
        BreakerState(NOW, "60 % idle"),
        BreakerState(NOW + timedelta(minutes=5), "70 % idle"),
    )

    assert table.breaker(TARGET) is None
    assert table.reset_breaker(TARGET, first) is False
    assert table.set_breaker(TARGET, first) is True
    assert table.set_breaker(TARGET, second) is False
    assert table.reset_breaker(TARGET, first) is False
    assert second == table.breaker(TARGET)
    assert table.reset_breaker(TARGET, second) is True
    assert table.reset_breaker(TARGET, second) is False
    assert table.breaker(TARGET) is None


def test_a_breaker_that_either_release_tripped_holds_until_both_are_released(
    table: EveryStore,
) -> None:
    """An update, a rollback, or a role that may write one partition alone cannot end a freeze."""
    older, newer = (
        BreakerState(NOW, "60 % idle"),
        BreakerState(NOW + timedelta(minutes=5), "70 % idle"),
    )
    place = f"{TARGET.account}#{TARGET.region}"
    former, present = (f"TARGET#{place}", "BREAKER"), (f"BREAKER#{place}", "BREAKER")
    inner = table._table

    inner.write(put(former, older))
    assert older == table.breaker(TARGET)
    table.set_breaker(TARGET, newer)
    inner.write(delete(former))
    assert newer == table.breaker(TARGET)
    inner.write(put(former, older))
    assert newer == table.breaker(TARGET)
    inner.write(delete(present))
    assert older == table.breaker(TARGET)
    assert table.reset_breaker(TARGET, older) is True
    assert table.breaker(TARGET) is None


# what is booked and over


def test_what_is_booked_as_ended_is_in_the_ledger_and_not_open(opened: EveryStore) -> None:
    """Deeds of others are not settled later: they saved nothing of ours."""
    over = replace(entry(), ended_at=NOW, ours=False)
    opened.close_episode(ref(), Outcome.VOID, "by others", NOW, quiet_until=None, ledger=over)

    assert [over] == list(opened.entries("2026-11"))
    assert [] == list(opened.open_entries(TARGET, INSTANCE_ID))
    assert not opened.settle_entry(over, NOW, Ending.UNDONE, NOW)


# the lock


def test_the_lock_is_taken_once(table: EveryStore) -> None:
    """Another episode cannot be opened while one is; the same one may ask again."""
    assert table.take_lock(ref(1)) is True
    assert table.take_lock(ref(1)) is True
    assert table.take_lock(ref(2)) is False

    record = table.record(TARGET, INSTANCE_ID)
    assert (ref(1), 1) == (record.open_episode, record.episodes)


def test_a_lock_of_the_release_before_holds_and_is_moved(table: EveryStore) -> None:
    """That release knows the record alone: an episode that it opened goes on, and no other one
    begins."""
    table.take_lock(ref(1))
    table._table.write(delete(keys.lock(TARGET, INSTANCE_ID)))

    for record in (table.record(TARGET, INSTANCE_ID), table.records(TARGET)[INSTANCE_ID]):
        assert (ref(1), 1) == (record.open_episode, record.episodes)
    assert table.take_lock(ref(2)) is False
    assert table.take_lock(ref(1)) is True
    assert table._table.get(keys.lock(TARGET, INSTANCE_ID)) is not None


def test_a_lock_of_the_release_before_is_freed_by_a_close(opened: EveryStore) -> None:
    """It was opened before the update."""
    opened._table.write(delete(keys.lock(TARGET, INSTANCE_ID)))

    assert opened.close_episode(ref(1), Outcome.KEPT, "kept", NOW, quiet_until=None) is True
    assert opened.record(TARGET, INSTANCE_ID).open_episode is None
    assert opened.take_lock(ref(2)) is True


def test_whoever_writes_the_record_frees_no_lock(opened: EveryStore) -> None:
    """Functions that face the internet write answers to the record: the lock has a partition of its
    own."""
    record = keys.instance(TARGET, INSTANCE_ID)
    opened._table.write(update(record, {}, remove=["open_episode", "episodes"]))

    for known in (opened.record(TARGET, INSTANCE_ID), opened.records(TARGET)[INSTANCE_ID]):
        assert (ref(1), 1) == (known.open_episode, known.episodes)
    assert opened.take_lock(ref(2)) is False
    assert opened.close_episode(ref(1), Outcome.STOPPED, "done", NOW, quiet_until=None) is True
    assert Outcome.STOPPED is opened.record(TARGET, INSTANCE_ID).last_outcome

    # Nor does it open anything: what it writes there can only keep others from beginning.
    opened._table.write(update(record, {"open_episode": ref(7).execution_name, "episodes": 7}))
    assert ref(7) == opened.record(TARGET, INSTANCE_ID).open_episode
    assert opened.take_lock(ref(8)) is False


def test_a_lock_that_a_rollback_left_is_freed(opened: EveryStore) -> None:
    """The release before closed the episode and freed the record alone."""
    opened.close_episode(ref(1), Outcome.KEPT, "kept", NOW, quiet_until=None)
    left = {"open_episode": ref(1).execution_name}
    opened._table.write(update(keys.lock(TARGET, INSTANCE_ID), left))

    opened.free_lock(ref(2))
    assert ref(1) == opened.record(TARGET, INSTANCE_ID).open_episode
    opened.free_lock(ref(1))
    assert opened.record(TARGET, INSTANCE_ID).open_episode is None


def test_a_used_number_opens_nothing(opened: EveryStore) -> None:
    """A late repetition of a closed episode's start does not open it again."""
    opened.close_episode(ref(1), Outcome.KEPT, "kept", NOW, quiet_until=None)

    assert opened.take_lock(ref(1)) is False
    assert opened.take_lock(ref(2)) is True


def test_the_lock_keeps_what_else_the_record_holds(table: EveryStore) -> None:
    """Opening an episode does not lose the mark."""
    table.set_marked(TARGET, NOW, INSTANCE_ID)
    table.take_lock(ref())
    assert table.record(TARGET, INSTANCE_ID).marked_at == NOW


# episodes


def test_an_episode_comes_back_as_it_was(opened: EveryStore) -> None:
    """Every field survives, figures to the last digit, so that the evidence keeps its hash."""
    assert episode() == opened.episode(ref())


def test_an_episode_opens_with_a_question_nobody_can_answer_yet(opened: EveryStore) -> None:
    """The approval is pending, bound to the evidence, and without a token until it is asked."""
    approval = opened.approval("approval-1")
    assert approval is not None
    assert ApprovalStatus.PENDING is approval.status
    assert (episode().measurement.evidence_hash, ref()) == (
        approval.evidence_hash,
        approval.episode,
    )
    assert (timedelta(days=7), None) == (approval.keep_at_most, approval.task_token)
    assert approval.expires_at <= NOW


def test_the_first_saved_episode_stands(opened: EveryStore) -> None:
    """A repeated opening returns what is stored, and leaves no second question."""
    stored = opened.save_opened(replace(episode(), approval_id="approval-2", reason="other"))

    assert episode() == stored
    assert opened.approval("approval-2") is None


def test_no_episode_is_saved_without_the_lock(table: EveryStore) -> None:
    """An episode that was closed before it was saved stays closed."""
    table.take_lock(ref(1))
    table.close_episode(ref(1), Outcome.FAILED, "died", NOW, quiet_until=None)

    with pytest.raises(ConflictError):
        table.save_opened(episode(1))
    assert table.episode(ref(1)) is None
    assert table.approval("approval-1") is None


def test_steps_are_let_through_until_the_end(opened: EveryStore) -> None:
    """The last one counts; a closed episode moves no more."""
    opened.clear_step(ref(), "stop", NOW)
    later = NOW + timedelta(minutes=1)
    opened.clear_step(ref(), "terminate", later)
    stored = opened.episode(ref())
    assert stored is not None
    assert (Phase.ACTING, later) == (stored.phase, stored.phase_since)
    assert Clearance("terminate", later) == stored.clearance

    opened.close_episode(ref(), Outcome.STOPPED, "done", NOW, quiet_until=None)
    with pytest.raises(ConflictError):
        opened.clear_step(ref(), "stop", NOW)


def test_what_does_not_exist_cannot_be_changed(table: EveryStore) -> None:
    """Changes to an unknown episode are refused instead of making one."""
    with pytest.raises(ConflictError):
        table.clear_step(ref(), "stop", NOW)
    with pytest.raises(ConflictError):
        table.set_snapshots(ref(), {"snap-1": "vol-1"})
    with pytest.raises(ConflictError):
        table.note_step(ref(), "stop", NOW)
    assert table.episode(ref()) is None


def test_an_undo_is_noted_once_and_only_of_what_is_over(opened: EveryStore) -> None:
    """The first who asked is the one on record."""
    with pytest.raises(ConflictError):
        opened.note_undo(ref(), "ada", NOW)
    opened.close_episode(ref(), Outcome.STOPPED, "done", NOW, quiet_until=None)

    assert opened.note_undo(ref(), "ada", NOW)
    assert not opened.note_undo(ref(), "bob", NOW + timedelta(minutes=1))

    stored = opened.episode(ref())
    assert stored is not None
    assert Undo("ada", NOW) == stored.undo


def test_snapshots_and_first_steps_are_noted(opened: EveryStore) -> None:
    """The first snapshots are kept, as the first time of a step is."""
    assert 2 == len(opened.set_snapshots(ref(), {"snap-2": "vol-2", "snap-1": "vol-1"}))
    assert {"snap-2": "vol-2", "snap-1": "vol-1"} == opened.set_snapshots(
        ref(), {"snap-9": "vol-1"}
    )
    opened.note_step(ref(), "stop", NOW)
    opened.note_step(ref(), "stop", NOW + timedelta(hours=1))
    opened.note_step(ref(), "cancel-spot-request", NOW + timedelta(hours=2))

    stored = opened.episode(ref())
    assert stored is not None
    assert ("snap-1", "snap-2") == stored.progress.snapshot_ids
    assert {"snap-1": "vol-1", "snap-2": "vol-2"} == dict(stored.progress.snapshots)
    assert {"stop": NOW, "cancel-spot-request": NOW + timedelta(hours=2)} == dict(
        stored.progress.steps_done
    )


def test_closing_frees_the_lock_and_books_the_entry(opened: EveryStore) -> None:
    """One close: outcome, free lock, quiet time bound to the launch, and one ledger entry."""
    quiet = NOW + timedelta(hours=24)

    assert opened.close_episode(
        ref(), Outcome.STOPPED, "done", NOW, quiet_until=quiet, ledger=entry()
    )

    stored, record = opened.episode(ref()), opened.record(TARGET, INSTANCE_ID)
    assert stored is not None
    assert (Phase.CLOSED, Outcome.STOPPED, "done", NOW) == (
        stored.phase,
        stored.outcome,
        ending_of(stored).reason,
        ending_of(stored).at,
    )
    assert (None, Outcome.STOPPED, quiet, LAUNCHED, 1) == (
        record.open_episode,
        record.last_outcome,
        record.quiet_until,
        record.quiet_launch_time,
        record.episodes,
    )
    assert [entry()] == list(opened.entries("2026-11"))


def test_only_the_first_close_counts(opened: EveryStore) -> None:
    """A second close changes neither the outcome nor the ledger."""
    opened.close_episode(ref(), Outcome.STOPPED, "done", NOW, quiet_until=None, ledger=entry())

    again = opened.close_episode(
        ref(), Outcome.FAILED, "late", NOW, quiet_until=NOW, ledger=entry(2)
    )

    assert again is False
    stored = opened.episode(ref())
    assert stored is not None
    assert Outcome.STOPPED is stored.outcome
    assert opened.record(TARGET, INSTANCE_ID).quiet_until is None
    assert [entry()] == list(opened.entries("2026-11"))


def test_a_close_leaves_the_lock_of_a_later_episode_alone(opened: EveryStore) -> None:
    """A late close of an episode that has ended does not free its successor's lock."""
    opened.close_episode(ref(1), Outcome.KEPT, "kept", NOW, quiet_until=None)
    opened.take_lock(ref(2))

    assert opened.close_episode(ref(1), Outcome.FAILED, "late", NOW, quiet_until=None) is False
    assert ref(2) == opened.record(TARGET, INSTANCE_ID).open_episode


def test_an_episode_that_was_locked_but_never_saved_can_be_closed(table: EveryStore) -> None:
    """Its workflow died between the two: the lock must not stay for ever."""
    table.take_lock(ref())

    assert table.close_episode(ref(), Outcome.FAILED, "died", NOW, quiet_until=None) is True
    assert table.close_episode(ref(), Outcome.FAILED, "died", NOW, quiet_until=None) is False
    assert table.record(TARGET, INSTANCE_ID).open_episode is None
    assert Outcome.FAILED is table.record(TARGET, INSTANCE_ID).last_outcome


def test_an_episode_nobody_opened_cannot_be_closed(table: EveryStore) -> None:
    """Closing what never was changes nothing."""
    assert (
        table.close_episode(ref(), Outcome.FAILED, "?", NOW, quiet_until=NOW, ledger=entry())
        is False
    )
    assert {} == table.records(TARGET)
    assert [] == list(table.entries("2026-11"))


def test_work_that_resumes_ends_the_quiet_time(opened: EveryStore) -> None:
    """The next idleness is told anew; nothing else of the record is lost."""
    opened.close_episode(ref(), Outcome.TOLD, "told", NOW, quiet_until=NOW)
    opened.clear_quiet(TARGET, INSTANCE_ID)

    record = opened.record(TARGET, INSTANCE_ID)
    assert (None, None, Outcome.TOLD, 1) == (
        record.quiet_until,
        record.quiet_launch_time,
        record.last_outcome,
        record.episodes,
    )


# approvals


def test_a_token_is_bound_to_a_pending_question(opened: EveryStore) -> None:
    """Each stage binds its own token and time; the last one stands."""
    opened.await_answer("approval-1", "token-1", "ask", NOW + timedelta(hours=9))
    approval = opened.await_answer("approval-1", "token-2", "remind", NOW + timedelta(hours=8))

    assert ("token-2", "remind", NOW + timedelta(hours=8)) == (
        approval.task_token,
        approval.stage,
        approval.expires_at,
    )
    assert approval == opened.approval("approval-1")


def test_a_token_that_comes_after_the_answer_is_told_the_answer(opened: EveryStore) -> None:
    """Nothing is bound any more; the caller sees the decision and can answer its task at once."""
    opened.await_answer("approval-1", "token-1", "ask", NOW)
    opened.settle("approval-1", decision(Answer.APPROVE))

    approval = opened.await_answer("approval-1", "token-2", "remind", NOW)

    assert (ApprovalStatus.APPROVED, "token-1") == (approval.status, approval.task_token)


@pytest.mark.parametrize(
    ("answer", "status", "hold"),
    [
        (Answer.APPROVE, ApprovalStatus.APPROVED, Hold()),
        (Answer.KEEP, ApprovalStatus.KEPT, Hold(NOW + timedelta(days=2), kept_by="approval-1")),
        (
            Answer.EXEMPT,
            ApprovalStatus.EXEMPTED,
            Hold(exempt_reason="it is the demo box (ada)", exempt_by="ada"),
        ),
    ],
)
def test_an_answer_is_kept_with_its_hold(
    opened: EveryStore, answer: Answer, status: ApprovalStatus, hold: Hold
) -> None:
    """A keep snoozes, an exemption exempts, an approval holds nothing; the lock stays with the
    workflow."""
    settled = opened.settle("approval-1", decision(answer))

    assert (status, decision(answer)) == (settled.status, settled.decision)
    assert settled == opened.approval("approval-1")
    record = opened.record(TARGET, INSTANCE_ID)
    assert (hold, ref()) == (record.hold, record.open_episode)


@pytest.mark.parametrize("answer", [Answer.KEEP, Answer.EXEMPT])
def test_an_answer_that_would_hold_nothing_is_refused(opened: EveryStore, answer: Answer) -> None:
    """A keep without a date and an exemption without a reason change nothing."""
    empty = replace(decision(answer), keep_until=None, reason="  ")

    with pytest.raises(DecisionRefused):
        opened.settle("approval-1", empty)

    approval = opened.approval("approval-1")
    assert approval is not None
    assert ApprovalStatus.PENDING is approval.status


def test_a_question_is_answered_once(opened: EveryStore) -> None:
    """The second answer loses, whatever it says, and leaves no trace."""
    opened.settle("approval-1", decision(Answer.APPROVE, "ada"))

    for answer in STATUS_AFTER:
        with pytest.raises(ConflictError):
            opened.settle("approval-1", decision(answer, "bob"))
    with pytest.raises(ConflictError):
        opened.void("approval-1", "woke up", expired=False)

    approval = opened.approval("approval-1")
    assert approval is not None
    assert decision(Answer.APPROVE, "ada") == approval.decision
    assert Hold() == opened.record(TARGET, INSTANCE_ID).hold


@pytest.mark.parametrize(
    ("expired", "status"), [(True, ApprovalStatus.EXPIRED), (False, ApprovalStatus.VOID)]
)
def test_a_void_question_takes_no_answer(
    opened: EveryStore, expired: bool, status: ApprovalStatus
) -> None:
    """Voided or expired once, with the reason; no answer counts after that."""
    voided = opened.void("approval-1", "work resumed", expired=expired, outcome="woke-up")

    assert (status, "work resumed", "woke-up") == (
        voided.status,
        voided.void_reason,
        voided.void_outcome,
    )
    assert voided == opened.approval("approval-1")
    with pytest.raises(ConflictError):
        opened.settle("approval-1", decision(Answer.EXEMPT))
    with pytest.raises(ConflictError):
        opened.void("approval-1", "again", expired=expired)
    assert Hold() == opened.record(TARGET, INSTANCE_ID).hold


def test_an_unknown_approval_is_not_found(table: EveryStore) -> None:
    """An id nobody issued reads as nothing and takes nothing."""
    assert table.approval("no-such") is None
    with pytest.raises(NotFound):
        table.await_answer("no-such", "token", "ask", NOW)
    with pytest.raises(NotFound):
        table.settle("no-such", decision(Answer.APPROVE))
    with pytest.raises(NotFound):
        table.void("no-such", "?", expired=False)
    assert table.approval("no-such") is None


# ledger and events


def test_open_entries_are_those_not_settled(opened: EveryStore) -> None:
    """An entry is open until it is settled, once, with the figures it was settled with."""
    opened.close_episode(ref(), Outcome.STOPPED, "done", NOW, quiet_until=None, ledger=entry())
    assert [entry()] == list(opened.open_entries(TARGET, INSTANCE_ID))
    assert [] == list(opened.open_entries(TARGET, "i-0123456789abcdef"))

    ended = NOW + timedelta(hours=3)
    later = ended + timedelta(hours=1)
    assert opened.settle_entry(entry(), ended, Ending.UNDONE, later) is True
    assert opened.settle_entry(entry(), later, Ending.STARTED, later) is False

    assert [] == list(opened.open_entries(TARGET, INSTANCE_ID))
    settled = replace(
        entry(), ended_at=ended, false_stop=True, ended=Ending.UNDONE, settled_at=later
    )
    assert [settled] == list(opened.entries("2026-11"))


def test_an_open_entry_goes_when_no_saving_can_count_any_longer(table: EveryStore) -> None:
    """A terminated instance never starts again: without an end its copy would be read by every
    sweep that sees a new instance, for ever. The entry itself stays."""
    kept, open_too = booking(entry())

    assert (None, entry().booked_at + timedelta(days=400)) == (kept.until, open_too.until)
    with pytest.raises(SettingError, match="366"):
        LedgerSettings(saving_counts_days=400)


def test_an_end_changes_no_entry(table: EveryStore) -> None:
    """It is one more item, which the release before reads as what others did, and does not
    count."""
    inner = table._table
    inner.transact(*booking(entry()))
    (before,) = inner.query("LEDGER#2026-11")
    assert table.settle_entry(entry(), NOW, Ending.STARTED, NOW)

    first, end = inner.query("LEDGER#2026-11")
    assert before == first
    read = list(inner.records(LedgerEntry, [end]))
    assert [(False, NOW)] == [(one.ours, one.ended_at) for one in read]


def test_an_instance_takes_the_place_of_one_other(table: EveryStore) -> None:
    """Also where the sweep that saw it first is repeated, and finds a second one that fits."""
    others = [
        replace(entry(), episode=replace(entry().episode, number=number)) for number in (1, 2)
    ]
    for one in others:
        table._table.transact(*booking(one))

    ends = [table.settle_entry(one, NOW, Ending.REPLACED, NOW, by="i-new") for one in others]
    assert [True, False] == ends
    ended = [one.ended for one in table.open_of(TARGET)]
    assert {None: 1, Ending.REPLACED: 1} == Counter(ended)  # it stays known as stopped


def test_an_entry_that_was_never_booked_cannot_be_settled(table: EveryStore) -> None:
    """Settling makes no entry."""
    assert table.settle_entry(entry(), NOW, Ending.STARTED, NOW) is False
    assert [] == list(table.entries("2026-11"))


def test_a_month_holds_its_entries_in_order(table: EveryStore) -> None:
    """Entries are found under the month they were booked in, oldest first; unpriced ones stay
    unpriced."""
    moments = [NOW + timedelta(minutes=5), NOW, NOW + timedelta(days=30)]
    for number, at in enumerate(moments):
        instance_id = f"i-0000000{number}"
        booked = replace(
            entry(1, at, instance_id), cost_before_usd_per_hour=None, saved_usd_per_hour=None
        )
        table.take_lock(ref(1, instance_id))
        table.close_episode(
            ref(1, instance_id), Outcome.STOPPED, "done", at, quiet_until=None, ledger=booked
        )

    november = table.entries("2026-11")

    assert ["i-00000001", "i-00000000"] == [found.episode.instance_id for found in november]
    assert [None, None] == [found.saved_usd_per_hour for found in november]
    assert ["i-00000002"] == [found.episode.instance_id for found in table.entries("2026-12")]
    assert [] == list(table.entries("2026-10"))


def test_a_step_of_a_closed_episode_is_refused(opened: EveryStore) -> None:
    """A late invocation is stopped right before it would call EC2."""
    opened.close_episode(ref(), Outcome.FAILED, "timed out", NOW, quiet_until=None)
    with pytest.raises(ConflictError):
        opened.note_step(ref(), "stop", NOW)
    with pytest.raises(ConflictError):
        opened.note_user_data(ref(), UserData())


# two people


def test_the_first_of_two_approvals_is_noted_once(opened: EveryStore) -> None:
    """Whoever comes second reads who was first; nothing is noted once it is decided."""
    first, second = (
        decision(Answer.APPROVE, person="a@example.com"),
        decision(Answer.APPROVE, person="b@example.com"),
    )

    assert first == opened.note_first_yes("approval-1", first).first_yes
    assert first == opened.note_first_yes("approval-1", second).first_yes
    settled = opened.settle("approval-1", second)
    assert (first, second) == (settled.first_yes, settled.decision)


def test_no_first_approval_is_noted_on_a_settled_question(opened: EveryStore) -> None:
    """It comes back as it stands."""
    opened.void("approval-1", "it woke up", expired=False)

    assert (
        opened.note_first_yes(
            "approval-1", decision(Answer.APPROVE, person="a@example.com")
        ).first_yes
        is None
    )
    with pytest.raises(NotFound):
        opened.note_first_yes("approval-2", decision(Answer.APPROVE))


def test_the_last_accepted_policy_is_kept(table: EveryStore) -> None:
    """To the letter; before the first one there is none."""
    assert table.kept_policy() is None
    for text in ("mode: ask\n", "mode: auto\n"):
        table.keep_policy(text, NOW)
    assert "mode: auto\n" == table.kept_policy()


def test_the_accounts_of_units_are_those_of_these_units(table: EveryStore) -> None:
    """Found for others they are not known; and the same again are not written again, for the
    audit's sake."""
    targets = Targets(units=("r-abcd",), without_units=("ou-abcd-11111111",))
    assert table.accounts_of(targets) is None

    table.note_accounts(targets, ("111122223333",), NOW)
    table.note_accounts(targets, ("111122223333",), NOW + timedelta(hours=1))

    assert ("111122223333",) == table.accounts_of(targets)
    assert table.accounts_of(replace(targets, without_units=())) is None
    (item,) = table._table.query("VERSION#in-force")
    assert NOW == parse_iso(item["at"])
    table.note_accounts(targets, (), NOW)
    assert () == table.accounts_of(targets)


def test_a_snooze_holds(table: EveryStore) -> None:
    """As a decision to keep does; other holds stay."""
    table.store_hold(TARGET, INSTANCE_ID, Hold(snoozed_until=NOW + timedelta(hours=24)))
    assert NOW + timedelta(hours=24) == table.record(TARGET, INSTANCE_ID).hold.snoozed_until


KEPT, LONGER = (
    Hold(snoozed_until=NOW + timedelta(days=2)),
    Hold(snoozed_until=NOW + timedelta(days=9)),
)
EXEMPT = Hold(exempt_reason="it is the demo box (ada)")


def held(table: EveryStore) -> Hold:
    """As the sweep reads it of all, and a guard of one."""
    record = table.record(TARGET, INSTANCE_ID)
    assert record.hold == table.records(TARGET)[INSTANCE_ID].hold
    return record.hold


@pytest.mark.parametrize(
    ("old", "new", "both"),
    [
        (KEPT, Hold(), KEPT),
        (KEPT, LONGER, LONGER),
        (LONGER, KEPT, LONGER),
        (EXEMPT, KEPT, replace(KEPT, exempt_reason=EXEMPT.exempt_reason)),
        (KEPT, EXEMPT, replace(KEPT, exempt_reason=EXEMPT.exempt_reason)),
        (EXEMPT, Hold(exempt_reason="later"), Hold(exempt_reason="later")),
    ],
)
def test_a_hold_of_the_release_before_counts_beside_the_present_one(
    table: EveryStore, old: Hold, new: Hold, both: Hold
) -> None:
    """That release keeps it in the record alone: the later date counts, and an exemption of
    either."""
    places = (keys.instance(TARGET, INSTANCE_ID), keys.holds(TARGET, INSTANCE_ID)[0])
    for key, hold in zip(places, (old, new), strict=True):
        table._table.write(
            put(key, {name: at for name, at in asdict(hold).items() if at is not None})
        )

    assert both == held(table)


@pytest.mark.parametrize("way", ["settle", "hold", "stand"])
@pytest.mark.parametrize("kept_in", list(product([None, "shorter", "longer"], repeat=2)))
def test_no_keep_shortens_a_longer_one(
    opened: EveryStore, way: str, kept_in: tuple[str | None, str | None]
) -> None:
    """Whichever of its two places has the longer one, and however the new one comes; the answer
    counts."""
    keep, until = decision(Answer.KEEP), NOW + timedelta(days=2)
    dates = {"shorter": until - timedelta(hours=1), "longer": until + timedelta(hours=1)}
    places = keys.holds(TARGET, INSTANCE_ID)
    for key, name in zip(places, kept_in, strict=True):
        if name is not None:
            opened._table.write(update(key, {"snoozed_until": dates[name]}))
    if way == "settle":
        assert keep == opened.settle("approval-1", keep).decision
    elif way == "hold":
        opened.hold(episode(), keep, KEPT, None)
    else:
        opened.store_hold(TARGET, INSTANCE_ID, KEPT)

    stored = [opened._table.read(Hold, key) for key in places]
    wanted = [dates["longer"] if name == "longer" else until for name in kept_in]
    assert wanted == [hold.snoozed_until for hold in stored if hold is not None]


@pytest.mark.parametrize("end", ["end_keep", "end_hold"])
def test_a_keep_that_ends_leaves_the_next_longest_in_both_places(
    opened: EveryStore, end: str
) -> None:
    """As the real table answers: the release before reads the copy."""
    shorter = replace(KEPT, kept_in="vision", kept_by="approval-2")
    shortest = Hold(NOW + timedelta(days=1), kept_by="approval-3")
    keep = replace(decision(Answer.KEEP), keep_until=LONGER.snoozed_until)
    for hold in (shortest, shorter):
        opened.store_hold(TARGET, INSTANCE_ID, hold)
    approval = opened.settle("approval-1", keep)
    assert LONGER.snoozed_until == held(opened).snoozed_until
    if end == "end_keep":
        opened.end_keep(approval, keep, "ada", NOW)
    else:
        opened.end_hold(TARGET, INSTANCE_ID, held(opened), "ada", NOW)

    place, copy = keys.holds(TARGET, INSTANCE_ID)
    stored = opened._table.get(copy) or {}
    assert shorter == held(opened)
    assert KEPT.snoozed_until == parse_iso(stored["snoozed_until"])
    opened.end_hold(TARGET, INSTANCE_ID, shorter, "ada", NOW + timedelta(hours=1))
    assert shortest == held(opened)
    opened.end_hold(TARGET, INSTANCE_ID, shortest, "ada", NOW + timedelta(hours=2))
    assert Hold() == held(opened)
    assert not [name for name in opened._table.get(place) or {} if name.startswith("keep_")]


def test_a_damaged_copy_keeps_nobody_from_keeping(opened: EveryStore) -> None:
    """More functions write the record than the hold itself."""
    opened._table.write(update(keys.instance(TARGET, INSTANCE_ID), {"snoozed_until": "zzz"}))
    opened.settle("approval-1", decision(Answer.KEEP))
    kept = replace(KEPT, kept_by="approval-1")
    assert kept == opened._table.read(Hold, keys.holds(TARGET, INSTANCE_ID)[0])


def test_of_two_holds_at_once_one_counts(opened: EveryStore) -> None:
    """Each takes the place of the one that it has seen, and of no other."""
    first, second = decision(Answer.HOLD, "ada"), decision(Answer.HOLD, "bob")
    later = replace(decision(Answer.KEEP, "eve"), at=NOW + timedelta(minutes=1))
    opened.hold(episode(), first, Hold(), None)
    for seen, answer, stands in ((None, second, Hold()), (later, later, KEPT)):
        with pytest.raises(ConflictError):
            opened.hold(episode(), answer, stands, seen)
    approval = opened.approval("approval-1")
    assert (first, Hold()) == (approval and approval.hold, opened.record(TARGET, INSTANCE_ID).hold)
    opened.hold(episode(), later, KEPT, first)
    assert KEPT == held(opened)


@pytest.mark.parametrize("answer", [Answer.KEEP, Answer.EXEMPT])
def test_whoever_writes_the_record_lifts_no_hold(opened: EveryStore, answer: Answer) -> None:
    """Fourteen functions write there; holds have a partition of their own (`test_rights.py`)."""
    opened.settle("approval-1", decision(answer))
    opened.store_hold(TARGET, "i-0000000a", Hold(snoozed_until=NOW))
    kept, record = held(opened), keys.instance(TARGET, INSTANCE_ID)

    attacks = (
        update(record, {}, remove=["snoozed_until", "exempt_reason"]),
        update(record, {"snoozed_until": NOW - timedelta(days=1)}),
        put(record, {"episodes": 1}),
        delete(record),
    )
    for one in attacks:
        opened._table.write(one)
        assert held(opened) == held(opened).stricter(kept)
    opened._table.write(delete(keys.instance(TARGET, "i-0000000a")))
    assert NOW == opened.records(TARGET)["i-0000000a"].hold.snoozed_until


def test_a_rollback_finds_what_people_said(opened: EveryStore) -> None:
    """The release before reads the record alone; so does a function that an update has not
    reached."""
    opened.store_hold(TARGET, INSTANCE_ID, Hold(snoozed_until=NOW + timedelta(hours=1)))
    opened.settle("approval-1", decision(Answer.EXEMPT))
    before = held(opened)
    opened._table.write(delete(keys.holds(TARGET, INSTANCE_ID)[0]))

    # It knows the author by the reason alone.
    assert replace(before, exempt_by=None) == held(opened)
    assert before.exempter == held(opened).exempter == "ada"


# deliveries, outbox, digests


def test_deliveries_come_back_as_they_were(table: EveryStore) -> None:
    """The latest of each message, channel and target; those of other subjects do not."""
    sent = Delivery("episode", "ask-1", "email", "a@example.com", NOW, delivery_id="7", thread="t")
    refused = replace(
        sent, channel="teams", delivery_id=None, thread=None, refused="410: make a new one"
    )
    for one in (replace(sent, delivery_id="6"), sent, refused, replace(sent, subject="other")):
        table.note_delivery(one)

    assert [sent, refused] == sorted(table.deliveries("episode"), key=lambda one: one.channel)


def test_a_delivery_is_one_claimants_until_it_lapses_or_is_settled(table: EveryStore) -> None:
    """Whoever claims it sends it; a claim left behind by somebody who died is taken over."""
    until = NOW + timedelta(seconds=300)
    claim = Delivery("episode", "ask-1", "email", "a@example.com", NOW, not_before=until)
    assert table.claim_delivery(claim, NOW)
    assert not table.claim_delivery(claim, until - timedelta(microseconds=1))
    assert table.claim_delivery(replace(claim, target="b@example.com"), NOW)
    assert [claim] == [one for one in table.deliveries("episode") if one.target == claim.target]

    later = replace(claim, at=until, not_before=until + timedelta(seconds=300))
    assert table.claim_delivery(later, until)
    assert not table.claim_delivery(later, until)
    table.note_delivery(replace(claim, not_before=None, delivery_id="7"))
    assert not table.claim_delivery(later, until + timedelta(days=1))


def test_what_was_given_up_can_be_claimed_again_once(table: EveryStore) -> None:
    """By whoever was told to try it again."""
    given_up = Delivery(
        "episode", "ask-1", "email", "a@example.com", NOW, refused="given up: 503", given_up=True
    )
    table.note_delivery(given_up)
    assert [given_up] == list(table.deliveries("episode"))
    claim = replace(
        given_up, at=NOW, refused=None, given_up=False, not_before=NOW + timedelta(seconds=300)
    )

    assert table.claim_delivery(claim, NOW)
    assert not table.claim_delivery(claim, NOW)


def test_what_was_left_can_be_claimed_from_its_time_on(table: EveryStore) -> None:
    """Not before the time that the channel has asked for."""
    left = Delivery(
        "episode", "ask-1", "email", "a@example.com", NOW, not_before=NOW + timedelta(seconds=70)
    )
    table.note_delivery(left)
    claim = replace(left, not_before=NOW + timedelta(seconds=400))

    assert not table.claim_delivery(claim, NOW + timedelta(seconds=69, microseconds=999_999))
    assert table.claim_delivery(claim, NOW + timedelta(seconds=70))


def test_the_outbox_keeps_each_message_once_until_it_is_dropped(table: EveryStore) -> None:
    """In order, by group."""
    for message in ("b", "a", "a"):
        table.put_outbox("group", message, f"document {message}", NOW)
    table.put_outbox("other", "c", "document c", NOW)
    assert [("a", "document a"), ("b", "document b")] == list(table.outbox("group"))

    table.drop_outbox("group", "a")
    table.drop_outbox("group", "a")
    assert [("b", "document b")] == list(table.outbox("group"))


def test_a_lease_is_one_holders_until_it_ends(table: EveryStore) -> None:
    """By itself, or by the holder."""
    assert table.take_lease("group", NOW, 60)
    assert not table.take_lease("group", NOW + timedelta(seconds=59), 60)
    assert table.take_lease("group", NOW + timedelta(seconds=61), 60)
    table.end_lease("group")
    assert table.take_lease("group", NOW + timedelta(seconds=62), 60)


def test_a_digest_knows_its_questions(table: EveryStore) -> None:
    """In the order of the message; an unknown one has none."""
    table.put_digest("digest-1", ["b", "a"], NOW)
    assert (("b", "a"), ()) == (tuple(table.digest("digest-1")), tuple(table.digest("digest-2")))


# costs


def meter(minutes: int = 0, target: Target = TARGET, **changes: Any) -> Meter:
    """Return a meter of November, counted up to so many minutes after now."""
    plain = Meter(
        target=target,
        month="2026-11",
        counted_until=NOW + timedelta(minutes=minutes),
        usd={"llm": Decimal("0.1") / 3, "größe": Decimal(10_000)},
        unpriced_hours={"llm": Decimal("1.5")},
        usd_per_hour={"llm": Decimal("21.9576")},
    )
    return replace(plain, **changes)


def test_a_meter_comes_back_to_the_last_digit(table: EveryStore) -> None:
    """Amounts pass through no float, whatever projects are called."""
    assert table.meter(TARGET, "2026-11") is None
    assert table.bring_forward(meter(), None)

    assert meter() == table.meter(TARGET, "2026-11")
    assert table.meter(TARGET, "2026-12") is None
    assert table.meter(replace(TARGET, region="eu-west-1"), "2026-11") is None


def test_a_meter_is_brought_forward_only_from_where_it_was_seen(table: EveryStore) -> None:
    """One of two sweeps that read the same meter counts."""
    table.bring_forward(meter(), None)

    assert table.bring_forward(meter(5), meter())
    assert not table.bring_forward(meter(6), meter())
    assert not table.bring_forward(meter(7), None)
    assert meter(5) == table.meter(TARGET, "2026-11")


def test_a_month_has_the_meters_of_all_targets(table: EveryStore) -> None:
    """And of no other month."""
    there = replace(TARGET, region="eu-west-1")
    for one in (meter(), meter(target=there), meter(month="2026-12")):
        table.bring_forward(one, None)

    assert [meter(target=there), meter()] == table.meters("2026-11")


def test_many_questions_are_read_at_once_with_their_episodes(opened: EveryStore) -> None:
    """Whatever does not exist is left out; more than a read takes are read in parts."""
    name = ref().execution_name
    many = {"approval-1": name} | {f"gone-{number}": f"{name}x{number}" for number in range(120)}

    assert [("approval-1", episode().ref)] == [
        (approval.approval_id, found.ref) for approval, found in opened.questions(many)
    ]
    assert [] == opened.questions({})
