"""One engine and one deployed stack a session; every test has its own instances in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_socket
from botocore.exceptions import ClientError

from local.demo.scene import Scene
from local.engine.repairs.organization import ORGANIZATION
from tests.integration.stage import BREAK_GLASS, Stage, guarded_stage

HERE = Path(__file__).parent
MEMBER = "210987654321"
"""Another account, whose events the stack takes."""
QUICK = (
    "approval: {remind_after_minutes: 0.05, escalate_after_minutes: 0.05, "
    "expire_after_minutes: 0.05}"
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder runs on the local cloud."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def scene() -> Iterator[Scene]:
    """The real template on the local cloud, in mode ask, its IAM enforced. Waits last a
    twentieth."""
    pytest_socket.enable_socket()
    parameters = {
        "MemberAccountIds": MEMBER,
        "OrganizationId": ORGANIZATION,
        "BreakGlassRoleArn": BREAK_GLASS,
    }
    with guarded_stage(more=parameters) as stage:
        yield stage.scene


@pytest.fixture
def stage(scene: Scene) -> Iterator[Stage]:
    """The stack in mode ask with nothing running; whatever a test launches is gone after it."""
    with cleaned_stage(scene) as stage:
        yield stage


@contextlib.contextmanager
def cleaned_stage(scene: Scene) -> Iterator[Stage]:
    """The stack in mode ask with nothing running; whatever is launched is gone at the end."""
    stage = Stage(scene)
    stage.policy("mode: ask")
    # Warnings of tests within the last ten minutes count, and many become one message.
    stage.forget_warnings()
    scene.simulation.clear()
    scene.simulation.set_spot_prices({"g4dn.xlarge": "0.2104", "g4dn.2xlarge": "0.2988"})
    yield stage
    # Workflows that a test has left waiting would read and write in the tests after it.
    states = scene.cloud.client("stepfunctions")
    running = states.list_executions(
        stateMachineArn=scene.outputs["RemediationStateMachineArn"], statusFilter="RUNNING"
    )
    for execution in running["executions"]:
        with contextlib.suppress(ClientError):  # it ended in this very moment
            states.stop_execution(executionArn=execution["executionArn"])
    scene.simulation.clear()
