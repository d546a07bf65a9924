"""Takes alerts to every channel they are for, once each, and records what is left to be tried
again."""

from __future__ import annotations

import hashlib
import logging
import math
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from governor.channels import compose
from governor.channels.message import DeliveryRefused, DeliveryRetryable, Message
from governor.channels.picture_png import days_png, evidence_png
from governor.channels.registry import Recipients, Registry, Route
from governor.channels.vouch import Vouch
from governor.domain.alerts.alert import (
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
from governor.domain.alerts.templates import said
from governor.domain.approvals.approval import ApprovalStatus, notice_until
from governor.domain.approvals.links import EVERYBODY, LinkSigner
from governor.domain.approvals.messages import cause_of
from governor.domain.approvals.sealing import SealMaker, counts_for_silence, delivery_text, sealed
from governor.domain.episode.episode import Episode, Phase
from governor.domain.instance import Target
from governor.domain.policy.contacts import Contact, addresses, list_addresses
from governor.domain.policy.policy import ApprovalRule
from governor.domain.units import UtcDatetime, in_parts, parse_iso
from governor.errors import CloudError
from governor.ports import Clock, Policies
from governor.stores import StateTable

_log = logging.getLogger(__name__)
TRIED_FOR = timedelta(days=1)
"""Since the alert was made; what no channel takes for so long is given up."""
_CLAIM_SECONDS = 300
"""The time-out of the function: who holds a claim for longer has died, sent or not."""
_NOTE_PAUSES_SECONDS = (1.0, 4.0)
"""Before a record is written again that the table did not take."""
_FOLLOWS = ENDS | {AlertKind.APPROVAL_FIRST_YES, AlertKind.APPROVED_WAITS, AlertKind.UNDONE}
"""Kinds that go to earlier recipients of the episode too: people who were asked are notified of the
end."""

_MACHINES = frozenset({"pagerduty", "webhook"})
_ONE_BY_ONE = {AlertKind.FAILURE: frozenset({"webhook"})}
"""Machines want each by itself; but failures of one cause are one page."""


Park = Callable[[Alert, str], None]
"""Keeps an alert that was given up, where a person sees it and can put it back; the text says which
channels have not taken it, and what they said. Raises: CloudError."""


@dataclass(frozen=True, slots=True)
class Dispatched:
    """Counts of deliveries taken and refused now, and left; `retry_after_seconds` as the soonest
    asks."""

    taken: int
    refused: int
    left: int = 0
    retry_after_seconds: int | None = None

    def plus(self, other: Dispatched) -> Dispatched:
        return Dispatched(
            self.taken + other.taken,
            self.refused + other.refused,
            self.left + other.left,
            _soonest([one.retry_after_seconds for one in (self, other) if one.left]),
        )


def _soonest(waits: Sequence[int | None]) -> int | None:
    """Return the shortest wait, as the others wait for their own time; `None` where one names no
    time."""
    return (
        None if None in waits else min((wait for wait in waits if wait is not None), default=None)
    )


@dataclass(slots=True, eq=False)
class _Item:
    """One alert on its way: its episode, and what became of it so far."""

    sent: Alert
    """As it came, with its seal."""
    alert: Alert
    episode: Episode | None
    expires_at: UtcDatetime | None
    known: Sequence[Delivery]
    """All records of its episode."""
    own: dict[tuple[str, str], Delivery]
    """By the key of a route, what is on record of the alert itself."""
    has_own: bool = False
    """Return whether the policy names a channel of their own for those whom it is for."""
    left: list[int | None] = field(default_factory=list)
    news: list[Delivery] = field(default_factory=list)
    """The deliveries that were settled now."""
    given_up: list[tuple[Route, str]] = field(default_factory=list)
    """With what the channel said."""
    unnoted: list[Delivery] = field(default_factory=list)
    """News that the table does not hold yet."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Alerts to the same people. Safe to repeat, and to run twice at once: each delivery is claimed
    before it is sent, and what a channel has taken or refused is not sent again, unless that could
    not be recorded."""

    clock: Clock
    policies: Policies
    state: StateTable
    signer: LinkSigner
    registry: Registry
    park: Park
    vouch: Vouch
    delivery_seal: SealMaker
    digest_id: Callable[[], str] = lambda: DIGEST_PREFIX + secrets.token_urlsafe(16)
    """By the prefix the page knows a digest."""
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, alerts: Sequence[Alert], *, again: bool = False) -> Dispatched:
        """Send what is left to be sent; several alerts come to a person as one message. What a
        channel does not take of an alert older than a day is parked for a person, and tried once
        more with `again`. Raises: AlertRefused; CloudError where something could not be read, or
        written: repeat it."""
        items = [item for alert in alerts if (item := self._item(alert, again)) is not None]
        for route, theirs in self._routes(items):
            open_ones = [item for item in theirs if self._is_open(route, item)]
            # An end changes the first message of its episode, where the channel keeps them
            # together.
            alone = [
                one for one in open_ones if one.alert.kind in ENDS and _thread(route, one.known)
            ]
            rest = [item for item in open_ones if item not in alone]
            single = route.channel.name in _ONE_BY_ONE.get(items[0].alert.kind, _MACHINES)
            for part in (
                *([one] for one in alone),
                *in_parts(rest, 1 if single else max(1, len(rest))),
            ):
                self._try(route, part)
        for item in items:
            if item.given_up:
                self._give_up(item)
        self._note_again(items)
        for item in items:
            self._note_nowhere(item)
        news = [delivery for item in items for delivery in item.news]
        taken = sum(delivery.was_taken for delivery in news)
        waits = [seconds for item in items for seconds in item.left]
        return Dispatched(taken, len(news) - taken, len(waits), _soonest(waits))

    def _routes(self, items: Sequence[_Item]) -> Iterable[tuple[Route, list[_Item]]]:
        """Return each route with the items that go there: failures of one cause have several
        owners."""
        found: dict[tuple[object, ...], tuple[Route, list[_Item]]] = {}
        for item in items:
            audience = self._audience(item.alert)
            item.has_own = any(one.has_own_channel for one in audience)
            for route in self.registry.routes(audience, self._earlier(item)):
                if item.alert.kind in ENDS_FOR_MACHINES and route.channel.name not in _MACHINES:
                    continue
                key = (*route.key, route.person, route.own)
                found.setdefault(key, (route, []))[1].append(item)
        return found.values()

    def group(self, alert: Alert) -> str:
        """Equal for alerts of the same kind to the same people, and for failures of a cause and
        their end."""
        named: list[object] = [AlertKind.FAILURE.value, cause_of(compose.reason_of(alert))]
        if alert.kind not in (AlertKind.FAILURE, AlertKind.FAILURE_OVER):
            asked = self._audience(alert)
            people = [(addresses([one]), list_addresses([one]), one.slack_channel) for one in asked]
            named = [alert.kind.value, people]
        return hashlib.sha256(repr(named).encode()).hexdigest()[:32]

    def rule(self) -> ApprovalRule:
        return self.policies.base().policy.approval

    def _item(self, sent: Alert, again: bool) -> _Item | None:
        """`None` where the question was answered or has expired meanwhile: nobody is asked what is
        over."""
        vouched, now = self.vouch(sent), self.clock.now()
        alert, episode, approval = vouched.alert, vouched.episode, vouched.approval
        expires_at = approval.expires_at if approval else None
        if alert.kind in compose.OPEN and episode and approval:
            is_open = (
                approval.status is ApprovalStatus.PENDING and episode.phase is not Phase.CLOSED
            )
            if not is_open or approval.expires_at <= now:
                return None
        known = self.state.deliveries(compose.subject_of(alert))
        own = {
            one.key: one
            for one in known
            if one.message == alert.dedup_id and one.channel != NOWHERE
        }
        settled = {key: one for key, one in own.items() if not (again and one.given_up)}
        return _Item(sent, self._priced(alert), episode, expires_at, known, settled)

    def _priced(self, alert: Alert) -> Alert:
        """Return the alert with its instance's cost at the last sweep, where nobody had time to
        ask."""
        if alert.instance_id is None or alert.facts.get("usd_per_hour") is not None:
            return alert
        try:
            seen = self.state.observations(Target(alert.account, alert.region)).get(
                alert.instance_id
            )
        except CloudError:
            _log.warning("the price of %s could not be read", alert.instance_id, exc_info=True)
            return alert
        price = None if seen is None else seen.usd_per_hour
        return (
            alert
            if price is None
            else replace(alert, facts={**alert.facts, "usd_per_hour": str(price)})
        )

    def _is_open(self, route: Route, item: _Item) -> bool:
        """Say whether it is to be tried now: not settled, wanted by the channel, and nobody is at
        it."""
        delivery = item.own.get(route.key)
        if delivery is None or delivery.not_before is None:
            return delivery is None
        seconds = (delivery.not_before - self.clock.now()).total_seconds()
        if seconds > 0:
            item.left.append(math.ceil(seconds))
        return seconds <= 0

    def _try(self, route: Route, items: Sequence[_Item]) -> None:
        """One message by one route. What stands in its way stands in the way of no other."""
        mine: list[_Item] = []
        try:
            message = self._message(route, items[0]) if len(items) == 1 else None
            if message is not None and not route.channel.takes(message):
                return
            now = self.clock.now()
            for item in items:
                if route.channel.name in _MACHINES and (incident := incident_of(item.alert, now)):
                    self.state.note_incident(incident)
                # The queue may give the same message to two workers at once.
                claim = self._record(
                    route, item, not_before=now + timedelta(seconds=_CLAIM_SECONDS)
                )
                if self.state.claim_delivery(claim, now):
                    mine.append(item)
                else:
                    item.left.append(None)
            if message is None and mine:
                message = (
                    self._digest(route, mine) if len(mine) > 1 else self._message(route, mine[0])
                )
        except CloudError:
            _log.exception("a delivery by %s is left", route.channel.name)
            for item in items:
                self._leave(route, item, None, is_mine=item in mine)
        else:
            if message is not None and mine:
                self._send(route, mine, message)

    def _message(self, route: Route, item: _Item) -> Message:
        is_mail = route.channel.name == "email"
        return compose.message_of(
            item.alert,
            item.episode,
            link=self._link(route, item),
            thread=_thread(route, item.known),
            picture_png=_picture(item) if is_mail else None,
            now=self.clock.now(),
            expires_at=_until(item),
        )

    def _digest(self, route: Route, items: Sequence[_Item]) -> Message:
        episodes = [item.episode for item in items if item.episode is not None]
        alerts, digest_id, now = [item.alert for item in items], self.digest_id(), self.clock.now()
        link = None
        if episodes:
            self.state.put_digest(digest_id, [episode.approval_id for episode in episodes], now)
            for episode in episodes:
                self._number(route, episode.approval_id)
            link = self.signer.link(digest_id, self._number(route, digest_id))
        return compose.digest_of(alerts, episodes, link=link, digest_id=digest_id, now=now)

    def _send(self, route: Route, items: Sequence[_Item], message: Message) -> None:
        name = route.channel.name
        try:
            found = route.channel.send(message)
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
            thread = (found.thread or message.thread) if len(items) == 1 else None
            for item in items:
                self._settle(route, item, delivery_id=found.delivery_id, thread=thread)

    def _postpone(self, route: Route, items: Sequence[_Item], why: str, wanted: int | None) -> None:
        """Leave them to be tried again, unless they have been tried for long enough."""
        for item in items:
            if self.clock.now() - item.alert.at <= TRIED_FOR:
                self._leave(route, item, wanted)
            else:
                _log.error("the delivery of %s is given up: %s", item.alert.dedup_id, why)
                item.given_up.append((route, why))

    def _give_up(self, item: _Item) -> None:
        """One message for all its channels. It counts as given up only where a person can put it
        back."""
        try:
            self.park(item.sent, "; ".join(why for _, why in item.given_up))
        except CloudError:
            _log.exception("%s could not be parked", item.alert.dedup_id)
            for route, _ in item.given_up:
                self._leave(route, item, None)
        else:
            for route, why in item.given_up:
                self._settle(route, item, refused=f"given up: {why}", given_up=True)

    def _settle(self, route: Route, item: _Item, **outcome: Any) -> None:
        delivery = self._record(route, item, **outcome)
        item.own[route.key] = delivery
        item.news.append(delivery)
        if not self._is_noted(delivery):
            item.unnoted.append(delivery)

    def _leave(
        self, route: Route, item: _Item, wanted: int | None, *, is_mine: bool = True
    ) -> None:
        """To be tried again, and by whoever comes first: this worker's claim on it ends."""
        item.left.append(wanted)
        if is_mine:
            later = self.clock.now() + timedelta(seconds=wanted or 0)
            self._is_noted(self._record(route, item, not_before=later))

    def _note_again(self, items: Sequence[_Item]) -> None:
        """Record again: a delivery that is not on record is sent again when its claim lapses."""
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
            self.state.note_delivery(self._sealed(delivery))
        except CloudError as error:
            _log.warning(
                "a record of %s by %s is left: %s", delivery.message, delivery.channel, error
            )
            return False
        return True

    def _sealed(self, delivery: Delivery) -> Delivery:
        """Return it with a seal where silence may count from it. Raises: CloudError, when KMS made
        none."""
        if not counts_for_silence(delivery):
            return delivery
        return replace(delivery, seal=sealed(self.delivery_seal, delivery_text(delivery)))

    def _record(self, route: Route, item: _Item, **outcome: Any) -> Delivery:
        subject, message, now = (
            compose.subject_of(item.alert),
            item.alert.dedup_id,
            self.clock.now(),
        )
        shared = True if item.has_own and not route.own else None
        return Delivery(subject, message, *route.key, now, shared=shared, **outcome)

    def _note_nowhere(self, item: _Item) -> None:
        """Record that no person will get it, where that is so."""
        settled = [delivery for delivery in item.own.values() if delivery.is_settled]
        is_for_people = item.alert.kind not in ENDS_FOR_MACHINES
        if item.left or not is_for_people or any(delivery.reached_people for delivery in settled):
            return
        subject, message = compose.subject_of(item.alert), item.alert.dedup_id
        refused = sum(not delivery.was_taken for delivery in settled)
        is_shared = any(delivery.shared and delivery.was_taken for delivery in settled)
        state = (
            "shared" if is_shared else "refused" if refused else "machines" if settled else "none"
        )
        (why,) = said("delivered to nobody", {"state": state, "refused": refused})
        _log.warning("no person gets %s through a channel: %s", message, why)
        self.state.note_delivery(
            Delivery(subject, message, NOWHERE, NOWHERE, self.clock.now(), refused=why)
        )

    def _audience(self, alert: Alert) -> Sequence[Contact]:
        """By the policy as it is now: who joined since is notified, who left is not."""
        ownership = self.policies.base().policy.ownership
        asked = ownership.asked(alert.owner, alert.project)
        if alert.kind in ESCALATED:
            return (*asked, *ownership.escalated(alert.owner, alert.project))
        return asked

    def _earlier(self, item: _Item) -> Recipients:
        """Return who got an earlier message: those no longer named get the end, without their
        link."""
        if item.alert.kind not in _FOLLOWS:
            return {}
        people = addresses(tuple(self.policies.base().policy.ownership.contacts.values()))
        is_open = item.alert.kind in compose.OPEN | {AlertKind.APPROVED_WAITS}
        return {
            one.key: one.target if one.target in people else None
            for one in item.known
            if one.was_taken
            and not (is_open and one.channel == "email" and one.target not in people)
        }

    def _link(self, route: Route, item: _Item) -> str | None:
        """Return a link, personal for one person alone; of no episode, to its instance in the
        console."""
        episode, alert = item.episode, item.alert
        if episode is None:
            instance = alert.instance_id
            return (
                self.signer.page("instances", alert.account, alert.region, instance)
                if instance
                else None
            )
        return self.signer.link(episode.approval_id, self._number(route, episode.approval_id))

    def _number(self, route: Route, page_id: str) -> int:
        if route.person is None:
            return EVERYBODY
        return self.state.number_recipient(page_id, route.person, self.clock.now())


def _until(item: _Item) -> UtcDatetime | None:
    """Return when the question expires, or the notice of mode auto is over once one has been
    delivered."""
    if item.episode is None or item.alert.kind is not AlertKind.IDLE_FOUND:
        return item.expires_at
    return notice_until(item.episode, [*item.known, *item.news])


def _picture(item: _Item) -> bytes | None:
    try:
        if item.episode is not None:
            return evidence_png(item.episode)
        days = compose.saved_by_day(item.alert)
        return (
            days_png(days, parse_iso(str(item.alert.facts["period_start"])).date())
            if days
            else None
        )
    except Exception:  # noqa: BLE001 - a mail without its picture is a mail; the figures stand in it
        _log.exception("the picture of %s could not be drawn", item.alert.dedup_id)
        return None


def _thread(route: Route, known: Sequence[Delivery]) -> str | None:
    """Return the thread that the channel named for the first message of the subject."""
    named = [
        delivery for delivery in known if delivery.key == route.key and delivery.thread is not None
    ]
    return min(named, key=lambda delivery: delivery.at).thread if named else None
