"""The parts of functions that read or change instances, in any account and Region.

Clients of the hub are opened at cold start, those of members when they are needed.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING

from governor.aws.clients import SMALL_CALLS_AT_A_TIME, at_once
from governor.wiring.parts import Parts

if TYPE_CHECKING:
    from governor.core.ports import Spread
    from governor.episode.ports import (
        InstanceController,
        InstanceStarter,
        KeyReader,
        SnapshotRemover,
        Snapshotter,
        Vault,
    )
    from governor.events.notify_warning import SpotMarket
    from governor.events.respond_to_warnings import LifecycleHooks
    from governor.events.send_checkpoint import CheckpointHook
    from governor.evidence.ports import (
        InstanceReader,
        InstanceTagger,
        MetricReader,
        SessionReader,
    )
    from governor.money.ports import PriceBook
    from governor.money.refresh_prices import PriceReader
    from governor.sweep.sweep_alerts import BatchReader


class Ec2Parts(Parts):
    """The parts of functions that work with instances."""

    @cached_property
    def instances(self) -> InstanceReader:
        """Return the reader of instances, with the client of the hub opened."""
        from governor.aws.ec2 import Ec2Instances

        self.clients.client("ec2")
        return Ec2Instances(self.clients)

    @cached_property
    def tagger(self) -> InstanceTagger:
        """Return the part that tags instances."""
        from governor.aws.ec2_writes import Ec2Tags

        return Ec2Tags(self.clients)

    @cached_property
    def controller(self) -> InstanceController:
        """Return the only part that stops and terminates instances, with the role for it. Raises:
        ConfigurationError if its setting is missing."""
        from governor.aws.ec2_writes import Ec2Controller

        return Ec2Controller(self.clients, self.settings.need("actor_role_arn"))

    @cached_property
    def starter(self) -> InstanceStarter:
        """Return the only part that starts instances."""
        from governor.aws.ec2_writes import Ec2Starter

        return Ec2Starter(self.clients)

    @cached_property
    def snapshots(self) -> Snapshotter:
        """Return the part that makes and finds snapshots."""
        from governor.aws.ebs_snapshots import EbsSnapshots

        return EbsSnapshots(self.clients)

    @cached_property
    def remover(self) -> SnapshotRemover:
        """Return the part that deletes snapshots."""
        from governor.aws.ebs_snapshots import EbsSnapshots

        return EbsSnapshots(self.clients)

    @cached_property
    def vault(self) -> Vault:
        """Return the part that keeps user data, encrypted with its own key. Raises:
        ConfigurationError if a setting is missing."""
        from governor.aws.s3 import UserDataBucket

        bucket = self.settings.need("audit_bucket")
        return UserDataBucket(self.clients, bucket, self.settings.need("user_data_key_arn"))

    @cached_property
    def metrics(self) -> MetricReader:
        """Return the reader of CloudWatch metrics, with the client of the hub opened."""
        from governor.wiring.counted_metrics import CountedMetrics

        self.clients.client("cloudwatch")
        return CountedMetrics(self.clients)

    @cached_property
    def volume_keys(self) -> KeyReader:
        """Return the reader of the KMS keys of volumes."""
        from governor.aws.volume_keys import KmsVolumeKeys

        return KmsVolumeKeys(self.clients)

    @cached_property
    def sessions(self) -> SessionReader:
        """Return the reader of open sessions of Session Manager."""
        from governor.aws.ssm import SessionManager

        return SessionManager(self.clients)

    @cached_property
    def batch(self) -> BatchReader:
        """Return the reader of compute environments of AWS Batch."""
        from governor.aws.managing import AwsBatch

        return AwsBatch(self.clients)

    @cached_property
    def prices(self) -> PriceBook:
        """Return the part that prices an instance, by the stored lists and commitments."""
        from governor.aws.pricing import AwsPrices

        return AwsPrices(
            self.clients,
            lists=self.price_store.price_list,
            commitments=self.price_store.commitments,
        )

    @cached_property
    def price_reader(self) -> PriceReader:
        """Return the reader of AWS's price lists and commitments."""
        from governor.aws.price_lists import AwsPriceLists

        return AwsPriceLists(self.clients, self.hub)

    @cached_property
    def market(self) -> SpotMarket:
        """Return the reader of Spot prices and placement scores. It knows no stored price lists."""
        from governor.aws.pricing import AwsPrices

        return AwsPrices(self.clients)

    @cached_property
    def hook(self) -> CheckpointHook | None:
        """Return the checkpoint hook; `None` if the setting names no document for it."""
        document = self.settings.checkpoint_document_name
        if not document:
            return None
        from governor.aws.ssm import RunCommandHook

        return RunCommandHook(self.clients, document)

    @cached_property
    def hooks(self) -> LifecycleHooks:
        """Return the part that completes lifecycle hooks of Auto Scaling groups."""
        from governor.aws.managing import AutoScalingHooks

        return AutoScalingHooks(self.clients)

    @cached_property
    def spread(self) -> Spread:
        """Return the function that makes calls about one instance each, 20 at a time, and returns
        their answers in order."""
        return partial(at_once, most=SMALL_CALLS_AT_A_TIME)
