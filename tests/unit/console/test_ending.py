"""An admin ends a keep or an exemption of an instance, with a fresh sign-in; nobody else does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from governor.approvals.decide import Decide
from governor.approvals.rules.answers import hold_hash
from governor.console.app import Console
from governor.console.session import caller_of
from governor.console.views.instance import end_hold, instance
from governor.core.errors import DecisionRefused
from governor.fleet.model import FleetRow
from governor.policy.document import parse_policy
from governor.verdict.model import NO_HOLD, Hold
from tests.builders import NOW
from tests.console_world import TARGETS, ConsoleWorld, make_row
from tests.twins.seals import MemorySeals
from tests.twins.services import MemoryWorkflow, RecordingAnnouncer
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance, token

POLICY = (
    parse_policy(
        """
    console:
      scopes:
        all: {groups: [admins], role: admin, everything: true}
        some: {groups: [approvers], role: approver, everything: true}
        other: {groups: [others], role: admin, accounts: ["999900001111"]}
        mine: {groups: [mine], role: admin, projects: [vision]}
        both: {groups: [both], role: admin, projects: [vision, llm]}
        own: {groups: [own], role: admin, accounts: ["123456789012"]}
    """
    )
    .base()
    .policy
)
ROW = make_row(1)
PAGE = f"/instances/{ROW.account}/{ROW.region}/{ROW.instance_id}"
RULE = "/instances/<account>/<region>/<instance_id>"
KEPT = Hold(snoozed_until=NOW + timedelta(days=3))
EXEMPT = Hold(exempt_reason="a demo (oidc:bob@example.com)")


class Site:
    """The page of a held instance."""

    def __init__(self, *holds: Hold) -> None:
        self.world = ConsoleWorld(POLICY)
        self.world.keep(ROW)
        for one in holds:
            self.world.state.store_hold(TARGETS[0], ROW.instance_id, one)
        self.at = Entrance(self.world.table)
        self.at.clock.at = NOW
        state, clock = self.world.state, self.at.clock
        self.decide = Decide(
            episode_store=state,
            approval_store=state,
            hold_store=state,
            instance_store=state,
            workflow=MemoryWorkflow(),
            clock=clock,
            announcer=RecordingAnnouncer(),
            policies_now=lambda: parse_policy(""),
            answer_seal=MemorySeals().answers,
        )
        views, posts = {RULE: instance}, {RULE: partial(end_hold, self.decide)}
        self.console = Console(lambda: self.world.reader, self.at.doors, views, posts)

    @property
    def hold(self) -> Hold:
        return self.world.state.record(TARGETS[0], ROW.instance_id).hold

    def post(self, group: str, page: str = PAGE) -> dict[str, Any]:
        cookies = self.at.session(f"oidc:{group}", f"{group}@example.com", groups=(group,))
        return self.send(cookies, page)

    def send(
        self, cookies: dict[str, str], page: str = PAGE, shown: Hold | None = None
    ) -> dict[str, Any]:
        known = self.at.doors.known(cookies, self.at.clock.at)
        assert known is not None
        form = {
            "csrf": self.at.doors.token(page, caller_of(POLICY, known)),
            "answer": "end-hold",
            "hold": hold_hash(shown or self.hold),
        }
        return entrance.ask(self.console, page, "POST", cookies=cookies, form=form)


@pytest.mark.parametrize("holds", [(KEPT,), (EXEMPT,), (KEPT, EXEMPT)])
def test_an_admin_ends_it_and_is_on_record(holds: tuple[Hold, ...]) -> None:
    """By the button of the page; the note for the audit is of the same write."""
    site = Site(*holds)
    cookies = site.at.session("oidc:1", "ada@example.com", groups=("admins",))
    csrf = token(entrance.ask(site.console, PAGE, cookies=cookies)["body"], PAGE)
    form = {"csrf": csrf, "answer": "end-hold", "hold": hold_hash(site.hold)}
    answered = entrance.ask(site.console, PAGE, "POST", cookies=cookies, form=form)

    assert (303, PAGE) == (answered["statusCode"], answered["headers"]["Location"])
    assert NO_HOLD == site.hold
    (note,) = [item for key, item in site.world.table.items.items() if key[0].startswith("ENDED#")]
    assert ("hold ended", "oidc:ada@example.com", ROW.instance_id) == (
        note["what"],
        note["by"],
        note["instance_id"],
    )
    assert "End it now" not in entrance.ask(site.console, PAGE, cookies=cookies)["body"]


@pytest.mark.parametrize(
    ("group", "status"), [("approvers", 403), ("others", 404), ("nobody", 403)]
)
def test_nobody_else_ends_it(group: str, status: int) -> None:
    site = Site(KEPT)
    cookies = site.at.session("oidc:2", "eve@example.com", groups=(group,))
    assert "End it now" not in entrance.ask(site.console, PAGE, cookies=cookies)["body"]
    assert (status, KEPT) == (site.post(group)["statusCode"], site.hold)


OVER = Hold(snoozed_until=NOW - timedelta(days=3))


@pytest.mark.parametrize(
    ("group", "held", "status"),
    [
        # By a tag, it has become `vision` since somebody of `llm` held it.
        ("mine", (replace(KEPT, kept_in="llm"),), 403),
        ("mine", (replace(EXEMPT, exempt_in="llm"),), 403),
        # Whoever is asked about it in their own project holds it themselves, which takes no hold of
        # others.
        ("mine", (replace(EXEMPT, exempt_in="llm"), replace(KEPT, kept_in="vision")), 403),
        ("mine", (replace(EXEMPT, exempt_in="vision"), replace(KEPT, kept_in="llm")), 403),
        ("both", (replace(EXEMPT, exempt_in="llm"), replace(KEPT, kept_in="vision")), 303),
        ("mine", (replace(EXEMPT, exempt_in="vision"), replace(KEPT, kept_in="vision")), 303),
        ("mine", (replace(EXEMPT, exempt_in="vision"), OVER), 303),
        ("own", (replace(EXEMPT, exempt_in="llm"), replace(KEPT, kept_in="vision")), 303),
        # Of an earlier release: nobody knows any more in which project.
        ("mine", (EXEMPT,), 403),
        ("mine", (KEPT,), 403),
        ("own", (EXEMPT, KEPT), 303),
    ],
)
def test_an_admin_of_a_project_ends_only_what_was_held_in_it(
    group: str, held: tuple[Hold, ...], status: int
) -> None:
    """Whoever may tag moves a foreign instance into a scope; what people said of it stays
    theirs."""
    site = Site(*held)
    before = site.hold
    cookies = site.at.session(f"oidc:{group}", groups=(group,))
    page = entrance.ask(site.console, PAGE, cookies=cookies)["body"]
    assert (status == 303) is ("End it now" in page)
    answered = site.send(cookies)
    assert (status, NO_HOLD if status == 303 else before) == (answered["statusCode"], site.hold)


def test_an_old_sign_in_ends_nothing() -> None:
    """A sign-in of 15 minutes or more: a screen that was left open is no admin."""
    site = Site(KEPT)
    cookies = site.at.session("oidc:1", "ada@example.com", groups=("admins",))
    site.at.clock.at += timedelta(minutes=15)
    answered = site.send(cookies)
    assert (403, KEPT) == (answered["statusCode"], site.hold)
    assert (
        f'<a href="/sign-in?return={quote(PAGE, safe="")}&amp;fresh=1">Sign in again</a>'
        in answered["body"]
    )


def test_who_may_see_nothing_can_sign_in_as_somebody_else() -> None:
    """The browser may have remembered the wrong account; signing out needs a page, which they have
    not."""
    site = Site(KEPT)
    found = entrance.ask(
        site.console, PAGE, cookies=site.at.session("oidc:2", groups=("strangers",))
    )
    assert (403, True) == (found["statusCode"], "Nothing is shared with you" in found["body"])
    assert '<a href="/sign-in?return=%2F&amp;fresh=1">Sign in again</a>' in found["body"]


def test_a_sign_in_without_a_proof_ends_nothing_and_says_whom_to_ask() -> None:
    """An issuer that never sends `auth_time` leads back here however often somebody signs in."""
    site = Site(KEPT)
    cookies = site.at.session(
        "oidc:1", "ada@example.com", at=datetime.fromtimestamp(0, UTC), groups=("admins",)
    )
    answered = site.send(cookies)
    assert (403, KEPT) == (answered["statusCode"], site.hold)
    assert "ask your platform team to have the issuer send auth_time" in answered["body"]
    assert "Sign in again</a>" in answered["body"]


def test_what_nothing_holds_is_said_and_a_newer_hold_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who keeps it for longer at the same moment is not overruled unseen."""
    assert 409 == Site().post("admins")["statusCode"]
    site = Site(KEPT)
    longer = Hold(snoozed_until=NOW + timedelta(days=9))
    real = site.world.state.end_hold

    def beaten(*given: Any) -> None:
        site.world.state.store_hold(TARGETS[0], ROW.instance_id, longer)
        real(*given)

    monkeypatch.setattr(site.world.state, "end_hold", beaten)
    with pytest.raises(DecisionRefused, match="held it again"):
        site.decide.end_hold(
            TARGETS[0], ROW.instance_id, "oidc:ada@example.com", hold_hash(KEPT), lambda _: True
        )
    assert longer == site.hold


@pytest.mark.parametrize(
    "newer", [Hold(NOW + timedelta(days=9)), EXEMPT, Hold(NOW + timedelta(hours=1))]
)
def test_only_the_hold_that_the_page_showed_is_ended(newer: Hold) -> None:
    """Whoever held it anew meanwhile, for longer or not, is not overruled by an old page."""
    site = Site(KEPT)
    cookies = site.at.session("oidc:1", "ada@example.com", groups=("admins",))
    page = entrance.ask(site.console, PAGE, cookies=cookies)["body"]
    assert f'name="hold" value="{hold_hash(KEPT)}"' in page
    before = NOW - timedelta(minutes=1)
    site.world.state.end_hold(TARGETS[0], ROW.instance_id, KEPT, "oidc:bob@example.com", before)
    site.world.state.store_hold(TARGETS[0], ROW.instance_id, newer)

    answered = site.send(cookies, shown=KEPT)
    assert (409, newer) == (answered["statusCode"], site.hold)
    assert (
        "Somebody has held it again since this page was opened: open the instance again."
        in answered["body"]
    )
    assert 303 == site.send(cookies)["statusCode"]


@pytest.mark.parametrize(
    ("hold", "row"),
    [
        (
            KEPT,
            replace(
                ROW, verdict="snoozed", kept_until=KEPT.snoozed_until, reason="kept by decision"
            ),
        ),
        (EXEMPT, replace(ROW, verdict="exempt", exempt=True, reason="exempted by decision")),
    ],
)
def test_the_page_says_that_the_hold_was_ended_though_no_sweep_has_looked_since(
    hold: Hold, row: FleetRow
) -> None:
    site = Site(hold)
    site.world.keep(row)
    cookies = site.at.session("oidc:1", "ada@example.com", groups=("admins",))
    said = "The hold has ended. The next sweep checks the instance."
    assert said not in entrance.ask(site.console, PAGE, cookies=cookies)["body"]

    assert 303 == site.send(cookies)["statusCode"]

    body = entrance.ask(site.console, PAGE, cookies=cookies)["body"]
    assert (True, False, False) == (said in body, "What happens next" in body, row.reason in body)
