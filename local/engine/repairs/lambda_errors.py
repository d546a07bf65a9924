"""AWS: the `errorType` of a failed function is its exception's class. Engine: always
`Runtime.HandlerError`.

Without it no Retry and no Catch of a state machine could tell one error from another. A process
that ended without an exception is a `Runtime.ExitError` at AWS; the engine ends one when its
function is updated, at work or while it starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_DIED = "Worker process died"
_DIED_AT_START = "Worker process exited immediately"
_LAST_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+)(?:: .*)?$")


def repair() -> None:
    """Reads the class from the traceback in the log."""
    from ministack.services import lambda_svc

    lambda_svc._execute_function_warm = _with_error_types(lambda_svc._execute_function_warm)


def _with_error_types(engine: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    def execute(*args: Any, **kwargs: Any) -> dict[str, Any]:
        result = engine(*args, **kwargs)
        body = result.get("body")
        if not result.get("error") or not isinstance(body, dict):
            return result
        message = str(body.get("errorMessage"))
        has_died = message == _DIED or message.startswith(_DIED_AT_START)
        if has_died or body.get("errorType") == "Runtime.HandlerError":
            name = exception_name(result.get("log", ""))
            if name is None and has_died:
                name = "Runtime.ExitError"
            if name is not None:
                body["errorType"] = name
        return result

    return execute


def exception_name(log: str) -> str | None:
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
