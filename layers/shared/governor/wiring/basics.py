"""Parts of functions, made at cold start. A keyword argument puts another part in the place of one.

Each function makes only what its use case asks for, so that none opens a client that it has no
right to use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from governor.adapters.clients import Clients
from governor.adapters.secrets import SecretDocument
from governor.contracts.settings import Settings, parse_settings
from governor.domain.approvals.links import LinkSigner
from governor.domain.instance import Target
from governor.domain.units import UtcDatetime
from governor.ports import Clock

Part = TypeVar("Part")
UseCase = TypeVar("UseCase")
Ready = Callable[[], UseCase]
"""Gives the use case of one invocation, which sees one policy."""


def over(adapter: Callable[..., Part], *settings: str, opens: str = "") -> cached_property[Part]:
    """Declare a part: an adapter over the clients, and settings it needs. Its making opens that
    client."""

    def make(parts: Basics) -> Part:
        needed = [parts.settings.need(setting) for setting in settings]
        if opens:
            parts.clients.client(opens)
        return adapter(parts.clients, *needed)

    return cached_property(make)


class SystemClock:
    @staticmethod
    def now() -> UtcDatetime:
        return datetime.now(tz=UTC)


class Basics:
    """The parts of every function. Raises: ConfigurationError, which names the variable that a part
    lacks."""

    clock: Clock = SystemClock()
    link_keys = over(SecretDocument, "link_key_secret_arn", opens="secretsmanager")
    signer = cached_property(
        lambda its: LinkSigner(its.link_keys.read, its.settings.approval_base_url or None)
    )
    channel_secret = over(SecretDocument, "channel_secret_arn", opens="secretsmanager")
    client_secret = over(SecretDocument, "oidc_client_secret_arn", opens="secretsmanager")
    hub = cached_property(lambda its: Target(its.settings.hub_account_id, its.settings.aws_region))

    def __init__(
        self, settings: Settings | None = None, clients: Clients | None = None, **replaced: object
    ) -> None:
        self.settings = settings or parse_settings()
        self.clients = clients or Clients(self.settings.aws_region)
        if unknown := [name for name in replaced if not hasattr(type(self), name)]:
            raise TypeError(f"no such parts: {', '.join(unknown)}")
        # A cached property gives way to an attribute of its name.
        vars(self).update(replaced)

    def fill(self, kind: Callable[..., UseCase], policies: object = None, **given: Any) -> UseCase:
        """Make a use case: each field without default is given, a part of its name, or made
        likewise."""
        for field in fields(kind):  # type: ignore[arg-type]
            if field.name in given or field.default is not MISSING:
                continue
            if field.name == "policies" and policies is not None:
                given["policies"] = policies
            elif hasattr(type(self), field.name):
                given[field.name] = getattr(self, field.name)
            elif inner := vars(sys.modules[kind.__module__]).get(str(field.type)):
                given[field.name] = self.fill(inner, policies)
        return kind(**given)
