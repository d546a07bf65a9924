"""Decides about one instance at one moment: its verdict, whether people may be asked about it, and
what the next sweep must remember.

The sweep and the back-test both decide with a `Subject`, in this order:

    verdict = subject.before_reading()
    if verdict is None:
        verdict = subject.after_reading(evidence)
    window = subject.window_to_prove(verdict)
    proof = None if window is None else subject.judge_question(longer_evidence, window)
    # A question may start if `proof` is not None and its kind is `idle`.
    memory = subject.remembered(verdict, proof)

`evidence` covers `policy.window`, `longer_evidence` covers `window`. Opening an episode and every
recheck use `judge_again`, without memory.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.core.instance import Instance
from governor.core.managers import managed_by
from governor.core.units import UtcDatetime, in_utc, span
from governor.evidence.model import Evidence, Window
from governor.evidence.rules.figures import FIGURES, limit_of
from governor.evidence.rules.series import latest, unmeasured_until, window_before
from governor.policy.model.policy import Policy
from governor.verdict.model import NO_HOLD, WORKING, Hold, IdleParts, Verdict, VerdictKind
from governor.verdict.rules.judge import idle_sentence, judge, judge_holes, judge_without_metrics
from governor.verdict.rules.proof import LATE, is_short_hole
from governor.verdict.rules.second_figure import doubt_text, judge_unasked
from governor.verdict.rules.vetoes import judge_age, judge_parts


@dataclass(frozen=True, slots=True)
class Memory:
    """The last sweep's knowledge of an instance, under the same policy and since the same start."""

    at: UtcDatetime
    verdict: VerdictKind
    last_busy: UtcDatetime | None = None
    advice: tuple[str, ...] = ()
    idle_since: UtcDatetime | None = None
    """The time since which the instance is proved idle without a break; `None` if it is not
    idle, or that is not known."""
    late_since: UtcDatetime | None = None
    """The time of the first of the sweeps without data up to now, if the readings were only late
    then."""
    reason: str = ""
    idle_parts: IdleParts | None = None


@dataclass(frozen=True, slots=True)
class Subject:
    """Everything an instance is judged by at one moment, besides its metrics."""

    instance: Instance
    policy: Policy
    now: UtcDatetime
    hold: Hold = NO_HOLD
    memory: Memory | None = None
    people_know: bool = False
    """True if people know of its idleness: then only whether work resumed is worth a read."""

    def before_reading(self) -> Verdict | None:
        """Return the verdict that needs no metrics: also the last one for an instance whose
        idleness people know and whose next read is not due, or which worked within the idle window.
        Return `None` if the metrics must be read."""
        memory = self.memory
        verdict = judge_without_metrics(self.instance, self.hold, self.policy, self.now)
        if verdict is not None or memory is None:
            return verdict
        if self._is_watched(memory):
            return Verdict(memory.verdict, memory.reason, advice=memory.advice)
        return self._still_busy(memory)

    def _is_watched(self, memory: Memory) -> bool:
        """Return whether people know that the instance is idle, and its next read is not due
        yet."""
        is_known = (
            self.people_know
            and memory.verdict is VerdictKind.IDLE
            and memory.idle_since is not None
        )
        every = self.policy.watch_every
        return is_known and not is_due(self.instance.instance_id, every, memory.at, self.now)

    def _still_busy(self, memory: Memory) -> Verdict | None:
        """Return the verdict of an instance that worked within the idle window, which saves a read.

        Return `None` if the instance may be idle by now.
        """
        worked = memory.last_busy
        if worked is None or memory.verdict not in WORKING:
            return None
        # The first window without the last work starts at the end of that work.
        window = window_before(self.now, self.policy.window, self.policy.period, self.policy.lag)
        if not window.start < worked <= self.now:
            return None
        until = worked + self.policy.window
        reason = f"worked until {in_utc(worked)}, so it cannot be idle before {in_utc(until)}"
        return Verdict(
            memory.verdict,
            reason,
            not_before=until,
            last_busy=worked,
            advice=memory.advice,
            idle_parts=memory.idle_parts,
        )

    def figures_to_read(self) -> frozenset[str]:
        """Return the figures that a sweep reads if utilization alone would call the instance idle;
        an empty set if people know of the idleness.

        Memory is also read if a question could start sooner while memory is released. Figures that
        hardly any instance publishes are read when it turns idle, and by the question again.
        """
        if self.people_know:
            return frozenset()
        figures = wanted_figures(self.policy)
        if self.memory is not None and self.memory.verdict is VerdictKind.IDLE:
            figures = frozenset(one for one in figures if FIGURES[one].at_every_sweep)
        if self.policy.why_never_asks or not self._may_ask_sooner():
            return figures
        return figures | {"memory"}

    def _may_ask_sooner(self) -> bool:
        """Return whether released memory could let a question start sooner: the policy allows that,
        and the instance may have been idle for long enough."""
        sooner = sooner_window(self.policy)
        if sooner is None:
            return False
        idle_since = self.memory.idle_since if self.memory else None
        return idle_since is None or self.now - idle_since >= sooner

    def after_reading(self, evidence: Evidence) -> Verdict:
        """Return the verdict by `evidence`, which covers the idle window: by utilization alone if
        people know of the idleness, and then with the advice of the last sweep if that found the
        instance idle.

        A verdict without data is marked as late if the readings may still come. The reason of an
        idle verdict says for how long, with the time before the window that memory knows of.
        """
        in_full = not self.people_know
        verdict = judge(self.instance, self.hold, evidence, self.policy, self.now, in_full=in_full)
        if verdict.kind is VerdictKind.NO_DATA:
            return replace(verdict, is_late=self._is_late(verdict, evidence))
        if not verdict.is_idle:
            return verdict
        idle_for = evidence.window.end - self._since(evidence)
        advice = verdict.advice
        memory = self.memory
        if self.people_know and memory is not None and memory.verdict is VerdictKind.IDLE:
            # This sweep reads utilization alone. An earlier one read what confirms it.
            advice = memory.advice
        doubt = doubt_text(self.instance.instance_type, evidence, self.policy)
        reason = idle_sentence(idle_for, self.policy, verdict.manager, doubt=doubt)
        return replace(verdict, reason=reason, advice=advice)

    def _is_late(self, verdict: Verdict, evidence: Evidence) -> bool:
        """Return whether readings without data may only be late, so that it is too early to alert
        anybody. Readings that stay late, or have new holes again and again, are silence."""
        late_since = self._late_since() or self.now
        late_for = self.now - late_since
        if verdict.is_late:
            return late_for < LATE
        has_short_hole = evidence.read_problem is None and is_short_hole(evidence, self.policy)
        return has_short_hole and late_for < LATE + self.policy.window

    def window_to_prove(self, verdict: Verdict) -> timedelta | None:
        """Return the window to prove idle before a question: the one of the policy, or the shorter
        one if GPU memory is released; `None` while no question can start.

        If nothing is known from before the idle window, the instance counts as idle since launch:
        the proof then shows whether it was.
        """
        evidence = verdict.evidence
        policy = self.policy
        may_ask = not self.people_know and not policy.why_never_asks
        if evidence is None or verdict.kind is not VerdictKind.IDLE or not may_ask:
            return None
        idle_since = self._known_since(evidence.window) or self.instance.launch_time
        idle_for = evidence.window.end - idle_since
        if idle_for >= policy.ask_window:
            return policy.ask_window
        sooner = sooner_window(policy)
        if sooner and idle_for >= sooner and is_released(evidence, policy):
            return sooner
        return None

    def judge_question(self, evidence: Evidence, window: timedelta) -> Verdict:
        """Return the verdict by utilization and vetoes over all of `window`: `policy.ask_window`,
        or `policy.released_window` while memory is released. It is no data also if the policy never
        asks, the readings are too old or have holes, or the policy would act unasked and no second
        figure confirms them.

        The kind `idle` means that people may be asked; at a recheck it means that the action may go
        ahead.
        """
        policy = self.policy
        if policy.why_never_asks:
            reason = f"the metrics cannot show whether it is still idle: {policy.why_never_asks}"
            return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
        if not self._is_long_enough(window, evidence):
            reason = (
                f"GPU memory is not released, so {span(policy.ask_window)} of idle time is required"
            )
            return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
        policy_over_window = policy.with_window(window)
        verdict = judge(self.instance, self.hold, evidence, policy_over_window, self.now)
        if not verdict.is_idle:
            return verdict
        too_old = judge_age(evidence, policy_over_window, self.now)
        unproved = (
            too_old
            or judge_holes(evidence, policy_over_window)
            or judge_unasked(self.instance, evidence, policy_over_window)
        )
        if unproved is not None:
            return unproved
        reason = asked_because(evidence.window.length, self.instance, evidence, policy)
        return replace(verdict, reason=reason)

    def _is_long_enough(self, window: timedelta, evidence: Evidence) -> bool:
        """Return whether a question may rest on a window of this length: one as long as
        `ask_window`; or, while no GPU holds memory, one as long as `sooner_window` says."""
        policy = self.policy
        if window >= policy.ask_window:
            return True
        sooner = sooner_window(policy)
        return sooner is not None and window >= sooner and is_released(evidence, policy)

    def judge_again(self, evidence: Evidence) -> tuple[Verdict, timedelta | None]:
        """Return the verdict by `evidence` over `policy.ask_window`, for a question and for the
        action after it: the kind is `idle` if that may go ahead.

        Return also the shorter window to try with `judge_question` if the verdict is not idle and
        memory is released; `None` if there is no window to try.
        """
        policy = self.policy
        verdict = self.judge_question(evidence, policy.ask_window)
        unknown_parts = judge_parts(evidence, policy)
        if unknown_parts is not None:
            return unknown_parts if verdict.is_idle else verdict, None
        if not verdict.is_idle and is_released(evidence, policy):
            return verdict, sooner_window(policy)
        return verdict, None

    def remembered(self, verdict: Verdict, proof: Verdict | None) -> Memory:
        """Return the memory for the next sweep. `proof` is the verdict over the longer window;
        `None` if that was not read."""
        late_since = None
        if verdict.kind is VerdictKind.NO_DATA:
            late_since = self._late_since() or (self.now if verdict.is_late else None)
        return Memory(
            at=self.now,
            verdict=verdict.kind,
            last_busy=verdict.last_busy,
            advice=verdict.advice,
            idle_since=self._idle_since(verdict, proof),
            late_since=late_since,
            reason=verdict.reason,
            idle_parts=verdict.idle_parts,
        )

    def _late_since(self) -> UtcDatetime | None:
        """Return since when the readings have been late, by the sweeps before. Return `None` if
        they were not late, or if there was no sweep for a while."""
        memory = self.memory
        if memory is None or self.now - memory.at >= LATE:
            return None
        return memory.late_since

    def _idle_since(self, verdict: Verdict, proof: Verdict | None) -> UtcDatetime | None:
        """Return since when the instance is idle, by this verdict and the proof; as the last sweep
        found it if the newest readings are late, or this sweep did not read it because people know
        that it is idle. Return `None` if it is not idle, or that is not known."""
        memory = self.memory
        evidence = verdict.evidence
        if memory is not None:
            # Readings that may still arrive end no idleness.
            if verdict.is_late:
                return memory.idle_since
            # It was not read: `before_reading` repeated the last verdict.
            if evidence is None and verdict.kind is VerdictKind.IDLE:
                return memory.idle_since
        if not verdict.is_idle or evidence is None:
            return None
        if proof is None or proof.evidence is None:
            return self._since(evidence)
        return self._since_by_proof(evidence, proof, proof.evidence)

    def _since_by_proof(
        self, evidence: Evidence, proof: Verdict, longer_evidence: Evidence
    ) -> UtcDatetime | None:
        """Return since when the instance is idle, by the idle window and the longer one.

        Return `None` if that is not known: the next sweep then looks at the whole longer window
        again.
        """
        since = self._since(evidence)
        known_since = None if self._known_since(evidence.window) is None else since
        if longer_evidence.read_problem is not None or proof.is_late:
            # Readings that could not be read end no idleness, either.
            return known_since
        if proof.is_idle:
            return min(since, longer_evidence.window.start)
        # The proof is tried again when the work, or the hole, that was found has left the longer
        # window. Anything else that is missing is older than the idle window, so the proof is tried
        # at every sweep, and not for long.
        worked_until = known_since
        if proof.not_before is not None:
            worked_until = proof.not_before - longer_evidence.window.length
        hole_until = unmeasured_until(longer_evidence.gpus, longer_evidence.window)
        return latest(worked_until, hole_until)

    def _since(self, evidence: Evidence) -> UtcDatetime:
        """Return since when an idle instance is idle, by this sweep and the one before. After a
        long time without a reading, the idle time begins again."""
        since = self._known_since(evidence.window) or evidence.window.start
        hole_until = unmeasured_until(evidence.gpus, evidence.window)
        return max(since, hole_until or since)

    def _known_since(self, window: Window) -> UtcDatetime | None:
        """Return since when the instance is idle, by the memory of the sweep before: since the
        start of `window` if it worked then.

        Return `None` if nothing is known, or there is a gap between that sweep and `window`.
        """
        memory = self.memory
        policy = self.policy
        if memory is None:
            return None
        # The last sweep may not have read an idle instance, but remembered an earlier reading.
        unread_for = policy.watch_every if memory.verdict is VerdictKind.IDLE else timedelta()
        if window.start > memory.at - unread_for - policy.lag - policy.period:
            return None
        return window.start if memory.verdict in WORKING else memory.idle_since


def is_due(key: str, every: timedelta, before: UtcDatetime, now: UtcDatetime) -> bool:
    """Return whether a check that happens once in `every`, which is at least a second, is due again
    after a check at `before`.

    Each key has its own offset, so that not all checks are due at once.
    """
    offset = zlib.crc32(key.encode())
    interval = int(every.total_seconds())
    last_interval = (int(before.timestamp()) + offset) // interval
    this_interval = (int(now.timestamp()) + offset) // interval
    return this_interval > last_interval


def wanted_figures(policy: Policy) -> frozenset[str]:
    """Return the figures that the policy sets a limit for; an empty set if there are none."""
    return frozenset(figure for figure in FIGURES if limit_of(policy, figure) is not None)


def asked_because(
    idle_for: timedelta, instance: Instance, evidence: Evidence, policy: Policy
) -> str:
    """Return the reason of a question about an instance that has been idle for `idle_for`."""
    return idle_sentence(
        idle_for,
        policy,
        managed_by(instance, policy.managed.tag_keys),
        released=evidence.window.length < policy.ask_window,
        doubt=doubt_text(instance.instance_type, evidence, policy),
    )


def is_released(evidence: Evidence, policy: Policy) -> bool:
    """Return whether no GPU holds memory, which shows that the job has ended. Unknown memory counts
    as held."""
    held_percent = evidence.memory_newest_percent
    if held_percent is None:
        return False
    return held_percent < policy.approval.released_memory_below_percent


def sooner_window(policy: Policy) -> timedelta | None:
    """Return the window of a proof while memory is released. Return `None` if that window is not
    shorter than the usual one, or if the policy may act without an answer."""
    if policy.acts_unasked_by is not None or policy.released_window >= policy.ask_window:
        return None
    return policy.released_window
