"""A strict interpreter of the state machine's own definition, for simulated time.

It knows the states and fields that `statemachines/remediation.yaml` uses. Anything else is an error
when the definition is loaded, so that a new field cannot pass here without a meaning.
"""

from __future__ import annotations

import marshal
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

_COMMON = {"Type", "Comment"}
_FIELDS: Mapping[str, set[str]] = {
    "Task": {
        *_COMMON,
        "Resource",
        "Parameters",
        "ResultSelector",
        "ResultPath",
        "TimeoutSeconds",
        "TimeoutSecondsPath",
        "Retry",
        "Catch",
        "Next",
    },
    "Choice": {*_COMMON, "Choices", "Default"},
    "Pass": {*_COMMON, "InputPath", "Parameters", "Result", "ResultPath", "Next"},
    "Wait": {*_COMMON, "Seconds", "SecondsPath", "Next"},
    "Succeed": _COMMON,
    "Fail": {*_COMMON, "Error", "Cause"},
}
_MACHINE = {"Comment", "QueryLanguage", "StartAt", "States"}
_RETRIER = {
    "ErrorEquals",
    "IntervalSeconds",
    "BackoffRate",
    "MaxAttempts",
    "MaxDelaySeconds",
    "JitterStrategy",
}
_CATCHER = {"ErrorEquals", "ResultPath", "Next"}
_INVOKE = "arn:${Partition}:states:::lambda:invoke"
_WAITS = f"{_INVOKE}.waitForTaskToken"


def _same_kind(compare: Callable[[Any, Any], bool], *kinds: type) -> Callable[[Any, Any], bool]:
    """A comparison that values of another type do not pass, as in Step Functions."""

    def check(found: Any, wanted: Any) -> bool:
        is_right = isinstance(found, kinds) and (bool in kinds or not isinstance(found, bool))
        return is_right and compare(found, wanted)

    return check


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "StringEquals": _same_kind(operator.eq, str),
    "BooleanEquals": _same_kind(operator.eq, bool),
    "NumericEquals": _same_kind(operator.eq, int, float),
    "NumericLessThan": _same_kind(operator.lt, int, float),
    "NumericLessThanEquals": _same_kind(operator.le, int, float),
    "NumericGreaterThan": _same_kind(operator.gt, int, float),
    "NumericGreaterThanEquals": _same_kind(operator.ge, int, float),
}
_PRESENCE = "IsPresent"
"""Asks for the variable itself; every other comparison fails where it is missing."""
_COMBINED: Mapping[str, Callable[[Iterable[bool]], bool]] = {"And": all, "Or": any}


class NotUnderstood(Exception):
    """The definition holds something that this interpreter gives no meaning to."""


class StepFailed(Exception):
    """A state failed: `error` and `cause` as Step Functions names them."""

    def __init__(self, error: str, cause: str = "") -> None:
        super().__init__(f"{error}: {cause}")
        self.error, self.cause = error, cause


@dataclass(frozen=True, slots=True)
class Pause:
    """The execution waits for so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Await:
    """The execution waits for an answer with this token, so many seconds at most; it is sent the
    answer, or `None` when the time is over."""

    token: str
    seconds: float


class Host(Protocol):
    """The host of an execution."""

    def call(self, function: str, payload: Mapping[str, Any]) -> Any:
        """Return the function's result. Raises: StepFailed."""

    def new_token(self) -> str:
        """Return a token that nobody knows yet."""

    def answered(self, token: str) -> Mapping[str, Any] | None:
        """Return the answer that has come for a token, if one has."""

    def close(self, token: str) -> None:
        """Take no answer for this token any more."""

    def jitter(self) -> float:
        """Return a number between 0 and 1."""


def check(definition: Mapping[str, Any]) -> None:
    """Check that every part of the definition is understood. Raises: NotUnderstood."""
    _only(definition, _MACHINE, "the machine")
    if definition.get("QueryLanguage", "JSONPath") != "JSONPath":
        raise NotUnderstood(f"query language {definition['QueryLanguage']}")
    states = definition["States"]
    if definition["StartAt"] not in states:
        raise NotUnderstood(f"it starts at {definition['StartAt']}, which is no state")
    for name, state in states.items():
        _check_state(name, state, states)


def _check_state(name: str, state: Mapping[str, Any], states: Mapping[str, Any]) -> None:
    kind = str(state.get("Type"))
    if kind not in _FIELDS:
        raise NotUnderstood(f"{name}: a state of type {kind}")
    _only(state, _FIELDS[kind], name)
    if kind == "Task":
        _check_task(name, state)
    for path in _paths(state):
        _names(path)
    for rule in state.get("Choices", ()):
        _check_rule(name, rule, nested=False)
    for target in _targets(state):
        if target not in states:
            raise NotUnderstood(f"{name}: it leads to {target}, which is no state")


def _paths(state: Mapping[str, Any]) -> list[Any]:
    keys = ("InputPath", "ResultPath", "SecondsPath", "TimeoutSecondsPath")
    parts = [state, *state.get("Catch", ())]
    return [part[key] for part in parts for key in keys if part.get(key) is not None]


def _targets(state: Mapping[str, Any]) -> list[str]:
    parts = [state, *state.get("Catch", ()), *state.get("Choices", ())]
    return [part[key] for part in parts for key in ("Next", "Default") if key in part]


def _check_task(name: str, state: Mapping[str, Any]) -> None:
    if state["Resource"] not in (_INVOKE, _WAITS):
        raise NotUnderstood(f"{name}: the resource {state['Resource']}")
    if set(state["Parameters"]) - {"FunctionName", "Payload", "Payload.$"}:
        raise NotUnderstood(f"{name}: parameters of another call than lambda:invoke")
    if "ResultSelector" in state and state["ResultSelector"] != {"value.$": "$.Payload"}:
        raise NotUnderstood(f"{name}: the result selector {state['ResultSelector']}")
    for retrier in state.get("Retry", ()):
        _only(retrier, _RETRIER, f"{name}, Retry")
        if retrier.get("JitterStrategy", "NONE") not in ("NONE", "FULL"):
            raise NotUnderstood(f"{name}: the jitter {retrier['JitterStrategy']}")
    for catcher in state.get("Catch", ()):
        _only(catcher, _CATCHER, f"{name}, Catch")


def _check_rule(name: str, rule: Mapping[str, Any], *, nested: bool) -> None:
    outer = set() if nested else {"Next"}
    combined = [key for key in _COMBINED if key in rule]
    if combined:
        _only(rule, {*outer, *combined}, name)
        for part in (part for key in combined for part in rule[key]):
            _check_rule(name, part, nested=True)
        return
    compared = [key for key in rule if key in _COMPARISONS or key == _PRESENCE]
    if len(compared) != 1:
        raise NotUnderstood(f"{name}: the rule {dict(rule)}")
    _only(rule, {*outer, "Variable", "Comment", compared[0]}, name)


def _only(part: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := sorted(set(part) - known):
        raise NotUnderstood(f"{where}: unknown fields {', '.join(unknown)}")


@dataclass(slots=True)
class Execution:
    """How far an execution has come. Plain data: a copy of it goes on by itself."""

    state: str
    data: dict[str, Any]
    """The input of the state; of an execution that has ended, the output."""
    tries: list[int] = field(default_factory=list)
    """How often each retrier of the state was used."""
    token: str | None = None
    """The token that the state waits to be answered with."""

    def enter(self, state: str, data: dict[str, Any]) -> None:
        """Go on with another state."""
        self.state, self.data, self.tries = state, data, []


@dataclass(frozen=True, slots=True)
class Machine:
    """A definition that was checked, and where its executions run."""

    definition: Mapping[str, Any]
    host: Host

    def start(self, given: Mapping[str, Any]) -> Execution:
        """Return an execution that has not begun yet."""
        return Execution(self.definition["StartAt"], dict(_copied(given)))

    def go_on(
        self, one: Execution, answer: Mapping[str, Any] | None = None
    ) -> Pause | Await | None:
        """Run to the next wait and return it, or `None` at the end; after an `Await` give its
        answer, if any.

        Raises: StepFailed, as the whole execution fails.
        """
        while True:
            state = self.definition["States"][one.state]
            match state["Type"]:
                case "Succeed":
                    return None
                case "Fail":
                    raise StepFailed(state.get("Error", ""), state.get("Cause", ""))
                case "Wait":
                    path = state.get("SecondsPath")
                    seconds = state["Seconds"] if path is None else _read(path, one.data)
                    one.enter(state["Next"], one.data)
                    return Pause(float(seconds))
                case "Pass":
                    one.enter(state["Next"], _placed(state, one.data, _passed(state, one.data)))
                case "Choice":
                    rules = (rule for rule in state["Choices"] if _holds(rule, one.data))
                    chosen = next(rules, None)
                    one.enter(state["Default"] if chosen is None else chosen["Next"], one.data)
                case _:
                    wait = self._task(state, one, answer)
                    if wait is not None:
                        return wait

    def _task(
        self, state: Mapping[str, Any], one: Execution, answer: Mapping[str, Any] | None
    ) -> Pause | Await | None:
        """Carry a task out, or go on with one that waited; return what it waits for now."""
        try:
            found = self._attempt(state, one) if one.token is None else self._answered(one, answer)
        except StepFailed as failed:
            pause = self._pause(state, failed.error, one)
            if pause is not None:
                return Pause(pause)
            for catcher in state.get("Catch", ()):
                if _matches(catcher["ErrorEquals"], failed.error):
                    error = {"Error": failed.error, "Cause": failed.cause}
                    one.enter(catcher["Next"], _placed(catcher, one.data, error))
                    return None
            raise
        if isinstance(found, Await):
            return found
        one.enter(state["Next"], _placed(state, one.data, found))
        return None

    def _attempt(self, state: Mapping[str, Any], one: Execution) -> Any:
        token = self.host.new_token() if state["Resource"] == _WAITS else None
        parameters = _filled(state["Parameters"], one.data, {"Task": {"Token": token}})
        limit = state.get("TimeoutSeconds")
        if "TimeoutSecondsPath" in state:
            limit = _read(state["TimeoutSecondsPath"], one.data)
        function = parameters["FunctionName"]
        try:
            result = self.host.call(function, parameters["Payload"])
        except StepFailed:
            # A token that was answered has ended the task, whatever became of the function.
            if token is None or self.host.answered(token) is None:
                if token is not None:
                    self.host.close(token)
                raise
        if token is None:
            answer = {"Payload": result}
            return (
                _filled(state["ResultSelector"], answer, {})
                if "ResultSelector" in state
                else answer
            )
        one.token = token
        found = self.host.answered(token)
        if found is None:
            return Await(token, float(limit) if limit is not None else 365 * 86_400.0)
        return self._answered(one, found)

    def _answered(self, one: Execution, answer: Mapping[str, Any] | None) -> dict[str, Any]:
        assert one.token is not None
        self.host.close(one.token)
        one.token = None
        if answer is None:
            raise StepFailed("States.Timeout")
        return dict(answer)

    def _pause(self, state: Mapping[str, Any], error: str, one: Execution) -> float | None:
        """Seconds until the next try; `None` when there is none."""
        one.tries = tries = one.tries or [0] * len(state.get("Retry", ()))
        for index, retrier in enumerate(state.get("Retry", ())):
            if not _matches(retrier["ErrorEquals"], error):
                continue
            if tries[index] >= retrier.get("MaxAttempts", 3):
                return None
            seconds = (
                retrier.get("IntervalSeconds", 1) * retrier.get("BackoffRate", 2) ** tries[index]
            )
            seconds = min(seconds, retrier.get("MaxDelaySeconds", seconds))
            tries[index] += 1
            return float(seconds * self.host.jitter() if "JitterStrategy" in retrier else seconds)
        return None


def _matches(names: Sequence[str], error: str) -> bool:
    known = {error, "States.ALL"}
    if error != "States.Timeout":
        known.add("States.TaskFailed")
    return not known.isdisjoint(names)


def _passed(state: Mapping[str, Any], data: Mapping[str, Any]) -> Any:
    taken = _read(state.get("InputPath", "$"), data)
    if "Result" in state:
        return _copied(state["Result"])
    return _filled(state["Parameters"], taken, {}) if "Parameters" in state else taken


def _filled(template: Any, data: Any, context: Mapping[str, Any]) -> Any:
    """A payload template with its paths read."""
    if isinstance(template, list):
        return [_filled(one, data, context) for one in template]
    if not isinstance(template, Mapping):
        return template
    found = {}
    for key, value in template.items():
        if not key.endswith(".$"):
            found[key] = _filled(value, data, context)
        elif value.startswith("$$."):
            found[key[:-2]] = _read(value[1:], context)
        else:
            found[key[:-2]] = _read(value, data)
    return found


def _read(path: str, data: Any) -> Any:
    names = _names(path)
    for name in names:
        if not isinstance(data, Mapping) or name not in data:
            raise StepFailed("States.ParameterPathFailure", f"{path} is not in the state's input")
        data = data[name]
    return _copied(data)


def _copied(value: Any) -> Any:
    """Copy JSON: ten times as fast as `copy.deepcopy`, which looks for cycles."""
    return marshal.loads(marshal.dumps(value))


def _names(path: str) -> list[str]:
    first, *names = path.split(".") if isinstance(path, str) else ("",)
    if first != "$" or not all(name.isidentifier() for name in names):
        raise NotUnderstood(f"the path {path}")
    return names


def _placed(part: Mapping[str, Any], data: Mapping[str, Any], result: Any) -> dict[str, Any]:
    """The state's output: its input with the result where `ResultPath` says; `null` throws it
    away."""
    path = part.get("ResultPath", "$")
    if path is None:
        return dict(data)
    names = _names(path)
    if not names:
        return dict(result)
    output: dict[str, Any] = _copied(dict(data))
    place = output
    for name in names[:-1]:
        place = place.setdefault(name, {})
    place[names[-1]] = _copied(result)
    return output


def _is_present(path: str, data: Mapping[str, Any]) -> bool:
    try:
        _read(path, data)
    except StepFailed:
        return False
    return True


def _holds(rule: Mapping[str, Any], data: Mapping[str, Any]) -> bool:
    for key, combine in _COMBINED.items():
        if key in rule:
            # Step Functions stops at the first part that decides.
            return combine(_holds(part, data) for part in rule[key])
    if _PRESENCE in rule:
        return _is_present(rule["Variable"], data) is rule[_PRESENCE]
    compared = next(key for key in rule if key in _COMPARISONS)
    return _COMPARISONS[compared](_read(rule["Variable"], data), rule[compared])
