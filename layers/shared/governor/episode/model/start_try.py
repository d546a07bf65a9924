"""The record of the last try to start a stopped instance again: who asked, and what EC2 has made of
it.

A record only: `episode.rules.start` reads EC2's answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from governor.core.units import UtcDatetime

START_CALL = "ec2:StartInstances"
OWN_SHUTDOWN = "Client.InstanceInitiatedShutdown"
"""The code of EC2's `StateReason` after a shutdown by the operating system of the instance."""
ASSUME_ROLE_CALL = "sts:AssumeRole"
"""Comes before EC2's call, in a member account."""
CLOCKS_DIFFER = timedelta(minutes=1)
"""The largest difference between our clock and EC2's that is taken for the same moment."""


class StartStatus(StrEnum):
    """How far a try has come. The first two are open: EC2 has not shown their end."""

    ASKED = "asked"
    """Noted before EC2 is called. It stays so if EC2 gives no clear answer."""
    ACCEPTED = "accepted"
    """EC2 has accepted the call. The instance is not running yet."""
    RUNNING = "running"
    """The instance was seen running. It is looked at for some minutes more."""
    REFUSED = "refused"
    """AWS refused the call: EC2 the start, or STS the role for it."""
    FELL_BACK = "fell-back"
    """The instance is stopped again: EC2 took the start back, or the instance shut itself down."""
    NO_EFFECT = "no-effect"
    """The instance is still stopped, and the call can no longer have an effect."""
    OVERTAKEN = "overtaken"
    """Others stopped or terminated the instance before it was seen running."""


@dataclass(frozen=True, slots=True)
class StartTry:
    """One try. A later try replaces it."""

    asked_at: UtcDatetime
    asked_by: str
    channel: str
    """The way they asked, such as `page`."""
    launched_before: UtcDatetime
    """Launch time of the instance before the call."""
    reason_before: str
    """EC2's reasons for the stopped state before the call."""
    status: StartStatus = StartStatus.ASKED
    kept_until: UtcDatetime | None = None
    """Until when nobody is asked about the instance once it runs."""
    ended_at: UtcDatetime | None = None
    code: str = ""
    """EC2's error code, or the code of its `StateReason`; empty if it gave none."""
    words: str = ""
    """EC2's own message."""
    refused_call: str = START_CALL
    """The call that was refused; that of EC2 unless AWS refused the role for it."""
    launched_at: UtcDatetime | None = None
    """Launch time that EC2 shows after a start that fell back. A stopped instance with this launch
    time may be started again."""
    ran_at: UtcDatetime | None = None
    """When it was seen running; `None` if it was not."""

    @property
    def is_open(self) -> bool:
        """Return whether the end of the try is not known yet."""
        return self.status in (StartStatus.ASKED, StartStatus.ACCEPTED)

    @property
    def is_followed(self) -> bool:
        """Return whether the instance is still looked at: EC2 may take back a start that it has
        shown as running."""
        return self.is_open or self.status is StartStatus.RUNNING

    def explains_start(self, at: datetime) -> bool:
        """Return whether this try may be why the instance was started at `at`: that was after it
        was asked for and before its end, and EC2 did not refuse it."""
        if self.status in (StartStatus.REFUSED, StartStatus.NO_EFFECT):
            return False
        if at < self.asked_at - CLOCKS_DIFFER:
            return False
        return self.ended_at is None or at <= self.ended_at + CLOCKS_DIFFER

    @property
    def is_role_refused(self) -> bool:
        """Return whether the role for the start was refused, so that EC2 was not asked."""
        return self.refused_call == ASSUME_ROLE_CALL

    @property
    def ran_and_fell_back(self) -> bool:
        """Return whether the instance was seen running, and is stopped again."""
        return self.status is StartStatus.FELL_BACK and self.ran_at is not None

    @property
    def is_own_shutdown(self) -> bool:
        """Return whether the instance ran, and its own operating system shut it down."""
        return self.status is StartStatus.FELL_BACK and self.code == OWN_SHUTDOWN

    @property
    def has_failed(self) -> bool:
        """Return whether the start had no effect that lasts."""
        return self.status in (StartStatus.REFUSED, StartStatus.FELL_BACK, StartStatus.NO_EFFECT)
