"""EC2's answers to a start, as botocore raises them and the adapter translates them."""

from __future__ import annotations

from botocore.exceptions import ClientError

from governor.aws.call_errors import translate
from governor.core.errors import CloudError

WORDS = "EC2's own words"


def start_error(code: str, status: int = 400, message: str = WORDS) -> CloudError:
    """The error of our tree for this answer of EC2."""
    answer = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    error = translate(ClientError(answer, "StartInstances"), "ec2:StartInstances")  # type: ignore[arg-type]
    assert isinstance(error, CloudError)
    return error
