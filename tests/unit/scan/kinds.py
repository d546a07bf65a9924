"""Twins for tests of a scan: a kind of resource that answers as a test says, and a place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from governor.core.instance import Target
from governor.core.units import UsdPerHour
from governor.policy.model.policy import Policy
from governor.scan.kind import Kind, Place
from governor.scan.model import Finding, Judgment, Resource, Strength

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)
TARGET = Target("123456789012", "us-east-1")


def place(target: Target = TARGET, **changes: Any) -> Place:
    """Return a place whose means of reading are missing unless a test names them."""
    means: dict[str, Any] = {"api": None, "instances": None, "metrics": None, "prices": None}
    return Place(target=target, policy=Policy(), now=NOW, **{**means, **changes})


def resource(resource_id: str = "r-1", **changes: Any) -> Resource:
    """Return a resource of no particular kind."""
    return Resource(**{"target": TARGET, "resource_id": resource_id, "what": "a GPU", **changes})


@dataclass
class KindTwin(Kind[Resource, Judgment]):
    """A kind whose resources, judgments and prices a test gives. `error` is raised by its list."""

    resources: Sequence[Resource] = ()
    judgments: Mapping[str, Judgment] = field(default_factory=dict)
    usd_per_hour: UsdPerHour | None = Decimal(1)
    error: Exception | None = None
    name: str = "twin"  # type: ignore[misc]
    words: str = "twins"  # type: ignore[misc]
    operations: tuple[str, ...] = ("ec2:DescribeInstances",)  # type: ignore[misc]
    is_billed: bool = False  # type: ignore[misc]

    def list(self, place: Place) -> Sequence[Resource]:
        """Return the resources. Raises: the error of the test."""
        if self.error is not None:
            raise self.error
        return self.resources

    def measure(self, place: Place, resources: Sequence[Resource]) -> Mapping[str, Judgment]:
        """Return the judgments as measurements."""
        return self.judgments

    def price(self, place: Place, resource: Resource) -> UsdPerHour | None:
        """Return the one price."""
        return self.usd_per_hour

    def judge(self, place: Place, resource: Resource, measured: Judgment | None) -> Judgment:
        """Return the test's judgment, or that nothing was measured."""
        if measured is None:
            return Judgment(Finding.NOT_MEASURED, Strength.NONE, "nothing was measured")
        return measured

    def command(self, resource: Resource, judgment: Judgment) -> str:
        """Return a command that names the resource."""
        return f"look at {resource.resource_id}"
