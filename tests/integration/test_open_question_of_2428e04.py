"""A stack of release 2428e04 is updated while a question is open: its policy and link go on, and it
is asked again, because nothing has sealed it."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.evidence.rules.series import evidence_document, evidence_hash
from governor.table import keys
from governor.table.table import update
from tests.episodes import ending_of
from tests.integration.people import decide
from tests.integration.stage import TARGET, Stage

POLICY_OF_2428E04 = """
mode: ask
detector: survival
survival: {unproven_minutes: 120, history_days: 42}
targets: {pasts_asked_per_sweep: 100}
overrides:
  - {name: threshold, match: {tags: {Team: infra}}, set: {detector: threshold}}
"""


def as_2428e04_wrote_it(stage: Stage, instance_id: str) -> None:
    """Puts the open question into the form of that release: an hour of evidence, its words, its
    verdict."""
    table = DynamoTable(Clients(), stage.scene.outputs["StateTableName"])
    episode = stage.episode(instance_id)
    window = replace(
        episode.measurement.evidence.window,
        start=episode.measurement.evidence.window.end - timedelta(hours=1),
    )
    evidence = replace(
        episode.measurement.evidence,
        window=window,
        gpus=tuple(
            replace(gpu, utilization=gpu.utilization[-window.bins :])
            for gpu in episode.measurement.evidence.gpus
        ),
        samples=(),
        memory_newest_percent=None,
        last_measured={},
        longest_hole_minutes={},
    )
    document, digest = evidence_document(evidence), evidence_hash(evidence)
    assert document.keys() & {"samples", "last_measured", "longest_hole_minutes"} == set()
    changes = {
        "evidence": zlib.compress(json.dumps(document).encode()),
        "evidence_hash": digest,
        "reason": "the GPU stayed under 5 % for 120 min; no earlier idle stretch near "
        "this time of day",
    }
    table.write(update(keys.episode(episode.ref), changes, remove=["opening_seal"]))
    table.write(update(keys.approval(episode.approval_id), {"evidence_hash": digest}))
    seen = stage.state.observations(TARGET)
    before = {name: replace(one, verdict="resting", idle_since=None) for name, one in seen.items()}
    stage.state.remember(TARGET, before, stage.episode(instance_id).opened_at)


@pytest.mark.parametrize("answered", [False, True])
def test_an_open_question_is_void_after_the_update(stage: Stage, answered: bool) -> None:
    """Nothing is done by a yes that somebody presses before the sweep."""
    stage.policy(POLICY_OF_2428E04)
    instance_id, link = stage.ask()
    as_2428e04_wrote_it(stage, instance_id)
    link = stage.personal(
        link, expires_at=datetime.now(tz=UTC) + timedelta(hours=1)
    )  # in the form of then

    if answered:
        status, page = decide(link, "approve")
        assert (True, True) == (status != 303, "You are asked again" in page)
    stage.scene.sweep()

    assert "void" == stage.outcome(instance_id)
    assert "it was asked before an update" in ending_of(stage.episode(instance_id)).reason
    assert "running" == stage.ec2_state(instance_id)
