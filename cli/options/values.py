"""Reads the values of options: amounts, days, shares and times."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation

LONGEST_DAYS = 63
"""Days for which CloudWatch keeps 5-minute data. Equal to that of `simulation.fetch`, which takes
long to load."""
MODES = ("observe", "ask", "auto")
"""Equal to the modes of the policy, which take long to load."""


def read_usd(text: str) -> Decimal:
    """Read an amount of 0 or more.

    Raises:
        argparse.ArgumentTypeError: not an amount.
    """
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if not amount.is_finite() or amount < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in USD, such as 500")
    return amount


def read_days(text: str) -> int:
    """Read a number of days, 1 to 63.

    Raises:
        argparse.ArgumentTypeError: not such a number.
    """
    if not text.isdecimal() or not 1 <= int(text) <= LONGEST_DAYS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of days between 1 and {LONGEST_DAYS}: "
            "CloudWatch keeps 5-minute data no longer"
        )
    return int(text)


def read_share(text: str) -> float:
    """Read a share of questions, given in percent.

    Raises:
        argparse.ArgumentTypeError: not between 0 and 100.
    """
    try:
        percent = float(text)
    except ValueError:
        percent = 0
    if not 0 < percent < 100:
        raise argparse.ArgumentTypeError(f"{text!r} is not a percentage between 0 and 100")
    return percent / 100


def read_minutes(text: str) -> timedelta:
    """Read minutes, 0 to 43,200.

    Raises:
        argparse.ArgumentTypeError: not such a number.
    """
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1
    if not 0 <= minutes <= 43_200:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes between 0 and 43200")
    return timedelta(minutes=minutes)


def read_end(text: str) -> str:
    """Read `4h`, `7d` or a time. Return it in UTC.

    Raises:
        argparse.ArgumentTypeError: none of these.
    """
    try:
        if text[-1:] == "h":
            moment = datetime.now(tz=UTC) + timedelta(hours=float(text[:-1]))
        elif text[-1:] == "d":
            moment = datetime.now(tz=UTC) + timedelta(days=float(text[:-1]))
        else:
            moment = datetime.fromisoformat(text)
            if not moment.tzinfo:
                moment = moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is neither like 4h or 7d nor a time") from None
