"""The time that a scan waits for services that throttle it, or do not answer.

botocore repeats each call for some seconds. A Region in which every call is throttled, or waits for
its timeout, would take minutes so, for nothing: after a while its services are given up, one by
one. After any answer of a service, even a refusal, its time begins again.

A service that throttles costs no time once the Region's time is spent: one try shows it. A service
that hangs costs a whole timeout. If a service of the Region hung, no other is called after that.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import NamedTuple

PLACE_SECONDS = 20
"""How long the services of one Region are waited for, all together."""
SERVICE_SECONDS = 10
"""How long one of them is waited for at most, so that time is left for the others. A call waits no
longer for its answer either."""
THROTTLED = "the service throttled every call"
NO_ANSWER = "the service did not answer"


class ServiceOfRegion(NamedTuple):
    """A service, by botocore's name, in a Region."""

    region: str
    service: str


class Patience:
    """Decides for the calls of one role when a service of a Region, or the Region, is given up."""

    def __init__(self) -> None:
        """Begin with time for every Region."""
        self._lock = threading.Lock()
        self._answered_at: dict[ServiceOfRegion, float] = {}
        self._failing_since: dict[ServiceOfRegion, float] = {}
        self._given_up: dict[ServiceOfRegion, str] = {}
        self._lost_seconds: dict[str, float] = {}
        self._silent_regions: set[str] = set()

    def note_answer(self, service: ServiceOfRegion) -> None:
        """Note that the service answered, so that its time without an answer begins again."""
        now = monotonic()
        with self._lock:
            self._answered_at[service] = now
            self._failing_since.pop(service, None)

    def note_failure(self, service: ServiceOfRegion, what: str, sent_at: float) -> None:
        """Note that the service throttled a call, or gave no answer; `what` says which, and
        `sent_at` is the time at which this try was sent, of the clock `monotonic`.

        Give the service up once it has only failed for `SERVICE_SECONDS`, or for what is left of
        the `PLACE_SECONDS` that all services of its Region may lose. Do nothing if it is given up.
        """
        now = monotonic()
        with self._lock:
            if service in self._given_up:
                return
            # Another call may have been answered while this one waited.
            failing_from = max(sent_at, self._answered_at.get(service, sent_at))
            since = self._failing_since.setdefault(service, failing_from)
            lost_before = self._lost_seconds.get(service.region, 0.0)
            left = min(SERVICE_SECONDS, max(PLACE_SECONDS - lost_before, 0.0))
            if now - since < left:
                return
            self._lost_seconds[service.region] = lost_before + now - since
            self._given_up[service] = what
            if what == NO_ANSWER:
                self._silent_regions.add(service.region)

    def given_up(self, service: ServiceOfRegion) -> str:
        """Return why the service is given up; empty if it is not."""
        with self._lock:
            return self._given_up.get(service, "")

    def is_region_given_up(self, region: str) -> bool:
        """Return whether no service of the Region is called any more: its time is spent, and a
        service of it did not answer."""
        with self._lock:
            is_spent = self._lost_seconds.get(region, 0.0) >= PLACE_SECONDS
            return is_spent and region in self._silent_regions
