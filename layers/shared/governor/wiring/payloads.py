"""The payloads between state machines and functions. Unknown fields are refused, so a mismatch
fails early."""

from __future__ import annotations

import json
import math
from datetime import timedelta
from typing import Literal

from pydantic import Field

from governor.approvals.model.approval import Stage
from governor.core.episode_ref import EpisodeRef
from governor.core.parsing import AccountId, Event, InstanceId, Moment, Payload, Region
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step, Until
from governor.policy.rules.schedule import Schedule


class TargetPayload(Payload):
    """One account and Region to sweep or to check."""

    account: AccountId
    region: Region


class PlanPayload(Payload):
    """The purpose of a list of targets."""

    check: Literal["sweep", "health", "scan"] = "sweep"


class SweptPayload(Payload):
    """The outcomes of a sweep of `target_count` targets. `failed` means that the table holds the
    reason; `None` stands for a failure that could not be noted, and for a child that died. There
    are no targets where `targets.without` leaves out every place."""

    outcomes: list[Literal["swept", "failed"] | None]
    target_count: int = Field(ge=0)


class EpisodePayload(TargetPayload):
    """The name of an episode: the whole input of the remediation machine."""

    instance_id: InstanceId
    launch_time: Moment
    number: int = Field(ge=1)

    def to_domain(self) -> EpisodeRef:
        """Return the name as the use cases know it."""
        return EpisodeRef(
            self.account, self.region, self.instance_id, self.launch_time, self.number
        )


class EpisodeOnlyPayload(Payload):
    episode: EpisodePayload


TAKES_NEW_TIMES = "takes new times and waits"
_TAKES_TIMES_ALONE = "takes new times"
"""The reason in definitions of the release before. Their executions may be open for weeks."""


class AskPayload(EpisodeOnlyPayload):
    """Input of `ask_owner`. `reason` says why an approved step waits, or `TAKES_NEW_TIMES`."""

    stage: Stage
    task_token: str | None = Field(default=None, max_length=2048)
    reason: str = ""

    @property
    def takes_new_times(self) -> bool:
        """Return whether the workflow waits for the times in the answer, if there are any.

        Definitions of some earlier releases do not. It is no field of its own, because functions of
        the previous release refuse fields that they do not know, and may serve this definition
        after a rollback.
        """
        return self.stage is Stage.ASK and self.reason in (TAKES_NEW_TIMES, _TAKES_TIMES_ALONE)

    @property
    def takes_waits(self) -> bool:
        """Return whether the workflow asks again after the seconds in the answer. Definitions of
        earlier releases wait after an error instead."""
        return self.stage is Stage.ASK and self.reason == TAKES_NEW_TIMES


class ConcludePayload(EpisodeOnlyPayload):
    """Input of `conclude_approval`: whether somebody has answered, or the time has run out."""

    answered: bool = False


class RecheckPayload(EpisodeOnlyPayload):
    before: Literal[Step.STOP, Step.SNAPSHOT, Step.TERMINATE]


class PutAwayPayload(EpisodeOnlyPayload):
    action: Literal[Step.STOP, Step.TERMINATE]


class SnapshotPayload(EpisodeOnlyPayload):
    """Input of `take_snapshot`: with `rehearse`, EC2 is only asked whether it would make them."""

    rehearse: bool = False


class ProgressPayload(EpisodeOnlyPayload):
    until: Until


class UndoPayload(EpisodeOnlyPayload):
    """Input of `undo_episode`: the person who asks for it, as the channel has verified."""

    by: str = Field(min_length=1, max_length=256)
    channel: Literal["page", "console", "slack", "command-line"]


class StepError(Event):
    error: str = Field(default="unknown error", alias="Error")
    cause: str = Field(default="", alias="Cause")

    def as_mapping(self) -> dict[str, str]:
        """Return the error as `{"Error": ..., "Cause": ...}` for the use case. If the cause is the
        JSON of a Lambda error, its message stands in place of it."""
        cause = self.cause
        try:
            wrapped = json.loads(cause)
        except ValueError:
            wrapped = None
        if isinstance(wrapped, dict) and isinstance(wrapped.get("errorMessage"), str):
            cause = wrapped["errorMessage"]
        return {"Error": self.error, "Cause": cause}


class OutcomePayload(EpisodeOnlyPayload):
    """Input of `record_outcome`: an outcome, or the error that a step ended in."""

    outcome: Outcome | None = None
    reason: str = ""
    error: StepError | None = None


def stage_seconds(times: Schedule, now: UtcDatetime) -> dict[str, int]:
    """Return how long the workflow waits before it asks, and then in each stage.

    Step Functions takes whole seconds, at least one to time out. They are rounded up, so that
    nobody gets less time.
    """
    return {
        "ask_after_seconds": math.ceil((times.ask_at - now).total_seconds()),
        "remind_after_seconds": _timeout_seconds(times.remind_at - times.ask_at),
        "escalate_after_seconds": _timeout_seconds(times.escalate_at - times.remind_at),
        "expire_after_seconds": _timeout_seconds(times.expire_at - times.escalate_at),
    }


def _timeout_seconds(span: timedelta) -> int:
    return max(1, math.ceil(span.total_seconds()))
