"""Systems Manager Run Command: starts the checkpoint document on instances, and does not look back.

The document is made by `stacks/telemetry.yaml`. This module must not know why they are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from governor.adapters.clients import Clients, pages
from governor.adapters.errors import aws_errors
from governor.domain.instance import Target

_SHORTEST_SECONDS = 30
"""What SendCommand takes at least as `TimeoutSeconds`; and EC2 may be later than it said."""
_LONGEST_SECONDS = 9_999
"""What the document takes as `SecondsLeft`."""
_PAGE = 50
"""What DescribeInstanceInformation answers at a time, at most. Source: its API."""


class RunCommandHook:
    """The port `CheckpointHook`. Repeated when throttled; a hook that runs already is not begun again."""

    def __init__(self, clients: Clients, document_name: str) -> None:
        self._clients = clients
        self._document = document_name

    def send(
        self, target: Target, instance_ids: Sequence[str], reason: str, seconds_left: int, *, signal: bool
    ) -> str:
        left = min(max(_SHORTEST_SECONDS, seconds_left), _LONGEST_SECONDS)
        with aws_errors("ssm:SendCommand"):
            answer = self._client(target).send_command(
                InstanceIds=list(instance_ids),
                DocumentName=self._document,
                Parameters={
                    "Reason": [reason],
                    "WhenNoHook": ["sigterm" if signal else "nothing"],
                    "SecondsLeft": [str(left)],
                },
                TimeoutSeconds=left,
                Comment=f"GPU Governor: {reason}",
            )
        return str(answer["Command"]["CommandId"])

    def managed(self, target: Target, instance_ids: Sequence[str]) -> frozenset[str]:
        listed = pages(
            "ssm:DescribeInstanceInformation",
            self._client(target).describe_instance_information,
            Filters=[{"Key": "InstanceIds", "Values": list(instance_ids)}],
            MaxResults=_PAGE,
        )
        return frozenset(one["InstanceId"] for page in listed for one in page["InstanceInformationList"])

    def _client(self, target: Target) -> Any:
        # An answer that takes long is of no use: people must be notified within the same two minutes.
        return self._clients.client("ssm", target, patient=False)
