"""Wiring of the sign-in at the OIDC issuer."""

from __future__ import annotations

from governor.aws.oidc import Client, OidcProvider
from governor.web.ports import IdentityProvider
from governor.web.sessions import Sessions
from governor.web.sign_in import SignInSite
from governor.wiring.parts import Parts


def sign_in_site(parts: Parts, provider: IdentityProvider | None = None) -> SignInSite:
    """Return the site of `sign_in`. Without `provider` it signs people in at the OIDC issuer of the
    settings. Raises: ConfigurationError if a setting is missing, or the issuer's address is not
    https."""
    settings = parts.settings
    client = Client(
        issuer=settings.need("oidc_issuer"),
        client_id=settings.need("oidc_client_id"),
        secret=parts.client_secret.read if settings.oidc_client_secret_arn else None,
        wants_groups=True,
    )
    return SignInSite(
        provider=provider or OidcProvider(client),
        sessions=Sessions(parts.signer, settings.session_scope),
        groups_claim=settings.oidc_groups_claim,
        approver_group=settings.oidc_approver_group,
        base_url=settings.need("approval_base_url"),
        clock=parts.clock,
        sign_in_store=parts.sign_in_store,
    )
