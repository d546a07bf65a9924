"""Questions for the tests of one file: asked together, as one sweep does, and each answered by one
test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from local.demo.scene import Scene
from tests.integration.conftest import cleaned_stage
from tests.integration.stage import Stage


@contextmanager
def asked_together(
    scene: Scene, policy: str, instances: Mapping[str, Mapping[str, Any]]
) -> Iterator[Stage]:
    """Yield a stage on which people are asked about all of these instances, under one policy.

    They are given by their names, with what is special about each.
    """
    with cleaned_stage(scene) as stage:
        stage.policy(policy)
        for name, special in instances.items():
            stage.launch(name=name, **special)
        stage.scene.sweep()
        yield stage


def question(stage: Stage, name: str) -> tuple[str, str]:
    """Return the id of the instance with this name, and Alice's link of its question."""
    ids = {member.name: instance_id for instance_id, member in stage.scene.members.items()}
    return ids[name], stage.personal(stage.question(ids[name]))
