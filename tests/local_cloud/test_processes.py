"""Each execution environment is a process with a state and variables of its own, though it was
forked."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local.engine.cloud import LocalCloud
from local.engine.repairs.lambda_errors import _with_error_types

pytestmark = pytest.mark.integration
TEMPLATE = Path(__file__).parent / "stack" / "template.yaml"


class Function:
    """The probe of a stack of its own."""

    def __init__(self, cloud: LocalCloud) -> None:
        self.outputs = cloud.deploy(TEMPLATE, "processes", {})
        self._client = cloud.client("lambda")

    def invoke(self, **event: Any) -> dict[str, Any]:
        """Its answer, or the document of its error."""
        answer = self._client.invoke(
            FunctionName=self.outputs["ProbeArn"], Payload=json.dumps(event)
        )
        return dict(json.loads(answer["Payload"].read()))

    def describe(self, rest: float = 0) -> dict[str, Any]:
        """Return what its process says of itself, after a rest in which others need a process of
        their own."""
        return self.invoke(do="describe-yourself", rest=rest)


@pytest.fixture(scope="module")
def function(bare_cloud: LocalCloud) -> Function:
    """Deployed once."""
    return Function(bare_cloud)


def test_a_process_keeps_its_state_between_calls(function: Function) -> None:
    """As a warm environment does."""
    first, second = function.describe(), function.describe()

    assert first["process"] == second["process"]
    assert first["calls"] + 1 == second["calls"]


def test_calls_at_the_same_time_share_no_state(function: Function) -> None:
    """Two forks of one server, each with its own modules."""
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: function.describe(rest=3), range(3)))

    assert 3 == len({one["process"] for one in found})
    assert 2 <= [one["calls"] for one in found].count(1)


@pytest.mark.parametrize(
    ("event", "error"),
    [({"do": "fail", "error": "Broken"}, "Broken"), ({"do": "die"}, "Runtime.ExitError")],
)
def test_a_process_ends_with_the_call_that_fails(
    function: Function, event: dict[str, Any], error: str
) -> None:
    """The next call finds a new one, whose state begins anew."""
    before = function.describe()
    assert error == function.invoke(**event)["errorType"]
    after = function.describe()

    assert before["process"] != after["process"]
    assert before["calls"] >= after["calls"]


@pytest.mark.parametrize(
    ("message", "engines", "error"),
    [
        ("Worker process died", "Runtime.HandlerError", "Runtime.ExitError"),
        # Its function was updated while it started.
        ("Worker process exited immediately. stderr: ", "RuntimeError", "Runtime.ExitError"),
        ("no such file", "RuntimeError", "RuntimeError"),
    ],
)
def test_a_process_that_is_ended_is_no_error_of_the_function(
    message: str, engines: str, error: str
) -> None:
    """State machines try again after the one and not after the other."""
    body = {"errorMessage": message, "errorType": engines}
    answer = {"body": body, "error": True, "log": ""}

    assert error == _with_error_types(lambda: answer)()["body"]["errorType"]


def test_a_process_has_the_environment_of_its_function_alone(function: Function) -> None:
    """Its variables, its name, the time-out that the template gives it."""
    environment = function.describe()["environment"]

    assert function.outputs["MailboxUrl"] == environment["MAILBOX"]
    assert "ProbeFunction" in environment["AWS_LAMBDA_FUNCTION_NAME"]
    assert "10" == environment["_LAMBDA_TIMEOUT"]


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the engine starts interpreters")
def test_processes_are_forked(function: Function) -> None:
    """By a server that runs in the engine's own group, and so ends with it."""
    parent = function.describe()["parent"]

    assert b"fork_server.py" in Path(f"/proc/{parent}/cmdline").read_bytes()
