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

from governor.approvals.ask_owner import TRIES_TO_ASK_EVERY
from governor.episode.model.plan import Until
from governor.episode.rules.sent_call import UNDER_WAY_FOR
from governor.limits.freezes import wait_before_next_check
from governor.policy.model.acting import MOST_DAYS
from governor.policy.rules.schedule import SEARCHED_FOR
from governor.remediation.check_progress import NOTICE_PAUSE_SECONDS, pause_seconds
from governor.remediation.recheck_episode import LONGEST_WAIT
from governor.remediation.rechecked import SHORTEST_WAIT
from tests.unit.template.machines import ROOT

MOST = 20_000
MACHINE = json.loads((ROOT / "statemachines/remediation.asl.json").read_text())
STATES: dict[str, Any] = MACHINE["States"]
SCHEMA = json.loads((ROOT / "examples/policy.schema.json").read_text())
SILENCE_COUNTS_WITHIN = timedelta(days=MOST_DAYS) + SEARCHED_FOR
"""From the end of a question on: a message that came late gives people its whole time again, until
all of them work."""
NO_TIME = timedelta(0)
DONE_BEFORE = ("Stop", "RehearseSnapshot", "TakeSnapshot", "TellWaiting")
"""States that a step does not pass while it is held back, and people know that."""


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


def longest_round(wait: str, *without: str) -> int:
    """Return the most events from one entry of a wait to the next."""
    return max(_ways(wait, wait, frozenset(without)))


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


def of_held_back_steps(silence_limit: timedelta) -> int:
    """All steps together: until silence counts, and then until the end of a freeze or for room
    under a cap, as long as allowed."""
    wait_limit = limit("approval", "wait_at_most_hours")
    number = rounds(
        silence_limit + wait_limit, lambda waited: wait_before_next_check(NO_TIME, waited)
    )
    return number * longest_round("WaitToAct", *DONE_BEFORE)


def of_calls(round_of_a_call: int) -> int:
    """Calls that are let through and have no effect, as long as allowed. One whose answer was lost
    is looked up again each minute while EC2 may still carry it out."""
    wait_limit = limit("approval", "wait_at_most_hours")
    look_up = longest_round("WaitToAct", *DONE_BEFORE)
    waited = timedelta(0)
    total = round_of_a_call
    while waited < wait_limit:
        again = wait_before_next_check(min(LONGEST_WAIT, waited / 4), waited)
        while again < UNDER_WAY_FOR:
            again += SHORTEST_WAIT
            total += look_up
        waited += again
        total += round_of_a_call
    return total


def of_what_follows(round_after_a_call: int) -> int:
    """The call had its effect, and what follows it fails each time, as long as allowed."""
    wait_limit = limit("approval", "wait_at_most_hours")
    number = rounds(wait_limit, lambda waited: wait_before_next_check(LONGEST_WAIT, waited))
    return number * round_after_a_call


def of_waiting(silence_limit: timedelta) -> int:
    """Each step is held back, then called in vain, and then what follows it fails."""
    stop = longest_round("WaitToAct", "TakeSnapshot", "TellWaiting")
    # Nothing is rehearsed any more once `Stop` has answered (test_state_machines.py).
    after_the_stop = longest_round("WaitToAct", "RehearseSnapshot", "TellWaiting")
    terminate = longest_round("WaitToTerminate", "TellWaitingToTerminate")
    calls = of_calls(stop) + of_calls(terminate)
    return (
        of_held_back_steps(silence_limit)
        + calls
        + of_what_follows(after_the_stop)
        + of_what_follows(terminate)
    )


def of_a_question() -> int:
    """It waits for a freeze, and then for a channel that delivers it.

    Before each try during a freeze, and before it is asked, it may wait for working hours once: a
    wait for these ends when they begin, however long it is.
    """
    wait_limit = limit("approval", "wait_at_most_hours")
    number = rounds(wait_limit, lambda waited: wait_before_next_check(TRIES_TO_ASK_EVERY, waited))
    delivery_limit = limit("approval", "delivery_limit_minutes")
    asking = longest_round("WaitToAskAgain") * 2 * number
    return asking + longest_round("WaitForAskChannel") * rounds(delivery_limit, looks(Until.HEARD))


def of_a_notice() -> int:
    """It waits for a channel that delivers it, and then for the notice period."""
    pause = timedelta(seconds=NOTICE_PAUSE_SECONDS)
    number = rounds(limit("approval", "delivery_limit_minutes"), looks(Until.HEARD))
    number += rounds(limit("approval", "notice_minutes"), lambda _: pause)
    return longest_round("WaitForTellChannel") * number


@pytest.mark.parametrize(
    ("beginning", "silence_limit"),
    [(of_a_question, SILENCE_COUNTS_WITHIN), (of_a_notice, NO_TIME)],
)
def test_the_longest_execution_has_room_in_its_history(
    beginning: Callable[[], int], silence_limit: timedelta
) -> None:
    """With every limit of the policy at its highest, and every wait as short as it can be."""
    parts = (longest_way(), beginning(), of_waiting(silence_limit), of_progress())

    assert sum(parts) < MOST, parts


def test_every_wait_of_the_machine_is_counted() -> None:
    waits = {name for name, state in STATES.items() if state["Type"] == "Wait"}
    once = {"WaitForWorkingHours"}
    with_earlier_functions = {"WaitToAsk"}
    counted = {
        "WaitToAskAgain",
        "WaitForAskChannel",
        "WaitForTellChannel",
        "WaitForTellOnlyChannel",
    }
    counted |= {
        "WaitToAct",
        "WaitToTerminate",
        "WaitForStop",
        "WaitForSnapshots",
        "WaitForTermination",
    }

    assert waits == once | with_earlier_functions | counted
    assert longest_round("WaitForTellOnlyChannel") == longest_round("WaitForTellChannel")


def test_a_round_is_counted_as_the_definition_has_it() -> None:
    """Wait, choice, recheck and choice; then the rehearsal and the call."""
    assert 2 + 2 + 5 + 2 == longest_round("WaitToAct", *DONE_BEFORE)
    assert 2 + 2 + 5 + 2 + 5 + 5 == longest_round("WaitToAct", "TakeSnapshot", "TellWaiting")
    assert 32 == longest_round("WaitToAct", "RehearseSnapshot", "TellWaiting")
    assert 14 == longest_round("WaitToTerminate", "TellWaitingToTerminate")
    assert 2 + 5 + 2 == longest_round("WaitToAskAgain")
    assert timedelta(hours=168) == limit("approval", "wait_at_most_hours")
