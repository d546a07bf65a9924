"""AWS clients, created on first use: a cold start pays only for what the function uses.

They are those of botocore, which boto3 gives out too: loading its resources and transfers would cost a cold
start 50 ms for nothing. The endpoint and the credentials come from the environment, as for any AWS program.
This module must not know what the clients are used for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore import xform_name
from botocore.config import Config
from botocore.credentials import DeferredRefreshableCredentials

from governor.adapters.errors import aws_errors
from governor.domain.instance import Target

_SESSION_NAME = "gpu-governor"
_SESSION_SECONDS = 3600
"""Role chaining allows one hour at most."""
_ATTEMPTS = 5
_HASTY_ATTEMPTS = 2


class Clients:
    """Clients by service and target; `region` is the stack's own. Safe to use from several threads."""

    def __init__(self, region: str | None = None) -> None:
        self._region = region
        self._lock = threading.Lock()
        self._clients: dict[tuple[str, str | None, str | None, bool, bool], Any] = {}
        self._sessions: dict[str | None, Any] = {}

    def client(
        self, service: str, target: Target | None = None, *, repeat: bool = True, patient: bool = True
    ) -> Any:
        """The client of a service, in the target's Region and with its role; else the function's own.

        Without `repeat` a call is sent once: for operations that would happen twice when a response is lost.
        Without `patient` it gives up within seconds: for what is worth nothing later.
        """
        region = target.region if target else self._region
        role = target.role_arn if target else None
        key = (service, region, role, repeat, patient)
        with self._lock:
            if key not in self._clients:
                self._clients[key] = self._session(role).create_client(
                    service, region_name=region, config=_config(repeat, patient)
                )
            return self._clients[key]

    def _session(self, role_arn: str | None) -> Any:
        if role_arn not in self._sessions:
            session = botocore.session.get_session()
            if role_arn is not None:
                session._credentials = self._assumed(role_arn)  # type: ignore[attr-defined]
            self._sessions[role_arn] = session
        return self._sessions[role_arn]

    def _assumed(self, role_arn: str) -> Any:
        """Credentials of a role, renewed before they end, as botocore renews its own."""
        sts = self._session(None).create_client("sts", config=_config(repeat=True))

        def refresh() -> dict[str, str]:
            lasts = {"RoleSessionName": _SESSION_NAME, "DurationSeconds": _SESSION_SECONDS}
            answer = call("sts:AssumeRole", sts, RoleArn=role_arn, **lasts)["Credentials"]
            return {
                "access_key": answer["AccessKeyId"],
                "secret_key": answer["SecretAccessKey"],
                "token": answer["SessionToken"],
                "expiry_time": answer["Expiration"].isoformat(),
            }

        return DeferredRefreshableCredentials(refresh_using=refresh, method="sts-assume-role")


class Adapter:
    """A port over these clients. `resource` is the name, ARN or URL of the one resource it works with."""

    def __init__(self, clients: Clients, resource: str = "") -> None:
        self._clients = clients
        self._resource = resource


def call(operation: str, client: Any, **parameters: Any) -> Any:
    """Call an operation of a client; `operation` is `service:Operation`. Raises: as `aws_errors`."""
    with aws_errors(operation):
        return getattr(client, xform_name(operation.partition(":")[2]))(**parameters)


def pages(operation: str, client: Any, *, following: str = "NextToken", **parameters: Any) -> Iterator[Any]:
    """All pages of a call; the field `following` leads to the next one.

    botocore's own paginators would read one more model file at every cold start.
    """
    while True:
        page = call(operation, client, **parameters)
        yield page
        if not page.get(following):
            return
        parameters[following] = page[following]


def _config(repeat: bool, patient: bool = True) -> Config:
    attempts = _ATTEMPTS if patient else _HASTY_ATTEMPTS
    return Config(
        retries={"mode": "standard", "total_max_attempts": attempts if repeat else 1},
        connect_timeout=5 if patient else 1,
        read_timeout=20 if patient else 3,
        max_pool_connections=16,
        user_agent_extra="gpu-governor",
    )
