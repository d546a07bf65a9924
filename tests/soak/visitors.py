"""An admin who has signed in to the console, and ends what holds an instance.

Each visit is a request to the real function. The session is stored as a sign-in stores it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from governor.domain.approvals.links import LinkSigner
from governor.domain.approvals.terms import Role, SignedIn, SignIn
from governor.domain.units import as_utc
from governor.stores.sessions import SignIns
from governor.web.sessions import SESSION_COOKIE, Session, Sessions
from tests.builders import TARGET
from tests.soak.cloud import Cloud, EndedHold, FunctionFailed
from tests.soak.parts import KEYS
from tests.soak.scenarios import ID
from tests.unit.wiring.samples import settings

_ADA = "arn:aws:iam::123456789012:user/ada"
HAS_AN_ADMIN = f"""
console:
  scopes:
    platform: {{identities: ["{_ADA}"], role: admin, everything: true}}
"""
"""A part of the policy: Ada is an admin of everything."""
_PAGE = f"/instances/{TARGET.account}/{TARGET.region}/{ID}"
_FORM = re.compile(r'name="csrf" value="([^"]+)"><input type="hidden" name="hold" value="([^"]+)"')


def ends_the_hold(cloud: Cloud) -> None:
    """Ada opens the page of the instance, and ends what it shows: a keep, an exemption, or
    nothing."""
    cookie = _signs_in(cloud)
    try:
        page = _visits(cloud, cookie)
        form = _FORM.search(page["body"])
        if form is None:
            return
        shown_at = cloud.moment
        fields = {"csrf": form[1], "hold": form[2], "answer": "end-hold"}
        status = int(_visits(cloud, cookie, fields)["statusCode"])
    except FunctionFailed:
        return
    cloud.ended_holds.append(EndedHold(shown_at, status))


def _signs_in(cloud: Cloud) -> str:
    """Begin a session for Ada; return her cookie."""
    now = as_utc(cloud.moment)
    identity = f"aws:{_ADA}"
    session_id = f"session-{cloud.number()}"
    who = SignIn(identity, by=identity, at=now, ends_at=now + timedelta(hours=1))
    SignIns(cloud.memory).keep_session(session_id, who)
    session = Session(session_id, SignedIn(identity, None, Role.VIEWER))
    cookies = Sessions(LinkSigner(lambda: KEYS, None), settings().session_scope)
    return cookies.cookie(session, now).partition(";")[0]


def _visits(cloud: Cloud, cookie: str, form: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the answer of the page: to its form, if one is given. Raises: FunctionFailed."""
    assert cookie.startswith(SESSION_COOKIE)
    method = "GET" if form is None else "POST"
    event = {
        "version": "2.0",
        "routeKey": f"{method} /{{proxy+}}",
        "rawPath": _PAGE,
        "rawQueryString": "",
        "cookies": [cookie],
        "headers": {
            "host": "api.example.com",
            "content-type": "application/x-www-form-urlencoded",
            "sec-fetch-site": "same-origin",
        },
        "requestContext": {"http": {"method": method, "path": _PAGE}, "stage": "$default"},
        "isBase64Encoded": False,
        "body": urlencode(form or {}),
    }
    answered: dict[str, Any] = cloud.invoke("serve_console", event)
    return answered
