"""One instance at one moment: from memory and evidence to a verdict, a question, and the next
memory.

The sweep and the back-test both decide with a `Subject`, in this order:

    verdict = subject.before_reading()
    if verdict is None:
        verdict = subject.after_reading(evidence)
    window = subject.window_to_prove(verdict)
    proof = None if window is None else subject.judge_question(longer_evidence, window)
    # A question may start where `proof` is not None and its kind is `idle`.
    memory = subject.remembered(verdict, proof)

`evidence` covers `policy.window`, `longer_evidence` covers `window`. Opening an episode and every
recheck use `judge_again`, without memory.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.evidence import Evidence, Window, latest, unmeasured_until, window_before
from governor.domain.instance import Instance, Manager
from governor.domain.policy.policy import Mode, Policy
from governor.domain.sweep.verdict import (
    FIGURES,
    LATE,
    NO_HOLD,
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
)
from governor.domain.units import UtcDatetime, in_utc, span


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
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """All that an instance is judged by at one moment, besides its metrics."""

    instance: Instance
    policy: Policy
    now: UtcDatetime
    hold: Hold = NO_HOLD
    memory: Memory | None = None
    people_know: bool = False
    """True if people know of its idleness: then only whether work resumed is worth a read."""

    def before_reading(self) -> Verdict | None:
        """The verdict that needs no metrics; `None` where they must be read."""
        memory, policy, now = self.memory, self.policy, self.now
        verdict = judge_unread(self.instance, self.hold, policy, now)
        if verdict is not None or memory is None:
            return verdict
        if self._is_watched(memory):
            return Verdict(memory.verdict, memory.reason, advice=memory.advice)
        if memory.last_busy is None:
            return None
        # The first window without the last work starts where that ended; until then a read is
        # saved.
        window = window_before(now, policy.window, policy.period, policy.lag)
        if memory.verdict not in WORKING or not window.start < memory.last_busy <= now:
            return None
        worked, until = memory.last_busy, memory.last_busy + policy.window
        reason = f"worked until {in_utc(worked)}, so it cannot be idle before {in_utc(until)}"
        return Verdict(
            memory.verdict, reason, not_before=until, last_busy=worked, advice=memory.advice
        )

    def _is_watched(self, memory: Memory) -> bool:
        """Return whether it was read as idle a short while ago, which people know: by a beat of its
        own."""
        is_known = (
            self.people_know
            and memory.verdict is VerdictKind.IDLE
            and memory.idle_since is not None
        )
        every = self.policy.watch_every
        return is_known and not is_due(self.instance.instance_id, every, memory.at, self.now)

    def figures_to_read(self) -> frozenset[str]:
        """Return the figures that a sweep reads where utilization alone would call an instance
        idle: none where people know of it. Memory also where a question could start sooner if it is
        released."""
        if self.people_know:
            return frozenset()
        sooner, since = sooner_window(self.policy), self.memory.idle_since if self.memory else None
        long_enough = sooner is not None and (since is None or self.now - since >= sooner)
        helps = long_enough and not self.policy.never_asks
        return wanted_figures(self.policy) | ({"memory"} if helps else set())

    def after_reading(self, evidence: Evidence) -> Verdict:
        """The verdict by the idle window: by utilization alone where people know of the
        idleness."""
        policy, in_full = self.policy, not self.people_know
        verdict = judge(self.instance, self.hold, evidence, policy, self.now, in_full=in_full)
        if verdict.kind is VerdictKind.NO_DATA:
            return replace(verdict, is_late=self._is_late(verdict, evidence))
        if not verdict.is_idle:
            return verdict
        idle_for = evidence.window.end - self._since(evidence)
        return replace(verdict, reason=idle_sentence(idle_for, policy, verdict.manager))

    def _is_late(self, verdict: Verdict, evidence: Evidence) -> bool:
        """Return whether nobody is alerted yet. What stays late, or has ever new holes, is
        silence."""
        late_for = self.now - (self._late_before() or self.now)
        if verdict.is_late:
            return late_for < LATE
        over = evidence.read_problem is None and is_short_hole(evidence, self.policy)
        return over and late_for < LATE + self.policy.window

    def window_to_prove(self, verdict: Verdict) -> timedelta | None:
        """Return how far to look back before a question; `None` while none can start. An instance
        of which nothing is known from before its window is looked at in full."""
        evidence, policy = verdict.evidence, self.policy
        is_open = (
            verdict.kind is VerdictKind.IDLE and not self.people_know and not policy.never_asks
        )
        if evidence is None or not is_open:
            return None
        idle_for = evidence.window.end - (
            self._known_since(evidence.window) or self.instance.launch_time
        )
        if idle_for >= policy.ask_window:
            return policy.ask_window
        sooner = sooner_window(policy)
        return sooner if sooner and idle_for >= sooner and is_released(evidence, policy) else None

    def judge_question(self, evidence: Evidence, window: timedelta) -> Verdict:
        """Judge utilization and vetoes over all of `window`: `policy.ask_window`, or
        `policy.released_window` while memory is released. The kind is `idle` where people may be
        asked or, at a recheck, anything be done."""
        policy = self.policy
        if policy.never_asks:
            reason = f"readings cannot show that idleness lasts up to now: {policy.never_asks}"
            return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
        sooner = sooner_window(policy)
        is_shorter_one = sooner is not None and window >= sooner and is_released(evidence, policy)
        if window < policy.ask_window and not is_shorter_one:
            needed = (
                f"GPU memory is not released, and {span(policy.ask_window)} of idleness are needed"
            )
            return Verdict(VerdictKind.NO_DATA, needed, evidence=evidence)
        whole = policy.over(window)
        verdict = judge(self.instance, self.hold, evidence, whole, self.now)
        if not verdict.is_idle:
            return verdict
        unproved = judge_age(evidence, whole, self.now) or judge_holes(evidence, whole)
        if unproved is not None:
            return unproved
        reason = asked_because(evidence.window.length, evidence, policy, verdict.manager)
        return replace(verdict, reason=reason)

    def judge_again(self, evidence: Evidence) -> tuple[Verdict, timedelta | None]:
        """Judge `evidence` over `policy.ask_window` for a question and what follows: `idle` where
        it may. While memory is released, the shorter window for `judge_question` comes with it."""
        policy = self.policy
        verdict = self.judge_question(evidence, policy.ask_window)
        if (unknown := judge_parts(evidence, policy)) is not None:
            return unknown if verdict.is_idle else verdict, None
        released = not verdict.is_idle and is_released(evidence, policy)
        return verdict, sooner_window(policy) if released else None

    def remembered(self, verdict: Verdict, proof: Verdict | None) -> Memory:
        is_silent = verdict.kind is VerdictKind.NO_DATA
        late_since = self._late_before() or (self.now if verdict.is_late else None)
        return Memory(
            at=self.now,
            verdict=verdict.kind,
            last_busy=verdict.last_busy,
            advice=verdict.advice,
            idle_since=self._idle_since(verdict, proof),
            late_since=late_since if is_silent else None,
            reason=verdict.reason,
        )

    def _late_before(self) -> UtcDatetime | None:
        """Since when it has been late, by the sweeps before; after a pause of theirs nothing is
        known."""
        memory = self.memory
        return memory.late_since if memory and self.now - memory.at < LATE else None

    def _idle_since(self, verdict: Verdict, proof: Verdict | None) -> UtcDatetime | None:
        if verdict.is_late and self.memory is not None:
            return self.memory.idle_since  # readings that may still come break nothing off
        evidence = verdict.evidence
        if evidence is None and verdict.kind is VerdictKind.IDLE and self.memory is not None:
            return self.memory.idle_since  # not read in this sweep
        if not verdict.is_idle or evidence is None:
            return None
        since, found = self._since(evidence), proof.evidence if proof else None
        if proof is None or found is None:
            return since
        # Nothing is known without a memory; then the next sweep looks at the longer window in full
        # again.
        known = None if self._known_since(evidence.window) is None else since
        if found.read_problem is not None or proof.is_late:
            return known  # what could not be read breaks nothing off, either
        if proof.is_idle:
            return min(since, found.window.start)
        # Tried again when the work, or the hole, that was found has left the longer window. What
        # else is missing is older than the idle window, so it is tried at every sweep, and not for
        # long.
        worked = known if proof.not_before is None else proof.not_before - found.window.length
        return latest(worked, unmeasured_until(found.gpus, found.window))

    def _since(self, evidence: Evidence) -> UtcDatetime:
        """From when on an idle instance is idle, by this sweep and the one before: not across a
        long hole."""
        since = self._known_since(evidence.window) or evidence.window.start
        return max(since, unmeasured_until(evidence.gpus, evidence.window) or since)

    def _known_since(self, window: Window) -> UtcDatetime | None:
        """From when on it is idle, by what the sweep before knew; `None` where that leaves a
        gap."""
        memory, policy = self.memory, self.policy
        if memory is None:
            return None
        # What is idle may have been read so long before the last sweep.
        before = policy.watch_every if memory.verdict is VerdictKind.IDLE else timedelta()
        if window.start > memory.at - before - policy.lag - policy.period:
            return None
        return window.start if memory.verdict in WORKING else memory.idle_since


def is_due(key: str, every: timedelta, before: UtcDatetime, now: UtcDatetime) -> bool:
    """Return whether what is looked at so often is due after a look `before`, each by a beat of its
    own."""
    own, beat = zlib.crc32(key.encode()), max(1, int(every.total_seconds()))
    return (int(now.timestamp()) + own) // beat > (int(before.timestamp()) + own) // beat


def wanted_figures(policy: Policy) -> frozenset[str]:
    return frozenset(figure for figure in FIGURES if limit_of(policy, figure) is not None)


def asked_because(
    idle_for: timedelta, evidence: Evidence, policy: Policy, manager: Manager | None
) -> str:
    """The reason of a question about an instance that has been idle for so long."""
    return idle_sentence(
        idle_for, policy, manager, released=evidence.window.length < policy.ask_window
    )


def is_released(evidence: Evidence, policy: Policy) -> bool:
    """Return whether the job has plainly gone: no GPU holds memory. Unknown memory counts as
    held."""
    held = evidence.memory_newest_percent
    return held is not None and held < policy.approval.released_memory_below_percent


def sooner_window(policy: Policy) -> timedelta | None:
    """The window of a proof while memory is released; `None` where it is no shorter, or may act
    unasked."""
    unasked = policy.mode is Mode.AUTO or policy.approval.on_expiry == "act"
    return (
        policy.released_window
        if not unasked and policy.released_window < policy.ask_window
        else None
    )
