"""Tasks that wait for their token.

- AWS: `TimeoutSecondsPath` takes the time-out from the input. Engine: ignored, nearly for ever.
- AWS: a callback task whose Lambda fails has failed. Engine: swallowed until the time-out.
- AWS: every attempt has a token of its own. Engine: one token for all attempts.
- AWS: a token that is used, timed out or aborted answers TaskTimedOut, an unknown one InvalidToken.
  Engine: a second answer overwrites the first, all else is TaskDoesNotExist; an abort leaves the
  token waiting.

`HeartbeatSeconds` is not repaired: the engine ignores it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from local.engine.repairs.executions import current_arn, stop_if_aborted, whole_number

_MINIMUM_SECONDS = 0.5
"""However small the scale: an answer needs time to come."""

_ended: set[str] = set()
_waiting: dict[str, str | None] = {}
"""Tokens that are waited for, and the executions that wait."""
_in_callback: ContextVar[bool] = ContextVar("in_callback", default=False)


def repair(wait_scale: float) -> None:
    """Wraps the engine's functions; it looks them up by name at every call."""
    from ministack.services import stepfunctions as engine

    engine._execute_task = _with_own_tokens(_with_timeout_paths(engine._execute_task, wait_scale))
    engine._call_lambda = _marking_failures(engine._call_lambda)
    engine._invoke_with_callback = _watched(engine._invoke_with_callback)
    engine._stop_execution = _releasing(engine._stop_execution)
    engine._send_task_success = _for_waiting_tokens(_with_json_output(engine._send_task_success))
    engine._send_task_failure = _for_waiting_tokens(engine._send_task_failure)
    engine._send_task_heartbeat = _for_waiting_tokens(engine._send_task_heartbeat)


def _with_timeout_paths(engine: Callable[..., Any], wait_scale: float) -> Callable[..., Any]:
    def execute(state: dict[str, Any], raw_input: Any, execution: Any, ctx: Any) -> Any:
        path = state.get("TimeoutSecondsPath")
        if path is not None:
            seconds = whole_number(path, raw_input, at_least=1)
            state = {**state, "TimeoutSeconds": max(_MINIMUM_SECONDS, seconds * wait_scale)}
        return engine(state, raw_input, execution, ctx)

    return execute


class _StateContext(dict[str, Any]):
    """The engine notes the count of retries here at the start of every attempt: a new token is
    due."""

    def __init__(self, known: dict[str, Any], ctx: dict[str, Any]) -> None:
        super().__init__(known)
        self._ctx = ctx

    def __setitem__(self, key: str, value: Any) -> None:
        from ministack.core.responses import new_uuid

        super().__setitem__(key, value)
        if key == "RetryCount":
            self._ctx["Task"] = {"Token": new_uuid()}


def _with_own_tokens(engine: Callable[..., Any]) -> Callable[..., Any]:
    def execute(state: dict[str, Any], raw_input: Any, execution: Any, ctx: Any) -> Any:
        if ".waitForTaskToken" in state.get("Resource", ""):
            ctx["State"] = _StateContext(ctx["State"], ctx)
        return engine(state, raw_input, execution, ctx)

    return execute


class _CallbackFailed(Exception):
    """Carries the failure of a callback task's Lambda past the engine's `except`."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


def _marking_failures(engine: Callable[..., Any]) -> Callable[..., Any]:
    from ministack.services.stepfunctions import _ExecutionError

    def call(func_ref: str, event: Any) -> Any:
        try:
            return engine(func_ref, event)
        except _ExecutionError as error:
            if _in_callback.get():
                raise _CallbackFailed(error) from error
            raise

    return call


def _watched(engine: Callable[..., Any]) -> Callable[..., Any]:
    from ministack.services import stepfunctions

    def invoke(resource: str, input_data: Any, token: str, state: dict[str, Any]) -> Any:
        mark = _in_callback.set(True)
        _waiting[token] = current_arn()
        try:
            return engine(resource, input_data, token, state)
        except _CallbackFailed as failed:
            stepfunctions._task_tokens.pop(token, None)
            raise failed.error from failed
        finally:
            _in_callback.reset(mark)
            _waiting.pop(token, None)
            _ended.add(token)
            stop_if_aborted()

    return invoke


def _releasing(engine: Callable[..., Any]) -> Callable[..., Any]:
    """Whoever waits in an aborted execution wakes up, and finds it aborted."""
    from ministack.services import stepfunctions

    def stop(data: dict[str, Any]) -> Any:
        answer = engine(data)
        if answer[0] == 200:
            for token in [
                token for token, arn in _waiting.items() if arn == data.get("executionArn")
            ]:
                _ended.add(token)
                info = stepfunctions._task_tokens.get(token)
                if info is not None:
                    info["event"].set()
        return answer

    return stop


def _for_waiting_tokens(engine: Callable[..., Any]) -> Callable[..., Any]:
    from ministack.core.responses import error_response_json
    from ministack.services import stepfunctions

    def send(data: dict[str, Any]) -> Any:
        token = data.get("taskToken", "")
        info = stepfunctions._task_tokens.get(token)
        if token in _ended or (info is not None and info["event"].is_set()):
            return error_response_json("TaskTimedOut", "Task Timed Out: it no longer waits", 400)
        if info is None:
            return error_response_json("InvalidToken", "Invalid Token", 400)
        return engine(data)

    return send


def _with_json_output(engine: Callable[..., Any]) -> Callable[..., Any]:
    from ministack.core.responses import error_response_json

    def send(data: dict[str, Any]) -> Any:
        try:
            json.loads(data.get("output", ""))
        except ValueError:
            return error_response_json("InvalidOutput", "The output is no JSON", 400)
        return engine(data)

    return send
