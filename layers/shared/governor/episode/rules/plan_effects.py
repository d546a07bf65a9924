"""Computes the saving of a stop or a termination after storage costs, and says what is lost by it
and what stays.

People say yes to these sentences, and a seal covers them. This module chooses no step.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from governor.core.instance import Instance, LaunchFacts, Volume
from governor.core.managers import other_tools
from governor.core.units import HOURS_PER_MONTH, Usd, UsdPerHour
from governor.episode.model.plan import PlanFacts, Price, Saving, Step, StoragePrices
from governor.policy.model.money import Prices
from governor.policy.model.policy import Policy

ADDRESS_USD_PER_HOUR = Decimal("0.005")
"""Price of a public IPv4 address, if the Region's price was not read. Source: Amazon VPC pricing,
2026."""


def has_local_data(facts: PlanFacts) -> bool:
    """Return whether disks inside the host may hold data. An unknown type counts as having such
    disks, a stopped instance as having none."""
    if facts.instance.state == "stopped":
        # Local disks lost their data when it was stopped.
        return False
    if facts.instance.root_device_type != "ebs":
        return True
    return facts.shape is None or bool(facts.shape.local_nvme)


def losses_of(facts: PlanFacts, steps: tuple[Step, ...]) -> tuple[str, ...]:
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


def stays_of(facts: PlanFacts, steps: tuple[Step, ...], policy: Policy) -> tuple[str, ...]:
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
