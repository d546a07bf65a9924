"""Which role reaches an account: none in the hub's own, the member role elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from governor.domain.instance import Target
from governor.domain.policy import Policy


@dataclass(frozen=True, slots=True)
class Accounts:
    """Makes targets. `partition` is `aws`, `aws-cn` or `aws-us-gov`."""

    hub_account: str
    hub_region: str
    partition: str = "aws"

    def target(self, account: str, region: str, policy: Policy) -> Target:
        """The target with the role to assume, if one is needed."""
        if account == self.hub_account:
            return Target(account, region)
        role = f"arn:{self.partition}:iam::{account}:role/{policy.targets.member_role_name}"
        return Target(account, region, role)

    def all_targets(self, policy: Policy) -> tuple[Target, ...]:
        """Every account of the policy in every Region of the policy, in that order, without repeats."""
        accounts = dict.fromkeys(policy.targets.accounts or (self.hub_account,))
        regions = dict.fromkeys(policy.targets.regions or (self.hub_region,))
        return tuple(self.target(account, region, policy) for account in accounts for region in regions)
