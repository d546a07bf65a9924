"""`governor simulate`: what policies would have done in the past days, before one of them goes
live."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli import policy as policy_commands
from cli.errors import CommandError
from cli.policy_meetings import policies_of
from cli.progress import Progress
from evaluation.traces import TraceError
from governor.adapters.clients import Clients
from governor.adapters.cloudwatch import CloudWatchMetrics
from governor.adapters.ec2 import Ec2Instances
from governor.adapters.pricing import AwsPrices
from governor.contracts.policy import PolicyBook, parse_policy
from governor.domain.instance import Target
from governor.domain.units import money, printable
from governor.errors import GovernorError, PolicyError
from governor.ports import Policies
from simulation import advice, report
from simulation.fetch import LONGEST_DAYS, Fetch, FetchError, last_days
from simulation.outcome import Replay
from simulation.page import page
from simulation.progress import show
from simulation.recommend import grouping, recommend
from simulation.recording import Recording
from simulation.replay import ReplayError, replay
from simulation.store import SeriesStore, StoreError
from simulation.traces import UtilizationOnly, read_traces
from simulation.tradeoff import other_waits
from simulation.wish import wish_of

_DAYS = 14
_DAYS_TO_CHOOSE_BY = 56
_WRONG_AT_MOST = 0.05
_INTERRUPTED = 130
"""As shells say it: 128 and the signal's number."""
_ACCOUNT_NOTE = (
    "Instances that run now, as EC2 describes them now; what was terminated "
    "or is stopped today is not in it."
)
_TRACE_NOTES = (
    "Traces hold GPU utilization, and some GPU memory. Required CPU and network readings "
    "are waived, and "
    "USD are unknown unless prices.usd_per_hour names the type (trace-8-gpu for 8 GPUs).",
)


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its options."""
    made = areas.add_parser("simulate")
    made.add_argument(
        "--policy",
        action="append",
        type=Path,
        metavar="FILE",
        help="a YAML file; repeat to compare",
    )
    made.add_argument(
        "--traces", type=Path, metavar="PATH", help="trace files instead of an account"
    )
    made.add_argument(
        "--days", type=_days, metavar="N", help="whole UTC days (default: 14; 56 with --recommend)"
    )
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
    made.add_argument("--yes", action="store_true", help="agree to whatever it may cost")
    made.add_argument(
        "--approval-delay-minutes",
        type=_minutes,
        default=timedelta(minutes=30),
        metavar="N",
        help="from a question to the yes that is assumed (default: 30)",
    )
    made.add_argument(
        "--recommend",
        action="store_true",
        help="choose how long to wait before asking, from your own weeks",
    )
    made.add_argument(
        "--wrong-at-most",
        type=_percent,
        metavar="PERCENT",
        help="with --recommend: share of questions after which work is back within an "
        "hour (default: 5)",
    )
    made.add_argument(
        "--by",
        metavar="project|tag:KEY",
        help="with --recommend: choose for each group, too (default: project)",
    )
    made.add_argument("--format", choices=["table", "json", "html"], default="table")
    made.add_argument(
        "--out", type=Path, metavar="FILE", help="write there instead of standard output"
    )
    made.set_defaults(run=run, regions=True)


def run(arguments: argparse.Namespace) -> int:
    """Reads, replays and reports; 0 when that could be done, whatever came of it."""
    if arguments.traces and (arguments.days or arguments.region):
        raise CommandError("--traces are replayed whole: leave out --days and --region")
    _check_recommend(arguments)
    books = _books(arguments)
    try:
        policies: Sequence[Policies] = [book for _, book in books]
        if arguments.traces:
            recordings, notes = _from_traces(arguments.traces, books)
            policies = [UtilizationOnly(one) for one in policies]
        else:
            clients = Clients()
            with closing(
                SeriesStore(arguments.cache or default_cache(), partial(endpoint_of, clients))
            ) as store:
                recordings, notes = _from_account(arguments, books, clients, store)
        if arguments.recommend:
            text = _recommended(arguments, policies[0], recordings, notes)
        else:
            replays, delay = list[Replay](), arguments.approval_delay_minutes
            with Progress("replaying") as progress:
                for (name, _), one in zip(books, policies, strict=True):
                    progress.show(
                        f"replaying {printable(name)} ({len(replays) + 1} of {len(books)})"
                    )
                    replays.append(replay(name, one, recordings, approval_delay=delay))
            text = _shown(arguments, policies, recordings, replays, notes)
    except (ReplayError, TraceError, FetchError, StoreError, GovernorError, OSError) as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        print("\ninterrupted; what was read is kept, run it again to go on", file=sys.stderr)
        return _INTERRUPTED
    if arguments.out is None:
        print(text)
    else:
        _write(arguments.out, text)
    return 0


def _check_recommend(arguments: argparse.Namespace) -> None:
    if not arguments.recommend:
        if arguments.by or arguments.wrong_at_most is not None:
            raise CommandError("--by and --wrong-at-most go with --recommend")
    elif arguments.policy and len(arguments.policy) > 1:
        raise CommandError("--recommend starts from one policy: give --policy once")
    elif arguments.format == "html":
        raise CommandError("--recommend prints a table or JSON: leave out --format html")


def _recommended(
    arguments: argparse.Namespace,
    policies: Policies,
    recordings: Sequence[Recording],
    notes: Sequence[str],
) -> str:
    groups = grouping(arguments.by or "project", policies.base().policy.ownership)
    limit = arguments.wrong_at_most
    found = recommend(
        policies,
        recordings,
        groups,
        wrong_at_most=_WRONG_AT_MOST if limit is None else limit,
        approval_delay=arguments.approval_delay_minutes,
        progress=partial(show, unit="waits"),
    )
    if arguments.json or arguments.format == "json":
        return advice.as_json(found, groups, notes)
    return "\n".join([advice.text(found, groups), "", *notes])


def _shown(
    arguments: argparse.Namespace,
    policies: Sequence[Policies],
    recordings: Sequence[Recording],
    replays: Sequence[Replay],
    notes: Sequence[str],
) -> str:
    if arguments.json or arguments.format == "json":
        return report.document(replays, notes)
    if arguments.format == "html":
        others: list[Replay] = []
        if len(policies) == 1:
            delay = arguments.approval_delay_minutes
            progress = partial(show, unit="waits")
            others = other_waits(policies[0], recordings, approval_delay=delay, progress=progress)
        return page(replays, notes, datetime.now(tz=UTC), others)
    summaries = [report.summarise(one) for one in replays]
    lead = [report.sentence(one) for one in report.by_saving(summaries)]
    return "\n".join([*lead, "", report.table(summaries), "", *notes])


def _books(arguments: argparse.Namespace) -> list[tuple[str, PolicyBook]]:
    """The policies by name. None given: the stack's; with traces, which need no stack, the
    defaults."""
    if not arguments.policy:
        if arguments.traces:
            return [("defaults", parse_policy(""))]
        return [
            (
                "deployed",
                _parsed(
                    "deployed",
                    policy_commands.deployed(
                        arguments.stack_name, aws.session(arguments.region or ())
                    ),
                ),
            )
        ]
    for path in arguments.policy:
        if sum(path.resolve() == other.resolve() for other in arguments.policy) > 1:
            raise CommandError(f"{path} is given more than once: there is nothing to compare")
    names = _names(arguments.policy)
    return [
        (name, _parsed(str(path), policy_commands.read(path)))
        for name, path in zip(names, arguments.policy, strict=True)
    ]


def _names(paths: Sequence[Path]) -> list[str]:
    """Stems where they tell the files apart, else paths."""
    stems = [path.stem for path in paths]
    return stems if len(set(stems)) == len(stems) else [str(path) for path in paths]


def _parsed(name: str, text: str) -> PolicyBook:
    try:
        return parse_policy(text)
    except PolicyError as error:
        raise CommandError(f"{name} is refused: {error}; run `governor policy check`") from None


def _from_traces(
    path: Path, books: Sequence[tuple[str, PolicyBook]]
) -> tuple[list[Recording], Sequence[str]]:
    # Named alike by all policies, or refused.
    wish = wish_of([policy for _, book in books for _, policy in policies_of(book)])
    left_out: list[str] = []
    try:
        with Progress(f"reading {path}"):
            recordings = read_traces(path, wish.metrics, left_out.append)
    finally:
        for text in left_out:
            print(f"warning: {text}", file=sys.stderr)
    return recordings, [*_TRACE_NOTES, *(f"Warning: {text}" for text in left_out)]


def _from_account(
    arguments: argparse.Namespace,
    books: Sequence[tuple[str, PolicyBook]],
    clients: Clients,
    store: SeriesStore,
) -> tuple[list[Recording], Sequence[str]]:
    """Counts what reading costs, says so, and reads.

    Raises:
        CommandError: it may cost more than was allowed, or there is nothing to read.
    """
    fetch = Fetch(
        metrics=CloudWatchMetrics(clients),
        instances=Ec2Instances(clients),
        prices=AwsPrices(clients),
        store=store,
        wish=wish_of([policy for _, book in books for _, policy in policies_of(book)]),
        progress=show,
    )
    days = arguments.days or (_DAYS_TO_CHOOSE_BY if arguments.recommend else _DAYS)
    hours = last_days(datetime.now(tz=UTC), days)
    targets = _targets(arguments.region)
    with Progress("listing instances and their metrics"):
        surveys = [fetch.survey(target, hours) for target in targets]
    count = sum(len(survey.subjects) for survey in surveys)
    if not count:
        raise CommandError(
            f"no running instance carries the tag {fetch.wish.selector}: give --region, "
            "or sign in elsewhere"
        )
    most = sum((survey.most_usd for survey in surveys), Decimal(0))
    metrics = sum(survey.most_metrics for survey in surveys)
    print(
        f"instances: {count}, days: {days}; at most {metrics:,} metrics are requested, "
        f"{money(most, 4)} USD by list price",
        file=sys.stderr,
    )
    if most > arguments.limit_usd and not arguments.yes:
        raise CommandError(
            f"that may cost more than {arguments.limit_usd} USD: agree with --yes, or "
            "give fewer --days"
        )
    recordings = [recording for survey in surveys for recording in fetch.fetch(survey)]
    period = f"{hours.start:%Y-%m-%d} to {hours.end:%Y-%m-%d} (UTC, the last day excluded)"
    notes = [f"{period}. {_ACCOUNT_NOTE}"]
    silent = sum(recording.is_silent for recording in recordings)
    if silent:
        notes.append(
            f"No readings of GPUs for {silent} of {count} instances in this period: "
            "nothing is known of "
            "them, and nothing would have been asked. `governor doctor` says whether "
            "agents publish now."
        )
    return recordings, notes


def endpoint_of(clients: Clients, target: Target) -> str:
    return str(clients.client("cloudwatch", target).meta.endpoint_url)


def _targets(regions: Sequence[str] | None) -> list[Target]:
    session = aws.session(regions or ())
    chosen = regions or [session.region_name]
    try:
        account = session.client("sts", region_name=chosen[0]).get_caller_identity()["Account"]
    except (ClientError, BotoCoreError) as error:
        raise CommandError(
            f"AWS did not say whose credentials these are: {aws.reason(error)}"
        ) from None
    return [Target(account, region) for region in dict.fromkeys(chosen)]


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} could not be written: {error}") from None
    print(f"written to {path}", file=sys.stderr)


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "gpu-governor" / "series.sqlite"


def _days(text: str) -> int:
    """Days, 1 to 63.

    Raises:
        argparse.ArgumentTypeError: not such a number.
    """
    if not text.isdecimal() or not 1 <= int(text) <= LONGEST_DAYS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of days between 1 and {LONGEST_DAYS}: "
            "CloudWatch keeps 5-minute data no longer"
        )
    return int(text)


def usd_from(text: str) -> Decimal:
    """An amount of 0 or more.

    Raises:
        argparse.ArgumentTypeError: not an amount.
    """
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in USD")
    return amount


def _percent(text: str) -> float:
    """A share of questions, given in percent.

    Raises:
        argparse.ArgumentTypeError: not between 0 and 100.
    """
    try:
        percent = float(text)
    except ValueError:
        percent = 0
    if not 0 < percent < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0 and 100")
    return percent / 100


def _minutes(text: str) -> timedelta:
    """Minutes, 0 to 43,200.

    Raises:
        argparse.ArgumentTypeError: not such a number.
    """
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1
    if not 0 <= minutes <= 43_200:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes between 0 and 43200")
    return timedelta(minutes=minutes)
