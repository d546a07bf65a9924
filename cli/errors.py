"""The error that a command prints as a message without a traceback."""

from __future__ import annotations


class CommandError(Exception):
    """The problem and the remedy; printed without a traceback."""
