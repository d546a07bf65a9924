"""The sweep's own definition with thousands of targets, under the limits of Step Functions."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from governor.core.parsing import parse
from governor.verdict.model import VerdictKind
from governor.wiring.payloads import SweptPayload
from tests.soak.asl import StepFailed, _filled, _holds, _matches, _placed
from tests.unit.template.machines import definition, template

STATE_BYTES = 262_144
HISTORY_EVENTS = 25_000
EXPRESS_SECONDS = 300
"""Source: Step Functions quotas."""
BUSY, BROKEN = "Lambda.TooManyRequestsException", "Lambda.ServiceException"
"""Lambda rejects a call at once; it may break off a function that has run for long."""
CAUSE = json.dumps(
    {"errorMessage": "a" * 20_000, "errorType": "AccessDenied", "stackTrace": ["b" * 10_000]}
)
SUMMARY = {
    "account": "123456789012",
    "region": "ap-southeast-2",
    "instances": 10_000,
    "verdicts": dict.fromkeys((kind.value for kind in VerdictKind), 10_000),
    "episodes_started": 500,
    "problems": 500,
    "frozen": False,
}
REGIONS = ("us-east-1", "us-west-2", "ap-southeast-2", "eu-central-1")

Function = Callable[[Mapping[str, Any]], Any]


class TimedOut(Exception):
    """Step Functions has ended the execution; nothing in it can catch that."""


class Run:
    """One execution, with stub functions; `events` is what its history would have. It has taken
    `seconds`; each call of a function, and each write, takes `call_seconds`, but for one that
    Lambda rejects."""

    def __init__(
        self,
        functions: Mapping[str, Function],
        call_seconds: float = 1,
        limit: float = EXPRESS_SECONDS,
    ) -> None:
        self.functions = functions
        self.call_seconds = call_seconds
        self.limit = limit
        self.seconds = 0.0
        self.events = 2
        self.noted: list[Any] = []
        self.most_bytes = 0

    def __call__(self, given: Mapping[str, Any]) -> Any:
        machine = definition("sweep")
        self.limit = machine["TimeoutSeconds"]
        return self._scope(machine, dict(given))

    def _pass(self, seconds: float) -> None:
        self.seconds += seconds
        if self.seconds > self.limit:
            raise TimedOut

    def _scope(self, scope: Mapping[str, Any], data: Any) -> Any:
        name = scope["StartAt"]
        while True:
            state = scope["States"][name]
            self._within(data)
            self.events += 2
            data, name = self._state(state, data)
            self._within(data)
            if name is None:
                return data

    def _state(self, state: Mapping[str, Any], data: Any) -> tuple[Any, str | None]:
        match state["Type"]:
            case "Choice":
                chosen = (rule["Next"] for rule in state["Choices"] if _holds(rule, data))
                return data, next(chosen, state["Default"])
            case "Pass":
                return state["Result"], state.get("Next")
            case "Map":
                result: Any = self._map(state, data)
            case "Task":
                try:
                    result = self._task(state, data)
                except StepFailed as failed:
                    for catcher in state.get("Catch", ()):
                        if _matches(catcher["ErrorEquals"], failed.error):
                            error = {"Error": failed.error, "Cause": failed.cause}
                            return _placed(catcher, data, error), catcher["Next"]
                    raise
            case kind:
                raise AssertionError(f"a state of type {kind}")
        return _placed(state, data, result), state.get("Next")

    def _map(self, state: Mapping[str, Any], data: Any) -> list[Any]:
        scope, results = state["ItemProcessor"], []
        is_inline = scope["ProcessorConfig"]["Mode"] == "INLINE"
        self.events += 4
        assert "$.plan.value.targets" == state["ItemsPath"]
        places = [0.0] * state["MaxConcurrency"]
        for item in data["plan"]["value"]["targets"]:
            child = Run(
                self.functions, self.call_seconds, self.limit if is_inline else EXPRESS_SECONDS
            )
            try:
                results.append(child._scope(scope, item))
            except (StepFailed, TimedOut):
                assert 100 == state.get("ToleratedFailurePercentage")
            assert child.events <= HISTORY_EVENTS
            self.events += child.events if is_inline else 0
            self.noted += child.noted
            self.most_bytes = max(self.most_bytes, child.most_bytes)
            heapq.heapreplace(places, places[0] + min(child.seconds, child.limit))
        self._pass(max(places))
        return results

    def _task(self, state: Mapping[str, Any], data: Any) -> Any:
        if state["Resource"].endswith("dynamodb:updateItem"):
            self.events += 3
            self._pass(min(self.call_seconds, state["TimeoutSeconds"]))
            self.noted.append((data["account"], data["region"]))
            return state["ResultSelector"]
        parameters = state["Parameters"]
        payload = parameters.get("Payload")
        if payload is None:
            payload = data
        elif "outcomes.$" in payload:
            assert "$.results[*].outcome" == payload["outcomes.$"]
            outcomes = [one["outcome"] for one in data["results"]]
            rest = {key: value for key, value in payload.items() if key != "outcomes.$"}
            payload = {"outcomes": outcomes, **_filled(rest, data, {})}
        self._within(payload)
        found = self._called(state, payload)
        return _filled(state["ResultSelector"], {"Payload": found}, {})

    def _called(self, state: Mapping[str, Any], payload: Any) -> Any:
        tries = dict.fromkeys(range(len(state["Retry"])), 0)
        while True:
            self.events += 3
            try:
                found = self.functions[state["Parameters"]["FunctionName"]](payload)
            except StepFailed as failed:
                self._pass(
                    0 if failed.error == BUSY else min(self.call_seconds, state["TimeoutSeconds"])
                )
                rules = (
                    n for n in tries if _matches(state["Retry"][n]["ErrorEquals"], failed.error)
                )
                number = next(rules, -1)
                rule = state["Retry"][number]
                if number < 0 or tries[number] == rule["MaxAttempts"]:
                    raise
                wait = rule["IntervalSeconds"] * rule["BackoffRate"] ** tries[number]
                self._pass(min(wait, rule.get("MaxDelaySeconds", wait)))
                tries[number] += 1
            else:
                self._pass(min(self.call_seconds, state["TimeoutSeconds"]))
                return found

    def _within(self, data: Any) -> None:
        size = len(json.dumps(data, separators=(",", ":")).encode())
        self.most_bytes = max(self.most_bytes, size)
        assert size <= STATE_BYTES, f"{size} bytes"


def machine(
    targets: int,
    sweep_target: Function = lambda _: SUMMARY,
    check_health: Function = lambda _: {},
    call_seconds: float = 1,
) -> tuple[Run, list[SweptPayload]]:
    """An execution over so many targets, and what its last step was told."""
    places = [
        {"account": f"{account:012d}", "region": region}
        for account in range(10**11, 10**11 + -(-targets // len(REGIONS)))
        for region in REGIONS
    ][:targets]
    told: list[SweptPayload] = []

    def sum_up(payload: Mapping[str, Any]) -> dict[str, Any]:
        swept = parse(SweptPayload, dict(payload))
        told.append(swept)
        return {
            "month": "2026-11",
            "projects": 500,
            "usd": "1234567.89",
            "saved_usd": "1.00",
            "told": 0,
        }

    return Run(
        {
            "${PlanSweepArn}": lambda given: {
                "check": given.get("check", "sweep"),
                "targets": places,
                "target_count": len(places),
            },
            "${SweepTargetArn}": sweep_target,
            "${CheckHealthArn}": check_health,
            "${SumUpMonthArn}": sum_up,
        },
        call_seconds,
    ), told


def slowly(_: Mapping[str, Any]) -> Any:
    """A target whose function Lambda rejects at first, and breaks off when it has run for long."""
    raise StepFailed(BROKEN, CAUSE)


@pytest.mark.parametrize("error", [BUSY, BROKEN, "Sandbox.Timedout", "Unavailable"])
def test_a_child_notes_its_failure_before_its_time_is_over(error: str) -> None:
    """Whatever fails, however late and however often it is tried again: in four minutes of the
    five."""

    def late(_: Mapping[str, Any]) -> Any:
        raise StepFailed(error, CAUSE)

    run, told = machine(41, late, call_seconds=10_000)
    scope = definition("sweep")["States"]["SweepManyTargets"]["ItemProcessor"]
    child = Run(run.functions, 10_000)

    assert {"outcome": "failed"} == child._scope(
        scope, {"account": "1" * 12, "region": "us-east-1"}
    )
    assert child.seconds <= 240
    run({})
    assert ([["failed"] * 41], 41) == ([one.outcomes for one in told], len({*run.noted}))


@pytest.mark.parametrize("targets", [40, 2_000, 3_000])
@pytest.mark.parametrize("does_fail", [False, True])
def test_the_month_is_summed_up_however_long_each_target_takes(
    targets: int, does_fail: bool
) -> None:
    """Each takes all the time that its function has, and fails at its end."""
    times_out = template()["Resources"]["SweepTargetFunction"]["Properties"]["Timeout"]
    fails = {"sweep_target": slowly} if does_fail else {}
    run, told = machine(targets, **fails, call_seconds=times_out)
    run({})

    assert [targets] == [len(one.outcomes) for one in told]


def failing(_: Mapping[str, Any]) -> Any:
    """A target with a cause as long as Lambda gives it."""
    raise StepFailed("AccessDenied", CAUSE)


@pytest.mark.parametrize("targets", [1, 40, 41, 2_000, 3_000])
def test_every_target_is_swept_and_the_month_is_summed_up(targets: int) -> None:
    """500 accounts in four Regions are 2,000; `plan_sweep` refuses more than 3,000."""
    run, told = machine(targets)
    run({})

    assert [["swept"] * targets] == [one.outcomes for one in told]
    assert run.events <= HISTORY_EVENTS


@pytest.mark.parametrize("targets", [1, 40, 41, 2_000, 3_000])
def test_targets_that_fail_with_long_causes_are_noted_and_counted(targets: int) -> None:
    """Each cause is in the table; none is carried on."""
    run, told = machine(targets, failing)
    run({})

    assert [["failed"] * targets] == [one.outcomes for one in told]
    assert targets == len({*run.noted})
    assert run.events <= HISTORY_EVENTS


def test_a_child_that_dies_is_missing_in_the_count() -> None:
    """It has no outcome; the last step knows how many there should be."""

    def dying(given: Mapping[str, Any]) -> Any:
        if given["account"].endswith("7"):
            raise StepFailed("States.Runtime")
        return SUMMARY

    run, told = machine(2_000, dying)
    run({})

    assert [(1_800, 2_000)] == [(one.outcomes.count("swept"), one.target_count) for one in told]


@pytest.mark.parametrize("targets", [1, 41, 2_000])
def test_a_look_at_health_ends_whatever_becomes_of_it(targets: int) -> None:
    """It sums up nothing, and notes nothing."""
    run, told = machine(targets, check_health=failing)
    found = run({"check": "health"})

    assert [{"outcome": "failed"}] * targets == found["results"]
    assert ([], []) == (told, run.noted)
