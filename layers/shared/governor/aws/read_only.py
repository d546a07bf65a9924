"""Clients for reading alone: they refuse every operation that is not on a list, before it is sent.

In other accounts the sessions carry a policy that allows reading alone, whatever their role may.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from governor.aws.clients import Adapter, Clients
from governor.core.errors import SafetyError
from governor.core.instance import Target


class ReadOnlyClients(Clients):
    """Clients that send the operations of a list and no others.

    Operations are named as IAM names them, such as `ec2:DescribeInstances`.
    """

    def __init__(self, operations: Collection[str], policy: str, region: str | None = None) -> None:
        """`policy` is the session policy, as JSON, of all roles that are assumed. No client is made
        yet."""
        super().__init__(region, policy)
        self._allowed = frozenset(operations)
        self._calls: Counter[str] = Counter()
        self._counting = threading.Lock()

    @property
    def calls(self) -> Mapping[str, int]:
        """Return how often each operation was called so far, retries not counted."""
        return dict(self._calls)

    def _new_session(self) -> Any:
        """Return a botocore session whose clients refuse what is not on the list."""
        session = super()._new_session()
        session.register("before-parameter-build", self._check)
        return session

    def _check(self, model: Any, **_: Any) -> None:
        """Count a call that is about to be made. Raises: SafetyError if it is not on the list."""
        operation = f"{model.service_model.service_name}:{model.name}"
        if operation not in self._allowed:
            raise SafetyError(f"{operation} was not sent: it is not on the list of what is read")
        with self._counting:
            self._calls[operation] += 1


class AwsReadApi(Adapter):
    """The port `ReadApi`: calls by their names."""

    def call(self, target: Target, operation: str, **parameters: Any) -> Any:
        """Return AWS's answer to one call. Raises: CloudError; SafetyError if the clients refuse
        the operation."""
        return self._call(operation, target, **parameters)

    def pages(
        self, target: Target, operation: str, *, following: str = "NextToken", **parameters: Any
    ) -> Iterator[Any]:
        """Yield all pages of AWS's answer; `following` names the field with the token of the next.
        Raises: CloudError; SafetyError if the clients refuse the operation."""
        return self._pages(operation, target, following=following, **parameters)
