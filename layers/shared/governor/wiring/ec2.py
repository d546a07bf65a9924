"""The parts of functions that read or change instances, in whatever account and Region these are.

Clients of the hub are opened at cold start, those of members when needed.
"""

from __future__ import annotations

from functools import cached_property

from governor.adapters.auto_scaling import AutoScalingHooks
from governor.adapters.batch import AwsBatch
from governor.adapters.catalogue import ShippedCatalogue
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import EbsSnapshots, Ec2Controller, Ec2Instances, Ec2Starter, Ec2Tags
from governor.adapters.pricing import AwsPriceBook, Ec2SpotMarket
from governor.adapters.ssm import RunCommandHook
from governor.ports import (
    BatchReader,
    Catalogue,
    CheckpointHook,
    InstanceController,
    InstanceReader,
    InstanceStarter,
    InstanceTagger,
    LifecycleHooks,
    MetricReader,
    PriceBook,
    SiblingTypes,
    Snapshotter,
    SpotMarket,
)
from governor.wiring.basics import over
from governor.wiring.parts import Parts


class Ec2Parts(Parts):
    """As `Parts`."""

    instances: cached_property[InstanceReader] = over(Ec2Instances, opens="ec2")
    tagger: cached_property[InstanceTagger] = over(Ec2Tags)
    controller: cached_property[InstanceController] = over(Ec2Controller)
    starter: cached_property[InstanceStarter] = over(Ec2Starter)
    snapshots: cached_property[Snapshotter] = over(EbsSnapshots)
    metrics: cached_property[MetricReader] = over(CloudWatchMetrics, opens="cloudwatch")
    prices: cached_property[PriceBook] = over(AwsPriceBook)
    market: cached_property[SpotMarket] = over(Ec2SpotMarket)
    batch: cached_property[BatchReader] = over(AwsBatch)
    hooks: cached_property[LifecycleHooks] = over(AutoScalingHooks)
    catalogue: Catalogue = ShippedCatalogue()
    types: SiblingTypes = ShippedCatalogue()

    @cached_property
    def hook(self) -> CheckpointHook | None:
        document = self.settings.checkpoint_document_name
        return RunCommandHook(self.clients, document) if document else None
