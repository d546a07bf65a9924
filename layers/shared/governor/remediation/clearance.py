"""The findings of the guards, and for how long a recheck lets one call through.

A clearance is for one step and one call; nothing here renews it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from governor.approvals.refused_answers import UnusedAnswerTime
from governor.core.errors import (
    MetricsLate,
    MustWait,
    SafetyError,
    Throttled,
    Unavailable,
)
from governor.core.instance import Instance
from governor.core.units import UtcDatetime, minutes
from governor.episode.model.episode import Episode, Phase
from governor.episode.model.plan import Step
from governor.policy.model.policy import AppliedPolicy

_A_RECHECK_HOLDS_FOR = timedelta(minutes=2)
"""The longest time between a recheck and the call that it lets through: two invocations with cold
starts."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """Findings of the guards about an episode and one of its steps, read just before the step.

    `dry_run` is true in mode `observe`. `unused_answer_time` is set if the plan rests on silence:
    nobody has answered or held it, and no step has begun. `caps` is by the name of a cap, as
    `ACCOUNT#111122223333`, how many actions it allows in an hour.
    """

    episode: Episode
    instance: Instance
    applied: AppliedPolicy
    dry_run: bool
    unused_answer_time: UnusedAnswerTime | None
    caps: Mapping[str, int]


def must_be_rechecked(cleared: Cleared, steps: Collection[Step]) -> None:
    """Require that the last recheck let one of these steps through, however long ago. Raises:
    SafetyError."""
    episode = cleared.episode
    clearance = episode.clearance
    if episode.phase is not Phase.ACTING or clearance is None:
        raise SafetyError(
            f"the episode is {episode.phase.value}: it was not rechecked before acting"
        )
    if clearance.step not in steps:
        wanted = " or ".join(step.value for step in steps)
        raise SafetyError(f"the last recheck let {clearance.step} through, not {wanted}")


def must_be_in_state(cleared: Cleared, wanted_state: str) -> None:
    """Require this state of the instance, as EC2 showed it when the guards looked. Raises:
    SafetyError."""
    state = cleared.instance.state
    if state != wanted_state:
        raise SafetyError(f"the instance is {state}, not {wanted_state}")


def must_be_fresh(cleared: Cleared, step: Step, now: UtcDatetime) -> UtcDatetime:
    """Return the time of the last recheck, if it may let one call of this step through now.

    Raises: MustWait if there was none, a call was sent after it, or it is older than two minutes.
    """
    episode = cleared.episode
    clearance = episode.clearance
    sent_at = episode.progress.steps_done.get(step.value)
    if clearance is None:
        raise MustWait("there was no recheck yet: everything is checked first")
    # The previous release noted a call, but not that it used up the recheck.
    was_sent_since = sent_at is not None and sent_at >= clearance.at
    if clearance.is_used or was_sent_since:
        raise MustWait(
            "EC2 was asked after the last recheck: everything is checked again before the next call"
        )
    age = now - clearance.at
    if age > _A_RECHECK_HOLDS_FOR:
        raise MustWait(f"the last recheck was {minutes(age)} min ago: everything is checked again")
    return clearance.at


@contextmanager
def unclear_must_wait() -> Iterator[None]:
    """Run the body, and turn Throttled, Unavailable and MetricsLate into MustWait.

    AWS gave no clear answer then, so everything must be checked again. Executions of the previous
    release would repeat Throttled and Unavailable without a recheck.
    """
    try:
        yield
    except (Throttled, Unavailable, MetricsLate) as error:
        raise MustWait(
            f"AWS gave no clear answer, so everything is checked again: {error}"
        ) from error
