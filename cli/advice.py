"""`governor advice`: print what could cost less, by the last weeks of the fleet. It never acts."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws, break_glass
from cli.api import described
from cli.capacity import Reader
from cli.commitments import commitments
from cli.errors import CommandError
from cli.fleet import over_the_fleet
from cli.leftovers import Leftovers, left_behind
from cli.notes import print_note
from cli.output import Output
from cli.policy import deployed
from cli.simulate import default_cache, endpoint_of
from cli.tables import print_command, print_text
from cli.times import now
from governor.aws.clients import Clients
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.dynamodb import DynamoTable
from governor.aws.ec2 import Ec2Instances
from governor.aws.pricing import AwsPrices
from governor.core.errors import GovernorError
from governor.core.instance import Target
from governor.core.units import UtcDatetime, iso, money, plural, printable, usd
from governor.evidence.model import Window
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.model.policy import Policy
from governor.policy.ports import policy_or_base
from governor.table.table import put
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
    "Amounts are by the prices that GPU Governor knows, without discounts, and advice "
    "about the same "
    "instance does not add up. Whether a Region has a type is not checked."
)


def run(arguments: argparse.Namespace) -> int:
    """Print what could cost less, the most expensive first; or dismiss a part of it.

    Raises:
        CommandError: something could not be read or written, or the ID is none of advice.
    """
    at = now()
    if arguments.dismiss:
        return _dismiss(arguments, at)
    unread = dict[str, None]()
    try:
        advices = _advices(arguments, at, unread)
    except (FetchError, StoreError, ReplayError) as error:
        raise CommandError(str(error)) from None
    dismissed = _dismissed(arguments, at, unread)
    shown = advices
    if not arguments.all:
        shown = [advice for advice in advices if advice.advice_id not in dismissed]
    shown = sorted(shown, key=_most_expensive)
    left_out = len(advices) - len(shown)
    if arguments.json:
        _print_json(shown, dismissed, unread, left_out)
    else:
        _print(shown, dismissed, unread, left_out)
    return 0


def _advices(
    arguments: argparse.Namespace, at: UtcDatetime, unread: dict[str, None]
) -> list[Advice]:
    clients = Clients()
    bill = _Bill(arguments.limit_usd, arguments.yes)
    cache = arguments.cache or default_cache()
    with closing(SeriesStore(cache, partial(endpoint_of, clients))) as store:
        look = _Look(clients, store, at, bill, unread)
        advices = over_the_fleet(arguments, look)
    if arguments.commitments:
        advices += look.commitments()
    advices += _left_behind(arguments, look.targets, unread)
    return advices


@dataclass(slots=True)
class _Bill:
    """The limit on CloudWatch's charges, and the most that it has charged so far."""

    limit: Decimal
    agreed: bool
    metrics: int = field(default=0)

    def agree(self, metrics: int) -> None:
        """Count metrics that are requested.

        Raises:
            CommandError: reading them may cost more than was allowed.
        """
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
    """Looks at one account, Region by Region. `unread` gets a line on each failed reading."""

    clients: Clients
    store: SeriesStore
    at: UtcDatetime
    bill: _Bill
    unread: dict[str, None]
    seen: list[Past] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    last: tuple[Target, Policy] | None = None

    def __call__(self, target: Target, book: PolicyBook) -> Sequence[Advice]:
        base = book.base().policy
        prices = AwsPrices(self.clients)
        fetch = Fetch(
            metrics=CloudWatchMetrics(self.clients),
            instances=Ec2Instances(self.clients),
            prices=prices,
            store=self.store,
            wish=wish_of([base]),
            progress=lambda *_: None,
        )
        hours = self._hours(base)
        target_pasts = pasts(fetch, target, hours, partial(policy_or_base, book), self.bill.agree)
        self.seen = [*self.seen, *target_pasts]
        self.last = (target, base)
        self.targets.append(target)
        reader = Reader(self.clients, fetch, prices, self.unread)
        return [
            *_on_instances_and_groups(reader, target_pasts),
            *_on_spot(reader, target_pasts),
            *reader.ungoverned(target, base),
            *_on_reservations(reader, target, hours, base),
        ]

    def commitments(self) -> list[Advice]:
        """Return what a Savings Plan could take over, once every Region was looked at."""
        if self.last is None:
            return []
        target, base = self.last
        return commitments(self.clients, target, self._hours(base), base, self.seen, self.unread)

    def _hours(self, policy: Policy) -> Window:
        return last_days(self.at, 7 * policy.advice.weeks)


def _on_instances_and_groups(reader: Reader, target_pasts: Sequence[Past]) -> Iterator[Advice]:
    for past in target_pasts:
        yield from of_instance(past)
    for group in reader.groups(target_pasts):
        yield from of_group(group)


def _on_spot(reader: Reader, target_pasts: Sequence[Past]) -> Iterator[Advice]:
    for past in target_pasts:
        offer = reader.offer(past)
        advice = None if offer is None else spot(past, offer)
        if advice is not None:
            yield advice


def _on_reservations(
    reader: Reader, target: Target, hours: Window, policy: Policy
) -> Iterator[Advice]:
    for reserved in reader.reservations(target, hours, policy):
        advice = reservation(reserved)
        if advice is not None:
            yield advice


def _left_behind(
    arguments: argparse.Namespace, targets: Sequence[Target], unread: dict[str, None]
) -> list[Advice]:
    """Return advice on the remains of instances that the governor stopped or terminated.

    Only the hub's table knows them.
    """
    session = aws.session(arguments.region or ())
    regions = [target.region for target in targets]
    left = Leftovers(session, arguments.stack_name, regions, "")
    advices: list[Advice] = []
    try:
        for target in targets:
            advices += left_behind(target, left)
    except (ClientError, BotoCoreError, GovernorError) as error:
        unread[
            f"volumes and addresses of stopped and terminated instances: {aws.reason(error)}"
        ] = None
        return []
    return advices


def _most_expensive(advice: Advice) -> tuple[bool, Decimal, str]:
    amount = advice.usd_per_month
    return amount is None, -(amount or Decimal(0)), advice.advice_id


def _print_json(
    advices: Sequence[Advice],
    dismissed: Mapping[str, UtcDatetime],
    unread: Mapping[str, None],
    left_out: int,
) -> None:
    documents = []
    for advice in advices:
        until = dismissed.get(advice.advice_id)
        end = None if until is None else iso(until)
        documents.append({**advice.document, "dismissed_until": end})
    document = {"advice": documents, "left_out": left_out, "unread": list(unread)}
    print(json.dumps(document, indent=2))


def _print(
    advices: Sequence[Advice],
    dismissed: Mapping[str, UtcDatetime],
    unread: Mapping[str, None],
    left_out: int,
) -> None:
    for advice in advices:
        _print_advice(advice, dismissed.get(advice.advice_id))
    if not advices:
        print_text(
            "nothing to advise: no running instance with the selector tag could cost less, by what "
            "was measured in the last weeks (`advice.weeks` of the policy)"
        )
    for line in unread:
        print_note(f"not known: {printable(line)}")
    if left_out:
        print_note(f"{left_out} dismissed; --all prints them")
    if advices:
        print_note(_NOTES)


def _print_advice(advice: Advice, dismissed_until: UtcDatetime | None) -> None:
    amount = "unknown"
    if advice.usd_per_month is not None:
        amount = f"{usd(advice.usd_per_month)} a month"
    measured = "not measured"
    if advice.weeks:
        measured = f"{plural(advice.weeks, 'week')}, {advice.percent_measured}% measured"
    until = ""
    if dismissed_until is not None:
        until = f"; dismissed until {dismissed_until:%Y-%m-%d}"
    print_text(f"{amount:<16}  {advice.advice_id}  {advice.instance_type}; {measured}{until}")
    whose = [advice.name, f"{advice.account}/{advice.region}", advice.owner]
    print_text(f"    {printable(', '.join(filter(None, whose)))}")
    print_text(f"    {printable(advice.text)}")
    if advice.command:
        print_command(advice.command, "    ")


def _table(arguments: argparse.Namespace, session: boto3.Session) -> DynamoTable:
    name = described(arguments.stack_name, session)[0].get("StateTableName", "")
    if not name:
        raise CommandError(f"the stack {arguments.stack_name!r} has no output StateTableName")
    return DynamoTable(Clients(session.region_name), name)


def _dismissed(
    arguments: argparse.Namespace, at: UtcDatetime, unread: dict[str, None]
) -> Mapping[str, UtcDatetime]:
    """Return until when advice is dismissed, by its id.

    If the table cannot be read, nothing is left out, and `unread` says so.
    """
    try:
        items = list(_table(arguments, aws.session(arguments.region or ())).query(_DISMISSED))
    except (CommandError, ClientError, BotoCoreError, GovernorError) as error:
        unread[f"which advice was dismissed: {error}"] = None
        return {}
    ends = {}
    for item in items:
        until = datetime.fromtimestamp(item["expires_at_epoch"], tz=UTC)
        if until > at:
            ends[item["sk"]] = until
    return ends


def _dismiss(arguments: argparse.Namespace, at: UtcDatetime) -> int:
    if not _ID.fullmatch(arguments.dismiss) or not arguments.dismiss.isprintable():
        raise CommandError(
            f"{arguments.dismiss!r} is no ID of advice: copy one that `governor advice` prints"
        )
    session = aws.session(arguments.region or ())
    policy = parse_policy(deployed(arguments.stack_name, session)).base().policy
    until = at + timedelta(days=policy.advice.dismissed_for_days)
    try:
        caller = session.client("sts").get_caller_identity()["Arn"]
        document = {"by": f"aws:{caller}", "at": at}
        dismissal = put((_DISMISSED, arguments.dismiss), document, until=until)
        _table(arguments, session).write(dismissal)
    except (ClientError, BotoCoreError, GovernorError) as error:
        why = break_glass.reason(error, session, arguments.stack_name)
        raise CommandError(f"the advice could not be dismissed: {why}") from None
    with Output(arguments) as out:
        text = (
            f"{arguments.dismiss} is left out until {until:%Y-%m-%d}; "
            "an ID that no advice has hides nothing"
        )
        out.say(text, dismissed=arguments.dismiss, until=iso(until))
    return 0
