"""Where an execution is, in the message of a wait that was given up."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from local.engine.whereabouts import whereabouts

DEFINITION = {
    "States": {
        "Ask": {"Type": "Task", "TimeoutSeconds": 120},
        "AwaitAnswer": {"Type": "Task", "TimeoutSecondsPath": "$.approval.remind_after_seconds"},
        "WaitToAct": {"Type": "Wait", "SecondsPath": "$.recheck.wait_seconds"},
        "Decision?": {"Type": "Choice"},
    }
}


def _entered(name: str, second: int, given: Any = None) -> dict[str, Any]:
    return {
        "type": "StateEntered",
        "timestamp": datetime(2026, 11, 28, 8, 46, second, tzinfo=UTC),
        "stateEnteredEventDetails": {"name": name, "input": json.dumps(given or {})},
    }


def _event(kind: str, second: int, **details: Any) -> dict[str, Any]:
    at = datetime(2026, 11, 28, 8, 46, second, tzinfo=UTC)
    return {"type": kind, "timestamp": at, **details}


def test_a_question_that_waits_for_its_answer() -> None:
    """Its timer goes by as fast as the cloud's."""
    given = {"approval": {"remind_after_seconds": 14_400}}
    events = [
        _entered("Ask", 1),
        _entered("AwaitAnswer", 17, given),
        _event("TaskScheduled", 18),
    ]

    assert (
        "in AwaitAnswer since 08:46:17, last event TaskScheduled at 08:46:18, due at 08:58:17"
        == whereabouts(events, DEFINITION, 0.05)
    )


def test_a_wait_and_the_error_before_it() -> None:
    events = [
        _event("TaskFailed", 2, taskFailedEventDetails={"error": "SnapshotUnderWay"}),
        _entered("WaitToAct", 3, {"recheck": {"wait_seconds": 900}}),
    ]

    assert (
        "in WaitToAct since 08:46:03, last event StateEntered at 08:46:03, "
        "last error SnapshotUnderWay, due at 08:46:48" == whereabouts(events, DEFINITION, 0.05)
    )


def test_a_state_without_a_timer() -> None:
    """Also one that the definition no longer has, one whose time-out is constant and not scaled,
    and a path that leads nowhere."""
    for name in ("Decision?", "Gone", "Ask", "AwaitAnswer"):
        found = whereabouts([_entered(name, 5)], DEFINITION, 1.0)

        assert f"in {name} since 08:46:05, last event StateEntered at 08:46:05" == found


def test_an_execution_that_has_just_begun() -> None:
    assert "in no state yet" == whereabouts([_event("ExecutionStarted", 1)], DEFINITION, 1.0)
