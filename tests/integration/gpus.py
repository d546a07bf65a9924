"""Metrics of GPUs in integration tests, and a look at their health whenever a test wants one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from local.demo.fleet import NAMESPACE
from local.engine.simulation import Points
from tests.integration.stage import TARGET, Stage

TEMPERATURE = "nvidia_smi_temperature_gpu"
HARDWARE = "GPU/Custom"
_MINUTES = 100


def publish(
    stage: Stage,
    instance_id: str,
    metric: str,
    value: float,
    *,
    namespace: str = NAMESPACE,
    **more: str,
) -> None:
    """One figure of the only GPU and of the aggregate, for the time that a look is about.

    With `more` dimensions, of the GPU alone.
    """
    now = datetime.now(tz=UTC)
    points = tuple((now - timedelta(minutes=m), value) for m in range(_MINUTES, 0, -1))
    member, own = stage.scene.members[instance_id], {"InstanceId": instance_id}
    of_gpu = {
        **own,
        "InstanceType": member.instance_type,
        "index": "0",
        "name": member.gpu.name,
        **more,
    }
    stage.scene.simulation.put_metrics(
        Points(namespace, metric, dimensions, points)
        for dimensions in ([of_gpu] if more else [own, of_gpu])
    )


def heat(stage: Stage, instance_id: str, celsius: float) -> None:
    """From now on this is all that is known of its GPU."""
    stage.scene.simulation.drop_metrics(instance_id)
    publish(stage, instance_id, TEMPERATURE, celsius)


def look(stage: Stage) -> dict[str, Any]:
    """One look now, whenever the last one was."""
    forget_turn(stage)
    answer, failed = stage.invoke(
        "CheckHealth", {"account": TARGET.account, "region": TARGET.region}
    )
    assert not failed, answer
    return answer


def forget_turn(stage: Stage) -> None:
    """The next sweep looks, whenever the last one did."""
    _drop(stage, f"EVENT#health#{TARGET.account}#{TARGET.region}", "SEEN")


def forget_told(stage: Stage) -> None:
    """As time does: what has expired counts as gone, and DynamoDB deletes it."""
    _drop(stage, f"TARGET#{TARGET.account}#{TARGET.region}", "TOLD#")


def _drop(stage: Stage, pk: str, prefix: str) -> None:
    client, table = stage.scene.cloud.client("dynamodb"), stage.scene.outputs["StateTableName"]
    found = client.query(
        TableName=table,
        KeyConditionExpression="pk = :pk AND begins_with(sk, :prefix)",
        ExpressionAttributeValues={":pk": {"S": pk}, ":prefix": {"S": prefix}},
    )
    for item in found["Items"]:
        client.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})
