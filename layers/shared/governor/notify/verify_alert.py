"""Checks the seal of queued alerts before they are sent, because anybody may have written them.

An alert about a stored episode must agree with its record. Any other alert, one about an episode
that is not stored included, must bear the seal of GPU Governor's own functions, or name an alarm
that CloudWatch knows. An alert about an episode
without a seal, as earlier releases queued it, is written again from the record.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.alerts.model import ENDS, SEAL, Alert, AlertKind, Seal, sealed_text
from governor.approvals.messages import ends, questions
from governor.approvals.model.approval import Approval, ApprovalStatus, Stage
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import episode_from_execution_name
from governor.core.errors import GovernorError
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, without
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.episode.store.episodes import Episodes
from governor.notify.compose import OPEN

Alarms = Callable[[str], Alert | None]
"""Returns an alert about the alarm of this name; `None` if there is no such alarm, or it does not
publish to our topic. Raises: CloudError."""
_OLDEST = timedelta(days=60)
"""Older alerts are refused. No queue keeps a message for this long, and records of deliveries are
kept for longer, so that nothing is sent twice."""
_STAGES = (Stage.ASK, Stage.AWAIT, Stage.REMIND, Stage.ESCALATE)
"""The stages of a question, in order."""


class AlertRefused(GovernorError):
    """An alert cannot be proved to be ours; the error's text says why. A repeat never helps."""


@dataclass(frozen=True, slots=True)
class VerifiedAlert:
    """An alert that may be sent, with its episode and approval as they are stored."""

    alert: Alert
    episode: Episode | None = None
    approval: Approval | None = None


@dataclass(frozen=True, slots=True)
class VerifyAlert:
    """Checks an alert from the queue against its seal, the stored record, or CloudWatch."""

    clock: Clock
    episode_store: Episodes
    approval_store: Approvals
    seal: Seal
    alarms: Alarms

    def __call__(self, sent: Alert) -> VerifiedAlert:
        """Return the alert that may be sent in place of `sent`, with its stored episode and
        approval if it names one: an alarm as CloudWatch has it, any other without seal and link.
        One about an episode has the record's place and owner; without a seal, all its words, too.

        Raises: AlertRefused if nothing proves it, the record contradicts it, or it is older than 60
        days; CloudError if the record, the seal's key or the alarm could not be read.
        """
        if sent.kind in (AlertKind.ALARM, AlertKind.ALARM_OVER):
            return VerifiedAlert(self._alarm(sent))
        if self.clock.now() - sent.at > _OLDEST:
            raise AlertRefused("it is older than 60 days")
        is_ours = self._is_sealed(sent)
        alert = replace(sent, facts=without(sent.facts, [SEAL]), link=None)
        episode = self._episode(alert)
        if episode is None:
            if not is_ours:
                raise AlertRefused("it does not bear the seal of GPU Governor's functions")
            return VerifiedAlert(alert)
        approval = self.approval_store.approval(episode.approval_id)
        # A sealed alert is checked, too: the record may have changed since it was sealed.
        mismatch = _mismatch(alert, episode, approval)
        if mismatch is not None:
            raise AlertRefused(f"its episode does not say so: {mismatch}")
        if not is_ours:
            alert = self._from_record(alert, episode, approval)
        alert = replace(
            alert,
            account=episode.ref.account,
            region=episode.ref.region,
            instance_id=episode.ref.instance_id,
            owner=episode.owner,
            project=episode.project,
        )
        return VerifiedAlert(alert, episode, approval)

    def _is_sealed(self, sent: Alert) -> bool:
        """Return whether the alert bears the seal that KMS makes for it; false without a seal.
        Raises: CloudError."""
        given_seal = sent.facts.get(SEAL)
        if not isinstance(given_seal, str):
            return False
        right_seal = self.seal(sealed_text(sent))
        return hmac.compare_digest(right_seal.encode(), given_seal.encode())

    def _alarm(self, sent: Alert) -> Alert:
        """Return the alert about the alarm that `sent` names, as CloudWatch has it now. It is an
        alarm's end only if both CloudWatch and the message say so.

        Raises: AlertRefused if CloudWatch knows no such alarm that publishes to our topic;
        CloudError.
        """
        name = str(sent.facts.get("alarm") or sent.subject.rpartition(": ")[0])
        alarm = self.alarms(name) if name else None
        if alarm is None:
            raise AlertRefused(
                f"CloudWatch knows no alarm {name!r} that publishes to the alert topic"
            )
        if alarm.kind is sent.kind:
            return alarm
        # The message and CloudWatch differ: people are notified of an alarm even if it is over by
        # now.
        return replace(alarm, kind=AlertKind.ALARM)

    def _episode(self, alert: Alert) -> Episode | None:
        """Return the stored episode that the alert names; `None` if it names none, or none is
        stored. Raises: AlertRefused if the name has another form; CloudError."""
        name = alert.facts.get("episode")
        if not isinstance(name, str):
            return None
        try:
            return self.episode_store.episode(episode_from_execution_name(name))
        except ValueError as error:
            raise AlertRefused(str(error)) from error

    def _from_record(self, sent: Alert, episode: Episode, approval: Approval | None) -> Alert:
        """Return an alert of the same kind, written from the stored record alone. Nothing of `sent`
        is used but its kind and, within limits, its time.

        Raises: AlertRefused if the record does not show that there was such an alert.
        """
        kind = sent.kind
        at = self._time_of(sent, episode)
        if kind in questions.STAGE_OF:
            return _stage_alert(kind, episode, approval, at)
        if kind is AlertKind.APPROVAL_FIRST_YES and approval and approval.first_yes:
            return questions.first_yes_alert(episode, approval.first_yes, approval.deadline)
        ending = episode.ending
        if kind in ENDS and ending is not None:
            return ends.outcome_alert(
                episode.ref, episode, ending.outcome, ending.reason, at, None, approval
            )
        if kind is AlertKind.UNDONE and episode.undo is not None:
            return questions.undo_alert(episode, episode.undo.by, "page", episode.undo.at)
        raise AlertRefused("it bears no seal, and the record of its episode says nothing of it")

    def _time_of(self, sent: Alert, episode: Episode) -> UtcDatetime:
        """Return a time for the alert that the record allows: `now` for a question, else the time
        in the alert, but not before the episode and not after `now`.

        A channel that fails makes an alert with an old time be given up at once. For a question
        that does not matter: it ends by itself when it expires.
        """
        now = self.clock.now()
        if sent.kind in OPEN:
            return now
        earliest = episode.opened_at if episode.ending is None else episode.ending.at
        return min(max(sent.at, earliest), now)


def _stage_alert(
    kind: AlertKind, episode: Episode, approval: Approval | None, at: UtcDatetime
) -> Alert:
    """Return the alert of this kind, which is one of a stage, written from the record; with the
    question's deadline if it is a question."""
    deadline: UtcDatetime | None = None
    if approval and kind in OPEN:
        deadline = approval.deadline
    return questions.stage_alert(episode, questions.STAGE_OF[kind], at, None, deadline)


def _mismatch(alert: Alert, episode: Episode, approval: Approval | None) -> str | None:
    """Return how the stored record contradicts the alert, such as `nobody is asked about it`;
    `None` if it does not."""
    kind = alert.kind
    asks = episode.asking.schedule is not None
    if kind in OPEN:
        if approval is None or not asks:
            return "nobody is asked about it"
        return _question_mismatch(kind, episode, approval)
    if kind is AlertKind.IDLE_FOUND and asks:
        return "somebody is asked about it"
    if kind in ENDS:
        return _end_mismatch(kind, episode)
    return None


def _question_mismatch(kind: AlertKind, episode: Episode, approval: Approval) -> str | None:
    """Return how the stored record contradicts the alert of a question: the episode does not ask,
    nobody has given a first approval, or the question has not come to the alert's stage yet. Return
    `None` if it does not, or if the question is over: then the alert is not sent anyway."""
    if approval.status is not ApprovalStatus.PENDING or episode.phase is Phase.CLOSED:
        return None
    if episode.phase is not Phase.ASKING:
        return f"it is {episode.phase.value}"
    if kind is AlertKind.APPROVAL_FIRST_YES:
        return None if approval.first_yes else "nobody has approved"
    stage = questions.STAGE_OF[kind]
    this_and_later = _STAGES[_STAGES.index(stage) :]
    if approval.stage in {possible_stage.value for possible_stage in this_and_later}:
        return None
    return f"its question has not come to {stage.value}"


def _end_mismatch(kind: AlertKind, episode: Episode) -> str | None:
    """Return how the stored record contradicts an alert about the end of its episode: the episode
    has not ended, or only one of the two says that it failed. Return `None` if it does not. A
    failure may be reported before its episode is closed."""
    is_failure = kind is AlertKind.FAILURE
    if episode.outcome is None:
        # A workflow that died is reported before its episode is closed.
        return None if is_failure else "it has not ended"
    has_failed = episode.outcome is Outcome.FAILED
    if has_failed is not is_failure:
        return f"it ended {episode.outcome.value}"
    return None
