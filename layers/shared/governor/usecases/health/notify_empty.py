"""Notifies of Capacity Reservations and Capacity Blocks that stand empty; nothing is ever done
about them."""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import timedelta

from governor.domain.alerts.alert import owner_of
from governor.domain.catalogue import list_price
from governor.domain.health.health_messages import empty_alert
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, iso, parse_iso
from governor.errors import AccessDenied
from governor.ports import Announcer, InstanceReader
from governor.stores import EventLog

_log = logging.getLogger(__name__)
_SINCE, _SENT = "empty-since", "empty"
"""Kinds of what the log keeps of a reservation."""


def notify_empty(
    instances: InstanceReader,
    log: EventLog,
    announcer: Announcer,
    target: Target,
    policy: Policy,
    known: Collection[str],
    now: UtcDatetime,
) -> int:
    """Return how many messages were sent: one for each that was empty at every look for as long as
    the policy says, and again as often as advice. Raises: CloudError."""
    try:
        held = instances.reservations(target)
    except AccessDenied as error:
        # The member stack is of an earlier release.
        _log.warning("Capacity Reservations in %s are not looked at: %s", target, error)
        return 0
    before = {}
    for key in known:
        kind, _, rest = key.partition("#")
        if kind == _SINCE:
            reservation_id, _, at = rest.partition("#")
            before[reservation_id] = parse_iso(at)
    # A look that was missed does not begin it anew.
    gone = now + 3 * policy.health.check_every
    sent = 0
    for one in held:
        name = one.reservation_id
        since = before.get(name, now)
        mark = f"{_SINCE}#{name}#{iso(since)}"
        if not one.available:
            if name in before:
                log.keep_told(target, [mark], now)
            continue
        log.keep_told(target, [mark], gone)
        is_young = now - since < timedelta(hours=policy.advice.empty_reservation_after_hours)
        if is_young or f"{_SENT}#{name}" in known:
            continue
        price = policy.prices.usd_per_hour.get(one.instance_type, list_price(one.instance_type))
        announcer.announce(
            empty_alert(one, since, price, owner_of(one.like, policy.ownership), now)
        )
        sent += 1
        log.keep_told(
            target, [f"{_SENT}#{name}"], now + timedelta(hours=policy.health.advice_every_hours)
        )
    return sent
