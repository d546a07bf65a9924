"""A client of one's own in place of boto3's, for answers that moto cannot give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from botocore.exceptions import ClientError

from governor.aws.clients import Clients
from governor.core.instance import Target


def client_error(code: str, message: str = "no", status: int = 400, **more: Any) -> ClientError:
    """Return what boto3 raises for an error answer."""
    response: Any = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **more,
    }
    return ClientError(response, "Operation")


class FakeClients(Clients):
    """Hands out one client for everything and notes what was asked for, each once."""

    def __init__(self, client: Any) -> None:
        super().__init__()
        self._fake = client
        self.asked: list[tuple[str, Target | None, bool]] = []
        self.long_timeout: list[bool] = []
        self.for_one_call: list[tuple[str, Target, str, str]] = []
        """Operation, target, role and resource of each client that was made for one call."""

    def client(
        self,
        service: str,
        target: Target | None = None,
        *,
        repeat: bool = True,
        long_timeout: bool = True,
    ) -> Any:
        """The fake."""
        wanted = (service, target, repeat)
        if (wanted, long_timeout) not in zip(self.asked, self.long_timeout, strict=True):
            self.asked.append(wanted)
            self.long_timeout.append(long_timeout)
        return self._fake

    def client_for_one_call(
        self, operation: str, target: Target, role_arn: str, resource: str
    ) -> Any:
        """The fake."""
        self.for_one_call.append((operation, target, role_arn, resource))
        return self._fake


class ScriptedClient:
    """Answers each call from a script: a value, an exception, or a function of the parameters."""

    def __init__(self, **answers: Any) -> None:
        self._answers = {
            name: list(given)
            if isinstance(given, Sequence) and not isinstance(given, str)
            else given
            for name, given in answers.items()
        }
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._answers:
            raise AttributeError(name)

        def call(**parameters: Any) -> Any:
            self.calls.append((name, parameters))
            given = self._answers[name]
            answer = given.pop(0) if isinstance(given, list) else given
            if callable(answer):
                answer = answer(**parameters)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call
