"""Step Functions, SNS, SSM, Secrets Manager, prices, the catalog, and whose credentials are
used."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.alerts.delivery import RetryRequest
from governor.alerts.model import EVERYWHERE, Alert, AlertKind, Severity, sealed_text
from governor.aws.clients import Clients
from governor.aws.cloudwatch import CloudWatchAlarms
from governor.aws.messaging import SnsAnnouncer, SqsDeadLetters, message_of
from governor.aws.pricing import AwsPrices
from governor.aws.secrets import AlertSeal, SecretDocument
from governor.aws.ssm import PolicyParameter
from governor.aws.workflow import LambdaUndoer, StepFunctionsWorkflow
from governor.core.catalog import list_price, shape_of
from governor.core.errors import (
    AccessDenied,
    CloudError,
    ConfigurationError,
    NobodyListens,
    NotFound,
    Throttled,
    Unavailable,
)
from governor.core.instance import Instance, Lifecycle, Target
from governor.money.rules.prices import (
    SAVINGS_PLANS,
    Commitment,
    CommitmentKind,
    Commitments,
    PriceList,
    key_of,
)
from governor.notify import compose
from governor.notify.contract import parse_queued
from governor.notify.pagerduty import pagerduty_events
from governor.policy.model.money import Prices
from governor.policy.model.policy import Policy
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.aws.state_samples import LAUNCHED, NOW, TARGET, ref
from tests.unit.template.machines import template

MACHINE = "arn:aws:states:us-east-1:111122223333:stateMachine:remediation"
TOPIC = "arn:aws:sns:us-east-1:111122223333:alerts"


# Step Functions


def workflow(**answers: Any) -> tuple[StepFunctionsWorkflow, ScriptedClient]:
    """The adapter over a scripted client."""
    client = ScriptedClient(**answers)
    return StepFunctionsWorkflow(FakeClients(client), MACHINE), client


def test_an_execution_is_named_after_its_episode_and_its_input_never_changes() -> None:
    """Two sweeps send the same bytes, so Step Functions takes the second for the first."""
    flow, client = workflow(start_execution=lambda **_: {})

    assert flow.start(ref()) is True
    assert flow.start(ref()) is True

    first, second = (call for _, call in client.calls)
    assert first == second
    assert (MACHINE, ref().execution_name) == (first["stateMachineArn"], first["name"])
    assert {
        "account": "111122223333",
        "region": "us-east-1",
        "instance_id": ref().instance_id,
        "launch_time": "2026-11-20T06:00:00Z",
        "number": 1,
    } == json.loads(first["input"])


@pytest.mark.parametrize(
    ("status", "running"), [("RUNNING", True), ("SUCCEEDED", False), ("FAILED", False)]
)
def test_a_name_that_was_used_starts_nothing(status: str, running: bool) -> None:
    """It is running, or it has ended and will not start again under that name."""
    flow, client = workflow(
        start_execution=[client_error("ExecutionAlreadyExists")],
        describe_execution=[{"status": status}],
    )
    assert running is flow.start(ref())
    expected = MACHINE.replace(":stateMachine:", ":execution:") + ":" + ref().execution_name
    assert expected == client.calls[-1][1]["executionArn"]


def test_a_start_that_failed_is_raised() -> None:
    """Not started is not the same as not known."""
    flow, _ = workflow(start_execution=[client_error("ThrottlingException")])
    with pytest.raises(Throttled):
        flow.start(ref())


def test_an_execution_that_is_unknown_is_not_called_dead() -> None:
    """A description lags behind a start; another failure is no answer."""
    flow, _ = workflow(
        describe_execution=[
            client_error("ExecutionDoesNotExist"),
            client_error("InternalFailure", status=500),
        ]
    )
    assert flow.is_running(ref()) is None
    with pytest.raises(Unavailable):
        flow.is_running(ref())


def test_an_answer_reaches_the_task_that_waits() -> None:
    """As JSON, under its token."""
    flow, client = workflow(send_task_success=[{}])
    assert flow.answer("token", {"decision": "approve", "reason": "träin"}) is True
    call = client.calls[0][1]
    assert "token" == call["taskToken"]
    assert {"decision": "approve", "reason": "träin"} == json.loads(call["output"])


@pytest.mark.parametrize("code", ["TaskTimedOut", "TaskDoesNotExist", "InvalidToken"])
def test_a_task_that_no_longer_waits_takes_no_answer(code: str) -> None:
    """The next stage finds the decision in the table."""
    flow, _ = workflow(send_task_success=[client_error(code)])
    assert flow.answer("token", {}) is False


def test_an_answer_that_could_not_be_sent_is_raised() -> None:
    """It may be sent again; it must not look like a task that has gone."""
    flow, _ = workflow(send_task_success=[client_error("ThrottlingException")])
    with pytest.raises(Throttled):
        flow.answer("token", {})


# The function that starts instances again


def undoer(body: bytes, **more: Any) -> LambdaUndoer:
    """The adapter over a function that answers with this body."""
    answer = {"StatusCode": 200, "Payload": io.BytesIO(body), **more}
    return LambdaUndoer(FakeClients(ScriptedClient(invoke=lambda **_: answer)), "undo")


def test_an_undo_returns_the_answer_of_the_function() -> None:
    """As the function gave it: `done` says whether EC2 was asked."""
    answer = undoer(b'{"done": true, "text": "It starts."}').undo(ref(), "alice", "page")

    assert (True, "It starts.") == answer


@pytest.mark.parametrize(
    "body",
    [b"", b"no JSON", b"\xff", b"null", b"[]", b"{}", b'{"text": "It starts."}', b'{"done": true}'],
)
def test_an_undo_whose_answer_cannot_be_read_may_have_been_done(body: bytes) -> None:
    """It is no refusal, and no crash of the page: the function has run."""
    with pytest.raises(Unavailable, match="answer cannot be read"):
        undoer(body).undo(ref(), "alice", "page")


@pytest.mark.parametrize("body", [b'{"errorType": "Held"}', b"[]", b"no JSON"])
def test_an_undo_whose_function_failed_may_have_been_done(body: bytes) -> None:
    """Whatever Lambda says about the failure."""
    with pytest.raises(Unavailable, match="could not be started"):
        undoer(body, FunctionError="Unhandled").undo(ref(), "alice", "page")


# SQS


@pytest.mark.parametrize(
    "why", ["slack: it answered 503", "x" * 5000, "slack:\x1b[31m it\x00answered\n503"]
)
def test_what_was_given_up_is_kept_with_its_reason_and_can_be_put_back(
    aws: Clients, why: str
) -> None:
    """As the message that asks to try it again, whatever the reason holds."""
    sqs = aws.client("sqs")
    url = sqs.create_queue(QueueName="failures")["QueueUrl"]
    given_up = alert(at=NOW.replace(microsecond=0))
    SqsDeadLetters(aws, url).dead_letter(given_up, why)

    (kept,) = sqs.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
    assert RetryRequest(given_up) == parse_queued(kept["Body"])
    said = kept["MessageAttributes"]["ErrorMessage"]["StringValue"]
    assert (why[:5], True) == (said[:5], said.isprintable() and len(said) <= 1000)


# SNS


def alert(**changes: Any) -> Alert:
    """An alert with every field set."""
    sample = Alert(
        kind=AlertKind.IDLE_FOUND,
        severity=Severity.WARNING,
        account="111122223333",
        region="us-east-1",
        subject="idle: p4d.24xlarge trainer",
        lines=("one", "two"),
        dedup_id="d-1",
        at=NOW,
        instance_id="i-1",
        owner="research",
        project="llm",
        link="https://example.com/approvals/1",
        facts={"usd_per_day": "527.00"},
    )
    return replace(sample, **changes)


def seal(text: bytes) -> str:
    """In place of the key in KMS."""
    return "seal"


def published(sent: Alert) -> Mapping[str, Any]:
    """Return what SNS is asked to publish."""
    client = ScriptedClient(publish=[{"MessageId": "m-1"}])
    SnsAnnouncer(FakeClients(client), TOPIC, seal).announce(sent)
    return client.calls[0][1]


def test_people_get_text_and_machines_get_data() -> None:
    """One message, rendered per protocol, with attributes for filters."""
    call = published(alert())

    message = json.loads(call["Message"])
    assert (TOPIC, "json") == (call["TopicArn"], call["MessageStructure"])
    text = message["default"]
    assert ("one\ntwo\n\nSee the record: https://", text) == (text[:33], message["email"])
    assert "\nOwner: research\nProject: llm\n" in text
    assert text.endswith(
        "You get this because this address is subscribed to GPU Governor's alert topic."
    )
    for protocol in ("sqs", "lambda", "http", "https"):
        document = json.loads(message[protocol])
        assert ("idle-found", "warning", "i-1", "d-1") == (
            document["kind"],
            document["severity"],
            document["instance_id"],
            document["dedup_id"],
        )
        assert {"usd_per_day": "527.00", "seal": "seal"} == document["facts"]
    assert {
        "kind": "idle-found",
        "severity": "warning",
        "account": "111122223333",
        "region": "us-east-1",
        "owner": "research",
        "project": "llm",
    } == {name: value["StringValue"] for name, value in call["MessageAttributes"].items()}


def test_a_text_about_an_episode_without_a_link_says_where_its_record_is() -> None:
    """As after a refused start: "You can try again from its record" leads nowhere otherwise."""
    where = "Its record: use the link in an earlier message about this instance."
    unlinked = alert(link=None, facts={"episode": "e-1"})

    assert f"two\n\n{where}\n" in json.loads(published(unlinked)["Message"])["email"]
    for other in (alert(facts={"episode": "e-1"}), alert(link=None)):
        assert where not in json.loads(published(other)["Message"])["email"]


def test_a_text_about_no_episode_leads_to_its_page_of_the_console() -> None:
    """Where the address of the console is known. A change of the policy has no page."""
    client = ScriptedClient(publish=[{"MessageId": "m-1"}] * 2)
    announcer = SnsAnnouncer(
        FakeClients(client), TOPIC, seal, console_url="https://gpu.example.com"
    )
    fleet = alert(link=None, kind=AlertKind.MANAGED_IDLE, instance_id=None)
    for sent in (fleet, replace(fleet, kind=AlertKind.POLICY_CHANGED)):
        announcer.announce(sent)

    texts = [json.loads(call["Message"])["email"] for _, call in client.calls]
    assert "\n\nSee the fleet: https://gpu.example.com/fleet\n" in texts[0]
    assert "https://" not in texts[1]
    assert "https://" not in json.loads(published(fleet)["Message"])["email"]


def test_a_text_about_all_accounts_names_none_at_its_foot() -> None:
    """Its account and Region are those of GPU Governor."""
    everywhere = alert(instance_id=None, facts={EVERYWHERE: True})

    text = json.loads(published(everywhere)["Message"])["email"]
    assert [] == [label for label in ("Account:", "Region:") if label in text]


def test_an_attribute_without_a_value_is_left_out() -> None:
    """SNS refuses empty ones, and with them the whole message."""
    assert "project" not in published(alert(project=""))["MessageAttributes"]


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("idle: träiner → stop", "idle: tr?iner ? stop"),
        ("two\r\nlines\tand a tab", "two lines and a tab"),
        ("x" * 300, "x" * 99),
        ("\x07\x1b", "idle-found"),
        ("", "idle-found"),
    ],
)
def test_a_subject_is_one_short_line_of_ascii(subject: str, expected: str) -> None:
    """SNS takes nothing else."""
    assert expected == published(alert(subject=subject))["Subject"]


@pytest.mark.parametrize(
    "changes",
    [
        {"lines": ("x" * 400_000,)},
        {"lines": ("ä" * 400_000,)},
        {"lines": ("\x00" * 100_000,)},
        {"lines": ('"\\' * 100_000,)},
        {"facts": {"evidence": "x" * 300_000}},
        {"subject": "ä" * 100_000},
        {"lines": ()},
    ],
)
def test_a_message_always_fits(changes: dict[str, Any]) -> None:
    """Cut before SNS refuses it whole; who and what is never cut off, and no text is empty."""
    call = published(alert(**changes))
    assert len(call["Message"].encode()) + 2_000 < 262_144
    message = json.loads(call["Message"])
    assert all(message.values())
    document = json.loads(message["sqs"])
    assert ("idle-found", "i-1", "https://example.com/approvals/1") == (
        document["kind"],
        document["instance_id"],
        document["link"],
    )


def test_a_message_that_no_channel_took_is_raised() -> None:
    """Nobody was told, so nobody may be said to have been."""
    client = ScriptedClient(publish=[client_error("AuthorizationError", status=403)])
    with pytest.raises(AccessDenied):
        SnsAnnouncer(FakeClients(client), TOPIC, seal).announce(alert())


ALICE, READER = "Alice@example.com", "reader@example.com"
ASKED = {"alice@example.com", "ml@example.com"}


def subscriptions(*found: tuple[str, str, str], filters: str | None = None) -> SnsAnnouncer:
    """Over a topic with these subscriptions, by protocol, address and what stands as their ARN."""
    names = ("Protocol", "Endpoint", "SubscriptionArn")
    listed = [dict(zip(names, one, strict=True)) for one in found]
    attributes = {} if filters is None else {"FilterPolicy": filters}
    client = ScriptedClient(
        list_subscriptions_by_topic=[{"Subscriptions": listed}],
        get_subscription_attributes=[{"Attributes": attributes}],
    )
    return SnsAnnouncer(FakeClients(client), TOPIC, seal)


CONFIRMED, PENDING = f"{TOPIC}:0a1b", "PendingConfirmation"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            [("email", ALICE, PENDING), ("email", READER, PENDING)],
            r"\(2 wait to be confirmed\).*" + TOPIC,
        ),
        ([("email", ALICE, "Deleted")], r"is confirmed, so nobody"),
        ([], "is confirmed, so nobody"),
    ],
)
def test_a_topic_without_a_confirmed_subscription_is_heard_by_nobody(
    found: list[tuple[str, str, str]], said: str
) -> None:
    """Publishing to it succeeds all the same."""
    with pytest.raises(NobodyListens, match=said):
        subscriptions(*found).reaches(ASKED)


@pytest.mark.parametrize(
    ("found", "is_theirs"),
    [
        ([("email", ALICE, CONFIRMED)], True),
        ([("sqs", "q", CONFIRMED), ("email-json", "ml@example.com", CONFIRMED)], True),
        ([("email", READER, CONFIRMED)], False),
        ([("email", READER, CONFIRMED), ("email", ALICE, PENDING)], False),
        ([("sqs", ALICE, CONFIRMED)], False),
        ([("https", "https://chat.example.com", CONFIRMED), ("lambda", "chat", CONFIRMED)], False),
    ],
)
def test_only_a_subscription_of_those_who_are_asked_is_theirs(
    found: list[tuple[str, str, str]], is_theirs: bool
) -> None:
    """Any subscriber counted: somebody else's mailbox started the time of a question."""
    assert is_theirs is subscriptions(*found).reaches(ASKED)


@pytest.mark.parametrize(
    ("filters", "gets_questions"),
    [
        ('{"kind": [{"exists": false}, {"anything-but": ["instance-idle"]}]}', True),
        ('{"kind": ["budget-reached"]}', False),
        ('{"owner": ["alice"]}', False),
    ],
)
def test_a_subscription_that_may_leave_questions_out_does_not_count(
    filters: str, gets_questions: bool
) -> None:
    """That of the template leaves out what is for machines alone."""
    assert gets_questions is subscriptions(("email", ALICE, CONFIRMED), filters=filters).reaches(
        ASKED
    )


def test_the_filter_of_the_template_is_the_one_that_counts() -> None:
    """Else the address that the parameter AlertEmail subscribes would count for nobody."""
    policy = template()["Resources"]["AlertEmailSubscription"]["Properties"]["FilterPolicy"]
    found = subscriptions(("email", ALICE, CONFIRMED), filters=json.dumps(policy))
    assert found.reaches(ASKED)


# the seal of alerts, and alarms


def test_what_is_sent_bears_the_seal_of_its_document(aws: Clients) -> None:
    """As it is read back, cut or not; a key of KMS that no function can read makes it."""
    key = aws.client("kms").create_key(KeySpec="HMAC_256", KeyUsage="GENERATE_VERIFY_MAC")
    sealing = AlertSeal(aws, key["KeyMetadata"]["Arn"])
    for changes in (
        {},
        {"lines": ("x" * 400_000,)},
        {"facts": {"episode": "e", "evidence": "x" * 300_000}},
    ):
        sent = message_of(alert(**changes), sealing)["sqs"]
        found = parse_queued(sent)
        assert isinstance(found, Alert)
        assert sealing(sealed_text(found)) == found.facts["seal"]
        assert sealing(sealed_text(replace(found, owner="mallory"))) != found.facts["seal"]
    assert "episode" in sent


def test_an_alarm_is_as_cloudwatch_describes_it(aws: Clients) -> None:
    """One that publishes elsewhere, and one that does not exist, are none of ours."""
    client = aws.client("cloudwatch")
    plain = {
        "MetricName": "m",
        "Namespace": "n",
        "Period": 60,
        "EvaluationPeriods": 1,
        "Threshold": 1.0,
    }
    for name, topic in (("ours", TOPIC), ("payroll", f"{TOPIC}-other")):
        client.put_metric_alarm(
            AlarmName=name,
            AlarmDescription="Look.",
            AlarmActions=[topic],
            ComparisonOperator="GreaterThanThreshold",
            Statistic="Sum",
            **plain,
        )
        client.set_alarm_state(AlarmName=name, StateValue="ALARM", StateReason="Crossed")
    alarms = CloudWatchAlarms(aws, TOPIC)
    found = alarms("ours")

    assert found is not None
    assert ("ours: ALARM", ("Look.", "Crossed"), "critical") == (
        found.subject,
        found.lines,
        found.severity.value,
    )
    assert [None, None] == [alarms("payroll"), alarms("gone")]


def test_an_alarm_is_one_incident_until_cloudwatch_is_ok_again(aws: Clients) -> None:
    """Whenever it goes off: name and place are the key. Before, each time was one that nothing
    resolved."""
    client, events = aws.client("cloudwatch"), []
    for state in ("ALARM", "OK", "ALARM", "OK"):
        client.put_metric_alarm(
            AlarmName="ours",
            AlarmActions=[TOPIC],
            ComparisonOperator="GreaterThanThreshold",
            Statistic="Sum",
            MetricName="m",
            Namespace="n",
            Period=60,
            EvaluationPeriods=1,
            Threshold=1.0,
        )
        client.set_alarm_state(AlarmName="ours", StateValue=state, StateReason="Crossed")
        found = CloudWatchAlarms(aws, TOPIC)("ours")
        assert found is not None
        events += pagerduty_events(compose.message_of(found, None, link=None))

    arn = "arn:aws:cloudwatch:us-east-1:123456789012:alarm:ours"
    opened, ended = ("trigger", arn), ("resolve", arn)
    assert [opened, ended, opened, ended] == [
        (one["event_action"], one["dedup_key"]) for one in events
    ]


def queries(*metrics: str) -> dict[str, Any]:
    """The queries of an alarm by metric math on these metrics."""
    stats = [{"MetricStat": {"Metric": {"MetricName": metric}}} for metric in metrics]
    return {"Metrics": [{"Expression": "ANOMALY_DETECTION_BAND(m1, 2)"}, *stats]}


def insights(*expressions: str) -> dict[str, Any]:
    """The queries of an alarm by CloudWatch Metrics Insights."""
    return {"Metrics": [{"Id": "q1", "Expression": expression} for expression in expressions]}


@pytest.mark.parametrize(
    ("named", "severity"),
    [
        ({"MetricName": "HighestBudgetUsedPercent"}, "info"),
        ({"MetricName": "EstimatedCost"}, "info"),
        ({"MetricName": "SavedMonthToDate"}, "info"),
        ({"MetricName": "FalseStops"}, "critical"),
        ({"MetricName": "SweepProblems"}, "critical"),
        (queries("EstimatedCost"), "info"),
        (queries("EstimatedCost", "SavedMonthToDate"), "info"),
        (queries("EstimatedCost", "SweepProblems"), "critical"),
        (queries(), "critical"),
        ({"MetricName": "EstimatedCharges", "Namespace": "AWS/Billing"}, "info"),
        (insights('SELECT MAX(EstimatedCost) FROM "GPUGovernor"'), "info"),
        (
            insights('select max ( "EstimatedCharges" ) from SCHEMA("AWS/Billing", Currency)'),
            "info",
        ),
        (insights("SELECT SUM(SweepProblems) FROM GPUGovernor"), "critical"),
        (
            insights("SELECT MAX(EstimatedCost) FROM G", "SELECT MAX(SweepProblems) FROM G"),
            "critical",
        ),
        (insights("SELECT something that nobody can read"), "critical"),
        (
            {
                "Metrics": [
                    *insights("SELECT MAX(EstimatedCost) FROM G")["Metrics"],
                    *queries("SweepProblems")["Metrics"],
                ]
            },
            "critical",
        ),
        ({}, "critical"),
    ],
)
def test_an_alarm_about_money_opens_no_incident(named: dict[str, Any], severity: str) -> None:
    """An alarm by anomaly detection or metric math, too, if all its metrics are about money."""
    record = {
        "AlarmName": "ours",
        "AlarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:ours",
        "AlarmActions": [TOPIC],
        "StateValue": "ALARM",
        "StateTransitionedTimestamp": datetime(2026, 11, 20, 12, tzinfo=UTC),
        **named,
    }
    client = ScriptedClient(describe_alarms=[{"MetricAlarms": [record]}])

    found = CloudWatchAlarms(FakeClients(client), TOPIC)("ours")

    assert found is not None
    assert severity == found.severity.value
    opened = pagerduty_events(compose.message_of(found, None, link=None))
    assert (severity == "critical") == bool(opened)


@pytest.mark.parametrize(
    ("rule", "severity"),
    [
        ('ALARM("too expensive")', "info"),
        ("ALARM(saved) OR ALARM('too expensive')", "info"),
        ("ALARM(saved) AND NOT OK( saved )", "info"),
        ("ALARM(arn:aws:cloudwatch:us-east-1:123456789012:alarm:saved)", "info"),
        ("ALARM(saved) OR ALARM(sweeps)", "critical"),
        ("ALARM(saved) AND NOT INSUFFICIENT_DATA(sweeps)", "critical"),
        ("ALARM(saved) OR ALARM(gone)", "critical"),
        ("""ALARM(saved) OR ALARM("it's (odd)")""", "critical"),
        ("TRUE", "critical"),
        ("", "critical"),
    ],
)
@pytest.mark.parametrize("is_denied", [False, True])
def test_a_composite_alarm_about_money_alone_opens_no_incident(
    rule: str, severity: str, is_denied: bool
) -> None:
    """Where its alarms cannot be read, it may be about anything."""
    composite = {
        "AlarmName": "ours",
        "AlarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:ours",
        "AlarmActions": [TOPIC],
        "AlarmRule": rule,
        "StateValue": "ALARM",
        "StateTransitionedTimestamp": datetime(2026, 11, 20, 12, tzinfo=UTC),
    }
    metrics = {
        "too expensive": "EstimatedCost",
        "saved": "SavedMonthToDate",
        "sweeps": "SweepProblems",
    }

    def describe(AlarmNames: list[str], **_: Any) -> dict[str, Any]:
        """Answer as CloudWatch does: alarms that do not exist are left out."""
        if AlarmNames == ["ours"]:
            return {"MetricAlarms": [], "CompositeAlarms": [composite]}
        if is_denied:
            raise client_error("AccessDenied")
        found = [name for name in AlarmNames if name in metrics]
        return {"MetricAlarms": [{"AlarmName": n, "MetricName": metrics[n]} for n in found]}

    client = ScriptedClient(describe_alarms=describe)

    found = CloudWatchAlarms(FakeClients(client), TOPIC)("ours")

    assert found is not None
    assert ("critical" if is_denied else severity) == found.severity.value


# SSM and Secrets Manager


def test_the_policy_text_is_read(aws: Clients) -> None:
    """As it is now, to the last character."""
    aws.client("ssm").put_parameter(Name="/governor/policy", Value="mode: ask\n\n", Type="String")
    assert "mode: ask\n\n" == PolicyParameter(aws, "/governor/policy").read()
    with pytest.raises(NotFound):
        PolicyParameter(aws, "/governor/other").read()


def test_the_link_keys_are_read(aws: Clients) -> None:
    """A JSON object of strings, at most a minute old: a flood of requests costs one read."""
    arn = aws.client("secretsmanager").create_secret(
        Name="keys", SecretString='{"current": "k1", "k1": "x"}'
    )["ARN"]
    seconds = [1000.0]
    secret = SecretDocument(aws, arn, elapsed=lambda: seconds[0])
    assert {"current": "k1", "k1": "x"} == secret.read()
    aws.client("secretsmanager").put_secret_value(SecretId=arn, SecretString='{"current": "k2"}')
    seconds[0] += 59
    assert {"current": "k1", "k1": "x"} == secret.read()
    seconds[0] += 1
    assert {"current": "k2"} == secret.read()


@pytest.mark.parametrize(
    "text", ["hunter2", '["hunter2"]', '{"current": {"deep": "hunter2"}}', "12345"]
)
def test_a_secret_of_another_shape_is_refused_without_being_shown(aws: Clients, text: str) -> None:
    """The message says what is wanted, and never what is there."""
    aws.client("secretsmanager").create_secret(Name="keys", SecretString=text)
    with pytest.raises(ConfigurationError) as caught:
        SecretDocument(aws, "keys").read()
    assert "hunter2" not in str(caught.value)
    assert "12345" not in str(caught.value)


def test_a_secret_goes_through_its_rotation(aws: Clients) -> None:
    """Written beside the one in force, then in its place."""
    client = aws.client("secretsmanager")
    arn = client.create_secret(Name="keys", SecretString='{"current": "k1", "k1": "x"}')["ARN"]
    secret, version = SecretDocument(aws, arn), "0b8b6d6e-6a1e-4f0c-9a57-5d3f3a1c2b4d"
    assert (frozenset(), None) == (secret.stages(version), secret.pending(version))

    secret.put_pending(version, {"current": "k2"})
    assert frozenset({"AWSPENDING"}) == secret.stages(version)
    assert ({"current": "k1", "k1": "x"}, {"current": "k2"}) == (
        secret.current(),
        secret.pending(version),
    )

    secret.promote(version)
    assert {"current": "k2"} == secret.current()
    assert "AWSCURRENT" in secret.stages(version)


# prices and the catalog


def instance(**changes: Any) -> Instance:
    """An on-demand g5.xlarge in us-east-1."""
    sample = Instance(
        target=TARGET,
        instance_id="i-1",
        instance_type="g5.xlarge",
        state="running",
        launch_time=LAUNCHED,
        availability_zone="us-east-1a",
    )
    return replace(sample, **changes)


def book(*answers: Any, now: list[datetime] | None = None) -> tuple[AwsPrices, ScriptedClient]:
    """The price book over a scripted EC2."""
    client = ScriptedClient(describe_spot_price_history=list(answers))
    times = now or [NOW]
    return AwsPrices(FakeClients(client), now=lambda: times[0]), client


def spot(price: str, at: datetime = NOW) -> dict[str, Any]:
    """An answer with one price."""
    return {"SpotPriceHistory": [{"SpotPrice": price, "Timestamp": at}]}


SPOT = {"lifecycle": Lifecycle.SPOT}


def test_the_policys_price_goes_first() -> None:
    """A negotiated price is the one that is paid, for Spot too."""
    prices, client = book()
    policy = Policy(prices=Prices(usd_per_hour={"g5.xlarge": Decimal("0.50")}))
    price = prices.price(instance(**SPOT), policy)
    assert (Decimal("0.50"), "price from the policy") == (price.usd_per_hour, price.source)
    assert [] == client.calls


def test_the_list_price_names_its_place_and_day() -> None:
    """A figure without its source is no figure."""
    price = book()[0].price(instance(), Policy())
    assert Decimal("1.006") == price.usd_per_hour
    assert "us-east-1" in price.source
    assert "2026-07-20" in price.source
    assert datetime(2026, 7, 20, tzinfo=UTC) == price.as_of


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"target": Target("111122223333", "eu-west-1")}, "eu-west-1"),
        ({"platform": "Windows"}, "Windows"),
        ({"platform": "Red Hat Enterprise Linux"}, "Red Hat Enterprise Linux"),
    ],
)
def test_a_list_price_that_does_not_quite_fit_says_so(changes: dict[str, Any], word: str) -> None:
    """Another Region or operating system is priced by the list, and told."""
    prices, _ = book()
    price = prices.price(instance(**changes), Policy())
    assert Decimal("1.006") == price.usd_per_hour
    assert word in price.source
    assert word not in prices.price(instance(), Policy()).source


class Lists:
    """Lists of prices by Region, and how often each was asked for."""

    def __init__(self, *lists: PriceList) -> None:
        self.by_region: dict[str, PriceList] = {one.region: one for one in lists}
        self.asked: list[str] = []
        self.failure: Exception | None = None

    def __call__(self, region: str) -> PriceList | None:
        self.asked.append(region)
        if self.failure:
            raise self.failure
        return self.by_region.get(region)


def price_list(
    region: str, usd: str | None, at: datetime = NOW, operation: str = "RunInstances"
) -> PriceList:
    """A list of one price of g5.xlarge, or of none."""
    found = {} if usd is None else {key_of("g5.xlarge", operation, "Shared"): Decimal(usd)}
    return PriceList(region).with_type("g5.xlarge", found, at)


FRANKFURT = {"target": Target("111122223333", "eu-central-1")}


def test_two_regions_have_two_prices() -> None:
    """Each of its own list, and each says of which day."""
    lists = Lists(price_list("us-east-1", "1.006"), price_list("eu-central-1", "1.258"))
    prices = AwsPrices(FakeClients(None), lists, now=lambda: NOW)

    here, there = (prices.price(instance(**changes), Policy()) for changes in ({}, FRANKFURT))

    assert ("1.006", "1.258") == (str(here.usd_per_hour), str(there.usd_per_hour))
    assert "AWS price list, eu-central-1, Linux, read Fri Nov 20" == there.source
    assert NOW == there.as_of


@pytest.mark.parametrize(
    ("elsewhere", "region", "committed"),
    [
        (True, "us-east-1", True),
        (False, "us-east-1", False),
        (False, "eu-central-1", True),  # a plan of its own is there
        (False, "eu-west-1", True),  # nobody could read that
    ],
)
def test_a_commitment_may_pay_unless_it_is_known_not_to(
    elsewhere: bool, region: str, committed: bool
) -> None:
    """The policy says that other accounts have none, and what was read of this one does not fit."""
    plan = Commitment(
        CommitmentKind.COMPUTE_PLAN,
        "sp-1",
        "eu-central-1",
        "",
        Decimal(1),
        NOW,
        NOW + timedelta(days=365),
    )
    read = frozenset({SAVINGS_PLANS, "us-east-1", "eu-central-1"})
    found = Commitments(NOW, (plan,), read)
    prices = AwsPrices(FakeClients(None), Lists(), lambda: found, now=lambda: NOW)
    policy = Policy(prices=replace(Policy().prices, commitments_elsewhere=elsewhere))

    there = instance(target=Target("111122223333", region))
    assert committed is prices.price(there, policy).may_be_committed


def test_a_list_is_read_once_an_hour_so_a_price_changes_in_mid_run() -> None:
    """From the next hour on; until then the price of the container."""
    lists, times = Lists(price_list("us-east-1", "1.006")), [NOW]
    prices = AwsPrices(FakeClients(None), lists, now=lambda: times[0])
    assert ["1.006"] * 2 == [str(prices.price(instance(), Policy()).usd_per_hour) for _ in range(2)]

    lists.by_region["us-east-1"] = price_list("us-east-1", "1.1")
    times[0] += timedelta(minutes=59)
    assert Decimal("1.006") == prices.price(instance(), Policy()).usd_per_hour
    times[0] += timedelta(minutes=1)
    assert Decimal("1.1") == prices.price(instance(), Policy()).usd_per_hour
    assert ["us-east-1"] * 2 == lists.asked


def test_a_list_that_cannot_be_read_leaves_the_last_one_in_force() -> None:
    """Or the shipped one where there is none yet; it is asked for again a minute later."""
    lists, times = Lists(price_list("us-east-1", "1.2")), [NOW]
    prices = AwsPrices(FakeClients(None), lists, now=lambda: times[0])
    assert Decimal("1.2") == prices.price(instance(), Policy()).usd_per_hour

    lists.failure = Throttled("slow down", operation="dynamodb:GetItem")
    times[0] += timedelta(hours=1)
    assert Decimal("1.2") == prices.price(instance(), Policy()).usd_per_hour
    assert "2026-07-20" in prices.price(instance(**FRANKFURT), Policy()).source
    lists.failure = None
    lists.by_region["eu-central-1"] = price_list("eu-central-1", "1.258")
    times[0] += timedelta(minutes=1)
    assert Decimal("1.258") == prices.price(instance(**FRANKFURT), Policy()).usd_per_hour


def test_what_the_list_of_its_region_does_not_price_is_unpriced() -> None:
    """Once it was read, another Region's price would be a guess; the shipped list is for the
    rest."""
    lists = Lists(price_list("us-east-1", None), price_list("eu-central-1", "1.258"))
    prices = AwsPrices(FakeClients(None), lists, now=lambda: NOW)
    windows = {"platform": "Windows", "operation": "RunInstances:0002", **FRANKFURT}

    assert prices.price(instance(), Policy()).usd_per_hour is None
    alone = prices.price(instance(**windows, tenancy="Dedicated"), Policy())
    assert alone.usd_per_hour is None
    assert "eu-central-1, Windows, Dedicated" in alone.source
    assert prices.price(instance(instance_type="g5.2xlarge"), Policy()).usd_per_hour is not None


@pytest.mark.parametrize(
    ("discounts", "expected"),
    [({"all": "10"}, "0.9054"), ({"all": "10", "g5": "12.5"}, "0.88025"), ({"g6": "5"}, None)],
)
@pytest.mark.parametrize("is_read", [True, False])
def test_a_discount_is_taken_off_list_prices_alone(
    is_read: bool, discounts: dict[str, str], expected: str | None
) -> None:
    """Not off what the policy says, nor off Spot; and the list price stays known."""
    lists = Lists(*[price_list("us-east-1", "1.006")] * is_read)
    client = ScriptedClient(describe_spot_price_history=spot("0.30"))
    prices = AwsPrices(FakeClients(client), lists, now=lambda: NOW)
    rule = Prices(discount_percent={name: Decimal(one) for name, one in discounts.items()})

    price = prices.price(instance(), Policy(prices=rule))

    assert Decimal(expected or "1.006") == price.usd_per_hour
    assert Decimal("1.006") == price.undiscounted
    assert (
        (expected is not None)
        is ("less 1" in price.source)
        is (price.list_usd_per_hour is not None)
    )
    assert Decimal("0.30") == prices.price(instance(**SPOT), Policy(prices=rule)).usd_per_hour
    own = replace(rule, usd_per_hour={"g5.xlarge": Decimal(2)})
    assert Decimal(2) == prices.price(instance(), Policy(prices=own)).usd_per_hour


@pytest.mark.parametrize("discounts", [{"p5.48xlarge": 10}, {"all": 101}, {"all": -1}], ids=str)
def test_a_discount_is_by_family_and_at_most_everything(discounts: dict[str, int]) -> None:
    """A type in its place would be left without a word."""
    with pytest.raises(ValueError, match="discount_percent"):
        Prices(discount_percent={name: Decimal(one) for name, one in discounts.items()})


@pytest.mark.parametrize(
    "instance_type", ["p5e.48xlarge", "trn2.48xlarge", "m5.large", "p9.unheard"]
)
def test_what_has_no_price_is_unpriced_and_never_free(instance_type: str) -> None:
    """Unknown is `None`."""
    price = book()[0].price(instance(instance_type=instance_type), Policy())
    assert price.usd_per_hour is None
    assert instance_type in price.source


def test_a_spot_instance_costs_the_spot_price() -> None:
    """The latest price of its own type, zone and platform."""
    latest = {
        "SpotPriceHistory": [
            {"SpotPrice": "0.40", "Timestamp": NOW - timedelta(hours=1)},
            {"SpotPrice": "0.301700", "Timestamp": NOW},
        ]
    }
    prices, client = book(latest)
    price = prices.price(instance(**SPOT), Policy())

    assert (Decimal("0.301700"), NOW) == (price.usd_per_hour, price.as_of)
    assert "us-east-1a" in price.source
    call = client.calls[0][1]
    assert (["g5.xlarge"], ["Linux/UNIX"], "us-east-1a", NOW) == (
        call["InstanceTypes"],
        call["ProductDescriptions"],
        call["AvailabilityZone"],
        call["StartTime"],
    )


def test_a_spot_price_is_read_once_an_hour() -> None:
    """Per account, zone and type; zone names differ between accounts."""
    times = [NOW]
    prices, client = book(spot("0.30"), spot("0.31"), spot("0.32"), now=times)
    prices.price(instance(**SPOT), Policy())
    assert (
        Decimal("0.30") == prices.price(instance(**SPOT, instance_id="i-2"), Policy()).usd_per_hour
    )
    assert 1 == len(client.calls)

    other = instance(**SPOT, target=Target("999999999999", "us-east-1"))
    assert Decimal("0.31") == prices.price(other, Policy()).usd_per_hour

    times[0] = NOW + timedelta(hours=1)
    assert Decimal("0.32") == prices.price(instance(**SPOT), Policy()).usd_per_hour


@pytest.mark.parametrize(
    "answer",
    [
        client_error("UnauthorizedOperation"),
        {"SpotPriceHistory": []},
        {"SpotPriceHistory": [{"SpotPrice": "0.3"}]},
        {"SpotPriceHistory": [{"Timestamp": NOW}]},
        {},
    ],
)
def test_a_spot_price_that_is_not_known_is_not_the_list_price(answer: Any) -> None:
    """The list price would overstate what is saved; and a failed read is tried again."""
    prices, _ = book(answer)
    assert prices.price(instance(**SPOT), Policy()).usd_per_hour is None


def test_a_failed_spot_read_is_tried_again() -> None:
    """One throttled call neither leaves the fleet unpriced for an hour, nor is repeated for each of
    it."""
    times = [NOW]
    prices, client = book(client_error("RequestLimitExceeded"), spot("0.30"), now=times)
    for number in range(1000):
        one = instance(**SPOT, instance_id=f"i-{number}")
        assert prices.price(one, Policy()).usd_per_hour is None
    assert 1 == len(client.calls)

    times[0] += timedelta(minutes=1)
    assert Decimal("0.30") == prices.price(instance(**SPOT), Policy()).usd_per_hour


def test_the_catalog_knows_what_a_type_carries() -> None:
    """Count, memory, board power and local disks of one accelerator model."""
    shape = shape_of("p4d.24xlarge")
    assert shape is not None
    assert ("NVIDIA A100", 8, 40960, 400, "8x1000") == (
        shape.accelerator,
        shape.accelerator_count,
        shape.memory_mib_each,
        shape.board_power_watts,
        shape.local_nvme,
    )


def test_a_fraction_of_a_gpu_counts_as_one_that_reports() -> None:
    """And its power is not known: the board's limit is not its own."""
    shape = shape_of("g6f.large")
    assert shape is not None
    assert (1, None) == (shape.accelerator_count, shape.board_power_watts)


def test_what_is_not_known_is_none() -> None:
    """No shape for an unknown type, no memory where sources contradict each other, no disk where
    none is."""
    trainium, g5g = shape_of("trn2.48xlarge"), shape_of("g5g.xlarge")
    assert shape_of("m5.large") is None
    assert trainium is not None
    assert g5g is not None
    assert (None, None) == (trainium.memory_mib_each, g5g.local_nvme)


def test_every_row_of_the_table_is_usable() -> None:
    """A whole number of accelerators, which two types lack, and a price above zero or none at
    all."""
    from governor.core.catalog import _rows

    uncounted = {"p6e-gb200.36xlarge", "trn2u.48xlarge"}

    assert 90 < len(_rows())
    for instance_type in _rows():
        shape, price = shape_of(instance_type), list_price(instance_type)
        assert shape is not None
        assert shape.accelerator
        assert (shape.accelerator_count is None) is (instance_type in uncounted)
        assert shape.accelerator_count is None or shape.accelerator_count >= 1
        assert price is None or price > 0


# credentials


def test_clients_are_made_once(aws: Clients) -> None:
    """Per service, Region, role and patience."""
    target = Target("123456789012", "eu-west-1")
    first = aws.client("ec2", target)
    assert first is aws.client("ec2", Target("999999999999", "eu-west-1"))
    assert first is not aws.client("ec2", Target("123456789012", "us-east-1"))
    assert first is not aws.client("ec2", target, repeat=False)
    assert ("eu-west-1", "us-east-1") == (
        first.meta.region_name,
        aws.client("ec2").meta.region_name,
    )


def test_only_one_attempt_where_a_repetition_would_act_twice(aws: Clients) -> None:
    """The attempts are set on the client."""
    retrying, single = aws.client("ec2"), aws.client("ec2", repeat=False)
    assert 1 < retrying.meta.config.retries["total_max_attempts"]
    assert 1 == single.meta.config.retries["total_max_attempts"]


def test_a_member_account_is_reached_by_its_role(aws: Clients) -> None:
    """In the member's account and Region, with a session that names the governor."""
    role = "arn:aws:iam::999999999999:role/gpu-governor-member"
    member = aws.client("sts", Target("999999999999", "eu-west-1", role))

    identity = member.get_caller_identity()

    assert (
        "arn:aws:sts::999999999999:assumed-role/gpu-governor-member/gpu-governor" == identity["Arn"]
    )
    assert "eu-west-1" == member.meta.region_name
    assert ":assumed-role/" not in aws.client("sts").get_caller_identity()["Arn"]


def test_a_plain_cloud_error_keeps_its_operation() -> None:
    """For the reader of a log: which call it was."""
    client = ScriptedClient(publish=[client_error("InvalidParameter")])
    with pytest.raises(CloudError) as caught:
        SnsAnnouncer(FakeClients(client), TOPIC, seal).announce(alert())
    assert ("sns:Publish", "InvalidParameter") == (caught.value.operation, caught.value.code)
