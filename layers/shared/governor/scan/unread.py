"""Lines of a report about what a scan could not read, such as for a missing permission."""

from __future__ import annotations

from collections.abc import Mapping

from governor.core.errors import AccessDenied, CloudError
from governor.core.instance import Target
from governor.core.units import UtcDatetime, printable
from governor.scan.model import EVERYTHING, RefusedScan, Unread

_CREDENTIALS = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
"""Codes of refusals that no permission would fix: the credentials ended, or the Region does not
know them."""
_EXPIRED = ("ExpiredToken", "ExpiredTokenException")
"""Codes of credentials that worked before."""
_ENCODED = "Encoded authorization failure message"
"""The text before a thousand characters that only AWS can read."""
INTERRUPTED = "the scan was interrupted"
SHIPPED_PRICES = "AWS's list prices (instances have the shipped ones of us-east-1 instead)"
_SPOT_PRICES = "Spot prices"
_ASSUME_ROLE = "sts:AssumeRole"


def unread_of(place: str, topic: str, error: CloudError) -> Unread:
    """Return the line about a part of the report that AWS refused."""
    words = (error.words or str(error)).partition(_ENCODED)[0]
    is_refused = isinstance(error, AccessDenied)
    return Unread(
        place=place,
        topic=topic,
        operation=error.operation,
        reason=printable(words),
        is_missing_right=is_refused and error.code not in _CREDENTIALS,
    )


def has_expired(error: CloudError) -> bool:
    """Return whether the credentials ended, so that no further call can succeed."""
    return error.code in _EXPIRED


def interrupted(place: str) -> Unread:
    """Return the line about an account and Region that was not looked at any more."""
    return Unread(place, EVERYTHING, "", INTERRUPTED)


def unread_prices(
    account: str, problem: CloudError | None, spot_problems: Mapping[Target, CloudError]
) -> list[Unread]:
    """Return a line for AWS's list prices if they could not be read, and one for each place whose
    Spot prices could not; empty if all could."""
    lines: list[Unread] = []
    if problem is not None:
        lines.append(unread_of(account, SHIPPED_PRICES, problem))
    for target, error in spot_problems.items():
        lines.append(unread_of(str(target), _SPOT_PRICES, error))
    return lines


def is_unreachable(target: Target, error: AccessDenied) -> bool:
    """Return whether nothing of a place can be read: its role cannot be assumed, or its Region does
    not take the credentials, or they ended. Return false if only a permission is missing there."""
    line = unread_of(str(target), EVERYTHING, error)
    return not line.is_missing_right or line.operation == _ASSUME_ROLE


def refused_scan(target: Target, error: CloudError, at: UtcDatetime) -> RefusedScan:
    """Return the record of a scan that AWS refused as a whole."""
    return RefusedScan(
        account=target.account,
        region=target.region,
        at=at,
        cause=f"{error.operation} {error.code}".strip(),
        line=unread_of(str(target), EVERYTHING, error),
    )
