"""The issuer at which people sign in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    # For types alone: a function loads only the modules that it uses.
    pass


class IdentityProvider(Protocol):
    """An OpenID Connect issuer that people sign in at: authorization code with PKCE (RFC 7636,
    S256)."""

    def authorization_url(
        self, *, state: str, nonce: str, verifier: str, redirect_uri: str, fresh: bool
    ) -> str:
        """Return where to send the browser. Raises: IssuerUnavailable, ConfigurationError."""

    def redeem(
        self, *, code: str, nonce: str, verifier: str, redirect_uri: str
    ) -> Mapping[str, object]:
        """Return the claims of the ID token for a code, after its signature, issuer, audience,
        times and nonce were checked. Raises: SignInRefused; IssuerUnavailable; ConfigurationError;
        CloudError."""
