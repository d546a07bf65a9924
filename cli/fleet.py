"""Which policy and which Regions a command over the fleet is about. Reads with the caller's
credentials."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from cli import aws
from cli.errors import CommandError
from cli.policy import deployed, read
from cli.progress import Progress
from governor.contracts.policy import PolicyBook, parse_policy
from governor.domain.instance import Target
from governor.errors import GovernorError, PolicyError

Found = TypeVar("Found")


def over_the_fleet(
    arguments: argparse.Namespace, look: Callable[[Target, PolicyBook], Sequence[Found]]
) -> list[Found]:
    """Return what `look` finds in the caller's account, in the Regions of the command line, else of
    the policy.

    Raises:
        CommandError: no policy that can be used, no Region, or something could not be read.
    """
    session = aws.session(arguments.region or ())
    try:
        book = parse_policy(
            read(Path(arguments.file))
            if arguments.file
            else deployed(arguments.stack_name, session)
        )
    except PolicyError as error:
        raise CommandError(
            f"the policy cannot be used: {error}; run `governor policy check`"
        ) from None
    regions = arguments.region or list(book.base().policy.targets.regions) or [session.region_name]
    try:
        account, found = session.client("sts").get_caller_identity()["Account"], list[Found]()
        with Progress("reading") as progress:
            for number, region in enumerate(regions, 1):
                progress.show(f"reading {region} ({number} of {len(regions)})")
                found += look(Target(account, region), book)
        return found
    except (ClientError, BotoCoreError, GovernorError) as error:
        raise CommandError(f"the instances could not be examined: {aws.reason(error)}") from None


def print_unseen(unseen: int, instances: int) -> None:
    """Says of how many instances the hardware's faults are not published, if of any."""
    if unseen:
        print(
            f"{unseen} of {instances} publish no Xid, ECC, throttling or lost GPUs, so "
            "`governor health` "
            "does not have them:\n        -> only agent/ publishes those, the CloudWatch "
            "agent does not"
        )
