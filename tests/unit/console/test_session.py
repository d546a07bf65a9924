"""The ways in: a sign-in that is stored, and a code of `governor open`. And what the policy makes
of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from governor.approvals.model.terms import Code, Rank, Role, SignedIn, SignIn
from governor.approvals.open_console import OpenConsole
from governor.console.app import Console
from governor.console.page import Caller, Page, ViewRequest
from governor.console.session import caller_of
from governor.core.errors import NotAllowed, PolicyError
from governor.policy.document import parse_policy
from governor.web.sessions import SESSION_COOKIE, Session
from tests.console_world import without_id_marks
from tests.unit.console import entrance
from tests.unit.console.entrance import NOW, Entrance

ARN = "arn:aws:sts::111122223333:assumed-role/Ops/ada"
POLICY = (
    parse_policy(
        """
    ownership:
      contacts:
        ml: {emails: [ada@example.com], lists: [ml@example.com], time_zone: Europe/Berlin}
        web: {emails: [bob@example.com], identities: {"oidc:bob": bob@example.com}}
      project_owners: {vision: ml}
    console:
      scopes:
        ops:
          identities: ["arn:aws:sts::111122223333:assumed-role/Ops/*"]
          role: admin
          everything: true
        one: {groups: [lab], role: approver, accounts: ["999900001111"]}
        two: {groups: [lab], projects: [speech]}
    """
    )
    .base()
    .policy
)
TABLE = SimpleNamespace(unread=[], read_ahead=lambda _: None)
MODE: Any = SimpleNamespace(
    pages=(),
    targets=(),
    environment="gpu-governor",
    policy=POLICY,
    table=TABLE,
    approval_store=SimpleNamespace(answered=lambda _: set()),
)


def view(ask: ViewRequest) -> Page:
    return Page("All", "refused.html", {"text": ask.caller.by}, {})


def known(identity: str, **more: Any) -> Caller:
    who = SignIn(identity, identity, NOW, NOW + timedelta(hours=8), **more)
    return caller_of(POLICY, entrance_known(who))


def entrance_known(who: SignIn) -> Any:
    return SimpleNamespace(session_id="s", who=who)


def site(at: Entrance) -> Console:
    return Console(lambda: MODE, at.doors, {"/": view})


def code_of(at: Entrance, arn: str = ARN) -> str:
    make = OpenConsole(at.stored, at.clock, "", "https://governor.example.com")
    address, _, code = make(arn).partition("#")
    assert address == "https://governor.example.com/console"
    return code


def enter(at: Entrance, code: str, answer: str = "open", **more: Any) -> dict[str, Any]:
    """As a browser does: what names the session sets the cookie that opening it needs."""
    cookies: dict[str, str] = more.pop("cookies", {})
    for step in dict.fromkeys(("show", answer)):
        form = {"code": code, "answer": step}
        found = entrance.ask(site(at), "/console", "POST", form=form, cookies=cookies, **more)
        name, _, value = found["headers"].get("Set-Cookie", "").partition(";")[0].partition("=")
        cookies = {**cookies, name: value}
    return found


def test_no_session_begins_before_its_browser_was_told_whose_it_is() -> None:
    """A form of another site says `open`: the browser sends no cookie with it, or that of another
    code."""
    at = Entrance(issuer="")
    code, other = code_of(at), enter(at, code_of(at, "arn:aws:iam::1:user/eve"), "show")
    told = dict([other["headers"]["Set-Cookie"].partition(";")[0].split("=")])
    for cookies in ({}, told):
        form = {"code": code, "answer": "open"}
        found = entrance.ask(site(at), "/console", "POST", form=form, cookies=cookies)
        assert (200, True) == (found["statusCode"], ARN in without_id_marks(found["body"]))
    assert "SameSite=Lax" in other["headers"]["Set-Cookie"]
    assert 303 == enter(at, code)["statusCode"]


def test_a_code_opens_one_session_with_the_rights_of_its_caller() -> None:
    at = Entrance(issuer="")
    code = code_of(at)

    shown = enter(at, code, "show")
    assert ARN in without_id_marks(shown["body"])
    opened = enter(at, code)

    assert (opened["statusCode"], opened["headers"]["Location"]) == (303, "/")
    name, _, value = opened["headers"]["Set-Cookie"].partition(";")[0].partition("=")
    assert "Max-Age=3600" in opened["headers"]["Set-Cookie"]
    overview = entrance.ask(site(at), "/", cookies={name: value})
    assert f"aws:{ARN}" in without_id_marks(overview["body"])
    at.clock.at += timedelta(hours=1)
    assert entrance.ask(site(at), "/", cookies={name: value})["statusCode"] == 401


@pytest.mark.parametrize("answer", ["show", "open"])
def test_a_code_that_opens_nothing_says_why(answer: str) -> None:
    at = Entrance(issuer="")
    code, old = code_of(at), code_of(at)
    assert enter(at, code)["statusCode"] == 303

    used, foreign = enter(at, code, answer), enter(at, "x" * 43, answer)
    at.clock.at += timedelta(seconds=60)
    expired = enter(at, old, answer)

    assert [used["statusCode"], foreign["statusCode"], expired["statusCode"]] == [403, 403, 403]
    assert "used already" in used["body"]
    assert "GPU Governor did not make this code" in foreign["body"]
    assert "older than a minute" in expired["body"]
    assert all("Set-Cookie" not in one["headers"] for one in (used, foreign, expired))


def test_no_code_opens_anything_where_people_sign_in() -> None:
    at, before = Entrance(), Entrance(issuer="")
    at.stored.keep_code("secret", before.stored.code(code := code_of(before)))  # type: ignore[arg-type]

    assert code not in enter(at, "secret")["body"]
    assert enter(at, "secret")["statusCode"] == 403
    with pytest.raises(NotAllowed, match="sign in at the issuer"):
        OpenConsole(at.stored, at.clock, "https://issuer", "https://governor.example.com")(ARN)


def test_the_table_never_holds_a_code_or_a_session_itself() -> None:
    at = Entrance(issuer="")
    code = code_of(at)
    enter(at, code)

    assert code not in str(at.table.items)  # type: ignore[attr-defined]
    at.session("oidc:1", "ada@example.com")
    assert "session of oidc:1" not in str(at.table.items)  # type: ignore[attr-defined]


def test_a_code_is_not_taken_from_another_site() -> None:
    at = Entrance(issuer="")
    code = code_of(at)
    assert enter(at, code, headers={"sec-fetch-site": "cross-site"})["statusCode"] == 403
    assert enter(at, code)["statusCode"] == 303


def test_a_session_ends_when_its_person_signs_out() -> None:
    at = Entrance()
    cookies = at.session("oidc:1", "ada@example.com")
    console = site(at)
    page = entrance.ask(console, "/", cookies=cookies)
    csrf = entrance.token(page["body"], "/sign-out")

    other = at.session("oidc:bob")
    assert (
        entrance.ask(console, "/sign-out", "POST", cookies=other, form={"csrf": csrf})["statusCode"]
        == 403
    )
    left = entrance.ask(console, "/sign-out", "POST", cookies=cookies, form={"csrf": csrf})
    assert "This session has ended." in left["body"]
    assert "Nothing was changed" not in left["body"]

    assert "Max-Age=0" in left["headers"]["Set-Cookie"]
    # A copy of the cookie opens nothing any more.
    assert entrance.ask(console, "/", cookies=cookies)["statusCode"] == 303


def test_contacts_see_what_they_and_their_projects_own() -> None:
    ada = known("oidc:1", email="ada@example.com")

    assert ada.rank("1", "", "ml") is Rank.VIEWER
    assert ada.rank("1", "vision", "somebody") is Rank.VIEWER
    assert ada.rank("1", "", "ML@example.com") is Rank.VIEWER
    assert ada.rank("1", "", "ML") is None
    assert ada.rank("1", "speech", "web") is None
    assert (ada.person, ada.zone) == ("ada@example.com", "Europe/Berlin")
    approver = known("oidc:bob", role=Role.APPROVER)
    assert approver.rank("1", "", "web") is Rank.APPROVER
    assert approver.rank("1", "", "ml") is None


def test_a_rank_is_for_the_instances_of_its_own_grant() -> None:
    """To approve in one account makes nobody an approver of what they may only see."""
    both = known("oidc:2", groups=("lab",))

    assert both.rank("999900001111", "", "x") is Rank.APPROVER
    assert both.rank("1", "speech", "x") is Rank.VIEWER
    assert both.rank("1", "", "x") is None
    assert both.scope.sees("1", "speech", "x")


@pytest.mark.parametrize(
    ("identity", "rank"),
    [
        (f"aws:{ARN}", Rank.ADMIN),
        ("aws:arn:aws:sts::111122223333:assumed-role/Ops-2/ada", None),
        ("aws:arn:aws:sts::999900001111:assumed-role/Ops/ada", None),
        ("aws:arn:aws:iam::111122223333:user/Ops/ada", None),
        ("oidc:arn:aws:sts::111122223333:assumed-role/Ops/ada", None),
    ],
)
def test_an_arn_is_exact_but_for_the_name_of_a_session(identity: str, rank: Rank | None) -> None:
    assert known(identity).rank("1", "", "x") is rank


def test_nobody_is_in_a_scope_unless_the_policy_says_so() -> None:
    stranger = known("oidc:9", email="eve@example.com", role=Role.APPROVER)
    assert stranger.grants == ()
    assert not stranger.scope.sees("", "", "")
    assert known("aws:lab", groups=("lab",)).grants == ()


@pytest.mark.parametrize(
    "wrong",
    [
        "{x: {groups: [a]}}",
        "{x: {everything: true}}",
        "{x: {identities: ['*'], everything: true}}",
        "{x: {identities: ['arn:aws:iam::111122223333:user/*'], everything: true}}",
        "{x: {identities: ['arn:aws:sts::111122223333:assumed-role/*/ada'], everything: true}}",
        "{x: {groups: [a], everything: true, role: owner}}",
    ],
)
def test_a_scope_that_says_nothing_or_too_much_is_refused(wrong: str) -> None:
    with pytest.raises(PolicyError, match=r"console\.scopes\.x"):
        parse_policy(f"console: {{scopes: {wrong}}}")


def test_a_form_is_of_one_session_and_one_page() -> None:
    at = Entrance()
    ada = known("oidc:1", email="ada@example.com")
    token = at.doors.token("/questions", ada)
    at.doors.check_form("/questions", ada, token)

    for page, caller in (("/sign-out", ada), ("/questions", replace(ada, session_id="t"))):
        with pytest.raises(NotAllowed):
            at.doors.check_form(page, caller, token)
    with pytest.raises(NotAllowed):
        at.doors.check_form("/questions", ada, "")


def test_a_person_of_several_contacts_has_what_each_of_them_owns() -> None:
    document = """
        ownership:
          contacts:
            ml: {emails: [ann@example.com]}
            web: {emails: [Ann@example.com], lists: [web@example.com]}
            lab: {emails: [eve@example.com]}
          project_owners: {shop: web, robots: lab}
    """
    policy = parse_policy(document).base().policy
    scope = caller_of(
        policy,
        entrance_known(SignIn("oidc:1", "ann", NOW, NOW + timedelta(hours=8), "ann@example.com")),
    ).scope
    assert frozenset({"ml", "web", "ann@example.com", "web@example.com"}) == scope.owners
    assert frozenset({"shop"}) == scope.projects


@pytest.mark.parametrize("name", ["", " ops", "ops ", "*"])
@pytest.mark.parametrize("field", ["groups", "projects"])
def test_a_name_that_matches_nothing_is_refused(field: str, name: str) -> None:
    """Or, as the empty one, what nobody meant."""
    names = {"groups": ["ops"], "projects": ["vision"], field: [name]}
    with pytest.raises(PolicyError, match="write a whole name"):
        parse_policy(json.dumps({"console": {"scopes": {"team": names}}}))


def test_a_code_ends_the_session_before_it() -> None:
    """The session of the same browser."""
    at = Entrance(issuer="")
    before = at.session()
    assert entrance.ask(site(at), "/", cookies=before)["statusCode"] != 401
    assert enter(at, code_of(at), cookies=before)["statusCode"] == 303
    assert entrance.ask(site(at), "/", cookies=before)["statusCode"] == 401


def test_who_writes_the_table_opens_the_console_as_any_caller_where_no_issuer_is() -> None:
    """A code is an item (docs/threats.md). Where people sign in at an issuer, no code opens
    anything."""
    code, boss = "x" * 43, "arn:aws:iam::111122223333:user/boss"
    for issuer, status in (("", 303), ("https://issuer", 403)):
        at = Entrance(issuer=issuer)
        at.stored.keep_code(code, Code(boss, NOW + timedelta(minutes=1)))
        assert status == enter(at, code)["statusCode"]


def test_a_session_written_into_the_table_signs_nobody_in() -> None:
    """The browser needs its cookie, too, which the link keys seal."""
    at = Entrance()
    at.stored.keep_session(
        "forged", SignIn("oidc:boss", "oidc:boss", NOW, NOW + timedelta(hours=8))
    )

    assert at.doors.known({}, NOW) is None
    assert at.doors.known({SESSION_COOKIE: "forged"}, NOW) is None
    own = at.cookies.cookie(Session("forged", SignedIn("boss", None, Role.VIEWER)), NOW)
    sealed = own.partition(";")[0].partition("=")[2]
    known_by_its_cookie = at.doors.known({SESSION_COOKIE: sealed}, NOW)
    assert known_by_its_cookie is not None
    assert "oidc:boss" == known_by_its_cookie.who.identity
