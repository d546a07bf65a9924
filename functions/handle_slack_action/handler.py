"""Handles the press of a button in a Slack message."""

from __future__ import annotations

from typing import Any

from governor.core.errors import InputError
from governor.core.parsing import parse
from governor.notify.slack_actions import SlackActions
from governor.web.requests import HttpRequest
from governor.wiring import slack
from governor.wiring.basics import Ready
from governor.wiring.observability import count, logger, observed
from governor.wiring.parts import Parts


@observed(slack.slack_actions(Parts()))
def handler(
    event: dict[str, Any], context: Any, slack_actions: Ready[SlackActions]
) -> dict[str, Any]:
    """Answer an HTTP API request (payload 2.0) without a body. Bodies are never logged."""
    http = parse(HttpRequest, event)
    try:
        body = http.raw_body()
    except InputError as error:
        logger.warning(str(error))
        return {"statusCode": 400}
    reply = slack_actions().handle(http.headers, body)
    if reply.note:
        logger.warning(reply.note)
    count("SlackAnswers", Status=str(reply.status))
    return {"statusCode": reply.status}
