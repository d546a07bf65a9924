"""Sends calls to CloudWatch, and decides by the error whether a call may be tried again.

No other module knows botocore, which looks for credentials only when a client is made. A role can
be attached to a running instance, or exchanged. So a client is made once there are credentials, and
made again when they change.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable

import botocore.exceptions
import botocore.session
from botocore.config import Config

from gpu_metrics_publisher.errors import (
    DeliveryError,
    RefusedError,
    UndeliveredError,
    UnforeseenError,
)
from gpu_metrics_publisher.metrics import Call

_NEVER = frozenset(
    {
        "InvalidFormat",
        "InvalidFormatFault",
        "InvalidParameterCombination",
        "InvalidParameterCombinationException",
        "InvalidParameterValue",
        "InvalidParameterValueException",
        "MissingParameter",
        "MissingRequiredParameterException",
        "RequestEntityTooLarge",
        "ValidationError",
        "ValidationException",
    }
)
"""Error codes for a call that is wrong itself. After any other a call may be taken later: a role
can be attached, a permission given, a clock set, a limit raised."""

_CREDENTIALS = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
    }
)
"""Error codes for credentials that are wrong or lack permissions. There may be others by now."""
_NOT_NOW = _CREDENTIALS | {
    "InternalFailure",
    "InternalServiceFault",
    "LimitExceeded",
    "LimitExceededException",
    "RequestExpired",
    "RequestLimitExceeded",
    "ServiceUnavailable",
    "SignatureDoesNotMatch",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}
"""Error codes that any call would get now, so that the next one is not tried."""

_METADATA_DEFAULTS = {
    # By default there is one try of one second. A metadata service that is slow once would then
    # look like an instance without a role.
    "metadata_service_timeout": (
        "metadata_service_timeout",
        "AWS_METADATA_SERVICE_TIMEOUT",
        2,
        int,
    ),
    "metadata_service_num_attempts": (
        "metadata_service_num_attempts",
        "AWS_METADATA_SERVICE_NUM_ATTEMPTS",
        3,
        int,
    ),
}
"""Our defaults for settings of botocore: the name in the configuration file, the variable, the
value and its type."""


def machine_session() -> botocore.session.Session:
    """Return a session that finds credentials, endpoints and proxies as every AWS tool does."""
    return botocore.session.Session(_METADATA_DEFAULTS)


def cloudwatch_client(session: botocore.session.Session, region: str) -> Any:
    """Return a client with the session's credentials.

    Timeouts are short and tries few, because a call that fails is kept and tried again a minute
    later. Bodies over 1 KiB are compressed.
    """
    config = Config(
        region_name=region,
        connect_timeout=5,
        read_timeout=10,
        retries={"mode": "standard", "total_max_attempts": 2},
        max_pool_connections=1,
        request_min_compression_size_bytes=1024,
        user_agent_extra="gpu-metrics-publisher",
    )
    return session.create_client("cloudwatch", config=config)


_NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
)


class CloudWatchSink:
    """Sends calls with clients of botocore, for one thread at a time.

    `new_session` returns a session that has not looked for credentials yet.
    """

    def __init__(
        self,
        region: str,
        new_session: Callable[[], botocore.session.Session] = machine_session,
        instance_id: str = "",
    ) -> None:
        self._region = region
        self._instance_id = instance_id
        self._user_id: str | None = None
        """The `aws:userid` of the client's credentials, once a call has needed it."""
        self._new_session = new_session
        self._client: Any | None = None
        self._session: Any = None
        self._key: str | None = None
        """The access key of the client's credentials."""
        self._doubted = False
        """True while CloudWatch does not accept the client's credentials. The client itself renews
        those that expire."""

    def send(self, call: Call) -> None:
        """Send one call.

        Raises:
            UndeliveredError: not taken now; it may be later. Its subclass UnforeseenError means
                that perhaps only this call is refused.
            RefusedError: it will never be taken.
        """
        try:
            client = self._connected()
            client.put_metric_data(Namespace=self._namespace(call), MetricData=_timed(call))
        except botocore.exceptions.ParamValidationError as error:
            raise RefusedError(
                f"PutMetricData to {call.namespace} is malformed: {error}"
            ) from error
        except botocore.exceptions.ClientError as error:
            self._doubted = _code(error) in _CREDENTIALS
            kind = _kind_of_refusal(error)
            raise kind(f"PutMetricData to {call.namespace}: {error}") from error
        except _NO_CREDENTIALS as error:
            raise UndeliveredError(
                f"PutMetricData to {call.namespace}: {error}. Attach a role that allows it to the "
                "instance; it is found without a restart."
            ) from error
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.HTTPClientError) as error:
            raise UndeliveredError(f"PutMetricData to {call.namespace}: {error}") from error

    def _namespace(self, call: Call) -> str:
        """Return the namespace of a call.

        One that ends in a slash is completed, so that it belongs to this role on this instance.

        Raises:
            UndeliveredError: the credentials are not those of the instance's own role.
        """
        if not call.namespace.endswith("/"):
            return call.namespace
        if self._user_id is None:
            config = Config(region_name=self._region, connect_timeout=5, read_timeout=10)
            sts = self._session.create_client("sts", config=config)
            self._user_id = str(sts.get_caller_identity()["UserId"])
        if not self._user_id.endswith(f":{self._instance_id}"):
            raise UndeliveredError(
                f"{call.namespace}: the credentials are of {self._user_id}, not of this "
                "instance's role"
            )
        return call.namespace + self._user_id

    def _connected(self) -> Any:
        """Return the client, after a look for credentials if there are none or they are in doubt.

        A client costs a hundred times as much as the look, so it is made only for other
        credentials.

        Raises:
            NoCredentialsError: there are none.
        """
        if self._client is not None and not self._doubted:
            return self._client
        self._session = self._new_session()
        credentials = self._session.get_credentials()
        if credentials is None:
            raise botocore.exceptions.NoCredentialsError
        key = credentials.get_frozen_credentials().access_key
        if self._client is None or key != self._key:
            self._client = cloudwatch_client(self._session, self._region)
            self._key = key
            self._user_id = None
        self._doubted = False
        return self._client


def _code(error: botocore.exceptions.ClientError) -> str | None:
    return error.response.get("Error", {}).get("Code")


def _kind_of_refusal(error: botocore.exceptions.ClientError) -> type[DeliveryError]:
    """Return the class of error for what CloudWatch answered."""
    code = _code(error)
    if code in _NEVER:
        return RefusedError
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code in _NOT_NOW or status == 429 or status >= 500:
        return UndeliveredError
    return UnforeseenError


def _timed(call: Call) -> list[dict[str, Any]]:
    """Return the datums of a call with their times as botocore takes them."""
    datums: list[dict[str, Any]] = []
    for datum in call.datums:
        moment = datetime.fromtimestamp(datum["Timestamp"], tz=timezone.utc)
        datums.append({**datum, "Timestamp": moment})
    return datums
