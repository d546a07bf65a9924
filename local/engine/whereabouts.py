"""Where an execution of a state machine is: for the message of a wait that was given up.

Reads the history and the definition of the execution alone, so it knows no workflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

_TIMERS = ("SecondsPath", "Seconds", "TimeoutSecondsPath")
"""Timers that go by faster in a scaled cloud. The constant `TimeoutSeconds` of a task does not, and
its last event says enough."""


def whereabouts(
    events: Sequence[Mapping[str, Any]], definition: Mapping[str, Any], wait_scale: float
) -> str:
    """Return the present state, its last event, and when its timer is due, as in
    `in AwaitAnswer since 08:46:17, last event TaskScheduled at 08:46:17, due at 08:58:17`.

    `events` is the history, oldest first. `wait_scale` is that of the cloud, by which its waits go
    by faster.
    """
    entered = [one for one in events if "stateEnteredEventDetails" in one]
    if not entered:
        return "in no state yet"
    present = entered[-1]
    details = present["stateEnteredEventDetails"]
    last = events[-1]
    parts = [
        f"in {details['name']} since {_clock(present)}",
        f"last event {last['type']} at {_clock(last)}",
    ]
    failed = [one["taskFailedEventDetails"] for one in events if "taskFailedEventDetails" in one]
    if failed:
        parts.append(f"last error {failed[-1].get('error')}")
    state = definition["States"].get(details["name"], {})
    seconds = _seconds(state, details.get("input", "{}"))
    if seconds is not None:
        due = present["timestamp"] + timedelta(seconds=seconds * wait_scale)
        parts.append(f"due at {due:%H:%M:%S}")
    return ", ".join(parts)


def _seconds(state: Mapping[str, Any], text: str) -> float | None:
    """Return for how long a state waits, before it is scaled; `None` if it has no such timer.
    `text` is its input as JSON."""
    for name in _TIMERS:
        if name not in state:
            continue
        if not name.endswith("Path"):
            return float(state[name])
        found = _at(json.loads(text), state[name])
        return None if found is None else float(found)
    return None


def _at(document: Any, path: str) -> Any:
    """Return what a reference path such as `$.a.b` leads to; `None` if it leads nowhere."""
    for name in path.split(".")[1:]:
        if not isinstance(document, Mapping):
            return None
        document = document.get(name)
    return document


def _clock(event: Mapping[str, Any]) -> str:
    return f"{event['timestamp']:%H:%M:%S}"
