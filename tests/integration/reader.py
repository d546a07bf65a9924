"""Somebody who follows a page of the docs: a clone, and the account of `make cloud`.

A line of `governor` runs in this process, as each process of its own would import everything again.
A line of `aws` runs by boto3.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from shlex import join

import pytest

from cli.cloud import READER, Account
from cli.demo import visitors_key
from cli.governor import main
from local.demo.scene import Scene
from local.engine.cloud import ACCOUNT, LocalCloud
from scripts.deploy import Deployment
from tests.integration.aws_cli import call
from tests.shell_blocks import PLACEHOLDER, Command, parsed

MEMBER = "210987654321"
"""Another account. docs/operate.md says how a reader of `make cloud` gets into it."""


@dataclass
class Reader:
    """Somebody in a folder that stands for their clone.

    `deployment` makes what a line of `make deploy` does. `values` say what the person puts for a
    placeholder that is no output of the stack.
    """

    cloud: LocalCloud
    folder: Path
    account: Account
    deployment: Callable[[Mapping[str, str]], Deployment]
    values: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    keys: dict[str, dict[str, str]] = field(default_factory=dict)

    def type(self, text: str, person: str = READER, account: str = ACCOUNT) -> str:
        """Carry out one line, as a person or in an account. Return what it prints.

        Raises:
            AssertionError: a command of the line failed.
        """
        said = ""
        for command in parsed(self._filled_in(text)):
            output, notes = self._run(command, person, account)
            if command.file:
                (self.folder / command.file).write_text(output, encoding="utf-8")
            said += output + notes
        return said

    def _filled_in(self, text: str) -> str:
        """Put for each placeholder what this person would."""

        def value_of(name: str) -> str:
            if name in self.values:
                return self.values[name]()
            return self.scene.outputs[name]

        return PLACEHOLDER.sub(lambda found: value_of(found[1]), text)

    def _run(self, command: Command, person: str, account: str) -> tuple[str, str]:
        """Run one command. Return its output and its errors."""
        program, *words = command.words
        if program in ("governor", "bin/governor"):
            return self._governor(words, person)
        if program == "aws":
            answer = call(self.cloud, join(command.words), account, self.folder)
            return json.dumps(answer, indent=4, default=str), ""
        assert ["make", "deploy"] == command.words[:2], f"say here how a reader does {command}"
        self.deployment(dict(word.split("=", 1) for word in words[1:]))()
        self.account.beat(datetime.now(tz=UTC))
        return "", ""

    def _governor(self, words: list[str], person: str) -> tuple[str, str]:
        """Run the command line."""
        if person not in self.keys:
            self.keys[person] = visitors_key(self.cloud, person)
        environment = {**self.keys[person], "XDG_CACHE_HOME": str(self.folder)}
        if self.scene.outputs:
            environment["GOVERNOR_API_URL"] = self.cloud.reachable_url(self.scene.outputs["ApiUrl"])
        printed = StringIO()
        notes = StringIO()
        with (
            pytest.MonkeyPatch.context() as terminal,
            redirect_stdout(printed),
            redirect_stderr(notes),
        ):
            terminal.chdir(self.folder)
            for name, value in environment.items():
                terminal.setenv(name, value)
            try:
                status = main(words)
            except SystemExit as ended:  # `--version` ends so
                status = int(ended.code or 0)
        assert 0 == status, f"{join(words)}: {printed.getvalue()}{notes.getvalue()}"
        return printed.getvalue(), notes.getvalue()

    @property
    def scene(self) -> Scene:
        """The stack of the account, with the outputs that it has so far."""
        return self.account.scene

    def await_question(self, instance_id: str) -> None:
        """Wait until the time to answer has begun: somebody has the question."""
        self.cloud.wait_for(
            lambda: "AwaitAnswer" in self._entered(instance_id) or None,
            lambda: f"nobody is asked: {self.scene.failure()}",
        )

    def _entered(self, instance_id: str) -> set[str]:
        """Return the states that the workflow of an instance has been in."""
        execution = self.scene.executions().get(instance_id)
        if execution is None:
            return set()
        states = self.cloud.client("stepfunctions")
        history = states.get_execution_history(
            executionArn=execution["executionArn"], maxResults=1000
        )
        return {
            event["stateEnteredEventDetails"]["name"]
            for event in history["events"]
            if "stateEnteredEventDetails" in event
        }


def check_promise(says: Mapping[str, str], command: str, said: str) -> None:
    """Check that a command has said what a page promises: of the beginnings that fit it, the
    longest counts. Each line of `governor` promises something."""
    beginnings = [one for one in says if command.startswith(one)]
    if not beginnings:
        assert "governor " not in command.partition("--")[0], f"what does it say: {command}"
        return
    promise = says[max(beginnings, key=len)]
    assert re.search(promise, said, re.MULTILINE), f"{command}: {said[-3000:]}"
