"""Responses to warnings: each function has only the steps of its own causes, and so only their rights."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from governor.ports import DeadLetters
from governor.usecases.episode.end_episode import VoidEpisode
from governor.usecases.events.notify_warning import AdviseElsewhere
from governor.usecases.events.respond_to_warnings import RespondToWarnings
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import or_last, ready


class ToInterruptions(NamedTuple):
    """The response, and where warnings go that cannot be read."""

    respond: Ready[RespondToWarnings]
    dead_letters: DeadLetters


def respond_to_interruptions(parts: Ec2Parts) -> ToInterruptions:
    """For `handle_spot_interruption`."""
    parts.clients.client("kms")
    void, advise = parts.fill(VoidEpisode), parts.fill(AdviseElsewhere)
    make = partial(parts.fill, RespondToWarnings, void=void, snapshots=parts.snapshots, advise=advise)
    return ToInterruptions(ready(or_last(parts), make), parts.dead_letters)


def respond_to_lifecycle_action(parts: Ec2Parts) -> Ready[RespondToWarnings]:
    """For `handle_lifecycle_action`."""
    parts.clients.client("kms")
    make = partial(parts.fill, RespondToWarnings, void=parts.fill(VoidEpisode), hooks=parts.hooks)
    return ready(or_last(parts), make)
