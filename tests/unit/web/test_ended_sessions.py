"""A session that was ended decides nothing: every route that takes a POST is tried with its cookie.

The routes are those of the template and of the console's own routing. A new one fails the first
test here until somebody says how it knows who asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from governor.approvals.decide import Decide
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.pause import PauseAll
from governor.approvals.rules.terms import BROADCAST
from governor.console.app import Console
from governor.console.page import Reader
from governor.web.responses import Response
from governor.web.sessions import SESSION_COOKIE
from governor.web.site import Request
from governor.wiring.console import VIEWS, forms
from local.engine.templates import expand_template
from tests.builders import NOW, TARGET
from tests.twins import MemoryStateTable, MemoryWorkflow, RecordingAnnouncer, StaticPolicies
from tests.twins.seals import MemorySeals
from tests.twins.services import RecordingUndoer
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance
from tests.unit.notify.test_slack_actions import Slack
from tests.unit.web.test_gate import BOB, UNTIL, Gated
from tests.unit.web.test_site import ID, SIGNER, DigestWorld

ROOT = Path(__file__).parents[3]
ROUTES: Mapping[str, Mapping[str, Any]] = {
    resource["Properties"]["RouteKey"]: resource["Properties"]
    for resource in expand_template(ROOT / "template.yaml")["Resources"].values()
    if resource["Type"] == "AWS::ApiGatewayV2::Route"
}
BY_SESSION = {"POST /approvals/{approval_id}", "POST /q/{link}", "POST /{proxy+}"}
BY_SIGNATURE = {"POST /slack/actions"}
BUTTONS = {
    "approve": {"losses": "accepted"},
    "keep": UNTIL,
    "exempt": {"reason": "x"},
    "hold": {},
    "undo": {},
    "end-keep": {},
    "sign-out": {},
}


class _Entered(Exception):
    """Somebody was let in as far as the data of the console."""


def _refuse() -> Reader:
    raise _Entered


def _console(at: Entrance) -> Console:
    state = MemoryStateTable()
    announcer = RecordingAnnouncer()
    decide = Decide(
        episode_store=state,
        approval_store=state,
        hold_store=state,
        instance_store=state,
        workflow=MemoryWorkflow(),
        clock=at.clock,
        announcer=announcer,
        policies_now=lambda: StaticPolicies(),
        answer_seal=MemorySeals().answers,
    )
    pause_all = PauseAll(state, at.clock, announcer, TARGET)
    return Console(_refuse, at.doors, VIEWS, forms(decide, RecordingUndoer(), state, pause_all))


def _addresses(console: Console) -> list[str]:
    """Return an address for each rule of the console's routing, with something in place of each
    name."""
    resolver = console._routes
    rules = [*resolver._static_routes, *resolver._dynamic_routes]
    return [re.sub(r"<\w+>", "x", str(rule.path)) for rule in rules]


def test_each_route_that_takes_a_post_is_known() -> None:
    """IAM or a signature says who asks, or a session does; nothing takes a POST without a method
    named."""
    taking = {key for key in ROUTES if key.startswith(("POST ", "ANY ", "$default"))}
    by_iam = {key for key in taking if ROUTES[key]["AuthorizationType"] == "AWS_IAM"}

    assert BY_SESSION | BY_SIGNATURE == taking - by_iam
    assert {key.split()[0] for key in ROUTES} == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("button", sorted(BUTTONS))
@pytest.mark.parametrize("is_short", [False, True])
def test_it_answers_no_question(button: str, is_short: bool) -> None:
    """On the page of a link, in both forms. The same press counts while the session holds."""
    gated = Gated(BOB)
    gated.stored.end_session(gated.session_id, NOW)
    before = _records(gated)
    refused = _press(gated, button, is_short=is_short)

    assert (403, True) == (refused.status, "session has ended" in refused.body)
    assert (before, ApprovalStatus.PENDING) == (_records(gated), gated.world.status)
    assert [] == gated.world.undoer.asked


@pytest.mark.parametrize("is_short", [False, True])
def test_the_same_press_counts_while_the_session_holds(is_short: bool) -> None:
    """Or the test above would prove nothing."""
    gated = Gated(BOB)

    assert 303 == _press(gated, "approve", is_short=is_short).status
    assert ApprovalStatus.APPROVED is gated.world.status


@pytest.mark.parametrize("is_short", [False, True])
def test_signing_out_on_a_page_of_a_link_ends_the_session_for_every_copy_of_its_cookie(
    is_short: bool,
) -> None:
    """As signing out in the console does: whoever has copied the cookie decides nothing more."""
    gated = Gated(BOB)
    assert 303 == _press(gated, "sign-out", is_short=is_short).status
    assert gated.stored.session(gated.session_id, NOW) is None

    refused = _press(gated, "approve", is_short=is_short)
    assert (403, True) == (refused.status, "session has ended" in refused.body)
    assert ApprovalStatus.PENDING is gated.world.status


def test_signing_out_on_a_page_of_several_questions_ends_the_session() -> None:
    gated = Gated(BOB, DigestWorld())
    assert 303 == gated.post("sign-out").status

    assert gated.stored.session(gated.session_id, NOW) is None


def test_a_forged_form_ends_no_session() -> None:
    gated = Gated(BOB)
    assert 403 == gated.ask("POST", {"csrf": "k1.nonsense", "answer": "sign-out"}).status

    assert gated.stored.session(gated.session_id, NOW) is not None


def test_it_answers_no_list_of_questions() -> None:
    gated = Gated(BOB, DigestWorld())
    gated.stored.end_session(gated.session_id, NOW)
    refused = gated.post("keep", **UNTIL, **{f"pick-{ID}": "yes", "pick-other": "yes"})

    assert (403, True) == (refused.status, "session has ended" in refused.body)


def test_no_page_of_the_console_takes_anything_of_it() -> None:
    """Each rule of its routing; only where a code opens a session is no session asked for."""
    at = Entrance(issuer="")
    console = _console(at)
    addresses = _addresses(console)
    assert {"/questions", "/questions/x", "/instances/x/x/x", "/freezes", "/sign-out"} <= set(
        addresses
    )
    live = at.session("oidc:1", "bob@example.com")
    ended = at.session("oidc:2", "eve@example.com")
    at.stored.end_session("session of oidc:2 eve@example.com", at.clock.now())

    for address in addresses:
        refused = entrance.ask(console, address, "POST", cookies=ended)["statusCode"]
        if address == "/console":
            assert 403 == refused, "a code opens a session, and there was none"
            continue
        assert refused in (401, 405), address
        if refused == 401:
            with pytest.raises(_Entered):
                entrance.ask(console, address, "POST", cookies=live)


def test_slack_asks_for_its_signature_alone() -> None:
    slack = Slack()

    assert 200 != slack.actions.handle({"cookie": f"{SESSION_COOKIE}=x"}, b"payload=%7B%7D").status


def _press(gated: Gated, button: str, *, is_short: bool) -> Response:
    if not is_short:
        return gated.post(button, **BUTTONS[button])
    link = SIGNER.relative(ID, 0)
    csrf = SIGNER.csrf(ID, BROADCAST, "1", gated.session_id)
    form = {"answer": button, "csrf": csrf, **BUTTONS[button]}
    request = Request("POST", "", {}, form, {}, gated.cookies, link)
    return gated.world.site.handle(request)


def _records(gated: Gated) -> dict[Any, Any]:
    """Return all that is stored but the sessions and what the audit keeps of a refusal."""
    items = gated.world.state.items.items()
    return {key: item for key, item in items if not key[1].startswith(("SESSION", "REFUSED#"))}
