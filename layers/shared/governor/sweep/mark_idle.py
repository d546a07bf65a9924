"""Marks idle instances with tags, and removes the marks of those that work again.

In mode `observe` the call is a dry run, and the state table remembers what it tried. This module
must not change anything but the two tags.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from governor.core.instance import LOW_UTILIZATION_TAG, MARKS, REVIEW_TAG
from governor.core.units import in_parts, iso, listed, parse_iso
from governor.episode.store.instances import Instances
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


def mark_idle(sweep: Sweep, tagger: InstanceTagger, instance_store: Instances) -> None:
    """Tag idle instances that lack the marks, and remove the marks of instances that work again,
    are left alone or were started again. Do nothing about others.

    Each change is noted in the state table. A mark or note that cannot be written becomes a problem
    of the sweep.
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
    for write, instance_ids in ids_by_write.items():
        _write_marks(sweep, tagger, instance_store, write, instance_ids)


def _write_marks(
    sweep: Sweep,
    tagger: InstanceTagger,
    instance_store: Instances,
    write: _TagWrite,
    instance_ids: Sequence[str],
) -> None:
    """Set or remove the tags on these instances, then note the change of each instance that was
    tagged in the state table. In a dry run no tag changes, and only the note is written.

    A tag or note that cannot be written becomes a problem of the sweep.
    """
    tags: dict[str, str | None] = dict.fromkeys(MARKS)
    noted_at = None
    ids_at_once = 1
    if write.sets_marks:
        tags = {LOW_UTILIZATION_TAG: iso(sweep.now), REVIEW_TAG: "true"}
        noted_at = sweep.now
        ids_at_once = TRANSACTION
    reason_by_id = tagger.set_tags(sweep.target, instance_ids, tags, dry_run=write.is_dry_run)
    for instance_id, why in reason_by_id.items():
        sweep.summary.problems.append(f"tags of {instance_id}: {why}")
    tagged = [instance_id for instance_id in instance_ids if instance_id not in reason_by_id]
    notes = []
    for part in in_parts(tagged, ids_at_once):
        note = partial(instance_store.set_marked, sweep.target, noted_at, *part)
        notes.append((f"note of the tags of {listed(part, 3)}", note))
    sweep.attempt_each(notes)


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
    earlier run. Return false if it is not marked.

    The note in its record says when it was marked. Without a note the tag does, except in mode
    `observe`, which sets no tag.
    """
    marked_at = case.record.marked_at
    if marked_at is None and case.policy.mode is not Mode.OBSERVE:
        with suppress(ValueError):  # anybody may have written any text into the tag
            marked_at = parse_iso(case.instance.tags.get(LOW_UTILIZATION_TAG, ""))
    return marked_at is not None and marked_at < case.instance.launch_time
