"""The definition of the release before, over the code of this one.

Executions that are open at an update keep their definition. It repeats a failed stop or termination
without a recheck, so the functions alone must keep every call behind one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.properties import IS_LONG, examples
from tests.soak import cloud as simulation
from tests.soak.asl import check
from tests.soak.aws import Trouble
from tests.soak.cloud import Cloud
from tests.soak.crashes import points, try_all
from tests.soak.faults import Kind
from tests.soak.parts import simulated
from tests.soak.scenarios import ID, SCENARIOS, Scenario, works

BEFORE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "definitions/remediation_5cd4e086.asl.json").read_text()
)
BY_NAME = {one.name: one for one in SCENARIOS}
STORIES = ("stop", "stop, snapshot, terminate", "auto", "silence acts")
_STORIES_WITH_FAULTS = STORIES[: examples(2, 4)]
"""The stories with fewer questions send the same calls to EC2: `make soak` tries them, too."""
TROUBLES = (Trouble.UNAVAILABLE, Trouble.THROTTLED, Trouble.LOST)
_EVERY = 41 if IS_LONG else 139
"""One in so many faults is tried. Both are primes, so that the sample meets all calls."""
FAULTS = (Kind.ERROR_BEFORE, Kind.ERROR_AFTER, Kind.DEATH_BEFORE, Kind.DEATH_AFTER, Kind.TWICE)


@pytest.fixture(scope="module", autouse=True)
def _simulated() -> Iterator[None]:
    check(BEFORE)
    with pytest.MonkeyPatch.context() as patched, simulated():
        patched.setattr(simulation, "definition", lambda: BEFORE)
        yield


def _played(story: str, call: str, trouble: Trouble, *, resumes: bool) -> tuple[Scenario, Cloud]:
    """Play a story in which EC2 answers five calls with trouble, and the GPU works from the first
    one on."""
    scenario = BY_NAME[story]
    cloud = scenario.begin()
    cloud.expects = None
    cloud.ec2.troubles[call] = [trouble] * 5
    if resumes:
        cloud.ec2.on_trouble = partial(works, cloud)
    scenario.finish(cloud)
    return scenario, cloud


def test_the_definition_before_repeats_what_this_one_does_not() -> None:
    """Or these stories would prove nothing about it."""
    repeated = {
        error for retry in BEFORE["States"]["Stop"]["Retry"] for error in retry["ErrorEquals"]
    }

    assert {"Throttled", "Unavailable", "Sandbox.Timedout"} <= repeated


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("story", STORIES)
def test_a_stop_that_fails_is_not_repeated_on_a_gpu_that_works(
    story: str, trouble: Trouble
) -> None:
    """The first call may be carried out; no later one follows."""
    _, cloud = _played(story, "stop", trouble, resumes=True)

    assert 1 == sum(one.what == "stop" for one in cloud.sent)
    assert [] == cloud.violations
    if trouble is not Trouble.LOST:
        assert "running" == cloud.ec2.instances[ID].state


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize(
    ("story", "call"), [("stop", "stop"), ("stop, snapshot, terminate", "terminate")]
)
def test_what_fails_for_a_while_is_done_in_the_end(story: str, call: str, trouble: Trouble) -> None:
    """Each call after a recheck of its own."""
    scenario, cloud = _played(story, call, trouble, resumes=False)

    assert [] == scenario.complaints(cloud)
    assert cloud.ec2.instances[ID].state in scenario.ends


@pytest.mark.repeats
@pytest.mark.parametrize("story", _STORIES_WITH_FAULTS)
def test_no_fault_at_a_call_to_ec2_breaks_a_promise(story: str) -> None:
    """Errors, lost answers and deaths of the function right before and after each call that it
    makes."""
    scenario = BY_NAME[story]
    tried = [one for one in points(scenario) if one.kind in FAULTS][::_EVERY]

    assert len(tried) > 10
    assert () == try_all(tried).violations
