"""Answers that a test or the demo invents, for operations that neither the engine nor moto has.

botocore's service model gives their shape. An operation that nothing was invented for answers as an
empty account does: a list is empty, and what is asked for by name does not exist. Whatever changes
something is refused. It must not know the governor.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from local.engine.simulators.faults import AwsError

_READS = ("List", "Describe", "Get")


@dataclass(frozen=True)
class Invented:
    """An answer to an operation, for requests that have all parameters of `match`."""

    answer: Mapping[str, Any]
    match: Mapping[str, Any] = field(default_factory=dict)

    def meets(self, request: Mapping[str, Any]) -> bool:
        """Return whether the request has these parameters."""
        return all(request.get(name) == value for name, value in self.match.items())


class InventedAnswers:
    """Answers by account, Region and operation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._answers: dict[tuple[str, str, str], list[Invented]] = {}

    def put(self, account: str, region: str, operation: str, invented: Invented) -> None:
        """Answer `service:Operation` so from now on; of two that meet a request the later one
        counts. Raises: AwsError for an answer that the service model does not allow."""
        from botocore.validate import ParamValidator

        shape = _operation(operation).output_shape
        problems = ParamValidator().validate(dict(invented.answer), shape)
        if problems.has_errors():
            raise AwsError("InvalidAnswer", f"{operation}: {problems.generate_report()}")
        with self._lock:
            self._answers.setdefault((account, region, operation), []).insert(0, invented)

    def answer(
        self, account: str, region: str, operation: str, request: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the answer that was invented for one call; `None` if there is none."""
        with self._lock:
            invented = list(self._answers.get((account, region, operation), ()))
        for one in invented:
            if one.meets(request):
                return dict(one.answer)
        return None

    def empty_answer(self, operation: str) -> dict[str, Any]:
        """Return the answer of an empty account. Raises: AwsError."""
        name = operation.partition(":")[2]
        if not name.startswith(_READS):
            raise AwsError("InvalidAction", f"The action {name} is not simulated")
        if operation.startswith("ce:GetSavingsPlans"):
            # So answers Cost Explorer in an account that never had a Savings Plan.
            raise AwsError("DataUnavailableException", "Data is not available.")
        model = _operation(operation)
        is_about_one = name.startswith("Describe") and bool(model.input_shape.required_members)
        if is_about_one:
            raise AwsError("ResourceNotFound", f"{name}: there is no such resource")
        return _empty(model.output_shape)

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self._answers.clear()


def _operation(operation: str) -> Any:
    """Return botocore's model of `service:Operation`."""
    from moto.core.utils import get_service_model

    service, _, name = operation.partition(":")
    return get_service_model(service).operation_model(name)


def _empty(shape: Any) -> dict[str, Any]:
    """Return the smallest answer of a shape: its lists are empty."""
    return {name: [] for name, member in shape.members.items() if member.type_name == "list"}
