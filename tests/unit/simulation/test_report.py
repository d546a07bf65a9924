"""The figures add up, whatever they are shown as."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

from governor.policy.model.acting import Action, PlanRule
from simulation import report
from simulation.outcome import Replay
from tests.builders import make_instance
from tests.unit.simulation.builders import BUSY, IDLE, bins, by_window, make_recording, run


def named(number: int, owner: str, **changes: object) -> dict[str, object]:
    """Keywords for an instance of its own."""
    tags = {"Owner": owner, "Name": f"node-{number}"}
    return {"instance": make_instance(instance_id=f"i-{number:017x}", tags=tags), **changes}


def fleet() -> Replay:
    """One hit at once, one later, one at rest to the end and unpriced, one that works."""
    return run(
        make_recording(bins((BUSY, 1), (IDLE, 2), (BUSY, 9)), **named(1, "ann")),  # type: ignore[arg-type]
        make_recording(bins((BUSY, 1), (IDLE, 6), (BUSY, 5)), **named(2, "ann")),  # type: ignore[arg-type]
        make_recording(bins((BUSY, 1), (IDLE, 11)), price=None, **named(3, "bob")),  # type: ignore[arg-type]
        make_recording(bins((BUSY, 12)), **named(4, "cyn")),  # type: ignore[arg-type]
    )


def test_a_summary_counts_what_happened() -> None:
    """Hits by how soon, questions by owner, money without what is unpriced."""
    one = report.summarize(fleet())
    assert (4, 3, 3, {"ann": 2, "bob": 1}) == (
        one.instances,
        one.instances_asked,
        one.asks,
        one.asks_by_owner,
    )
    assert (3, 1, 1, 1) == (one.stops, one.hit_within_an_hour, one.hit_later, one.unpriced_stops)
    assert Decimal(19) == one.idle_hours
    assert one.idle_hours == one.idle_hours_left + one.hours_saved
    priced = [event.stop for result in fleet().results for event in result.events if event.stop]
    assert sum(stop.usd for stop in priced if stop.usd is not None) == one.usd_saved


def test_the_table_has_a_column_for_every_policy() -> None:
    """In the order in which they were given."""
    told = run(
        make_recording(bins((IDLE, 12)), **named(1, "ann")),  # type: ignore[arg-type]
        policy=by_window(plan=PlanRule(action=Action.NOTIFY_ONLY)),
    )
    text = report.table([report.summarize(fleet()), report.summarize(replace(told, name="told"))])
    lines = {line[:38].strip(): line[38:].split() for line in text.splitlines()}
    assert ["test", "told"] == text.splitlines()[0].split()
    assert ["3", "0"] == lines["questions"]
    assert ["0", "1"] == lines["notified only, no plan possible"]
    assert ["2", "0"] == lines["ann"]
    assert "(1 unpriced)" in text


def test_owners_have_no_heading_where_nobody_is_asked() -> None:
    quiet = run(make_recording(bins((BUSY, 12)), **named(1, "ann")))  # type: ignore[arg-type]
    assert "questions by owner" in report.table([report.summarize(fleet())])
    text = report.table([report.summarize(quiet)])
    assert "by owner" not in text
    assert text.splitlines()[-1].startswith("times the breaker")


def test_a_terminal_is_sent_no_control_characters() -> None:
    """Tags are whatever somebody chose."""
    replay = run(make_recording(bins((IDLE, 12)), **named(1, "\x1b[2Jann")))  # type: ignore[arg-type]
    assert "\x1b" not in report.table([report.summarize(replay)])


def test_json_holds_every_event() -> None:
    """With amounts as strings, exact to the cent."""
    found = json.loads(report.document([fleet()], ["a note"]))
    (policy,) = found["policies"]
    assert (["a note"], 3, 4) == (found["notes"], policy["stops"], len(policy["instances"]))
    first = policy["instances"][0]["events"][0]
    assert ("2026-11-02T02:05:00Z", "2026-11-02T02:35:00Z", "2026-11-02T03:00:00Z", True) == (
        first["asked_at"],
        first["stop"]["at"],
        first["stop"]["until"],
        first["stop"]["hit_work"],
    )
    assert policy["instances"][2]["events"][0]["stop"]["usd"] is None
    assert Decimal(policy["usd_saved"]) > 0


def test_a_sentence_says_what_a_policy_saves_and_hits() -> None:
    """In hours where nothing has a price."""
    one = report.summarize(fleet())
    assert (
        "test would have saved $4.80; 1 of 3 stops hit work that resumed within an hour."
        == report.sentence(one)
    )
    unpriced = report.summarize(run(make_recording(bins((BUSY, 1), (IDLE, 11)), price=None)))
    assert (
        "test would have saved 9 h; 0 of 1 stop hit work that resumed within an hour."
        == report.sentence(unpriced)
    )
