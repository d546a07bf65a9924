"""Which places are governed: those of the policy's targets, wherever an event comes from."""

from __future__ import annotations

import pytest

from governor.policy.accounts import Accounts
from governor.policy.model.judging import Place, Targets
from governor.policy.model.policy import Policy
from tests.builders import TARGET
from tests.unit.events.test_notices import IN_TWO_WEEKS, block, retirement, world_with
from tests.unit.worlds.warned_world import WarnedWorld

MEMBER = "210987654321"
WITHOUT_ONE = Targets(
    accounts=(TARGET.account, MEMBER),
    regions=("eu-west-1", TARGET.region),
    without=(Place(MEMBER, "eu-west-1"),),
)


@pytest.mark.parametrize(
    ("targets", "account", "region", "governed"),
    [
        (Targets(), TARGET.account, TARGET.region, True),
        (Targets(), TARGET.account, "eu-west-1", False),
        (Targets(), MEMBER, TARGET.region, False),
        (Targets(accounts=(MEMBER,)), MEMBER, TARGET.region, True),
        (Targets(accounts=(MEMBER,)), TARGET.account, TARGET.region, False),
        (Targets(regions=("eu-west-1",)), TARGET.account, "eu-west-1", True),
        (WITHOUT_ONE, MEMBER, "eu-west-1", False),
        (WITHOUT_ONE, MEMBER, TARGET.region, True),
        (WITHOUT_ONE, TARGET.account, "eu-west-1", True),
        (Targets(without=(Place(TARGET.account, "eu-west-1"),)), TARGET.account, TARGET.region,
         True),
        (Targets(without=(Place(TARGET.account, TARGET.region),)), TARGET.account, TARGET.region,
         False),
    ],
)  # fmt: skip
def test_a_place_is_governed_where_the_sweep_goes(
    targets: Targets, account: str, region: str, governed: bool
) -> None:
    """Empty lists mean the place of the stack itself. `without` leaves out one Region of one
    account, and no other."""
    accounts = Accounts(TARGET.account, TARGET.region)

    assert governed is accounts.governs(Policy(targets=targets), account, region)


def test_in_the_hubs_account_too_a_session_is_named_after_the_episode() -> None:
    """The role that stops and terminates there is assumed for one call; CloudTrail keeps the
    name."""
    accounts = Accounts(TARGET.account, TARGET.region)
    target = accounts.target(TARGET.account, TARGET.region, ("episode-1", "alice@example.com"))

    assert (None, ("episode-1", "alice@example.com")) == (target.role_arn, target.session)


def test_warnings_of_other_places_are_nobodys_news() -> None:
    """Neither read nor told: the function may have no role there. The note goes to the log."""
    world = WarnedWorld()
    reactions = [
        world.interruption(world.warned(account=MEMBER)),
        world.rebalance(world.recommended(region="eu-west-1")),
        world.lifecycle(world.let_go(account=MEMBER)),
    ]

    assert [False] * 3 == [reaction.ours for reaction in reactions]
    assert [f"{MEMBER} in us-east-1 is no target of the policy"] == reactions[0].notes
    assert ([], [], []) == (world.sent, world.hook.sent, world.world.ec2.calls)


def test_dates_of_other_places_are_nobodys_news() -> None:
    """Dates of instances and of Capacity Blocks."""
    world, instance_id = world_with()

    assert () == world.scheduled(retirement(instance_id, account=MEMBER, at=IN_TWO_WEEKS))
    assert () == world.block(block(region="eu-west-1"))
    assert [] == world.told()
