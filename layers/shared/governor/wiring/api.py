"""Wiring of the command line's API."""

from __future__ import annotations

from governor.approvals.open_console import OpenConsole
from governor.limits.freezes import ShowLimits
from governor.policy.accounts import swept_targets
from governor.policy.document import PolicyBook
from governor.policy.versions import AcceptPolicy
from governor.web.api import ApprovalApi
from governor.wiring.basics import Ready
from governor.wiring.deciding import decide, show_approval
from governor.wiring.parts import Parts
from governor.wiring.pausing import pause_all
from governor.wiring.policies import accepted, or_defaults, ready


def approval_api(parts: Parts) -> Ready[ApprovalApi]:
    """Return a function that makes the API of `serve_api` for each request, under the policy in
    force then, or under defaults for all but its people if that is refused. The function raises
    CloudError if it cannot be read. Raises: ConfigurationError if a setting is missing."""
    accept = _accept_policy(parts)
    open_console = _open_console(parts)

    def make(policies: PolicyBook) -> ApprovalApi:
        """Return the use case under this policy; all else that it needs comes from `parts`."""
        policy = policies.base().policy
        return ApprovalApi(
            show=show_approval(parts),
            limits=_show_limits(parts, policies),
            decide=decide(parts, policies_now=lambda: policies),
            accept=accept,
            policy_text=parts.policy_text,
            targets=swept_targets(policy, parts.hub),
            ownership=policy.ownership,
            open_console=open_console,
            pause_all=pause_all(parts),
            policy=policy,
            policy_is_whole=policies.whole,
        )

    return ready(or_defaults(parts), make)


def _accept_policy(parts: Parts) -> AcceptPolicy:
    """Return the use case by which people accept a version of the policy."""
    return AcceptPolicy(
        clock=parts.clock,
        policy_store=parts.policy_store,
        documents=parts.documents,
        parse_accepted=accepted,
    )


def _open_console(parts: Parts) -> OpenConsole:
    """Return the use case that makes an address which opens the console. Raises: ConfigurationError
    if its setting is missing."""
    return OpenConsole(
        sign_in_store=parts.sign_in_store,
        clock=parts.clock,
        issuer=parts.settings.oidc_issuer,
        base_url=parts.settings.need("approval_base_url"),
    )


def _show_limits(parts: Parts, policies: PolicyBook) -> ShowLimits:
    """Return the use case that shows the pause, the freezes and the caps."""
    return ShowLimits(
        breaker_store=parts.breaker_store,
        pause_store=parts.pause_store,
        cap_store=parts.cap_store,
        policies=policies,
        clock=parts.clock,
    )
