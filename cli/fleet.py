"""The policy and the Regions of a command over the fleet.

It reads with the caller's credentials, in the caller's account only.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.errors import CommandError
from cli.policy import deployed, read
from cli.progress import Progress
from cli.tables import print_text
from governor.core.errors import GovernorError, PolicyError
from governor.core.instance import Instance, Target
from governor.core.units import printable
from governor.policy.document import PolicyBook, parse_policy

Found = TypeVar("Found")


def over_the_fleet(
    arguments: argparse.Namespace, look: Callable[[Target, PolicyBook], Sequence[Found]]
) -> list[Found]:
    """Return what `look` finds in the caller's account.

    It looks in the Regions of the command line, else of the policy, else of the session.

    Raises:
        CommandError: no policy that can be used, no Region, or something could not be read.
    """
    session = aws.session(arguments.region or ())
    book = _policy(arguments, session)
    regions = arguments.region or list(book.base().policy.targets.regions) or [session.region_name]
    of_all_regions: list[Found] = []
    try:
        account = session.client("sts").get_caller_identity()["Account"]
        with Progress("reading") as progress:
            for number, region in enumerate(regions, 1):
                progress.show(f"reading {region} ({number} of {len(regions)})")
                of_all_regions += look(Target(account, region), book)
    except (ClientError, BotoCoreError, GovernorError) as error:
        raise CommandError(f"the instances could not be examined: {aws.reason(error)}") from None
    return of_all_regions


def _policy(arguments: argparse.Namespace, session: boto3.Session) -> PolicyBook:
    """Return the policy of the file, if one is named, else the one of the stack.

    Raises:
        CommandError: it cannot be used.
    """
    try:
        if arguments.file:
            return parse_policy(read(Path(arguments.file)))
        return parse_policy(deployed(arguments.stack_name, session))
    except PolicyError as error:
        raise CommandError(
            f"the policy cannot be used: {error}; run `governor policy check`"
        ) from None


def named(instance: Instance, *facts: str) -> str:
    """Return the name of an instance, with its id and these facts in brackets.

    Without a name, return the id and the facts.
    """
    in_brackets = ", ".join([instance.instance_id, *facts])
    name = printable(instance.name)
    if not name or name == instance.instance_id:
        return in_brackets
    return f"{name} ({in_brackets})"


def print_unseen(unseen: int, instances: int) -> None:
    """Print for how many instances the hardware's faults are not published, if for any."""
    if unseen:
        print_text(
            f"{unseen} of {instances} publish no Xid, ECC, throttling or lost GPUs, so "
            "`governor health` does not have them:\n"
            "        -> only agent/ publishes those, the CloudWatch agent does not"
        )
