"""Delivers alerts through every channel they are for, once each, and records what is to be tried
again.

One alert goes: `_item` (is it still open?), `_routes` (to whom?), `_try` (claim, then send), and
`_settle` or `_leave` (the record). A fault of one channel never holds up another.
"""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from governor.alerts.model import (
    DIGEST_PREFIX,
    ENDS,
    ENDS_FOR_MACHINES,
    ESCALATED,
    NOWHERE,
    Alert,
    AlertKind,
    Delivery,
    incident_of,
)
from governor.alerts.store import Deliveries
from governor.alerts.templates import said
from governor.approvals.messages.failures import cause_of
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.approvals.rules.sealing import SealMaker, counts_for_silence, delivery_text, sealed
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_parts
from governor.episode.model.episode import Phase
from governor.episode.store.instances import Failures
from governor.notify import compose
from governor.notify.dispatched import (
    Dispatched,
    Item,
    counted,
    deadline_of,
    nowhere_state,
    thread_of,
)
from governor.notify.message import DeliveryRefused, DeliveryRetryable, Message
from governor.notify.registry import CHANNELS, Recipients, Registry, Route
from governor.notify.vouch import Vouch, Vouched
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Contact, addresses, list_addresses
from governor.policy.ports import Policies
from governor.sweep.store import Sweeps

_log = logging.getLogger(__name__)
TRIED_FOR = timedelta(days=1)
"""A delivery is given up this long after the alert was made."""
_CLAIM_SECONDS = 300
"""The time-out of the function: a worker that holds a claim for longer has died, sent or not."""
_NOTE_PAUSES_SECONDS = (1.0, 4.0)
"""Pauses before a failed write of a record is repeated."""
_FOLLOWS = ENDS | {AlertKind.APPROVAL_FIRST_YES, AlertKind.APPROVED_WAITS, AlertKind.UNDONE}
"""Kinds that go to earlier recipients of the episode too: people who were asked are notified of the
end."""
_KEEPING_INCIDENTS = frozenset(name for name, kind in CHANNELS.items() if kind.keeps_incidents)
_READ_BY_MACHINES = frozenset(name for name, kind in CHANNELS.items() if kind.is_read_by_machines)
_ONE_BY_ONE = {AlertKind.FAILURE: _READ_BY_MACHINES}
"""By kind, the channels that get each alert by itself; all others get failures of one cause as one
message. For other kinds these are `_KEEPING_INCIDENTS`."""

Park = Callable[[Alert, str], None]
"""Keeps an alert that was given up where a person sees it and can put it back. The text names the
channels that have not taken it, and their reasons. Raises: CloudError."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Sends alerts to the same people.

    Safe to repeat, and to run twice at once: each delivery is claimed before it is sent, and is not
    sent again once a channel has taken or refused it, unless that could not be recorded.
    """

    clock: Clock
    policies: Policies
    delivery_store: Deliveries
    sweep_store: Sweeps
    failure_store: Failures
    signer: LinkSigner
    registry: Registry
    park: Park
    vouch: Vouch
    delivery_seal: SealMaker
    digest_id: Callable[[], str] = lambda: DIGEST_PREFIX + secrets.token_urlsafe(16)
    """Makes the id of a digest. The page knows a digest by the prefix."""
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, alerts: Sequence[Alert], *, again: bool = False) -> Dispatched:
        """Send what is left to be sent; several alerts come to a person as one message.

        An alert older than a day that a channel does not take is parked for a person, and tried
        once more with `again`.

        Raises: AlertRefused; CloudError where something could not be read, or written: repeat it.
        """
        items: list[Item] = []
        for alert in alerts:
            item = self._item(alert, again)
            if item is not None:
                items.append(item)
        for route, routed_items in self._routes(items):
            self._try_route(route, routed_items, items[0].alert.kind)
        for item in items:
            if item.given_up:
                self._give_up(item)
        self._note_again(items)
        for item in items:
            self._note_nowhere(item)
        return counted(items)

    def _routes(self, items: Sequence[Item]) -> Iterable[tuple[Route, list[Item]]]:
        """Return each route with the items that go there.

        Failures of one cause have several owners, so the items may differ by route.
        """
        routed: dict[tuple[object, ...], tuple[Route, list[Item]]] = {}
        for item in items:
            audience = self._audience(item.alert)
            item.has_own = any(contact.has_own_channel for contact in audience)
            is_for_machines = item.alert.kind in ENDS_FOR_MACHINES
            for route in self.registry.routes(audience, self._earlier(item)):
                if is_for_machines and route.channel.name not in _KEEPING_INCIDENTS:
                    continue
                key = (*route.key, route.person, route.own)
                _, routed_items = routed.setdefault(key, (route, []))
                routed_items.append(item)
        return routed.values()

    def group(self, alert: Alert) -> str:
        """Return a hash that is the same for alerts of a kind to the same people.

        It is also the same for all failures of one cause, and for their end.
        """
        named: list[object]
        if alert.kind in (AlertKind.FAILURE, AlertKind.FAILURE_OVER):
            named = [AlertKind.FAILURE.value, cause_of(compose.reason_of(alert))]
        else:
            people = [
                (addresses([contact]), list_addresses([contact]), contact.slack_channel)
                for contact in self._audience(alert)
            ]
            named = [alert.kind.value, people]
        return hashlib.sha256(repr(named).encode()).hexdigest()[:32]

    def rule(self) -> ApprovalRule:
        """Return the settings for questions of the policy that holds now."""
        return self.policies.base().policy.approval

    def _item(self, sent: Alert, again: bool) -> Item | None:
        """Return the alert with its deliveries so far; `None` if its question was answered or has
        expired meanwhile, because nobody is asked then."""
        vouched = self.vouch(sent)
        now = self.clock.now()
        alert = vouched.alert
        if alert.kind in compose.OPEN and not _is_still_open(vouched, now):
            return None
        known = self.delivery_store.deliveries(compose.subject_of(alert))
        own: dict[tuple[str, str], Delivery] = {}
        for delivery in known:
            if delivery.message == alert.dedup_id and delivery.channel != NOWHERE:
                own[delivery.key] = delivery
        if again:
            own = {key: delivery for key, delivery in own.items() if not delivery.given_up}
        approval = vouched.approval
        expires_at = approval.expires_at if approval else None
        return Item(sent, self._priced(alert), vouched.episode, expires_at, known, own)

    def _priced(self, alert: Alert) -> Alert:
        """Return the alert with the cost of its instance at the last sweep, if it names none."""
        if alert.instance_id is None or alert.facts.get("usd_per_hour") is not None:
            return alert
        try:
            observations = self.sweep_store.observations(Target(alert.account, alert.region))
        except CloudError:
            _log.warning("the price of %s could not be read", alert.instance_id, exc_info=True)
            return alert
        observation = observations.get(alert.instance_id)
        if observation is None or observation.usd_per_hour is None:
            return alert
        facts = {**alert.facts, "usd_per_hour": str(observation.usd_per_hour)}
        return replace(alert, facts=facts)

    def _try_route(self, route: Route, items: Sequence[Item], kind: AlertKind) -> None:
        """Send by this route what is due now, as few messages as its channel wants."""
        due_items = self._due_items(route, items)
        # An end changes the first message of its episode, where the channel keeps them together.
        ends: list[Item] = []
        joint_items: list[Item] = []
        for item in due_items:
            if item.alert.kind in ENDS and thread_of(route, item.known):
                ends.append(item)
            else:
                joint_items.append(item)
        is_one_by_one = route.channel.name in _ONE_BY_ONE.get(kind, _KEEPING_INCIDENTS)
        most_together = 1 if is_one_by_one else max(1, len(joint_items))
        for item in ends:
            self._try(route, [item])
        for part in in_parts(joint_items, most_together):
            self._try(route, part)

    def _due_items(self, route: Route, items: Sequence[Item]) -> list[Item]:
        """Return the items to try now by this route, and leave those that must wait.

        An item waits as its channel asked, or while another worker sends it.
        """
        now = self.clock.now()
        due_items: list[Item] = []
        for item in items:
            delivery = item.own.get(route.key)
            if delivery is None:
                due_items.append(item)
                continue
            if delivery.not_before is None:
                continue  # it is settled
            seconds = (delivery.not_before - now).total_seconds()
            if seconds > 0:
                item.left.append(math.ceil(seconds))
            else:
                due_items.append(item)
        return due_items

    def _try(self, route: Route, items: Sequence[Item]) -> None:
        """Send one message by one route. If that fails, it does not stop any other."""
        claimed_items: list[Item] = []
        message: Message | None = None
        try:
            if len(items) == 1:
                message = self._message(route, items[0])
                if not route.channel.takes(message):
                    return
            now = self.clock.now()
            for item in items:
                if self._claim(route, item, now):
                    claimed_items.append(item)
                else:
                    item.left.append(None)
            if not claimed_items:
                return
            if message is None:
                message = self._message_of_all(route, claimed_items)
        except CloudError:
            _log.exception("a delivery by %s is left", route.channel.name)
            for item in items:
                self._leave(route, item, None, is_mine=item in claimed_items)
            return
        self._send(route, claimed_items, message)

    def _claim(self, route: Route, item: Item, now: UtcDatetime) -> bool:
        """Claim a delivery for this worker. Return False if another worker has claimed it.

        The queue may hand out the same message to two workers at once. Raises: CloudError.
        """
        if route.channel.name in _KEEPING_INCIDENTS:
            incident = incident_of(item.alert, now)
            if incident:
                self.failure_store.note_incident(incident)
        lapses_at = now + timedelta(seconds=_CLAIM_SECONDS)
        claim = self._record(route, item, not_before=lapses_at)
        return self.delivery_store.claim_delivery(claim, now)

    def _message_of_all(self, route: Route, items: Sequence[Item]) -> Message:
        if len(items) > 1:
            return self._digest(route, items)
        return self._message(route, items[0])

    def _message(self, route: Route, item: Item) -> Message:
        return compose.message_of(
            item.alert,
            item.episode,
            link=self._link(route, item),
            thread=thread_of(route, item.known),
            now=self.clock.now(),
            expires_at=deadline_of(item),
        )

    def _digest(self, route: Route, items: Sequence[Item]) -> Message:
        alerts = [item.alert for item in items]
        episodes = [item.episode for item in items if item.episode is not None]
        digest_id = self.digest_id()
        now = self.clock.now()
        link = None
        if episodes:
            self.delivery_store.put_digest(
                digest_id, [episode.approval_id for episode in episodes], now
            )
            for episode in episodes:
                self._number(route, episode.approval_id)
            link = self.signer.link(digest_id, self._number(route, digest_id))
        return compose.digest_of(alerts, episodes, link=link, digest_id=digest_id, now=now)

    def _send(self, route: Route, items: Sequence[Item], message: Message) -> None:
        name = route.channel.name
        try:
            delivered = route.channel.send(message)
        except DeliveryRefused as error:
            _log.error("a delivery by %s was refused: %s", name, error)
            for item in items:
                self._settle(route, item, refused=f"{name}: {error}")
        except DeliveryRetryable as error:
            _log.warning("a delivery by %s failed and is tried again: %s", name, error)
            self._postpone(route, items, f"{name}: {error}", error.retry_after_seconds)
        except Exception as error:  # noqa: BLE001 - one channel's fault must not hold up the others
            _log.exception("a delivery by %s failed", name)
            self._postpone(route, items, f"{name}: {type(error).__name__}", None)
        else:
            # A digest is the message of many episodes: none of them may change it at its end.
            thread = None
            if len(items) == 1:
                thread = delivered.thread or message.thread
            for item in items:
                self._settle(route, item, delivery_id=delivered.delivery_id, thread=thread)

    def _postpone(self, route: Route, items: Sequence[Item], why: str, wanted: int | None) -> None:
        """Leave them to be tried again, unless they have been tried for long enough."""
        for item in items:
            if self.clock.now() - item.alert.at <= TRIED_FOR:
                self._leave(route, item, wanted)
            else:
                _log.error("the delivery of %s is given up: %s", item.alert.dedup_id, why)
                item.given_up.append((route, why))

    def _give_up(self, item: Item) -> None:
        """Park an alert once for all its channels.

        It counts as given up only where a person can put it back.
        """
        reasons = "; ".join(why for _, why in item.given_up)
        try:
            self.park(item.sent, reasons)
        except CloudError:
            _log.exception("%s could not be parked", item.alert.dedup_id)
            for route, _ in item.given_up:
                self._leave(route, item, None)
        else:
            for route, why in item.given_up:
                self._settle(route, item, refused=f"given up: {why}", given_up=True)

    def _settle(self, route: Route, item: Item, **outcome: Any) -> None:
        delivery = self._record(route, item, **outcome)
        item.own[route.key] = delivery
        item.news.append(delivery)
        if not self._is_noted(delivery):
            item.unnoted.append(delivery)

    def _leave(self, route: Route, item: Item, wanted: int | None, *, is_mine: bool = True) -> None:
        """Leave a delivery to be tried again by any worker: the claim of this one ends."""
        item.left.append(wanted)
        if is_mine:
            later = self.clock.now() + timedelta(seconds=wanted or 0)
            self._is_noted(self._record(route, item, not_before=later))

    def _note_again(self, items: Sequence[Item]) -> None:
        """Repeat the writes of records that failed.

        A delivery that is not on record is sent again when its claim lapses.
        """
        for pause in _NOTE_PAUSES_SECONDS:
            if any(item.unnoted for item in items):
                self.sleep(pause)
            for item in items:
                item.unnoted = [
                    delivery for delivery in item.unnoted if not self._is_noted(delivery)
                ]
        for item in items:
            item.left += [_CLAIM_SECONDS] * len(item.unnoted)

    def _is_noted(self, delivery: Delivery) -> bool:
        try:
            self.delivery_store.note_delivery(self._sealed(delivery))
        except CloudError as error:
            _log.warning(
                "a record of %s by %s is left: %s", delivery.message, delivery.channel, error
            )
            return False
        return True

    def _sealed(self, delivery: Delivery) -> Delivery:
        """Return the delivery, with a seal where silence may count from it.

        Raises: CloudError, if KMS made none.
        """
        if not counts_for_silence(delivery):
            return delivery
        return replace(delivery, seal=sealed(self.delivery_seal, delivery_text(delivery)))

    def _record(self, route: Route, item: Item, **outcome: Any) -> Delivery:
        is_shared = item.has_own and not route.own
        return Delivery(
            compose.subject_of(item.alert),
            item.alert.dedup_id,
            *route.key,
            self.clock.now(),
            shared=True if is_shared else None,
            **outcome,
        )

    def _note_nowhere(self, item: Item) -> None:
        """Record that no person gets the alert, if all its deliveries are settled and none reached
        people."""
        settled = [delivery for delivery in item.own.values() if delivery.is_settled]
        reached_people = any(delivery.reached_people for delivery in settled)
        is_for_machines = item.alert.kind in ENDS_FOR_MACHINES
        if item.left or reached_people or is_for_machines:
            return
        message_id = item.alert.dedup_id
        refused = sum(not delivery.was_taken for delivery in settled)
        values = {"state": nowhere_state(settled), "refused": refused}
        (why,) = said("delivered to nobody", values)
        _log.warning("no person gets %s through a channel: %s", message_id, why)
        now = self.clock.now()
        subject = compose.subject_of(item.alert)
        self.delivery_store.note_delivery(
            Delivery(subject, message_id, NOWHERE, NOWHERE, now, refused=why)
        )

    def _audience(self, alert: Alert) -> Sequence[Contact]:
        """Return the contacts that the policy names now: people who joined since are notified,
        people who left are not."""
        ownership = self.policies.base().policy.ownership
        asked = ownership.asked(alert.owner, alert.project)
        if alert.kind in ESCALATED:
            return (*asked, *ownership.escalated(alert.owner, alert.project))
        return asked

    def _earlier(self, item: Item) -> Recipients:
        """Return the recipients of earlier messages of the episode, if this alert goes to them too.

        People who left the policy get the end of an episode, without a link of their own.
        """
        if item.alert.kind not in _FOLLOWS:
            return {}
        people = addresses(tuple(self.policies.base().policy.ownership.contacts.values()))
        is_open = item.alert.kind in compose.OPEN | {AlertKind.APPROVED_WAITS}
        recipients: dict[tuple[str, str], str | None] = {}
        for delivery in item.known:
            if not delivery.was_taken:
                continue
            is_in_policy = delivery.target in people
            if is_open and delivery.channel == "email" and not is_in_policy:
                continue
            recipients[delivery.key] = delivery.target if is_in_policy else None
        return recipients

    def _link(self, route: Route, item: Item) -> str | None:
        """Return the link to the episode's page, personal if the route leads to one person.

        Without an episode it leads to the instance in the console; `None` without an instance.
        """
        alert = item.alert
        if item.episode is not None:
            approval_id = item.episode.approval_id
            return self.signer.link(approval_id, self._number(route, approval_id))
        if not alert.instance_id:
            return None
        return self.signer.page("instances", alert.account, alert.region, alert.instance_id)

    def _number(self, route: Route, page_id: str) -> int:
        if route.person is None:
            return EVERYBODY
        return self.delivery_store.number_recipient(page_id, route.person, self.clock.now())


def _is_still_open(vouched: Vouched, now: UtcDatetime) -> bool:
    """Return whether the question can be answered; without an episode nothing says otherwise."""
    episode = vouched.episode
    approval = vouched.approval
    if episode is None or approval is None:
        return True
    is_pending = approval.status is ApprovalStatus.PENDING
    return is_pending and episode.phase is not Phase.CLOSED and approval.expires_at > now
