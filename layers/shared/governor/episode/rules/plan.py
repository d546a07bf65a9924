"""Draw the plan for an idle instance: whether it is stopped or terminated, its steps, and what the
plan replaces, loses, keeps and saves.

A plan is drawn from facts alone. It must never hold a step that destroys without a snapshot before
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from governor.core.instance import (
    Instance,
    LaunchFacts,
    Lifecycle,
    SpotRequestType,
    Volume,
)
from governor.core.managers import managed_by, other_tools
from governor.core.units import HOURS_PER_MONTH, Usd, UsdPerHour
from governor.episode.model.plan import Plan, PlanFacts, Price, Saving, Step, StoragePrices
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.money import Prices
from governor.policy.model.policy import Mode, Policy

MAIN_STEPS = (Step.STOP, Step.SNAPSHOT, Step.TERMINATE)
"""Each is a state of the workflow with a recheck before it. Any other step is a companion: it is
carried out in the same call as the main step that comes next in the plan, right before it."""


def main_of(steps: Sequence[Step], step: Step) -> Step:
    """Return the main step in whose call this step of the plan is carried out: the step itself or
    the next main step in `steps`, else the termination. Raises: ValueError if the plan lacks the
    step."""
    for following in steps[steps.index(step) :]:
        if following in MAIN_STEPS:
            return following
    return Step.TERMINATE


def companions(steps: Sequence[Step], main: Step) -> tuple[Step, ...]:
    """Return the steps of the plan that the function of this main step carries out in the same
    invocation, before it, such as the cancellation of a Spot request; empty if there are none."""
    return tuple(step for step in steps if step is not main and main_of(steps, step) is main)


def why_impossible(companion: Step, instance: Instance) -> str | None:
    """Return why a companion step cannot be carried out on this instance; `None` if it can."""
    if companion is Step.CANCEL_SPOT_REQUEST and instance.spot_request_id is None:
        return "its Spot request is not known, so a successor could be launched"
    return None


ADDRESS_USD_PER_HOUR = Decimal("0.005")
"""Price of a public IPv4 address, if the Region's price was not read. Source: Amazon VPC pricing,
2026."""


def mode_of(policy: Policy, plan: Plan) -> Mode:
    """Return the mode in which this plan is carried out: the policy's. Only for a plan that loses
    local disks, mode auto becomes mode ask, unless the policy allows that loss."""
    if policy.mode is Mode.AUTO and not _may_lose_unasked(policy, plan):
        return Mode.ASK
    return policy.mode


def acts_on_silence(policy: Policy, plan: Plan) -> bool:
    """Return whether the policy lets this plan act if nobody answers: `approval.on_expiry` is
    `act`, and the plan loses no local disks, or the policy allows that loss."""
    return policy.approval.on_expiry == "act" and _may_lose_unasked(policy, plan)


def about_stopped(policy: Policy) -> Policy:
    """Return the policy under which people are asked about an instance that an earlier question has
    stopped: its plan is a termination, unless the policy only notifies.

    Only people decide whether it is terminated: never silence, and never mode auto.
    """
    rule = policy.plan
    if rule.action is not Action.NOTIFY_ONLY:
        rule = replace(rule, action=Action.TERMINATE)
    return replace(only_people_decide(policy), plan=rule)


def only_people_decide(policy: Policy) -> Policy:
    """Return the policy without any action that nobody said yes to: mode auto becomes mode ask, and
    silence is no answer. Mode observe stays."""
    mode = Mode.OBSERVE if policy.mode is Mode.OBSERVE else Mode.ASK
    approval = replace(policy.approval, on_expiry="no-action")
    return replace(policy, mode=mode, approval=approval)


def _may_lose_unasked(policy: Policy, plan: Plan) -> bool:
    """Return whether the plan loses no local disks, or the policy allows that unasked."""
    return policy.plan.local_disks_may_be_lost_unasked or not plan.loses_local_disks


def draw_plan(facts: PlanFacts, policy: Policy) -> Plan:
    """Return the plan by this policy, drawn from the facts. It has no steps if nothing may or can
    be done."""
    action, reasons = _possible_action(facts, policy)
    steps = _steps(facts, action)
    return Plan(
        wanted=policy.plan.action,
        action=action,
        steps=steps,
        replaced_because=tuple(reasons),
        losses=_losses(facts, steps),
        stays=_stays(facts, steps, policy),
        saving=saving_of(facts.instance, facts.price, steps, policy),
        loses_local_disks=bool(steps) and _has_local_data(facts),
    )


def _has_local_data(facts: PlanFacts) -> bool:
    """Return whether disks inside the host may hold data. An unknown type counts as having such
    disks, a stopped instance as having none."""
    if facts.instance.state == "stopped":
        # Local disks lost their data when it was stopped.
        return False
    if facts.instance.root_device_type != "ebs":
        return True
    return facts.shape is None or bool(facts.shape.local_nvme)


def why_unstoppable(facts: PlanFacts) -> str | None:
    """Return why EC2 can never stop this instance; `None` if it can."""
    if facts.instance.root_device_type != "ebs":
        return "its root volume is an instance store, which cannot be stopped"
    is_spot = facts.instance.lifecycle is Lifecycle.SPOT
    if is_spot and facts.spot_request is not SpotRequestType.PERSISTENT:
        return "it is a one-time Spot instance, which cannot be stopped"
    return None


def _possible_action(facts: PlanFacts, policy: Policy) -> tuple[Action, list[str]]:
    """Return the action that is possible, and the reasons why it is not the policy's, or what could
    not be read; no reasons if neither is so.

    The action is to notify only if another service runs the instance, a stop saves nothing, its
    lifecycle is not known, or stop protection is on.
    """
    if policy.plan.action is Action.NOTIFY_ONLY:
        return Action.NOTIFY_ONLY, []
    refusal = why_left_alone(facts.instance, policy.managed.tag_keys)
    if refusal is not None:
        return Action.NOTIFY_ONLY, [refusal]
    if facts.protection.stop:
        return Action.NOTIFY_ONLY, ["stop protection (disableApiStop) is on, so it is not stopped"]
    action, reasons = _possible_stop_or_termination(facts, policy.plan)
    if facts.protection.stop is None:
        reasons.append(_STOP_PROTECTION_NOT_KNOWN)
    return action, reasons


_STOP_PROTECTION_NOT_KNOWN = (
    "stop protection is not known, because EC2 in this Region does not support disableApiStop"
)
_TERMINATION_PROTECTED = (
    "termination protection (disableApiTermination) is on, so it is not terminated"
)
_TERMINATION_PROTECTION_NOT_KNOWN = (
    "termination protection is not known, because EC2 in this Region does not support "
    "disableApiTermination: it is not terminated"
)


def _possible_stop_or_termination(facts: PlanFacts, rule: PlanRule) -> tuple[Action, list[str]]:
    """Return the possible action, and the reasons why it is not the policy's; no reasons if it is.
    Call it only for an instance that nothing protects from a stop, and a policy that does more than
    notify."""
    action: Action = rule.action
    reasons: list[str] = []
    unstoppable = why_unstoppable(facts)
    if action is Action.STOP and unstoppable is not None:
        action = rule.when_stop_is_unsupported
        reasons.append(f"{unstoppable}; in that case, the policy says {action.value}")
    if action is Action.TERMINATE and facts.protection.termination is not False:
        if facts.protection.termination is None:
            reasons.append(_TERMINATION_PROTECTION_NOT_KNOWN)
        else:
            reasons.append(_TERMINATION_PROTECTED)
        action = rule.when_termination_is_protected if unstoppable is None else Action.NOTIFY_ONLY
    if action is Action.TERMINATE and not facts.instance.volumes:
        reasons.append("it has no EBS volume, so no snapshot could keep its data")
        action = Action.NOTIFY_ONLY
    return action, reasons


_NOTHING = "stopping saves nothing"


_BILLED_ANYWAY = f"which is billed whether used or not: {_NOTHING}"


_NO_SAVING: Mapping[Lifecycle, str] = {
    Lifecycle.CAPACITY_BLOCK: f"it runs in a Capacity Block, which is paid in advance: {_NOTHING}",
    Lifecycle.SCHEDULED: "it runs in a scheduled reservation, which is paid either way: "
    f"{_NOTHING}",
    Lifecycle.INTERRUPTIBLE_RESERVATION: (
        f"it runs in somebody else's interruptible reservation: {_NOTHING} here"
    ),
    Lifecycle.UNKNOWN: "EC2 gives it a lifecycle that this version does not know",
}


def why_left_alone(instance: Instance, manager_tags: Sequence[str]) -> str | None:
    """Return why nothing is done to this instance, whatever the policy wants; `None` if nothing
    forbids an action.

    Another service runs the instance, a stop saves nothing, or its lifecycle is not known.
    `manager_tags` are the keys that the policy adds to the tags by which such services mark
    instances.
    """
    manager = managed_by(instance, manager_tags)
    if manager is not None:
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
    """Return the steps of this action in their order; empty if nothing is done.

    Call it only with a possible action: a termination has volumes, so their snapshots come before
    it.
    """
    if action is Action.NOTIFY_ONLY:
        return ()
    steps: list[Step] = []
    # A stop before the snapshots makes them consistent; without one they are crash-consistent.
    if action is Action.STOP or why_unstoppable(facts) is None:
        steps.append(Step.STOP)
    if facts.instance.volumes:
        steps.append(Step.SNAPSHOT)
    if action is Action.STOP:
        return tuple(steps)
    if facts.spot_request is SpotRequestType.PERSISTENT:
        # Left open, a persistent request would launch a successor of the terminated instance.
        steps.append(Step.CANCEL_SPOT_REQUEST)
    steps.append(Step.TERMINATE)
    return tuple(steps)


def _losses(facts: PlanFacts, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """Return what the steps lose, a line for each loss, as people read it; empty if there are no
    steps. A stopped instance has lost its memory and local disks already; an address that is known
    to be an Elastic IP stays."""
    if not steps:
        return ()
    losses: list[str] = []
    if facts.instance.state != "stopped":
        losses.append("everything in RAM and in GPU memory")
    losses += _lost_disks(facts)
    launch = facts.instance.launch or LaunchFacts()
    ip = facts.instance.public_ip
    if ip and ip not in launch.elastic_ips:
        losses.append(f"the public IPv4 address {ip}, unless it is an Elastic IP")
    if facts.instance.root_device_type != "ebs":
        losses.append(
            "the whole root volume: it is an instance store, which snapshots do not cover"
        )
    if Step.TERMINATE in steps:
        losses += _lost_with_instance(facts.instance, launch)
    if Step.STOP not in steps:
        losses.append(
            "what it writes to its volumes after the snapshots begin. It cannot be stopped first, "
            "so the snapshots are crash-consistent"
        )
    return tuple(losses)


def _lost_disks(facts: PlanFacts) -> list[str]:
    """Return a line about the local disks that the steps wipe, also for a type or a size that is
    not known; empty if the instance has none, or is stopped already."""
    if facts.instance.state == "stopped":
        return []
    if facts.shape is None:
        instance_type = facts.instance.instance_type
        return [
            f"data on local disks, if {instance_type} has any (GPU Governor does not know this "
            "type)"
        ]
    size_gb = facts.shape.local_nvme
    if not size_gb:
        return []
    if size_gb == "unknown":
        return [
            "all data on local disks (GPU Governor does not know their size), which snapshots do "
            "not cover"
        ]
    return [f"all data on local NVMe disks ({size_gb} GB), which snapshots do not cover"]


def _lost_with_instance(instance: Instance, launch: LaunchFacts) -> list[str]:
    """Return what a termination deletes besides the instance, a line each: volumes that go with it,
    network interfaces, its placement group; always at least the user data."""
    losses: list[str] = []
    for volume in instance.volumes:
        if volume.delete_on_termination:
            losses.append(f"{_volume_text(volume)}: deleted with it")
    if launch.network:
        losses.append(f"network interfaces ({launch.network}) that are deleted with it")
    if launch.placement_group:
        losses.append(f"its place in the placement group {launch.placement_group}")
    losses.append("its EC2 user data, if it has any; a copy is stored in the audit bucket first")
    return losses


def _stays(facts: PlanFacts, steps: tuple[Step, ...], policy: Policy) -> tuple[str, ...]:
    """Return what is left after the steps, a line for each thing, as people read it; empty if there
    are no steps.

    Among it are the tools that may undo the steps, so that people read it before they answer.
    """
    if not steps:
        return ()
    launch = facts.instance.launch or LaunchFacts()
    kept: list[str] = []
    for volume in _kept_volumes(facts.instance, steps):
        kept.append(f"{_volume_text(volume)}, billed as before")
    for ip in launch.elastic_ips:
        kept.append(f"Elastic IP {ip}, billed as before")
    if Step.SNAPSHOT in steps:
        days = policy.plan.snapshot_retention_days
        kept.append(f"one snapshot of each EBS volume, for at least {days} days")
    if Step.TERMINATE not in steps:
        kept.append(_instance_text(launch))
    for tool in other_tools(facts.instance):
        effect = tool.effect(terminates=Step.TERMINATE in steps)
        if effect is not None:
            kept.append(effect)
    return tuple(kept)


def _instance_text(launch: LaunchFacts) -> str:
    """Return the line that the instance is kept, and what its next start depends on. Call it for a
    plan that does not terminate."""
    text = "the instance itself; starting it again needs free capacity for its type"
    if launch.placement_group:
        return f"{text} in the placement group {launch.placement_group}"
    return text


def _kept_volumes(instance: Instance, steps: tuple[Step, ...]) -> list[Volume]:
    """Return the volumes of the instance that still exist after the steps; empty if none do."""
    if Step.TERMINATE not in steps:
        return list(instance.volumes)
    return [volume for volume in instance.volumes if not volume.delete_on_termination]


def _volume_text(volume: Volume) -> str:
    """Return the id, the device and the size of a volume, as in `volume vol-1 (/dev/sda1, 100
    GiB)`."""
    size = "size unknown" if volume.size_gib is None else f"{volume.size_gib} GiB"
    return f"volume {volume.volume_id} ({volume.device}, {size})"


def saving_of(instance: Instance, price: Price, steps: tuple[Step, ...], policy: Policy) -> Saving:
    """Return the saving of these steps, less the storage that stays: the costs per hour before and
    after them.

    Before: the instance with its addresses and volumes. After: what is kept of these, and new
    snapshots at their full size. Without steps both are the same. Both are `None` if the price or a
    volume's size is not known.
    """
    usd_per_hour = price.usd_per_hour
    sizes = []
    for volume in instance.volumes:
        if volume.size_gib is not None:
            sizes.append(volume.size_gib)
    if usd_per_hour is None or len(sizes) < len(instance.volumes):
        return Saving(cost_before_usd_per_hour=None, cost_after_usd_per_hour=None)

    storage = price.storage or StoragePrices()
    addresses = _addresses_per_hour(instance, storage)
    volumes_per_month = _volumes_per_month(instance.volumes, storage, policy.prices)
    before = usd_per_hour + addresses + volumes_per_month / HOURS_PER_MONTH
    if not steps:
        return Saving(cost_before_usd_per_hour=before, cost_after_usd_per_hour=before)

    kept_volumes = _kept_volumes(instance, steps)
    after_per_month = _volumes_per_month(kept_volumes, storage, policy.prices)
    if Step.SNAPSHOT in steps:
        snapshot_price = storage.snapshot_usd_per_gib_month
        if snapshot_price is None:
            snapshot_price = policy.prices.snapshot_usd_per_gib_month
        # A first snapshot is charged by its used blocks; the full size is the most it can cost.
        after_per_month += sum(sizes) * snapshot_price
    after = addresses + after_per_month / HOURS_PER_MONTH
    return Saving(cost_before_usd_per_hour=before, cost_after_usd_per_hour=after)


def _addresses_per_hour(instance: Instance, storage: StoragePrices) -> UsdPerHour:
    """Return the price of all Elastic IPs of an instance per hour, at the default price if that of
    the Region was not read; zero if it has none."""
    launch = instance.launch or LaunchFacts()
    address_price = storage.address_usd_per_hour
    if address_price is None:
        address_price = ADDRESS_USD_PER_HOUR
    return address_price * len(launch.elastic_ips)


def _volumes_per_month(volumes: Iterable[Volume], storage: StoragePrices, flat: Prices) -> Usd:
    """Return the price of these volumes per month, each by its type if that price is known, else by
    the policy's flat price, by which a volume of unknown size costs nothing; zero for no
    volumes."""
    total = Decimal(0)
    for volume in volumes:
        usd = storage.usd_per_month(volume)
        if usd is None:
            usd = (volume.size_gib or 0) * flat.ebs_usd_per_gib_month
        total += usd
    return total
