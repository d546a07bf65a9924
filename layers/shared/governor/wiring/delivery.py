"""The worker that takes alerts from their queue to the channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from governor.adapters.ses import SesMailService
from governor.adapters.sqs import SqsDeadLetters, SqsParkedAlerts, SqsQueue
from governor.channels.dispatch import Dispatch, Dispatched
from governor.channels.registry import Registry
from governor.channels.worker import Queue, Worker
from governor.contracts.alerts import parse_queued
from governor.errors import ConfigurationError
from governor.ports import DeadLetters
from governor.wiring.parts import Parts
from governor.wiring.policies import make_ready, or_last


def delivery_worker(
    parts: Parts,
    seen: Callable[[Dispatched, float], None],
    *,
    queue: Queue | None = None,
    failures: DeadLetters | None = None,
) -> Worker:
    """For `deliver_alert`. Policy and secret are read for each message."""
    known, clients, clock, state = parts.settings, parts.clients, parts.clock, parts.state
    policies, secret, signer = or_last(parts, keep=True), parts.channel_secret, parts.signer
    mail = SesMailService(clients) if known.email_sender else None
    clients.client("sqs")
    make_ready()
    park = SqsParkedAlerts(failures or SqsDeadLetters(clients, known.need("delivery_failures_url")))

    def dispatch() -> Dispatch:
        stored: Mapping[str, str] = {}
        problem = None
        try:
            stored = secret.read()
        except ConfigurationError as error:
            problem = str(error)
        registry = Registry(stored, mail, known.email_sender or None, clock, problem)
        return Dispatch(clock, policies(), state, signer, registry, park)

    own = queue or SqsQueue(clients, known.need("delivery_queue_url"))
    return Worker(clock, dispatch, state, own, parse_queued, seen)
