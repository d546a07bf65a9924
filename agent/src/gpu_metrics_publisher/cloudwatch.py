"""The only code that knows botocore: sends one call and says whether it may be tried again.

botocore looks for credentials once, when a client is made. A role can be attached to a running
instance, or another in its place, so a client is made when there are credentials, and anew when
there are others.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, Callable

import botocore.exceptions
import botocore.session
from botocore.config import Config

from gpu_metrics_publisher.errors import RefusedError, UndeliveredError, UnforeseenError
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
"""Error codes that tell a call itself is wrong. Whatever else is refused may be taken later: a role
can be attached, a permission given, a clock set, a limit raised."""


_WHO = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
    }
)
"""Error codes that tell the credentials are wrong, or may too little: others may be there by
now."""
_NOT_NOW = _WHO | {
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
"""Error codes that every call would get now: no use to try the next one."""

_METADATA_DEFAULTS = {
    # One try of one second, as by default, takes a metadata service that is slow once for one
    # without a role.
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
"""Other defaults for botocore's settings, with its names for them: where in the configuration file,
which variable, which value, which type."""


def machine_session() -> botocore.session.Session:
    """A session that looks for credentials, endpoints and proxies as every AWS tool does."""
    return botocore.session.Session(_METADATA_DEFAULTS)


def cloudwatch_client(session: botocore.session.Session, region: str) -> Any:
    """A client with the session's credentials.

    Short timeouts, few tries: what fails is kept and tried again a minute later. Bodies over 1 KiB
    go compressed.
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

    `new_session` gives a session that has looked for nothing yet.
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
        """`aws:userid` of the client's credentials, once a call has needed it."""
        self._new_session = new_session
        self._client: Any | None = None
        self._session: Any = None
        self._key: str | None = None
        """The access key of the client's credentials."""
        self._doubted = False
        """True while CloudWatch does not accept the client's credentials. Those that expire it
        renews itself."""

    def send(self, call: Call) -> None:
        """Sends one call.

        Raises:
            UndeliveredError: not taken now; it may be later. A subclass says where only this call
                may be it.
            RefusedError: never to be taken.
        """
        try:
            client = self._connected()
            client.put_metric_data(Namespace=self._namespace(call), MetricData=_timed(call))
        except botocore.exceptions.ParamValidationError as error:
            raise RefusedError(
                f"PutMetricData to {call.namespace} is malformed: {error}"
            ) from error
        except botocore.exceptions.ClientError as error:
            text = f"PutMetricData to {call.namespace}: {error}"
            code = error.response.get("Error", {}).get("Code")
            self._doubted = code in _WHO
            if code in _NEVER:
                raise RefusedError(text) from error
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
            if code in _NOT_NOW or status == 429 or status >= 500:
                raise UndeliveredError(text) from error
            raise UnforeseenError(text) from error
        except _NO_CREDENTIALS as error:
            raise UndeliveredError(
                f"PutMetricData to {call.namespace}: {error}. Attach a role that allows it to the "
                "instance; it is found without a restart."
            ) from error
        except (botocore.exceptions.BotoCoreError, botocore.exceptions.HTTPClientError) as error:
            raise UndeliveredError(f"PutMetricData to {call.namespace}: {error}") from error

    def _namespace(self, call: Call) -> str:
        """The namespace; one that ends in a slash belongs to this role on this instance alone.

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
        """The client, after a look for credentials where those it has are in doubt.

        A client costs a hundred times what the look does: it is made only when the look finds other
        ones.
        """
        if self._client is None or self._doubted:
            session = self._session = self._new_session()
            found = session.get_credentials()
            if found is None:
                raise botocore.exceptions.NoCredentialsError
            key = found.get_frozen_credentials().access_key
            if self._client is None or key != self._key:
                self._client, self._key = cloudwatch_client(session, self._region), key
                self._user_id = None
            self._doubted = False
        return self._client


def _timed(call: Call) -> list[dict[str, Any]]:
    return [
        {**datum, "Timestamp": datetime.fromtimestamp(datum["Timestamp"], tz=timezone.utc)}
        for datum in call.datums
    ]
