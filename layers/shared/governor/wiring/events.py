"""Wiring of the responses to warnings. Each function has only the steps for its own causes, and so
needs only their rights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from governor.events.notify_warning import AdviseElsewhere
from governor.events.respond_to_warnings import RespondToWarnings
from governor.remediation.end_episode import VoidEpisode
from governor.wiring.basics import Ready
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.policies import or_last, ready


class ToInterruptions(NamedTuple):
    """The response, and the function that keeps a warning that cannot be read, with the reason."""

    respond: Ready[RespondToWarnings]
    keep: Callable[[str, str], None]


def respond_to_interruptions(parts: Ec2Parts) -> ToInterruptions:
    """Return the response of `handle_spot_interruption`."""
    parts.clients.client("kms")
    void = parts.fill(VoidEpisode)
    advise = parts.fill(AdviseElsewhere)
    make = partial(
        parts.fill, RespondToWarnings, void=void, snapshots=parts.snapshots, advise=advise
    )
    return ToInterruptions(ready(or_last(parts), make), parts.dead_letters.keep)


def respond_to_lifecycle_action(parts: Ec2Parts) -> Ready[RespondToWarnings]:
    """Return the response of `handle_lifecycle_action`."""
    parts.clients.client("kms")
    make = partial(parts.fill, RespondToWarnings, void=parts.fill(VoidEpisode), hooks=parts.hooks)
    return ready(or_last(parts), make)
