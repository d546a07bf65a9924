"""Accounts and Regions that the policy targets, and the role by which a function reaches a member
account.

The hub's own account needs no role; a member account needs the member role of this function. This
module must not give a target to a function that has no role there.
"""

from __future__ import annotations

from dataclasses import dataclass

from governor.core.errors import ConfigurationError, SafetyError
from governor.core.instance import Instance, Target
from governor.core.regions import partition_of
from governor.policy.model.policy import Policy


@dataclass(frozen=True, slots=True)
class Accounts:
    """Says which accounts and Regions the policy governs, and makes targets with the role to use
    there."""

    hub_account: str
    hub_region: str
    member_role_name: str | None = None
    """This function's own role in member accounts, so that there, too, only one function may stop
    or terminate. `None`: the function reaches no member account."""

    def governs(self, policy: Policy, account: str, region: str) -> bool:
        """Return whether the policy's targets name this account and Region.

        Ask this also about an event's account: anybody may forward events.
        """
        return Target(account, region) in swept_targets(
            policy, Target(self.hub_account, self.hub_region)
        )

    def require_governed(self, policy: Policy, account: str, region: str) -> None:
        """Do nothing if the policy's targets name this account and Region. Raises: SafetyError if
        they do not."""
        if not self.governs(policy, account, region):
            raise SafetyError(f"the policy's targets do not name {account}/{region}")

    def why_ungoverned(self, policy: Policy, instance: Instance) -> str | None:
        """Return why the policy does not govern the instance, or no longer does: its targets do not
        name the account and Region, or the selector's tag is missing. Return `None` if it does."""
        target = instance.target
        if not self.governs(policy, target.account, target.region):
            return f"the policy's targets no longer name {target}"
        if not policy.selector.is_on(instance):
            return f"the instance no longer carries {policy.selector}"
        return None

    def target(self, account: str, region: str, session: tuple[str, str] | None = None) -> Target:
        """Return the account and Region as a target, with the role to assume if it is in a member
        account.

        `session` is the execution name of an episode and the person for whom the call is made:
        the session with the role is named after them; `None` for a call without either. Raises:
        ConfigurationError for a member account if the function has no role there.
        """
        if account == self.hub_account:
            return Target(account, region, session=session)
        if self.member_role_name is None:
            raise ConfigurationError(
                f"account {account} cannot be reached: the environment variable "
                "MEMBER_ROLE_NAME is missing"
            )
        # Roles are assumed within a partition only, so a member is in that of the hub.
        partition = partition_of(self.hub_region)
        role_arn = f"arn:{partition}:iam::{account}:role/{self.member_role_name}"
        return Target(account, region, role_arn, session)


def swept_targets(policy: Policy, hub: Target) -> tuple[Target, ...]:
    """Return the targets that are swept: every account of the policy in every Region of the policy,
    each once and without a role, but for the places of `targets.without`.

    The accounts of units count only once they were added to the policy. Without accounts and units
    the hub's account is swept, and without Regions the hub's Region. The result is empty
    if there are only units, whose accounts are not known yet, or every place is left out.
    """
    accounts = policy.targets.accounts
    if not accounts and not policy.targets.units:
        accounts = (hub.account,)
    regions = policy.targets.regions or (hub.region,)
    distinct_regions = dict.fromkeys(regions)
    left_out = {(place.account, place.region) for place in policy.targets.without}
    targets: list[Target] = []
    for account in dict.fromkeys(accounts):
        for region in distinct_regions:
            if (account, region) not in left_out:
                targets.append(Target(account, region))
    return tuple(targets)
