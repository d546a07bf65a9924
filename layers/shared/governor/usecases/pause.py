"""Pauses every stop, termination and deletion in every target, and ends the pause.

People are notified of both. The order: the record first, the message then. A message that cannot
be sent changes nothing of the pause.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from governor.domain.approvals.approval import has_controls
from governor.domain.approvals.pausing import may_end_pause, may_pause
from governor.domain.approvals.terms import Grant
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.sweep.messages import pause_alert
from governor.domain.sweep.pause import Pause
from governor.domain.units import UtcDatetime
from governor.errors import CloudError, ConflictError, DecisionRefused, InputError, NotAllowed
from governor.ports import Announcer, Clock
from governor.stores import StateTable

_log = logging.getLogger(__name__)
LONGEST_REASON = 300
_ATTEMPTS = 5
_NOT_BEGUN = "nothing is paused: other pauses began and ended at the same moment. Pause again"
_WHO_MAY_PAUSE = (
    "only a person of ownership.contacts, or an admin of console.scopes, may pause "
    "everything: have your "
    "identity added to the policy"
)
_WHO_MAY_END = (
    "only an admin of everything may end the pause (console.scopes with role: admin and "
    "everything: true), "
    "or a person of ownership.contacts where the policy names no such admin"
)
_POLICY_REFUSED = (
    "the policy in force is refused, so it cannot be read who may end the pause, and the "
    "pause stays: see "
    "what is wrong with `governor policy get` and `governor policy check`, store a "
    "corrected version with "
    "`governor policy put`, and end the pause then"
)
_GONE = (
    "the pause that you saw has ended, and somebody may have paused again: look "
    "again before you end it"
)


class Presser(NamedTuple):
    """Somebody who wants to pause, or to end a pause, and whom their sign-in or AWS has proven."""

    by: str
    person: str
    """The address of the contact, else the identity."""
    grants: Collection[Grant]


@dataclass(frozen=True, slots=True)
class PauseAll:
    state: StateTable
    clock: Clock
    announcer: Announcer
    hub: Target

    def begin(self, presser: Presser, reason: str | None, policy: Policy) -> Pause:
        """Pause everything, and return the pause that stands: it may be one of somebody else.

        Raises: NotAllowed; InputError for a reason that cannot be kept; DecisionRefused where
        others kept pausing and ending their pauses; CloudError.
        """
        if not may_pause(presser.grants, presser.person, policy):
            raise NotAllowed(_WHO_MAY_PAUSE)
        checked = checked_reason(reason)
        for _ in range(_ATTEMPTS):
            pause = Pause(self.clock.now(), presser.by, checked)
            if self.state.begin_pause(pause):
                self._announce("paused", pause, presser.by)
                return pause
            standing = self.state.pause()
            if standing is not None:
                return standing
        raise DecisionRefused(_NOT_BEGUN)

    def end(
        self, presser: Presser, since: UtcDatetime, policy: Policy, *, policy_is_whole: bool
    ) -> Pause:
        """End the pause that began at this time, and return it.

        `policy_is_whole` is false where the document is refused and only its people are known.

        Raises: NotAllowed; DecisionRefused where none stands, or another one; CloudError.
        """
        if not may_end_pause(
            presser.grants, presser.person, policy, policy_is_whole=policy_is_whole
        ):
            raise NotAllowed(_WHO_MAY_END if policy_is_whole else _POLICY_REFUSED)
        pause = self.state.pause()
        if pause is None or pause.at != since:
            raise DecisionRefused(_GONE)
        try:
            self.state.end_pause(pause, presser.by, self.clock.now())
        except ConflictError:
            raise DecisionRefused(_GONE) from None
        self._announce("pause ended", pause, presser.by)
        return pause

    def _announce(self, template: str, pause: Pause, by: str) -> None:
        try:
            self.announcer.announce(pause_alert(template, self.hub, pause, by, self.clock.now()))
        except CloudError:
            # It counts all the same: each sweep shows it, and the audit has it.
            _log.exception("nobody could be notified: %s", template)


def checked_reason(reason: str | None) -> str | None:
    """Return the reason without outer spaces; `None` for none. Raises: InputError."""
    text = (reason or "").strip()
    if len(text) > LONGEST_REASON:
        raise InputError(f"the reason is longer than {LONGEST_REASON} characters")
    if has_controls(text):
        raise InputError("the reason holds control characters: write it in plain text")
    return text or None
