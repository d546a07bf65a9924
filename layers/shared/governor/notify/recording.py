"""Records what became of deliveries: settled, left to be tried again, or given up into the
dead-letter queue.

A delivery is claimed before it is sent, and settled by the same record. This module sends nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from governor.alerts.delivery import NOWHERE, Delivery
from governor.alerts.model import ENDS_FOR_MACHINES, Alert
from governor.alerts.store import Deliveries
from governor.alerts.templates import template_lines
from governor.approvals.rules.sealing import SealMaker, counts_for_silence, delivery_text, sealed
from governor.core.errors import CloudError
from governor.core.ports import Clock
from governor.notify import compose
from governor.notify.dispatched import Item, nowhere_state
from governor.notify.registry import Route

_log = logging.getLogger(__name__)
CLAIM_SECONDS = 300
"""The time-out of the function: a worker that holds a claim for longer has died, sent or not."""
_NOTE_PAUSES_SECONDS = (1.0, 4.0)
"""Pauses before a failed write of a record is repeated."""

DeadLetter = Callable[[Alert, str], None]
"""Keeps an alert that was given up where a person sees it and can put it back. The text names the
channels that have not taken it, and their reasons. Raises: CloudError."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Records what became of deliveries, in the table and in their items."""

    clock: Clock
    delivery_store: Deliveries
    delivery_seal: SealMaker
    dead_letter: DeadLetter
    sleep: Callable[[float], None]

    def give_up(self, item: Item) -> None:
        """Put an alert into the dead-letter queue, once for all channels that did not take it, and
        settle these deliveries as given up. If that fails, no person could put it back: they are
        left instead. Call it only for an item with routes in `given_up`. It raises nothing."""
        reasons = "; ".join(why for _, why in item.given_up)
        try:
            self.dead_letter(item.sent, reasons)
        except CloudError:
            _log.exception("%s could not be put into the dead-letter queue", item.alert.dedup_id)
            for route, _ in item.given_up:
                self.leave(route, item, None)
        else:
            for route, why in item.given_up:
                self.settle(route, item, refused=f"given up: {why}", given_up=True)

    def settle(self, route: Route, item: Item, **outcome: Any) -> None:
        """Record how a delivery ended, by the fields `outcome` of `Delivery`, in the item and in
        the table. If the table cannot be written, the record waits in the item's `unnoted`."""
        delivery = self.record_of(route, item, **outcome)
        item.own[route.key] = delivery
        item.news.append(delivery)
        if not self._try_note(delivery):
            item.unnoted.append(delivery)

    def leave(
        self, route: Route, item: Item, wait_seconds: int | None, *, is_mine: bool = True
    ) -> None:
        """Leave a delivery to be tried again by any worker, after this wait (`None` for the queue's
        own pause). If it is `is_mine`, this worker has claimed it, and its claim ends then."""
        item.left.append(wait_seconds)
        if is_mine:
            later = self.clock.now() + timedelta(seconds=wait_seconds or 0)
            # If that fails, the claim lapses by itself.
            self._try_note(self.record_of(route, item, not_before=later))

    def repeat_failed_notes(self, items: Sequence[Item]) -> None:
        """Repeat the writes of records that failed, twice, with pauses.

        A delivery that is not on record even then is sent again when its claim lapses.
        """
        for pause in _NOTE_PAUSES_SECONDS:
            if any(item.unnoted for item in items):
                self.sleep(pause)
            for item in items:
                item.unnoted = [
                    delivery for delivery in item.unnoted if not self._try_note(delivery)
                ]
        for item in items:
            # Each of them is tried again when its claim has lapsed.
            item.left += [CLAIM_SECONDS] * len(item.unnoted)

    def note_nowhere(self, item: Item) -> None:
        """Record that no person gets the alert, if all its deliveries are settled and none reached
        people; else do nothing. Raises: CloudError."""
        settled = [delivery for delivery in item.own.values() if delivery.is_settled]
        reached_people = any(delivery.reached_people for delivery in settled)
        is_for_machines = item.alert.kind in ENDS_FOR_MACHINES
        if item.left or reached_people or is_for_machines:
            return
        message_id = item.alert.dedup_id
        refused = sum(not delivery.was_delivered for delivery in settled)
        values = {"state": nowhere_state(settled), "refused": refused}
        (why,) = template_lines("delivered to nobody", values)
        _log.warning("no person gets %s through a channel: %s", message_id, why)
        now = self.clock.now()
        subject = compose.subject_of(item.alert)
        nowhere = Delivery(
            subject=subject,
            message=message_id,
            channel=NOWHERE,
            target=NOWHERE,
            at=now,
            refused=why,
        )
        self.delivery_store.note_delivery(nowhere)

    def record_of(self, route: Route, item: Item, **outcome: Any) -> Delivery:
        """Return the record of a delivery now, with the fields `outcome` of `Delivery`. Nothing is
        written."""
        is_shared = item.has_own and not route.own
        channel, target = route.key
        return Delivery(
            subject=compose.subject_of(item.alert),
            message=item.alert.dedup_id,
            channel=channel,
            target=target,
            at=self.clock.now(),
            shared=True if is_shared else None,
            stated_until=item.stated_until,
            **outcome,
        )

    def _try_note(self, delivery: Delivery) -> bool:
        """Write the record of a delivery. Return false, and log it, if that fails."""
        try:
            self.delivery_store.note_delivery(self._sealed(delivery))
        except CloudError as error:
            _log.warning(
                "a record of %s by %s is left: %s", delivery.message, delivery.channel, error
            )
            return False
        return True

    def _sealed(self, delivery: Delivery) -> Delivery:
        """Return the delivery with a seal if the time to answer may count from it, else as it is.

        Raises: CloudError, if KMS made no seal.
        """
        if not counts_for_silence(delivery):
            return delivery
        return replace(delivery, seal=sealed(self.delivery_seal, delivery_text(delivery)))
