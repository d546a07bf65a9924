"""AWS's warnings about a running instance, such as a Spot interruption, with what follows from
each, and whether the checkpoint hook is sent.

A new warning is a `Cause` and its row in `RESPONSES`; everything else reads the row. This module
only decides: it sends nothing. It must not decide to ask an instance if the policy or the
instance's tag forbids that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from governor.core.instance import CHECKPOINT_TAG, Instance
from governor.core.units import UsdPerHour, UtcDatetime, in_utc
from governor.policy.model.notices import Events
from governor.policy.model.policy import Mode, Policy

_NOTICE = timedelta(minutes=2)
"""How long before an interruption EC2 warns. Source: EC2 user guide, Spot interruption notices."""
BURST_WINDOW = timedelta(minutes=10)
"""Warnings in one zone or group belong together within this time of the first. EC2 takes back the
instances of a pool minutes apart, each two minutes after its warning."""
ROOT_VOLUME = "root-volume"
"""The kind of warnings that an Auto Scaling group replaces the root volume of an instance."""
_KNOWN_ACTIONS = ("hibernate", "stop", "terminate")
_LATE = timedelta(minutes=5)
"""For this long after the stated end EC2 may still act. An instance that runs after that was
spared, or the event is old."""
_LONGEST = timedelta(minutes=30)
"""A warning stands for no longer than this and `_LATE`."""
_OFF = ("off", "no", "false", "none", "never", "0")
_ON = ("hook", "on", "yes", "true", "1", "signal")


class Cause(StrEnum):
    """The cause of a warning."""

    SPOT = "spot"
    RESERVATION = "capacity-reservation"
    REBALANCE = "rebalance"
    """An interruption has become more likely; it may come at once, later or never."""
    AUTO_SCALING = "auto-scaling"


@dataclass(frozen=True, slots=True)
class Response:
    """The event of one cause of warnings, and the response to it."""

    detail_type: str
    """The `detail-type` by which EventBridge's rules and `governor.events.contract` know it."""
    kind: str
    """Warnings of one kind in one place are counted together; many of them are sent as one
    message."""
    hook_reason: str
    """The reason that the checkpoint hook gets; its document accepts these words only."""
    wants_hook: Callable[[Events], bool]
    """Reads from the policy whether instances are asked to save their work after such a warning."""
    is_certain: bool = True
    """True if the announced interruption will happen. An open question is then canceled, and the
    instance's tag may demand the hook."""
    hook_first: bool = True
    """True if the hook is sent before the notification because seconds count."""
    is_taken_back: bool = False
    """True if EC2 needs the capacity: GPU Governor does not stop the instance, and data volumes may
    be snapshot."""
    lost_capacity: str = ""
    """The capacity that EC2 takes back, in the reason for which a question is canceled. It is set
    for a cause that is certain and that no group waits for."""
    advises: bool = False
    """Owners get the Spot prices of other zones and Regions."""
    has_own_fields: bool = False
    """True if its event has other fields than EC2's warnings, and a model of its own in
    `governor.events.contract`."""


RESPONSES: Mapping[Cause, Response] = {
    Cause.SPOT: Response(
        detail_type="EC2 Spot Instance Interruption Warning",
        kind="interruption",
        hook_reason="spot-interruption",
        wants_hook=lambda events: events.checkpoint_on_spot_interruption,
        is_taken_back=True,
        lost_capacity="this Spot instance",
        advises=True,
    ),
    Cause.RESERVATION: Response(
        detail_type="EC2 Capacity Reservation Instance Interruption Warning",
        kind="interruption",
        hook_reason="capacity-reservation-interruption",
        wants_hook=lambda events: events.checkpoint_on_spot_interruption,
        is_taken_back=True,
        lost_capacity="the capacity of its reservation",
    ),
    Cause.REBALANCE: Response(
        detail_type="EC2 Instance Rebalance Recommendation",
        kind="rebalance",
        hook_reason="rebalance-recommendation",
        wants_hook=lambda events: events.checkpoint_on_rebalance,
        is_certain=False,
    ),
    Cause.AUTO_SCALING: Response(
        detail_type="EC2 Instance-terminate Lifecycle Action",
        kind="termination",
        hook_reason="auto-scaling-termination",
        wants_hook=lambda events: events.checkpoint_on_auto_scaling,
        hook_first=False,
        has_own_fields=True,
    ),
}


class LifecycleAction(NamedTuple):
    """An Auto Scaling group is about to terminate an instance, to put it into its warm pool, or to
    replace its root volume, and waits until one of its lifecycle hooks is completed."""

    group: str
    hook: str
    token: str
    to_warm_pool: bool = False
    replaces_root_volume: bool = False

    @property
    def keeps_instance(self) -> bool:
        """Return whether the instance goes on to exist."""
        return self.to_warm_pool or self.replaces_root_volume


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning about one instance."""

    event_id: str
    account: str
    region: str
    instance_id: str
    cause: Cause
    at: UtcDatetime
    action: str | None = None
    """The action that EC2 will take; `None` for a rebalance recommendation, or if EC2 names
    none."""
    stated_end: UtcDatetime | None = None
    lifecycle_action: LifecycleAction | None = None
    """The lifecycle action that its Auto Scaling group waits for; `None` if no group sent it."""

    @property
    def response(self) -> Response:
        """Return how GPU Governor responds to a warning of this cause: a row of `RESPONSES`."""
        return RESPONSES[self.cause]

    @property
    def group(self) -> str | None:
        """Return the Auto Scaling group; `None` unless it sent the warning."""
        return None if self.lifecycle_action is None else self.lifecycle_action.group

    @property
    def ends_at(self) -> UtcDatetime:
        """Return when EC2 or the group is expected to act: at the stated end, or, if none is
        stated, two minutes after the warning. Too early an end costs the hook least."""
        return self.stated_end or self.at + _NOTICE

    @property
    def kind(self) -> str:
        """Return the kind under which warnings in one place are counted together, such as
        `interruption`. Replacements of root volumes have a kind of their own."""
        if self.lifecycle_action is not None and self.lifecycle_action.replaces_root_volume:
            return ROOT_VOLUME
        return self.response.kind

    @property
    def ends_instance(self) -> bool:
        """Return whether the announced act will happen and ends the instance."""
        if self.lifecycle_action is not None and self.lifecycle_action.keeps_instance:
            return False
        return self.response.is_certain

    @property
    def action_text(self) -> str:
        """Return the action that EC2 or the Auto Scaling group will take, for a sentence after
        `will`, such as `stop`. It is `terminate` if none is named; an action that is not known is
        named in brackets after that."""
        if self.lifecycle_action is not None or self.action in _KNOWN_ACTIONS:
            return str(self.action)
        if not self.action:
            return "terminate"
        return f"terminate (or {self.action}, which is not known here)"

    @property
    def void_reason(self) -> str | None:
        """Return why an open question about the instance is canceled; `None` if it stays open:
        after a rebalance recommendation, and if the group keeps the instance, as a warm pool
        does."""
        if self.lifecycle_action is not None:
            if self.lifecycle_action.keeps_instance:
                # If the warm pool stops the instance, its change of state cancels the question.
                return None
            return f"the Auto Scaling group {self.group} terminates it"
        if not self.response.is_certain:
            return None
        capacity = self.response.lost_capacity
        return (
            f"EC2 is reclaiming {capacity} and will {self.action_text} it around "
            f"{in_utc(self.ends_at)}"
        )

    def is_over(self, instance: Instance, now: UtcDatetime) -> bool:
        """Return whether nothing is left to do about the warning: it is about an earlier run of the
        instance, or the instance runs on more than five minutes after the end. Events may be an
        hour late."""
        if self.at < instance.launch_time:
            return True
        if not self.response.is_certain or instance.state != "running":
            return False
        return now - self.ends_at > _LATE

    def stands_until(self, now: UtcDatetime) -> UtcDatetime:
        """Return when GPU Governor may act on the instance again: some minutes after the end, as
        EC2 may be late, and at most 35 minutes from `now`, however far away the stated end is."""
        return min(self.ends_at, now + _LONGEST) + _LATE

    def seconds_left(self, now: UtcDatetime) -> int:
        """Return the whole seconds until EC2 or the group acts, or 0 if that time is past.

        A rebalance recommendation names no end: return 120 for it, always.
        """
        if not self.response.is_certain:
            return int(_NOTICE.total_seconds())
        return max(0, int((self.ends_at - now).total_seconds()))


class SpotPrice(NamedTuple):
    """The Spot price of a type in one zone, by the account's own zone names."""

    region: str
    zone: str
    usd_per_hour: UsdPerHour


class Checkpoint(NamedTuple):
    """The decision whether the instance is asked to save its work."""

    send: bool
    sigterm_if_no_hook: bool
    """True if its GPU processes get a SIGTERM where the instance has no hook to run."""
    why: str


class HookState(StrEnum):
    """The state of the hook at the time when the owner is notified."""

    NEXT = "next"
    SENT = "sent"
    EARLIER = "earlier"
    """Another delivery of the same warning has sent it, or sends it now."""
    REFUSED = "refused"
    UNKNOWN = "unknown"
    """Systems Manager did not answer in time: the hook may run."""


class HookAnswer(NamedTuple):
    """The result of a hook. `error` gives the reason if the hook was refused or its state is not
    known."""

    state: HookState
    error: str = ""

    @property
    def was_sent(self) -> bool | None:
        """Return true if the hook was sent, by this or another delivery, and false if it was
        refused; `None` if that is not known, or the hook is still to be sent."""
        if self.state in (HookState.SENT, HookState.EARLIER):
            return True
        return False if self.state is HookState.REFUSED else None


def decide_checkpoint(instance: Instance, policy: Policy, warned: Warned) -> Checkpoint:
    """Return the decision whether to send the hook, and why.

    The instance's tag decides; without a known value there, the policy does. After a rebalance
    recommendation a tag can only forbid the hook. A hook that could do harm is never sent. Where
    there is no hook, GPU processes get a signal if the tag says `signal` or, without a tag that
    asks for the hook, the policy does.
    """
    tag = instance.tags.get(CHECKPOINT_TAG, "").strip().lower()
    is_wanted = warned.response.wants_hook(policy.events)
    why = "the policy says so"
    if tag in _OFF or (tag in _ON and warned.response.is_certain):
        is_wanted = tag in _ON
        why = f"its tag {CHECKPOINT_TAG} says {tag}"
    if not is_wanted:
        return Checkpoint(send=False, sigterm_if_no_hook=False, why=why)
    why_forbidden = _why_forbidden(instance, policy, warned)
    if why_forbidden is not None:
        return Checkpoint(send=False, sigterm_if_no_hook=False, why=why_forbidden)
    sigterm_if_no_hook = policy.events.signal_gpu_processes
    if tag in _ON:
        sigterm_if_no_hook = tag == "signal"
    return Checkpoint(send=True, sigterm_if_no_hook=sigterm_if_no_hook, why=why)


def _why_forbidden(instance: Instance, policy: Policy, warned: Warned) -> str | None:
    """Return why the hook could do harm or would do nothing, whatever tag and policy want: in mode
    observe, at a hibernation, on Windows, and on an instance that does not run. Return `None` if it
    may be sent."""
    if policy.mode is Mode.OBSERVE:
        return "mode observe changes nothing on an instance"
    if warned.action == "hibernate":
        return "hibernation begins at once and keeps the memory"
    if "windows" in instance.platform.lower():
        return "the hook is a Linux program"
    if instance.state != "running":
        return f"the instance is {instance.state}"
    return None
