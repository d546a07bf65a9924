"""A press in Slack decides like a press on the page: verified, by a known person, once, and
told."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from governor.approvals.decide import Decide
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.show_approval import ShowApproval
from governor.notify.message import DeliveryRefused
from governor.notify.slack_actions import SlackActions
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership
from tests.builders import NOW
from tests.unit.worlds.world import APPROVAL_ID, World

SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
ML = Contact(emails=("bob@example.com",), identities={"slack:U0BOB": "bob@example.com"})


@dataclass
class Slack:
    """An open question with its message in Slack. Its disks are not local, so that a button may
    stop it."""

    action: Action = Action.STOP
    said: list[tuple[str, str, str]] = field(default_factory=list)
    holds: list[str | None] = field(default_factory=list)
    """The approval that each one's button holds."""
    private_failure: Exception | None = None

    def __post_init__(self) -> None:
        self.world = World(decide=False, action=self.action)
        episode = self.world._stored()
        plan = replace(episode.plan, loses_local_disks=False)
        self.world.state.put(replace(episode, plan=plan))
        self.world.policies.policy = replace(
            self.world.policies.policy, ownership=Ownership(contacts={"ml": ML})
        )
        state, clock = self.world.state, self.world.clock
        self.actions = SlackActions(
            SECRET,
            ShowApproval(
                episode_store=state,
                approval_store=state,
                instance_store=state,
                delivery_store=state,
                ledger_store=state,
                clock=clock,
            ),
            Decide(
                episode_store=state,
                approval_store=state,
                hold_store=state,
                instance_store=state,
                workflow=self.world.workflow,
                clock=clock,
                announcer=self.world.announcer,
                policies_now=lambda: self.world.policies,
                answer_seal=self.world.seals.answers,
            ),
            lambda: self.world.policies.policy.ownership,
            self.answer_privately,
            clock,
        )

    def answer_privately(self, thread: str, user_id: str, text: str, held: str | None) -> None:
        """As the Protocol says."""
        if self.private_failure is not None:
            raise self.private_failure
        self.said.append((thread, user_id, text))
        self.holds.append(held)

    def press(
        self,
        answer: str,
        *,
        user: str = "U0BOB",
        reason: str = "",
        secret: str = SECRET,
        age: int = 0,
        value: str = APPROVAL_ID,
    ) -> int:
        """Presses a button; the status of the answer."""
        payload: dict[str, Any] = {
            "type": "block_actions",
            "user": {"id": user, "username": "bob"},
            "team": {"id": "T0"},
            "container": {"type": "message", "message_ts": "1.2", "channel_id": "C0ML"},
            "state": {
                "values": {"governor.reason": {"governor.reason_text": {"value": reason or None}}}
            },
            "actions": [{"action_id": f"governor.{answer}", "type": "button", "value": value}],
        }
        body = urlencode({"payload": json.dumps(payload)}).encode()
        stamp = str(int(NOW.timestamp()) - age)
        mac = hmac.new(
            secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256
        ).hexdigest()
        headers = {"x-slack-request-timestamp": stamp, "x-slack-signature": f"v0={mac}"}
        return self.actions.handle(headers, body).status

    @property
    def status(self) -> ApprovalStatus:
        """Return the question's status."""
        approval = self.world.state.approval(APPROVAL_ID)
        assert approval is not None
        return approval.status


def test_a_press_decides_and_is_told_to_who_pressed() -> None:
    """The record names the Slack identity and the person behind it."""
    slack = Slack()
    assert 200 == slack.press("approve")
    approval = slack.world.state.approval(APPROVAL_ID)

    assert approval is not None
    assert approval.decision is not None
    assert ("slack:U0BOB", "slack", "bob@example.com") == (
        approval.decision.by,
        approval.decision.channel,
        approval.decision.person,
    )
    assert [
        (
            "C0ML:1.2",
            "U0BOB",
            "Recorded: approved. Until EC2 is called, you can still put it on hold.",
        )
    ] == slack.said
    assert [APPROVAL_ID] == slack.holds


@pytest.mark.parametrize(("secret", "age"), [("x" * 32, 0), (SECRET, 301)])
def test_what_slack_did_not_sign_just_now_decides_nothing(secret: str, age: int) -> None:
    """Forged or replayed: refused before anything is read."""
    slack = Slack()
    assert 403 == slack.press("approve", secret=secret, age=age)
    assert (ApprovalStatus.PENDING, []) == (slack.status, slack.said)


@pytest.mark.parametrize(
    ("named", "until"),
    [
        ("", "Sat 09:00"),  # of a message of an earlier release
        (f" {int((NOW + timedelta(days=2)).timestamp())}", "Sun 12:02"),
        (f" {int((NOW - timedelta(days=2)).timestamp())}", "Sat 09:00"),  # its date is over
    ],
)
def test_a_keep_lasts_as_its_button_says(named: str, until: str) -> None:
    """Whenever it is pressed; else until the next working morning, and the answer says which."""
    slack = Slack()
    assert 200 == slack.press("keep", value=f"{APPROVAL_ID}{named}")

    assert ApprovalStatus.KEPT is slack.status
    assert f"Recorded: kept until {until} UTC." == slack.said[0][2]


def test_somebody_the_policy_does_not_know_may_do_what_a_list_may() -> None:
    """Keep by default; no exemption."""
    slack = Slack()
    slack.press("exempt", user="U0EVE", reason="mine")
    text = (
        "Not recorded: the policy does not know slack:U0EVE, and only people of "
        "ownership.contacts may "
        "exempt it: keep it, or ask one of them, or have it map you to one (identities)."
    )
    assert (ApprovalStatus.PENDING, text) == (slack.status, slack.said[0][2])

    slack.press("exempt", reason="license server")
    assert ApprovalStatus.EXEMPTED is slack.status


def test_a_termination_is_for_the_page() -> None:
    """Its id must be typed, whatever button somebody makes Slack send."""
    slack = Slack(action=Action.TERMINATE)
    slack.press("approve")

    assert (ApprovalStatus.PENDING, True) == (slack.status, "open its page" in slack.said[0][2])


def test_a_press_of_one_of_two_people_is_told_to_be_a_known_one() -> None:
    """By the Slack identity that the policy would have to name."""
    slack = Slack(action=Action.TERMINATE)
    episode = slack.world._stored()
    terms = replace(episode.terms, people_needed=2)
    slack.world.state.put(replace(episode, terms=terms))
    slack.press("approve", user="U0EVE")

    assert ApprovalStatus.PENDING is slack.status
    assert "map slack:U0EVE to your address in ownership.contacts" in slack.said[0][2]


def test_a_wiped_disk_is_for_the_page() -> None:
    """There is no box to tick in Slack."""
    slack = Slack()
    episode = slack.world._stored()
    plan = replace(episode.plan, loses_local_disks=True)
    slack.world.state.put(replace(episode, plan=plan))
    slack.press("approve")

    assert (ApprovalStatus.PENDING, True) == (slack.status, "open its page" in slack.said[0][2])


def test_a_second_press_is_told_who_was_first() -> None:
    """And changes nothing."""
    slack = Slack()
    slack.press("keep")
    slack.press("approve", user="U0EVE")

    assert ApprovalStatus.KEPT is slack.status
    assert "lready decided by U0BOB (Slack)" in slack.said[1][2]


@pytest.mark.parametrize(
    ("button", "says"),
    [
        ("hold", "On hold: nothing more is done to it."),
        ("keep", "On hold: nothing more is done to it. It is kept until Sat 09:00 UTC."),
        ("exempt", "On hold: nothing more is done to it. It is exempt from now on."),
    ],
)
def test_a_press_after_the_yes_holds(button: str, says: str) -> None:
    """The buttons of the question stay where they are: until EC2 is called, they still help."""
    slack = Slack()
    slack.press("approve")
    slack.press(button, reason="demo")

    assert ApprovalStatus.APPROVED is slack.status
    assert "you can still put it on hold" in slack.said[0][2]
    assert [APPROVAL_ID, None] == slack.holds
    assert says == slack.said[1][2]
    approval = slack.world.state.approval(APPROVAL_ID)
    assert approval is not None
    held = approval.hold
    assert held is not None
    assert (button, "slack:U0BOB") == (held.answer, held.by)


def test_a_press_after_a_yes_that_was_given_elsewhere_offers_a_hold() -> None:
    """Its message still shows the buttons of the question; whoever presses one learns what there is
    to do."""
    slack = Slack()
    slack.world.state.settle(APPROVAL_ID, slack.world.approval)
    slack.press("approve")

    assert "alice@example.com" in slack.said[0][2]
    assert "already decided" in slack.said[0][2]
    assert [APPROVAL_ID] == slack.holds
    slack.press("hold")
    assert "On hold: nothing more is done to it." == slack.said[1][2]
    assert [APPROVAL_ID, None] == slack.holds


def test_a_press_of_a_question_that_is_gone_is_told_so() -> None:
    """It offers nothing."""
    slack = Slack()
    slack.world.state.items.clear()
    slack.press("approve")

    assert [("C0ML:1.2", "U0BOB", "This question no longer exists.")] == slack.said
    assert [None] == slack.holds


def test_a_late_press_is_told_that_it_came_late() -> None:
    """The message may be days old."""
    slack = Slack()
    slack.world.state.await_answer(APPROVAL_ID, "token", "ask", NOW - timedelta(minutes=1))
    slack.press("approve")

    assert (ApprovalStatus.PENDING, True) == (
        slack.status,
        "time to decide is over" in slack.said[0][2],
    )


def test_a_decision_stands_when_it_cannot_be_confirmed() -> None:
    """Slack is not asked twice for what is decided; the log has it."""
    slack = Slack()
    slack.private_failure = DeliveryRefused("user_not_in_channel")

    assert 200 == slack.press("approve")
    assert ApprovalStatus.APPROVED is slack.status


def test_where_slack_is_not_configured_there_is_nothing() -> None:
    """Anybody may post here; that must not look like a fault of ours."""
    slack = Slack()
    unset = replace(slack.actions, signing_secret="")

    assert 404 == unset.handle({}, b"").status
