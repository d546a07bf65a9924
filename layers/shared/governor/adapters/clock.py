"""The system's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from governor.domain.units import UtcDatetime


class SystemClock:
    """The port `Clock`."""

    def now(self) -> UtcDatetime:
        return utc_now()


def utc_now() -> UtcDatetime:
    """Return the time, aware."""
    return datetime.now(tz=UTC)
