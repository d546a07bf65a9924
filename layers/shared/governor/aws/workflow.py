"""Starts remediation workflows, answers the task that waits in one, and undoes a stop.

Nothing here stops an instance: the workflow does, after its own checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from governor.aws.call_errors import aws_errors
from governor.aws.clients import Adapter
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, NotFound, Unavailable
from governor.core.units import iso
from governor.episode.ports import UndoAnswer

_NO_LONGER_WAITS = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")


class StepFunctionsWorkflow(Adapter):
    """Fulfils `governor.episode.ports.Workflow`."""

    def start(self, ref: EpisodeRef) -> bool:
        """Start the workflow of an episode. Return true if it runs now, also if it ran before, and
        false if it has already ended. Raises: CloudError.

        While a workflow runs, Step Functions accepts the same name with the same input again.
        """
        execution_input = json.dumps(episode_input(ref), separators=(",", ":"), sort_keys=True)
        named: Any = {"stateMachineArn": self._resource, "name": ref.execution_name}
        try:
            self._call("states:StartExecution", **named, input=execution_input)
        except CloudError as error:
            if error.code == "ExecutionAlreadyExists":
                # `None` would contradict the refusal, so it counts as running.
                return self.is_running(ref) is not False
            raise
        return True

    def is_running(self, ref: EpisodeRef) -> bool | None:
        """Return whether the workflow of an episode runs; `None` if there is none of this name.
        Raises: CloudError."""
        arn = self._resource.replace(":stateMachine:", ":execution:") + f":{ref.execution_name}"
        try:
            answer = self._call("states:DescribeExecution", executionArn=arn)
        except NotFound:
            return None
        return bool(answer["status"] == "RUNNING")

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        """End the task with this token, which waits in a workflow, and hand it the decision. Return
        false if the task no longer waits. Raises: CloudError."""
        output = json.dumps(dict(decision))
        try:
            self._call("states:SendTaskSuccess", taskToken=task_token, output=output)
        except CloudError as error:
            if error.code in _NO_LONGER_WAITS:
                return False
            raise
        return True


class LambdaUndoer(Adapter):
    """Fulfils the port `Undoer`: invokes the only function that may start instances, and waits for
    its answer."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Invoke the function that starts the instance again, once; return its answer, which says
        whether EC2 was asked (`done`), and the text for the person. Raises: CloudError; Unavailable
        if the function failed, or its answer did not come or cannot be read: it may have asked."""
        event = {"episode": episode_input(ref), "by": by, "channel": channel}
        with aws_errors("lambda:InvokeFunction"):
            answer = self._clients.client("lambda", repeat=False).invoke(
                FunctionName=self._resource, Payload=json.dumps(event).encode()
            )
            body = _json_or_none(answer["Payload"].read())
        document = body if isinstance(body, dict) else {}
        if answer.get("FunctionError"):
            error_type = document.get("errorType", "error")
            raise Unavailable(
                f"the instance could not be started: {error_type}",
                operation="lambda:InvokeFunction",
            )
        if "done" not in document or "text" not in document:
            raise Unavailable(
                "the function that starts instances ran, and its answer cannot be read",
                operation="lambda:InvokeFunction",
            )
        return UndoAnswer(bool(document["done"]), str(document["text"]))


def _json_or_none(payload: bytes) -> object:
    """Return the value that a payload in JSON holds; `None` if it is no JSON."""
    try:
        return json.loads(payload)
    except ValueError:
        return None


def episode_input(ref: EpisodeRef) -> dict[str, object]:
    """Return the input of the workflow of an episode: the fields of its name. It must hold nothing
    that changes between two sweeps, or a second start would not count as the same."""
    return {**asdict(ref), "launch_time": iso(ref.launch_time)}
