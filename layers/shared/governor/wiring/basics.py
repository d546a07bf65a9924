"""Parts of functions, made at cold start. Keyword arguments replace parts of their names.

Each function makes only the parts that its use case needs, so none opens a client that it has no
permission to use. A part imports its own class when it is made, so a cold start loads no module
that only other functions need.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from governor.aws.clients import Clients
from governor.core.environment import Settings, parse_settings
from governor.core.instance import Target
from governor.core.ports import Clock
from governor.core.units import UtcDatetime

if TYPE_CHECKING:
    from governor.approvals.rules.links import LinkSigner
    from governor.aws.secrets import SecretDocument

UseCase = TypeVar("UseCase")
Ready = Callable[[], UseCase]
"""Returns the use case of one invocation, which sees one policy."""


class SystemClock:
    """The clock of the machine."""

    @staticmethod
    def now() -> UtcDatetime:
        """Return the time in UTC."""
        return datetime.now(tz=UTC)


class Basics:
    """The parts of every function.

    A part that most invocations call opens its client when it is made, at cold start; others open
    it at their first call.

    Raises: ConfigurationError, which names the environment variable that a part lacks.
    """

    clock: Clock = SystemClock()

    def __init__(
        self, settings: Settings | None = None, clients: Clients | None = None, **replaced: object
    ) -> None:
        """Read the settings from the environment, and make clients for their Region, unless they
        are given; put the `replaced` parts in place of those of their names. Raises: TypeError if a
        name is that of no part; ConfigurationError."""
        self.settings = settings or parse_settings()
        self.clients = clients or Clients(self.settings.aws_region)
        unknown = [name for name in replaced if not hasattr(type(self), name)]
        if unknown:
            raise TypeError(f"no such parts: {', '.join(unknown)}")
        # A cached property gives way to an attribute of its name.
        vars(self).update(replaced)

    @cached_property
    def hub(self) -> Target:
        """Return the account and Region of the stack itself."""
        return Target(self.settings.hub_account_id, self.settings.aws_region)

    @cached_property
    def link_keys(self) -> SecretDocument:
        """Return the secret with the keys that sign links, forms and sessions; its value is read
        later. Raises: ConfigurationError if its ARN is not set."""
        return self._secret("link_key_secret_arn")

    @cached_property
    def signer(self) -> LinkSigner:
        """Return the part that signs and checks links, forms and sessions."""
        from governor.approvals.rules.links import LinkSigner

        return LinkSigner(self.link_keys.read, self.settings.approval_base_url or None)

    @cached_property
    def channel_secret(self) -> SecretDocument:
        """Return the secret with the settings of the channels; its value is read later. Raises:
        ConfigurationError if its ARN is not set."""
        return self._secret("channel_secret_arn")

    @cached_property
    def client_secret(self) -> SecretDocument:
        """Return the secret by which the OpenID Connect issuer knows the stack; its value is read
        later. Raises: ConfigurationError if its ARN is not set."""
        return self._secret("oidc_client_secret_arn")

    def _secret(self, setting: str) -> SecretDocument:
        """Return the secret whose ARN is in this setting, with the client opened; the secret itself
        is read later. Raises: ConfigurationError if the setting is missing."""
        from governor.aws.secrets import SecretDocument

        arn = self.settings.need(setting)
        self.clients.client("secretsmanager")
        return SecretDocument(self.clients, arn)
