"""Messages on their way to people: deliveries, the outbox with its lease, digests, and the numbers
of recipients in links."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from governor.alerts.model import Delivery
from governor.table.table import Condition, Key, Store, Write, absent, delete, is_over, put, where

_DELIVERIES_KEPT = timedelta(days=90)
_OUTBOX_KEPT = timedelta(days=7)


class Deliveries(Store):
    def deliveries(self, subject: str) -> list[Delivery]:
        return self._table.read_all(Delivery, f"DELIVERIES#{subject}")

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """Keep the claim until its `not_before`, and return whether this caller shall send the
        message.

        It shall not if the message is settled (unless given up), if the channel wants it later, or
        if another caller's claim stands.
        """
        # Texts in UTC compare as their times do. A settled delivery has no time, so it never fits.
        is_due = where("not_before", "<=", now)
        is_free = absent() | where("given_up", "=", True) | is_due
        return self._table.wins(_keeping(claim, is_free))

    def note_delivery(self, delivery: Delivery) -> None:
        """Replace an earlier record of the same message, channel and target, if there is one."""
        self._table.write(_keeping(delivery))

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """Keep a message until it is sent with others of its group. It is kept once, however often
        this is called."""
        self._table.write(
            put((f"OUTBOX#{group}", message), {"document": document}, until=at + _OUTBOX_KEPT)
        )

    def outbox(self, group: str) -> list[tuple[str, str]]:
        """Return each message of the group and its document, in order."""
        return [(item["sk"], item["document"]) for item in self._table.query(f"OUTBOX#{group}")]

    def drop_outbox(self, group: str, message: str) -> None:
        self._table.write(delete((f"OUTBOX#{group}", message)))

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """Take the lease for so many seconds; return false if another caller holds it."""
        until = now + timedelta(seconds=seconds)
        return self._table.wins(put((f"LEASE#{name}", "LEASE"), {}, is_over(now), until=until))

    def end_lease(self, name: str) -> None:
        self._table.write(delete((f"LEASE#{name}", "LEASE")))

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """Keep for 90 days which questions a digest is about."""
        document = {"approval_ids": list(approval_ids)}
        until = at + _DELIVERIES_KEPT
        self._table.write(put((f"DIGEST#{digest_id}", "DIGEST"), document, until=until))

    def digest(self, digest_id: str) -> tuple[str, ...]:
        """Return the questions of a digest; an empty tuple if it is not known."""
        item = self._table.get((f"DIGEST#{digest_id}", "DIGEST"))
        if item:
            return tuple(item["approval_ids"])
        return ()

    def numbers(self, page_id: str) -> dict[str, int]:
        """Return the number of each recipient of links to this page."""
        items = self._table.query(f"LINK#{page_id}")
        return {item["recipient"]: int(item["sk"]) for item in items}

    def number_recipient(self, page_id: str, recipient: str, at: datetime) -> int:
        """Return the number of a recipient, which nobody else ever gets. A new recipient is given
        the next one."""
        numbers = self.numbers(page_id)
        while recipient not in numbers:
            next_number = max(numbers.values(), default=0) + 1
            key = (f"LINK#{page_id}", str(next_number))
            # Another caller may take this number first; then the next one is tried.
            self._table.wins(
                put(key, {"recipient": recipient}, absent(), until=at + _DELIVERIES_KEPT)
            )
            numbers = self.numbers(page_id)
        return numbers[recipient]


def _keeping(delivery: Delivery, condition: Condition | None = None) -> Write:
    # A target may be an address: its hash fits the key, and the address stands in one place only.
    target = hashlib.sha256(delivery.target.encode()).hexdigest()[:16]
    key: Key = (f"DELIVERIES#{delivery.subject}", f"{delivery.message}#{delivery.channel}#{target}")
    return put(key, delivery, condition, until=delivery.at + _DELIVERIES_KEPT)
