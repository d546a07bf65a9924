"""Commands about an endpoint of SageMaker, for people to copy into a shell."""

from __future__ import annotations

from shlex import join

from governor.scan.kinds.sagemaker_endpoint.list import Endpoint
from governor.scan.model import Finding, Judgment

_LOOK_AT = (Finding.NOT_MEASURED, Finding.LIKELY_IDLE)


def command_for(endpoint: Endpoint, judgment: Judgment) -> str:
    """Return the command that deletes an unused endpoint, or that shows one that is not measured;
    empty for any other. Its configuration stays, so that it can be created again."""
    operation = ""
    if judgment.finding is Finding.UNUSED:
        operation = "delete-endpoint"
    elif judgment.finding in _LOOK_AT:
        operation = "describe-endpoint"
    if not operation:
        return ""
    where = ("--region", endpoint.target.region)
    return join(("aws", "sagemaker", operation, *where, "--endpoint-name", endpoint.resource_id))
