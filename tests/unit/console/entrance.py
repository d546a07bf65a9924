"""Sessions of the console over a table in memory, for tests of its pages and forms."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from governor.approvals.model.terms import Role, SignedIn, SignIn
from governor.approvals.open_console import OpenConsole
from governor.approvals.rules.links import LinkSigner
from governor.approvals.store.sessions import SignIns
from governor.console.app import Console, Request
from governor.console.session import ConsoleSessions
from governor.table.table import Table
from governor.web.sessions import SESSION_COOKIE, Session, Sessions
from tests.twins.table import MemoryTable

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
KEYS = {"current": "k1", "k1": "k" * 32}


class Clock:
    def __init__(self, at: datetime = NOW) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at


class Entrance:
    """ConsoleSessions, and visitors who come through them."""

    def __init__(self, table: Table | None = None, *, issuer: str = "https://issuer") -> None:
        self.clock = Clock()
        self.table = table or MemoryTable()
        self.stored = SignIns(self.table)
        self.cookies = Sessions(LinkSigner(lambda: KEYS, None), ("scope",))
        enter = OpenConsole(self.stored, self.clock, issuer)
        self.doors = ConsoleSessions(self.cookies, enter)

    def session(
        self, identity: str = "oidc:1", email: str | None = None, **more: Any
    ) -> dict[str, str]:
        """The cookies of somebody who has just signed in."""
        session_id, now = f"session of {identity} {email}", self.clock.now()
        by = f"oidc:{email}" if email else identity
        who = SignIn(identity, by, more.pop("at", now), now + timedelta(hours=8), email, **more)
        self.stored.keep_session(session_id, who)
        cookie = self.cookies.cookie(Session(session_id, SignedIn("1", email, Role.VIEWER)), now)
        return {SESSION_COOKIE: cookie.partition(";")[0].partition("=")[2]}


def ask(
    console: Console,
    address: str,
    method: str = "GET",
    *,
    cookies: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Ask the console as API Gateway does."""
    path, query = (
        urlsplit(address).path,
        dict(parse_qsl(urlsplit(address).query, keep_blank_values=True)),
    )
    request = Request(method, path, query, form or {}, headers or {}, cookies or {})
    http = {"method": method, "path": path}
    event = {"rawPath": path, "requestContext": {"stage": "$default", "http": http}, "headers": {}}
    return console.handle(event, SimpleNamespace(), request)


def token(body: str, action: str) -> str:
    """The token of the form that goes to this path."""
    found = re.search(
        rf'action="{action}"[^>]*>\s*<input type="hidden" name="csrf" value="([^"]+)"', body
    )
    assert found, body
    return found[1]
