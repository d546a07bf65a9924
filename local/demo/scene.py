"""Sets the scene of demo and integration tests: a deployed stack, the fleet in it, and a readable
mailbox."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen
from uuid import uuid4

from governor.core.catalog import accelerated_types, list_price
from governor.core.instance import Target
from governor.policy.model.contacts import Ownership
from governor.policy.rules.owners import project_of
from governor.table.keys import holds
from local.demo.fleet import Member, series_of
from local.demo.receivers import CHANNELS, Receivers
from local.engine.cloud import ACCOUNT, ANSWER_SECONDS, REGION, ROOT, LocalCloud, LocalCloudError
from local.engine.simulation import InstanceSpec, Simulation, VolumeSpec

STACK = "gpu-governor"
SENDER = "gpu-governor@example.com"
KEEPER = "link:owner@example.com"
"""The person who keeps the members that are snoozed."""
CHECKPOINT_DOCUMENT = "gpu-governor-on-interruption"
SPOT_PRICES = {"g4dn.xlarge": "0.2104", "g4dn.2xlarge": "0.2988", "p4d.24xlarge": "9.8321"}
TEMPLATE = ROOT / "template.yaml"
Seen = TypeVar("Seen")
_FAILED = ("FAILED", "TIMED_OUT", "ABORTED")
_MOST_MESSAGES = 10
"""The most messages of one answer. Source: SQS API, ReceiveMessage."""


@dataclass
class Scene:
    """A deployed stack and what is needed to look at it."""

    cloud: LocalCloud
    outputs: dict[str, str]
    mailbox_url: str
    receivers: Receivers
    members: dict[str, Member] = field(default_factory=dict)
    mail: list[dict[str, Any]] = field(default_factory=list)
    _ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    _resources: dict[str, str] = field(default_factory=dict)

    @property
    def simulation(self) -> Simulation:
        """The simulated EC2 and CloudWatch."""
        return self.cloud.simulation()

    def launch(
        self,
        members: Iterable[Member],
        now: datetime | None = None,
        where: Simulation | None = None,
    ) -> dict[str, str]:
        """Launches members with their metrics; returns their ids by name."""
        now, there = now or datetime.now(tz=UTC), where or self.simulation
        ids = {}
        for member in members:
            instance_id = there.put_instance(_spec(member, now))
            there.put_metrics(series_of(member, instance_id, now))
            self.members[instance_id] = member
            ids[member.name] = instance_id
            if member.snoozed:
                self._snooze(instance_id, member, now + timedelta(days=2))
        return ids

    def _snooze(self, instance_id: str, member: Member, until: datetime) -> None:
        """As somebody who started it again two days ago has left it in the state table."""
        hold_key, _ = holds(Target(ACCOUNT, REGION), instance_id)
        partition, sort = hold_key
        self.cloud.client("dynamodb").put_item(
            TableName=self.outputs["StateTableName"],
            Item={
                "pk": {"S": partition},
                "sk": {"S": sort},
                "snoozed_until": {"S": until.strftime("%Y-%m-%dT%H:%M:%SZ")},
                "kept_in": {"S": project_of(member, Ownership())},
                "keeper": {"S": KEEPER},
            },
        )

    def physical_id(self, logical_id: str) -> str:
        """The physical id of a resource of the stack. All of them are read once: an update that
        replaces one is not seen.

        Raises:
            LocalCloudError: the stack has no such resource.
        """
        if not self._resources:
            self._resources = resources_of(self.cloud)
        if logical_id not in self._resources:
            raise LocalCloudError(f"the stack {STACK} has no {logical_id}")
        return self._resources[logical_id]

    def sweep(self, check: str = "sweep") -> dict[str, Any]:
        """Runs one sweep, or look at health, as its deployed schedule does; returns the output."""
        done = self.cloud.run(self.outputs["SweepStateMachineArn"], self._scheduled(check))
        if done["status"] != "SUCCEEDED":
            raise RuntimeError(f"the {check} ended {done['status']}: {done.get('cause')}")
        output: dict[str, Any] = json.loads(done["output"])
        return output

    def _scheduled(self, check: str) -> Any:
        """Return what the schedule hands to the state machine: its input, or AWS's own
        notification."""
        name = self.outputs["ScheduleName"].removesuffix("sweep") + check
        found = self.cloud.client("scheduler").get_schedule(Name=name)
        if (stated := found["Target"].get("Input")) is not None:
            return json.loads(stated)
        about = {
            "version": "0",
            "id": str(uuid4()),
            "source": "aws.scheduler",
            "detail-type": "Scheduled Event",
        }
        where = {"account": ACCOUNT, "region": REGION, "resources": [found["Arn"]], "detail": "{}"}
        return {**about, **where, "time": f"{datetime.now(tz=UTC):%Y-%m-%dT%H:%M:%SZ}"}

    def subscribe_a_person(self) -> None:
        """Somebody reads the topic by plain mail: the time of a question runs from the moment it is
        asked."""
        topic = self.outputs["AlertTopicArn"]
        self.cloud.client("sns").subscribe(
            TopicArn=topic, Protocol="email", Endpoint="reader@example.com"
        )

    def read_mail(self, *, seconds: int = 0) -> list[dict[str, Any]]:
        """All alerts that have arrived so far, as the machines' JSON documents, oldest first. With
        `seconds` it waits so long at most for one that has not arrived yet."""
        sqs = self.cloud.client("sqs")
        while True:
            found = sqs.receive_message(
                QueueUrl=self.mailbox_url,
                MaxNumberOfMessages=_MOST_MESSAGES,
                WaitTimeSeconds=seconds,
            ).get("Messages", [])
            if not found:
                return self.mail
            seconds = 0
            for message in found:
                envelope = json.loads(message["Body"])
                self.mail.append({**json.loads(envelope["Message"]), "_envelope": envelope})
            read = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(found)
            ]
            sqs.delete_message_batch(QueueUrl=self.mailbox_url, Entries=read)

    def await_mail(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Waits until that many alerts of a kind have arrived.

        Raises:
            LocalCloudError: they have not, and nothing moves; with the kinds that have.
        """

        def arrived() -> list[dict[str, Any]] | None:
            found = [mail for mail in self.read_mail(seconds=1) if mail["kind"] == kind]
            return found if len(found) >= count else None

        return self.wait_for(arrived, f"no {count} alerts of kind {kind}")

    def wait_for(
        self,
        look: Callable[[], Seen | None],
        otherwise: str | Callable[[], str],
        *,
        quiet_rounds: int | None = None,
    ) -> Seen:
        """Looks until there is something to see. `quiet_rounds` are the cloud's own unless given.

        Raises:
            LocalCloudError: nothing moves any more; with what has arrived, where the workflows
                are that still run, and what the functions have logged.
        """

        def said() -> str:
            what = otherwise() if callable(otherwise) else otherwise
            self.read_mail()
            kinds = [(mail["kind"], mail.get("instance_id")) for mail in self.mail]
            refused = [
                f"{one.channel}: {one.status} {one.problem}"
                for channel in CHANNELS
                for one in self.receivers.received(channel)
                if one.status >= 300
            ]
            return (
                f"{what}; still running: {self._still_running()}; mail so far: {kinds}; "
                f"refused: {refused[-5:]}; errors: {self.errors()}"
            )

        return self.cloud.wait_for(look, said, moved=self._progress, quiet_rounds=quiet_rounds)

    def _still_running(self) -> list[str]:
        """Return where each workflow is that still runs."""
        return [
            f"{instance_id} {self.cloud.where_is(one['executionArn'])}"
            for instance_id, one in self.executions().items()
            if one["status"] == "RUNNING"
        ]

    def _progress(self) -> object:
        """Another value whenever mail has arrived or a workflow has entered a state."""
        return len(self.mail), self.simulation.steps()

    def failure(self, but: Collection[str] = ()) -> str | None:
        """The first workflow that has failed, with its cause; those of the executions `but`
        aside."""
        for instance_id, found in self.executions().items():
            if found["status"] in _FAILED and found["executionArn"] not in but:
                name = (
                    self.members[instance_id].name if instance_id in self.members else instance_id
                )
                cause = (
                    f"{found.get('error', '')} {found.get('cause', '')}".strip()
                    or "no cause is given"
                )
                return f"the workflow of {name} ended {found['status']}: {cause}"
        return None

    def errors(self, most: int = 10) -> list[str]:
        """Return what the functions have logged last as errors, oldest first."""
        logs = self.cloud.client("logs")
        found = []
        for group in logs.describe_log_groups()["logGroups"]:
            name = group["logGroupName"]
            events = logs.filter_log_events(logGroupName=name)["events"]
            found += [
                (one["timestamp"], line) for one in events if (line := _error(name, one["message"]))
            ]
        return [line for _, line in sorted(found)[-most:]]

    def exports(self, key: Mapping[str, str]) -> str:
        """The shell commands after which `bin/governor` reaches this cloud with a key, in any other
        terminal, whatever that has set for a real account.

        Its API's own address ends in `.localhost`, which browsers resolve and Python does not.
        """
        url = self.outputs.get("ApiUrl")
        api = {"GOVERNOR_API_URL": self.cloud.reachable_url(url)} if url else {}
        variables = {**self.cloud.environment(), "AWS_REGION": REGION, **key, **api}
        given = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
        return f"unset AWS_PROFILE AWS_SESSION_TOKEN GOVERNOR_API_URL\nexport {given}"

    def sent_mail(self) -> list[dict[str, Any]]:
        """All mail that SES has taken so far: `To`, `Subject`, `BodyText`, `BodyHtml`."""
        with urlopen(
            f"{self.cloud.endpoint_url}/_ministack/ses/messages", timeout=ANSWER_SECONDS
        ) as answer:
            boxes = json.loads(answer.read())["messages"]
        return [mail for box in boxes.values() for mail in box]

    def executions(self) -> dict[str, dict[str, Any]]:
        """The remediation executions by instance id, as Step Functions describes them; the latest
        of each."""
        states = self.cloud.client("stepfunctions")
        machine = self.outputs["RemediationStateMachineArn"]
        found: dict[str, dict[str, Any]] = {}
        listed = states.list_executions(stateMachineArn=machine)["executions"]
        for one in sorted(listed, key=lambda execution: execution["startDate"]):
            arn = one["executionArn"]
            # What has ended stays as it is.
            described = self._ended.get(arn) or states.describe_execution(executionArn=arn)
            if described["status"] != "RUNNING":
                self._ended[arn] = described
            found[json.loads(described["input"])["instance_id"]] = described
        return found


def resources_of(cloud: LocalCloud) -> dict[str, str]:
    """Return the physical ids of the stack's resources, by their logical ids."""
    pages = (
        cloud.client("cloudformation")
        .get_paginator("list_stack_resources")
        .paginate(StackName=STACK)
    )
    return {
        one["LogicalResourceId"]: one["PhysicalResourceId"]
        for page in pages
        for one in page["StackResourceSummaries"]
    }


def _error(group: str, line: str) -> str | None:
    """Return what a function has logged as an error, and the last line of its traceback."""
    try:
        said = json.loads(line)
    except ValueError:
        return None
    if not isinstance(said, dict) or said.get("level") != "ERROR":
        return None
    last = str(said.get("exception", "")).strip().splitlines()[-1:]
    return ": ".join([group, str(said.get("message")), *last])


def deploy_scene(
    cloud: LocalCloud,
    receivers: Receivers,
    *,
    mode: str,
    policy: str = "",
    template: Path = TEMPLATE,
    more: Mapping[str, str] | None = None,
) -> Scene:
    """Deploys the stack with all channels, and a readable queue that is subscribed to its alerts.

    `more` are further parameters of the template.
    """
    cloud.client("sesv2").create_email_identity(EmailIdentity=SENDER)
    parameters = {
        "Mode": mode,
        "PolicyYaml": policy,
        "EmailSender": SENDER,
        "DeletionProtection": "false",
        "CheckpointDocumentName": CHECKPOINT_DOCUMENT,
        **(more or {}),
    }
    outputs = cloud.deploy(template, STACK, parameters)
    cloud.client("secretsmanager").put_secret_value(
        SecretId=outputs["ChannelSecretArn"], SecretString=json.dumps(channel_secret(receivers))
    )
    sqs = cloud.client("sqs")
    url = sqs.create_queue(QueueName="mailbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    allowed = {
        "Effect": "Allow",
        "Principal": {"Service": "sns.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": outputs["AlertTopicArn"]}},
    }
    policy_document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy_document})
    cloud.client("sns").subscribe(
        TopicArn=outputs["AlertTopicArn"],
        Protocol="sqs",
        Endpoint=arn,
        # Events for machines are not mail: docs/policy.md.
        Attributes={
            "FilterPolicy": json.dumps(
                {
                    "kind": [{"exists": False}, {"anything-but": ["instance-idle"]}],
                    "repeats": [{"exists": False}],
                }
            )
        },
    )
    cloud.simulation().set_spot_prices(SPOT_PRICES)
    listed = {name: list_price(name) for name in accelerated_types()}
    cloud.simulation().set_list_prices(
        {name: str(usd) for name, usd in listed.items() if usd is not None}
    )
    return Scene(cloud, outputs, url, receivers)


def channel_secret(receivers: Receivers) -> dict[str, str]:
    """Return what the owner of a stack would fill in, for channels that end at the receivers."""
    return {
        "slack_bot_token": receivers.slack_token,
        "slack_channel": receivers.slack_channel,
        "slack_signing_secret": receivers.slack_signing_secret,
        "slack_api_url": receivers.slack_api_url,
        "teams_webhook_url": receivers.teams_url,
        "pagerduty_routing_key": receivers.pagerduty_key,
        "pagerduty_events_url": receivers.pagerduty_url,
        "webhook_url": receivers.webhook_url,
        "webhook_secret": receivers.webhook_secret,
        # The receivers are on loopback.
        "slack_private": "true",
        "teams_private": "true",
        "pagerduty_private": "true",
        "webhook_private": "true",
    }


def _spec(member: Member, now: datetime) -> InstanceSpec:
    volumes = [VolumeSpec(member.root_gib)]
    if member.data_gib is not None:
        volumes.append(VolumeSpec(member.data_gib, "/dev/sdb", delete_on_termination=False))
    return InstanceSpec(
        instance_type=member.instance_type,
        launch_time=(now - timedelta(minutes=member.launched_minutes_ago)).replace(microsecond=0),
        tags=member.all_tags,
        lifecycle=member.lifecycle,
        spot_request_type=member.spot_request_type,
        volumes=volumes,
        stop_protection=member.stop_protection,
        termination_protection=member.termination_protection,
        capacity_reservation_id=member.capacity_reservation_id,
        user_data=member.user_data,
        public_ip="198.51.100.7",
        instance_id=member.instance_id,
    )
