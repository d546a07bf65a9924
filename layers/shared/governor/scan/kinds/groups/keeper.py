"""The shared class of groups and fleets that keep instances running: how each is priced and
judged."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from governor.core.instance import Lifecycle
from governor.core.units import UsdPerHour
from governor.scan.kind import Kind, Place
from governor.scan.kinds.ec2_types import price_of_type
from governor.scan.kinds.groups.rules import Choice, least_usd_per_hour
from governor.scan.model import Finding, Judgment, Resource, Strength


@dataclass(frozen=True, slots=True)
class Keeper(Resource):
    """A group or fleet that keeps instances running."""

    choices: tuple[Choice, ...] = ()
    """The types that it may launch; empty if they are chosen by attributes."""
    capacity: int = 0
    """The size that it keeps, in units of the weights of `choices`."""
    lifecycle: Lifecycle = Lifecycle.ON_DEMAND
    evidence: str = ""
    """The reason why it is listed, in words."""


class Keepers(Kind[Keeper, None]):
    """A kind of group or fleet. Its instances are rows of their own, with what they do measured, so
    it is never waste."""

    def price(self, place: Place, resource: Keeper) -> UsdPerHour | None:
        """Return the least that an hour of what it keeps costs; `None` if that is not known. No sum
        adds it: it is the price of instances with rows of their own."""
        price_by_type: dict[str, UsdPerHour | None] = {}
        for choice in resource.choices:
            price_by_type[choice.instance_type] = price_of_type(
                place, choice.instance_type, lifecycle=resource.lifecycle
            )
        return least_usd_per_hour(resource.choices, resource.capacity, price_by_type)

    def own_judgment(self, place: Place, resource: Keeper, measured: None) -> Judgment:
        """Return the judgment that the group keeps instances running, with its own evidence."""
        return Judgment(Finding.KEEPS_RUNNING, Strength.NONE, resource.evidence)

    @abstractmethod
    def own_command(self, resource: Keeper, judgment: Judgment) -> str:
        """Return the command that lowers what it keeps, or that shows its instances. If it ends
        running instances, which may be at work, the evidence says so."""
