"""Every command of docs/operate.md, in its order, on an account that has nothing yet."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cli.cloud import INSTANCES, Account
from local.demo.scene import TEMPLATE
from local.engine.cloud import ACCOUNT, ROOT, LocalCloud
from local.engine.templates import load_template
from scripts.deploy import SAM, Deployment
from scripts.release import version
from tests.integration.reader import MEMBER, Reader, check_promise
from tests.shell_blocks import blocks_of, commands_of

pytestmark = pytest.mark.skipif(not SAM.exists(), reason="SAM CLI is not installed: make env-sam")
PAGE = ROOT / "docs" / "operate.md"
COMMANDS = [typed.text for typed in commands_of(PAGE)]
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
"""Words that each command of the command line says at least; of two that fit, the longest."""


class _WithSam:
    """Runs SAM CLI, but without the build of the layer: the local cloud has its libraries.

    It reads the template as JSON. SAM CLI parses a template seven times a deployment, and YAML so
    slowly that this would be most of its work. `make template` has it read the YAML.
    """

    def __init__(self, cloud: LocalCloud, home: Path) -> None:
        self.deploys = 0
        self._clone = home / "clone"
        self._clone.mkdir()
        (self._clone / "template.yaml").write_text(json.dumps(load_template(TEMPLATE)))
        for name in ("functions", "layers", "statemachines", "samconfig.toml"):
            (self._clone / name).symlink_to(ROOT / name)
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "SAM_CLI_TELEMETRY": "0",
            **cloud.environment(),
        }

    def deployment(self, given: Mapping[str, str]) -> Deployment:
        """Return what `make deploy` runs."""
        self.deploys += 1
        return Deployment(given, run=self._run)

    def _run(self, line: list[str], **_: bool) -> int:
        if line[:2] != [str(SAM), "deploy"]:
            return 0
        done = subprocess.run(
            line,
            cwd=self._clone,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert 0 == done.returncode, done.stdout[-2000:] + done.stderr[-2000:]
        return done.returncode


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCloud]:
    """An engine of its own, which everything in this process finds."""
    with LocalCloud() as found:
        for name, value in found.environment().items():
            monkeypatch.setenv(name, value)
        yield found


def test_the_page_leads_from_a_clone_to_production_and_out_again(
    cloud: LocalCloud, tmp_path: Path
) -> None:
    """No command fails, each says what it should, and the world is as the page says: in the account
    of `make cloud`, with nothing launched or tagged but by the page."""
    first_policy, more_accounts = blocks_of(PAGE, "yaml")
    (tmp_path / "policy.yaml").write_text(first_policy)
    sam = _WithSam(cloud, tmp_path)
    reader = Reader(cloud, tmp_path, Account(cloud, datetime.now(tz=UTC)), sam.deployment)

    for command in COMMANDS:
        if command.startswith(TRIED_ELSEWHERE):
            continue
        _meanwhile(reader, command)
        said = reader.type(command, account=_account_of(command))
        check_promise(SAYS, command, said)
        if command == "governor policy get >many.yaml":
            with (tmp_path / "many.yaml").open("a") as file:
                file.write(more_accounts)

    scene = reader.scene
    assert 2 == sam.deploys
    for account in (ACCOUNT, MEMBER):
        stacks = cloud.client("cloudformation", account=account).describe_stacks()["Stacks"]
        assert {one["StackName"] for one in stacks} <= {"aws-sam-cli-managed-default"}
    assert [scene.outputs["StateTableName"]] == cloud.client("dynamodb").list_tables()["TableNames"]
    kept = {scene.outputs["PolicyBucketName"], scene.outputs["AuditBucketName"]}
    assert kept <= {one["Name"] for one in cloud.client("s3").list_buckets()["Buckets"]}
    states = scene.simulation.dump()["instances"]
    stopped = {"forgotten": "running", "left-alone": "running", "not-needed": "stopped"}
    assert stopped == {name: states[one] for name, one in INSTANCES.items()}


def _meanwhile(reader: Reader, command: str) -> None:
    """Sweeps run every minute, and begin with a review of the policy. The page says that questions
    come within two."""
    if command.startswith(("governor status", "governor doctor", "governor policy history")):
        reader.scene.sweep()
    if command == "governor approvals list":
        reader.scene.sweep()
        for name in ("left-alone", "not-needed"):
            reader.await_question(INSTANCES[name])


def _account_of(command: str) -> str:
    """Return the account in which the page has a command run."""
    return MEMBER if "--stack-name gpu-governor-member" in command else ACCOUNT


def test_what_the_page_says_is_said_by_the_commands() -> None:
    """Nothing is expected of a command that the page has no more."""
    assert [] == [one for one in SAYS if not any(command.startswith(one) for command in COMMANDS)]
