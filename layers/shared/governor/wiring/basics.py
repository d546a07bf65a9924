"""Parts of functions, made at cold start. Keyword arguments replace parts of their names.

Each function makes only the parts that its use case needs, so none opens a client that it has no
right to use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from governor.approvals.rules.links import LinkSigner
from governor.aws.clients import Clients
from governor.aws.secrets import SecretDocument
from governor.core.environment import Settings, parse_settings
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime

Part = TypeVar("Part")
UseCase = TypeVar("UseCase")
Ready = Callable[[], UseCase]
"""Returns the use case of one invocation, which sees one policy."""


def over(adapter: Callable[..., Part], *settings: str, opens: str = "") -> cached_property[Part]:
    """Declare a part: an adapter made of the clients and these settings. Making the part opens the
    client that `opens` names."""

    def make(parts: Basics) -> Part:
        values = [parts.settings.need(setting) for setting in settings]
        if opens:
            parts.clients.client(opens)
        return adapter(parts.clients, *values)

    return cached_property(make)


class SystemClock:
    @staticmethod
    def now() -> UtcDatetime:
        return datetime.now(tz=UTC)


class Basics:
    """The parts of every function.

    Raises: ConfigurationError, which names the environment variable that a part lacks.
    """

    clock: Clock = SystemClock()
    link_keys = over(SecretDocument, "link_key_secret_arn", opens="secretsmanager")
    signer = cached_property(
        lambda parts: LinkSigner(parts.link_keys.read, parts.settings.approval_base_url or None)
    )
    channel_secret = over(SecretDocument, "channel_secret_arn", opens="secretsmanager")
    client_secret = over(SecretDocument, "oidc_client_secret_arn", opens="secretsmanager")
    hub = cached_property(
        lambda parts: Target(parts.settings.hub_account_id, parts.settings.aws_region)
    )

    def __init__(
        self, settings: Settings | None = None, clients: Clients | None = None, **replaced: object
    ) -> None:
        self.settings = settings or parse_settings()
        self.clients = clients or Clients(self.settings.aws_region)
        unknown = [name for name in replaced if not hasattr(type(self), name)]
        if unknown:
            raise TypeError(f"no such parts: {', '.join(unknown)}")
        # A cached property gives way to an attribute of its name.
        vars(self).update(replaced)

    def fill(self, kind: Callable[..., UseCase], policies: object = None, **given: Any) -> UseCase:
        """Make a use case. Each field without a default gets the argument of its name, the part of
        its name, or an object of its type that is made in the same way."""
        for field in fields(kind):  # type: ignore[arg-type]
            name = field.name
            if name in given or field.default is not MISSING:
                continue
            if name == "policies" and policies is not None:
                given[name] = policies
            elif hasattr(type(self), name):
                given[name] = getattr(self, name)
            else:
                field_type = vars(sys.modules[kind.__module__]).get(str(field.type))
                if field_type:
                    given[name] = self.fill(field_type, policies)
        return kind(**given)
