"""Remediation: starting it, asking whether it runs, answering the task that waits, and undoing a
stop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from governor.adapters.clients import Adapter, aws_errors
from governor.domain.episode.episode import EpisodeRef
from governor.domain.units import iso
from governor.errors import CloudError, NotFound, Unavailable
from governor.ports import UndoAnswer

_NO_LONGER_WAITS = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")


class StepFunctionsWorkflow(Adapter):
    def start(self, ref: EpisodeRef) -> bool:
        """Same name and same input while it runs is a success to Step Functions."""
        given = json.dumps(episode_input(ref), separators=(",", ":"), sort_keys=True)
        named: Any = {"stateMachineArn": self._resource, "name": ref.execution_name}
        try:
            self._call("states:StartExecution", **named, input=given)
        except CloudError as error:
            if error.code == "ExecutionAlreadyExists":
                return self.is_running(ref) is not False
            raise
        return True

    def is_running(self, ref: EpisodeRef) -> bool | None:
        arn = self._resource.replace(":stateMachine:", ":execution:") + f":{ref.execution_name}"
        try:
            answer = self._call("states:DescribeExecution", executionArn=arn)
        except NotFound:
            return None
        return bool(answer["status"] == "RUNNING")

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        try:
            self._call(
                "states:SendTaskSuccess", taskToken=task_token, output=json.dumps(dict(decision))
            )
        except CloudError as error:
            if error.code in _NO_LONGER_WAITS:
                return False
            raise
        return True


class LambdaUndoer(Adapter):
    """The port `Undoer`: asks the one function that may start instances, and waits for its
    answer."""

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        event = {"episode": episode_input(ref), "by": by, "channel": channel}
        with aws_errors("lambda:InvokeFunction"):
            answer = self._clients.client("lambda", repeat=False).invoke(
                FunctionName=self._resource, Payload=json.dumps(event).encode()
            )
            body = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            what = body.get("errorType", "error") if isinstance(body, dict) else "error"
            raise Unavailable(
                f"the instance could not be started: {what}", operation="lambda:InvokeFunction"
            )
        return UndoAnswer(bool(body["done"]), str(body["text"]))


def episode_input(ref: EpisodeRef) -> dict[str, object]:
    """The input of an execution: names the episode, holds nothing that changes between two
    sweeps."""
    return {**asdict(ref), "launch_time": iso(ref.launch_time)}
