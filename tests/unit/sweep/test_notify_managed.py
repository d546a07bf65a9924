"""Idle instances that another service runs: one message an environment and day, and never an
act."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.model import Alert, AlertKind
from governor.core.errors import AccessDenied, Throttled
from governor.policy.model.judging import IdleRule
from governor.policy.model.notices import Managed
from governor.policy.model.policy import Mode, Policy
from governor.sweep.model import BatchEnvironment
from tests.unit.worlds.fleet_world import FleetWorld

BUSY = [90.0] * 12
QUIET = [1.0] * 12
BATCH = {"AWSBatchServiceTag": "batch", "aws:batch:compute-environment": "train-gpu"}


def tags(**more: str) -> dict[str, str]:
    """Return the tags of an instance of the compute environment; `Owner` and the like by
    keyword."""
    return {"Purpose": "GPU-Workload", **BATCH, **more}


def told(world: FleetWorld) -> list[Alert]:
    """Every message about managed instances so far."""
    return [alert for alert in world.announcer.sent if alert.kind is AlertKind.MANAGED_IDLE]


def ids_told(alert: Alert) -> list[Any]:
    """Which instances a message is about."""
    found = alert.facts["instance_ids"]
    assert isinstance(found, list)
    return found


def test_one_message_for_each_environment_and_owner() -> None:
    """Three of one owner in one message, although one of five works; another owner has another."""
    world = FleetWorld()
    mine = [world.add(n, tags=tags(Owner="ada")) for n in (1, 2, 3)]
    world.add(4, BUSY, tags=tags(Owner="ada"))
    other = world.add(5, tags=tags(Owner="bob"))
    pool = world.add(
        6, tags={"Purpose": "GPU-Workload", "karpenter.sh/nodepool": "gpu", "Owner": "ada"}
    )
    summary = world.sweep()

    assert [("ada", mine), ("bob", [other]), ("ada", [pool])] == [
        (a.owner, ids_told(a)) for a in told(world)
    ]
    assert "3 of 5 governed instances" in told(world)[0].lines[0]
    assert ({}, []) == (world.workflow.executions, summary.problems)
    assert [] == world.ec2.calls


def test_it_is_told_once_a_day() -> None:
    """However many sweeps there are; again after a day, and with those that have joined."""
    world = FleetWorld()
    first = world.add(1, tags=tags())
    for _ in range(12):
        world.sweep(5)
    second = world.add(2, tags=tags())
    for _ in range(12):
        world.sweep(5)
    assert [[first]] == [ids_told(alert) for alert in told(world)]

    for _ in range(24):
        world.sweep(60)
    assert [[first], [first, second]] == [ids_told(alert) for alert in told(world)]


def test_a_lost_memory_tells_nothing_twice() -> None:
    """The sweep's memory is a cache; the log of messages is not."""
    world = FleetWorld()
    world.add(1, tags=tags())
    world.sweep()
    world.state.remember(world.ec2.instances["i-00000000000000001"].target, {}, world.clock.now())
    world.sweep(5)

    assert 1 == len(told(world))


def test_what_was_told_is_watched_by_utilization_alone() -> None:
    """A day of idle instances must not cost five figures at every sweep."""
    world = FleetWorld()
    world.add(1, tags=tags())
    world.sweep()
    read = len(world.metrics.reads)
    world.sweep(5)
    assert read + 1 == len(world.metrics.reads)

    world.sweep(24 * 60)
    assert {"CPUUtilization", "NetworkIn"} <= {
        query.metric for query in world.metrics.reads[read + 1 :]
    }


def test_work_on_the_cpu_keeps_it_from_being_told_again() -> None:
    """Before every message the evidence is read in full."""
    world = FleetWorld()
    instance_id = world.add(1, tags=tags())
    world.sweep()
    world.metrics.publish("CPUUtilization", {"InstanceId": instance_id}, [80.0] * 12)
    world.sweep(24 * 60)

    assert ("busy", 1) == (world.verdict(instance_id), len(told(world)))


def test_an_hour_at_least_however_short_the_window_is() -> None:
    """Idle for 15 minutes at the first sweep: told when the hour is full, counted from its
    begin."""
    world = FleetWorld(Policy(mode=Mode.ASK, idle=IdleRule(window_minutes=15)))
    world.add(1, tags=tags())
    sent = []
    for _ in range(12):
        world.sweep(5)
        sent.append(len(told(world)))

    assert [0] * 9 + [1] * 3 == sent


def test_an_idleness_that_was_broken_begins_anew() -> None:
    """Two times half an hour are no hour."""
    world = FleetWorld(Policy(mode=Mode.ASK, idle=IdleRule(window_minutes=15)))
    instance_id = world.add(1, tags=tags())
    for _ in range(6):
        world.sweep(5)
    world.publish(instance_id, BUSY)
    world.sweep(5)
    world.publish(instance_id, QUIET)
    for _ in range(9):
        world.sweep(5)

    assert [] == told(world)


def test_the_time_is_the_policys() -> None:
    """Two hours, here."""
    world = FleetWorld(Policy(mode=Mode.ASK, managed=Managed(idle_for_minutes=120)))
    world.add(1, tags=tags())
    world.sweep()
    world.sweep(55)
    assert [] == told(world)
    world.sweep(5)
    assert 1 == len(told(world))


def test_batch_is_asked_what_keeps_its_instances() -> None:
    """Once a message; its own tags name the owner where the instances' do not."""
    world = FleetWorld()
    world.batch.environments["train-gpu"] = BatchEnvironment(
        "train-gpu", 16, 16, 0, 0, {"Owner": "ada", "Project": "llm"}
    )
    for number in (1, 2):
        world.add(number, tags=tags())
    world.sweep()
    world.sweep(5)

    (alert,) = told(world)
    assert ["train-gpu"] == world.batch.asked
    assert ("ada", "llm") == (alert.owner, alert.project)
    assert "minvCpus is 16" in " ".join(alert.lines)


@pytest.mark.parametrize(
    ("instance_type", "is_nvidia"), [("g5.xlarge", True), ("g4ad.xlarge", False)]
)
def test_stuck_jobs_are_told_with_what_to_check(instance_type: str, is_nvidia: bool) -> None:
    """By the accelerators of the hosts that are idle."""
    world = FleetWorld()
    world.batch.environments["train-gpu"] = BatchEnvironment("train-gpu", 96, 96, 5, 0, {})
    world.add(1, tags=tags(), instance_type=instance_type)
    world.sweep()

    (alert,) = told(world)
    text = " ".join(alert.lines)
    assert "5 jobs are waiting" in text
    assert "Jobs could run, but none does" in text
    assert is_nvidia == ("NVIDIA" in text)
    assert "minvCpus=0" not in text


def test_a_batch_that_does_not_answer_keeps_no_message_back() -> None:
    """The advice is then the general one, and the message says why."""
    world = FleetWorld()
    world.batch.failure = AccessDenied("batch:ListJobs is not allowed")
    world.add(1, tags=tags())
    summary = world.sweep()

    text = " ".join(told(world)[0].lines)
    assert "If minvCpus is above 0 and no job has run for an hour" in text
    assert "batch:ListJobs is not allowed" in text
    assert [] == summary.problems


def test_a_message_that_nobody_took_is_sent_by_the_next_sweep() -> None:
    """And the sweep says so."""
    world = FleetWorld()
    world.add(1, tags=tags())
    world.announcer.failure = Throttled("later")
    problems = world.sweep().problems
    world.announcer.failure = None
    world.sweep(5)

    assert ["AWS Batch compute environment train-gpu: Throttled: later"] == problems
    assert 1 == len(told(world))


def test_while_plans_are_frozen_nothing_new_is_told() -> None:
    """An outage of metrics makes environments look idle, too."""
    world = FleetWorld()
    ids = [world.add(n, BUSY, tags=tags()) for n in range(1, 7)]
    world.sweep()
    for instance_id in ids:
        world.publish(instance_id, [0.0] * 12)
    assert world.sweep(65).frozen
    assert [] == told(world)

    world.sweep(200)
    assert [sorted(ids)] == [sorted(ids_told(alert)) for alert in told(world)]


@pytest.mark.parametrize("mode", list(Mode))
def test_no_mode_acts(mode: Mode) -> None:
    """Neither tags nor workflows, nor a dry run of either."""
    world = FleetWorld(Policy(mode=mode))
    world.add(1, tags=tags())
    world.sweep()
    world.sweep(timedelta(days=2) / timedelta(minutes=1))

    assert ([], {}, 2) == (world.ec2.calls, world.workflow.executions, len(told(world)))
