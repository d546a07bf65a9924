"""Error answers of AWS, and the faults that a test plans. Knows no service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_STATUS = {
    "AccessDenied": 403,
    "DryRunOperation": 412,
    "InsufficientInstanceCapacity": 500,
    "InternalError": 500,
    "InternalFailure": 500,
    "InternalServerError": 500,
    "RequestLimitExceeded": 503,
    "ServiceUnavailable": 503,
    "Unavailable": 503,
    "UnauthorizedOperation": 403,
}


class AwsError(Exception):
    """An error answer of AWS; the HTTP status follows from the code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message, self.status = code, message, _STATUS.get(code, 400)


@dataclass(frozen=True)
class Fault:
    """An error that the next call of an operation gets, if its request holds what `match` says."""

    code: str
    message: str
    match: Mapping[str, Any] = field(default_factory=dict)

    def meets(self, request: Mapping[str, Any]) -> bool:
        """Return whether every parameter named is that value, or has it somewhere inside."""
        return all(_holds(request.get(name), value) for name, value in self.match.items())


@dataclass
class Faults:
    """Planned errors by `service:Operation`, first come first served, and a count of all calls."""

    planned: dict[str, list[Fault]] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)

    def enter(self, operation: str, request: Mapping[str, Any]) -> None:
        """Counts the call. Raises: AwsError, the first planned fault that meets the request."""
        self.calls[operation] += 1
        queue = self.planned.get(operation, [])
        for fault in queue:
            if fault.meets(request):
                queue.remove(fault)
                raise AwsError(fault.code, fault.message)

    def plan(self, operation: str, fault: Fault, times: int) -> None:
        """The next `times` calls that meet the fault get it, instead of those planned like it
        before."""
        others = [planned for planned in self.planned.get(operation, []) if planned != fault]
        self.planned[operation] = others + [fault] * times

    def clear(self) -> None:
        """Forgets plans and counts."""
        self.planned.clear()
        self.calls.clear()


def _holds(found: Any, value: Any) -> bool:
    if isinstance(found, Mapping):
        return any(_holds(inner, value) for inner in found.values())
    if isinstance(found, list | tuple):
        return any(_holds(inner, value) for inner in found)
    return bool(found == value)
