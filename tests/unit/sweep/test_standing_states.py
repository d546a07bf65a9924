"""States that last until a person changes something: reported once when they begin and once when
they are over, never an alarm at every sweep, and never in the way of a new fault."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from governor.alerts.model import Alert, AlertKind, Incident, Severity
from governor.core.errors import (
    AccessDenied,
    CloudError,
    NotFound,
    TargetsNotSwept,
    Throttled,
    Unavailable,
)
from governor.core.instance import Target
from governor.core.units import iso
from governor.episode.model.episode import Failing, InstanceRecord
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.rules.standing import (
    WORDS,
    cannot_tag,
    has_too_many_tags,
    state_of_target,
)
from governor.fleet.model import FleetPage
from governor.fleet.unswept import unswept
from governor.notify.compose import message_of
from governor.notify.email import fitting
from governor.notify.pagerduty import pagerduty_events
from governor.notify.slack_blocks import slack_blocks
from governor.notify.teams import teams_envelope
from governor.notify.webhook import webhook_document
from governor.policy.model.judging import Place, Targets
from governor.policy.model.policy import Mode, Policy
from governor.sweep.known_failures import FindKnownFailures
from governor.sweep.messages import standing_alert, standing_over_alert
from governor.wiring.closing import HubSteps
from tests.builders import NOW, TARGET
from tests.properties import examples, step
from tests.twins import table
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
        self.outcomes: list[str | None] = []
        self.without_note: set[Target] = set()
        """Targets whose failure Step Functions cannot note in the table."""
        self.world.ec2.list_selected = self._list(  # type: ignore[method-assign]
            self.world.ec2.list_selected
        )

    def _list(self, list_selected: Any) -> Any:
        def listed(target: Target, *args: Any, **named: Any) -> Any:
            if target in self.refusals:
                raise self.refusals[target]
            return list_selected(target, *args, **named)

        return listed

    def sweep(self, places: tuple[Target, ...] = PLACES, *, minutes: int = 5) -> bool:
        """Sweep these places, that many minutes later. Return whether the execution succeeded; if
        not, an alarm counts it."""
        self.world.clock.moment += timedelta(minutes=minutes)
        self.outcomes = []
        for place in places:
            try:
                self.world.sweep_target(place)
                self.outcomes.append("swept")
            except CloudError as error:
                self.outcomes.append(self._note_failure(place, error))
        payload = {"outcomes": self.outcomes, "target_count": len(places)}
        steps = HubSteps(self.world.close_sweep, _summed_up())
        try:
            call("sum_up_month", payload, lambda: steps)
        except (TargetsNotSwept, Unavailable):
            return False
        return True

    def _note_failure(self, place: Target, error: CloudError) -> str | None:
        """Note the failure as the state machine does, and return its outcome."""
        if place in self.without_note:
            return None
        key = ("UNSWEPT", f"{place.account}#{place.region}")
        why = json.dumps({"Error": type(error).__name__, "Cause": "{}"})
        failed_at = iso(self.world.clock.moment)
        item = {"pk": key[0], "sk": key[1], "failed_at": failed_at, "why": why}
        self.world.state.items[key] = item
        return "failed"

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
    summed_up = mock.Mock(return_value=mock.Mock(published=(), costs=(), notified=(), problems=()))
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


_MINUTES = step(6) * 5
"""Between sweeps of tests that last for days: `make soak` sweeps every five minutes."""
_SWEEPS_A_DAY = 24 * 60 // _MINUTES

FLAPPING = (NOT_ENABLED, ROLE_MISSING, refused("UnauthorizedOperation"))


@pytest.mark.repeats
@pytest.mark.parametrize("error", FLAPPING[: examples(1, 3)])
def test_a_place_that_flaps_at_each_sweep_is_reported_once_a_day_and_shown(
    error: CloudError,
) -> None:
    """Its alarm sounds as often. Each sweep that meets the state stores it, for `governor status`
    and the console."""
    hub = Hub()
    succeeded = []
    for _ in range(_SWEEPS_A_DAY):
        hub.refusals[FAR] = error
        succeeded.append(hub.sweep(minutes=_MINUTES))
        assert [FAR] == [state.target for state in hub.world.state.standing_states()]
        del hub.refusals[FAR]
        succeeded.append(hub.sweep(minutes=_MINUTES))
        assert [] == hub.world.state.standing_states()

    assert (2, 2) == (len(hub.begun), len(hub.over))
    assert 2 == succeeded.count(False)


@pytest.mark.repeats
def test_a_state_that_came_back_within_a_day_is_reported_if_it_lasts() -> None:
    """Once the day is over."""
    hub = Hub()
    for _ in range(2):
        hub.refusals[FAR] = NOT_ENABLED
        hub.sweep()
        del hub.refusals[FAR]
        hub.sweep()
    hub.refusals[FAR] = NOT_ENABLED
    for _ in range(_SWEEPS_A_DAY - 8):
        assert hub.sweep(minutes=_MINUTES)
    assert 1 == len(hub.begun)

    assert 1 == [hub.sweep(minutes=_MINUTES) for _ in range(10)].count(False)
    assert 2 == len(hub.begun)


def test_a_state_that_comes_back_after_a_day_is_reported_again() -> None:
    hub = Hub()
    for _ in range(2):
        hub.refusals[FAR] = NOT_ENABLED
        assert not hub.sweep()
        assert hub.sweep()
        del hub.refusals[FAR]
        assert hub.sweep()
        hub.world.clock.moment += timedelta(days=1)

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


THROTTLED = Throttled("slow", operation="ec2:DescribeInstances", code="RequestLimitExceeded")
AWAY = Unavailable("away", operation="ec2:DescribeInstances")
FAILURES = (
    THROTTLED,
    AWAY,
    refused("ExpiredToken"),
    refused("SignatureDoesNotMatch"),
    refused("AccessDeniedException", "dynamodb:Query"),
    CloudError("odd", operation="ec2:DescribeInstances", code="InvalidParameterValue"),
)


@pytest.mark.repeats
@pytest.mark.parametrize("place", [MEMBER, FAR])
@pytest.mark.parametrize("error", FAILURES[: examples(1, len(FAILURES))])
def test_a_failure_beside_or_in_place_of_a_state_fails_sweeps_of_each_day(
    place: Target, error: CloudError
) -> None:
    """It fails two sweeps, and then those of each later day."""
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    hub.sweep()
    assert hub.sweep()

    hub.refusals[place] = error
    succeeded = [hub.sweep(minutes=_MINUTES) for _ in range(_SWEEPS_A_DAY)]
    assert [False, False, *[True] * (_SWEEPS_A_DAY - 2)] == succeeded
    next_day = [hub.sweep(minutes=_MINUTES) for _ in range(_SWEEPS_A_DAY - 1)]
    assert 2 == next_day.count(False), "once more on the next day"
    assert 1 <= len(hub.begun) <= 2
    assert [] == hub.over, "a target that fails otherwise was not swept"


@pytest.mark.parametrize("place", [MEMBER, FAR])
@pytest.mark.parametrize("error", FAILURES)
def test_a_failure_beside_or_in_place_of_a_state_fails_sweeps_anew(
    place: Target, error: CloudError
) -> None:
    """A state elsewhere does not hide it."""
    hub = Hub()
    hub.refusals[FAR] = NOT_ENABLED
    hub.sweep()
    assert hub.sweep()

    hub.refusals[place] = error
    assert [False, False, *[True] * 10] == [hub.sweep() for _ in range(12)]
    assert 1 <= len(hub.begun) <= 2
    assert [] == hub.over, "a target that fails otherwise was not swept"


def known(place: Target = FAR, error: CloudError = THROTTLED) -> Hub:
    """A hub where this place fails, and sweeps do not fail for that any more."""
    fourth_place = Place(TARGET.account, FAR.region)
    hub = Hub(replace(POLICY, targets=replace(TARGETS, without=(fourth_place,))))
    hub.sweep()
    hub.refusals[place] = error
    assert [False, False, True, True] == [hub.sweep() for _ in range(4)]
    return hub


def test_a_lasting_failure_lets_the_alarm_sound_for_a_second_target() -> None:
    """And is shown meanwhile, by `governor status` and the console."""
    hub = known(FAR)
    hub.refusals[MEMBER] = THROTTLED

    assert [False, False, True] == [hub.sweep() for _ in range(3)]
    assert {FAR, MEMBER} == set(unswept(hub.world.state.memory))


def test_another_error_of_a_failing_target_is_a_new_failure() -> None:
    hub = known()
    hub.refusals[FAR] = AWAY
    assert [False, False, True] == [hub.sweep() for _ in range(3)]


@pytest.mark.parametrize("swept_times", [1, 2])
def test_a_failure_after_the_target_was_swept_is_new(swept_times: int) -> None:
    """However soon after the earlier one, and with the same error."""
    hub = known()
    del hub.refusals[FAR]
    assert [True] * swept_times == [hub.sweep() for _ in range(swept_times)]

    hub.refusals[FAR] = THROTTLED
    assert [False, False, True] == [hub.sweep() for _ in range(3)]


def test_a_failure_of_all_targets_fails_every_sweep() -> None:
    """Nothing is swept at all. A target in a state is not swept, either."""
    hub = known(FAR)
    hub.refusals[MEMBER] = THROTTLED
    hub.refusals[TARGET] = NOT_ENABLED
    assert not any(hub.sweep() for _ in range(20))

    del hub.refusals[TARGET]
    assert [False, False, True] == [hub.sweep() for _ in range(3)], "the second one is new"

    only = Hub(Policy(mode=Mode.ASK))
    only.refusals[TARGET] = THROTTLED
    assert not any(only.sweep((TARGET,)) for _ in range(20))


def test_a_failure_that_cannot_be_noted_fails_every_sweep_beside_a_known_one() -> None:
    """Nobody could see its reason. The known failure is not counted in its place."""
    hub = known(FAR)
    hub.refusals[MEMBER] = THROTTLED
    hub.without_note = {MEMBER}
    assert not any(hub.sweep() for _ in range(10))

    del hub.refusals[FAR]
    assert not any(hub.sweep() for _ in range(10))

    hub.refusals[FAR] = ROLE_MISSING
    assert not any(hub.sweep() for _ in range(10))


def test_a_damaged_note_fails_every_sweep() -> None:
    hub = known(FAR)
    hub.refusals[MEMBER] = THROTTLED
    noted = hub._note_failure

    def damaged(place: Target, error: CloudError) -> str | None:
        outcome = noted(place, error)
        if place == MEMBER:
            hub.world.state.items["UNSWEPT", f"{place.account}#{place.region}"]["why"] = "["
        return outcome

    with mock.patch.object(hub, "_note_failure", side_effect=damaged):
        assert not any(hub.sweep() for _ in range(10))


@pytest.mark.parametrize("broken", ["claim_all", "done_all"])
def test_a_failure_that_cannot_be_remembered_as_known_fails_every_sweep(broken: str) -> None:
    """Too many alarms are better than none."""
    hub = Hub()
    hub.sweep()
    hub.refusals[FAR] = THROTTLED
    once = hub.world.close_sweep.find_known_failures.once
    with mock.patch.object(once.claim_store, broken, side_effect=Unavailable("away")):
        assert not any(hub.sweep() for _ in range(5))


def test_failures_that_cannot_be_read_fail_every_sweep() -> None:
    hub = known(FAR)
    find = hub.world.close_sweep.find_known_failures
    with mock.patch.object(FindKnownFailures, "__call__", side_effect=Unavailable("away")):
        assert not any(hub.sweep() for _ in range(5))
    assert find.read_failures()


def test_the_old_failure_of_a_target_that_is_swept_hides_no_other_one() -> None:
    """Its note stays in the table."""
    hub = known(FAR)
    del hub.refusals[FAR]
    hub.sweep()
    hub.refusals[MEMBER] = THROTTLED
    assert [False, False, True] == [hub.sweep() for _ in range(3)]
    assert {FAR, MEMBER} == set(unswept(hub.world.state.memory))


def test_a_swept_target_whose_page_is_not_stored_hides_no_new_failure() -> None:
    """Its old failure looks as if it lasted."""
    hub = known(FAR)
    del hub.refusals[FAR]
    hub.refusals[MEMBER] = THROTTLED
    keep_page = hub.world.state.keep_page

    def keep(page: FleetPage) -> bool:
        if page.target == FAR:
            raise Unavailable("away")
        return keep_page(page)

    with mock.patch.object(hub.world.state, "keep_page", side_effect=keep):
        assert [False, False, True] == [hub.sweep() for _ in range(3)]


def test_a_place_that_was_never_swept_is_told_from_another_one() -> None:
    """As when an account is added while another one fails."""
    hub = Hub()
    hub.refusals = {FAR: THROTTLED, MEMBER: THROTTLED}
    before = (TARGET, FAR)
    assert [False, False, True] == [hub.sweep(before) for _ in range(3)]
    assert [False, False, True] == [hub.sweep() for _ in range(3)]


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
        assert not has_too_many_tags(error)
        assert not cannot_tag(error)


FULL = CloudError("ec2:CreateTags failed: TagLimitExceeded: 50", operation="ec2:CreateTags",
                  code="TagLimitExceeded")  # fmt: skip
NO_TAGS = refused("UnauthorizedOperation", "ec2:CreateTags")


def tags_refused(code: str) -> CloudError:
    """A refusal of CreateTags that is no denial."""
    return CloudError(f"ec2:CreateTags failed: {code}: no", operation="ec2:CreateTags", code=code)


BY_TAG_POLICY = tags_refused("TagPolicyViolation")
REFUSALS = (FULL, NO_TAGS, BY_TAG_POLICY, tags_refused("InvalidParameterValue"),
            refused("AuthFailure", "ec2:CreateTags"))  # fmt: skip


class Tagged:
    """One target with idle instances, on which EC2 refuses tags."""

    def __init__(self, count: int, mode: Mode = Mode.ASK) -> None:
        self.hub = Hub(replace(POLICY, mode=mode))
        self.world = self.hub.world
        self.ids = [self.world.add(number + 1) for number in range(count)]

    def refuse(self, error: CloudError, *ids: str) -> None:
        """EC2 refuses tags of these instances from now on."""
        for instance_id in ids:
            self.world.ec2.failures[f"set_tags:{instance_id}"] = [error] * 10_000

    def allow(self, *ids: str) -> None:
        """EC2 refuses them no more."""
        for instance_id in ids:
            del self.world.ec2.failures[f"set_tags:{instance_id}"]

    def tries(self, instance_id: str) -> int:
        """The calls that would have tagged the instance so far."""
        return sum(call[:2] == ("set_tags", instance_id) for call in self.world.ec2.calls)

    def sweep(self, times: int = 1) -> None:
        """Sweep so often, and see that no execution fails and no step is left over."""
        for _ in range(times):
            assert self.hub.sweep((TARGET,))
            page = self.world.state.page(TARGET)
            assert page is not None
            assert page.problem is None


@pytest.mark.parametrize(
    ("error", "mode"),
    [*((error, Mode.ASK) for error in REFUSALS), (FULL, Mode.OBSERVE)],
    ids=lambda value: getattr(value, "code", value),
)
def test_an_instance_that_takes_no_tag_is_reported_once_and_tried_hourly(
    error: CloudError, mode: Mode
) -> None:
    """Questions start all the same. When a tag can be set again, that is said, too."""
    tagged = Tagged(1, mode)
    (one,) = tagged.ids
    tagged.refuse(error, one)

    tagged.sweep(36)  # three hours

    assert 3 <= tagged.tries(one) <= 4
    (begun,) = tagged.hub.begun
    assert ("cannot-tag", [str(TARGET)]) == (begun.facts["state"], begun.facts["targets"])
    assert ([], 1) == (tagged.hub.over, len(tagged.world.workflow.executions))
    tagged.allow(one)
    tagged.sweep(14)
    assert ["cannot-tag"] == [one.facts["state"] for one in tagged.hub.over]
    assert 1 == len(tagged.hub.begun)
    assert [] == tagged.world.state.standing_states()


def test_a_second_full_instance_is_reported_while_the_first_one_stands() -> None:
    tagged = Tagged(2)
    first, second = tagged.ids
    tagged.refuse(FULL, first, second)
    tagged.world.publish(second, [90.0] * 48)
    tagged.sweep(3)

    tagged.world.publish(second, [1.0] * 48)
    tagged.sweep(40)

    assert [[first], [second]] == [one.facts["instance_ids"] for one in tagged.hub.begun]


@pytest.mark.parametrize("error", [NO_TAGS, BY_TAG_POLICY], ids=lambda error: error.code)
def test_a_denial_is_reported_once_for_all_instances_of_a_target(error: CloudError) -> None:
    """An organization's policy denies it: the next idle instance is no news."""
    tagged = Tagged(2)
    first, second = tagged.ids
    tagged.refuse(error, first, second)
    tagged.world.publish(second, [90.0] * 48)
    tagged.sweep(3)

    tagged.world.publish(second, [1.0] * 48)
    tagged.sweep(40)

    assert 0 < tagged.tries(second)
    assert [[]] == [one.facts["instance_ids"] for one in tagged.hub.begun]


ODD = tags_refused("InvalidParameterValue")


@pytest.mark.parametrize("error", [NO_TAGS, BY_TAG_POLICY, ODD], ids=lambda error: error.code)
def test_a_refusal_of_one_instance_is_its_own_state_where_others_are_tagged(
    error: CloudError,
) -> None:
    """An organization may deny by the tags of an instance. Nothing is wrong with its target."""
    tagged = Tagged(3)
    *others, refused_id = tagged.ids
    tagged.refuse(error, refused_id)
    tagged.sweep(40)

    (begun,) = tagged.hub.begun
    assert [refused_id] == begun.facts["instance_ids"]
    assert [] == tagged.hub.over
    [state] = tagged.world.state.standing_states()
    assert refused_id == state.instance_id
    assert [1, 1] == [tagged.tries(instance_id) for instance_id in others]


def test_an_odd_refusal_of_the_only_instance_is_its_own_state() -> None:
    """The next idle instance is tagged at once."""
    tagged = Tagged(2)
    first, second = tagged.ids
    tagged.refuse(ODD, first)
    tagged.world.publish(second, [90.0] * 48)
    tagged.sweep(3)
    assert [[first]] == [message.facts["instance_ids"] for message in tagged.hub.begun]

    tagged.world.publish(second, [1.0] * 48)
    tagged.sweep(20)
    assert 1 == tagged.tries(second)


def test_an_odd_refusal_of_all_instances_is_reported_once_for_their_target() -> None:
    """The same answer for two is expected for the next one, too."""
    tagged = Tagged(3)
    tagged.refuse(ODD, *tagged.ids)
    tagged.world.publish(tagged.ids[2], [90.0] * 48)
    tagged.sweep(3)

    tagged.world.publish(tagged.ids[2], [1.0] * 48)
    tagged.sweep(40)

    assert [[]] == [message.facts["instance_ids"] for message in tagged.hub.begun]


def test_a_denial_is_over_for_all_once_a_tag_was_set() -> None:
    """In a busy target an instance waits for its hourly try at any time. It would keep the state
    alive for good, and its tags would come an hour late."""
    tagged = Tagged(8)
    tagged.refuse(NO_TAGS, *tagged.ids)
    tagged.sweep(3)
    tagged.allow(*tagged.ids)
    tries = {one: tagged.tries(one) for one in tagged.ids}

    while all(tagged.tries(one) == tries[one] for one in tagged.ids):
        tagged.sweep()

    assert all(tagged.tries(one) > tries[one] for one in tagged.ids)
    tagged.sweep()
    assert ["cannot-tag"] == [one.facts["state"] for one in tagged.hub.over]


def test_a_denial_of_some_instances_stands_while_others_are_tagged() -> None:
    """A policy may deny by the tags of an instance: people are not notified again and again."""
    tagged = Tagged(4)
    *others, denied = tagged.ids
    tagged.refuse(NO_TAGS, *tagged.ids)
    tagged.sweep(3)
    tagged.allow(*others)

    tagged.sweep(30)

    assert (1, 0) == (len(tagged.hub.begun), len(tagged.hub.over))
    assert tagged.tries(denied) <= 10


@pytest.mark.parametrize("error", [FULL, NO_TAGS, BY_TAG_POLICY])
def test_a_try_that_is_throttled_ends_no_state(error: CloudError) -> None:
    """Nothing says that it is over, so people get no message that it is, and none that it began."""
    tagged = Tagged(1)
    (one,) = tagged.ids
    tagged.refuse(error, one)
    tagged.sweep(3)
    tries = tagged.tries(one)
    tagged.refuse(Throttled("slow", operation="ec2:CreateTags", code="Throttling"), one)

    while tagged.tries(one) == tries:
        tagged.hub.sweep((TARGET,))
    tagged.refuse(error, one)
    tagged.sweep(5)

    assert (1, 0) == (len(tagged.hub.begun), len(tagged.hub.over))


def test_an_instance_that_ends_or_works_ends_its_state() -> None:
    tagged = Tagged(2)
    ended, works = tagged.ids
    tagged.refuse(FULL, ended, works)
    tagged.sweep(2)
    tagged.world.change(ended, state="terminated")
    tagged.world.publish(works, [90.0] * 48)

    tagged.sweep(2)

    assert [2] == [len(one.facts["instance_ids"]) for one in tagged.hub.over]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        Throttled("slow", operation="ec2:CreateTags", code="RequestLimitExceeded"),
        refused("ExpiredToken", "ec2:CreateTags"),
        refused("RequestExpired", "ec2:CreateTags"),
        tags_refused("ConcurrentTagAccess"),
        NotFound("gone", operation="ec2:CreateTags", code="InvalidInstanceID.NotFound"),
        Unavailable("a fault", operation="ec2:CreateTags", code="InternalError"),
        CloudError("of a proxy", operation="ec2:CreateTags", code="403"),
    ],
    ids=lambda error: error.code,
)
def test_any_other_error_of_a_tag_is_a_problem_of_every_sweep(error: CloudError) -> None:
    """A full instance beside it hides nothing."""
    tagged = Tagged(2)
    full, other = tagged.ids
    tagged.refuse(FULL, full)
    tagged.refuse(error, other)
    for _ in range(3):
        summary = tagged.world.sweep(5)
        assert [f"tags of {other}: {error}"] == summary.problems


def test_incidents_are_read_and_closed_once_a_sweep_however_many_targets_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the hub's step: the sweep of a target does not touch them."""

    def requests(number: int) -> Counter[tuple[str, str]]:
        accounts = tuple(f"{account:012d}" for account in range(1, number + 1))
        hub = Hub(Policy(mode=Mode.ASK, targets=Targets(accounts=accounts)))
        for account in accounts:
            hub.world.add(int(account), target=Target(account, TARGET.region))
        over = Incident("key", "it is over", TARGET, NOW - timedelta(hours=1), NOW)
        hub.world.state.note_incident(over)
        asked = Counter[tuple[str, str]]()
        monkeypatch.setattr(
            table, "ASKED", [lambda action, pk: asked.update([(action, pk.split("#")[0])])]
        )
        hub.sweep(tuple(Target(account, TARGET.region) for account in accounts))
        assert 1 == sum(one.kind is AlertKind.INCIDENT_OVER for one in hub.world.announcer.sent)
        return Counter({one: times for one, times in asked.items() if one[1] == "INCIDENT"})

    few = requests(1)
    assert {"dynamodb:Query": 1, "dynamodb:DeleteItem": 1} == {
        action: times for (action, _), times in few.items()
    }
    assert few == requests(12)


def failing(target: Target, instance_id: str = "i-0abc") -> Failing:
    """A workflow that failed an hour ago."""
    at = NOW - timedelta(hours=1)
    return Failing(target, instance_id, "notebook", "denied", "AccessDenied: no", "stop", at)


def test_failures_are_read_once_a_sweep_however_many_targets_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the hub's step: the sweep of a target asks for its own standing states alone."""

    def queries(number: int) -> int:
        accounts = tuple(f"{account:012d}" for account in range(1, number + 1))
        hub = Hub(Policy(mode=Mode.ASK, targets=Targets(accounts=accounts)))
        places = tuple(Target(account, TARGET.region) for account in accounts)
        for account, place in enumerate(places):
            hub.world.add(account, target=place)
        hub.world.state.note_failing(failing(places[-1]))
        asked = Counter[tuple[str, str]]()
        monkeypatch.setattr(table, "ASKED", [lambda action, pk: asked.update([(action, pk)])])
        hub.sweep(places)
        assert 1 == sum(one.kind is AlertKind.FAILURE_OVER for one in hub.world.announcer.sent)
        assert [] == hub.world.state.failing()
        return asked["dynamodb:Query", "FAILING#all"]

    assert 10 == queries(12) - queries(2)


def test_a_failure_lasts_while_its_target_is_not_swept_or_its_page_cannot_be_read() -> None:
    """Nothing says then that the instance is gone, or works."""
    hub = Hub()
    one = hub.world.add(1)
    hub.sweep()
    hub.world.state.note_failing(replace(failing(TARGET, one), at=hub.world.clock.moment))
    hub.world.state.put(InstanceRecord(TARGET, one, failures=1))
    hub.refusals[TARGET] = Throttled("slow", operation="ec2:DescribeInstances", code="Throttling")
    for _ in range(5):
        hub.sweep()
    assert [None] == [failure.over_at for failure in hub.world.state.failing()]

    del hub.refusals[TARGET]
    for _ in range(5):
        hub.sweep()
    assert [None] == [failure.over_at for failure in hub.world.state.failing()]

    (page,) = (item for (pk, _), item in hub.world.state.items.items() if _is_page(pk, item))
    rows = page["rows"]
    page["rows"] = "damaged"
    hub.world.close_sweep()
    assert [None] == [failure.over_at for failure in hub.world.state.failing()]

    page["rows"] = rows
    hub.world.change(one, state="terminated")
    hub.sweep()
    assert [] == hub.world.state.failing()


def _is_page(pk: str, item: Any) -> bool:
    """Return whether this stored item is the page of the hub's target."""
    is_of_hub = item.get("account") == TARGET.account and item.get("region") == TARGET.region
    return pk == "FLEET" and is_of_hub


@pytest.mark.parametrize("kind", list(StateKind))
def test_a_message_about_a_state_reads_well_in_every_channel(kind: StateKind) -> None:
    """The title names it; then come what is not done and what to do. None is cut, and an id keeps
    its letters. PagerDuty gets the alarm alone: no message is critical."""
    instance_id = "i-0abc" if kind is StateKind.CANNOT_TAG else ""
    state = StandingState(FAR, kind, "AuthFailure: no", NOW, NOW, instance_id)
    begun = standing_alert(kind, [state], TARGET, NOW)
    over = standing_over_alert(kind, [state], TARGET, NOW)

    assert f"{state.place}: {WORDS[kind].what}" == begun.subject
    assert f"Resolved: {WORDS[kind].what} ({state.place})" == over.subject
    assert (WORDS[kind].not_done, f"Next step: {WORDS[kind].to_do}") == begun.lines[:2]
    assert f"- {state.place}: AuthFailure: no" in begun.lines
    for alert in (begun, over):
        assert (FAR.account, FAR.region) == (alert.account, alert.region)
        assert len(alert.subject) < 98
        message = message_of(alert, None, link=None)
        text, page = fitting(message)
        blocks = json.dumps(slack_blocks(message, interactive=False))
        documents = (teams_envelope(message), webhook_document(message))
        for shown in (text, page, blocks, *(json.dumps(one, default=str) for one in documents)):
            assert state.place in shown
            assert WORDS[kind].what in shown
        assert [] == pagerduty_events(message)
