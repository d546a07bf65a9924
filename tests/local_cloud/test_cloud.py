"""The local cloud itself: what it simulates, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_socket
from botocore.exceptions import ClientError

from local.cloud import ROOT, LocalCloud
from local.simulation import InstanceSpec, VolumeSpec

pytestmark = pytest.mark.integration
LAUNCHED = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def cloud() -> Iterator[LocalCloud]:
    """An engine with nothing deployed."""
    pytest_socket.enable_socket()
    with LocalCloud(wait_scale=0.05) as cloud:
        yield cloud


@pytest.fixture
def ec2(cloud: LocalCloud) -> Any:
    """EC2 with no instances and quick changes of state."""
    simulation = cloud.simulation()
    simulation.clear()
    simulation.set_delays(state_change=0.05, snapshot=0.05)
    return cloud.client("ec2")


def code_of(call: Any) -> str:
    """The error code of a call that is refused."""
    with pytest.raises(ClientError) as refused:
        call()
    return str(refused.value.response["Error"]["Code"])


def test_the_engine_dies_with_a_parent_that_was_killed(tmp_path: Path) -> None:
    """SIGKILL leaves no chance to clean up; nothing is left all the same."""
    program = (
        "import sys, time; from local.cloud import LocalCloud\n"
        "cloud = LocalCloud().start(); print(cloud._process.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert parent.stdout is not None
    engine = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()

    until = time.monotonic() + 10
    while time.monotonic() < until and Path(f"/proc/{engine}").exists():
        time.sleep(0.1)
    assert not Path(f"/proc/{engine}").exists()


def test_a_dry_run_is_an_error_that_says_yes(cloud: LocalCloud, ec2: Any) -> None:
    """And nothing happens."""
    instance = cloud.simulation().put_instance(InstanceSpec("g5.xlarge", LAUNCHED))

    assert "DryRunOperation" == code_of(lambda: ec2.stop_instances(InstanceIds=[instance], DryRun=True))
    assert "running" == cloud.simulation().dump()["instances"][instance]


def test_ec2_refuses_what_ec2_refuses(cloud: LocalCloud, ec2: Any) -> None:
    """One-time Spot, instance-store roots, protection, unknown ids; also in a dry run."""
    put = cloud.simulation().put_instance
    once = put(InstanceSpec("g4dn.xlarge", LAUNCHED, spot_request_type="one-time"))
    store = put(InstanceSpec("g5.xlarge", LAUNCHED, root_device_type="instance-store"))
    guarded = put(InstanceSpec("g5.xlarge", LAUNCHED, stop_protection=True, termination_protection=True))

    for instance in (once, store):
        for dry in (True, False):
            call = {"InstanceIds": [instance], "DryRun": dry}
            assert "UnsupportedOperation" == code_of(lambda call=call: ec2.stop_instances(**call))
    assert "OperationNotPermitted" == code_of(lambda: ec2.stop_instances(InstanceIds=[guarded]))
    assert "OperationNotPermitted" == code_of(lambda: ec2.terminate_instances(InstanceIds=[guarded]))
    unknown = "i-0fffffffffffffff0"
    assert "InvalidInstanceID.NotFound" == code_of(lambda: ec2.stop_instances(InstanceIds=[unknown]))


def test_a_bad_id_spoils_a_batch_of_tags(cloud: LocalCloud, ec2: Any) -> None:
    """As on AWS: all or nothing."""
    instance = cloud.simulation().put_instance(InstanceSpec("g5.xlarge", LAUNCHED))
    ids = [instance, "i-0fffffffffffffff0"]

    call = {"Resources": ids, "Tags": [{"Key": "a", "Value": "b"}]}
    assert "InvalidInstanceID.NotFound" == code_of(lambda: ec2.create_tags(**call))
    found = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
    assert [] == found.get("Tags", [])


def test_a_persistent_request_and_a_group_launch_successors(cloud: LocalCloud, ec2: Any) -> None:
    """What the governor must never run into."""
    put = cloud.simulation().put_instance
    spot = put(InstanceSpec("g4dn.xlarge", LAUNCHED, spot_request_type="persistent"))
    ec2.terminate_instances(InstanceIds=[spot])
    member = put(InstanceSpec("g5.xlarge", LAUNCHED, tags={"aws:autoscaling:groupName": "x"}))
    ec2.stop_instances(InstanceIds=[member])

    time.sleep(0.4)
    assert 4 == len(cloud.simulation().dump()["instances"])


def test_termination_takes_the_volumes_that_are_marked(cloud: LocalCloud, ec2: Any) -> None:
    """The others stay, and are free."""
    volumes = [VolumeSpec(10), VolumeSpec(20, "/dev/sdb", delete_on_termination=False)]
    instance = cloud.simulation().put_instance(InstanceSpec("g5.xlarge", LAUNCHED, volumes=volumes))
    ec2.terminate_instances(InstanceIds=[instance])

    time.sleep(0.4)
    assert ["available"] == list(cloud.simulation().dump()["volumes"].values())


def test_hidden_managed_instances_are_left_out_of_lists(cloud: LocalCloud, ec2: Any) -> None:
    """Unless they are asked for; by id they are always found."""
    operator = {"Managed": True, "Principal": "eks.amazonaws.com", "HiddenByDefault": True}
    instance = cloud.simulation().put_instance(InstanceSpec("g5.xlarge", LAUNCHED, operator=operator))

    assert [] == ec2.describe_instances()["Reservations"]
    assert 1 == len(ec2.describe_instances(IncludeManagedResources=True)["Reservations"])
    assert 1 == len(ec2.describe_instances(InstanceIds=[instance])["Reservations"])


def test_metrics_are_found_by_their_exact_dimensions(cloud: LocalCloud, ec2: Any) -> None:
    """A start is included, an end is not; a period is named by its start."""
    del ec2
    now = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
    cloudwatch = cloud.client("cloudwatch")
    for minute, value in ((0, 1.0), (1, 3.0), (5, 7.0)):
        cloudwatch.put_metric_data(
            Namespace="N",
            MetricData=[
                {
                    "MetricName": "m",
                    "Dimensions": [{"Name": "InstanceId", "Value": "i-1"}],
                    "Timestamp": now + timedelta(minutes=minute),
                    "Value": value,
                }
            ],
        )

    def read(dimensions: list[dict[str, str]], statistic: str) -> list[float]:
        metric = {"Namespace": "N", "MetricName": "m", "Dimensions": dimensions}
        stat = {"Metric": metric, "Period": 300, "Stat": statistic}
        return list(
            cloudwatch.get_metric_data(
                MetricDataQueries=[{"Id": "a", "MetricStat": stat}],
                StartTime=now,
                EndTime=now + timedelta(minutes=5),
                ScanBy="TimestampAscending",
            )["MetricDataResults"][0]["Values"]
        )

    exact = [{"Name": "InstanceId", "Value": "i-1"}]
    assert ([3.0], [2.0]) == (read(exact, "Maximum"), read(exact, "SampleCount"))
    assert [] == read([*exact, {"Name": "index", "Value": "0"}], "Maximum")
