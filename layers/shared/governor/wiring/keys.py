"""What rests on the keys of approval links: their rotation, and the sessions they seal."""

from __future__ import annotations

from governor.adapters.links import HmacSealer
from governor.adapters.secrets import SecretVersions
from governor.ports import RotatingSecret, Sealer
from governor.usecases.approvals.rotate_keys import RotateKeys
from governor.web.sessions import Sessions
from governor.wiring.basics import Basics


def rotate_keys(parts: Basics, secret: RotatingSecret | None = None) -> RotateKeys:
    """For `rotate_link_keys`."""
    parts.clients.client("secretsmanager")
    return RotateKeys(secret or SecretVersions(parts.clients, parts.settings.need("link_key_secret_arn")))


def sealer(parts: Basics) -> Sealer:
    """Seals cookies."""
    return HmacSealer(parts.link_keys.read)


def sessions(parts: Basics) -> Sessions:
    """Of people who have signed in."""
    known = parts.settings
    scope = known.oidc_issuer, known.oidc_client_id, known.oidc_groups_claim, known.oidc_approver_group
    return Sessions(sealer(parts), scope)
