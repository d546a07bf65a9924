"""The caps: any 60 minutes hold at most so many actions, whoever takes, repeats or gives back."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from governor.core.errors import CloudError, ConflictError, Throttled, Unavailable
from governor.table.table import Document, Key, Write, absent, update, where
from tests.properties import examples
from tests.twins import MemoryStateTable
from tests.twins.stores import EveryStore
from tests.twins.table import MemoryTable

NOON = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
WINDOW = timedelta(minutes=60)
TWENTY = {"ORGANIZATION": 20}
LONGEST = timedelta(minutes=63)
"""A minute counts so long from its beginning: 60 minutes, its own length, and what the call may
take."""


def reserved(table: EveryStore, names: Sequence[str], now: datetime, most: int = 20) -> int:
    """Return how many of these steps were counted."""
    return sum(
        table.reserve(name, "stop", {"ORGANIZATION": most}, now, "a") is None for name in names
    )


def names(prefix: str, count: int) -> list[str]:
    """Names of executions."""
    return [f"{prefix}{number}" for number in range(count)]


def test_the_turn_of_the_hour_opens_no_second_window(table: EveryStore) -> None:
    """Before, twice as many as the cap went through within two seconds."""
    before = NOON.replace(hour=13, minute=59, second=59)
    after = NOON.replace(hour=14, minute=0, second=1)

    assert 6 == reserved(table, names("e", 6), before, most=6)
    assert 0 == reserved(table, names("f", 6), after, most=6)
    assert {"ORGANIZATION": 6} == table.used(after)


def test_an_action_leaves_the_window_after_60_minutes(table: EveryStore) -> None:
    """Not earlier than 60 minutes after EC2 can have been called, and not much later."""
    assert 6 == reserved(table, names("e", 6), NOON + 30 * SECOND, most=6)
    room_at = table.room_at("ORGANIZATION", 6, NOON + MINUTE)

    assert NOON + LONGEST == room_at
    six = {"ORGANIZATION": 6}
    assert "ORGANIZATION" == table.full_cap("f", "stop", six, NOON + LONGEST - SECOND)
    assert 0 == reserved(table, ["f"], NOON + LONGEST - SECOND, most=6)
    assert {} == table.used(NOON + LONGEST)
    assert 6 == reserved(table, names("f", 7), NOON + LONGEST, most=6)


def test_a_step_waits_for_the_oldest_action_that_blocks_it(table: EveryStore) -> None:
    """With a cap that was lowered meanwhile, for as many as are too many; a cap of 0 opens by no
    time."""
    for minute in range(3):
        assert 1 == reserved(table, [f"e{minute}"], NOON + minute * MINUTE)
    now = NOON + 10 * MINUTE

    assert now == table.room_at("ORGANIZATION", 4, now)
    assert NOON + LONGEST == table.room_at("ORGANIZATION", 3, now)
    assert NOON + LONGEST + 2 * MINUTE == table.room_at("ORGANIZATION", 1, now)
    assert table.room_at("ORGANIZATION", 0, now) is None


def test_a_loser_gives_back_only_its_own(table: EveryStore) -> None:
    """Before, the cap stood at 0 after 8 of 60 quadruple stops."""
    for name in names("e", 3):
        for attempt in "abcd":
            assert table.reserve(name, "stop", TWENTY, NOON, attempt) is None
        for loser in "abd":
            table.give_back(name, "stop", loser)

    assert {"ORGANIZATION": 3} == table.used(NOON)


def test_a_step_without_effect_gives_back_whatever_rests_on_it(table: EveryStore) -> None:
    """An earlier attempt, too; and nothing of another step."""
    for attempt in "ab":
        assert table.reserve("e", "stop", TWENTY, NOON, attempt) is None
    assert table.reserve("f", "stop", TWENTY, NOON, "c") is None
    table.give_back_all("e", "stop")
    table.give_back_all("e", "stop")

    assert {"ORGANIZATION": 1} == table.used(NOON)
    table.give_back("e", "stop", "a")
    assert {"ORGANIZATION": 1} == table.used(NOON)


def test_what_nobody_rests_on_any_more_try_give_back(table: EveryStore) -> None:
    """By the last of them, once, in whatever order; a stranger's attempt gives back nothing."""
    for attempt in "ab":
        assert table.reserve("e", "stop", {"ORGANIZATION": 1, "OWNER#a": 1}, NOON, attempt) is None
    table.give_back("e", "stop", "stranger")
    table.give_back("e", "stop", "a")
    table.give_back("e", "stop", "a")
    assert {"ORGANIZATION": 1, "OWNER#a": 1} == table.used(NOON)
    table.give_back("e", "stop", "b")
    table.give_back("e", "stop", "b")

    assert {} == table.used(NOON)
    assert {"pk", "sk", "expires_at_epoch"} == set(table._table.get(("CAPS#e", "stop")) or {})
    assert table.reserve("f", "stop", {"ORGANIZATION": 1}, NOON, "c") is None


def test_a_repeated_step_counts_once_and_from_its_newest_attempt_on(table: EveryStore) -> None:
    """A call that EC2 takes at the second attempt is in the window from then on."""
    later = NOON + 40 * MINUTE
    assert table.reserve("e", "stop", {"ORGANIZATION": 1}, NOON, "a") is None
    assert table.reserve("e", "stop", {"ORGANIZATION": 1}, later, "b") is None

    assert {"ORGANIZATION": 1} == table.used(later)
    assert "ORGANIZATION" == table.reserve("f", "stop", {"ORGANIZATION": 1}, NOON + LONGEST, "c")
    assert {"ORGANIZATION": 1} == table.used(later + WINDOW)
    assert {} == table.used(later + LONGEST)


def test_a_step_whose_count_has_left_the_window_is_counted_anew(table: EveryStore) -> None:
    """No attempt of then holds it: the one of now gives back all of it."""
    assert table.reserve("e", "stop", {"ORGANIZATION": 1}, NOON, "a") is None
    assert table.full_cap("e", "stop", {"ORGANIZATION": 1}, NOON + LONGEST - SECOND) is None
    assert table.reserve("e", "stop", {"ORGANIZATION": 1}, NOON + LONGEST, "b") is None
    table.give_back("e", "stop", "b")

    assert {} == table.used(NOON + LONGEST)


def test_a_step_with_other_caps_than_before_is_counted_anew(table: EveryStore) -> None:
    """Its owner may have changed: it counts twice rather than nowhere."""
    assert table.reserve("e", "stop", {"ORGANIZATION": 9, "OWNER#a": 1}, NOON, "a") is None
    later = NOON + 5 * MINUTE
    assert table.reserve("e", "stop", {"ORGANIZATION": 9, "OWNER#b": 1}, later, "b") is None

    assert {"ORGANIZATION": 2, "OWNER#a": 1, "OWNER#b": 1} == table.used(later)


def test_the_steps_of_an_episode_count_each(table: EveryStore) -> None:
    """A stop and the termination after it are two actions."""
    for step in ("stop", "terminate"):
        assert table.reserve("e", step, TWENTY, NOON, "a") is None

    assert {"ORGANIZATION": 2} == table.used(NOON)


def test_a_full_cap_takes_nothing_from_the_others(table: EveryStore) -> None:
    """All or none of an action's caps count it."""
    caps = {"ORGANIZATION": 9, "ACCOUNT#1": 1, "OWNER#a": 9}
    assert table.reserve("e", "stop", caps, NOON, "a") is None
    assert "ACCOUNT#1" == table.reserve("f", "stop", caps, NOON, "a")

    assert {"ORGANIZATION": 1, "ACCOUNT#1": 1, "OWNER#a": 1} == table.used(NOON)


def test_an_item_does_not_grow_with_its_cap(table: EveryStore) -> None:
    """An action every third minute, for longer than minutes count: only those that still count, by
    clocks that are ten minutes apart, are kept."""
    minutes = (*range(0, 90, 3), 88)
    for minute in minutes:
        assert 1 == reserved(table, names(f"e{minute}-", 1), NOON + minute * MINUTE, 10_000)
    item = table._table.get(("CAPS#rolling", "ORGANIZATION")) or {}

    assert 25 == sum(name.startswith("taken_") for name in item)
    assert {"ORGANIZATION": 22} == table.used(NOON + minutes[-1] * MINUTE)


# concurrency


def at_once(calls: Sequence[Callable[[], object]]) -> None:
    """Run all of them in threads that start together."""
    start = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> None:
        start.wait(timeout=3600)
        call()

    threads = [threading.Thread(target=run, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=3600)


def test_of_60_quadruple_stops_at_once_exactly_the_cap_goes_through() -> None:
    """Four invocations of each: EC2 takes the first, refuses the others, and these give back."""
    table = MemoryStateTable()
    lock = threading.Lock()
    stopped: set[str] = set()

    def stop(name: str, attempt: str) -> None:
        if table.reserve(name, "stop", TWENTY, NOON, attempt) is not None:
            return
        with lock:
            is_refused = name in stopped
            stopped.add(name)
        if is_refused:
            table.give_back(name, "stop", attempt)

    at_once([lambda n=n, a=a: stop(n, a) for n in names("e", 60) for a in "abcd"])  # type: ignore[misc]

    assert 20 == len(stopped)
    assert {"ORGANIZATION": 20} == table.used(NOON)
    assert 0 == reserved(table, ["another"], NOON + WINDOW)


@dataclass
class Interleaved(MemoryTable):
    """Lets something else happen between the reads and the write of a reservation."""

    before_write: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def transact(self, *writes: Write) -> None:
        """Whatever is due comes first."""
        if self.before_write:
            self.before_write.pop(0)()
        super().transact(*writes)


def test_a_slot_that_another_one_took_meanwhile_is_not_taken_twice() -> None:
    """The version that was read no longer stands, so it is read again."""
    memory = Interleaved()
    table = MemoryStateTable(memory)
    one = {"ORGANIZATION": 1}
    memory.before_write.append(lambda: table.reserve("f", "stop", one, NOON, "b"))

    assert "ORGANIZATION" == table.reserve("e", "stop", one, NOON, "a")
    assert {"ORGANIZATION": 1} == table.used(NOON)


def test_a_reservation_that_its_owner_gives_back_meanwhile_carries_nobody() -> None:
    """The attempt that meant to rest on it counts the step again: no action goes uncounted."""
    memory = Interleaved()
    table = MemoryStateTable(memory)
    assert table.reserve("e", "stop", TWENTY, NOON, "a") is None
    memory.before_write.append(lambda: table.give_back("e", "stop", "a"))

    assert table.reserve("e", "stop", TWENTY, NOON, "b") is None
    assert {"ORGANIZATION": 1} == table.used(NOON)
    table.give_back("e", "stop", "b")
    assert {} == table.used(NOON)


def test_two_that_give_back_at_once_both_do() -> None:
    """The second one reads again, and ends the count."""
    memory = Interleaved()
    table = MemoryStateTable(memory)
    for attempt in "ab":
        assert table.reserve("e", "stop", TWENTY, NOON, attempt) is None
    memory.before_write.append(lambda: table.give_back("e", "stop", "b"))
    table.give_back("e", "stop", "a")

    assert {} == table.used(NOON)


class Lost(MemoryTable):
    """Every transaction meets another writer."""

    def transact(self, *_: Write) -> None:
        """Never."""
        raise ConflictError("another one was first")


def test_endless_conflicts_are_no_reached_cap() -> None:
    """Nothing is counted, and the step may be tried again."""
    table = MemoryStateTable(Lost())
    with pytest.raises(Throttled, match="at the same time"):
        table.reserve("e", "stop", TWENTY, NOON, "a")


def test_what_cannot_be_given_back_stays_counted_and_hides_no_refusal(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error that is on its way is the one that counts; the log has the other."""
    table = MemoryStateTable()
    assert table.reserve("e", "stop", TWENTY, NOON, "a") is None
    table.memory.failure = Unavailable("no answer", operation="dynamodb:GetItem")
    table.give_back("e", "stop", "a")
    table.memory.failure = None

    assert {"ORGANIZATION": 1} == table.used(NOON)
    [record] = caplog.records
    assert "e: stop stays counted against its caps" == record.getMessage()
    assert record.exc_info
    table.give_back("e", "stop", "a")
    table.give_back("e", "stop", "a")
    assert [record] == caplog.records


def test_a_reservation_that_others_keep_changing_stays_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is tried for long, and then the log says so."""
    memory = Lost()
    table = MemoryStateTable(memory)
    held = {"at": f"{NOON:%Y%m%d%H%M}", "attempts": ["a"], "caps": ["ORGANIZATION"]}
    memory.items["CAPS#e", "stop"] = {"pk": "CAPS#e", "sk": "stop", **held}
    table.give_back("e", "stop", "a")

    assert ["e: stop stays counted against its caps"] == [
        one.getMessage() for one in caplog.records
    ]


def test_an_attempt_that_the_count_does_not_rest_on_gives_nothing_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A later attempt has counted the step again. Nothing is written, so that no conflict with that
    attempt can fail."""
    memory = Lost()
    table = MemoryStateTable(memory)
    held = {"at": f"{NOON:%Y%m%d%H%M}", "attempts": ["b"], "caps": ["ORGANIZATION"]}
    memory.items["CAPS#e", "stop"] = {"pk": "CAPS#e", "sk": "stop", **held}
    table.give_back("e", "stop", "a")

    assert [] == caplog.records
    assert {"pk": "CAPS#e", "sk": "stop", **held} == memory.items["CAPS#e", "stop"]


@pytest.mark.parametrize(
    ("key", "damage"),
    [
        (("CAPS#rolling", "ORGANIZATION"), {"taken_202611": 1}),
        (("CAPS#rolling", "ORGANIZATION"), {"taken_202611271200": "many"}),
        (("CAPS#rolling", "ORGANIZATION"), {"version": "new"}),
        (("CAPS#2026112712", "ORGANIZATION"), {"taken": "many"}),
        (("CAPS#e", "stop"), {"at": "noon", "attempts": ["a"], "caps": ["ORGANIZATION"]}),
        (("CAPS#e", "stop"), {"at": "202611271200"}),
    ],
)
def test_a_count_that_cannot_be_read_lets_nothing_begin(
    key: tuple[str, str], damage: Document
) -> None:
    """And the error names the item."""
    table = MemoryStateTable()
    table._table.write(update(key, damage))

    with pytest.raises(CloudError, match=f"{key[0]} / {key[1]} cannot be read"):
        table.reserve("e", "stop", TWENTY, NOON, "a")


# any order of calls


@dataclass
class Caller:
    """A step's own account of what it did."""

    name: str
    began: dict[str, datetime] = field(default_factory=dict)


_CALLS = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from("abc"),
        st.sampled_from(["take", "take", "take", "back"]),
        st.sampled_from([0, 0, 1, 7, 13, 59, 60, 61]),
        st.integers(0, 59),
    ),
    max_size=40,
)


@settings(max_examples=examples(100, 1_000))
@given(calls=_CALLS, start=st.integers(0, 59))
def test_no_60_minutes_hold_more_than_the_cap(
    calls: list[tuple[int, str, str, int, int]], start: int
) -> None:
    """Whatever is repeated and given back, at whatever minutes: an action that was not given back
    is one that EC2 took in its newest attempt. No room is lost either: what is counted has an
    attempt behind it."""
    table = MemoryStateTable()
    now = NOON + start * MINUTE
    standing: dict[str, dict[str, datetime]] = {}
    counted_at: dict[str, datetime] = {}
    ended: list[datetime] = []
    for number, attempt, call, minutes, seconds in calls:
        now += minutes * MINUTE + seconds * SECOND
        name = f"e{number}"
        attempts = standing.setdefault(name, {})
        if call == "back":
            attempts.pop(attempt, None)
            table.give_back(name, "stop", attempt)
            continue
        before = counted_at.get(name)
        if table.reserve(name, "stop", {"ORGANIZATION": 2}, now, attempt) is not None:
            continue
        if attempts and before is not None and before.replace(second=0) + LONGEST <= now:
            ended.append(max(attempts.values()))
            attempts.clear()
        attempts[attempt] = counted_at[name] = now
    began = [max(one.values()) for one in standing.values() if one] + ended

    for moment in began:
        assert 2 >= sum(moment <= other < moment + WINDOW for other in began)
    surely = sum(max(one.values()) > now - WINDOW for one in standing.values() if one)
    # A count stays where the newest attempt moved it, also if that one gave back: it holds back for
    # longer.
    perhaps = sum(counted_at[name] > now - LONGEST for name, one in standing.items() if one)
    assert surely <= table.used(now).get("ORGANIZATION", 0) <= perhaps


_ACTORS = st.lists(
    st.tuples(st.sampled_from(["e", "f", "g"]), st.sampled_from(["keeps", "gives back"])),
    min_size=2,
    max_size=6,
)


class Turns(MemoryTable):
    """Hands the turn to another actor before each request, as a drawn order says."""

    def __init__(self, order: Sequence[int], actors: int) -> None:
        super().__init__()
        self._order = list(order)
        self._waiting = [threading.Event() for _ in range(actors)]
        self._ended: set[int] = set()
        self.mine = threading.local()

    def get(self, key: tuple[str, str]) -> Document | None:
        """After its turn came."""
        self._wait()
        return super().get(key)

    def get_all(self, keys: Sequence[tuple[str, str]]) -> list[Document]:
        """After its turn came."""
        self._wait()
        return super().get_all(keys)

    def write(self, one: Write) -> Document:
        """After its turn came, without the lock: whoever holds it would keep the others from their
        turns. Only one writer acts at a time anyway."""
        self.transact(one)
        return dict(self.items[one.key]) if one.returns_item else {}

    def transact(self, *writes: Write) -> None:
        """After its turn came."""
        self._wait()
        super().transact(*writes)

    def start(self) -> None:
        """Let the first one go on."""
        self._next()

    def end(self, number: int) -> None:
        """Let the others go on without it."""
        self._ended.add(number)
        self._next()

    def _wait(self) -> None:
        number = getattr(self.mine, "number", None)
        if number is None:
            return
        if getattr(self.mine, "began", False):
            self._next()
        self.mine.began = True
        assert self._waiting[number].wait(timeout=3600)
        self._waiting[number].clear()

    def _next(self) -> None:
        left = [number for number in range(len(self._waiting)) if number not in self._ended]
        if left:
            drawn = self._order.pop(0) if self._order else 0
            self._waiting[left[drawn % len(left)]].set()


@settings(max_examples=examples(25, 300))
@given(actors=_ACTORS, order=st.lists(st.integers(0, 5), max_size=120))
@example(
    # One gives back while another rests on the same count, and the third waits for its turn.
    actors=[("e", "keeps"), ("e", "gives back"), ("e", "keeps")],
    order=[0, 0, 0, 0, 0, 0, 1, 0, 1, 0],
)
def test_no_interleaving_passes_a_cap_or_loses_a_count(
    actors: list[tuple[str, str]], order: list[int]
) -> None:
    """Every request of every writer in a drawn order: of three steps two begin, and each counts
    once while an attempt of it stands."""
    memory = Turns(order, len(actors))
    table = MemoryStateTable(memory)
    took: dict[int, bool] = {}

    def act(number: int, name: str, then: str) -> None:
        memory.mine.number = number
        try:
            took[number] = (
                table.reserve(name, "stop", {"ORGANIZATION": 2}, NOON, str(number)) is None
            )
            if took[number] and then == "gives back":
                table.give_back(name, "stop", str(number))
        finally:
            memory.mine.number = None
            memory.end(number)

    threads = [
        threading.Thread(target=act, args=(number, name, then))
        for number, (name, then) in enumerate(actors)
    ]
    for thread in threads:
        thread.start()
    memory.start()
    for thread in threads:
        thread.join(timeout=3600)

    assert len(actors) == len(took)
    stand = {name for number, (name, then) in enumerate(actors) if took[number] and then == "keeps"}
    assert len(stand) == table.used(NOON).get("ORGANIZATION", 0) <= 2
    wanted = Counter(name for name, _ in actors)
    if all(then == "keeps" for _, then in actors):
        assert min(2, len(wanted)) == len(stand)


# the release before


def count_before(table: EveryStore, cap: str, now: datetime, most: int) -> bool:
    """Count an action as the release before does, in its clock hour; false where its cap is
    reached."""
    room = absent("taken") | where("taken", "<", most)
    return table._table.try_write(update((f"CAPS#{now:%Y%m%d%H}", cap), {}, room, add={"taken": 1}))


@pytest.mark.parametrize("minutes", [0, 1, 59, 61, 119])
def test_what_the_release_before_counted_counts_for_its_hour_and_the_next(
    table: EveryStore, minutes: int
) -> None:
    """It may have begun at the end of its hour: at the update no more than the cap goes through."""
    for _ in range(15):
        assert count_before(table, "ORGANIZATION", NOON, 20)
    now = NOON + minutes * MINUTE + timedelta(seconds=7, microseconds=5)

    assert {"ORGANIZATION": 15} == table.used(now)
    assert 5 == reserved(table, names("e", 20), now)
    assert {"ORGANIZATION": 20} == table.used(now)
    assert NOON + 120 * MINUTE == table.room_at("ORGANIZATION", 15, now)


def test_what_the_release_before_counted_leaves_after_two_hours(table: EveryStore) -> None:
    """60 minutes after its hour."""
    for _ in range(20):
        assert count_before(table, "ORGANIZATION", NOON, 20)

    assert 20 == reserved(table, names("e", 21), NOON + 120 * MINUTE)


def test_a_function_of_the_release_before_takes_nothing_more(table: EveryStore) -> None:
    """It may still run while the new one counts; neither adds to what the other counted."""
    for _ in range(15):
        assert count_before(table, "ORGANIZATION", NOON, 20)
    assert 1 == reserved(table, ["e"], NOON + MINUTE)

    assert not count_before(table, "ORGANIZATION", NOON + 2 * MINUTE, 20)
    assert not count_before(table, "ORGANIZATION", NOON + 2 * MINUTE, 10_000)
    assert {"ORGANIZATION": 16} == table.used(NOON + 2 * MINUTE)


def test_counts_are_kept_for_two_days_after_the_last_write(table: EveryStore) -> None:
    """DynamoDB deletes no count that still holds actions back, and none stays forever. A counter of
    the release before is closed once, and not written again."""
    counts, closed = ("CAPS#rolling", "ORGANIZATION"), ("CAPS#2026112712", "ORGANIZATION")
    two_days = timedelta(days=2)
    assert count_before(table, "ORGANIZATION", NOON, 20)
    for minute in range(2):
        assert 1 == reserved(table, [f"e{minute}"], NOON + minute * MINUTE)

    assert NOON + MINUTE + two_days == expiry(table, counts)
    assert NOON + two_days == expiry(table, closed)


def expiry(table: EveryStore, key: Key) -> datetime:
    """Return when DynamoDB may delete the item at this key."""
    item = table._table.get(key)
    assert item is not None
    return datetime.fromtimestamp(item["expires_at_epoch"], UTC)


def test_a_function_of_the_release_before_that_counts_meanwhile_is_counted() -> None:
    """Between the reads and the write: it is read again."""
    memory = Interleaved()
    table = MemoryStateTable(memory)
    for _ in range(19):
        assert count_before(table, "ORGANIZATION", NOON, 20)
    memory.before_write.append(lambda: count_before(table, "ORGANIZATION", NOON, 20))

    assert "ORGANIZATION" == table.reserve("e", "stop", TWENTY, NOON, "a")


def test_a_reservation_of_the_release_before_is_counted_again(table: EveryStore) -> None:
    """It stays in its hour's counter, so the step may count twice; that only holds actions back."""
    assert count_before(table, "ORGANIZATION", NOON, 20)
    old = {"hour": f"{NOON:%Y%m%d%H}", "caps": ["ORGANIZATION"]}
    table._table.write(update(("CAPS#e", "stop"), old))

    assert table.reserve("e", "stop", TWENTY, NOON, "a") is None
    assert {"ORGANIZATION": 2} == table.used(NOON)
    kept = table._table.get(("CAPS#e", "stop")) or {}
    assert "hour" not in kept, "the release before would give it back by that"
    assert int((NOON + timedelta(days=90)).timestamp()) == kept["expires_at_epoch"]
    table.give_back("e", "stop", "a")
    assert {"ORGANIZATION": 1} == table.used(NOON)
