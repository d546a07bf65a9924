"""`governor advice`: what the last weeks of the fleet say could cost less. It never acts."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass
from cli.api import described
from cli.capacity import Reader
from cli.commitments import commitments
from cli.errors import CommandError
from cli.fleet import over_the_fleet
from cli.leftovers import Leftovers, left_behind
from cli.output import Output
from cli.policy import deployed
from cli.simulate import default_cache, endpoint_of, usd_from
from cli.times import now
from governor.adapters.clients import Clients
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import Ec2Instances
from governor.adapters.pricing import AwsPrices
from governor.adapters.table.dynamodb import DynamoTable
from governor.contracts.policy import PolicyBook, parse_policy
from governor.domain.evidence import Window
from governor.domain.instance import Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, iso, money, plural, printable, usd
from governor.errors import GovernorError
from governor.ports import policy_or_base
from governor.stores.table import put
from simulation.capacity_advice import of_group, reservation
from simulation.fetch import USD_PER_METRIC, Fetch, FetchError, last_days
from simulation.past import Past, pasts
from simulation.patterns import Advice, of_instance, spot
from simulation.replay import ReplayError
from simulation.store import SeriesStore, StoreError
from simulation.wish import wish_of

_DISMISSED = "ADVICE#dismissed"
_ID = re.compile(r"[a-z-]{1,40}:.{1,300}")
_NOTES = (
    "Amounts are by the prices that the governor knows, without discounts, and advice "
    "about the same "
    "instance does not add up. Whether a Region has a type is not checked."
)


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its options."""
    made = areas.add_parser("advice")
    made.add_argument("--file", help="a policy; else the one of the stack")
    made.add_argument(
        "--dismiss", metavar="ID", help="leave this advice out for advice.dismissed_for_days"
    )
    made.add_argument("--all", action="store_true", help="print what was dismissed, too")
    made.add_argument(
        "--cache", type=Path, metavar="FILE", help="where readings are kept (default: in ~/.cache)"
    )
    made.add_argument(
        "--limit-usd",
        type=usd_from,
        default=Decimal(1),
        metavar="USD",
        help="what CloudWatch may charge without being agreed to (default: 1)",
    )
    made.add_argument(
        "--commitments",
        action="store_true",
        help="in the payer's account: look for a Savings Plan; Cost Explorer charges "
        "0.01 USD a page",
    )
    made.add_argument("--yes", action="store_true", help="agree to whatever it may cost")
    made.set_defaults(run=run, regions=True)


def run(arguments: argparse.Namespace) -> int:
    """Print what could cost less, the most expensive first; or dismiss a part of it."""
    at = now()
    if arguments.dismiss:
        return _dismiss(arguments, at)
    clients, unread = Clients(), dict[str, None]()
    try:
        with closing(
            SeriesStore(arguments.cache or default_cache(), partial(endpoint_of, clients))
        ) as store:
            look = _Look(clients, store, at, _Bill(arguments.limit_usd, arguments.yes), unread)
            found = over_the_fleet(arguments, look)
        if arguments.commitments:
            found += look.commitments()
        found += _left_behind(arguments, look.targets, unread)
    except (FetchError, StoreError, ReplayError) as error:
        raise CommandError(str(error)) from None
    dismissed = _dismissed(arguments, at, unread)
    shown = [one for one in found if arguments.all or one.advice_id not in dismissed]
    _print(
        sorted(shown, key=_most_expensive),
        dismissed,
        unread,
        left_out=len(found) - len(shown),
        arguments=arguments,
    )
    return 0


@dataclass(slots=True)
class _Bill:
    """The limit on CloudWatch's charges, and the most that it has charged so far."""

    limit: Decimal
    agreed: bool
    metrics: int = field(default=0)

    def agree(self, metrics: int) -> None:
        """Raises: CommandError where it may cost more than was allowed."""
        self.metrics += metrics
        most = self.metrics * USD_PER_METRIC
        if most > self.limit and not self.agreed:
            raise CommandError(
                f"reading {self.metrics:,} metrics may cost {money(most, 4)} USD, and "
                f"{self.limit} are "
                "allowed: agree with --yes, or name fewer Regions"
            )


@dataclass(slots=True)
class _Look:
    """Looks at one account, Region by Region. `unread` gets what could not be read."""

    clients: Clients
    store: SeriesStore
    at: UtcDatetime
    bill: _Bill
    unread: dict[str, None]
    seen: list[Past] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    last: tuple[Target, Policy] | None = None

    def __call__(self, target: Target, book: PolicyBook) -> Sequence[Advice]:
        base, prices = book.base().policy, AwsPrices(self.clients)
        fetch = Fetch(
            metrics=CloudWatchMetrics(self.clients),
            instances=Ec2Instances(self.clients),
            prices=prices,
            store=self.store,
            wish=wish_of([base]),
            progress=lambda *_: None,
        )
        hours = self._hours(base)
        found = pasts(fetch, target, hours, partial(policy_or_base, book), self.bill.agree)
        self.seen, self.last = [*self.seen, *found], (target, base)
        self.targets.append(target)
        reader = Reader(self.clients, fetch, prices, self.unread)
        advised = [advice for one in found for advice in of_instance(one)]
        advised += [advice for one in reader.groups(found) for advice in of_group(one)]
        offered = ((one, offer) for one in found if (offer := reader.offer(one)) is not None)
        advised += [advice for one, offer in offered if (advice := spot(one, offer)) is not None]
        advised += reader.ungoverned(target, base)
        held = reader.reservations(target, hours, base)
        return [*advised, *(advice for one in held if (advice := reservation(one)) is not None)]

    def commitments(self) -> list[Advice]:
        """Return what a Savings Plan could take over, once every Region was looked at."""
        if self.last is None:
            return []
        target, base = self.last
        return commitments(self.clients, target, self._hours(base), base, self.seen, self.unread)

    def _hours(self, policy: Policy) -> Window:
        return last_days(self.at, 7 * policy.advice.weeks)


def _left_behind(
    arguments: argparse.Namespace, targets: Sequence[Target], unread: dict[str, None]
) -> list[Advice]:
    """Remains of instances that the governor stopped or terminated; known in the hub alone, by its
    table."""
    session = aws.session(arguments.region or ())
    left = Leftovers(session, arguments.stack_name, [one.region for one in targets], "")
    try:
        return [advice for one in targets for advice in left_behind(one, left)]
    except (ClientError, BotoCoreError, GovernorError) as error:
        unread[
            f"volumes and addresses of stopped and terminated instances: {aws.reason(error)}"
        ] = None
        return []


def _most_expensive(one: Advice) -> tuple[bool, Decimal, str]:
    amount = one.usd_per_month
    return amount is None, -(amount or Decimal(0)), one.advice_id


def _print(
    found: Sequence[Advice],
    dismissed: Mapping[str, UtcDatetime],
    unread: Mapping[str, None],
    *,
    left_out: int,
    arguments: argparse.Namespace,
) -> None:
    if arguments.json:
        ends = {one: iso(until) for one, until in dismissed.items()}
        advised = [{**one.document, "dismissed_until": ends.get(one.advice_id)} for one in found]
        print(json.dumps({"advice": advised, "left_out": left_out, "unread": [*unread]}, indent=2))
        return
    for one in found:
        amount = "unknown" if one.usd_per_month is None else f"{usd(one.usd_per_month)} a month"
        measured = f"{plural(one.weeks, 'week')}, {one.percent_measured}% measured"
        measured = measured if one.weeks else "not measured"
        until = dismissed.get(one.advice_id)
        ended = f"; dismissed until {until:%Y-%m-%d}" if until else ""
        print(f"{amount:<16}  {one.advice_id}  {one.instance_type}; {measured}{ended}")
        whose = [one.name, f"{one.account}/{one.region}", one.owner]
        print(f"    {printable(', '.join(part for part in whose if part))}")
        print(f"    {printable(one.text)}")
        if one.command:
            print(f"    {one.command}")
    if not found:
        print("nothing to advise")
    for line in unread:
        print(f"not known: {printable(line)}", file=sys.stderr)
    if left_out:
        print(f"{left_out} dismissed; --all prints them", file=sys.stderr)
    if found:
        print(_NOTES, file=sys.stderr)


def _table(arguments: argparse.Namespace, session: boto3.Session) -> DynamoTable:
    name = described(arguments.stack_name, session)[0].get("StateTableName", "")
    if not name:
        raise CommandError(f"the stack {arguments.stack_name!r} has no output StateTableName")
    return DynamoTable(Clients(session.region_name), name)


def _dismissed(
    arguments: argparse.Namespace, at: UtcDatetime, unread: dict[str, None]
) -> Mapping[str, UtcDatetime]:
    """Until when, by id. Where the table cannot be read, nothing is left out, and that is said."""
    try:
        items = list(_table(arguments, aws.session(arguments.region or ())).query(_DISMISSED))
    except (CommandError, ClientError, BotoCoreError, GovernorError) as error:
        unread[f"which advice was dismissed: {error}"] = None
        return {}
    ends = {item["sk"]: datetime.fromtimestamp(item["expires_at_epoch"], tz=UTC) for item in items}
    return {one: until for one, until in ends.items() if until > at}


def _dismiss(arguments: argparse.Namespace, at: UtcDatetime) -> int:
    if not _ID.fullmatch(arguments.dismiss) or not arguments.dismiss.isprintable():
        raise CommandError(
            f"{arguments.dismiss!r} is no id of advice: copy one that `governor advice` prints"
        )
    session = aws.session(arguments.region or ())
    days = (
        parse_policy(deployed(arguments.stack_name, session))
        .base()
        .policy.advice.dismissed_for_days
    )
    until = at + timedelta(days=days)
    try:
        by = session.client("sts").get_caller_identity()["Arn"]
        document = {"by": f"aws:{by}", "at": at}
        _table(arguments, session).write(
            put((_DISMISSED, arguments.dismiss), document, until=until)
        )
    except (ClientError, BotoCoreError, GovernorError) as error:
        why = break_glass.reason(error, session, arguments.stack_name)
        raise CommandError(f"the advice could not be dismissed: {why}") from None
    with Output(arguments) as out:
        said = f"{arguments.dismiss} is left out until {until:%Y-%m-%d}"
        out.say(said, dismissed=arguments.dismiss, until=iso(until))
    return 0
