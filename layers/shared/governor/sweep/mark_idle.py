"""Marks idle instances with tags, and removes the marks of those that are busy again.

In mode `observe` the call is a dry run, and the state table remembers what it tried. This module
must not change anything but the two tags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from governor.core.errors import CloudError
from governor.core.instance import LOW_UTILIZATION_TAG, MARKS, REVIEW_TAG
from governor.core.units import in_parts, iso, listed, parse_iso
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.rules.standing import cannot_tag, has_too_many_tags, refuses_all_tags
from governor.episode.store.instances import Failures, Instances
from governor.evidence.ports import InstanceTagger
from governor.policy.model.policy import Mode
from governor.sweep.sweep_case import Case, Sweep
from governor.table.table import TRANSACTION
from governor.verdict.model import LEFT_ALONE, WORKING


class _TagWrite(NamedTuple):
    """A call that tags many instances alike."""

    sets_marks: bool
    """False if the call removes the marks."""
    is_dry_run: bool


def mark_idle(
    sweep: Sweep, tagger: InstanceTagger, instance_store: Instances, failure_store: Failures
) -> None:
    """Tag idle instances that lack the marks, and remove the marks of instances that work again,
    are left alone or were started again. Do nothing about others.

    Each change is noted in the state table. A mark or note that cannot be written becomes a problem
    of the sweep; a mark that only people can make possible becomes a standing state, and is tried
    again once an hour. Raises: SafetyError if EC2 carried out a dry run.
    """
    ids_by_write: dict[_TagWrite, list[str]] = defaultdict(list)
    for case in sweep.cases:
        is_dry_run = case.policy.mode is Mode.OBSERVE
        is_outdated = _has_outdated_marks(case)
        lacks_current_marks = is_outdated or _lacks_marks(case)
        if case.is_idle and lacks_current_marks:
            ids_by_write[_TagWrite(sets_marks=True, is_dry_run=is_dry_run)].append(case.id)
        elif is_outdated or _has_needless_marks(case):
            ids_by_write[_TagWrite(sets_marks=False, is_dry_run=is_dry_run)].append(case.id)
    if not ids_by_write:
        return
    states = _states_of_tags(sweep, failure_store)
    for write, instance_ids in ids_by_write.items():
        known = _known_refusals(states, instance_ids)
        tried_ids = _ids_to_try(sweep, known, instance_ids)
        refused: dict[str, CloudError] = {}
        if tried_ids:
            refused.update(_write_marks(sweep, tagger, instance_store, write, tried_ids))
        if len(refused) < len(tried_ids):
            # A tag was set, so tagging is no longer denied in the whole target.
            denied_ids = _denied_ids_left(known, tried_ids)
            if denied_ids:
                refused.update(_write_marks(sweep, tagger, instance_store, write, denied_ids))
                tried_ids += denied_ids
        _note_known(sweep, failure_store, known, tried_ids, refused)
        is_one_tagged = len(refused) < len(tried_ids)
        _note_refused(sweep, failure_store, known, refused, is_one_tagged=is_one_tagged)


def _states_of_tags(sweep: Sweep, failure_store: Failures) -> list[StandingState]:
    """Return the states of the target, or of its instances, in which tags cannot be set; empty if
    there are none. If they cannot be read, that becomes a problem of the sweep and the result is
    empty: everything is tried."""
    read = partial(failure_store.standing_states, sweep.target)
    states = sweep.attempt_read("states of the target", read) or []
    return [state for state in states if state.kind is StateKind.CANNOT_TAG]


def _known_refusals(
    states: Sequence[StandingState], instance_ids: Sequence[str]
) -> dict[str, StandingState]:
    """Return the instances that are in one of these `states`, each with its state; empty if none
    is."""
    state_by_id = {state.instance_id: state for state in states}
    # The key "" holds a refusal that is about every instance of the target.
    denied = state_by_id.get("")
    known = {}
    for instance_id in instance_ids:
        state = state_by_id.get(instance_id, denied)
        if state is not None:
            known[instance_id] = state
    return known


def _ids_to_try(
    sweep: Sweep, known: Mapping[str, StandingState], instance_ids: Sequence[str]
) -> list[str]:
    """Return the instances without a known refusal, and those of `known` whose hourly check is due;
    empty if there are none."""
    tried_ids = []
    for instance_id in instance_ids:
        if instance_id not in known or sweep.is_hourly_check_due(instance_id):
            tried_ids.append(instance_id)
    return tried_ids


def _denied_ids_left(known: Mapping[str, StandingState], tried_ids: Collection[str]) -> list[str]:
    """Return the instances of `known` that were not tried only because tagging is denied in their
    target; empty if there are none."""
    denied_ids = []
    for instance_id, state in known.items():
        if not state.instance_id and instance_id not in tried_ids:
            denied_ids.append(instance_id)
    return denied_ids


def _note_known(
    sweep: Sweep,
    failure_store: Failures,
    known: Mapping[str, StandingState],
    tried_ids: Collection[str],
    refused: Mapping[str, CloudError],
) -> None:
    """Store that the state of an instance stands if the instance was not tried, or the answer does
    not say whether it is over, as when EC2 is busy."""
    standing: dict[str, StandingState] = {}
    for instance_id, state in known.items():
        error = refused.get(instance_id)
        is_unclear = error is not None and not cannot_tag(error)
        if is_unclear or instance_id not in tried_ids:
            standing[state.instance_id] = replace(state, seen_at=sweep.now)
    _note_states(sweep, failure_store, standing)


def _note_refused(
    sweep: Sweep,
    failure_store: Failures,
    known: Mapping[str, StandingState],
    refused: Mapping[str, CloudError],
    *,
    is_one_tagged: bool,
) -> None:
    """Store the states of instances whose tags were refused for a reason that only people can
    change; any other error becomes a problem of the sweep. `refused` is by instance id.

    A refusal that is not about one instance alone is a state of the target, so that people are
    notified once and not for each instance. It is none if another instance was tagged. What is
    `known` stays a state of the same place: instances are tried again one by one.
    """
    standing: dict[str, StandingState] = {}
    for instance_id, error in refused.items():
        if not cannot_tag(error):
            sweep.summary.problems.append(f"tags of {instance_id}: {error}")
            continue
        state = known.get(instance_id)
        if has_too_many_tags(error):
            place_id = instance_id
        elif state is not None:
            place_id = state.instance_id
        else:
            is_of_target = not is_one_tagged and _is_of_target(error, refused)
            place_id = "" if is_of_target else instance_id
        standing[place_id] = _state(sweep, error, place_id)
    _note_states(sweep, failure_store, standing)


def _is_of_target(error: CloudError, refused: Mapping[str, CloudError]) -> bool:
    """Return whether a refusal is about all instances of the target: by its code, or because it is
    the answer for each of at least two. `refused` holds the answers of all that were tried."""
    if refuses_all_tags(error):
        return True
    codes = {other.code for other in refused.values()}
    return len(refused) > 1 and codes == {error.code}


def _state(sweep: Sweep, error: CloudError, instance_id: str) -> StandingState:
    """Return the state, met by this sweep, in which tags cannot be set: of an instance, or of the
    target if `instance_id` is empty."""
    return StandingState(
        sweep.target, StateKind.CANNOT_TAG, str(error), sweep.now, sweep.now, instance_id
    )


def _note_states(
    sweep: Sweep, failure_store: Failures, states: Mapping[str, StandingState]
) -> None:
    """Store that this sweep has met these states. One that cannot be stored becomes a problem of
    the sweep."""
    notes = []
    for state in states.values():
        notes.append((f"state: {state.place}", partial(failure_store.note_standing, state)))
    sweep.attempt_each(notes)


def _write_marks(
    sweep: Sweep,
    tagger: InstanceTagger,
    instance_store: Instances,
    write: _TagWrite,
    instance_ids: Sequence[str],
) -> Mapping[str, CloudError]:
    """Set or remove the tags on these instances, then note the change of each instance that was
    tagged in the state table. In a dry run no tag changes, and only the note is written.

    Return the error of each instance that could not be tagged, by its id; empty if all were. A note
    that cannot be written becomes a problem of the sweep. Raises: SafetyError if EC2 carried out a
    dry run.
    """
    tags: dict[str, str | None] = dict.fromkeys(MARKS)
    noted_at = None
    ids_at_once = 1
    if write.sets_marks:
        tags = {LOW_UTILIZATION_TAG: iso(sweep.now), REVIEW_TAG: "true"}
        noted_at = sweep.now
        ids_at_once = TRANSACTION
    error_by_id = tagger.set_tags(sweep.target, instance_ids, tags, dry_run=write.is_dry_run)
    tagged = [instance_id for instance_id in instance_ids if instance_id not in error_by_id]
    notes = []
    for part in in_parts(tagged, ids_at_once):
        note = partial(instance_store.set_marked, sweep.target, noted_at, *part)
        notes.append((f"note of the tags of {listed(part, 3)}", note))
    sweep.attempt_each(notes)
    return error_by_id


def _lacks_marks(case: Case) -> bool:
    """Return whether one of the two tags is missing on the instance. In mode `observe`, which sets
    no tag, return whether no mark is noted in its record."""
    if case.policy.mode is Mode.OBSERVE:
        return case.record.marked_at is None
    return not all(tag in case.instance.tags for tag in MARKS)


def _has_needless_marks(case: Case) -> bool:
    """Return whether the instance is marked, by a tag or a note in its record, although it works or
    is left alone."""
    if case.verdict.kind not in WORKING and case.verdict.kind not in LEFT_ALONE:
        return False
    if case.record.marked_at is not None:
        return True
    return any(tag in case.instance.tags for tag in MARKS)


def _has_outdated_marks(case: Case) -> bool:
    """Return whether the instance was marked before its last start, so that the marks are about an
    earlier run. Return false if it is not marked, or the time in its tag cannot be read.

    The note in its record says when it was marked. Without a note the tag does, except in mode
    `observe`, which sets no tag.
    """
    marked_at = case.record.marked_at
    if marked_at is None and case.policy.mode is not Mode.OBSERVE:
        with suppress(ValueError):  # anybody may have written any text into the tag
            marked_at = parse_iso(case.instance.tags.get(LOW_UTILIZATION_TAG, ""))
    return marked_at is not None and marked_at < case.instance.launch_time
