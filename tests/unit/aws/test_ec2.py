"""EC2: what is read, what a dry run may do, and that one bad id never sinks the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from governor.aws.clients import Clients
from governor.aws.ebs_snapshots import EbsSnapshots
from governor.aws.ec2 import Ec2Instances
from governor.aws.ec2_writes import Ec2Controller, Ec2Tags
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    NotFound,
    Protected,
    SafetyError,
    Throttled,
    Unavailable,
    Unsupported,
    WrongState,
)
from governor.core.instance import (
    Instance,
    Lifecycle,
    Protection,
    Snapshot,
    SpotRequestType,
    Target,
    Volume,
)
from governor.core.regions import Partition, partitions
from governor.episode.model.plan import Step
from governor.episode.rules.plan import MAIN_STEPS, draw_plan
from governor.policy.model.names import TagMatch
from governor.policy.model.policy import Policy
from tests.builders import NOW, make_facts, make_instance
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error

TARGET = Target("123456789012", "us-east-1")
SELECTOR = TagMatch("Purpose", "GPU-Workload")
LAUNCHED = datetime(2026, 11, 20, 6, 0, tzinfo=UTC)


class Ec2Client(ScriptedClient):
    """A scripted EC2 whose model knows, or does not know, a parameter of DescribeInstances."""

    def __init__(self, **answers: Any) -> None:
        owned = {"InstanceId": make_instance().instance_id, "State": "active"}
        answers.setdefault(
            "describe_spot_instance_requests", lambda **_: {"SpotInstanceRequests": [owned]}
        )
        super().__init__(**answers)
        self.meta = _Meta(("IncludeManagedResources",))


class _Meta:
    def __init__(self, members: tuple[str, ...]) -> None:
        self.service_model = self
        self.input_shape = self
        self.members = members

    def operation_model(self, name: str) -> _Meta:
        assert name == "DescribeInstances"
        return self


def described(instance_id: str = "i-1", **more: Any) -> dict[str, Any]:
    """An instance as DescribeInstances gives it."""
    return {
        "InstanceId": instance_id,
        "InstanceType": "g5.xlarge",
        "State": {"Name": "running"},
        "LaunchTime": LAUNCHED,
        "Tags": [{"Key": "Purpose", "Value": "GPU-Workload"}],
        **more,
    }


def page(*instances: dict[str, Any], following: str | None = None) -> dict[str, Any]:
    """A page of DescribeInstances, one reservation an instance."""
    reservations = [{"Instances": [instance]} for instance in instances]
    return {"Reservations": reservations, **({"NextToken": following} if following else {})}


def reservation() -> dict[str, Any]:
    """A Capacity Reservation as DescribeCapacityReservations gives it."""
    return {
        "CapacityReservationId": "cr-1",
        "OwnerId": TARGET.account,
        "InstanceType": "p5.48xlarge",
        "InstancePlatform": "Linux/UNIX",
        "TotalInstanceCount": 4,
        "AvailableInstanceCount": 3,
        "State": "active",
        "StartDate": datetime(2026, 1, 1, tzinfo=UTC),
        "Tags": [{"Key": "Name", "Value": "training"}],
    }


def run_instance(aws: Clients, **more: Any) -> str:
    """A running instance in moto."""
    client = aws.client("ec2", TARGET)
    answer = client.run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        InstanceType="g5.xlarge",
        TagSpecifications=[
            {"ResourceType": "instance", "Tags": [{"Key": "Purpose", "Value": "GPU-Workload"}]}
        ],
        **more,
    )
    return str(answer["Instances"][0]["InstanceId"])


# reading


def test_what_a_relaunch_needs_is_read() -> None:
    """Also what holds a cluster together."""
    kinds = ["interface", "efa", "efa-only"]
    full = described(
        Placement={"AvailabilityZone": "us-east-1a", "GroupName": "trainers"},
        NetworkInterfaces=[{"InterfaceType": kind} for kind in kinds],
    )
    client = Ec2Client(
        describe_instances=[page(full), page(described(Placement={"GroupName": ""}))]
    )
    instances = Ec2Instances(FakeClients(client))
    found, plain = instances.describe(TARGET, "i-1"), instances.describe(TARGET, "i-1")

    assert found is not None
    assert found.launch is not None
    assert ("trainers", "3, 2 of them with EFA") == (
        found.launch.placement_group,
        found.launch.network,
    )
    assert plain is not None
    assert plain.launch is not None
    assert (None, None) == (plain.launch.placement_group, plain.launch.network)


def test_elastic_ips_are_told_from_addresses_that_ec2_lends() -> None:
    """EC2 names `amazon` as the owner of what it lends; of every interface, and every address on
    it."""
    owners = [
        ("198.51.100.7", "111111111111"),
        ("203.0.113.9", "amazon"),
        ("198.51.100.8", "111111111111"),
    ]
    first, second, third = (
        {
            "PrivateIpAddress": f"10.0.0.{ip[-1]}",
            "Association": {"PublicIp": ip, "IpOwnerId": owner},
        }
        for ip, owner in owners
    )
    interfaces = [
        {
            "InterfaceType": "interface",
            "PrivateIpAddresses": [first, {"PrivateIpAddress": "10.0.0.4"}, second],
        },
        {"InterfaceType": "interface", "PrivateIpAddresses": [third]},
        {"InterfaceType": "efa-only"},
    ]
    client = Ec2Client(describe_instances=[page(described(NetworkInterfaces=interfaces))])
    found = Ec2Instances(FakeClients(client)).describe(TARGET, "i-1")

    assert found is not None
    assert found.launch is not None
    assert ("198.51.100.7", "198.51.100.8") == found.launch.elastic_ips


def test_user_data_is_read_as_the_instance_gets_it(aws: Clients) -> None:
    """EC2 gives it in base64; perhaps it is compressed, or there is none."""
    script = b"#!/bin/sh\n\x00\xff"
    with_script, without = run_instance(aws, UserData=script), run_instance(aws)
    snapshots = EbsSnapshots(aws)

    assert (script, b"") == tuple(
        snapshots.user_data(TARGET, one) for one in (with_script, without)
    )


def test_every_fact_is_read() -> None:
    """All that a plan is drawn from, as the plan names it."""
    full = described(
        InstanceLifecycle="spot",
        RootDeviceType="instance-store",
        BlockDeviceMappings=[
            {"DeviceName": "/dev/sda1", "Ebs": {"VolumeId": "vol-1", "DeleteOnTermination": True}},
            {"DeviceName": "/dev/sdb", "Ebs": {"VolumeId": "vol-2", "DeleteOnTermination": False}},
        ],
        Placement={"AvailabilityZone": "us-east-1a", "HostId": "h-1", "Tenancy": "host"},
        PlatformDetails="Windows",
        UsageOperation="RunInstances:0002",
        PublicIpAddress="203.0.113.7",
        SpotInstanceRequestId="sir-1",
        CapacityReservationId="cr-1",
        Operator={"Managed": True, "Principal": "eks.amazonaws.com"},
    )
    instances = Ec2Instances(FakeClients(Ec2Client(describe_instances=[page(full)])))

    assert [
        Instance(
            target=TARGET,
            instance_id="i-1",
            instance_type="g5.xlarge",
            state="running",
            launch_time=LAUNCHED,
            lifecycle=Lifecycle.SPOT,
            root_device_type="instance-store",
            tags={"Purpose": "GPU-Workload"},
            volumes=(Volume("vol-1", "/dev/sda1", True), Volume("vol-2", "/dev/sdb", False)),
            availability_zone="us-east-1a",
            platform="Windows",
            operation="RunInstances:0002",
            tenancy="Host",
            public_ip="203.0.113.7",
            spot_request_id="sir-1",
            capacity_reservation_id="cr-1",
            host_id="h-1",
            operator_managed=True,
            operator_principal="eks.amazonaws.com",
        )
    ] == instances.list_selected(TARGET, SELECTOR)


@pytest.mark.parametrize(
    ("value", "lifecycle"),
    [
        (None, Lifecycle.ON_DEMAND),
        ("spot", Lifecycle.SPOT),
        ("scheduled", Lifecycle.SCHEDULED),
        ("capacity-block", Lifecycle.CAPACITY_BLOCK),
        ("interruptible-capacity-reservation", Lifecycle.INTERRUPTIBLE_RESERVATION),
        ("something-of-next-year", Lifecycle.UNKNOWN),
    ],
)
def test_a_lifecycle_that_is_not_known_is_called_unknown(
    value: str | None, lifecycle: Lifecycle
) -> None:
    """Only an absent value means on-demand."""
    more = {} if value is None else {"InstanceLifecycle": value}
    instances = Ec2Instances(FakeClients(Ec2Client(describe_instances=[page(described(**more))])))
    assert lifecycle is instances.list_selected(TARGET, SELECTOR)[0].lifecycle


def test_all_pages_are_listed_with_what_aws_hides() -> None:
    """A thousand a page, hidden managed instances included, running and selected ones only."""
    selector = TagMatch("Purpose", "a*b?c\\d")
    tagged = {"Tags": [{"Key": "Purpose", "Value": selector.tag_value}]}
    first, second = ({**described(one), **tagged} for one in ("i-1", "i-2"))
    client = Ec2Client(describe_instances=[page(first, following="more"), page(second)])

    found = Ec2Instances(FakeClients(client)).list_selected(TARGET, selector)

    assert ["i-1", "i-2"] == [instance.instance_id for instance in found]
    first = client.calls[0][1]
    assert (1000, True) == (first["MaxResults"], first["IncludeManagedResources"])
    assert [
        {"Name": "tag:Purpose", "Values": ["a\\*b\\?c\\\\d"]},
        {"Name": "instance-state-name", "Values": ["running"]},
    ] == first["Filters"]
    assert "more" == client.calls[1][1]["NextToken"]


def test_an_instance_that_is_on_two_pages_is_one_as_it_was_last() -> None:
    """A sweep would judge one of the two, and end at the other."""
    tags = {"Tags": [{"Key": SELECTOR.tag_key, "Value": SELECTOR.tag_value}]}
    first, again = (
        {**described("i-1"), **tags, "InstanceType": kind} for kind in ("g5.xlarge", "g5.2xlarge")
    )
    client = Ec2Client(describe_instances=[page(first, following="more"), page(again)])

    found = Ec2Instances(FakeClients(client)).list_selected(TARGET, SELECTOR)

    assert [("i-1", "g5.2xlarge")] == [(one.instance_id, one.instance_type) for one in found]


def test_an_old_model_is_asked_without_the_parameter(caplog: pytest.LogCaptureFixture) -> None:
    """It lists what it can and says what may be missing."""
    client = Ec2Client(describe_instances=[page(described())])
    client.meta = _Meta(())

    assert 1 == len(Ec2Instances(FakeClients(client)).list_selected(TARGET, SELECTOR))
    assert "IncludeManagedResources" not in client.calls[0][1]
    assert "IncludeManagedResources" in caplog.text


NOT_KNOWN = (
    ("UnknownParameter", "The parameter IncludeManagedResources is not recognized"),
    ("InvalidParameter", "IncludeManagedResources"),
    ("InvalidParameterValue", "Value (disableApiStop) for parameter attribute is invalid"),
    ("InvalidParameterCombination", "no"),
    ("UnsupportedOperation", "The operation is not supported"),
    ("Unsupported", "not in this partition"),
    ("UnknownAttribute", "no"),
    ("InvalidAttributeValue", "no"),
)
"""How EC2 refuses a parameter or an attribute that it does not know."""
OTHER_REFUSALS = (
    "UnauthorizedOperation",
    "RequestLimitExceeded",
    "InternalError",
    "InvalidInstanceID.NotFound",
    "InvalidInstanceID.Malformed",
    "InvalidFilter",
)


@pytest.mark.parametrize(("code", "message"), NOT_KNOWN)
def test_a_parameter_that_a_partition_does_not_know_is_left_out(
    code: str, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The sweep goes on, and what is not seen then is logged once."""
    first = page(described("i-1"), following="more")
    script = [client_error(code, message), first, page(described("i-2")), page(described("i-1"))]
    client = Ec2Client(describe_instances=script)
    instances = Ec2Instances(FakeClients(client))

    assert 2 == len(instances.list_selected(TARGET, SELECTOR))
    assert 1 == len(instances.list_selected(TARGET, SELECTOR))

    asked = ["IncludeManagedResources" in parameters for _, parameters in client.calls]
    assert [True, False, False, False] == asked
    assert 1 == caplog.text.count("managed instances that it hides are not seen")


def test_a_region_that_does_not_know_a_parameter_says_nothing_of_another() -> None:
    """Partitions get parameters apart from each other."""
    script = [client_error("UnknownParameter"), page(described("i-1")), page(described("i-1"))]
    client = Ec2Client(describe_instances=script)
    instances = Ec2Instances(FakeClients(client))

    instances.list_selected(Target("123456789012", "eusc-de-east-1"), SELECTOR)
    instances.list_selected(TARGET, SELECTOR)

    assert "IncludeManagedResources" in client.calls[2][1]


@pytest.mark.parametrize("code", OTHER_REFUSALS)
def test_another_refusal_is_none_of_a_parameter(code: str) -> None:
    """It is not asked again without the parameter, and the list is not empty instead."""
    client = Ec2Client(describe_instances=[client_error(code)])
    with pytest.raises(CloudError):
        Ec2Instances(FakeClients(client)).list_selected(TARGET, SELECTOR)
    assert 1 == len(client.calls)


def test_a_refusal_that_stays_without_the_parameter_is_raised() -> None:
    """Something else was wrong, and the parameter is asked for again next time."""
    refusal = client_error("InvalidParameterValue", "the filter")
    client = Ec2Client(describe_instances=[refusal, refusal, page(described())])
    instances = Ec2Instances(FakeClients(client))

    with pytest.raises(CloudError, match="the filter"):
        instances.list_selected(TARGET, SELECTOR)
    assert 1 == len(instances.list_selected(TARGET, SELECTOR))
    assert "IncludeManagedResources" in client.calls[2][1]


def test_a_failed_page_is_not_a_short_list() -> None:
    """Half a fleet would look like the other half had gone."""
    client = Ec2Client(
        describe_instances=[
            page(described(), following="more"),
            client_error("RequestLimitExceeded"),
        ]
    )
    with pytest.raises(Throttled):
        Ec2Instances(FakeClients(client)).list_selected(TARGET, SELECTOR)


def test_only_running_and_selected_instances_are_listed(aws: Clients) -> None:
    """Against moto: stopped ones and ones without the tag are not seen."""
    running, stopped = run_instance(aws), run_instance(aws)
    client = aws.client("ec2", TARGET)
    client.stop_instances(InstanceIds=[stopped])
    client.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="g5.xlarge")

    found = Ec2Instances(aws).list_selected(TARGET, SELECTOR)

    assert [running] == [instance.instance_id for instance in found]
    described_again = Ec2Instances(aws).describe(TARGET, stopped)
    assert described_again is not None
    assert "stopped" == described_again.state


def test_what_is_not_governed_is_listed_by_its_type_and_bounded() -> None:
    """Running ones of accelerated families; those with the selector's tag are left out, up to 500
    kept."""
    web = [{"Key": "Purpose", "Value": "web"}]
    first = page(described("i-1"), described("i-2", Tags=[]), following="more")
    more = [described(f"i-{number}", Tags=web) for number in range(3, 900)]
    client = Ec2Client(describe_instances=[first, page(*more, following="still-more")])

    found = Ec2Instances(FakeClients(client)).list_ungoverned(TARGET, SELECTOR)

    assert [f"i-{number}" for number in range(2, 502)] == [one.instance_id for one in found]
    types, state = client.calls[0][1]["Filters"]
    assert ("instance-type", {"Name": "instance-state-name", "Values": ["running"]}) == (
        types["Name"],
        state,
    )
    assert {"g4dn.*", "p4d.*", "p5.*", "trn2.*"} < set(types["Values"])
    assert 2 == len(client.calls)


def test_an_instance_that_is_gone_reads_as_none(aws: Clients) -> None:
    """EC2 forgets terminated instances after an hour; that is no failure."""
    assert Ec2Instances(aws).describe(TARGET, "i-0123456789abcdef0") is None


def test_another_failure_does_not_read_as_gone() -> None:
    """An instance that could not be read is not an instance that does not exist."""
    client = Ec2Client(describe_instances=[client_error("InternalError", status=500)])
    with pytest.raises(Unavailable):
        Ec2Instances(FakeClients(client)).describe(TARGET, "i-1")


def test_both_protection_flags_are_read(aws: Clients) -> None:
    """Each flag by itself."""
    client, instances = aws.client("ec2", TARGET), Ec2Instances(aws)
    instance_id = run_instance(aws)
    assert Protection(stop=False, termination=False) == instances.protection(TARGET, instance_id)

    client.modify_instance_attribute(InstanceId=instance_id, DisableApiTermination={"Value": True})
    assert Protection(stop=False, termination=True) == instances.protection(TARGET, instance_id)

    client.modify_instance_attribute(InstanceId=instance_id, DisableApiStop={"Value": True})
    assert Protection(stop=True, termination=True) == instances.protection(TARGET, instance_id)


@pytest.mark.parametrize(("code", "message"), NOT_KNOWN)
def test_a_flag_that_a_partition_does_not_know_is_not_known(code: str, message: str) -> None:
    """The other flag is read all the same."""
    refusal = client_error(code, message)
    known = {"DisableApiTermination": {"Value": True}, "DisableApiStop": {"Value": True}}
    for script, expected in (
        ([refusal, known], Protection(stop=None, termination=True)),
        ([known, refusal], Protection(stop=True, termination=None)),
    ):
        client = Ec2Client(describe_instance_attribute=script)
        assert expected == Ec2Instances(FakeClients(client)).protection(TARGET, "i-1")


ODD_ANSWERS: tuple[dict[str, Any], ...] = ({}, {"DisableApiStop": {}}, {"DisableApiStop": None})
"""Answers without the flag of stop protection."""


@pytest.mark.parametrize("odd", ODD_ANSWERS)
@pytest.mark.parametrize("partition", partitions(), ids=lambda partition: partition.name)
def test_an_answer_without_the_flag_leaves_it_not_known_outside_of_aws(
    partition: Partition, odd: dict[str, Any]
) -> None:
    """A partition may answer so for an attribute that it does not know. The plan is drawn all the
    same, and says so. In the partition `aws`, which knows both, the flag may be set."""
    target = Target("123456789012", min(partition.regions))
    known = {"DisableApiTermination": {"Value": False}}
    client = Ec2Client(describe_instance_attribute=[odd, known])
    instances = Ec2Instances(FakeClients(client))
    if partition.name == "aws":
        with pytest.raises(CloudError, match="answered without DisableApiStop"):
            instances.protection(target, "i-1")
        return
    expected = Protection(stop=None, termination=False)
    assert expected == instances.protection(target, "i-1")


@pytest.mark.parametrize("partition", partitions(), ids=lambda partition: partition.name)
def test_no_partition_needs_what_only_some_know(partition: Partition) -> None:
    """The sweep lists, the check before an action reads, and the plan is drawn, in a Region of each
    partition whose EC2 knows neither the parameter nor the attribute."""
    target = Target("123456789012", min(partition.regions))
    refusals = [client_error(code) for code, _ in NOT_KNOWN[:2]]
    client = Ec2Client(
        describe_instances=[refusals[0], page(described("i-1")), page(described("i-1"))],
        describe_instance_attribute=[refusals[1], {"DisableApiTermination": {"Value": False}}],
    )
    instances = Ec2Instances(FakeClients(client))

    assert ["i-1"] == [one.instance_id for one in instances.list_selected(target, SELECTOR)]
    instance = instances.describe(target, "i-1")
    assert instance is not None
    facts = make_facts(instance, protection=instances.protection(target, "i-1"))
    plan = draw_plan(facts, Policy())
    assert Step.STOP in plan.steps
    assert "does not support disableApiStop" in plan.replaced_because[0]


@pytest.mark.parametrize("code", OTHER_REFUSALS)
def test_a_flag_that_could_not_be_read_is_an_error(code: str) -> None:
    """It may be set."""
    client = Ec2Client(describe_instance_attribute=[client_error(code)])
    with pytest.raises(CloudError):
        Ec2Instances(FakeClients(client)).protection(TARGET, "i-1")


@pytest.mark.parametrize("kind", list(SpotRequestType))
def test_the_kind_of_a_spot_request_is_read(kind: SpotRequestType) -> None:
    """One-time or persistent."""
    client = Ec2Client(
        describe_spot_instance_requests=[{"SpotInstanceRequests": [{"Type": kind.value}]}]
    )
    assert kind is Ec2Instances(FakeClients(client)).spot_request_type(TARGET, "sir-1")


@pytest.mark.parametrize(
    "answer", [{"SpotInstanceRequests": []}, client_error("InvalidSpotInstanceRequestID.NotFound")]
)
def test_a_spot_request_that_is_gone_reads_as_none(answer: object) -> None:
    """Requests are forgotten some time after they end."""
    client = Ec2Client(describe_spot_instance_requests=[answer])
    assert Ec2Instances(FakeClients(client)).spot_request_type(TARGET, "sir-1") is None


@pytest.mark.parametrize(
    ("answer", "is_known"),
    [
        ({"CapacityReservations": [{"CapacityReservationId": "cr-1"}]}, True),
        ({"CapacityReservations": []}, False),
        (client_error("InvalidCapacityReservationId.NotFound"), False),
    ],
)
def test_a_reservation_is_known_where_ec2_has_it(answer: object, is_known: bool) -> None:
    """A sample event names one that the account never had."""
    client = Ec2Client(describe_capacity_reservations=[answer])
    assert is_known is Ec2Instances(FakeClients(client)).knows_reservation(TARGET, "cr-1")


def test_reservations_are_those_in_force_that_the_account_pays_for() -> None:
    """Reservations of accelerated types; one that is being canceled is charged until it is, and
    blocks are told apart."""
    plain = reservation()
    end = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)
    others: list[dict[str, Any]] = [
        {
            "CapacityReservationId": "cr-2",
            "State": "cancelling",
            "EndDate": end,
            "EndDateType": "limited",
        },
        {"CapacityReservationId": "cr-3", "ReservationType": "capacity-block", "EndDate": end},
        {"State": "expired"},
        {"InstanceType": "m5.large"},
        {"OwnerId": "999999999999"},
        {"UnusedReservationBillingOwnerId": "999999999999"},
        {
            "CapacityReservationId": "cr-4",
            "OwnerId": "9",
            "UnusedReservationBillingOwnerId": TARGET.account,
        },
    ]
    pages = {"CapacityReservations": [plain, *({**plain, **one} for one in others)]}
    found = Ec2Instances(
        FakeClients(ScriptedClient(describe_capacity_reservations=pages))
    ).reservations(TARGET)

    assert ["cr-1", "cr-2", "cr-3", "cr-4"] == [one.reservation_id for one in found]
    assert [None, end, end, None] == [one.ends_at for one in found]
    assert [False, False, True, False] == [one.is_block for one in found]
    assert (4, 3, "training", "123456789012") == (
        found[0].total,
        found[0].available,
        found[0].name,
        found[0].account,
    )


def test_volumes_get_their_sizes(aws: Clients) -> None:
    """Size, type, IOPS and throughput of every attached volume."""
    mapping = {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 120, "VolumeType": "gp3"}}
    instance_id = run_instance(aws, BlockDeviceMappings=[mapping])
    instances = Ec2Instances(aws)
    instance = instances.describe(TARGET, instance_id)
    assert instance is not None
    assert [None] == [volume.size_gib for volume in instance.volumes]

    assert [(120, "gp3", 3000)] == [
        (volume.size_gib, volume.volume_type, volume.iops)
        for volume in instances.with_volume_sizes(instance)
    ]
    [volume] = instance.volumes
    fast = {
        "VolumeId": volume.volume_id,
        "Size": 120,
        "VolumeType": "gp3",
        "Iops": 4000,
        "Throughput": 250,
    }
    scripted = Ec2Instances(FakeClients(ScriptedClient(describe_volumes={"Volumes": [fast]})))
    assert [(4000, 250)] == [
        (one.iops, one.throughput) for one in scripted.with_volume_sizes(instance)
    ]


# tags


class TagClient:
    """CreateTags and DeleteTags over a set of ids that exist; a call fails whole, as on AWS."""

    def __init__(self, bad: dict[str, str] | None = None, always: str | None = None) -> None:
        self.bad = bad or {}
        self.always = always
        self.tagged: set[str] = set()
        self.calls: list[list[str]] = []

    def create_tags(self, **parameters: Any) -> None:
        """As EC2."""
        resources: list[str] = parameters["Resources"]
        self.calls.append(resources)
        if self.always:
            raise client_error(self.always)
        for instance_id in resources:
            if instance_id in self.bad:
                raise client_error(self.bad[instance_id])
        if parameters["DryRun"]:
            raise client_error("DryRunOperation", status=412)
        self.tagged |= set(resources)

    delete_tags = create_tags


@pytest.mark.parametrize("count", [1, 2, 499, 500, 501, 1200])
def test_tags_are_set_in_batches(count: int) -> None:
    """500 resources a call, every instance once, even if named twice."""
    client = TagClient()
    ids = [f"i-{n}" for n in range(count)]

    assert {} == Ec2Tags(FakeClients(client)).set_tags(
        TARGET, [*ids, *ids], {"A": "1"}, dry_run=False
    )
    assert -(-count // 500) == len(client.calls)
    assert set(ids) == client.tagged


@pytest.mark.parametrize("code", ["InvalidInstanceID.NotFound", "UnauthorizedOperation"])
def test_one_bad_id_does_not_sink_the_others(code: str) -> None:
    """The batch is halved until the bad ones stand alone; they are told with the reason."""
    bad = {"i-0": code, "i-250": code, "i-777": code, "i-778": code}
    client = TagClient(bad)
    ids = [f"i-{n}" for n in range(1000)]

    failures = Ec2Tags(FakeClients(client)).set_tags(TARGET, ids, {"A": "1"}, dry_run=False)

    assert set(bad) == set(failures)
    assert all(code == error.code for error in failures.values())
    assert set(ids) - set(bad) == client.tagged
    assert len(client.calls) < 100


def test_nothing_to_tag_is_no_call() -> None:
    """No resource, no call."""
    client = TagClient()
    assert {} == Ec2Tags(FakeClients(client)).set_tags(TARGET, [], {"A": None}, dry_run=False)
    assert [] == client.calls


@pytest.mark.parametrize("code", ["RequestLimitExceeded", "InternalError"])
def test_a_busy_ec2_is_not_asked_more(code: str) -> None:
    """Throttled batches are reported whole, one call each."""
    client = TagClient(always=code)
    ids = [f"i-{n}" for n in range(1000)]
    failures = Ec2Tags(FakeClients(client)).set_tags(TARGET, ids, {"A": "1"}, dry_run=False)
    assert set(ids) == set(failures)
    assert 2 == len(client.calls)


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "TagPolicyViolation"])
def test_a_role_that_may_not_tag_is_not_asked_a_thousand_times(code: str) -> None:
    """When nothing is allowed at all, it ends early with every instance reported."""
    client = TagClient(always=code)
    ids = [f"i-{n}" for n in range(5000)]
    failures = Ec2Tags(FakeClients(client)).set_tags(TARGET, ids, {"A": "1"}, dry_run=False)
    assert set(ids) == set(failures)
    assert len(client.calls) < 60


def test_tags_are_removed_whatever_their_value(aws: Clients) -> None:
    """Against moto: set, then removed by key; others stay."""
    instance_id, tags = run_instance(aws), Ec2Tags(aws)
    tags.set_tags(TARGET, [instance_id], {"LowUtilization": "2026-11-20T12:00:00Z"}, dry_run=False)
    marked = Ec2Instances(aws).describe(TARGET, instance_id)
    assert marked is not None
    assert "2026-11-20T12:00:00Z" == marked.tags["LowUtilization"]

    gone = {"LowUtilization": None, "NotThere": None}
    assert {} == tags.set_tags(TARGET, [instance_id], gone, dry_run=False)

    cleaned = Ec2Instances(aws).describe(TARGET, instance_id)
    assert cleaned is not None
    assert {"Purpose": "GPU-Workload"} == dict(cleaned.tags)


# dry runs and writes

Write = Callable[[Clients, bool], object]
ACTOR = "arn:aws:iam::123456789012:role/gpu-governor-us-east-1-actor"
MEMBER_ACTOR = "arn:aws:iam::210987654321:role/gpu-governor-member-actor"
WRITES: dict[str, tuple[str, Write]] = {
    "stop": (
        "stop_instances",
        lambda c, dry: Ec2Controller(c, ACTOR).stop(TARGET, "i-1", dry_run=dry),
    ),
    "terminate": (
        "terminate_instances",
        lambda c, dry: Ec2Controller(c, ACTOR).terminate(TARGET, "i-1", dry_run=dry),
    ),
    Step.CANCEL_SPOT_REQUEST: (
        "cancel_spot_instance_requests",
        lambda c, dry: Ec2Controller(c, ACTOR).prepare(
            Step.CANCEL_SPOT_REQUEST, make_instance(spot_request_id="sir-1"), dry_run=dry
        ),
    ),
    "snapshot": (
        "create_snapshots",
        lambda c, dry: EbsSnapshots(c).create(TARGET, "i-1", {}, dry_run=dry),
    ),
    "tag": (
        "create_tags",
        lambda c, dry: Ec2Tags(c).set_tags(TARGET, ["i-1"], {"A": "1"}, dry_run=dry),
    ),
    "untag": (
        "delete_tags",
        lambda c, dry: Ec2Tags(c).set_tags(TARGET, ["i-1"], {"A": None}, dry_run=dry),
    ),
}


@pytest.mark.parametrize("step", sorted(set(Step) - set(MAIN_STEPS)))
def test_every_companion_is_one_write_of_ec2(step: Step) -> None:
    """Each has its row above, and with that a dry run and an answer to each failure."""
    assert step in WRITES


@pytest.mark.parametrize("step", MAIN_STEPS)
def test_a_main_step_is_never_carried_out_on_the_side(step: Step) -> None:
    """Each has a recheck of its own before it."""
    client = Ec2Client()
    with pytest.raises(SafetyError, match="no companion"):
        Ec2Controller(FakeClients(client), ACTOR).prepare(step, make_instance(), dry_run=False)
    assert [] == client.calls


@pytest.mark.parametrize("name", WRITES)
def test_a_dry_run_that_would_succeed_is_a_success(name: str) -> None:
    """`DryRunOperation` is EC2's yes, and the call says that it is dry."""
    method, write = WRITES[name]
    client = Ec2Client(**{method: [client_error("DryRunOperation", status=412)]})

    assert not write(FakeClients(client), True)
    assert [True] == [call["DryRun"] for called, call in client.calls if called == method]


@pytest.mark.parametrize("name", WRITES)
def test_a_dry_run_that_was_carried_out_is_an_alarm(name: str) -> None:
    """EC2 answered as if it had acted: that must never pass quietly."""
    method, write = WRITES[name]
    with pytest.raises(SafetyError):
        write(FakeClients(Ec2Client(**{method: [{"Snapshots": []}]})), True)


@pytest.mark.parametrize("name", Step)
@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("OperationNotPermitted", Protected),
        ("UnsupportedOperation", Unsupported),
        ("IncorrectInstanceState", WrongState),
        ("InvalidInstanceID.NotFound", NotFound),
        ("UnauthorizedOperation", AccessDenied),
        ("RequestLimitExceeded", Throttled),
        ("InternalError", Unavailable),
    ],
)
def test_a_refusal_is_raised_dry_or_not(
    name: str, dry_run: bool, code: str, kind: type[CloudError]
) -> None:
    """EC2's no is a no in every mode, by its class."""
    method, write = WRITES[name]
    with pytest.raises(kind):
        write(FakeClients(Ec2Client(**{method: [client_error(code)]})), dry_run)


SENT_ONCE = list(Step)


@pytest.mark.parametrize("name", SENT_ONCE)
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_destroys_or_costs_is_sent_once(name: str, dry_run: bool) -> None:
    """EC2 gives these calls no token: the client of a call that may be repeated is not used.

    A client for one call sends once
    (`test_a_client_for_one_call_sends_once_with_its_own_credentials`).
    """
    method, write = WRITES[name]
    client = Ec2Client(**{method: [client_error("InternalError", status=503)]})
    clients = FakeClients(client)
    with pytest.raises(Unavailable):
        write(clients, dry_run)

    assert 1 == [called for called, _ in client.calls].count(method)
    if name == "snapshot":
        assert ("ec2", TARGET, False) == clients.asked[-1]
    else:
        assert 1 == len(clients.for_one_call)


def test_a_canceled_spot_request_is_not_canceled_again() -> None:
    """The answer to an earlier call was lost: the request itself says that it took effect."""
    canceled = {"SpotInstanceRequests": [{"State": "cancelled"}]}
    client = Ec2Client(describe_spot_instance_requests=[canceled])
    instance = make_instance(spot_request_id="sir-1")
    controller = Ec2Controller(FakeClients(client))

    assert controller.prepare(Step.CANCEL_SPOT_REQUEST, instance, dry_run=False) is None
    assert ["describe_spot_instance_requests"] == [called for called, _ in client.calls]


def test_dry_run_operation_is_no_success_of_a_real_call() -> None:
    """A real call that EC2 took for a dry run did nothing, so it must not look done."""
    client = Ec2Client(stop_instances=[client_error("DryRunOperation", status=412)])
    with pytest.raises(CloudError):
        Ec2Controller(FakeClients(client), ACTOR).stop(TARGET, "i-1", dry_run=False)


def test_stop_and_terminate_take_effect_only_when_not_dry(aws: Clients) -> None:
    """Against moto: the same calls, dry and real, one instance each."""
    first, second, controller, instances = (
        run_instance(aws),
        run_instance(aws),
        Ec2Controller(aws, ACTOR),
        Ec2Instances(aws),
    )

    def states() -> list[str]:
        return [
            found.state
            for i in (first, second)
            if (found := instances.describe(TARGET, i)) is not None
        ]

    controller.stop(TARGET, first, dry_run=True)
    controller.terminate(TARGET, second, dry_run=True)
    assert ["running", "running"] == states()

    controller.stop(TARGET, first, dry_run=False)
    assert ["stopped", "running"] == states()

    controller.terminate(TARGET, second, dry_run=False)
    assert ["stopped", "terminated"] == states()


# one call, one session


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize(
    ("name", "operation", "resource"),
    [
        ("stop", "ec2:StopInstances", "arn:aws:ec2:us-east-1:123456789012:instance/i-1"),
        ("terminate", "ec2:TerminateInstances", "arn:aws:ec2:us-east-1:123456789012:instance/i-1"),
        (
            Step.CANCEL_SPOT_REQUEST,
            "ec2:CancelSpotInstanceRequests",
            "arn:aws:ec2:us-east-1:123456789012:spot-instances-request/sir-1",
        ),
    ],
)
def test_each_destructive_call_is_made_with_credentials_for_it_alone(
    name: str, operation: str, resource: str, dry_run: bool
) -> None:
    """In the account of the stack by the role that acts there; a rehearsal goes the same way."""
    method, write = WRITES[name]
    answer: object = client_error("DryRunOperation", status=412) if dry_run else {}
    clients = FakeClients(Ec2Client(**{method: [answer]}))

    write(clients, dry_run)

    assert [(operation, TARGET, ACTOR, resource)] == clients.for_one_call


def test_in_a_member_its_own_role_acts() -> None:
    clients = FakeClients(Ec2Client(stop_instances=[{}]))
    member = Target("210987654321", "eu-west-1", MEMBER_ACTOR)

    Ec2Controller(clients, ACTOR).stop(member, "i-1", dry_run=False)

    there = "arn:aws:ec2:eu-west-1:210987654321:instance/i-1"
    assert [("ec2:StopInstances", member, MEMBER_ACTOR, there)] == clients.for_one_call


@pytest.mark.parametrize("instance_id", ["*", "i-*", "i-1,i-2", ""])
def test_an_id_that_could_mean_more_than_one_instance_is_refused(instance_id: str) -> None:
    """A wildcard in the session policy would let the session act on others."""
    client = Ec2Client()
    clients = FakeClients(client)
    with pytest.raises(SafetyError, match="no single"):
        Ec2Controller(clients, ACTOR).stop(TARGET, instance_id, dry_run=False)
    assert ([], []) == (client.calls, clients.for_one_call)


def test_without_a_role_that_acts_nothing_is_sent() -> None:
    """The function's own role may not stop: the message names what is missing."""
    client = Ec2Client()
    with pytest.raises(ConfigurationError, match="ACTOR_ROLE_ARN"):
        Ec2Controller(FakeClients(client)).stop(TARGET, "i-1", dry_run=False)
    assert [] == client.calls


@pytest.mark.parametrize(
    "found",
    [[{"InstanceId": "i-0fedcba9876543210"}], [{}], []],
    ids=["another", "nobody's", "gone"],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_spot_request_is_canceled_only_for_the_instance_it_belongs_to(
    found: list[dict[str, str]], dry_run: bool
) -> None:
    """IAM knows no tag of the instance here, so EC2 is asked right before."""
    client = Ec2Client(describe_spot_instance_requests=[{"SpotInstanceRequests": found}])
    instance = make_instance(spot_request_id="sir-1")
    with pytest.raises(SafetyError, match="sir-1"):
        Ec2Controller(FakeClients(client), ACTOR).prepare(
            Step.CANCEL_SPOT_REQUEST, instance, dry_run=dry_run
        )
    assert ["describe_spot_instance_requests"] == [name for name, _ in client.calls]


# snapshots


def test_all_volumes_are_snapshotted_as_one_set_and_found_by_tags(aws: Clients) -> None:
    """Against moto: one snapshot a volume, found again by all of its tags and by nothing less."""
    mappings = [
        {"DeviceName": "/dev/sda1", "Ebs": {"VolumeSize": 8}},
        {"DeviceName": "/dev/sdb", "Ebs": {"VolumeSize": 9}},
    ]
    instance_id, snapshots = run_instance(aws, BlockDeviceMappings=mappings), EbsSnapshots(aws)
    instance = Ec2Instances(aws).describe(TARGET, instance_id)
    assert instance is not None
    tags = {"GpuGovernor:Episode": "e-1", "Name": "a*"}

    created = snapshots.create(TARGET, instance_id, tags, dry_run=False)
    found = snapshots.find(TARGET, {"GpuGovernor:Episode": "e-1"})

    assert {volume.volume_id for volume in instance.volumes} == {made.volume_id for made in created}
    assert {made.snapshot_id for made in created} == {seen.snapshot_id for seen in found}
    assert [] == snapshots.find(TARGET, {"GpuGovernor:Episode": "e-1", "Name": "other"})
    assert [] == snapshots.find(TARGET, {"GpuGovernor:Episode": "e-*"})


def test_snapshots_are_asked_for_once() -> None:
    """CreateSnapshots has no token: a repetition by the client would make a second set."""
    clients = FakeClients(Ec2Client(create_snapshots=[{"Snapshots": []}]))
    EbsSnapshots(clients).create(TARGET, "i-1", {}, dry_run=False)
    assert [("ec2", TARGET, False)] == clients.asked


def test_a_snapshot_is_deleted_once(aws: Clients) -> None:
    """Against moto; a second time EC2 knows it no more."""
    instance_id, snapshots = run_instance(aws), EbsSnapshots(aws)
    tags = {"GpuGovernor:Episode": "e-1", "DeleteAfter": "2026-12-20T12:00:00Z"}
    (made, *_) = snapshots.create(TARGET, instance_id, tags, dry_run=False)

    assert tags == snapshots.find(TARGET, {"GpuGovernor:Episode": "e-1"})[0].tags
    assert snapshots.delete(TARGET, made.snapshot_id)
    with pytest.raises(NotFound):
        snapshots.delete(TARGET, made.snapshot_id)


@pytest.mark.parametrize("boot", [True, False])
def test_the_boot_volume_can_be_left_out(boot: bool) -> None:
    """A whole set is the default: what is put away must be complete."""
    client = Ec2Client(create_snapshots=[{"Snapshots": []}, {"Snapshots": []}])
    snapshots = EbsSnapshots(FakeClients(client))
    snapshots.create(TARGET, "i-1", {}, dry_run=False)
    snapshots.create(TARGET, "i-1", {}, dry_run=False, boot=boot)

    left_out = [call["InstanceSpecification"]["ExcludeBootVolume"] for _, call in client.calls]
    assert [False, not boot] == left_out


def test_the_state_of_a_snapshot_is_told_as_ec2_tells_it() -> None:
    """Pending, completed and error stay apart."""
    states = ["pending", "completed", "error"]
    whose = {"StartTime": NOW, "OwnerId": TARGET.account}
    told = [
        {
            "SnapshotId": f"snap-{n}",
            "VolumeId": f"vol-{n}",
            "State": state,
            "Progress": "5%",
            **whose,
        }
        for n, state in enumerate(states)
    ]
    client = Ec2Client(
        describe_snapshots=[{"Snapshots": told[:1], "NextToken": "more"}, {"Snapshots": told[1:]}]
    )

    assert [
        Snapshot(f"snap-{n}", f"vol-{n}", state, NOW, TARGET.account)
        for n, state in enumerate(states)
    ] == EbsSnapshots(FakeClients(client)).find(TARGET, {"A": "1"})
    assert ["self"] == client.calls[0][1]["OwnerIds"]


WITHOUT: dict[str, dict[str, Any]] = {
    "type": {"InstanceType": None},
    "start": {"LaunchTime": None},
    "state": {"State": {}},
    "key of a tag": {"Tags": [{"Value": "GPU-Workload"}]},
    "volume's id": {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {}}]},
}


@pytest.mark.parametrize("lacks", WITHOUT)
def test_a_record_that_lacks_what_ec2_always_sends_sinks_no_other(lacks: str) -> None:
    """It is left out of lists, with its reason; to describe it fails, so that nothing is done to
    it."""
    whole = {**described("i-2"), **WITHOUT[lacks]}
    broken = {key: value for key, value in whole.items() if value is not None}
    odd: dict[str, str] = {}
    client = Ec2Client(describe_instances=[page(broken, described("i-1"))] * 3)
    reader = Ec2Instances(FakeClients(client))

    found = reader.list_selected(TARGET, SELECTOR, odd)
    assert (["i-1"], ["i-2"]) == ([one.instance_id for one in found], list(odd))
    assert odd["i-2"].startswith(
        "ec2:DescribeInstances gave a record that cannot be read: KeyError("
    )
    assert ["i-1"] == [one.instance_id for one in reader.list_selected(TARGET, SELECTOR)]
    by_id = reader.describe_all(TARGET, ["i-1", "i-2", "i-3"])
    assert {"i-1": Instance, "i-2": CloudError} == {one: type(of) for one, of in by_id.items()}
    assert odd["i-2"] == str(by_id["i-2"])


@pytest.mark.parametrize("lacks", WITHOUT)
def test_an_instance_whose_record_cannot_be_read_fails_to_be_described(lacks: str) -> None:
    whole = {**described("i-2"), **WITHOUT[lacks]}
    broken = {key: value for key, value in whole.items() if value is not None}
    with pytest.raises(CloudError, match="gave a record that cannot be read"):
        Ec2Instances(FakeClients(Ec2Client(describe_instances=[page(broken)]))).describe(
            TARGET, "i-2"
        )


@pytest.mark.parametrize("tags", [None, [], [{"Key": "Name", "Value": "trainer"}]])
def test_a_record_that_lacks_the_tag_it_was_found_by_may_lack_its_exemption(tags: Any) -> None:
    """It is left out with its reason, or an exempt instance would be asked about."""
    broken = {**described("i-2"), "Tags": tags}
    if tags is None:
        del broken["Tags"]
    odd: dict[str, str] = {}
    client = Ec2Client(describe_instances=[page(broken, described("i-1"))] * 2)
    reader = Ec2Instances(FakeClients(client))

    assert ["i-1"] == [one.instance_id for one in reader.list_selected(TARGET, SELECTOR, odd)]
    assert {"i-2": "EC2 found it by a tag that its record lacks"} == odd
    assert ["i-1"] == [one.instance_id for one in reader.list_selected(TARGET, SELECTOR)]


def _nameless() -> dict[str, Any]:
    return {key: value for key, value in described().items() if key != "InstanceId"}


@pytest.mark.parametrize(
    ("odd_page", "lacks"),
    [
        (page(_nameless()), "InstanceId"),
        ({"Reservations": [{"ReservationId": "r-1"}]}, "Instances"),
        ({"NextToken": "more"}, "Reservations"),
    ],
)
def test_what_may_be_any_instance_sinks_none_and_is_said(
    odd_page: dict[str, Any], lacks: str
) -> None:
    """A record without an id, a reservation without instances, an answer without reservations."""
    pages = [{**odd_page, "NextToken": "more"}, page(described("i-1"))]
    odd: dict[str, str] = {}
    reader = Ec2Instances(FakeClients(Ec2Client(describe_instances=pages * 2)))

    assert ["i-1"] == [one.instance_id for one in reader.list_selected(TARGET, SELECTOR, odd)]
    assert [""] == list(odd)
    assert lacks in odd[""]
    by_id = reader.describe_all(TARGET, ["i-1", "i-2"])
    assert {"i-1": Instance, "i-2": CloudError} == {one: type(of) for one, of in by_id.items()}


@pytest.mark.parametrize(
    "lacks",
    [
        "CapacityReservationId",
        "State",
        "InstanceType",
        "OwnerId",
        "TotalInstanceCount",
        "AvailableInstanceCount",
        "StartDate",
    ],
)
def test_an_odd_reservation_sinks_no_other(lacks: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is left out, and the log says why; where nothing else came, the look has failed."""
    whole = reservation()
    odd = {key: value for key, value in whole.items() if key != lacks}
    answers = [{"CapacityReservations": [odd, {**whole, "CapacityReservationId": "cr-2"}]}]
    answers += [{"CapacityReservations": [odd]}, {}]
    reader = Ec2Instances(FakeClients(ScriptedClient(describe_capacity_reservations=answers)))

    assert ["cr-2"] == [one.reservation_id for one in reader.reservations(TARGET)]
    assert (
        "ec2:DescribeCapacityReservations gave a record that cannot be read: KeyError("
        in caplog.text
    )
    for _ in answers[1:]:
        with pytest.raises(CloudError):
            reader.reservations(TARGET)


def test_a_snapshot_or_volume_without_an_id_sinks_no_other() -> None:
    """A new snapshot that is missing keeps the instance; an old one would count as deleted."""
    snapshots = {
        "Snapshots": [{"VolumeId": "vol-1"}, {"SnapshotId": "snap-2", "VolumeId": "vol-2"}]
    }
    client = Ec2Client(create_snapshots=[snapshots], describe_snapshots=[snapshots])
    taker = EbsSnapshots(FakeClients(client))
    created = taker.create(TARGET, "i-1", {}, dry_run=False)

    assert ["snap-2"] == [one.snapshot_id for one in created]
    with pytest.raises(CloudError, match="gave a record that cannot be read"):
        taker.find(TARGET, {"A": "1"})
    volumes = {"Volumes": [{"Size": 8}, {"VolumeId": "vol-2", "Size": 100}]}
    reader = Ec2Instances(FakeClients(Ec2Client(describe_volumes=[volumes])))
    both = make_instance(volumes=tuple(Volume(f"vol-{n}", "/dev/sd", True) for n in (1, 2)))
    assert [None, 100] == [one.size_gib for one in reader.with_volume_sizes(both)]
