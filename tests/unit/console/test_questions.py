"""The Questions page: nothing is ticked, terminations stand apart, and answers are those of the links."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.console.app import Console
from governor.console.questions import Answers, question, questions
from governor.console.reader import Reader
from governor.console.session import caller_of
from governor.contracts.policy import parse_policy
from governor.domain.approvals.approval import Answer, ApprovalStatus
from governor.domain.episode.episode import Episode, Phase
from governor.domain.episode.plan import Price
from governor.domain.fleet.rows import FleetPage
from governor.domain.policy.policy import Action
from governor.stores.fleet import Fleet
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ShowApproval
from tests.builders import NOW, TARGET
from tests.console_world import make_row
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance, token
from tests.unit.usecases.world import APPROVAL_ID, World

POLICY = (
    parse_policy(
        """
    ownership: {contacts: {ml: {emails: [alice@example.com]}, web: {emails: [bob@example.com]}}}
    console:
      scopes:
        ops: {groups: [ops], role: approver, everything: true}
        eyes: {groups: [eyes], everything: true}
        other: {groups: [other], role: approver, accounts: ["999900001111"]}
    """
    )
    .base()
    .policy
)
OTHER = "A" * 22


def episode_of(world: World) -> Episode:
    found = world.state.episode(world.ref)
    assert found is not None
    return found


class Site:
    """The console over a question to stop, and one to terminate that costs more."""

    def __init__(self) -> None:
        self.world = World(decide=False, phase=Phase.ASKING)
        self.table: Any = self.world.state._table
        self.at = Entrance(self.table)
        self.at.clock.at = NOW
        first = episode_of(self.world)
        dear = episode_of(World(decide=False, phase=Phase.ASKING, action=Action.TERMINATE))
        ref = replace(first.ref, instance_id="i-0fedcba9876543210")
        second = replace(
            dear,
            ref=ref,
            approval_id=OTHER,
            instance=replace(dear.instance, instance_id=ref.instance_id, tags={"Name": "trainer"}),
            price=Price(Decimal("55.04"), "list price"),
        )
        self.world.state.take_lock(ref)
        self.world.state.save_opened(second)
        self.world.state.await_answer(OTHER, "other", "ask", NOW + timedelta(hours=9))
        self.world.workflow.waiting.add("other")
        self.episodes = {APPROVAL_ID: first, OTHER: second}
        rows = [self.row(number, key) for number, key in enumerate(self.episodes, 1)]
        fleet = Fleet(self.table)
        fleet.keep_page(FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, tuple(rows)))
        show = ShowApproval(self.world.state, self.world.clock)
        reader = Reader(fleet, self.world.state, show, POLICY, (TARGET,), "gpu-governor")
        answers = Answers(
            Decide(
                self.world.state,
                self.world.workflow,
                self.at.clock,
                self.world.announcer,
                lambda: self.world.policies,
            )
        )
        self.console = Console(
            lambda: replace(reader),
            self.at.doors,
            self.at.clock,
            {"/questions": questions, "/questions/<approval_id>": question},
            {"/questions": answers.several, "/questions/<approval_id>": answers.one},
        )

    def row(self, number: int, approval_id: str) -> Any:
        episode = self.episodes[approval_id]
        return make_row(
            number,
            name=episode.instance.name,
            instance_id=episode.ref.instance_id,
            account=episode.ref.account,
            region=episode.ref.region,
            owner=episode.owner,
            project=episode.project,
            usd_per_hour=episode.price.usd_per_hour,
            episode=episode.ref.execution_name,
            approval_id=approval_id,
        )

    def cookies(self, group: str = "ops", email: str = "alice@example.com") -> dict[str, str]:
        return self.at.session(f"oidc:{group}", email, groups=(group,))

    def ask(self, address: str = "/questions", method: str = "GET", **more: Any) -> dict[str, Any]:
        return entrance.ask(self.console, address, method, **more)

    def post(self, cookies: dict[str, str], address: str = "/questions", **form: str) -> dict[str, Any]:
        csrf = token(self.ask(address, cookies=cookies)["body"], address)
        return self.ask(address, "POST", cookies=cookies, form={"csrf": csrf, **form})

    def status(self, approval_id: str = APPROVAL_ID) -> ApprovalStatus:
        found = self.world.state.approval(approval_id)
        assert found is not None
        return found.status


def test_nothing_is_ticked_and_terminations_stand_apart() -> None:
    site = Site()
    page = site.ask(cookies=site.cookies())["body"]

    boxes = re.findall(r'<input[^>]* name="pick-([^"]+)"[^>]*>', page)
    assert ([APPROVAL_ID], " checked>" in page) == (boxes, False)
    assert "trainer" in page.split('id="apart"')[1]
    assert f'href="/questions/{OTHER}"' in page
    assert "2 open questions" in page


def test_all_of_an_owner_are_selected_without_a_script() -> None:
    site = Site()
    owner = site.episodes[APPROVAL_ID].owner
    cookies = site.cookies()
    assert " checked>" in site.ask(f"/questions?select={owner}", cookies=cookies)["body"]
    assert " checked>" not in site.ask("/questions?select=somebody", cookies=cookies)["body"]


def test_what_is_ticked_is_answered_in_the_name_of_the_session() -> None:
    site = Site()
    answered = site.post(site.cookies(), answer="keep", keep_until="", **{f"pick-{APPROVAL_ID}": "yes"})

    assert (200, True) == (answered["statusCode"], ": recorded" in answered["body"].replace("</strong>", ""))
    stored = site.world.state.approval(APPROVAL_ID)
    assert stored is not None
    assert stored.decision is not None
    assert (Answer.KEEP, "oidc:alice@example.com", "console") == (
        stored.decision.answer,
        stored.decision.by,
        stored.decision.channel,
    )
    assert site.status(OTHER) is ApprovalStatus.PENDING


def test_a_termination_needs_its_id_on_its_own_page() -> None:
    site = Site()
    cookies = site.cookies()
    both = {f"pick-{one}": "yes" for one in site.episodes}
    answered = site.post(cookies, answer="approve", losses="accepted", **both)
    assert "type its id" in answered["body"]
    assert (ApprovalStatus.APPROVED, ApprovalStatus.PENDING) == (site.status(), site.status(OTHER))

    own = f"/questions/{OTHER}"
    wrong = site.post(cookies, own, answer="approve", losses="accepted", typed_instance_id="i-1")
    assert (400, ApprovalStatus.PENDING) == (wrong["statusCode"], site.status(OTHER))
    typed = site.episodes[OTHER].ref.instance_id
    right = site.post(cookies, own, answer="approve", losses="accepted", typed_instance_id=typed)
    assert (303, ApprovalStatus.APPROVED) == (right["statusCode"], site.status(OTHER))


def test_a_viewer_changes_nothing() -> None:
    """There is no form; and one of somebody else's page is refused, and kept for the audit."""
    site = Site()
    cookies = site.cookies("eyes", "eve@example.com")
    page = site.ask(cookies=cookies)["body"]
    assert ("checkbox" in page, 'action="/questions"' in page) == (False, False)

    known = site.at.doors.known(cookies, NOW)
    assert known is not None
    csrf = site.at.doors.token("/questions", caller_of(POLICY, known))
    form = {"csrf": csrf, "answer": "keep", f"pick-{APPROVAL_ID}": "yes"}
    answered = site.ask("/questions", "POST", cookies=cookies, form=form)
    assert "you may look at it" in answered["body"]
    assert site.status() is ApprovalStatus.PENDING
    assert any(key[1].startswith("REFUSED#") for key in site.table.items)


@pytest.mark.parametrize("group", ["other", "nobody"])
def test_out_of_scope_nothing_is_seen_nor_answered(group: str) -> None:
    site = Site()
    cookies = site.cookies(group, "eve@example.com")
    page = site.ask(cookies=cookies)
    assert "trainer" not in page["body"]
    if group == "other":
        assert "No question waits" in page["body"]
        assert site.ask(f"/questions/{OTHER}", cookies=cookies)["statusCode"] == 404
        assert site.ask("/questions/unknown", cookies=cookies)["statusCode"] == 404


@pytest.mark.parametrize("csrf", ["", "k1.x", "of another session"])
def test_a_form_of_another_session_or_page_is_refused(csrf: str) -> None:
    site = Site()
    cookies, other = site.cookies(), site.cookies("ops", "bob@example.com")
    if csrf == "of another session":
        csrf = token(site.ask(cookies=other)["body"], "/questions")
    form = {"csrf": csrf, "answer": "keep", f"pick-{APPROVAL_ID}": "yes"}
    assert site.ask("/questions", "POST", cookies=cookies, form=form)["statusCode"] == 403
    assert site.status() is ApprovalStatus.PENDING


def test_the_documents_are_those_of_the_command_line_and_name_nobody_else() -> None:
    site = Site()
    cookies = site.cookies()
    found = json.loads(site.ask(cookies=cookies, headers={"accept": "application/json"})["body"])
    table = site.ask("/questions.csv", cookies=cookies)["body"].splitlines()

    assert [OTHER, APPROVAL_ID] == [one["id"] for one in found["questions"]]
    assert [OTHER, APPROVAL_ID] == [line.partition(",")[0] for line in table[1:]]
    assert "@" not in json.dumps(found)
    assert "token" not in json.dumps(found)


@pytest.mark.parametrize("page", ["0", "2", "x", "-1", "9" * 400])
def test_a_page_that_does_not_exist_is_said(page: str) -> None:
    site = Site()
    assert site.ask(f"/questions?page={page}", cookies=site.cookies())["statusCode"] == 400
