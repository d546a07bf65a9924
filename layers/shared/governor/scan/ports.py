"""Ports of a scan: calls of AWS that read, by their names.

Each kind of resource names the operations that it calls. The adapter refuses all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from governor.core.errors import CloudError
    from governor.core.instance import Instance, Launch, Target
    from governor.core.units import UtcDatetime


class ReadApi(Protocol):
    """Calls of AWS that change nothing.

    An operation is named as IAM names it: `sagemaker:ListEndpoints`. Every method raises CloudError
    if AWS refuses, and SafetyError for an operation that no kind of resource has on its list.
    """

    def call(self, target: Target, operation: str, **parameters: Any) -> Any:
        """Return AWS's answer to one call, in the account and Region of the target."""

    def pages(
        self, target: Target, operation: str, *, following: str = "NextToken", **parameters: Any
    ) -> Iterator[Any]:
        """Yield all pages of AWS's answer. `following` names the field with the token of the next
        page, in the answer and in the request."""

    def call_each(
        self, target: Target, operation: str, parameters: Sequence[Mapping[str, Any]]
    ) -> Sequence[Any | CloudError]:
        """Return AWS's answer, or its error, to one call for each of these parameters, in their
        order. Several calls run at a time. Raises no CloudError."""

    def is_offered(self, target: Target, service: str) -> bool:
        """Return whether the target's Region has this service, by botocore's name; true also if
        that is not known. Calls nothing."""


class AcceleratedInstances(Protocol):
    """EC2's instances of accelerated types, read only."""

    def list_accelerated(
        self, target: Target, unreadable: MutableMapping[str, str] | None = None
    ) -> Sequence[Instance]:
        """Return all running instances of accelerated types, tagged or not; empty if there are
        none. An instance whose record cannot be read is left out, and `unreadable` gets the reason
        by its id. Raises: CloudError."""

    def launch(self, target: Target, instance_id: str, before: UtcDatetime) -> Launch | None:
        """Return who launched the instance and when, by one call for CloudTrail's newest records
        before this time; `None` if those do not say it. It is sent once. Raises: CloudError."""
