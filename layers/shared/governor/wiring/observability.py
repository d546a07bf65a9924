"""Logs, metrics and traces of the functions, in one place, over Powertools.

Logs are JSON with the episode's name, and must never hold task tokens, links, secrets or addresses.
Traces come from active tracing of the functions, which needs no import.
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
from aws_lambda_powertools.metrics import MetricUnit, single_metric

_ADDRESS = re.compile(r"[\w.+-]+(?=@[\w-]+\.\w)")


def without_addresses(text: str) -> str:
    """Return the text with `***` in place of the name in each email address: `***@example.com`."""
    return _ADDRESS.sub("***", text)


class _WithoutAddresses(LambdaPowertoolsFormatter):
    """Writes log lines as JSON, without addresses."""

    def serialize(self, log: Any) -> str:
        """Return the JSON of a log line, with only the domain of each email address."""
        return without_addresses(super().serialize(log))


def hide_addresses(record: logging.LogRecord) -> bool:
    """Change a log record so that its message and the trace of its exception show only the domain
    of each email address. A trace that is already text is the one that this filter wrote for
    another handler. Return true always: as a filter of logging, this drops no record. Raises:
    TypeError or ValueError if the arguments do not fit the message."""
    record.msg = without_addresses(record.getMessage())
    record.args = None
    if record.exc_info and not record.exc_text:
        record.exc_text = without_addresses(logging.Formatter().formatException(record.exc_info))
    return True


for _handler in logging.getLogger().handlers:
    _handler.addFilter(hide_addresses)

logger = Logger(logger_formatter=_WithoutAddresses())
metrics = Metrics()
_tallied: list[tuple[str, int]] = []
"""Counts of this invocation. Its threads may append to a list, but not add a Powertools metric."""

Wired = TypeVar("Wired")
Handler = Callable[[dict[str, Any], Any, Wired], dict[str, Any]]


def observed(wired: Wired) -> Callable[[Handler[Wired]], Callable[..., dict[str, Any]]]:
    """Return the decorator that makes a Lambda entry point of a handler. The handler's third
    argument is `wired`, which was made at cold start; a test may pass its own.

    Every log line has the request id, metrics are published at the end, and an exception is logged
    before it is raised again. The decorator also tunes garbage collection, once for the process.
    """
    # Everything made until now stays, so invocations need not collect garbage in it.
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)

    def decorate(handler: Handler[Wired]) -> Callable[..., dict[str, Any]]:
        """Return the entry point that calls this handler."""

        @wraps(handler)
        @metrics.log_metrics(raise_on_empty_metrics=False)
        @logger.inject_lambda_context(clear_state=True)
        def entry(event: dict[str, Any], context: Any, wired: Wired = wired) -> dict[str, Any]:
            """Call the handler; log its exception and raise it again."""
            try:
                return handler(event, context, wired)
            except Exception as error:
                logger.exception("failed", extra={"error_type": type(error).__name__})
                raise
            finally:
                _publish_tallies()

        return entry

    return decorate


def tally(name: str, number: int) -> None:
    """Add a number to the metric of this name, whose sum is published at the end of the invocation.
    Threads may call it."""
    _tallied.append((name, number))


def _publish_tallies() -> None:
    """Add the sums of what was tallied in this invocation to its metrics, and forget them."""
    sums: Counter[str] = Counter()
    while _tallied:
        name, number = _tallied.pop()
        sums[name] += number
    for name, total in sums.items():
        count(name, total)


def count(
    name: str, value: float = 1, unit: MetricUnit = MetricUnit.Count, **dimensions: str
) -> None:
    """Add a value to a metric of the invocation, in the namespace of the stack. With dimensions, it
    is published at once as a metric of its own. Call it from the main thread alone: `tally` is for
    others."""
    if not dimensions:
        metrics.add_metric(name=name, unit=unit, value=value)
        return
    with single_metric(name=name, unit=unit, value=value) as metric:
        for key, text in dimensions.items():
            metric.add_dimension(name=key, value=_dimension(text))


def _dimension(text: str) -> str:
    """Return the text as the value of a dimension that CloudWatch accepts; otherwise it would drop
    the metric. It must be printable ASCII, at most 1,024 characters, not empty, and not begin with
    a colon: other characters are replaced, and `_` is put before. Source: CloudWatch API,
    Dimension."""
    ascii_text = text.strip().encode("ascii", "backslashreplace").decode("ascii")[:1024]
    printable = "".join(letter if letter.isprintable() else "?" for letter in ascii_text)
    if not printable or printable.startswith(":"):
        return f"_{printable}"
    return printable
