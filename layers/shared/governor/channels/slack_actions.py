"""Answers given by pressing a button in Slack: verified, taken once, and confirmed to the person who pressed.

Pure of AWS: the handler parses API Gateway's event and serialises the `SlackReply`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from governor.channels.errors import CallbackRefused
from governor.channels.slack_callback import SlackAnswer, parse_slack_answer, verify_slack_request
from governor.domain.approvals.approval import Answer, Decision
from governor.domain.policy.contacts import Ownership
from governor.domain.policy.schedule import tomorrow_morning
from governor.domain.units import UtcDatetime
from governor.domain.wording import clock
from governor.errors import DecisionRefused, InputError, NotFound
from governor.ports import Clock
from governor.usecases.approvals.decide import Decide
from governor.usecases.approvals.show_approval import ShowApproval


class Confirm(Protocol):
    """Send one person of a conversation an ephemeral message."""

    def __call__(self, thread: str, user_id: str, text: str) -> None:
        """Raises: DeliveryError."""
        ...


@dataclass(frozen=True, slots=True)
class SlackReply:
    """The HTTP answer; `note` is for the log."""

    status: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SlackActions:
    """Takes the requests of Slack's interactivity. `directory` is read only for requests that Slack
    signed."""

    signing_secret: str
    show: ShowApproval
    decide: Decide
    directory: Callable[[], Ownership]
    confirm: Confirm
    clock: Clock

    def handle(self, headers: Mapping[str, str], body: bytes) -> SlackReply:
        """Headers by lower-case name. Never raises for what a client can send.

        Raises:
            ConfigurationError: the signing secret is too short.
            CloudError: the decision could not be stored; Slack shows the person that it failed.
        """
        now = self.clock.now()
        if not self.signing_secret:
            return SlackReply(404, "Slack is not configured: slack_signing_secret is missing")
        try:
            verify_slack_request(
                self.signing_secret,
                headers.get("x-slack-request-timestamp", ""),
                body,
                headers.get("x-slack-signature", ""),
                now,
            )
        except CallbackRefused as error:
            return SlackReply(403, str(error))
        try:
            answer = parse_slack_answer(body)
        except InputError as error:
            return SlackReply(400, str(error))
        if answer is None:
            return SlackReply(200)
        text = self._decide(answer, now)
        try:
            self.confirm(answer.thread, answer.user_id, text)
        except Exception as error:  # noqa: BLE001 - the decision stands, whether or not it can be confirmed
            return SlackReply(200, f"the answer could not be confirmed to the person: {error}")
        return SlackReply(200)

    def _decide(self, answer: SlackAnswer, now: UtcDatetime) -> str:
        """Record the answer and return what the person is notified of."""
        identity = f"slack:{answer.user_id}"
        try:
            view = self.show(answer.approval_id)
            until = None
            if answer.answer is Answer.KEEP:
                longest = now + view.approval.keep_at_most
                until = min(tomorrow_morning(now, view.episode.time_zone), longest)
            decision = Decision(
                answer=answer.answer,
                by=identity,
                channel="slack",
                at=now,
                keep_until=until,
                reason=answer.reason if answer.answer is Answer.EXEMPT else None,
                # Somebody the policy does not know may do what a link that went to a list may.
                person=self.directory().person(identity),
            )
            decided = self.decide(answer.approval_id, decision)
        except NotFound:
            return "This question does not exist any more."
        except DecisionRefused as error:
            return f"Not recorded: {error}."
        if decided.needs_another:
            return "Noted. A second person must approve before anything is done."
        if until is not None:
            return f"Recorded: kept until {clock(until, view.episode.time_zone, now)}."
        return f"Recorded: {'approved' if answer.answer is Answer.APPROVE else 'exempted'}."
