"""A sign-in in front of decisions: without one the page takes nothing, with one it knows who it
is."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import ApprovalStatus, Decision
from governor.approvals.model.terms import Role, SignedIn, SignIn
from governor.approvals.rules.links import LinkSigner
from governor.approvals.rules.terms import BROADCAST
from governor.approvals.store.sessions import SignIns
from governor.core.units import iso
from governor.episode.model.episode import Outcome
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership
from governor.web.responses import Response
from governor.web.sessions import SESSION_COOKIE, SESSION_LASTS, Session, Sessions
from governor.web.site import Request, SignInGate
from tests.builders import NOW, form_token
from tests.unit.web.test_site import ALICE, BOTH, ID, LATER, SIGNER, DigestWorld, World

SESSIONS = Sessions(
    LinkSigner(lambda: {"current": "k1", "k1": "n" * 64}, None), ("https://issuer.example.com",)
)
BOB = SignedIn("u-bob", "bob@example.com", Role.APPROVER)
VIEWER = replace(BOB, role=Role.VIEWER)
STRANGER = SignedIn("u-eve", None, Role.APPROVER)
DIRECTORY = Ownership(
    contacts={
        "team": Contact(
            ("alice@example.com", "bob@example.com"), identities={"oidc:u-al": "alice@example.com"}
        )
    }
)
TYPED: dict[str, Any] = {"typed_instance_id": "i-0123456789abcdef0"}
UNTIL: dict[str, Any] = {"keep_until": iso(NOW + timedelta(hours=4))}


class Gated:
    """A question behind a sign-in, and a browser that may hold a session."""

    def __init__(self, who: SignedIn | None = None, world: World | None = None) -> None:
        self.world = world or World()
        self.read = 0
        self.stored = SignIns(self.world.state.memory)
        self.world.site = replace(
            self.world.site, gate=SignInGate(SESSIONS, self.directory, self.stored)
        )
        self.cookies: dict[str, str] = {}
        self.session_id = ""
        if who is not None:
            self.sign_in(who)

    def directory(self) -> Ownership:
        """As the policy has it."""
        self.read += 1
        return DIRECTORY

    def sign_in(self, who: SignedIn, session_id: str = "session-1") -> None:
        """As the callback does."""
        now = self.world.clock.now()
        self.session_id = f"{session_id} of {who.subject} as {who.role}"
        stored = SignIn(who.identity, who.by, now, now + SESSION_LASTS, who.email, (), who.role)
        self.stored.keep_session(self.session_id, stored)
        cookie = SESSIONS.cookie(Session(self.session_id, who), now)
        self.cookies = {SESSION_COOKIE: cookie.partition(";")[0].partition("=")[2]}

    def ask(self, method: str, form: dict[str, str] | None = None, headers: Any = None) -> Response:
        """One request with the link and the browser's cookies."""
        digest = isinstance(self.world, DigestWorld)
        page = "digest-1" if digest else ID
        link_of = ALICE if digest else self.world.link_of
        if form is not None:
            form = {"csrf": form_token(SIGNER, page, link_of, LATER, self.session_id), **form}
        request = Request(method, page, self.world.query, form or {}, headers or {}, self.cookies)
        return self.world.site.handle(request)

    def post(self, answer: str, **form: str) -> Response:
        """Presses a button of the page."""
        return self.ask("POST", {"answer": answer, "losses": "accepted", **form})

    @property
    def decision(self) -> Decision:
        """As stored."""
        approval = self.world.state.approval(ID)
        assert approval is not None
        assert approval.decision is not None
        return approval.decision


def test_without_a_session_the_page_shows_and_takes_no_answer() -> None:
    """It leads to the sign-in, with the link to come back to, and reads no policy."""
    gated = Gated()
    page = gated.ask("GET").body
    assert 'href="../sign-in?return=JG1Kw3bzgWbtOnVwnoF6Jg%3Fk%3Dk1' in page
    assert ("Sign in to decide" in page, "<form" in page, "idle for 1 h" in page) == (
        True,
        False,
        True,
    )

    for answer, form in (
        ("approve", {}),
        ("keep", UNTIL),
        ("exempt", {"reason": "x"}),
        ("undo", {}),
    ):
        refused = gated.post(answer, **form)
        assert (403, True) == (refused.status, "session has ended" in refused.body)
    assert (ApprovalStatus.PENDING, 0) == (gated.world.status, gated.read)


def test_the_session_says_who_decides_not_the_link() -> None:
    """Alice's mail, forwarded to Bob: the record names Bob."""
    gated = Gated(BOB)
    page = gated.ask("GET").body
    assert "Signed in as oidc:bob@example.com" in page
    assert "Sign in to decide" not in page

    assert 303 == gated.post("approve").status
    assert ("oidc:bob@example.com", "bob@example.com") == (gated.decision.by, gated.decision.person)


def test_the_policy_may_know_a_subject_by_another_address() -> None:
    """Where the issuer verifies no address."""
    gated = Gated(SignedIn("u-al", None, Role.APPROVER))
    assert "known as alice@example.com" in gated.ask("GET").body
    gated.post("keep", **UNTIL)

    assert ("oidc:u-al", "alice@example.com") == (gated.decision.by, gated.decision.person)


def test_whoever_is_signed_in_is_somebody() -> None:
    """By a link that went to a list, too: the sign-in is the proof."""
    gated = Gated(STRANGER, World(Action.TERMINATE, BROADCAST))

    assert 303 == gated.post("approve", **TYPED).status
    assert ("oidc:u-eve", "oidc:u-eve") == (gated.decision.by, gated.decision.person)


def test_two_people_are_two_people_whatever_links_they_use() -> None:
    """One who signs in twice is one; somebody whom the policy does not know is none of the two."""
    gated = Gated(STRANGER, World(Action.TERMINATE, people=2))
    assert 403 == gated.post("approve", **TYPED).status

    gated.sign_in(BOB)
    assert 303 == gated.post("approve", **TYPED).status
    gated.world.link_of = "alice@example.com"
    gated.world.open_link()
    gated.sign_in(BOB, "session-2")
    again = gated.post("approve", **TYPED)
    assert (303, ApprovalStatus.PENDING) == (again.status, gated.world.status)

    gated.sign_in(SignedIn("u-al", None, Role.APPROVER))
    assert 303 == gated.post("approve", **TYPED).status
    assert ApprovalStatus.APPROVED is gated.world.status


def test_who_is_not_in_the_group_may_look_and_keep() -> None:
    """No button, and no way around the missing button."""
    gated = Gated(VIEWER)
    page = gated.ask("GET").body
    assert [False, True, False] == [
        f'value="{one}"' in page for one in ("approve", "keep", "exempt")
    ]
    assert "not in the group" in page

    for answer, form in (("approve", {}), ("exempt", {"reason": "x"})):
        refused = gated.post(answer, **form)
        assert (403, True) == (refused.status, "not in the group" in refused.body)
        assert [ApprovalStatus.PENDING] == [gated.world.status]
    assert 303 == gated.post("keep", **UNTIL).status
    assert ApprovalStatus.KEPT is gated.world.status


@pytest.mark.parametrize(("who", "status"), [(None, 403), (VIEWER, 403), (BOB, 303)])
def test_an_undo_takes_an_approver(who: SignedIn | None, status: int) -> None:
    """An instance that runs again costs what it cost before."""
    gated = Gated(who)
    gated.world.state.void(ID, "it is over", expired=False)
    gated.world.end(Outcome.STOPPED)

    assert (status == 303) == ("Start it again" in gated.ask("GET").body)
    assert status == gated.post("undo").status
    assert [(gated.world.ref, "oidc:bob@example.com", "page")] * (
        status == 303
    ) == gated.world.undoer.asked


def refusals(gated: Gated) -> list[tuple[str, str, str]]:
    """Return what is kept for the audit: the question, the answer and who gave it."""
    return sorted(
        (pk.partition("#")[2], str(item["answer"]), str(item["by"]))
        for (pk, sk), item in gated.world.state.items.items()
        if sk.startswith("REFUSED#") and item["what"] == "refused"
    )


def test_what_the_page_refuses_before_a_decision_is_kept_once() -> None:
    """For the audit: without a sign-in by the link, with one by who it was. Whoever repeats it, or
    sends what is no answer, fills nothing."""
    gated = Gated()
    for answer in ("approve", "undo", "approve", "banana", ""):
        gated.post(answer)
    by_link = [(ID, "approve", f"link:{ALICE}"), (ID, "undo", f"link:{ALICE}")]
    assert by_link == refusals(gated)

    gated.sign_in(VIEWER)
    for answer in ("approve", "undo", "approve"):
        gated.post(answer)
    bob = "oidc:bob@example.com"
    assert sorted([*by_link, (ID, "approve", bob), (ID, "undo", bob)]) == refusals(gated)


def test_of_several_questions_the_ticked_ones_say_so() -> None:
    """Also where nobody has signed in."""
    for who, by in ((None, f"link:{ALICE}"), (VIEWER, "oidc:bob@example.com")):
        gated = Gated(who, DigestWorld())
        gated.post("exempt", reason="x", **{"pick-other": "yes"})
        assert [("other", "exempt", by)] == refusals(gated)


def test_whoever_has_no_valid_link_leaves_no_trace() -> None:
    """Or a flood would fill the audit."""
    gated = Gated()
    gated.world.query = {**gated.world.query, "s": "x" * 43}
    assert 403 == gated.post("approve").status
    assert [] == refusals(gated)


def test_a_session_that_is_over_decides_nothing() -> None:
    """Nor does one that was ended, was altered, is not stored, or is sealed for another issuer."""
    over = Gated()
    over.world.clock.moment = NOW - SESSION_LASTS
    over.sign_in(BOB)
    over.world.clock.moment = NOW
    altered = Gated(BOB)
    altered.cookies = {SESSION_COOKIE: altered.cookies[SESSION_COOKIE][:-1] + "!"}
    foreign = Gated(BOB)
    gate = SignInGate(
        replace(SESSIONS, scope=("https://other.example.com",)), foreign.directory, foreign.stored
    )
    foreign.world.site = replace(foreign.world.site, gate=gate)

    ended = Gated(BOB)
    ended.stored.end_session(ended.session_id, NOW)
    unknown = Gated(BOB)
    unknown.world.state.forget("SESSION")

    for gated in (over, altered, foreign, ended, unknown):
        assert "Sign in to decide" in gated.ask("GET").body
        assert 403 == gated.post("approve").status
        assert (ApprovalStatus.PENDING, 0) == (gated.world.status, gated.read)


def test_a_form_belongs_to_its_session() -> None:
    """One of another session, or of the time before signing in, is refused; so is another
    site's."""
    gated = Gated(BOB)
    for session in ("", "session-2"):
        form = {
            "csrf": form_token(SIGNER, ID, ALICE, LATER, session),
            "answer": "approve",
            "losses": "accepted",
        }
        assert 403 == gated.ask("POST", form).status
    mine = {"answer": "approve", "losses": "accepted"}
    assert 403 == gated.ask("POST", mine, {"sec-fetch-site": "cross-site"}).status
    assert ApprovalStatus.PENDING is gated.world.status


def test_a_session_without_a_link_is_worth_nothing() -> None:
    """Signing in is no way around a forged or expired link."""
    gated = Gated(BOB)
    gated.world.query = {**gated.world.query, "s": "A" * 43}
    assert (403, 403) == (gated.ask("GET").status, gated.post("approve").status)
    assert "g5.xlarge" not in gated.ask("GET").body


def test_signing_out_forgets_the_session() -> None:
    """Back to the page; nothing is decided; a forged form signs nobody out."""
    gated = Gated(BOB)
    refused = gated.ask("POST", {"csrf": "k1.nonsense", "answer": "sign-out"})
    assert (403, ()) == (refused.status, refused.cookies)

    done = gated.post("sign-out")

    assert (303, f"{ID}?") == (done.status, done.headers["Location"][: len(ID) + 1])
    assert done.cookies[0].startswith(f"{SESSION_COOKIE}=; ")
    assert "Max-Age=0" in done.cookies[0]
    assert ApprovalStatus.PENDING is gated.world.status


def test_a_digest_stands_behind_the_same_sign_in() -> None:
    """Look without one; keep as a viewer; stop as an approver."""
    gated = Gated(world=DigestWorld())
    page = gated.ask("GET").body
    assert ("Sign in to decide" in page, "<form" in page, "trainer" in page) == (True, False, True)
    assert 403 == gated.post("keep", **UNTIL, **BOTH).status

    gated.sign_in(VIEWER)
    assert 'value="approve"' not in gated.ask("GET").body
    assert 403 == gated.post("approve", **BOTH).status
    assert ApprovalStatus.PENDING is gated.world.status
    assert 303 == gated.post("sign-out").status

    gated.sign_in(BOB)
    assert 'value="approve"' in gated.ask("GET").body
    assert 200 == gated.post("approve", **BOTH).status
    assert "oidc:bob@example.com" == gated.decision.by


def test_nothing_of_an_identity_becomes_markup() -> None:
    """The issuer's people choose their names."""
    gated = Gated(SignedIn("<script>alert(1)</script>", None, Role.APPROVER))

    assert "<script>alert" not in gated.ask("GET").body
    gated.post("keep", **UNTIL)
    assert "<script>alert" not in gated.ask("GET").body


def test_without_a_gate_cookies_mean_nothing() -> None:
    """A session of a time when there was one does not count, and the link says who it is."""
    gated = Gated(BOB)
    gated.world.site = replace(gated.world.site, gate=None)
    gated.session_id = ""

    assert "Signed in" not in gated.ask("GET").body
    assert 303 == gated.post("approve").status
    assert f"link:{ALICE}" == gated.decision.by


def test_a_link_signer_binds_forms_to_sessions() -> None:
    """The value of one session is not that of another, nor of none."""
    signer = LinkSigner(lambda: {"current": "k1", "k1": "n" * 64}, None)
    made = {form_token(signer, ID, ALICE, LATER, session) for session in ("", "one", "two")}

    assert 3 == len(made)
