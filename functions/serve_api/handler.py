"""Serves the questions and the policy in force as JSON, for the command line. API Gateway lets
through only what AWS's IAM has authorized."""

from __future__ import annotations

import json
from typing import Any

from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.web.api import ApiRequest, ApiResponse, ApprovalApi
from governor.web.requests import HttpRequest
from governor.wiring import api
from governor.wiring.basics import Ready
from governor.wiring.observability import count, logger, observed
from governor.wiring.parts import Parts


@observed(api.approval_api(Parts()))
def handler(
    event: dict[str, Any], context: Any, approval_api: Ready[ApprovalApi]
) -> dict[str, Any]:
    """Answer an HTTP API request (payload 2.0) with JSON."""
    http = parse(HttpRequest, event)
    try:
        caller = http.caller()
        document = http.json_object() if http.method == "POST" else {}
        request = ApiRequest(
            route=http.route_key,
            caller=caller,
            named="".join(http.path_parameters.values()),
            document=document,
        )
    except InputError as error:
        response = ApiResponse(400, {"error": str(error)})
    else:
        response = approval_api().handle(request)
        logger.info("answered", extra={"caller": request.caller, "status": response.status})
    count("ApiRequests", Method=http.method, Status=str(response.status))
    return {
        "statusCode": response.status,
        "headers": {"Content-Type": "application/json", "Cache-Control": "no-store"},
        "body": json.dumps(response.document),
    }
