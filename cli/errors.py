"""Errors of commands, for people."""

from __future__ import annotations


class CommandError(Exception):
    """The problem and the remedy; printed without a traceback."""
