"""`governor simulate`: what policies would have done in the past days, before one goes live.

It reads metrics, replays them and reports; it changes nothing in AWS.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli import policy as policy_commands
from cli.errors import CommandError
from cli.notes import print_note
from cli.policy_meetings import policies_of
from cli.progress import Counter, Progress
from cli.tables import Column, plain_text, shown_text, table_text
from evaluation.traces import TraceError
from governor.aws.clients import Clients
from governor.aws.cloudwatch import CloudWatchMetrics
from governor.aws.ec2 import Ec2Instances
from governor.aws.pricing import AwsPrices
from governor.core.errors import GovernorError, PolicyError
from governor.core.instance import Instance, Target
from governor.core.units import plural, printable, usd
from governor.evidence.model import Window
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.model.policy import Policy
from governor.policy.ports import Policies, policy_or_base
from simulation import advice, report
from simulation.fetch import Fetch, FetchError, Survey, last_days
from simulation.outcome import Replay
from simulation.page import page
from simulation.recommend import grouping, recommend
from simulation.recording import Recording
from simulation.replay import ReplayError, replay
from simulation.store import SeriesStore, StoreError
from simulation.traces import UtilizationOnly, read_traces
from simulation.tradeoff import other_waits
from simulation.wish import Wish, wish_of, wishes_of

_DAYS = 14
_DAYS_TO_CHOOSE_BY = 56
_WRONG_AT_MOST = 0.05
_CENT = Decimal("0.01")
_INTERRUPTED = 130
"""The exit status that shells use: 128 and the signal's number."""
_ACCOUNT_NOTE = (
    "Only instances that run now are included, as EC2 describes them now; stopped and "
    "terminated ones are not."
)
_TRACE_NOTES = (
    "Traces hold GPU utilization, and some hold GPU memory. CPU and network readings are not "
    "required here. Amounts are unknown unless prices.usd_per_hour names the type "
    "(trace-8-gpu for 8 GPUs).",
)


NamedBook = tuple[str, PolicyBook]
"""A policy with the name by which the output calls it."""


def run(arguments: argparse.Namespace) -> int:
    """Read, replay and report. Return 0 when that could be done, whatever came of it.

    Raises:
        CommandError: the options contradict each other, or something could not be read or written.
    """
    if arguments.traces and (arguments.days or arguments.region):
        raise CommandError("--traces replays whole files: leave out --days and --region")
    _check_recommend(arguments)
    books = _books(arguments)
    try:
        text = _report(arguments, books)
    except (ReplayError, TraceError, FetchError, StoreError, GovernorError, OSError) as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        print_note("\nInterrupted. What was read is kept: run the command again to continue.")
        return _INTERRUPTED
    if arguments.out is None:
        print(text)
    else:
        _write(arguments.out, text)
    return 0


def _check_recommend(arguments: argparse.Namespace) -> None:
    if not arguments.recommend:
        if arguments.by or arguments.wrong_at_most is not None:
            raise CommandError("--by and --wrong-at-most need --recommend")
    elif arguments.policy and len(arguments.policy) > 1:
        raise CommandError("--recommend starts from one policy: give --policy once")
    elif arguments.format == "html":
        raise CommandError("--recommend prints a table or JSON: leave out --format html")


def _report(arguments: argparse.Namespace, books: Sequence[NamedBook]) -> str:
    policies: list[Policies] = [book for _, book in books]
    if arguments.traces:
        recordings, notes = _from_traces(arguments.traces, books)
        policies = [UtilizationOnly(policy) for policy in policies]
    else:
        recordings, notes = _from_account(arguments, books)
    if arguments.recommend:
        return _recommended(arguments, policies[0], recordings, notes)
    names = [name for name, _ in books]
    replays = _replays(names, policies, recordings, arguments.approval_delay_minutes)
    return _shown(arguments, policies, recordings, replays, notes)


def _replays(
    names: Sequence[str],
    policies: Sequence[Policies],
    recordings: Sequence[Recording],
    approval_delay: timedelta,
) -> list[Replay]:
    replays: list[Replay] = []
    with Progress("replaying") as progress:
        for name, policy in zip(names, policies, strict=True):
            progress.show(f"replaying {printable(name)} ({len(replays) + 1} of {len(names)})")
            replays.append(replay(name, policy, recordings, approval_delay=approval_delay))
    return replays


def _recommended(
    arguments: argparse.Namespace,
    policies: Policies,
    recordings: Sequence[Recording],
    notes: Sequence[str],
) -> str:
    groups = grouping(arguments.by or "project", policies.base().policy.ownership)
    wrong_at_most = arguments.wrong_at_most
    if wrong_at_most is None:
        wrong_at_most = _WRONG_AT_MOST
    with Counter("waits") as counter:
        recommendation = recommend(
            policies,
            recordings,
            groups,
            wrong_at_most=wrong_at_most,
            approval_delay=arguments.approval_delay_minutes,
            progress=counter.show,
        )
    if arguments.json or arguments.format == "json":
        return advice.as_json(recommendation, groups, notes)
    parts = advice.parts_of(recommendation, groups)
    paper = _Paper(is_file=arguments.out is not None)
    return "\n".join(
        [
            *paper.sentences(parts.head),
            "",
            paper.table(
                [Column(is_number=True, gives_way=True) for _ in parts.rows[0]], parts.rows
            ),
            *paper.sentences(parts.rest),
            *(["", parts.to_paste] if parts.to_paste else []),
            "",
            *paper.sentences(notes),
        ]
    )


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
        with_other_waits: list[Replay] = []
        if len(policies) == 1:
            with Counter("waits") as counter:
                with_other_waits = other_waits(
                    policies[0],
                    recordings,
                    approval_delay=arguments.approval_delay_minutes,
                    progress=counter.show,
                )
        return page(replays, notes, datetime.now(tz=UTC), with_other_waits)
    summaries = [report.summarize(replayed) for replayed in replays]
    sentences = [report.sentence(summary) for summary in report.by_saving(summaries)]
    paper = _Paper(is_file=arguments.out is not None)
    columns = [Column(gives_way=True, is_indented=True)]
    columns += [Column(is_number=True, gives_way=True) for _ in summaries]
    return "\n".join(
        [
            *paper.sentences(sentences),
            "",
            paper.table(columns, report.table_rows(summaries)),
            "",
            *paper.sentences(notes),
        ]
    )


@dataclass(frozen=True, slots=True)
class _Paper:
    """Sentences and tables as standard output shows them, or plain for a file."""

    is_file: bool

    def sentences(self, texts: Sequence[str]) -> list[str]:
        """Return the texts in lines."""
        return list(texts) if self.is_file else [shown_text(text) for text in texts]

    def table(self, columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
        """Return the table. The first row has the titles."""
        first, *others = rows
        titled = []
        for column, title in zip(columns, first, strict=True):
            titled.append(replace(column, title=title))
        return plain_text(titled, others) if self.is_file else table_text(titled, others)


def _books(arguments: argparse.Namespace) -> list[NamedBook]:
    """Return the policies by name.

    If none is given, it is the stack's; with traces, which need no stack, the defaults.
    """
    paths: list[Path] = arguments.policy or []
    if not paths and arguments.traces:
        return [("defaults", parse_policy(""))]
    if not paths:
        session = aws.session(arguments.region or ())
        text = policy_commands.deployed(arguments.stack_name, session)
        return [("deployed", _parsed("deployed", text))]
    resolved_paths = [path.resolve() for path in paths]
    for path, resolved_path in zip(paths, resolved_paths, strict=True):
        if resolved_paths.count(resolved_path) > 1:
            raise CommandError(f"{path} is given more than once: there is nothing to compare")
    books = []
    for name, path in zip(_names(paths), paths, strict=True):
        books.append((name, _parsed(str(path), policy_commands.read(path))))
    return books


def _names(paths: Sequence[Path]) -> list[str]:
    """Return the stems where they differ from each other, else the paths."""
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    return [str(path) for path in paths]


def _parsed(name: str, text: str) -> PolicyBook:
    try:
        return parse_policy(text)
    except PolicyError as error:
        raise CommandError(f"{name} is refused: {error}; run `governor policy check`") from None


def _wish(books: Sequence[NamedBook]) -> Wish:
    """Return what all the policies need. They must name it alike, or it is refused."""
    policies: list[Policy] = []
    for _, book in books:
        policies += [policy for _, policy in policies_of(book)]
    return wish_of(policies)


def _wishes(books: Sequence[NamedBook]) -> list[Wish]:
    """Return what all the policies need, by the names of the metrics that they read. All of them
    must read an instance by the same names, or it is refused."""
    policies: list[Policy] = []
    of_instance: list[Callable[[Instance], Policy]] = []
    for _, book in books:
        policies += [policy for _, policy in policies_of(book)]
        of_instance.append(partial(policy_or_base, book))
    return wishes_of(policies, of_instance)


def _from_traces(path: Path, books: Sequence[NamedBook]) -> tuple[list[Recording], Sequence[str]]:
    wish = _wish(books)
    left_out: list[str] = []
    try:
        with Progress(f"reading {path}"):
            recordings = read_traces(path, wish.metrics, left_out.append)
    finally:
        for text in left_out:
            print_note(f"warning: {text}")
    return recordings, [*_TRACE_NOTES, *(f"Warning: {text}" for text in left_out)]


def _from_account(
    arguments: argparse.Namespace, books: Sequence[NamedBook]
) -> tuple[list[Recording], Sequence[str]]:
    """Count what reading costs, say so, and read.

    Raises:
        CommandError: it may cost more than was allowed, or there is nothing to read.
    """
    clients = Clients()
    cache = arguments.cache or default_cache()
    wishes = _wishes(books)
    with closing(SeriesStore(cache, partial(endpoint_of, clients))) as store, Counter() as counter:
        fetch = Fetch(
            metrics=CloudWatchMetrics(clients),
            instances=Ec2Instances(clients),
            prices=AwsPrices(clients),
            store=store,
            wish=wishes[0],
            progress=counter.show,
        )
        fetches = [replace(fetch, wish=wish) for wish in wishes]
        default_days = _DAYS_TO_CHOOSE_BY if arguments.recommend else _DAYS
        days = arguments.days or default_days
        hours = last_days(datetime.now(tz=UTC), days)
        targets = _targets(arguments.region)
        with Progress("listing instances and their metrics"):
            surveyed = []
            for one in fetches:
                for target in targets:
                    surveyed.append((one, one.survey(target, hours)))
        surveys = [survey for _, survey in surveyed]
        _check_surveys(surveys, fetch, days, arguments)
        recordings: list[Recording] = []
        for one, survey in surveyed:
            recordings += one.fetch(survey)
    return recordings, _account_notes(hours, surveys, recordings)


def _check_surveys(
    surveys: Sequence[Survey], fetch: Fetch, days: int, arguments: argparse.Namespace
) -> None:
    """Say what reading costs.

    Raises:
        CommandError: it may cost more than was allowed, or there is nothing to read.
    """
    count = _subject_count(surveys)
    if not count:
        raise CommandError(
            f"no running instance has the tag {fetch.wish.selector}: give --region, or use "
            "credentials of another account"
        )
    most_usd = sum((survey.most_usd for survey in surveys), Decimal(0))
    most_metrics = sum(survey.most_metrics for survey in surveys)
    print_note(
        f"{plural(count, 'instance')}, {plural(days, 'day')}: at most {most_metrics:,} metrics "
        f"are requested, which costs {_cost(most_usd)} at list price"
    )
    if most_usd > arguments.limit_usd and not arguments.yes:
        raise CommandError(
            f"this may cost more than {usd(arguments.limit_usd)}: agree with --yes, or give "
            "fewer --days"
        )


def _cost(most_usd: Decimal) -> str:
    """Return an amount as text, also one of less than a cent."""
    return "less than $0.01" if 0 < most_usd < _CENT else usd(most_usd)


def _account_notes(
    hours: Window, surveys: Sequence[Survey], recordings: Sequence[Recording]
) -> list[str]:
    """Return what a reader must know about the period and the silent instances."""
    period = f"{hours.start:%Y-%m-%d} to {hours.end:%Y-%m-%d} (UTC, without the last day)"
    notes = [f"{period}. {_ACCOUNT_NOTE}"]
    silent_count = sum(recording.is_silent for recording in recordings)
    if silent_count:
        notes.append(
            f"{silent_count} of {_subject_count(surveys)} instances published no GPU metrics in "
            "this period, so nobody would have been asked about them. `governor doctor` says "
            "whether agents publish now."
        )
    return notes


def _subject_count(surveys: Sequence[Survey]) -> int:
    return sum(len(survey.subjects) for survey in surveys)


def endpoint_of(clients: Clients, target: Target) -> str:
    """Return CloudWatch's address. The store keeps the readings of each address separately."""
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
    print_note(f"Written to {path}.")


def default_cache() -> Path:
    """Return the file in which readings are kept."""
    configured = os.environ.get("XDG_CACHE_HOME")
    base = Path(configured) if configured else Path.home() / ".cache"
    return base / "gpu-governor" / "series.sqlite"
