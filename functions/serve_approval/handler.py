"""Serves the approval page. GET and HEAD show it, POST decides once."""

from __future__ import annotations

from typing import Any

from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.web.requests import HttpRequest
from governor.web.responses import bad_request, to_lambda
from governor.web.site import ApprovalSite, Request
from governor.wiring import page
from governor.wiring.observability import count, logger, observed
from governor.wiring.parts import Parts


@observed(page.approval_site(Parts()))
def handler(event: dict[str, Any], context: Any, approval_site: ApprovalSite) -> dict[str, Any]:
    """Answer an HTTP API request (payload 2.0). Links, query and cookies are never logged."""
    http = parse(HttpRequest, event)
    approval_id = http.path_parameters.get("approval_id", "")
    link = http.path_parameters.get("link", "")
    try:
        query = http.query()
        form = http.form() if http.method == "POST" else {}
        request = Request(
            method=http.method,
            approval_id=approval_id,
            query=query,
            form=form,
            headers=http.headers,
            cookies=http.cookie_values(),
            link=link,
        )
    except InputError as error:
        response = bad_request(str(error))
    else:
        response = approval_site.handle(request)
    if response.note:
        page_id = approval_id or link.partition(".")[0]
        logger.warning(response.note, extra={"approval_id": page_id})
        count("ApprovalProblems")
    logger.info("answered", extra={"method": http.method, "status": response.status})
    count("ApprovalRequests", Method=http.method, Status=str(response.status))
    return to_lambda(response)
