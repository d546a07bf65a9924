"""The list of what is not governed, put together from the last scans, for one person."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from governor.core.instance import Target
from governor.fleet.model import STOPPED, UNGOVERNED, FleetPage
from governor.policy.model.contacts import Ownership
from governor.scan.model import Finding, Judgment, Row, Snapshot, Strength, Unread
from governor.scan.rules import refusals_of
from governor.scan.snapshot import snapshot, ungoverned
from governor.scan.words import refusal_text, ungoverned_headline
from tests.console_world import make_row
from tests.unit.scan.kinds import NOW
from tests.unit.scan.reports import row

HERE = Target("123456789012", "us-east-1")
THERE = Target("210987654321", "us-east-1")
UNUSED = Judgment(Finding.UNUSED, Strength.STRONG, "0 invocations")
BUSY = Judgment(Finding.BUSY, Strength.STRONG, "it works")


def everything(account: str, project: str, owner: str) -> bool:
    """Someone who sees all."""
    return True


def scanned(target: Target, *rows: Row, hours_ago: float = 1, **changes: object) -> Snapshot:
    """A snapshot of a target."""
    unread = changes.get("unread", ())
    return snapshot(target, rows, unread, Ownership(), NOW - timedelta(hours=hours_ago))  # type: ignore[arg-type]


def page(target: Target, *instances: tuple[str, str]) -> FleetPage:
    """The page of a target with these instances, each with its verdict."""
    rows = tuple(
        make_row(
            instance_id=instance_id,
            verdict=verdict,
            account=target.account,
            region=target.region,
        )
        for instance_id, verdict in instances
    )
    return FleetPage(target.account, target.region, NOW, mode="ask", rows=rows)


def test_the_most_expensive_waste_comes_first_over_all_places() -> None:
    """The sum is that of the rows, and the time that of the oldest scan."""
    snapshots = (
        scanned(HERE, row(0, UNUSED, "1"), row(2, BUSY, "90"), hours_ago=30),
        scanned(THERE, row(1, UNUSED, "2")),
    )
    found = ungoverned(snapshots, (), (HERE, THERE), NOW, everything)
    assert ["730.00", "1460.00"] == sorted(
        (str(one.waste_usd_per_month) for one in found.report.rows[:2]), key=Decimal
    )
    assert Decimal("2190.00") == found.report.waste_usd_per_month
    assert NOW - timedelta(hours=30) == found.report.scanned_at
    assert () == found.late
    assert found.report.is_complete


def test_a_target_that_was_never_scanned_is_a_line_of_what_is_not_read() -> None:
    """It is not taken for a place without waste."""
    found = ungoverned((scanned(HERE),), (), (HERE, THERE), NOW, everything)
    (line,) = found.report.unread
    assert (str(THERE), "everything") == (line.place, line.topic)
    assert not found.report.is_complete
    assert found.is_scanned
    assert not ungoverned((), (), (HERE,), NOW, everything).is_scanned


def test_a_scan_that_is_two_days_late_is_named() -> None:
    """One missed day is not."""
    snapshots = (scanned(HERE, hours_ago=48), scanned(THERE, hours_ago=50))
    assert (THERE,) == ungoverned(snapshots, (), (HERE, THERE), NOW, everything).late


def test_a_place_that_the_policy_no_longer_names_is_not_shown() -> None:
    """Its snapshot stays in the table until it expires."""
    found = ungoverned((scanned(HERE, row(0, UNUSED)),), (), (THERE,), NOW, everything)
    assert () == found.report.rows


def test_somebody_with_one_project_sees_its_rows_and_nothing_of_the_account() -> None:
    """Neither what could not be read there, which names other resources, nor other rows."""
    line = Unread(str(HERE), "SageMaker endpoints", "sagemaker:ListEndpoints", "no", True)
    rows = (row(0, UNUSED, tags={"Project": "vision"}), row(2, UNUSED, tags={"Project": "llm"}))
    found = ungoverned(
        (scanned(HERE, *rows, unread=(line,)),),
        (),
        (HERE, THERE),
        NOW,
        lambda _, project, __: project == "vision",
    )
    assert ["i-00000000000000000"] == [one.resource.resource_id for one in found.report.rows]
    assert () == found.report.unread
    assert (HERE,) == found.report.places


def test_a_stopped_instance_is_in_the_fleet_or_in_the_list_and_never_in_both() -> None:
    """The fleet lists what GPU Governor stopped. What a person stopped, in the other account, is
    nowhere else. A host without the tag stays, also if the fleet shows it as ungoverned."""
    rows = [
        replace(row(number, UNUSED, is_governed=True), kind="stopped-instance")
        for number in (0, 2, 4)
    ]
    untagged = row(6, UNUSED)
    started = replace(row(8, UNUSED), kind="stopped-instance")
    ids = [one.resource.resource_id for one in (*rows, untagged, started)]
    fleet = (
        page(HERE, (ids[0], STOPPED), (ids[3], UNGOVERNED), (ids[4], "busy")),
        page(THERE, (ids[1], STOPPED)),
    )
    found = ungoverned(
        (scanned(HERE, *rows, untagged, started),), fleet, (HERE, THERE), NOW, everything
    )

    assert ids[1:4] == sorted(one.resource.resource_id for one in found.report.rows)
    assert 3 * Decimal("4140.56") == found.report.waste_usd_per_month


def test_somebody_who_sees_none_of_the_rows_is_not_told_that_nothing_was_scanned() -> None:
    """The place is not named to them either."""
    kept = scanned(HERE, row(0, UNUSED, tags={"Project": "vision"}))
    nobody = ungoverned((kept,), (), (HERE,), NOW, lambda _, project, __: project == "llm")
    never = ungoverned((), (), (HERE,), NOW, lambda *_: False)

    assert ((), True, False) == (nobody.report.places, nobody.is_scanned, never.is_scanned)
    headlines = [
        ungoverned_headline(found.report, is_scanned=found.is_scanned) for found in (nobody, never)
    ]
    assert [
        "None of the resources that were found belongs to you.",
        "Nothing has been scanned yet.",
    ] == headlines


def refused(kept: Snapshot, place: Target) -> Snapshot:
    """A snapshot of a place that was refused since."""
    line = Unread(str(place), "everything", "sts:AssumeRole", "no", True, kept.scanned_at)
    return replace(kept, unread=(line,))


def test_a_refused_place_shows_its_last_rows_and_since_when_nothing_was_read() -> None:
    """One entry stands for all Regions of an account that were last read on the same day."""
    snapshots = (
        refused(scanned(HERE, row(0, UNUSED, "1"), hours_ago=74), HERE),
        refused(scanned(THERE, row(1, UNUSED, "2"), hours_ago=75), THERE),
    )
    found = ungoverned(snapshots, (), (HERE, THERE), NOW, everything)
    assert Decimal("2190.00") == found.report.waste_usd_per_month
    assert not found.report.is_complete
    (text,) = map(refusal_text, refusals_of(found.report.unread))
    assert (
        "everything in 123456789012/us-east-1, 210987654321/us-east-1: last read at Wed Nov 25, "
        "09:00 UTC or later, since then refused: missing permission sts:AssumeRole; AWS says: no"
    ) == text
    assert () == found.late


@pytest.mark.parametrize(("hours_ago", "has_command"), [(1, True), (49, True), (49.1, False)])
def test_an_old_row_has_no_command(hours_ago: float, has_command: bool) -> None:
    """The instance that was idle then may work now."""
    kept = scanned(HERE, row(0, UNUSED, "1"), hours_ago=hours_ago)
    assert kept.rows[0].row.command
    found = ungoverned((kept,), (), (HERE,), NOW, everything)
    assert [has_command] == [bool(shown.command) for shown in found.report.rows]


def test_whoever_may_not_see_the_refusal_sees_that_the_scan_is_late() -> None:
    """It names AWS's words about the account, which only those of the account may see."""
    kept = refused(scanned(HERE, row(0, UNUSED, tags={"Project": "vision"}), hours_ago=74), HERE)
    found = ungoverned((kept,), (), (HERE,), NOW, lambda _, project, __: project == "vision")
    assert ((), (HERE,)) == (found.report.unread, found.late)
