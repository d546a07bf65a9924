"""The unused part of Savings Plans, by Cost Explorer, whose requests AWS bills one by one.

A plan has no Region: the first place of an account that asks has the rows, and the others none. A
plan counts in the account that owns it, although the payer of an organization sees it, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from governor.core.errors import CloudError
from governor.core.regions import cost_explorer_region
from governor.core.units import UsdPerHour, UtcDatetime, parse_iso
from governor.scan.kind import Kind, Place
from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.ec2_types import is_accelerated
from governor.scan.model import Finding, Judgment, Resource, Strength

_TOPIC = "Savings Plans"
_DETAILS = "ce:GetSavingsPlansUtilizationDetails"
_NO_PLANS = "DataUnavailableException"
_DAYS = timedelta(days=7)
_LATE = timedelta(days=1)
"""Cost Explorer's figures of the last day are not complete."""
_DATABASE = "database"


@dataclass(frozen=True, slots=True)
class Plan(Resource):
    """A Savings Plan of which a part was not used."""

    unused_usd_per_hour: UsdPerHour = Decimal(0)
    unused_percent: Decimal = Decimal(0)


class SavingsPlans(Kind[Plan, None]):
    """Savings Plans that may pay for accelerators, and were not used up in the last seven days, by
    the use that Cost Explorer gives with the list."""

    name = "savings-plan"
    words = _TOPIC
    operations = (_DETAILS,)
    is_billed = True

    def list(self, place: Place) -> Sequence[Plan]:
        """Return the plans with an unused part; empty if there are none, another place of the
        account has them, or Cost Explorer does not answer in this partition. Raises: CloudError."""
        home = cost_explorer_region(place.target.region)
        key = (_DETAILS, place.target.account)
        asks = place.kept.get(key, lambda: place.target)
        if home is None or asks != place.target:
            return []

        def read(record: Any) -> Plan | None:
            """Return a plan with an unused part; `None` for any other record."""
            return _plan(place, record)

        end = place.now - _LATE
        period = {"Start": f"{end - _DAYS:%Y-%m-%d}", "End": f"{end:%Y-%m-%d}"}
        plans: list[Plan] = []
        try:
            target = replace(place.target, region=home)
            for page in place.api.pages(target, _DETAILS, TimePeriod=period):
                records = page.get("SavingsPlansUtilizationDetails") or ()
                plans += place.read_each(_TOPIC, _DETAILS, records, read)
        except CloudError as error:
            if error.code != _NO_PLANS:
                raise
        return plans

    def price(self, place: Place, resource: Plan) -> UsdPerHour | None:
        """Return what the unused part of an hour costs."""
        return resource.unused_usd_per_hour

    def own_judgment(self, place: Place, resource: Plan, measured: None) -> Judgment:
        """Return that a part is unused: Cost Explorer's figure is a fact."""
        evidence = (
            f"{resource.unused_percent:.0f}% of the commitment was not used in 7 days, by Cost "
            "Explorer; it cannot be ended early, so move eligible work under it"
        )
        return Judgment(Finding.UNUSED, Strength.STRONG, evidence)

    def own_command(self, resource: Plan, judgment: Judgment) -> str:
        """Return the command that shows the plan."""
        return aws_command(
            resource.target,
            "savingsplans",
            "describe-savings-plans",
            savings_plan_ids=resource.resource_id,
        )


def _plan(place: Place, record: Mapping[str, Any]) -> Plan | None:
    """Return a plan of this account with an unused part; `None` for any other, for one that has
    ended, and for one that pays for no accelerators. Raises: ArithmeticError, LookupError,
    TypeError or ValueError for a record in another form."""
    arn = record["SavingsPlanArn"]
    account = arn.split(":")[4]
    attributes = record.get("Attributes") or {}
    family = attributes.get("InstanceFamily") or ""
    kind = attributes.get("SavingsPlansType") or "Savings Plan"
    is_of_others = account != place.target.account
    is_for_other_use = _DATABASE in kind.casefold() or (family and not is_accelerated(family))
    if is_of_others or is_for_other_use:
        return None
    utilization = record["Utilization"]
    unused = Decimal(utilization["UnusedCommitment"])
    total = Decimal(utilization["TotalCommitment"])
    if not total.is_finite() or not unused.is_finite() or unused <= 0 or total <= 0:
        return None
    ends_at = attributes.get("EndDateTime")
    if ends_at and parse_iso(ends_at) <= place.now:
        return None
    started_at = attributes.get("StartDateTime")
    since = parse_iso(started_at) if started_at else None
    return Plan(
        target=place.target,
        resource_id=arn.rpartition("/")[2],
        what=f"{kind} of {family}" if family else f"{kind} of any family",
        since=since,
        unused_usd_per_hour=unused / _hours(place, since),
        unused_percent=100 * unused / total,
    )


def _hours(place: Place, since: UtcDatetime | None) -> Decimal:
    """Return for how many hours of the period the plan had been bought, at least one; all of them
    if its start is not known."""
    end = place.now.replace(hour=0, minute=0, second=0, microsecond=0) - _LATE
    start = end - _DAYS
    if since is not None:
        start = max(start, since)
    return max(Decimal(1), Decimal((end - start) / timedelta(hours=1)))
