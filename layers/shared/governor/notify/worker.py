"""Works through a batch of queued alerts, and delays the retry of a failed delivery with a growing
backoff. An alert that fails never holds up the others.

A question or a failure waits in the outbox for more of its kind to the same people, and they are
sent as one message. Any other alert is sent at once.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from governor.alerts.delivery import FlushRequest, QueuedMessage, RetryRequest
from governor.alerts.model import FOR_MACHINES, QUESTIONS, Alert, AlertKind
from governor.alerts.store import Deliveries
from governor.core.errors import GovernorError, InputError, Throttled, Unavailable
from governor.core.ports import Clock
from governor.core.units import in_parts
from governor.notify.compose import subject_of
from governor.notify.dispatch import Dispatch
from governor.notify.dispatched import Dispatched
from governor.notify.transport import LONGEST_WAIT_SECONDS
from governor.notify.verify_alert import AlertRefused

_log = logging.getLogger(__name__)
FIRST_WAIT_SECONDS = 15
"""How long a message waits after its first failure. Each failure doubles the wait, up to
`LONGEST_BACKOFF_SECONDS`."""
LONGEST_BACKOFF_SECONDS = 900
_LEASE_SECONDS = 300
"""The timeout of the function: a worker that holds a lease for longer has died."""
_MOST_ALERTS_IN_A_MESSAGE = 40
"""The other alerts come in another message."""
_HOUR_SECONDS = 3600
"""The least time between two messages about failures of one cause."""


Waiting = Sequence[tuple[str, Alert]]
"""Alerts from the outbox, each with the name it is stored under."""


class Queue(Protocol):
    """The queue of alerts."""

    def retry_after(self, receipt: str, seconds: int) -> None:
        """Hand the message out again after this many seconds. Raises: CloudError."""
        ...

    def send_later(self, body: str, seconds: int) -> None:
        """Queue a message that is handed out after this many seconds. Raises: CloudError."""
        ...


class LeaseTaken(GovernorError):
    """Another worker sends the same group, or about the same episode, at this moment."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Sends queued alerts.

    `make_dispatch` returns the dispatch for one message. `parse` returns the content of a body, and
    raises InputError. Questions to the same people leave the outbox as one message; so do failures,
    by cause and hour.
    """

    clock: Clock
    make_dispatch: Callable[[], Dispatch]
    delivery_store: Deliveries
    queue: Queue
    refuse: Callable[[str, str], None]
    """Puts a refused body, with the reason, where a person sees it. Raises: CloudError."""
    parse: Callable[[str], Alert | FlushRequest | RetryRequest]
    count_result: Callable[[Dispatched, float], None]
    """Counts, for metrics: called with the result of each message, and with the seconds by which
    the message is, or will be, late."""

    def __call__(self, batch: Sequence[QueuedMessage]) -> list[str]:
        """Work through the messages, one by one. Return the ids of those that must stay in the
        queue; empty if all are done. A message that fails raises nothing."""
        ids_left: list[str] = []
        for message in batch:
            done = self._try_message(message)
            if done.left:
                ids_left.append(message.message_id)
        return ids_left

    def _try_message(self, message: QueuedMessage) -> Dispatched:
        """Do what one message asks for; return the counts of its deliveries. A message of which
        something is left stays in the queue, and is tried again after a delay. It raises
        nothing."""
        # One delivery is left unless the message can be worked through.
        done = Dispatched(0, 0, left=1)
        try:
            done = self._carry_out(self.make_dispatch(), message.body)
        except LeaseTaken as error:
            _log.info("a message is left: %s", error)
        except Exception:  # noqa: BLE001 - logged
            # Only this message fails: the queue repeats it, and finally moves it to its
            # dead-letter queue.
            _log.exception("a message was not delivered")
        seconds_late = 0.0
        if done.left:
            age_seconds = 0.0
            if message.sent_at is not None:
                age_seconds = (self.clock.now() - message.sent_at).total_seconds()
            seconds_late = max(age_seconds, float(done.retry_after_seconds or 0))
            self._delay_retry(message, done.retry_after_seconds)
        self.count_result(done, seconds_late)
        return done

    def _carry_out(self, dispatch: Dispatch, body: str) -> Dispatched:
        """Send the alert in a body, or the waiting messages of the group that it names; return the
        counts. An alert that is refused is put aside and counts as refused. An alert for machines
        alone, and the end of another stack's alarm, is not sent and counts nothing.

        Raises: LeaseTaken if another worker sends the group; InputError for a body of another form;
        ConfigurationError if links cannot be made; CloudError.
        """
        parsed = self.parse(body)
        if isinstance(parsed, FlushRequest):
            # Each waiting message has queued a flush. The first flush sends all of them.
            with self._lease(parsed.group):
                return self._send_group(dispatch, parsed.group)
        is_again = isinstance(parsed, RetryRequest)
        sent = parsed.alert if isinstance(parsed, RetryRequest) else parsed
        if sent.kind in FOR_MACHINES:
            return Dispatched(0, 0)
        try:
            return self._send(dispatch, sent, body, again=is_again)
        except AlertRefused as error:
            if sent.kind is AlertKind.ALARM_OVER:
                # The end of an alarm of another stack, whose name begins like ours.
                return Dispatched(0, 0)
            return self._put_aside(body, error)

    def _send(self, dispatch: Dispatch, sent: Alert, body: str, *, again: bool) -> Dispatched:
        """Send an alert. A failure, or a question if the policy joins questions, is put into the
        outbox instead, unless it comes `again`, and a flush is queued that sends it with others.
        Raises: AlertRefused if nothing proves it; LeaseTaken; ConfigurationError if links cannot be
        made; CloudError."""
        rule = dispatch.rule()
        is_failure = sent.kind is AlertKind.FAILURE
        is_question = sent.kind in QUESTIONS and bool(rule.digest_from)
        if again or not (is_failure or is_question):
            return self._send_at_once(dispatch, sent, again=again)
        alert = dispatch.verify(sent).alert
        group = dispatch.group(alert)
        # In this order: a flush of an empty outbox would leave the alert there.
        self.delivery_store.put_outbox(group, alert.dedup_id, body, alert.at)
        self.queue.send_later(json.dumps({"flush": group}), rule.digest_after_seconds)
        return Dispatched(0, 0)

    def _send_at_once(self, dispatch: Dispatch, sent: Alert, *, again: bool) -> Dispatched:
        """Send one alert now, while no other worker sends about its subject; return the counts.
        Before the end of a cause of failures, send the failures that still wait; if one of those is
        left, leave the alert. Raises: AlertRefused if nothing proves the alert; LeaseTaken if
        another worker sends; ConfigurationError if links cannot be made; CloudError."""
        done = self._send_failures_before_end(dispatch, sent)
        # One lease for an alarm and its end: if two workers sent them at the same time, the alarm
        # could open again after its end.
        with self._lease(str(sent.facts.get("alarm") or subject_of(sent))):
            if done.left:
                return done
            return done.plus(dispatch([sent], again=again))

    def _send_failures_before_end(self, dispatch: Dispatch, sent: Alert) -> Dispatched:
        """If the alert is the end of a cause of failures, send the failures of that cause that
        still wait in the outbox; return their counts. Do nothing for any other alert, and count
        zero.

        If they were sent after it, they would open the incident again, and nothing would close it.
        Raises: AlertRefused if nothing proves the alert; LeaseTaken if another worker sends the
        failures; CloudError.
        """
        if sent.kind is not AlertKind.FAILURE_OVER:
            return Dispatched(0, 0)
        group = dispatch.group(dispatch.verify(sent).alert)
        # Before, so that the waiting failures are sent now; and after, so that failures of a new
        # incident need not wait for an hour.
        self.delivery_store.end_lease(f"{group}-hour")
        with self._lease(group):
            done = self._send_group(dispatch, group)
        self.delivery_store.end_lease(f"{group}-hour")
        return done

    def _put_aside(self, body: str, error: GovernorError) -> Dispatched:
        """Put a refused body where a person sees it, and count one refused delivery: it was forged,
        or a release changed its seal or format. Raises: CloudError."""
        _log.error("a message was refused: %s", error)
        self.refuse(body, str(error))
        return Dispatched(0, 1)

    @contextmanager
    def _lease(self, name: str) -> Iterator[None]:
        """Hold the lease of this name meanwhile, so that only one worker at a time sends: the queue
        may hand out a message twice. Raises: LeaseTaken if another worker holds it; CloudError."""
        if not self.delivery_store.take_lease(name, self.clock.now(), _LEASE_SECONDS):
            raise LeaseTaken("another worker sends these messages now")
        try:
            yield
        finally:
            self.delivery_store.end_lease(name)

    def _send_group(self, dispatch: Dispatch, group: str) -> Dispatched:
        """Send the messages of a group that wait in the outbox; return the counts. They may be for
        different people by now, so each audience gets a message of its own: a digest from
        `digest_from` alerts on (never, if that is 0), else one message for each alert. Call it only
        under the group's lease. Raises: CloudError."""
        audiences, total = self._waiting(dispatch, group)
        digest_from = dispatch.rule().digest_from
        for waiting in audiences.values():
            _, first_alert = waiting[0]
            if first_alert.kind is AlertKind.FAILURE:
                done = self._send_failures(dispatch, group, waiting)
            else:
                is_digest = bool(digest_from) and len(waiting) >= digest_from
                most_together = _MOST_ALERTS_IN_A_MESSAGE if is_digest else 1
                done = self._send_parts(dispatch, group, waiting, most_together)
            total = total.plus(done)
        return total

    def _send_failures(self, dispatch: Dispatch, group: str, waiting: Waiting) -> Dispatched:
        """Send failures of one cause together; return the counts. If others of the cause were sent
        within the hour, leave these in the outbox, queue another flush and count nothing. Raises:
        CloudError."""
        if not self.delivery_store.take_lease(f"{group}-hour", self.clock.now(), _HOUR_SECONDS):
            self.queue.send_later(json.dumps({"flush": group}), LONGEST_BACKOFF_SECONDS)
            return Dispatched(0, 0)
        done = self._send_parts(dispatch, group, waiting, _MOST_ALERTS_IN_A_MESSAGE)
        if done.left:
            # So that the next try need not wait for an hour.
            self.delivery_store.end_lease(f"{group}-hour")
        return done

    def _send_parts(
        self, dispatch: Dispatch, group: str, waiting: Waiting, most_together: int
    ) -> Dispatched:
        """Send waiting messages, at most `most_together` of them in one; return the counts. Raises:
        CloudError."""
        total = Dispatched(0, 0)
        for part in in_parts(waiting, most_together):
            total = total.plus(self._send_part(dispatch, group, part))
        return total

    def _waiting(
        self, dispatch: Dispatch, group: str
    ) -> tuple[dict[str, list[tuple[str, Alert]]], Dispatched]:
        """Return the waiting messages of a group by their audience (the group that they belong to
        now), and the counts of those that were refused or left. Refused ones are put aside and
        leave the outbox; one that fails otherwise is logged, and left; one that holds no alert is
        passed over. Raises: CloudError; of failures to check a message, only Throttled and
        Unavailable."""
        audiences: dict[str, list[tuple[str, Alert]]] = {}
        total = Dispatched(0, 0)
        for name, text in self.delivery_store.outbox(group):
            try:
                alert = self.parse(text)
                if isinstance(alert, Alert):
                    people = dispatch.group(dispatch.verify(alert).alert)
                    audiences.setdefault(people, []).append((name, alert))
            except (InputError, AlertRefused) as error:
                total = total.plus(self._put_aside(text, error))
                self.delivery_store.drop_outbox(group, name)
            except (Throttled, Unavailable):
                raise
            except Exception:  # noqa: BLE001 - logged, and the queue repeats it
                _log.exception("the waiting message %s was not delivered", name)
                total = total.plus(Dispatched(0, 0, left=1))
        return audiences, total

    def _send_part(self, dispatch: Dispatch, group: str, part: Waiting) -> Dispatched:
        """Send these waiting messages as one; return the counts. If that fails, send each by
        itself, so that one that cannot be sent does not hold up the rest. Only if nothing is left,
        they leave the outbox. Raises: CloudError."""
        try:
            done = dispatch([alert for _, alert in part])
        except (Throttled, Unavailable):
            # A repeat can send all of them together.
            raise
        except Exception:  # noqa: BLE001 - logged, and the queue repeats it
            if len(part) == 1:
                [(name, _)] = part
                _log.exception("the waiting message %s was not delivered", name)
                return Dispatched(0, 0, left=1)
            _log.warning("messages that wait together are tried one by one", exc_info=True)
            total = Dispatched(0, 0)
            for name_and_alert in part:
                total = total.plus(self._send_part(dispatch, group, [name_and_alert]))
            return total
        if not done.left:
            for name, _ in part:
                self.delivery_store.drop_outbox(group, name)
        return done

    def _delay_retry(self, message: QueuedMessage, wanted_seconds: int | None) -> None:
        """Delay the retry of a delivery: the queue hands out the message again after the
        `wanted_seconds` of the channel (`None` if it named no time) or the backoff, whichever is
        longer, and 12 hours at most. The backoff is 15 seconds at first, doubles with each time
        that the message was received, and is 15 minutes at most. It raises nothing."""
        # Limited, so that the power of two stays small.
        doublings = min(message.receives - 1, 10)
        backoff = min(LONGEST_BACKOFF_SECONDS, FIRST_WAIT_SECONDS * 2**doublings)
        seconds = min(LONGEST_WAIT_SECONDS, max(wanted_seconds or 0, backoff))
        try:
            self.queue.retry_after(message.receipt, seconds)
        except Exception:  # noqa: BLE001 - logged
            # The message then comes back after the queue's own visibility timeout.
            _log.exception("the next try of a message could not be delayed")
