"""The simulated Run Command: it takes commands for running instances and runs nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from local.engine.cloud import LocalCloud
from local.engine.simulation import InstanceSpec, Simulation

pytestmark = pytest.mark.integration


def test_a_command_is_taken_for_an_instance_that_runs(
    bare_cloud: LocalCloud, simulation: Simulation, refusal: Callable[[Callable[[], object]], str]
) -> None:
    """Its parameters are kept; another instance is refused as Systems Manager refuses it."""
    instance_id = simulation.put_instance(
        InstanceSpec("g5.xlarge", datetime(2026, 1, 1, tzinfo=UTC))
    )
    ssm = bare_cloud.client("ssm")

    def send(to: str) -> Any:
        return ssm.send_command(
            InstanceIds=[to], DocumentName="hook", Parameters={"Reason": ["spot"]}
        )

    sent = send(instance_id)["Command"]
    (kept,) = simulation.commands()

    assert (sent["CommandId"], [instance_id], {"Reason": ["spot"]}) == (
        kept["CommandId"],
        kept["InstanceIds"],
        kept["Parameters"],
    )
    assert "InvalidInstanceId" == refusal(lambda: send("i-00000000000000000"))
    simulation.set_fault("ssm:SendCommand", "ThrottlingException", times=9)
    assert "ThrottlingException" == refusal(lambda: send(instance_id))


def test_an_instance_without_an_agent_is_not_known_and_refuses_the_whole_command(
    bare_cloud: LocalCloud, simulation: Simulation, refusal: Callable[[Callable[[], object]], str]
) -> None:
    """As Systems Manager does it: nobody in that command gets it."""
    spec = InstanceSpec("g5.xlarge", datetime(2026, 1, 1, tzinfo=UTC))
    known, unknown = simulation.put_instance(spec), simulation.put_instance(spec)
    simulation.set_unmanaged(unknown)
    ssm = bare_cloud.client("ssm")

    found = ssm.describe_instance_information(
        Filters=[{"Key": "InstanceIds", "Values": [known, unknown]}], MaxResults=50
    )["InstanceInformationList"]

    assert [known] == [one["InstanceId"] for one in found]
    sent = len(simulation.commands())
    assert "InvalidInstanceId" == refusal(
        lambda: ssm.send_command(InstanceIds=[known, unknown], DocumentName="hook")
    )
    assert sent == len(simulation.commands())


def test_a_command_reaches_the_managed_instances_that_its_targets_fit(
    bare_cloud: LocalCloud, simulation: Simulation, refusal: Callable[[Callable[[], object]], str]
) -> None:
    """The answer does not list them: Systems Manager looks for them later. Other targets than tags
    are not simulated."""
    launched = datetime(2026, 1, 1, tzinfo=UTC)
    tagged, other, unmanaged = (
        simulation.put_instance(InstanceSpec("g5.xlarge", launched, tags={"Purpose": purpose}))
        for purpose in ("GPU-Workload", "web", "GPU-Workload")
    )
    simulation.set_unmanaged(unmanaged)
    ssm = bare_cloud.client("ssm")

    def send(key: str) -> Any:
        targets = [{"Key": key, "Values": ["GPU-Workload"]}]
        return ssm.send_command(Targets=targets, DocumentName="verify")

    assert [] == send("tag:Purpose")["Command"]["InstanceIds"]
    assert [tagged] == simulation.commands()[-1]["InstanceIds"]
    assert other not in simulation.commands()[-1]["InstanceIds"]
    assert "InvalidTarget" == refusal(lambda: send("resource-groups:Name"))
