"""One instance at one moment: from memory and evidence to a verdict, a question, and the next memory.

The sweep and the back-test both decide with these functions, in this order:

    verdict = before_reading(instance, hold, memory, policy, now)
    if verdict is None:
        verdict = after_reading(instance, hold, memory, evidence, policy, now, people_know=people_know)
    window = window_to_prove(instance, memory, verdict, policy)
    proof = None if window is None else judge_question(instance, hold, longer_evidence, policy, window, now)
    # A question may start where `proof` is not None and its kind is `idle`.
    memory = remembered(memory, verdict, proof, policy, now)

`evidence` covers `policy.window`, `longer_evidence` covers `window`. Opening an episode and every recheck
judge by `judge_question` alone, without memory. Pure: this module must not know how anything is read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from governor.domain.evidence import Evidence, Window, latest, unmeasured_until, window_before
from governor.domain.instance import Instance, Manager
from governor.domain.policy.policy import Mode, Policy
from governor.domain.sweep.verdict import (
    FIGURES,
    LATE,
    WORKING,
    Hold,
    Verdict,
    VerdictKind,
    idle_sentence,
    is_short_hole,
    judge,
    judge_age,
    judge_holes,
    judge_parts,
    judge_unread,
    limit_of,
    still_busy,
)
from governor.domain.units import UtcDatetime
from governor.domain.wording import span


@dataclass(frozen=True, slots=True)
class Memory:
    """The last sweep's knowledge of an instance, under the same policy and since the same start."""

    at: UtcDatetime
    verdict: VerdictKind
    last_busy: UtcDatetime | None = None
    advice: tuple[str, ...] = ()
    idle_since: UtcDatetime | None = None
    """From when on it is proved idle without a break."""
    late_since: UtcDatetime | None = None
    """The first of the sweeps without data that go on, where its readings were only late then."""


def before_reading(
    instance: Instance, hold: Hold, memory: Memory | None, policy: Policy, now: datetime
) -> Verdict | None:
    """The verdict that needs no metrics; `None` where they must be read."""
    verdict = judge_unread(instance, hold, policy, now)
    if verdict is not None or memory is None or memory.last_busy is None:
        return verdict
    # The first window without the last work starts where that ended; until then a read is saved.
    window = window_before(now, policy.window, policy.period, policy.lag)
    if memory.verdict not in WORKING or not window.start < memory.last_busy <= now:
        return None
    return still_busy(memory.verdict, memory.last_busy, memory.advice, policy)


def after_reading(
    instance: Instance,
    hold: Hold,
    memory: Memory | None,
    evidence: Evidence,
    policy: Policy,
    now: datetime,
    *,
    people_know: bool,
) -> Verdict:
    """The verdict by the idle window: by utilization alone where people know of the idleness."""
    verdict = judge(instance, hold, evidence, policy, now, in_full=not people_know)
    if verdict.kind is VerdictKind.NO_DATA:
        return replace(verdict, is_late=_is_late(memory, verdict, evidence, policy, now))
    if not verdict.is_idle:
        return verdict
    idle_for = evidence.window.end - _since(memory, evidence, policy)
    return replace(verdict, reason=idle_sentence(idle_for, policy, verdict.manager))


def _is_late(
    memory: Memory | None, verdict: Verdict, evidence: Evidence, policy: Policy, now: datetime
) -> bool:
    """Whether nobody is alerted yet. Readings that always come late, or with ever new holes, are silence."""
    started = _late_before(memory, now) or now
    if verdict.is_late:
        return now - started < LATE
    over = evidence.read_problem is None and is_short_hole(evidence, policy)
    return over and now - started < LATE + policy.window


def window_to_prove(
    instance: Instance, memory: Memory | None, verdict: Verdict, policy: Policy
) -> timedelta | None:
    """How far to look back before a question about an idle instance; `None` while none can start.

    An instance of which nothing is known from before its window is looked at in full.
    """
    evidence = verdict.evidence
    if verdict.kind is not VerdictKind.IDLE or evidence is None or policy.never_asks:
        return None
    since = _known_since(memory, evidence.window, policy) or instance.launch_time
    idle_for = evidence.window.end - since
    if idle_for >= policy.ask_window:
        return policy.ask_window
    sooner = sooner_window(policy)
    return sooner if sooner and idle_for >= sooner and is_released(evidence, policy) else None


def wanted_figures(policy: Policy) -> frozenset[str]:
    return frozenset(figure for figure in FIGURES if limit_of(policy, figure) is not None)


def figures_to_read(
    memory: Memory | None, policy: Policy, now: datetime, *, people_know: bool
) -> frozenset[str]:
    """The figures that a sweep reads where utilization alone would call an instance idle.

    None where people know of it, for whatever acts reads everything again. Memory also where a question could
    start sooner if it is released.
    """
    if people_know:
        return frozenset()
    sooner, since = sooner_window(policy), memory.idle_since if memory else None
    helps = sooner is not None and not policy.never_asks and (since is None or now - since >= sooner)
    return wanted_figures(policy) | ({"memory"} if helps else set())


def judge_question(
    instance: Instance, hold: Hold, evidence: Evidence, policy: Policy, window: timedelta, now: datetime
) -> Verdict:
    """Whether idleness is proved well enough to ask, and at a recheck to act: then the kind is `idle`.

    Utilization and vetoes are judged over all of `window`, which is `policy.ask_window`, or
    `policy.released_window` while memory is released.
    """
    if policy.never_asks:
        reason = f"readings cannot show that idleness lasts up to now: {policy.never_asks}"
        return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
    sooner = sooner_window(policy)
    if window < policy.ask_window and (
        sooner is None or window < sooner or not is_released(evidence, policy)
    ):
        needed = f"GPU memory is not released, and {span(policy.ask_window)} of idleness are needed"
        return Verdict(VerdictKind.NO_DATA, needed, evidence=evidence)
    whole = policy.over(window)
    verdict = judge(instance, hold, evidence, whole, now)
    if not verdict.is_idle:
        return verdict
    unproved = judge_age(evidence, whole, now) or judge_holes(evidence, whole)
    if unproved is not None:
        return unproved
    return replace(verdict, reason=asked_because(evidence.window.length, evidence, policy, verdict.manager))


def judge_again(
    instance: Instance, hold: Hold, evidence: Evidence, policy: Policy, now: datetime
) -> tuple[Verdict, timedelta | None]:
    """Judge what a question, and whatever follows from it, may rest on: the kind is `idle` where it may.

    `evidence` covers `policy.ask_window`. While memory is released, the shorter window comes with the verdict
    that `judge_question` judges in its place.
    """
    verdict = judge_question(instance, hold, evidence, policy, policy.ask_window, now)
    if (unknown := judge_parts(evidence, policy)) is not None:
        return unknown if verdict.is_idle else verdict, None
    released = not verdict.is_idle and is_released(evidence, policy)
    return verdict, sooner_window(policy) if released else None


def asked_because(idle_for: timedelta, evidence: Evidence, policy: Policy, manager: Manager | None) -> str:
    """The reason of a question about an instance that has been idle for so long."""
    return idle_sentence(idle_for, policy, manager, released=evidence.window.length < policy.ask_window)


def is_released(evidence: Evidence, policy: Policy) -> bool:
    """Whether the job has plainly gone: no GPU holds memory. Unknown memory counts as held."""
    held = evidence.memory_newest_percent
    return held is not None and held < policy.approval.released_memory_below_percent


def sooner_window(policy: Policy) -> timedelta | None:
    """The window of a proof while memory is released; `None` where it is no shorter, or may act unasked."""
    unasked = policy.mode is Mode.AUTO or policy.approval.on_expiry == "act"
    return policy.released_window if not unasked and policy.released_window < policy.ask_window else None


def remembered(
    memory: Memory | None, verdict: Verdict, proof: Verdict | None, policy: Policy, now: UtcDatetime
) -> Memory:
    is_silent = verdict.kind is VerdictKind.NO_DATA
    late_since = _late_before(memory, now) or (now if verdict.is_late else None)
    return Memory(
        at=now,
        verdict=verdict.kind,
        last_busy=verdict.last_busy,
        advice=verdict.advice,
        idle_since=_idle_since(memory, verdict, proof, policy),
        late_since=late_since if is_silent else None,
    )


def _late_before(memory: Memory | None, now: datetime) -> UtcDatetime | None:
    """Since when it has been late, by the sweeps before; after a pause of theirs nothing is known of it."""
    return memory.late_since if memory and now - memory.at < LATE else None


def _idle_since(
    memory: Memory | None, verdict: Verdict, proof: Verdict | None, policy: Policy
) -> UtcDatetime | None:
    if verdict.is_late and memory is not None:
        return memory.idle_since  # readings that may still come break nothing off
    evidence = verdict.evidence
    if not verdict.is_idle or evidence is None:
        return None
    since, found = _since(memory, evidence, policy), proof.evidence if proof else None
    if proof is None or found is None:
        return since
    # Nothing is known without a memory; then the next sweep looks at the longer window in full again.
    known = None if _known_since(memory, evidence.window, policy) is None else since
    if found.read_problem is not None or proof.is_late:
        return known  # what could not be read breaks nothing off, either
    if proof.is_idle:
        return min(since, found.window.start)
    # Tried again when the work, or the hole, that was found has left the longer window. What else is missing
    # is older than the idle window, so it is tried at every sweep, and not for long.
    worked = known if proof.not_before is None else proof.not_before - found.window.length
    return latest(worked, unmeasured_until(found.gpus, found.window))


def _since(memory: Memory | None, evidence: Evidence, policy: Policy) -> UtcDatetime:
    """From when on an idle instance is idle, by this sweep and the one before: not across a long hole."""
    since = _known_since(memory, evidence.window, policy) or evidence.window.start
    return max(since, unmeasured_until(evidence.gpus, evidence.window) or since)


def _known_since(memory: Memory | None, window: Window, policy: Policy) -> UtcDatetime | None:
    """From when on it is idle, by what the sweep before knew; `None` where that leaves a gap."""
    if memory is None or window.start > memory.at - policy.lag - policy.period:
        return None
    return window.start if memory.verdict in WORKING else memory.idle_since
