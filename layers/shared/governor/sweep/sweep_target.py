"""Sweeps one target (account and Region): lists, reads, judges, and corrects whatever differs from
the wanted state.

Each sweep computes everything from scratch, so nothing is lost if a sweep is missed or runs twice.
Effects are tried one by one, and the next sweep repairs what failed. This module must not change an
instance beyond its tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from governor.approvals.store.approvals import Approvals
from governor.core.errors import CloudError
from governor.core.instance import Instance, Target
from governor.core.ports import Clock, Spread
from governor.episode.model.standing import StandingState
from governor.episode.rules.standing import state_of_target
from governor.episode.store.instances import Failures, Instances
from governor.evidence.gather_evidence import GatherEvidence
from governor.evidence.ports import InstanceReader, InstanceTagger
from governor.fleet.store import Fleet
from governor.money.costs import CountCosts
from governor.money.rules.cost import Rate
from governor.money.store.ledger import Ledger
from governor.policy.ports import Policies
from governor.sweep.follow_up import FollowUp
from governor.sweep.freeze_plans import FreezePlans
from governor.sweep.judge_instances import JudgeInstances
from governor.sweep.keep_page import keep_page
from governor.sweep.list_instances import list_instances
from governor.sweep.mark_idle import mark_idle
from governor.sweep.observation import observation_of
from governor.sweep.store import Sweeps
from governor.sweep.sweep_alerts import SweepAlerts
from governor.sweep.sweep_case import Case, Listing, OpenEpisode, Sweep, SweepSummary
from governor.sweep.undescribed import last_rate, observation_of_undescribed, sum_up_undescribed


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """Sweeps one target. The order of the calls in `__call__` matters: breakers freeze verdicts
    before anything follows from them."""

    clock: Clock
    policies: Policies
    instances: InstanceReader
    gather: GatherEvidence
    approval_store: Approvals
    instance_store: Instances
    sweep_store: Sweeps
    fleet_store: Fleet
    ledger_store: Ledger
    tagger: InstanceTagger
    freeze: FreezePlans
    follow_up: FollowUp
    costs: CountCosts
    alerts: SweepAlerts
    failure_store: Failures
    spread: Spread

    def __call__(self, target: Target) -> SweepSummary:
        """Sweep the target: judge its instances, tag the idle ones, end and start episodes, notify
        people, count costs, and store the results.

        Return counts and problems; most failed steps are problems and are not raised. If nothing
        can be swept until a person changes that, only store this state and return it.

        Raises: CloudError if the instances cannot be listed for another reason, and nothing has
        changed then; if the breakers cannot be read or written; or if the observations, or such a
        state, cannot be stored. SafetyError if EC2 carried out a dry run of tags.
        """
        now = self.clock.now()
        try:
            listing = list_instances(
                target, now, self.policies, self.instances, self.instance_store, self.sweep_store
            )
        except CloudError as error:
            kind = state_of_target(error)
            if kind is None:
                raise
            self.failure_store.note_standing(StandingState(target, kind, str(error), now, now))
            return SweepSummary(target, now, state=kind)
        cases = JudgeInstances(self.gather, self.sweep_store)(listing)
        sweep = self._sweep(listing, cases)
        just_froze = self.freeze(sweep)
        _sum_up_verdicts(sweep)
        sum_up_undescribed(sweep)
        mark_idle(sweep, self.tagger, self.instance_store, self.failure_store)
        open_episodes = self.follow_up(sweep)
        self._notify(sweep, just_froze=just_froze)
        rates = self._count_costs(sweep, listing)
        self.alerts.notify_of_managed_idle(sweep, rates)
        observations = {case.id: observation_of(case, rates[case.id]) for case in sweep.cases}
        for undescribed in sweep.undescribed:
            observations[undescribed.id] = observation_of_undescribed(undescribed)
        self.sweep_store.remember(target, observations, now)
        self._keep_page(sweep, open_episodes, rates)
        return sweep.summary

    def _sweep(self, listing: Listing, cases: Sequence[Case]) -> Sweep:
        """Return the sweep of these judged instances and of those that EC2 does not describe, with
        a summary that goes on with the problems of the listing."""
        instance_count = len(cases) + len(listing.undescribed)
        summary = SweepSummary(
            listing.target, listing.now, instances=instance_count, problems=listing.problems
        )
        return Sweep(
            target=listing.target,
            base=listing.base,
            now=listing.now,
            cases=cases,
            undescribed=listing.undescribed,
            records=listing.records,
            summary=summary,
            swept_before=listing.swept_before,
            spread=self.spread,
        )

    def _notify(self, sweep: Sweep, *, just_froze: bool) -> None:
        """Publish events about idle instances, and notify owners of silent instances, unusual
        exemption tags and dates that AWS has announced. `just_froze` says that plans of the target
        were frozen in this sweep, or shortly before: then send nothing about silence. Alerts about
        managed instances come later, as they need the prices. A failure becomes a problem of the
        sweep."""
        self.alerts.publish_idle_events(sweep)
        if not just_froze:
            self.alerts.notify_of_silence(sweep)
        self.alerts.notify_of_unusual_exemptions(sweep)
        self.alerts.send_reminders(sweep)

    def _count_costs(self, sweep: Sweep, listing: Listing) -> dict[str, Rate]:
        """Add the costs up to now to those of the month, and return the rate of each instance of
        the sweep, by id. If the costs cannot be written, that becomes a problem of the sweep."""
        rates = self.costs.rates(
            [(case.instance, case.policy, case.verdict.kind) for case in sweep.cases]
        )
        launched = {case.id: case.instance.launch_time for case in sweep.cases}
        for undescribed in sweep.undescribed:
            rates[undescribed.id] = last_rate(undescribed, sweep.base.ownership)
            launched[undescribed.id] = undescribed.previous.launch_time
        sweep.attempt(
            "costs",
            self.costs,
            sweep.target,
            launched,
            rates,
            listing.observations,
            sweep.now,
        )
        return rates

    def _keep_page(
        self,
        sweep: Sweep,
        open_episodes: Mapping[str, OpenEpisode],
        rates: Mapping[str, Rate],
    ) -> None:
        """Store the page of the target in the console. `open_episodes` and `rates` are by instance
        id. A failure becomes a problem of the sweep."""
        sweep.attempt(
            "page of the console",
            keep_page,
            self.approval_store,
            self.fleet_store,
            self.ledger_store,
            sweep,
            open_episodes,
            rates,
            list_ungoverned=partial(self._list_ungoverned, sweep),
            find_creator=partial(self.instances.creator, sweep.target),
        )

    def _list_ungoverned(self, sweep: Sweep) -> list[tuple[Instance, Rate]]:
        """Read the running GPU instances that lack the tag of the policy's selector, and return
        each with its rate; empty if there are none. Raises: CloudError."""
        instances = self.instances.list_ungoverned(sweep.target, sweep.base.selector)
        rates = self.costs.rates([(instance, sweep.base, None) for instance in instances])
        return [(instance, rates[instance.instance_id]) for instance in instances]


def _sum_up_verdicts(sweep: Sweep) -> None:
    """Add to the summary how many verdicts there are of each kind, and the problem of each
    described instance that could not be judged."""
    for case in sweep.cases:
        sweep.summary.verdicts[case.verdict.kind.value] += 1
        if case.listed.problem is not None:
            sweep.summary.problems.append(f"{case.id}: {case.listed.problem}")
