"""Wiring of the approval page. Without a sign-in only few answers need the policy."""

from __future__ import annotations

from governor.policy.model.contacts import Ownership
from governor.policy.ports import Policies
from governor.web.sessions import Sessions
from governor.web.site import ApprovalSite, SignInGate
from governor.wiring.basics import Ready
from governor.wiring.deciding import decide, show_approval
from governor.wiring.parts import Parts


def approval_site(parts: Parts) -> ApprovalSite:
    """Return the page of `serve_approval`, with a sign-in in front of decisions if an OIDC issuer
    is set. Raises: ConfigurationError if a setting is missing."""
    if parts.settings.oidc_issuer:
        policies = _policies_now(parts)
        gate = _gate(parts, policies)
    else:
        policies = _policies_later(parts)
        gate = None
    stack = parts.settings.powertools_metrics_namespace.removeprefix("gpu-governor").strip("-")
    return ApprovalSite(
        show=show_approval(parts),
        decide=decide(parts, policies_now=policies),
        undoer=parts.undoer,
        signer=parts.signer,
        gate=gate,
        environment=parts.settings.named(stack),
    )


def _policies_now(parts: Parts) -> Ready[Policies]:
    """Load the parser, and return a function that reads the policy in force, or its people with
    defaults for the rest if it is refused. That function raises CloudError."""
    from governor.wiring.policies import or_defaults

    return or_defaults(parts)


def _policies_later(parts: Parts) -> Ready[Policies]:
    """Return a function that reads the policy in force, or its people with defaults for the rest if
    it is refused. It loads the parser when it is called, so that a page without a sign-in starts
    without it. It raises CloudError."""

    def read_policy() -> Policies:
        """Load the parser, and read the policy in force. Raises: CloudError."""
        return _policies_now(parts)()

    return read_policy


def _gate(parts: Parts, policies: Ready[Policies]) -> SignInGate:
    """Return the sign-in in front of decisions."""
    sessions = Sessions(parts.signer, parts.settings.session_scope)

    def directory() -> Ownership:
        """Return the people that the policy names now. Raises: CloudError."""
        return policies().base().policy.ownership

    return SignInGate(sessions, directory, parts.sign_in_store)
