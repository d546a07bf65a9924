"""Translates what botocore raises into the project's tree: once, chained, to the most specific class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    MetadataRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NetworkError
from botocore.parsers import ResponseParserError

from governor.errors import (
    AccessDenied,
    CloudError,
    ConflictError,
    GovernorError,
    NoCapacity,
    NotFound,
    Protected,
    Throttled,
    Unavailable,
    Unsupported,
    WrongState,
)

DRY_RUN_OK = "DryRunOperation"
"""The error code by which EC2 says that a dry run would have succeeded."""

_CODES: dict[type[CloudError], str] = {
    Throttled: """
        Throttling ThrottlingException ThrottledException TooManyRequestsException SlowDown
        RequestLimitExceeded RequestThrottled RequestThrottledException PriorRequestNotComplete
        LimitExceeded LimitExceededException ExecutionLimitExceeded ProvisionedThroughputExceededException
        TransactionInProgressException TransactionConflictException EC2ThrottledException
        SnapshotCreationPerVolumeRateExceeded ConcurrentSnapshotLimitExceeded PendingSnapshotLimitExceeded
        KMSThrottling KMSThrottlingException
    """,
    Unavailable: """
        InternalError InternalFailure InternalServerError InternalServiceError InternalServiceException
        ServiceUnavailable ServiceUnavailableException Unavailable RequestTimeout RequestTimeoutException
    """,
    AccessDenied: """
        UnauthorizedOperation AccessDenied AccessDeniedException AuthorizationError AuthFailure
        ExpiredToken ExpiredTokenException UnrecognizedClientException InvalidClientTokenId
        SignatureDoesNotMatch OptInRequired KMSAccessDenied KMSAccessDeniedException
    """,
    NoCapacity: """
        InsufficientInstanceCapacity InsufficientHostCapacity InsufficientReservedInstanceCapacity
        InsufficientCapacityOnHost ReservationCapacityExceeded
    """,
    Protected: "OperationNotPermitted OperationNotPermittedException",
    Unsupported: "UnsupportedOperation UnsupportedOperationException Unsupported",
    WrongState: "IncorrectInstanceState IncorrectState IncorrectSpotRequestState InvalidState",
    NotFound: """
        ResourceNotFoundException ResourceNotFound NotFoundException NotFound ParameterNotFound
        ExecutionDoesNotExist StateMachineDoesNotExist TaskDoesNotExist
    """,
}
"""The codes that AWS answers with, by what they mean here."""
_BY_CODE = {code: kind for kind, codes in _CODES.items() for code in codes.split()}


_NETWORK = (
    NetworkError,
    HTTPClientError,
    IncompleteReadError,
    ResponseParserError,
    CredentialRetrievalError,
    MetadataRetrievalError,
)
"""botocore's errors when the network, or what answers in between, failed."""


def translate(error: ClientError, operation: str) -> GovernorError:
    details = error.response.get("Error", {})
    code, message = str(details.get("Code", "")), details.get("Message", "")
    text = f"{operation} failed: {code}: {message}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if code == "ConditionalCheckFailedException":
        return ConflictError(text)
    if code == "TransactionCanceledException":
        return _translate_transaction(error, operation, text)
    found = _BY_CODE.get(code)
    if found is None and code.startswith("Invalid") and code.endswith((".NotFound", ".Unknown")):
        found = NotFound
    if found is None and status >= 500:
        found = Unavailable
    if found is None and status == 429:
        found = Throttled
    return (found or CloudError)(text, operation=operation, code=code)


def _translate_transaction(error: ClientError, operation: str, text: str) -> GovernorError:
    """A cancelled transaction: lost by its conditions, or in conflict with another one and worth a retry."""
    reasons = error.response.get("CancellationReasons") or []
    codes = {reason.get("Code") for reason in reasons}
    if "ConditionalCheckFailed" in codes or "ConditionalCheckFailed" in str(error):
        return ConflictError(text)
    busy = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
    kind = Throttled if codes & busy else CloudError
    return kind(text, operation=operation, code="TransactionCanceledException")


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """Wrap one AWS call, `service:Operation`. Raises: GovernorError in place of botocore's errors."""
    try:
        yield
    except ClientError as error:
        raise translate(error, operation) from error
    except (BotoCoreError, ResponseParserError) as error:
        raise _kind_without_answer(error)(f"{operation} failed: {error}", operation=operation) from error


def _kind_without_answer(error: Exception) -> type[CloudError]:
    """What it means that no answer came. Wrong parameters are a plain CloudError: repeating never helps."""
    if isinstance(error, _NETWORK):
        return Unavailable
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return AccessDenied
    return CloudError
