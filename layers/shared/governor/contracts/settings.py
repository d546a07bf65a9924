"""The environment, parsed whole at cold start. Nothing else reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from governor.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The variables that the template gives to a function, by their lower-case names: only those of
    its own adapters. A field is what may be missing, and is empty then."""

    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    aws_region: str
    hub_account_id: str = ""
    member_role_name: str = ""
    """This function's role in member accounts; empty where it needs none."""
    actor_role_arn: str = ""
    """The role in the stack's account that stops and terminates; empty where the function does
    neither."""
    checkpoint_document_name: str = ""
    """The SSM document that starts the checkpoint hook; empty where none is set up."""
    email_sender: str = ""
    """Empty where no mail is sent."""
    powertools_metrics_namespace: str = ""
    approval_base_url: str = ""
    """Without a slash at the end; set only where links are made."""
    oidc_issuer: str = ""
    oidc_client_id: str = ""
    oidc_groups_claim: str = "groups"
    oidc_approver_group: str = ""
    """Its members may approve and exempt; empty: everybody who can sign in."""
    oidc_client_secret_arn: str = ""
    """Empty for a public client."""

    def need(self, name: str) -> str:
        """The setting of that name. Raises: ConfigurationError when it is empty."""
        if not (value := self.given.get(name, "")):
            missing = f"the environment variable {name.upper()} is missing"
            raise ConfigurationError(f"{missing}: set it in template.yaml")
        return value

    @property
    def session_scope(self) -> tuple[str, ...]:
        return (
            self.oidc_issuer,
            self.oidc_client_id,
            self.oidc_groups_claim,
            self.oidc_approver_group,
        )

    @property
    def partition(self) -> str:
        if self.aws_region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.aws_region.startswith("us-gov-") else "aws"


def parse_settings(variables: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings. Raises: ConfigurationError for no account id or Region, or half a
    sign-in."""
    given = {name.lower(): text.strip() for name, text in variables.items() if text.strip()}
    given.setdefault("aws_region", given.get("aws_default_region", ""))
    given["approval_base_url"] = given.get("approval_base_url", "").rstrip("/")
    named: Any = {one.name: given[one.name] for one in fields(Settings) if one.name in given}
    settings = Settings(**{**named, "given": given})
    settings.need("aws_region")
    account = settings.need("hub_account_id")
    if re.fullmatch(r"\d{12}", account) is None:
        raise ConfigurationError(f"HUB_ACCOUNT_ID is {account!r}; an account id has twelve digits")
    if any(variables.get(key) for key in ("OIDC_ISSUER", "OIDC_CLIENT_ID", "OIDC_APPROVER_GROUP")):
        settings.need("oidc_issuer")
        settings.need("oidc_client_id")
    return settings
