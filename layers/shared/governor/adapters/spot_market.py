"""What a type costs now as Spot in several Regions at once, and how likely it is to be had. For advice only.

This module must not know what is advised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from governor.adapters.clients import Clients
from governor.adapters.clock import utc_now
from governor.adapters.errors import aws_errors
from governor.domain.events.interruption import SpotPrice
from governor.domain.instance import Target
from governor.errors import GovernorError
from governor.ports import SpotPrices

_AT_ONCE = 8
_MOST_REGIONS = 10
"""Of one question for scores. Source: EC2 API reference, GetSpotPlacementScores."""


class Ec2SpotMarket:
    """The port `SpotMarket`. One call a Region for prices, one in all for scores."""

    def __init__(self, clients: Clients, *, now: Callable[[], datetime] = utc_now) -> None:
        self._clients = clients
        self._now = now

    def prices(self, target: Target, regions: Sequence[str], instance_type: str, platform: str) -> SpotPrices:
        wanted = list(dict.fromkeys(regions))
        found: list[SpotPrice] = []
        problems: dict[str, str] = {}

        def read(region: str) -> list[SpotPrice] | str:
            try:
                return self._read(replace(target, region=region), instance_type, platform)
            except GovernorError as error:
                return str(error)

        with ThreadPoolExecutor(min(_AT_ONCE, max(1, len(wanted)))) as pool:
            for region, answer in zip(wanted, pool.map(read, wanted), strict=True):
                if isinstance(answer, str):
                    problems[region] = answer
                else:
                    found += answer
        return SpotPrices(tuple(sorted(found, key=lambda one: (one.usd_per_hour, one.zone))), problems)

    def scores(
        self, target: Target, regions: Sequence[str], instance_types: Sequence[str]
    ) -> Mapping[str, int]:
        client = self._clients.client("ec2", target, repeat=False)
        with aws_errors("ec2:GetSpotPlacementScores"):
            answer = client.get_spot_placement_scores(
                InstanceTypes=list(instance_types),
                TargetCapacity=1,
                SingleAvailabilityZone=False,
                RegionNames=list(dict.fromkeys(regions))[:_MOST_REGIONS],
            )
        return {one["Region"]: one["Score"] for one in answer["SpotPlacementScores"]}

    def _read(self, target: Target, instance_type: str, platform: str) -> list[SpotPrice]:
        # Sent once: an advice that is late is none.
        client = self._clients.client("ec2", target, repeat=False)
        history = spot_history(client, instance_type, platform, self._now())
        latest = {entry["AvailabilityZone"]: Decimal(entry["SpotPrice"]) for entry in history}
        return [SpotPrice(target.region, zone, price) for zone, price in latest.items()]


def spot_history(
    client: Any, instance_type: str, platform: str, now: datetime, **only: str
) -> list[Mapping[str, Any]]:
    """Return EC2's entries of the Spot prices in force, the latest change last.

    Raises:
        CloudError: EC2 gave no answer.
    """
    with aws_errors("ec2:DescribeSpotPriceHistory"):
        # A start time of now gives the prices in force, each of which began some time ago.
        answer = client.describe_spot_price_history(
            InstanceTypes=[instance_type], ProductDescriptions=[platform], StartTime=now, EndTime=now, **only
        )
    return sorted(answer["SpotPriceHistory"], key=lambda entry: entry["Timestamp"])
