"""AWS clients, created on first use: a cold start pays only for what the function uses. They are
botocore's: loading boto3 would cost a cold start 50 ms for nothing. What they raise becomes an
error of our tree."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any, Literal

import botocore.session
from botocore import exceptions, xform_name
from botocore.config import Config
from botocore.credentials import DeferredRefreshableCredentials
from botocore.parsers import EC2QueryParser, ResponseParserError, ResponseParserFactory
from botocore.utils import parse_timestamp

from governor import errors
from governor.domain.instance import Target
from governor.ports import Answer, Item

_log = logging.getLogger(__name__)
_SESSION_NAME = "gpu-governor"
_NAME_CHARACTERS = 64
"""Longest name of a session or a source identity; at least two characters. Source: STS API,
AssumeRole."""
_SESSION_SECONDS = 3600
"""Role chaining allows one hour at most."""
_ONE_CALL_SECONDS = 900
"""The shortest session. Source: STS API, AssumeRole."""
READING = ("ec2:Describe*", "*")
"""Action and resource of a session that may look at EC2 and change nothing."""
_ATTEMPTS = 5
_CALLS_AT_A_TIME = 8
SMALL_CALLS_AT_A_TIME = 20
"""Most requests at a time that are about one instance each."""
_HASTY_ATTEMPTS = 2
_SERVICES = {"states": "stepfunctions"}
"""Names of botocore, where an operation is known by another one."""

_Role = tuple[str | None, tuple[str, str] | None]
"""A role to assume, and what its session is named after."""
_OWN: _Role = (None, None)


class Clients:
    """Clients of one function, each made when it is first asked for."""

    def __init__(self, region: str | None = None) -> None:
        self._region = region
        self._only_reads = False
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str | None, _Role, bool, bool], Any] = {}
        self._sessions: dict[_Role, Any] = {}

    def only_read_members(self) -> None:
        """Let sessions with roles of members look at EC2 and change nothing, from the first session
        on.

        What such a function changes takes `client_for_one_call`.
        """
        self._only_reads = True

    def client(
        self,
        service: str,
        target: Target | None = None,
        *,
        repeat: bool = True,
        patient: bool = True,
    ) -> Any:
        """Return the client of a service, in the target's Region and with its role; else the
        function's own. Without `repeat` a call is sent once; without `patient` it gives up within
        seconds."""
        region = target.region if target else self._region
        role = (target.role_arn, target.session) if target and target.role_arn else _OWN
        key = (service, region, role, repeat, patient)
        with self._lock:
            if key not in self._clients:
                self._forget_other_episodes(role)
                # To check hundreds of queries a call took a third of a sweep, and CloudWatch does
                # it, too.
                config = _config(
                    repeat, patient, polite=target is not None, checked=service != "cloudwatch"
                )
                create = self._session(role).create_client
                self._clients[key] = create(service, region_name=region, config=config)
            return self._clients[key]

    def _forget_other_episodes(self, role: _Role) -> None:
        """Keep the clients of one episode at a time: a warm function sees hundreds of them."""
        if role[1] is not None:
            here = (None, role[1])
            self._clients = {key: one for key, one in self._clients.items() if key[2][1] in here}
            self._sessions = {key: one for key, one in self._sessions.items() if key[1] in here}

    def _session(self, role: _Role) -> Any:
        if role not in self._sessions:
            session = botocore.session.get_session()
            parsers = _Parsers()
            parsers.set_parser_defaults(timestamp_parser=moment)
            session.register_component("response_parser_factory", parsers)  # type: ignore[no-untyped-call]
            if role[0] is not None:
                session._credentials = self._assumed(role[0], role[1])  # type: ignore[attr-defined]
            self._sessions[role] = session
        return self._sessions[role]

    def client_for_one_call(
        self, operation: str, target: Target, role_arn: str, resource: str
    ) -> Any:
        """Return a client that may carry out one operation on one resource, and nothing else.

        The role is assumed for each call, with a session policy. Client and credentials are not
        kept. The client sends once, and nothing renews its credentials, so that no renewal
        repeats the call.

        Raises:
            AccessDenied: the role does not trust this function.
            Throttled, Unavailable: STS did not answer. The client was not made.
        """
        service = operation.partition(":")[0]
        with self._lock:
            sts = self._sts()
        policy = allowing(operation, resource)
        granted = _assume(sts, role_arn, target.session, _ONE_CALL_SECONDS, policy)
        with self._lock:
            return self._session(_OWN).create_client(
                service,
                region_name=target.region,
                config=_config(repeat=False),
                aws_access_key_id=granted["AccessKeyId"],
                aws_secret_access_key=granted["SecretAccessKey"],
                aws_session_token=granted["SessionToken"],
            )

    def _sts(self) -> Any:
        return self._session(_OWN).create_client("sts", config=_config(repeat=True))

    def _assumed(self, role_arn: str, named: tuple[str, str] | None) -> Any:
        """Return credentials of a role, renewed before they end."""
        sts = self._sts()
        policy = allowing(*READING) if self._only_reads else None

        def refresh() -> dict[str, str]:
            granted = _assume(sts, role_arn, named, _SESSION_SECONDS, policy)
            return {
                "access_key": granted["AccessKeyId"],
                "secret_key": granted["SecretAccessKey"],
                "token": granted["SessionToken"],
                "expiry_time": granted["Expiration"].isoformat(),
            }

        return DeferredRefreshableCredentials(refresh_using=refresh, method="sts-assume-role")


def allowing(action: str, resource: str) -> str:
    """Return a session policy. The session may do what it and the role's own policies both
    allow."""
    statement = {"Effect": "Allow", "Action": action, "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _assume(
    sts: Any, role_arn: str, named: tuple[str, str] | None, seconds: int, policy: str | None
) -> Mapping[str, Any]:
    """Return the credentials of a new session with a role.

    The session is named after the episode, and the person is its source identity, which CloudTrail
    keeps. Member stacks of earlier releases allow no source identity: the session then goes without
    one.
    """
    asked: dict[str, Any] = {"RoleArn": role_arn, "DurationSeconds": seconds}
    if policy is not None:
        asked["Policy"] = policy
    if named is None:
        return _granted(sts, RoleSessionName=_SESSION_NAME, **asked)
    episode, person = named
    asked["RoleSessionName"] = _sts_name(episode)
    try:
        return _granted(sts, SourceIdentity=_sts_name(person), **asked)
    except errors.AccessDenied:
        _log.warning("%s allows no source identity: update stacks/member.yaml there", role_arn)
        return _granted(sts, **asked)


def _granted(sts: Any, **asked: Any) -> Mapping[str, Any]:
    with aws_errors("sts:AssumeRole"):
        granted: Mapping[str, Any] = sts.assume_role(**asked)["Credentials"]
    return granted


def _sts_name(text: str) -> str:
    """Return a name in the characters that STS accepts. The end of a long name tells episodes
    apart."""
    accepted = re.sub(r"[^\w+=,.@-]", "-", text, flags=re.ASCII)
    return accepted[-_NAME_CHARACTERS:].rjust(2, "-")


def moment(value: Any) -> datetime:
    """Return the time of an answer, in UTC and in a tenth of botocore's time. Raises: as
    botocore."""
    try:
        if not isinstance(value, str):
            return datetime.fromtimestamp(value, UTC)
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        found = None
    # Whatever is written otherwise, or without a zone.
    return found if found and found.tzinfo else parse_timestamp(value)


class _Parsers(ResponseParserFactory):
    def create_parser(self, protocol_name: str) -> Any:
        return (
            _Ec2Parser(moment) if protocol_name == "ec2" else super().create_parser(protocol_name)
        )


class _Ec2Parser(EC2QueryParser):
    """Goes by the elements that came: to look in each instance for all fields of the model, as
    botocore does, took half of a steady sweep. botocore, of Lambda's version, reads what is not
    plain or came twice."""

    def _handle_structure(self, shape: Any, node: Any) -> Any:
        fields = {} if isinstance(node, list) else _plain_fields(shape)
        came = {element.tag.rpartition("}")[2]: element for element in node}
        if not fields or len(came) < len(node):
            return super()._handle_structure(shape, node)  # type: ignore[misc]
        return {
            one[0]: one[2](self, one[1], it) for tag, it in came.items() if (one := fields.get(tag))
        }


def _plain_fields(shape: Any) -> Any:
    """Return a structure's fields by element: name, shape, reader; none where the model says more
    of one."""
    if not hasattr(shape, "plain_fields"):
        members = shape.members.items() if shape.metadata.keys() <= {"required"} else ()
        reads = {
            name: getattr(_Ec2Parser, f"_handle_{one.type_name}", None) for name, one in members
        }
        is_plain = all(reads.values()) and all(
            one.serialization.keys() <= {"name"} for _, one in members
        )
        found = {
            one.serialization.get("name", name): (name, one, reads[name]) for name, one in members
        }
        # Not in a cache of ours, which would hold the whole model of clients that are gone: 30 MB
        # each.
        shape.plain_fields = found if is_plain else {}
    return shape.plain_fields


def at_once(
    function: Callable[[Item], Answer], items: Sequence[Item], most: int = _CALLS_AT_A_TIME
) -> list[Answer]:
    if len(items) < 2:
        return [function(one) for one in items]
    with ThreadPoolExecutor(min(most, len(items))) as pool:
        return list(pool.map(function, items))


class Adapter:
    """A port over these clients, for the one resource of this name, ARN or URL. `patient`: as
    `Clients`."""

    def __init__(self, clients: Clients, resource: str = "", *, patient: bool = True) -> None:
        self._clients = clients
        self._resource = resource
        self._patient = patient

    def _call(
        self,
        operation: str,
        target: Target | None = None,
        *,
        repeat: bool = True,
        patient: bool = True,
        client: Any = None,
        **parameters: Any,
    ) -> Any:
        """Call `service:Operation` with this client, or with the one that `Clients.client` gives.

        Raises: as `aws_errors`.
        """
        prefix, _, name = operation.partition(":")
        if client is None:
            service = _SERVICES.get(prefix, prefix)
            is_patient = patient and self._patient
            client = self._clients.client(service, target, repeat=repeat, patient=is_patient)
        with aws_errors(operation):
            return getattr(client, xform_name(name))(**parameters)

    def _pages(
        self,
        operation: str,
        target: Target | None = None,
        *,
        following: str = "NextToken",
        **more: Any,
    ) -> Iterator[Any]:
        """Yield all pages, by the field `following`; botocore's paginators read one more file."""
        while True:
            page = self._call(operation, target, **more)
            yield page
            if not page.get(following):
                return
            more[following] = page[following]

    def _records(
        self,
        operation: str,
        target: Target | None,
        path: Sequence[str],
        read: Callable[[Any], Answer | None],
        odd: MutableMapping[str, str] | None = None,
        answers: Iterable[Any] | None = None,
        **asked: Any,
    ) -> Iterator[Answer]:
        """Yield what `read` makes of each record under the fields `path` of all pages, or of
        `answers`; but not `None`. One that cannot be read sinks no other: it is logged, and `odd`
        gets the reason, by its `InstanceId` or "". Raises: CloudError at the end, where none was
        read and nobody takes `odd`."""
        unread: MutableMapping[str, str] = {} if odd is None else odd
        is_any_read = False

        def each(records: Iterable[Any], step: Callable[[Any], Any]) -> Iterator[Any]:
            for one in records:
                try:
                    made = step(one)
                except (
                    ArithmeticError,
                    AttributeError,
                    LookupError,
                    TypeError,
                    ValueError,
                ) as error:
                    why = f"{operation} gave a record that cannot be read: {error!r}"
                    _log.error("%s in %.500s", why, one)
                    unread[one.get("InstanceId", "") if isinstance(one, Mapping) else ""] = why
                    continue
                if made is not None:
                    yield made

        found: Iterable[Any] = (
            self._pages(operation, target, **asked) if answers is None else answers
        )
        for field in path:
            found = chain.from_iterable(each(found, itemgetter(field)))
        for made in each(found, read):
            is_any_read = True
            yield made
        if odd is None and unread and not is_any_read:
            raise errors.CloudError("; ".join(unread.values()), operation=operation)


def _config(
    repeat: bool, patient: bool = True, *, polite: bool = False, checked: bool = True
) -> Config:
    """With `polite` a client that was throttled sends less: others share the rates of its
    account."""
    attempts = _ATTEMPTS if patient else _HASTY_ATTEMPTS
    mode: Literal["adaptive", "standard"] = (
        "adaptive" if polite and repeat and patient else "standard"
    )
    return Config(
        retries={"mode": mode, "total_max_attempts": attempts if repeat else 1},
        connect_timeout=5 if patient else 1,
        read_timeout=20 if patient else 3,
        max_pool_connections=SMALL_CALLS_AT_A_TIME,
        user_agent_extra="gpu-governor",
        parameter_validation=checked,
    )


DRY_RUN_OK = "DryRunOperation"
"""The error code by which EC2 says that a dry run would have succeeded."""

_CODES: dict[type[errors.CloudError], str] = {
    errors.Throttled: """
        Throttling ThrottlingException ThrottledException TooManyRequestsException SlowDown
        RequestLimitExceeded RequestThrottled RequestThrottledException PriorRequestNotComplete
        LimitExceeded LimitExceededException ExecutionLimitExceeded
        ProvisionedThroughputExceededException TransactionInProgressException
        TransactionConflictException EC2ThrottledException SnapshotCreationPerVolumeRateExceeded
        ConcurrentSnapshotLimitExceeded PendingSnapshotLimitExceeded KMSThrottling
        KMSThrottlingException
    """,
    errors.Unavailable: """
        InternalError InternalFailure InternalServerError InternalServiceError
        InternalServiceException ServiceUnavailable ServiceUnavailableException Unavailable
        RequestTimeout RequestTimeoutException ConditionalRequestConflict
    """,
    errors.AccessDenied: """
        UnauthorizedOperation AccessDenied AccessDeniedException AuthorizationError AuthFailure
        ExpiredToken ExpiredTokenException UnrecognizedClientException InvalidClientTokenId
        SignatureDoesNotMatch OptInRequired KMSAccessDenied KMSAccessDeniedException
    """,
    errors.NoCapacity: """
        InsufficientInstanceCapacity InsufficientHostCapacity InsufficientReservedInstanceCapacity
        InsufficientCapacityOnHost ReservationCapacityExceeded
    """,
    errors.Protected: """
        OperationNotPermitted OperationNotPermittedException InvalidSnapshot.InUse SnapshotLocked
    """,
    errors.Unsupported: "UnsupportedOperation UnsupportedOperationException Unsupported",
    errors.WrongState: "IncorrectInstanceState IncorrectState IncorrectSpotRequestState "
    "InvalidState",
    errors.NotFound: """
        ResourceNotFoundException ResourceNotFound NotFoundException NotFound ParameterNotFound
        ExecutionDoesNotExist StateMachineDoesNotExist TaskDoesNotExist NoSuchKey NoSuchVersion
    """,
}
_BY_CODE = {code: kind for kind, codes in _CODES.items() for code in codes.split()}
_WITHOUT_ANSWER: dict[tuple[type[Exception], ...], type[errors.CloudError]] = {
    (
        exceptions.ConnectionError,
        exceptions.HTTPClientError,
        exceptions.IncompleteReadError,
        ResponseParserError,
        exceptions.CredentialRetrievalError,
        exceptions.MetadataRetrievalError,
    ): errors.Unavailable,
    (exceptions.NoCredentialsError, exceptions.PartialCredentialsError): errors.AccessDenied,
}
"""The meaning of no answer to botocore: the network failed, or there are no credentials."""


def translate(error: exceptions.ClientError, operation: str) -> errors.GovernorError:
    details = error.response.get("Error", {})
    code, message = str(details.get("Code", "")), details.get("Message", "")
    text = f"{operation} failed: {code}: {message}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ConditionalCheckFailedException":
        return errors.ConflictError(text)
    if code == "TransactionCanceledException":
        return _translate_transaction(error, operation, text)
    found = _BY_CODE.get(code)
    if found is None and code.startswith("Invalid") and code.endswith((".NotFound", ".Unknown")):
        found = errors.NotFound
    if found is None and status >= 500:
        found = errors.Unavailable
    if found is None and status == 429:
        found = errors.Throttled
    return (found or errors.CloudError)(text, operation=operation, code=code)


def _translate_transaction(
    error: exceptions.ClientError, operation: str, text: str
) -> errors.GovernorError:
    """A cancelled transaction: lost by its conditions, or in conflict with another one and worth a
    retry."""
    reasons = error.response.get("CancellationReasons") or []
    codes = {reason.get("Code") for reason in reasons}
    if "ConditionalCheckFailed" in codes or "ConditionalCheckFailed" in str(error):
        return errors.ConflictError(text)
    busy = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
    kind = errors.Throttled if codes & busy else errors.CloudError
    return kind(text, operation=operation, code="TransactionCanceledException")


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """Wrap one AWS call, `service:Operation`. Raises: GovernorError in place of botocore's
    errors."""
    try:
        yield
    except exceptions.ClientError as error:
        raise translate(error, operation) from error
    except (exceptions.BotoCoreError, ResponseParserError) as error:
        # Wrong parameters are a plain CloudError: repeating never helps.
        kinds = (one for reasons, one in _WITHOUT_ANSWER.items() if isinstance(error, reasons))
        kind = next(kinds, errors.CloudError)
        raise kind(f"{operation} failed: {error}", operation=operation) from error
