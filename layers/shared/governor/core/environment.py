"""The environment variables of the functions, all parsed at cold start. No other module reads
them."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from governor.core.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The variables that the template gives to a function, by their lower-case names. It gives only
    those that the function's own adapters need. A field is a variable that may be missing, and is
    empty then."""

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    aws_region: str
    hub_account_id: str = ""
    member_role_name: str = ""
    """This function's role in member accounts; empty if it needs none."""
    actor_role_arn: str = ""
    """The role in the stack's account that stops and terminates; empty if the function does
    neither."""
    checkpoint_document_name: str = ""
    """The SSM document that starts the checkpoint hook; empty if none is set up."""
    email_sender: str = ""
    """Empty if no mail is sent."""
    powertools_metrics_namespace: str = ""
    display_name: str = ""
    """The name that the operator gives this deployment for people, such as `staging`; empty if it
    has none."""
    approval_base_url: str = ""
    """Without a slash at the end; set only if the function makes links or names pages of the
    console."""
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_groups_claim: str = "groups"
    oidc_approver_group: str = ""
    """Its members may approve and exempt; if it is empty, so may everybody who can sign in."""
    oidc_client_secret_arn: str = ""
    """Empty for a public client."""

    def need(self, name: str) -> str:
        """Return the environment variable of this name, given in lower case. Raises:
        ConfigurationError if it is missing or empty."""
        value = self.given.get(name, "")
        if not value:
            raise ConfigurationError(
                f"the environment variable {name.upper()} is missing: set it in template.yaml"
            )
        return value

    def named(self, stack: str) -> str:
        """Return the name of the stack as pages show it, with the display name if there is one:
        `gpu-governor (staging)`; the display name alone if `stack` is empty."""
        if not self.display_name:
            return stack
        return f"{stack} ({self.display_name})" if stack else self.display_name

    @property
    def session_scope(self) -> tuple[str, ...]:
        """Return the settings of the sign-in that every session is bound to: issuer, client id,
        groups claim and approver group. A session that was opened under other ones no longer
        counts."""
        return (
            self.oidc_issuer,
            self.oidc_client_id,
            self.oidc_groups_claim,
            self.oidc_approver_group,
        )


def parse_settings(variables: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings that these environment variables give: a blank one counts as missing, and
    AWS_DEFAULT_REGION stands in for a missing AWS_REGION.

    Raises: ConfigurationError if the Region or the account id is missing, the account id has not
    twelve digits, or a sign-in is set up without its issuer or its client id.
    """
    given = {}
    for name, text in variables.items():
        if text.strip():
            given[name.lower()] = text.strip()
    given.setdefault("aws_region", given.get("aws_default_region", ""))
    given["approval_base_url"] = given.get("approval_base_url", "").rstrip("/")
    names = [setting.name for setting in fields(Settings)]
    named: Any = {name: given[name] for name in names if name in given}
    settings = Settings(**{**named, "given": given})
    settings.need("aws_region")
    account = settings.need("hub_account_id")
    if re.fullmatch(r"\d{12}", account) is None:
        raise ConfigurationError(f"HUB_ACCOUNT_ID is {account!r}; an account ID has twelve digits")
    sign_in = ("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_APPROVER_GROUP")
    if any(variables.get(name) for name in sign_in):
        settings.need("oidc_issuer")
        settings.need("oidc_client_id")
    return settings
