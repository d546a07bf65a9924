"""The history of an execution stays under Step Functions' limit, however long its policy lets it
wait.

Source: Step Functions quotas, "Maximum execution history size: 25,000 events". Each failed attempt
that is repeated adds three; a fault that lasts ends the execution after some attempts, so 5,000 are
left for those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.ask_owner import QUIET_AT_MOST
from governor.episode.model.plan import Until
from governor.limits.freezes import wait_before_next_check
from governor.remediation.check_progress import NOTICE_PAUSE_SECONDS, pause_seconds
from tests.unit.template.machines import ROOT

MOST = 20_000
MACHINE = json.loads((ROOT / "statemachines/remediation.asl.json").read_text())
STATES: dict[str, Any] = MACHINE["States"]
SCHEMA = json.loads((ROOT / "examples/policy.schema.json").read_text())
SHORTEST = timedelta(minutes=1)


def events(name: str) -> int:
    """Return the events of one pass: a task is entered, scheduled, started, ended and left."""
    state = STATES[name]
    if state["Type"] != "Task":
        return 2
    return 6 if state["Resource"].endswith(".waitForTaskToken") else 5


def following(name: str) -> set[str]:
    state = STATES[name]
    branches = [state, *state.get("Choices", ()), *state.get("Catch", ())]
    found = {one[key] for one in branches for key in ("Next", "Default") if key in one}
    return found & STATES.keys()


def _ways(at: str, end: str, passed: frozenset[str]) -> Iterator[int]:
    """Yield the events of each way back to a wait that passes no other wait, and no state twice."""
    for name in following(at):
        if name == end:
            yield events(at)
        elif name not in passed and STATES[name]["Type"] != "Wait":
            for others in _ways(name, end, passed | {name}):
                yield events(at) + others


def longest_round(wait: str, without: str = "") -> int:
    """Return the most events from one entry of a wait to the next."""
    return max(_ways(wait, wait, frozenset({without})))


def longest_way() -> int:
    """Return the most events of an execution that waits nowhere twice: each state at most once."""
    return sum(map(events, STATES))


def rounds(limit: timedelta, wait_after: Callable[[timedelta], timedelta]) -> int:
    """Return how often something is looked at within the limit."""
    waited = timedelta(0)
    number = 1
    while waited < limit:
        waited += wait_after(waited)
        number += 1
    return number


def limit(section: str, name: str) -> timedelta:
    """Return the longest time that a policy may set."""
    setting = _setting(section, name)
    numbers = {one for one in _numbers(setting) if one > 0}
    unit = "hours" if name.endswith("_hours") else "minutes"
    return timedelta(**{unit: max(numbers)})


def _setting(section: str, name: str) -> Any:
    found = SCHEMA["properties"][section]
    if "$ref" in found:
        found = SCHEMA["$defs"][found["$ref"].rpartition("/")[2]]
    return found["properties"][name]


def _numbers(setting: Any) -> Iterator[float]:
    if "maximum" in setting:
        yield setting["maximum"]
    for one in setting.get("anyOf", ()):
        yield from _numbers(one)


def looks(until: Until) -> Callable[[timedelta], timedelta]:
    return lambda waited: timedelta(seconds=pause_seconds(waited, until))


def of_progress() -> int:
    """Stop, snapshots and termination, each until its limit."""
    stop_limit = limit("plan", "stop_limit_minutes")
    snapshot_limit = limit("plan", "snapshot_limit_minutes")
    return (
        longest_round("WaitForStop") * rounds(stop_limit, looks(Until.STOPPED))
        + longest_round("WaitForSnapshots")
        * rounds(snapshot_limit, looks(Until.SNAPSHOTS_COMPLETED))
        + longest_round("WaitForTermination") * rounds(stop_limit, looks(Until.TERMINATED))
    )


def of_waiting() -> int:
    """Before the stop, after it until the snapshots, and before the termination: each as long as
    allowed."""
    wait_limit = limit("approval", "wait_at_most_hours")
    number = rounds(wait_limit, lambda waited: wait_before_next_check(timedelta(0), waited))
    before_the_stop = longest_round("WaitToAct", without="TakeSnapshot")
    # Nothing is rehearsed any more once `Stop` has answered (test_state_machines.py).
    after_the_stop = longest_round("WaitToAct", without="RehearseSnapshot")
    before_the_termination = longest_round("WaitToTerminate")
    return number * (before_the_stop + after_the_stop + before_the_termination)


def of_a_question() -> int:
    """It waits for a freeze and for working hours, and then for a channel that delivers it."""
    pause = timedelta(seconds=STATES["WaitToAsk"]["Seconds"])
    wait_limit = limit("approval", "wait_at_most_hours") + QUIET_AT_MOST
    delivery_limit = limit("approval", "delivery_limit_minutes")
    return longest_round("WaitToAsk") * rounds(wait_limit, lambda _: pause) + longest_round(
        "WaitForAskChannel"
    ) * rounds(delivery_limit, looks(Until.HEARD))


def of_a_notice() -> int:
    """It waits for a channel that delivers it, and then for the notice period."""
    pause = timedelta(seconds=NOTICE_PAUSE_SECONDS)
    number = rounds(limit("approval", "delivery_limit_minutes"), looks(Until.HEARD))
    number += rounds(limit("approval", "notice_minutes"), lambda _: pause)
    return longest_round("WaitForTellChannel") * number


@pytest.mark.parametrize("beginning", [of_a_question, of_a_notice])
def test_the_longest_execution_has_room_in_its_history(beginning: Callable[[], int]) -> None:
    """With every limit of the policy at its highest, and every wait as short as it can be."""
    found = longest_way() + beginning() + of_waiting() + of_progress()

    assert found < MOST, (longest_way(), beginning(), of_waiting(), of_progress())


def test_every_wait_of_the_machine_is_counted() -> None:
    waits = {name for name, state in STATES.items() if state["Type"] == "Wait"}
    once = {"WaitForWorkingHours"}
    counted = {"WaitToAsk", "WaitForAskChannel", "WaitForTellChannel", "WaitForTellOnlyChannel"}
    counted |= {
        "WaitToAct",
        "WaitToTerminate",
        "WaitForStop",
        "WaitForSnapshots",
        "WaitForTermination",
    }

    assert waits == once | counted
    assert longest_round("WaitForTellOnlyChannel") == longest_round("WaitForTellChannel")


def test_a_round_is_counted_as_the_definition_has_it() -> None:
    """Wait, choice, recheck, choice, the rehearsal and the call: 2 + 2 + 5 + 2 + 5 + 5."""
    assert 21 == longest_round("WaitToAct", without="TakeSnapshot")
    assert 32 == longest_round("WaitToAct", without="RehearseSnapshot")
    assert 14 == longest_round("WaitToTerminate")
    assert timedelta(hours=168) == limit("approval", "wait_at_most_hours")
