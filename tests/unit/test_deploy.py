"""`make deploy`: what it asks and takes, and what it refuses before anything is created."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError, NoCredentialsError

from local.engine.templates import load_template
from scripts import deploy
from scripts.deploy import SAM, Deployment
from scripts.deploy_parameters import DeployError, for_sam
from scripts.make_arguments import names_in

ROOT = Path(__file__).parents[2]
OURS = {"Mode": "observe", "SelectorTagValue": "GPU-Workload", "SweepRateMinutes": "5"}


def a_stack(name: str, status: str = "CREATE_COMPLETE", **parameters: str) -> dict[str, Any]:
    """A stack of the template, as CloudFormation describes it."""
    listed = [{"ParameterKey": k, "ParameterValue": v} for k, v in {**OURS, **parameters}.items()]
    outputs = [
        {"OutputKey": "PolicyBucketName", "OutputValue": "bucket"},
        {"OutputKey": "PolicyParameterName", "OutputValue": "policy"},
    ]
    return {"StackName": name, "StackStatus": status, "Parameters": listed, "Outputs": outputs}


class Account:
    """An account: its stacks, whether a policy is stored, and every command that was run on it."""

    region_name = "us-east-1"

    def __init__(self, *stacks: dict[str, Any], stored: bool = False) -> None:
        self.stacks = {one["StackName"]: one for one in stacks}
        self.stored = stored
        self.signed_in = True
        self.commands: list[list[str]] = []
        self.set: list[dict[str, str]] = []
        self.shown: list[bool] = []
        self.python = 0
        self.deploy_status = [0, 0]
        self.confirms = True
        self.log_groups: list[str] = []
        self.parameter = (
            'mode: observe\nselector: {tag_key: Purpose, tag_value: "GPU-Workload"}\n\n'
        )

    def client(self, service: str, region_name: str) -> Any:
        """All services at once."""
        assert service in ("sts", "cloudformation", "s3", "logs", "ssm")
        assert region_name
        return self

    def get_caller_identity(self) -> dict[str, str]:
        """STS."""
        if not self.signed_in:
            raise NoCredentialsError
        return {"Account": "123456789012"}

    def get_paginator(self, name: str) -> Any:
        """CloudFormation's, two stacks a page, or those of the logs."""
        assert name in ("describe_stacks", "describe_log_groups")
        return self

    def paginate(self, logGroupNamePrefix: str = "") -> list[dict[str, Any]]:
        """The pages."""
        if logGroupNamePrefix:
            found = [one for one in self.log_groups if one.startswith(logGroupNamePrefix)]
            return [{"logGroups": [{"logGroupName": one}]} for one in found]
        every = list(self.stacks.values())
        return [{"Stacks": every[at : at + 2]} for at in range(0, len(every), 2)]

    def get_parameter(self, Name: str) -> dict[str, Any]:
        """SSM."""
        assert "policy" == Name
        return {"Parameter": {"Value": self.parameter}}

    def list_object_versions(self, **_: object) -> dict[str, Any]:
        """S3."""
        return {"Versions": [{"VersionId": "1"}]} if self.stored else {}

    def run(self, command: list[str], *, shows_change_set: bool = True) -> int:
        """Python 3.13, `sam build` and `sam deploy`."""
        if command[0] == "python3.13":
            return self.python
        self.commands.append(command[1:])
        if command[1] != "deploy":
            return 0
        values = yaml.safe_load(
            Path(
                command[command.index("--parameter-overrides") + 1].removeprefix("file://")
            ).read_text(encoding="utf-8")
        )
        values = {name: as_sam_reads_it(value) for name, value in values.items()}
        self.set.append(values)
        self.shown.append(shows_change_set)
        status = self.deploy_status.pop(0)
        name = command[command.index("--stack-name") + 1]
        if status == 0 and self.confirms:
            self.stacks.setdefault(name, a_stack(name, **values))
        return status


def as_sam_reads_it(value: str) -> str:
    """Quotes around it and backslashes go, twice."""
    for _ in range(2):
        value = value[1:-1].replace("\\ ", " ").replace('\\"', '"').replace("\\'", "'")
    return value


def deployed(
    account: Account, answers: Callable[[str, str], str] | None = None, **given: str
) -> Account:
    """`make deploy` with these variables; without `answers`, where there is no terminal."""
    if answers is None:
        given.setdefault("YES", "1")
    Deployment(given, answers, session=account, run=account.run)()
    return account


def refusal(account: Account, **given: str) -> str:
    """Why `make deploy` refuses. Nothing was built or deployed by then."""
    with pytest.raises(DeployError) as refused:
        deployed(account, None, **given)
    assert [] == account.commands
    return str(refused.value)


def test_a_first_deploy_takes_what_is_given_and_protects_the_table_afterwards(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A table that is protected from the start would stay in the way when the create fails."""
    account = deployed(Account(), REGION="eu-west-1", MODE="ask", ALERT_EMAIL="ops@example.com")

    build, first, second = account.commands
    assert ["build", "--region", "eu-west-1"] == build
    assert ["deploy", "--stack-name", "gpu-governor", "--region", "eu-west-1"] == first[:5]
    assert {"--no-confirm-changeset", "--no-fail-on-empty-changeset"} <= set(first)
    expected = {"Mode": "ask", "AlertEmail": "ops@example.com", "DeletionProtection": "false"}
    assert [expected, {"DeletionProtection": "true"}] == account.set
    assert [True, False] == account.shown
    assert "--no-confirm-changeset" in second
    assert "--profile" not in first
    said = capsys.readouterr().out
    assert "Creates the stack gpu-governor in 123456789012/eu-west-1" in said
    assert "ops@example.com" in said
    assert "bin/governor mode ask" not in said
    deployed(Account())
    assert "bin/governor mode ask\n" in capsys.readouterr().out


def test_a_first_deploy_at_a_terminal_is_guided(capsys: pytest.CaptureFixture[str]) -> None:
    """Questions with defaults, a wrong answer again; then a summary. SAM CLI asks about the change
    set."""
    asked: list[tuple[str, str]] = []
    mode = iter(["everything", "ask"])

    def answer(question: str, default: str) -> str:
        asked.append((question, default))
        return next(mode) if question.startswith("Mode") else default

    account = deployed(Account(), answer)

    assert ["us-east-1", "gpu-governor", "observe", "observe", "GPU-Workload", ""] == [
        d for _, d in asked
    ]
    said = capsys.readouterr().out
    assert "MODE=everything is not allowed: set one of 'observe', 'ask', 'auto'" in said
    assert said.index("Mode                ask") < said.index(
        "Nothing is created before you see the change set."
    )
    assert "--confirm-changeset" in account.commands[1]
    assert "ask" == account.set[0]["Mode"]


def test_a_later_deploy_asks_only_for_the_region_and_sets_only_what_is_given() -> None:
    """All other parameters keep their values. Protection is on again after each."""
    asked: list[str] = []

    def answer(question: str, default: str) -> str:
        asked.append(question)
        return default

    account = deployed(
        Account(a_stack("gpu-governor")), answer, STACK="gpu-governor", ALERT_EMAIL="a@b.c"
    )

    assert ["Region"] == asked
    assert [{"AlertEmail": "a@b.c", "DeletionProtection": "true"}] == account.set


def test_sam_uses_the_profile_that_was_checked() -> None:
    """As its option, which wins over keys in the environment."""
    assert ["--profile", "ops"] == deployed(Account(), PROFILE="ops").commands[1][-2:]


def test_deletion_protection_is_whatever_is_asked_for() -> None:
    """Then nobody adds a second change set."""
    account = deployed(Account(), PARAMETERS="DeletionProtection=false")
    assert [{"DeletionProtection": "false"}] == account.set


def test_a_change_set_that_nobody_confirms_is_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    """SAM CLI reports success then."""
    account = Account()
    account.confirms = False
    deployed(account, lambda _, default: default)
    assert 1 == len(account.set)
    assert "Nothing was deployed" in capsys.readouterr().out


def test_a_failure_is_reported_once_and_says_what_is_not_done() -> None:
    """A failure of the create, and of the second change set."""
    account = Account()
    account.deploy_status = [1]
    with pytest.raises(DeployError, match="sam deploy failed"):
        deployed(account)
    assert 1 == len(account.set)

    account = Account()
    account.deploy_status = [0, 1]
    with pytest.raises(
        DeployError, match="not protected against deletion yet: run the same make deploy again"
    ):
        deployed(account)


def test_without_a_terminal_somebody_must_have_said_yes() -> None:
    """The change set could not be confirmed."""
    account = Account()
    with pytest.raises(DeployError, match="set YES=1"):
        Deployment({}, None, session=account, run=account.run)()
    assert "YES takes 1" in refusal(account, YES="no")
    assert [] == account.commands


def test_what_the_machine_or_the_login_lacks_is_said_with_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before a question is asked or anything is built."""
    account = Account()
    account.python = 127
    assert "python3.13 with pip is missing" in refusal(account)

    account = Account()
    account.region_name = ""
    assert refusal(account).startswith(
        "there is no Region: set REGION=, as in make deploy REGION=us-east-1"
    )
    assert "'us-east1' is no Region: set REGION=" in refusal(account, REGION="us-east1")
    monkeypatch.setenv("AWS_REGION", "us-west-2")
    assert "us-west-2" in deployed(Account()).commands[0]
    assert "eu-west-1" in deployed(Account(), REGION="eu-west-1").commands[0]

    account = Account()
    account.signed_in = False
    assert refusal(account).startswith("there are no AWS credentials: set PROFILE=, or sign in")

    config = tmp_path / "config"
    config.write_text("[profile lab]\nregion = us-east-1\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    with pytest.raises(DeployError, match="no profile 'lap': set PROFILE= to one of: lab"):
        Deployment({"PROFILE": "lap", "YES": "1"}, run=account.run)()
    config.write_text("")
    with pytest.raises(DeployError, match="no profile 'lap': make one by aws configure sso"):
        Deployment({"PROFILE": "lap", "YES": "1"}, run=account.run)()


@pytest.mark.parametrize(
    "status", ["CREATE_COMPLETE", "UPDATE_COMPLETE", "DELETE_FAILED", "CREATE_IN_PROGRESS"]
)
def test_a_second_stack_over_the_same_instances_is_refused(status: str) -> None:
    """In the same account and Region, with the same value of the tag, in any state but without
    resources."""
    twin = Account(a_stack("other"), a_stack("more", SelectorTagValue="B"), a_stack("gpu", status))
    twin.stacks.pop("other")
    said = refusal(twin, STACK="gpu-governor-2")
    assert "the stack gpu governs the instances with the tag Purpose=GPU-Workload" in said
    assert "set STACK=gpu and deploy that one, or set SELECTOR= to another value" in said
    assert "stack more governs" in refusal(twin, STACK="gpu-governor-2", SELECTOR="B")
    assert [] == twin.set

    assert "C" == deployed(twin, STACK="gpu-governor-2", SELECTOR="C").set[0]["SelectorTagValue"]


def test_a_stack_does_not_move_onto_the_instances_of_another() -> None:
    """Also not by an update."""
    account = Account(a_stack("gpu-governor"), a_stack("other", SelectorTagValue="B"))
    assert "the stack other governs" in refusal(account, SELECTOR="B")


def test_two_stacks_that_are_there_already_can_be_updated(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An earlier release did not refuse the second: it is named, and not in the way."""
    account = deployed(Account(a_stack("gpu-governor"), a_stack("gpu-governor-prod")))
    assert 1 == len(account.set)
    assert "Warning: the stack gpu-governor-prod governs" in capsys.readouterr().out


@pytest.mark.parametrize("left", ["REVIEW_IN_PROGRESS", "ROLLBACK_COMPLETE"])
def test_a_stack_without_resources_is_in_nobody_s_way(left: str) -> None:
    """Nothing is governed by it."""
    assert 2 == len(deployed(Account(a_stack("left", left))).set)


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            "ROLLBACK_COMPLETE",
            "aws cloudformation delete-stack --stack-name gpu-governor --region us-east-1",
        ),
        ("ROLLBACK_FAILED", "describe-stack-events"),
        ("UPDATE_ROLLBACK_FAILED", "continue-update-rollback"),
        ("UPDATE_IN_PROGRESS", "wait until that has ended"),
    ],
)
def test_a_stack_that_cannot_be_updated_is_refused_with_what_to_do(status: str, said: str) -> None:
    """CloudFormation's own answer comes after the build, and does not say it."""
    assert said in refusal(Account(a_stack("gpu-governor", status)))


def test_a_create_that_would_fail_at_a_name_is_refused() -> None:
    """A function that ran while its stack was removed has made its log group again."""
    account = Account()
    others = [
        "/aws/lambda/gpu-governor-2/put_away",
        "/aws/vendedlogs/states/gpu-governor-2",
        "/aws/lambda/gpu",
    ]
    account.log_groups = others
    deployed(account)

    left = ["/aws/lambda/gpu-governor/put_away", "/aws/vendedlogs/apis/gpu-governor"]
    account = Account()
    account.log_groups = [*others, *left]
    assert f"has left {', '.join(left)}, and a create would fail there" in refusal(account)
    assert 2 == len(deployed(account, STACK="gpu-governor-3").set)


def test_a_stack_of_somebody_else_is_left_alone() -> None:
    """Its name is taken."""
    stack = {"StackName": "gpu-governor", "StackStatus": "CREATE_COMPLETE"}
    assert "is not one of GPU Governor: set STACK=" in refusal(Account(stack))


def test_a_stored_policy_is_never_changed_by_a_deploy(tmp_path: Path) -> None:
    """`Mode` and `PolicyYaml` are seeds: the command that counts is named."""
    account = Account(a_stack("gpu-governor"), a_stack("lab", SelectorTagValue="B"), stored=True)
    said = refusal(account, MODE="ask")
    assert (
        "the policy of gpu-governor is stored as versions, and Mode no longer counts: use" in said
    )
    assert "use bin/governor mode ask, without a deploy" in said
    assert "bin/governor mode auto --stack-name lab" in refusal(account, MODE="auto", STACK="lab")
    assert "bin/governor policy put FILE" in refusal(
        account, PARAMETERS="'PolicyYaml=targets: {regions: [us-east-1]}'"
    )

    assert [{"DeletionProtection": "true"}] == deployed(account).set


def test_a_stored_policy_names_the_selector_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Until it is changed there as well, IAM denies what the sweep finds."""
    deployed(Account(a_stack("gpu-governor"), stored=True), SELECTOR="B")
    assert "selector: {tag_key: Purpose, tag_value: B} into it" in capsys.readouterr().out
    deployed(Account(a_stack("gpu-governor"), stored=True), SELECTOR="GPU-Workload")
    deployed(Account(a_stack("gpu-governor")), SELECTOR="B")
    assert "Warning" not in capsys.readouterr().out


def test_a_seed_counts_until_a_policy_is_stored() -> None:
    """Also of a release that had no versions."""
    assert "ask" == deployed(Account(a_stack("gpu-governor")), MODE="ask").set[0]["Mode"]
    old = Account({**a_stack("gpu-governor"), "Outputs": []}, stored=True)
    assert "ask" == deployed(old, MODE="ask").set[0]["Mode"]


def test_an_edit_of_the_ssm_parameter_is_not_lost() -> None:
    """A deploy that sets a seed would put back what the parameters say."""
    account = Account(a_stack("gpu-governor"))
    account.parameter += "caps: {account_actions_per_hour: 3}\n"
    said = refusal(account, MODE="ask")
    assert "somebody has edited the SSM parameter policy" in said
    assert "bin/governor policy get > policy.yaml, bin/governor policy put policy.yaml" in said
    deployed(account)

    seeded = Account(a_stack("gpu-governor", PolicyYaml="caps: {account_actions_per_hour: 3}"))
    seeded.parameter = account.parameter
    assert "ask" == deployed(seeded, MODE="ask").set[0]["Mode"]


def test_whether_a_policy_is_stored_must_be_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without permission to look, a seed is refused."""
    account = Account(a_stack("gpu-governor"))
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "ListObjectVersions")

    def fail(**_: object) -> None:
        raise denied

    monkeypatch.setattr(account, "list_object_versions", fail)
    assert "s3:ListBucketVersions" in refusal(account, MODE="ask")


def test_a_first_policy_comes_from_a_file_and_arrives_whole(tmp_path: Path) -> None:
    """Quotes, backslashes, several lines."""
    text = (
        "ownership:\n  default_contacts: [ops]\n  contacts: {ops: {emails: "
        '["o\'k@example.com"]}}\n# \\" é\n'
    )
    file = tmp_path / "policy.yaml"
    file.write_text(text, encoding="utf-8")
    assert text == deployed(Account(), POLICY=str(file)).set[0]["PolicyYaml"]


def test_a_first_policy_with_another_exemption_key_than_iam_is_refused(tmp_path: Path) -> None:
    """IAM denies by one exact key. A stack that is there keeps its own, which `governor doctor`
    compares."""
    file = tmp_path / "policy.yaml"
    file.write_text("exemption: {tag_key: Keep, tag_value: 'yes'}\n", encoding="utf-8")

    said = refusal(Account(), POLICY=str(file))
    assert (
        "exempts by the key Keep, and IAM would deny by GpuGovernor: add ExemptionTagKey=Keep"
        in said
    )
    assert deployed(Account(), POLICY=str(file), PARAMETERS="ExemptionTagKey=Keep").set
    wrong = refusal(
        Account(a_stack("gpu-governor")), POLICY=str(file), PARAMETERS="ExemptionTagKey=Other"
    )
    assert "IAM would deny by Other" in wrong
    assert deployed(Account(a_stack("gpu-governor")), POLICY=str(file)).set

    file.write_text("exemption: {tag_key: team keep, tag_value: 'yes'}\n", encoding="utf-8")
    impossible = refusal(Account(), POLICY=str(file))
    assert "exempts by the key team keep, which ExemptionTagKey cannot be" in impossible
    assert "letters, digits and + - = . _ : / @" in impossible


def test_a_first_policy_that_would_be_cut_or_refused_is_not_deployed(tmp_path: Path) -> None:
    """CloudFormation takes 4,096 bytes. A longer one is stored by the command line."""
    file = tmp_path / "policy.yaml"
    for text, said in (
        ("# " + "é" * 2048, "POLICY has 4,098 bytes, and CloudFormation takes 4,096 at most"),
        ("# " + "x" * 4095, "store it with bin/governor policy put FILE, which takes 65,536"),
        ("mode: ask\n", "set MODE= and SELECTOR= instead"),
        (
            "idle: {max_gpu_percent: lots}\n",
            "the policy was refused: idle.max_gpu_percent (line 1): ",
        ),
        ("\n\nidel: {}\n", "the policy was refused: idel (line 3): "),
    ):
        file.write_text(text, encoding="utf-8")
        assert said in refusal(Account(), POLICY=str(file)), text
    assert "could not be read" in refusal(Account(), POLICY=str(tmp_path / "none.yaml"))


def test_the_page_s_example_of_parameters_is_allowed() -> None:
    """It is the error's advice, too."""
    page = (ROOT / "docs/lifecycle.md").read_text(encoding="utf-8")
    example = re.search(r"other parameters of `template.yaml`, for example `\"(.*)\"`", page)
    assert example
    given = deployed(Account(), PARAMETERS=example[1]).set[0]
    assert ("365", "gpu admins") == (given["LogRetentionDays"], given["OidcApproverGroup"])


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        (
            "PolicyYaml=targets: {regions: [us-east-1]}",
            "'{regions:' in PARAMETERS is not Name=Value: quote values",
        ),
        ("PolicyYaml='targets:", "PARAMETERS cannot be read"),
        ("LogRetention=30", "no parameter 'LogRetention': did you mean LogRetentionDays?"),
        ("LogRetentionDays=31", "LogRetentionDays=31 is not allowed: set one of '30', '60'"),
        (
            "OrganizationId=me",
            "OrganizationId=me is not allowed: it must be the ID of an organization",
        ),
        (
            "OidcGroupsClaim='my groups'",
            "OidcGroupsClaim=my groups is not allowed: it must be one word without spaces",
        ),
        (f"MemberRoleName={'x' * 52}", " is not allowed: it has 52 characters, and 51 is the most"),
        ("AuditLockDays=0", "AuditLockDays=0 is not allowed: it must be a number from 1 to 36500"),
        ("ReservedConcurrency=many", " is not allowed: it must be a number from 0 on"),
        ("LogRetentionDays=30 LogRetentionDays=60", "set twice"),
        ("Mode=ask", "Mode is set twice: by MODE= and in PARAMETERS"),
        ("AlertEmail=ops", "ALERT_EMAIL=ops is no address"),
    ],
)
def test_other_parameters_are_checked_before_anything_is_created(
    parameters: str, said: str
) -> None:
    """An unquoted value would be cut at its first space, and a mistyped name would be ignored."""
    assert said in refusal(Account(), PARAMETERS=parameters, MODE="ask")


def test_every_pattern_of_the_template_is_said_in_words() -> None:
    """CloudFormation and `make deploy` name the rule; a pattern alone is none for most people."""
    parameters = load_template(ROOT / "template.yaml")["Parameters"]
    patterns = {name for name, rules in parameters.items() if "AllowedPattern" in rules}
    assert patterns
    assert patterns == {
        name for name, rules in parameters.items() if "ConstraintDescription" in rules
    }


def test_other_parameters_are_passed_on() -> None:
    """Quoted as in a shell."""
    account = deployed(
        Account(),
        PARAMETERS="LogRetentionDays=365 OidcIssuer=https://id.example.com 'OidcClientId=a b'",
    )
    expected = {
        "LogRetentionDays": "365",
        "OidcIssuer": "https://id.example.com",
        "OidcClientId": "a b",
    }
    assert {**expected, "DeletionProtection": "false"} == account.set[0]


@pytest.mark.skipif(not SAM.exists(), reason="SAM CLI is not installed: make env-sam")
def test_sam_cli_itself_reads_every_value_whole(tmp_path: Path) -> None:
    """Releases differ in what they strip from values; the pinned one is asked."""
    chance = random.Random(14)
    values = {
        f"P{n}": "".join(chance.choices(" \"'\\\nab:#é{}[]😀\t", k=chance.randint(0, 30)))
        for n in range(300)
    }
    file = tmp_path / "parameters.yaml"
    file.write_text(for_sam(values), encoding="utf-8")
    script = (
        "import json, sys; from samcli.cli.types import CfnParameterOverridesType as Type;"
        "print(json.dumps(Type().convert((f'file://{sys.argv[1]}',), None, None)))"
    )
    python = SAM.with_name("python")
    found = subprocess.run(
        [python, "-c", script, file], capture_output=True, text=True, check=True, env={}
    )
    assert values == json.loads(found.stdout)


def test_make_hands_every_variable_on(tmp_path: Path) -> None:
    """Also with spaces and quotes: no shell reads them in between."""
    fake = tmp_path / "Makefile"
    target = "deploy: arguments env-sam"
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert target in text
    text = text.replace(target, "deploy:").replace(".tools/sam/bin/python -m scripts.deploy", "env")
    fake.write_text(text, encoding="utf-8")
    given = {name: f'it\'s "{name}" x' for name in deploy.NAMES}
    done = subprocess.run(
        ["make", "-f", str(fake), "deploy", *(f"{name}={value}" for name, value in given.items())],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": os.environ["PATH"]},
        cwd=tmp_path,
    )
    lines = done.stdout.splitlines()
    assert {f"{name}={value}" for name, value in given.items()} <= set(lines)
    (flags,) = [one.partition("=")[2] for one in lines if one.startswith("MAKEFLAGS=")]
    assert set(names_in(flags)) == set(deploy.NAMES)


def test_the_command_says_why_it_stops(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line, exit status 2."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert 2 == deploy.main({"REGION": "us-east-1"})
    assert capsys.readouterr().err.startswith("make deploy: there is no terminal")


@pytest.mark.skipif(not SAM.exists(), reason="SAM CLI is not installed: make env-sam")
def test_the_environment_of_sam_is_enough() -> None:
    """A deploy does not install what developers need."""
    done = subprocess.run(
        [SAM.with_name("python"), "-m", "scripts.deploy"],
        cwd=ROOT,
        env={"PYTHONPATH": "layers/shared:.", "PYTHONDONTWRITEBYTECODE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 2 == done.returncode
    assert done.stderr.startswith("make deploy: there is no terminal")


def test_nothing_tells_people_to_edit_what_git_tracks() -> None:
    """samconfig.toml has one environment, and no values of anybody's stack."""
    text = (ROOT / "samconfig.toml").read_text(encoding="utf-8")
    assert "[prod" not in text
    assert "parameter_overrides" not in text
    assert "ENVIRONMENT" not in (ROOT / "Makefile").read_text(encoding="utf-8")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [] == [page.name for page in pages if "samconfig" in page.read_text(encoding="utf-8")]
