"""Port for the OIDC issuer at which people sign in.

Only claims that it has checked count; nothing that a browser says of a person does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class IdentityProvider(Protocol):
    """An OpenID Connect issuer that people sign in at: authorization code with PKCE (RFC 7636,
    S256)."""

    def authorization_url(
        self, *, state: str, nonce: str, verifier: str, redirect_uri: str, fresh: bool
    ) -> str:
        """Return the address to which the browser is sent. With `fresh`, the person must prove
        again who they are. Raises: IssuerUnavailable if the issuer does not answer;
        ConfigurationError if its settings cannot be used."""

    def redeem(
        self, *, code: str, nonce: str, verifier: str, redirect_uri: str
    ) -> Mapping[str, object]:
        """Return the claims of the ID token for a code, once the token's signature, issuer,
        audience, times and nonce are checked. Raises: SignInRefused if one of them is wrong;
        IssuerUnavailable; ConfigurationError; CloudError."""
