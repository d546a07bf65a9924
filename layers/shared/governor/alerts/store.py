"""Stores messages on their way to people: deliveries, the outbox with its lease, digests, and the
numbers of recipients in links."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from governor.alerts.delivery import Delivery
from governor.table.table import Condition, Key, Store, Write, absent, delete, is_over, put, where

_DELIVERIES_KEPT = timedelta(days=90)
_OUTBOX_KEPT = timedelta(days=7)


class Deliveries(Store):
    """Every method may raise CloudError."""

    def deliveries(self, subject: str) -> list[Delivery]:
        """Return all records of messages about an episode, by its execution name, or of one message
        without an episode, by its id; empty if there are none. Raises: CloudError, also if one is
        damaged."""
        return self._table.read_all(Delivery, f"DELIVERIES#{subject}")

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """Claim the delivery until the claim's `not_before`, and return true: this caller must send
        the message.

        Return false, with nothing changed, if the message is settled (unless given up), if the
        channel asked for a later try, or if another caller's claim stands. Raises: CloudError.
        """
        # Times are stored as texts in UTC, which compare as times do. A settled delivery has no
        # `not_before`, so it is never due.
        is_due = where("not_before", "<=", now)
        is_free = absent() | where("given_up", "=", True) | is_due
        return self._table.try_transaction(_keeping(claim, is_free))

    def note_delivery(self, delivery: Delivery) -> None:
        """Store the record of a delivery in place of an earlier one of the same message, channel
        and target. Raises: CloudError."""
        self._table.write(_keeping(delivery))

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """Store a message until it is sent with others of its group, for seven days from `at`, the
        present time, at most. A repeated call replaces it. `message` is its id, `document` its JSON
        text. Raises: CloudError."""
        self._table.write(
            put((f"OUTBOX#{group}", message), {"document": document}, until=at + _OUTBOX_KEPT)
        )

    def outbox(self, group: str) -> list[tuple[str, str]]:
        """Return the id and the JSON text of each message of the group, in the order of their ids;
        empty if there are none. Raises: CloudError."""
        return [(item["sk"], item["document"]) for item in self._table.query(f"OUTBOX#{group}")]

    def drop_outbox(self, group: str, message: str) -> None:
        """Delete a message of the group from the outbox; a missing one is no error. Raises:
        CloudError."""
        self._table.write(delete((f"OUTBOX#{group}", message)))

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """Take the lease of this name for these seconds, and return true. Return false, with
        nothing changed, if somebody holds it. Raises: CloudError."""
        until = now + timedelta(seconds=seconds)
        return self._table.try_transaction(
            put((f"LEASE#{name}", "LEASE"), {}, is_over(now), until=until)
        )

    def end_lease(self, name: str) -> None:
        """Free the lease of this name, whoever holds it. Raises: CloudError."""
        self._table.write(delete((f"LEASE#{name}", "LEASE")))

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """Store the ids of the questions in a digest, for 90 days. Raises: CloudError."""
        document = {"approval_ids": list(approval_ids)}
        until = at + _DELIVERIES_KEPT
        self._table.write(put((f"DIGEST#{digest_id}", "DIGEST"), document, until=until))

    def digest(self, digest_id: str) -> tuple[str, ...]:
        """Return the ids of the questions in a digest; an empty tuple if it is not known. Raises:
        CloudError."""
        item = self._table.get((f"DIGEST#{digest_id}", "DIGEST"))
        if item:
            return tuple(item["approval_ids"])
        return ()

    def numbers(self, page_id: str) -> dict[str, int]:
        """Return the number of each recipient of links to this page, by the recipient; empty if
        there are none. Raises: CloudError."""
        items = self._table.query(f"LINK#{page_id}")
        return {item["recipient"]: int(item["sk"]) for item in items}

    def number_recipient(self, page_id: str, recipient: str, at: datetime) -> int:
        """Return the number of a recipient of links to this page. A new recipient gets and stores
        the next number, which no other recipient of the page ever has. Raises: CloudError."""
        numbers = self.numbers(page_id)
        while recipient not in numbers:
            next_number = max(numbers.values(), default=0) + 1
            key = (f"LINK#{page_id}", str(next_number))
            # Another caller may take this number first; then the next one is tried.
            self._table.try_transaction(
                put(key, {"recipient": recipient}, absent(), until=at + _DELIVERIES_KEPT)
            )
            numbers = self.numbers(page_id)
        return numbers[recipient]


def _keeping(delivery: Delivery, condition: Condition | None = None) -> Write:
    """Return the write that stores the record of a delivery under this condition. It replaces an
    earlier record of the same message, channel and target."""
    # A target may be an address. Its hash is short enough for the key, and so the address is stored
    # only once, in the record.
    target = hashlib.sha256(delivery.target.encode()).hexdigest()[:16]
    key: Key = (f"DELIVERIES#{delivery.subject}", f"{delivery.message}#{delivery.channel}#{target}")
    return put(key, delivery, condition, until=delivery.at + _DELIVERIES_KEPT)
