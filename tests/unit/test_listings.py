"""Everything that a command prints fits a terminal of 80 columns, whatever the names in it are.

A new command is found by its parser: it needs an example here, or a document that it prints. And no
command prints past `cli.tables`, except documents and addresses.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.cells import cell_len

from cli import (
    advice,
    approvals,
    doctor,
    freezes,
    governor,
    health,
    policy_versions,
    preflight,
    report,
    sessions,
    simulate,
    spot,
    status,
    tables,
)
from cli import open as governor_open
from cli.output import Output
from cli.preflight.world import Finding as Seen
from cli.preflight.world import Outcome
from cli.scan.table import report_text
from governor.approvals.model.terms import SignIn
from governor.money.model.found import FoundWaste
from governor.money.rules.jobs import JobCost, JobKind, ProjectJobs
from governor.policy.document import parse_policy
from scripts import scan_example
from simulation.patterns import Advice
from tests.builders import NOW as SWEPT
from tests.builders import TARGET
from tests.console_world import make_row
from tests.unit.simulation.test_report import fleet as replayed_fleet
from tests.unit.test_doctor import fleet as measured_fleet
from tests.unit.worlds.health_world import HealthWorld, flat

LONG = "name-" * 50
"""As long as a tag may be, without a place to break."""
EMOJI = "🔥" * 120
"""Half as many, each two columns wide."""
ACCOUNT = "123456789012"
REGION = "ap-southeast-1"
COMMAND = (
    f"aws ec2 cancel-capacity-reservation --region {REGION} --capacity-reservation-id "
    "cr-0123456789abcdef0 --query 'Return of this' --no-cli-pager"
)
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def question(number: int) -> dict[str, Any]:
    return {
        "id": f"{number:x}" + "0" * 31,
        "instance_id": f"i-{number:017x}",
        "instance_name": EMOJI if number % 2 else LONG,
        "instance_type": "p6-b300.48xlarge",
        "account": ACCOUNT,
        "region": REGION,
        "usd_per_day": "12345.678",
        "action": "terminate",
        "expires_at": "2026-11-20T13:00:00Z",
        "can_hold_late": True,
        "owner": LONG,
        "reason": f"Idle for 6 h 40 min (every GPU of {LONG} under 5%).",
        "cost": ["Stopping it saves $12,345 a day after storage costs."],
        "plan": [f"The plan: snapshot the volumes of {EMOJI}, then terminate."],
        "decision": None,
        "first_yes_by": [],
        "void_reason": None,
        "outcome": None,
        "can_decide": True,
    }


class Api:
    """Answers with as long names as there are."""

    def call(self, _: str, path: str, __: Any = None) -> dict[str, Any]:
        if path.startswith("/api/approvals/"):
            return question(1)
        if path == "/api/console":
            return {"url": f"https://api.example.com/console#{'x' * 99}"}
        if path == "/api/freezes":
            return {
                "freezes": [
                    {"what": f"owner {LONG}", "why": LONG, "since": "2026-11-20T12:00:00Z"}
                ],
                "caps": [{"what": f"OWNER#{LONG}", "used": 100, "most": 500}],
                "waiting": [question(1), question(2)],
            }
        silent = {**question(2), "can_hold_late": False, "acts_on_silence": True}
        return {"questions": [question(1), silent]}


def list_questions() -> None:
    api: Any = Api()
    approvals._list(api, argparse.Namespace(json=False))


def list_freezes() -> None:
    api: Any = Api()
    freezes._freezes(api, argparse.Namespace(json=False))


def list_sessions() -> None:
    person = SignIn(f"oidc:{LONG}", f"oidc:{LONG}", NOW, NOW + timedelta(hours=8), LONG)
    sessions._print([sessions._Session(("SESSION#a", "x"), person)], as_json=False)


def list_versions() -> None:
    rows = [("3sL4kqtJlcpX", "2026-11-20T12:00:00Z", "not in force", LONG)]
    tables.print_table(policy_versions._COLUMNS, rows)


def list_zones() -> None:
    zone = spot._Zone(f"{REGION}-lax-1a", REGION, "98.3200", 100, 10)
    spot._print("p5.48xlarge", "Linux/UNIX", [REGION], [zone], [])
    spot._print("p5.48xlarge", "Linux/UNIX", [REGION] * 9, [], [])


def say_lines() -> None:
    """All commands that print through `Output`."""
    with Output(argparse.Namespace(json=False)) as out:
        out.say("  " + "a sentence that goes on and on, " * 9)


def show_question() -> None:
    api: Any = Api()
    approvals._show(api, argparse.Namespace(json=False, id="1" + "0" * 31))


def open_console() -> None:
    api: Any = Api()
    governor_open._open(api, argparse.Namespace(json=False, print=True))


def scan_account() -> None:
    whole = scan_example.report()
    rows = []
    for number, row in enumerate(whole.rows):
        resource = replace(row.resource, name=EMOJI if number % 2 else LONG)
        rows.append(replace(row, resource=resource, command=COMMAND, owner=LONG))
    sys.stdout.write(report_text(replace(whole, rows=tuple(rows))))


def compare_policies() -> None:
    results = [replace(one, owner=LONG) for one in replayed_fleet().results]
    replays = [
        replace(replayed_fleet(), name=name, results=tuple(results))
        for name in ("deployed", LONG, EMOJI)
    ]
    arguments = argparse.Namespace(json=False, format="table", out=None)
    sys.stdout.write(
        simulate._shown(arguments, [], [], replays, [f"Left out: {LONG}, and what follows."])
    )


def recommend_a_wait() -> None:
    given = argparse.Namespace(
        json=False,
        format="table",
        by=None,
        wrong_at_most=None,
        out=None,
        approval_delay_minutes=timedelta(minutes=30),
    )
    recordings = [one.recording for one in replayed_fleet().results]
    policies: Any = parse_policy("")
    sys.stdout.write(
        simulate._recommended(given, policies, recordings, ["The first days of a fleet. " * 9])
    )


def report_month() -> None:
    line = SimpleNamespace(
        entry=SimpleNamespace(
            resource_name=EMOJI,
            owner=LONG,
            project=LONG,
            booked_at=NOW,
            false_stop=True,
            is_prepaid=False,
            episode=SimpleNamespace(instance_id="i-1"),
        ),
        what="terminated after an approval",
        net_usd=Decimal("1234567.89"),
    )
    month: Any = SimpleNamespace(lines=[line, line])
    alert: Any = SimpleNamespace(subject=f"Saved $9 for {LONG}", lines=["a line of it, " * 20])
    sys.stdout.write(report.shown(month, "table", alert))


def report_jobs() -> None:
    usd = Decimal("1234567.89")
    jobs = (
        JobCost(JobKind.NAMED, EMOJI, usd, usd),
        JobCost(JobKind.NONE, "no job named", usd, usd, "no tag names a job of it, " * 9),
    )
    projects = (ProjectJobs(LONG, usd, usd, jobs), ProjectJobs(EMOJI, usd, usd, jobs))
    month: Any = SimpleNamespace(projects=projects)
    sys.stdout.write(report.shown_jobs(month, "table"))


def report_kept() -> None:
    kept = []
    for number, name in enumerate((LONG, EMOJI)):
        row = make_row(number, name=name, owner=LONG, kept_by=LONG, stays_until=SWEPT)
        kept.append(
            SimpleNamespace(
                row=row,
                words="somebody keeps it until a time",
                measured="not measured",
                usd_per_month=Decimal("123456.78"),
                is_prepaid=False,
            )
        )
    listed: Any = SimpleNamespace(
        instances=kept,
        idle_usd_per_month=Decimal("123456.78"),
        not_measured_usd_per_month=Decimal("123456.78"),
        unpriced=12,
    )
    sys.stdout.write(report.shown_kept(listed, "table"))


def report_ungoverned() -> None:
    row = {
        "waste_usd_per_month": Decimal(9),
        "usd_per_month": Decimal(9),
        "finding": "unused",
        "what": "ml.g5.12xlarge",
        "id": LONG,
        "account": ACCOUNT,
        "region": REGION,
        "evidence": "0 invocations, " * 9,
        "command": COMMAND,
    }
    found = FoundWaste(
        is_scanned=True,
        headline="$9 a month is wasted on what nobody governs, by all that was read so far, today.",
        remarks=(f"Not in a sum: {EMOJI}.",),
        not_read=(f"{ACCOUNT}/{REGION}: needs sagemaker:ListEndpoints, and all that follows it.",),
        columns=tuple(row),
        rows=(tuple(row.values()),),
    )
    sys.stdout.write(report.shown_found(found, "table"))


def show_status() -> None:
    rows = [("stack", "version 1.2.3"), ("failing", f"could not snapshot {LONG}: a reason; " * 3)]
    tables.print_table(status._COLUMNS, rows)


def check_deploy() -> None:
    ec2, metrics = measured_fleet()
    for number, name in enumerate((LONG, EMOJI), 1):
        tags = {"Purpose": "GPU-Workload", "Name": name, "Owner": LONG}
        instance = ec2.instances[f"i-{number:017x}"]
        ec2.instances[instance.instance_id] = replace(instance, tags=tags)
    lines = {"targets": status.Line(f"unread: {LONG}: last swept 3 h ago", None, is_wrong=True)}
    doctor._print_checklist(lines)
    examined = doctor.examine(TARGET, parse_policy(""), ec2, metrics, SWEPT)
    doctor._print(doctor.with_fleet_findings(examined), as_json=False)


def check_gpus() -> None:
    world = HealthWorld()
    world.publish(world.add(1, gpus=2, owner=LONG), [{}, {"lost": flat(1)}])
    world.publish(world.add(2, hardware=False), [{"utilization": flat(30)}], hardware=False)
    for number, name in enumerate((LONG, EMOJI), 1):
        instance = world.ec2.instances[f"i-{number:017x}"]
        tags = {**instance.tags, "Name": name}
        world.ec2.instances[instance.instance_id] = replace(instance, tags=tags)
    readings = health.look(TARGET, parse_policy(""), world.ec2, world.metrics, world.clock.now())
    health._print(readings, as_json=False)


def check_account() -> None:
    seen = Seen(Outcome.UNKNOWN, f"the role {LONG} " * 2, COMMAND)
    preflight._print([(check, seen) for check in preflight.CHECKS], "local cloud")
    preflight._print_checks(preflight.CHECKS, as_json=False)


def list_advice() -> None:
    for number, name in enumerate((LONG, EMOJI)):
        found = Advice(
            kind="empty-reservation",
            subject=f"cr-{number:017x}",
            account=ACCOUNT,
            region=REGION,
            instance_type="p6-b300.48xlarge",
            usd_per_month=Decimal("80358.12"),
            weeks=6,
            percent_measured=98,
            text="2 of 2 stand empty. " * 9,
            command=COMMAND,
            name=name,
            owner=LONG,
        )
        advice._print_advice(found, NOW)


EXAMPLES: Mapping[str, tuple[Callable[[], None], ...]] = {
    "scan": (scan_account,),
    "preflight": (check_account,),
    "simulate": (compare_policies, recommend_a_wait),
    "status": (show_status,),
    "approvals list": (list_questions,),
    "approvals show": (show_question,),
    **dict.fromkeys(
        [f"approvals {name}" for name in ("approve", "keep", "exempt", "hold", "end-keep")],
        (show_question,),
    ),
    "open": (open_console,),
    "doctor": (check_deploy,),
    "health": (check_gpus,),
    "freezes": (list_freezes,),
    "sessions list": (list_sessions,),
    "policy history": (list_versions,),
    "report": (report_month, report_jobs, report_kept, report_ungoverned),
    "advice": (list_advice,),
    "spot": (list_zones,),
    **dict.fromkeys(
        [f"policy {name}" for name in ("check", "diff", "put", "rollback", "accept", "explain")],
        (say_lines,),
    ),
    **dict.fromkeys(
        ("pause", "resume", "mode", "reconcile", "sessions end", "restore", "uninstall"),
        (say_lines,),
    ),
}
"""Examples of what each command prints, with the longest names that there are."""
DOCUMENTS = {"policy schema", "policy get", "env-vars"}
"""They print a document, as it is: somebody stores it, or a program reads it."""
CASES = [(name, example) for name, examples in EXAMPLES.items() for example in examples]


def lines_of_commands() -> Iterator[str]:
    """Return every command and subcommand that can be run."""

    def below(parser: argparse.ArgumentParser) -> Iterator[str]:
        found = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not found:
            yield parser.prog.removeprefix("governor ")
        for action in found:
            for one in action.choices.values():
                yield from below(one)

    for name in governor.COMMANDS:
        (areas,) = [
            one
            for one in governor.parser(name)._actions
            if isinstance(one, argparse._SubParsersAction)
        ]
        yield from below(areas.choices[name])


def test_every_command_has_an_example_or_prints_a_document() -> None:
    """The examples have no command that is gone, either."""
    assert EXAMPLES.keys() | DOCUMENTS == set(lines_of_commands())
    assert not EXAMPLES.keys() & DOCUMENTS


COMMANDS_OF_PEOPLE = [
    path
    for path in sorted((Path(__file__).parents[2] / "cli").rglob("*.py"))
    if path.name not in ("tables.py", "notes.py", "progress.py", "cloud.py", "up.py", "demo.py")
]
"""Those of a clone, which start a local cloud, write a log."""
PRINTED_AS_IT_IS = {
    "print(url)",
    "print(text)",
    "print(report_text(report))",
    "print('\\n'.join(tag_commands(report, Policy().selector)))",
}
"""An address, a report that fits already, and commands for a file."""


@pytest.mark.parametrize("path", COMMANDS_OF_PEOPLE, ids=lambda path: path.stem)
def test_no_command_prints_past_the_tables(path: Path) -> None:
    """Documents and addresses keep their lines; all else goes through `cli.tables`, or through
    `cli.notes` to standard error."""
    past = []
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "print":
            line = ast.unparse(call)
            is_document = line.startswith(("print(json.dumps(", "print(shown", "print(policy_to_"))
            if not is_document and line not in PRINTED_AS_IT_IS:
                past.append(line)
    assert [] == past


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def printed(
    example: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    screen: io.StringIO,
    **environment: str,
) -> str:
    monkeypatch.setattr("cli.times.now", lambda: NOW)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("NO_COLOR", raising=False)
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr("sys.stdout", screen)
    example()
    return screen.getvalue()


@pytest.mark.parametrize(("name", "example"), CASES)
def test_it_fits_a_terminal_of_80_columns(
    name: str, example: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In cells, not characters: an emoji takes two. An address stays whole: somebody copies it."""
    text = printed(example, monkeypatch, Screen())
    lines = STYLES.sub("", text).splitlines()

    assert lines, name
    wide = [line for line in lines if cell_len(line) > 80 and not line.startswith("https://")]
    assert [] == wide


@pytest.mark.parametrize(
    ("example", "words"),
    [
        (report_kept, ("2026-11-20", "somebody", "123,456.78")),
        (report_month, ("terminated", "approval", "2026-11-20 12:00", "1,234,567.89")),
        (report_jobs, ("1,234,567.89", "100%")),
        (list_questions, ("terminate", "12,345.68", "EC2 was asked", "20000000")),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_dates_figures_and_ids_stay_on_one_line(
    example: Callable[[], None], words: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only names give way."""
    text = STYLES.sub("", printed(example, monkeypatch, Screen()))

    assert [] == [word for word in words if word not in text]


@pytest.mark.parametrize(
    "example", [list_advice, scan_account, report_ungoverned], ids=lambda one: one.__name__
)
def test_a_command_of_several_lines_is_one_for_a_shell(
    example: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copied from a terminal, it does what it says; a word in quotes is on one line."""
    text = STYLES.sub("", printed(example, monkeypatch, Screen()))
    commands = re.findall(r"^ *(aws (?:.*\\\n)+.*)", text, re.MULTILINE)
    # A shell removes a backslash together with the end of its line.
    as_read = {tuple(shlex.split(command.replace("\\\n", ""))) for command in commands}

    assert {tuple(shlex.split(COMMAND))} == as_read


@pytest.mark.parametrize(("name", "example"), CASES)
def test_a_pipe_gets_it_plain(
    name: str, example: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = printed(example, monkeypatch, io.StringIO(), FORCE_COLOR="1")

    assert text.strip(), name
    assert not STYLES.search(text)


@pytest.mark.parametrize(
    "example",
    [
        *(list_questions, list_sessions, list_freezes, show_question, report_month, report_jobs),
        *(report_kept, report_ungoverned, show_status, check_deploy, check_gpus, list_advice),
    ],
    ids=lambda one: one.__name__,
)
def test_a_pipe_cuts_nothing(example: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A name of 250 characters is found by grep, whole, as is a command."""
    lines = printed(example, monkeypatch, io.StringIO()).splitlines()

    assert any(LONG in line for line in lines)
    assert not any("…" in line for line in lines)


@pytest.mark.parametrize(("value", "is_colored"), [("", True), ("1", False)])
def test_a_terminal_has_colors_unless_it_was_asked_to_have_none(
    monkeypatch: pytest.MonkeyPatch, value: str, is_colored: bool
) -> None:
    """By NO_COLOR (no-color.org): an empty value asks for nothing."""
    text = printed(list_questions, monkeypatch, Screen(), NO_COLOR=value)

    assert is_colored == bool(STYLES.search(text))
    assert is_colored == ("\x1b[1;31mterminate" in text)


def test_an_empty_answer_of_spot_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    text = printed(list_zones, monkeypatch, io.StringIO())

    assert "no Spot price of p5.48xlarge: EC2 names none for Linux/UNIX in ap-southeast-1" in text
    assert "name other Regions with --region" in text


@pytest.mark.parametrize("width", [80, 200])
def test_a_wide_terminal_has_what_a_narrow_one_leaves_out(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    text = printed(list_questions, monkeypatch, Screen(), COLUMNS=str(width))

    assert (width == 200) == ("INSTANCE" in text)
