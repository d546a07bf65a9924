"""States that last until a person changes something: reported once when they begin and once when
they are over, never an alarm at every sweep, and never in the way of a new fault."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from governor.alerts.model import Alert, AlertKind, Severity
from governor.core.errors import (
    AccessDenied,
    CloudError,
    TargetsNotSwept,
    Throttled,
    Unavailable,
)
from governor.core.instance import Target
from governor.episode.model.standing import StateKind
from governor.episode.rules.standing import WORDS, cannot_tag, state_of_target
from governor.policy.model.judging import Place, Targets
from governor.policy.model.policy import Mode, Policy
from governor.wiring.closing import HubSteps
from tests.builders import TARGET
from tests.unit.functions.handlers import call, module
from tests.unit.worlds.fleet_world import FleetWorld

MEMBER = Target("210987654321", TARGET.region)
FAR = Target("210987654321", "ap-east-1")
PLACES = (TARGET, MEMBER, FAR)
TARGETS = Targets(accounts=(TARGET.account, MEMBER.account), regions=(TARGET.region, "ap-east-1"))
POLICY = Policy(mode=Mode.ASK, targets=TARGETS)


def refused(code: str, operation: str = "ec2:DescribeInstances") -> CloudError:
    """The error of an answer with this code."""
    return AccessDenied(f"{operation} failed: {code}: no", operation=operation, code=code)


NOT_ENABLED = refused("AuthFailure")
ROLE_MISSING = refused("AccessDenied", "sts:AssumeRole")


class Hub:
    """Sweeps of several targets, each with the hub's step at its end, as the state machine runs
    them."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self.world = FleetWorld(policy)
        self.refusals: dict[Target, CloudError] = {}
        self.outcomes: list[str] = []
        self.world.ec2.list_selected = self._list(  # type: ignore[method-assign]
            self.world.ec2.list_selected
        )

    def _list(self, list_selected: Any) -> Any:
        def listed(target: Target, *args: Any, **named: Any) -> Any:
            if target in self.refusals:
                raise self.refusals[target]
            return list_selected(target, *args, **named)

        return listed

    def sweep(self, places: tuple[Target, ...] = PLACES) -> bool:
        """Sweep these places, five minutes later. Return whether the execution succeeded; if not,
        an alarm counts it."""
        self.world.clock.moment += timedelta(minutes=5)
        self.outcomes = []
        for place in places:
            try:
                self.world.sweep_target(place)
                self.outcomes.append("swept")
            except CloudError:
                self.outcomes.append("failed")
        payload = {"outcomes": self.outcomes, "target_count": len(places)}
        steps = HubSteps(self.world.close_sweep, _summed_up())
        try:
            call("sum_up_month", payload, lambda: steps)
        except (TargetsNotSwept, Unavailable):
            return False
        return True

    @property
    def begun(self) -> list[Alert]:
        """Messages that a state began."""
        return [one for one in self.world.announcer.sent if one.kind is AlertKind.STANDING_STATE]

    @property
    def over(self) -> list[Alert]:
        """Messages that a state is over."""
        return [
            one for one in self.world.announcer.sent if one.kind is AlertKind.STANDING_STATE_OVER
        ]


def _summed_up() -> Any:
    summed_up = mock.Mock(return_value=mock.Mock(published=(), costs=(), told=(), problems=()))
    summed_up.return_value.configure_mock(
        month="2026-11", highest_budget_used_percent=0, saved_usd=0, false_stops=0
    )
    return summed_up


OF_PLACES = (
    (refused("AuthFailure"), StateKind.NOT_ENABLED),
    (refused("OptInRequired"), StateKind.NOT_ENABLED),
    (refused("InvalidClientTokenId"), StateKind.NOT_ENABLED),
    (refused("RegionDisabledException", "sts:AssumeRole"), StateKind.NOT_ENABLED),
    (refused("AccessDenied", "sts:AssumeRole"), StateKind.ROLE_MISSING),
    (refused("UnauthorizedOperation"), StateKind.DENIED),
)


@pytest.mark.parametrize(("error", "kind"), OF_PLACES)
def test_a_state_fails_one_sweep_and_is_reported_once(error: CloudError, kind: StateKind) -> None:
    """The alarm sounds when it begins. Then every sweep succeeds, until the state is over."""
    hub = Hub()
    assert hub.sweep()

    hub.refusals[FAR] = error
    assert not hub.sweep()
    assert [True] * 20 == [hub.sweep() for _ in range(20)]

    (begun,) = hub.begun
    assert (kind.value, [str(FAR)]) == (begun.facts["state"], begun.facts["targets"])
    assert ([], Severity.WARNING) == (hub.over, begun.severity)

    del hub.refusals[FAR]
    assert [True] * 3 == [hub.sweep() for _ in range(3)]
    (over,) = hub.over
    assert ([str(FAR)], Severity.INFO) == (over.facts["targets"], over.severity)
    assert [] == hub.world.state.standing_states()


def test_a_state_that_comes_back_is_reported_again() -> None:
    hub = Hub()
    for _ in range(2):
        hub.refusals[FAR] = NOT_ENABLED
        assert not hub.sweep()
        assert hub.sweep()
        del hub.refusals[FAR]
        assert hub.sweep()

    assert (2, 2) == (len(hub.begun), len(hub.over))
    assert 4 == len({one.dedup_id for one in (*hub.begun, *hub.over)})


def test_the_same_state_of_another_target_sounds_the_alarm_again() -> None:
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    hub.sweep()
    assert hub.sweep()

    hub.refusals[MEMBER] = NOT_ENABLED
    assert not hub.sweep()
    assert hub.sweep()
    assert [[str(FAR)], [str(MEMBER)]] == [one.facts["targets"] for one in hub.begun]


def test_another_state_of_the_same_target_sounds_the_alarm_again() -> None:
    """The first one is replaced, not over: nothing is swept there."""
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    hub.sweep()
    assert hub.sweep()

    hub.refusals[FAR] = ROLE_MISSING
    assert not hub.sweep()
    assert hub.sweep()
    assert ["not-enabled", "role-missing"] == [one.facts["state"] for one in hub.begun]
    assert [] == hub.over
    assert [StateKind.ROLE_MISSING] == [one.kind for one in hub.world.state.standing_states()]


@pytest.mark.parametrize("place", [MEMBER, FAR])
@pytest.mark.parametrize(
    "error",
    [
        Throttled("slow", operation="ec2:DescribeInstances", code="RequestLimitExceeded"),
        Unavailable("away", operation="ec2:DescribeInstances"),
        refused("ExpiredToken"),
        refused("SignatureDoesNotMatch"),
        refused("AccessDeniedException", "dynamodb:Query"),
        CloudError("odd", operation="ec2:DescribeInstances", code="InvalidParameterValue"),
    ],
)
def test_a_failure_beside_or_in_place_of_a_state_fails_every_sweep(
    place: Target, error: CloudError
) -> None:
    """A later sweep may repair it, so it is no state; a state elsewhere does not hide it."""
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    hub.sweep()
    assert hub.sweep()

    hub.refusals[place] = error
    assert [False] * 3 == [hub.sweep() for _ in range(3)]
    assert 1 == len(hub.begun)
    assert [] == hub.over, "a target that fails otherwise was not swept"


def test_many_targets_make_one_message() -> None:
    """An organization without member stacks is one message, not hundreds."""
    accounts = tuple(f"{number:012d}" for number in range(1, 61))
    places = tuple(Target(account, TARGET.region) for account in accounts)
    hub = Hub(Policy(mode=Mode.ASK, targets=Targets(accounts=accounts)))
    hub.refusals = dict.fromkeys(places[1:], ROLE_MISSING)

    assert not hub.sweep(places)
    assert hub.sweep(places)
    (begun,) = hub.begun
    assert begun.subject == "59 targets: the role of GPU Governor cannot be assumed"
    assert [str(place) for place in places[1:]] == begun.facts["targets"]
    assert any("and 9 more" in line for line in begun.lines)


def test_a_message_that_cannot_be_sent_is_tried_again_and_the_sweep_fails_until_then() -> None:
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    with mock.patch.object(hub.world.announcer, "announce", side_effect=Unavailable("away")):
        assert [False, False] == [hub.sweep(), hub.sweep()]
    assert [] == hub.begun

    assert [False, True] == [hub.sweep(), hub.sweep()]
    assert 1 == len(hub.begun)


def test_a_place_that_is_left_out_later_ends_its_state() -> None:
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    hub.sweep()
    without = replace(TARGETS, without=(Place(FAR.account, FAR.region),))
    hub.world.policies.policy = replace(hub.world.policies.policy, targets=without)

    assert hub.sweep((TARGET, MEMBER))
    assert [[str(FAR)]] == [one.facts["targets"] for one in hub.over]


def test_a_target_in_a_state_is_neither_swept_nor_read_further() -> None:
    """It keeps its page and observations, and nothing is concluded from missing instances."""
    hub = Hub()
    instance_id = hub.world.add(1)
    hub.sweep((TARGET,))
    before = hub.world.state.page(TARGET)
    hub.refusals[TARGET] = NOT_ENABLED

    hub.sweep((TARGET,))

    assert before == hub.world.state.page(TARGET)
    assert [instance_id] == list(hub.world.state.observations(TARGET))


def test_a_sweep_that_could_not_read_its_target_reports_no_metric() -> None:
    """Or the alarm on missing sweeps would never sound where no target at all can be swept."""
    hub = Hub()
    hub.refusals[TARGET] = NOT_ENABLED
    payload = {"account": TARGET.account, "region": TARGET.region}
    with mock.patch.object(module("sweep_target"), "count") as count:
        answer = call("sweep_target", payload, lambda *_: hub.world.sweep_target(TARGET))

    assert {**payload, "state": "not-enabled"} == answer
    count.assert_not_called()


@pytest.mark.parametrize("kind", list(StateKind))
def test_every_state_says_what_it_is_what_is_not_done_and_what_to_do(kind: StateKind) -> None:
    words = WORDS[kind]

    assert not words.what.endswith(".")
    assert words.not_done.endswith(".")
    assert words.to_do.endswith(".")
    if kind is not StateKind.CANNOT_TAG:
        assert "targets.without" in words.to_do


def test_errors_without_a_code_are_no_states() -> None:
    """No credentials, and a network that failed."""
    for error in (AccessDenied("none", operation="ec2:DescribeInstances"), Unavailable("away")):
        assert state_of_target(error) is None
        assert not cannot_tag(error)
