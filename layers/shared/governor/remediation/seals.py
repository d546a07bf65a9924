"""Checks the seals that a step rests on, before each stop and each termination.

Many roles write the table, but only the function of each duty can make its seals. So a record that
another role wrote is found here. This module must not make a seal.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from governor.alerts.delivery import Delivery
from governor.alerts.store import Deliveries
from governor.approvals.model.approval import Approval, ApprovalStatus
from governor.approvals.rules.sealing import (
    ASKED_BEFORE,
    EXPIRY_NOTE,
    OPENING_RECORD,
    Duty,
    answer_of,
    answer_text,
    counted_messages,
    counts_for_silence,
    delivery_text,
    expiry_text,
    given_yeses,
    is_opening_sealed,
    opening_text,
    signature_of,
    unsealed_text,
)
from governor.core.errors import SafetyError, Unsealed
from governor.episode.model.episode import Episode
from governor.episode.model.plan import Step


class SealCheck(Protocol):
    """Checks the signatures of seals, by the key of each duty. It makes none."""

    def __call__(self, duty: Duty, text: bytes, signature: str) -> bool:
        """Return whether the function of this duty has signed the text. Raises: CloudError."""


_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CheckSeals:
    """Checks the seals that a step rests on. Snapshots of a stopped instance need none."""

    delivery_store: Deliveries
    seal_check: SealCheck

    def must_be_sealed(self, episode: Episode, approval: Approval | None, step: Step) -> None:
        """Require the seal of the opening, and that of each yes or of the expiry. Require none if
        the step only copies what the episode has stopped.

        `approval` is the question of the episode; `None` if nobody is asked. Raises: Unsealed if a
        seal is missing; SafetyError if one does not fit; CloudError if KMS could not check it.
        """
        if only_copies_what_is_stopped(episode, step):
            return
        if not is_opening_sealed(episode):
            raise Unsealed(ASKED_BEFORE)
        self._must_fit(Duty.OPENING, opening_text(episode), episode.opening_seal, OPENING_RECORD)
        if approval is None:
            return
        if approval.status is ApprovalStatus.EXPIRED:
            self._expiry_must_be_sealed(episode, approval)
        else:
            self._answers_must_be_sealed(episode, approval)

    def deliveries(self, episode: Episode, step: Step) -> Sequence[Delivery]:
        """Return the deliveries that count: of each message that starts somebody's time to answer,
        the first delivery with a seal that fits.

        Return an empty list if there is none. For a step that needs no seals, return every stored
        delivery. Raises: CloudError.
        """
        stored = self.delivery_store.deliveries(episode.ref.execution_name)
        if only_copies_what_is_stopped(episode, step):
            return stored
        counted = []
        for message in counted_messages(episode.ref):
            of_message = [delivery for delivery in stored if delivery.message == message]
            first = self._first_sealed(of_message)
            if first is not None:
                counted.append(first)
        return counted

    def _first_sealed(self, deliveries: Sequence[Delivery]) -> Delivery | None:
        """Return the earliest of these deliveries that reached people and has a seal that fits;
        `None` if there is none. A seal that does not fit is logged. Raises: CloudError."""
        for delivery in sorted(deliveries, key=lambda delivery: delivery.at):
            signature = signature_of(delivery.seal)
            if signature is None or not counts_for_silence(delivery):
                continue
            if self.seal_check(Duty.DELIVERY, delivery_text(delivery), signature):
                return delivery
            _log.error("the seal of a delivery of %s does not fit", delivery.message)
        return None

    def _answers_must_be_sealed(self, episode: Episode, approval: Approval) -> None:
        """Require the seal of every yes that the approval rests on; with no yes, require nothing.

        Raises: Unsealed if a seal is missing; SafetyError if one does not fit; CloudError.
        """
        for decision in given_yeses(approval):
            text = answer_text(episode, decision)
            self._must_fit(Duty.ANSWER, text, decision.seal, answer_of(decision))

    def _expiry_must_be_sealed(self, episode: Episode, approval: Approval) -> None:
        """Require the seal of the note that nobody answered.

        Raises: Unsealed if the note or its seal is missing; SafetyError if the seal does not fit;
        CloudError.
        """
        if approval.expired_at is None:
            raise Unsealed(unsealed_text(EXPIRY_NOTE))
        text = expiry_text(episode, approval.expires_at, approval.expired_at)
        self._must_fit(Duty.EXPIRY, text, approval.expiry_seal, EXPIRY_NOTE)

    def _must_fit(self, duty: Duty, text: bytes, seal: str | None, what: str) -> None:
        """Require that the function of this duty made `seal` over `text`. `what` names the record
        in the reason, as `the answer of alice@example.com`.

        Raises: Unsealed if there is no seal of this version; SafetyError if it does not fit;
        CloudError.
        """
        signature = signature_of(seal)
        if signature is None:
            raise Unsealed(unsealed_text(what))
        if not self.seal_check(duty, text, signature):
            raise SafetyError(
                f"the seal of {what} does not fit: it was written or changed outside GPU Governor"
            )


def only_copies_what_is_stopped(episode: Episode, step: Step) -> bool:
    """Return whether the step only makes snapshots of an instance that the episode has stopped
    already. This needs no approval, and so no seals."""
    return step is Step.SNAPSHOT and Step.STOP in episode.progress.steps_done
