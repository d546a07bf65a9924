"""Reads one instance in full: its evidence, open Session Manager sessions, its verdict and its
plan.

Used when an episode is opened and before every step. This module must not change an instance, and
must not be used in a loop over a fleet: each instance takes several calls.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from governor.core.catalog import shape_of
from governor.core.errors import CloudError, Throttled, Unavailable
from governor.core.instance import Instance, Launch, Lifecycle, Protection, SpotRequestType, Target
from governor.core.units import UtcDatetime, in_utc, minutes, printable, span
from governor.episode.model.plan import Plan, PlanFacts, Price
from governor.episode.rules.plan import draw_plan
from governor.episode.store.instances import Instances
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.model import Evidence, MetricSource
from governor.evidence.ports import InstanceReader, SessionReader
from governor.evidence.request import EvidenceRequest, Gathered
from governor.evidence.rules.figures import FIGURES
from governor.evidence.rules.history import LENGTH, SHORTEST_PERIOD, History
from governor.evidence.rules.series import Dimensions, last_reading_end, whole_instance
from governor.limits.rules.breaker import acts_unasked
from governor.money.ports import PriceBook
from governor.money.rules.cost import marginal_price
from governor.policy.model.policy import Policy
from governor.verdict.model import Verdict, VerdictKind
from governor.verdict.rules.judging import Subject
from governor.verdict.rules.vetoes import activity

_log = logging.getLogger(__name__)
_SHORTEST_LOOK_BACK_MINUTES = 10
"""At least this much of the last minutes is read, however close the end of the window is."""
_CLOCK_MAY_BE_AHEAD = timedelta(minutes=11)
"""The newest readings of an agent whose clock is 10 minutes fast are dated this far ahead. A faster
clock proves nothing: its last readings would pass for new ones, and its newest work lies beyond the
end of the proof."""
_AHEAD_MINUTES = 121
"""How far ahead readings are searched. CloudWatch takes them up to two hours ahead."""

_CLOUDTRAIL_KEEPS = timedelta(days=90)
"""For this long events can be looked up. Source: CloudTrail user guide, event history."""
_LAUNCH_IS_RECORDED_WITHIN = timedelta(minutes=15)
"""The time of a launch in EC2 and in CloudTrail differ by seconds at most."""


class Planned(NamedTuple):
    """An instance with its volume sizes, the plan for it, and its price an hour."""

    instance: Instance
    plan: Plan
    price: Price


@dataclass(frozen=True, slots=True)
class InspectInstance:
    """Reads one instance in full. Every method may raise CloudError."""

    instances: InstanceReader
    gather: GatherEvidence
    prices: PriceBook
    sessions: SessionReader
    instance_store: Instances

    def describe(self, target: Target, instance_id: str) -> Instance | None:
        """Return the instance as EC2 shows it; `None` if EC2 shows none with this id. Raises:
        CloudError."""
        return self.instances.describe(target, instance_id)

    def launch(self, instance: Instance, now: UtcDatetime) -> Launch | None:
        """Return who launched the instance and when; `None` if CloudTrail does not know it, cannot
        be read, or no longer has records of that time, and is not asked then. It raises nothing:
        nothing rests on the answer."""
        if now - instance.launch_time > _CLOUDTRAIL_KEEPS:
            return None
        # A run begins at or after the launch, so the launch is not among the records after it.
        before = instance.launch_time + _LAUNCH_IS_RECORDED_WITHIN
        try:
            return self.instances.launch(instance.target, instance.instance_id, before)
        except CloudError as error:
            _log.info("who launched %s is not known: %s", instance.instance_id, error)
            return None

    def judge(
        self, instance: Instance, policy: Policy, now: UtcDatetime
    ) -> tuple[Verdict, Evidence]:
        """Return the verdict on which a question and an action may rest, with its evidence.

        The verdict is `idle` only if all figures prove it, GPU by GPU, over the whole window, and
        nothing since contradicts it. A shorter window is enough while GPU memory is released and a
        person must approve. Raises: Throttled, Unavailable if something could not be read: the
        caller then waits; CloudError.
        """
        hold = self.instance_store.record(instance.target, instance.instance_id).hold
        subject = Subject(instance, policy, now, hold)
        request = EvidenceRequest(
            instance,
            policy,
            per_gpu=True,
            figures=frozenset(FIGURES),
            length=policy.ask_window,
        )
        gathered = self._read(request, now)
        evidence = gathered.evidence
        verdict, shorter_window = subject.judge_again(evidence)

        # Read again over the shorter window, if that is enough for this instance.
        if shorter_window is not None:
            evidence = self._read(replace(request, length=shorter_window), now).evidence
            verdict = subject.judge_question(evidence, shorter_window)

        # The window ends some minutes ago: work that began since, or a person who is logged in,
        # contradicts it.
        if verdict.is_idle:
            newest = self._newest(instance, policy, gathered, now)
            verdict = _changed_since(evidence, newest, policy, now) or verdict
        if verdict.is_idle:
            verdict = self._unless_logged_in(verdict, instance, policy, now)
        return verdict, evidence

    def _unless_logged_in(
        self, verdict: Verdict, instance: Instance, policy: Policy, now: UtcDatetime
    ) -> Verdict:
        """Return a `busy` verdict while somebody has an open Session Manager session, else the
        given idle `verdict`. If the policy does not ask about sessions, none is read.

        If sessions cannot be read, return `no_data` if the policy may act without an approval, else
        the verdict with a `presence` text that says so, which the question shows. Raises:
        Throttled, Unavailable.
        """
        hours = policy.vetoes.session_younger_than_hours
        if hours is None:
            return verdict
        try:
            since = now - timedelta(hours=hours)
            open_sessions = self.sessions.open_sessions(
                instance.target, instance.instance_id, since
            )
        except (Throttled, Unavailable):
            raise  # A later try may be able to read them.
        except CloudError as error:
            unknown = f"It is not known whether somebody is logged in by Session Manager: {error}"
            if acts_unasked(policy):
                return replace(verdict, kind=VerdictKind.NO_DATA, reason=unknown)
            return replace(verdict, presence=f"{unknown}.")
        if not open_sessions:
            return verdict
        newest = max(open_sessions, key=lambda session: session.since)
        # The owner is an ARN, which ends with the name of the user or of the role's session.
        _, _, session_name = newest.owner.rpartition("/")
        who = printable(session_name)
        reason = f"{who} has an open Session Manager session since {in_utc(newest.since)}"
        return replace(verdict, kind=VerdictKind.BUSY, reason=reason, last_busy=now, logged_in=who)

    def _read(self, request: EvidenceRequest, now: UtcDatetime) -> Gathered:
        """Return the evidence that one request asks for. Raises: Unavailable if a part of it could
        not be read; CloudError."""
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
        """Return the evidence from the end of the window of `gathered` until two hours after `now`:
        GPUs minute by minute, and EC2's own figures by its five minutes.

        It looks ahead because the clock of an agent may be fast. A reading that has not arrived yet
        proves neither work nor idleness. Raises: Unavailable if a part could not be read;
        CloudError.
        """
        minutes_since = math.ceil((now - gathered.evidence.window.end) / timedelta(minutes=1))
        # Five minutes more, because EC2's periods do not begin with this window.
        minutes_back = max(_SHORTEST_LOOK_BACK_MINUTES, minutes_since + 5)
        # The policy of the request says where to read, and which figures are worth a search.
        # The own policy of the instance says what the readings mean.
        names = replace(
            policy.metrics, period_seconds=60, collection_interval_seconds=60, lag_seconds=0
        )
        request = EvidenceRequest(
            instance=instance,
            policy=Policy(metrics=names, vetoes=policy.vetoes),
            dimensions=_with_whole_instance(instance, gathered),
            source=gathered.evidence.source,
            search=False,
            figures=frozenset(FIGURES),
            length=timedelta(minutes=minutes_back + _AHEAD_MINUTES),
        )
        return self._read(request, now + timedelta(minutes=_AHEAD_MINUTES)).evidence

    def history(self, instance: Instance, policy: Policy, now: UtcDatetime) -> History | None:
        """Return utilization, memory and power of the last 24 hours for people to see; `None`, with
        a warning in the log, if they could not be read. A question is asked without them, too.

        Raises: CloudError other than Unavailable.
        """
        seconds = int(max(policy.period, SHORTEST_PERIOD).total_seconds())
        # These names say where to read and how finely. No other setting of the policy counts.
        names = replace(policy.metrics, period_seconds=seconds, work=None)
        request = EvidenceRequest(
            instance,
            Policy(metrics=names),
            per_gpu=True,
            figures=frozenset({"memory", "power"}),
            length=LENGTH,
        )
        try:
            gathered = self._read(request, now)
        except Unavailable as error:
            _log.warning("the last day cannot be shown: %s", error)
            return None
        return History(
            gathered.evidence.window,
            gathered.evidence.gpus,
            gathered.percent.get("memory", ()),
            gathered.percent.get("power", ()),
        )

    def plan(self, instance: Instance, policy: Policy) -> Planned:
        """Return the plan by facts that are read now, with the instance and the price that it rests
        on. The plan has no steps if nothing can be done. Raises: CloudError."""
        sized_instance, protection, spot_request = read_facts(self.instances, instance)
        price = marginal_price(instance, self.prices.price(instance, policy))
        shape = shape_of(instance.instance_type)
        facts = PlanFacts(
            instance=sized_instance,
            protection=protection,
            spot_request=spot_request,
            shape=shape,
            price=price,
        )
        return Planned(sized_instance, draw_plan(facts, policy), price)


def read_facts(
    instances: InstanceReader, instance: Instance
) -> tuple[Instance, Protection, SpotRequestType | None]:
    """Return the instance with its volume sizes, its protection, and the type of its Spot request.

    The type is `None` for an instance that is no Spot Instance or has no Spot request, and if EC2
    does not know the request. Raises: CloudError.
    """
    target = instance.target
    sized_instance = replace(instance, volumes=instances.with_volume_sizes(instance))
    protection = instances.protection(target, instance.instance_id)
    request_id = instance.spot_request_id
    if instance.lifecycle is not Lifecycle.SPOT or request_id is None:
        return sized_instance, protection, None
    return sized_instance, protection, instances.spot_request_type(target, request_id)


def _with_whole_instance(instance: Instance, gathered: Gathered) -> tuple[Dimensions, ...] | None:
    """Return the dimension sets by which to read utilization again: those that were found, and
    `InstanceId` alone where they are sets of GPUs, because a second publisher may show work there.
    `None` if none were found: then the instance alone is read."""
    if gathered.dimensions is None or gathered.evidence.source is not MetricSource.PER_GPU:
        return gathered.dimensions
    return (*gathered.dimensions, whole_instance(instance.instance_id))


def _changed_since(
    evidence: Evidence, newest: Evidence, policy: Policy, now: UtcDatetime
) -> Verdict | None:
    """Return the verdict of the `newest` readings if they contradict `evidence`, which shows
    idleness: `busy` for work, `no_data` for a wrong clock or for GPU memory that is held again.
    Return `None` if they do not."""
    works = activity(newest, policy)
    if works is not None:
        reason = f"work began in the last minutes: {works}"
        return Verdict(VerdictKind.BUSY, reason, evidence=evidence, last_busy=now)
    ahead = _clock_ahead(newest, now)
    if ahead > _CLOCK_MAY_BE_AHEAD:
        reason = (
            "the clock of the instance is wrong: its agent dates readings "
            f"{minutes(ahead)} min ahead; set the clock"
        )
        return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
    used_percent = newest.memory_used_percent
    if used_percent is None or evidence.window.length >= policy.ask_window:
        return None
    if used_percent >= policy.approval.released_memory_below_percent:
        reason = (
            f"GPU memory is held again ({used_percent:.1f}%), so {span(policy.ask_window)} "
            "of idle time is required"
        )
        return Verdict(VerdictKind.NO_DATA, reason, evidence=evidence)
    return None


def _clock_ahead(newest: Evidence, now: UtcDatetime) -> timedelta:
    """Return how far after `now` the newest reading of GPU utilization ends; zero if none ends
    after it, as when there are no readings."""
    all_series = [gpu.utilization for gpu in newest.gpus]
    if newest.aggregate:
        all_series.append(newest.aggregate)
    newest_end = now
    for series in all_series:
        newest_end = max(newest_end, last_reading_end(series, newest.window))
    return newest_end - now
