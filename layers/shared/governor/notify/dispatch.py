"""Delivers alerts through every channel they are for, such as Slack and email, drops duplicates
from the queue, records which failed delivery is tried again, and gives it up after a day.

One alert goes: `_item` (is it still open?), `_routes` (to whom?), `_try` (claim, then send), and
`settle` or `leave` (the record, see `recording`). A fault of one channel never holds up another.
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

from governor.alerts.console_pages import console_page_of
from governor.alerts.delivery import DIGEST_PREFIX, NOWHERE, Delivery
from governor.alerts.model import (
    ASKS_ESCALATION_CONTACTS,
    ENDS,
    ENDS_FOR_MACHINES,
    ESCALATED,
    Alert,
    AlertKind,
    incident_of,
)
from governor.alerts.store import Deliveries
from governor.approvals.messages.failures import cause_of
from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.approvals.rules.sealing import SealMaker
from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, in_parts
from governor.episode.model.episode import Phase
from governor.episode.store.instances import Failures
from governor.notify import compose
from governor.notify.digest import digest_of
from governor.notify.dispatched import (
    Dispatched,
    Item,
    counted,
    deadline_of,
    state_notice_end,
    thread_of,
)
from governor.notify.message import DeliveryRefused, DeliveryRetryable, Message
from governor.notify.recording import CLAIM_SECONDS, DeadLetter, Recording
from governor.notify.registry import CHANNELS, Recipients, Registry, Route
from governor.notify.verify_alert import VerifiedAlert, VerifyAlert
from governor.policy.model.acting import ApprovalRule
from governor.policy.model.contacts import Contact, addresses, list_addresses
from governor.policy.ports import Policies
from governor.sweep.store import Sweeps

_log = logging.getLogger(__name__)
TRIED_FOR = timedelta(days=1)
"""A delivery is given up this long after the alert was made."""
_FOLLOWS = ENDS | {
    AlertKind.APPROVAL_FIRST_YES,
    AlertKind.APPROVED_WAITS,
    AlertKind.UNDONE,
    AlertKind.START_FAILED,
}
"""Kinds that go to earlier recipients of the episode too: people who were asked are notified of the
end."""
_KEEPING_INCIDENTS = frozenset(name for name, kind in CHANNELS.items() if kind.keeps_incidents)
_READ_BY_MACHINES = frozenset(name for name, kind in CHANNELS.items() if kind.is_read_by_machines)
_ONE_BY_ONE = {AlertKind.FAILURE: _READ_BY_MACHINES}
"""By kind, the channels that get each alert by itself; all others get failures of one cause as one
message. For other kinds these are `_KEEPING_INCIDENTS`."""


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
    dead_letter: DeadLetter
    verify: VerifyAlert
    delivery_seal: SealMaker
    digest_id: Callable[[], str] = lambda: DIGEST_PREFIX + secrets.token_urlsafe(16)
    """Makes the id of a digest. The page knows a digest by the prefix."""
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, alerts: Sequence[Alert], *, again: bool = False) -> Dispatched:
        """Send what is left to be sent of these alerts, which are of one kind, several to a person
        as one message; return the counts. Without alerts they are zero.

        An alert older than a day that a channel does not take goes to the dead-letter queue.
        `again` means that a person put it back: what was given up is then tried once more.

        Raises: AlertRefused if nothing proves one of the alerts; ConfigurationError if links cannot
        be made; CloudError if something could not be read or written: repeat the call.
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
                self._recording.give_up(item)
        # After all settled deliveries are recorded, or left to be sent again.
        self._recording.repeat_failed_notes(items)
        for item in items:
            self._recording.note_nowhere(item)
        return counted(items)

    @property
    def _recording(self) -> Recording:
        """Return the part that records what becomes of deliveries."""
        return Recording(
            clock=self.clock,
            delivery_store=self.delivery_store,
            delivery_seal=self.delivery_seal,
            dead_letter=self.dead_letter,
            sleep=self.sleep,
        )

    def _routes(self, items: Sequence[Item]) -> Iterable[tuple[Route, list[Item]]]:
        """Return each route with the items that go there; also note in each item if its recipients
        have channels of their own (`has_own`). An end that only machines read goes to channels that
        keep incidents, and to no other.

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
            people: list[object] = []
            for contact in self._audience(alert):
                mail_addresses = (addresses([contact]), list_addresses([contact]))
                people.append((*mail_addresses, contact.slack_channel))
            named = [alert.kind.value, people]
        return hashlib.sha256(repr(named).encode()).hexdigest()[:32]

    def rule(self) -> ApprovalRule:
        """Return the policy's settings for questions, as they are in force now."""
        return self.policies.base().policy.approval

    def _item(self, sent: Alert, again: bool) -> Item | None:
        """Check an alert, and return it with its deliveries so far; `None` if its question was
        answered or has expired meanwhile, because nobody is asked then. With `again`, deliveries
        that were given up count as not tried. Raises: AlertRefused if nothing proves it;
        CloudError."""
        verified = self.verify(sent)
        now = self.clock.now()
        alert = verified.alert
        if alert.kind in compose.OPEN and not _is_still_open(verified, now):
            return None
        known = self.delivery_store.deliveries(compose.subject_of(alert))
        own: dict[tuple[str, str], Delivery] = {}
        for delivery in known:
            if delivery.message == alert.dedup_id and delivery.channel != NOWHERE:
                own[delivery.key] = delivery
        if again:
            own = {key: delivery for key, delivery in own.items() if not delivery.given_up}
        approval = verified.approval
        expires_at = approval.deadline if approval else None
        return Item(sent, self._priced(alert), verified.episode, expires_at, known, own)

    def _priced(self, alert: Alert) -> Alert:
        """Return the alert with the cost of its instance at the last sweep, if it names none; the
        same alert if that is not known or cannot be read."""
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
        """Send by this route what is due now, joined into messages as its channel wants: one for
        each alert, or one for all, but an end that changes an earlier message goes by itself.
        Raises: ConfigurationError if links cannot be made."""
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
        """Return the items to try now by this route. Settled ones are left out, so a duplicate
        that comes later is dropped; of one that must wait, the seconds are noted in its `left`.

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
        """Claim the deliveries of these items by one route, and send them as one message. What
        another worker has claimed, or what cannot be read now, is left. Do nothing for a single
        item whose message the channel is not for (`takes`).

        A fault of the channel or of AWS raises nothing, so that no other delivery is stopped.
        Raises: ConfigurationError if links cannot be made, which stops them all.
        """
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
                self._recording.leave(route, item, None, is_mine=item in claimed_items)
            return
        self._send(route, claimed_items, message)

    def _claim(self, route: Route, item: Item, now: UtcDatetime) -> bool:
        """Claim a delivery for this worker, for the five minutes that it may run. Return false if
        another worker has claimed it. The incident that it may open is noted before.

        The queue may hand out the same message to two workers at once. Raises: CloudError.
        """
        if route.channel.name in _KEEPING_INCIDENTS:
            incident = incident_of(item.alert, now)
            if incident:
                self.failure_store.note_incident(incident)
        lapses_at = now + timedelta(seconds=CLAIM_SECONDS)
        claim = self._recording.record_of(route, item, not_before=lapses_at)
        return self.delivery_store.claim_delivery(claim, now)

    def _message_of_all(self, route: Route, items: Sequence[Item]) -> Message:
        """Return the message of one item, or a digest of several. Raises: ConfigurationError if
        links cannot be made; CloudError."""
        if len(items) > 1:
            return self._digest(route, items)
        return self._message(route, items[0])

    def _message(self, route: Route, item: Item) -> Message:
        """Return the message of one item for this route, with the link of its recipient. Raises:
        ConfigurationError if links cannot be made; CloudError."""
        now = self.clock.now()
        state_notice_end(item, now)
        return compose.message_of(
            item.alert,
            item.episode,
            link=self._link(route, item),
            thread=thread_of(route, item.known),
            now=now,
            expires_at=deadline_of(item),
            to_default_contacts=self._is_to_default_contacts(item.alert),
        )

    def _digest(self, route: Route, items: Sequence[Item]) -> Message:
        """Return one message about several items. If they have episodes, store the digest first, so
        that its link opens a page of all of them; else the message has no link. Raises:
        ConfigurationError if links cannot be made; CloudError."""
        alerts = [item.alert for item in items]
        episodes = []
        for item in items:
            if item.episode is not None:
                episodes.append(item.episode)
        digest_id = self.digest_id()
        now = self.clock.now()
        link = None
        if episodes:
            self.delivery_store.put_digest(
                digest_id, [episode.approval_id for episode in episodes], now
            )
            # The page of the digest links to each question, so each must know the recipient.
            for episode in episodes:
                self._number_recipient(route, episode.approval_id)
            link = self.signer.link(digest_id, self._number_recipient(route, digest_id))
        return digest_of(
            alerts,
            episodes,
            link=link,
            digest_id=digest_id,
            now=now,
            to_default_contacts=self._is_to_default_contacts(alerts[0]),
        )

    def _send(self, route: Route, items: Sequence[Item], message: Message) -> None:
        """Send the message of these items, and settle them or leave them to be tried again. Call it
        only with items that this worker has claimed. It raises nothing."""
        name = route.channel.name
        try:
            delivered = route.channel.send(message)
        except DeliveryRefused as error:
            _log.error("a delivery by %s was refused: %s", name, error)
            for item in items:
                self._recording.settle(route, item, refused=f"{name}: {error}")
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
                self._recording.settle(
                    route, item, delivery_id=delivered.delivery_id, thread=thread
                )

    def _postpone(
        self, route: Route, items: Sequence[Item], why: str, wait_seconds: int | None
    ) -> None:
        """Leave items to be tried again, after this wait if the channel named one (`None` if not).
        An item that has been tried for a day is noted in `given_up` instead, with the reason."""
        for item in items:
            if self.clock.now() - item.alert.at <= TRIED_FOR:
                self._recording.leave(route, item, wait_seconds)
            else:
                _log.error("the delivery of %s is given up: %s", item.alert.dedup_id, why)
                item.given_up.append((route, why))

    def _audience(self, alert: Alert) -> Sequence[Contact]:
        """Return the contacts to notify of an alert, as the policy names them now: people who
        joined after the alert was made are notified, people who left are not. Those for escalations
        are among them for some kinds (`ESCALATED`), and if the alert says so. Empty if the policy
        names nobody."""
        ownership = self.policies.base().policy.ownership
        is_to_all = alert.facts.get(ASKS_ESCALATION_CONTACTS) is True
        if is_to_all or alert.kind in ESCALATED:
            return ownership.asked_and_escalated(alert.owner, alert.project)
        return ownership.asked(alert.owner, alert.project)

    def _is_to_default_contacts(self, alert: Alert) -> bool:
        """Return whether an alert goes to the default contacts, as the policy knows nobody else for
        its instance."""
        ownership = self.policies.base().policy.ownership
        return ownership.asks_default_contacts(alert.owner, alert.project)

    def _earlier(self, item: Item) -> Recipients:
        """Return the recipients of earlier messages of the episode if this alert goes to them too;
        else an empty mapping.

        People who left the policy get the end of an episode, without a link of their own. While it
        can still be answered or held, their mail addresses are left out.
        """
        if item.alert.kind not in _FOLLOWS:
            return {}
        people = addresses(tuple(self.policies.base().policy.ownership.contacts.values()))
        is_open = item.alert.kind in compose.OPEN | {AlertKind.APPROVED_WAITS}
        recipients: dict[tuple[str, str], str | None] = {}
        for delivery in item.known:
            if not delivery.was_delivered:
                continue
            is_in_policy = delivery.target in people
            if is_open and delivery.channel == "email" and not is_in_policy:
                continue
            recipients[delivery.key] = delivery.target if is_in_policy else None
        return recipients

    def _link(self, route: Route, item: Item) -> str | None:
        """Return the link to the episode's page, personal if the route leads to one person; without
        an episode, that to the page of the console that shows what the alert is about. Return
        `None` if no page shows it, or the stack has no pages.

        Raises: ConfigurationError if links to an episode cannot be made; CloudError.
        """
        alert = item.alert
        if item.episode is not None:
            approval_id = item.episode.approval_id
            return self.signer.link(approval_id, self._number_recipient(route, approval_id))
        page = console_page_of(alert)
        if page is None:
            return None
        link = self.signer.page(*page.path)
        if link is None or not page.query:
            return link
        return f"{link}?{page.query}"

    def _number_recipient(self, route: Route, page_id: str) -> int:
        """Return the number that stands for the route's person in links to a page; it is stored at
        the first call. `EVERYBODY` if the route leads to no single person. Raises: CloudError."""
        if route.person is None:
            return EVERYBODY
        return self.delivery_store.number_recipient(page_id, route.person, self.clock.now())


def _is_still_open(verified: VerifiedAlert, now: UtcDatetime) -> bool:
    """Return whether the question of an alert can still be answered; true also without a stored
    episode or question, as nothing says otherwise then."""
    episode = verified.episode
    approval = verified.approval
    if episode is None or approval is None:
        return True
    return approval.is_open(now) and episode.phase is not Phase.CLOSED
