"""The environment, read once at cold start into a frozen object. The only module that reads it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from governor.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Settings:
    """What the functions are told by the template. A value a function does not need may be absent."""

    variables: Mapping[str, str]

    def _need(self, name: str) -> str:
        value = self.variables.get(name, "").strip()
        if not value:
            raise ConfigurationError(f"the environment variable {name} is missing: set it in template.yaml")
        return value

    @property
    def table_name(self) -> str:
        """The state table."""
        return self._need("TABLE_NAME")

    @property
    def policy_parameter(self) -> str:
        """Name of the SSM parameter that holds the policy document."""
        return self._need("POLICY_PARAMETER")

    @property
    def alert_topic_arn(self) -> str:
        """The SNS topic of all alerts."""
        return self._need("ALERT_TOPIC_ARN")

    @property
    def channel_secret_arn(self) -> str:
        """The secret that holds addresses and tokens of channels."""
        return self._need("CHANNEL_SECRET_ARN")

    @property
    def delivery_queue_url(self) -> str:
        """The queue of deliveries."""
        return self._need("DELIVERY_QUEUE_URL")

    @property
    def dead_letter_queue_url(self) -> str:
        """The queue of events that cannot be used."""
        return self._need("DEAD_LETTER_QUEUE_URL")

    @property
    def delivery_failures_url(self) -> str:
        """The dead-letter queue of deliveries."""
        return self._need("DELIVERY_FAILURES_URL")

    @property
    def email_sender(self) -> str | None:
        """The address that mail is sent from; absent where none is sent."""
        return self.variables.get("EMAIL_SENDER", "").strip() or None

    @property
    def state_machine_arn(self) -> str:
        """The remediation state machine."""
        return self._need("REMEDIATION_STATE_MACHINE_ARN")

    @property
    def link_key_secret_arn(self) -> str:
        """The secret that holds the keys of approval links."""
        return self._need("LINK_KEY_SECRET_ARN")

    @property
    def approval_base_url(self) -> str | None:
        """Base of the approval API, without a slash at the end; set only where links are made."""
        return self.variables.get("APPROVAL_BASE_URL", "").strip().rstrip("/") or None

    @property
    def needed_base_url(self) -> str:
        """The same, where nothing works without."""
        return self._need("APPROVAL_BASE_URL").rstrip("/")

    @property
    def undo_function_name(self) -> str:
        """The function that starts instances again."""
        return self._need("UNDO_FUNCTION_NAME")

    @property
    def signs_in(self) -> bool:
        """Whether a sign-in stands in front of decisions. Half a setting counts: it must not stand open."""
        return any(self.variables.get(f"OIDC_{name}") for name in ("ISSUER", "CLIENT_ID", "APPROVER_GROUP"))

    @property
    def oidc_issuer(self) -> str:
        """The OpenID Connect issuer, exactly as it calls itself."""
        return self._need("OIDC_ISSUER")

    @property
    def oidc_client_id(self) -> str:
        """What the issuer calls this stack."""
        return self._need("OIDC_CLIENT_ID")

    @property
    def oidc_groups_claim(self) -> str:
        """The claim of ID tokens that names somebody's groups."""
        return self.variables.get("OIDC_GROUPS_CLAIM", "").strip() or "groups"

    @property
    def oidc_approver_group(self) -> str:
        """The group whose members may approve and exempt; empty: everybody who can sign in."""
        return self.variables.get("OIDC_APPROVER_GROUP", "").strip()

    @property
    def oidc_client_secret_arn(self) -> str | None:
        """The secret with `client_secret`; absent for a public client."""
        return self.variables.get("OIDC_CLIENT_SECRET_ARN", "").strip() or None

    @property
    def checkpoint_document(self) -> str | None:
        """Name of the SSM document that starts the checkpoint hook; absent where none is set up."""
        return self.variables.get("CHECKPOINT_DOCUMENT_NAME", "").strip() or None

    @property
    def hub_account(self) -> str:
        """The account the stack lives in."""
        account = self._need("HUB_ACCOUNT_ID")
        if re.fullmatch(r"\d{12}", account) is None:
            raise ConfigurationError(f"HUB_ACCOUNT_ID is {account!r}; an account id has twelve digits")
        return account

    @property
    def member_role_name(self) -> str | None:
        """This function's role in member accounts; absent where it needs none."""
        return self.variables.get("MEMBER_ROLE_NAME", "").strip() or None

    @property
    def region(self) -> str:
        """The Region the stack lives in, as the Lambda runtime gives it."""
        return self.variables.get("AWS_REGION") or self._need("AWS_DEFAULT_REGION")

    @property
    def partition(self) -> str:
        """The partition of the hub's Region."""
        if self.region.startswith("cn-"):
            return "aws-cn"
        return "aws-us-gov" if self.region.startswith("us-gov-") else "aws"


def from_environment() -> Settings:
    """The settings of this process."""
    return Settings(dict(os.environ))
