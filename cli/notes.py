"""Print what a person should know beside the output of a command, on standard error.

It loads what lays out text only where somebody looks at a terminal: a mistake costs little.
"""

from __future__ import annotations

import sys


def print_note(text: str) -> None:
    """Print sentences, as `noted` returns them."""
    print(noted(text), file=sys.stderr)


def noted(text: str) -> str:
    """Return sentences as standard error shows them: in lines of the width of a terminal. In a pipe
    each stays one line."""
    if not sys.stderr.isatty():
        return text
    from cli.tables import in_lines

    return in_lines(text)
