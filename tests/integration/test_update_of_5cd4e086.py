"""A stack of the commit 5cd4e086, whose answers bear no seals, is updated while its questions are
open.

An answer that was not acted on ends as void, and people are asked again. An instance that is
stopped already gets its snapshots, stays stopped, and its termination is asked anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from governor.episode.model.plan import Step
from local.demo.scene import STACK, TEMPLATE
from tests.episodes import ending_of
from tests.integration.people import decide
from tests.integration.stage import ONE_IS_ENOUGH, PEOPLE, TARGET, Stage
from tests.integration.test_update import asked_again, deployed, unpacked

RELEASE = Path(__file__).with_name("release_5cd4e086.tar.xz")
"""That commit as it was: `git archive 5cd4e086 functions layers statemachines template.yaml`."""
OWNERSHIP = {**PEOPLE, "default_contacts": ["people"]}
POLICY = f"""plan: {{action: terminate}}
ownership: {json.dumps(OWNERSHIP)}
overrides: {json.dumps([ONE_IS_ENOUGH])}
"""


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Stage]:
    """A stack of that commit."""
    with deployed(unpacked(RELEASE, tmp_path), POLICY) as stage:
        yield stage


def asked_anew(stage: Stage, instance_id: str, before: str) -> str:
    """Sweep, without the memory of earlier sweeps, until people are asked again; return the new
    link."""
    stage.state.remember(TARGET, {}, datetime.now(tz=UTC))
    stage.scene.sweep()
    return stage.eventually(
        lambda: asked_again(stage, instance_id, before), "nobody is asked again"
    )


def test_what_was_not_acted_on_is_asked_again_and_what_is_stopped_stays_stopped(
    earlier: Stage,
) -> None:
    """The snapshots of the one end after the update; nobody has answered the other."""
    earlier.scene.simulation.set_delays(state_change=0, snapshot=3_600)
    stopped, stopped_link = earlier.ask(name="half-done")
    assert 303 == decide(stopped_link, "approve", typed_instance_id=stopped)[0]
    has_snapshots = lambda: bool(earlier.episode(stopped).progress.snapshots) or None  # noqa: E731
    earlier.eventually(has_snapshots, "no snapshot was begun")
    asked, asked_link = earlier.ask(name="open")

    outputs = earlier.scene.cloud.update(TEMPLATE, STACK)
    earlier.scene.outputs.update(outputs)

    earlier.scene.simulation.finish_snapshots()
    earlier.scene.simulation.set_delays(state_change=0, snapshot=0)
    assert "void" == earlier.outcome(stopped), ending_of(earlier.episode(stopped)).reason
    assert "stopped" == earlier.ec2_state(stopped)
    assert {"completed"} == set(earlier.snapshots())
    assert Step.TERMINATE.value not in earlier.episode(stopped).progress.steps_done
    status, page = decide(earlier.personal(asked_link), "approve", typed_instance_id=asked)
    assert (True, True) == (status != 303, "You are asked again" in page)
    earlier.scene.sweep()
    assert "void" == earlier.outcome(asked)
    assert "running" == earlier.ec2_state(asked)

    for instance_id, link in ((asked, asked_link), (stopped, stopped_link)):
        again = asked_anew(earlier, instance_id, link)
        answered = decide(earlier.personal(again), "approve", typed_instance_id=instance_id)
        assert 303 == answered[0], answered[1]
        assert "terminated" == earlier.outcome(instance_id)
        assert "terminated" == earlier.ec2_state(instance_id)
