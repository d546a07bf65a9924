"""The time that a scan waits for services that throttle it, or do not answer.

botocore repeats each call for some seconds. A Region in which every call is throttled would take
minutes so, for nothing: after a while its services are given up, one by one. Any answer of a
service, a refusal too, begins its time anew.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import NamedTuple

PLACE_SECONDS = 20
"""How long the services of one Region are waited for, all together."""
SERVICE_SECONDS = 10
"""How long one of them is waited for at most, so that time is left for the others."""


class ServiceOfRegion(NamedTuple):
    """A service, by botocore's name, in a Region."""

    region: str
    service: str


class Patience:
    """Decides for the calls of one role when a service of a Region is given up."""

    def __init__(self) -> None:
        """Begin with time for every Region."""
        self._lock = threading.Lock()
        self._failing_since: dict[ServiceOfRegion, float] = {}
        self._given_up: dict[ServiceOfRegion, str] = {}
        self._lost_seconds: dict[str, float] = {}

    def note_answer(self, service: ServiceOfRegion) -> None:
        """Note that the service answered."""
        with self._lock:
            self._failing_since.pop(service, None)

    def note_failure(self, service: ServiceOfRegion, what: str) -> None:
        """Note that the service throttled a call, or gave no answer; `what` says which. It is given
        up if it did nothing else for its time."""
        now = monotonic()
        with self._lock:
            if service in self._given_up:
                return
            since = self._failing_since.setdefault(service, now)
            lost_before = self._lost_seconds.get(service.region, 0.0)
            left = min(SERVICE_SECONDS, max(PLACE_SECONDS - lost_before, 0.0))
            if now - since >= left:
                self._lost_seconds[service.region] = lost_before + now - since
                self._given_up[service] = what

    def given_up(self, service: ServiceOfRegion) -> str:
        """Return why the service is given up; empty if it is not."""
        with self._lock:
            return self._given_up.get(service, "")
