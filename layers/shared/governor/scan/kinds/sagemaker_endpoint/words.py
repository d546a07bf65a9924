"""Commands about an endpoint of SageMaker, for people to copy into a shell."""

from __future__ import annotations

from governor.scan.kinds.commands import aws_command
from governor.scan.kinds.sagemaker_endpoint.list import Endpoint
from governor.scan.model import Finding, Judgment


def command_for(endpoint: Endpoint, judgment: Judgment) -> str:
    """Return the command that deletes an unused endpoint, or that shows one that is likely idle or
    not measured; an empty text for any other finding. The configuration of a deleted endpoint
    stays, so that it can be created again."""
    if judgment.finding is Finding.UNUSED:
        operation = "delete-endpoint"
    elif judgment.finding in (Finding.LIKELY_IDLE, Finding.NOT_MEASURED):
        operation = "describe-endpoint"
    else:
        return ""
    return aws_command(endpoint.target, "sagemaker", operation, endpoint_name=endpoint.resource_id)
