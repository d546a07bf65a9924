"""The health of GPUs through the deployed stack: figures in CloudWatch, a message to the owner, no
action."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.governor import main
from tests.integration.gpus import HARDWARE, forget_told, forget_turn, heat, look, publish
from tests.integration.stage import Stage

OWNED = {"tags": {"Owner": "ada", "Project": "vision"}}


def about(stage: Stage, instance_id: str) -> list[dict[str, Any]]:
    """The messages about the health of an instance so far."""
    mail = stage.scene.read_mail()
    return [
        m
        for m in mail
        if m["kind"] == "health-finding" and instance_id in m["facts"].get("instance_ids", ())
    ]


def test_a_hot_gpu_is_told_once_and_again_when_it_is_back(stage: Stage) -> None:
    """Looked at twice, told once; cool, then hot again: told again. Nothing is done to it."""
    instance_id = stage.launch(**OWNED)
    heat(stage, instance_id, 90)
    before = stage.scene.simulation.calls()

    assert [1, 0] == [look(stage)["told"], look(stage)["told"]]
    told = stage.await_mail(instance_id, "health-finding")
    assert ("ada", "vision", "warning") == (told["owner"], told["project"], told["severity"])
    assert ["hot"] == [finding["kind"] for finding in told["facts"]["findings"]]
    assert 1 == len(about(stage, instance_id))

    heat(stage, instance_id, 60)
    assert 0 == look(stage)["findings"]
    forget_told(stage)
    heat(stage, instance_id, 90)
    assert 1 == look(stage)["told"]
    stage.eventually(lambda: len(about(stage, instance_id)) == 2 or None, "it is not told again")

    after = stage.scene.simulation.calls()
    called = {name for name, times in after.items() if times > before.get(name, 0)}
    looks = {"ec2:DescribeInstances", "ec2:DescribeCapacityReservations"}
    assert looks == {name for name in called if name.startswith("ec2:")}


def test_a_fault_of_the_hardware_is_critical_and_told_by_the_machine(stage: Stage) -> None:
    """Xid 48, as `agent/` publishes it; the sweep machine looks, on a schedule of its own."""
    stage.policy("mode: ask\nplan: {action: notify-only}")
    instance_id = stage.launch(**OWNED)
    publish(stage, instance_id, "GPULost", 0, namespace=HARDWARE)
    publish(stage, instance_id, "GPUXidErrors", 1, namespace=HARDWARE)
    publish(stage, instance_id, "GPUXidErrors", 1, namespace=HARDWARE, Xid="48")
    forget_turn(stage)

    assert [{"outcome": "looked"}] == stage.scene.sweep("health")["results"]
    told = stage.await_mail(instance_id, "health-finding")
    assert "critical" == told["severity"]
    assert ["memory-error"] == [finding["kind"] for finding in told["facts"]["findings"]]


def test_a_look_that_fails_is_taken_again(stage: Stage) -> None:
    """An alarm on the function says so; the next look finds its turn free."""
    stage.policy("mode: ask\nplan: {action: notify-only}")
    stage.launch(**OWNED)
    forget_turn(stage)
    # Of the health's own list: the sweep lists what jobs publish.
    stage.scene.simulation.set_fault(
        "cloudwatch:ListMetrics", "AccessDenied", match={"Namespace": HARDWARE}
    )

    assert [{"outcome": "failed"}] == stage.scene.sweep("health")["results"]
    assert look(stage)["looked"]


def test_the_command_line_shows_it_as_it_is_now(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the policy of the stack, as its API has it; 1 because something is wrong."""
    monkeypatch.setenv(
        "GOVERNOR_API_URL", stage.scene.cloud.reachable_url(stage.scene.outputs["ApiUrl"])
    )
    instance_id = stage.launch(**OWNED)
    heat(stage, instance_id, 90)

    code = main(["--json", "health"])

    (found,) = json.loads(capsys.readouterr().out)
    assert (1, instance_id, "warning") == (code, found["instance_id"], found["state"])
