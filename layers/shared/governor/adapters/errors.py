"""Translates what botocore raises into the project's tree: once, chained, to the most specific class."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions
from botocore.parsers import ResponseParserError

from governor import errors

DRY_RUN_OK = "DryRunOperation"
"""The error code by which EC2 says that a dry run would have succeeded."""

_CODES: dict[type[errors.CloudError], str] = {
    errors.Throttled: """
        Throttling ThrottlingException ThrottledException TooManyRequestsException SlowDown
        RequestLimitExceeded RequestThrottled RequestThrottledException PriorRequestNotComplete
        LimitExceeded LimitExceededException ExecutionLimitExceeded ProvisionedThroughputExceededException
        TransactionInProgressException TransactionConflictException EC2ThrottledException
        SnapshotCreationPerVolumeRateExceeded ConcurrentSnapshotLimitExceeded PendingSnapshotLimitExceeded
        KMSThrottling KMSThrottlingException
    """,
    errors.Unavailable: """
        InternalError InternalFailure InternalServerError InternalServiceError InternalServiceException
        ServiceUnavailable ServiceUnavailableException Unavailable RequestTimeout RequestTimeoutException
        ConditionalRequestConflict
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
    errors.Protected: "OperationNotPermitted OperationNotPermittedException",
    errors.Unsupported: "UnsupportedOperation UnsupportedOperationException Unsupported",
    errors.WrongState: "IncorrectInstanceState IncorrectState IncorrectSpotRequestState InvalidState",
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
"""What it means that botocore got no answer: the network failed, or there are no credentials."""


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


def _translate_transaction(error: exceptions.ClientError, operation: str, text: str) -> errors.GovernorError:
    """A cancelled transaction: lost by its conditions, or in conflict with another one and worth a retry."""
    reasons = error.response.get("CancellationReasons") or []
    codes = {reason.get("Code") for reason in reasons}
    if "ConditionalCheckFailed" in codes or "ConditionalCheckFailed" in str(error):
        return errors.ConflictError(text)
    busy = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
    kind = errors.Throttled if codes & busy else errors.CloudError
    return kind(text, operation=operation, code="TransactionCanceledException")


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """Wrap one AWS call, `service:Operation`. Raises: GovernorError in place of botocore's errors."""
    try:
        yield
    except exceptions.ClientError as error:
        raise translate(error, operation) from error
    except (exceptions.BotoCoreError, ResponseParserError) as error:
        # Wrong parameters are a plain CloudError: repeating never helps.
        kinds = (one for reasons, one in _WITHOUT_ANSWER.items() if isinstance(error, reasons))
        kind = next(kinds, errors.CloudError)
        raise kind(f"{operation} failed: {error}", operation=operation) from error
