"""Signing in: only what was begun in this browser is ended, and it ends at one of our own pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, quote, urlsplit

import pytest

from governor.approvals.model.terms import Role, SignedIn
from governor.approvals.rules.links import LinkSigner
from governor.approvals.rules.terms import signed_in
from governor.approvals.store.sessions import SignIns
from governor.core.errors import (
    AccessDenied,
    ConfigurationError,
    ConflictError,
    GovernorError,
    IssuerUnavailable,
    SignInRefused,
)
from governor.web.responses import Response
from governor.web.sessions import SESSION_COOKIE, SESSION_LASTS, Session, Sessions
from governor.web.sign_in import SIGN_IN_COOKIE, SignInSite
from tests.builders import NOW
from tests.twins import FakeClock
from tests.twins.table import MemoryTable

BASE = "https://api.example.com"
KEYS = {"current": "k1", "k1": "n" * 64}
SIGNER = LinkSigner(lambda: KEYS, BASE)
SESSIONS = Sessions(SIGNER, ("https://issuer.example.com", "gpu-governor"))
LATER = NOW + timedelta(hours=24)
ID = "JG1Kw3bzgWbtOnVwnoF6Jg"


@dataclass
class FakeProvider:
    """An issuer that knows one code."""

    claims: Mapping[str, object] = field(default_factory=lambda: {"sub": "u-1", "groups": ["gpu"]})
    failure: GovernorError | None = None
    begun: list[dict[str, str]] = field(default_factory=list)
    redeemed: list[dict[str, str]] = field(default_factory=list)
    fresh: bool | None = None

    def authorization_url(
        self, *, state: str, nonce: str, verifier: str, redirect_uri: str, fresh: bool
    ) -> str:
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        self.fresh = fresh
        self.begun.append(
            {"state": state, "nonce": nonce, "verifier": verifier, "uri": redirect_uri}
        )
        return f"https://issuer.example.com/authorize?state={state}"

    def redeem(
        self, *, code: str, nonce: str, verifier: str, redirect_uri: str
    ) -> Mapping[str, object]:
        """As the port says."""
        if self.failure is not None:
            raise self.failure
        self.redeemed.append(
            {"code": code, "nonce": nonce, "verifier": verifier, "uri": redirect_uri}
        )
        return self.claims


class World:
    """A browser in front of the site."""

    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.provider = FakeProvider()
        self.cookies: dict[str, str] = {}
        self.link = SIGNER.earlier(ID, "alice@example.com", LATER)
        self.sign_ins = SignIns(MemoryTable())
        self.site = SignInSite(
            provider=self.provider,
            sessions=SESSIONS,
            groups_claim="groups",
            approver_group="gpu",
            base_url=BASE,
            clock=self.clock,
            sign_in_store=self.sign_ins,
        )

    def begin(self, link: str | None = None) -> Response:
        """Follows the link of the page."""
        return self._kept(self.site.begin({"return": self.link if link is None else link}))

    def finish(self, **query: str) -> Response:
        """Comes back from the issuer."""
        given = {"state": self.provider.begun[-1]["state"], "code": "a-code", **query}
        return self._kept(self.site.finish(given, self.cookies))

    def _kept(self, response: Response) -> Response:
        for cookie in response.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            if "Max-Age=0" in cookie:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return response

    @property
    def session(self) -> Session | None:
        """As the page would read it."""
        return SESSIONS.read(self.cookies, self.clock.now())


def test_a_sign_in_comes_back_to_the_page_it_began_at() -> None:
    """With a session, and without what belonged to the sign-in."""
    world = World()
    begun, done = world.begin(), world.finish()

    assert (303, 303) == (begun.status, done.status)
    assert begun.headers["Location"].startswith("https://issuer.example.com/authorize")
    assert f"{BASE}/approvals/{world.link}" == done.headers["Location"]
    assert world.session is not None
    assert SignedIn("u-1", None, Role.APPROVER) == world.session.who
    assert SIGN_IN_COOKIE not in world.cookies
    asked = world.provider.begun[0]
    proofs = {key: asked[key] for key in ("nonce", "verifier", "uri")}
    assert [{"code": "a-code", **proofs}] == world.provider.redeemed
    assert f"{BASE}/sign-in/callback" == asked["uri"]


@pytest.mark.parametrize(
    ("said", "at"),
    [
        ({"auth_time": int((NOW - timedelta(days=3)).timestamp())}, NOW - timedelta(days=3)),
        ({"auth_time": int((NOW + timedelta(days=3)).timestamp())}, NOW),
        ({"auth_time": 10**30}, NOW),
        *(
            ({"auth_time": wrong}, datetime.fromtimestamp(0, UTC))
            for wrong in (-(10**30), float("nan"), 1e18, "now", None)
        ),
        ({}, datetime.fromtimestamp(0, UTC)),
    ],
)
def test_a_sign_in_is_as_old_as_its_proof(said: dict[str, object], at: datetime) -> None:
    """Not as our cookie: people stay signed in at the issuer. Unless it says so, nothing is
    proven."""
    world = World()
    world.provider.claims = {"sub": "u-1", **said}
    world.begin()
    world.finish()
    assert world.session is not None
    stored = world.sign_ins.session(world.session.session_id, NOW)
    assert stored is not None
    assert (at.replace(microsecond=0), NOW + SESSION_LASTS) == (
        stored.at.replace(microsecond=0),
        stored.ends_at,
    )


def test_a_fresh_proof_is_asked_for_where_it_is_wanted() -> None:
    world = World()
    for query, fresh in (({}, False), ({"fresh": "1"}, True), ({"fresh": "0"}, False)):
        world.site.begin({"return": "/fleet", **query})
        assert fresh is world.provider.fresh


def test_a_sign_in_ends_the_session_before_it() -> None:
    """The session of the same browser; a copy of that cookie opens nothing any more."""
    world, found = World(), []
    for _ in range(2):
        world.begin()
        world.finish()
        assert world.session is not None
        found.append(world.session.session_id)
    assert world.sign_ins.session(found[0], NOW) is None
    assert world.sign_ins.session(found[1], NOW) is not None


def test_every_sign_in_has_its_own_secrets() -> None:
    """At least 32 random bytes each."""
    world = World()
    for _ in range(2):
        world.begin()
    made = [one[name] for one in world.provider.begun for name in ("state", "nonce", "verifier")]

    assert 6 == len(set(made))
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{43}", value) for value in made)


def test_cookies_are_closed() -> None:
    """To scripts, to plain HTTP, to other hosts and paths, and to posts of other sites."""
    world = World()
    cookies = [*world.begin().cookies, *world.finish().cookies]

    assert 3 == len(cookies)
    for cookie in cookies:
        parts = {part.strip() for part in cookie.split(";")[1:]}
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=Lax"} <= parts
        assert not any(part.startswith("Domain") for part in parts)
        assert cookie.startswith("__Host-")
    assert "Max-Age=600" in cookies[0]
    assert "Max-Age=28800" in cookies[1]


@pytest.mark.parametrize(
    "link",
    [
        "",
        "https://evil.example.com/",
        "//evil.example.com/",
        "/\\evil.example.com",
        "javascript:alert(1)",
        f"{ID}?k=k1&r=broadcast&e=1795304960&s={'A' * 43}",
        f"../../evil?{SIGNER.earlier(ID, 'broadcast', LATER).partition('?')[2]}",
        f"@evil.example.com/?{SIGNER.earlier(ID, 'broadcast', LATER).partition('?')[2]}",
        SIGNER.earlier(ID, "broadcast", LATER) + "&next=https://evil.example.com",
        SIGNER.earlier(ID, "broadcast", LATER) + "#https://evil.example.com",
        ID + quote("?" + SIGNER.earlier(ID, "broadcast", LATER).partition("?")[2], safe=""),
        "%00?" + SIGNER.earlier(ID, "broadcast", LATER).partition("?")[2],
    ],
)
def test_there_is_no_way_back_but_to_a_link_of_ours(link: str) -> None:
    """Nothing is begun for anything else, and nobody is sent anywhere."""
    world = World()
    response = world.begin(link)

    assert (403, (), []) == (response.status, response.cookies, world.provider.begun)
    assert "Location" not in response.headers
    assert "evil" not in response.body


def test_the_way_back_holds_nothing_but_the_link() -> None:
    """Even where an id looks like an address."""
    world = World()
    world.link = SIGNER.earlier("//evil.example.com/", "a&b=c@example.com", LATER)
    world.begin()
    location = urlsplit(world.finish().headers["Location"])

    assert (f"{BASE}", "/approvals/%2F%2Fevil.example.com%2F") == (
        f"{location.scheme}://{location.netloc}",
        location.path,
    )
    assert ["k", "r", "e", "s"] == [name for name, _ in parse_qsl(location.query)]


def test_an_expired_link_begins_nothing() -> None:
    """410, as its page."""
    world = World()
    world.clock.moment = LATER

    assert (410, []) == (world.begin().status, world.provider.begun)


def test_a_link_too_long_for_a_cookie_is_told() -> None:
    """Browsers would drop it silently, and the sign-in would never end."""
    world = World()
    assert 400 == world.begin(SIGNER.earlier(ID, "a" * 1500, LATER)).status

    world.link = SIGNER.earlier(ID, "a" * 1350, LATER)
    assert len(world.link) <= 1500
    assert 4096 > len(world.begin().cookies[0])
    assert 303 == world.finish().status


@pytest.mark.parametrize("state", ["", "forged", "s" * 43, "é", "\ud800"])
def test_a_forged_state_ends_nothing(state: str) -> None:
    """No code is handed in for it."""
    world = World()
    world.begin()
    response = world.finish(state=state)

    assert (403, [], None) == (response.status, world.provider.redeemed, world.session)


def test_an_answer_without_its_browser_ends_nothing() -> None:
    """Somebody else's callback address, opened here: signing people in as somebody else is an
    attack, too."""
    world = World()
    world.begin()
    stolen = dict(world.cookies)
    for cookies in (
        {},
        {SIGN_IN_COOKIE: stolen[SIGN_IN_COOKIE] + "A"},
        {SESSION_COOKIE: stolen[SIGN_IN_COOKIE]},
    ):
        world.cookies = cookies
        assert 403 == world.finish().status
    assert [] == world.provider.redeemed


def test_a_sign_in_ends_within_ten_minutes() -> None:
    """Not a second later."""
    world = World()
    world.begin()
    world.clock.moment = NOW + timedelta(minutes=10)

    assert (403, []) == (world.finish().status, world.provider.redeemed)


def test_an_older_sign_in_of_the_same_browser_is_over() -> None:
    """The latest one counts."""
    world = World()
    world.begin()
    first = world.provider.begun[0]["state"]
    world.begin()

    assert 403 == world.finish(state=first).status
    assert 303 == world.finish().status


def test_a_session_cookie_ends_no_sign_in() -> None:
    """Nor does what began a sign-in make a session."""
    world = World()
    world.begin()

    assert SESSIONS.read({SESSION_COOKIE: world.cookies[SIGN_IN_COOKIE]}, NOW) is None


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ({"code": "", "error": "access_denied"}, "It says access_denied."),
        ({"code": "", "error": "<script>"}, None),
        ({"code": ""}, None),
        ({"code": "é"}, None),
        ({"code": "x" * 2049}, None),
    ],
)
def test_a_no_of_the_issuer_is_told(query: dict[str, str], shown: str | None) -> None:
    """By its code, and nothing else that came along."""
    world = World()
    world.begin()
    response = world.finish(**query)

    assert (403, [], None) == (response.status, world.provider.redeemed, world.session)
    assert (shown or "did not let you in") in response.body
    assert "script" not in response.body
    assert SIGN_IN_COOKIE not in world.cookies


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (SignInRefused("the code is spent"), 403),
        (IssuerUnavailable("it is down"), 503),
        (ConfigurationError("the OIDC issuer answers invalid_client"), 503),
        (AccessDenied("the client's secret may not be read"), 503),
    ],
)
def test_what_is_not_proven_signs_nobody_in(failure: GovernorError, status: int) -> None:
    """The operator reads why; a new sign-in is needed."""
    world = World()
    world.begin()
    world.provider.failure = failure
    response = world.finish()

    assert (status, None) == (response.status, world.session)
    assert str(failure) in str(response.note)
    assert "invalid_client" not in response.body
    assert SIGN_IN_COOKIE not in world.cookies


def test_an_issuer_that_is_down_is_told_before_anybody_is_sent() -> None:
    """503, and the log says why."""
    world = World()
    world.provider.failure = IssuerUnavailable("it is down")
    response = world.begin()

    assert (503, ()) == (response.status, response.cookies)
    assert "it is down" in str(response.note)


def test_a_session_that_seems_to_be_stored_already_signs_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The repeat of a write whose answer was lost meets its own session: the person tries again."""

    def refuse(*_: object) -> None:
        raise ConflictError("the session is stored")

    world = World()
    world.begin()
    monkeypatch.setattr(world.sign_ins, "keep_session", refuse)
    response = world.finish()

    assert (503, None) == (response.status, world.session)
    assert "the session is stored" in str(response.note)


def test_claims_that_name_nobody_sign_nobody_in() -> None:
    """And whoever is in no group is a viewer."""
    world = World()
    world.provider.claims = {"groups": ["gpu"]}
    world.begin()
    assert (403, None) == (world.finish().status, world.session)

    world.provider.claims = {"sub": "u-2", "groups": ["other"]}
    world.begin()
    world.finish()
    assert world.session is not None
    assert Role.VIEWER is world.session.who.role


def test_a_session_lasts_a_working_day() -> None:
    """To the second, whatever the browser thinks; and only where nothing it rests on has
    changed."""
    world = World()
    world.begin()
    world.finish()

    world.clock.moment = NOW + SESSION_LASTS - timedelta(seconds=1)
    assert world.session is not None
    elsewhere = Sessions(SIGNER, ("https://other.example.com", "gpu-governor"))
    assert elsewhere.read(world.cookies, NOW) is None
    world.clock.moment = NOW + SESSION_LASTS
    assert world.session is None


def test_answers_of_the_sign_in_are_closed_to_caches_and_referrers() -> None:
    """The address of the callback holds a code."""
    world = World()
    for response in (world.begin(), world.finish(), world.begin("forged")):
        assert "no-store" == response.headers["Cache-Control"]
        assert "no-referrer" == response.headers["Referrer-Policy"]


@pytest.mark.parametrize(
    "path", ["/", "/fleet?owner=a%26b", "/instances/123456789012/us-east-1/i-0abc"]
)
def test_a_sign_in_comes_back_to_a_page_of_the_console(path: str) -> None:
    """With a session that is stored, with the groups that it rests on."""
    world = World()
    world.provider.claims = {**world.provider.claims, "auth_time": int(NOW.timestamp())}
    world.begin(path)

    assert f"{BASE}{path}" == world.finish().headers["Location"]
    session = world.session
    assert session is not None
    stored = world.sign_ins.session(session.session_id, NOW)
    assert stored is not None
    assert ("oidc:u-1", ("gpu",), NOW) == (stored.identity, stored.groups, stored.at)


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example.com/",
        "//evil.example.com",
        "/\\evil.example.com",
        "/\t/evil.example.com",
        "/a\r\nSet-Cookie: x=y",
        "/a b",
        "javascript:alert(1)",
        "fleet",
    ],
)
def test_a_sign_in_leads_nowhere_else(address: str) -> None:
    """No open redirect: only what is a path of our own, or a link that we signed."""
    world = World()

    assert 403 == world.begin(address).status
    assert [] == world.provider.begun


def test_without_an_approver_group_nobody_approves() -> None:
    """An empty setting is no list of everybody."""
    for group in ("", "gpu-approvers"):
        assert Role.VIEWER is signed_in({"sub": "u-1", "groups": ["gpu", ""]}, "groups", group).role
    assert Role.APPROVER is signed_in({"sub": "u-1", "groups": ["gpu"]}, "groups", "gpu").role
