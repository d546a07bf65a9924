"""What functions are made of at cold start. A keyword argument puts another part in the place of one.

Each function makes only what its use case asks for, so that none opens a client that it has no right to use;
and loads only the parts of its own family, so that it starts fast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from functools import cached_property
from inspect import ismethod
from typing import Any, TypeVar

from governor.adapters.clients import Clients
from governor.adapters.clock import SystemClock
from governor.adapters.links import HmacLinkSigner
from governor.adapters.secrets import SecretDocument
from governor.contracts.settings import Settings, from_environment
from governor.domain.instance import Target
from governor.ports import Clock, LinkSigner, Policies

UseCase = TypeVar("UseCase")
Ready = Callable[[], UseCase]
"""Gives the use case of one invocation, which sees one policy."""


class Basics:
    """What use cases are made of, by the names of their fields: `fill(AskOwner)` takes `state` from here.

    Raises:
        ConfigurationError: a variable that a part needs is missing; the message names it.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        clients: Clients | None = None,
        clock: Clock | None = None,
        **replaced: object,
    ) -> None:
        self.settings = settings or from_environment()
        self.clients = clients or Clients(self.settings.aws_region)
        self.clock: Clock = clock or SystemClock()
        unknown = [name for name in replaced if not hasattr(type(self), name)]
        if unknown:
            raise TypeError(f"no such parts: {', '.join(unknown)}")
        # A cached property gives way to an attribute of its name.
        vars(self).update(replaced)

    def fill(self, kind: Callable[..., UseCase], policies: Policies | None = None, **given: Any) -> UseCase:
        """Make a use case: a field without default is what is given, or the part of that name.

        A part that is a method rests on the policy, and gets it.
        """
        for field in fields(kind):  # type: ignore[arg-type]
            if field.name == "policies" and policies is not None:
                given["policies"] = policies
            elif field.name not in given and field.default is MISSING:
                part = getattr(self, field.name)
                given[field.name] = part(policies) if ismethod(part) else part
        return kind(**given)

    @property
    def hub(self) -> Target:
        """The account and Region of the stack."""
        return Target(self.settings.hub_account_id, self.settings.aws_region)

    @cached_property
    def link_keys(self) -> SecretDocument:
        return self.secret(self.settings.need("link_key_secret_arn"))

    @cached_property
    def channel_secret(self) -> SecretDocument:
        return self.secret(self.settings.need("channel_secret_arn"))

    def secret(self, arn: str) -> SecretDocument:
        """A secret by its ARN."""
        self.clients.client("secretsmanager")
        return SecretDocument(self.clients, arn)

    @cached_property
    def signer(self) -> LinkSigner:
        return HmacLinkSigner(self.link_keys.read, self.settings.approval_base_url or None)
