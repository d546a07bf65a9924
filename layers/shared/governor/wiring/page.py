"""The approval page. Without a sign-in it reads no policy, so that nothing of one is loaded."""

from __future__ import annotations

from governor.web.sessions import Sessions
from governor.web.site import ApprovalSite, Gate
from governor.wiring.parts import Parts


def approval_site(parts: Parts) -> ApprovalSite:
    """For `serve_approval`."""
    gate = None
    if parts.settings.oidc_issuer:
        # Not at the top: a page without a sign-in starts without the policy's parser.
        from governor.wiring.policies import or_defaults

        policies = or_defaults(parts)
        sessions = Sessions(parts.sealer, parts.settings.session_scope)
        gate = Gate(sessions, lambda: policies().base().policy.ownership)
    return parts.fill(ApprovalSite, gate=gate)
