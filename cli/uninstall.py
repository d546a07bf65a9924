"""`governor uninstall`: what a stack leaves behind, what keeping it costs, and its removal.

Reads only, unless asked. It deletes no stack: CloudFormation does. Of an instance it removes its
marks alone.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.errors import CommandError
from cli.leftovers import Leftover, Leftovers
from cli.nearest import nearest
from cli.output import Output
from cli.progress import Progress
from cli.status import Stack
from cli.twins import EMPTY, is_ours, parameters_of
from governor.domain.units import plural, printable, usd
from governor.errors import GovernorError
from governor.usecases.accounts import swept

_KINDS: Mapping[str, Callable[[Leftovers], Leftover | None]] = {
    "tags": Leftovers.tags,
    "instances": Leftovers.instances,
    "volumes": Leftovers.volumes,
    "addresses": Leftovers.addresses,
    "snapshots": Leftovers.snapshots,
    "alarms": Leftovers.alarms,
    "schedules": Leftovers.schedules,
    "logs": Leftovers.logs,
    "table": Leftovers.table,
    "copies": Leftovers.copies,
    "policy": Leftovers.policy,
    "reports": Leftovers.reports,
    "audit": Leftovers.audit,
    "key": Leftovers.key,
}
"""In the order in which they are shown and removed: the key last, for others need it."""
_WITH_STACK = ("alarms", "schedules", "logs")
"""They go with the stack: while it is there, none is left."""
_NEVER = ("instances", "volumes", "addresses")
"""The state table alone knows them, as it does the snapshots."""
_BY_NAME = ("workflows", *(one for one in _KINDS if one not in (*_NEVER, "snapshots", "audit")))
_WITHOUT_STACK = ("workflows", "copies")
"""Removed also while the stack is there: it does not need them."""
_NEED_KEY = ("table", "copies", "policy")
_BY_FLAG = ("snapshots", "audit")
"""Things that cannot be made again go by a flag of their own."""
_NAMED = {
    "AWS::CloudWatch::Alarm": "alarm",
    "AWS::Scheduler::Schedule": "schedule",
    "AWS::Logs::LogGroup": "log group",
}
_CENT = Decimal("0.01")
_WIDTH = max(map(len, _BY_NAME))


def add(areas: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The command."""
    made = areas.add_parser("uninstall")
    made.add_argument("--remove", metavar="KINDS", help=f"some of: {','.join(_BY_NAME)}")
    made.add_argument(
        "--remove-snapshots", action="store_true", help="delete recorded snapshots, for good"
    )
    made.add_argument(
        "--recorded",
        type=Path,
        metavar="FILE",
        help="in another account: what `governor uninstall --json` said in the hub's, "
        "whose table knows them",
    )
    made.add_argument(
        "--remove-audit", action="store_true", help="delete the audit and kept user data, for good"
    )
    made.add_argument(
        "--confirm", metavar="STACK", help="the stack's name; else you are asked to type it"
    )
    made.add_argument(
        "--selector",
        metavar="VALUE",
        help="of the tag Purpose; needed where it was not the default",
    )
    made.set_defaults(run=run, regions=True)


def run(arguments: argparse.Namespace) -> int:
    """Show what is left, or remove some of it; 1 when not all could be read or removed."""
    session = aws.session(arguments.region or ())
    stack = Stack(arguments.stack_name, session)
    try:
        is_there = _is_there(stack)
        selector = arguments.selector or _selector(stack, is_there=is_there)
        regions, recorded = arguments.region or [session.region_name], _recorded(arguments.recorded)
        left = Leftovers(session, stack.name, regions, selector, recorded)
        wanted = _wanted(arguments)
        with Output(arguments) as out:
            found, unread = _found(stack, left, is_there=is_there)
            if not wanted:
                if "snapshots" not in unread:
                    out.say("", recorded_snapshots=sorted(left.recorded))
                _show(stack, found, unread, out, is_there=is_there)
                return int(bool(unread))
            _check(stack, wanted, found, unread, left, is_there=is_there)
            _confirm(stack.name, arguments.confirm, wanted)
            return _remove(found, wanted, out)
    except (BotoCoreError, ClientError) as error:
        raise CommandError(aws.reason(error)) from None


def _recorded(path: Path | None) -> list[str]:
    """Raises: CommandError where the file is none that the command has printed."""
    if path is None:
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["recorded_snapshots"]
        return [str(one) for one in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{path} is not what `governor uninstall --json` prints in the hub's account: {error}"
        ) from None


def _is_there(stack: Stack) -> bool:
    """Raises: CommandError for a stack of another product."""
    try:
        found = stack.described
    except ClientError as error:
        if "does not exist" in str(error):
            return False
        raise
    if found["StackStatus"] in EMPTY:
        return False
    if not is_ours(found):
        raise CommandError(
            f"the stack {stack.name!r} is no stack of GPU Governor: pass --stack-name"
        )
    return True


def _selector(stack: Stack, *, is_there: bool) -> str:
    return (
        parameters_of(stack.described).get("SelectorTagValue", "") if is_there else "GPU-Workload"
    )


def _wanted(arguments: argparse.Namespace) -> list[str]:
    named = [one.strip() for one in (arguments.remove or "").split(",") if one.strip()]
    for one in named:
        if one in _BY_FLAG:
            raise CommandError(f"{one} cannot be made again: pass --remove-{one}")
        if one not in _BY_NAME:
            known = f"{', '.join(_BY_NAME)}{nearest(one, _BY_NAME)}"
            raise CommandError(f"{printable(one)!r} is none of {known}")
    named += [one for one in _BY_FLAG if getattr(arguments, f"remove_{one}")]
    return [one for one in ("workflows", *_KINDS) if one in named]


def _found(
    stack: Stack, left: Leftovers, *, is_there: bool
) -> tuple[dict[str, Leftover], dict[str, str]]:
    """By kind: what is there, and why some could not be read."""
    found: dict[str, Leftover] = {}
    unread: dict[str, str] = {}
    kinds: dict[str, Callable[[], Leftover | None]] = {
        name: partial(read, left)
        for name, read in _KINDS.items()
        if not (is_there and name in _WITH_STACK)
    }
    if is_there:
        kinds = {"workflows": partial(_workflows, stack), **kinds}
    with Progress("looking for what the stack leaves") as progress:
        for name, read in kinds.items():
            progress.show(f"looking for {name}")
            try:
                one = read()
            except (BotoCoreError, ClientError, GovernorError) as error:
                unread[name] = printable(aws.reason(error))
                continue
            if one is not None:
                found[name] = one
    return found, unread


def _workflows(stack: Stack) -> Leftover | None:
    """Workflows that wait for an answer, or are about to act."""
    states = stack.session.client("stepfunctions")
    machine = stack.outputs.get("RemediationStateMachineArn")
    if machine is None:
        return None  # a stack that was never created whole has started none
    pages = states.get_paginator("list_executions").paginate(
        stateMachineArn=machine, statusFilter="RUNNING"
    )
    arns = [one["executionArn"] for page in pages for one in page["executions"]]

    def remove() -> Iterator[str]:
        for arn in arns:
            states.stop_execution(executionArn=arn, error="Uninstall", cause="governor uninstall")
            yield f"ended the workflow {arn.rpartition(':')[2]}"

    text = (
        f"{plural(len(arns), 'workflow')} waiting for an answer or a step (`governor "
        "approvals list`)"
    )
    return Leftover(text, arns, remove=remove) if arns else None


# what is shown


def _show(
    stack: Stack,
    found: Mapping[str, Leftover],
    unread: Mapping[str, str],
    out: Output,
    *,
    is_there: bool,
) -> None:
    if is_there:
        out.say(
            f"The stack {stack.name} is in {stack.hub}: {stack.described['StackStatus']}.",
            stack=stack.name,
        )
        if not _line(out, "workflows", found, unread):
            out.say("  no workflow runs")
        out.say(f"  {_elsewhere(stack)}")
        out.say(
            f"Deleting it removes {_counted([kind for kind, _, _ in stack.resources])}, and leaves:"
        )
    else:
        out.say(
            f"There is no stack {stack.name} in {stack.session.region_name}. Left of it:",
            stack=None,
        )
    shown = [_line(out, name, found, unread) for name in _KINDS]
    if not any(shown):
        out.say(
            "  nothing. If you expected some: --stack-name, --region and --profile say "
            "where it was",
            usd_a_month="0",
        )
        return
    total = sum((one.usd_a_month for one in found.values()), Decimal())
    at_most = max(total, _CENT) if total else total
    out.say(
        f"Together at most {usd(at_most)} a month, by AWS's list prices in us-east-1. "
        "What to remove, and in which order: docs/lifecycle.md",
        usd_a_month=str(round(total, 4)),
    )


def _counted(kinds: list[str]) -> str:
    of_them = ", ".join(plural(kinds.count(kind), name) for kind, name in _NAMED.items())
    return f"{plural(len(kinds), 'resource')} ({of_them} among them)"


def _line(out: Output, name: str, found: Mapping[str, Leftover], unread: Mapping[str, str]) -> bool:
    if name in unread:
        out.list(
            f"  {name:<{_WIDTH}}  not readable: {unread[name]}",
            "unread",
            {"kind": name, "why": unread[name]},
        )
    elif name in found:
        one = found[name]
        cost = f": {_cost(one.usd_a_month)} a month" if one.usd_a_month else ""
        fact = {
            "kind": name,
            "names": list(one.names),
            "usd_a_month": str(round(one.usd_a_month, 4)),
        }
        out.list(f"  {name:<{_WIDTH}}  {one.text}{cost}", "left", fact)
    return name in unread or name in found


def _cost(amount: Decimal) -> str:
    return usd(amount) if amount >= _CENT else "less than $0.01"


def _elsewhere(stack: Stack) -> str:
    """Return where instances are, which only the stack knows."""
    try:
        targets = [str(one) for one in swept(stack.policy[0].base().policy, stack.hub)]
    except (CommandError, GovernorError, BotoCoreError, ClientError) as error:
        return (
            "its policy could not be read, so note its targets yourself: "
            f"{printable(aws.reason(error))}"
        )
    where = ", ".join(targets)
    return f"its policy targets {where}: give each Region as --region, each account by --profile"


# removal


def _check(
    stack: Stack,
    wanted: list[str],
    found: Mapping[str, Leftover],
    unread: Mapping[str, str],
    left: Leftovers,
    *,
    is_there: bool,
) -> None:
    """Raises: CommandError for what must not be removed now."""
    later = [one for one in wanted if one not in _WITHOUT_STACK]
    if is_there and later:
        raise CommandError(
            f"the stack {stack.name} is there, and needs or would make again: {', '.join(later)}. "
            f"Delete it first (aws cloudformation delete-stack --stack-name {stack.name})"
        )
    if not is_there and "workflows" in wanted:
        raise CommandError("workflows have ended with the stack")
    for one in wanted:
        if one in unread:
            raise CommandError(f"{one} cannot be read, so nothing was removed: {unread[one]}")
    if "key" in wanted:
        _check_key(wanted, found, unread, left)


def _check_key(
    wanted: list[str], found: Mapping[str, Leftover], unread: Mapping[str, str], left: Leftovers
) -> None:
    """Raises: CommandError where something is kept that the key encrypts, or may be."""
    for one in (*_NEED_KEY, "audit"):
        if one in unread:
            raise CommandError(f"{one} cannot be read, and may need the key: {unread[one]}")
    needing = [one for one in _NEED_KEY if one in found and one not in wanted]
    if "audit" in found and "audit" not in wanted and left.has_user_data():
        needing.append("audit")
    if needing:
        raise CommandError(
            f"without the key nobody can read {', '.join(needing)}: remove that, too, or "
            "keep the key"
        )


def _confirm(name: str, given: str | None, wanted: list[str]) -> None:
    if given is None and sys.stdin.isatty():
        print(f"Removes {', '.join(wanted)} of {name}.", file=sys.stderr)
        given = input("Type the name of the stack: ").strip()
    if given != name:
        raise CommandError(f"nothing was removed: confirm with --confirm {name}")


def _remove(found: Mapping[str, Leftover], wanted: list[str], out: Output) -> int:
    """1 when something was kept that should have gone."""
    is_kept = False
    for name in (*_NEVER, "snapshots"):
        if "table" in wanted and name in found and name not in wanted:
            out.say(f"only the table knew: {found[name].text}")
    for name in wanted:
        one = found.get(name)
        if name == "key" and is_kept:
            out.say("kept the key: what was kept may need it")
            continue
        if one is None or one.remove is None:
            out.say(f"no {name} to remove")
            continue
        for text in one.remove():
            is_kept |= text.startswith("kept")
            out.list(text, "done", {"kind": name, "what": text})
    return int(is_kept)
