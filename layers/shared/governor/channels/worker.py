"""Works through a batch of queued alerts: one that fails or is left never holds up the others."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from governor.channels.compose import subject_of
from governor.channels.dispatch import Dispatch, Dispatched
from governor.channels.transport import LONGEST_WAIT_SECONDS
from governor.channels.vouch import AlertRefused
from governor.domain.alerts.alert import (
    FOR_MACHINES,
    QUESTIONS,
    Again,
    Alert,
    AlertKind,
    Flush,
    Queued,
)
from governor.domain.units import in_parts
from governor.errors import GovernorError, InputError, Throttled, Unavailable
from governor.ports import Clock
from governor.stores import Deliveries

_log = logging.getLogger(__name__)
FIRST_WAIT_SECONDS, LONGEST_BACKOFF_SECONDS = 15, 900
_LEASE_SECONDS = 300
"""The time-out of the function: who holds a lease for longer has died."""
_LONGEST_DIGEST = 40
"""Questions on one page; more come as a second message."""
_HOUR_SECONDS = 3600
"""Failures of one cause come as one message, and the next ones not before."""


class Queue(Protocol):
    def hide(self, receipt: str, seconds: int) -> None:
        """Hands the message out again after so many seconds. Raises: CloudError."""
        ...

    def later(self, body: str, seconds: int) -> None:
        """Puts a message into the queue that is handed out after so many seconds. Raises:
        CloudError."""
        ...


class LeaseTaken(GovernorError):
    """Somebody else sends the same group, or about the same episode, at this moment."""


@dataclass(frozen=True, slots=True)
class Worker:
    """`parse` reads a body and raises InputError; `seen` counts what was done, for metrics.

    Questions to the same people leave the outbox as one message. So do failures, by cause and hour.
    """

    clock: Clock
    make: Callable[[], Dispatch]
    state: Deliveries
    queue: Queue
    refuse: Callable[[str, str], None]
    """Keeps a body that nothing vouches for, with the reason, where a person sees it. Raises:
    CloudError."""
    parse: Callable[[str], Alert | Flush | Again]
    seen: Callable[[Dispatched, float], None]
    """Called with what was done and the seconds by which the message is, or will be, late."""

    def __call__(self, batch: Sequence[Queued]) -> list[str]:
        """Ids of the messages that must stay in the queue."""
        return [one.message_id for one in batch if not self._is_done(one)]

    def _is_done(self, one: Queued) -> bool:
        done, late = Dispatched(0, 0, left=1), 0.0
        try:
            done = self._work(self.make(), one.body)
        except LeaseTaken as error:
            _log.info("a message is left: %s", error)
        except Exception:  # noqa: BLE001 - logged
            # Whatever it is, it is this message's: the queue repeats it, and keeps it in the end.
            _log.exception("a message was not delivered")
        if done.left:
            age = 0.0 if one.sent_at is None else (self.clock.now() - one.sent_at).total_seconds()
            late = max(age, float(done.retry_after_seconds or 0))
            self._hide(one, done.retry_after_seconds)
        self.seen(done, late)
        return not done.left

    def _work(self, dispatch: Dispatch, body: str) -> Dispatched:
        found = self.parse(body)
        if isinstance(found, Flush):
            # Every message has asked for it; whoever comes first sends for all.
            with self._lease(found.group):
                return self._send_group(dispatch, found.group)
        sent = found.alert if isinstance(found, Again) else found
        if sent.kind in FOR_MACHINES:
            return Dispatched(0, 0)
        try:
            return self._send(dispatch, sent, body, again=sent is not found)
        except AlertRefused as error:
            if sent.kind is AlertKind.ALARM_OVER:
                return Dispatched(0, 0)  # of a stack whose name begins like ours
            return self._refused(body, error)

    def _send(self, dispatch: Dispatch, sent: Alert, body: str, *, again: bool) -> Dispatched:
        rule, failed = dispatch.rule(), sent.kind is AlertKind.FAILURE
        if again or not (failed or (sent.kind in QUESTIONS and rule.digest_from)):
            done = self._end_failures(dispatch, sent)
            # One worker at a time also sends an alarm and its end, so that none opens again what is
            # over.
            with self._lease(str(sent.facts.get("alarm") or subject_of(sent))):
                return done if done.left else done.plus(dispatch([sent], again=again))
        alert = dispatch.vouch(sent).alert
        group = dispatch.group(alert)
        self.state.put_outbox(group, alert.dedup_id, body, alert.at)
        self.queue.later(json.dumps({"flush": group}), rule.digest_after_seconds)
        return Dispatched(0, 0)

    def _end_failures(self, dispatch: Dispatch, sent: Alert) -> Dispatched:
        """Send what waits of a cause before its end: else its incident would open again, and stay
        so."""
        if sent.kind is not AlertKind.FAILURE_OVER:
            return Dispatched(0, 0)
        group = dispatch.group(dispatch.vouch(sent).alert)
        self.state.end_lease(f"{group}-hour")
        with self._lease(group):
            done = self._send_group(dispatch, group)
        self.state.end_lease(f"{group}-hour")
        return done

    def _refused(self, body: str, error: GovernorError) -> Dispatched:
        """Keep it for a person: it was forged, or an update left it without its seal, or
        unreadable."""
        _log.error("a message was refused: %s", error)
        self.refuse(body, str(error))
        return Dispatched(0, 1)

    @contextmanager
    def _lease(self, name: str) -> Iterator[None]:
        """The queue hands out at least once, and to several at a time: one at a time sends."""
        if not self.state.take_lease(name, self.clock.now(), _LEASE_SECONDS):
            raise LeaseTaken("another worker sends these messages now")
        try:
            yield
        finally:
            self.state.end_lease(name)

    def _send_group(self, dispatch: Dispatch, group: str) -> Dispatched:
        """Send the group. Its messages may be for different people by now: each goes to its own."""
        audiences, total = self._waiting(dispatch, group)
        digest_from = dispatch.rule().digest_from
        for alerts in audiences.values():
            failed = alerts[0][1].kind is AlertKind.FAILURE
            together = failed or (bool(digest_from) and len(alerts) >= digest_from)
            if failed and not self.state.take_lease(
                f"{group}-hour", self.clock.now(), _HOUR_SECONDS
            ):
                self.queue.later(json.dumps({"flush": group}), LONGEST_BACKOFF_SECONDS)
                continue
            done = Dispatched(0, 0)
            for part in in_parts(alerts, _LONGEST_DIGEST if together else 1):
                done = done.plus(self._send_part(dispatch, group, part))
            if failed and done.left:
                self.state.end_lease(f"{group}-hour")
            total = total.plus(done)
        return total

    def _waiting(
        self, dispatch: Dispatch, group: str
    ) -> tuple[dict[str, list[tuple[str, Alert]]], Dispatched]:
        """Return the messages by their audience; what nothing vouches for any more is refused."""
        audiences: dict[str, list[tuple[str, Alert]]] = {}
        total = Dispatched(0, 0)
        for name, text in self.state.outbox(group):
            try:
                found = self.parse(text)
                if isinstance(found, Alert):
                    people = dispatch.group(dispatch.vouch(found).alert)
                    audiences.setdefault(people, []).append((name, found))
            except (InputError, AlertRefused) as error:
                total = total.plus(self._refused(text, error))
                self.state.drop_outbox(group, name)
            except (Throttled, Unavailable):
                raise
            except Exception:  # noqa: BLE001 - logged, and the queue repeats it
                _log.exception("the waiting message %s was not delivered", name)
                total = total.plus(Dispatched(0, 0, left=1))
        return audiences, total

    def _send_part(
        self, dispatch: Dispatch, group: str, part: Sequence[tuple[str, Alert]]
    ) -> Dispatched:
        """Together, and where that fails each by itself: one that cannot be worked on holds up no
        other."""
        try:
            done = dispatch([alert for _, alert in part])
        except (Throttled, Unavailable):
            raise  # in a moment all of them go together
        except Exception:  # noqa: BLE001 - logged, and the queue repeats it
            if len(part) == 1:
                _log.exception("the waiting message %s was not delivered", part[0][0])
                return Dispatched(0, 0, left=1)
            _log.warning("messages that wait together are tried one by one", exc_info=True)
            total = Dispatched(0, 0)
            for one in part:
                total = total.plus(self._send_part(dispatch, group, [one]))
            return total
        if not done.left:
            for name, _ in part:
                self.state.drop_outbox(group, name)
        return done

    def _hide(self, one: Queued, wanted: int | None) -> None:
        backoff = min(LONGEST_BACKOFF_SECONDS, FIRST_WAIT_SECONDS * 2 ** min(one.receives - 1, 10))
        try:
            self.queue.hide(one.receipt, min(LONGEST_WAIT_SECONDS, max(wanted or 0, backoff)))
        except Exception:  # noqa: BLE001 - logged
            # It then comes back after the queue's own visibility time-out.
            _log.exception("a message could not be hidden")
