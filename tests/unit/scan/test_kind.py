"""A place keeps answers for a scan, and lines about what is missing."""

from __future__ import annotations

import threading
import time

import pytest

from governor.core.errors import CloudError
from governor.scan.kind import Kept
from tests.unit.scan.kinds import place


def test_a_kept_answer_is_asked_for_once_by_all_threads() -> None:
    """The others wait for the first."""
    kept = Kept()
    asked: list[str] = []

    def ask() -> int:
        """Return the answer after a moment."""
        time.sleep(0.01)
        asked.append("x")
        return 1

    threads = [threading.Thread(target=kept.get, args=(("a",), ask)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["x"] == asked
    assert 2 == kept.get(("b",), lambda: 2)


def test_an_answer_that_failed_is_asked_for_again() -> None:
    """An error is not kept."""
    kept = Kept()
    with pytest.raises(CloudError):
        kept.get(("a",), _fail)
    assert 1 == kept.get(("a",), lambda: 1)


def _fail() -> int:
    """Fail as a call does."""
    raise CloudError("no answer")


def test_one_line_stands_for_all_refusals_of_an_operation() -> None:
    """A thousand endpoints without tags are one line."""
    where = place()
    for words in ("first", "second"):
        where.could_not_read("tags", CloudError("x", operation="s:ListTags", words=words))
    where.could_not_read("prices", CloudError("x", operation="s:ListTags", words="other topic"))
    assert ["first", "other topic"] == [line.reason for line in where.unread]


def test_a_record_that_cannot_be_read_is_left_out_and_reported() -> None:
    """The others are there, but for those that are `None`."""
    where = place()
    records = [{"a": 1}, {}, {"a": None}, {"a": 2}]
    read = list(where.read_each("things", "s:List", records, lambda record: record["a"]))
    assert [1, 2] == read
    (line,) = where.unread
    assert "s:List" == line.operation
    assert not line.is_missing_right
