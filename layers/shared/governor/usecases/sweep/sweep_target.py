"""One sweep over one target: list, read, judge, and repair whatever differs from the wanted state.

Level-triggered: everything is computed anew from EC2, CloudWatch and the state table, so a sweep that was
missed or ran twice loses nothing. Effects are tried one by one; what fails is counted, logged by the caller
and repaired by the next sweep. This module must not act on an instance beyond its tags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from governor.domain.episode.episode import InstanceRecord, Observation
from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime
from governor.errors import PolicyError
from governor.ports import Announcer, Catalogue, Clock, InstanceReader, InstanceTagger, Policies, Workflow
from governor.stores import StateTable
from governor.usecases.approvals.deliver_decision import DeliverDecision
from governor.usecases.episode.end_episode import CloseDead, VoidEpisode
from governor.usecases.events.notify_dates import RemindNotices
from governor.usecases.evidence.gather_evidence import GatherEvidence
from governor.usecases.money.count_costs import CountCosts
from governor.usecases.sweep.follow_up import FollowUp
from governor.usecases.sweep.freeze_plans import FreezePlans
from governor.usecases.sweep.judge_cases import judge_cases
from governor.usecases.sweep.mark_idle import mark_idle
from governor.usecases.sweep.sweep_alerts import SweepAlerts
from governor.usecases.sweep.sweep_case import Case, Sweep, SweepSummary


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """The sweep of one target."""

    clock: Clock
    policies: Policies
    instances: InstanceReader
    gather: GatherEvidence
    catalogue: Catalogue
    state: StateTable
    tagger: InstanceTagger
    workflow: Workflow
    announcer: Announcer
    void: VoidEpisode
    deliver: DeliverDecision
    close_dead: CloseDead
    remind: RemindNotices
    costs: CountCosts
    alerts: SweepAlerts

    def __call__(self, target: Target) -> SweepSummary:
        """Sweep the target.

        Raises:
            CloudError: the instances or the state table could not be read; nothing was changed.
        """
        now, base = self.clock.now(), self.policies.base().policy
        before = self.state.observations(target)
        sweep = self._list(target, base, before, now)
        summary = sweep.summary
        judge_cases(sweep, self.gather, self.catalogue)
        just_froze = FreezePlans(self.state, self.announcer)(sweep)
        summary.verdicts.update(case.verdict.kind.value for case in sweep.cases)
        summary.problems += [f"{case.id}: {case.unknown}" for case in sweep.cases if case.unknown is not None]
        mark_idle(sweep, self.tagger, self.state)
        FollowUp(self.state, self.workflow, self.void, self.deliver, self.close_dead)(sweep)
        self.alerts.idle(sweep)
        if not just_froze:
            self.alerts.silence(sweep)
        instances = [case.instance for case in sweep.cases]
        summary.problems += self.remind(target, instances, base, now)
        rates = self.costs.rates([(case.instance, case.policy) for case in sweep.cases])
        sweep.attempt("costs", self.costs, target, instances, rates, before, now)
        self.alerts.managed_idle(sweep, rates)
        self.state.remember(target, {case.id: case.observation(rates[case.id]) for case in sweep.cases}, now)
        counts = {**summary.verdicts, "instances": summary.instances, "problems": len(summary.problems)}
        self.state.save_sweep(target, now, counts)
        return summary

    def _list(
        self, target: Target, base: Policy, before: Mapping[str, Observation], now: UtcDatetime
    ) -> Sweep:
        instances = self.instances.list_selected(target, base.selector)
        records = self.state.records(target)
        cases = []
        for instance in instances:
            seen = before.get(instance.instance_id)
            if seen is None or seen.launch_time != instance.launch_time:
                seen = Observation(instance.launch_time, verdict="", at=now)
            record = records.get(instance.instance_id) or InstanceRecord(target, instance.instance_id)
            cases.append(self._case(instance, record, seen, now))
        return Sweep(target, base, now, cases, records, SweepSummary(target, now, instances=len(cases)))

    def _case(
        self, instance: Instance, record: InstanceRecord, before: Observation, now: UtcDatetime
    ) -> Case:
        """One instance that cannot be judged never sinks the others; its own sweep ends in no data."""
        try:
            applied, unknown = self.policies.applied_to(instance), record.problem
        except PolicyError as error:
            applied, unknown = self.policies.base(), str(error)
        return Case(instance, applied, record, before, now, unknown)
