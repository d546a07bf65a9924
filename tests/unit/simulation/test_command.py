"""`governor simulate`: from an account or from traces to a report, and never beyond what was agreed
to."""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cli.governor import main
from cli.progress import Counter
from simulation.fetch import last_days

REGION = "us-east-1"
TRACE = "instance_id,gpu_index,timestamp_s,utilization_gpu\n"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, and what was said where."""
    code = main(["simulate", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """One GPU that works for an hour and rests for five."""
    rows = [f"s1,0,{minute * 60},{90 if minute < 60 else 0}\n" for minute in range(360)]
    file = tmp_path / "trace.csv"
    file.write_text(TRACE + "".join(rows))
    return file


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """moto's AWS with one instance that rested from six to noon yesterday, and worked before and
    after."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with mock_aws():
        tags: Any = [
            {"Key": "Purpose", "Value": "GPU-Workload"},
            {"Key": "Owner", "Value": "ann"},
        ]
        made = boto3.client("ec2").run_instances(
            ImageId="ami-12c6146b",
            MinCount=1,
            MaxCount=1,
            InstanceType="g5.xlarge",
            TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
        )["Instances"][0]["InstanceId"]
        _publish(made, last_days(datetime.now(tz=UTC), 1).start)
        yield made


def _publish(instance_id: str, start: datetime) -> None:
    dimensions = [{"Name": "InstanceId", "Value": instance_id}]
    gpu: list[Any] = []
    quiet: list[Any] = []
    for number in range(288):
        at = {"Dimensions": dimensions, "Timestamp": start + timedelta(minutes=5 * number)}
        resting = 72 <= number < 144
        gpu.append(
            {"MetricName": "nvidia_smi_utilization_gpu", "Value": 0.0 if resting else 90.0, **at}
        )
        names = ("CPUUtilization", "NetworkIn", "NetworkOut")
        quiet += [{"MetricName": name, "Value": 1.0, **at} for name in names]
    client = boto3.client("cloudwatch")
    client.put_metric_data(Namespace="GPU/EC2", MetricData=gpu)
    client.put_metric_data(Namespace="AWS/EC2", MetricData=quiet)


def test_an_account_s_past_is_replayed(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Through the real adapters: one question after three hours, one stop that work ended."""
    policy = tmp_path / "mine.yaml"
    policy.write_text("mode: observe\n")
    code, out, err = run(capsys, "--days", "1", "--policy", str(policy), "--format", "json")

    assert 0 == code, err
    assert "1 instance, 1 day: at most " in err
    (found,) = json.loads(out)["policies"]
    assert ("mine", {"ann": 1}, 1, 1) == (
        found["name"],
        found["questions_by_owner"],
        found["stops"],
        found["stops_hit_later"],
    )
    (event,) = found["instances"][0]["events"]
    assert (account, "09:05", "09:35", "12:00") == (
        found["instances"][0]["instance_id"],
        event["asked_at"][11:16],
        event["stop"]["at"][11:16],
        event["stop"]["until"][11:16],
    )
    assert "6.00" == found["idle_hours"]
    again, _, said = run(capsys, "--days", "1", "--policy", str(policy))
    assert (0, True) == (again, "at most 0 metrics" in said)
    free = run(capsys, "--days", "1", "--policy", str(policy), "--limit-usd", "0")
    assert (0, out) == (
        free[0],
        run(capsys, "--days", "1", "--policy", str(policy), "--format", "json")[1],
    )


def test_nothing_is_read_that_may_cost_more_than_was_allowed(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The bound is said, and --yes agrees to it."""
    policy = tmp_path / "mine.yaml"
    policy.write_text("")
    asked = ("--days", "1", "--policy", str(policy), "--limit-usd", "0.00001")
    code, out, err = run(capsys, *asked)
    assert (1, "", True) == (code, out, "agree with --yes" in err)
    assert 0 == run(capsys, *asked, "--yes")[0]
    assert account


def test_an_account_without_gpu_instances_is_told_so(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With what to do about it."""
    policy = tmp_path / "mine.yaml"
    policy.write_text("selector: {tag_key: Purpose, tag_value: Other}\n")
    code, _, err = run(capsys, "--policy", str(policy))
    assert account
    assert (1, True) == (code, "no running instance has the tag Purpose=Other" in err)


def test_an_interruption_is_no_traceback(
    account: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Exit status 130, and what to do."""
    policy = tmp_path / "mine.yaml"
    policy.write_text("")

    def interrupt(_counter: Counter, _label: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Counter, "show", interrupt)
    code, _, err = run(capsys, "--days", "1", "--policy", str(policy))
    assert account
    assert (130, True) == (code, "run the command again to continue" in err)


def test_options_of_an_account_do_not_go_with_traces(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather refused than ignored."""
    for option in (("--days", "3"), ("--region", REGION)):
        code, _, err = run(capsys, "--traces", str(traces), *option)
        assert (1, True) == (code, "replays whole files" in err)


def test_traces_are_replayed_under_the_defaults(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No account is needed, and what traces do not hold is said."""
    code, out, err = run(capsys, "--traces", str(traces))
    assert (0, "") == (code, err)
    lines = {line[:38].strip(): line[38:].split() for line in out.splitlines()}
    assert ["1"] == lines["stops"]
    assert "Traces hold GPU utilization, and some hold GPU memory" in out


def test_policies_are_told_apart_by_their_files(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By stems; by paths where stems are the same."""
    (tmp_path / "other").mkdir()
    files = [tmp_path / "a.yaml", tmp_path / "b.yaml", tmp_path / "other" / "a.yaml"]
    for file in files:
        file.write_text("")
    two = run(capsys, "--traces", str(traces), "--policy", str(files[0]), "--policy", str(files[1]))
    same = run(
        capsys, "--traces", str(traces), "--policy", str(files[0]), "--policy", str(files[2])
    )
    # A sentence for each policy stands above the table.
    assert ["a", "b"] == two[1].splitlines()[3].split()
    assert [str(files[0]), str(files[2])] == same[1].splitlines()[3].split()


def test_a_policy_is_compared_with_others_only(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Two equal columns say nothing."""
    file = tmp_path / "a.yaml"
    file.write_text("")
    again = tmp_path / "." / "a.yaml"
    code, _, err = run(
        capsys, "--traces", str(traces), "--policy", str(file), "--policy", str(again)
    )
    assert (1, True) == (code, "a.yaml is given more than once" in err)


def test_a_reader_that_has_seen_enough_is_no_error(
    traces: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `head` does: it closes its end."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as broken:
        monkeypatch.setattr(sys, "stdout", broken)
        assert 0 == main(["simulate", "--traces", str(traces)])


def test_files_of_one_machine_are_replayed_as_one(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """However its rows are cut into files."""
    whole = run(capsys, "--traces", str(traces))
    header, *rows = traces.read_text().splitlines()
    folder = tmp_path / "days"
    folder.mkdir()
    for number in range(3):
        part = rows[number * 120 : number * 120 + 120]
        (folder / f"{number}.csv").write_text("\n".join([header, *part, ""]))
    assert whole == run(capsys, "--traces", str(folder))


def test_instances_without_readings_are_counted(
    account: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A fleet without an agent must not look like a perfect one."""
    client = boto3.client("ec2")
    tags: Any = [{"Key": "Purpose", "Value": "Silent"}]
    client.run_instances(
        ImageId="ami-12c6146b",
        MinCount=2,
        MaxCount=2,
        InstanceType="g5.xlarge",
        TagSpecifications=[{"ResourceType": "instance", "Tags": tags}],
    )
    policy = tmp_path / "mine.yaml"
    policy.write_text("selector: {tag_key: Purpose, tag_value: Silent}\n")
    code, out, _ = run(capsys, "--days", "1", "--policy", str(policy))
    assert account
    assert (0, True) == (code, "2 of 2 instances published no GPU metrics in this period" in out)


def test_a_report_goes_into_a_file(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Standard output stays empty."""
    file = tmp_path / "report.json"
    code, out, err = run(capsys, "--traces", str(traces), "--format", "json", "--out", str(file))
    assert (0, "", f"Written to {file}.\n") == (code, out, err)
    assert ["defaults"] == [policy["name"] for policy in json.loads(file.read_text())["policies"]]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("idle: {window_minutes: -5}", "is refused: "),
        ("metrics: {period_seconds: 3600}", "metrics.period_seconds"),
        ("metrics: {period_seconds: 60}\nidle: {window_minutes: 61}", "idle.window_minutes"),
    ],
)
def test_a_policy_that_cannot_be_replayed_is_refused(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, policy: str, said: str
) -> None:
    """With the setting's name."""
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    code, _, err = run(capsys, "--traces", str(traces), "--policy", str(file))
    assert (1, True) == (code, said in err)


def test_unusable_traces_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A directory without any; what is advised is no other program."""
    code, out, err = run(capsys, "--traces", str(tmp_path))
    assert (1, "", True, False) == (code, out, "no trace files" in err, "evaluate" in err)


@pytest.mark.parametrize("rows", ["", "s1,0,0,\ns1,0,300,\n", "s1,0,0,0\n"])
def test_traces_that_measure_nothing_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, rows: str
) -> None:
    """A header alone, polls without a reading, a single minute: a table of zeros would say nothing
    of it."""
    file = tmp_path / "trace.csv"
    file.write_text(TRACE + rows)
    code, out, err = run(capsys, "--traces", str(file))
    assert (1, "", True) == (code, out, f"no rows in {file}" in err)


@pytest.mark.parametrize("form", ["table", "json", "html"])
def test_a_bad_row_is_named_in_the_report(
    traces: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, form: str
) -> None:
    """Whoever is sent the report must know who is missing in it; the others are replayed."""
    (tmp_path / "bad.csv").write_text(TRACE + "s1,1,0,0\ns2,0,0,xyz\n")
    assert 1 == run(capsys, "--traces", str(tmp_path))[0]
    traces.write_text(traces.read_text() + traces.read_text().split("\n", 1)[1].replace("s1", "s3"))
    code, out, err = run(capsys, "--traces", str(tmp_path), "--format", form)
    assert 0 == code
    for said in (err, html.unescape(out)):
        assert re.search("bad.csv, line 3: utilization_gpu: 'xyz' is no number.*: s1, s2", said)
    if form == "json":
        (policy,) = json.loads(out)["policies"]
        assert ["lab/s3"] == [one["instance_id"] for one in policy["instances"]]


@pytest.mark.parametrize(
    "wrong",
    [("--days", "64"), ("--days", "x"), ("--limit-usd", "-1"), ("--approval-delay-minutes", "nan")],
)
def test_wrong_figures_are_refused_at_once(wrong: tuple[str, str]) -> None:
    """As any wrong command."""
    with pytest.raises(SystemExit) as ended:
        main(["simulate", *wrong])
    assert 2 == ended.value.code
