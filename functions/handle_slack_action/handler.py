"""Takes what Slack sends when somebody presses a button of a message."""

from __future__ import annotations

from typing import Any

from governor import bootstrap
from governor.contracts.http import parse_request
from governor.errors import InputError
from governor.observability import count, logger, observed


@observed
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """An HTTP API request (payload 2.0) to a response without a body. Bodies are never logged."""
    http = parse_request(event)
    headers = {key.lower(): value for key, value in http.headers.items()}
    try:
        body = http.raw_body()
    except InputError as error:
        logger.warning(str(error))
        return {"statusCode": 400}
    reply = bootstrap.slack_actions().handle(headers, body)
    if reply.note:
        logger.warning(reply.note)
    count("SlackAnswers", Status=str(reply.status))
    return {"statusCode": reply.status}
