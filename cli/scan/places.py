"""The accounts and Regions of a scan.

An account, unit or Region that cannot be reached stops no other: it is reported as unread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cli import aws
from cli.errors import CommandError
from governor.aws.clients import at_once
from governor.aws.managing import OrganizationUnits
from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.instance import Target
from governor.core.regions import is_region, partition_of
from governor.policy.model.names import UNIT
from governor.scan.model import Unread
from governor.scan.unread import unread_of

_REGIONS = "ec2:DescribeRegions"
_NAME_REGIONS = "; or name the Regions with --region"


@dataclass(frozen=True, slots=True)
class Places:
    """The accounts and Regions to look at, and lines about those that cannot be reached."""

    targets: tuple[Target, ...]
    unread: tuple[Unread, ...]


def check_regions(regions: Sequence[str]) -> None:
    """Raises: CommandError for a name that no Region can have."""
    for region in regions:
        if not is_region(region):
            raise CommandError(f"{region!r} is no Region: write it as us-east-1")


def check_units(units: Sequence[str]) -> None:
    """Raises: CommandError for an ID that no organizational unit or root can have."""
    shape, hint = UNIT
    for unit in units:
        if re.fullmatch(shape, unit) is None:
            raise CommandError(f"--units: {unit!r}: {hint}")


def places_of(
    clients: ReadOnlyClients,
    region: str,
    role_name: str | None,
    units: Sequence[str],
    regions: Sequence[str],
) -> Places:
    """Return the Regions named, or else all that are enabled, of the caller's account or, with a
    role, of all accounts of the units. `region` is the caller's own.

    Raises: CommandError if the credentials cannot be used, or no account of the units is known:
    there is nothing to scan then.
    """
    own = _own_account(clients, region)
    if role_name is None:
        accounts = [own]
        unread_units: list[Unread] = []
    else:
        accounts, unread_units = _accounts_of_units(clients, own, role_name, units)
    targets: list[Target] = []
    unread = [*unread_units]
    for found in at_once(lambda account: _regions_of(clients, account, regions), accounts):
        targets += found.targets
        unread += found.unread
    return Places(tuple(targets), tuple(unread))


def _own_account(clients: ReadOnlyClients, region: str) -> Target:
    """Return the caller's account, in the caller's Region. Raises: CommandError if STS does not
    take the credentials."""
    try:
        account = AwsReadApi(clients).account_of_caller()
    except Throttled as error:
        raise CommandError(f"AWS is busy: try again in a minute ({error})") from None
    except CloudError as error:
        raise CommandError(aws.reason(error)) from None
    return Target(account, region)


def _accounts_of_units(
    clients: ReadOnlyClients, own: Target, role_name: str, units: Sequence[str]
) -> tuple[list[Target], list[Unread]]:
    """Return the active accounts of the units, each once, and a line for each unit that cannot be
    read. Raises: CommandError if there is no account."""
    account_ids: set[str] = set()
    unread: list[Unread] = []
    for unit in dict.fromkeys(units):
        try:
            account_ids.update(OrganizationUnits(clients).accounts([unit], ()))
        except CloudError as error:
            unread.append(unread_of(unit, "the accounts of this unit", error))
    if not account_ids and unread:
        refusals = "; ".join(f"{line.place}: {line.operation}: {line.reason}" for line in unread)
        raise CommandError(f"no account of the units can be listed: {refusals}")
    if not account_ids:
        names = ", ".join(units)
        raise CommandError(f"no active account is in {names}: check the IDs; nothing was scanned")
    accounts = [_in_account(own, account_id, role_name) for account_id in sorted(account_ids)]
    return accounts, unread


def _in_account(own: Target, account_id: str, role_name: str) -> Target:
    """Return an account as a target; the caller's own needs no role."""
    if account_id == own.account:
        return own
    role_arn = f"arn:{partition_of(own.region)}:iam::{account_id}:role/{role_name}"
    return Target(account_id, own.region, role_arn)


def _regions_of(clients: ReadOnlyClients, account: Target, named: Sequence[str]) -> Places:
    """Return the Regions of one account to look at. Regions that are named are looked at even where
    the account may not list its Regions; one that is not enabled is unread."""
    regions = tuple(dict.fromkeys(named))
    try:
        answer = AwsReadApi(clients).call(account, _REGIONS)
    except AccessDenied as error:
        if regions and error.operation == _REGIONS:
            return Places(_in_regions(account, regions), ())
        return Places((), (_unreached(account, error),))
    except CloudError as error:
        return Places((), (_unreached(account, error),))
    enabled = sorted(record["RegionName"] for record in answer["Regions"])
    if not regions:
        return Places(_in_regions(account, enabled), ())
    reachable = [region for region in regions if region in enabled]
    not_enabled = []
    for region in regions:
        if region not in enabled:
            not_enabled.append(
                Unread(f"{account.account}/{region}", "everything", "", "the Region is not enabled")
            )
    unread = tuple(not_enabled)
    return Places(_in_regions(account, reachable), unread)


def _in_regions(account: Target, regions: Sequence[str]) -> tuple[Target, ...]:
    """Return the account once in each of the Regions."""
    return tuple(replace(account, region=region) for region in regions)


def _unreached(account: Target, error: CloudError) -> Unread:
    """Return the line about an account that cannot be looked at."""
    line = unread_of(account.account, "the whole account", error)
    if line.is_missing_right and line.operation == _REGIONS:
        return replace(line, reason=f"{line.reason}{_NAME_REGIONS}")
    return line
