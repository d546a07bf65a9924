"""Distinguishes refusals of EC2 from answers that prove nothing, such as throttling.

There is no list of refusals. An answer in EC2's error format is a refusal, except throttling and
the few faults of EC2's own servers.
"""

from __future__ import annotations

import re

from governor.core.errors import CloudError, Throttled

_SERVER_FAULTS = frozenset(
    {"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable"}
)
"""Codes by which EC2 says that it failed itself. Source: EC2 API, Error codes, server errors."""
_EC2_CODE = re.compile(r"[A-Za-z][A-Za-z0-9]+([._:-][A-Za-z0-9]+)*")
_NO_CODES = frozenset({"", "Unknown"})
"""Codes that botocore gives to an answer without one."""


def is_refused_by_ec2(error: CloudError) -> bool:
    """Return whether EC2 refused the call of this error. Return false if it was busy, or answered
    with a fault of its own or without a code of EC2. The error must be of a call to EC2."""
    if isinstance(error, Throttled):
        return False
    code = error.code
    if code in _SERVER_FAULTS or code in _NO_CODES:
        return False
    # The answer of a proxy or a load balancer has its HTTP status in place of a code.
    return _EC2_CODE.fullmatch(code) is not None
