"""Accounts and Regions as the daily scan reads them: by clients that read and nothing else."""

from __future__ import annotations

import gc
from dataclasses import dataclass
from functools import cached_property

from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.aws.prices_now import AwsPricesNow
from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.instance import Target
from governor.core.units import Usd, UtcDatetime
from governor.policy.model.policy import Policy
from governor.scan.cost import usd_of_calls
from governor.scan.kind import Place
from governor.scan.model import Unread
from governor.scan.unread import unread_prices


@dataclass(frozen=True)
class AwsPlace:
    """One account and Region that is being scanned, with clients of its own."""

    target: Target
    policy: Policy
    now: UtcDatetime
    hub: Target
    clients: ReadOnlyClients

    @cached_property
    def place(self) -> Place:
        """Return the place, with the means to read it."""
        return Place(
            target=self.target,
            api=AwsReadApi(self.clients),
            instances=Ec2Instances(self.clients),
            metrics=CloudWatchMetrics(self.clients),
            prices=self._prices,
            policy=self.policy,
            now=self.now,
        )

    @property
    def calls(self) -> int:
        """Return how many calls were made so far, retries not counted."""
        return sum(self.clients.calls.values())

    @property
    def usd_spent(self) -> Usd:
        """Return AWS's charge for the calls so far."""
        return usd_of_calls(self.clients.calls, self.clients.metrics_requested)

    def unread_prices(self) -> list[Unread]:
        """Return a line for each price that could not be read; empty if all could."""
        prices = self._prices
        return unread_prices(self.hub.account, prices.problem, prices.spot_problems)

    @cached_property
    def _prices(self) -> AwsPricesNow:
        """Return the price book; AWS's list is read as the hub."""
        return AwsPricesNow(self.clients, self.hub)


class AwsPlaces:
    """The port `Places`. One place is open at a time."""

    def __init__(self, clients: ReadOnlyClients, hub: Target) -> None:
        """Open no place yet. `clients` are only copied: each place has some of its own."""
        self._clients = clients
        self._hub = hub

    def open(self, target: Target, policy: Policy, now: UtcDatetime) -> AwsPlace:
        """Return the place with new clients. Nothing is called yet."""
        self._clients = self._clients.renewed()
        return AwsPlace(target, policy, now, self._hub, self._clients)

    def close(self) -> None:
        """Give back the memory of the places that were opened: clients of botocore refer to
        themselves, so that Python frees them late."""
        self._clients = self._clients.renewed()
        gc.collect()
