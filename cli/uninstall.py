"""`governor uninstall`: what a stack leaves behind, what that costs, and its removal.

It reads only, unless it is asked to remove something. It never deletes a stack: CloudFormation
does. From an instance it removes nothing but the governor's own tags.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.errors import CommandError
from cli.leftovers import Leftover, Leftovers
from cli.nearest import nearest
from cli.notes import print_note
from cli.options.uninstall import REMOVABLE
from cli.other_stacks import EMPTY, is_ours, parameters_of
from cli.output import Output
from cli.progress import Progress
from cli.status import Stack
from governor.core.errors import GovernorError
from governor.core.units import plural, printable, usd
from governor.policy.accounts import swept_targets

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
"""In the order in which they are shown and removed: the key last, as others need it."""
_WITH_STACK = ("alarms", "schedules", "logs")
"""They go with the stack: while it is there, none is left."""
_NEVER = ("instances", "volumes", "addresses")
"""Never removed. The state table alone knows them, as it does the snapshots."""
_BY_FLAG = ("snapshots", "audit")
"""Things that cannot be made again. Each is removed by a flag of its own."""
_WITHOUT_STACK = ("workflows", "copies")
"""Removed also while the stack is there: it does not need them."""
_NEED_KEY = ("table", "copies", "policy")
"""Things that nobody can read without the key."""
_NAMED = {
    "AWS::CloudWatch::Alarm": "alarm",
    "AWS::Scheduler::Schedule": "schedule",
    "AWS::Logs::LogGroup": "log group",
}
_CENT = Decimal("0.01")
_WIDTH = max(len(kind) for kind in REMOVABLE)


@dataclass(frozen=True, slots=True)
class _Inventory:
    """Everything that was looked for: remains by kind, and why some kinds could not be read."""

    leftovers: Mapping[str, Leftover]
    unread: Mapping[str, str]


def run(arguments: argparse.Namespace) -> int:
    """Show what is left, or remove some of it; return 1 when not all could be read or removed.

    Raises:
        CommandError: an option or the confirmation is wrong, or AWS could not be asked.
    """
    session = aws.session(arguments.region or ())
    stack = Stack(arguments.stack_name, session)
    try:
        is_there = _is_there(stack)
        selector = arguments.selector or _selector(stack, is_there=is_there)
        regions = arguments.region or [session.region_name]
        recorded = _recorded(arguments.recorded)
        left = Leftovers(session, stack.name, regions, selector, recorded)
        wanted = _wanted(arguments)
        with Output(arguments) as out:
            inventory = _look_for_leftovers(stack, left, is_there=is_there)
            if not wanted:
                if "snapshots" not in inventory.unread:
                    out.say("", recorded_snapshots=sorted(left.recorded))
                _show(stack, inventory, out, is_there=is_there)
                return int(bool(inventory.unread))
            _check(stack, wanted, inventory, left, is_there=is_there)
            _confirm(stack.name, arguments.confirm, wanted)
            return _remove(inventory.leftovers, wanted, out)
    except (BotoCoreError, ClientError) as error:
        raise CommandError(aws.reason(error)) from None


def _recorded(path: Path | None) -> list[str]:
    """Return the ids of the snapshots that the hub's command has printed; none without a file.

    Raises:
        CommandError: the file is none that the command has printed.
    """
    if path is None:
        return []
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [str(snapshot_id) for snapshot_id in document["recorded_snapshots"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{path} is not what `governor uninstall --json` prints in the hub's account: {error}"
        ) from None


def _is_there(stack: Stack) -> bool:
    """Return whether the stack exists and has resources.

    Raises:
        CommandError: it is a stack of another product.
    """
    try:
        description = stack.described
    except ClientError as error:
        if "does not exist" in str(error):
            return False
        raise
    if description["StackStatus"] in EMPTY:
        return False
    if not is_ours(description):
        raise CommandError(
            f"the stack {stack.name!r} is no stack of GPU Governor: pass --stack-name"
        )
    return True


def _selector(stack: Stack, *, is_there: bool) -> str:
    """Return the stack's value of the tag Purpose; the default where there is no stack."""
    if not is_there:
        return "GPU-Workload"
    return parameters_of(stack.described).get("SelectorTagValue", "")


def _wanted(arguments: argparse.Namespace) -> list[str]:
    """Return the kinds to remove, in the order of their removal; an empty list to show all.

    Raises:
        CommandError: a kind is unknown, or has a flag of its own.
    """
    parts = (arguments.remove or "").split(",")
    named = []
    for part in parts:
        if part.strip():
            named.append(part.strip())
    for kind in named:
        if kind in _BY_FLAG:
            raise CommandError(f"{kind} cannot be made again: pass --remove-{kind}")
        if kind not in REMOVABLE:
            known = f"{', '.join(REMOVABLE)}{nearest(kind, REMOVABLE)}"
            raise CommandError(f"{printable(kind)!r} is none of {known}")
    named += [kind for kind in _BY_FLAG if getattr(arguments, f"remove_{kind}")]
    return [kind for kind in ("workflows", *_KINDS) if kind in named]


def _look_for_leftovers(stack: Stack, left: Leftovers, *, is_there: bool) -> _Inventory:
    """Look for every kind that can be there. A kind that cannot be read stops no other one."""
    readers: dict[str, Callable[[], Leftover | None]] = {}
    if is_there:
        readers["workflows"] = partial(_workflows, stack)
    for kind, read in _KINDS.items():
        is_part_of_stack = is_there and kind in _WITH_STACK
        if not is_part_of_stack:
            readers[kind] = partial(read, left)
    leftovers: dict[str, Leftover] = {}
    unread: dict[str, str] = {}
    with Progress("looking for what the stack leaves") as progress:
        for kind, read_kind in readers.items():
            progress.show(f"looking for {kind}")
            try:
                leftover = read_kind()
            except (BotoCoreError, ClientError, GovernorError) as error:
                unread[kind] = printable(aws.reason(error))
                continue
            if leftover is not None:
                leftovers[kind] = leftover
    return _Inventory(leftovers, unread)


def _workflows(stack: Stack) -> Leftover | None:
    """Return the workflows that wait for an answer or are about to act; `None` if none runs."""
    states = stack.session.client("stepfunctions")
    machine = stack.outputs.get("RemediationStateMachineArn")
    if machine is None:
        return None  # a stack that was never created whole has started none
    pages = states.get_paginator("list_executions").paginate(
        stateMachineArn=machine, statusFilter="RUNNING"
    )
    arns: list[str] = []
    for page in pages:
        arns += [execution["executionArn"] for execution in page["executions"]]
    if not arns:
        return None

    def remove() -> Iterator[str]:
        for arn in arns:
            states.stop_execution(executionArn=arn, error="Uninstall", cause="governor uninstall")
            yield f"ended the workflow {arn.rpartition(':')[2]}"

    count = plural(len(arns), "workflow")
    text = f"{count} waiting for an answer or a step (`governor approvals list`)"
    return Leftover(text, arns, remove=remove)


# what is shown


def _show(stack: Stack, inventory: _Inventory, out: Output, *, is_there: bool) -> None:
    if is_there:
        _show_stack(stack, inventory, out)
    else:
        out.say(
            f"There is no stack {stack.name} in {stack.session.region_name}. It left behind:",
            stack=None,
        )
    has_lines = False
    for kind in _KINDS:
        if _show_kind(kind, inventory, out):
            has_lines = True
    if not has_lines:
        out.say(
            "  nothing. If you expected something, check --stack-name, --region and --profile.",
            usd_a_month="0",
        )
        return
    costs = [leftover.usd_a_month for leftover in inventory.leftovers.values()]
    total = sum(costs, Decimal())
    at_most = max(total, _CENT) if total else total
    out.say(
        f"Together at most {usd(at_most)} a month at AWS's list prices in us-east-1. "
        "docs/lifecycle.md says what to remove, and in which order.",
        usd_a_month=str(round(total, 4)),
    )


def _show_stack(stack: Stack, inventory: _Inventory, out: Output) -> None:
    """Show the stack that is still there, and what goes with it."""
    out.say(
        f"The stack {stack.name} is in {stack.hub}: {stack.described['StackStatus']}.",
        stack=stack.name,
    )
    if not _show_kind("workflows", inventory, out):
        out.say("  no workflow is running")
    out.say(f"  {_elsewhere(stack)}")
    types = [resource_type for resource_type, _, _ in stack.resources]
    out.say(f"Deleting it removes {_count_text(types)}, and leaves:")


def _count_text(types: Sequence[str]) -> str:
    """Return how many resources these are, and how many of them are of a well-known type."""
    counts = [plural(types.count(known), name) for known, name in _NAMED.items()]
    return f"{plural(len(types), 'resource')} ({', '.join(counts)} among them)"


def _show_kind(kind: str, inventory: _Inventory, out: Output) -> bool:
    """Show one kind. Return whether there was something to show."""
    label = f"  {kind:<{_WIDTH}}"
    why = inventory.unread.get(kind)
    if why is not None:
        out.list(f"{label}  could not be read: {why}", "unread", {"kind": kind, "why": why})
        return True
    leftover = inventory.leftovers.get(kind)
    if leftover is None:
        return False
    monthly = leftover.usd_a_month
    cost = f": {_cost(monthly)} a month" if monthly else ""
    document = {
        "kind": kind,
        "names": list(leftover.names),
        "usd_a_month": str(round(monthly, 4)),
    }
    out.list(f"{label}  {leftover.text}{cost}", "left", document)
    return True


def _cost(amount: Decimal) -> str:
    return usd(amount) if amount >= _CENT else "less than $0.01"


def _elsewhere(stack: Stack) -> str:
    """Return where instances are, which only the stack knows."""
    try:
        targets = swept_targets(stack.policy[0].base().policy, stack.hub)
        names = ", ".join(str(target) for target in targets)
    except (CommandError, GovernorError, BotoCoreError, ClientError) as error:
        return (
            "Its policy could not be read, so write down its targets yourself: "
            f"{printable(aws.reason(error))}"
        )
    return (
        f"Its policy targets {names}. Pass each Region with --region, and repeat this for each "
        "account with its --profile."
    )


# removal


def _check(
    stack: Stack, wanted: list[str], inventory: _Inventory, left: Leftovers, *, is_there: bool
) -> None:
    """Check that all this may be removed now.

    Raises:
        CommandError: the stack needs it, it cannot be read, or something kept needs the key.
    """
    needed_by_stack = [kind for kind in wanted if kind not in _WITHOUT_STACK]
    if is_there and needed_by_stack:
        raise CommandError(
            f"the stack {stack.name} still exists, and needs or would recreate "
            f"{', '.join(needed_by_stack)}. "
            f"Delete it first: `aws cloudformation delete-stack --stack-name {stack.name}`"
        )
    if not is_there and "workflows" in wanted:
        raise CommandError("there are no workflows: they ended with the stack")
    for kind in wanted:
        why = inventory.unread.get(kind)
        if why is not None:
            raise CommandError(f"{kind} cannot be read, so nothing was removed: {why}")
    if "key" in wanted:
        _check_key(wanted, inventory, left)


def _check_key(wanted: list[str], inventory: _Inventory, left: Leftovers) -> None:
    """Check that nothing is kept that needs the key.

    Raises:
        CommandError: the key encrypts something that is kept, or may encrypt it.
    """
    for kind in (*_NEED_KEY, "audit"):
        why = inventory.unread.get(kind)
        if why is not None:
            raise CommandError(f"{kind} cannot be read, and may need the key: {why}")
    kept = [kind for kind in inventory.leftovers if kind not in wanted]
    needing = [kind for kind in _NEED_KEY if kind in kept]
    if "audit" in kept and left.has_user_data():
        needing.append("audit")
    if needing:
        raise CommandError(
            f"without the key, nobody can read {', '.join(needing)}: remove that, too, or "
            "keep the key"
        )


def _confirm(name: str, typed: str | None, wanted: list[str]) -> None:
    """Let a person type the stack's name, where the command line does not have it.

    Raises:
        CommandError: it is another name, or nobody can be asked.
    """
    if typed is None and sys.stdin.isatty():
        print_note(f"This removes {', '.join(wanted)} of the stack {name}.")
        typed = input("Type the name of the stack: ").strip()
    if typed != name:
        raise CommandError(f"nothing was removed: confirm with --confirm {name}")


def _remove(leftovers: Mapping[str, Leftover], wanted: list[str], out: Output) -> int:
    """Remove these kinds. Return 1 when something was kept that should have gone, else 0."""
    if "table" in wanted:
        _say_what_the_table_knew(leftovers, wanted, out)
    is_something_kept = False
    for kind in wanted:
        if kind == "key" and is_something_kept:
            out.say("kept the key: something else that was kept may need it")
            continue
        leftover = leftovers.get(kind)
        if leftover is None or leftover.remove is None:
            out.say(f"no {kind} to remove")
            continue
        for text in leftover.remove():
            if text.startswith("kept"):
                is_something_kept = True
            out.list(text, "done", {"kind": kind, "what": text})
    return int(is_something_kept)


def _say_what_the_table_knew(
    leftovers: Mapping[str, Leftover], wanted: list[str], out: Output
) -> None:
    """Name what stays, for nothing else will know it once the state table is gone."""
    for kind in (*_NEVER, "snapshots"):
        if kind in leftovers and kind not in wanted:
            out.say(f"note this, as only the table knew it: {leftovers[kind].text}")
