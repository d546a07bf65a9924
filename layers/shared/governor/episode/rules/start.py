"""Reads EC2's answers to a start: a refusal, or a look at what became of the instance.

There is no list of refusals (refusal.py). Other answers, and those that are lost, prove nothing:
the instance shows what came of the call.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from governor.core.errors import CloudError, Throttled, Unavailable
from governor.core.instance import Instance
from governor.core.units import clip, printable
from governor.episode.model.start_try import START_CALL, StartTry
from governor.episode.rules.refusal import is_refused_by_ec2
from governor.episode.rules.sent_call import UNDER_WAY_FOR

USER_STOPPED = "Client.UserInitiated"
"""`StateReason` codes of a stop or a hibernation by the API begin so."""
_BY_USER = ("User initiated", USER_STOPPED)
"""Reasons of the last change (`StateTransitionReason`) begin so if a user made it."""
_ENCODED = "Encoded authorization failure message"
"""The text after it can be read only with `sts:DecodeAuthorizationMessage`."""
_LONGEST_WORDS = 400


class StartSeen(StrEnum):
    """The effect of a start, as EC2 shows it."""

    RUNNING = "running"
    UNDER_WAY = "under way"
    FELL_BACK = "fell back"
    """The instance is stopped, for a reason that came after the call."""
    NO_EFFECT = "no effect"
    """The instance is stopped as before, and the call can no longer have an effect."""
    OVERTAKEN = "overtaken"
    """Others stopped or terminated it."""


def is_refusal(error: CloudError) -> bool:
    """Return whether the start was refused for good, so that it has started nothing: by EC2, or
    before EC2 was asked. Return false if AWS was busy or unavailable, or answered with a fault of
    its own or without a code of EC2: the instance may start then."""
    if isinstance(error, Throttled):
        return False
    if error.operation != START_CALL:
        return not isinstance(error, Unavailable)
    return is_refused_by_ec2(error)


def words_of_ec2(message: str) -> str:
    """Return EC2's message as one line that people can read. The encoded part is left out, and a
    message of more than 400 characters is cut."""
    return clip(printable(message.partition(_ENCODED)[0]), _LONGEST_WORDS)


def reason_of_state(instance: Instance) -> str:
    """Return EC2's two reasons for the state of an instance as one text, to compare it with a later
    one; either may be empty."""
    return f"{instance.state_transition_reason} | {instance.state_reason}"


def is_stopped_by_user(instance: Instance) -> bool:
    """Return whether EC2 says that a user stopped the instance. Its code may still be that of an
    earlier stop; the reason of the last change then names no user."""
    if not instance.state_reason.startswith(USER_STOPPED):
        return False
    transition = instance.state_transition_reason
    return not transition or transition.startswith(_BY_USER)


def seen_of(start_try: StartTry, instance: Instance | None, now: datetime) -> StartSeen:
    """Return what came of a start, by the instance as EC2 shows it now: overtaken if it is gone
    (`None`, or terminated) or a user has stopped it since; running; fallen back if it is stopped
    with a new reason or launch time; else under way, or without effect once it has been stopped as
    before for 7 minutes."""
    if instance is None or instance.is_gone:
        return StartSeen.OVERTAKEN
    if instance.state == "running":
        return StartSeen.RUNNING
    if instance.state != "stopped":
        return StartSeen.UNDER_WAY
    has_new_reason = reason_of_state(instance) != start_try.reason_before
    has_new_launch = instance.launch_time != start_try.launched_before
    if has_new_reason and is_stopped_by_user(instance):
        return StartSeen.OVERTAKEN
    if has_new_reason or has_new_launch:
        return StartSeen.FELL_BACK
    # EC2 may show the state before the call for a while.
    if now - start_try.asked_at < UNDER_WAY_FOR:
        return StartSeen.UNDER_WAY
    return StartSeen.NO_EFFECT
