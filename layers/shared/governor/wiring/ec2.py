"""The adapters of functions that read or change instances."""

from __future__ import annotations

from functools import cached_property

from governor.adapters.catalogue import ShippedCatalogue
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import EbsSnapshots, Ec2Controller, Ec2Instances, Ec2Starter, Ec2Tags
from governor.ports import (
    InstanceController,
    InstanceReader,
    InstanceStarter,
    InstanceTagger,
    MetricReader,
    Snapshotter,
)
from governor.wiring.parts import Parts


class Ec2Parts(Parts):
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
