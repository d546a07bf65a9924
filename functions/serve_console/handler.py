"""Serves the console: pages of the fleet for people who have signed in, and what their forms do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from governor.console.app import Console, Request, failed
from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.core.units import sentence
from governor.web.requests import HttpRequest
from governor.web.responses import to_lambda
from governor.wiring import console
from governor.wiring.observability import count, logger, observed
from governor.wiring.parts import Parts


@observed(console.console(Parts()))
def handler(event: dict[str, Any], context: Any, site: Console) -> dict[str, Any]:
    """Answer an HTTP API request (payload 2.0). Paths, queries, codes and cookies are never
    logged."""
    http = parse(HttpRequest, event)
    bare = Request(http.method, http.path, {}, {}, http.headers, {})
    try:
        form = http.form() if http.method == "POST" else {}
        request = replace(bare, query=http.query(), form=form, cookies=http.cookie_values())
    except InputError as error:
        page = failed(bare, 400, "The request could not be read", sentence(str(error)))
        response = to_lambda(page)
    else:
        response = site.handle(event, context, request)
    status = response["statusCode"]
    logger.info("answered", extra={"method": http.method, "status": status})
    count("ConsoleRequests", Method=http.method, Status=str(status))
    return response
