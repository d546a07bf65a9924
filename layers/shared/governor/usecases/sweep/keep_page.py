"""Keeps what a sweep saw as the page of its target in the console: nothing else depends on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from governor.domain.approvals.approval import ApprovalStatus
from governor.domain.episode.episode import Episode, Outcome
from governor.domain.episode.plan import left_alone
from governor.domain.fleet.rows import (
    HOURS,
    NOT_MEASURED,
    REASON_CHARACTERS,
    UNGOVERNED,
    FleetPage,
    FleetRow,
    hours_of,
)
from governor.domain.instance import Instance, managed_by
from governor.domain.money.cost import Rate
from governor.domain.policy.policy import Action, Policy
from governor.domain.sweep.breaker import HOUR, hour_of
from governor.domain.units import UtcDatetime, plural
from governor.stores import StateTable
from governor.usecases.sweep.sweep_case import Case, Sweep

_CREATORS = 10
"""Creators looked up in an hour, those of the most expensive instances first."""


def keep_page(
    state: StateTable,
    sweep: Sweep,
    rates: Mapping[str, Rate],
    list_ungoverned: Callable[[], Sequence[tuple[Instance, Rate]]],
    creator: Callable[[str], str | None],
) -> None:
    """Replace the page of the target; what this sweep has not read is carried over: hours of
    utilization, and what is not governed, which is listed once an hour, but not by the very first
    sweep."""
    target, now, mode = sweep.target, sweep.now, sweep.base.mode.value
    before = state.page(target) or FleetPage(target.account, target.region, now, mode)
    past = {row.instance_id: row for row in before.rows}
    passed = max(0, min((hour_of(now) - hour_of(before.swept_at)) // HOUR, HOURS))
    ungoverned = [one for one in before.rows if one.verdict == UNGOVERNED]

    def look() -> None:
        reason = f"Set the tag {sweep.base.selector} to have it governed."
        known = {one.instance_id: one.created_by for one in ungoverned}
        seen = (_seen(one, sweep.base, rate, UNGOVERNED, reason) for one, rate in list_ungoverned())
        by_price = sorted(seen, key=lambda one: -(one.usd_per_hour or 0))
        ungoverned[:] = [replace(one, created_by=known.get(one.instance_id)) for one in by_price]

    def look_up() -> None:
        # CloudTrail takes two questions a second, and may show a launch a quarter of an hour later.
        new = [one for one in ungoverned if one.created_by is None and now - one.launched_at > HOUR]
        for one in new[:_CREATORS]:
            ungoverned[ungoverned.index(one)] = replace(
                one, created_by=creator(one.instance_id) or ""
            )

    if passed and sweep.attempt("what is not governed", look):
        sweep.attempt("who created what is not governed", look_up)
    rows, over = list[FleetRow](), dict[str, Episode]()
    sweep.attempt("episodes that are over", lambda: over.update(_over(state, sweep.cases, past)))
    for case in sweep.cases:
        read = [case.gathered, case.proof]
        found = [one.evidence for one in read if one is not None and one.evidence is not None]
        seen = past.get(case.id)
        hours = hours_of(seen.hours if seen else NOT_MEASURED, passed, found, now)
        since = _idle_since(case, case.episode or over.get(case.id), seen, before.swept_at)
        rows.append(replace(_row(case, rates[case.id]), hours=hours, idle_since=since))
    failed = len(sweep.summary.problems)
    problem = (
        f"{plural(failed, 'step')} of the last sweep failed; the next sweep tries again."
        if failed
        else None
    )
    rows += [
        one for one in ungoverned if one.instance_id not in rates
    ]  # it may carry the tag by now
    state.keep_page(FleetPage(target.account, target.region, now, mode, problem, tuple(rows)))


def _over(
    state: StateTable, cases: Sequence[Case], past: Mapping[str, FleetRow]
) -> dict[str, Episode]:
    """Return the episodes that no sweep saw open, as all in mode observe, by instance: each is read
    once."""
    quiet = (case for case in cases if case.is_quiet and case.episode is None)
    fresh = (case for case in quiet if case.id not in past or past[case.id].quiet_until is None)
    refs = [case.record.last_episode(case.instance.launch_time) for case in fresh]
    found = state.open_questions(refs) if refs else {}
    return {ref.instance_id: episode for ref, (episode, _) in found.items()}


def _row(case: Case, rate: Rate) -> FleetRow:
    instance, verdict, episode, question = case.instance, case.verdict, case.episode, case.question
    hold, policy, until = case.record.hold, case.policy, case.record.hold.snoozed_until
    if question is not None and question.status is not ApprovalStatus.PENDING:
        question = None
    planned = episode.schedule if episode is not None else None
    is_sent = question is not None and question.stage is not None
    return replace(
        _seen(instance, policy, rate, verdict.kind.value, _reason(case)),
        kept_until=until if until is not None and until > case.now else None,
        exempt=hold.exempt_reason is not None or policy.exemption.like_it_on(instance) is not None,
        episode=None if episode is None else episode.ref.execution_name,
        approval_id=None if question is None else question.approval_id,
        asked_at=planned.ask_at if planned is not None and is_sent else None,
        expires_at=question.expires_at if question is not None and is_sent else None,
        verb=episode.final_step.value if episode is not None and episode.plan.steps else None,
        is_reported=_is_reported(case),
        quiet_until=case.record.quiet_until if case.is_quiet else None,
        advice=verdict.advice,
    )


def _idle_since(
    case: Case, episode: Episode | None, seen: FleetRow | None, swept_at: UtcDatetime
) -> UtcDatetime | None:
    """Return from when on it is idle, by its question, which looks at a whole day; later that is
    kept. Under another version of the policy a sweep knows of its own window alone."""
    since, before, evidence = case.idle_since, case.before.idle_since, case.verdict.evidence
    if since is None:
        return None
    asked = episode.idle if episode is not None and since <= episode.opened_at else None
    if evidence is not None and case.proof is None and since == evidence.window.start:
        before = swept_at - case.policy.lag - case.policy.period
    kept = seen.idle_since if seen is not None and before is not None and since <= before else None
    return min(since, asked.since if asked else since, kept or since)


def _is_reported(case: Case) -> bool:
    """By the plan of its open episode; else by what needs no read, and by what became of the last
    one."""
    if case.episode is not None:
        return not case.episode.plan.steps
    policy = case.policy
    was_told = case.is_quiet and case.record.last_outcome is Outcome.TOLD
    never = left_alone(case.instance, policy.managed.tag_keys) is not None
    return was_told or never or policy.plan.action is Action.NOTIFY_ONLY


def _reason(case: Case) -> str:
    """Without what was written in an exemption, which is for those who saw the instance then."""
    said = case.record.hold.exempt_reason
    return case.verdict.reason.removesuffix(f": {said}") if said else case.verdict.reason


def _seen(instance: Instance, policy: Policy, rate: Rate, verdict: str, reason: str) -> FleetRow:
    owner, project = rate.whose
    manager = managed_by(instance, policy.managed.tag_keys)
    return FleetRow(
        instance_id=instance.instance_id,
        name=instance.name,
        account=instance.target.account,
        region=instance.target.region,
        instance_type=instance.instance_type,
        owner=owner,
        project=project,
        verdict=verdict,
        reason=reason
        if len(reason) <= REASON_CHARACTERS
        else f"{reason[: REASON_CHARACTERS - 1]}…",
        usd_per_hour=rate.usd_per_hour,
        launched_at=instance.launch_time,
        managed_by=None if manager is None else manager.service,
    )
