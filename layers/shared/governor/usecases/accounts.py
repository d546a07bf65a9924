"""Which role reaches an account: none in the hub's own, a member role elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.instance import Instance, Target
from governor.domain.policy.policy import Policy
from governor.errors import ConfigurationError, SafetyError


@dataclass(frozen=True, slots=True)
class Accounts:
    """Makes targets. `partition` is `aws`, `aws-cn` or `aws-us-gov`. `member_role_name` is this
    function's own role in member accounts, so that there too only one may stop or terminate;
    `None`: it reaches none."""

    hub_account: str
    hub_region: str
    partition: str = "aws"
    member_role_name: str | None = None

    def governs(self, policy: Policy, account: str, region: str) -> bool:
        """Return whether the policy's targets name the place: anybody may forward events."""
        return Target(account, region) in swept(policy, Target(self.hub_account, self.hub_region))

    def must_govern(self, policy: Policy, account: str, region: str) -> None:
        """Raises: SafetyError."""
        if not self.governs(policy, account, region):
            raise SafetyError(f"the policy's targets do not name {account}/{region}")

    def ungoverned(self, policy: Policy, instance: Instance) -> str | None:
        """Why the policy is not, or no longer, for this instance."""
        target = instance.target
        if not self.governs(policy, target.account, target.region):
            return f"the policy's targets no longer name {target}"
        is_selected = policy.selector.is_on(instance)
        return None if is_selected else f"the instance no longer carries {policy.selector}"

    def target(self, account: str, region: str, session: tuple[str, str] | None = None) -> Target:
        """Return the target with the role to assume in a member account.

        In the hub's account, `session` names the one session that a stop or a termination takes
        there.

        Raises:
            ConfigurationError: the function has no role in member accounts.
        """
        if account == self.hub_account:
            return Target(account, region, session=session)
        if self.member_role_name is None:
            raise ConfigurationError(
                f"account {account} cannot be reached: the environment variable "
                "MEMBER_ROLE_NAME is missing"
            )
        role_arn = f"arn:{self.partition}:iam::{account}:role/{self.member_role_name}"
        return Target(account, region, role_arn, session)


def swept(policy: Policy, hub: Target) -> tuple[Target, ...]:
    """Return every account of the policy and of its units in every Region of the policy, each
    once."""
    accounts = dict.fromkeys(
        policy.targets.accounts or (() if policy.targets.units else (hub.account,))
    )
    regions = dict.fromkeys(policy.targets.regions or (hub.region,))
    return tuple(Target(account, region) for account in accounts for region in regions)
