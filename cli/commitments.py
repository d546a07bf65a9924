"""Usage that a Savings Plan could take over: the payer's On-Demand spend that no commitment covers,
day by day. Read with the caller's credentials; what may not be read is said, and counts as
unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from governor.adapters.clients import Adapter, Clients
from governor.domain.catalogue import families
from governor.domain.evidence import Window
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import Usd, UsdPerHour
from governor.errors import CloudError
from simulation.capacity_advice import savings_plan
from simulation.past import Past
from simulation.patterns import Advice

_HOME = "us-east-1"
"""Cost Explorer and Savings Plans answer there, whatever Region is asked about."""
_YEAR_SECONDS = int(timedelta(days=365).total_seconds())
_PAGE = 100


class Billing(Adapter):
    """Raises: CloudError."""

    def payer(self, target: Target) -> str:
        """The account that pays: its own outside of an organization."""
        try:
            found = self._call("organizations:DescribeOrganization", replace(target, region=_HOME))
        except CloudError as error:
            if error.code == "AWSOrganizationsNotInUseException":
                return target.account
            raise
        return str(found["Organization"]["MasterAccountId"])

    def uncovered(self, target: Target, hours: Window) -> list[Usd]:
        """The On-Demand cost of each day that no Savings Plan covers, of accelerated families, in
        all accounts that the payer pays for."""
        asked: Any = {
            "TimePeriod": {"Start": f"{hours.start:%Y-%m-%d}", "End": f"{hours.end:%Y-%m-%d}"},
            "Granularity": "DAILY",
            "Filter": {"Dimensions": {"Key": "INSTANCE_FAMILY", "Values": [*families()]}},
            "MaxResults": _PAGE,
        }
        pages = self._pages("ce:GetSavingsPlansCoverage", replace(target, region=_HOME), **asked)
        days = (
            one["Coverage"]["OnDemandCost"]
            for page in pages
            for one in page["SavingsPlansCoverages"]
        )
        try:
            return [Decimal(day) for day in days]
        except InvalidOperation as error:
            raise CloudError(f"Cost Explorer answered an amount that is none: {error}") from error

    def rate(self, target: Target, instance_type: str, platform: str) -> UsdPerHour | None:
        """Return what an hour costs under a Compute Savings Plan of one year, with nothing paid
        upfront."""
        only = {
            "region": target.region,
            "instanceType": instance_type,
            "productDescription": platform,
            "tenancy": "shared",
        }
        asked: Any = {
            "products": ["EC2"],
            "savingsPlanTypes": ["Compute"],
            "savingsPlanPaymentOptions": ["No Upfront"],
            "serviceCodes": ["AmazonEC2"],
            "filters": [{"name": name, "values": [value]} for name, value in only.items()],
        }
        operation, home = (
            "savingsplans:DescribeSavingsPlansOfferingRates",
            replace(target, region=_HOME),
        )
        found = [
            Decimal(one["rate"])
            for page in self._pages(operation, home, following="nextToken", **asked)
            for one in page["searchResults"]
            if one["savingsPlanOffering"]["durationSeconds"] == _YEAR_SECONDS
            and one["savingsPlanOffering"].get("currency", "USD") == "USD"
            and "BoxUsage" in one["usageType"]
            and "Unused" not in one["usageType"]
        ]
        return found[0] if len(set(found)) == 1 else None


def commitments(
    clients: Clients,
    target: Target,
    hours: Window,
    policy: Policy,
    pasts: Sequence[Past],
    unread: dict[str, None],
) -> list[Advice]:
    """The advice on a Savings Plan, if there is one; why not, in `unread`."""
    billing = Billing(clients)
    try:
        if (payer := billing.payer(target)) != target.account:
            unread[
                f"Savings Plan: the floor is unknown, as {target.account} is not the payer {payer}"
            ] = None
            return []
        days = billing.uncovered(target, hours)
    except CloudError as error:
        unread[f"Savings Plan: the floor is unknown: {error}"] = None
        return []
    found = savings_plan(
        target.account, days, hours, _discount(billing, pasts, unread), policy.advice
    )
    return [] if found is None else [found]


def _discount(billing: Billing, pasts: Sequence[Past], unread: dict[str, None]) -> Decimal | None:
    """The smallest discount over the types that run On-Demand now; `None` where a rate is not
    known."""
    seen: dict[tuple[Target, str, str], UsdPerHour] = {
        (one.instance.target, one.instance.instance_type, one.instance.platform): price
        for one in pasts
        if one.instance.lifecycle == "on-demand" and (price := one.price.usd_per_hour)
    }
    discounts = []
    for key, price in seen.items():
        try:
            rate = billing.rate(*key)
        except CloudError as error:
            unread[f"rates of Savings Plans: {error}"] = None
            return None
        if rate is not None and rate < price:
            discounts.append(1 - rate / price)
    return min(discounts, default=None)
