"""The translation of boto3's errors."""

from __future__ import annotations

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from governor.aws.call_errors import aws_errors
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConflictError,
    GovernorError,
    NotFound,
    Protected,
    Throttled,
    Unavailable,
    Unsupported,
    WrongState,
)
from tests.unit.aws.fakes import client_error


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [
        ("Throttling", 400, Throttled),
        ("ThrottlingException", 400, Throttled),
        ("RequestLimitExceeded", 503, Throttled),
        ("TooManyRequestsException", 429, Throttled),
        ("SnapshotCreationPerVolumeRateExceeded", 400, Throttled),
        ("ConcurrentSnapshotLimitExceeded", 400, Throttled),
        ("ProvisionedThroughputExceededException", 400, Throttled),
        ("TransactionConflictException", 400, Throttled),
        ("SomethingNew", 429, Throttled),
        ("InternalError", 500, Unavailable),
        ("ServiceUnavailable", 503, Unavailable),
        ("SomethingNew", 502, Unavailable),
        ("UnauthorizedOperation", 403, AccessDenied),
        ("AccessDenied", 403, AccessDenied),
        ("AccessDeniedException", 400, AccessDenied),
        ("ExpiredTokenException", 400, AccessDenied),
        ("OperationNotPermitted", 400, Protected),
        ("UnsupportedOperation", 400, Unsupported),
        ("IncorrectInstanceState", 400, WrongState),
        ("IncorrectState", 400, WrongState),
        ("InvalidInstanceID.NotFound", 400, NotFound),
        ("InvalidSpotInstanceRequestID.NotFound", 400, NotFound),
        ("InvalidSnapshot.NotFound", 400, NotFound),
        ("ResourceNotFoundException", 400, NotFound),
        ("ParameterNotFound", 400, NotFound),
        ("ExecutionDoesNotExist", 400, NotFound),
        ("InvalidArgument", 400, CloudError),
        ("InvalidInstanceID.Malformed", 400, CloudError),
        ("ValidationException", 400, CloudError),
    ],
)
def test_a_code_becomes_its_most_specific_class(
    code: str, status: int, kind: type[CloudError]
) -> None:
    """Exactly this class, with operation and code for the reader, chained to the original."""
    original = client_error(code, "told why", status)

    with pytest.raises(CloudError) as caught, aws_errors("ec2:StopInstances"):
        raise original

    assert kind is type(caught.value)
    assert ("ec2:StopInstances", code) == (caught.value.operation, caught.value.code)
    assert "told why" in str(caught.value)
    assert original is caught.value.__cause__


def test_a_lost_condition_is_a_conflict() -> None:
    """Somebody else was there first."""
    with pytest.raises(ConflictError), aws_errors("dynamodb:PutItem"):
        raise client_error("ConditionalCheckFailedException")


@pytest.mark.parametrize(
    ("reasons", "kind"),
    [
        (["None", "ConditionalCheckFailed"], ConflictError),
        (["TransactionConflict", "ConditionalCheckFailed"], ConflictError),
        (["TransactionConflict", "None"], Throttled),
        (["ThrottlingError"], Throttled),
        (["ProvisionedThroughputExceeded"], Throttled),
        (["ValidationError"], CloudError),
    ],
)
def test_a_cancelled_transaction_is_read_by_its_reasons(
    reasons: list[str], kind: type[GovernorError]
) -> None:
    """A failed condition is final; a conflict with another transaction is worth another try."""
    error = client_error(
        "TransactionCanceledException", CancellationReasons=[{"Code": reason} for reason in reasons]
    )
    with pytest.raises(GovernorError) as caught, aws_errors("dynamodb:TransactWriteItems"):
        raise error
    assert kind is type(caught.value)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EndpointConnectionError(endpoint_url="https://ec2"), Unavailable),
        (ConnectTimeoutError(endpoint_url="https://ec2"), Unavailable),
        (ReadTimeoutError(endpoint_url="https://ec2"), Unavailable),
        (NoCredentialsError(), AccessDenied),
        (ParamValidationError(report="InstanceIds: wrong"), CloudError),
    ],
)
def test_a_call_without_an_answer(error: BotoCoreError, kind: type[CloudError]) -> None:
    """The network may recover; a wrong parameter never does, so it must not be repeated as
    unavailable."""
    with pytest.raises(CloudError) as caught, aws_errors("ec2:StopInstances"):
        raise error
    assert kind is type(caught.value)
    assert error is caught.value.__cause__


def test_what_is_not_aws_passes_through() -> None:
    """A bug of ours is not dressed up as a cloud error, and an error of the tree stays what it
    is."""
    with pytest.raises(ZeroDivisionError), aws_errors("ec2:StopInstances"):
        raise ZeroDivisionError
    with pytest.raises(Protected), aws_errors("ec2:StopInstances"):
        raise Protected("no")
