"""Lets an alert pass only as far as something else than the message says so too: anybody may have
written it.

What it says of an episode is read from the record; the rest is believed where it bears the seal of
our own functions. What the release before has queued is made anew of the record.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.channels.compose import OPEN
from governor.domain.alerts.alert import ENDS, SEAL, Alert, AlertKind, Seal, sealed_text
from governor.domain.approvals import messages
from governor.domain.approvals.approval import Approval, ApprovalStatus, Stage
from governor.domain.episode.episode import Episode, Outcome, Phase, episode_from_execution_name
from governor.errors import GovernorError
from governor.ports import Clock
from governor.stores import StateTable

Alarms = Callable[[str], Alert | None]
"""An alarm by its name; `None` unless it publishes to our topic. Raises: CloudError."""
_OLDEST = timedelta(days=60)
"""Deliveries are on record for longer, so what was sent is not sent again; queues keep nothing so
long."""
_COMES_AFTER = (Stage.ASK, Stage.AWAIT, Stage.REMIND, Stage.ESCALATE)


class AlertRefused(GovernorError):
    """Nothing vouches for an alert; the message says what is missing. Repeating it never helps."""


@dataclass(frozen=True, slots=True)
class Vouched:
    alert: Alert
    episode: Episode | None = None
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class Vouch:
    """Check the seal of the message before anything in it is believed."""

    clock: Clock
    state: StateTable
    seal: Seal
    alarms: Alarms

    def __call__(self, sent: Alert) -> Vouched:
        """Return what may be sent. Raises: AlertRefused; CloudError where it could not be found
        out."""
        if sent.kind in (AlertKind.ALARM, AlertKind.ALARM_OVER):
            return Vouched(self._alarm(sent))
        if self.clock.now() - sent.at > _OLDEST:
            raise AlertRefused("it is older than 60 days")
        given = sent.facts.get(SEAL)
        is_ours = isinstance(given, str) and hmac.compare_digest(
            self.seal(sealed_text(sent)).encode(), given.encode()
        )
        facts = {name: value for name, value in sent.facts.items() if name != SEAL}
        alert = replace(sent, facts=facts, link=None)
        episode = self._episode(alert)
        if episode is None:
            if not is_ours:
                raise AlertRefused("it does not bear the seal of GPU Governor's functions")
            return Vouched(alert)
        approval = self.state.approval(episode.approval_id)
        if (why := _mismatch(alert, episode, approval)) is not None:
            raise AlertRefused(f"its episode does not say so: {why}")
        if not is_ours:
            alert = self._anew(alert, episode, approval)
        ref = episode.ref
        alert = replace(alert, account=ref.account, region=ref.region, instance_id=ref.instance_id)
        return Vouched(
            replace(alert, owner=episode.owner, project=episode.project), episode, approval
        )

    def _alarm(self, sent: Alert) -> Alert:
        name = str(sent.facts.get("alarm") or sent.subject.rpartition(": ")[0])
        if not name or (alarm := self.alarms(name)) is None:
            raise AlertRefused(
                f"CloudWatch knows no alarm {name!r} that publishes to the alert topic"
            )
        # Who was to hear of an alarm hears of it, also where it is over by now.
        return alarm if alarm.kind is sent.kind else replace(alarm, kind=AlertKind.ALARM)

    def _episode(self, alert: Alert) -> Episode | None:
        name = alert.facts.get("episode")
        if not isinstance(name, str):
            return None
        try:
            return self.state.episode(episode_from_execution_name(name))
        except ValueError as error:
            raise AlertRefused(str(error)) from error

    def _anew(self, sent: Alert, episode: Episode, approval: Approval | None) -> Alert:
        kind, now = sent.kind, self.clock.now()
        # One failure of a channel would give up what says that it is old. What is open ends when it
        # expires.
        at = now if kind in OPEN else min(max(sent.at, episode.closed_at or episode.opened_at), now)
        if kind in messages.STAGE_OF:
            until = approval.expires_at if approval and kind in OPEN else None
            return messages.stage_alert(episode, messages.STAGE_OF[kind], at, None, until)
        if kind is AlertKind.APPROVAL_FIRST_YES and approval and approval.first_yes:
            return messages.first_yes_alert(episode, approval.first_yes, approval.expires_at)
        if kind in ENDS and episode.outcome is not None:
            reason = episode.outcome_reason or ""
            return messages.outcome_alert(
                episode.ref, episode, episode.outcome, reason, at, None, approval
            )
        if kind is AlertKind.UNDONE and episode.undone_at and episode.undone_by:
            return messages.undo_alert(episode, episode.undone_by, "page", episode.undone_at)
        raise AlertRefused("it bears no seal, and the record of its episode says nothing of it")


def _mismatch(alert: Alert, episode: Episode, approval: Approval | None) -> str | None:
    """Return in what the record contradicts the alert; a question that is over contradicts none."""
    kind, asks = alert.kind, episode.schedule is not None
    if kind in OPEN:
        if approval is None or not asks:
            return "nobody is asked about it"
        if approval.status is not ApprovalStatus.PENDING or episode.phase is Phase.CLOSED:
            return None
        if episode.phase is not Phase.ASKING:
            return f"it is {episode.phase.value}"
        if kind is AlertKind.APPROVAL_FIRST_YES:
            return None if approval.first_yes else "nobody has approved"
        stage = messages.STAGE_OF[kind]
        reached = {one.value for one in _COMES_AFTER[_COMES_AFTER.index(stage) :]}
        return None if approval.stage in reached else f"its question has not come to {stage.value}"
    if kind is AlertKind.IDLE_FOUND and asks:
        return "somebody is asked about it"
    if kind in ENDS:
        if episode.outcome is None:
            # A workflow that died is reported before its episode is closed.
            return None if kind is AlertKind.FAILURE else "it has not ended"
        if (episode.outcome is Outcome.FAILED) is not (kind is AlertKind.FAILURE):
            return f"it ended {episode.outcome.value}"
    return None
