"""Messages on their way to people: deliveries, the outbox with its lease, and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from governor.domain.alerts.alert import Delivery
from governor.stores.table import Condition, Key, Store, Write, absent, delete, is_over, put, where

_DELIVERIES_KEPT = timedelta(days=90)
_OUTBOX_KEPT = timedelta(days=7)


class Deliveries(Store):
    def deliveries(self, subject: str) -> list[Delivery]:
        return self._table.read_all(Delivery, f"DELIVERIES#{subject}")

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        """Keep the claim, good until its `not_before`; true when this caller shall send the
        message. False when it is settled (unless given up), the channel wants it later, or another
        caller's claim holds."""
        # Text in UTC compares like the times; a settled delivery has none, which compares with
        # nothing.
        is_due = where("not_before", "<=", now)
        return self._table.wins(_keeping(claim, absent() | where("given_up", "=", True) | is_due))

    def note_delivery(self, delivery: Delivery) -> None:
        """Keep it, in place of an earlier record of the same message, channel and target."""
        self._table.write(_keeping(delivery))

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        """Keep a message until it is sent with others of its group; once, however often it is
        put."""
        self._table.write(
            put((f"OUTBOX#{group}", message), {"document": document}, until=at + _OUTBOX_KEPT)
        )

    def outbox(self, group: str) -> list[tuple[str, str]]:
        return [(item["sk"], item["document"]) for item in self._table.query(f"OUTBOX#{group}")]

    def drop_outbox(self, group: str, message: str) -> None:
        self._table.write(delete((f"OUTBOX#{group}", message)))

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        """Return whether nobody else holds the lease; it ends by itself after so many seconds."""
        until = now + timedelta(seconds=seconds)
        return self._table.wins(put((f"LEASE#{name}", "LEASE"), {}, is_over(now), until=until))

    def end_lease(self, name: str) -> None:
        self._table.write(delete((f"LEASE#{name}", "LEASE")))

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        """Keep which questions a digest is about (90 days)."""
        document, until = {"approval_ids": list(approval_ids)}, at + _DELIVERIES_KEPT
        self._table.write(put((f"DIGEST#{digest_id}", "DIGEST"), document, until=until))

    def digest(self, digest_id: str) -> tuple[str, ...]:
        item = self._table.get((f"DIGEST#{digest_id}", "DIGEST"))
        return tuple(item["approval_ids"]) if item else ()

    def numbers(self, page_id: str) -> dict[str, int]:
        """Return the recipients of links to this page with the numbers by which those name them."""
        return {item["recipient"]: int(item["sk"]) for item in self._table.query(f"LINK#{page_id}")}

    def number_recipient(self, page_id: str, recipient: str, at: datetime) -> int:
        """Return the number of a recipient, once given: nobody else ever gets it."""
        while recipient not in (known := self.numbers(page_id)):
            key = f"LINK#{page_id}", str(max(known.values(), default=0) + 1)
            self._table.wins(
                put(key, {"recipient": recipient}, absent(), until=at + _DELIVERIES_KEPT)
            )
        return known[recipient]


def _keeping(delivery: Delivery, condition: Condition | None = None) -> Write:
    # A target may be an address: hashed, so that it fits the key and stands in one place only.
    target = hashlib.sha256(delivery.target.encode()).hexdigest()[:16]
    key: Key = (f"DELIVERIES#{delivery.subject}", f"{delivery.message}#{delivery.channel}#{target}")
    return put(key, delivery, condition, until=delivery.at + _DELIVERIES_KEPT)
