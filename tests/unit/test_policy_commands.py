"""`governor policy`: mistakes have a line, dangers a warning, and the examples are policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from cli.governor import main
from cli.policy_advice import warnings
from cli.policy_consent import next_steps
from cli.policy_production import missing
from cli.policy_schema import policy_schema
from governor.policy.document import parse_policy
from governor.policy.model.judging import Place, Targets
from governor.policy.model.policy import Policy
from governor.policy.rules.consent import Acceptances

PEOPLE = (
    "ownership: {contacts: {a: {emails: [alice@example.com, bob@example.com]}}, "
    "default_contacts: [a]}\n"
)
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "policies").glob("*.yaml"))


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Exit status, and what was said."""
    code = main(["policy", *arguments])
    said = capsys.readouterr()
    return code, said.out + said.err


def assert_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    """`policy check` exits with 1, and says why."""
    file = tmp_path / "policy.yaml"
    file.write_text(text)

    code, out = run(capsys, "check", str(file))
    assert (1, True) == (code, said in out), out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "mode: ask\nidle:\n  window_minute: 60\n",
            ":3: error: base: idle.window_minute: unknown setting",
        ),
        ("mode: ask\n\nmodes: auto\n", ":3: error: base: modes: unknown setting"),
        (
            "overrides:\n  - name: x\n    match: {}\n    set:\n      plan: {action: hibernate}\n",
            ":5: error: override x: plan.action: is 'hibernate'",
        ),
        ("mode: [", ":1: error: (document): not readable as YAML"),
        ("mode: ask\nmode: auto\n", ":2: error: base: mode: stands twice"),
        (
            "idle:\n  window_minutes: 1\n",
            ":2: error: base: idle.window_minutes: is 1; it must lie between 10 and 20160",
        ),
        (
            "overrides:\n  - {name: x, match: {}, set: {}}\n  - {name: x, match: {}, set: {}}\n",
            ":3: error: override x: name: is the name of overrides.0, too",
        ),
        (
            "metrics: {period_seconds: 60}\noverrides:\n"
            "  - {name: a, match: {}, set: {idle: {window_minutes: 61}}}\n"
            "  - {name: b, match: {tags: {A: a}}, set: {metrics: {period_seconds: 300}}}\n",
            ":4: error: override b: where 'a', 'b' meet: idle.window_minutes: 61 is not "
            "a whole number",
        ),
        (
            "approval: {on_expiry: act}\nplan: {action: terminate}\n",
            "silence cannot approve a termination",
        ),
    ],
)
def test_a_mistake_has_its_file_line_and_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    """As compilers say it, so that editors jump there."""
    assert_refused(capsys, tmp_path, text, said)


def test_all_mistakes_of_a_line_are_said_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Also where one of them is a setting that stands twice."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        "plan: {action: stop, action: x, foo: 1, when_stop_is_unsupported: y}\n"
        "overrides: [{name: research, match: {}, set: {mode: z, bar: 1}}, {match: {}, 1: 2}]\n"
    )
    code, out = run(capsys, "check", str(file))
    lines = [line.removeprefix(f"{file}:") for line in out.splitlines()]

    assert 1 == code
    assert [
        "1: error: base: plan.action: stands twice, in line 1 and here",
        "1: error: base: plan.foo: unknown setting",
        "1: error: base: plan.when_stop_is_unsupported: is 'y'; it must be 'terminate' or "
        "'notify-only'",
        "2: error: override number 2: 1: is no text as a key; put it in quotes",
        "2: error: override number 2: name: is missing",
        "2: error: override number 2: set: is missing",
        "2: error: override research: bar: unknown setting",
        "2: error: override research: mode: is 'z'; it must be 'observe', 'ask' or 'auto'",
    ] == sorted(lines)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"mode: ask\n# caf\xe9\n", ":2: this line has the byte 0xe9, which is not text in UTF-8"),
        ("mode: ask\n".encode("utf-16"), ":1: this line has the byte 0xff"),
    ],
)
def test_a_file_that_is_not_utf_8_says_which_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, said: str
) -> None:
    """And what to do in the editor."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)

    assert 1 == main(["policy", "check", str(file)])
    err = capsys.readouterr().err
    assert said in err
    assert "save as UTF-8 in your editor" in err


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("idle: {window_minute: 60}", "window_minutes"),
        ("modes: auto", "mode"),
        ("window_minutes: 60", "idle.window_minutes"),
        ("overrides: [{name: x, match: {tag: {A: b}}, set: {}}]", "tags"),
        ("overrides: [{name: x, match: {}, set: {plan: {actoin: stop}}}]", "action"),
        ("ownership: {contacts: {ml: {email: [a@example.com]}}}", "emails"),
        ("metrics: {profile: neurn}", "neuron"),
        ("metrics: {device_dimensions: Slot}", "device_dimension"),
        ("metrics: {profile: container-insight}", "container-insights"),
        ("overrides: [{name: x, match: {}, set: {metrics: {profile: dgcm}}}]", "dcgm"),
        ("mode: aks", "ask"),
        ("zzz: 1", None),
        ("zzz: {window_minutes: 1}", None),
    ],
)
def test_an_unknown_setting_is_guessed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, meant: str | None
) -> None:
    """From what may stand there, else from where a setting of this name is; else not at all."""
    asked = f"; did you mean {meant}?\n" if meant else "unknown setting\n"
    assert_refused(capsys, tmp_path, text, asked)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true}\n"
            "plan: {local_disks_may_be_lost_unasked: true}",
            "local NVMe is wiped",
        ),
        ("mode: ask\napproval: {on_expiry: act}", "lets anybody who may publish metrics"),
        (
            "approval: {broadcast_may: [keep, stop]}",
            "has no effect while approval.people_to_stop is not 0",
        ),
        (
            "approval: {on_expiry: act, expire_after_minutes: 60, remind_after_minutes: 1, "
            "escalate_after_minutes: 1}",
            "8 hours",
        ),
        (
            "plan: {action: terminate}\napproval: {broadcast_may: [terminate]}",
            "broadcast_may has no effect",
        ),
        ("idle: {window_minutes: 10}", "coffee break"),
        ("mode: ask\nvetoes: {required: []}", "not measured counts as quiet"),
        (
            "vetoes: {power_percent_of_limit: null, cpu_percent: null, "
            "network_bytes_per_second: null}",
            "no veto",
        ),
        (
            "approval: {two_people_above_usd_per_hour: 5}\n"
            "plan: {action: terminate}\n"
            "ownership: {contacts: {\n"
            "  a: {emails: [al@example.com, bob@example.com], identities: {'slack:U012': "
            "al@example.com}},\n"
            "  b: {emails: [alice@example.com], identities: {'slack:U012': alice@example.com}}}}",
            "slack:U012 has the addresses al@example.com and alice@example.com, and so "
            "counts as two people",
        ),
        ("breaker: {turned_idle_percent: 95}", "hardly ever trips"),
        (
            "metrics: {lag_seconds: 901}",
            "nobody is ever asked: metrics.lag_seconds is 901; set 120",
        ),
        (
            "metrics: {lag_seconds: 601}",
            "approval.ask_after_released_minutes is never used; set 120",
        ),
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true, lag_seconds: 241}",
            "a step often waits, or never begins: the newest GPU reading may be 5 min old (metrics."
            "collection_interval_seconds: 60, metrics.lag_seconds: 241), "
            "and at most 5 min are allowed",
        ),
        (
            "mode: ask\napproval: {on_expiry: act}\n"
            "metrics: {collection_interval_seconds: 300, lag_seconds: 360}",
            "a step often waits, or never begins: the newest GPU reading may be 11 min old",
        ),
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true, lag_seconds: 360}",
            "EC2's newest reading of CPU and network traffic may be 11 min old",
        ),
        (
            "metrics: {collection_interval_seconds: 240}",
            "metrics.collection_interval_seconds: 240 does not divide metrics.period_seconds (300)",
        ),
        (
            "vetoes: {required: [cpu, network], cpu_percent: null}",
            "vetoes.required names cpu, whose limit is null",
        ),
        (
            "metrics: {utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE}",
            "metrics.utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE is a share from 0 to 1",
        ),
        (
            "metrics: {profile: custom, namespace: N, utilization: gpu_active_ratio}",
            "or set metrics.utilization_scale: share with the profile custom",
        ),
        (
            "metrics: {profile: custom, namespace: N, utilization: DCGM_FI_DEV_GPU_UTIL, "
            "utilization_scale: share}",
            "set metrics.profile: dcgm",
        ),
        (
            "metrics: {utilization: DCGM_FI_DEV_GPU_UTIL}",
            "metrics.utilization: DCGM_FI_DEV_GPU_UTIL is a metric of the DCGM exporter, and "
            "metrics.profile is agent, which counts or scales otherwise; set metrics.profile: dcgm",
        ),
        (
            "metrics: {profile: custom, namespace: N, utilization: node_neuroncore_utilization}",
            "set metrics.profile: neuron",
        ),
        (
            "metrics: {profile: container-insights, namespace: GPU/EC2}",
            "set metrics.namespace: ContainerInsights",
        ),
        (
            "metrics: {profile: dcgm, memory_used: node_gpu_memory_used}",
            "node_gpu_memory_used is in bytes, and metrics.profile is dcgm, which takes MiB",
        ),
        (
            "metrics: {profile: neuron}\nvetoes: {required: [power]}",
            "vetoes.required names power, and metrics.profile: neuron has no metric of it",
        ),
        (
            "mode: ask\napproval: {on_expiry: act}\nvetoes: {power_percent_of_limit: null}",
            "approval.on_expiry: act counts silence only where power confirms a low utilization, "
            "and vetoes.power_percent_of_limit is null, so on types with a power limit people are "
            "asked, and nothing happens if nobody answers; set a limit",
        ),
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true}\n"
            "vetoes: {power_percent_of_limit: null}",
            "mode: auto acts only where power confirms a low utilization, and "
            "vetoes.power_percent_of_limit is null, so on types with a power limit nothing is done "
            "unasked; set a limit",
        ),
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true}\n"
            "vetoes: {power_percent_of_limit: 41}",
            "vetoes.power_percent_of_limit: 41 does not let power from 40% on confirm",
        ),
        (
            "idle: {second_figure: required}\nvetoes: {power_percent_of_limit: 100}",
            "vetoes.power_percent_of_limit: 100 does not let power from 40% on confirm",
        ),
        (
            "idle: {second_figure: required}\nvetoes: {power_percent_of_limit: null}",
            "idle.second_figure: required needs power to confirm a low utilization",
        ),
        (
            "exemption: {tag_key: team keep, tag_value: 'yes'}",
            "exemption.tag_key: IAM does not deny instances with the key team keep",
        ),
    ],
)
def test_what_is_dangerous_is_told_and_not_refused(text: str, said: str) -> None:
    """With the setting that would mend it."""
    assert any(said in warning for warning in warnings(parse_policy(text).base().policy))


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        ("CostCenter: '1', costcenter: '2'", ["CostCenter, costcenter"]),
        ("a: '1', A: '2', b: '3', B: '4'", ["a, A", "b, B"]),
        ("CostCenter: '1', CostCentre: '2'", []),
        ("name: x, CostCenter: '1'", ["Name, name"]),
    ],
)
def test_keys_that_differ_in_letter_case_alone_warn(tags: str, said: list[str]) -> None:
    """A tag policy refuses both together, and so every snapshot."""
    policy = parse_policy(f"plan: {{snapshot_tags: {{{tags}}}}}").base().policy
    start = "plan.snapshot_tags: "
    found = [one for one in warnings(policy) if one.startswith(start)]

    assert said == [one.removeprefix(start).partition(" differ")[0] for one in found]


_PEOPLE = "contacts: {ml: {emails: [a@example.com]}, ops: {emails: [b@example.com]}}"


@pytest.mark.parametrize(
    ("ownership", "count"),
    [
        (f"{_PEOPLE}, default_contacts: [ml]", 1),
        (f"{_PEOPLE}, default_contacts: [ml], project_owners: {{x: ml}}", 1),
        (
            "contacts: {ml: {emails: [a@example.com]}, again: {emails: [A@example.com]}}, "
            "default_contacts: [ml], escalation_contacts: [again]",
            1,
        ),
        (f"{_PEOPLE}, default_contacts: [ml], escalation_contacts: [ops]", 0),
        (f"{_PEOPLE}, default_contacts: [ops], escalation_contacts: [ops]", 0),
        ("contacts: {ops: {emails: [b@example.com]}}, default_contacts: [ops], "
         "escalation_contacts: [ops]", 0),
    ],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["ask", "auto", "observe"])
def test_restarts_that_nobody_else_would_hear_of_warn_once(
    ownership: str, count: int, mode: str
) -> None:
    """Not in mode observe, which stops nothing, nor about those who are asked at an escalation."""
    trusted = "metrics: {publishers_are_trusted: true}"
    policy = parse_policy(f"mode: {mode}\n{trusted}\nownership: {{{ownership}}}").base().policy
    said = [one for one in warnings(policy) if one.startswith("ownership.escalation_contacts")]

    assert (0 if mode == "observe" else count) == len(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: ask", "one person must approve a stop, and the contacts name 0 by address"),
        ("mode: auto\nmetrics: {publishers_are_trusted: true}", "one person must approve a stop"),
        (
            "mode: ask\nownership: {contacts: {a: {lists: [all@example.com]}}}\nidle: "
            "{window_minutes: 60}",
            ":2: error: base: ownership.contacts: one person",
        ),
        (
            "mode: ask\nplan: {action: terminate}\n"
            "ownership: {contacts: {a: {emails: [alice@example.com], lists: [all@example.com]}}}",
            "2 people must approve a termination, and the contacts name 1 by address",
        ),
        (
            "mode: ask\nownership: {contacts: {a: {emails: [alice@example.com]}}}\n"
            "overrides: [{name: x, match: {}, set: {plan: {when_stop_is_unsupported: terminate}}}]",
            "error: override x: ownership.contacts: 2 people must approve",
        ),
        (
            "mode: ask\nownership: {contacts: {a: {emails: [a@example.com]}, b: {lists: "
            "[b@example.com]}},\n"
            "  default_contacts: [b]}",
            ":3: error: base: ownership.default_contacts: one person must approve a "
            "stop, and of those "
            "who are asked 0 are known by address",
        ),
        (
            f"mode: ask\n{PEOPLE.replace('default_contacts: [a]', '')}",
            "error: base: ownership.default_contacts: ",
        ),
        (
            "mode: ask\nplan: {action: terminate}\nownership: {default_contacts: [a], contacts: {\n"
            "  a: {emails: [a@example.com]}, b: {emails: [b@example.com]}}}",
            "of those who are asked 1 is known by address",
        ),
        (
            "mode: ask\nownership: {project_owners: {x: l}, contacts: {a: {emails: "
            "[a@example.com]},\n"
            "  l: {lists: [b@example.com]}}}",
            ":2: error: base: ownership.project_owners.x: one person",
        ),
        (
            "mode: ask\nownership: {contacts: {a: {emails: [a@example.com]},\n"
            "  l: {lists: [b@example.com]}}}",
            ":3: error: base: ownership.contacts.l: one person",
        ),
        (
            "mode: ask\nownership: {contacts: {l: {lists: [b@example.com]}}}\n"
            "overrides: [{name: x, match: {tags: {A: b}}, set: {approval: {people_to_stop: 0}}}]",
            "error: override x: ownership.contacts: one person must approve a stop",
        ),
    ],
)
def test_a_policy_that_nobody_could_answer_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, said: str
) -> None:
    """Its questions could be kept, and never approved."""
    assert_refused(capsys, tmp_path, text, said)


@pytest.mark.parametrize(
    "ownership",
    [
        "default_contacts: [l], escalation_contacts: [a, b]",
        "default_contacts: [a], escalation_contacts: [b], project_owners: {x: l}",
    ],
)
def test_who_is_asked_later_may_approve_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ownership: str
) -> None:
    """A question that goes to a list first reaches two people before it expires."""
    contacts = "l: {lists: [l@example.com]}"
    for name in "ab":
        arn = f"aws:arn:aws:iam::123456789012:user/{name}"
        identities = f"identities: {{'{arn}': {name}@example.com}}"
        contacts += f", {name}: {{emails: [{name}@example.com], {identities}}}"
    file = tmp_path / "policy.yaml"
    file.write_text(
        f"mode: ask\nplan: {{action: terminate}}\nownership: {{contacts: {{{contacts}}}, "
        f"{ownership}}}"
    )
    code, out = run(capsys, "check", str(file))
    assert (0, 1) == (code, len(out.splitlines())), out


def test_an_overrides_danger_is_told_by_its_name(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The base may be harmless."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        "overrides: [{name: research, match: {}, set: {ledger: {false_stop_within_minutes: 0}}}]"
    )

    code, out = run(capsys, "check", str(file))
    assert (0, True) == (code, "warning: research: ledger.false_stop" in out)


def test_a_fleet_whose_readings_are_too_old_to_act_unasked_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By its override, and only where something would be done without a person's approval."""
    file = tmp_path / "policy.yaml"
    slow = "{name: slow, match: {tags: {Fleet: slow}}, set: {mode: auto}}"
    trusted = "metrics: {publishers_are_trusted: true, lag_seconds: 400}"
    file.write_text(f"mode: ask\n{PEOPLE}\n{trusted}\noverrides: [{slow}]\n")
    code, out = run(capsys, "check", str(file))
    named = [line for line in out.splitlines() if "a step often waits, or never begins" in line]

    assert 0 == code
    assert 2 == len(named), out
    assert all("warning: slow: without a person's approval" in line for line in named)


def test_what_overrides_bring_about_together_is_told_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Each harmless alone; what the base brings about is told of the base."""
    file = tmp_path / "policy.yaml"
    file.write_text(
        f"mode: ask\nmetrics: {{publishers_are_trusted: true}}\n{PEOPLE}vetoes: {{required: []}}\n"
        "overrides:\n"
        "  - {name: now, match: {tags: {A: a}}, set: {mode: auto}}\n"
        "  - {name: gone, match: {tags: {B: b}}, set: {plan: "
        "{local_disks_may_be_lost_unasked: true}}}\n"
        "  - {name: short, match: {tags: {C: c}}, set: {idle: {window_minutes: 10}}}\n"
    )
    code, out = run(capsys, "check", str(file))

    told = [line.partition(" warning: ")[2] for line in out.splitlines()[:-1]]
    began = [
        "base: ownership.escalation_contacts names nobody",
        "base: vetoes.required is empty",
        "short: idle.window_minutes",
        "now + gone: what lies on local NVMe",
    ]
    assert (0, len(began)) == (code, len(told)), out
    assert all(line.startswith(start) for line, start in zip(told, began, strict=True)), out


def test_a_document_of_30_kb_is_fine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """An object of S3 holds more than an SSM parameter did."""
    file = tmp_path / "policy.yaml"
    file.write_text("# " + "a" * 30_000 + "\n")

    code, out = run(capsys, "check", str(file))
    assert (0, False) == (code, "characters" in out)


@pytest.mark.parametrize(
    "content", [b"mode: ask\n# \xff", b"\xff\xfem\x00", b"mode: ask\x00", b"? [a]\n: b"]
)
def test_no_file_makes_the_check_fall_over(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
) -> None:
    """Other encodings, control characters, keys that are lists."""
    file = tmp_path / "policy.yaml"
    file.write_bytes(content)

    code, out = run(capsys, "check", str(file))
    assert (1, 1) == (code, len(out.splitlines()))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_policy(capsys: pytest.CaptureFixture[str], example: Path) -> None:
    """Checked as a user would: nothing is refused, and nothing warned about."""
    code, out = run(capsys, "check", str(example))

    assert (0, 1) == (code, len(out.splitlines())), out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mode: observe", "mode is observe"),
        ("approval: {on_expiry: act}", "approval.on_expiry takes silence for an approval"),
        ("plan: {local_disks_may_be_lost_unasked: true}", "wipes data without an approval"),
        (
            "mode: auto\nmetrics: {publishers_are_trusted: true}\napproval: {notice_minutes: 29}",
            "approval.notice_minutes is too short",
        ),
        (
            "approval: {tag_owner_may: [keep, stop]}\nownership: {email_domains: [a.example]}",
            "may tag",
        ),
        ("caps: {owner_actions_per_hour: 0}", "caps.owner_actions_per_hour is 0"),
        ("caps: {account_actions_per_hour: 500}", "more than people could undo"),
        ("breaker: {turned_silent_percent: 99}", "breaker hardly ever trips"),
        ("vetoes: {required: []}", "vetoes.required is empty"),
        ("exemption: {tag_key: Environment, tag_value: production}", "exemption.tag_key is a key"),
        (
            "exemption: {tag_key: team keep, tag_value: 'yes'}",
            "exemption.tag_key is a key that IAM does not",
        ),
        ("mode: ask", "ownership.contacts names 0 people"),
        ("mode: ask", "ownership.escalation_contacts names no person"),
    ],
)
def test_what_production_lacks_is_named(text: str, said: str) -> None:
    """By its setting, with what to do."""
    found = missing(parse_policy(text).base().policy)
    assert any(said in f"{setting} {why}" for setting, why in found)


def test_one_mailbox_is_one_person() -> None:
    """Many mail services deliver a+x@ to a@: one reader would be two people."""
    emails = "[alice@example.com, Alice+x@example.com]"
    text = PEOPLE.replace("[alice@example.com, bob@example.com]", emails)
    assert text != PEOPLE
    found = missing(parse_policy(f"mode: ask\n{text}").base().policy)
    assert any("names 1 person by address" in why for _, why in found)


def test_a_policy_for_production_passes_and_says_what_it_cannot_see(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """An override that loosens it is named."""
    file = tmp_path / "policy.yaml"
    people = PEOPLE.replace(
        "default_contacts: [a]", "default_contacts: [a], escalation_contacts: [a]"
    )
    file.write_text(f"mode: ask\n{people}")
    code, out = run(capsys, "check", "--production", str(file))
    assert (0, True, True) == (code, "cannot show it: sign-in" in out, "ok, version" in out), out
    assert "two_people_for_policy counts only from the first `bin/governor policy put` on" in out
    assert "cannot show it: owners: " in out
    assert "`bin/governor doctor` lists those that name nobody" in out

    file.write_text(
        f"mode: ask\n{people}overrides: [{{name: x, match: {{}}, set: {{vetoes: "
        "{required: []}}}]"
    )
    code, out = run(capsys, "check", "--production", str(file))
    assert (1, True) == (code, "not for production: x: vetoes.required" in out), out


ACCEPTED = """mode: ask
metrics: {publishers_are_trusted: true}
ownership:
  default_contacts: [a]
  escalation_contacts: [a]
  contacts:
    a:
      emails: [alice@example.com, bob@example.com]
      identities: {"aws:arn:aws:iam::123456789012:user/alice": alice@example.com}
overrides:
  - name: scratch
    match: {tags: {Life: short}}
    set: {mode: auto, plan: {action: terminate}}
    approved_by: [alice@example.com, bob@example.com]
"""


@pytest.mark.parametrize("option", [[], ["--production"]])
def test_an_override_that_names_people_is_not_ok_until_they_accept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, option: list[str]
) -> None:
    """`policy check` said ok, also with `--production`. A document cannot show an acceptance."""
    file = tmp_path / "policy.yaml"
    bob = '"aws:arn:aws:iam::123456789012:user/bob": bob@example.com}'
    file.write_text(ACCEPTED.replace(": alice@example.com}", f": alice@example.com, {bob}"))
    code, out = run(capsys, "check", *option, str(file))

    until = (
        'Override "scratch" counts as ask until alice@example.com and bob@example.com '
        "accept this version."
    )
    assert (0, True, False) == (code, until in out, ": ok" in out), out
    assert "usable, but 1 override counts as ask until people accept, version" in out


def test_a_person_whom_no_identity_stands_for_could_not_accept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(ACCEPTED)
    code, out = run(capsys, "check", str(file))

    assert (0, True) == (
        code,
        "bob@example.com cannot accept an override: map an aws: identity" in out,
    ), out
    assert "alice@example.com cannot accept" not in out


def test_after_a_version_is_stored_its_people_are_told_to_accept_it() -> None:
    """Nothing is said where nobody is missing."""
    book = parse_policy(ACCEPTED)
    said = next_steps(book.unaccepted(), "v7")
    assert (
        "Next, each of alice@example.com, bob@example.com runs `governor policy accept v7`" in said
    )

    both = frozenset({"alice@example.com", "bob@example.com"})
    book.apply_acceptances(Acceptances(book.terms, both))
    assert "" == next_steps(book.unaccepted(), "v7")


def test_a_team_of_one_is_told_what_it_can_do_instead(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    alone = ACCEPTED.replace("alice@example.com, bob@example.com", "alice@example.com")
    assert_refused(capsys, tmp_path, alone, "a team of one sets mode: ask, or action: stop")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "two_people_for_policy: false\n",
            "two_people_for_policy is false, and the policy terminates",
        ),
        ("", "ownership.contacts maps 1 person to aws: identities"),
    ],
)
def test_production_refuses_one_writer_for_a_policy_that_terminates(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, said: str, why: str
) -> None:
    """An explicit false, and a default of true that nobody could fulfill. Otherwise it is a
    warning."""
    file = tmp_path / "policy.yaml"
    file.write_text(said + ACCEPTED)
    code, out = run(capsys, "check", "--production", str(file))
    assert (1, True) == (code, why in out), out

    code, out = run(capsys, "check", str(file))
    assert (0, True) == (code, "warning: " + why.replace(" ", ": ", 1) in out), out


def test_the_schema_beside_the_examples_is_the_present_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`governor policy schema > examples/policy.schema.json` makes it."""
    code, out = run(capsys, "schema")
    stored = json.loads((ROOT / "examples" / "policy.schema.json").read_text())

    assert (0, policy_schema()) == (code, json.loads(out))
    assert stored == policy_schema()


@mock_aws
def test_an_instance_is_explained(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which override applied, and what it changed from what."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    file = tmp_path / "policy.yaml"
    file.write_text(
        "mode: ask\noverrides: [{name: research, match: {tags: {Project: llm}}, set: "
        "{plan: {action: "
        "terminate}}}]"
    )
    ec2 = boto3.client("ec2", region_name="us-east-1")
    tags: Any = [{"ResourceType": "instance", "Tags": [{"Key": "Project", "Value": "llm"}]}]
    made = ec2.run_instances(
        ImageId="ami-12c6146b",
        MinCount=1,
        MaxCount=1,
        InstanceType="g5.xlarge",
        TagSpecifications=tags,
    )["Instances"][0]["InstanceId"]

    code, out = run(capsys, "explain", made, "--file", str(file), "--region", "us-east-1")
    assert 0 == code, out
    assert "overrides that apply: research" in out
    assert "plan.action: terminate   (an override; the document says stop)" in out
    assert "mode: ask   (the document; the default is observe)" in out
    _, out = run(capsys, "explain", made, "--file", str(file), "--region", "us-east-1", "--json")
    explained = json.loads(out)
    assert (["research"], made) == (explained["overrides"], explained["instance_id"])
    assert {"path": "plan.action", "value": "terminate", "set_by": "override"} in explained[
        "settings"
    ]
    file.write_text(
        'overrides: [{name: "a\\x1b[2Jb", match: {}, set: {vetoes: {cpu_percent: null}}}]\n'
        "ownership: {contacts: {a: {emails: [a@example.com], working_days: [mon, tue]}}}"
    )
    ec2.create_tags(Resources=[made], Tags=[{"Key": "Name", "Value": "evil\u202ename"}])
    code, out = run(capsys, "explain", made, "--file", str(file), "--region", "us-east-1")
    assert (0, True) == (code, out.replace("\n", "").isprintable()), out
    assert "evil name (i-" in out
    assert "overrides that apply: a [2Jb" in out
    assert "vetoes.cpu_percent: null   (an override; the document says 30.0)" in out
    assert "working_days: [mon, tue]   (the document;" in out
    assert "Weekday" not in out
    code, out = run(
        capsys, "explain", "i-0123456789abcdef0", "--file", str(file), "--region", "us-east-1"
    )
    assert (1, True) == (code, "there is no instance" in out)


def test_a_name_is_not_taken_for_the_id_of_an_instance(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """EC2's InvalidInstanceID.Malformed does not say what to do."""
    file = tmp_path / "policy.yaml"
    file.write_text("mode: ask")

    code, out = run(capsys, "explain", "notebook-7", "--file", str(file), "--region", "us-east-1")

    assert (1, True) == (code, "'notebook-7' is no instance ID like i-0123456789abcdef0" in out)


_ACCOUNT = "111122223333"
_PLACE = Place(_ACCOUNT, "us-east-1")


@pytest.mark.parametrize(
    ("targets", "named"),
    [
        (Targets(without=(_PLACE,)), "targets.accounts and targets.regions"),
        (Targets(accounts=(_ACCOUNT,), without=(_PLACE,)), "targets.regions"),
        (Targets(regions=("us-east-1",), without=(_PLACE,)), "targets.accounts"),
    ],
)
def test_places_that_may_be_all_that_the_stack_sweeps_are_warned_of(
    targets: Targets, named: str
) -> None:
    """Where a list is empty, the place of the stack counts, which the command does not know."""
    [warning] = [
        one for one in warnings(Policy(targets=targets)) if one.startswith("targets.without")
    ]
    assert f"where {named} is empty" in warning


@pytest.mark.parametrize(
    "targets",
    [
        Targets(),
        Targets(units=("ou-abcd-11111111",), without=(_PLACE,)),
        Targets(accounts=(_ACCOUNT, "444455556666"), without=(_PLACE,)),
        Targets(regions=("us-east-1", "eu-west-1"), without=(_PLACE,)),
    ],
)
def test_places_beside_which_others_are_left_are_not_warned_of(targets: Targets) -> None:
    assert not [one for one in warnings(Policy(targets=targets)) if "targets.without" in one]


@pytest.mark.parametrize(
    "metrics",
    [
        "{profile: agent}",
        "{profile: container-insights}",
        "{profile: neuron}",
        "{profile: dcgm, namespace: Ours}",
        "{profile: dcgm, utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE}",
        "{profile: custom, namespace: Ours, utilization: DCGM_FI_DEV_GPU_UTIL}",
        "{profile: custom, namespace: Ours, utilization: ours}",
        "{profile: custom, namespace: Ours, utilization: ratio, utilization_scale: share}",
        "{profile: custom, namespace: Ours, utilization: DCGM_FI_PROF_GR_ENGINE_ACTIVE, "
        "utilization_scale: share, series_per_device: 7}",
        "{profile: custom, namespace: Ours, utilization: neuroncore_utilization, "
        "series_per_device: 2}",
    ],
)
def test_names_that_fit_their_profile_bring_no_warning(metrics: str) -> None:
    """Nor is a share warned of that the profile turns into percent."""
    plain = warnings(parse_policy("").base().policy)
    assert plain == warnings(parse_policy(f"metrics: {metrics}").base().policy)
