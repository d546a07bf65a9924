"""`governor policy`: mistakes have a line, dangers a warning, and the examples are policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cli.governor import main
from cli.policy import line_numbers
from governor.contracts.policy import parse_policy, policy_schema
from governor.domain.policy_advice import warnings

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status, and what was said."""
    code = main(["policy", *arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: ask\nidle:\n  window_minute: 60\n", ":3: error: idle.window_minute: unknown setting"),
        ("mode: ask\n\nmodes: auto\n", ":3: error: modes: unknown setting"),
        (
            "overrides:\n  - name: x\n    match: {}\n    set:\n      plan: {action: hibernate}\n",
            ":5: error: overr",
        ),
        ("mode: [", ":1: error: (document): not readable as YAML"),
        ("mode: ask\nmode: auto\n", "stands twice"),
        ("approval: {on_expiry: act}\nplan: {action: terminate}\n", "silence is no yes"),
    ],
)
def test_a_mistake_has_its_file_line_and_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    """As compilers say it, so that editors jump there."""
    file = tmp_path / "policy.yaml"
    file.write_text(text)

    code, out = run(capsys, "check", str(file))
    assert (1, True) == (code, said in out), out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: auto\nplan: {action: terminate}", "terminates instances nobody was asked about"),
        ("mode: auto\nplan: {local_disks_may_be_lost_unasked: true}", "local NVMe is wiped"),
        (
            "approval: {on_expiry: act, expire_after_minutes: 60, remind_after_minutes: 1, "
            "escalate_after_minutes: 1}",
            "8 hours",
        ),
        ("plan: {action: terminate}\napproval: {broadcast_may: [terminate]}", "whoever reads a list"),
        ("idle: {window_minutes: 10}", "coffee break"),
        ("mode: ask\nvetoes: {required: []}", "not measured counts as quiet"),
        (
            "vetoes: {power_percent_of_limit: null, cpu_percent: null, network_bytes_per_second: null}",
            "no veto",
        ),
        ("mode: ask", "prove nobody"),
        (
            "plan: {action: terminate}\napproval: {two_people_above_usd_per_hour: 5}\n"
            "ownership: {contacts: {a: {emails: [alice@example.com], lists: [all@example.com]}}}",
            "can be met by nobody: ownership.contacts names 1 people",
        ),
        (
            "approval: {two_people_above_usd_per_hour: 5}\n"
            "plan: {action: terminate}\n"
            "ownership: {contacts: {\n"
            "  a: {emails: [al@example.com, bob@example.com], identities: {'slack:U012': al@example.com}},\n"
            "  b: {emails: [alice@example.com], identities: {'slack:U012': alice@example.com}}}}",
            "slack:U012 has the addresses al@example.com and alice@example.com, and so counts as two people",
        ),
        ("breaker: {turned_idle_percent: 95}", "hardly ever trips"),
    ],
)
def test_what_is_dangerous_is_told_and_not_refused(text: str, said: str) -> None:
    """With the setting that would mend it."""
    assert any(said in warning for warning in warnings(parse_policy(text).base().policy))


def test_an_overrides_danger_is_told_by_its_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The base may be harmless."""
    file = tmp_path / "policy.yaml"
    file.write_text("overrides: [{name: research, match: {}, set: {mode: auto, plan: {action: terminate}}}]")

    code, out = run(capsys, "check", str(file))
    assert (0, True) == (code, "warning: research: mode auto terminates" in out)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_policy(capsys: pytest.CaptureFixture[str], example: Path) -> None:
    """Checked as a user would; only the sandbox's own danger is told."""
    code, out = run(capsys, "check", str(example))

    assert 0 == code
    assert ("warning" in out) == (example.stem == "sandbox-account")


def test_the_schema_beside_the_examples_is_the_present_one(capsys: pytest.CaptureFixture[str]) -> None:
    """`governor policy schema > examples/policy.schema.json` makes it."""
    code, out = run(capsys, "schema")
    stored = json.loads((ROOT / "examples" / "policy.schema.json").read_text())

    assert (0, policy_schema()) == (code, json.loads(out))
    assert stored == policy_schema()


def test_a_line_is_found_for_every_path() -> None:
    """Of the key where the value begins below it."""
    lines = line_numbers("a:\n  b: 1\nc:\n  - d: 2\n")
    assert (1, 2, 3, 4) == (lines["a"], lines["a.b"], lines["c"], lines["c.0.d"])


@mock_aws
def test_an_instance_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which override applied, and what it changed from what."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    file = tmp_path / "policy.yaml"
    file.write_text(
        "mode: ask\noverrides: [{name: research, match: {tags: {Project: llm}}, set: {plan: {action: "
        "terminate}}}]"
    )
    ec2 = boto3.client("ec2", region_name="us-east-1")
    tags: Any = [{"ResourceType": "instance", "Tags": [{"Key": "Project", "Value": "llm"}]}]
    made = ec2.run_instances(
        ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="g5.xlarge", TagSpecifications=tags
    )["Instances"][0]["InstanceId"]

    code, out = run(capsys, "explain", made, "--file", str(file), "--region", "us-east-1")
    assert 0 == code, out
    assert "overrides that apply: research" in out
    assert "plan.action: terminate   (an override; the document says stop)" in out
    assert "mode: ask   (the document; the default is observe)" in out
    code, out = run(capsys, "explain", "i-0123456789abcdef0", "--file", str(file), "--region", "us-east-1")
    assert (1, True) == (code, "there is no instance" in out)
