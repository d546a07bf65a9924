"""A short hash of a text, for IDs and keys.

It tells texts apart and proves nothing: a seal is made by KMS.
"""

from __future__ import annotations

import hashlib


def short_hash(*parts: str) -> str:
    """Return a short name for these texts together: twelve hexadecimal digits of their SHA-256. The
    texts themselves may be too long for an id."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
