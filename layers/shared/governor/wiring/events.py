"""Wiring of the responses to warnings and dates of AWS. Each function has only the steps for its
own causes, and so needs only their permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from governor.episode.ports import Snapshotter
from governor.events.notify_dates import NotifyDates
from governor.events.notify_warning import AdviseElsewhere, NotifyWarning
from governor.events.respond_to_warnings import LifecycleHooks, RespondToWarnings
from governor.events.send_checkpoint import SendCheckpoint
from governor.policy.document import PolicyBook
from governor.remediation.void_episode import VoidEpisode
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.endings import void_episode
from governor.wiring.policies import or_last, ready


class ToInterruptions(NamedTuple):
    """The response, and the function that keeps a warning that cannot be read, with the reason."""

    respond: Ready[RespondToWarnings]
    keep: Callable[[str, str], None]


def respond_to_interruptions(parts: Ec2Parts) -> ToInterruptions:
    """Return the response of `handle_spot_interruption`, made for each invocation, and what keeps
    a warning that cannot be read. The response also cancels the question, takes snapshots and
    advises where else to run. It works under the policy in force, or the last accepted one if that
    is refused or cannot be read. Raises: ConfigurationError if a setting is missing."""
    # Opened now, so that the first message is sealed without a delay.
    parts.clients.client("kms")

    def make(policies: PolicyBook) -> RespondToWarnings:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return _respond_to_warnings(
            parts,
            policies,
            void=void_episode(parts),
            snapshots=parts.snapshots,
            advise=_advise_elsewhere(parts),
        )

    return ToInterruptions(ready(or_last(parts), make), parts.dead_letters.keep)


def respond_to_lifecycle_action(parts: Ec2Parts) -> Ready[RespondToWarnings]:
    """Return the response of `handle_lifecycle_action`, made for each invocation: it also cancels
    the question and completes the lifecycle hook. It works under the policy in force, or the last
    accepted one if that is refused or cannot be read. Raises: ConfigurationError if a setting is
    missing."""
    # Opened now, so that the first message is sealed without a delay.
    parts.clients.client("kms")

    def make(policies: PolicyBook) -> RespondToWarnings:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return _respond_to_warnings(parts, policies, void=void_episode(parts), hooks=parts.hooks)

    return ready(or_last(parts), make)


def respond_to_rebalance_recommendation(parts: Ec2Parts) -> Ready[RespondToWarnings]:
    """Return the response of `handle_rebalance_recommendation`, made for each invocation: it
    notifies and sends the checkpoint only. It works under the policy in force, or the last accepted
    one if that is refused or cannot be read. Raises: ConfigurationError if a setting is missing."""

    def make(policies: PolicyBook) -> RespondToWarnings:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return _respond_to_warnings(parts, policies)

    return ready(or_last(parts), make)


def _respond_to_warnings(
    parts: Ec2Parts,
    policies: PolicyBook,
    *,
    void: VoidEpisode | None = None,
    snapshots: Snapshotter | None = None,
    advise: AdviseElsewhere | None = None,
    hooks: LifecycleHooks | None = None,
) -> RespondToWarnings:
    """Return the response that notifies and sends the checkpoint, and has these further steps: to
    void the question, make snapshots, advise where else to run, and complete lifecycle hooks. A
    step that is `None` belongs to no cause of the function."""
    return RespondToWarnings(
        clock=parts.clock,
        policies=policies,
        accounts=parts.accounts,
        instances=parts.instances,
        instance_store=parts.instance_store,
        once=parts.once,
        notify=_notify_warning(parts),
        checkpoint=_send_checkpoint(parts),
        void=void,
        snapshots=snapshots,
        advise=advise,
        hooks=hooks,
    )


def notify_dates(parts: Ec2Parts) -> Ready[NotifyDates]:
    """Return a function that makes the use case of `handle_notice` for each invocation, under the
    policy in force then, or the last accepted one if that is refused or cannot be read. The
    function raises CloudError if neither can be read.

    Raises: ConfigurationError now, at cold start, if a setting is missing.
    """

    def make(policies: PolicyBook) -> NotifyDates:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        return NotifyDates(
            clock=parts.clock,
            policies=policies,
            accounts=parts.accounts,
            instances=parts.instances,
            notice_store=parts.notice_store,
            once=parts.once,
            announcer=parts.announcer,
        )

    return ready(or_last(parts), make)


def _notify_warning(parts: Ec2Parts) -> NotifyWarning:
    """Return the step that notifies people of a warning."""
    return NotifyWarning(
        clock=parts.clock,
        instances=parts.instances,
        burst_store=parts.burst_store,
        once=parts.once,
        announcer=parts.announcer,
    )


def _send_checkpoint(parts: Ec2Parts) -> SendCheckpoint:
    """Return the step that starts the checkpoint hook on the instance."""
    return SendCheckpoint(
        clock=parts.clock, hook=parts.hook, once=parts.once, announcer=parts.announcer
    )


def _advise_elsewhere(parts: Ec2Parts) -> AdviseElsewhere:
    """Return the step that advises where else the work could run."""
    return AdviseElsewhere(
        clock=parts.clock, market=parts.market, once=parts.once, announcer=parts.announcer
    )
