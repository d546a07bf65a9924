"""The adapters of functions that read or change instances, and the checks that several of them share."""

from __future__ import annotations

from functools import cached_property

from governor.adapters.catalogue import ShippedCatalogue
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import EbsSnapshots, Ec2Controller, Ec2Instances, Ec2Starter, Ec2Tags
from governor.adapters.pricing import AwsPriceBook
from governor.ports import (
    InstanceController,
    InstanceReader,
    InstanceStarter,
    InstanceTagger,
    MetricReader,
    Policies,
    PriceBook,
    Snapshotter,
)
from governor.usecases.book_saving import BookSaving
from governor.usecases.close_dead import CloseDead
from governor.usecases.deliver_decision import DeliverDecision
from governor.usecases.gather_evidence import GatherEvidence
from governor.usecases.guards import Guards
from governor.usecases.inspect_instance import InspectInstance
from governor.usecases.read_history import ReadHistory
from governor.usecases.void_episode import VoidEpisode
from governor.wiring.parts import Parts


class InstanceParts(Parts):
    """As `Parts`. Clients of the hub's account are made at cold start, those of members when needed."""

    @cached_property
    def instances(self) -> InstanceReader:
        self.clients.client("ec2", self.hub)
        return Ec2Instances(self.clients)

    @cached_property
    def metrics(self) -> MetricReader:
        self.clients.client("cloudwatch", self.hub)
        return CloudWatchMetrics(self.clients)

    @cached_property
    def catalogue(self) -> ShippedCatalogue:
        return ShippedCatalogue()

    @cached_property
    def prices(self) -> PriceBook:
        return AwsPriceBook(self.clients)

    @cached_property
    def tagger(self) -> InstanceTagger:
        return Ec2Tags(self.clients)

    @cached_property
    def controller(self) -> InstanceController:
        return Ec2Controller(self.clients)

    @cached_property
    def starter(self) -> InstanceStarter:
        return Ec2Starter(self.clients)

    @cached_property
    def snapshots(self) -> Snapshotter:
        return EbsSnapshots(self.clients)

    @cached_property
    def history(self) -> ReadHistory:
        return self.fill(ReadHistory)

    @cached_property
    def gather(self) -> GatherEvidence:
        return self.fill(GatherEvidence)

    @cached_property
    def inspect(self) -> InspectInstance:
        return self.fill(InspectInstance)

    @cached_property
    def deliver(self) -> DeliverDecision:
        return self.fill(DeliverDecision)

    @cached_property
    def void(self) -> VoidEpisode:
        return self.fill(VoidEpisode)

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
