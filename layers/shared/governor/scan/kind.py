"""The kinds of resource that a scan knows share one shape: list, measure, price, judge, words.

A new kind is a folder in `kinds` and a line in `registry.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from governor.core.instance import Target
from governor.core.units import UsdPerHour, UtcDatetime
from governor.evidence.ports import MetricReader
from governor.money.ports import PriceBook
from governor.policy.model.policy import Policy
from governor.scan.model import Judgment, Resource
from governor.scan.ports import AcceleratedInstances, ReadApi

Listed = TypeVar("Listed", bound=Resource)
Measured = TypeVar("Measured")


@dataclass(frozen=True, slots=True)
class Place:
    """One account and Region, and the means to read it.

    Attributes:
        policy: the thresholds of idleness, and the tag that selects instances.
        now: the time of the scan.
        reads_commitments: whether calls of Cost Explorer, which AWS bills one by one, are allowed.
    """

    target: Target
    api: ReadApi
    instances: AcceleratedInstances
    metrics: MetricReader
    prices: PriceBook
    policy: Policy
    now: UtcDatetime
    reads_commitments: bool = False

    def call(self, operation: str, **parameters: Any) -> Any:
        """Return AWS's answer to one call here. Raises: CloudError."""
        return self.api.call(self.target, operation, **parameters)

    def pages(
        self, operation: str, *, following: str = "NextToken", **parameters: Any
    ) -> Iterator[Any]:
        """Yield all pages of AWS's answer here. Raises: CloudError."""
        return self.api.pages(self.target, operation, following=following, **parameters)


class Kind(ABC, Generic[Listed, Measured]):
    """A kind of resource. Its methods read and judge; none of them changes anything.

    `list` and `measure` raise CloudError where AWS refuses: the scan then reports what is missing,
    and goes on with the other kinds.
    """

    name: ClassVar[str]
    """In rows and in JSON, such as `sagemaker-endpoint`."""
    words: ClassVar[str]
    """For people, in the plural, such as `SageMaker endpoints`."""
    operations: ClassVar[tuple[str, ...]]
    """All operations that it calls, as IAM names them."""
    is_billed: ClassVar[bool] = False
    """True if AWS bills its calls one by one: it is read only if that was asked for."""

    @abstractmethod
    def list(self, place: Place) -> Sequence[Listed]:
        """Return the resources of this kind in a place; empty if there are none."""

    @abstractmethod
    def measure(self, place: Place, resources: Sequence[Listed]) -> Mapping[str, Measured]:
        """Return what was measured, by resource id. A resource without measurements is left out."""

    @abstractmethod
    def price(self, place: Place, resource: Listed) -> UsdPerHour | None:
        """Return the price of an hour; `None` if it is not known."""

    @abstractmethod
    def judge(self, place: Place, resource: Listed, measured: Measured | None) -> Judgment:
        """Return the judgment. Without measurements (`None`) it is never idleness."""

    @abstractmethod
    def command(self, resource: Listed, judgment: Judgment) -> str:
        """Return the exact command that ends the waste, or that looks closer; empty if there is
        none. Names are quoted for a shell."""
