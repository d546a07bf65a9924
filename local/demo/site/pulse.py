"""Lets the simulated fleet go on: its agents publish every minute, and a sweep looks every minute.

The engine fires no schedules, so whoever keeps the cloud running calls `beat`, with the time.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from local.demo.fleet import series_of
from local.demo.scene import Scene

MINUTE = timedelta(minutes=1)
_LOOK = timedelta(minutes=15)
"""As the template's schedule."""
_SCAN = timedelta(days=1)
_MOST = timedelta(hours=6)
"""Longest gap that is filled: a laptop that has slept for longer starts anew."""
_PUBLISHING = ("running", "stopping")


class Pulse:
    """The pulse of a scene whose members were launched at `launched`. `beat` may be called as often
    as one likes."""

    def __init__(self, scene: Scene, launched: datetime) -> None:
        self.scene, self.launched = scene, launched
        self._published = _minute(launched)
        self._swept = self._looked = self._scanned = launched
        self._seen: object = None

    def beat(self, now: datetime) -> None:
        """Publish the minutes that are over, and sweep when one is, or a workflow has moved on."""
        self.publish(now)
        executions = {name: found["status"] for name, found in self.scene.executions().items()}
        if now - self._swept >= MINUTE or executions != self._seen:
            self._swept, self._seen = now, executions
            self.scene.sweep()
        if now - self._looked >= _LOOK:
            self._looked = now
            self.scene.sweep("health")
        if now - self._scanned >= _SCAN:
            self._scanned = now
            self.scene.sweep("scan")

    def publish(self, now: datetime) -> None:
        """Publish what running instances have measured since the last time."""
        until = _minute(now)
        since = max(self._published, until - _MOST)
        if since < until:
            states = self.scene.simulation.dump()["instances"]
            for instance_id, member in self.scene.members.items():
                if states.get(instance_id) in _PUBLISHING:
                    series = series_of(member, instance_id, self.launched, since, until)
                    self.scene.simulation.put_metrics(series)
            self._published = until


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
