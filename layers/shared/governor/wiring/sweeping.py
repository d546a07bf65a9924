"""Wiring of the sweep of one target."""

from __future__ import annotations

from collections.abc import Callable

from governor.evidence.gather_evidence import GatherEvidence
from governor.money.costs import CountCosts
from governor.policy.document import PolicyBook
from governor.sweep.follow_up import FollowUp
from governor.sweep.freeze_plans import FreezePlans
from governor.sweep.sweep_alerts import SweepAlerts
from governor.sweep.sweep_case import SweepSummary
from governor.sweep.sweep_target import SweepTarget
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.endings import close_dead, void_episode
from governor.wiring.following import follow_start
from governor.wiring.policies import asking, by_target


def sweep_target(parts: Ec2Parts) -> Callable[[str, str], SweepSummary]:
    """Return the function that takes an account and a Region, and sweeps that target under the
    policy in force then, with the projects over budget if it asks about those.

    It raises SafetyError for a place that is no target, PolicyError if the policy is refused, and
    CloudError. Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> SweepTarget:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return SweepTarget(
            clock=parts.clock,
            policies=policies,
            instances=parts.instances,
            gather=GatherEvidence(metrics=parts.metrics),
            approval_store=parts.approval_store,
            instance_store=parts.instance_store,
            sweep_store=parts.sweep_store,
            fleet_store=parts.fleet_store,
            ledger_store=parts.ledger_store,
            tagger=parts.tagger,
            freeze=_freeze_plans(parts),
            follow_up=_follow_up(parts, policies),
            costs=_count_costs(parts),
            alerts=_sweep_alerts(parts),
            failure_store=parts.failure_store,
            spread=parts.spread,
        )

    return by_target(parts.accounts, asking(parts), make)


def _freeze_plans(parts: Ec2Parts) -> FreezePlans:
    """Return the step of a sweep that begins and ends freezes."""
    return FreezePlans(
        breaker_store=parts.breaker_store,
        pause_store=parts.pause_store,
        sweep_store=parts.sweep_store,
        announcer=parts.announcer,
        hub=parts.hub,
    )


def _follow_up(parts: Ec2Parts, policies: PolicyBook) -> FollowUp:
    """Return the step of a sweep that follows up on open episodes."""
    return FollowUp(
        policies=policies,
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        instance_store=parts.instance_store,
        ledger_store=parts.ledger_store,
        workflow=parts.workflow,
        void=void_episode(parts),
        close_dead=close_dead(parts, policies),
        instances=parts.instances,
        follow_start=follow_start(parts),
    )


def _count_costs(parts: Ec2Parts) -> CountCosts:
    """Return the step of a sweep that adds up what instances cost."""
    return CountCosts(
        prices=parts.prices, ledger_store=parts.ledger_store, fleet_store=parts.fleet_store
    )


def _sweep_alerts(parts: Ec2Parts) -> SweepAlerts:
    """Return the step of a sweep that sends its alerts."""
    return SweepAlerts(
        announcer=parts.announcer,
        batch=parts.batch,
        once=parts.once,
        notice_store=parts.notice_store,
    )
