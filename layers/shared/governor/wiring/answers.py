"""Wiring of the ways to answer besides the page: the command line's API, and buttons in Slack."""

from __future__ import annotations

from collections.abc import Mapping

from governor.approvals.decide import Decide
from governor.approvals.open_console import OpenConsole
from governor.approvals.pause import PauseAll
from governor.core.https import Https
from governor.notify.slack import API_URL, SlackApi
from governor.notify.slack_actions import SlackActions
from governor.notify.transport import https_of
from governor.policy.accounts import swept
from governor.policy.document import PolicyBook, parse_policy
from governor.policy.versions import AcceptPolicy
from governor.web.api import ApprovalApi
from governor.wiring.basics import Ready
from governor.wiring.parts import Parts
from governor.wiring.policies import accepted, or_defaults, or_last, ready


def approval_api(parts: Parts) -> Ready[ApprovalApi]:
    """Return what `serve_api` answers requests with. Each request sees one policy."""
    settings = parts.settings
    open_console = OpenConsole(
        parts.sign_in_store, parts.clock, settings.oidc_issuer, settings.need("approval_base_url")
    )
    accept = parts.fill(AcceptPolicy, parse_accepted=accepted)

    def make(policies: PolicyBook) -> ApprovalApi:
        base = policies.base().policy
        targets = swept(base, parts.hub)
        decide = parts.fill(Decide, policies_now=lambda: policies)
        return parts.fill(
            ApprovalApi,
            policies,
            decide=decide,
            accept=accept,
            targets=targets,
            ownership=base.ownership,
            open_console=open_console,
            pause_all=parts.fill(PauseAll),
            policy=base,
            policy_is_whole=policies.whole,
        )

    return ready(or_defaults(parts), make)


def slack_actions(parts: Parts) -> Ready[SlackActions]:
    """Return what `handle_slack_action` answers presses with. The secret is read at each
    invocation, the policy only for an answer."""
    secret = parts.channel_secret
    policies = or_last(parts)
    public = Https(only_public=True)
    private = Https()

    def make(stored: Mapping[str, str]) -> SlackActions:
        token = stored.get("slack_bot_token", "")
        api_url = stored.get("slack_api_url") or API_URL

        def send_ephemeral(thread: str, user_id: str, text: str, held: str | None) -> None:
            https = https_of("slack", stored, public, private)
            slack = SlackApi(token, https, parts.clock, api_url)
            slack.send_ephemeral(thread, user_id, text, held)

        return parts.fill(
            SlackActions,
            decide=parts.fill(Decide, policies_now=policies),
            signing_secret=stored.get("slack_signing_secret", ""),
            directory=lambda: policies().base().policy.ownership,
            confirm=send_ephemeral,
        )

    make({})
    # Builds the parser at cold start.
    parse_policy("")
    return lambda: make(secret.read())
