"""The payer's data that `governor advice --commitments` reads, in the shapes of botocore's
models."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest

from cli.commitments import commitments
from governor.evidence.model import Window
from governor.policy.model.policy import Policy
from simulation.patterns import Advice
from tests.builders import TARGET
from tests.unit.aws.fakes import FakeClients, client_error
from tests.unit.simulation.pasts import MONDAY, make_past

HOURS = Window(MONDAY, MONDAY + timedelta(days=42), timedelta(hours=1))


def day(usd: str) -> dict[str, Any]:
    return {"Coverage": {"OnDemandCost": usd, "SpendCoveredBySavingsPlans": "0", "TotalCost": usd}}


def rate(usd: str, seconds: int = 31_536_000, usage: str = "BoxUsage:g5.xlarge") -> dict[str, Any]:
    offering = {"durationSeconds": seconds, "currency": "USD"}
    return {"rate": usd, "usageType": usage, "savingsPlanOffering": offering}


def payer() -> Mock:
    """An account that pays 10 USD an hour On-Demand, in two pages; a plan costs three quarters."""
    client = Mock()
    client.describe_organization.return_value = {
        "Organization": {"MasterAccountId": TARGET.account}
    }
    client.get_savings_plans_coverage.side_effect = [
        {"SavingsPlansCoverages": [day("240")] * 20, "NextToken": "more"},
        {"SavingsPlansCoverages": [day("240.00")] * 22},
    ]
    rates = [rate("0.7545"), rate("0.5", 94_608_000), rate("0.1", usage="UnusedBox:g5.xlarge")]
    client.describe_savings_plans_offering_rates.return_value = {"searchResults": rates}
    return client


def looked(client: Mock) -> tuple[list[Advice], dict[str, None]]:
    """Return what is advised, and what is not known."""
    unread: dict[str, None] = {}
    pasts = [make_past("g5.xlarge", [80.0])]
    return commitments(FakeClients(client), TARGET, HOURS, Policy(), pasts, unread), unread


def test_a_payer_gets_a_plan_by_its_days_and_by_the_rate_of_its_types() -> None:
    """A quarter less of 10 USD an hour; rates of three years and of unused reservations are
    others."""
    client = payer()
    (found,), unread = looked(client)

    assert {} == unread
    assert ("savings-plan", Decimal("2.5") * 730) == (found.kind, found.usd_per_month)
    asked = client.get_savings_plans_coverage.call_args_list[0].kwargs
    assert "g5" in asked["Filter"]["Dimensions"]["Values"]
    assert {"Start": "2026-10-05", "End": "2026-11-16"} == asked["TimePeriod"]


def test_the_floor_of_an_organization_is_unknown_to_its_members() -> None:
    client = payer()
    client.describe_organization.return_value = {
        "Organization": {"MasterAccountId": "999999999999"}
    }
    found, unread = looked(client)

    assert [] == found
    assert [
        "Savings Plan: the floor is unknown, as 123456789012 is not the payer 999999999999"
    ] == [*unread]
    assert not client.get_savings_plans_coverage.called


@pytest.mark.parametrize("operation", ["describe_organization", "get_savings_plans_coverage"])
def test_what_may_not_be_read_is_unknown(operation: str) -> None:
    client = payer()
    getattr(client, operation).side_effect = client_error("AccessDeniedException")
    found, unread = looked(client)

    assert [] == found
    assert "Savings Plan: the floor is unknown: " in "".join(unread)


def test_an_account_without_an_organization_pays_for_itself_and_rates_may_be_unknown() -> None:
    client = payer()
    client.describe_organization.side_effect = client_error("AWSOrganizationsNotInUseException")
    client.describe_savings_plans_offering_rates.side_effect = client_error("AccessDeniedException")
    (found,), unread = looked(client)

    assert found.usd_per_month is None
    assert "rates of Savings Plans: " in "".join(unread)
