"""EC2's warnings about a running instance, and whether it is asked to save its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from governor.domain.instance import CHECKPOINT_TAG, Instance
from governor.domain.policy.policy import Events, Mode, Policy
from governor.domain.units import UsdPerHour, UtcDatetime, clock

_NOTICE = timedelta(minutes=2)
"""How long before an interruption EC2 warns. Source: EC2 user guide, Spot interruption notices."""
_KNOWN_ACTIONS = ("hibernate", "stop", "terminate")
_LATE = timedelta(minutes=5)
"""So long after its end EC2 may still act; what runs then was spared, or the event is an old
one."""
_LONGEST = timedelta(minutes=30)
_OFF = ("off", "no", "false", "none", "never", "0")
_ON = ("hook", "on", "yes", "true", "1", "signal")


class Cause(StrEnum):
    SPOT = "spot"
    RESERVATION = "capacity-reservation"
    REBALANCE = "rebalance"
    """An interruption has become more likely; it may come at once, later or never."""
    AUTO_SCALING = "auto-scaling"


@dataclass(frozen=True, slots=True)
class Response:
    kind: str
    """Warnings of one kind in one place are counted together: a mass of them is one message."""
    hook_reason: str
    """As the checkpoint hook gets it; its document takes these words and no others."""
    wants_hook: Callable[[Events], bool]
    """Reads from the policy whether the instance is asked to save its work."""
    is_certain: bool = True
    """It will happen. Then the question is taken back, and the instance's tag may demand the
    hook."""
    hook_first: bool = True
    """The hook goes before the notification, where seconds count; else after it."""
    is_taken_back: bool = False
    """EC2 needs the capacity: nothing of ours stops the instance, and data volumes may be
    snapshot."""
    advises: bool = False
    """Owners get the Spot prices of other zones and Regions."""


RESPONSES: Mapping[Cause, Response] = {
    Cause.SPOT: Response(
        kind="interruption",
        hook_reason="spot-interruption",
        wants_hook=lambda events: events.checkpoint_on_spot_interruption,
        is_taken_back=True,
        advises=True,
    ),
    Cause.RESERVATION: Response(
        kind="interruption",
        hook_reason="capacity-reservation-interruption",
        wants_hook=lambda events: events.checkpoint_on_spot_interruption,
        is_taken_back=True,
    ),
    Cause.REBALANCE: Response(
        kind="rebalance",
        hook_reason="rebalance-recommendation",
        wants_hook=lambda events: events.checkpoint_on_rebalance,
        is_certain=False,
    ),
    Cause.AUTO_SCALING: Response(
        kind="termination",
        hook_reason="auto-scaling-termination",
        wants_hook=lambda events: events.checkpoint_on_auto_scaling,
        hook_first=False,
    ),
}


class LifecycleAction(NamedTuple):
    """An Auto Scaling group lets an instance go and waits for one of its lifecycle hooks to be
    completed."""

    group: str
    hook: str
    token: str
    to_warm_pool: bool = False


@dataclass(frozen=True, slots=True)
class Warned:
    """An instance was warned of. `action` is what will be done to it; `None` for a rebalance
    recommendation, and where EC2 does not say. `waits` is the action for which its Auto Scaling
    group waits."""

    event_id: str
    account: str
    region: str
    instance_id: str
    cause: Cause
    at: UtcDatetime
    action: str | None = None
    stated_end: UtcDatetime | None = None
    waits: LifecycleAction | None = None

    @property
    def response(self) -> Response:
        return RESPONSES[self.cause]

    @property
    def group(self) -> str | None:
        return self.waits.group if self.waits else None

    @property
    def ends_at(self) -> UtcDatetime:
        """As stated, or two minutes after the warning: a hook that ends too early has lost the
        least."""
        return self.stated_end or self.at + _NOTICE

    @property
    def plan(self) -> str:
        """Return what will be done, for a sentence after `will`. The unknown is taken for the
        worst."""
        if self.cause is Cause.AUTO_SCALING or self.action in _KNOWN_ACTIONS:
            return str(self.action)
        return (
            f"terminate (or {self.action}, which is not known here)" if self.action else "terminate"
        )

    @property
    def void_reason(self) -> str | None:
        """Why it takes an open question back; `None` where it leaves the question open."""
        if self.waits is not None:
            # The change of state takes it back, should an instance in the warm pool be stopped.
            return (
                None
                if self.waits.to_warm_pool
                else f"the Auto Scaling group {self.group} terminates it"
            )
        if not self.response.is_certain:
            return None
        what = (
            "this Spot instance" if self.cause is Cause.SPOT else "the capacity of its reservation"
        )
        return (
            f"EC2 takes {what} back and will {self.plan} it at about "
            f"{clock(self.ends_at, 'UTC', self.at)}"
        )

    def is_over(self, instance: Instance, now: UtcDatetime) -> bool:
        """Return whether it is of an earlier run, or of an end long past: events may come an hour
        late."""
        if self.at < instance.launch_time:
            return True
        return (
            self.response.is_certain and instance.state == "running" and now - self.ends_at > _LATE
        )

    def stands_until(self, now: UtcDatetime) -> UtcDatetime:
        """Until when nobody else may touch it. EC2 may be late; a far end that is stated binds
        nobody."""
        return min(self.ends_at, now + _LONGEST) + _LATE

    def seconds_left(self, now: UtcDatetime) -> int:
        """Return whole seconds until EC2 acts, or 0; two minutes after a rebalance
        recommendation."""
        if not self.response.is_certain:
            return int(_NOTICE.total_seconds())
        return max(0, int((self.ends_at - now).total_seconds()))


class SpotPrice(NamedTuple):
    """The Spot price of a type in one zone, by the account's own zone names."""

    region: str
    zone: str
    usd_per_hour: UsdPerHour


class Checkpoint(NamedTuple):
    """The decision to ask the instance to save its work, to send SIGTERM to GPU processes, and
    why."""

    send: bool
    signal: bool
    why: str


class HookState(StrEnum):
    """The state of a hook to be sent, when its owner is notified."""

    NEXT = "next"
    SENT = "sent"
    EARLIER = "earlier"
    """Another delivery of the same warning has sent it, or sends it now."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """No answer has come in time: it may run."""


class HookAnswer(NamedTuple):
    """The result of a hook. `error` says why, where it is refused or not known."""

    state: HookState
    error: str = ""

    @property
    def was_sent(self) -> bool | None:
        """`None` where that is not known, or not yet."""
        if self.state in (HookState.SENT, HookState.EARLIER):
            return True
        return False if self.state is HookState.REFUSED else None


def decide_checkpoint(instance: Instance, policy: Policy, warned: Warned) -> Checkpoint:
    """By the tag, else by the policy; never where it could do harm. On a rebalance a tag only
    forbids."""
    wanted, why = warned.response.wants_hook(policy.events), "the policy says so"
    signal = policy.events.signal_gpu_processes
    tag = instance.tags.get(CHECKPOINT_TAG, "").strip().lower()
    if tag in _ON:
        signal = tag == "signal"
    if tag in _OFF or (tag in _ON and warned.response.is_certain):
        wanted, why = tag in _ON, f"its tag {CHECKPOINT_TAG} says {tag}"
    if wanted and (forbidden := _forbidden(instance, policy, warned)) is not None:
        wanted, why = False, forbidden
    return Checkpoint(wanted, wanted and signal, why)


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
