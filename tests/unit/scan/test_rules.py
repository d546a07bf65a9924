"""Order, owners and sums of a report."""

from __future__ import annotations

from decimal import Decimal
from operator import attrgetter

import pytest

from governor.policy.model.contacts import Ownership
from governor.scan.model import Finding, Judgment, Row, Strength
from governor.scan.rules import Group, first_groups, most_expensive_waste_first, owner_of
from tests.unit.scan.kinds import resource


def row(finding: Finding, usd: int | None, strength: Strength = Strength.STRONG) -> Row:
    """Return a row with this finding and this price an hour."""
    price = None if usd is None else Decimal(usd)
    judgment = Judgment(finding, strength, "")
    return Row("twin", resource(f"{finding}-{usd}"), judgment, price, "")


def test_waste_comes_first_then_what_is_not_known_then_the_rest() -> None:
    """In each part the most expensive first, an unknown price last."""
    idle, idle_unpriced = row(Finding.IDLE, 5), row(Finding.IDLE, None)
    likely = row(Finding.LIKELY_IDLE, 9, Strength.WEAK)
    unknown = row(Finding.NOT_MEASURED, 50, Strength.NONE)
    busy = row(Finding.BUSY, 99)
    expected = (likely, idle, idle_unpriced, unknown, busy)
    assert expected == most_expensive_waste_first([busy, unknown, idle_unpriced, idle, likely])


@pytest.mark.parametrize("finding", Finding)
def test_only_three_findings_are_waste(finding: Finding) -> None:
    """Work, youth, doubt and exemptions never count."""
    is_waste = finding in (Finding.IDLE, Finding.LIKELY_IDLE, Finding.UNUSED)
    assert is_waste is (row(finding, 1).waste_usd_per_month > 0)


@pytest.mark.parametrize(
    ("tags", "owner"),
    [
        ({"Owner": "ada"}, "ada"),
        ({"team": "ml", "OWNER": "ada"}, "ada"),
        ({"Created-By": "ada"}, "ada"),
        ({"Owner": "  ", "Team": "ml"}, "ml"),
        ({"Purpose": "x"}, None),
        ({}, None),
    ],
)
def test_the_most_exact_owner_tag_counts(tags: dict[str, str], owner: str | None) -> None:
    """A tag key counts by its letters and digits alone."""
    assert owner == owner_of(resource(tags=tags), Ownership())


@pytest.mark.parametrize(
    ("tags", "owner"),
    [
        ({"Owner": "grace", "CostOwner": "ada"}, "ada"),
        ({"Owner": "grace", "CostOwner": " "}, "grace"),
        ({"Owner": "grace", "costowner": "ada"}, "grace"),
    ],
)
def test_the_policy_s_owner_tags_come_first(tags: dict[str, str], owner: str) -> None:
    """They are compared exactly, as for instances of the fleet."""
    assert owner == owner_of(resource(tags=tags), Ownership(owner_tag_keys=("CostOwner",)))


def test_groups_that_are_not_shown_are_one_line_so_that_all_add_up() -> None:
    """Ten groups of twelve are shown, and the other two with their count and waste."""
    groups = [Group(f"owner-{n}", 2, 1, Decimal(20 - n), Decimal(12 - n)) for n in range(12)]
    shown = first_groups(groups, 10)
    assert ("and 2 more", 4, 2, Decimal(3)) == (
        shown[-1].name,
        shown[-1].rows,
        shown[-1].wasted,
        shown[-1].waste_usd_per_month,
    )
    for sum_of in (attrgetter("rows"), attrgetter("usd_per_month"), attrgetter("wasted")):
        assert sum(map(sum_of, groups)) == sum(map(sum_of, shown))
    assert tuple(groups[:10]) == first_groups(groups[:10], 10)
