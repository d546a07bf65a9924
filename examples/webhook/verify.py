"""For the receiver of a webhook of GPU Governor: check the signature before the body is parsed.

`GpuGovernor-Signature` is `t=<epoch seconds>,v1=<hex>`, with one `v1` for each secret while one is exchanged:
HMAC-SHA256 with the shared secret over the timestamp, a dot and the body as received. To be safe against
replays keep the IDs of `GpuGovernor-Delivery` of the last minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import re

TOLERANCE_SECONDS = 300
_HEADER = re.compile(r"t=([1-9][0-9]{0,11})((?:,v1=[0-9a-f]{64}){1,4})")


def verify(secret: str, header: str, body: bytes, now: float) -> bool:
    """Return whether the body, byte for byte, was signed with the secret in the last five minutes.

    `now` is in seconds since 1970.
    """
    found = _HEADER.fullmatch(header)
    if found is None or abs(now - int(found[1])) > TOLERANCE_SECONDS:
        return False
    wanted = hmac.new(secret.encode(), found[1].encode() + b"." + body, hashlib.sha256).hexdigest()
    # No early end: how many were compared shall tell nothing.
    matches = [
        hmac.compare_digest(wanted, one) for one in found[2].removeprefix(",v1=").split(",v1=")
    ]
    return any(matches)
