"""A simulator of Run Command: takes commands for running instances and keeps them; nothing is run.

The engine's own would look for instances among its own. It must not know the governor.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from local.engine.faults import AwsError

IsRunning = Callable[[str, str, str], bool]
"""account, region, instance id"""


class CommandSimulator:
    """`SendCommand`; `sent` holds every command with the time it came."""

    def __init__(self, is_running: IsRunning) -> None:
        self._is_running = is_running
        self._lock = threading.Lock()
        self.sent: list[dict[str, Any]] = []

    def send(self, account: str, region: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Answers one call. Raises: AwsError for an instance that does not run."""
        for instance_id in request["InstanceIds"]:
            if not self._is_running(account, region, instance_id):
                message = f"Instances [[{instance_id}]] not in a valid state for account {account}"
                raise AwsError("InvalidInstanceId", message)
        command = {
            "CommandId": str(uuid.uuid4()),
            "DocumentName": request["DocumentName"],
            "InstanceIds": list(request["InstanceIds"]),
            "Parameters": dict(request.get("Parameters", {})),
            "Status": "Pending",
        }
        with self._lock:
            self.sent.append({**command, "at": time.time()})
        return {"Command": command}

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self.sent.clear()
