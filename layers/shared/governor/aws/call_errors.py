"""Turns botocore's errors, such as throttling and denied access, into errors of our own tree.

This module calls nothing. Callers handle a `CloudError` by its class, or by the `code` of AWS.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from botocore import exceptions
from botocore.parsers import ResponseParserError

from governor.core import errors

DRY_RUN_OK = "DryRunOperation"
"""EC2's error code for a dry run that would have succeeded."""

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
"""The errors of botocore for a call without an answer: the network failed, or there are no
credentials, or they could not be fetched."""


def is_throttled(code: str) -> bool:
    """Return whether AWS's code of an error says that there were too many calls."""
    return _BY_CODE.get(code) is errors.Throttled


def translate(error: exceptions.ClientError, operation: str) -> errors.GovernorError:
    """Return the error to raise in place of an error that AWS answered: ConflictError for a failed
    condition of DynamoDB, alone or in a transaction; else a CloudError of the class that fits its
    code or, for an unknown code, its HTTP status."""
    details = error.response.get("Error", {})
    code = str(details.get("Code", ""))
    words = str(details.get("Message", ""))
    text = f"{operation} failed: {code}: {words}"
    if code == "ConditionalCheckFailedException":
        return errors.ConflictError(text)
    if code == "TransactionCanceledException":
        return _translate_transaction(error, operation, text)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = _kind_of_answer(code, status)
    return kind(text, operation=operation, code=code, words=words)


def _kind_of_answer(code: str, status: int) -> type[errors.CloudError]:
    """Return the class of error for a code of AWS or, if the code is not known, for the HTTP
    status."""
    if code in _BY_CODE:
        return _BY_CODE[code]
    if code.startswith("Invalid") and code.endswith((".NotFound", ".Unknown")):
        return errors.NotFound
    if status >= 500:
        return errors.Unavailable
    if status == 429:
        return errors.Throttled
    return errors.CloudError


def _kind_without_answer(error: Exception) -> type[errors.CloudError]:
    """Return the class of error for an error of botocore itself: Unavailable if the network failed
    or credentials could not be fetched, AccessDenied if there are none, else CloudError, for which
    a repeat never helps."""
    for botocore_errors, kind in _WITHOUT_ANSWER.items():
        if isinstance(error, botocore_errors):
            return kind
    return errors.CloudError


def _translate_transaction(
    error: exceptions.ClientError, operation: str, text: str
) -> errors.GovernorError:
    """Return the error for a canceled transaction of DynamoDB: ConflictError if a condition failed;
    Throttled if it met another transaction, so that a retry may succeed; else CloudError."""
    reasons = error.response.get("CancellationReasons") or []
    codes = {reason.get("Code") for reason in reasons}
    if "ConditionalCheckFailed" in codes or "ConditionalCheckFailed" in str(error):
        return errors.ConflictError(text)
    busy = {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
    kind = errors.Throttled if codes & busy else errors.CloudError
    return kind(text, operation=operation, code="TransactionCanceledException")


@contextmanager
def aws_errors(operation: str) -> Iterator[None]:
    """Wrap one AWS call, `service:Operation`.

    Raises: CloudError in place of botocore's errors, among them Unavailable if no clear answer
    came, so that the call may have had its effect; ConflictError if a condition of DynamoDB failed.
    """
    try:
        yield
    except exceptions.ClientError as error:
        raise translate(error, operation) from error
    except (exceptions.BotoCoreError, ResponseParserError) as error:
        kind = _kind_without_answer(error)
        raise kind(f"{operation} failed: {error}", operation=operation) from error
