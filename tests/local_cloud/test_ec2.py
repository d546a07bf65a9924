"""The simulated EC2 answers and refuses as EC2 does: the product's tests are worth no more than
this."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from local.engine.cloud import LocalCloud
from local.engine.simulation import InstanceSpec, Simulation, VolumeSpec

pytestmark = pytest.mark.integration

LAUNCHED = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
UNKNOWN = "i-0fffffffffffffff0"
Refusal = Callable[[Callable[[], object]], str]


def put(simulation: Simulation, **fields: Any) -> str:
    """Launches a plain instance, but for these fields."""
    fields = {"instance_type": "g5.xlarge", "launch_time": LAUNCHED, **fields}
    return simulation.put_instance(InstanceSpec(**fields))


def found(ec2: Any, instance_id: str) -> dict[str, Any]:
    """The instance, as DescribeInstances says."""
    answer = ec2.describe_instances(InstanceIds=[instance_id])
    return dict(answer["Reservations"][0]["Instances"][0])


def ids_of(answer: Any) -> list[str]:
    """Ids of the instances in an answer."""
    return sorted(i["InstanceId"] for r in answer["Reservations"] for i in r["Instances"])


def eventually(look: Callable[[], object], expected: object) -> None:
    """Looks until it is what is expected, or five minutes are over."""
    until = time.monotonic() + 300
    while time.monotonic() < until and look() != expected:
        time.sleep(0.02)
    assert expected == look()


def states(simulation: Simulation) -> list[str]:
    """States of all instances."""
    return sorted(simulation.dump()["instances"].values())


# looking


def test_filters_know_wildcards_and_their_escape(simulation: Simulation, ec2: Any) -> None:
    """`*` and `?` are wildcards; with a backslash they are themselves."""
    plain = put(simulation, tags={"Team": "a1"})
    star = put(simulation, tags={"Team": "a*"})

    def by_team(value: str) -> list[str]:
        return ids_of(ec2.describe_instances(Filters=[{"Name": "tag:Team", "Values": [value]}]))

    assert sorted([plain, star]) == by_team("a*")
    assert sorted([plain, star]) == by_team("a?")
    assert [star] == by_team(r"a\*")
    assert [] == by_team("A1")


def test_an_unknown_filter_is_refused_never_ignored(ec2: Any, refusal: Refusal) -> None:
    """An ignored filter would answer too much."""
    one = [{"Name": "vpc-id", "Values": ["vpc-1"]}]
    for call in (ec2.describe_instances, ec2.describe_volumes, ec2.describe_snapshots):
        assert "InvalidParameterValue" == refusal(lambda call=call: call(Filters=one))  # type: ignore[misc]


def test_lists_come_in_pages(simulation: Simulation, ec2: Any, refusal: Refusal) -> None:
    """All of them, each once; a page size together with ids is refused."""
    launched = sorted(put(simulation) for _ in range(12))

    pages = list(ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    assert [5, 5, 2] == [len(ids_of(page)) for page in pages]
    assert launched == sorted(i for page in pages for i in ids_of(page))
    both = {"InstanceIds": launched[:1], "MaxResults": 5}
    assert "InvalidParameterCombination" == refusal(lambda: ec2.describe_instances(**both))


def test_hidden_managed_instances_are_left_out_of_lists(simulation: Simulation, ec2: Any) -> None:
    """Unless they are asked for; by id they are always found."""
    operator = {"Managed": True, "Principal": "eks.amazonaws.com", "HiddenByDefault": True}
    hidden = put(simulation, operator=operator)

    assert [] == ids_of(ec2.describe_instances())
    assert [hidden] == ids_of(ec2.describe_instances(IncludeManagedResources=True))
    assert [hidden] == ids_of(ec2.describe_instances(InstanceIds=[hidden]))


def test_an_unknown_action_about_instances_is_refused(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """The engine behind it has instances of its own; it must never answer about these."""
    instance = put(simulation)

    assert "InvalidAction" == refusal(lambda: ec2.reboot_instances(InstanceIds=[instance]))


# dry runs and refusals


def test_a_dry_run_is_an_error_that_says_yes(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """And nothing happens."""
    instance = put(simulation)
    one = {"InstanceIds": [instance], "DryRun": True}
    snapshot = {"InstanceSpecification": {"InstanceId": instance}, "DryRun": True}
    tag = {"Resources": [instance], "Tags": [{"Key": "a", "Value": "b"}], "DryRun": True}

    for call in (
        lambda: ec2.stop_instances(**one),
        lambda: ec2.terminate_instances(**one),
        lambda: ec2.create_snapshots(**snapshot),
        lambda: ec2.create_tags(**tag),
    ):
        assert "DryRunOperation" == refusal(call)
    assert "running" == simulation.dump()["instances"][instance]
    assert ({}, []) == (simulation.dump()["snapshots"], found(ec2, instance).get("Tags", []))


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_cannot_be_stopped_is_refused_also_in_a_dry_run(
    simulation: Simulation, ec2: Any, refusal: Refusal, *, dry_run: bool
) -> None:
    """One-time Spot, instance-store roots, protection, managed instances, unknown and malformed
    ids."""
    cases = {
        put(simulation, spot_request_type="one-time"): "UnsupportedOperation",
        put(simulation, root_device_type="instance-store"): "UnsupportedOperation",
        put(simulation, stop_protection=True): "OperationNotPermitted",
        put(simulation, operator={"Managed": True, "Principal": "x"}): "OperationNotPermitted",
        put(simulation, state="terminated"): "IncorrectInstanceState",
        UNKNOWN: "InvalidInstanceID.NotFound",
        "i-nonsense": "InvalidInstanceID.Malformed",
    }

    for instance, code in cases.items():
        call = {"InstanceIds": [instance], "DryRun": dry_run}
        assert code == refusal(lambda call=call: ec2.stop_instances(**call))  # type: ignore[misc]


def test_a_stop_that_is_refused_for_one_stops_none(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """All are checked first; a dry run too looks at every one of them."""
    good, guarded = put(simulation), put(simulation, stop_protection=True)

    for dry_run in (True, False):
        call = {"InstanceIds": [good, guarded], "DryRun": dry_run}
        assert "OperationNotPermitted" == refusal(lambda call=call: ec2.stop_instances(**call))  # type: ignore[misc]
    assert ["running", "running"] == states(simulation)


def test_protection_from_termination_counts_zone_by_zone(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """The unprotected zone's instances go although the request fails."""
    guarded = put(simulation, termination_protection=True, availability_zone="us-east-1a")
    neighbor = put(simulation, availability_zone="us-east-1a")
    elsewhere = put(simulation, availability_zone="us-east-1b")

    call = {"InstanceIds": [guarded, neighbor, elsewhere]}
    assert "OperationNotPermitted" == refusal(lambda: ec2.terminate_instances(**call))
    eventually(lambda: simulation.dump()["instances"][elsewhere], "terminated")
    kept = simulation.dump()["instances"]
    assert ("running", "running") == (kept[guarded], kept[neighbor])


# changes of state


def test_a_stop_takes_its_time_and_loses_the_public_address(
    simulation: Simulation, ec2: Any
) -> None:
    """A start counts as a launch, from the moment that it is asked for."""
    simulation.set_delays(state_change=0.3, snapshot=0.05)
    instance = put(simulation, public_ip="203.0.113.7")

    change = ec2.stop_instances(InstanceIds=[instance])["StoppingInstances"][0]
    assert ("running", "stopping") == (
        change["PreviousState"]["Name"],
        change["CurrentState"]["Name"],
    )
    eventually(lambda: found(ec2, instance)["State"]["Name"], "stopped")
    assert "PublicIpAddress" not in found(ec2, instance)
    ec2.start_instances(InstanceIds=[instance])
    launched = found(ec2, instance)["LaunchTime"]
    assert LAUNCHED + timedelta(hours=1) < launched
    eventually(lambda: found(ec2, instance)["State"]["Name"], "running")
    assert launched == found(ec2, instance)["LaunchTime"]


def test_a_start_can_be_made_to_fall_back(simulation: Simulation, ec2: Any) -> None:
    """EC2 accepts it, and the instance is stopped again, with a reason. The next one runs."""
    instance_id = put(simulation)
    simulation.set_delays(state_change=0.1, snapshot=0.05)
    ec2.stop_instances(InstanceIds=[instance_id])
    eventually(lambda: found(ec2, instance_id)["State"]["Name"], "stopped")
    stopped = found(ec2, instance_id)
    assert "Client.UserInitiatedShutdown" == stopped["StateReason"]["Code"]
    assert stopped["StateTransitionReason"].startswith("User initiated (")
    simulation.starts_fall_back("Client.InternalError", "Client error on launch")

    answer = ec2.start_instances(InstanceIds=[instance_id])
    assert "pending" == answer["StartingInstances"][0]["CurrentState"]["Name"]
    eventually(lambda: found(ec2, instance_id)["State"]["Name"], "stopped")
    fallen = found(ec2, instance_id)
    assert {
        "Code": "Client.InternalError",
        "Message": "Client.InternalError: Client error on launch",
    } == fallen["StateReason"]

    ec2.start_instances(InstanceIds=[instance_id])
    eventually(lambda: found(ec2, instance_id)["State"]["Name"], "running")
    assert "StateReason" not in found(ec2, instance_id)


def test_changes_of_state_are_told_to_eventbridge(
    bare_cloud: LocalCloud, simulation: Simulation, ec2: Any
) -> None:
    """With the shape that EC2's own events have; warnings too, then the instance goes."""
    sqs, events = bare_cloud.client("sqs"), bare_cloud.client("events")
    queue = sqs.create_queue(QueueName="told")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    events.put_rule(Name="told", EventPattern=json.dumps({"source": ["aws.ec2"]}))
    events.put_targets(Rule="told", Targets=[{"Id": "q", "Arn": arn}])
    instance = put(simulation, spot_request_type="one-time")
    simulation.spot_warning(instance, interrupt_after=0.2)

    told: list[dict[str, Any]] = []

    def kinds() -> list[str]:
        answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=1)
        for message in answer.get("Messages", ()):
            told.append(json.loads(message["Body"]))
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        return [str(t["detail"].get("state", t["detail"].get("instance-action"))) for t in told]

    eventually(kinds, ["terminate", "shutting-down", "terminated"])
    events.remove_targets(Rule="told", Ids=["q"])
    events.delete_rule(Name="told")
    assert "EC2 Spot Instance Interruption Warning" == told[0]["detail-type"]
    assert [f"arn:aws:ec2:us-east-1a:instance/{instance}"] == told[0]["resources"]
    assert "EC2 Instance State-change Notification" == told[1]["detail-type"]
    assert [f"arn:aws:ec2:us-east-1:123456789012:instance/{instance}"] == told[1]["resources"]
    assert {"instance-id": instance, "state": "shutting-down"} == told[1]["detail"]


def test_a_persistent_request_launches_a_successor(simulation: Simulation, ec2: Any) -> None:
    """As it launched the first, without the tags set since; not once it is canceled."""
    instance = put(simulation, spot_request_type="persistent", tags={"Purpose": "x"})
    ec2.create_tags(Resources=[instance], Tags=[{"Key": "LowUtilization", "Value": "y"}])
    ec2.terminate_instances(InstanceIds=[instance])

    eventually(lambda: states(simulation), ["running", "terminated"])
    running = [{"Name": "instance-state-name", "Values": ["running"]}]
    (successor,) = ids_of(ec2.describe_instances(Filters=running))
    seen = found(ec2, successor)
    assert [{"Key": "Purpose", "Value": "x"}] == seen["Tags"]
    assert "spot" == seen["InstanceLifecycle"]
    assert 1 == len(seen["BlockDeviceMappings"])
    request = ec2.describe_spot_instance_requests(
        SpotInstanceRequestIds=[seen["SpotInstanceRequestId"]]
    )
    assert successor == request["SpotInstanceRequests"][0]["InstanceId"]

    ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[seen["SpotInstanceRequestId"]])
    ec2.terminate_instances(InstanceIds=[successor])
    eventually(lambda: states(simulation), ["terminated", "terminated"])
    time.sleep(0.3)
    assert ["terminated", "terminated"] == states(simulation)


def test_a_stopped_persistent_instance_goes_with_its_request(
    simulation: Simulation, ec2: Any
) -> None:
    """Canceling the request of a stopped instance terminates it."""
    instance = put(simulation, spot_request_type="persistent")
    ec2.stop_instances(InstanceIds=[instance])
    eventually(lambda: states(simulation), ["stopped"])
    request_id = found(ec2, instance)["SpotInstanceRequestId"]
    assert "disabled" == simulation.dump()["spot_requests"][request_id]

    ec2.cancel_spot_instance_requests(SpotInstanceRequestIds=[request_id])
    eventually(lambda: states(simulation), ["terminated"])


def test_an_auto_scaling_group_replaces_a_stopped_member(simulation: Simulation, ec2: Any) -> None:
    """The governor must never run into this."""
    member = put(simulation, tags={"aws:autoscaling:groupName": "x"})
    ec2.stop_instances(InstanceIds=[member])

    eventually(lambda: states(simulation), ["running", "stopped"])


def test_run_instances_launches_what_is_asked_for(simulation: Simulation, ec2: Any) -> None:
    """Market, volumes, tags and protection; two at once."""
    launched = ec2.run_instances(
        ImageId="ami-1",
        InstanceType="g4dn.xlarge",
        MinCount=1,
        MaxCount=2,
        InstanceMarketOptions={
            "MarketType": "spot",
            "SpotOptions": {"SpotInstanceType": "persistent"},
        },
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 50, "DeleteOnTermination": False}}
        ],
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "Purpose", "Value": "x"}]}
        ],
        DisableApiStop=True,
    )["Instances"]

    assert ["pending", "pending"] == [instance["State"]["Name"] for instance in launched]
    eventually(lambda: states(simulation), ["running", "running"])
    one = found(ec2, launched[0]["InstanceId"])
    assert "spot" == one["InstanceLifecycle"]
    assert not one["BlockDeviceMappings"][0]["Ebs"]["DeleteOnTermination"]
    attribute = {"InstanceId": one["InstanceId"], "Attribute": "disableApiStop"}
    assert ec2.describe_instance_attribute(**attribute)["DisableApiStop"]["Value"]
    statuses = ec2.describe_instance_status()["InstanceStatuses"]
    assert ["ok", "ok"] == [status["InstanceStatus"]["Status"] for status in statuses]


# tags


def test_a_bad_id_spoils_a_batch_of_tags(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """As on AWS: all or nothing."""
    instance = put(simulation)
    call = {"Resources": [instance, UNKNOWN], "Tags": [{"Key": "a", "Value": "b"}]}

    assert "InvalidInstanceID.NotFound" == refusal(lambda: ec2.create_tags(**call))
    assert "InvalidInstanceID.NotFound" == refusal(lambda: ec2.delete_tags(**call))
    assert [] == found(ec2, instance).get("Tags", [])


def test_tags_have_their_limits(simulation: Simulation, ec2: Any, refusal: Refusal) -> None:
    """50 a resource, 1,000 resources a call, keys of AWS reserved."""
    instance = put(simulation)
    many = [{"Key": f"k{number}", "Value": ""} for number in range(50)]
    ec2.create_tags(Resources=[instance], Tags=many)

    one_more = {"Resources": [instance], "Tags": [{"Key": "more", "Value": ""}]}
    assert "TagLimitExceeded" == refusal(lambda: ec2.create_tags(**one_more))
    reserved = {"Resources": [instance], "Tags": [{"Key": "aws:x", "Value": ""}]}
    assert "InvalidParameterValue" == refusal(lambda: ec2.create_tags(**reserved))
    crowd = {"Resources": [instance] * 1001, "Tags": many[:1]}
    assert "InvalidParameterValue" == refusal(lambda: ec2.create_tags(**crowd))


def test_a_tag_named_with_a_value_goes_only_with_that_value(
    simulation: Simulation, ec2: Any
) -> None:
    """Without a value it goes whatever it says."""
    instance = put(simulation, tags={"a": "1", "b": "2"})

    ec2.delete_tags(Resources=[instance], Tags=[{"Key": "a", "Value": "other"}])
    assert 2 == len(found(ec2, instance)["Tags"])
    ec2.delete_tags(Resources=[instance], Tags=[{"Key": "a"}])
    told = ec2.describe_tags(Filters=[{"Name": "resource-id", "Values": [instance]}])["Tags"]
    assert ["b"] == [tag["Key"] for tag in told]


# volumes and snapshots


def test_termination_takes_the_volumes_that_are_marked(simulation: Simulation, ec2: Any) -> None:
    """The others stay, and are free."""
    volumes = [VolumeSpec(10), VolumeSpec(20, "/dev/sdb", delete_on_termination=False)]
    instance = put(simulation, volumes=volumes)
    ec2.terminate_instances(InstanceIds=[instance])

    eventually(lambda: list(simulation.dump()["volumes"].values()), ["available"])


def test_snapshots_are_one_set_of_all_volumes(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """Pending first; tagged; what is excluded is left out; the root too if told."""
    simulation.set_delays(state_change=0.05, snapshot=0.3)
    instance = put(simulation, volumes=[VolumeSpec(10), VolumeSpec(20, "/dev/sdb")])
    tags = [{"ResourceType": "snapshot", "Tags": [{"Key": "Episode", "Value": "e"}]}]
    whole = {"InstanceId": instance}
    made = ec2.create_snapshots(InstanceSpecification=whole, TagSpecifications=tags)["Snapshots"]

    assert [(10, "pending"), (20, "pending")] == sorted((s["VolumeSize"], s["State"]) for s in made)
    mine = [{"Name": "tag:Episode", "Values": ["e"]}]

    def seen() -> set[str]:
        return {
            s["State"] for s in ec2.describe_snapshots(OwnerIds=["self"], Filters=mine)["Snapshots"]
        }

    eventually(seen, {"completed"})
    data_only = ec2.create_snapshots(InstanceSpecification={**whole, "ExcludeBootVolume": True})
    assert [20] == [s["VolumeSize"] for s in data_only["Snapshots"]]
    ec2.delete_snapshot(SnapshotId=made[0]["SnapshotId"])
    gone = {"SnapshotIds": [made[0]["SnapshotId"]]}
    assert "InvalidSnapshot.NotFound" == refusal(lambda: ec2.describe_snapshots(**gone))


def test_snapshots_can_be_made_to_fail(simulation: Simulation, ec2: Any) -> None:
    """As `error`, from now on."""
    simulation.snapshots_end_as("error")
    ec2.create_snapshots(InstanceSpecification={"InstanceId": put(simulation)})

    eventually(lambda: list(simulation.dump()["snapshots"].values()), ["error"])


# capacity and types


def test_reservations_and_types_are_told(
    simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """A Capacity Block is a reservation of its own kind; an unknown type is refused."""
    put(simulation, lifecycle="capacity-block", capacity_reservation_id="cr-0123456789abcdef0")
    simulation.set_instance_types(
        {"g5.xlarge": {"GpuInfo": {"Gpus": [{"Name": "A10G", "Count": 1}]}}}
    )

    (block,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert ("capacity-block", "g5.xlarge") == (block["ReservationType"], block["InstanceType"])
    (shape,) = ec2.describe_instance_types(InstanceTypes=["g5.xlarge"])["InstanceTypes"]
    assert "A10G" == shape["GpuInfo"]["Gpus"][0]["Name"]
    assert "InvalidInstanceType" == refusal(
        lambda: ec2.describe_instance_types(InstanceTypes=["x9.y"])
    )


# faults


def test_a_fault_hits_the_calls_it_is_meant_for(
    bare_cloud: LocalCloud, simulation: Simulation, ec2: Any, refusal: Refusal
) -> None:
    """As often as it says; with `match` only requests that hold the value; all calls are
    counted."""
    good, bad = put(simulation), put(simulation)
    code = "IncorrectInstanceState"
    simulation.set_fault("ec2:StopInstances", code, times=2, match={"InstanceIds": bad})

    ec2.stop_instances(InstanceIds=[good])
    assert code == refusal(lambda: ec2.stop_instances(InstanceIds=[bad]))
    assert code == refusal(lambda: ec2.stop_instances(InstanceIds=[bad]))
    ec2.stop_instances(InstanceIds=[bad])
    assert 4 == simulation.calls()["ec2:StopInstances"]

    sns = bare_cloud.client("sns")
    topic = sns.create_topic(Name="faulty")["TopicArn"]
    simulation.set_fault("sns:Publish", "AuthorizationError")
    assert "AuthorizationError" == refusal(lambda: sns.publish(TopicArn=topic, Message="x"))
    sns.publish(TopicArn=topic, Message="x")
    table = bare_cloud.client("dynamodb")
    simulation.set_fault("dynamodb:ListTables", "AccessDeniedException")
    assert "AccessDeniedException" == refusal(table.list_tables)


def test_a_clear_leaves_nothing(simulation: Simulation, ec2: Any) -> None:
    """Not even a change of state that is under way."""
    instance = put(simulation)
    ec2.stop_instances(InstanceIds=[instance])
    simulation.clear()

    time.sleep(0.2)
    assert {
        "instances": {},
        "volumes": {},
        "snapshots": {},
        "spot_requests": {},
    } == simulation.dump()
    assert {} == simulation.calls()


def test_what_is_left_behind_can_be_put_there(ec2: Any, simulation: Simulation) -> None:
    """A volume without an instance, an empty Capacity Reservation, a Spot fleet, and an instance
    that was stopped long ago."""
    made = datetime(2026, 1, 1, tzinfo=UTC)
    volume_id = simulation.put_volume(500, made, {"Name": "old"})
    reservation_id = simulation.put_reservation("p5.48xlarge", 2, made, {"Name": "spare"})
    config = {"IamFleetRole": "arn:aws:iam::123456789012:role/fleet", "TargetCapacity": 2}
    record = {"SpotFleetRequestState": "active", "SpotFleetRequestConfig": config}
    fleet_id = simulation.put_spot_fleet(made, record)
    stopped = InstanceSpec("g5.xlarge", made, state="stopped", stopped_at=made)
    instance_id = simulation.put_instance(stopped)

    available = [{"Name": "status", "Values": ["available"]}]
    (volume,) = ec2.describe_volumes(Filters=available)["Volumes"]
    assert (volume_id, made, 500) == (volume["VolumeId"], volume["CreateTime"], volume["Size"])
    (reservation,) = ec2.describe_capacity_reservations()["CapacityReservations"]
    assert reservation_id == reservation["CapacityReservationId"]
    assert 2 == reservation["TotalInstanceCount"] == reservation["AvailableInstanceCount"]
    (fleet,) = ec2.describe_spot_fleet_requests()["SpotFleetRequestConfigs"]
    assert (fleet_id, made) == (fleet["SpotFleetRequestId"], fleet["CreateTime"])
    (found,) = ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    (instance,) = found["Instances"]
    assert "User initiated (2026-01-01 00:00:00 GMT)" == instance["StateTransitionReason"]
