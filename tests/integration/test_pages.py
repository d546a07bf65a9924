"""Every command of the other pages of the docs, page by page, in the account of `make cloud`.

One account and one stack serve all pages, and the last page removes the stack.
tests/integration/test_operate.py does the same with docs/operate.md, and with SAM CLI.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from cli.cloud import INSTANCES, READER, Account
from local.demo.organization import UNIT, Sample, put_organization
from local.demo.waste import put_waste
from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud
from scripts.deploy import Deployment
from tests.integration.reader import MEMBER, Reader, check_promise
from tests.shell_blocks import blocks_of, commands_of
from tests.unit.test_docs import PAGES

DOCS = ROOT / "docs"
BEFORE_A_STACK = ("command-line", "preflight", "scan")
WITH_A_STACK = (
    "audit",
    "simulate",
    "health",
    "events",
    "accounts",
    "telemetry",
    "interruptions",
    "channels",
    "policy-versions",
    "develop",
    "lifecycle",
)
"""In this order: instances of the example fleet of telemetry.md would take time in the pages before
it, and the last page removes the stack."""
TEXTS = {
    page: [typed.text for typed in commands_of(DOCS / f"{page}.md")]
    for page in (*BEFORE_A_STACK, *WITH_A_STACK)
}
OTHER_PAGES = {
    "README.md": "the same commands as on docs/scan.md, develop.md and lifecycle.md",
    "CONTRIBUTING.md": "the same commands as on docs/develop.md",
    "agent/README.md": "on a host with GPUs and systemd",
    "docs/operate.md": "tests/integration/test_operate.py",
}
"""Pages whose commands are not typed here, and why."""
ONLY_PARSED = {
    "pipx install": "installs for a person: tests/integration/test_package.py",
    "uvx --from": "fetches a repository: test_package.py installs it, test_scan.py scans",
    "pipx run --spec": "fetches a repository, as `uvx` does",
    "make publisher": "asks a package index",
    "make up": "goes on until Ctrl-C: tests/integration/test_up.py",
    "make demo": "waits for a person: tests/integration/test_demo.py",
    "make check": "runs this test",
    "make build": "needs python3.13",
    ".tools/sam/bin/sam local invoke": "needs a container engine",
}
"""Commands, by their beginning, that tests/unit/test_docs_commands.py parses and nobody types here,
and why."""
STORES_A_VERSION = ("governor mode ", "policy put", "policy rollback", "policy accept")
PEOPLE = {"ada": "ops@example.com", "alice": "alice@example.com", "bob": "bob@example.com"}
"""The people of the policy, by their IAM user. Ada types what nobody else has to."""
SAYS = {
    "governor --version": r"^gpu-governor \S+$",
    "bin/governor preflight": r"^\d+ confirmed, 0 refuted, \d+ unknown$",
    "bin/governor scan": r"^No accelerators were found in 2 accounts and \d+ Regions",
    "aws s3 cp --recursive": rf"/{ACCOUNT}-{REGION}-i-0fedcba9876543210-\S+/\S+\.json",
    "bin/governor simulate --recommend": r"^No wait qualifies\. Too few questions",
    "bin/governor simulate --days 14 --policy": r"^instances  +3 +3$",
    "bin/governor simulate --days 14 --format html": r"^Written to report\.html\.$",
    "bin/governor simulate --traces": r"^instances +1$",
    "governor advice": r"^nothing to advise: no running instance",
    "governor advice --json": r'^  "advice": ',
    "governor advice --dismiss": r"^smaller-type:i-0123456789abcdef0 is left out until \d{4}-",
    "governor spot": r"us-east-1",
    "aws sqs purge-queue": r"^{}$",
    "aws cloudformation list-stack-instances": r'^(?!.*"DetailedStatus": "(?!SUCCEEDED))',
    "aws cloudformation describe-stack-set": r'^\s*"GpuGovernor"$',
    "aws ssm send-command": r'"Status": "Pending"',
    "aws sqs start-message-move-task": r'"TaskHandle": ',
    "bin/governor mode ask": r"^\+mode: ask$",
    "bin/governor policy get": r"^mode: ask$",
    "bin/governor policy diff": r"^\+two_people_for_policy: true$",
    "bin/governor policy put": r"^stored as version \S+$",
    "bin/governor policy history": r"^\S+  \S+  in force ",
    "bin/governor policy rollback": r"^risky: .*; two people must have written or accepted it$",
    "bin/governor policy accept": r"^behind this version: alice@example\.com",
    "bin/governor env-vars": r'"TABLE_NAME": ',
    "governor restore --from COPY --dry-run": r"lacks [1-9]\d* items? of COPY",
    "governor restore --from COPY --confirm": r"^Restored [1-9]\d* items?\. Everything is frozen",
    "governor uninstall": r"^The stack gpu-governor is in .*: UPDATE_COMPLETE\.$",
    "governor uninstall --remove workflows": r"^ended the workflow ",
    "governor uninstall --json": r'"recorded_snapshots": ',
    "governor uninstall --remove-snapshots": r"^no snapshots to remove$",
    "governor uninstall --remove tags,logs,table": r"^deleted the table COPY$",
    "governor uninstall --region eu-west-1 --remove-snapshots": r"^no snapshots to remove$",
    "governor uninstall --region eu-west-1 --remove tags": r"^no tags to remove$",
}
"""Words that a command says at least, by its beginning; of two that fit, the longest."""


class _WithoutSam(Deployment):
    """`make deploy` that hands the template to CloudFormation itself. test_deploy.py and
    test_operate.py run SAM CLI."""

    def __init__(self, cloud: LocalCloud, given: Mapping[str, str]) -> None:
        # At a terminal, somebody takes each default.
        super().__init__(given, ask=lambda _question, default: default, run=lambda _line: 0)
        self._cloud = cloud

    def _deploy(
        self,
        stack: str,
        parameters: Mapping[str, str],
        *,
        confirm: bool,
        shows_change_set: bool = True,
    ) -> None:
        del confirm, shows_change_set  # nothing is shown, so there is nothing to confirm
        if self._describe(stack) is None:
            self._cloud.deploy(self.template, stack, parameters)
            return
        try:
            self._cloud.update(self.template, stack, parameters)
        except ClientError as error:
            # As `sam deploy --no-fail-on-empty-changeset` does.
            if "No updates are to be performed" not in str(error):
                raise


@dataclass
class Walk:
    """A reader on their way through the pages, with what they do between the commands."""

    cloud: LocalCloud
    folder: Path
    sample: Sample
    account: Account

    def __post_init__(self) -> None:
        self.reader = Reader(
            self.cloud,
            self.folder,
            self.account,
            lambda given: _WithoutSam(self.cloud, given),
            self._values(),
        )
        self._lost_at = ""
        self._steps_back = 0

    def _values(self) -> Mapping[str, Callable[[], str]]:
        """Return what the reader puts for each placeholder that is no output of the stack."""
        ec2 = self.cloud.client("ec2")
        subnets = ec2.describe_subnets()["Subnets"]
        return {
            "FILE": lambda: str(ROOT / "examples" / "policies" / "notebooks.yaml"),
            "FOLDER": lambda: "traces",
            "EPISODE": self._episode,
            "HUB_ACCOUNT": lambda: self.sample.research,
            "VPC": lambda: str(subnets[0]["VpcId"]),
            "SUBNET_1": lambda: str(subnets[0]["SubnetId"]),
            "SUBNET_2": lambda: str(subnets[1]["SubnetId"]),
            "BUCKET": lambda: "bundles",
            "SHA256": lambda: "0" * 64,
            "BOT_TOKEN": lambda: "xoxb-1",
            "SIGNING_SECRET": lambda: "s" * 32,
            "ROUTING_KEY": lambda: "r" * 32,
            "TEAMS_URL": lambda: "https://teams.example.com/hook",
            "WEBHOOK_URL": lambda: "https://example.com/hook",
            "32_BYTES_OR_MORE": lambda: "w" * 32,
            "VERSION": self._version,
            "TRAIL": lambda: "trail",
            "TIME": lambda: self._lost_at,
        }

    def _episode(self) -> str:
        """Return the episode of the instance that is left alone, which has a question."""
        return str(self.reader.scene.executions()[INSTANCES["left-alone"]]["name"])

    def _version(self) -> str:
        """Return the newest version of the policy, or one before it."""
        versions = json.loads(self.reader.type("governor policy history --json"))
        return str(versions[self._steps_back]["version"])

    # on the way

    def page(self, name: str) -> None:
        """Type every command of a page, in its order."""
        for text in TEXTS[name]:
            if text.startswith(tuple(ONLY_PARSED)):
                continue
            self._prepare(name, text)
            for person in self._people_for(text):
                said = self.reader.type(text, person, self._account_for(text))
                check_promise(SAYS, text, said)
            self._finish(text)

    def _people_for(self, text: str) -> list[str]:
        """Return who types a command: two people accept a version."""
        if "policy accept" in text:
            return [_user("alice"), _user("bob")]
        return [READER]

    def _account_for(self, text: str) -> str:
        """Return where a command is typed: one deploys to a member account, "there"."""
        is_member = text.startswith("aws cloudformation deploy --stack-name gpu-governor-member")
        return MEMBER if is_member else ACCOUNT

    def deploy(self) -> None:
        """Come as far as section 5 of docs/operate.md, with two more people in the policy."""
        operate = DOCS / "operate.md"
        first_deploy, tag_one, tag_others = (
            typed.text
            for typed in commands_of(operate)
            if typed.text.startswith(("make deploy REGION=us-east-1 ALERT", "aws ec2 create-tags"))
        )
        contact = {
            "emails": list(PEOPLE.values()),
            "identities": {f"aws:{_user(name)}": mail for name, mail in PEOPLE.items()},
        }
        policy = yaml.safe_load(blocks_of(operate, "yaml")[0])
        policy["ownership"]["contacts"]["platform"] = contact
        self._write(policy)
        self.reader.type(first_deploy)
        self.reader.type(tag_one)
        self._store()
        self.reader.type("governor mode ask")
        self.reader.scene.sweep()
        self.reader.type(tag_others)
        self.reader.scene.sweep()
        for name in ("left-alone", "not-needed"):
            self.reader.await_question(INSTANCES[name])

    # what the pages say in words

    def _prepare(self, page: str, text: str) -> None:
        """Do what the page says before a command."""
        self._steps_back = 0
        match page:
            case "accounts" if "describe-stack-set" in text:
                self._govern_the_unit()
            case "accounts" if "delete-stack-instances" in text:
                self._write(self._plain)
                self._store()
            case "telemetry" if text.startswith("aws s3 cp"):
                self.cloud.client("s3").create_bucket(Bucket="bundles")
            case "policy-versions" if "policy diff" in text:
                self._edit(yaml.safe_load(blocks_of(DOCS / f"{page}.md", "yaml")[0]))
            case "policy-versions" if "policy rollback" in text:
                self._steps_back = 1
            case "policy-versions" if text.endswith("as alice, and as bob"):
                self._let_an_override_terminate()
            case "policy-versions" if "put-event-selectors" in text:
                trails = self.cloud.client("cloudtrail")
                trails.create_trail(Name="trail", S3BucketName="bundles")
            case "lifecycle" if "restore-table-to-point-in-time" in text:
                self._lose_records()

    def _finish(self, text: str) -> None:
        """Wait for what follows from a command."""
        if any(command in text for command in STORES_A_VERSION):
            # A version is reviewed within seconds: later than a fast reader pastes the next line.
            self.reader.scene.sweep()
        if "secretsmanager" in text:
            # The addresses are invented: no message goes there.
            secret = self.reader.scene.outputs["ChannelSecretArn"]
            secrets = self.cloud.client("secretsmanager")
            secrets.put_secret_value(SecretId=secret, SecretString="{}")

    def observe(self) -> None:
        """Go back to observe mode, in which two pages begin."""
        self.reader.type("governor mode observe")
        self.reader.scene.sweep()

    def _govern_the_unit(self) -> None:
        """Store the policy of the page: the account in the unit is swept, and no other."""
        self._plain = self._read()
        targets = yaml.safe_load(blocks_of(DOCS / "accounts.md", "yaml")[0])
        assert [UNIT] == targets["targets"]["units"]
        self._edit(targets)
        self._store()
        swept = [one["summary"]["account"] for one in self.reader.scene.sweep()["results"]]
        assert [self.sample.research] == swept

    def _let_an_override_terminate(self) -> None:
        """Store the override of the page, which counts once two people have accepted it."""
        override = yaml.safe_load(blocks_of(DOCS / "policy-versions.md", "yaml")[1])
        # Without the second setting, what comes later would wait for two people.
        trust = {"metrics": {"publishers_are_trusted": True}, "two_people_for_policy": False}
        self._edit({**override, **trust})
        self._store()

    def _lose_records(self) -> None:
        """Delete an episode, right after the time of which the table is restored."""
        time.sleep(1.1)  # DynamoDB restores to a whole second
        self._lost_at = f"{datetime.now(tz=UTC):%Y-%m-%dT%H:%M:%SZ}"
        table = self.reader.scene.outputs["StateTableName"]
        key = {"pk": {"S": f"EPISODE#{self._episode()}"}, "sk": {"S": "EPISODE"}}
        self.cloud.client("dynamodb").delete_item(TableName=table, Key=key)

    def _read(self) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load((self.folder / "policy.yaml").read_text())
        return document

    def _write(self, document: Mapping[str, Any]) -> None:
        text = yaml.safe_dump(dict(document), sort_keys=False)
        (self.folder / "policy.yaml").write_text(text, encoding="utf-8")

    def _edit(self, settings: Mapping[str, Any]) -> None:
        self._write({**self._read(), **settings})

    def _store(self) -> None:
        self.reader.type("governor policy put policy.yaml")
        self.reader.scene.sweep()


def _user(name: str) -> str:
    return f"arn:aws:iam::{ACCOUNT}:user/{name}"


def test_every_command_of_the_pages_works_as_it_is_pasted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None fails, and each says what the page promises."""
    with LocalCloud() as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        now = datetime.now(tz=UTC)
        account = Account(cloud, now)
        put_waste(cloud, now)
        walk = Walk(cloud, tmp_path, put_organization(cloud), account)
        _put_files(tmp_path)

        for name in BEFORE_A_STACK:
            walk.page(name)
        walk.deploy()
        for name in WITH_A_STACK:
            if name in ("policy-versions", "lifecycle"):
                walk.observe()
            walk.page(name)

        tables = cloud.client("dynamodb").list_tables()["TableNames"]
        assert [] == tables
        assert (tmp_path / "report.html").is_file()


def _put_files(folder: Path) -> None:
    """Put what a reader has before a page asks for it: traces, and the bundle of the publisher."""
    traces = folder / "traces"
    traces.mkdir()
    rows = [f"a,0,{minute * 60},{90 if minute < 60 else 0}" for minute in range(1440)]
    lines = ["instance_id,gpu_index,timestamp_s,utilization_gpu", *rows]
    (traces / "a.csv").write_text("\n".join(lines) + "\n")
    bundle = folder / "build" / f"gpu-metrics-publisher-{_version_of_the_publisher()}.tar.gz"
    bundle.parent.mkdir()
    bundle.write_bytes(b"bundle")


def _version_of_the_publisher() -> str:
    project = tomllib.loads((ROOT / "agent" / "pyproject.toml").read_text(encoding="utf-8"))
    return str(project["project"]["version"])


def test_no_page_is_forgotten() -> None:
    """Each page with commands is walked, here or elsewhere."""
    with_commands = {str(page.relative_to(ROOT)) for page in PAGES if list(commands_of(page))}
    assert with_commands == {*(f"docs/{name}.md" for name in TEXTS), *OTHER_PAGES}


def test_the_tables_name_commands_of_the_pages() -> None:
    """Nothing is expected, or left out, that no page has any more."""
    texts = [text for page in TEXTS.values() for text in page]
    named = [*SAYS, *ONLY_PARSED]
    assert [] == [one for one in named if not any(text.startswith(one) for text in texts)]
