"""AWS clients: the roles that they assume, the session names that CloudTrail shows, timeouts, and
how often a throttled call is retried.

A cold start pays only for the services that the function uses. The clients are botocore's, which
the layer ships without boto3: to load that would take 22 to 33 ms more.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.utils import parse_timestamp

from governor.aws.call_errors import aws_errors
from governor.aws.ec2_parser import Ec2ParserFactory
from governor.core import errors
from governor.core.instance import Target
from governor.core.ports import Answer, Item

_log = logging.getLogger(__name__)
_SESSION_NAME = "gpu-governor"
_NAME_CHARACTERS = 64
"""The longest name of a session or a source identity; the shortest has two characters. Source: STS
API, AssumeRole."""
_SESSION_SECONDS = 3600
"""Role chaining allows one hour at most."""
_ONE_CALL_SECONDS = 900
"""The shortest session. Source: STS API, AssumeRole."""
READING = ("ec2:Describe*", "*")
"""Action and resource of a session that may look at EC2 and change nothing."""
_ATTEMPTS = 5
"""How often a call is sent at most, with its retries if AWS throttles it or does not answer."""
_CALLS_AT_A_TIME = 8
SMALL_CALLS_AT_A_TIME = 20
"""The most requests at a time that are about one instance each."""
_SHORT_TIMEOUT_ATTEMPTS = 2
_CONNECT_SECONDS = 5
_READ_SECONDS = 20
"""How long a call waits for its answer."""
_SHORT_CONNECT_SECONDS = 1
_SHORT_READ_SECONDS = 3
_SERVICES = {"states": "stepfunctions"}
"""botocore's name of a service, where the prefix of its operations differs."""


class _Role(NamedTuple):
    """A role to assume, `None` for the function's own credentials."""

    arn: str | None
    session: tuple[str, str] | None
    """The episode and the person that the session is named after, as `Target.session` has them;
    `None` for a session about no episode."""


_OWN = _Role(None, None)


class _ClientKey(NamedTuple):
    """The settings by which clients are shared: one client for each combination."""

    service: str
    region: str | None
    role: _Role
    repeat: bool
    long_timeout: bool


class Clients:
    """Keeps the clients of a function. Each is made when it is first asked for.

    `region` is that of calls without a target; `None` leaves it to botocore's own settings.
    """

    _read_timeout_seconds = _READ_SECONDS
    """How long a call with the long timeout waits for its answer."""

    def __init__(self, region: str | None = None, session_policy: str | None = None) -> None:
        """Make no client yet. Without `region` botocore's own settings name the Region of calls
        without a target. With `session_policy`, as JSON, every session with a role may do only what
        the policy allows, too."""
        self._region = region
        self._session_policy = session_policy
        self._lock = threading.Lock()
        self._clients: dict[_ClientKey, Any] = {}
        self._sessions: dict[_Role, Any] = {}

    def only_read_members(self) -> None:
        """From now on, let new sessions with roles of member accounts look at EC2 and change
        nothing. Call it before the first session: a session made earlier keeps its permissions.

        To change something, such a function uses `client_for_one_call`.
        """
        self._session_policy = allowing(*READING)

    def client(
        self,
        service: str,
        target: Target | None = None,
        *,
        repeat: bool = True,
        long_timeout: bool = True,
    ) -> Any:
        """Return the client of a service, in the target's Region and with its role, if it has one.
        It is made at the first call; no request is sent before the client is used.

        Without a target it is in the function's own Region and with its own credentials. With
        `repeat` botocore retries a call, without it is sent once; without `long_timeout` it gives
        up within seconds. A new client for a session about an episode replaces all clients of other
        episodes. Raises: botocore's errors if it cannot be made, as for an unknown profile.
        """
        region = target.region if target else self._region
        role = _OWN
        if target and target.role_arn:
            role = _Role(target.role_arn, target.session)
        key = _ClientKey(service, region, role, repeat, long_timeout)
        with self._lock:
            if key not in self._clients:
                self._forget_other_episodes(role)
                # To check hundreds of queries in each call took a third of a sweep, and CloudWatch
                # checks them, too.
                checks_parameters = service != "cloudwatch"
                config = _config(
                    repeat=repeat,
                    long_timeout=long_timeout,
                    slows_down=target is not None,
                    checks_parameters=checks_parameters,
                    read_timeout_seconds=self._read_timeout_seconds,
                )
                create = self._session(role).create_client
                self._clients[key] = create(service, region_name=region, config=config)
            return self._clients[key]

    def _forget_other_episodes(self, role: _Role) -> None:
        """Drop the clients and sessions named after any episode but that of this role; drop nothing
        for a role without an episode. A warm function sees hundreds of episodes."""
        if role.session is None:
            return
        kept_names = (None, role.session)
        self._clients = {
            key: client for key, client in self._clients.items() if key.role.session in kept_names
        }
        self._sessions = {
            known_role: session
            for known_role, session in self._sessions.items()
            if known_role.session in kept_names
        }

    def _session(self, role: _Role) -> Any:
        """Return the botocore session of a role, made once. Call it only with the lock held."""
        if role not in self._sessions:
            session = self._new_session()
            if role.arn is not None:
                assumed = _AssumedRole(self._assumed(role.arn, role.session))
                session.register_component("credential_provider", CredentialResolver([assumed]))
            self._sessions[role] = session
        return self._sessions[role]

    def _new_session(self) -> Any:
        """Return a new botocore session, which reads EC2's answers by our own parser."""
        session: Any = botocore.session.get_session()
        session.register_component("response_parser_factory", Ec2ParserFactory(moment))
        return session

    def client_for_one_call(
        self, operation: str, target: Target, role_arn: str, resource: str
    ) -> Any:
        """Return a client that may carry out one operation (`ec2:StopInstances`) on one resource
        (its ARN), and nothing else.

        The role is assumed for each call, with a session policy. Client and credentials are not
        kept. The client sends once, and nothing renews its credentials, so that no renewal repeats
        the call.

        Raises: CloudError if STS gave no credentials, and the client was not made: AccessDenied if
        the role does not trust this function, Throttled or Unavailable if STS is busy or did not
        answer.
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
        """Return a new client of STS, with the function's own credentials and in its own Region.
        Call it only with the lock held."""
        own = self._session(_OWN)
        config = _config(repeat=True, read_timeout_seconds=self._read_timeout_seconds)
        return own.create_client("sts", region_name=self._region, config=config)

    def _assumed(self, role_arn: str, episode_and_person: tuple[str, str] | None) -> Any:
        """Return credentials of a role, whose sessions are named after `episode_and_person`; with a
        fixed name if that is `None`. After `only_read_members` they can look at EC2 alone. STS is
        first asked when they are used, and again before they end. Call it only with the lock
        held."""
        sts = self._sts()
        policy = self._session_policy

        def refresh() -> dict[str, str]:
            """Return new credentials, as botocore takes them. Raises: CloudError."""
            granted = _assume(sts, role_arn, episode_and_person, _SESSION_SECONDS, policy)
            return {
                "access_key": granted["AccessKeyId"],
                "secret_key": granted["SecretAccessKey"],
                "token": granted["SessionToken"],
                "expiry_time": granted["Expiration"].isoformat(),
            }

        return DeferredRefreshableCredentials(refresh_using=refresh, method=_AssumedRole.METHOD)


class _AssumedRole(CredentialProvider):
    """The only source of credentials of a session with a role."""

    METHOD = "sts-assume-role"

    def __init__(self, credentials: DeferredRefreshableCredentials) -> None:
        """Keep the credentials of the role; none are asked for yet."""
        super().__init__()
        self._assumed = credentials

    def load(self) -> DeferredRefreshableCredentials:
        """Return the credentials of the role, which STS is asked for when they are first used."""
        return self._assumed


def allowing(action: str, resource: str) -> str:
    """Return a session policy as JSON that allows one action (`ec2:StopInstances`) on a resource
    (an ARN, or `*`). A session may do only what its policy and its role both allow."""
    statement = {"Effect": "Allow", "Action": action, "Resource": resource}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _assume(
    sts: Any,
    role_arn: str,
    episode_and_person: tuple[str, str] | None,
    seconds: int,
    policy: str | None,
) -> Mapping[str, Any]:
    """Begin a session with a role, for this many seconds, and return its credentials as STS gives
    them. Without `policy` (a session policy as JSON) it may do all that the role may.

    The session is named after the episode, and the person is its source identity, which CloudTrail
    keeps; without an episode it has a fixed name. If the role allows no source identity, as in
    member stacks of earlier releases, the session goes without one. Raises: CloudError.
    """
    parameters: dict[str, Any] = {"RoleArn": role_arn, "DurationSeconds": seconds}
    if policy is not None:
        parameters["Policy"] = policy
    if episode_and_person is None:
        return _granted(sts, RoleSessionName=_SESSION_NAME, **parameters)
    episode, person = episode_and_person
    parameters["RoleSessionName"] = _sts_name(episode)
    try:
        return _granted(sts, SourceIdentity=_sts_name(person), **parameters)
    except errors.AccessDenied:
        _log.warning("%s allows no source identity: update stacks/member.yaml there", role_arn)
        return _granted(sts, **parameters)


def _granted(sts: Any, **parameters: Any) -> Mapping[str, Any]:
    """Assume a role; return the credentials that STS grants: `AccessKeyId`, `SecretAccessKey`,
    `SessionToken`, `Expiration`. Raises: CloudError."""
    with aws_errors("sts:AssumeRole"):
        granted: Mapping[str, Any] = sts.assume_role(**parameters)["Credentials"]
    return granted


def _sts_name(text: str) -> str:
    """Return the text as a name that STS accepts: 2 to 64 characters, others than letters, digits
    and `_+=,.@-` replaced by `-`. Of a long text the end is kept, which tells episodes apart."""
    accepted = re.sub(r"[^\w+=,.@-]", "-", text, flags=re.ASCII)
    return accepted[-_NAME_CHARACTERS:].rjust(2, "-")


def moment(value: Any) -> datetime:
    """Return a time in an answer of AWS, given as epoch seconds or as text, with its time zone. It
    takes a tenth of botocore's time. Raises: ValueError if botocore cannot read it either."""
    try:
        if not isinstance(value, str):
            return datetime.fromtimestamp(value, UTC)
        time: datetime | None = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError, OSError):
        time = None
    if time is None or time.tzinfo is None:
        # botocore knows other forms, and how to read a time without a zone.
        return parse_timestamp(value)
    return time


def at_once(
    function: Callable[[Item], Answer], items: Sequence[Item], most: int = _CALLS_AT_A_TIME
) -> list[Answer]:
    """Call the function with each item, up to `most` calls at a time; return the answers in the
    order of the items. Raises: the error of the first item that failed, when no call runs any
    more."""
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(min(most, len(items))) as pool:
        return list(pool.map(function, items))


class Adapter:
    """A port over these clients, for the one resource of this name, ARN or URL.

    `long_timeout` is that of `Clients.client`.
    """

    def __init__(self, clients: Clients, resource: str = "", *, long_timeout: bool = True) -> None:
        """Use these clients for the resource of this name, ARN or URL; it is empty for an adapter
        of no single resource. Without `long_timeout` every call gives up within seconds. Nothing is
        called yet."""
        self._clients = clients
        self._resource = resource
        self._long_timeout = long_timeout

    def _call(
        self,
        operation: str,
        target: Target | None = None,
        *,
        repeat: bool = True,
        long_timeout: bool = True,
        client: Any = None,
        **parameters: Any,
    ) -> Any:
        """Call an operation such as `ec2:StopInstances`; return AWS's answer. `parameters` are its
        own. The call goes by `client`; without one, by that of `Clients.client` for this target,
        `repeat` and `long_timeout`, where the adapter's own `long_timeout` must be set, too.

        Raises: CloudError, among them Unavailable if the call may have had its effect;
        ConflictError if a condition of DynamoDB failed.
        """
        prefix, _, name = operation.partition(":")
        # botocore reads the profile when a client is made: that fails as a call does.
        with aws_errors(operation):
            if client is None:
                service = _SERVICES.get(prefix, prefix)
                has_long_timeout = long_timeout and self._long_timeout
                client = self._clients.client(
                    service, target, repeat=repeat, long_timeout=has_long_timeout
                )
            return getattr(client, xform_name(name))(**parameters)

    def _pages(
        self,
        operation: str,
        target: Target | None = None,
        *,
        following: str = "NextToken",
        **parameters: Any,
    ) -> Iterator[Any]:
        """Yield all pages of an operation's answer, calling it once a page. `following` names the
        field with the token of the next page, in the answer and in the request. Without a target
        the call goes to the function's own account and Region. Raises: CloudError.

        botocore's paginators would read one more file at a cold start.
        """
        while True:
            page = self._call(operation, target, **parameters)
            yield page
            if not page.get(following):
                return
            parameters[following] = page[following]

    def _records(
        self,
        operation: str,
        target: Target | None,
        path: Sequence[str],
        read: Callable[[Any], Answer | None],
        unreadable: MutableMapping[str, str] | None = None,
        answers: Iterable[Any] | None = None,
        **parameters: Any,
    ) -> Iterator[Answer]:
        """Yield what `read` makes of each record of an operation's answer, but not `None`. `path`
        leads to the records: ("Reservations", "Instances"). With `answers` the records are taken
        from those, and nothing is called.

        Without `target` the hub's own account is asked. A record that cannot be read is logged and
        left out, and `unreadable` gets the reason by its `InstanceId`, or by "" if it has none.
        Raises: CloudError if a call fails; without `unreadable` also at the end, if some could not
        be read and nothing was yielded.
        """
        reasons: MutableMapping[str, str] = {} if unreadable is None else unreadable
        is_any_read = False
        if answers is None:
            answers = self._pages(operation, target, **parameters)
        records = answers
        for field in path:
            lists = _read_each(records, itemgetter(field), operation, reasons)
            records = chain.from_iterable(lists)
        for made in _read_each(records, read, operation, reasons):
            is_any_read = True
            yield made
        if unreadable is None and reasons and not is_any_read:
            raise errors.CloudError("; ".join(reasons.values()), operation=operation)


def _read_each(
    records: Iterable[Any],
    read: Callable[[Any], Answer | None],
    operation: str,
    unreadable: MutableMapping[str, str],
) -> Iterator[Answer]:
    """Yield what `read` makes of each record, but not `None`.

    A record that `read` cannot read is left out: the reason is logged, and put into `unreadable` by
    the record's `InstanceId`, or by "" if it has none.
    """
    for record in records:
        try:
            made = read(record)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            why = f"{operation} gave a record that cannot be read: {error!r}"
            _log.error("%s in %.500s", why, record)
            instance_id = record.get("InstanceId", "") if isinstance(record, Mapping) else ""
            unreadable[instance_id] = why
            continue
        if made is not None:
            yield made


def _config(
    *,
    repeat: bool,
    long_timeout: bool = True,
    slows_down: bool = False,
    checks_parameters: bool = True,
    read_timeout_seconds: int = _READ_SECONDS,
) -> Config:
    """Return the settings of a client: with `repeat` it retries, without `long_timeout` it gives up
    within seconds. With `slows_down` it sends less once it was throttled, because others share the
    rates of its account; only a client that repeats, with the long timeout, does. With
    `checks_parameters` botocore checks the parameters of each call. `read_timeout_seconds` is how
    long a client with the long timeout waits for an answer."""
    attempts = _ATTEMPTS
    connect_seconds = _CONNECT_SECONDS
    if not long_timeout:
        attempts = _SHORT_TIMEOUT_ATTEMPTS
        connect_seconds = _SHORT_CONNECT_SECONDS
        read_timeout_seconds = _SHORT_READ_SECONDS
    if not repeat:
        attempts = 1
    mode: Literal["adaptive", "standard"] = "standard"
    if slows_down and repeat and long_timeout:
        mode = "adaptive"
    return Config(
        retries={"mode": mode, "total_max_attempts": attempts},
        connect_timeout=connect_seconds,
        read_timeout=read_timeout_seconds,
        max_pool_connections=SMALL_CALLS_AT_A_TIME,
        user_agent_extra="gpu-governor",
        parameter_validation=checks_parameters,
    )
