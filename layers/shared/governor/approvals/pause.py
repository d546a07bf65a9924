"""Begins and ends the pause of every stop, termination and deletion in every target.

People are notified of both. The order: the record first, with the message that is to be sent, and
the message then. A message that cannot be sent changes nothing of the pause; the next sweep sends
it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from governor.alerts.ports import Announcer
from governor.approvals.model.terms import Grant
from governor.approvals.rules.approval import has_controls
from governor.approvals.rules.pausing import may_end_pause, may_pause
from governor.core.errors import CloudError, ConflictError, DecisionRefused, InputError, NotAllowed
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.limits.messages import pause_alert
from governor.limits.model.pause import Pause, PauseEvent, PauseMessage
from governor.limits.store.pauses import MESSAGES_KEPT, Pauses
from governor.policy.model.policy import Policy
from governor.table.once import Once

_log = logging.getLogger(__name__)
LONGEST_REASON = 300
_ATTEMPTS = 5
_SENT_FOR = MESSAGES_KEPT + timedelta(days=1)
"""Longer than a message is tried again, or it would be sent twice."""
_NOT_BEGUN = "nothing is paused: other pauses began and ended at the same moment. Pause again"
_WHO_MAY_PAUSE = (
    "only a person of ownership.contacts, or an admin of console.scopes, may pause "
    "everything: have your identity added to the policy"
)
_WHO_MAY_END = (
    "only an admin of everything may end the pause (console.scopes with role: admin and "
    "everything: true), or a person of ownership.contacts where the policy names no such admin"
)
_POLICY_REFUSED = (
    "the policy in force is refused, so GPU Governor does not know who may end the pause. Find the "
    "mistakes with `governor policy get` and `governor policy check`, store a corrected version "
    "with `governor policy put`, then end the pause"
)
_GONE = (
    "the pause that you saw has ended, and somebody may have paused again: look "
    "again before you end it"
)


class PauseRequester(NamedTuple):
    """Somebody who wants to pause, or to end a pause, and whom their sign-in or AWS has proven."""

    by: str
    person: str
    """The address of the contact, else the identity."""
    grants: Collection[Grant]


@dataclass(frozen=True, slots=True)
class PauseAll:
    """Begins and ends the pause of everything."""

    pause_store: Pauses
    clock: Clock
    announcer: Announcer
    hub: Target

    def begin(self, requester: PauseRequester, reason: str | None, policy: Policy) -> Pause:
        """Pause everything, notify people, and return the pause that stands now, which somebody
        else may have begun before.

        Raises: NotAllowed; InputError for a reason that is too long or has control characters;
        DecisionRefused if others kept pausing and ending their pauses; CloudError.
        """
        if not may_pause(requester.grants, requester.person, policy):
            raise NotAllowed(_WHO_MAY_PAUSE)
        checked = checked_reason(reason)
        for _ in range(_ATTEMPTS):
            pause = Pause(self.clock.now(), requester.by, checked)
            if self.pause_store.begin_pause(pause):
                self._announce(PauseMessage(PauseEvent.BEGUN, pause, requester.by, pause.at))
                return pause
            standing = self.pause_store.pause()
            if standing is not None:
                return standing
        raise DecisionRefused(_NOT_BEGUN)

    def end(
        self,
        requester: PauseRequester,
        since: UtcDatetime,
        policy: Policy,
        *,
        policy_is_whole: bool,
    ) -> Pause:
        """End the pause that began at `since`, notify people, and return that pause.

        `policy_is_whole` is false if the policy document is refused and only its people are known.
        Raises: NotAllowed; DecisionRefused if nothing is paused, or another pause stands;
        CloudError.
        """
        if not may_end_pause(
            requester.grants, requester.person, policy, policy_is_whole=policy_is_whole
        ):
            raise NotAllowed(_WHO_MAY_END if policy_is_whole else _POLICY_REFUSED)
        pause = self.pause_store.pause()
        if pause is None or pause.at != since:
            raise DecisionRefused(_GONE)
        now = self.clock.now()
        try:
            self.pause_store.end_pause(pause, requester.by, now)
        except ConflictError:
            raise DecisionRefused(_GONE) from None
        self._announce(PauseMessage(PauseEvent.ENDED, pause, requester.by, now))
        return pause

    def _announce(self, message: PauseMessage) -> None:
        """Notify people of the pause or its end, and note that. A CloudError is only logged: the
        next sweep sends the message."""
        now = self.clock.now()
        try:
            self.announcer.announce(pause_alert(message, self.hub, now))
            self.pause_store.note_pause_message_sent(message, now)
        except CloudError:
            # The pause, or its end, counts all the same.
            _log.exception("the next sweep sends the message: %s", message.event)


@dataclass(frozen=True, slots=True)
class SendPauseMessages:
    """Sends the messages about pauses that the press itself could not send."""

    pause_store: Pauses
    clock: Clock
    announcer: Announcer
    hub: Target
    once: Once

    def __call__(self) -> None:
        """Send each message that no press has sent and whose time for that is over, once; nothing
        if there is none. Raises: CloudError; the next sweep sends the messages that are left."""
        messages = self.pause_store.unsent_pause_messages()
        if not messages:
            return
        standing = self.pause_store.pause()
        now = self.clock.now()
        for message in messages:
            if message.is_left_to_the_sweep(standing, now):
                alert = pause_alert(message, self.hub, now, standing)
                # `once` keeps the note that the message was sent: the role of the sweep may not
                # write beside the pause.
                self.once(alert.dedup_id, partial(self.announcer.announce, alert), keep=_SENT_FOR)


def checked_reason(reason: str | None) -> str | None:
    """Return the reason without outer spaces; `None` if there is none. Raises: InputError if it is
    too long, or has control characters."""
    text = (reason or "").strip()
    if len(text) > LONGEST_REASON:
        raise InputError(f"the reason is longer than {LONGEST_REASON} characters")
    if has_controls(text):
        raise InputError("the reason holds control characters: write it in plain text")
    return text or None
