"""On-Demand usage that a Savings Plan could take over: spend that no commitment covers, by day.

It is the payer's, and is read with the caller's credentials. A fact that may not be read counts as
unknown, and the advice names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from governor.aws.clients import Adapter, Clients
from governor.core.catalog import families
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.units import Usd, UsdPerHour
from governor.evidence.model import Window
from governor.policy.model.policy import Policy
from simulation.capacity_advice import savings_plan
from simulation.past import Past
from simulation.patterns import Advice

_HOME = "us-east-1"
"""Cost Explorer and Savings Plans answer there, whatever Region is asked about."""
_YEAR_SECONDS = int(timedelta(days=365).total_seconds())
_PAGE = 100


class Billing(Adapter):
    """Cost Explorer and the price list of Savings Plans. Its methods raise CloudError."""

    def payer(self, target: Target) -> str:
        """Return the account that pays: outside of an organization, the target's own."""
        try:
            answer = self._call("organizations:DescribeOrganization", replace(target, region=_HOME))
        except CloudError as error:
            if error.code == "AWSOrganizationsNotInUseException":
                return target.account
            raise
        return str(answer["Organization"]["MasterAccountId"])

    def uncovered(self, target: Target, hours: Window) -> list[Usd]:
        """Return the On-Demand cost of each day that no Savings Plan covers.

        It is that of accelerated families, in all accounts that the payer pays for.

        Raises:
            CloudError: Cost Explorer refuses, or answers what is no amount.
        """
        asked: Any = {
            "TimePeriod": {"Start": f"{hours.start:%Y-%m-%d}", "End": f"{hours.end:%Y-%m-%d}"},
            "Granularity": "DAILY",
            "Filter": {"Dimensions": {"Key": "INSTANCE_FAMILY", "Values": [*families()]}},
            "MaxResults": _PAGE,
        }
        pages = self._pages("ce:GetSavingsPlansCoverage", replace(target, region=_HOME), **asked)
        costs = []
        try:
            for page in pages:
                for day in page["SavingsPlansCoverages"]:
                    costs.append(Decimal(day["Coverage"]["OnDemandCost"]))
        except InvalidOperation as error:
            raise CloudError(f"Cost Explorer answered an amount that is none: {error}") from error
        return costs

    def rate(self, target: Target, instance_type: str, platform: str) -> UsdPerHour | None:
        """Return the hourly rate under a Compute Savings Plan of one year, nothing paid upfront.

        Return `None` if there is none, or several that differ.
        """
        filters = {
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
            "filters": [{"name": name, "values": [value]} for name, value in filters.items()],
        }
        operation = "savingsplans:DescribeSavingsPlansOfferingRates"
        home = replace(target, region=_HOME)
        rates = set()
        for page in self._pages(operation, home, following="nextToken", **asked):
            for offered in page["searchResults"]:
                if _is_for_a_year_of_use(offered):
                    rates.add(Decimal(offered["rate"]))
        if len(rates) != 1:
            return None
        return rates.pop()


def _is_for_a_year_of_use(offered: Any) -> bool:
    """Return whether it is the rate in USD of instances in use, for one year."""
    offering = offered["savingsPlanOffering"]
    if offering["durationSeconds"] != _YEAR_SECONDS:
        return False
    if offering.get("currency", "USD") != "USD":
        return False
    usage = offered["usageType"]
    return "BoxUsage" in usage and "Unused" not in usage


def commitments(
    clients: Clients,
    target: Target,
    hours: Window,
    policy: Policy,
    pasts: Sequence[Past],
    unread: dict[str, None],
) -> list[Advice]:
    """Return the advice on a Savings Plan, or an empty list if there is none.

    `unread` gets a line on each fact that is not known.
    """
    billing = Billing(clients)
    try:
        payer = billing.payer(target)
        if payer != target.account:
            unread[
                f"Savings Plan: the floor is unknown, as {target.account} is not the payer {payer}"
            ] = None
            return []
        days = billing.uncovered(target, hours)
    except CloudError as error:
        unread[f"Savings Plan: the floor is unknown: {error}"] = None
        return []
    discount = _discount(billing, pasts, unread)
    advice = savings_plan(target.account, days, hours, discount, policy.advice)
    if advice is None:
        return []
    return [advice]


def _discount(billing: Billing, pasts: Sequence[Past], unread: dict[str, None]) -> Decimal | None:
    """Return the smallest discount over the types that run On-Demand now.

    Return `None` if a rate cannot be read, or no type has a discount.
    """
    discounts = []
    for (target, instance_type, platform), price in _on_demand_prices(pasts).items():
        try:
            rate = billing.rate(target, instance_type, platform)
        except CloudError as error:
            unread[f"rates of Savings Plans: {error}"] = None
            return None
        if rate is not None and rate < price:
            discounts.append(1 - rate / price)
    return min(discounts, default=None)


def _on_demand_prices(pasts: Sequence[Past]) -> dict[tuple[Target, str, str], UsdPerHour]:
    """Return the prices of the On-Demand instances, by target, type and platform."""
    prices = {}
    for past in pasts:
        instance = past.instance
        price = past.price.usd_per_hour
        if instance.lifecycle == "on-demand" and price:
            prices[instance.target, instance.instance_type, instance.platform] = price
    return prices
