"""Signing in at the OIDC issuer."""

from __future__ import annotations

from governor.adapters.oidc import Client, OidcProvider
from governor.ports import IdentityProvider
from governor.web.sessions import Sessions
from governor.web.sign_in import SignInSite
from governor.wiring.parts import Parts


def sign_in_site(parts: Parts, provider: IdentityProvider | None = None) -> SignInSite:
    """For `sign_in`."""
    known = parts.settings
    client = Client(
        issuer=known.need("oidc_issuer"),
        client_id=known.need("oidc_client_id"),
        secret=parts.client_secret.read if known.oidc_client_secret_arn else None,
        wants_groups=True,
    )
    return parts.fill(
        SignInSite,
        provider=provider or OidcProvider(client),
        sessions=Sessions(parts.signer, known.session_scope),
        groups_claim=known.oidc_groups_claim,
        approver_group=known.oidc_approver_group,
        base_url=known.need("approval_base_url"),
    )
