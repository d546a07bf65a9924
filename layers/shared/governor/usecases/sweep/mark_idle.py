"""Tags idle instances, and takes the tags away when they work again or people have decided."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from governor.domain.policy.policy import Mode
from governor.domain.sweep.verdict import LEFT_ALONE, WORKING
from governor.domain.tags import LOW_UTILIZATION_TAG, MARKS, REVIEW_TAG
from governor.domain.units import UtcDatetime, iso, parse_iso
from governor.ports import InstanceTagger
from governor.stores import Instances
from governor.usecases.sweep.sweep_case import Case, Sweep


def mark_idle(sweep: Sweep, tagger: InstanceTagger, state: Instances) -> None:
    """Set and remove the marks that differ from the verdicts.

    A dry run leaves no tag behind; the state table remembers that it was tried.
    """
    to_mark: dict[bool, list[str]] = defaultdict(list)
    to_unmark: dict[bool, list[str]] = defaultdict(list)
    for case in sweep.cases:
        dry_run = case.policy.mode is Mode.OBSERVE
        present = [tag in case.instance.tags for tag in MARKS]
        noted = case.record.marked_at is not None
        outdated = _has_outdated_marks(case)
        if case.is_idle and (outdated or not (noted if dry_run else all(present))):
            to_mark[dry_run].append(case.id)
        elif outdated or (case.verdict.kind in (*WORKING, *LEFT_ALONE) and (noted or any(present))):
            to_unmark[dry_run].append(case.id)

    def note(ids: Sequence[str], failures: Mapping[str, str], at: UtcDatetime | None) -> int:
        sweep.summary.problems += [f"tags of {one}: {why}" for one, why in failures.items()]
        done = [one for one in ids if one not in failures]
        for one in done:
            sweep.attempt(f"note of the tags of {one}", state.set_marked, sweep.target, one, at)
        return len(done)

    tags = {LOW_UTILIZATION_TAG: iso(sweep.now), REVIEW_TAG: "true"}
    for dry_run, ids in to_mark.items():
        failures = tagger.set_tags(sweep.target, ids, tags, dry_run=dry_run)
        sweep.summary.marked += note(ids, failures, sweep.now)
    for dry_run, ids in to_unmark.items():
        failures = tagger.remove_tags(sweep.target, ids, MARKS, dry_run=dry_run)
        sweep.summary.unmarked += note(ids, failures, None)


def _has_outdated_marks(case: Case) -> bool:
    """Whether it was marked before it was last started: another run, about which they say nothing.

    The tag says when, where the note of it was lost; in mode `observe` tags of ours are none of a dry run's.
    """
    at = case.record.marked_at
    if at is None and case.policy.mode is not Mode.OBSERVE:
        at = _moment(case.instance.tags.get(LOW_UTILIZATION_TAG, ""))
    return at is not None and at < case.instance.launch_time


def _moment(text: str) -> UtcDatetime | None:
    """The time in a tag, which anybody may have written."""
    try:
        return parse_iso(text)
    except ValueError:
        return None
