"""Notifies of Capacity Reservations and Capacity Blocks that stand empty. This module must not
change them."""

from __future__ import annotations

import logging
from collections.abc import Collection
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


def notify_empty(
    instances: InstanceReader,
    finding_store: Findings,
    announcer: Announcer,
    target: Target,
    policy: Policy,
    known: Collection[str],
    now: UtcDatetime,
) -> int:
    """Notify owners of reservations with unused capacity, and return the number of messages sent.

    A reservation counts once it had unused capacity at every check for as long as the policy says;
    its owner is then notified as often as of advice. `known` are the stored keys of the target.
    Return 0 also if the role may not read reservations. Raises: CloudError.
    """
    try:
        reservations = instances.reservations(target)
    except AccessDenied as error:
        # The member stack is of an earlier release, whose role may not read reservations.
        _log.warning("Capacity Reservations in %s are not looked at: %s", target, error)
        return 0
    empty_since = _empty_since(known)
    # Long enough that a missed check does not start the time again.
    known_until = now + 3 * policy.health.check_every
    message_count = 0
    for reservation in reservations:
        reservation_id = reservation.reservation_id
        since = empty_since.get(reservation_id, now)
        since_key = f"{_SINCE}#{reservation_id}#{iso(since)}"
        if not reservation.available:
            if reservation_id in empty_since:
                # It is used again: the time counts no longer.
                finding_store.note_known(target, [since_key], now)
            continue
        finding_store.note_known(target, [since_key], known_until)
        is_young = now - since < timedelta(hours=policy.advice.empty_reservation_after_hours)
        sent_key = f"{_SENT}#{reservation_id}"
        if is_young or sent_key in known:
            continue
        announcer.announce(_alert(reservation, since, policy, now))
        message_count += 1
        next_due = now + timedelta(hours=policy.health.advice_every_hours)
        finding_store.note_known(target, [sent_key], next_due)
    return message_count


def _empty_since(known: Collection[str]) -> dict[str, UtcDatetime]:
    """Return since when reservations are known to have unused capacity, by id, from keys such as
    `empty-since#cr-0abc#2026-12-04T12:00:00Z`; an empty mapping if there is no such key."""
    empty_since = {}
    for key in known:
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
