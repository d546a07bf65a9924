"""Notifies owners of Capacity Reservations and Capacity Blocks that stand empty. This module must
not change them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from governor.alerts.model import Alert
from governor.alerts.ports import Announcer
from governor.core.catalog import list_price
from governor.core.errors import AccessDenied
from governor.core.instance import Reservation, Target
from governor.core.units import UtcDatetime, iso, parse_iso
from governor.evidence.ports import InstanceReader
from governor.health.messages import empty_alert
from governor.health.store import Findings
from governor.policy.model.policy import Policy
from governor.policy.rules.owners import owner_of

_log = logging.getLogger(__name__)
_SINCE = "empty-since"
_SENT = "empty"
"""The kinds of keys that are stored for a reservation: since when it is empty, and that a message
was sent."""


@dataclass(frozen=True, slots=True)
class NotifyEmptyReservations:
    """Notifies owners of reservations that had unused capacity at every check for long enough."""

    instances: InstanceReader
    finding_store: Findings
    announcer: Announcer

    def __call__(
        self, target: Target, policy: Policy, known_keys: Collection[str], now: UtcDatetime
    ) -> int:
        """Notify the owner of each reservation of the target that has had unused capacity for long
        enough, and return the number of messages sent. Store since when each one has some, and
        forget that of a reservation in full use. `known_keys` are the stored keys of the target.

        Return 0 also if the role may not read reservations. Raises: CloudError; messages before the
        failure were sent.
        """
        try:
            reservations = self.instances.reservations(target)
        except AccessDenied as error:
            # The member stack is of an earlier release, whose role may not read reservations.
            _log.warning("Capacity Reservations in %s are not looked at: %s", target, error)
            return 0
        message_count = 0
        empty_since = _empty_since(known_keys)
        for reservation in reservations:
            since = empty_since.get(reservation.reservation_id)
            if not reservation.available:
                self._forget(reservation, since, now)
                continue
            first_seen_at = now if since is None else since
            self._remember(reservation, first_seen_at, policy, now)
            if _is_due(reservation, first_seen_at, policy, known_keys, now):
                self._notify(reservation, first_seen_at, policy, now)
                message_count += 1
        return message_count

    def _forget(
        self, reservation: Reservation, since: UtcDatetime | None, now: UtcDatetime
    ) -> None:
        """Let the time since which the reservation had unused capacity count no longer; do nothing
        if `since` is `None`, as no time is known. Raises: CloudError."""
        if since is not None:
            self.finding_store.note_known(reservation.target, [_since_key(reservation, since)], now)

    def _remember(
        self, reservation: Reservation, since: UtcDatetime, policy: Policy, now: UtcDatetime
    ) -> None:
        """Store since when the reservation has unused capacity, for so long that a missed check
        does not start the time again. Raises: CloudError."""
        known_until = now + 3 * policy.health.check_every
        since_key = _since_key(reservation, since)
        self.finding_store.note_known(reservation.target, [since_key], known_until)

    def _notify(
        self, reservation: Reservation, since: UtcDatetime, policy: Policy, now: UtcDatetime
    ) -> None:
        """Notify the owner, and store until when no other message is sent. Raises: CloudError; if
        only the store failed, the next check sends the message again."""
        self.announcer.announce(_alert(reservation, since, policy, now))
        next_due = now + timedelta(hours=policy.health.advice_every_hours)
        self.finding_store.note_known(reservation.target, [_sent_key(reservation)], next_due)


def _since_key(reservation: Reservation, since: UtcDatetime) -> str:
    """Return the key that stores since when a reservation has unused capacity, such as
    `empty-since#cr-0abc#2026-12-04T12:00:00Z`."""
    return f"{_SINCE}#{reservation.reservation_id}#{iso(since)}"


def _sent_key(reservation: Reservation) -> str:
    """Return the key that is known while no other message about the reservation is sent, such as
    `empty#cr-0abc`."""
    return f"{_SENT}#{reservation.reservation_id}"


def _is_due(
    reservation: Reservation,
    since: UtcDatetime,
    policy: Policy,
    known_keys: Collection[str],
    now: UtcDatetime,
) -> bool:
    """Return whether the owner of a reservation with unused capacity `since` then is notified now:
    that is long enough ago, and the last message, too."""
    is_young = now - since < timedelta(hours=policy.advice.empty_reservation_after_hours)
    return not is_young and _sent_key(reservation) not in known_keys


def _empty_since(known_keys: Collection[str]) -> dict[str, UtcDatetime]:
    """Return since when reservations are known to have unused capacity, by id, from keys such as
    `empty-since#cr-0abc#2026-12-04T12:00:00Z`; an empty mapping if there is no such key."""
    empty_since = {}
    for key in known_keys:
        kind, _, rest = key.partition("#")
        if kind == _SINCE:
            reservation_id, _, since = rest.partition("#")
            empty_since[reservation_id] = parse_iso(since)
    return empty_since


def _alert(reservation: Reservation, since: UtcDatetime, policy: Policy, now: UtcDatetime) -> Alert:
    """Return the message to the owner of a reservation about its unused capacity. The price of an
    instance is the policy's, else the list price; without either it names none."""
    instance_type = reservation.instance_type
    price = policy.prices.usd_per_hour.get(instance_type, list_price(instance_type))
    owner = owner_of(reservation.as_instance, policy.ownership)
    return empty_alert(reservation, since, price, owner, now)
