"""Lifecycle hooks: how long a group waits, and an action that is over already."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from governor.aws.managing import AutoScalingHooks
from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.events.model.interruption import LifecycleAction
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.aws.state_samples import INSTANCE_ID, TARGET

ACTION = LifecycleAction("trainers", "save-work", "87654321-4321-4321-4321-210987654321")


@pytest.mark.parametrize(
    ("hooks", "waits"),
    [
        ([{"LifecycleHookName": "save-work", "HeartbeatTimeout": 900}], timedelta(minutes=15)),
        ([{"LifecycleHookName": "another", "HeartbeatTimeout": 30}], None),
        ([{"LifecycleHookName": "save-work"}], None),
        ([], None),
    ],
)
def test_the_wait_is_that_of_the_hook(hooks: list[dict[str, Any]], waits: timedelta | None) -> None:
    """An answer that does not name it says nothing."""
    client = ScriptedClient(describe_lifecycle_hooks={"LifecycleHooks": hooks})
    clients = FakeClients(client)

    assert waits == AutoScalingHooks(clients).heartbeat(TARGET, "trainers", "save-work")
    assert [("autoscaling", TARGET, False)] == clients.asked
    assert [{"AutoScalingGroupName": "trainers", "LifecycleHookNames": ["save-work"]}] == [
        parameters for _, parameters in client.calls
    ]


def test_an_action_is_completed_by_its_token() -> None:
    """With CONTINUE: other hooks of the group have their turn."""
    client = ScriptedClient(complete_lifecycle_action={})

    AutoScalingHooks(FakeClients(client)).complete(TARGET, INSTANCE_ID, ACTION)

    ((_, parameters),) = client.calls
    assert ("CONTINUE", ACTION.token, INSTANCE_ID) == (
        parameters["LifecycleActionResult"],
        parameters["LifecycleActionToken"],
        parameters["InstanceId"],
    )


def test_an_action_that_is_over_is_no_error() -> None:
    """Timed out, or completed by an event that came twice."""
    message = "No active Lifecycle Action found with token 87654321-4321-4321-4321-210987654321"
    client = ScriptedClient(complete_lifecycle_action=[client_error("ValidationError", message)])

    AutoScalingHooks(FakeClients(client)).complete(TARGET, INSTANCE_ID, ACTION)


@pytest.mark.parametrize(
    ("code", "kind"),
    [("AccessDenied", AccessDenied), ("Throttling", Throttled), ("ValidationError", CloudError)],
)
def test_what_is_refused_is_raised(code: str, kind: type[CloudError]) -> None:
    """A group without the tag, for one."""
    refused = client_error(code, "not authorized")
    hooks = AutoScalingHooks(
        FakeClients(
            ScriptedClient(complete_lifecycle_action=[refused], describe_lifecycle_hooks=[refused])
        )
    )

    with pytest.raises(kind):
        hooks.complete(TARGET, INSTANCE_ID, ACTION)
    with pytest.raises(kind):
        hooks.heartbeat(TARGET, "trainers", "save-work")
