"""The page of the console that shows what an alert is about.

Channels and plain subscribers of the topic lead to the same page. This module makes no signed link:
a page of the console is behind a sign-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from governor.alerts.model import UNASSIGNED, Alert, AlertKind


class ConsolePage(NamedTuple):
    """A page of the console to which a message leads."""

    path: tuple[str, ...]
    """The parts of its path."""
    button: str
    """The text of the message's button."""
    query: str = ""

    def url(self, base_url: str) -> str:
        """Return the address of the page in the console at `base_url`."""
        path = "/".join(quote(part, safe="") for part in self.path)
        address = f"{base_url.rstrip('/')}/{path}"
        return f"{address}?{self.query}" if self.query else address


_FLEET = ConsolePage(("fleet",), "See the fleet")
_FREEZES = ConsolePage(("freezes",), "See the freezes")
_OVERVIEW = ConsolePage(("",), "See the overview")
_PAGES: Mapping[AlertKind, ConsolePage] = {
    AlertKind.MANAGED_IDLE: _FLEET,
    AlertKind.TELEMETRY_SILENT: _FLEET,
    AlertKind.EXEMPTION_UNUSUAL: _FLEET,
    AlertKind.MASS_INTERRUPTION: _FLEET,
    AlertKind.INTERRUPTION_ADVICE: _FLEET,
    AlertKind.SCHEDULED_CHANGE: _FLEET,
    AlertKind.HEALTH_FINDING: _FLEET,
    AlertKind.BREAKER_TRIPPED: _FREEZES,
    AlertKind.BREAKER_RELEASED: _FREEZES,
    AlertKind.PAUSED: _FREEZES,
    AlertKind.PAUSE_ENDED: _FREEZES,
    AlertKind.CAPACITY_EMPTY: ConsolePage(("ungoverned",), "See what is not governed"),
    AlertKind.STANDING_STATE: _OVERVIEW,
    AlertKind.STANDING_STATE_OVER: _OVERVIEW,
    AlertKind.FAILURE_OVER: _OVERVIEW,
}
"""Pages of alerts about no single instance."""


def console_page_of(alert: Alert) -> ConsolePage | None:
    """Return the page of the console that shows what an alert without an episode is about: the
    instance if it is about one. Return `None` if no page shows it, such as a change of the
    policy."""
    if alert.instance_id:
        path = ("instances", alert.account, alert.region, alert.instance_id)
        return ConsolePage(path, "See the instance")
    if alert.kind is AlertKind.SAVINGS_REPORT:
        # Also a weekly report: the page shows the month that the week began in.
        month = str(alert.facts.get("period_start", ""))[: len("2026-11")]
        return ConsolePage(("savings",), "See the savings", f"month={month}" if month else "")
    if alert.kind is AlertKind.BUDGET_REACHED and alert.project != UNASSIGNED:
        return ConsolePage(("projects", alert.project), "See the project")
    if alert.kind is AlertKind.BUDGET_REACHED:
        return ConsolePage(("projects",), "See the projects")
    return _PAGES.get(alert.kind)
