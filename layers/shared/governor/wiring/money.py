"""Wiring of what counts money: reports and prices."""

from __future__ import annotations

from governor.money.refresh_prices import RefreshPrices
from governor.money.report_savings import ReportSavings
from governor.policy.accounts import swept_targets
from governor.policy.document import PolicyBook
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.parts import Parts
from governor.wiring.policies import present, ready


def report_savings(parts: Parts) -> Ready[ReportSavings]:
    """Return a function that makes the use case of `report_savings` for each invocation, under the
    policy in force then. The function raises PolicyError if that is refused, CloudError if it
    cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """
    # Imported here: `refresh_prices`, which shares this module, needs no scan.
    from governor.scan.for_reports import FoundByScans

    def make(policies: PolicyBook) -> ReportSavings:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return ReportSavings(
            clock=parts.clock,
            policies=policies,
            ledger_store=parts.ledger_store,
            fleet_store=parts.fleet_store,
            once=parts.once,
            announcer=parts.announcer,
            reports=parts.reports,
            hub=parts.hub,
            found=FoundByScans(
                parts.scan_store,
                parts.fleet_store,
                swept_targets(policies.base().policy, parts.hub),
            ),
        )

    return ready(present(parts), make)


def refresh_prices(parts: Ec2Parts) -> Ready[RefreshPrices]:
    """Return a function that makes the use case of `refresh_prices` for each invocation, under the
    policy in force then. The function raises PolicyError if that is refused, CloudError if it
    cannot be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> RefreshPrices:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return RefreshPrices(
            clock=parts.clock,
            policies=policies,
            fleet_store=parts.fleet_store,
            price_store=parts.price_store,
            price_reader=parts.price_reader,
        )

    return ready(present(parts), make)
