"""The parts of functions that read or change instances, in any account and Region.

Clients of the hub are opened at cold start, those of members when they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial

from governor.aws.clients import SMALL_CALLS_AT_A_TIME, at_once
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import EbsSnapshots, Ec2Controller, Ec2Instances, Ec2Starter, Ec2Tags
from governor.aws.managing import AutoScalingHooks, AwsBatch
from governor.aws.pricing import AwsPriceLists, AwsPrices
from governor.aws.s3 import UserDataBucket
from governor.aws.ssm import RunCommandHook, SessionManager
from governor.core.instance import Target
from governor.episode.ports import (
    InstanceController,
    InstanceStarter,
    SnapshotRemover,
    Snapshotter,
    Vault,
)
from governor.events.notify_warning import SpotMarket
from governor.events.respond_to_warnings import LifecycleHooks
from governor.events.send_checkpoint import CheckpointHook
from governor.evidence.model import Window
from governor.evidence.ports import (
    InstanceReader,
    InstanceTagger,
    MetricAnswer,
    MetricQuery,
    MetricReader,
    SessionReader,
)
from governor.money.ports import PriceBook
from governor.money.refresh_prices import PriceReader
from governor.sweep.sweep_alerts import BatchReader
from governor.wiring.basics import over
from governor.wiring.observability import tally
from governor.wiring.parts import Parts


class _CountedMetrics(CloudWatchMetrics):
    """Counts the metrics that it reads: AWS charges for each."""

    def read(self, target: Target, queries: Sequence[MetricQuery], window: Window) -> MetricAnswer:
        tally("MetricsRead", len(queries))
        return super().read(target, queries, window)


class Ec2Parts(Parts):
    instances: cached_property[InstanceReader] = over(Ec2Instances, opens="ec2")
    tagger: cached_property[InstanceTagger] = over(Ec2Tags)
    controller: cached_property[InstanceController] = over(Ec2Controller, "actor_role_arn")
    starter: cached_property[InstanceStarter] = over(Ec2Starter)
    snapshots: cached_property[Snapshotter] = over(EbsSnapshots)
    remover: cached_property[SnapshotRemover] = over(EbsSnapshots)
    vault: cached_property[Vault] = over(UserDataBucket, "audit_bucket", "user_data_key_arn")
    metrics: cached_property[MetricReader] = over(_CountedMetrics, opens="cloudwatch")
    prices: cached_property[PriceBook] = cached_property(
        lambda parts: AwsPrices(
            parts.clients, parts.price_store.price_list, parts.price_store.commitments
        )
    )
    price_reader: cached_property[PriceReader] = cached_property(
        lambda parts: AwsPriceLists(parts.clients, parts.hub)
    )
    market: cached_property[SpotMarket] = over(AwsPrices)
    batch: cached_property[BatchReader] = over(AwsBatch)
    sessions: cached_property[SessionReader] = over(SessionManager)
    spread = staticmethod(partial(at_once, most=SMALL_CALLS_AT_A_TIME))
    hooks: cached_property[LifecycleHooks] = over(AutoScalingHooks)
    api_id = cached_property(lambda parts: parts.settings.need("api_id"))
    """The API whose refused answers are counted."""
    namespace = cached_property(lambda parts: parts.settings.need("powertools_metrics_namespace"))

    @cached_property
    def hook(self) -> CheckpointHook | None:
        document = self.settings.checkpoint_document_name
        return RunCommandHook(self.clients, document) if document else None
