"""The plan of an episode: its steps, such as snapshots, stop and terminate, with prices and
savings.

Records only: `episode.rules.plan` decides which steps a plan has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from governor.core.instance import Instance, Protection, Shape, SpotRequestType, Volume
from governor.core.units import Usd, UsdPerHour, UtcDatetime, daily_cost
from governor.policy.model.acting import Action


class Step(StrEnum):
    """One EC2 write of a plan, in the order of the plan."""

    STOP = "stop"
    SNAPSHOT = "snapshot"
    CANCEL_SPOT_REQUEST = "cancel-spot-request"
    TERMINATE = "terminate"


STEP_TEXT: Mapping[Step, str] = {
    Step.STOP: "stop the instance",
    Step.SNAPSHOT: (
        "take snapshots of all its EBS volumes as one set, and wait until they are complete"
    ),
    Step.CANCEL_SPOT_REQUEST: (
        "cancel its persistent Spot request, so that EC2 does not launch a replacement"
    ),
    Step.TERMINATE: "terminate the instance",
}
"""Each step in the words of messages and pages."""


class Until(StrEnum):
    """The states for which the workflow waits."""

    STOPPED = "stopped"
    SNAPSHOTS_COMPLETED = "snapshots-completed"
    TERMINATED = "terminated"
    HEARD = "heard"
    """A channel has accepted the message that the topic itself delivers to nobody."""


_INCLUDED_IOPS = {"gp3": 3_000, "io1": 0, "io2": 0}


_INCLUDED_MIBPS = {"gp3": 125}
"""IOPS, and MiB/s, that the price per GiB includes, for the volume types that are charged for more.
Source: EBS pricing."""


@dataclass(frozen=True, slots=True)
class StoragePrices:
    """Prices by volume type in USD a month: per GiB, and per IOPS and MiB/s above those included.

    Also per GiB of snapshots a month, and per public address an hour. A price that is missing is
    not known.
    """

    usd_per_gib_month: Mapping[str, Usd] = field(default_factory=dict)
    usd_per_iops_month: Mapping[str, Usd] = field(default_factory=dict)
    usd_per_mibps_month: Mapping[str, Usd] = field(default_factory=dict)
    snapshot_usd_per_gib_month: Usd | None = None
    address_usd_per_hour: UsdPerHour | None = None

    def usd_per_month(self, volume: Volume) -> Usd | None:
        """Return the most that a volume can cost a month: its size, and its IOPS and throughput
        above those included; `None` if its size or a price is not known.

        An io2 volume costs less per IOPS from 32,000 on, which this leaves out.
        """
        kind = volume.volume_type or ""
        size = volume.size_gib
        if size is None or kind not in self.usd_per_gib_month:
            return None
        usd = size * self.usd_per_gib_month[kind]
        for amount, included_by_type, price_by_type in (
            (volume.iops or 0, _INCLUDED_IOPS, self.usd_per_iops_month),
            (volume.throughput or 0, _INCLUDED_MIBPS, self.usd_per_mibps_month),
        ):
            # A type that is not listed is not charged for this amount.
            included = included_by_type.get(kind, amount)
            if amount <= included:
                continue
            if kind not in price_by_type:
                return None
            usd += (amount - included) * price_by_type[kind]
        return usd


@dataclass(frozen=True, slots=True)
class Price:
    """The price of an instance by the hour."""

    usd_per_hour: UsdPerHour | None
    """`None` if it is not known; zero only if the hour is paid for already."""
    source: str
    """The origin of the price, in words for the approval page."""
    as_of: UtcDatetime | None = None
    list_usd_per_hour: UsdPerHour | None = None
    """The price before `prices.discount_percent`, if that was subtracted."""
    storage: StoragePrices | None = None
    """Prices of its Region's storage, if they were read."""
    may_be_committed: bool = True
    """True if a Savings Plan or a Reserved Instance may pay for the hour."""

    @property
    def undiscounted(self) -> UsdPerHour | None:
        """Return the price per hour before the policy's discount; `None` if the price is not
        known."""
        if self.list_usd_per_hour is None:
            return self.usd_per_hour
        return self.list_usd_per_hour


@dataclass(frozen=True, slots=True)
class Saving:
    """Costs per hour before and after the plan. `None` if the price or a volume's size is not
    known."""

    cost_before_usd_per_hour: UsdPerHour | None
    cost_after_usd_per_hour: UsdPerHour | None

    @property
    def saved_usd_per_hour(self) -> UsdPerHour | None:
        """Return the saving per hour, below zero if the plan costs more; `None` if a cost is not
        known."""
        if self.cost_before_usd_per_hour is None or self.cost_after_usd_per_hour is None:
            return None
        return self.cost_before_usd_per_hour - self.cost_after_usd_per_hour

    @property
    def saved_usd_per_day(self) -> Usd | None:
        """Return the saving per day, below zero if the plan costs more; `None` if a cost is not
        known."""
        hourly = self.saved_usd_per_hour
        if hourly is None:
            return None
        return daily_cost(hourly)


@dataclass(frozen=True, slots=True)
class Plan:
    """The drawn plan. `replaced_because` says why the action is not the one that the policy wants,
    and what could not be read; it is empty if neither is so."""

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
    restart_doubts: tuple[str, ...] = ()
    """Obstacles to the next start, as they were when people were asked; a sentence each."""

    @property
    def destroys(self) -> bool:
        """Return whether the plan terminates the instance."""
        return Step.TERMINATE in self.steps

    @property
    def verb(self) -> str:
        """Return the verb of the plan, for a sentence: `terminate` or `stop`; `stop` also for a
        plan without steps."""
        return "terminate" if self.destroys else "stop"

    @property
    def doing(self) -> str:
        """Return the noun of the plan, for the beginning of a sentence: `Terminating` or
        `Stopping`."""
        return "Terminating" if self.destroys else "Stopping"


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The facts from which a plan is drawn. `spot_request` is read for Spot instances only."""

    instance: Instance
    protection: Protection
    spot_request: SpotRequestType | None
    shape: Shape | None
    price: Price
