"""Clients for reading alone: they refuse every operation that is not on a list, before it is sent.

In other accounts the sessions carry a policy that allows reading alone, whatever their role may. A
service that only throttles, or does not answer, is given up after some seconds.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from time import monotonic
from typing import Any

import botocore.session

from governor.aws.call_errors import is_throttled
from governor.aws.clients import Adapter, Clients, at_once
from governor.aws.patience import (
    NO_ANSWER,
    SERVICE_SECONDS,
    THROTTLED,
    Patience,
    ServiceOfRegion,
)
from governor.core.errors import CloudError, SafetyError, Throttled, Unavailable
from governor.core.instance import Target
from governor.core.regions import partition_of

_SENT_AT = "governor_sent_at"
"""The time at which a try was sent, in the context that botocore keeps of a call."""


class ReadOnlyClients(Clients):
    """Clients that send the operations of a list and no others.

    Operations are named as IAM names them, such as `ec2:DescribeInstances`.
    """

    _read_timeout_seconds = SERVICE_SECONDS

    def __init__(
        self,
        operations: Collection[str],
        policy: str,
        region: str | None = None,
        *,
        loader: Any = None,
    ) -> None:
        """Make no client yet. Only the `operations` will be sent, such as `ec2:DescribeInstances`.
        `policy` is the session policy, as JSON, of all roles that are assumed. `loader` has the
        descriptions of the services; without one, the first session's is used."""
        super().__init__(region, policy)
        self._allowed = frozenset(operations)
        self._calls: Counter[str] = Counter()
        self._metrics_requested = 0
        self._counting = threading.Lock()
        self._is_interrupted = False
        self._loader = loader
        self._one_sts: Any = None

    def renewed(self) -> ReadOnlyClients:
        """Return clients with the same list and policy that know no session and counted no call.
        They share the descriptions of the services, which take seconds to read."""
        policy = self._session_policy or ""
        return ReadOnlyClients(self._allowed, policy, self._region, loader=self._loader)

    @property
    def calls(self) -> Mapping[str, int]:
        """Return how often each operation was called so far, retries not counted."""
        with self._counting:
            return dict(self._calls)

    @property
    def metrics_requested(self) -> int:
        """Return how many metrics all calls of GetMetricData asked for: AWS bills each."""
        return self._metrics_requested

    @property
    def is_interrupted(self) -> bool:
        """Return whether calls are refused since `interrupt`."""
        return self._is_interrupted

    def interrupt(self) -> None:
        """Refuse every call from now on, so that a scan ends within seconds."""
        self._is_interrupted = True

    def forget(self, target: Target) -> None:
        """Drop the clients of one account and Region, which is not looked at again. Each takes
        about a megabyte, and an organization has thousands of places. The session of its role is
        kept."""
        with self._lock:
            for key in list(self._clients):
                if key.region == target.region and key.role.arn == target.role_arn:
                    del self._clients[key]

    def _new_session(self) -> Any:
        """Return a botocore session whose clients refuse what is not on the list. All sessions
        share one loader: to read the descriptions of the services takes seconds."""
        session = super()._new_session()
        session.register_component("data_loader", self._data_loader(session))
        patience = Patience()
        session.register("before-parameter-build", partial(self._check, patience))
        session.register("request-created", _note_sending)
        session.register("needs-retry", partial(self._note_try, patience))
        return session

    def _data_loader(self, session: Any) -> Any:
        """Return the one loader of all sessions; it is that of the first session."""
        if self._loader is None:
            self._loader = session.get_component("data_loader")
        return self._loader

    def _sts(self) -> Any:
        """Return one client of STS for all roles. Call it only with the lock held."""
        if self._one_sts is None:
            self._one_sts = super()._sts()
        return self._one_sts

    def _check(
        self,
        patience: Patience,
        model: Any,
        params: Mapping[str, Any],
        context: Mapping[str, Any],
        **_: Any,
    ) -> None:
        """Count a call that is about to be made. Raises: SafetyError if it is not on the list;
        Unavailable after an interruption; Throttled or Unavailable if its service is given up."""
        operation = f"{model.service_model.service_name}:{model.name}"
        if operation not in self._allowed:
            raise SafetyError(f"{operation} was not sent: it is not on the list of what is read")
        self._raise_if_interrupted(operation)
        _raise_if_given_up(patience, _service_of(model, context), operation)
        with self._counting:
            self._calls[operation] += 1
            self._metrics_requested += len(params.get("MetricDataQueries", ()))

    def _note_try(
        self,
        patience: Patience,
        operation: Any,
        request_dict: Mapping[str, Any],
        response: Any = None,
        **_: Any,
    ) -> None:
        """Note the result of one try of a call, before botocore waits for the next one. Raises:
        Unavailable after an interruption; Throttled or Unavailable if its service is given up: no
        further try is made then."""
        name = f"{operation.service_model.service_name}:{operation.name}"
        self._raise_if_interrupted(name)
        context = request_dict["context"]
        service = _service_of(operation, context)
        problem = _problem_of(response)
        if not problem:
            patience.note_answer(service)
            return
        patience.note_failure(service, problem, context[_SENT_AT])
        _raise_if_given_up(patience, service, name)

    def _raise_if_interrupted(self, operation: str) -> None:
        """Raise Unavailable after an interruption; before it, do nothing."""
        if self._is_interrupted:
            raise Unavailable(
                f"{operation} was not sent: the scan was interrupted",
                operation=operation,
                words="the scan was interrupted",
            )


def _note_sending(request: Any, **_: Any) -> None:
    """Note the time of a try that is about to be sent. The request is signed already: the time in
    which a role is assumed is not that of the service."""
    request.context[_SENT_AT] = monotonic()


def _service_of(model: Any, context: Mapping[str, Any]) -> ServiceOfRegion:
    """Return the service and the Region of a call."""
    return ServiceOfRegion(context.get("client_region") or "", model.service_model.service_name)


def _problem_of(response: Any) -> str:
    """Return why a try has to be repeated; empty if AWS answered, be it a refusal. `response` is
    `None` if nothing came."""
    if response is None:
        return NO_ANSWER
    http, document = response
    code = str(document.get("Error", {}).get("Code", "")) if http.status_code >= 300 else ""
    if is_throttled(code):
        return THROTTLED
    return NO_ANSWER if http.status_code >= 500 else ""


def _raise_if_given_up(patience: Patience, service: ServiceOfRegion, operation: str) -> None:
    """Raise Throttled for a service that was given up because it throttled every call, and
    Unavailable for one that did not answer, or whose Region is given up. Do nothing for any
    other."""
    why_given_up = patience.given_up(service)
    if why_given_up:
        words = f"{why_given_up}, and was given up in this Region after some seconds"
        error = Throttled if why_given_up == THROTTLED else Unavailable
        raise error(f"{operation}: {service.service} {words}", operation=operation, words=words)
    if patience.is_region_given_up(service.region):
        words = "the service was not called, because others in this Region did not answer"
        raise Unavailable(f"{operation}: {words}", operation=operation, words=words)


class AwsReadApi(Adapter):
    """The port `ReadApi`: calls by their names."""

    def account_of_caller(self) -> str:
        """Return the account of the credentials. Needs no permission. Raises: CloudError."""
        return str(self._call("sts:GetCallerIdentity")["Account"])

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

    def call_each(
        self, target: Target, operation: str, parameters: Sequence[Mapping[str, Any]]
    ) -> list[Any | CloudError]:
        """Return AWS's answer, or its error, to one call for each of these parameters, in their
        order. Several calls run at a time. Raises: SafetyError if the clients refuse the
        operation."""

        def call(one_call: Mapping[str, Any]) -> Any | CloudError:
            """Return the answer or the error of one call."""
            try:
                return self._call(operation, target, **one_call)
            except CloudError as error:
                return error

        return at_once(call, parameters)

    def is_offered(self, target: Target, service: str) -> bool:
        """Return whether the target's Region has this service, by botocore's name; true also if
        botocore does not know the Region. Calls nothing: without the service there is no host to
        call."""
        partition = partition_of(target.region)
        if target.region not in _regions_of("ec2", partition):
            return True
        return target.region in _regions_of(service, partition)


@cache
def _regions_of(service: str, partition: str) -> frozenset[str]:
    """Return the Regions of a partition in which botocore lists this service."""
    session = botocore.session.get_session()
    return frozenset(session.get_available_regions(service, partition))
