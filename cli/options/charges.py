"""The options of commands that read weeks of metrics, for which CloudWatch charges."""

from __future__ import annotations

import argparse
from decimal import Decimal
from pathlib import Path

from cli.options.values import read_usd


def add_charges(command: argparse.ArgumentParser) -> None:
    """Add where readings are kept, and the most that reading them may cost."""
    command.add_argument(
        "--cache",
        type=Path,
        metavar="FILE",
        help="the file that keeps readings (default: in ~/.cache)",
    )
    command.add_argument(
        "--limit-usd",
        type=read_usd,
        default=Decimal(1),
        metavar="USD",
        help="refuse if CloudWatch would charge more than this, without --yes (default: 1)",
    )
    command.add_argument(
        "--yes", action="store_true", help="agree to any charge without being asked"
    )
