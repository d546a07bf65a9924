"""Every command of docs/operate.md, in its order, on an account that has nothing yet."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest

from cli.cloud import INSTANCES, READER, Account
from cli.demo import visitors_key
from cli.governor import main
from local.demo.scene import Scene
from local.engine.cloud import ACCOUNT, REGION, ROOT, LocalCloud
from scripts.deploy import SAM, Deployment
from scripts.release import version
from tests.integration.aws_cli import call, options

pytestmark = pytest.mark.skipif(not SAM.exists(), reason="SAM CLI is not installed: make env-sam")
PAGE = (ROOT / "docs" / "operate.md").read_text(encoding="utf-8")
MEMBER = "210987654321"
TRIED_ELSEWHERE = ("pipx install", "git pull")
"""By tests/integration/test_package.py; and a clone that nothing is pulled into."""
SAYS = {
    "governor --version": rf"^gpu-governor {re.escape(version())}$",
    "governor doctor": r"^ok +telemetry +1 of 1 can be judged\ndid it work\? yes$",
    "governor open --print": r"^http://\S+/console#\S+$",
    "governor simulate --days 2": r"^instances +1$",
    "governor policy check": r"^policy.yaml: ok, version \w+, mode observe$",
    "governor policy put": r"^stored as version \S+$",
    "governor policy history": r"^\S+  \S+  in force ",
    "governor policy get": "^mode: ask$",
    "governor policy diff": r"^\+targets: .*210987654321",
    "governor mode ask": r"^\+mode: ask$",
    "governor mode observe": r"^\+mode: observe$",
    "governor approvals list": "^left-alone  ",
    "governor approvals show left-alone": r"^left-alone \(i-",
    "governor approvals show i-": r"^  Lost: all data on local NVMe",
    "governor approvals keep": r"^  Kept by .*; the keep ends in 7 days",
    "governor approvals approve": r"^  Approved by ",
    "governor freezes": "^nothing is frozen: ",
    "governor status": r"^targets +(\d) of \1 read$",
    "governor restore": r"lacks \d+ items? of COPY.*\n(.*\n)*Nothing was written.$",
    "governor uninstall --remove workflows": "^ended the workflow |^no workflows to remove$",
    "governor uninstall --remove tags,logs,copies": "^deleted the table COPY$",
    "governor uninstall": r"^The stack .*: UPDATE_COMPLETE.$|^There is no stack gpu-governor",
}
"""Words that each command of the command line says at least; of two that fit, the first."""


def commands() -> list[str]:
    """Every command that the page tells a reader to type."""
    return [line for block in blocks("sh") for line in block.splitlines()]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@dataclass
class Reader:
    """Somebody with the page, a clone and the account of `make cloud`."""

    cloud: LocalCloud
    folder: Path
    account: Account
    deploys: int = 0
    typed: list[str] = field(default_factory=list)
    key: dict[str, str] = field(default_factory=dict)

    def type(self, command: str) -> None:
        """Carry one command out, after the sweeps that run meanwhile."""
        self.typed.append(command)
        if command.startswith(TRIED_ELSEWHERE):
            return
        first, second, *rest = shlex.split(command.partition(" >")[0])
        match first:
            case "make":
                self._make(second, rest)
            case "aws":
                self._aws(command)
            case "governor":
                self._governor(second, rest)
            case _:
                pytest.fail(f"say here how a reader does {command}")

    def _make(self, target: str, rest: list[str]) -> None:
        """By SAM CLI, but without the build of the layer: the local cloud has its libraries."""
        assert "deploy" == target

        def run(line: list[str]) -> int:
            if line[:2] != [str(SAM), "deploy"]:
                return 0
            kept = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "SAM_CLI_TELEMETRY": "0"}
            done = subprocess.run(
                line,
                cwd=ROOT,
                env={**kept, **self.cloud.environment()},
                capture_output=True,
                text=True,
                check=False,
            )
            assert 0 == done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
            return done.returncode

        Deployment(dict(one.split("=", 1) for one in rest), run=run)()
        self.deploys += 1
        self.account.beat(datetime.now(tz=UTC))

    def _aws(self, line: str) -> None:
        """As the AWS CLI would, with what it does in several calls."""
        service, operation, *words = shlex.split(line)[1:]
        given = options(words)
        name = given.get("--stack-name", [""])[0]
        account = MEMBER if name == "gpu-governor-member" else ACCOUNT
        match operation:
            case "deploy":
                parameters = dict(one.split("=", 1) for one in given["--parameter-overrides"])
                file = ROOT / given["--template-file"][0]
                self.cloud.deploy_plain(file, name, parameters, region=REGION, account=account)
            case "wait":
                waiter = self.cloud.client(service).get_waiter(words[0].replace("-", "_"))
                waiter.wait(StackName=name, WaiterConfig={"Delay": 1})
            case _:
                table = self.scene.outputs.get("StateTableName", "")
                call(self.cloud, line.replace("<StateTableName>", table), account)

    def _governor(self, area: str, rest: list[str]) -> None:
        assert self.scene.outputs or area == "--version"
        self._meanwhile(area, rest)
        status, output, errors = self._run(area, *rest)
        said = output + errors
        name = next(one for one in SAYS if " ".join(["governor", area, *rest]).startswith(one))
        assert re.search(SAYS[name], said, re.MULTILINE), f"{name}: {said[-3000:]}"
        assert 0 == status, f"{name}: {said[-3000:]}"
        if (area, *rest) == ("policy", "get"):
            (self.folder / "many.yaml").write_text(output + blocks("yaml")[1])

    def _run(self, *line: str) -> tuple[int, str, str]:
        """The command line, as the person whom the page's policy names: its status, output and
        errors. In this process, as each of its own would import everything again."""
        self.key = self.key or visitors_key(self.cloud, READER)
        environment = {**self.key, "XDG_CACHE_HOME": str(self.folder)}
        if self.scene.outputs:
            environment["GOVERNOR_API_URL"] = self.cloud.reachable_url(self.scene.outputs["ApiUrl"])
        output, errors = StringIO(), StringIO()
        with (
            pytest.MonkeyPatch.context() as terminal,
            redirect_stdout(output),
            redirect_stderr(errors),
        ):
            terminal.chdir(self.folder)
            for name, value in environment.items():
                terminal.setenv(name, value)
            try:
                status = main(line)
            except SystemExit as ended:  # `--version` ends so
                status = int(ended.code or 0)
        return status, output.getvalue(), errors.getvalue()

    def _meanwhile(self, area: str, rest: list[str]) -> None:
        """Sweeps run every minute, and begin with a review of the policy. The page says that
        questions come within two."""
        if area in ("status", "doctor") or (area, *rest[:1]) == ("policy", "history"):
            self.scene.sweep()
        if (area, *rest[:1]) == ("approvals", "list"):
            self.scene.sweep()
            for name in ("left-alone", "not-needed"):
                self._await_question(INSTANCES[name])

    def _await_question(self, instance_id: str) -> None:
        """The time to answer has begun: somebody has the question."""
        self.cloud.wait_for(
            lambda: "AwaitAnswer" in self._entered(instance_id) or None,
            lambda: f"nobody is asked: {self.scene.failure()}",
        )

    def _entered(self, instance_id: str) -> set[str]:
        """The states that its workflow has been in."""
        if (found := self.scene.executions().get(instance_id)) is None:
            return set()
        states = self.cloud.client("stepfunctions")
        history = states.get_execution_history(executionArn=found["executionArn"], maxResults=1000)[
            "events"
        ]
        return {
            one["stateEnteredEventDetails"]["name"]
            for one in history
            if "stateEnteredEventDetails" in one
        }

    @property
    def scene(self) -> Scene:
        """The stack of the account, with the outputs that it has so far."""
        return self.account.scene


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    with LocalCloud() as cloud:
        for name, value in cloud.environment().items():
            monkeypatch.setenv(name, value)
        (tmp_path / "policy.yaml").write_text(blocks("yaml")[0])
        yield Reader(cloud, tmp_path, Account(cloud, datetime.now(tz=UTC)))


def test_the_page_leads_from_a_clone_to_production_and_out_again(reader: Reader) -> None:
    """No command fails, each says what it should, and the world is as the page says: in the account
    of `make cloud`, with nothing launched or tagged but by the page."""
    for command in commands():
        reader.type(command)

    cloud = reader.cloud
    scene = reader.scene
    assert 2 == reader.deploys
    for account in (ACCOUNT, MEMBER):
        stacks = cloud.client("cloudformation", account=account).describe_stacks()["Stacks"]
        assert {one["StackName"] for one in stacks} <= {"aws-sam-cli-managed-default"}
    assert [scene.outputs["StateTableName"]] == cloud.client("dynamodb").list_tables()["TableNames"]
    kept = {scene.outputs["PolicyBucketName"], scene.outputs["AuditBucketName"]}
    assert kept <= {one["Name"] for one in cloud.client("s3").list_buckets()["Buckets"]}
    states = scene.simulation.dump()["instances"]
    stopped = {"forgotten": "running", "left-alone": "running", "not-needed": "stopped"}
    assert stopped == {name: states[one] for name, one in INSTANCES.items()}


def test_what_the_page_says_is_said_by_the_commands() -> None:
    """Nothing is expected of a command that the page has no more."""
    typed = [one for one in commands() if one.startswith("governor")]
    assert [] == [one for one in SAYS if not any(line.startswith(one) for line in typed)]
