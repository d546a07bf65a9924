"""Use cases of one episode: opened, asked about, acted on, and closed."""

from __future__ import annotations

from functools import partial

from governor.usecases.ask_owner import AskOwner
from governor.usecases.check_progress import CheckProgress
from governor.usecases.conclude_approval import ConcludeApproval
from governor.usecases.open_episode import OpenEpisode
from governor.usecases.put_away import PutAway
from governor.usecases.read_history import ReadHistory
from governor.usecases.recheck_episode import RecheckEpisode
from governor.usecases.record_outcome import RecordOutcome
from governor.usecases.take_snapshot import TakeSnapshot
from governor.usecases.undo_episode import UndoEpisode
from governor.wiring.instances import InstanceParts
from governor.wiring.parts import Parts, Ready
from governor.wiring.policies import or_defaults, present, ready


def open_episode(parts: InstanceParts) -> Ready[OpenEpisode]:
    """For `open_episode`."""
    return ready(present(parts), partial(parts.fill, OpenEpisode, history=parts.fill(ReadHistory)))


def ask_owner(parts: Parts) -> Ready[AskOwner]:
    """For `ask_owner`."""
    return ready(present(parts), partial(parts.fill, AskOwner))


def conclude_approval(parts: Parts) -> ConcludeApproval:
    """For `conclude_approval`."""
    return parts.fill(ConcludeApproval)


def recheck_episode(parts: InstanceParts) -> Ready[RecheckEpisode]:
    """For `recheck_episode`."""
    return ready(present(parts), lambda policies: parts.fill(RecheckEpisode, guards=parts.guards(policies)))


def put_away(parts: InstanceParts) -> Ready[PutAway]:
    """For `put_away`."""
    return ready(present(parts), lambda policies: parts.fill(PutAway, guards=parts.guards(policies)))


def take_snapshot(parts: InstanceParts) -> Ready[TakeSnapshot]:
    """For `take_snapshot`."""
    return ready(present(parts), lambda policies: parts.fill(TakeSnapshot, guards=parts.guards(policies)))


def check_progress(parts: InstanceParts) -> Ready[CheckProgress]:
    """For `check_progress`."""
    return ready(
        present(parts), lambda policies: parts.fill(CheckProgress, policies, guards=parts.guards(policies))
    )


def record_outcome(parts: InstanceParts) -> Ready[RecordOutcome]:
    """For `record_outcome`: an episode ends whatever the policy document says."""
    return ready(
        or_defaults(parts), lambda policies: parts.fill(RecordOutcome, policies, book=parts.book(policies))
    )


def undo_episode(parts: InstanceParts) -> Ready[UndoEpisode]:
    """For `undo_episode`."""
    return ready(or_defaults(parts), partial(parts.fill, UndoEpisode))
