"""A simulator of Run Command: takes commands for managed instances that run and keeps them; nothing
is run.

The engine's own would look for instances among its own. It must not know the governor.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from local.engine.simulators.faults import AwsError

IsRunning = Callable[[str, str, str], bool]
"""account, region, instance id"""
TagsIn = Callable[[str, str], Mapping[str, Mapping[str, str]]]
"""account, region: the tags of each instance by its id"""
_TAG = "tag:"


class CommandSimulator:
    """`SendCommand`, `DescribeInstanceInformation` and `DescribeSessions`; `sent` holds every
    command with the time it came.

    `unmanaged` are instances without an agent.
    """

    def __init__(self, is_running: IsRunning, tags_in: TagsIn) -> None:
        self._is_running = is_running
        self._tags_in = tags_in
        self._lock = threading.Lock()
        self.sent: list[dict[str, Any]] = []
        self.sessions: list[dict[str, Any]] = []
        self.unmanaged: set[str] = set()

    def answer(self, operation: str, account: str, region: str, request: Mapping[str, Any]) -> Any:
        """Answers one call; `None` for what is not simulated. Raises: AwsError."""
        match operation:
            case "ssm:SendCommand":
                return self.send(account, region, request)
            case "ssm:DescribeInstanceInformation":
                return self.describe(account, region, request)
            case "ssm:DescribeSessions":
                return self.describe_sessions(request)
        return None

    def send(self, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Takes one command, for instances that it names or that its targets fit. As in AWS, the
        answer does not list the latter.

        Raises:
            AwsError: an instance that it names does not run or is not managed, or a target is not
                a tag.
        """
        named_ids = list(request.get("InstanceIds", ()))
        targets = list(request.get("Targets", ()))
        for instance_id in named_ids:
            if not self._is_managed(account, region, instance_id):
                message = f"Instances [[{instance_id}]] not in a valid state for account {account}"
                raise AwsError("InvalidInstanceId", message)
        command = {
            "CommandId": str(uuid.uuid4()),
            "DocumentName": request["DocumentName"],
            "InstanceIds": named_ids,
            "Targets": targets,
            "Parameters": dict(request.get("Parameters", {})),
            "Status": "Pending",
        }
        reached_ids = named_ids
        if targets:
            reached_ids = self._fitting(account, region, targets)
        with self._lock:
            self.sent.append({**command, "InstanceIds": reached_ids, "at": time.time()})
        return {"Command": command}

    def _fitting(
        self, account: str, region: str, targets: Sequence[Mapping[str, Any]]
    ) -> list[str]:
        """Return the managed instances that have each of these tags, with one of its values."""
        for target in targets:
            if not target["Key"].startswith(_TAG):
                raise AwsError("InvalidTarget", f"{target['Key']} is not simulated as a target")
        found = []
        for instance_id, tags in self._tags_in(account, region).items():
            fits = all(tags.get(one["Key"].removeprefix(_TAG)) in one["Values"] for one in targets)
            if fits and self._is_managed(account, region, instance_id):
                found.append(instance_id)
        return found

    def describe(self, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Those of the instances of the filter `InstanceIds` that are managed, all in one page."""
        filters = {part["Key"]: part["Values"] for part in request["Filters"]}
        wanted = filters["InstanceIds"]
        known = [one for one in wanted if self._is_managed(account, region, one)]
        return {
            "InstanceInformationList": [
                {"InstanceId": one, "PingStatus": "Online"} for one in known
            ]
        }

    def describe_sessions(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The open sessions of the instance of the filter `Target`, whenever they began."""
        filters = {part["key"]: part["value"] for part in request["Filters"]}
        found = [one for one in self.sessions if one["Target"] == filters["Target"]]
        return {"Sessions": found}

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self.sent.clear()
            self.sessions.clear()
        self.unmanaged.clear()

    def _is_managed(self, account: str, region: str, instance_id: str) -> bool:
        return instance_id not in self.unmanaged and self._is_running(account, region, instance_id)
