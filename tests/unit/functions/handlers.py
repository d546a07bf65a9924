"""Calls the handler of a function as Lambda does, with what it is wired with replaced."""

from __future__ import annotations

import importlib.util
import json
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

# Loaded while tests are collected: its metrics read the environment once, and a test that loads it
# first has none (`tests/conftest.py`).
import governor.wiring.observability  # noqa: F401
from local.demo.samples import of_this_account
from tests.unit.wiring.samples import SIGN_IN, VARIABLES

ROOT = Path(__file__).parents[3]
EVENTS = ROOT / "events"
_RUNTIME = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "POWERTOOLS_METRICS_NAMESPACE": "test",
}
_CONTEXT = SimpleNamespace(
    function_name="function",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:function",
    aws_request_id="request",
)


def sample(name: str) -> Any:
    """An event of `events/`, of this account, and without what keeps it from being tried:
    `put_away/stop`."""
    found = of_this_account(json.loads((EVENTS / f"{name}.json").read_text()))
    return {key: value for key, value in found.items() if key != "sample"}


def call(function: str, event: Any, wired: Any) -> dict[str, Any]:
    """Return what the handler returns for the event."""
    handler = module(function).handler
    with mock.patch.dict("os.environ", _RUNTIME), warnings.catch_warnings():
        # Powertools says so at each invocation that counted nothing.
        warnings.filterwarnings("ignore", "No application metrics to publish")
        found: dict[str, Any] = handler(event, _CONTEXT, wired)
    return found


@cache
def module(function: str) -> ModuleType:
    """The handler's module, as its cold start leaves it."""
    return load(function, {**VARIABLES, **(SIGN_IN if function == "sign_in" else {})})


def load(function: str, variables: Mapping[str, str]) -> ModuleType:
    """Cold start it with these variables and no others."""
    path = ROOT / "functions" / function / "handler.py"
    spec = importlib.util.spec_from_file_location(f"handler_of_{function}", path)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    environment = {**_RUNTIME, "POWERTOOLS_SERVICE_NAME": function, **variables}
    with mock.patch.dict("os.environ", environment, clear=True):
        spec.loader.exec_module(found)
    return found
