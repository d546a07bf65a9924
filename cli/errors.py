"""What a command says when it cannot do its work."""

from __future__ import annotations


class CommandError(Exception):
    """What went wrong, and what to do; printed without a traceback."""
