"""Responses to warnings."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

from governor.adapters.auto_scaling import AutoScalingHooks
from governor.adapters.checkpoint import RunCommandHook
from governor.adapters.spot_market import Ec2SpotMarket
from governor.adapters.sqs import SqsDeadLetters
from governor.ports import CheckpointHook, DeadLetters, LifecycleHooks, SiblingTypes, SpotMarket
from governor.usecases.events.notify_warning import AdviseElsewhere, NotifyWarning
from governor.usecases.events.respond_to_warnings import RespondToWarnings
from governor.usecases.events.send_checkpoint import SendCheckpoint
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import or_last, ready


class EventParts(Ec2Parts):
    """As `Ec2Parts`."""

    @cached_property
    def hook(self) -> CheckpointHook | None:
        document = self.settings.checkpoint_document_name
        return RunCommandHook(self.clients, document) if document else None

    @cached_property
    def hooks(self) -> LifecycleHooks:
        return AutoScalingHooks(self.clients)

    @cached_property
    def market(self) -> SpotMarket:
        return Ec2SpotMarket(self.clients)

    @cached_property
    def types(self) -> SiblingTypes:
        return self.catalogue

    @cached_property
    def dead_letters(self) -> DeadLetters:
        return SqsDeadLetters(self.clients, self.settings.need("dead_letter_queue_url"))

    @cached_property
    def notify(self) -> NotifyWarning:
        return self.fill(NotifyWarning)

    @cached_property
    def checkpoint(self) -> SendCheckpoint:
        return self.fill(SendCheckpoint)


class ToInterruptions(NamedTuple):
    """The response, and where warnings go that cannot be read."""

    respond: Ready[RespondToWarnings]
    dead_letters: DeadLetters


def respond_to_interruptions(parts: EventParts) -> ToInterruptions:
    """For `handle_spot_interruption`."""
    respond = _respond(parts, void=parts.void, snapshots=parts.snapshots, advise=parts.fill(AdviseElsewhere))
    return ToInterruptions(respond, parts.dead_letters)


def respond_to_lifecycle_action(parts: EventParts) -> Ready[RespondToWarnings]:
    """For `handle_lifecycle_action`."""
    return _respond(parts, void=parts.void, hooks=parts.hooks)


def _respond(parts: EventParts, **more: Any) -> Ready[RespondToWarnings]:
    """Each function has only the steps that follow from its causes, and so only their rights."""
    return ready(or_last(parts), partial(parts.fill, RespondToWarnings, **more))
