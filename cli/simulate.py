"""`governor simulate`: what policies would have done in the past days, before one of them goes live."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import boto3

from cli import policy as policy_commands
from cli.errors import CommandError
from evaluation.traces import TraceError
from governor.contracts.policy import PolicyBook, parse_policy
from governor.errors import GovernorError, PolicyError
from governor.ports import Policies
from simulation import report
from simulation.recording import Recording
from simulation.replay import Replay, ReplayError, replay
from simulation.traces import UtilizationOnly, read_traces

_TRACE_NOTES = (
    "Traces hold GPU utilization alone: no policy requires CPU or network here, and no other figure vetoes.",
)


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command and its options."""
    made = areas.add_parser("simulate", help="what policies would have done in the past days")
    made.add_argument(
        "--policy", action="append", type=Path, metavar="FILE", help="a YAML file; repeat to compare"
    )
    made.add_argument("--traces", type=Path, metavar="PATH", help="trace files instead of an account")
    made.add_argument(
        "--approval-delay-minutes",
        type=_minutes,
        default=timedelta(minutes=30),
        metavar="N",
        help="from a question to the yes that is assumed (default: 30)",
    )
    made.add_argument("--format", choices=["table", "json"], default="table")
    made.add_argument("--out", type=Path, metavar="FILE", help="write there instead of standard output")
    made.set_defaults(local=run)


def run(arguments: argparse.Namespace) -> int:
    """Reads, replays and reports; 0 when that could be done, whatever came of it."""
    books = _books(arguments)
    try:
        if arguments.traces:
            recordings, notes = _from_traces(arguments.traces, books)
            policies: Sequence[Policies] = [UtilizationOnly(book) for _, book in books]
        replays = [
            replay(name, one, recordings, approval_delay=arguments.approval_delay_minutes)
            for (name, _), one in zip(books, policies, strict=True)
        ]
    except (ReplayError, TraceError, GovernorError, OSError) as error:
        raise CommandError(str(error)) from None
    text = _shown(replays, "json" if arguments.json else arguments.format, notes)
    if arguments.out is None:
        print(text)
    else:
        _write(arguments.out, text)
    return 0


def _shown(replays: Sequence[Replay], form: str, notes: Sequence[str]) -> str:
    if form == "json":
        return report.document(replays, notes)
    summaries = [report.summarise(one) for one in replays]
    return "\n".join([report.table(summaries), "", *notes])


def _books(arguments: argparse.Namespace) -> list[tuple[str, PolicyBook]]:
    """The policies by name. None given: the stack's; with traces, which need no stack, the defaults."""
    if not arguments.policy:
        if arguments.traces:
            return [("defaults", parse_policy(""))]
        return [
            ("deployed", _parsed("deployed", policy_commands.deployed(arguments.stack_name, boto3.Session())))
        ]
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
    base = books[0][1].base().policy
    return read_traces(path, base.metrics, base), _TRACE_NOTES


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} could not be written: {error}") from None
    print(f"written to {path}", file=sys.stderr)


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
