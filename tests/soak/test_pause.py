"""A pause of everything, pressed at every state of the workflow and at every call of the function
that acts.

No destructive call follows until it is ended. Then each workflow goes on, or ends as it should.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any

import pytest

from governor.episode.model.plan import Step
from governor.limits.model.breaker import BreakerState
from governor.limits.model.pause import Pause
from tests.properties import IS_LONG, examples, step
from tests.soak import invariants
from tests.soak.asl import Execution, Machine
from tests.soak.cloud import Cloud, Deed
from tests.soak.faults import World
from tests.soak.parts import ROOT, simulated
from tests.soak.scenarios import HOURS, ID, SCENARIOS, Scenario

STATES: dict[str, Any] = json.loads((ROOT / "statemachines" / "remediation.asl.json").read_text())[
    "States"
]
DESTROYS = frozenset({"stop", "terminate", "delete"})
BY = "oidc:ada@example.com"
PAUSED_HOURS = 3
STORIES = {
    one.name: one for one in SCENARIOS if one.outcome is not None and "at once" not in one.name
}
FORCED = {
    "UnknownPath": "Path?",
    "UnknownDecision": "Decision?",
    "NothingToDo": "Recheck",
    "WaitToAsk": "WaitForWorkingHours",
}
"""States that no sound workflow enters with the functions of this release, and the state in whose
place the test enters each."""
FROZEN_AT = {
    "WaitToAskAgain": "WaitForWorkingHours",
    "UseNewTimes": "WaitForWorkingHours",
    "TellWaitingToTerminate": "TerminatePlanned?",
    "WaitToTerminate": "TerminatePlanned?",
}
"""States of a workflow that a freeze holds back already, and where that freeze begins."""
FAILS_AT = {"Failed": "WasRefused?"}

_CHOOSES = frozenset({"Choice", "Pass"})
"""Types of states that call no function. From the moment when such a state is entered until the
next one of another type is, nothing reads the pause: pausing at either leaves the same world."""
STATES_TO_PAUSE_AT = sorted(
    name for name, state in STATES.items() if IS_LONG or state["Type"] not in _CHOOSES
)
STORIES_OF_A_STATE = examples(1, 2)
"""In so many stories everything is paused when a state is entered."""
CALLS_BEFORE_THE_NOTE = step(7)
"""Everything is paused at every seventh call until the step is noted, and at every call from then
on. `make soak` tries all calls."""


@pytest.fixture(scope="module", autouse=True)
def _simulated() -> Iterator[None]:
    with simulated():
        yield


@contextmanager
def entering(see: Callable[[str], str]) -> Iterator[None]:
    """Call `see` with each state that an execution enters; it returns the state to enter."""
    enter, start = Execution.enter, Machine.start

    def entered(self: Execution, state: str, data: dict[str, Any]) -> None:
        enter(self, see(state), data)

    def started(self: Machine, given: Any) -> Execution:
        see(self.definition["StartAt"])
        return start(self, given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Execution, "enter", entered)
        patched.setattr(Machine, "start", started)
        yield


@dataclass
class Story:
    """A scenario in which somebody pauses everything when a state is entered."""

    scenario: Scenario
    wanted: str
    instead_of: str | None = None
    frozen_at: str | None = None
    paused_at: datetime | None = None
    resumed_at: datetime | None = None
    cloud: Cloud = field(init=False)

    def play(self) -> None:
        self.cloud = self.scenario.begin()
        # A pause of hours may let the question end in another way.
        self.cloud.expects = None
        with entering(self._see):
            self.scenario.finish(self.cloud)
            if self.paused_at is not None:
                self.run_to_the_end()

    def run_to_the_end(self) -> None:
        """Let the hours of the scenario pass once more, for what the pause has put off.

        They end as soon as everything is resumed, and nothing is left to do.
        """
        for _ in range(int(self.scenario.hours)):
            if self.resumed_at is not None and self.scenario.is_over(self.cloud):
                return
            self.cloud.run(HOURS)

    def _see(self, state: str) -> str:
        if state == self.frozen_at and self.paused_at is None:
            self._freeze()
        entered = self.wanted if state == self.instead_of else state
        if entered == self.wanted and self.paused_at is None:
            self.pause()
        return entered

    def _freeze(self) -> None:
        self.frozen_at = None
        self.cloud.state.begin_hub_freeze(
            BreakerState(self.cloud.moment, "many turned idle", turned=12)
        )

    def pause(self) -> None:
        self.paused_at = self.cloud.moment
        assert self.cloud.state.begin_pause(Pause(self.paused_at, BY, "a drill"))
        self.cloud.later(PAUSED_HOURS * HOURS, self.resume)

    def resume(self) -> None:
        """An admin ends it; nothing else did."""
        self.resumed_at = self.cloud.moment
        standing = self.cloud.state.pause()
        assert standing is not None
        freeze = self.cloud.state.hub().freeze
        if freeze is not None:
            self.cloud.state.end_hub_freeze(freeze)
        self.cloud.state.end_pause(standing, BY, self.cloud.moment)

    @property
    def destroyed_meanwhile(self) -> list[Deed]:
        assert self.paused_at is not None
        assert self.resumed_at is not None
        until = self.resumed_at
        since = self.paused_at
        return [one for one in self.cloud.deeds if one.what in DESTROYS and since <= one.at < until]

    @property
    def complaints(self) -> list[str]:
        """Return what is wrong in the end: a promise that was broken, or a workflow that did not
        end."""
        running = [name for name, run in self.cloud.runs.items() if run.status == "RUNNING"]
        old = [name for name in running if name == min(self.cloud.runs)]
        return [*invariants.after(self.cloud), *(f"{name} still runs" for name in old)]


def reached_by(state: str) -> str:
    """Return the state that a story must enter so that this one is entered in its place or later:
    most states are entered by themselves."""
    return FORCED.get(state) or FROZEN_AT.get(state) or FAILS_AT.get(state) or state


@cache
def stories_by_state() -> dict[str, list[str]]:
    """Return for each state the stories whose workflow enters it: those that destroy most come
    first. No story is played that no state needs."""
    found: dict[str, list[str]] = {reached_by(state): [] for state in STATES}
    for name in sorted(STORIES, key=lambda name: "terminate" not in name):
        if all(len(names) >= STORIES_OF_A_STATE for names in found.values()):
            break
        for state in _states_entered(STORIES[name]):
            found.setdefault(state, []).append(name)
    return found


def _states_entered(scenario: Scenario) -> set[str]:
    seen: set[str] = set()

    def see(state: str) -> str:
        seen.add(state)
        return state

    with entering(see):
        scenario.play()
    return seen


def stories_of(state: str) -> list[Story]:
    """Return the stories in which the state is entered and everything is paused."""
    names = stories_by_state()[reached_by(state)]
    instead_of = FORCED.get(state) or FAILS_AT.get(state)
    return [
        Story(STORIES[name], state, instead_of, FROZEN_AT.get(state))
        for name in names[:STORIES_OF_A_STATE]
    ]


@pytest.mark.parametrize("state", sorted(STATES))
def test_a_story_enters_each_state(state: str) -> None:
    """Or nothing would be known of a pause there. A new state needs a story here."""
    assert stories_of(state), f"no story enters {state}: add one"


@pytest.mark.repeats
@pytest.mark.parametrize("state", STATES_TO_PAUSE_AT)
def test_nothing_is_destroyed_from_any_state_while_everything_is_paused(state: str) -> None:
    """Whatever the workflow does next."""
    for story in stories_of(state):
        story.play()

        assert story.paused_at is not None, f"{story.scenario.name} never entered {state}"
        assert [] == story.destroyed_meanwhile, story.scenario.name
        assert [] == story.complaints, story.scenario.name


@pytest.mark.parametrize("name", ["stop", "stop, snapshot, terminate", "auto", "silence acts"])
def test_what_was_paused_before_it_was_stopped_goes_on_afterwards(name: str) -> None:
    """The approved step is done after the pause, and not given up."""
    scenario = STORIES[name]
    if name == "silence acts":
        longer = scenario.policy.replace("wait_at_most_hours: 1", "wait_at_most_hours: 48")
        scenario = replace(scenario, policy=longer)
    story = Story(scenario, "RecheckBeforeStop")
    story.play()

    assert story.resumed_at is not None
    assert story.cloud.ec2.instances[ID].state in scenario.ends
    assert all(one.at >= story.resumed_at for one in story.cloud.deeds if one.what in DESTROYS)


@dataclass
class PausedAt:
    """Pauses everything right before the n-th call of `put_away`, or right after it."""

    number: int
    after: bool
    story: Story
    seen: int = 0
    was_noted: bool = False
    """The step was noted as begun when everything was paused."""

    def around(self, world: World, name: str, call: Callable[[], Any]) -> Any:
        if (
            not world.inside
            or world.inside[-1][0] != "put_away"
            or self.story.paused_at is not None
        ):
            return call()
        self.seen += 1
        if self.seen != self.number:
            return call()
        if not self.after:
            self._pause()
            return call()
        try:
            return call()
        finally:
            self._pause()

    def _pause(self) -> None:
        episodes = invariants.episodes(self.story.cloud)
        self.was_noted = any(Step.STOP.value in one.progress.steps_done for one in episodes)
        self.story.pause()


@pytest.mark.repeats
@pytest.mark.parametrize("after", [False, True])
def test_a_pause_in_the_middle_of_the_call_leaves_one_call_that_was_noted_before(
    after: bool,
) -> None:
    """The bound: a call whose note was written before the pause may still go out, and none after
    it."""
    outcomes = set()
    number = 1
    while True:
        story = Story(STORIES["stop"], "nowhere")
        point = PausedAt(number, after, story)
        story.cloud = story.scenario.begin(point)
        story.scenario.finish(story.cloud)
        if story.paused_at is None:
            break
        story.run_to_the_end()

        went_out = len(story.destroyed_meanwhile)
        assert went_out <= int(point.was_noted), number
        assert [] == story.complaints, number
        outcomes.add((point.was_noted, went_out))
        number += 1 if point.was_noted else CALLS_BEFORE_THE_NOTE
    assert {(False, 0), (True, 1)} <= outcomes
