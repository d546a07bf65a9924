"""What the benchmarks time is what they say: each small one runs once, so that a new rule cannot empty it."""

from __future__ import annotations

import pytest

from benchmarks import console, judge, parsing


@pytest.mark.parametrize("idle_share", [0.0, 0.5, 1.0])
def test_as_many_are_judged_idle_as_are_timed(idle_share: float) -> None:
    """It raises where others are; what is timed is then another rule's work."""
    assert judge.measure(idle_share, instances=20) > 0


def test_the_pages_of_the_console_take_at_most_ten_reads() -> None:
    """Of the table, with the session and the version of the policy, however many instances there are."""
    for one in console.measure(instances=40, runs=1):
        assert one.reads <= 10, one
        assert one.milliseconds > 0


def test_every_protocol_of_cloudwatch_is_read_by_our_own_parser_of_times() -> None:
    """Whichever the client speaks, its points arrive; botocore's parser takes several times as long."""
    readings = parsing.measure(series=40, runs=3)

    assert {"smithy-rpc-v2-cbor", "json", "query"} == {one.protocol for one in readings}
    assert all(one.unmended > one.microseconds for one in readings), readings
