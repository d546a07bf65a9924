"""One sweep over one target: list, read, judge, and repair whatever differs from the wanted state.

Level-triggered: everything is computed anew, so a sweep that was missed or ran twice loses nothing.
Effects are tried one by one; what fails is repaired by the next sweep. This module must not act on
an instance beyond its tags.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from governor.domain.catalogue import shape_of
from governor.domain.episode.episode import InstanceRecord, Observation
from governor.domain.instance import LOW_UTILIZATION_TAG, MARKS, REVIEW_TAG, Instance, Target
from governor.domain.money.cost import Rate
from governor.domain.policy.policy import Mode, Policy
from governor.domain.sweep.judging import wanted_figures
from governor.domain.sweep.verdict import LEFT_ALONE, WORKING, YOUNG
from governor.domain.units import UtcDatetime, in_parts, iso, listed, parse_iso
from governor.errors import PolicyError
from governor.ports import Clock, InstanceReader, InstanceTagger, Policies, Spread
from governor.stores import StateTable
from governor.stores.table import TRANSACTION
from governor.usecases.evidence.gather_evidence import (
    EvidenceRequest,
    Gathered,
    GatherEvidence,
    Passes,
)
from governor.usecases.money.costs import CountCosts
from governor.usecases.sweep.follow_up import FollowUp
from governor.usecases.sweep.freeze_plans import FreezePlans
from governor.usecases.sweep.keep_page import keep_page
from governor.usecases.sweep.sweep_alerts import SweepAlerts
from governor.usecases.sweep.sweep_case import GPU_CHECK_EVERY, Case, Sweep, SweepSummary

_SPREAD_OVER = 1000
"""From so many instances with several GPUs on, their GPU checks are spread over the whole
interval."""
_SEARCH_EVERY = timedelta(hours=1)
"""For the metrics of an instance that publishes none."""


@dataclass(frozen=True, slots=True)
class SweepTarget:
    clock: Clock
    policies: Policies
    instances: InstanceReader
    gather: GatherEvidence
    state: StateTable
    tagger: InstanceTagger
    freeze: FreezePlans
    follow_up: FollowUp
    costs: CountCosts
    alerts: SweepAlerts
    spread: Spread

    def __call__(self, target: Target) -> SweepSummary:
        """Sweep the target. Raises: CloudError, with nothing changed, when it could not be read."""
        now, base = self.clock.now(), self.policies.base().policy
        before = self.state.observations(target)
        sweep = self._list(target, base, before, now)
        summary = sweep.summary
        _judge_cases(sweep, self.gather, self.state)
        just_froze = self.freeze(sweep)
        summary.verdicts.update(case.verdict.kind.value for case in sweep.cases)
        summary.problems += [
            f"{case.id}: {case.unknown}" for case in sweep.cases if case.unknown is not None
        ]
        _mark_idle(sweep, self.tagger, self.state)
        self.follow_up(sweep)
        self.alerts.idle(sweep)
        if not just_froze:
            self.alerts.silence(sweep)
        self.alerts.unusual_exemptions(sweep)
        sweep.attempt("recovered", self.alerts.recovered, sweep)
        sweep.attempt("incidents over", self.alerts.incidents_over, sweep)
        self.alerts.reminders(sweep)
        instances = [case.instance for case in sweep.cases]
        rates = self.costs.rates(
            [(case.instance, case.policy, case.verdict.kind) for case in sweep.cases]
        )
        sweep.attempt("costs", self.costs, target, instances, rates, before, now)
        self.alerts.managed_idle(sweep, rates)
        self.state.remember(
            target, {case.id: case.observation(rates[case.id]) for case in sweep.cases}, now
        )
        ungoverned, creator = (
            partial(self._ungoverned, sweep),
            partial(self.instances.creator, target),
        )
        sweep.attempt(
            "page of the console", keep_page, self.state, sweep, rates, ungoverned, creator
        )
        return summary

    def _ungoverned(self, sweep: Sweep) -> list[tuple[Instance, Rate]]:
        found = self.instances.list_ungoverned(sweep.target, sweep.base.selector)
        rates = self.costs.rates([(one, sweep.base, None) for one in found])
        return [(one, rates[one.instance_id]) for one in found]

    def _list(
        self, target: Target, base: Policy, before: Mapping[str, Observation], now: UtcDatetime
    ) -> Sweep:
        odd: dict[str, str] = {}
        instances = [*self.instances.list_selected(target, base.selector, odd)]
        records = self.state.records(target)
        started = {
            one: it.open_episode.launch_time for one, it in records.items() if it.open_episode
        }
        started |= {one: seen.launch_time for one, seen in before.items()}
        nameless = [odd.pop("")] if "" in odd else []
        for why in nameless:
            # Any that is missing may be the one without an id.
            missing = started.keys() - {one.instance_id for one in instances}
            odd = dict.fromkeys(missing, why) | odd
        instances += (
            Instance(target, one, "unknown", "running", started.get(one, now)) for one in odd
        )
        cases = []
        for instance in instances:
            seen = before.get(instance.instance_id)
            if seen is None or seen.launch_time != instance.launch_time:
                # Who started anew while no sweep looked counts as one that was seen young.
                last_known = None if seen is None else YOUNG[0].value
                seen = Observation(instance.launch_time, verdict="", at=now, last_known=last_known)
            record = records.get(instance.instance_id) or InstanceRecord(
                target, instance.instance_id
            )
            # One that cannot be judged never sinks the others: it has no data.
            try:
                applied, unknown = self.policies.applied_to(instance), record.problem
            except PolicyError as error:
                applied, unknown = self.policies.base(), str(error)
            unknown = odd.get(instance.instance_id, unknown)
            cases.append(Case(instance, applied, record, seen, now, unknown))
        summary = SweepSummary(target, now, instances=len(cases), problems=nameless)
        # Later ones are of a sweep that did not end.
        swept_before = min((one.at for one in before.values()), default=None)
        return Sweep(target, base, now, cases, records, summary, swept_before, self.spread)


def _judge_cases(sweep: Sweep, gather: GatherEvidence, state: StateTable) -> None:
    """Give each case its verdict, and its proof where a question may start, in two batches of
    reads. What goes on working is saved after each part of a large one: a sweep that dies is gone
    on with."""
    _spread_gpu_checks(sweep)
    to_read = []
    for case in sweep.cases:
        if (verdict := case.unread_verdict) is None:
            to_read.append(case)
        else:
            case.verdict = verdict
    # First those that the sweep before did not come to.
    to_read.sort(key=lambda case: case.before.at)
    windows, asked, passes = dict[str, timedelta](), list[EvidenceRequest](), Passes()
    by_id = {case.id: case for case in to_read}
    for part in gather.in_parts(
        sweep.target, [_request(case) for case in to_read], sweep.now, passes
    ):
        working = {}
        for case in (by_id[one] for one in part):
            case.gathered, subject = part[case.id], case.subject
            case.verdict = subject.after_reading(case.gathered.evidence)
            if (window := subject.window_to_prove(case.verdict)) is not None:
                windows[case.id] = window
                asked.append(_longer(case, part[case.id], window))
            if case.goes_on_working:
                working[case.id] = case.observation()
        if working and len(part) < len(to_read):
            sweep.attempt(
                "a part of the sweep", state.remember_part, sweep.target, working, sweep.now
            )
    for one, longer in gather(sweep.target, asked, sweep.now, passes).items():
        by_id[one].proof = by_id[one].subject.judge_question(longer.evidence, windows[one])


def _spread_gpu_checks(sweep: Sweep) -> None:
    """Say when instances new to the sweep are first read GPU by GPU: a small fleet soon, a large
    one spread over the whole interval by a hash of the id, so that no sweep reads them all."""
    shapes = {case.id: shape_of(case.instance.instance_type) for case in sweep.cases}
    several = [
        case
        for case in sweep.cases
        if (one := shapes[case.id]) and (one.accelerator_count or 0) > 1
    ]
    share = min(1.0, len(several) / _SPREAD_OVER)
    for case in several:
        if not case.before.verdict:
            by_hash = zlib.crc32(case.id.encode()) / 2**32
            case.next_gpu_check_at = sweep.now + GPU_CHECK_EVERY * share * by_hash


def _request(case: Case) -> EvidenceRequest:
    before = case.before
    return EvidenceRequest(
        instance=case.instance,
        policy=case.policy,
        dimensions=before.dimensions,
        source=before.source,
        search=before.searched_at is None or case.now - before.searched_at >= _SEARCH_EVERY,
        per_gpu=case.checks_gpus,
        figures=case.subject.figures_to_read(),
    )


def _longer(case: Case, seen: Gathered, window: timedelta) -> EvidenceRequest:
    """The same series over the window of a question, with everything that may speak against it."""
    return EvidenceRequest(
        instance=case.instance,
        policy=case.policy,
        dimensions=seen.dimensions,
        source=seen.evidence.source,
        search=False,
        figures=wanted_figures(case.policy) | {"memory"},
        length=window,
    )


def _mark_idle(sweep: Sweep, tagger: InstanceTagger, state: StateTable) -> None:
    """Set and remove marks that differ from the verdicts; the table remembers what a dry run
    tried."""
    to_write: dict[tuple[bool, bool], list[str]] = defaultdict(list)
    for case in sweep.cases:
        dry_run = case.policy.mode is Mode.OBSERVE
        present = [tag in case.instance.tags for tag in MARKS]
        noted = case.record.marked_at is not None
        outdated = _has_outdated_marks(case)
        if case.is_idle and (outdated or not (noted if dry_run else all(present))):
            to_write[True, dry_run].append(case.id)
        elif outdated or (case.verdict.kind in (*WORKING, *LEFT_ALONE) and (noted or any(present))):
            to_write[False, dry_run].append(case.id)
    target, tags = sweep.target, {LOW_UTILIZATION_TAG: iso(sweep.now), REVIEW_TAG: "true"}
    for (marks, dry_run), ids in to_write.items():
        wanted = tags if marks else dict.fromkeys(MARKS)
        failed = tagger.set_tags(target, ids, wanted, dry_run=dry_run)
        sweep.summary.problems += [f"tags of {one}: {why}" for one, why in failed.items()]
        at, tagged = sweep.now if marks else None, [one for one in ids if one not in failed]
        sweep.attempt_each(
            (f"note of the tags of {listed(part, 3)}", partial(state.set_marked, target, at, *part))
            for part in in_parts(tagged, TRANSACTION if marks else 1)
        )


def _has_outdated_marks(case: Case) -> bool:
    """Return whether it was marked before its last start, by the note or, unless in `observe`, by
    the tag."""
    at = case.record.marked_at
    if at is None and case.policy.mode is not Mode.OBSERVE:
        with suppress(ValueError):  # anybody may have written the tag
            at = parse_iso(case.instance.tags.get(LOW_UTILIZATION_TAG, ""))
    return at is not None and at < case.instance.launch_time
