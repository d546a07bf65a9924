"""Serves the sign-in at the OIDC issuer, in front of decisions. Deployed only where an issuer is
configured."""

from __future__ import annotations

from typing import Any

from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.web.requests import HttpRequest
from governor.web.responses import bad_request, to_lambda
from governor.web.sign_in import SignInSite
from governor.wiring import sign_in
from governor.wiring.observability import count, logger, observed
from governor.wiring.parts import Parts


@observed(sign_in.sign_in_site(Parts()))
def handler(event: dict[str, Any], context: Any, sign_in_site: SignInSite) -> dict[str, Any]:
    """Answer an HTTP API request (payload 2.0). Codes, states, links and cookies are never
    logged."""
    http = parse(HttpRequest, event)
    is_begin = http.route_key == "GET /sign-in"
    try:
        query = http.query()
    except InputError as error:
        response = bad_request(str(error))
    else:
        if is_begin:
            response = sign_in_site.begin(query)
        else:
            response = sign_in_site.finish(query, http.cookie_values())
    if response.note:
        logger.warning(response.note)
        count("SignInProblems")
    logger.info("answered", extra={"begins": is_begin, "status": response.status})
    count("SignInRequests", Status=str(response.status))
    return to_lambda(response)
