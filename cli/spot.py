"""`governor spot`: what a type costs as Spot now, in the policy's Regions, and how likely EC2 has
it."""

from __future__ import annotations

import argparse
import json
import sys
from decimal import Decimal
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.capacity import scores
from cli.errors import CommandError
from cli.policy import deployed, read
from cli.progress import Progress
from governor.adapters.clients import Clients
from governor.adapters.pricing import AwsPrices
from governor.contracts.policy import parse_policy
from governor.domain.catalogue import alike, list_price, shape_of
from governor.domain.documents import plain
from governor.domain.instance import Target
from governor.domain.units import money, printable
from governor.errors import PolicyError


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its options."""
    made = areas.add_parser("spot")
    made.add_argument("instance_type", metavar="TYPE", help="such as g5.12xlarge")
    made.add_argument(
        "--platform", default="Linux/UNIX", help="as EC2 names it (default: %(default)s)"
    )
    made.add_argument("--file", help="a policy; else the one of the stack")
    made.set_defaults(run=run, regions=True)


def run(arguments: argparse.Namespace) -> int:
    """Print the zones, the cheapest first; 1 when no price could be read."""
    name = arguments.instance_type
    if shape_of(name) is None:
        raise CommandError(f"{name!r} is no accelerated type that this release knows")
    session = aws.session(arguments.region or ())
    regions = arguments.region
    if not regions:
        try:
            text = (
                read(Path(arguments.file))
                if arguments.file
                else deployed(arguments.stack_name, session)
            )
            regions = parse_policy(text).base().policy.events.spot_price_regions
        except PolicyError as error:
            raise CommandError(
                f"the policy cannot be used: {error}; run `governor policy check`"
            ) from None
    regions = list(dict.fromkeys(regions)) or [session.region_name]
    try:
        account = session.client("sts").get_caller_identity()["Account"]
    except (ClientError, BotoCoreError) as error:
        raise CommandError(
            f"AWS did not say whose credentials these are: {aws.reason(error)}"
        ) from None
    market, unread = AwsPrices(Clients()), dict[str, None]()
    target = Target(account, regions[0])
    with Progress("reading Spot prices"):
        found = market.prices(target, regions, name, arguments.platform)
        rated = scores(market, target, regions, alike(name), unread)
    problems = [
        *(f"Spot prices in {region}: {why}" for region, why in found.problems.items()),
        *unread,
    ]
    whole = list_price(name)
    rows = [
        {
            "zone": one.zone,
            "region": one.region,
            "usd_per_hour": plain(one.usd_per_hour),
            "percent_of_list_price": None
            if whole is None
            else round(100 * one.usd_per_hour / whole),
            "placement_score": rated.get(one.region),
        }
        for one in found.prices
    ]
    if arguments.json:
        print(
            json.dumps(
                {"zones": rows, "types_scored": [*alike(name)], "unread": problems}, indent=2
            )
        )
        return int(not rows)
    print(f"{'ZONE':<18}{'USD AN HOUR':>12}{'OF LIST':>10}{'SCORE':>9}")
    for row in rows:
        share, score = row["percent_of_list_price"], row["placement_score"]
        of_list = "unknown" if share is None else f"{share}%"
        amount = money(Decimal(str(row["usd_per_hour"])), 4)
        print(f"{row['zone']!s:<18}{amount:>12}{of_list:>10}{score or 'unknown':>9}")
    print(f"Score: of the Region, 1 to 10, for one of {', '.join(alike(name))}.", file=sys.stderr)
    for line in problems:
        print(f"not known: {printable(line)}", file=sys.stderr)
    return int(not rows)
