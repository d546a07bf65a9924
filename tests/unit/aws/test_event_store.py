"""One suite over the event log and its in-memory twin, and what only DynamoDB must promise."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.core.errors import ConflictError, Throttled
from governor.events.model.notice import Notice
from tests.twins import MemoryEventLog
from tests.twins.stores import EveryEventStore, EveryStore
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.aws.state_samples import NOW, TABLE, TARGET, create_table

LEASE = timedelta(seconds=30)
DAY = timedelta(days=1)
LATER = NOW.replace(microsecond=0) + timedelta(days=14)
WINDOW = timedelta(minutes=10)
SAID = NOW.replace(microsecond=0)
BEFORE = SAID - timedelta(hours=1)


@pytest.fixture
def log(table: EveryStore) -> EveryEventStore:
    """Over each table, empty."""
    return EveryEventStore(table._table)


def test_what_is_done_is_not_claimed_again_while_it_is_kept(log: EveryEventStore) -> None:
    """A repeated event finds it done; another event is another matter."""
    assert log.claim("event-1", NOW, LEASE)
    log.done("event-1", NOW, DAY)

    assert not log.claim("event-1", NOW + timedelta(hours=23), LEASE)
    assert log.claim("event-2", NOW, LEASE)
    assert log.claim("event-1", NOW + timedelta(hours=25), LEASE)


def test_a_claim_that_came_to_nothing_lapses(log: EveryEventStore) -> None:
    """Whoever failed is made up for by the repetition, a minute later."""
    assert log.claim("event-1", NOW, LEASE)

    assert not log.claim("event-1", NOW + timedelta(seconds=29), LEASE)
    assert log.claim("event-1", NOW + timedelta(seconds=31), LEASE)


def test_warnings_of_a_zone_are_counted_from_the_first(log: EveryEventStore) -> None:
    """One, two, three; after the window it begins anew, and each zone, Region and account has its
    own."""
    counted = [
        log.count_one_more(TARGET, "interruption#a", NOW + timedelta(minutes=m), WINDOW)
        for m in (0, 1, 9)
    ]
    assert [1, 2, 3] == [burst.number for burst in counted]
    assert 1 == len({burst.started_at for burst in counted})

    assert 1 == log.count_one_more(TARGET, "interruption#b", NOW, WINDOW).number
    assert (
        1
        == log.count_one_more(
            replace(TARGET, region="eu-west-1"), "interruption#a", NOW, WINDOW
        ).number
    )
    anew = log.count_one_more(TARGET, "interruption#a", NOW + timedelta(minutes=11), WINDOW)
    assert (1, True) == (anew.number, anew.started_at > counted[0].started_at)


def test_of_many_at_once_each_counts_once_and_one_claims() -> None:
    """Twenty warnings in one moment are numbers 1 to 20, and one of them does what is to be done.

    By the twin alone: moto checks and writes in two steps. DynamoDB's own atom is a conditional
    update.
    """
    log = MemoryEventLog()

    def at_once(act: Callable[[], int]) -> list[int]:
        with ThreadPoolExecutor(20) as pool:
            return list(pool.map(lambda _: act(), range(20)))

    numbers = at_once(lambda: log.count_one_more(TARGET, "interruption#a", NOW, WINDOW).number)
    claims = at_once(lambda: log.claim("event-1", NOW, LEASE))

    assert list(range(1, 21)) == sorted(numbers)
    assert 1 == sum(claims)


def test_a_count_that_another_began_is_counted_on() -> None:
    """Two warnings find no count, one begins it: the other is its second."""
    lost = client_error("ConditionalCheckFailedException")
    second = {"started_at_epoch": {"N": str(int(NOW.timestamp()))}, "warnings": {"N": "2"}}
    client = ScriptedClient(update_item=[lost, lost, {"Attributes": second}])

    burst = EveryEventStore(DynamoTable(FakeClients(client), TABLE)).count_one_more(
        TARGET, "interruption#a", NOW, WINDOW
    )

    assert (2, NOW.replace(microsecond=0)) == (burst.number, burst.started_at)
    assert [
        "#started_at_epoch > :1",
        "(attribute_not_exists(#pk)) OR (#started_at_epoch <= :3)",
    ] == [call["ConditionExpression"] for _, call in client.calls[:2]]


BLOCK = Notice(
    TARGET.account, TARGET.region, "cr-1", "Capacity Block ends", LATER, SAID, reservation_id="cr-1"
)
RETIREMENT = Notice(
    TARGET.account, TARGET.region, "arn:1", "AWS schedules", LATER, SAID, instance_id="i-1"
)


def keep(log: EveryEventStore, notice: Notice, *, remind: bool = True, **changes: Any) -> bool:
    """Keeps it with these changes."""
    return log.keep_notice(replace(notice, **changes), remind=remind)


def test_announced_dates_come_back_as_they_were(log: EveryEventStore) -> None:
    """A new date replaces the old one; what is over is gone; each Region has its own."""
    moved = replace(RETIREMENT, at=LATER + DAY)
    assert all(keep(log, notice) for notice in (RETIREMENT, BLOCK, moved))

    assert {moved, BLOCK} == set(log.notices(TARGET))
    assert [] == list(log.notices(replace(TARGET, region="eu-west-1")))

    log.drop_notice(moved)
    log.drop_notice(replace(moved, source_id="never known"))
    assert [BLOCK] == list(log.notices(TARGET))


def test_a_change_that_an_earlier_release_stored_reads_as_one_of_this_release(
    log: EveryEventStore,
) -> None:
    """That release stored the words before it, too."""
    what = "persistent instance retirement"
    assert keep(log, RETIREMENT, what=f"AWS schedules: {what}")

    assert [replace(RETIREMENT, what=what)] == list(log.notices(TARGET))


def test_what_was_said_before_changes_nothing(log: EveryEventStore) -> None:
    """Neither the date, nor that it is over; the same moment's word is taken, but does not open
    again."""
    assert keep(log, RETIREMENT)
    assert not keep(log, RETIREMENT, at=LATER + DAY, said_at=BEFORE)
    assert not keep(log, RETIREMENT, at=None, said_at=BEFORE)
    log.drop_notice(replace(RETIREMENT, said_at=BEFORE))
    assert [RETIREMENT] == list(log.notices(TARGET))

    log.drop_notice(RETIREMENT)
    assert not keep(log, RETIREMENT)
    assert not keep(log, RETIREMENT, at=None)
    assert not keep(log, RETIREMENT, said_at=BEFORE)
    assert [] == list(log.notices(TARGET))
    assert keep(log, RETIREMENT, said_at=LATER)
    assert [LATER] == [one.said_at for one in log.notices(TARGET)]


def test_what_is_not_to_be_reminded_of_has_its_place_in_the_order_all_the_same(
    log: EveryEventStore,
) -> None:
    """It replaces the date before it."""
    assert keep(log, RETIREMENT)
    assert keep(log, RETIREMENT, at=LATER - DAY, said_at=SAID + DAY, remind=False)
    assert [] == list(log.notices(TARGET))
    assert not keep(log, RETIREMENT)


def test_the_same_date_again_leaves_the_reminder_as_it_is(log: EveryEventStore) -> None:
    """So does a word without a date; both are the latest word from then on."""
    assert keep(log, RETIREMENT)
    assert keep(log, RETIREMENT, said_at=SAID + DAY, remind=False)
    assert keep(log, RETIREMENT, at=None, said_at=SAID + 2 * DAY, remind=False)

    assert [replace(RETIREMENT, said_at=SAID + 2 * DAY)] == list(log.notices(TARGET))
    assert not keep(log, RETIREMENT, at=LATER + DAY, said_at=SAID + DAY)


def test_a_word_without_a_date_is_kept_in_order_too(log: EveryEventStore) -> None:
    """Though there is nothing to remind of."""
    assert keep(log, RETIREMENT, at=None, remind=False)
    assert keep(log, RETIREMENT, at=None, remind=False)
    assert not keep(log, RETIREMENT, said_at=BEFORE)
    assert [] == list(log.notices(TARGET))


def test_a_busy_table_is_said_at_once() -> None:
    """No repetition of its own: two minutes are not to be spent waiting."""
    client = ScriptedClient(update_item=[client_error("ThrottlingException")])
    clients = FakeClients(client)

    with pytest.raises(Throttled):
        EveryEventStore(DynamoTable(clients, TABLE)).claim("event-1", NOW, LEASE)
    assert ([("dynamodb", None, False)], [False]) == (clients.asked, clients.long_timeout)


def test_a_count_that_keeps_losing_says_so() -> None:
    """It does not try for ever."""
    client = ScriptedClient(update_item=lambda **_: client_error("ConditionalCheckFailedException"))

    with pytest.raises(ConflictError):
        EveryEventStore(DynamoTable(FakeClients(client), TABLE)).count_one_more(
            TARGET, "interruption#a", NOW, WINDOW
        )
    assert 6 == len(client.calls)


def test_what_is_kept_goes_by_itself(aws: Clients) -> None:
    """Every item has a time to live."""
    client = aws.client("dynamodb")
    create_table(client)
    log = EveryEventStore(DynamoTable(aws, TABLE))
    log.done("event-1", NOW, DAY)
    log.count_one_more(TARGET, "interruption#a", NOW, WINDOW)
    keep(log, BLOCK)
    keep(log, RETIREMENT, at=None)
    log.drop_notice(replace(RETIREMENT, source_id="arn:2"))

    lives = [int(item["expires_at_epoch"]["N"]) for item in client.scan(TableName=TABLE)["Items"]]

    month = 30 * DAY
    ends = [NOW + DAY, NOW + WINDOW + DAY, SAID + month, LATER + month, LATER + month]
    assert [int(end.timestamp()) for end in ends] == sorted(lives)


def test_what_people_were_told_is_known_until_its_time_is_over(log: EveryEventStore) -> None:
    """A later call moves the end; other targets know nothing of it."""
    log.note_known(TARGET, [], NOW)
    log.note_known(TARGET, ["i-1#hot", "i-2#hot"], NOW + timedelta(hours=1))
    log.note_known(TARGET, ["i-2#hot", "i-2#hot"], NOW + timedelta(hours=3))

    assert {"i-1#hot", "i-2#hot"} == set(log.known_keys(TARGET, NOW))
    assert {"i-2#hot"} == set(log.known_keys(TARGET, NOW + timedelta(hours=2)))
    assert not log.known_keys(TARGET, NOW + timedelta(hours=3))
    assert not log.known_keys(replace(TARGET, region="eu-west-1"), NOW)


def test_a_flood_of_findings_is_kept_in_few_calls(log: EveryEventStore) -> None:
    """Fifty instances with eight GPUs each: more than any batch and any page of what is written."""
    keys = {f"i-{number // 8}#hot#{number % 8}" for number in range(400)}
    log.note_known(TARGET, keys, NOW + timedelta(hours=1))

    assert keys == set(log.known_keys(TARGET, NOW))
