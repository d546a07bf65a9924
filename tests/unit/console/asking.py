"""The console over open questions, for tests of the Questions page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from governor.approvals.decide import Decide
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.rules.terms import terms_of
from governor.console.app import Console
from governor.console.page import Reader
from governor.console.questions import Answers, question, questions
from governor.console.views.instance import instance
from governor.episode.model.episode import Episode, Phase
from governor.episode.model.plan import Price
from governor.fleet.model import FleetPage
from governor.policy.document import parse_policy
from governor.policy.model.acting import Action
from governor.table.table import Readable
from tests.builders import NOW, TARGET
from tests.console_world import make_row
from tests.twins.services import RecordingUndoer, StaticPolicies
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance, token
from tests.unit.worlds.world import APPROVAL_ID, World

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
        first = replace(first, terms=terms_of(POLICY, first.plan, first.price))
        dear = episode_of(World(decide=False, phase=Phase.ASKING, action=Action.TERMINATE))
        ref = replace(first.ref, instance_id="i-0fedcba9876543210")
        second = replace(
            dear,
            terms=terms_of(POLICY, dear.plan, dear.price),
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
        self.sweep()
        self.undoer = RecordingUndoer()
        decide = Decide(
            episode_store=self.world.state,
            approval_store=self.world.state,
            hold_store=self.world.state,
            instance_store=self.world.state,
            workflow=self.world.workflow,
            clock=self.at.clock,
            announcer=self.world.announcer,
            policies_now=lambda: self.world.policies,
            answer_seal=self.world.seals.answers,
        )
        answers = Answers(decide, self.undoer)
        self.console = Console(
            lambda: Reader(
                Readable(self.table),
                self.world.clock,
                StaticPolicies(POLICY),
                (TARGET,),
                "gpu-governor",
                True,
            ),
            self.at.doors,
            {
                "/questions": questions,
                "/questions/<approval_id>": question,
                "/instances/<account>/<region>/<instance_id>": instance,
            },
            {"/questions": answers.several, "/questions/<approval_id>": answers.one},
        )

    def sweep(self) -> None:
        """Note the sight of the last sweep: an instance for each question."""
        rows = tuple(self.row(number, key) for number, key in enumerate(self.episodes, 1))
        self.world.state.keep_page(FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, rows))

    def ask_more(self, count: int, names: tuple[str, ...] = ("notebook",)) -> None:
        """As many questions more, about instances of three owners with these names."""
        first = self.episodes[APPROVAL_ID]
        for number in range(count):
            ref = replace(first.ref, instance_id=f"i-{number:017x}")
            tags = {"Name": f"{names[number % len(names)]}-{number}"}
            episode = replace(
                first,
                ref=ref,
                approval_id=f"question-{number}",
                owner=("ml-team", "research", "bob@example.com")[number % 3],
                instance=replace(first.instance, instance_id=ref.instance_id, tags=tags),
                price=Price(Decimal(number) / 3, "list price"),
            )
            self.world.state.take_lock(ref)
            self.world.state.save_opened(episode)
            self.world.state.await_answer(
                episode.approval_id, f"token-{number}", "ask", NOW + timedelta(hours=9)
            )
            self.episodes[episode.approval_id] = episode
        self.sweep()

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

    def post(
        self, cookies: dict[str, str], address: str = "/questions", **form: str
    ) -> dict[str, Any]:
        csrf = token(self.ask(address, cookies=cookies)["body"], address)
        return self.ask(address, "POST", cookies=cookies, form={"csrf": csrf, **form})

    def status(self, approval_id: str = APPROVAL_ID) -> ApprovalStatus:
        found = self.world.state.approval(approval_id)
        assert found is not None
        return found.status
