"""`governor status`: one screen of what is read, and for the rest the action that is lacking."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from cli import aws, doctor, governor, status
from cli.errors import CommandError
from governor.core.instance import Target
from governor.core.units import in_utc
from governor.episode.model.episode import Failing
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.store.instances import Troubles
from governor.fleet.model import FleetPage
from governor.fleet.unswept import Unswept
from governor.policy.document import parse_policy
from tests.console_world import make_row
from tests.unit.aws.fakes import client_error
from tests.unit.template.machines import template

NOW = datetime.now(tz=UTC)


@pytest.fixture(autouse=True)
def _at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment hours ago stays so, however long the suite takes."""
    monkeypatch.setattr("cli.times.now", lambda: NOW)


ACCOUNT = "123456789012"
QUESTION = {"usd_per_day": "786.4872", "can_hold": False}
POLICY = "mode: ask\ntargets: {regions: [us-east-1, eu-west-1, eu-north-1]}"
STACK: dict[str, Any] = {
    "StackId": f"arn:aws:cloudformation:us-east-1:{ACCOUNT}:stack/gpu-governor/1",
    "StackStatus": "UPDATE_COMPLETE",
    "Description": "GPU Governor 1.2.3: finds GPU instances.",
    "CreationTime": NOW - timedelta(days=3),
    "LastUpdatedTime": NOW - timedelta(hours=2),
    "StackName": "gpu-governor",
    "Parameters": [
        {"ParameterKey": name, "ParameterValue": value}
        for name, value in {
            "Mode": "ask",
            "SelectorTagValue": "GPU-Workload",
            "ExemptionTagKey": "GpuGovernor",
            "SweepRateMinutes": "5",
            "DeletionProtection": "true",
        }.items()
    ],
    "Outputs": [
        {"OutputKey": "ApiUrl", "OutputValue": "https://api.example.com"},
        {"OutputKey": "AlertTopicArn", "OutputValue": "arn:aws:sns:topic"},
        {"OutputKey": "StateTableName", "OutputValue": "state"},
        {"OutputKey": "SweepStateMachineArn", "OutputValue": "arn"},
    ],
}


class Cloud:
    """The answers of AWS and of the stack's API."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {
            "/api/policy": {"document": POLICY, "in_force": "v7"},
            "/api/approvals": {"questions": []},
            "/api/freezes": {"freezes": [], "caps": [], "waiting": []},
        }
        self.executions: list[dict[str, Any]] = [
            {"status": "RUNNING", "executionArn": "b", "input": "{}"},
            {
                "status": "SUCCEEDED",
                "stopDate": NOW,
                "executionArn": "h",
                "input": '{"check":"health"}',
            },
            {
                "status": "SUCCEEDED",
                "stopDate": NOW - timedelta(minutes=4),
                "executionArn": "a",
                "input": "{}",
            },
        ]
        self.pages = [
            FleetPage(ACCOUNT, region, NOW - timedelta(minutes=4), "ask")
            for region in ("us-east-1", "eu-west-1", "eu-north-1")
        ]
        self.waiting = {"EventFailures": 0, "AlertFailures": 0}
        self.schedule = {"State": "ENABLED", "ScheduleExpression": "rate(5 minutes)"}
        self.filters: dict[str, str] = {}
        self.versions = {"1": ["AWSCURRENT"]}
        self.subscriptions = [
            {"Protocol": "sqs", "SubscriptionArn": "arn:aws:sns:queue", "Endpoint": "arn:queue"},
            {
                "Protocol": "email",
                "SubscriptionArn": "arn:aws:sns:mail",
                "Endpoint": "Ops@example.com",
            },
        ]
        self.unswept: dict[Target, Unswept] = {}
        self.in_alarm: list[dict[str, str]] = []
        self.failing: list[Failing] = []
        self.states: list[StandingState] = []
        self.denied: set[str] = set()
        self.stacks: Any = [STACK]
        self.region_name = "us-east-1"

    def _answer(self, action: str, answer: Any) -> Any:
        if action in self.denied:
            raise client_error("AccessDenied", f"not authorized to perform {action}")
        return answer

    def client(self, service: str) -> Any:
        """One that answers what this command asks."""
        resources = [
            ("AWS::CloudWatch::Alarm", "NoSweepAlarm", "gpu-NoSweep"),
            ("AWS::Lambda::Function", "ServeApiFunction", "f"),
            ("AWS::SecretsManager::Secret", "ChannelSecret", "channels"),
            ("AWS::Scheduler::Schedule", "HealthSchedule", "gpu-governor-health"),
            ("AWS::Scheduler::Schedule", "SweepSchedule", "gpu-governor-sweep"),
            *(("AWS::SQS::Queue", name, name) for name in (*self.waiting, "DeliveryQueue")),
        ]
        names = ("ResourceType", "LogicalResourceId", "PhysicalResourceId")
        found = {
            "list_stack_resources": [
                {
                    "StackResourceSummaries": [
                        dict(zip(names, one, strict=True)) for one in resources
                    ]
                }
            ],
            "list_subscriptions_by_topic": [{"Subscriptions": self.subscriptions}],
            "describe_alarms": [{"MetricAlarms": self.in_alarm}],
            "describe_stacks": [{"Stacks": [one]} for one in self.stacks],
        }

        def attributes(*, QueueUrl: str, AttributeNames: list[str]) -> Any:
            counts = (self.waiting[QueueUrl], 0)
            answer = {"Attributes": dict(zip(AttributeNames, map(str, counts), strict=True))}
            return self._answer("sqs:GetQueueAttributes", answer)

        return SimpleNamespace(
            describe_stacks=lambda **_: self._answer("cloudformation", {"Stacks": self.stacks}),
            describe_execution=lambda executionArn: next(
                one for one in self.executions if one["executionArn"] == executionArn
            ),
            list_executions=lambda **_: self._answer("states", {"executions": self.executions}),
            get_queue_attributes=attributes,
            describe_secret=lambda **_: {"VersionIdsToStages": self.versions},
            get_schedule=lambda **_: self._answer("scheduler", self.schedule),
            get_subscription_attributes=lambda SubscriptionArn: {
                "Attributes": {"FilterPolicy": self.filters.get(SubscriptionArn, "{}")}
            },
            get_paginator=lambda name: SimpleNamespace(
                paginate=lambda **_: self._answer(f"{service}:{name}", found[name])
            ),
        )

    def call(self, _: str, path: str) -> Any:
        """As the stack's API."""
        if path in self.denied:
            raise CommandError("AWS refused the call: your identity needs execute-api:Invoke")
        return self.answers[path]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """One where all is well."""
    made = Cloud()
    monkeypatch.setattr(aws, "session", lambda *_: made)
    monkeypatch.setattr(status, "Api", lambda *_: made)
    monkeypatch.setattr(status, "Fleet", lambda _: SimpleNamespace(pages=lambda: made.pages))
    monkeypatch.setattr(status, "unswept", lambda _: made.unswept)
    failures = SimpleNamespace(failing_and_standing=lambda: Troubles(made.failing, made.states))
    monkeypatch.setattr(status, "Failures", lambda _: failures)
    return made


def shown(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """The exit status, and the lines by their names."""
    code = governor.main(["status"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) < 24
    return code, {line[:11].strip(): line[11:].strip() for line in lines}


def test_a_stack_that_works_fits_one_screen(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.answers["/api/approvals"] = {
        "questions": [
            QUESTION,
            {**QUESTION, "usd_per_day": None},
            {**QUESTION, "can_hold": True},
            {**QUESTION, "can_hold_late": True},
        ]
    }
    code, lines = shown(capsys)

    assert 0 == code, lines
    assert lines["stack"].startswith(
        "version 1.2.3 in 123456789012/us-east-1, UPDATE_COMPLETE 2 h ago ("
    )
    assert "ask" == lines["mode"]
    assert lines["policy"].endswith("stored as v7")
    assert lines["last sweep"].startswith("4 min ago (")
    assert lines["last sweep"].endswith("): succeeded")
    assert "3 of 3 read" == lines["targets"]
    assert ("rate(5 minutes), enabled", "1 confirmed") == (lines["schedule"], lines["subscribers"])
    assert "2 open: $786 a day, 1 without a price" == lines["questions"]
    assert ("none", "none", "none of 1") == (
        lines["freezes"],
        lines["undelivered"],
        lines["alarms"],
    )


@pytest.mark.parametrize(
    ("accounts", "said"),
    [
        (
            (ACCOUNT, "210987654321"),
            "1 of 2 read; unread: 210987654321/us-east-1: not swept yet, wait for the next sweep",
        ),
        (None, "the accounts of targets.units are not known yet"),
    ],
)
def test_accounts_of_units_are_targets(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    accounts: tuple[str, ...] | None,
    said: str,
) -> None:
    """As the last sweep has found them."""
    document = "mode: ask\ntargets: {units: [ou-abcd-11111111]}"
    cloud.answers["/api/policy"] = {"document": document, "in_force": "v7"}
    monkeypatch.setattr(
        status,
        "PolicyVersions",
        lambda _: SimpleNamespace(accounts_of=lambda _: accounts),
    )

    code, lines = shown(capsys)

    assert (1, said) == (code, lines["targets"])


def test_the_stack_names_its_environment_where_it_has_a_tag_for_it(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """The local cloud sets one, as an operator may: nobody takes a stack for another."""
    assert "(" not in shown(capsys)[1]["stack"].partition(",")[0]
    cloud.stacks = [{**STACK, "Tags": [{"Key": "Environment", "Value": "local cloud"}]}]

    assert f"in {ACCOUNT}/us-east-1 (local cloud), " in shown(capsys)[1]["stack"]


def test_the_stack_has_the_name_that_its_pages_show(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """The parameter DisplayName comes before the tag."""
    tags = [{"Key": "Environment", "Value": "production"}]
    parameters = [
        *STACK["Parameters"],
        {"ParameterKey": "DisplayName", "ParameterValue": "staging"},
    ]
    cloud.stacks = [{**STACK, "Tags": tags, "Parameters": parameters}]

    assert f"in {ACCOUNT}/us-east-1 (staging), " in shown(capsys)[1]["stack"]

    parameters[-1] = {"ParameterKey": "DisplayName", "ParameterValue": ""}
    assert f"in {ACCOUNT}/us-east-1 (production), " in shown(capsys)[1]["stack"]


SCRATCH = """mode: ask
metrics: {publishers_are_trusted: true}
ownership: {contacts: {ops: {emails: [alice@example.com, bob@example.com]}}}
overrides:
  - name: scratch
    match: {tags: {Life: short}}
    set: {mode: auto, plan: {action: terminate}}
    approved_by: [alice@example.com, bob@example.com]
"""


def test_an_override_that_lacks_acceptances_is_listed_with_who_is_missing(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """It counts as ask. The API of a stack of the release before knows no acceptances."""
    terms = parse_policy(SCRATCH).terms
    people = ["alice@example.com"]
    accepted = {"terms": terms, "people": people}
    cloud.answers["/api/policy"] = {"document": SCRATCH, "in_force": "v7", "accepted": accepted}
    code, lines = shown(capsys)
    until = 'Override "scratch" counts as ask until bob@example.com accepts this version'
    assert (1, True) == (code, lines["policy"].endswith(f"stored as v7; {until}")), lines["policy"]

    people.append("bob@example.com")
    assert "scratch" not in shown(capsys)[1]["policy"]
    del cloud.answers["/api/policy"]["accepted"]
    assert "alice@example.com and bob@example.com" in shown(capsys)[1]["policy"]


def test_an_override_of_the_parameter_lacks_acceptances_and_says_what_to_do(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.answers["/api/policy"] = {"document": SCRATCH, "in_force": None, "accepted": None}
    code, lines = shown(capsys)

    assert (1, True) == (code, "store it with `governor policy put`" in lines["policy"])


def test_workflows_that_fail_are_listed_by_cause(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until they fail no more; else a question that reaches nobody is seen in the console alone."""
    one = Failing(
        Target(ACCOUNT, "us-east-1"), "i-1", "trainer", "c", "NobodyListens: no channel", "ask", NOW
    )
    cloud.failing = [
        one,
        replace(one, instance_id="i-2", name="", at=NOW - timedelta(minutes=1)),
        replace(one, cause="d", instance_id="i-3", name="gone", over_at=NOW),
    ]
    code, lines = shown(capsys)

    says = "could not ask about trainer, i-2: The message would have reached nobody: no channel."
    assert (1, says) == (code, lines["failing"])
    cloud.failing = cloud.failing[2:]
    assert (0, "none") == ((found := shown(capsys))[0], found[1]["failing"])


def test_instances_that_others_start_again_are_named_while_nobody_is_asked(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Never silently; and nothing is wrong with it."""
    assert "no instance" == shown(capsys)[1]["not asked"]
    first, *rest = cloud.pages
    quiet = make_row(1, restarts_quiet_until=NOW + timedelta(days=3))
    over = make_row(2, restarts_quiet_until=NOW)
    cloud.pages = [replace(first, rows=(quiet, over)), *rest]
    code, lines = shown(capsys)

    assert 0 == code
    assert lines["not asked"] == (
        f"{quiet.name} until {in_utc(NOW + timedelta(days=3))} "
        "(others start them again after each stop)"
    )


def test_what_is_wrong_is_said_where_it_is(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """And somebody should look: exit status 1."""
    first, second, _ = cloud.pages
    cloud.pages = [
        FleetPage(
            first.account,
            first.region,
            first.swept_at,
            "ask",
            "its \x1b[2Jmetrics could not be read",
        ),
        FleetPage(second.account, second.region, NOW - timedelta(hours=3), "ask"),
    ]
    cloud.executions[-1]["status"] = "FAILED"
    cloud.waiting["AlertFailures"] = 2
    cloud.in_alarm = [{"AlarmName": "gpu-NoSweep", "AlarmDescription": "No target has been swept."}]
    since = f"{NOW - timedelta(hours=5):%Y-%m-%dT%H:%M:%SZ}"
    freeze = {"what": "everything", "why": "12 turned idle", "since": since}
    cloud.answers["/api/freezes"] = {"freezes": [freeze], "caps": [], "waiting": [QUESTION]}
    code, lines = shown(capsys)

    assert 1 == code
    assert lines["last sweep"].endswith("): failed; its execution history says why")
    assert lines["targets"].startswith(
        f"0 of 3 read; unread: {ACCOUNT}/us-east-1: its [2Jmetrics could not be read; "
        f"{ACCOUNT}/eu-west-1: last swept 3 h ago ("
    )
    assert lines["targets"].endswith(
        f"{ACCOUNT}/eu-north-1: not swept yet, wait for the next sweep"
    )
    assert lines["freezes"].startswith("everything, frozen 5 h ago (")
    assert lines["freezes"].endswith("): 12 turned idle; 1 step waiting (`governor freezes`)")
    assert "2 in AlertFailures (docs/events.md)" == lines["undelivered"]
    assert "NoSweepAlarm: No target has been swept." == lines["alarms"]


def test_why_a_target_was_not_swept_is_said(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Until it is swept again; in the words of the function's error."""
    cause = json.dumps(
        {"errorMessage": "no role\x1b there", "errorType": "AccessDenied", "stackTrace": []}
    )
    west, east = Target(ACCOUNT, "eu-west-1"), Target(ACCOUNT, "us-east-1")
    cloud.unswept = {
        west: Unswept(NOW - timedelta(minutes=2), "AccessDenied", cause),
        east: Unswept(NOW - timedelta(minutes=9), "States.Timeout", ""),
    }
    cloud.executions[-1] |= {
        "status": "FAILED",
        "cause": json.dumps({"errorMessage": "1 of 3 targets"}),
    }
    _, lines = shown(capsys)

    assert f"2 of 3 read; unread: {ACCOUNT}/eu-west-1: not swept 2 min ago (" in lines["targets"]
    assert lines["targets"].endswith("): AccessDenied: no role there")
    assert lines["last sweep"].endswith("): failed; 1 of 3 targets")


def test_a_state_is_shown_with_what_to_do_until_it_is_over(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a failure before it nor the last page hides it; a sweep after it does."""
    west = Target(ACCOUNT, "eu-west-1")
    seen_at = NOW - timedelta(minutes=2)
    cloud.states = [
        StandingState(west, StateKind.NOT_ENABLED, "no", NOW - timedelta(hours=3), seen_at),
        StandingState(
            Target(ACCOUNT, "us-east-1"), StateKind.CANNOT_TAG, "50", NOW, seen_at, "i-0abc"
        ),
    ]
    cloud.unswept = {west: Unswept(NOW - timedelta(minutes=9), "Throttled", "")}
    code, lines = shown(capsys)
    assert 1 == code
    assert (
        f"2 of 3 read; unread: {ACCOUNT}/eu-west-1: AWS refuses every call, "
        "since 3 h ago (" in lines["targets"]
    )
    assert f"AWS refuses every call: {ACCOUNT}/eu-west-1. " in lines["states"]
    assert "may be suspended" in lines["states"]
    assert "targets.without" in lines["states"]
    assert f"policy. Tags cannot be set: i-0abc in {ACCOUNT}/us-east-1. " in lines["states"]

    cloud.unswept[west] = Unswept(NOW - timedelta(minutes=1), "Throttled", "")
    assert "Throttled" in shown(capsys)[1]["targets"], "the newest counts"


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 220.00 seconds"),
        ("Runtime.ExitError", "RequestId: 1 Error: Runtime exited with error: signal: killed"),
        ("Runtime.OutOfMemory", ""),
        ("States.Timeout", ""),
    ],
)
def test_a_target_too_large_for_its_function_is_said_with_what_to_do(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], error: str, cause: str
) -> None:
    """It would be cut short in every sweep, and what Lambda says of it names no way out."""
    west = Target(ACCOUNT, "eu-west-1")
    said = json.dumps({"errorMessage": cause}) if cause else ""
    cloud.unswept = {west: Unswept(NOW - timedelta(minutes=2), error, said)}

    why = ": ".join(filter(None, (error, cause)))
    targets = shown(capsys)[1]["targets"]
    assert targets.endswith(f"): {why}; if it repeats, raise SweepMemoryMegabytes")
    assert "SweepMemoryMegabytes" in template()["Parameters"]


def test_a_schedule_that_is_off_is_said(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    """Then no alarm has to be waited for."""
    cloud.schedule["State"] = "DISABLED"
    code, lines = shown(capsys)
    assert 1 == code
    assert (
        "rate(5 minutes), disabled: nothing is swept until somebody enables it" == lines["schedule"]
    )


def test_that_nobody_would_get_an_alert_is_said(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what to do; where contacts get messages by SES or by channels, nobody has to
    subscribe."""
    cloud.subscriptions = cloud.subscriptions[:1]
    code, lines = shown(capsys)
    nobody = "no subscription of the alert topic is confirmed"
    assert (1, f"{nobody}; run `make deploy ALERT_EMAIL=...`") == (code, lines["subscribers"])

    cloud.subscriptions.append({"Protocol": "email", "SubscriptionArn": "PendingConfirmation"})
    confirm = f"{nobody}; 1 wait to be confirmed; confirm the email of AWS Notifications"
    assert confirm == shown(capsys)[1]["subscribers"]

    cloud.versions["2"] = ["AWSPREVIOUS"]
    code, lines = shown(capsys)
    assert (0, "none of the alert topic; contacts of the policy have channels") == (
        code,
        lines["subscribers"],
    )

    sender = {"ParameterKey": "EmailSender", "ParameterValue": "gpu@example.com"}
    cloud.stacks = [{**STACK, "Parameters": [*STACK["Parameters"], sender]}]
    code, lines = shown(capsys)
    assert (0, "none of the alert topic; contacts of the policy get email by SES") == (
        code,
        lines["subscribers"],
    )


@pytest.mark.parametrize("mode", ["observe", "ask"])
def test_a_contact_that_nothing_reaches_is_named(
    mode: str, cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its questions would fail; from mode `ask` on somebody should look. A channel of everybody
    reaches only those without one of their own, and a subscription whose filter may leave questions
    out for none."""
    contacts = (
        "{ops: {emails: [ops@example.com]}, ml: {emails: [a@example.com]}, web: "
        "{lists: [web@example.com]}}"
    )
    cloud.answers["/api/policy"]["document"] = f"mode: {mode}\nownership: {{contacts: {contacts}}}"
    cloud.pages = cloud.pages[:1]
    code, lines = shown(capsys)
    says = (
        "1 confirmed; nothing reaches the contacts ml, web (set EmailSender or Slack, "
        "or let ALERT_EMAIL"
    )
    assert (int(mode == "ask"), True) == (code, lines["subscribers"].startswith(says)), lines

    def names() -> list[str]:
        governor.main(["--json", "status"])
        found: list[str] = json.loads(capsys.readouterr().out)["subscribers"]["unreached"]
        return found

    cloud.filters["arn:aws:sns:mail"] = '{"severity": ["critical"]}'
    assert ["ops", "ml", "web"] == names()
    cloud.filters["arn:aws:sns:mail"] = json.dumps(
        {"kind": [{"exists": False}, {"anything-but": ["instance-idle"]}]}
    )
    assert ["ml", "web"] == names()

    cloud.versions["2"] = ["AWSPREVIOUS"]
    assert ["ml", "web"] == names()
    contacts = contacts.replace("[a@example.com]", "[a@example.com], slack_channel: C0ML")
    contacts = contacts.replace("{lists: [web@example.com]}", "{}")
    cloud.answers["/api/policy"]["document"] = f"mode: {mode}\nownership: {{contacts: {contacts}}}"
    assert (0, "1 confirmed") == ((found := shown(capsys))[0], found[1]["subscribers"])

    cloud.versions.pop("2")
    sender = {"ParameterKey": "EmailSender", "ParameterValue": "gpu@example.com"}
    cloud.stacks = [{**STACK, "Parameters": [*STACK["Parameters"], sender]}]
    assert ["web"] == names()
    cloud.subscriptions = cloud.subscriptions[:1]
    assert ["web"] == names()


def test_a_second_stack_and_a_table_without_protection_are_found(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    """However they were deployed: `make deploy` alone refuses the one and mends the other."""
    assert shown(capsys)[1]["safeguards"].startswith("the state table is protected; no other stack")

    parameters = [one for one in STACK["Parameters"] if one["ParameterKey"] != "DeletionProtection"]
    open_to_all = {"ParameterKey": "DeletionProtection", "ParameterValue": "false"}
    cloud.stacks = [
        {**STACK, "Parameters": [*parameters, open_to_all]},
        {**STACK, "StackName": "gpu-governor-prod"},
        {**STACK, "StackName": "left", "StackStatus": "ROLLBACK_COMPLETE"},
    ]
    code, lines = shown(capsys)
    assert 1 == code
    assert (
        "the stack gpu-governor-prod governs Purpose=GPU-Workload, too: remove one; "
        "the state table is not protected against deletion: run `make deploy`"
    ) == lines["safeguards"]


@pytest.mark.parametrize(
    ("key", "policy", "is_wrong", "said"),
    [
        (
            "GpuGovernor",
            "",
            False,
            "IAM denies stops and terminations of instances with the tag key GpuGovernor",
        ),
        (
            "GpuGovernor",
            "exemption: {tag_key: TeamKeep, tag_value: 'yes'}",
            True,
            "the policy exempts by the key TeamKeep, and IAM denies by GpuGovernor alone: run "
            '`make deploy PARAMETERS="ExemptionTagKey=TeamKeep"`, and set it in the member stacks',
        ),
        (
            "GpuGovernor",
            "exemption: {tag_key: 'team keep', tag_value: 'yes'}",
            True,
            "the policy exempts by the key team keep, which ExemptionTagKey cannot be: "
            "IAM denies by "
            "GpuGovernor alone. Choose a key of at most 128 letters, digits and + - = . _ : / @",
        ),
        (
            "GpuGovernor",
            "overrides: [{name: one, match: {tags: {Team: ml}}, "
            "set: {exemption: {tag_key: Keep, tag_value: 'yes'}}}]",
            True,
            "overrides exempt by the key Keep, which IAM does not see: it denies by "
            "GpuGovernor alone. "
            "Use one key in the whole policy",
        ),
        (
            None,
            "",
            True,
            "the stack is of an earlier release, whose IAM does not protect exempt instances: "
            "run `make deploy`",
        ),
    ],
)
def test_the_exemption_key_of_iam_is_compared_with_the_policys(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    key: str | None,
    policy: str,
    is_wrong: bool,
    said: str,
) -> None:
    """IAM takes one exact key, and the stack's parameter says which."""
    others = [one for one in STACK["Parameters"] if one["ParameterKey"] != "ExemptionTagKey"]
    own = [] if key is None else [{"ParameterKey": "ExemptionTagKey", "ParameterValue": key}]
    cloud.stacks = [{**STACK, "Parameters": [*others, *own]}]
    cloud.answers["/api/policy"]["document"] = f"{POLICY}\n{policy}"

    code, lines = shown(capsys)

    assert (int(is_wrong), said) == (code, lines["exemption"])
    assert "exemption" in doctor._OF_A_DEPLOY


@pytest.mark.parametrize(
    ("targets", "has_members"),
    [
        ("", False),
        (f", accounts: ['{ACCOUNT}']", False),
        (f", accounts: ['{ACCOUNT}', '111122223333']", True),
        (", units: [ou-abcd-11111111]", True),
    ],
)
def test_the_exemption_line_says_that_it_reads_no_member_stack(
    cloud: Cloud, targets: str, has_members: bool
) -> None:
    """The caller's credentials are of the hub's account."""
    cloud.answers["/api/policy"]["document"] = (
        f"mode: ask\ntargets: {{regions: [us-east-1]{targets}}}\n"
    )
    stack = status.Stack("gpu-governor", cloud)  # type: ignore[arg-type]
    said = status.read(stack, ("exemption",))["exemption"].text

    assert said.startswith(
        "IAM denies stops and terminations of instances with the tag key GpuGovernor"
    )
    assert has_members is said.endswith(
        "; that of the member stacks is not read from here: compare their "
        "ExemptionTagKey (docs/accounts.md)"
    )


@pytest.mark.parametrize(
    ("denied", "line", "said"),
    [
        ("states", "last sweep", "not readable: needs states:ListExecutions"),
        (
            "sqs:GetQueueAttributes",
            "undelivered",
            "not readable: needs cloudformation:ListStackResources, and",
        ),
        (
            "cloudwatch:describe_alarms",
            "alarms",
            "not readable: needs cloudformation:ListStackResources, and",
        ),
        (
            "/api/policy",
            "mode",
            "not readable: AWS refused the call: your identity needs execute-api:Invoke",
        ),
        (
            "scheduler",
            "schedule",
            "not readable: needs cloudformation:ListStackResources, and scheduler:",
        ),
        (
            "sns:list_subscriptions_by_topic",
            "subscribers",
            "not readable: needs sns:ListSubscriptionsByTopic",
        ),
        ("cloudformation", "stack", "not readable: needs cloudformation:DescribeStacks"),
    ],
)
def test_a_line_that_may_not_be_read_says_what_it_needs(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    denied: str,
    line: str,
    said: str,
) -> None:
    """The other lines are there; it never looks as if all were well."""
    monkeypatch.setenv("GOVERNOR_API_URL", "https://api.example.com")
    cloud.denied = {denied}
    code, lines = shown(capsys)

    assert 1 == code
    assert lines[line].startswith(said)
    assert "none is open" == lines["questions"]


def test_without_a_stack_there_is_no_screen(
    cloud: Cloud, capsys: pytest.CaptureFixture[str]
) -> None:
    with mock.patch.object(
        cloud, "_answer", side_effect=client_error("ValidationError", "does not exist")
    ):
        assert 1 == governor.main(["status", "--stack-name", "other"])
    said = capsys.readouterr()
    assert ("", True) == (said.out, "no stack 'other' in us-east-1" in said.err)


def test_the_docs_name_what_it_needs() -> None:
    """Every action, so that a role can be made for it."""
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    actions = {
        one for text in status._NEEDS.values() for one in re.findall(r"\b[a-z-]+:[A-Z]\w+", text)
    }

    assert 6 < len(actions)
    assert set() == {one for one in actions if f"`{one}`" not in page}


def test_json_holds_the_same(cloud: Cloud, capsys: pytest.CaptureFixture[str]) -> None:
    cloud.answers["/api/approvals"] = {"questions": [QUESTION]}
    cloud.denied = {"states"}
    assert 1 == governor.main(["status", "--json"])
    found = json.loads(capsys.readouterr().out)

    assert ("1.2.3", "ask", "v7") == (
        found["stack"]["version"],
        found["mode"],
        found["policy"]["in_force"],
    )
    assert {"open": 1, "usd_per_day": "786.4872", "without_price": 0} == found["questions"]
    assert found["last_sweep"]["needs"].startswith("states:ListExecutions")
    assert {"targets": 3, "unread": {}} == found["targets"]


@pytest.mark.parametrize("is_well", [True, False])
def test_doctor_says_whether_the_deploy_worked(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_well: bool
) -> None:
    """By lines of the screen; and exit status 1 where one of them needs a look."""
    one = SimpleNamespace(
        found=(),
        work=None,
        evidence=None,
        metric="",
        faults_are_seen=True,
        heat_alarm_sees=True,
        unknown_owner=None,
        instance=SimpleNamespace(instance_id="i-1"),
    )
    monkeypatch.setattr(doctor, "over_the_fleet", lambda *_: [one])
    if not is_well:
        cloud.subscriptions, cloud.executions = [], []
    code = governor.main(["doctor"])
    checklist, _, telemetry = capsys.readouterr().out.partition("\n\n")
    lines = [line.split()[:2] for line in checklist.splitlines()]

    bad = "ok" if is_well else "LOOK"
    assert int(not is_well) == code
    assert [
        ["ok", "stack"], ["ok", "policy"], ["ok", "exemption"], ["ok", "schedule"], [bad, "last"],
        ["ok", "targets"], ["ok", "states"], [bad, "subscribers"], ["ok", "alarms"],
        ["ok", "telemetry"], ["did", "it"],
    ] == lines  # fmt: skip
    end = "yes" if is_well else "not yet: 2 of 10 need a look"
    assert checklist.endswith(f"did it work? {end}")
    assert telemetry.endswith("1 right\n")
    assert is_well != ("none has ended yet: wait for the schedule's next one" in checklist)


def test_doctor_of_a_file_or_in_json_asks_nothing_of_the_stack(
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A file may be tried without one; machines read `governor status --json`."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("mode: ask")
    cloud.denied = {"cloudformation"}
    monkeypatch.setattr(doctor, "over_the_fleet", lambda *_: [])
    assert 0 == governor.main(["doctor", "--json"])
    assert "[]" == capsys.readouterr().out.strip()
    assert 0 == governor.main(["doctor", "--file", str(policy)])
    assert "did it work" not in capsys.readouterr().out


def test_doctor_where_no_instance_is_selected_needs_a_look(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tag that nobody has set is the commonest reason for silence."""
    assert cloud
    book = parse_policy("selector: {tag_key: Team, tag_value: GPUs}")
    monkeypatch.setattr(doctor, "examine", lambda *_: [])
    monkeypatch.setattr(
        doctor, "over_the_fleet", lambda _, look: look(Target(ACCOUNT, "us-east-1"), book)
    )
    assert 1 == governor.main(["doctor"])
    says = "LOOK  telemetry    no running instance here carries Team=GPUs: tag those to be judged"
    assert says in capsys.readouterr().out


def test_doctor_goes_on_where_the_policy_cannot_be_read(
    cloud: Cloud, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other lines may say why."""
    assert cloud

    def unreachable(*_: object) -> None:
        raise CommandError("the API cannot be reached")

    monkeypatch.setattr(doctor, "over_the_fleet", unreachable)
    assert 1 == governor.main(["doctor"])
    out = capsys.readouterr().out
    assert "ok    stack" in out
    assert "LOOK  telemetry    not readable: the API cannot be reached\n" in out
    assert "did it work? not yet: 1 of 10 needs a look" in out

    assert (1, "") == (governor.main(["doctor", "--json"]), capsys.readouterr().out)


@pytest.mark.parametrize(
    ("stack_status", "says"),
    [
        (
            "REVIEW_IN_PROGRESS",
            "is not deployed: nobody has accepted its change set: run make deploy STACK=",
        ),
        ("CREATE_IN_PROGRESS", "is being created"),
        ("ROLLBACK_COMPLETE", "could not be created (ROLLBACK_COMPLETE)"),
        ("CREATE_COMPLETE", "is no stack of GPU Governor: pass --stack-name"),
    ],
)
@pytest.mark.parametrize(
    "command", [["status"], ["doctor"], ["restore", "--from", "copy"], ["mode", "ask"]]
)
def test_a_stack_that_is_not_deployed_or_another_product_s_is_said_to_be(
    command: list[str],
    stack_status: str,
    says: str,
    cloud: Cloud,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """After a change set that nobody accepted, too; no traceback."""
    others = (
        [{"OutputKey": "Url", "OutputValue": "https://example.com"}]
        if "COMPLETE" in stack_status
        else []
    )
    cloud.stacks = [{**STACK, "StackStatus": stack_status, "Outputs": others}]

    assert 1 == governor.main(command)
    said = capsys.readouterr()
    assert ("", True) == (said.out, f"the stack 'gpu-governor' {says}" in said.err), said
