"""Restarts a stopped instance for a person (undo). The only use case that can start one.

The order: the keep, the note of the try, EC2's call, a look. `follow_start` says how it ended. This
module must not start an instance that somebody else started or stopped since.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import timedelta

from governor.approvals.model.approval import Approval
from governor.approvals.rules.approval import why_too_late
from governor.approvals.store.approvals import Approvals
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, ConflictError, Throttled, Unavailable
from governor.core.instance import Instance, Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime, full_stop, in_utc, people
from governor.episode.model.episode import Episode, Outcome, Phase
from governor.episode.model.plan import Step
from governor.episode.model.start_try import ASSUME_ROLE_CALL, StartStatus, StartTry
from governor.episode.ports import InstanceStarter, UndoAnswer
from governor.episode.rules.start import (
    is_refusal,
    reason_of_state,
    words_of_ec2,
)
from governor.episode.rules.start_advice import advice_on
from governor.episode.store.episodes import Episodes
from governor.episode.store.holds import Holds
from governor.episode.store.instances import Instances
from governor.evidence.ports import InstanceReader
from governor.policy.accounts import Accounts
from governor.policy.ports import Policies, policy_or_base
from governor.remediation.follow_start import FollowStart
from governor.verdict.model import Hold

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UndoEpisode:
    """Undoes a stop. Safe to repeat: an instance that runs or starts is left as it is."""

    clock: Clock
    policies: Policies
    accounts: Accounts
    instances: InstanceReader
    starter: InstanceStarter
    episode_store: Episodes
    approval_store: Approvals
    hold_store: Holds
    instance_store: Instances
    follow: FollowStart

    def __call__(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Start the instance, or answer why it was not started and what to do instead.

        `by` is the person who asked, `channel` the way they asked. Raises: SafetyError for an
        episode that does not exist, in an account that is no target; Throttled, Unavailable if
        something could not be read or stored now: nothing was started; ConfigurationError without
        a role in its account; ConflictError if the instance runs, but the stop of the episode was
        not noted.
        """
        try:
            answer = self._answer(ref, by, channel)
        except (Throttled, Unavailable):
            raise
        except CloudError as error:
            _log.exception("nothing was started: the instance could not be read")
            return UndoAnswer(done=False, text=_not_looked_at(error))
        if not answer.done:
            self._journal_refusal(ref, answer.text, by, channel)
        return answer

    def _journal_refusal(self, ref: EpisodeRef, reason: str, by: str, channel: str) -> None:
        """Keep for the audit why nothing was started; only log it if the table cannot be read or
        written. Raises: SafetyError for an episode that does not exist, in an account that is no
        target."""
        try:
            if self.episode_store.episode(ref) is None:
                self.accounts.require_governed(self.policies.base().policy, ref.account, ref.region)
            self.episode_store.journal(
                ref,
                "refused",
                self.clock.now(),
                step="start",
                reason=reason,
                by=by,
                channel=channel,
            )
        except CloudError:
            _log.exception("a refused undo could not be recorded: %s", reason)

    def _answer(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        """Start the instance if nothing stands against it, and return the answer. Raises:
        CloudError, or ConfigurationError without a role in its account: nothing was started;
        ConflictError as `_followed` and `_without_answer` do."""
        episode = self.episode_store.episode(ref)
        if episode is None:
            return _refused("there is no such episode")
        target = self.accounts.target(ref.account, ref.region, (ref.execution_name, by))
        episode = self._followed(episode, target)
        approval = self.approval_store.approval(episode.approval_id)
        refusal = _refusal(episode, approval, self.clock.now())
        if refusal is not None:
            return _refused(refusal)
        instance = self.instances.describe(target, ref.instance_id)
        if instance is None or instance.is_gone:
            return _refused("the instance no longer exists")
        refusal = _not_startable(instance, episode)
        if refusal is not None:
            return _refused(refusal)
        return self._start_stopped(episode, target, instance, by, channel)

    def _followed(self, episode: Episode, target: Target) -> Episode:
        """Return the episode after a look at its last try, if that is still followed: its end
        decides whether there may be another. Raises: ConflictError if the instance runs, but the
        stop of the episode was not noted; CloudError."""
        start_try = episode.start_try
        if start_try is None or not start_try.is_followed:
            return episode
        self.follow(episode, self.instances.describe(target, episode.ref.instance_id))
        return self.episode_store.episode(episode.ref) or episode

    def _start_stopped(
        self, episode: Episode, target: Target, instance: Instance, by: str, channel: str
    ) -> UndoAnswer:
        """Keep the stopped instance for a while, start it, and return the answer. Raises:
        CloudError: nothing was started; ConflictError as `_without_answer` does."""
        ref = episode.ref
        # The keep is stored before the start: if the table is busy, the instance stays stopped.
        # Otherwise it would run without the keep, and people would be asked about it again.
        keep = self._keep(episode, by)
        try:
            self.hold_store.store_hold(target, ref.instance_id, keep)
        except ConflictError:
            return _refused("somebody else changed its keep at the same moment: try again")
        if self._is_being_terminated(ref):
            return _refused(
                "EC2 has been asked to terminate it for a later question: it is too "
                "late to start it"
            )
        start_try = StartTry(
            asked_at=self.clock.now(),
            asked_by=by,
            channel=channel,
            launched_before=instance.launch_time,
            reason_before=reason_of_state(instance),
            kept_until=keep.snoozed_until,
        )
        # Noted before the call, so that it is followed even if this function dies.
        if not self.episode_store.note_start_try(ref, start_try, episode.start_try):
            return _refused("somebody else has just asked for it: open this page again")
        return self._sent(replace(episode, start_try=start_try), start_try, target)

    def _sent(self, episode: Episode, start_try: StartTry, target: Target) -> UndoAnswer:
        """Ask EC2 to start the instance, and return the answer by what EC2 says or, if it gives no
        clear answer, shows. No CloudError comes through. Raises: ConflictError as `_without_answer`
        does."""
        ref = episode.ref
        try:
            request_id = self.starter.start(target, ref.instance_id)
        except CloudError as error:
            if is_refusal(error):
                return self._refused_by_aws(episode, start_try, error)
            _log.warning("EC2 gave no clear answer to a start: %s", error)
            return self._without_answer(episode, target)
        self._note_accepted(episode, start_try, request_id)
        return _answer_about(StartStatus.ACCEPTED)

    def _note_accepted(self, episode: Episode, start_try: StartTry, request_id: str | None) -> None:
        """Record that EC2 accepted the start, with the id of the request (`None` if AWS gave none).
        A CloudError is only logged, because the person must learn in any case what EC2 said."""
        try:
            accepted = replace(start_try, status=StartStatus.ACCEPTED)
            self.episode_store.change_start_try(episode.ref, start_try, accepted)
            self.episode_store.journal(
                episode.ref,
                "done",
                self.clock.now(),
                step="start",
                request_ids=[request_id],
                by=start_try.asked_by,
            )
        except CloudError:
            _log.exception("an accepted start could not be recorded; the sweep looks at it")

    def _without_answer(self, episode: Episode, target: Target) -> UndoAnswer:
        """Look what became of a call without a clear answer, and return the answer by that: that
        EC2 was asked, if that cannot be read or shows nothing yet. Raises: ConflictError if the
        instance runs, but the stop of the episode was not noted."""
        try:
            instance = self.instances.describe(target, episode.ref.instance_id)
            seen = self.follow(episode, instance)
        except CloudError:
            _log.exception("the effect of a start is not known yet; the sweep looks at it")
            return _answer_about(StartStatus.ASKED)
        return _answer_about(StartStatus.ASKED if seen is None else seen.status)

    def _refused_by_aws(
        self, episode: Episode, start_try: StartTry, error: CloudError
    ) -> UndoAnswer:
        """Record that EC2 refused the start, or STS the role for it, notify people, and return the
        answer in AWS's words, with advice. A failure to record or notify is only logged."""
        try:
            self.follow.refused(episode, start_try, error)
        except CloudError:
            _log.exception("a refused start could not be recorded, or nobody notified")
        said = words_of_ec2(error.words or str(error))
        if error.code and error.words:
            said = f"{error.code}: {said}"
        refused = "EC2 refused to start it"
        if error.operation == ASSUME_ROLE_CALL:
            refused = "AWS refused the role that starts instances, so EC2 was not asked"
        advice = advice_on(error.code, error.operation)
        return _refused(f"{refused}. {full_stop(said)} {advice}".strip())

    def _keep(self, episode: Episode, by: str) -> Hold:
        """Return the keep that follows a start `by` a person: from now for the hours that the
        instance's policy sets; if its overrides contradict each other, that of the document without
        overrides."""
        hours = policy_or_base(self.policies, episode.instance).approval.keep_after_undo_hours
        until = self.clock.now() + timedelta(hours=hours)
        return Hold(snoozed_until=until, kept_in=episode.project, keeper=by)

    def _is_being_terminated(self, ref: EpisodeRef) -> bool:
        """Return whether a later episode that is still open has noted its call to terminate the
        instance. Raises: CloudError.

        An episode that notes the call after this look sees the keep, which is stored by now, before
        it calls EC2.
        """
        later = self.instance_store.record(ref.target, ref.instance_id).open_episode
        if later is None or later == ref:
            return False
        episode = self.episode_store.episode(later)
        return episode is not None and Step.TERMINATE.value in episode.progress.steps_done


def _refused(text: str) -> UndoAnswer:
    """Return the answer that nothing was started, and why."""
    return UndoAnswer(done=False, text=text)


def _answer_about(status: StartStatus) -> UndoAnswer:
    """Return the answer about a call that EC2 may have carried out."""
    return UndoAnswer(done=True, text=_ANSWERS[status])


_ANSWERS = {
    StartStatus.RUNNING: "it runs again",
    StartStatus.ACCEPTED: (
        "EC2 has been asked to start it; it usually runs within a minute or two. Its page says "
        "when it does, or why not"
    ),
    StartStatus.ASKED: (
        "EC2 has not clearly answered. Its page says within minutes whether it runs"
    ),
    StartStatus.FELL_BACK: "it is stopped again already. Its page has EC2's reason",
    StartStatus.NO_EFFECT: "EC2 shows no effect of the start",
    StartStatus.OVERTAKEN: "others have stopped or terminated it meanwhile",
    StartStatus.REFUSED: "EC2 refused to start it",
}


def _not_looked_at(error: CloudError) -> str:
    """Return the answer that nothing was started, because something could not be read: with the
    operation, AWS's code and words if the error has both, else with its text."""
    if error.words and error.code:
        why = f"{error.operation}: {error.code}: {words_of_ec2(error.words)}"
    else:
        why = str(error)
    answer = f"nothing was started, because it could not be read ({why})"
    if error.operation == ASSUME_ROLE_CALL and error.code:
        return f"{answer}. {advice_on(error.code, error.operation)}"
    return answer


def _refusal(episode: Episode, approval: Approval | None, now: UtcDatetime) -> str | None:
    """Return why the record of the episode allows no start; `None` if it allows one."""
    start_try = episode.start_try
    if episode.can_be_started:
        return None
    if episode.outcome is Outcome.TERMINATED:
        return (
            "a terminated instance cannot be started; the record says what is needed to rebuild it"
        )
    undo = episode.undo
    if undo is not None:
        return f"{people(undo.by)} has already started it, on {in_utc(undo.at)}"
    if start_try is not None and start_try.is_open:
        return (
            f"{people(start_try.asked_by)} has already asked for it, on "
            f"{in_utc(start_try.asked_at)}, and EC2 is starting it"
        )
    is_acting = episode.phase is not Phase.CLOSED and Step.STOP in episode.progress.steps_done
    if is_acting and episode.plan.destroys:
        return _refusal_of_a_plan(episode, approval, now)
    return "this episode did not stop the instance, so there is nothing to undo"


def _refusal_of_a_plan(episode: Episode, approval: Approval | None, now: UtcDatetime) -> str:
    """Return why an instance cannot be started whose plan has stopped it and goes on to terminate
    it."""
    if approval is not None and approval.hold is not None:
        return "it is on hold, and its record is being closed: try again in 15 minutes"
    return (
        why_too_late(episode, now)
        or "its plan is still being carried out: hold it first, then try again"
    )


def _not_startable(instance: Instance, episode: Episode) -> str | None:
    """Return why the instance cannot be started in its state; `None` if it can."""
    if instance.state in ("pending", "running"):
        return "it runs already"
    own_launches = {episode.ref.launch_time}
    start_try = episode.start_try
    if start_try is not None:
        # The last try was made only because this launch was our own.
        own_launches.add(start_try.launched_before)
        if start_try.launched_at is not None:
            own_launches.add(start_try.launched_at)
    if instance.launch_time not in own_launches:
        return (
            "it has been started and stopped by others since; start it in the console "
            "if it is still yours"
        )
    if instance.state != "stopped":
        return f"it is still {instance.state}; try again in a minute"
    return None
