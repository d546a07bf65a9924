"""The plan for an idle instance: what it does, replaces, loses, keeps and saves, drawn from facts
only.

The one rule above all: nothing that destroys is ever planned without a snapshot before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import StrEnum

from governor.domain.alerts.templates import said
from governor.domain.instance import (
    Instance,
    LaunchFacts,
    Lifecycle,
    Protection,
    Shape,
    SpotRequestType,
    Volume,
    managed_by,
)
from governor.domain.policy.policy import Action, Mode, Policy
from governor.domain.units import HOURS_PER_MONTH, Usd, UsdPerHour, UtcDatetime


class Step(StrEnum):
    """One EC2 write of a plan, in the order of the plan."""

    STOP = "stop"
    SNAPSHOT = "snapshot"
    CANCEL_SPOT_REQUEST = "cancel-spot-request"
    TERMINATE = "terminate"


class Until(StrEnum):
    STOPPED = "stopped"
    SNAPSHOTS_COMPLETED = "snapshots-completed"
    TERMINATED = "terminated"
    HEARD = "heard"
    """A channel has taken the message that nobody gets straight from the topic."""


MAIN_STEPS = (Step.STOP, Step.SNAPSHOT, Step.TERMINATE)
"""Each is a state of the workflow with a recheck before it. Any other step is a companion: it is
carried out in the same call as the main step that comes next in the plan, right before it."""


def main_of(steps: Sequence[Step], step: Step) -> Step:
    following = (one for one in steps[steps.index(step) :] if one in MAIN_STEPS)
    return next(following, Step.TERMINATE)


def companions(steps: Sequence[Step], main: Step) -> tuple[Step, ...]:
    return tuple(one for one in steps if one is not main and main_of(steps, one) is main)


def unmet(companion: Step, instance: Instance) -> str | None:
    if companion is Step.CANCEL_SPOT_REQUEST and instance.spot_request_id is None:
        return "its Spot request is not known, so a successor could be launched"
    return None


_INCLUDED_IOPS = {"gp3": 3_000, "io1": 0, "io2": 0}
_INCLUDED_THROUGHPUT = {"gp3": 125}
"""MiB/s, and IOPS, of volume types that are charged for more. Source: EBS pricing."""
ADDRESS_USD_PER_HOUR = Decimal("0.005")
"""Price of a public IPv4 address where the Region's was not read. Source: Amazon VPC pricing,
2026."""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """USD a month by volume type: per GiB, and per IOPS and MiB/s above what is included; per GiB
    of snapshots; an hour per public address. What is not there is not known."""

    usd_per_gib_month: Mapping[str, Usd] = field(default_factory=dict)
    usd_per_iops_month: Mapping[str, Usd] = field(default_factory=dict)
    usd_per_mibps_month: Mapping[str, Usd] = field(default_factory=dict)
    snapshot_usd_per_gib_month: Usd | None = None
    address_usd_per_hour: UsdPerHour | None = None

    def usd_per_month(self, volume: Volume) -> Usd | None:
        """Return the most a volume costs: io2 costs less per IOPS from 32,000 on. `None`: not
        known."""
        kind, size = volume.volume_type or "", volume.size_gib
        if size is None or kind not in self.usd_per_gib_month:
            return None
        usd = size * self.usd_per_gib_month[kind]
        for amount, included, prices in (
            (volume.iops, _INCLUDED_IOPS, self.usd_per_iops_month),
            (volume.throughput, _INCLUDED_THROUGHPUT, self.usd_per_mibps_month),
        ):
            more = max(0, (amount or 0) - included.get(kind, amount or 0))
            if more and kind not in prices:
                return None
            usd += more * prices.get(kind, Decimal(0))
        return usd


@dataclass(frozen=True, slots=True)
class Price:
    """`usd_per_hour` is `None` when unpriced, and zero only where the hour is paid for already.
    `source` is in words fit for the approval page. `list_usd_per_hour`: before
    `prices.discount_percent`, where that was taken off. `storage`: that of its Region, where it was
    read. `may_be_committed`: a Savings Plan or a Reserved Instance may pay for the hour."""

    usd_per_hour: UsdPerHour | None
    source: str
    as_of: UtcDatetime | None = None
    list_usd_per_hour: UsdPerHour | None = None
    storage: StoragePrices | None = None
    may_be_committed: bool = True

    @property
    def undiscounted(self) -> UsdPerHour | None:
        return self.usd_per_hour if self.list_usd_per_hour is None else self.list_usd_per_hour


@dataclass(frozen=True, slots=True)
class Saving:
    """Changes on the bill by the plan, per hour. `None` where the price or a volume's size is not
    known."""

    cost_before_usd_per_hour: UsdPerHour | None
    cost_after_usd_per_hour: UsdPerHour | None

    @property
    def saved_usd_per_hour(self) -> UsdPerHour | None:
        if self.cost_before_usd_per_hour is None or self.cost_after_usd_per_hour is None:
            return None
        return self.cost_before_usd_per_hour - self.cost_after_usd_per_hour

    @property
    def saved_usd_per_day(self) -> Usd | None:
        hourly = self.saved_usd_per_hour
        return None if hourly is None else hourly * 24


@dataclass(frozen=True, slots=True)
class Plan:
    """The drawn plan. `replaced_because` is empty when the policy's wish can be fulfilled."""

    wanted: Action
    action: Action
    steps: tuple[Step, ...]
    replaced_because: tuple[str, ...]
    losses: tuple[str, ...]
    stays: tuple[str, ...]
    saving: Saving
    loses_local_disks: bool = False
    """True if disks inside the host are wiped: their data is in no snapshot and never comes
    back."""

    @property
    def destroys(self) -> bool:
        return Step.TERMINATE in self.steps

    @property
    def verb(self) -> str:
        return "terminate" if self.destroys else "stop"

    @property
    def doing(self) -> str:
        return "Terminating" if self.destroys else "Stopping"


def mode_of(policy: Policy, plan: Plan) -> Mode:
    """The mode this plan is carried out in: where data is lost, `auto` asks, unless the policy says
    else."""
    return Mode.ASK if policy.mode is Mode.AUTO and not _may_lose(policy, plan) else policy.mode


def acts_on_silence(policy: Policy, plan: Plan) -> bool:
    return policy.approval.on_expiry == "act" and _may_lose(policy, plan)


def about_stopped(policy: Policy) -> Policy:
    """Return the policy of a question about an instance that an earlier one has stopped: people say
    whether it is terminated; silence, and mode auto, never do."""
    rule, mode = policy.plan, policy.mode if policy.mode is Mode.OBSERVE else Mode.ASK
    if rule.action is not Action.NOTIFY_ONLY:
        rule = replace(rule, action=Action.TERMINATE)
    return replace(
        policy, mode=mode, plan=rule, approval=replace(policy.approval, on_expiry="no-action")
    )


def _may_lose(policy: Policy, plan: Plan) -> bool:
    return policy.plan.local_disks_may_be_lost_unasked or not plan.loses_local_disks


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """All a plan is drawn from. `spot_request` is read for Spot instances only."""

    instance: Instance
    protection: Protection
    spot_request: SpotRequestType | None
    shape: Shape | None
    price: Price


def draw_plan(facts: PlanFacts, policy: Policy) -> Plan:
    wanted = policy.plan.action
    action, reasons = _possible_action(facts, policy)
    steps, shape = _steps(facts, action), facts.shape
    # An unknown type is treated as having local data; what is stopped has lost it.
    runs = facts.instance.state != "stopped"
    has_disks = runs and (
        shape is None or bool(shape.local_nvme) or facts.instance.root_device_type != "ebs"
    )
    return Plan(
        wanted=wanted,
        action=action,
        steps=steps,
        replaced_because=tuple(reasons),
        losses=_losses(facts, steps),
        stays=_stays(facts, steps, policy),
        saving=saving_of(facts.instance, facts.price, steps, policy),
        loses_local_disks=bool(steps) and has_disks,
    )


def can_stop(facts: PlanFacts) -> str | None:
    """Why EC2 can never stop this instance, or `None` when it can."""
    if facts.instance.root_device_type != "ebs":
        return "its root volume is an instance store, which cannot be stopped"
    if (
        facts.instance.lifecycle is Lifecycle.SPOT
        and facts.spot_request is not SpotRequestType.PERSISTENT
    ):
        return "it is a one-time Spot instance, which cannot be stopped"
    return None


def _possible_action(facts: PlanFacts, policy: Policy) -> tuple[Action, list[str]]:
    rule = policy.plan
    if rule.action is Action.NOTIFY_ONLY:
        return Action.NOTIFY_ONLY, []
    refusal = left_alone(facts.instance, policy.managed.tag_keys)
    if refusal is not None:
        return Action.NOTIFY_ONLY, [refusal]
    if facts.protection.stop:
        return Action.NOTIFY_ONLY, ["stop protection (disableApiStop) is on: a human said no"]
    action: Action = rule.action
    reasons: list[str] = []
    unstoppable = can_stop(facts)
    if action is Action.STOP and unstoppable is not None:
        action = rule.when_stop_is_unsupported
        reasons.append(f"{unstoppable}; the policy then says {action.value}")
    if action is Action.TERMINATE and facts.protection.termination:
        reasons.append("termination protection (disableApiTermination) is on: a human said no")
        action = rule.when_termination_is_protected if unstoppable is None else Action.NOTIFY_ONLY
    if action is Action.TERMINATE and not facts.instance.volumes:
        reasons.append("it has no EBS volume, so nothing could be kept in a snapshot")
        action = Action.NOTIFY_ONLY
    return action, reasons


_NOTHING = "stopping saves nothing"
_BILLED_ANYWAY = f"which is billed whether used or not: {_NOTHING}"
_NO_SAVING: Mapping[Lifecycle, str] = {
    Lifecycle.CAPACITY_BLOCK: f"it runs in a Capacity Block, which is paid in advance: {_NOTHING}",
    Lifecycle.SCHEDULED: "it runs in a scheduled reservation, which is paid either way: "
    f"{_NOTHING}",
    Lifecycle.INTERRUPTIBLE_RESERVATION: (
        f"it runs in an interruptible reservation of somebody else's: {_NOTHING} here"
    ),
    Lifecycle.UNKNOWN: "EC2 calls its lifecycle by a name this version does not know",
}


def left_alone(instance: Instance, manager_tags: Sequence[str]) -> str | None:
    """Why nothing is done, whatever the policy wants: another service runs it, or a stop saves
    nothing."""
    if (manager := managed_by(instance, manager_tags)) is not None:
        return (
            f"{manager.service} runs it ({manager.mark}) and would replace it or lose track of it"
        )
    if instance.lifecycle in _NO_SAVING:
        return _NO_SAVING[instance.lifecycle]
    if instance.capacity_reservation_id is not None:
        return (
            f"it fills the Capacity Reservation {instance.capacity_reservation_id}, "
            f"{_BILLED_ANYWAY}"
        )
    if instance.host_id is not None:
        return f"it runs on the Dedicated Host {instance.host_id}, {_BILLED_ANYWAY}"
    return None


def _steps(facts: PlanFacts, action: Action) -> tuple[Step, ...]:
    if action is Action.NOTIFY_ONLY:
        return ()
    snapshot = (Step.SNAPSHOT,) if facts.instance.volumes else ()
    if action is Action.STOP:
        return (Step.STOP, *snapshot)
    # Stopping first makes the snapshots consistent; where that is impossible they are
    # crash-consistent.
    stop = (Step.STOP,) if can_stop(facts) is None else ()
    persistent = facts.spot_request is SpotRequestType.PERSISTENT
    # Left open, a persistent request would launch a successor of what is terminated.
    cancel = (Step.CANCEL_SPOT_REQUEST,) if persistent else ()
    return (*stop, *snapshot, *cancel, Step.TERMINATE)


def _losses(facts: PlanFacts, steps: tuple[Step, ...]) -> tuple[str, ...]:
    if not steps:
        return ()
    instance, launch = facts.instance, facts.instance.launch or LaunchFacts()
    runs = instance.state != "stopped"
    disks = runs and (facts.shape.local_nvme if facts.shape else "untold")
    values = {
        "runs": runs,
        "type": instance.instance_type,
        "disks": disks,
        "sized": disks and disks not in ("unknown", "untold"),
        "ip": instance.public_ip not in launch.elastic_ips and instance.public_ip,
        "ends": Step.TERMINATE in steps,
        "root": instance.root_device_type,
        "deleted": [
            f"{_volume(one)}: deleted with it"
            for one in instance.volumes
            if one.delete_on_termination
        ],
        "network": launch.network,
        "group": launch.placement_group,
        "stops": Step.STOP in steps,
    }
    return tuple(said("losses", values))


def _stays(facts: PlanFacts, steps: tuple[Step, ...], policy: Policy) -> tuple[str, ...]:
    if not steps:
        return ()
    instance, launch, ends = (
        facts.instance,
        facts.instance.launch or LaunchFacts(),
        Step.TERMINATE in steps,
    )
    values = {
        "volumes": [
            f"{_volume(one)}, billed as before"
            for one in instance.volumes
            if not (ends and one.delete_on_termination)
        ],
        "addresses": [f"Elastic IP {ip}, billed as before" for ip in launch.elastic_ips],
        "snapshots": Step.SNAPSHOT in steps,
        "days": policy.plan.snapshot_retention_days,
        "ends": ends,
        "group": launch.placement_group,
    }
    return tuple(said("stays", values))


def _volume(one: Volume) -> str:
    size = "size unknown" if one.size_gib is None else f"{one.size_gib} GiB"
    return f"volume {one.volume_id} ({one.device}, {size})"


def saving_of(
    instance: Instance, price_of: Price, steps: tuple[Step, ...], policy: Policy
) -> Saving:
    price, flat, known = price_of.usd_per_hour, policy.prices, price_of.storage or StoragePrices()
    sizes = [volume.size_gib for volume in instance.volumes if volume.size_gib is not None]
    if price is None or len(sizes) < len(instance.volumes):
        return Saving(None, None)

    def monthly(volumes: Iterable[Volume]) -> Usd:
        amounts = [(known.usd_per_month(one), one.size_gib or 0) for one in volumes]
        return sum(
            (size * flat.ebs_usd_per_gib_month if usd is None else usd for usd, size in amounts),
            Decimal(0),
        )

    each = (
        ADDRESS_USD_PER_HOUR if known.address_usd_per_hour is None else known.address_usd_per_hour
    )
    addresses = each * len((instance.launch or LaunchFacts()).elastic_ips)
    before = price + addresses + monthly(instance.volumes) / HOURS_PER_MONTH
    if not steps:
        return Saving(before, before)
    deletes = Step.TERMINATE in steps
    kept = monthly(one for one in instance.volumes if not (deletes and one.delete_on_termination))
    snapshot = known.snapshot_usd_per_gib_month
    if Step.SNAPSHOT in steps:
        # A first snapshot is charged by its used blocks; the full size is the most it can cost.
        kept += sum(sizes) * (flat.snapshot_usd_per_gib_month if snapshot is None else snapshot)
    return Saving(before, addresses + kept / HOURS_PER_MONTH)
