"""`governor spot`: the Spot price of a type now, and how likely EC2 has it.

It reads the policy's Regions, unless the command line names others.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.capacity import scores
from cli.errors import CommandError
from cli.notes import print_note
from cli.policy import deployed, read
from cli.progress import Progress
from cli.tables import Column, print_table, print_text
from governor.aws.clients import Clients
from governor.aws.pricing import AwsPrices
from governor.core.catalog import list_price, shape_of, types_with_same_gpus
from governor.core.documents import plain
from governor.core.errors import PolicyError
from governor.core.instance import Target
from governor.core.units import Usd, money, printable
from governor.events.model.interruption import SpotPrice
from governor.policy.document import parse_policy

_COLUMNS = (
    Column("ZONE"),
    Column("USD AN HOUR", is_number=True),
    Column("OF LIST", is_number=True),
    Column("SCORE", is_number=True),
)


@dataclass(frozen=True, slots=True)
class _Zone:
    """One row of the table. What is not known is `None`."""

    zone: str
    region: str
    usd_per_hour: str
    percent_of_list_price: int | None
    placement_score: int | None


def run(arguments: argparse.Namespace) -> int:
    """Print the zones, the cheapest first; return 1 when no price could be read, else 0.

    Raises:
        CommandError: the type is not known, or the Regions or the account could not be read.
    """
    name = arguments.instance_type
    if shape_of(name) is None:
        raise CommandError(f"{name!r} is no accelerated type that this release knows")
    session = aws.session(arguments.region or ())
    regions = _regions(arguments, session)
    target = Target(_account(session), regions[0])
    market = AwsPrices(Clients())
    unread: dict[str, None] = {}
    with Progress("reading Spot prices"):
        answer = market.prices(target, regions, name, arguments.platform)
        score_by_region = scores(market, target, regions, types_with_same_gpus(name), unread)
    problems = [f"Spot prices in {region}: {why}" for region, why in answer.problems.items()]
    problems.extend(unread)
    zones = _zones(answer.prices, list_price(name), score_by_region)
    if arguments.json:
        document = {
            "zones": [asdict(zone) for zone in zones],
            "types_scored": [*types_with_same_gpus(name)],
            "unread": problems,
        }
        print(json.dumps(document, indent=2))
    else:
        _print(name, arguments.platform, regions, zones, problems)
    return int(not zones)


def _regions(arguments: argparse.Namespace, session: boto3.Session) -> list[str]:
    """Return the Regions of the command line, else of the policy, else of the session.

    Raises:
        CommandError: the policy cannot be used.
    """
    regions = arguments.region
    if not regions:
        regions = _regions_of_policy(arguments, session)
    without_repetition = list(dict.fromkeys(regions))
    return without_repetition or [session.region_name]


def _regions_of_policy(arguments: argparse.Namespace, session: boto3.Session) -> Sequence[str]:
    try:
        if arguments.file:
            text = read(Path(arguments.file))
        else:
            text = deployed(arguments.stack_name, session)
        return parse_policy(text).base().policy.events.spot_price_regions
    except PolicyError as error:
        raise CommandError(
            f"the policy cannot be used: {error}; run `governor policy check`"
        ) from None


def _account(session: boto3.Session) -> str:
    """Return the account of the credentials.

    Raises:
        CommandError: AWS does not say whose they are.
    """
    try:
        return session.client("sts").get_caller_identity()["Account"]
    except (ClientError, BotoCoreError) as error:
        raise CommandError(
            f"AWS did not say whose credentials these are: {aws.reason(error)}"
        ) from None


def _zones(
    prices: Sequence[SpotPrice], whole_price: Usd | None, score_by_region: Mapping[str, int]
) -> list[_Zone]:
    """Return the zones in the order of their prices. `whole_price` is the list price."""
    zones = []
    for price in prices:
        percent = None
        if whole_price is not None:
            percent = round(100 * price.usd_per_hour / whole_price)
        zones.append(
            _Zone(
                zone=price.zone,
                region=price.region,
                usd_per_hour=plain(price.usd_per_hour),
                percent_of_list_price=percent,
                placement_score=score_by_region.get(price.region),
            )
        )
    return zones


def _print(
    name: str,
    platform: str,
    regions: Sequence[str],
    zones: Sequence[_Zone],
    problems: Sequence[str],
) -> None:
    if not zones:
        where = ", ".join(regions)
        print_text(
            f"no Spot price of {name}: EC2 names none for {platform} in {where}, so it has none to "
            "offer there now, or does not have the type; name other Regions with --region"
        )
    rows = []
    for zone in zones:
        amount = money(Decimal(zone.usd_per_hour), 4)
        percent = zone.percent_of_list_price
        share = "unknown" if percent is None else f"{percent}%"
        score = str(zone.placement_score or "unknown")
        rows.append((zone.zone, amount, share, score))
    if rows:
        types = ", ".join(types_with_same_gpus(name))
        print_table(_COLUMNS, rows)
        print_note(f"Score: of the Region, 1 to 10, for one of {types}.")
    for problem in problems:
        print_note(f"not known: {printable(problem)}")
