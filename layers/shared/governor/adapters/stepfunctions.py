"""Step Functions: starting remediation, asking whether it runs, and answering the task that waits."""

from __future__ import annotations

import json
from collections.abc import Mapping

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.domain.episode.episode import EpisodeRef
from governor.domain.units import iso
from governor.errors import CloudError, NotFound

_NO_LONGER_WAITS = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")


class StepFunctionsWorkflow:
    """The port `Workflow`."""

    def __init__(self, clients: Clients, state_machine_arn: str) -> None:
        self._clients = clients
        self._machine = state_machine_arn

    def start(self, ref: EpisodeRef) -> bool:
        """Same name and same input while it runs is a success to Step Functions."""
        try:
            with aws_errors("states:StartExecution"):
                self._clients.client("stepfunctions").start_execution(
                    stateMachineArn=self._machine,
                    name=ref.execution_name,
                    input=json.dumps(episode_input(ref), separators=(",", ":"), sort_keys=True),
                )
        except CloudError as error:
            if error.code == "ExecutionAlreadyExists":
                return self.is_running(ref) is not False
            raise
        return True

    def is_running(self, ref: EpisodeRef) -> bool | None:
        arn = self._machine.replace(":stateMachine:", ":execution:") + f":{ref.execution_name}"
        try:
            with aws_errors("states:DescribeExecution"):
                answer = self._clients.client("stepfunctions").describe_execution(executionArn=arn)
        except NotFound:
            return None
        return bool(answer["status"] == "RUNNING")

    def answer(self, task_token: str, decision: Mapping[str, object]) -> bool:
        client = self._clients.client("stepfunctions")
        try:
            with aws_errors("states:SendTaskSuccess"):
                client.send_task_success(taskToken=task_token, output=json.dumps(dict(decision)))
        except CloudError as error:
            if error.code in _NO_LONGER_WAITS:
                return False
            raise
        return True


def episode_input(ref: EpisodeRef) -> dict[str, object]:
    """The input of an execution: names the episode, holds nothing that changes between two sweeps."""
    return {
        "account": ref.account,
        "region": ref.region,
        "instance_id": ref.instance_id,
        "launch_time": iso(ref.launch_time),
        "number": ref.number,
    }
