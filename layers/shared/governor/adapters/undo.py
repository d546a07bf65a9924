"""Asks the one function that may start instances, and waits for its answer."""

from __future__ import annotations

import json

from governor.adapters.clients import Clients
from governor.adapters.errors import aws_errors
from governor.adapters.stepfunctions import episode_input
from governor.domain.episode.episode import EpisodeRef
from governor.errors import Unavailable
from governor.ports import UndoAnswer


class LambdaUndoer:
    """The port `Undoer`."""

    def __init__(self, clients: Clients, function_name: str) -> None:
        self._clients = clients
        self._function_name = function_name

    def undo(self, ref: EpisodeRef, by: str, channel: str) -> UndoAnswer:
        event = {"episode": episode_input(ref), "by": by, "channel": channel}
        with aws_errors("lambda:InvokeFunction"):
            answer = self._clients.client("lambda", repeat=False).invoke(
                FunctionName=self._function_name, Payload=json.dumps(event).encode()
            )
            body = json.loads(answer["Payload"].read())
        if answer.get("FunctionError"):
            what = body.get("errorType", "error") if isinstance(body, dict) else "error"
            raise Unavailable(f"the instance could not be started: {what}", operation="lambda:InvokeFunction")
        return UndoAnswer(bool(body["done"]), str(body["text"]))
