"""The system's clock."""

from __future__ import annotations

from datetime import UTC, datetime

from governor.domain.units import UtcDatetime


class SystemClock:
    """The port `Clock`."""

    @staticmethod
    def now() -> UtcDatetime:
        return datetime.now(tz=UTC)
