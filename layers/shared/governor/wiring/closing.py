"""Wiring of the last step of a sweep, for the hub: the sums of the month, and what concerns all
targets."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from governor.fleet.unswept import unswept
from governor.money.costs import SumUpMonth
from governor.policy.document import PolicyBook
from governor.sweep.close_sweep import CloseSweep
from governor.sweep.end_failures import EndFailures
from governor.sweep.known_failures import FindKnownFailures
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import present, ready


class HubSteps(NamedTuple):
    """The steps of `sum_up_month`, in the order in which they run."""

    close_sweep: CloseSweep
    sum_up_month: SumUpMonth


def hub_steps(parts: Parts) -> Ready[HubSteps]:
    """Return the steps of `sum_up_month`, under the policy in force when they run."""

    def make(policies: PolicyBook) -> HubSteps:
        """Return the steps under this policy."""
        return HubSteps(_close_sweep(parts, policies), _sum_up_month(parts, policies))

    return ready(present(parts), make)


def _close_sweep(parts: Parts, policies: PolicyBook) -> CloseSweep:
    """Return the step that notifies people of what concerns all targets."""
    return CloseSweep(
        clock=parts.clock,
        policies=policies,
        failure_store=parts.failure_store,
        finding_store=parts.finding_store,
        fleet_store=parts.fleet_store,
        end_failures=_end_failures(parts),
        find_known_failures=_find_known_failures(parts, policies),
        once=parts.once,
        announcer=parts.announcer,
        hub=parts.hub,
    )


def _end_failures(parts: Parts) -> EndFailures:
    """Return the step that ends failures of workflows in all targets."""
    return EndFailures(
        clock=parts.clock,
        failure_store=parts.failure_store,
        instance_store=parts.instance_store,
        fleet_store=parts.fleet_store,
        once=parts.once,
        announcer=parts.announcer,
        hub=parts.hub,
    )


def _find_known_failures(parts: Parts, policies: PolicyBook) -> FindKnownFailures:
    """Return the step that tells known failures of targets from new ones."""
    return FindKnownFailures(
        clock=parts.clock,
        policies=policies,
        fleet_store=parts.fleet_store,
        failure_store=parts.failure_store,
        read_failures=partial(unswept, parts.table),
        once=parts.once,
        hub=parts.hub,
    )


def _sum_up_month(parts: Parts, policies: PolicyBook) -> SumUpMonth:
    """Return the step that sums up the costs and savings of the month."""
    return SumUpMonth(
        clock=parts.clock,
        policies=policies,
        ledger_store=parts.ledger_store,
        fleet_store=parts.fleet_store,
        once=parts.once,
        announcer=parts.announcer,
        hub=parts.hub,
    )
