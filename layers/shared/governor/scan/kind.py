"""The interface of a kind of resource in a scan: list, measure, price, judge, words.

A new kind is a folder in `kinds` and a line in `registry.py`.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, Generic, TypeVar

from governor.core.errors import CloudError
from governor.core.instance import Target
from governor.core.units import UsdPerHour, UtcDatetime, printable
from governor.evidence.ports import MetricReader
from governor.money.ports import PriceBook
from governor.policy.model.policy import Policy
from governor.scan.exemption import exemption
from governor.scan.model import Finding, Judgment, Resource, Row, Unread
from governor.scan.ports import AcceleratedInstances, ReadApi
from governor.scan.unread import unread_of

_log = logging.getLogger(__name__)
UNREADABLE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of an answer in another form than AWS documents."""
Listed = TypeVar("Listed", bound=Resource)
Measured = TypeVar("Measured")
Answer = TypeVar("Answer")


class Kept:
    """Answers that are the same for a whole scan, such as the prices of a type in a Region."""

    def __init__(self) -> None:
        """Begin without answers."""
        self._answers: dict[tuple[str, ...], Any] = {}
        self._locks: dict[tuple[str, ...], Lock] = {}
        self._lock = Lock()

    def get(self, key: tuple[str, ...], ask: Callable[[], Answer]) -> Answer:
        """Return the kept answer of this key. The first call asks for it, and the others wait for
        that. Raises: what `ask` raises; then the next call asks again."""
        with self._lock:
            lock = self._locks.setdefault(key, Lock())
        with lock:
            if key not in self._answers:
                self._answers[key] = ask()
            answer: Answer = self._answers[key]
            return answer


@dataclass(frozen=True, slots=True)
class Place:
    """One account and Region, and the means to read it.

    Attributes:
        policy: the thresholds of idleness, and the tag that selects instances.
        now: the time of the scan.
        reads_commitments: whether calls of Cost Explorer, which AWS bills one by one, are allowed.
        kept: answers for the whole scan. All its places share one.
        unread: what a kind could not read although its rows are complete enough to show, such as
            the tags of one endpoint. `could_not_read` adds to it.
    """

    target: Target
    api: ReadApi
    instances: AcceleratedInstances
    metrics: MetricReader
    prices: PriceBook
    policy: Policy
    now: UtcDatetime
    reads_commitments: bool = False
    kept: Kept = field(default_factory=Kept, compare=False)
    unread: list[Unread] = field(default_factory=list, compare=False)

    def call(self, operation: str, **parameters: Any) -> Any:
        """Return AWS's answer to one call here. Raises: CloudError."""
        return self.api.call(self.target, operation, **parameters)

    def pages(
        self, operation: str, *, following: str = "NextToken", **parameters: Any
    ) -> Iterator[Any]:
        """Yield all pages of AWS's answer to an operation in this place. `following` names the
        field with the token of the next page. Raises: CloudError."""
        return self.api.pages(self.target, operation, following=following, **parameters)

    def call_each(
        self, operation: str, parameters: Sequence[Mapping[str, Any]]
    ) -> Sequence[Any | CloudError]:
        """Return AWS's answer, or its error, to one call here for each of these parameters, in
        their order."""
        return self.api.call_each(self.target, operation, parameters)

    def could_not_read(self, topic: str, error: CloudError) -> None:
        """Report that AWS refused a part of the scan here. One line stands for all refusals of an
        operation about a topic."""
        self._report(unread_of(str(self.target), topic, error))

    def read_each(
        self,
        topic: str,
        operation: str,
        records: Iterable[Any],
        read: Callable[[Any], Answer | None],
    ) -> Iterator[Answer]:
        """Yield what `read` makes of each record of an operation's answer, but not `None`. A record
        in another form than AWS documents is left out, and reported."""
        for record in records:
            try:
                made = read(record)
            except UNREADABLE as error:
                _log.info("%s: a record cannot be read", topic, exc_info=True)
                reason = printable(
                    f"a record has another form than documented, and is left out ({error!r})"
                )
                self._report(Unread(str(self.target), topic, operation, reason))
                continue
            if made is not None:
                yield made

    def _report(self, line: Unread) -> None:
        """Keep a line, unless one has the same topic and operation."""
        known = {(other.topic, other.operation) for other in self.unread}
        if (line.topic, line.operation) not in known:
            self.unread.append(line)


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
    service: ClassVar[str] = ""
    """botocore's name of its service, if some Regions lack that; empty if every Region has it. If a
    Region lacks it, the kind is not listed there: nothing was read, and nothing was refused."""
    is_billed: ClassVar[bool] = False
    """True if AWS bills its calls one by one: it is read only if that was asked for."""

    def is_offered(self, place: Place) -> bool:
        """Return whether the place's Region has the service of this kind. Calls nothing."""
        if not self.service:
            return True
        return place.api.is_offered(place.target, self.service)

    @abstractmethod
    def list(self, place: Place) -> Sequence[Listed]:
        """Return the resources of this kind in a place; empty if there are none."""

    def measure(self, place: Place, resources: Sequence[Listed]) -> Mapping[str, Measured]:
        """Return what was measured, by resource id. A resource without measurements is left out.
        By default nothing is measured: AWS publishes nothing, or the list has it already."""
        return {}

    @abstractmethod
    def price(self, place: Place, resource: Listed) -> UsdPerHour | None:
        """Return the price of an hour; `None` if it is not known."""

    def judge(self, place: Place, resource: Listed, measured: Measured | None) -> Judgment:
        """Return the judgment; that it is exempt if its tag says so, however it is spelled."""
        exempt = exemption(place.policy, resource)
        if exempt is not None:
            return exempt
        return self.own_judgment(place, resource, measured)

    @abstractmethod
    def own_judgment(self, place: Place, resource: Listed, measured: Measured | None) -> Judgment:
        """Return the judgment of a resource without the exemption tag. Without measurements
        (`None`) it is never idleness."""

    def command(self, resource: Listed, judgment: Judgment) -> str:
        """Return the exact command that ends the waste, or that looks closer; empty if there is
        none, or the resource is exempt. Names are quoted for a shell."""
        if judgment.finding is Finding.EXEMPT:
            return ""
        return self.own_command(resource, judgment)

    @abstractmethod
    def own_command(self, resource: Listed, judgment: Judgment) -> str:
        """Return the command for a resource that is not exempt; empty if there is none."""

    def completed(self, place: Place, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows of a place with what is asked for only few of them, such as who created
        the most expensive ones. A kind need not have any."""
        return rows

    def beside_others(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows of all kinds of a place, once they are known, with what this kind can
        only say by the rows of others. Nothing is read. By default nothing changes."""
        return rows
