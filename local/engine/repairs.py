"""Repairs of the engine: where it differs from AWS in something the product leans on.

Each repair names what AWS does and what the engine does. They reach into private parts of one pinned version;
`tests/local_cloud` fails when an upgrade moves them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any


def repair_all(wait_scale: float) -> None:
    """Puts all repairs in place. `wait_scale` scales the time-outs of tasks as the engine scales waits."""
    from ministack.services import lambda_svc, stepfunctions

    lambda_svc._execute_function_warm = _with_error_types(lambda_svc._execute_function_warm)
    stepfunctions._execute_task = _with_timeout_paths(stepfunctions._execute_task, wait_scale)
    stepfunctions._call_lambda = _remembering_failures(stepfunctions._call_lambda)
    stepfunctions._invoke_with_callback = _failing_at_once(stepfunctions._invoke_with_callback)


_LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+)(?:: .*)?$")


def _with_error_types(engine: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """AWS: `errorType` is the class of the exception. Engine: always `Runtime.HandlerError`."""

    def execute(*args: Any, **kwargs: Any) -> dict[str, Any]:
        result = engine(*args, **kwargs)
        body = result.get("body")
        if result.get("error") and isinstance(body, dict) and body.get("errorType") == "Runtime.HandlerError":
            name = _exception_name(result.get("log", ""))
            if name is not None:
                body["errorType"] = name
        return result

    return execute


def _exception_name(log: str) -> str | None:
    """The class in the last line of the last traceback."""
    start = log.rfind("Traceback (most recent call last):")
    if start < 0:
        return None
    for line in log[start:].splitlines()[1:]:
        # The lines of the stack are indented; the first that is not names the exception.
        if line and not line[0].isspace():
            match = _LAST_LINE.match(line)
            return match[1] if match else None
    return None


def _with_timeout_paths(engine: Callable[..., Any], wait_scale: float) -> Callable[..., Any]:
    """AWS: `TimeoutSecondsPath` takes the time-out from the input. Engine: ignored, nearly for ever.

    The time-out is scaled like a wait, but never under half a second: an answer needs time to come.
    """

    def execute(state: dict[str, Any], raw_input: Any, execution: Any, ctx: Any) -> Any:
        path = state.get("TimeoutSecondsPath")
        if path is not None:
            value: Any = raw_input
            for part in path.removeprefix("$.").split("."):
                value = value[part]
            state = {**state, "TimeoutSeconds": max(0.5, float(value) * wait_scale)}
        return engine(state, raw_input, execution, ctx)

    return execute


class _CallbackFailed(Exception):
    """Carries the failure of a callback task's Lambda past the engine's `except`."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


_in_callback: set[int] = set()


def _remembering_failures(engine: Callable[..., Any]) -> Callable[..., Any]:
    import threading

    from ministack.services.stepfunctions import _ExecutionError

    def call(func_ref: str, event: Any) -> Any:
        try:
            return engine(func_ref, event)
        except _ExecutionError as error:
            if threading.get_ident() in _in_callback:
                raise _CallbackFailed(error) from error
            raise

    return call


def _failing_at_once(engine: Callable[..., Any]) -> Callable[..., Any]:
    """AWS: a callback task whose Lambda fails has failed. Engine: swallowed until the time-out."""
    import threading

    from ministack.services import stepfunctions

    def invoke(resource: str, input_data: Any, token: str, state: dict[str, Any]) -> Any:
        _in_callback.add(threading.get_ident())
        try:
            return engine(resource, input_data, token, state)
        except _CallbackFailed as failed:
            stepfunctions._task_tokens.pop(token, None)
            raise failed.error from failed
        finally:
            _in_callback.discard(threading.get_ident())

    return invoke
