"""The in-memory EC2 refuses what EC2 refuses: a twin that allows more would hide mistakes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from governor.core.errors import NotFound, Protected, Throttled, Unsupported, WrongState
from governor.core.instance import Instance, Lifecycle, Protection, SpotRequestType, Volume
from governor.episode.model.plan import Step
from governor.policy.model.names import TagMatch
from tests.twins import MemoryEc2
from tests.unit.aws.state_samples import LAUNCHED, TARGET


def machine(**changes: Any) -> Instance:
    """A running instance with two volumes."""
    sample = Instance(
        target=TARGET,
        instance_id="i-00000001",
        instance_type="g5.xlarge",
        state="running",
        launch_time=LAUNCHED,
        tags={"Purpose": "GPU-Workload"},
        volumes=(Volume("vol-1", "/dev/sda1", True), Volume("vol-2", "/dev/sdb", False)),
    )
    return replace(sample, **changes)


def cloud(**changes: Any) -> MemoryEc2:
    """With that one instance."""
    ec2 = MemoryEc2()
    ec2.add(machine(**changes))
    return ec2


def state(ec2: MemoryEc2) -> str:
    """Return the state of that one instance."""
    return ec2.instances["i-00000001"].state


def test_a_dry_run_changes_nothing() -> None:
    """Every write, asked dry, leaves everything as it was."""
    ec2 = cloud()
    before = dict(ec2.instances)

    ec2.stop(TARGET, "i-00000001", dry_run=True)
    ec2.terminate(TARGET, "i-00000001", dry_run=True)
    ec2.prepare(Step.CANCEL_SPOT_REQUEST, machine(spot_request_id="sir-1"), dry_run=True)
    ec2.set_tags(TARGET, ["i-00000001"], {"A": "1"}, dry_run=True)
    ec2.set_tags(TARGET, ["i-00000001"], {"Purpose": None}, dry_run=True)

    assert [] == ec2.create(TARGET, "i-00000001", {}, dry_run=True)
    assert (before, {}, set()) == (ec2.instances, ec2.snapshots, ec2.canceled)


def test_writes_take_effect() -> None:
    """Stopped, then terminated; no longer listed once it does not run."""
    ec2 = cloud()
    selector = TagMatch("Purpose", "GPU-Workload")
    assert 1 == len(ec2.list_selected(TARGET, selector))

    ec2.stop(TARGET, "i-00000001", dry_run=False)
    assert "stopped" == state(ec2)
    assert [] == ec2.list_selected(TARGET, selector)

    ec2.terminate(TARGET, "i-00000001", dry_run=False)
    assert "terminated" == state(ec2)


@pytest.mark.parametrize("dry_run", [True, False])
def test_protection_is_respected(dry_run: bool) -> None:
    """Each flag guards its own call, and what a service manages is guarded altogether."""
    ec2 = cloud()
    ec2.protections["i-00000001"] = Protection(stop=True, termination=True)
    with pytest.raises(Protected):
        ec2.stop(TARGET, "i-00000001", dry_run=dry_run)
    with pytest.raises(Protected):
        ec2.terminate(TARGET, "i-00000001", dry_run=dry_run)

    managed = cloud(operator_managed=True, operator_principal="eks.amazonaws.com")
    with pytest.raises(Protected):
        managed.terminate(TARGET, "i-00000001", dry_run=dry_run)
    assert ("running", "running") == (state(ec2), state(managed))


@pytest.mark.parametrize(
    "changes",
    [
        {"root_device_type": "instance-store"},
        {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"},
        {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-forgotten"},
    ],
)
def test_what_cannot_be_stopped_is_not(changes: dict[str, Any]) -> None:
    """Instance-store roots and one-time Spot instances."""
    ec2 = cloud(**changes)
    ec2.spot_requests["sir-1"] = SpotRequestType.ONE_TIME
    with pytest.raises(Unsupported):
        ec2.stop(TARGET, "i-00000001", dry_run=False)
    assert "running" == state(ec2)


def test_a_persistent_spot_instance_can_be_stopped() -> None:
    """EC2 allows it, so the twin does."""
    ec2 = cloud(lifecycle=Lifecycle.SPOT, spot_request_id="sir-1")
    ec2.spot_requests["sir-1"] = SpotRequestType.PERSISTENT
    ec2.stop(TARGET, "i-00000001", dry_run=False)
    assert "stopped" == state(ec2)


def test_what_is_gone_or_in_the_wrong_state_is_refused() -> None:
    """By class, as the adapter would raise it."""
    with pytest.raises(NotFound):
        MemoryEc2().stop(TARGET, "i-00000001", dry_run=False)
    with pytest.raises(WrongState):
        cloud(state="shutting-down").stop(TARGET, "i-00000001", dry_run=False)
    failures = cloud().set_tags(TARGET, ["i-00000001", "i-00000002"], {"A": "1"}, dry_run=False)
    assert ["i-00000002"] == list(failures)


def test_planned_failures_come_once_each() -> None:
    """The first call fails, the second goes through."""
    ec2 = cloud()
    ec2.failures["create_snapshots"] = [Throttled("busy")]
    with pytest.raises(Throttled):
        ec2.create(TARGET, "i-00000001", {}, dry_run=False)
    assert 2 == len(ec2.create(TARGET, "i-00000001", {}, dry_run=False))


def test_snapshots_are_pending_until_they_are_finished() -> None:
    """One a volume, found by all of their tags."""
    ec2 = cloud()
    ec2.create(TARGET, "i-00000001", {"Episode": "e-1", "Name": "x"}, dry_run=False)
    assert ["pending", "pending"] == [found.state for found in ec2.find(TARGET, {"Episode": "e-1"})]
    assert [] == ec2.find(TARGET, {"Episode": "e-1", "Name": "y"})

    ec2.finish_snapshots("error")
    assert ["error", "error"] == [found.state for found in ec2.find(TARGET, {"Episode": "e-1"})]
