"""The daily scan of a target: what is kept, and what is left as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.errors import AccessDenied, CloudError, Throttled, Unavailable
from governor.core.instance import Target
from governor.policy.document import parse_policy
from governor.scan import snapshot as snapshots
from governor.scan.kind import Kind
from governor.scan.model import (
    Finding,
    Judgment,
    RefusedScan,
    Snapshot,
    Strength,
    Unread,
)
from governor.scan.registry import KINDS
from governor.scan.scan_target import ScanTarget
from governor.scan.store import Scans
from tests.twins.table import MemoryTable
from tests.unit.scan.kinds import NOW, TARGET, KindTwin, resource
from tests.unit.scan.places import DENIED, PlacesTwin
from tests.unit.scan.reports import row

UNUSED = Judgment(Finding.UNUSED, Strength.STRONG, "0 invocations in 14 days")


class FixedClock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Begin at the time of all tests."""
        self.time = NOW

    def now(self) -> Any:
        """Return the time."""
        return self.time


class World:
    """A table, and the use case with kinds that a test gives."""

    def __init__(self, document: str = "") -> None:
        """Begin without a scan."""
        self.store = Scans(MemoryTable())
        self.places = PlacesTwin()
        self.clock = FixedClock()
        self.document = document

    def scan(self, *kinds: Kind[Any, Any], target: Target = TARGET) -> Snapshot | RefusedScan:
        """Scan the target once."""
        use_case = ScanTarget(
            clock=self.clock,
            policies=parse_policy(self.document),
            places=self.places,
            scan_store=self.store,
            kinds=kinds,
        )
        return use_case(target)

    def good_scan(self, *kinds: Kind[Any, Any]) -> Snapshot:
        """Scan the target once; it is read."""
        made = self.scan(*kinds)
        assert isinstance(made, Snapshot)
        return made

    def kept(self) -> Sequence[Snapshot]:
        """Return what the table has."""
        return self.store.snapshots()


def test_what_a_scan_finds_is_kept_whole_and_reads_back_as_it_was() -> None:
    """With its verdict, strength, evidence, price, command and owner; tags stay in AWS."""
    world = World()
    tags = {"Owner": "ada@example.com", "Project": "vision", "Secret": "in-a-tag"}
    world.places.calls = 7
    world.places.usd_spent = Decimal("0.0123")
    found = resource("chat-poc", tags=tags, name="chat-poc", since=NOW - timedelta(days=9))
    made = world.good_scan(KindTwin([found], {"chat-poc": UNUSED}, Decimal("7.09")))

    (kept,) = world.kept()
    assert made == kept
    assert (NOW, 7, Decimal("0.0123")) == (kept.scanned_at, kept.calls, kept.usd_spent)
    (scanned,) = kept.rows
    assert ("ada@example.com", "vision") == (scanned.owner, scanned.project)
    assert UNUSED == scanned.row.judgment
    assert Decimal("5175.70") == scanned.row.waste_usd_per_month
    assert "look at chat-poc" == scanned.row.command
    assert {} == scanned.row.resource.tags
    assert 1 == world.places.closed


TAGS_AND_OWNERS = {
    "team tag": ({"CostOwner": "ada", "Owner": "grace"}, "ada"),
    "other tag": ({"Creator": "grace"}, "grace"),
    "no tag": ({"Stage": "test"}, "platform"),
}


@pytest.mark.parametrize(("tags", "owner"), TAGS_AND_OWNERS.values(), ids=TAGS_AND_OWNERS)
def test_the_owner_of_a_row_is_the_one_by_whom_it_is_seen(tags: dict[str, str], owner: str) -> None:
    """The policy's owner tags come first, as for instances of the fleet, then the tags that a scan
    knows without a policy, then the policy's default owner."""
    world = World("ownership: {owner_tag_keys: [CostOwner], default_owner: platform}")
    world.scan(KindTwin([resource("a", tags=tags)]))
    (kept,) = world.kept()
    (scanned,) = kept.rows
    assert (owner, owner) == (scanned.owner, scanned.row.owner)


def test_a_second_scan_replaces_the_first_and_an_earlier_one_does_not() -> None:
    """Two scans of a place may run at a time; the later one counts."""
    world = World()
    world.scan(KindTwin([resource("a"), resource("b")]))
    world.clock.time = NOW + timedelta(days=1)
    world.scan(KindTwin([resource("c")]))
    world.clock.time = NOW + timedelta(hours=1)
    world.scan(KindTwin([resource("d")]))

    (kept,) = world.kept()
    assert ["c"] == [scanned.row.resource.resource_id for scanned in kept.rows]


@pytest.mark.parametrize("error", [Throttled("busy"), Unavailable("down"), CloudError("odd")])
def test_a_place_that_does_not_answer_keeps_its_last_scan(error: CloudError) -> None:
    """An outage is no news about what costs money: the state machine tries again, and an alarm
    says so."""
    world = World()
    before = world.good_scan(KindTwin([resource("a")]))
    world.places.regions = error
    world.clock.time = NOW + timedelta(days=1)

    with pytest.raises(type(error)):
        world.scan(KindTwin([resource("b")]))
    assert (before,) == world.kept()
    assert 2 == world.places.closed


EXPIRED = AccessDenied(
    "x", operation="ec2:DescribeRegions", code="ExpiredToken", words="the token has expired"
)
NOT_ENABLED = AccessDenied("x", operation="ec2:DescribeRegions", code="AuthFailure")
A_DAY = timedelta(days=1)


@pytest.mark.parametrize("error", [DENIED, EXPIRED, NOT_ENABLED])
def test_a_refused_place_keeps_its_last_good_scan(error: AccessDenied) -> None:
    """Its rows and their date stay, and a line says since when nothing was read."""
    world = World()
    before = world.good_scan(KindTwin([resource("a")]))
    world.places.regions = error
    for _ in range(3):
        world.clock.time += A_DAY
        with contextlib.suppress(AccessDenied):
            world.scan(KindTwin([resource("b")]))

    (kept,) = world.kept()
    assert (before.rows, NOW) == (kept.rows, kept.scanned_at)
    (line,) = kept.unread
    assert ("everything", NOW, error.operation) == (line.topic, line.last_read_at, line.operation)


def test_a_refused_place_fails_the_scan_once_for_each_cause() -> None:
    """The alarm on failed scans sounds for what changed, and not each day. A good scan between two
    refusals makes the second one news."""
    world = World()
    kind = KindTwin([resource("a")])
    world.scan(kind)

    def is_news(error: AccessDenied | None) -> bool:
        """Scan a day later, and return whether it failed."""
        world.clock.time += A_DAY
        world.places.regions = {"Regions": []} if error is None else error
        try:
            world.scan(kind)
        except AccessDenied:
            return True
        return False

    refusals = [DENIED, DENIED, EXPIRED, EXPIRED, DENIED, None, DENIED, DENIED]
    news = [is_news(error) for error in refusals]
    assert [True, False, True, False, True, False, True, False] == news


@pytest.mark.parametrize(("part", "field"), [("refused", "line"), ("000", "account")])
def test_a_damaged_record_does_not_fail_the_scan_of_a_refused_place_each_day(
    part: str, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged refusal counts as none, and is replaced. Beside a damaged snapshot the last refusal
    still counts."""
    world = World()
    world.good_scan(KindTwin([resource("a")]))
    world.places.regions = DENIED
    world.clock.time += A_DAY
    with pytest.raises(AccessDenied):
        world.scan()
    table = world.store._table
    del table.items["SCAN", f"{TARGET.account}#{TARGET.region}#{part}"][field]  # type: ignore[attr-defined]

    world.clock.time += A_DAY
    with contextlib.suppress(AccessDenied):
        world.scan()
    assert "cannot be read" in caplog.text
    world.clock.time += A_DAY
    assert isinstance(world.scan(), RefusedScan)


def test_a_table_that_does_not_answer_fails_the_scan_of_a_refused_place() -> None:
    """It is no damaged record: nothing is known of an earlier refusal."""
    world = World()
    world.places.regions = DENIED
    world.store._table.failure = Throttled("x")  # type: ignore[attr-defined]
    with pytest.raises(Throttled):
        world.scan()


def test_a_place_that_could_never_be_read_is_one_line_and_fails_once() -> None:
    """As with a member stack of an earlier release, which has no role for the scan; no kind is
    tried."""
    world = World()
    world.places.regions = DENIED
    with pytest.raises(AccessDenied):
        world.scan(KindTwin([resource("a")]))
    world.clock.time += A_DAY
    refused = world.scan(KindTwin([resource("a")]))

    assert isinstance(refused, RefusedScan)
    (kept,) = world.kept()
    assert ((), world.clock.time) == (kept.rows, kept.scanned_at)
    assert (refused.line,) == kept.unread
    (line,) = kept.unread
    assert ("everything", "sts:AssumeRole", True, None) == (
        line.topic,
        line.operation,
        line.is_missing_right,
        line.last_read_at,
    )


def test_an_empty_snapshot_of_an_earlier_release_is_no_last_good_scan() -> None:
    """That release kept an empty one when a place was refused: nothing was read then."""
    world = World()
    line = Unread(str(TARGET), "everything", "sts:AssumeRole", "no", is_missing_right=True)
    world.store.keep(Snapshot(TARGET.account, TARGET.region, NOW, unread=(line,)))
    world.clock.time += A_DAY
    world.places.regions = DENIED
    with pytest.raises(AccessDenied):
        world.scan()
    (kept,) = world.kept()
    assert [None] == [line.last_read_at for line in kept.unread]


def test_a_good_scan_ends_a_refusal() -> None:
    """The rows are the new ones, and no line is left."""
    world = World()
    world.places.regions = DENIED
    with pytest.raises(AccessDenied):
        world.scan(KindTwin([resource("a")]))
    world.clock.time += A_DAY
    world.places.regions = {"Regions": []}
    made = world.good_scan(KindTwin([resource("b")]))
    assert (made,) == world.kept()
    assert () == made.unread


def test_credentials_that_end_between_two_kinds_replace_no_scan() -> None:
    """A part of the place is not its last good scan."""
    world = World()
    before = world.good_scan(KindTwin([resource("a")]), KindTwin([resource("b")]))
    world.clock.time += A_DAY
    ended = AccessDenied("x", operation="sagemaker:ListEndpoints", code="ExpiredTokenException")
    with pytest.raises(AccessDenied):
        world.scan(KindTwin([resource("a")]), KindTwin(error=ended))
    (kept,) = world.kept()
    assert before.rows == kept.rows


@pytest.mark.parametrize("error", [AccessDenied("x", operation="ec2:X"), Throttled("busy")])
def test_a_place_where_no_kind_can_be_read_keeps_its_last_scan(error: CloudError) -> None:
    """A role without any permission, or a Region that throttles every call, is no empty Region."""
    world = World()
    before = world.good_scan(KindTwin([resource("a")]))
    world.clock.time += A_DAY
    with pytest.raises(type(error)):
        world.scan(KindTwin(error=error), KindTwin(error=error))
    (kept,) = world.kept()
    assert (before.rows, NOW) == (kept.rows, kept.scanned_at)


class DeniedApi(AwsReadApi):
    """AWS's API for a role without any permission. It knows which services a Region has."""

    def __init__(self) -> None:
        """Use clients that may call nothing."""
        super().__init__(ReadOnlyClients((), "{}", "us-east-1"))

    def _call(self, operation: str, *_: Any, **__: Any) -> Any:
        """Raises: AccessDenied."""
        raise AccessDenied("x", operation=operation, words="no right")


class DeniedInstances:
    """EC2's instances for a role without any permission."""

    def list_accelerated(self, *_: Any) -> Sequence[Any]:
        """Raises: AccessDenied."""
        raise AccessDenied("x", operation="ec2:DescribeInstances", words="no right")


@pytest.mark.parametrize("region", ["us-east-1", "ap-east-1", "cn-north-1"])
def test_a_service_that_the_region_lacks_does_not_count_as_read(region: str) -> None:
    """A role without any permission keeps the last scan, also where a kind needs no call: Hong
    Kong has no Bedrock."""
    world = World()
    target = Target(TARGET.account, region)
    world.scan(KindTwin([resource("a", target=target)]), target=target)
    (before,) = world.kept()
    world.clock.time += A_DAY
    world.places = PlacesTwin(api=DeniedApi(), instances=DeniedInstances())
    with pytest.raises(AccessDenied):
        world.scan(*KINDS, target=target)

    (kept,) = world.kept()
    assert 1 == len(before.rows)
    assert (before.rows, NOW) == (kept.rows, kept.scanned_at)


def test_a_damaged_refusal_hides_no_snapshot(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and left out."""
    world = World()
    before = world.good_scan(KindTwin([resource("a")]))
    world.clock.time += A_DAY
    world.places.regions = DENIED
    with pytest.raises(AccessDenied):
        world.scan()
    table = world.store._table
    del table.items["SCAN", f"{TARGET.account}#{TARGET.region}#refused"]["line"]  # type: ignore[attr-defined]
    assert (before,) == world.kept()
    assert "the refusal of" in caplog.text


def test_a_missing_right_costs_its_kind_alone() -> None:
    """Even that of the call by which the place is tried."""
    world = World()
    world.places.regions = AccessDenied("x", operation="ec2:DescribeRegions")
    missing = AccessDenied("x", operation="sagemaker:ListEndpoints", words="no right")

    kept = world.good_scan(
        KindTwin(error=missing, words="SageMaker endpoints"), KindTwin([resource()])
    )
    assert 1 == len(kept.rows)
    (line,) = kept.unread
    assert ("SageMaker endpoints", True) == (line.topic, line.is_missing_right)


def test_prices_that_could_not_be_read_are_said() -> None:
    """The sums may be off."""
    world = World()
    line = Unread(str(TARGET), "Spot prices", "ec2:DescribeSpotPriceHistory", "no")
    world.places.prices = (line,)
    assert (line,) == world.good_scan(KindTwin([resource()])).unread


def test_governed_instances_are_left_to_the_sweep_and_other_tagged_things_are_not() -> None:
    """The tag governs instances alone: an endpoint that carries it is asked about by nobody. Nobody
    is asked about an instance that a person stopped, either."""
    world = World()
    governed = [resource("a", is_governed=True)]
    kept = world.good_scan(
        KindTwin(governed, name="ec2-instance"),
        KindTwin(governed, name="stopped-instance"),
        KindTwin(governed, name="sagemaker-endpoint"),
    )
    kinds = [scanned.row.kind for scanned in kept.rows]
    assert ["sagemaker-endpoint", "stopped-instance"] == sorted(kinds)


def test_a_huge_place_is_kept_bounded_by_its_most_expensive_waste(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the snapshot says how many rows, and how many dollars, are left out."""
    monkeypatch.setattr(snapshots, "MOST_ROWS", 3)
    world = World()
    ids = [f"r-{number}" for number in range(5)]
    idle = [
        KindTwin([resource(name)], {name: UNUSED}, Decimal(number + 1))
        for number, name in enumerate(ids)
    ]
    kept = world.good_scan(*idle)
    assert ["r-4", "r-3", "r-2"] == [scanned.row.resource.resource_id for scanned in kept.rows]
    assert (2, Decimal(3 * 730)) == (kept.left_out, kept.left_out_waste_usd_per_month)


def test_five_thousand_rows_fit_into_one_transaction() -> None:
    """Names as long as AWS lets them be: the table takes the snapshot as a whole, or not at all."""
    world = World()
    rows = [
        replace(row(number, UNUSED, name=f"{number}-{'n' * 200}"), owner="o" * 200)
        for number in range(snapshots.MOST_ROWS)
    ]
    kept = snapshots.snapshot(TARGET, rows, (), parse_policy("").base().policy.ownership, NOW)
    assert world.store.keep(kept)
    (read,) = world.kept()
    assert kept == read


def test_a_damaged_snapshot_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and left out."""
    world = World()
    world.scan(KindTwin([resource()]))
    table = world.store._table
    table.items["SCAN", f"{TARGET.account}#{TARGET.region}#000"]["rows"] = b"?"  # type: ignore[attr-defined]
    assert () == world.kept()
    assert "the scan of" in caplog.text
