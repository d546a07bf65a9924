"""What EC2 announces about a running instance, and whether it is asked to save its work.

Pure decisions. This module must not know Systems Manager, tables or channels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from governor.domain.instance import Instance
from governor.domain.policy import Mode, Policy
from governor.domain.units import UsdPerHour, UtcDatetime

CHECKPOINT_TAG = "GpuGovernorCheckpoint"
"""`off`, `hook`, or `signal` (the hook, or SIGTERM where there is none). Anything else: the policy."""

_NOTICE = timedelta(minutes=2)
"""How long before an interruption EC2 warns. Source: EC2 user guide, Spot interruption notices."""
_KNOWN_ACTIONS = ("hibernate", "stop", "terminate")
_LATE = timedelta(minutes=5)
"""So long after its end EC2 may still act; what runs then was spared, or the event is an old one."""
_LONGEST = timedelta(minutes=30)
_OFF = ("off", "no", "false", "none", "never", "0")
_HOOK = ("hook", "on", "yes", "true", "1")


class Cause(StrEnum):
    """Why an instance is told about."""

    SPOT = "spot"
    RESERVATION = "capacity-reservation"
    """The owner of an interruptible Capacity Reservation takes it back."""
    REBALANCE = "rebalance"
    """An interruption has become more likely; it may come at once, later or never."""
    AUTO_SCALING = "auto-scaling"
    """Its Auto Scaling group terminates it, and waits for a lifecycle hook before."""


_HOOK_REASONS: Mapping[Cause, str] = {
    Cause.SPOT: "spot-interruption",
    Cause.RESERVATION: "capacity-reservation-interruption",
    Cause.REBALANCE: "rebalance-recommendation",
    Cause.AUTO_SCALING: "auto-scaling-termination",
}
_KINDS: Mapping[Cause, str] = {
    Cause.SPOT: "interruption",
    Cause.RESERVATION: "interruption",
    Cause.REBALANCE: "rebalance",
    Cause.AUTO_SCALING: "termination",
}


@dataclass(frozen=True, slots=True)
class Warned:
    """An instance was warned of. `action` is what will be done to it; `None` for a rebalance recommendation,
    and where EC2 does not say.

    `group` is the Auto Scaling group that lets it go; `None` where EC2 itself takes it back.
    """

    event_id: str
    account: str
    region: str
    instance_id: str
    cause: Cause
    at: UtcDatetime
    action: str | None = None
    stated_end: UtcDatetime | None = None
    group: str | None = None

    @property
    def ends_at(self) -> UtcDatetime:
        """When EC2 will act: as it says, or two minutes after its warning."""
        return self.stated_end or self.at + _NOTICE

    @property
    def plan(self) -> str:
        """What will be done, for a sentence after `will`. What is not known here is taken for the worst."""
        if self.cause is Cause.AUTO_SCALING or self.action in _KNOWN_ACTIONS:
            return str(self.action)
        return f"terminate (or {self.action}, which is not known here)" if self.action else "terminate"

    @property
    def kind(self) -> str:
        """Warnings of one kind in one place are counted together, to tell a mass of them as one."""
        return _KINDS[self.cause]

    def is_over(self, instance: Instance, now: UtcDatetime) -> bool:
        """Whether it speaks of an earlier run of the instance, or of an end that has long passed it by.

        Events may come an hour late, and what EC2 stops or starts again keeps its id.
        """
        if self.at < instance.launch_time:
            return True
        has_end = self.cause is not Cause.REBALANCE
        return has_end and instance.state == "running" and now - self.ends_at > _LATE

    def stands_until(self, now: UtcDatetime) -> UtcDatetime:
        """Until when nobody else may touch the instance, which is saving its work.

        EC2 may be late; what runs still was spared. A far end that an event may state binds nobody for long.
        """
        return min(self.ends_at, now + _LONGEST) + _LATE

    @property
    def hook_reason(self) -> str:
        """As the hook is told; the document takes these words and no others."""
        return _HOOK_REASONS[self.cause]

    def seconds_left(self, now: UtcDatetime) -> int:
        """Whole seconds until EC2 acts; zero when that is over. After a rebalance recommendation it may warn
        at once, so that two minutes are the most to count on.
        """
        if self.cause is Cause.REBALANCE:
            return int(_NOTICE.total_seconds())
        return max(0, int((self.ends_at - now).total_seconds()))


@dataclass(frozen=True, slots=True)
class LifecycleAction:
    """An Auto Scaling group lets an instance go and waits for one of its lifecycle hooks to be completed."""

    event_id: str
    account: str
    region: str
    instance_id: str
    at: UtcDatetime
    group: str
    hook: str
    token: str
    to_warm_pool: bool = False
    """It is put by for later, not terminated."""

    def warned(self, heartbeat: timedelta | None) -> Warned:
        """The warning that this is. `heartbeat` is how long the group waits; `None` where that is not known.

        Then two minutes are assumed, which hooks are written for: one that is ended too early has lost less
        than one that was promised an hour.
        """
        return Warned(
            event_id=self.event_id,
            account=self.account,
            region=self.region,
            instance_id=self.instance_id,
            cause=Cause.AUTO_SCALING,
            at=self.at,
            action="put into the warm pool" if self.to_warm_pool else "terminate",
            stated_end=None if heartbeat is None else self.at + heartbeat,
            group=self.group,
        )


@dataclass(frozen=True, slots=True)
class SpotPrice:
    """What a type costs now as Spot in one zone, by the account's own zone names."""

    region: str
    zone: str
    usd_per_hour: UsdPerHour


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Whether the instance is asked to save its work, whether its GPU processes may get SIGTERM, and why."""

    send: bool
    signal: bool
    why: str


class HookState(StrEnum):
    """What is known of a hook that shall be sent, when people are told."""

    NEXT = "next"
    """It is sent after this."""
    SENT = "sent"
    EARLIER = "earlier"
    """Another delivery of the same warning has sent it, or sends it now."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """No answer has come in time: it may run."""


@dataclass(frozen=True, slots=True)
class HookAnswer:
    """What became of a hook that shall be sent. `error` says why, where it is refused or not known."""

    state: HookState
    error: str = ""

    @property
    def was_sent(self) -> bool | None:
        """`None` where that is not known, or not yet."""
        match self.state:
            case HookState.SENT | HookState.EARLIER:
                return True
            case HookState.REFUSED:
                return False
            case HookState.NEXT | HookState.UNKNOWN:
                return None


def decide_checkpoint(instance: Instance, policy: Policy, warned: Warned) -> Checkpoint:
    """By the instance's tag, else by the policy; never where it could do harm or has no effect.

    On a rebalance recommendation the policy alone says whether; the tag can only forbid it.
    """
    events = policy.events
    tag = instance.tags.get(CHECKPOINT_TAG, "").strip().lower()
    interrupted = warned.cause is not Cause.REBALANCE
    match warned.cause:
        case Cause.SPOT | Cause.RESERVATION:
            wanted = events.checkpoint_on_spot_interruption
        case Cause.REBALANCE:
            wanted = events.checkpoint_on_rebalance
        case Cause.AUTO_SCALING:
            wanted = events.checkpoint_on_auto_scaling
    signal = events.signal_gpu_processes
    why = "the policy says so"
    if tag in _OFF:
        return Checkpoint(False, False, f"its tag {CHECKPOINT_TAG} says {tag}")
    if tag in _HOOK or tag == "signal":
        signal = tag == "signal"
        if interrupted:
            wanted, why = True, f"its tag {CHECKPOINT_TAG} says {tag}"
    if not wanted:
        return Checkpoint(False, False, why)
    if (forbidden := _forbidden(instance, policy, warned)) is not None:
        return Checkpoint(False, False, forbidden)
    return Checkpoint(True, signal, why)


def _forbidden(instance: Instance, policy: Policy, warned: Warned) -> str | None:
    if policy.mode is Mode.OBSERVE:
        return "mode observe changes nothing on an instance"
    if warned.action == "hibernate":
        return "hibernation begins at once and keeps the memory"
    if "windows" in instance.platform.lower():
        return "the hook is a Linux program"
    if instance.state != "running":
        return f"the instance is {instance.state}"
    return None
