"""The words of a failure: its cause as a sentence, the step that failed, and what to do next.

Failures of one cause share a hash, so that people get one message of them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from governor.alerts.templates import first_line_of
from governor.core.errors import Unsealed
from governor.core.hashing import short_hash
from governor.core.units import (
    UtcDatetime,
    holds_words_of_people,
    people_in_record,
    sentence,
    times_in_zone,
)
from governor.episode.model.episode import Episode, EpisodeEnding, Outcome, Phase
from governor.episode.model.plan import Step
from governor.episode.rules.plan import main_of
from governor.policy.model.policy import Mode

_TIMEOUTS = ("States.Timeout", "States.HeartbeatTimeout")
_WAITING = ("StepTimedOut", "SnapshotFailed")
"""Errors of a step that was begun and did not complete."""
_JSON_MESSAGE = re.compile(r'"errorMessage":\s*"((?:[^"\\]|\\.)*)')
_ERROR = re.compile(
    r"(?P<name>(?:States|Lambda|Sandbox)\.[A-Za-z.]+|[A-Z][a-z]+(?:[A-Z][A-Za-z0-9]*)+|Throttled"
    r"|Unavailable|Protected|Unsupported|Interrupted): ?(?P<cause>.*)",
    re.DOTALL,
)
_NOT_KNOWN = "the cause is not known"
_AFTER_AN_ERROR = frozenset({Outcome.FAILED, Outcome.REFUSED, Outcome.INTERRUPTED})
"""Outcomes whose reason may begin with the name of an error."""
_VARIES = re.compile(r"\b[a-z]+-[0-9a-f]{8,17}\b|[0-9a-f]{8}-[0-9a-f-]{27}|\S{60,}|\d+")
"""Ids, times, ARNs and encoded texts: parts that differ between failures of one cause."""


def next_step(reason: str) -> str:
    """Return what people should do about a failure, as one line. `reason` is the failure as
    recorded, such as `Throttled: too many calls`."""
    error = error_and_cause(reason).error
    return first_line_of("advice", error=error)


class ErrorAndCause(NamedTuple):
    """The parts of the reason of a failure."""

    error: str
    """The name of the error, such as `AccessDenied`; empty if the reason names none."""
    cause: str
    """The message of the error, or the whole reason."""


def error_and_cause(reason: str) -> ErrorAndCause:
    """Return the name of the error in this reason of a failure, and its message, from which the
    JSON of Lambda is removed. Call it for no other reason: that may begin with a person's words.

    The name is empty if the reason names no error, or one of Lambda or Step Functions that says
    nothing of the cause; timeouts of Step Functions keep theirs.
    """
    match = _ERROR.fullmatch(reason.strip())
    if match is None:
        return ErrorAndCause("", reason)
    name = match["name"]
    cause = match["cause"]
    json_message = _JSON_MESSAGE.search(cause)
    if json_message is not None:
        cause = json_message[1].replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
    if name.startswith(("Lambda.", "Sandbox.", "States.")) and name not in _TIMEOUTS:
        failed = f"a function of GPU Governor failed: {cause or 'it gave no cause'}"
        return ErrorAndCause("", failed)
    return ErrorAndCause(name, cause or "no cause was given")


def failed_step_of(episode: Episode | None, reason: str) -> str:
    """Return the name of the step that failed, such as `stop`; `ask` if the episode failed before
    its first step, or was never stored (`None`).

    It is the last step begun if the error says that this one did not complete, or no step is
    ahead; the snapshots if they were begun and none is recorded; else the first step ahead; `stop`
    for a plan without steps.
    """
    if episode is None:
        return "ask"
    if not episode.own_steps and episode.phase in (Phase.OPENING, Phase.ASKING):
        return "ask"
    return _failed_step_of_plan(episode, error_and_cause(reason).error).value


def _failed_step_of_plan(episode: Episode, error: str) -> Step:
    """Return the step of the plan that failed with this error, as `failed_step_of` does."""
    steps_done = [step for step in episode.plan.steps if step in episode.progress.steps_done]
    steps_ahead = [step for step in episode.plan.steps if step not in steps_done]
    if steps_done and (error in _WAITING or not steps_ahead):
        return steps_done[-1]
    if _lacks_begun_snapshots(episode):
        return Step.SNAPSHOT
    if steps_ahead:
        # A Spot request is canceled by the function that terminates, and never noted.
        return main_of(episode.plan.steps, steps_ahead[0])
    return Step.STOP


def _lacks_begun_snapshots(episode: Episode) -> bool:
    """Return whether snapshots were begun and none is recorded: EC2 refused them. A dry run, which
    is all that mode observe asks for, records none in any case."""
    if episode.mode is Mode.OBSERVE:
        return False
    progress = episode.progress
    return Step.SNAPSHOT in progress.steps_done and not progress.snapshots


def step_text(step: object) -> str:
    """Return a failed step, such as `stop`, as the words between `Could not` and a name."""
    return first_line_of("failed step", step=step)


def cause_of(reason: str) -> str:
    """Return a hash that workflows share if they failed for the same cause: ids, times and numbers
    in the reason do not count."""
    return short_hash(_VARIES.sub("#", reason))


def readable(reason: str, zone: str, now: UtcDatetime) -> str:
    """Return a recorded reason that names no error as a sentence for people, with its times in this
    time zone, relative to `now`. An empty reason becomes the sentence that the cause is not known.
    """
    return sentence(readable_clause(reason or _NOT_KNOWN, zone, now))


def readable_clause(reason: str, zone: str, now: UtcDatetime) -> str:
    """Return a recorded reason as `readable` does, but as the part of a sentence; empty for an
    empty one. What a person typed stays as it is."""
    text = people_in_record(reason)
    if holds_words_of_people(reason):
        return text
    return times_in_zone(text, zone, now).replace(" %", "%")


def readable_failure(reason: str, zone: str, now: UtcDatetime) -> str:
    """Return the reason of a failure, which may begin with the name of an error, as a sentence for
    people, as `readable` does."""
    error, cause = error_and_cause(reason or _NOT_KNOWN)
    return readable(first_line_of("error", error=error, cause=cause), zone, now)


def readable_end(outcome: Outcome, reason: str, zone: str, now: UtcDatetime) -> str:
    """Return why an episode ended, for people. The reason is read as an error only after an outcome
    that an error leads to: after another one, it may begin with words that a person typed."""
    if outcome in _AFTER_AN_ERROR:
        return readable_failure(reason, zone, now)
    # A guard notes the lack of a seal with the name of its error.
    return readable(reason.removeprefix(f"{Unsealed.__name__}: "), zone, now)


def why_ended(ending: EpisodeEnding, zone: str, now: UtcDatetime) -> str:
    """Return the reason of this ending as `readable_end` does."""
    return readable_end(ending.outcome, ending.reason, zone, now)
