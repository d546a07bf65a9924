"""Wiring of answers by buttons in Slack."""

from __future__ import annotations

from collections.abc import Mapping

from governor.core.https import Https
from governor.notify.slack import API_URL, SlackApi
from governor.notify.slack_actions import SlackActions
from governor.notify.transport import https_of
from governor.policy.document import parse_policy
from governor.policy.model.contacts import Ownership
from governor.wiring.basics import Ready
from governor.wiring.deciding import decide, show_approval
from governor.wiring.parts import Parts
from governor.wiring.policies import or_last


def slack_actions(parts: Parts) -> Ready[SlackActions]:
    """Return a function that makes the use case of `handle_slack_action` for each invocation, with
    the channel secret as it is then. The policy is read only for an answer: that in force, or the
    last accepted one.

    The function raises CloudError if the secret cannot be read, ConfigurationError if it is no JSON
    object of strings. Raises: ConfigurationError now, at cold start, if a setting is missing.
    """
    secret = parts.channel_secret
    policies = or_last(parts)
    public = Https(only_public=True)
    private = Https()

    def directory() -> Ownership:
        """Return the people that the policy names now. Raises: CloudError."""
        return policies().base().policy.ownership

    def make(stored: Mapping[str, str]) -> SlackActions:
        """Return the use case with the channel secret `stored`."""
        token = stored.get("slack_bot_token", "")
        api_url = stored.get("slack_api_url") or API_URL

        def send_ephemeral(thread: str, user_id: str, text: str, held: str | None) -> None:
            """Send an ephemeral text to one person in a thread, with a button that holds the
            approval `held` unless that is `None`. Raises: ConfigurationError if the secret holds no
            usable token or address; DeliveryError."""
            https = https_of("slack", stored, public, private)
            slack = SlackApi(token, https, parts.clock, api_url)
            slack.send_ephemeral(thread, user_id, text, held)

        return SlackActions(
            signing_secret=stored.get("slack_signing_secret", ""),
            show=show_approval(parts),
            decide=decide(parts, policies_now=policies),
            directory=directory,
            confirm=send_ephemeral,
            clock=parts.clock,
        )

    # At cold start, so that a missing setting shows, and the parser is built.
    make({})
    parse_policy("")
    return lambda: make(secret.read())
