"""The console: pages of the fleet for people who have signed in, and what their forms do."""

from __future__ import annotations

from typing import Any

from governor.console.app import Console, Request
from governor.contracts.http import HttpRequest
from governor.contracts.parsing import parse
from governor.errors import InputError
from governor.observability import count, logger, observed
from governor.web.responses import bad_request, to_lambda
from governor.wiring import console
from governor.wiring.parts import Parts


@observed(console.console(Parts()))
def handler(event: dict[str, Any], context: Any, site: Console) -> dict[str, Any]:
    """An HTTP API request (payload 2.0) to a response. Paths, queries, codes and cookies are never logged."""
    http = parse(HttpRequest, event)
    try:
        request = Request(
            method=http.method,
            path=http.path,
            query=http.query(),
            form=http.form() if http.method == "POST" else {},
            headers=http.headers,
            cookies=http.cookie_values(),
        )
    except InputError as error:
        answered = to_lambda(bad_request(str(error)))
    else:
        answered = site.handle(event, context, request)
    logger.info("answered", extra={"method": http.method, "status": answered["statusCode"]})
    count("ConsoleRequests", Method=http.method, Status=str(answered["statusCode"]))
    return answered
