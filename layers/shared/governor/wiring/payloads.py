"""Messages between state machines and functions. Unknown fields are refused, so a mismatch fails
early."""

from __future__ import annotations

import json
from typing import Literal

from pydantic import Field

from governor.approvals.model.approval import Stage
from governor.core.episode_ref import EpisodeRef
from governor.core.parsing import AccountId, Event, InstanceId, Moment, Payload, Region
from governor.episode.model.episode import Outcome
from governor.episode.model.plan import Step, Until


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


class AskPayload(EpisodeOnlyPayload):
    stage: Stage
    task_token: str | None = Field(default=None, max_length=2048)
    reason: str = ""


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
