"""Signing in at the OIDC issuer, in front of decisions. Deployed only where an issuer is configured."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.http import parse_request
from governor.errors import InputError
from governor.observability import count, logger, observed
from governor.web.responses import bad_request, to_lambda


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An HTTP API request (payload 2.0) to a response. Codes, states, links and cookies are never logged."""
    http = parse_request(event)
    begins = http.route_key == "GET /sign-in"
    try:
        query = http.query()
    except InputError as error:
        response = bad_request(str(error))
    else:
        site = bootstrap.sign_in_site()
        response = site.begin(query) if begins else site.finish(query, http.cookie_values())
    if response.note:
        logger.warning(response.note)
        count("SignInProblems")
    logger.info("answered", extra={"begins": begins, "status": response.status})
    count("SignInRequests", Status=str(response.status))
    return to_lambda(response)
