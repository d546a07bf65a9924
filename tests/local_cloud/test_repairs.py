"""State machines behave as on AWS where the product leans on it, the engine's repairs included.

An upgrade of the engine that moves what a repair reaches into fails here, by behavior.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.demo.organization import SANDBOX, UNIT, put_organization
from local.engine.cloud import ACCOUNT, REGION, LocalCloud
from local.engine.repairs.bursts import ENVIRONMENTS
from local.engine.repairs.organization import ORGANIZATION

pytestmark = pytest.mark.integration

Refusal = Callable[[Callable[[], object]], str]
INVOKE = "arn:aws:states:::lambda:invoke"
CAUGHT = {"Type": "Pass", "Result": "caught", "End": True}


@dataclass
class Probe:
    """The deployed probe, and state machines made for one test each."""

    cloud: LocalCloud
    outputs: dict[str, str]
    made: int = 0

    @property
    def states(self) -> Any:
        """Step Functions."""
        return self.cloud.client("stepfunctions")

    def task(
        self, payload: Mapping[str, Any], *, waits: bool = False, **more: Any
    ) -> dict[str, Any]:
        """A Task state that invokes the probe."""
        return {
            "Type": "Task",
            "Resource": INVOKE + (".waitForTaskToken" if waits else ""),
            "Parameters": {"FunctionName": self.outputs["ProbeArn"], "Payload": dict(payload)},
            "End": True,
            **more,
        }

    def machine(self, **states: Any) -> str:
        """A state machine that begins with the first of these states."""
        self.made += 1
        definition = {"StartAt": next(iter(states)), "States": states}
        return str(
            self.states.create_state_machine(
                name=f"probe-{self.made}-{time.monotonic_ns()}",
                definition=json.dumps(definition),
                roleArn="arn:aws:iam::123456789012:role/probe",
            )["stateMachineArn"]
        )

    def run(self, payload: Mapping[str, Any] | None = None, **states: Any) -> dict[str, Any]:
        """Runs them to the end."""
        return self.cloud.run(self.machine(**states), payload or {})

    def start(self, machine: str, name: str = "one", payload: str = "{}") -> str:
        """Starts an execution; its ARN."""
        answer = self.states.start_execution(stateMachineArn=machine, name=name, input=payload)
        return str(answer["executionArn"])

    def told(self) -> dict[str, Any]:
        """The next message in the mailbox, as long as anything moves."""
        return self.cloud.wait_for(lambda: self._next(0), "nothing was told")

    def _next(self, seconds: int) -> dict[str, Any] | None:
        sqs, url = self.cloud.client("sqs"), self.outputs["MailboxUrl"]
        for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=seconds).get(
            "Messages", ()
        ):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            return dict(json.loads(message["Body"]))
        return None

    def nothing_told(self, seconds: int) -> bool:
        """Return whether the mailbox stays empty for that time."""
        return self._next(seconds) is None

    def entered(self, execution: str) -> list[str]:
        """Types of the events of an execution, in order."""
        events = self.states.get_execution_history(executionArn=execution)["events"]
        return [event["type"] for event in events]


@pytest.fixture(scope="module")
def deployed(bare_cloud: LocalCloud) -> dict[str, str]:
    """The stack of this folder."""
    return bare_cloud.deploy(Path(__file__).parent / "stack" / "template.yaml", "probe", {})


@pytest.fixture
def probe(bare_cloud: LocalCloud, deployed: dict[str, str]) -> Iterator[Probe]:
    """With an empty mailbox."""
    yield Probe(bare_cloud, deployed)
    bare_cloud.client("sqs").purge_queue(QueueUrl=deployed["MailboxUrl"])


def caught(*errors: str) -> list[dict[str, Any]]:
    """Catches these errors."""
    return [{"ErrorEquals": list(errors), "Next": "Caught"}]


# errors of functions


def test_a_functions_error_is_known_by_its_class(probe: Probe) -> None:
    """To Catch, and in what it hands on."""
    failing = probe.task({"do": "fail", "error": "Throttled"}, Catch=caught("Broken"))
    ended = probe.run(Try=failing, Caught=CAUGHT)
    assert ("FAILED", "Throttled") == (ended["status"], ended["error"])
    assert "as asked" == json.loads(ended["cause"])["errorMessage"]

    failing = probe.task({"do": "fail", "error": "Broken"}, Catch=caught("Broken"))
    assert "SUCCEEDED" == probe.run(Try=failing, Caught=CAUGHT)["status"]


def test_an_error_whose_text_names_another_is_still_itself(probe: Probe) -> None:
    """The class is read from the traceback, not from what the message says."""
    for text in ("botocore.Throttled: no", "two\nThrottled: lines"):
        failing = probe.task({"do": "fail", "error": "Broken", "say": text})
        assert "Broken" == probe.run(Try=failing)["error"]


def test_a_process_that_ends_by_itself_is_an_exit_error(probe: Probe) -> None:
    """As at AWS, also where the engine ends it because its function is updated."""
    ended = probe.run(Try=probe.task({"do": "die"}))
    assert "Runtime.ExitError" == ended["error"]


def test_a_retry_matches_one_error_only(probe: Probe) -> None:
    """As often as it says."""
    retry = [{"ErrorEquals": ["Throttled"], "IntervalSeconds": 1, "MaxAttempts": 2}]
    for error, attempts in (("Throttled", 3), ("Broken", 1)):
        ended = probe.run(Try=probe.task({"do": "fail", "error": error}, Retry=retry))
        assert attempts == probe.entered(ended["executionArn"]).count("TaskScheduled")


@pytest.mark.parametrize("error", ["States.ALL", "States.TaskFailed", "States.Runtime"])
def test_nothing_catches_a_runtime_error(probe: Probe, error: str) -> None:
    """An execution that cannot go on fails; whoever needs to know listens to its events."""
    broken = probe.task(
        {"do": "answer"}, waits=True, Catch=caught(error), TimeoutSecondsPath="$.nowhere"
    )
    ended = probe.run(Try=broken, Caught=CAUGHT)

    assert ("FAILED", "States.Runtime") == (ended["status"], ended["error"])


def test_a_map_does_not_catch_a_runtime_error_of_an_item(probe: Probe) -> None:
    """Nor does States.ALL on the map."""
    wait = {"Type": "Wait", "SecondsPath": "$.nowhere", "End": True}
    mapped = {
        "Type": "Map",
        "ItemProcessor": {"StartAt": "Pause", "States": {"Pause": wait}},
        "Catch": caught("States.ALL"),
        "End": True,
    }
    machine = probe.machine(Each={**mapped, "ItemsPath": "$.all"}, Caught=CAUGHT)

    assert "States.Runtime" == probe.cloud.run(machine, {"all": [{}]})["error"]


def test_a_state_puts_out_256_kib_at_most(probe: Probe) -> None:
    """More is an error that States.ALL does not catch."""
    small = probe.task({"do": "long", "characters": 200_000}, Catch=caught("States.ALL"))
    assert "SUCCEEDED" == probe.run(Try=small, Caught=CAUGHT)["status"]
    large = probe.task({"do": "long", "characters": 300_000}, Catch=caught("States.ALL"))
    assert "States.DataLimitExceeded" == probe.run(Try=large, Caught=CAUGHT)["error"]

    processor = {
        "StartAt": "Try",
        "States": {"Try": probe.task({"do": "long", "characters": 100_000})},
    }
    mapped = {"Type": "Map", "ItemsPath": "$.all", "ItemProcessor": processor, "End": True}
    assert "States.DataLimitExceeded" == probe.run({"all": [1, 2, 3]}, Each=mapped)["error"]


def test_a_map_catches_item_by_item(probe: Probe) -> None:
    """One bad item does not sink the others; an item is made by ItemSelector."""
    item = probe.task({"do.$": "$.do", "error": "Broken"}, Catch=caught("States.ALL"))
    item["ResultSelector"] = {"ok": True}
    processor = {"StartAt": "Try", "States": {"Try": item, "Caught": CAUGHT}}
    selector = {"do.$": "$$.Map.Item.Value", "whole.$": "$.all"}
    mapped = {
        "Type": "Map",
        "ItemsPath": "$.all",
        "ItemSelector": selector,
        "ItemProcessor": processor,
        "End": True,
    }
    ended = probe.run({"all": ["answer", "fail", "answer"]}, Each=mapped)

    assert [{"ok": True}, "caught", {"ok": True}] == json.loads(ended["output"])


# waits and time-outs


@pytest.mark.parametrize("seconds", [1.5, "3", None, -1, True])
def test_a_wait_takes_whole_seconds_only(probe: Probe, seconds: object) -> None:
    """Anything else is an error on AWS, not a wait of no time."""
    wait = {"Type": "Wait", "SecondsPath": "$.seconds", "End": True}

    assert "States.Runtime" == probe.run({"seconds": seconds}, Pause=wait)["error"]
    assert "SUCCEEDED" == probe.run({"seconds": 1}, Pause=wait)["status"]


def test_a_busy_machine_times_no_task_out(probe: Probe) -> None:
    """A function that has been given more time than at AWS has it in a task, too."""
    slow = probe.task({"do": "describe-yourself", "rest": 4}, TimeoutSeconds=3)

    assert "SUCCEEDED" == probe.run(Slow=slow)["status"]


@pytest.mark.parametrize("seconds", [1.5, 0, "3"])
def test_a_time_out_is_a_whole_number_of_seconds(probe: Probe, seconds: object) -> None:
    """A time-out of at least one."""
    waiting = probe.task({"do": "answer"}, waits=True, TimeoutSecondsPath="$.seconds")

    assert "States.Runtime" == probe.run({"seconds": seconds}, Ask=waiting)["error"]


def test_a_time_out_is_taken_from_the_input(probe: Probe) -> None:
    """Scaled like a wait, half a second at least; caught as States.Timeout."""
    path = "$.deep.seconds"
    waiting = probe.task(
        {"do": "answer"}, waits=True, TimeoutSecondsPath=path, Catch=caught("States.Timeout")
    )
    before = time.monotonic()
    assert (
        "SUCCEEDED" == probe.run({"deep": {"seconds": 100}}, Ask=waiting, Caught=CAUGHT)["status"]
    )

    # On a busy machine it takes longer than its five seconds, but not as long as it would unscaled.
    assert 4.9 < time.monotonic() - before < 100


# callbacks


def asking(probe: Probe, do: str = "tell", **more: Any) -> dict[str, Any]:
    """A task that hands its token on and waits."""
    more = {"TimeoutSeconds": 300, **more}
    return probe.task({"do": do, "token.$": "$$.Task.Token"}, waits=True, **more)


def test_an_answer_ends_the_wait_once(probe: Probe, refusal: Refusal) -> None:
    """A second answer, of whatever kind, is TaskTimedOut and changes nothing; at once and later."""
    execution = probe.start(probe.machine(Ask=asking(probe)))
    token = probe.told()["token"]
    probe.states.send_task_success(taskToken=token, output='"first"')
    states = probe.states

    def all_are_late() -> None:
        for call in (
            lambda: states.send_task_success(taskToken=token, output='"second"'),
            lambda: states.send_task_failure(taskToken=token, error="Second"),
            lambda: states.send_task_heartbeat(taskToken=token),
        ):
            assert "TaskTimedOut" == refusal(call)

    all_are_late()
    assert '"first"' == probe.cloud.await_execution(execution)["output"]
    all_are_late()


def test_a_failure_can_be_answered(probe: Probe) -> None:
    """With an error of one's own."""
    execution = probe.start(probe.machine(Ask=asking(probe)))
    probe.states.send_task_failure(taskToken=probe.told()["token"], error="Refused", cause="no")

    ended = probe.cloud.await_execution(execution)
    assert ("Refused", "no") == (ended["error"], ended["cause"])


def test_a_token_that_nobody_gave_is_invalid(probe: Probe, refusal: Refusal) -> None:
    """And an answer must be JSON."""
    unknown = {"taskToken": "nonsense", "output": "{}"}
    assert "InvalidToken" == refusal(lambda: probe.states.send_task_success(**unknown))

    probe.start(probe.machine(Ask=asking(probe)))
    token = probe.told()["token"]
    bad = {"taskToken": token, "output": "{"}
    assert "InvalidOutput" == refusal(lambda: probe.states.send_task_success(**bad))
    probe.states.send_task_success(taskToken=token, output="{}")


def test_an_answer_after_the_time_out_comes_too_late(probe: Probe, refusal: Refusal) -> None:
    """As TaskTimedOut."""
    ended = probe.run(Ask=asking(probe, TimeoutSeconds=1))
    late = {"taskToken": probe.told()["token"], "output": "{}"}

    assert "States.Timeout" == ended["error"]
    assert "TaskTimedOut" == refusal(lambda: probe.states.send_task_success(**late))


def test_a_function_that_fails_fails_its_callback_task_at_once(probe: Probe) -> None:
    """Nobody waits for an answer to a question that was not asked."""
    waiting = probe.task({"do": "fail", "error": "Broken"}, waits=True, TimeoutSeconds=300)

    assert "Broken" == probe.run(Ask=waiting)["error"]  # and not States.Timeout


def test_every_attempt_has_a_token_of_its_own(probe: Probe, refusal: Refusal) -> None:
    """The token of an attempt that failed is dead; so a retry must store the new one."""
    retry = [{"ErrorEquals": ["Throttled"], "IntervalSeconds": 1, "MaxAttempts": 1}]
    ended = probe.run(Ask=asking(probe, "tell-then-fail", Retry=retry))
    tokens = [probe.told()["token"], probe.told()["token"]]

    assert "Throttled" == ended["error"]
    assert 2 == len(set(tokens))
    for token in tokens:
        late = {"taskToken": token, "output": "{}"}
        assert "TaskTimedOut" == refusal(lambda late=late: probe.states.send_task_success(**late))  # type: ignore[misc]


def test_an_abort_is_final_and_ends_the_wait(probe: Probe, refusal: Refusal) -> None:
    """The token is dead, no further state is entered, nothing catches it."""
    waiting = asking(probe, Catch=caught("States.ALL"))
    execution = probe.start(probe.machine(Ask=waiting, Caught=CAUGHT))
    late = {"taskToken": probe.told()["token"], "output": "{}"}
    probe.states.stop_execution(executionArn=execution, cause="somebody did")

    assert "TaskTimedOut" == refusal(lambda: probe.states.send_task_success(**late))
    time.sleep(0.5)
    assert "ABORTED" == probe.states.describe_execution(executionArn=execution)["status"]
    assert "ExecutionAborted" == probe.entered(execution)[-1]


def test_an_abort_is_not_undone_by_a_failure_after_it(probe: Probe) -> None:
    """A function that was under way when it came, and fails then, changes nothing."""
    execution = probe.start(probe.machine(Try=probe.task({"do": "tell-then-fail", "after": 1})))
    probe.told()
    probe.states.stop_execution(executionArn=execution)

    time.sleep(2)
    assert "ABORTED" == probe.states.describe_execution(executionArn=execution)["status"]


def test_nothing_is_tried_again_after_an_abort(probe: Probe) -> None:
    """Not even when it comes in the pause before a retry."""
    retry = [{"ErrorEquals": ["Throttled"], "IntervalSeconds": 20, "MaxAttempts": 3}]
    execution = probe.start(probe.machine(Try=probe.task({"do": "tell-then-fail"}, Retry=retry)))
    probe.told()
    probe.states.stop_execution(executionArn=execution)

    assert probe.nothing_told(seconds=2)


# starts


def test_the_same_start_while_it_runs_is_a_success(probe: Probe, refusal: Refusal) -> None:
    """Another input, or an execution that has ended, is refused; one execution runs."""
    machine = probe.machine(Ask=asking(probe))
    first = probe.start(machine)

    assert first == probe.start(machine)
    assert "ExecutionAlreadyExists" == refusal(lambda: probe.start(machine, payload='{"other": 1}'))
    probe.states.send_task_success(taskToken=probe.told()["token"], output="{}")
    probe.cloud.await_execution(first)
    assert "ExecutionAlreadyExists" == refusal(lambda: probe.start(machine))
    assert 1 == len(probe.states.list_executions(stateMachineArn=machine)["executions"])


def test_a_batching_window_gathers_what_comes_in_it(probe: Probe) -> None:
    """AWS waits for the window and hands over up to the batch size, more than ten at once."""
    sqs = probe.cloud.client("sqs")
    for start in range(0, 40, 10):
        entries = [{"Id": str(n), "MessageBody": "{}"} for n in range(start, start + 10)]
        sqs.send_message_batch(QueueUrl=probe.outputs["CrowdUrl"], Entries=entries)

    assert {"together": 40} == probe.told()


def test_many_events_at_once_wait_for_a_few_environments(probe: Probe) -> None:
    """Each is answered; a machine of two cores does not start a process for every one."""
    events = probe.cloud.client("events")
    pattern = json.dumps({"source": ["crowd"]})
    events.put_rule(Name="crowd", EventPattern=pattern)
    told = {"Id": "1", "Arn": probe.outputs["ProbeArn"], "InputPath": "$.detail"}
    events.put_targets(Rule="crowd", Targets=[told])
    for _ in range(2):
        one = {
            "Source": "crowd",
            "DetailType": "crowd",
            "Detail": json.dumps({"do": "tell", "rest": 0.2}),
        }
        events.put_events(Entries=[one] * 8)

    processes = {probe.told()["process"] for _ in range(16)}

    # One more where a test before this one has left an environment at work.
    assert len(processes) <= ENVIRONMENTS + 1 < 16


def test_the_image_with_a_gpu_driver_has_a_public_parameter(probe: Probe) -> None:
    """It names an image that EC2 knows; a name that AWS does not have stays unknown."""
    base = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-amazon-linux-2023"
    ssm = probe.cloud.client("ssm")
    found = ssm.get_parameter(Name=f"{base}/latest/ami-id")["Parameter"]
    (image,) = probe.cloud.client("ec2").describe_images(ImageIds=[found["Value"]])["Images"]

    assert "available" == image["State"]
    with pytest.raises(ssm.exceptions.ParameterNotFound):
        ssm.get_parameter(Name=f"{base}-of-mine/latest/ami-id")


def test_a_stack_may_have_an_alarm_on_metric_math(probe: Probe) -> None:
    """It is there, and nothing more: no alarm goes off here."""
    (alarm,) = probe.cloud.client("cloudwatch").describe_alarms(AlarmNames=["probe-more"])[
        "MetricAlarms"
    ]

    assert "ApproximateNumberOfMessagesVisible" == alarm["MetricName"]


def test_a_stack_does_not_delete_what_is_protected_or_filled(
    bare_cloud: LocalCloud, tmp_path: Path
) -> None:
    """A table with deletion protection, and a bucket with a version in it. Both go once they
    may."""
    template = tmp_path / "template.yaml"
    template.write_text(
        """
Parameters: {Protected: {Type: String, Default: "true"}}
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{AttributeName: pk, AttributeType: S}]
      KeySchema: [{AttributeName: pk, KeyType: HASH}]
      DeletionProtectionEnabled: !Ref Protected
  Bucket: {Type: AWS::S3::Bucket, Properties: {VersioningConfiguration: {Status: Enabled}}}
Outputs: {Table: {Value: !Ref Table}, Bucket: {Value: !Ref Bucket}}
"""
    )
    where = {"region": REGION, "account": ACCOUNT}
    outputs = bare_cloud.deploy_plain(template, "kept", {}, **where)
    stacks, s3 = bare_cloud.client("cloudformation"), bare_cloud.client("s3")
    version = s3.put_object(Bucket=outputs["Bucket"], Key="a", Body=b"a")["VersionId"]
    marker = s3.delete_object(Bucket=outputs["Bucket"], Key="a")["VersionId"]
    stack_id = stacks.describe_stacks(StackName="kept")["Stacks"][0]["StackId"]

    def deleted() -> tuple[str, str]:
        stacks.delete_stack(StackName="kept")

        def ended() -> dict[str, Any] | None:
            found: dict[str, Any] = stacks.describe_stacks(StackName=stack_id)["Stacks"][0]
            return found if not found["StackStatus"].endswith("IN_PROGRESS") else None

        found = bare_cloud.wait_for(ended, "the stack is still being deleted")
        return found["StackStatus"], found.get("StackStatusReason", "")

    status, why = deleted()
    assert "DELETE_FAILED" == status
    assert "Table" in why
    assert "Bucket" in why
    bare_cloud.client("dynamodb").update_table(
        TableName=outputs["Table"], DeletionProtectionEnabled=False
    )
    assert "DELETE_FAILED" == deleted()[0]
    for one in (version, marker):
        s3.delete_object(Bucket=outputs["Bucket"], Key="a", VersionId=one)
    assert "DELETE_COMPLETE" == deleted()[0]


def test_every_answer_says_that_it_imitates_aws(probe: Probe) -> None:
    """AWS's own have no such header: nobody takes the local cloud for an account."""
    answers: list[Any] = [
        probe.cloud.client("sts").get_caller_identity(),
        probe.cloud.client("cloudformation").describe_stacks(),
        probe.cloud.client("ec2").describe_instances(),
    ]
    for answer in answers:
        assert "local cloud" == answer["ResponseMetadata"]["HTTPHeaders"]["x-imitates-aws"]


def test_the_organization_of_make_cloud_has_the_ids_of_the_docs(probe: Probe) -> None:
    """A reader copies the commands of docs/accounts.md as they stand."""
    sample = put_organization(probe.cloud)
    api = probe.cloud.client("organizations")
    accounts = {
        unit: api.list_accounts_for_parent(ParentId=unit)["Accounts"] for unit in (UNIT, SANDBOX)
    }

    assert [ORGANIZATION] == [api.describe_organization()["Organization"]["Id"]]
    assert [SANDBOX] == [
        unit["Id"]
        for unit in api.list_organizational_units_for_parent(ParentId=UNIT)["OrganizationalUnits"]
    ]
    assert {"SUSPENDED", "ACTIVE"} == {account["Status"] for account in accounts[UNIT]}
    assert sample.research in [account["Id"] for account in accounts[UNIT]]
    assert [sample.sandbox] == [account["Id"] for account in accounts[SANDBOX]]
    with pytest.raises(RuntimeError, match="says ou-abcd-11111111"):
        put_organization(probe.cloud)


def test_a_member_account_becomes_a_delegated_administrator_once(
    probe: Probe, refusal: Refusal
) -> None:
    """The management account cannot, nor one that is not there."""
    api = probe.cloud.client("organizations")
    made = api.create_account(Email="hub@example.com", AccountName="hub")
    member = made["CreateAccountStatus"]["AccountId"]

    def register(account: str) -> Any:
        service = "member.org.stacksets.cloudformation.amazonaws.com"
        return api.register_delegated_administrator(AccountId=account, ServicePrincipal=service)

    register(member)
    assert "AccountAlreadyRegisteredException" == refusal(lambda: register(member))
    assert "ConstraintViolationException" == refusal(lambda: register(ACCOUNT))
    assert "AccountNotFoundException" == refusal(lambda: register("000000000000"))


def test_messages_of_a_dead_letter_queue_can_be_moved(probe: Probe, refusal: Refusal) -> None:
    """To another queue, with all that they had; those of any other queue cannot."""
    sqs = probe.cloud.client("sqs")
    urls = {name: sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "work")}
    arns = {
        name: sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"][
            "QueueArn"
        ]
        for name, url in urls.items()
    }

    def move(source: str, target: str) -> Any:
        return sqs.start_message_move_task(SourceArn=arns[source], DestinationArn=arns[target])

    attribute = {"ErrorMessage": {"DataType": "String", "StringValue": "refused"}}
    sqs.send_message(QueueUrl=urls["dead"], MessageBody="a", MessageAttributes=attribute)
    assert "InvalidParameterValue" == refusal(lambda: move("dead", "work"))
    redrive = {"deadLetterTargetArn": arns["dead"], "maxReceiveCount": 3}
    sqs.set_queue_attributes(
        QueueUrl=urls["work"], Attributes={"RedrivePolicy": json.dumps(redrive)}
    )
    assert move("dead", "work")["TaskHandle"]

    received = {
        name: sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"]).get("Messages", [])
        for name, url in urls.items()
    }
    assert [] == received["dead"]
    assert ["a"] == [message["Body"] for message in received["work"]]
    assert "refused" == (received["work"][0]["MessageAttributes"]["ErrorMessage"]["StringValue"])
