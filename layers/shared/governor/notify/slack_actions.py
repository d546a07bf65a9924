"""Takes answers by buttons in Slack, after it has verified Slack's signature.

Nothing in a request is used before its signature is verified. An answer is recorded once, and
confirmed to the person who gave it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from urllib.parse import parse_qs

from governor.approvals.decide import Decide
from governor.approvals.messages.sentences import refused_text
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.show_approval import ShowApproval
from governor.core.errors import ConfigurationError, DecisionRefused, InputError, NotFound
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.notify import slack_blocks
from governor.notify.message import CallbackRefused
from governor.policy.model.contacts import Ownership

Confirm = Callable[[str, str, str, str | None], None]
"""Sends an ephemeral text to a person. The arguments are the thread, the person's id, the text, and
the id of the approval that a button can hold (`None` for no button). Raises: DeliveryError."""
_ANSWERS = {f"{slack_blocks.ACTION_PREFIX}{answer.value}": answer for answer in Answer}
_TOLERANCE = timedelta(minutes=5)
_EPOCH = re.compile(r"[1-9][0-9]{0,11}")
_USER = re.compile(r"[UW][A-Z0-9]{2,20}")
_VALUE = re.compile(r"(?P<id>\S{1,200})(?: (?P<until>[1-9][0-9]{9}))?")
_SHORTEST_SECRET_CHARACTERS = 16


class SlackAnswer(NamedTuple):
    """An answer and who gave it.

    `thread` names the message with the button, as `Delivered.thread` does. `keep_until` is the date
    that the button of a keep shows; `None` for other answers, and for buttons of earlier releases.
    """

    approval_id: str
    answer: Answer
    user_id: str
    thread: str
    reason: str | None = None
    keep_until: UtcDatetime | None = None


class SlackReply(NamedTuple):
    """The status of the HTTP answer; `note` is for the log."""

    status: int
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SlackActions:
    """Takes the interactivity requests of Slack. `directory` is read only after the signature is
    verified."""

    signing_secret: str
    show: ShowApproval
    decide: Decide
    directory: Callable[[], Ownership]
    confirm: Confirm
    clock: Clock

    def handle(self, headers: Mapping[str, str], body: bytes) -> SlackReply:
        """Verify a request, record the answer in it, and send the person a confirmation, whose
        failure is only named in the reply. Return the HTTP answer: 200 for a verified request, also
        for an answer that is refused; 403 for one that Slack did not sign, 400 for one of another
        form, 404 without a signing secret. `headers` are by their lower-case name.

        Raises: ConfigurationError for a short signing secret; PolicyError for an exemption, if
        today's policy cannot be read; CloudError, so that Slack shows that the answer failed.
        """
        now = self.clock.now()
        if not self.signing_secret:
            return SlackReply(404, "Slack is not configured: slack_signing_secret is missing")
        timestamp = headers.get("x-slack-request-timestamp", "")
        signature = headers.get("x-slack-signature", "")
        try:
            verify_slack_request(self.signing_secret, body, timestamp, signature, now)
            answer = parse_slack_answer(body)
        except CallbackRefused as error:
            return SlackReply(403, str(error))
        except InputError as error:
            return SlackReply(400, str(error))
        if answer is None:
            return SlackReply(200)
        text = self._record_answer(answer, now)
        try:
            held = self._approval_to_hold(answer.approval_id)
            self.confirm(answer.thread, answer.user_id, text, held)
        except Exception as error:  # noqa: BLE001 - the decision stands without a confirmation
            return SlackReply(200, f"the answer could not be confirmed to the person: {error}")
        return SlackReply(200)

    def _record_answer(self, answer: SlackAnswer, now: UtcDatetime) -> str:
        """Record the answer as a decision; return the text that confirms it, or says why it was
        refused. The end of a keep is left out if it is over by now, and a reason unless it is that
        of an exemption. Raises: PolicyError for an exemption, if today's policy cannot be read;
        CloudError."""
        identity = f"slack:{answer.user_id}"
        keep_until = answer.keep_until
        if keep_until is not None and keep_until <= now:
            keep_until = None
        try:
            view = self.show(answer.approval_id)
            decision = Decision(
                answer=answer.answer,
                by=identity,
                channel="slack",
                at=now,
                keep_until=keep_until,
                reason=answer.reason if answer.answer is Answer.EXEMPT else None,
                # `None` for a person whom the policy does not know: they may do as much as a link
                # that was sent to a mailing list.
                person=self.directory().person(identity),
            )
            decided = self.decide(answer.approval_id, decision)
        except NotFound:
            return "This question no longer exists."
        except DecisionRefused as error:
            return refused_text(error)
        return decided.confirmation(decision, view.episode, now)

    def _approval_to_hold(self, approval_id: str) -> str | None:
        """Return the same id if the plan of this approval can be held now; `None` if it cannot, or
        does not exist. Raises: CloudError."""
        try:
            return approval_id if self.show(approval_id).can_hold else None
        except NotFound:
            return None


def verify_slack_request(
    signing_secret: str, body: bytes, timestamp: str, signature: str, now: datetime
) -> None:
    """Refuse a request unless Slack signed this body, as received, within the last five minutes.

    `timestamp` and `signature` are the values of its headers, or empty (docs.slack.dev, "Verifying
    requests from Slack").

    Raises: CallbackRefused; ConfigurationError for a secret that is missing or too short.
    """
    if len(signing_secret) < _SHORTEST_SECRET_CHARACTERS:
        raise ConfigurationError(
            "the signing secret of Slack is missing or too short: store the app's"
        )
    if _EPOCH.fullmatch(timestamp) is None:
        raise CallbackRefused("the request has no time stamp of Slack")
    if abs(now.timestamp() - int(timestamp)) > _TOLERANCE.total_seconds():
        raise CallbackRefused("the request is older or newer than five minutes")
    base = b"v0:" + timestamp.encode() + b":" + body
    wanted = "v0=" + hmac.new(signing_secret.encode(), base, hashlib.sha256).hexdigest()
    # Compared as bytes, because compare_digest refuses text that is not ASCII.
    if not hmac.compare_digest(wanted.encode(), signature.encode(errors="replace")):
        raise CallbackRefused("the request was not signed with this app's signing secret")


def parse_slack_answer(body: bytes) -> SlackAnswer | None:
    """Return the answer in the body of a verified request; `None` for a link button, which answers
    nothing.

    Raises: InputError for a body that is no form with JSON in its field `payload`, and for anything
    but the press of a button in one of our messages.
    """
    try:
        fields = parse_qs(
            body.decode("ascii"), strict_parsing=True, max_num_fields=5, errors="strict"
        )
        [text] = fields["payload"]
        payload = json.loads(text)
    except (ValueError, KeyError, RecursionError):
        raise InputError("the body is no form with one field of JSON, payload") from None
    match payload:
        case {"type": "block_actions", "actions": [{"action_id": slack_blocks.OPEN_ACTION}]}:
            return None
        case {
            "type": "block_actions",
            "actions": [{"action_id": str(button), "value": str(value)}],
            "user": {"id": str(user_id)},
            "container": {"channel_id": str(channel_id), "message_ts": str(stamp)},
        }:
            value_match = _VALUE.fullmatch(value)
            if button in _ANSWERS and _USER.fullmatch(user_id) and value_match:
                return SlackAnswer(
                    approval_id=value_match["id"],
                    answer=_ANSWERS[button],
                    user_id=user_id,
                    thread=f"{channel_id}:{stamp}",
                    reason=_reason(payload.get("state")),
                    keep_until=_moment(value_match["until"]),
                )
    raise InputError("payload: not the press of a button that a message of ours has")


def _moment(epoch_seconds: str | None) -> UtcDatetime | None:
    """Return the time (UTC) of these epoch seconds; `None` for `None` or an empty text."""
    if not epoch_seconds:
        return None
    return datetime.fromtimestamp(int(epoch_seconds), tz=UTC)


def _reason(state: object) -> str | None:
    """Return the reason that was typed beside the buttons, in the `state` of Slack's payload, cut
    to 500 characters; `None` if nothing was typed."""
    match state:
        case {
            "values": {
                slack_blocks.REASON_BLOCK: {slack_blocks.REASON_ACTION: {"value": str(text)}}
            }
        }:
            return text.strip()[:500] or None
    return None
