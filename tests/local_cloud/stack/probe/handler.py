"""A function that does what its event says: answer, fail, hand on a token, or echo an HTTP
request."""

from __future__ import annotations

import json
import os
import time
from typing import Any

_calls = 0


class Throttled(Exception):
    """An error of the function's own."""


class Broken(Exception):
    """Another one."""


def handler(event: dict[str, Any], context: object) -> Any:
    """`{"do": ...}` with one of the cases below, an HTTP API event, or a batch."""
    del context
    if "Records" in event:
        _tell({"together": len(event["Records"])})
        return {"batchItemFailures": []}
    if "requestContext" in event:
        return _http(event)
    match event.get("do"):
        case "describe-yourself":
            return _describe(event)
        case "die":
            os._exit(3)
        case "fail":
            raise {"Throttled": Throttled, "Broken": Broken}[event["error"]](
                event.get("say", "as asked")
            )
        case "tell":
            _tell({**event, "process": os.getpid()})
            time.sleep(event.get("rest", 0))
        case "tell-then-fail":
            _tell(event)
            time.sleep(event.get("after", 0))
            raise Throttled("after telling")
        case "long":
            return {"text": "x" * int(event["characters"])}
    return {"seen": event}


def _describe(event: dict[str, Any]) -> dict[str, Any]:
    """This process: how often it was called, and the environment it was started in."""
    global _calls
    _calls += 1
    time.sleep(event.get("rest", 0))
    return {
        "process": os.getpid(),
        "parent": os.getppid(),
        "calls": _calls,
        "environment": dict(os.environ),
    }


def _tell(event: dict[str, Any]) -> None:
    import boto3

    boto3.client("sqs").send_message(QueueUrl=os.environ["MAILBOX"], MessageBody=json.dumps(event))


def _http(event: dict[str, Any]) -> dict[str, Any]:
    return {
        "statusCode": 202,
        "headers": {"content-type": "application/json", "x-probe": "yes"},
        "cookies": ["a=1; HttpOnly", "b=2"],
        "body": json.dumps(event),
    }
