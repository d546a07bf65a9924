"""Pages and days of the fleet, over both tables."""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest

from governor.core.instance import Target
from governor.fleet.model import OTHER_JOBS, DayCosts, FleetPage, FleetRow, JobKey, Share
from governor.fleet.store import MOST_JOBS, OTHERS, replace_day_write
from governor.money.rules.jobs import counted_costs
from governor.table.table import packed, put
from governor.verdict.model import IdleParts
from tests.console_world import many_rows
from tests.twins.stores import EveryStore
from tests.unit.aws.state_samples import INSTANCE_ID, LAUNCHED, NOW, TARGET, ref

OTHER = Target("111122223333", "us-east-10")
LATER = NOW + timedelta(minutes=5)


def row(instance_id: str = INSTANCE_ID, **changes: object) -> FleetRow:
    """A row with every field set."""
    whole = FleetRow(
        instance_id=instance_id,
        name="notebook-7",
        account=TARGET.account,
        region=TARGET.region,
        instance_type="g5.12xlarge",
        owner="alice@example.com",
        project="vision",
        verdict="idle",
        reason="Idle for 6 h 40 min (every GPU under 5%).",
        usd_per_hour=Decimal("5.672"),
        launched_at=LAUNCHED,
        idle_since=NOW,
        managed_by="AWS Batch",
        kept_until=NOW,
        exempt=True,
        episode=ref().execution_name,
        approval_id="approval-1",
        asked_at=NOW,
        expires_at=NOW,
        verb="stop",
        hours=(None, *range(23)),
        kept_because="session",
        kept_by="alice@example.com",
        stays_until=NOW,
        stopped_at=NOW,
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


def page(*rows: FleetRow, target: Target = TARGET, **more: object) -> FleetPage:
    """The page of a sweep."""
    whole = FleetPage(target.account, target.region, NOW, "ask", None, rows)
    return replace(whole, **more)  # type: ignore[arg-type]


GOLDEN = {
    "instance_id": "i-0123456789abcdef0",
    "name": "notebook-7",
    "account": "111122223333",
    "region": "us-east-1",
    "instance_type": "g5.12xlarge",
    "owner": "alice@example.com",
    "project": "vision",
    "verdict": "idle",
    "reason": "Idle for 6 h 40 min (every GPU under 5%).",
    "usd_per_hour": "5.672",
    "launched_at": "2026-11-20T06:00:00+00:00",
    "idle_since": "2026-11-20T12:00:00.123456+00:00",
    "managed_by": "AWS Batch",
    "kept_until": "2026-11-20T12:00:00.123456+00:00",
    "exempt": True,
    "episode": ref().execution_name,
    "approval_id": "approval-1",
    "asked_at": "2026-11-20T12:00:00.123456+00:00",
    "expires_at": "2026-11-20T12:00:00.123456+00:00",
    "verb": "stop",
    "is_reported": False,
    "quiet_until": None,
    "restarts_quiet_until": None,
    "hours": [None, *range(23)],
    "advice": [],
    "created_by": None,
    "kept_because": "session",
    "kept_by": "alice@example.com",
    "stays_until": "2026-11-20T12:00:00.123456+00:00",
    "stopped_at": "2026-11-20T12:00:00.123456+00:00",
    "acts_on_silence": False,
    "idle_parts": None,
}
"""How a row is stored; a later release reads it so."""


def test_pages_of_all_targets_are_read_by_one_query(table: EveryStore) -> None:
    """A Region whose name begins like another's has a page of its own, and no page is read for
    it."""
    here, there = page(row()), page(target=OTHER, problem="2 steps failed")
    assert ((), None) == (table.pages(), table.page(TARGET))

    assert table.keep_page(here)
    assert table.keep_page(there)

    assert (here, there) == table.pages()
    assert (there,) == table.pages([OTHER])
    assert (here, there) == (table.page(TARGET), table.page(OTHER))


def test_the_page_of_a_later_sweep_stands(table: EveryStore) -> None:
    """Two sweeps at once, or a retry of one, bring no rows back."""
    later = page(row("i-2"), swept_at=LATER)
    assert table.keep_page(later)
    assert table.keep_page(later)

    assert not table.keep_page(page(row("i-1")))

    assert (later,) == table.pages()


def test_a_long_page_is_written_whole_and_a_shorter_one_replaces_it(
    table: EveryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that the long one leaves behind are not read."""
    monkeypatch.setattr("governor.table.table._CHUNK_BYTES", 300)
    long = page(*(row(f"i-{number}", name=f"node {number**7}") for number in range(40)))
    assert table.keep_page(long)
    assert len(list(table._table.query("FLEET"))) > 2
    assert (long,) == table.pages()

    short = page(row(), swept_at=LATER)
    assert table.keep_page(short)

    assert (short,) == table.pages()


def test_a_row_keeps_its_stored_form(table: EveryStore) -> None:
    """Golden: the next release reads what this one stores. An older row may lack what has a
    default."""
    table.keep_page(page(row()))
    [item] = table._table.query("FLEET")
    assert [GOLDEN] == json.loads(zlib.decompress(item["rows"]))

    needed = (*list(GOLDEN)[:11], "added later")
    older = {name: GOLDEN.get(name) for name in needed}
    table._table.write(
        put(("FLEET", item["sk"]), {**item, "rows": zlib.compress(json.dumps([older]).encode())})
    )
    [[read]] = [one.rows for one in table.pages()]
    assert FleetRow(**{name: getattr(row(), name) for name in needed[:-1]}) == read


def test_the_idle_gpus_of_a_row_keep_their_stored_form(table: EveryStore) -> None:
    """Golden, as above: two numbers and a word, and no sentence."""
    partly_idle = row(verdict="partly-idle", idle_parts=IdleParts(7, 8, "GPU"))
    table.keep_page(page(partly_idle))
    [item] = table._table.query("FLEET")
    [stored] = json.loads(zlib.decompress(item["rows"]))

    assert {"idle": 7, "total": 8, "name": "GPU"} == stored["idle_parts"]
    assert (page(partly_idle),) == table.pages()


def test_a_damaged_page_is_named_and_hides_no_other(table: EveryStore) -> None:
    """Two parts of a query may also lie before and after a sweep."""
    for one in (page(row()), page(row(), target=OTHER)):
        table.keep_page(one)
    [item, _] = table._table.query("FLEET")
    table._table.write(put((item["pk"], item["sk"]), {**item, "rows": item["rows"][:-9]}))

    damaged, whole = table.pages()

    assert (damaged.rows, whole.rows) == ((), (row(),))
    assert "could not be read" in str(damaged.problem)
    table._table.write(put((item["pk"], item["sk"]), {"rows": b""}))
    assert (whole,) == table.pages()


def test_the_days_of_a_month_are_read_by_one_query(table: EveryStore) -> None:
    """Amounts are kept as they are, digit by digit; a damaged day counts as none."""
    shares = {
        ("alice", "vision"): Share(
            Decimal("1.000000001"), Decimal("0.1"), Decimal(0), Decimal("3E-9")
        ),
        ("bob # x", ""): Share(idle=Decimal("12")),
    }
    first = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region, shares)
    second = DayCosts(date(2026, 11, 21), OTHER.account, OTHER.region)
    assert second == table.days_of(OTHER, [second.day])[0]

    for one in (first, second, replace(first, day=date(2026, 12, 1))):
        table._table.transact(replace_day_write(one))

    assert (first, second) == table.days("2026-11")
    assert first == table.days_of(TARGET, [first.day])[0]
    assert Decimal("1.100000004") == shares["alice", "vision"].total
    table._table.write(put(("DAYS#2026-11", "111122223333#us-east-1#20"), {"shares": b"x"}))
    assert ((second,), {}) == (table.days("2026-11"), table.days_of(TARGET, [first.day])[0].shares)


def test_pages_and_days_expire(table: EveryStore) -> None:
    """A target that no policy names any more is gone after a week; a day, as a meter, after 400
    days."""
    table.keep_page(page())
    table._table.transact(
        replace_day_write(DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region))
    )

    [stored], [day] = table._table.query("FLEET"), table._table.query("DAYS#2026-11")

    assert int((NOW + timedelta(days=7)).timestamp()) == stored["expires_at_epoch"]
    assert (
        int(NOW.replace(hour=0, minute=0, second=0).timestamp()) + 400 * 86_400
        == day["expires_at_epoch"]
    )


def test_a_day_of_too_many_owners_is_summed_up(table: EveryStore) -> None:
    """Tags of 256 characters on thousands of instances fill an item: the meter beside it is written
    all the same, the most expensive owners are kept, and the sum stays."""
    chance = random.Random(1)
    names = [
        "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(256)) for _ in range(1_500)
    ]
    shares = {(name, "vision"): Share(used=Decimal(number)) for number, name in enumerate(names)}
    whole = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region, shares)

    table._table.transact(replace_day_write(whole))
    [item] = table._table.query("DAYS#2026-11")
    kept = table.days_of(TARGET, [whole.day])[0].shares

    assert len(item["shares"]) < 350_000
    assert Share(used=Decimal(1_499)) == kept[names[-1], "vision"]
    assert sum(shares.values(), Share()) == sum(kept.values(), Share())
    again = table.days_of(TARGET, [whole.day])[0].plus(
        {JobKey(*payer, None): share for payer, share in shares.items()}
    )
    table._table.transact(replace_day_write(again))
    twice = table.days_of(TARGET, [whole.day])[0].shares
    assert sum(again.shares.values(), Share()) == sum(twice.values(), Share())
    assert twice[OTHERS].total > kept[OTHERS].total > kept[names[-1], "vision"].total


def jobs_of(number: int, owner: str = "alice", project: str = "vision") -> dict[JobKey, Share]:
    """So many jobs of one owner and project, each a dollar more expensive than the one before."""
    shares: dict[JobKey, Share] = {}
    for place in range(1, number + 1):
        shares[JobKey(owner, project, f"job-{place}")] = Share(
            Decimal(place), idle=Decimal("0.000000001")
        )
    return shares


def sums_of(costs: DayCosts) -> dict[tuple[str, str], Share]:
    """The sums of the day's jobs, with what has none, by owner and project."""
    sums: dict[tuple[str, str], Share] = {}
    for key, share in costs.by_job():
        sums[key.payer] = sums.get(key.payer, Share()) + share
    return sums


def test_jobs_are_kept_digit_by_digit_and_add_up_with_what_has_none(table: EveryStore) -> None:
    """Any text may be the name of a job; the amounts are those that were added."""
    day = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region)
    jobs = {
        JobKey("alice", "vision", '=HYPERLINK(1), "🚀"'): Share(Decimal("1.000000001")),
        JobKey("alice", "vision", None): Share(idle=Decimal(2)),
        JobKey("bob", "", "eval"): Share(kept=Decimal("3E-9")),
    }
    costs = day.plus(jobs)

    table._table.transact(replace_day_write(costs))

    [read] = table.days("2026-11")
    assert costs == read == table.days_of(TARGET, [day.day])[0]
    assert jobs == {key: share for key, share in read.by_job() if share.total}
    assert read.shares == sums_of(read)


def test_a_day_of_an_earlier_release_has_no_jobs(table: EveryStore) -> None:
    """Its costs belong to no job, and a sweep of this release goes on from there."""
    day = date(2026, 11, 20)
    table._table.transact(
        replace_day_write(DayCosts(day, TARGET.account, TARGET.region).plus(jobs_of(2)))
    )
    [item] = table._table.query("DAYS#2026-11")
    del item["jobs"]
    table._table.write(put((item["pk"], item["sk"]), item))

    [early] = table.days("2026-11")
    assert early.jobs is None
    assert {("alice", "vision", None): early.shares["alice", "vision"]} == dict(early.by_job())

    later = early.plus(jobs_of(1))
    table._table.transact(replace_day_write(later))
    [read] = table.days("2026-11")
    assert later == read
    assert (
        Share(Decimal(1), Decimal("1E-9"))
        == dict(read.by_job())[JobKey("alice", "vision", "job-1")]
    )
    assert Decimal("4.000000003") == sum(share.total for _, share in read.by_job())
    for counted in (early, read, read.plus(jobs_of(1))):
        assert early.shares == {
            key.payer: cost.share for key, cost in counted_costs(counted) if cost.is_before_jobs
        }


def test_costs_from_before_jobs_are_known_as_such_among_many_owners(table: EveryStore) -> None:
    """On the day of the update, also where the day has too many owners to store each."""
    chance = random.Random(1)
    names = [
        "".join(chr(chance.randrange(0x4E00, 0x9FFF)) for _ in range(256)) for _ in range(1500)
    ]
    day = date(2026, 11, 20)
    shares = {(name, "vision"): Share(used=Decimal(2)) for name in names}
    early = DayCosts(day, TARGET.account, TARGET.region, shares, jobs=None)
    table._table.transact(replace_day_write(early))
    [first] = table.days("2026-11")
    assert first.jobs is None
    table._table.transact(replace_day_write(early.plus(jobs_of(1))))

    [read] = table.days("2026-11")
    costs = [cost for _, cost in counted_costs(read)]
    before = sum(cost.share.total for cost in costs if cost.is_before_jobs)
    assert Decimal(3000) == before
    assert read.before_jobs[OTHERS].total > 2000
    assert sum(share.total for share in read.shares.values()) == sum(
        cost.share.total for cost in costs
    )


def test_damaged_costs_from_before_jobs_hide_no_day(table: EveryStore) -> None:
    """They count as costs without a job."""
    early = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region, jobs=None)
    costs = replace(early, shares={("alice", "vision"): Share(Decimal(1))}).plus(jobs_of(1))
    table._table.transact(replace_day_write(costs))
    [item] = table._table.query("DAYS#2026-11")
    for damaged in (b"x", packed([[[7, "1", "0", "0", "0"]]])[0]):
        table._table.write(put((item["pk"], item["sk"]), {**item, "before_jobs": damaged}))

        assert (replace(costs, before_jobs={}),) == table.days("2026-11")


def test_damaged_jobs_do_not_hide_the_costs_of_a_day(table: EveryStore) -> None:
    """The costs stay, without jobs."""
    costs = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region).plus(jobs_of(2))
    table._table.transact(replace_day_write(costs))
    [item] = table._table.query("DAYS#2026-11")
    for damaged in (b"x", packed([[[7, "job-1", "1", "0", "0", "0"]]])[0]):
        table._table.write(put((item["pk"], item["sk"]), {**item, "jobs": damaged}))

        assert (replace(costs, jobs=None),) == table.days("2026-11")


def test_too_many_jobs_of_a_project_are_summed_up_without_a_loss(table: EveryStore) -> None:
    """The most expensive ones are named, for each project; the sum of a day stays, however often it
    is written."""
    many = jobs_of(MOST_JOBS + 7) | jobs_of(1, owner="bob") | jobs_of(3, project="llm")
    costs = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region).plus(many)
    for _ in range(2):
        table._table.transact(replace_day_write(costs))
        [costs] = table.days("2026-11")

        assert costs.jobs is not None
        named = {key for key in costs.jobs if key.job != OTHER_JOBS and key.project == "vision"}
        assert MOST_JOBS == len(named)
        assert JobKey("alice", "vision", "job-8") in named
        assert Decimal(sum(range(1, 8))) == costs.jobs[JobKey("alice", "vision", OTHER_JOBS)].used
        assert Decimal(1) == costs.jobs[JobKey("bob", "vision", OTHER_JOBS)].used
        assert JobKey("alice", "llm", "job-1") in costs.jobs
        assert costs.shares == sums_of(costs)


@pytest.mark.parametrize(("owners", "jobs"), [(40, 40), (1_500, 1), (1, 5_000)])
def test_a_day_with_jobs_of_long_names_fits_into_an_item(
    table: EveryStore, owners: int, jobs: int
) -> None:
    """Tags of 256 characters that nothing compresses: DynamoDB takes the item, and no cost is
    lost."""
    chance = random.Random(1)

    def name() -> str:
        return "".join(map(chr, chance.choices(range(0x4E00, 0x9FFF), k=256)))

    shares: dict[JobKey, Share] = {}
    for number in range(owners):
        owner = name()
        for _ in range(jobs):
            shares[JobKey(owner, f"project-{number}", name())] = Share(used=Decimal(1))
    costs = DayCosts(date(2026, 11, 20), TARGET.account, TARGET.region).plus(shares)

    table._table.transact(replace_day_write(costs))

    [item] = table._table.query("DAYS#2026-11")
    assert len(item["shares"]) + len(item["jobs"]) < 398_000
    [read] = table.days("2026-11")
    assert read.shares == sums_of(read)
    in_jobs = sum((share.total for key, share in read.by_job() if key.job is not None), Decimal(0))
    assert owners * jobs == in_jobs == sum(share.total for share in read.shares.values())


def test_a_page_of_5000_instances_is_at_most_ten_items(table: EveryStore) -> None:
    """One more write for 500 instances; all of them in one call, so that nobody reads half a
    page."""
    rows = [replace(one, account=TARGET.account, region=TARGET.region) for one in many_rows(5_000)]
    long = page(*rows)

    assert table.keep_page(long)

    assert len(list(table._table.query("FLEET"))) <= 10
    assert (long,) == table.pages()
