"""Messages on their way to people: deliveries, the outbox with its lease, and digests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from governor.adapters.table.client import Document, Key, Store, absent, delete, epoch, is_text, put, where
from governor.adapters.table.codec import moment, read_item, written
from governor.domain.alerts.delivery import Delivery

_DELIVERIES_KEPT = timedelta(days=90)
_OUTBOX_KEPT = timedelta(days=7)


class DeliveryStore(Store):
    """The port `Deliveries`."""

    def deliveries(self, subject: str) -> list[Delivery]:
        return [read_item(Delivery, item) for item in self._table.query(f"DELIVERIES#{subject}")]

    def claim_delivery(self, claim: Delivery, now: datetime) -> bool:
        # Text in UTC compares like the times; a settled delivery has none.
        is_due = is_text("not_before") & where("not_before", "<=", moment(now))
        is_free = absent() | where("given_up", "=", True) | is_due
        return self._table.wins(put(_key(claim), _document(claim), is_free))

    def note_delivery(self, delivery: Delivery) -> None:
        self._table.write(put(_key(delivery), _document(delivery)))

    def put_outbox(self, group: str, message: str, document: str, at: datetime) -> None:
        waiting = {"document": document, "expires_at_epoch": epoch(at + _OUTBOX_KEPT)}
        self._table.write(put((f"OUTBOX#{group}", message), waiting))

    def outbox(self, group: str) -> list[tuple[str, str]]:
        return [(item["sk"], item["document"]) for item in self._table.query(f"OUTBOX#{group}")]

    def drop_outbox(self, group: str, message: str) -> None:
        self._table.write(delete((f"OUTBOX#{group}", message)))

    def take_lease(self, name: str, now: datetime, seconds: int) -> bool:
        document = {"expires_at_epoch": epoch(now + timedelta(seconds=seconds))}
        is_free = absent() | where("expires_at_epoch", "<=", epoch(now))
        return self._table.wins(put((f"LEASE#{name}", "LEASE"), document, is_free))

    def end_lease(self, name: str) -> None:
        self._table.write(delete((f"LEASE#{name}", "LEASE")))

    def put_digest(self, digest_id: str, approval_ids: Sequence[str], at: datetime) -> None:
        document = {"approval_ids": list(approval_ids), "expires_at_epoch": epoch(at + _DELIVERIES_KEPT)}
        self._table.write(put((f"DIGEST#{digest_id}", "DIGEST"), document))

    def digest(self, digest_id: str) -> tuple[str, ...]:
        item = self._table.get((f"DIGEST#{digest_id}", "DIGEST"))
        return tuple(item["approval_ids"]) if item else ()


def _key(delivery: Delivery) -> Key:
    # A target may be an address: hashed, so that it fits the key and stands in one place only.
    target = hashlib.sha256(delivery.target.encode()).hexdigest()[:16]
    return f"DELIVERIES#{delivery.subject}", f"{delivery.message}#{delivery.channel}#{target}"


def _document(delivery: Delivery) -> Document:
    return {**written(delivery), "expires_at_epoch": epoch(delivery.at + _DELIVERIES_KEPT)}
