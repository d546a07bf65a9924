"""One account and Region: each kind by itself, and nothing that fails stops another."""

from __future__ import annotations

import logging
from decimal import Decimal

import pytest

from governor.core.errors import AccessDenied, CloudError, SafetyError, Throttled
from governor.scan.kind import Place
from governor.scan.model import Finding, Judgment, Resource, Strength
from governor.scan.scan_place import scan_place
from tests.unit.scan.kinds import KindTwin, place, resource

IDLE = Judgment(Finding.IDLE, Strength.STRONG, "no GPU worked")


def test_a_resource_becomes_a_row_with_its_price_owner_and_command() -> None:
    """Waste is the price of a month of 730 hours."""
    kind = KindTwin([resource(tags={"Owner": "ada@example.com"})], {"r-1": IDLE}, Decimal(2))
    (row,) = scan_place(place(), [kind]).rows
    assert Decimal(1460) == row.usd_per_month == row.waste_usd_per_month
    assert "ada@example.com" == row.owner
    assert "look at r-1" == row.command


def test_what_was_not_measured_is_no_waste() -> None:
    """Missing data is never idleness."""
    (row,) = scan_place(place(), [KindTwin([resource()])]).rows
    assert Finding.NOT_MEASURED is row.judgment.finding
    assert Decimal() == row.waste_usd_per_month


@pytest.mark.parametrize(
    ("error", "is_missing_right"),
    [
        (AccessDenied("x", operation="ec2:DescribeInstances", words="no right"), True),
        (Throttled("x", operation="ec2:DescribeInstances", words="too many"), False),
        (CloudError("x", operation="ec2:DescribeInstances", words="odd"), False),
    ],
)
def test_a_kind_that_is_refused_costs_only_its_own_rows(
    error: CloudError, is_missing_right: bool
) -> None:
    """The report names what is missing, and the permission that would fix it."""
    kinds = [KindTwin(error=error, words="broken ones"), KindTwin([resource()])]
    report = scan_place(place(), kinds)
    assert 1 == len(report.rows)
    (line,) = report.unread
    assert ("broken ones", "ec2:DescribeInstances") == (line.topic, line.operation)
    assert error.words == line.reason
    assert is_missing_right is line.is_missing_right


def test_an_answer_of_another_form_is_a_line_and_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """AWS may answer what its documents do not say."""
    kinds = [KindTwin(error=KeyError("Endpoints")), KindTwin([resource()])]
    report = scan_place(place(), kinds)
    assert 1 == len(report.rows)
    assert "another form than documented" in report.unread[0].reason
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_refusal_of_the_clients_is_a_defect_and_stops_the_scan() -> None:
    """A kind that calls what it did not list must never pass unseen."""
    with pytest.raises(SafetyError):
        scan_place(place(), [KindTwin(error=SafetyError("not on the list"))])


def test_an_exempt_resource_of_any_kind_is_no_waste_and_has_no_command() -> None:
    """A kind need not think of it, so that a new one can't forget it."""
    exempt = resource(tags={"gpu-governor": "exempt"})
    (row,) = scan_place(place(), [KindTwin([exempt], {"r-1": IDLE})]).rows
    assert (Finding.EXEMPT, "") == (row.judgment.finding, row.command)


def test_kinds_whose_calls_are_billed_are_read_only_if_that_was_asked_for() -> None:
    """Cost Explorer bills each request."""
    kind = KindTwin([resource()], is_billed=True)
    assert () == scan_place(place(), [kind]).rows
    assert 1 == len(scan_place(place(reads_commitments=True), [kind]).rows)


class Picky(KindTwin):
    """A kind that cannot judge the resource `r-odd`."""

    def judge(self, place: Place, resource: Resource, measured: Judgment | None) -> Judgment:
        """Return the twin's judgment. Raises: KeyError for the odd resource."""
        if resource.resource_id == "r-odd":
            raise KeyError("State")
        return super().judge(place, resource, measured)


def test_a_resource_that_cannot_be_judged_costs_its_own_row(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those after it are still judged, and the report says that one is missing. A terminal shows
    warnings, so none has the traceback."""
    kind = Picky([resource("r-1"), resource("r-odd"), resource("r-2")])
    report = scan_place(place(), [kind])
    assert ["r-1", "r-2"] == [row.resource.resource_id for row in report.rows]
    (line,) = report.unread
    assert "twins" == line.topic
    assert "left out" in line.reason
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]
