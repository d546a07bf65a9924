"""Lines about what a scan could not read."""

from __future__ import annotations

from governor.core.errors import AccessDenied, CloudError
from governor.core.units import printable
from governor.scan.model import Unread

_CREDENTIALS = (
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "OptInRequired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
"""Codes of refusals that no right would fix: the credentials ended, or the Region does not know
them."""
_ENCODED = "Encoded authorization failure message"
"""The text before a thousand characters that only AWS can read."""
INTERRUPTED = "the scan was interrupted"


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


def interrupted(place: str) -> Unread:
    """Return the line about an account and Region that was not looked at any more."""
    return Unread(place, "everything", "", INTERRUPTED)
