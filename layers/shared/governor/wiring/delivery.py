"""Wiring of the worker that takes alerts from their queue to the channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from governor.aws.cloudwatch import CloudWatchAlarms
from governor.aws.messaging import SesMailService
from governor.core.errors import ConfigurationError
from governor.notify.contract import parse_queued
from governor.notify.dispatch import Dispatch
from governor.notify.dispatched import Dispatched
from governor.notify.registry import Registry
from governor.notify.verify_alert import VerifyAlert
from governor.notify.worker import Worker
from governor.policy.document import PolicyBook, parse_policy
from governor.wiring.parts import Parts
from governor.wiring.policies import or_last


def delivery_worker(parts: Parts, count_result: Callable[[Dispatched, float], None]) -> Worker:
    """Return the worker of `deliver_alert`. For each message it reads the channel secret, and the
    policy: that in force, or the last accepted one. It alone stores the accepted one for that.

    `count_result` gets the counts of each message, and by how many seconds it is late. Raises:
    ConfigurationError if a setting is missing.
    """
    policies = or_last(parts, keep=True)
    secret = parts.channel_secret
    sender = parts.settings.email_sender
    mail = SesMailService(parts.clients) if sender else None
    parts.clients.client("kms")
    alarms = CloudWatchAlarms(parts.clients, parts.settings.need("alarm_topic_arn"))
    verify = VerifyAlert(
        clock=parts.clock,
        episode_store=parts.episode_store,
        approval_store=parts.approval_store,
        seal=parts.seal,
        alarms=alarms,
    )

    def make(book: PolicyBook, stored: Mapping[str, str], problem: str | None = None) -> Dispatch:
        """Return the dispatch under this policy and channel secret; `problem` says why the secret
        cannot be read."""
        registry = Registry(stored, mail, sender or None, parts.clock, problem)
        return Dispatch(
            clock=parts.clock,
            policies=book,
            delivery_store=parts.delivery_store,
            sweep_store=parts.sweep_store,
            failure_store=parts.failure_store,
            signer=parts.signer,
            registry=registry,
            dead_letter=parts.failures.dead_letter,
            verify=verify,
            delivery_seal=parts.delivery_seal,
        )

    def dispatch() -> Dispatch:
        """Return the dispatch of one message, with policy and secret read now. If the secret is no
        JSON object of strings, it counts as empty, and one route refuses each message with that
        reason. Raises: CloudError."""
        stored: Mapping[str, str] = {}
        problem = None
        try:
            stored = secret.read()
        except ConfigurationError as error:
            problem = str(error)
        return make(policies(), stored, problem)

    # At cold start, so that a missing setting shows.
    make(parse_policy(""), {})
    return Worker(
        clock=parts.clock,
        make_dispatch=dispatch,
        delivery_store=parts.delivery_store,
        queue=parts.queue,
        refuse=parts.failures.keep,
        parse=parse_queued,
        count_result=count_result,
    )
