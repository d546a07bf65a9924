"""The accounts and Regions of a scan.

An account that cannot be reached stops no other: it is reported as unread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cli.errors import CommandError
from governor.aws.clients import at_once
from governor.aws.managing import OrganizationUnits
from governor.aws.read_only import AwsReadApi, ReadOnlyClients
from governor.core.errors import AccessDenied, CloudError
from governor.core.instance import Target
from governor.core.regions import partition_of
from governor.core.units import printable
from governor.scan.model import Unread

_REGIONS = "ec2:DescribeRegions"
_IDENTITY = "sts:GetCallerIdentity"


def accounts_of(
    clients: ReadOnlyClients, role_name: str | None, units: Sequence[str]
) -> list[Target]:
    """Return a target for each account, in the caller's Region: the caller's own account, or all of
    the units, with the role to assume in those that are not the caller's.

    Raises: CommandError if the caller or the units cannot be read: there is nothing to scan then.
    """
    try:
        identity = clients.client("sts").get_caller_identity()
        region = clients.client("ec2").meta.region_name
        own = Target(identity["Account"], region)
        if role_name is None:
            return [own]
        ids = OrganizationUnits(clients).accounts(units, ())
    except CloudError as error:
        raise CommandError(f"the accounts of the units cannot be read: {error}") from None
    return [_in_account(own, account_id, role_name) for account_id in ids]


def _in_account(own: Target, account_id: str, role_name: str) -> Target:
    """Return an account as a target; the caller's own needs no role."""
    if account_id == own.account:
        return own
    role_arn = f"arn:{partition_of(own.region)}:iam::{account_id}:role/{role_name}"
    return Target(account_id, own.region, role_arn)


def targets_of(
    clients: ReadOnlyClients, accounts: Sequence[Target], regions: Sequence[str]
) -> tuple[list[Target], list[Unread]]:
    """Return all targets: each account in the Regions named, or else in all that it has enabled.

    The second list has a line for each account whose Regions cannot be read.
    """
    targets: list[Target] = []
    unread: list[Unread] = []
    api = AwsReadApi(clients)

    def enabled(account: Target) -> list[str] | Unread:
        if regions:
            return list(dict.fromkeys(regions))
        try:
            answer = api.call(account, _REGIONS)
        except CloudError as error:
            return _unreached(account, error)
        return sorted(region["RegionName"] for region in answer["Regions"])

    for account, found in zip(accounts, at_once(enabled, accounts), strict=True):
        if isinstance(found, Unread):
            unread.append(found)
        else:
            targets += [replace(account, region=region) for region in found]
    return targets, unread


def _unreached(account: Target, error: CloudError) -> Unread:
    """Return the line about an account that cannot be looked at."""
    return Unread(
        place=account.account,
        topic="the whole account",
        operation=error.operation,
        reason=printable(error.words or str(error)),
        is_missing_right=isinstance(error, AccessDenied),
    )
