"""The means of integration tests: one instance, its question, its workflow, its end."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qs

import yaml

from governor.approvals.rules.links import EVERYBODY, LinkSigner
from governor.approvals.rules.sealing import Duty, sealed
from governor.approvals.rules.terms import BROADCAST
from governor.aws.clients import Clients
from governor.aws.dynamodb import DynamoTable
from governor.aws.sealing import KmsSealMaker
from governor.aws.secrets import AlertSeal, SecretDocument
from governor.core.episode_ref import episode_from_execution_name
from governor.core.instance import Target
from governor.episode.model.episode import Episode
from local.demo.fleet import A10G, NAMESPACE, Member, idle, series_of
from local.demo.receivers import Receivers
from local.demo.scene import Scene, deploy_scene
from local.engine.cloud import ACCOUNT, REGION, LocalCloud
from local.engine.simulation import Points
from tests.twins.stores import EveryStore

Seen = TypeVar("Seen")
TARGET = Target(ACCOUNT, REGION)
BREAK_GLASS = f"arn:aws:iam::{ACCOUNT}:role/break-glass"
"""The role that may write into the state table besides the stack's own."""
PEOPLE = {"contacts": {"people": {"emails": ["alice@example.com", "bob@example.com"]}}}
CAPS = ("organization_actions_per_hour", "account_actions_per_hour", "owner_actions_per_hour")
WAIT_SCALE = 0.05
"""Part of the time that the workflows of a guarded stage wait."""
AT_ONCE = {"digest_from": 0, "digest_after_seconds": 0}
ONE_IS_ENOUGH = {
    "name": "one person terminates the instances of tests",
    "match": {"tags": {"Purpose": "GPU-Workload"}},
    "set": {"approval": {"people_to_terminate": 1}},
}
FORGOTTEN = Member("forgotten", "g5.xlarge", A10G, 1, idle, "idle", "the plain case")


@dataclass
class Stage:
    """The deployed stack, seen by a test."""

    scene: Scene
    clients: Clients = field(default_factory=Clients)
    state: EveryStore = field(init=False)

    def __post_init__(self) -> None:
        self.state = EveryStore(DynamoTable(self.clients, self.scene.outputs["StateTableName"]))

    @contextmanager
    def nobody_subscribed(self) -> Iterator[None]:
        """The person who reads the topic by mail leaves it for a while; the mailbox, a queue,
        stays."""
        sns = self.scene.cloud.client("sns")
        topic = self.scene.outputs["AlertTopicArn"]
        for subscription in sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]:
            if subscription["Protocol"] == "email":
                sns.unsubscribe(SubscriptionArn=subscription["SubscriptionArn"])
        try:
            yield
        finally:
            self.scene.subscribe_a_person()

    def policy(self, text: str, *, as_it_is: bool = False) -> None:
        """Replaces the policy document; it counts from the next invocation on.

        Unless it says otherwise, it names Alice and Bob, one of them may terminate these
        instances, no cap is reached, and messages wait for no others to go with.
        """
        document = yaml.safe_load(text)
        if not as_it_is:
            document.setdefault("ownership", PEOPLE)
            # Tests share an hour; caps have tests of their own.
            document.setdefault("caps", dict.fromkeys(CAPS, 1_000))
            # A question that waits for others waits a minute of this machine's time.
            approval = document.setdefault("approval", {})
            if not any(name.startswith("digest_") for name in approval):
                approval.update(AT_ONCE)
            text = json.dumps(
                {**document, "overrides": [*document.get("overrides", ()), ONE_IS_ENOUGH]}
            )
        self.scene.cloud.client("ssm").put_parameter(
            Name=self.scene.outputs["PolicyParameterName"],
            Value=text,
            Type="String",
            Overwrite=True,
        )
        # No sweep announces the change: tests count messages.
        self.state.note_parameter(text, datetime.now(UTC))

    def launch(self, **changes: Any) -> str:
        """Launches one idle instance."""
        member = replace(FORGOTTEN, **changes)
        return next(iter(self.scene.launch([member]).values()))

    def ask(self, **changes: Any) -> tuple[str, str]:
        """Launches one idle instance and sweeps; returns its id and Alice's link of the
        question."""
        instance_id = self.launch(**changes)
        self.scene.sweep()
        return instance_id, self.personal(self.question(instance_id))

    def question(self, instance_id: str, kind: str = "approval-requested") -> str:
        """The link of the message about an instance, once it has arrived."""
        mail = self.await_mail(instance_id, kind)
        return self.scene.cloud.reachable_url(mail["link"])

    def personal(
        self, link: str, person: str = "alice@example.com", *, expires_at: datetime | None = None
    ) -> str:
        """The link of the same question that a mail to one person would hold; with an end, the one
        of a mail of an earlier release."""
        secret = self.scene.outputs["LinkKeySecretArn"]
        base, is_short, address = re.split(r"/(q|approvals)/", link)
        signer = LinkSigner(SecretDocument(self.clients, secret).read, base)
        page_id, _, query = address.partition("." if is_short == "q" else "?")
        if expires_at is not None or is_short != "q":
            same = datetime.fromtimestamp(int(parse_qs(query).get("e", ["0"])[0]), tz=UTC)
            return f"{base}/approvals/{signer.earlier(page_id, person, expires_at or same)}"
        return signer.link(
            page_id, self.state.number_recipient(page_id, person, datetime.now(tz=UTC))
        )

    def whose(self, link: str) -> str:
        """The recipient of a link, whom it names by a number."""
        page_id, number, _ = link.partition("/q/")[2].split(".")
        known = {one: name for name, one in self.state.numbers(page_id).items()}
        return {EVERYBODY: BROADCAST, **known}[int(number)]

    def seal(self, text: bytes) -> str:
        """Return what the stack's own functions put under an alert."""
        functions = self.scene.cloud.client("lambda").list_functions()["Functions"]
        keys = {
            one.get("Environment", {}).get("Variables", {}).get("ALERT_KEY_ARN")
            for one in functions
        }
        (key,) = keys - {None}
        return AlertSeal(self.clients, str(key))(text)

    def sealed(self, duty: Duty, text: bytes) -> str:
        """Return the seal of the function whose duty it is, so that a test can let time pass for
        it."""
        functions = self.scene.cloud.client("lambda").list_functions()["Functions"]
        name = f"{duty.value.upper()}_KEY_ARN"
        keys = {one.get("Environment", {}).get("Variables", {}).get(name) for one in functions}
        (key,) = keys - {None}
        return sealed(KmsSealMaker(self.clients, str(key)), text)

    def rotate_keys(self) -> None:
        """Has Secrets Manager rotate the secret of the link keys, and waits until it has."""
        manager, secret = (
            self.scene.cloud.client("secretsmanager"),
            self.scene.outputs["LinkKeySecretArn"],
        )
        version = manager.rotate_secret(SecretId=secret)["VersionId"]

        def in_force() -> bool | None:
            stages = manager.describe_secret(SecretId=secret)["VersionIdsToStages"][version]
            return "AWSCURRENT" in stages or None

        self.eventually(in_force, "the keys were not rotated")

    def link_keys(self) -> Mapping[str, str]:
        """Return what the secret of the link keys holds now."""
        return SecretDocument(self.clients, self.scene.outputs["LinkKeySecretArn"]).read()

    def await_mail(self, instance_id: str, kind: str) -> dict[str, Any]:
        """The first message of a kind about an instance, once it has arrived."""

        def arrived() -> dict[str, Any] | None:
            mails = [
                m
                for m in self.scene.read_mail(seconds=1)
                if m["kind"] == kind and m["instance_id"] == instance_id
            ]
            return mails[0] if mails else None

        return self.eventually(arrived, f"no {kind} about {instance_id}")

    def await_recorded_delivery(self, instance_id: str) -> None:
        """Waits until a delivery of a message about an instance is on record, which its pages then
        list. A message arrives a moment before its delivery is recorded."""
        execution = self.scene.executions()[instance_id]

        def recorded() -> bool | None:
            return bool(self.state.deliveries(execution["name"])) or None

        self.eventually(recorded, f"no delivery about {instance_id} is recorded")

    def ended(self, instance_id: str) -> dict[str, Any]:
        """The execution about an instance, once it has ended."""
        begun = self.eventually(
            lambda: self.scene.executions().get(instance_id), f"no workflow of {instance_id} begins"
        )
        return self.eventually(
            lambda: self.scene.cloud.ended(begun["executionArn"]),
            f"the workflow of {instance_id} does not end",
        )

    def outcome(self, instance_id: str) -> str:
        """How the episode of an instance ended, once its workflow has."""
        self.ended(instance_id)
        episode = self.episode(instance_id)
        return episode.outcome.value if episode.outcome else "open"

    def episode(self, instance_id: str) -> Episode:
        """The episode of an instance's latest execution."""
        execution = self.scene.executions()[instance_id]
        episode = self.state.episode(episode_from_execution_name(execution["name"]))
        if episode is None:
            raise AssertionError(f"no episode of {instance_id}")
        return episode

    def ec2_state(self, instance_id: str) -> str:
        """As EC2 says."""
        return self.scene.simulation.dump()["instances"][instance_id]

    def tags(self, instance_id: str) -> dict[str, str]:
        """The tags of an instance."""
        found = self.scene.cloud.client("ec2").describe_instances(InstanceIds=[instance_id])
        tags = found["Reservations"][0]["Instances"][0]["Tags"]
        return {tag["Key"]: tag["Value"] for tag in tags}

    def snapshots(self) -> list[str]:
        """States of all snapshots."""
        return sorted(self.scene.simulation.dump()["snapshots"].values())

    def wake(self, instance_id: str, minutes_ago: int = 3) -> None:
        """The GPU has worked for some minutes, so long ago."""
        now = datetime.now(tz=UTC)
        minutes = range(minutes_ago, minutes_ago + 9)
        points = tuple((now - timedelta(minutes=m), 90.0) for m in minutes)
        series = Points(
            NAMESPACE, "nvidia_smi_utilization_gpu", {"InstanceId": instance_id}, points
        )
        of_gpu = next(series_of(self.scene.members[instance_id], instance_id, now)).dimensions
        self.scene.simulation.put_metrics([series, replace(series, dimensions=of_gpu)])

    def forget_warnings(self) -> None:
        """Those that tests have sent in the same zone: many at once become one message, with one
        advice."""
        client, table = self.scene.cloud.client("dynamodb"), self.scene.outputs["StateTableName"]
        pages = client.get_paginator("scan").paginate(
            TableName=table,
            FilterExpression="begins_with(sk, :burst) OR begins_with(pk, :advice)",
            ExpressionAttributeValues={
                ":burst": {"S": "BURST#"},
                ":advice": {"S": "EVENT#advice#"},
            },
        )
        for item in [item for page in pages for item in page["Items"]]:
            client.delete_item(TableName=table, Key={"pk": item["pk"], "sk": item["sk"]})

    def history(self, instance_id: str) -> list[str]:
        """Names of the states that the latest execution has entered, in order."""
        arn = self.scene.executions()[instance_id]["executionArn"]
        states = self.scene.cloud.client("stepfunctions")
        events = states.get_execution_history(executionArn=arn, maxResults=1000)["events"]
        return [
            e["stateEnteredEventDetails"]["name"] for e in events if "stateEnteredEventDetails" in e
        ]

    def make_group(self, name: str) -> None:
        """An Auto Scaling group with the selector, which lets a role complete its hooks. One of
        this name that another test has made stays as it is."""
        scaling = self.scene.cloud.client("autoscaling")
        known = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        if known["AutoScalingGroups"]:
            return
        scaling.create_launch_configuration(
            LaunchConfigurationName=name, ImageId="ami-0", InstanceType="g5.xlarge"
        )
        of_it = {"ResourceId": name, "ResourceType": "auto-scaling-group"}
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchConfigurationName=name,
            MinSize=0,
            MaxSize=0,
            AvailabilityZones=["us-east-1a"],
            Tags=[{"Key": "Purpose", "Value": "GPU-Workload", **of_it}],
        )

    def invoke(self, function: str, event: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        """Invokes a function by itself; its answer, and whether it raised."""
        answer = self.scene.cloud.client("lambda").invoke(
            FunctionName=self.scene.physical_id(f"{function}Function"), Payload=json.dumps(event)
        )
        return json.loads(answer["Payload"].read()), "FunctionError" in answer

    def eventually(
        self,
        look: Callable[[], Seen | None],
        otherwise: str | Callable[[], str],
        *,
        quiet_rounds: int | None = None,
    ) -> Seen:
        """Looks until there is something to see, as long as anything moves. `quiet_rounds` are the
        cloud's own unless given."""
        return self.scene.wait_for(look, otherwise, quiet_rounds=quiet_rounds)


@contextmanager
def guarded_stage(
    *, weather: bool = False, more: Mapping[str, str] | None = None
) -> Iterator[Stage]:
    """A stack of its own, in an engine that enforces IAM, and whose weather can turn bad if asked
    for.

    `more` are further parameters of the template.
    """
    with (
        Receivers() as receivers,
        LocalCloud(
            wait_scale=WAIT_SCALE, enforce_iam=True, trust=receivers.certificate, weather=weather
        ) as cloud,
    ):
        before = dict(os.environ)
        os.environ.update(cloud.environment())
        try:
            scene = deploy_scene(cloud, receivers, mode="ask", more=more)
            scene.subscribe_a_person()
            yield Stage(scene)
        finally:
            os.environ.clear()
            os.environ.update(before)
