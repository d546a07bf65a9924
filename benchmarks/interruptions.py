"""Spot warnings for many instances in the same moment: how long until each has its checkpoint hook.

On the local cloud, through the template's rule, its queue and the real handler: from the moment in
which EC2 warns to the one in which Systems Manager takes each command. Cold starts and the queue's
batching window are in it. Function and cloud share this machine's processors.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from local.demo.fleet import T4, Member, idle
from local.demo.receivers import Receivers
from local.demo.scene import deploy_scene
from local.engine.cloud import LocalCloud

WARNINGS = 200
_PATIENCE_SECONDS = 120


@dataclass(frozen=True)
class Burst:
    """Seconds from the warnings to the command of each instance that got one."""

    warned: int
    seconds: tuple[float, ...]

    def percentile(self, share: float) -> float:
        """The time within which this share of all warned instances, 0 to 1, had its hook."""
        rank = math.ceil(share * self.warned)
        return sorted(self.seconds)[rank - 1] if rank <= len(self.seconds) else math.inf

    @property
    def median(self) -> float:
        """Return the median of those that got a hook."""
        return statistics.median(self.seconds)


def measure(warnings: int = WARNINGS) -> Burst:
    """One burst in a stack that nobody has used before: cold starts are in it."""
    with Receivers() as receivers, LocalCloud(trust=receivers.certificate) as cloud:
        scene = deploy_scene(cloud, receivers, mode="ask")
        fleet = [
            Member(
                f"node-{number}",
                "g4dn.xlarge",
                T4,
                1,
                idle,
                "idle",
                "warned",
                lifecycle="spot",
                spot_request_type="one-time",
            )
            for number in range(warnings)
        ]
        ids = scene.launch(fleet).values()
        began = time.time()
        scene.simulation.spot_warning(*ids)
        until = began + _PATIENCE_SECONDS
        while (
            len(hooked := _hooked(scene.simulation.commands())) < warnings and time.time() < until
        ):
            time.sleep(0.5)
    return Burst(warnings, tuple(at - began for at in hooked.values()))


def _hooked(commands: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return when each instance was asked to save its work; a command may go to many."""
    return {
        instance_id: command["at"] for command in commands for instance_id in command["InstanceIds"]
    }
