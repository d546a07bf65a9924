"""The adapters of functions that judge instances, and the checks that several of them share."""

from __future__ import annotations

from functools import cached_property

from governor.adapters.pricing import AwsPriceBook
from governor.ports import (
    Policies,
    PriceBook,
)
from governor.usecases.episode.close_dead import CloseDead
from governor.usecases.episode.guards import Guards
from governor.usecases.evidence.gather_evidence import GatherEvidence
from governor.usecases.evidence.inspect_instance import InspectInstance
from governor.usecases.money.book_saving import BookSaving
from governor.wiring.ec2 import Ec2Parts


class InstanceParts(Ec2Parts):
    """As `Ec2Parts`, and what evidence is gathered and prices are read with."""

    @cached_property
    def prices(self) -> PriceBook:
        return AwsPriceBook(self.clients)

    @cached_property
    def gather(self) -> GatherEvidence:
        return self.fill(GatherEvidence)

    @cached_property
    def inspect(self) -> InspectInstance:
        return self.fill(InspectInstance)

    def guards(self, policies: Policies) -> Guards:
        """The checks in front of every step, by this policy."""
        return self.fill(Guards, policies)

    def book(self, policies: Policies) -> BookSaving:
        """Books savings by this policy."""
        return self.fill(BookSaving, policies)

    def close(self, policies: Policies) -> CloseDead:
        """The same, by the name that it has where a workflow ended."""
        return self.close_dead(policies)

    def close_dead(self, policies: Policies) -> CloseDead:
        """Closes episodes whose workflow is dead, by this policy."""
        return self.fill(CloseDead, policies)
