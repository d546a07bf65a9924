"""One instance at this moment, with all evidence and its plan: read to open an episode and before
acting."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.domain.catalogue import shape_of
from governor.domain.episode.plan import Plan, PlanFacts, Price, draw_plan
from governor.domain.evidence import Evidence, last_reading_end
from governor.domain.history import LENGTH, SHORTEST_PERIOD, History
from governor.domain.instance import Instance, Lifecycle, Protection, SpotRequestType, Target
from governor.domain.money.cost import marginal
from governor.domain.policy.policy import Policy
from governor.domain.sweep.breaker import acts_unasked
from governor.domain.sweep.judging import Subject
from governor.domain.sweep.verdict import FIGURES, Verdict, VerdictKind, activity
from governor.domain.units import UtcDatetime, in_utc, minutes, printable, span
from governor.errors import CloudError, Throttled, Unavailable
from governor.ports import InstanceReader, PriceBook, SessionReader
from governor.stores import Instances
from governor.usecases.evidence.gather_evidence import EvidenceRequest, Gathered, GatherEvidence

_log = logging.getLogger(__name__)
_SHORTEST_LOOK_MINUTES = 10
"""The last minutes are looked at for at least this long, however close the window's end is."""
_CLOCK_MAY_BE_AHEAD = timedelta(minutes=11)
"""An agent whose clock is 10 minutes fast dates its newest readings so far ahead. One that is
faster proves nothing: its last readings would pass for new ones, and its newest work lies beyond
the end of the proof."""
_AHEAD_MINUTES = 121
"""How far ahead readings are looked for. CloudWatch takes them up to two hours ahead."""


@dataclass(frozen=True, slots=True)
class InspectInstance:
    """Reads one instance in full. A few calls each; never used in a loop over a fleet."""

    instances: InstanceReader
    gather: GatherEvidence
    prices: PriceBook
    sessions: SessionReader
    state: Instances

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        return self.instances.describe(target, instance_id)

    def judge(
        self, instance: Instance, policy: Policy, now: UtcDatetime
    ) -> tuple[Verdict, Evidence]:
        """Return the verdict on which a question, and whatever follows, may rest; `idle` where it
        may: all figures over its window, GPU by GPU, or over the shorter one while memory is
        released and a person has to say yes. Raises: Throttled, Unavailable: something could not be
        read, so wait."""
        hold = self.state.record(instance.target, instance.instance_id).hold
        subject = Subject(instance, policy, now, hold)
        request = EvidenceRequest(
            instance,
            policy,
            per_gpu=True,
            figures=frozenset(FIGURES),
            always=True,
            length=policy.ask_window,
        )
        gathered = self._read(request, now)
        evidence = gathered.evidence
        verdict, sooner = subject.judge_again(evidence)
        if sooner is not None:
            evidence = self._read(replace(request, length=sooner), now).evidence
            verdict = subject.judge_question(evidence, sooner)
        if verdict.is_idle:
            newest = self._newest(instance, policy, gathered, now)
            verdict = _changed_since(evidence, newest, policy, now) or verdict
        if verdict.is_idle:
            verdict = self._unless_logged_in(verdict, instance, policy, now)
        return verdict, evidence

    def _unless_logged_in(
        self, verdict: Verdict, instance: Instance, policy: Policy, now: UtcDatetime
    ) -> Verdict:
        """Return `busy` while somebody is at a shell. If that is unknown, what is done unasked
        waits."""
        hours = policy.vetoes.session_younger_than_hours
        if hours is None:
            return verdict
        try:
            since = now - timedelta(hours=hours)
            found = self.sessions.open_sessions(instance.target, instance.instance_id, since)
        except (Throttled, Unavailable):
            raise
        except CloudError as error:
            unknown = f"Whether somebody is logged in by Session Manager is not known: {error}"
            if acts_unasked(policy):
                return replace(verdict, kind=VerdictKind.NO_DATA, reason=unknown)
            return replace(verdict, presence=f"{unknown}.")
        if not found:
            return verdict
        newest = max(found, key=lambda session: session.since)
        who = printable(newest.owner.rpartition("/")[2])
        reason = f"{who} has an open Session Manager session since {in_utc(newest.since)}"
        return replace(verdict, kind=VerdictKind.BUSY, reason=reason, last_busy=now)

    def _read(self, request: EvidenceRequest, now: UtcDatetime) -> Gathered:
        instance = request.instance
        gathered = self.gather(instance.target, [request], now)[instance.instance_id]
        problem = gathered.evidence.read_problem
        if problem is not None:
            text = f"metrics of {instance.instance_id} could not be read: {problem}"
            raise Unavailable(text, operation="cloudwatch:GetMetricData")
        return gathered

    def _newest(
        self, instance: Instance, policy: Policy, gathered: Gathered, now: UtcDatetime
    ) -> Evidence:
        """Return what was measured since the window ended, GPUs minute by minute, what EC2
        publishes by its own five minutes. What is not there yet proves nothing, either way."""
        left_out = math.ceil((now - gathered.evidence.window.end) / timedelta(minutes=1))
        # Where to read; what the readings mean is for the instance's own policy to say.
        recent = Policy(
            metrics=replace(
                policy.metrics, period_seconds=60, collection_interval_seconds=60, lag_seconds=0
            )
        )
        request = EvidenceRequest(
            instance=instance,
            policy=recent,
            dimensions=gathered.dimensions,
            source=gathered.evidence.source,
            search=False,
            figures=frozenset(FIGURES),
            always=True,
            # Five minutes more, because EC2's periods do not begin with the look.
            length=timedelta(minutes=max(_SHORTEST_LOOK_MINUTES, left_out + 5) + _AHEAD_MINUTES),
        )
        return self._read(request, now + timedelta(minutes=_AHEAD_MINUTES)).evidence

    def history(self, instance: Instance, policy: Policy, now: UtcDatetime) -> History | None:
        """Return the last 24 hours for people to look at; `None`, which holds up nothing, where it
        failed."""
        seconds = int(max(policy.period, SHORTEST_PERIOD).total_seconds())
        # Where to read and how finely; no other setting has a say in it.
        names = replace(policy.metrics, period_seconds=seconds, work=None)
        figures = frozenset({"memory", "power"})
        request = EvidenceRequest(
            instance,
            Policy(metrics=names),
            per_gpu=True,
            figures=figures,
            always=True,
            length=LENGTH,
        )
        try:
            found = self._read(request, now)
        except Unavailable as error:
            _log.warning("the last day cannot be shown: %s", error)
            return None
        memory, power = (found.percent.get(figure, ()) for figure in ("memory", "power"))
        return History(found.evidence.window, found.evidence.gpus, memory, power)

    def plan(self, instance: Instance, policy: Policy) -> tuple[Instance, Plan, Price]:
        """The plan on facts read now, with the instance's volume sizes filled in."""
        sized, protection, spot_request = read_facts(self.instances, instance)
        price = marginal(instance, self.prices.price(instance, policy))
        shape = shape_of(instance.instance_type)
        facts = PlanFacts(
            instance=sized,
            protection=protection,
            spot_request=spot_request,
            shape=shape,
            price=price,
        )
        return sized, draw_plan(facts, policy), price


def read_facts(
    instances: InstanceReader, instance: Instance
) -> tuple[Instance, Protection, SpotRequestType | None]:
    target, request = instance.target, instance.spot_request_id
    return (
        replace(instance, volumes=instances.with_volume_sizes(instance)),
        instances.protection(target, instance.instance_id),
        instances.spot_request_type(target, request)
        if instance.lifecycle is Lifecycle.SPOT and request is not None
        else None,
    )


def _changed_since(
    evidence: Evidence, newest: Evidence, policy: Policy, now: UtcDatetime
) -> Verdict | None:
    """The verdict where the newest readings contradict evidence that is idle."""
    works = activity(newest, policy)
    if works is not None:
        reason = f"work began in the last minutes: {works}"
        return Verdict(VerdictKind.BUSY, reason, evidence=evidence, last_busy=now)
    ahead = _clock_ahead(newest, now)
    if ahead > _CLOCK_MAY_BE_AHEAD:
        reason = (
            "the clock of the instance is wrong: its agent dates readings "
            f"{minutes(ahead)} min ahead; "
            "set the clock"
        )
        return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
    held = newest.memory_used_percent
    is_held = held is not None and held >= policy.approval.released_memory_below_percent
    if is_held and evidence.window.length < policy.ask_window:
        reason = (
            f"GPU memory is held again ({held:.1f}%), and {span(policy.ask_window)} "
            "of idleness are needed"
        )
        return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
    return None


def _clock_ahead(newest: Evidence, now: UtcDatetime) -> timedelta:
    """Return how far ahead the newest GPU reading is dated; nothing or less where none is."""
    series = [gpu.utilization for gpu in newest.gpus]
    if newest.aggregate:
        series.append(newest.aggregate)
    ends = [last_reading_end(one, newest.window) for one in series]
    return max(ends, default=now) - now
