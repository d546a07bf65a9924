"""Follows a start that EC2 was asked for until the instance runs, or is stopped again.

Only what EC2 shows counts: that it has accepted a start is no proof of anything. It also takes back
starts that it has shown as running, so an instance is looked at for some minutes more. This module
must not start an instance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from governor.alerts.ports import Announcer
from governor.approvals.messages.questions import start_failed_alert, undo_alert
from governor.core.errors import CloudError
from governor.core.instance import Instance
from governor.core.ports import Clock
from governor.core.units import UtcDatetime
from governor.episode.model.episode import Episode
from governor.episode.model.start_try import CLOCKS_DIFFER, START_CALL, StartStatus, StartTry
from governor.episode.rules.start import (
    USER_STOPPED,
    StartSeen,
    is_stopped_by_user,
    seen_of,
    words_of_ec2,
)
from governor.episode.store.episodes import Episodes

MAY_FALL_BACK_FOR = timedelta(minutes=15)
"""An instance that stops within this time after it was seen running fell back: people have not got
it back. Three sweeps look at it meanwhile, at their usual rate."""


@dataclass(frozen=True, slots=True)
class FollowStart:
    """Records the end of a start, and notifies people of it.

    The page, the sweep and EC2's events may all see the same end. People are notified before it is
    recorded: the message has the same id each time, so it is delivered once.
    """

    clock: Clock
    episode_store: Episodes
    announcer: Announcer

    def __call__(self, episode: Episode, instance: Instance | None) -> StartTry | None:
        """Record what EC2 shows of the last try to start the instance, notify people of its end,
        and return the try as it is now; `None` if there was none. `instance` is `None` if EC2 knows
        it no longer.

        If nothing follows the try any more, it stays as it is, and only the note that it is
        followed is removed, unless the sweep still has to read it. Raises: ConflictError if the
        instance runs, and the episode does not exist or its stop was not noted; CloudError.
        """
        start_try = episode.start_try
        if start_try is None or not start_try.is_followed:
            if start_try is None or not start_try.ran_and_fell_back:
                # The end was recorded, and the note that it is followed was not removed.
                self.episode_store.end_following(episode.ref)
            # Else the sweep still has to continue the saving of the stop.
            return start_try
        if start_try.status is StartStatus.RUNNING:
            return self._seen_after_running(episode, start_try, instance)
        seen = seen_of(start_try, instance, self.clock.now())
        if seen is StartSeen.UNDER_WAY:
            is_starting = instance is not None and instance.state == "pending"
            return self._accepted(episode, start_try) if is_starting else start_try
        if seen is StartSeen.RUNNING:
            return self.seen_running(episode, self.clock.now())
        return self._ended(episode, start_try, seen, instance)

    def seen_running(self, episode: Episode, at: UtcDatetime) -> StartTry | None:
        """Notify people that the instance runs again, record that it was seen running at `at`, and
        return the try. Return `None`, with nothing done, if no try is open, or if `at` is before
        it was asked for: an event of an earlier run. Raises: ConflictError if there is no such
        episode, or its stop was not noted; CloudError."""
        start_try = episode.start_try
        if start_try is None or not start_try.is_open:
            return None
        if at < start_try.asked_at - CLOCKS_DIFFER:
            return None
        by = start_try.asked_by
        alert = undo_alert(episode, by, start_try.channel, at, start_try.kept_until)
        self.announcer.announce(alert)
        self.episode_store.note_undo(episode.ref, by, at)
        running = replace(start_try, status=StartStatus.RUNNING, ended_at=at, ran_at=at)
        self.episode_store.change_start_try(episode.ref, start_try, running)
        return running

    def refused(self, episode: Episode, start_try: StartTry, error: CloudError) -> StartTry:
        """Record that AWS refused the call, notify people, and return the try.

        The record comes before the message: nothing else keeps the reason. Raises: CloudError.
        """
        now = self.clock.now()
        refused = replace(
            start_try,
            status=StartStatus.REFUSED,
            ended_at=now,
            code=error.code,
            words=words_of_ec2(error.words or str(error)),
            refused_call=error.operation or START_CALL,
        )
        self.episode_store.change_start_try(episode.ref, start_try, refused)
        self.announcer.announce(start_failed_alert(episode, refused, now))
        return refused

    def _accepted(self, episode: Episode, start_try: StartTry) -> StartTry:
        """Record that EC2 starts the instance, and return the try. Raises: CloudError."""
        accepted = replace(start_try, status=StartStatus.ACCEPTED)
        if start_try.status is not StartStatus.ACCEPTED:
            self.episode_store.change_start_try(episode.ref, start_try, accepted)
        return accepted

    def _seen_after_running(
        self, episode: Episode, start_try: StartTry, instance: Instance | None
    ) -> StartTry:
        """Return the try. If the instance has stopped again, and no person stopped it, first notify
        people and record that it fell back.

        Follow the try no longer if a person stopped the instance, EC2 no longer knows it, or it has
        run for `MAY_FALL_BACK_FOR`. Raises: CloudError.
        """
        now = self.clock.now()
        seen = seen_of(start_try, instance, now)
        ran_at = start_try.ran_at or start_try.asked_at
        is_over = now - ran_at > MAY_FALL_BACK_FOR or seen is StartSeen.OVERTAKEN
        if is_over or instance is None:
            self.episode_store.end_following(episode.ref)
            return start_try
        if seen is not StartSeen.FELL_BACK:
            return start_try
        code, words = _reason_of(instance)
        fallen = replace(
            start_try,
            status=StartStatus.FELL_BACK,
            ended_at=now,
            code=code,
            words=words,
            launched_at=instance.launch_time,
        )
        self.announcer.announce(start_failed_alert(episode, fallen, now))
        self.episode_store.take_back_undo(episode.ref, start_try, fallen)
        return fallen

    def _ended(
        self, episode: Episode, start_try: StartTry, seen: StartSeen, instance: Instance | None
    ) -> StartTry:
        """Record that the start ended and the instance does not run, with EC2's reason, and return
        the try. Notify people first, unless it is overtaken: somebody stopped the instance since,
        or it is gone. Raises: CloudError."""
        code = ""
        words = "the instance no longer exists"
        if instance is not None:
            code, words = _reason_of(instance)
        ended = replace(start_try, ended_at=self.clock.now(), code=code, words=words)
        if seen is StartSeen.OVERTAKEN:
            overtaken = replace(ended, status=StartStatus.OVERTAKEN)
            self.episode_store.change_start_try(episode.ref, start_try, overtaken)
            return overtaken
        status = StartStatus.FELL_BACK
        if seen is StartSeen.NO_EFFECT:
            # EC2's reason for the state is that of the stop before.
            status = StartStatus.NO_EFFECT
            ended = replace(ended, code="", words="")
        launched_at = None if instance is None else instance.launch_time
        failed = replace(ended, status=status, launched_at=launched_at)
        self.announcer.announce(start_failed_alert(episode, failed, self.clock.now()))
        self.episode_store.change_start_try(episode.ref, start_try, failed)
        return failed


def _reason_of(instance: Instance) -> tuple[str, str]:
    """Return the code and the words of EC2's reason for a stopped state. The code is empty if the
    reason has none, the words if the reason is only a code."""
    reason = instance.state_reason or instance.state_transition_reason
    if instance.state_reason.startswith(USER_STOPPED) and not is_stopped_by_user(instance):
        reason = instance.state_transition_reason
    code, separator, words = reason.partition(": ")
    is_code = " " not in code
    if not is_code:
        return "", words_of_ec2(reason)
    return code, words_of_ec2(words if separator else "")
