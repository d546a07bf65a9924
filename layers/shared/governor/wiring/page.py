"""Wiring of the approval page. Without a sign-in only few answers need the policy."""

from __future__ import annotations

from governor.approvals.decide import Decide
from governor.policy.ports import Policies
from governor.web.sessions import Sessions
from governor.web.site import ApprovalSite, Gate
from governor.wiring.parts import Parts


def approval_site(parts: Parts) -> ApprovalSite:
    """Return the page of `serve_approval`."""

    def read_later() -> Policies:
        # Imported here, so that a page without a sign-in starts without the policy's parser.
        from governor.wiring.policies import or_defaults

        return or_defaults(parts)()

    policies = read_later
    gate = None
    if parts.settings.oidc_issuer:
        from governor.wiring.policies import or_defaults

        policies = or_defaults(parts)
        sessions = Sessions(parts.signer, parts.settings.session_scope)
        gate = Gate(sessions, lambda: policies().base().policy.ownership, parts.sign_in_store)
    stack = parts.settings.powertools_metrics_namespace.removeprefix("gpu-governor").strip("-")
    decide = parts.fill(Decide, policies_now=policies)
    return parts.fill(ApprovalSite, decide=decide, gate=gate, environment=stack)
