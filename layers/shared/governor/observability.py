"""Logs, metrics and traces of the functions, in one place, over Powertools.

Logs are JSON with the episode's name, and never hold task tokens, links, secrets or addresses.
Traces come from active tracing of the functions, which costs no import.
"""

from __future__ import annotations

import gc
import logging
import re
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.logging.formatter import LambdaPowertoolsFormatter
from aws_lambda_powertools.metrics import MetricUnit as MetricUnit
from aws_lambda_powertools.metrics import single_metric

_ADDRESS = re.compile(r"[\w.+-]+(?=@[\w-]+\.\w)")


def without_addresses(text: str) -> str:
    """Return the text with the domains of addresses alone."""
    return _ADDRESS.sub("***", text)


class _WithoutAddresses(LambdaPowertoolsFormatter):
    def serialize(self, log: Any) -> str:
        return without_addresses(super().serialize(log))


def hide_addresses(record: logging.LogRecord) -> bool:
    """Do the same, as a filter, to what libraries and the core log in their own words."""
    record.msg, record.args = without_addresses(record.getMessage()), None
    if record.exc_info and not record.exc_text:
        record.exc_text = without_addresses(logging.Formatter().formatException(record.exc_info))
    return True


for _handler in logging.getLogger().handlers:
    _handler.addFilter(hide_addresses)

logger = Logger(logger_formatter=_WithoutAddresses())
metrics = Metrics()
_tallied: list[tuple[str, int]] = []
"""Counts of this invocation's threads: an append is one step, a metric of Powertools is not."""

Wired = TypeVar("Wired")
Handler = Callable[[dict[str, Any], Any, Wired], dict[str, Any]]


def observed(wired: Wired) -> Callable[[Handler[Wired]], Callable[..., dict[str, Any]]]:
    """Make a handler's entry point: it gets `wired`, which was made at cold start, as its third
    argument, as a test's own. Every log line has the request id, and an exception is logged before
    it is raised on."""
    # What was made until now stays: invocations need not look through it for garbage.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

    def decorate(handler: Handler[Wired]) -> Callable[..., dict[str, Any]]:
        @wraps(handler)
        @metrics.log_metrics(raise_on_empty_metrics=False)
        @logger.inject_lambda_context(clear_state=True)
        def entry(event: dict[str, Any], context: Any, wired: Wired = wired) -> dict[str, Any]:
            try:
                return handler(event, context, wired)
            except Exception as error:
                logger.exception("failed", extra={"error_type": type(error).__name__})
                raise
            finally:
                sums: Counter[str] = Counter()
                while _tallied:
                    name, number = _tallied.pop()
                    sums[name] += number
                for name, total in sums.items():
                    count(name, total)

        return entry

    return decorate


def tally(name: str, number: int) -> None:
    """Add to a metric of which each invocation publishes the sum."""
    _tallied.append((name, number))


def count(
    name: str, value: float = 1, unit: MetricUnit = MetricUnit.Count, **dimensions: str
) -> None:
    """Adds one metric value, in the namespace of the stack; with dimensions as a metric of its
    own."""
    if not dimensions:
        metrics.add_metric(name=name, unit=unit, value=value)
        return
    with single_metric(name=name, unit=unit, value=value) as single:
        for key, text in dimensions.items():
            single.add_dimension(name=key, value=_dimension(text))


def _dimension(text: str) -> str:
    """Return a text as CloudWatch takes it, or it would drop the metric: printable ASCII, at most
    1,024 characters, not empty, no colon first. Source: CloudWatch API, Dimension."""
    ascii_text = text.strip().encode("ascii", "backslashreplace").decode("ascii")[:1024]
    printable = "".join(letter if letter.isprintable() else "?" for letter in ascii_text)
    return f"_{printable}" if not printable or printable.startswith(":") else printable
