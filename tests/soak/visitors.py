"""People who have signed in: to the console, where they end what holds an instance or pause
everything, or on the page of a link.

Each visit is a request to the real function. The session is stored as a sign-in stores it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from governor.approvals.model.terms import Role, SignedIn, SignIn
from governor.approvals.rules.links import LinkSigner
from governor.approvals.store.sessions import SignIns
from governor.core.units import as_utc
from governor.web.sessions import Session, Sessions
from tests.builders import TARGET
from tests.soak.cloud import (
    ADDRESS_OF_A_LINK,
    CSRF,
    Cloud,
    EndedHold,
    FunctionFailed,
    OpenPage,
    SentForm,
    request_to_a_link,
)
from tests.soak.parts import KEYS
from tests.soak.scenarios import ALICE, ID
from tests.soak.truth import ACCEPTED
from tests.unit.wiring.samples import SIGN_IN, settings

ADA = "arn:aws:iam::123456789012:user/ada"
"""An admin of everything."""
BOB = "arn:aws:iam::123456789012:user/bob"
"""A person in `ownership.contacts`."""
HAS_AN_ADMIN = f"""
console:
  scopes:
    platform: {{identities: ["{ADA}"], role: admin, everything: true}}
"""
BOBS_IDENTITY = f'identities: {{"aws:{BOB}": bob@example.com}}, '
"""A part of his contact in the policy."""
_INSTANCE = f"/instances/{TARGET.account}/{TARGET.region}/{ID}"
_FREEZES = "/freezes"
_FORM = re.compile(r'<form method="post" action="([^"]+)">((?:<input type="hidden"[^>]*>)+)')
_FIELD = re.compile(r'name="(\w+)" value="([^"]*)"')


@dataclass(frozen=True)
class _SignedIn:
    session_id: str
    cookie: str


def ends_the_hold(cloud: Cloud) -> None:
    """Ada opens the page of the instance, and ends what it shows: a keep, an exemption, or
    nothing."""
    opens_the_instance(cloud)
    sends_the_end_of_the_hold(cloud)


def opens_the_instance(cloud: Cloud) -> None:
    """Ada opens the page of the instance."""
    _opens(cloud, ADA, _INSTANCE)


def sends_the_end_of_the_hold(cloud: Cloud) -> None:
    """Send the form of the page that Ada has open."""
    page = cloud.open_pages.get(ADA)
    if page is None or "hold" not in page.fields:
        return
    status = _sends(cloud, page, {"answer": "end-hold"})
    if status is not None:
        cloud.ended_holds.append(EndedHold(page.shown_at, status))


def somebody_uses_adas_cookie(cloud: Cloud) -> None:
    """Somebody with a copy of her cookie sends the form of her page, and then opens the page
    themselves."""
    sends_the_end_of_the_hold(cloud)
    page = cloud.open_pages.get(ADA)
    if page is not None:
        _opens_as(cloud, ADA, _INSTANCE, _SignedIn(page.session_id, page.cookie))
        sends_the_end_of_the_hold(cloud)


def ends_adas_session(cloud: Cloud) -> None:
    """An operator ends the session of the page that Ada has open."""
    _ends_the_session_of(cloud, ADA)


def _ends_the_session_of(cloud: Cloud, who: str) -> None:
    page = cloud.open_pages.get(who)
    if page is not None:
        SignIns(cloud.memory).end_session(page.session_id, as_utc(cloud.moment))
        cloud.ended_sessions[page.session_id] = cloud.moment


def alice_opens_her_link(cloud: Cloud) -> None:
    """Alice signs in, and opens the link of the first question that she got."""
    links = [mail.link for mail in cloud.mails if mail.to == ALICE and mail.link]
    address = ADDRESS_OF_A_LINK.fullmatch(links[0]) if links else None
    if address is not None:
        _opens_a_link(cloud, address[1], _alice_signs_in(cloud))


def somebody_uses_alices_cookie(cloud: Cloud) -> None:
    """Somebody with a copy of her cookie approves by the form of her page, and then by one of their
    own."""
    page = cloud.open_pages.get(ALICE)
    if page is None:
        return
    _approves(cloud, page)
    _opens_a_link(cloud, page.path, _SignedIn(page.session_id, page.cookie))
    own_page = cloud.open_pages.get(ALICE)
    if own_page is not None:
        _approves(cloud, own_page)


def ends_alices_session(cloud: Cloud) -> None:
    """An operator ends the session of the page that Alice has open."""
    _ends_the_session_of(cloud, ALICE)


def bob_pauses(cloud: Cloud) -> None:
    """Bob pauses everything, and keeps the token of the form."""
    _opens(cloud, BOB, _FREEZES)
    page = cloud.open_pages.get(BOB)
    if page is not None and _sends(cloud, page, {"answer": "pause"}) in ACCEPTED:
        cloud.pauses.append(cloud.moment)


def bob_ends_the_pause(cloud: Cloud) -> None:
    """Bob sends what an admin would send. He may not end it: the pause goes on, whatever he
    reads."""
    page = cloud.open_pages.get(BOB)
    if page is not None:
        _sends(cloud, page, _end_of_the_pause(cloud))


def ada_ends_the_pause(cloud: Cloud) -> None:
    """Ada, an admin of everything, ends the pause. It may end, whatever becomes of the answer to
    her."""
    _opens(cloud, ADA, _FREEZES)
    page = cloud.open_pages.get(ADA)
    if page is not None:
        _sends(cloud, page, _end_of_the_pause(cloud))
        cloud.pauses.clear()


def _end_of_the_pause(cloud: Cloud) -> dict[str, str]:
    pause = cloud.state.pause()
    since = "" if pause is None else pause.at.isoformat()
    return {"answer": "end-pause", "confirmed": "yes", "since": since}


def _opens(cloud: Cloud, arn: str, path: str) -> None:
    """Sign somebody in, and open a page for them."""
    _opens_as(cloud, arn, path, _signs_in(cloud, arn))


def _opens_as(cloud: Cloud, arn: str, path: str, who: _SignedIn) -> None:
    """Keep the form of a page, if it has one; else no page is open any more."""
    cloud.open_pages.pop(arn, None)
    try:
        body = _visits(cloud, path, who.cookie)["body"]
    except FunctionFailed:
        return
    for form in _FORM.finditer(body):
        if form[1] == path:
            fields = dict(_FIELD.findall(form[2]))
            cloud.open_pages[arn] = OpenPage(path, who.session_id, who.cookie, fields, cloud.moment)
            return


def _sends(cloud: Cloud, page: OpenPage, more: Mapping[str, str]) -> int | None:
    """Send a form with more fields; return the status, `None` where no answer came."""
    sent_at = cloud.moment
    try:
        status = int(_visits(cloud, page.path, page.cookie, {**page.fields, **more})["statusCode"])
    except FunctionFailed:
        return None
    cloud.forms.append(SentForm(sent_at, page.session_id, status))
    return status


def _opens_a_link(cloud: Cloud, address: str, who: _SignedIn) -> None:
    """Keep the form of the page that a link leads to, if it has one."""
    cloud.open_pages.pop(ALICE, None)
    event = {**request_to_a_link("GET", address), "cookies": [who.cookie]}
    try:
        body = cloud.invoke("serve_approval", event)["body"]
    except FunctionFailed:
        return
    token = CSRF.search(body)
    if token is not None:
        fields = {"csrf": token[1]}
        page = OpenPage(address, who.session_id, who.cookie, fields, cloud.moment)
        cloud.open_pages[ALICE] = page


def _approves(cloud: Cloud, page: OpenPage) -> None:
    """Approve by the form of a link's page, and note the status that comes back."""
    form = {**page.fields, "answer": "approve", "losses": "accepted"}
    event = {**request_to_a_link("POST", page.path, form), "cookies": [page.cookie]}
    sent_at = cloud.moment
    try:
        status = int(cloud.invoke("serve_approval", event)["statusCode"])
    except FunctionFailed:
        return
    cloud.forms.append(SentForm(sent_at, page.session_id, status))


def _alice_signs_in(cloud: Cloud) -> _SignedIn:
    """Begin a session of Alice at the issuer, whose group may approve."""
    now = as_utc(cloud.moment)
    session_id = f"session-{cloud.number()}"
    who = SignedIn("alice", ALICE, Role.APPROVER)
    ends_at = now + timedelta(hours=1)
    stored = SignIn(who.identity, who.by, now, ends_at, email=ALICE, role=Role.APPROVER)
    SignIns(cloud.memory).keep_session(session_id, stored)
    cookies = Sessions(LinkSigner(lambda: KEYS, None), settings(**SIGN_IN).session_scope)
    cookie = cookies.cookie(Session(session_id, who), now)
    return _SignedIn(session_id, cookie.partition(";")[0])


def _signs_in(cloud: Cloud, arn: str) -> _SignedIn:
    """Begin a session, and return it with its cookie."""
    now = as_utc(cloud.moment)
    identity = f"aws:{arn}"
    session_id = f"session-{cloud.number()}"
    who = SignIn(identity, by=identity, at=now, ends_at=now + timedelta(hours=1))
    SignIns(cloud.memory).keep_session(session_id, who)
    session = Session(session_id, SignedIn(identity, None, Role.VIEWER))
    cookies = Sessions(LinkSigner(lambda: KEYS, None), settings().session_scope)
    return _SignedIn(session_id, cookies.cookie(session, now).partition(";")[0])


def _visits(
    cloud: Cloud, path: str, cookie: str, form: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the answer of a page: to its form, if one is given. Raises: FunctionFailed."""
    method = "GET" if form is None else "POST"
    event = {
        "version": "2.0",
        "routeKey": f"{method} /{{proxy+}}",
        "rawPath": path,
        "rawQueryString": "",
        "cookies": [cookie],
        "headers": {
            "host": "api.example.com",
            "content-type": "application/x-www-form-urlencoded",
            "sec-fetch-site": "same-origin",
        },
        "requestContext": {"http": {"method": method, "path": path}, "stage": "$default"},
        "isBase64Encoded": False,
        "body": urlencode(form or {}),
    }
    answered: dict[str, Any] = cloud.invoke("serve_console", event)
    return answered
