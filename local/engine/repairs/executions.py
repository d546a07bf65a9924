"""Executions: repeated starts, aborts, and errors that nothing can catch.

- AWS: a start with the name and the input of a running execution succeeds. Engine:
  ExecutionAlreadyExists.
- AWS: an abort is final and ends the work at once. Engine: states go on, and may turn ABORTED into
  FAILED.
- AWS: neither `States.ALL` nor `States.TaskFailed` catches `States.Runtime` or
  `States.DataLimitExceeded`. Engine: both do; and it knows no limit of 256 KiB to what a state puts
  out.
- AWS: `SecondsPath` must lead to a whole number. Engine: waits not at all for anything else.
- AWS: the function of a task has processors of its own. Engine: the time-out of the task ends by
  the wall clock, however busy this machine is. Here it is several times as long, as the function's.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from local.engine.workers.processes import PATIENCE

PAYLOAD_LIMIT = 262_144
"""Bytes that a state may put out."""
_MOMENT_SECONDS = 1.0
"""How long an execution is awaited in one request."""
_LOOKS = 50

_current: ContextVar[dict[str, Any] | None] = ContextVar("execution", default=None)
"""The execution that this thread works for. The engine hands contexts on to the threads it
starts."""


def repair() -> None:
    """Wraps the engine's functions; it looks them up by name at every call."""
    from ministack.services import stepfunctions as engine

    engine._start_execution = _idempotent(engine._start_execution)
    engine._fail_execution = _only_while_running(engine._fail_execution)
    engine._error_matches = _but_for_terminal_errors(engine._error_matches)
    engine._execute_wait = _whole_seconds(engine._execute_wait)
    engine._execute_task = _within(engine._execute_task)
    engine._execute_map = _within(engine._execute_map)
    engine._call_lambda = _unless_aborted(engine._call_lambda)
    engine._invoke_resource_with_timeout = _patient(engine._invoke_resource_with_timeout)


def stop_if_aborted() -> None:
    """Ends the thread of an execution that has been aborted, without a word.

    Raises:
        SystemExit: it has; no `except Exception` of the engine makes a failure of that.
    """
    execution = _current.get()
    if execution is not None and execution.get("status", "RUNNING") != "RUNNING":
        raise SystemExit


async def has_ended(arn: str) -> bool:
    """Return whether an execution has ended, as soon as it has; `False` where it still runs after a
    moment. One that is not known counts as ended."""
    from ministack.services import stepfunctions

    for _ in range(_LOOKS):
        execution = stepfunctions._executions.get(arn)
        if execution is None or execution["status"] != "RUNNING":
            return True
        await asyncio.sleep(_MOMENT_SECONDS / _LOOKS)
    return False


def steps() -> int:
    """Return how many events the histories of all executions hold."""
    from ministack.services import stepfunctions

    return sum(len(one["events"]) for one in list(stepfunctions._executions.values()))


def current_arn() -> str | None:
    """The ARN of the execution that this thread works for."""
    execution = _current.get()
    return execution.get("executionArn") if execution else None


def _idempotent(engine: Callable[..., Any]) -> Callable[..., Any]:
    from ministack.services import stepfunctions

    def start(data: dict[str, Any]) -> Any:
        answer = engine(data)
        status, headers, body = answer
        if status == 200 or b"ExecutionAlreadyExists" not in _bytes(body):
            return answer
        arn = re.search(r"'(arn:[^']+)'", _bytes(body).decode())
        running = stepfunctions._executions.get(arn[1]) if arn else None
        if (
            running is None
            or running["status"] != "RUNNING"
            or running["input"] != data.get("input", "{}")
        ):
            return answer
        known = {"executionArn": running["executionArn"], "startDate": running["startDate"]}
        return 200, headers, json.dumps(known).encode()

    return start


def _only_while_running(engine: Callable[..., None]) -> Callable[..., None]:
    def fail(execution: dict[str, Any], error: str, cause: str) -> None:
        if execution["status"] == "RUNNING":
            engine(execution, error, cause)

    return fail


def _but_for_terminal_errors(engine: Callable[..., bool]) -> Callable[..., bool]:
    def matches(error_equals: list[str], error: str) -> bool:
        if error == "States.Runtime":
            return False
        if error == "States.DataLimitExceeded":
            return error in error_equals
        return engine(error_equals, error)

    return matches


def _whole_seconds(engine: Callable[..., Any]) -> Callable[..., Any]:
    def execute(state: dict[str, Any], raw_input: Any, ctx: Any = None) -> Any:
        if "SecondsPath" in state:
            whole_number(state["SecondsPath"], raw_input, at_least=0)
        return engine(state, raw_input, ctx)

    return execute


def whole_number(path: str, raw_input: Any, *, at_least: int) -> int:
    """Return what a reference path leads to. Raises: the engine's error, as `States.Runtime`."""
    from ministack.services import stepfunctions

    value = stepfunctions._resolve_path(path, raw_input)
    if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
        message = f"{path} must lead to a whole number of at least {at_least}, not to {value!r}"
        raise stepfunctions._ExecutionError("States.Runtime", message)
    return value


def _within(engine: Callable[..., Any]) -> Callable[..., Any]:
    from ministack.services.stepfunctions import _ExecutionError

    def execute(state: dict[str, Any], raw_input: Any, execution: Any, ctx: Any) -> Any:
        outer = _current.set(execution)
        try:
            output, following = engine(state, raw_input, execution, ctx)
            stop_if_aborted()
        finally:
            _current.reset(outer)
        size = len(json.dumps(output, separators=(",", ":")).encode())
        if size > PAYLOAD_LIMIT:
            message = f"the state puts out {size} bytes, more than {PAYLOAD_LIMIT}"
            raise _ExecutionError("States.DataLimitExceeded", message)
        return output, following

    return execute


def _unless_aborted(engine: Callable[..., Any]) -> Callable[..., Any]:
    def call(func_ref: str, event: Any) -> Any:
        stop_if_aborted()
        return engine(func_ref, event)

    return call


def _patient(engine: Callable[..., Any]) -> Callable[..., Any]:
    def invoke(resource: str, input_data: Any, timeout: float) -> Any:
        return engine(resource, input_data, timeout * PATIENCE)

    return invoke


def _bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else str(body).encode()
