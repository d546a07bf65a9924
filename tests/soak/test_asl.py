"""The interpreter of the state machine: what it does, and that it refuses what it does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.soak.asl import Await, Machine, NotUnderstood, Pause, StepFailed, check

_TASK = {"Type": "Task", "Resource": "arn:${Partition}:states:::lambda:invoke"}
_CALL = {"FunctionName": "f", "Payload": {"given.$": "$.given"}}
_DONE = {"Type": "Succeed"}


class _Host:
    """Answers calls from a list; an error is raised."""

    def __init__(self, *results: Any) -> None:
        self.results, self.calls = list(results), list[Any]()
        self.answers: dict[str, Mapping[str, Any]] = {}

    def call(self, function: str, payload: Mapping[str, Any]) -> Any:
        self.calls.append((function, dict(payload)))
        found = self.results.pop(0)
        if isinstance(found, StepFailed):
            raise found
        return found

    def new_token(self) -> str:
        return "token"

    def answered(self, token: str) -> Mapping[str, Any] | None:
        return self.answers.get(token)

    def close(self, token: str) -> None:
        self.answers.pop(token, None)

    def jitter(self) -> float:
        return 1.0


def _machine(**states: Any) -> dict[str, Any]:
    return {"StartAt": next(iter(states)), "States": states}


def _run(definition: Mapping[str, Any], host: _Host, answer: Any = None) -> tuple[list[Any], Any]:
    """The pauses, and the output."""
    check(definition)
    machine, pauses = Machine(definition, host), []
    execution = machine.start({"given": 1})
    wait = machine.go_on(execution)
    while wait is not None:
        pauses.append(wait)
        wait = machine.go_on(execution, answer)
    return pauses, execution.data


def test_a_task_puts_its_result_where_it_says() -> None:
    """Parameters are filled from the input, and the rest of the input stays."""
    task = {
        **_TASK,
        "Parameters": _CALL,
        "ResultSelector": {"value.$": "$.Payload"},
        "ResultPath": "$.a.b",
        "Next": "Done",
    }
    host = _Host({"x": 2})

    pauses, output = _run(_machine(Task=task, Done=_DONE), host)

    assert [] == pauses
    assert {"given": 1, "a": {"b": {"value": {"x": 2}}}} == output
    assert [("f", {"given": 1})] == host.calls


def test_a_retry_waits_longer_each_time_and_then_the_error_is_caught() -> None:
    """Each retrier counts for itself; what no retrier names goes to the catcher at once."""
    task = {
        **_TASK,
        "Parameters": _CALL,
        "Retry": [
            {
                "ErrorEquals": ["Busy"],
                "IntervalSeconds": 2,
                "BackoffRate": 3,
                "MaxAttempts": 3,
                "MaxDelaySeconds": 10,
            }
        ],
        "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Done"}],
        "Next": "Failed",
    }
    definition = _machine(Task=task, Failed={"Type": "Fail", "Error": "E", "Cause": ""}, Done=_DONE)

    pauses, output = _run(definition, _Host(*[StepFailed("Busy", "why")] * 4))
    at_once, _ = _run(definition, _Host(StepFailed("Other")))

    assert [Pause(2.0), Pause(6.0), Pause(10.0)] == pauses
    assert {"Error": "Busy", "Cause": "why"} == output["error"]
    assert [] == at_once


@pytest.mark.parametrize(("answer", "then"), [({"decision": "keep"}, "Done"), (None, "Late")])
def test_a_question_waits_for_its_token_or_its_time(answer: Any, then: str) -> None:
    """No answer is a time-out, which has a catcher of its own."""
    task = {
        **_TASK,
        "Resource": f"{_TASK['Resource']}.waitForTaskToken",
        "Parameters": {"FunctionName": "f", "Payload": {"token.$": "$$.Task.Token"}},
        "TimeoutSecondsPath": "$.given",
        "ResultPath": "$.answer",
        "Catch": [{"ErrorEquals": ["States.Timeout"], "ResultPath": "$.late", "Next": "Late"}],
        "Next": "Done",
    }
    late = {"Type": "Pass", "Result": "late", "ResultPath": "$.was", "Next": "Done"}
    host = _Host({})

    pauses, output = _run(_machine(Ask=task, Late=late, Done=_DONE), host, answer)

    assert [Await("token", 1.0)] == pauses
    assert [("f", {"token": "token"})] == host.calls
    assert (answer if then == "Done" else None) == output.get("answer")
    assert ("late" if then == "Late" else None) == output.get("was")


def test_an_answer_that_came_before_the_function_failed_stands() -> None:
    """As in Step Functions: the token ends the task."""
    task = {
        **_TASK,
        "Resource": f"{_TASK['Resource']}.waitForTaskToken",
        "Parameters": {"FunctionName": "f", "Payload": {"token.$": "$$.Task.Token"}},
        "ResultPath": "$.answer",
        "Next": "Done",
    }
    host = _Host(StepFailed("Busy"))
    host.answers["token"] = {"decision": "keep"}

    pauses, output = _run(_machine(Ask=task, Done=_DONE), host)

    assert ([], {"decision": "keep"}) == (pauses, output["answer"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.update(TimeoutSeconds=1), "the machine: unknown fields TimeoutSeconds"),
        (lambda m: m["States"].update(Two={"Type": "Parallel"}), "a state of type Parallel"),
        (
            lambda m: m["States"]["One"].update(HeartbeatSeconds=1),
            "unknown fields HeartbeatSeconds",
        ),
        (
            lambda m: m["States"]["One"].update(Resource="arn:aws:states:::sqs:sendMessage"),
            "the resource",
        ),
        (lambda m: m["States"]["One"].update(Next="Nowhere"), "leads to Nowhere"),
        (
            lambda m: m["States"].update(C={"Type": "Choice", "Choices": [{"StringMatches": "*"}]}),
            "the rule",
        ),
    ],
)
def test_what_is_not_known_is_refused(change: Callable[[Any], None], why: str) -> None:
    """A new field of the real machine must be given a meaning here before anything is proven by
    it."""
    definition = _machine(One={**_TASK, "Parameters": _CALL, "Next": "Done"}, Done=_DONE)
    change(definition)

    with pytest.raises(NotUnderstood, match=why):
        check(definition)
