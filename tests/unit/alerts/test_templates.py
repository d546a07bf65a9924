"""Alerts from templates: code and files name the same ones, and a title fits."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from governor.alerts import render, templates
from governor.alerts.model import LINE_FORMS, NOBODY, Alert, AlertKind, Section, Severity, words_of
from governor.alerts.templates import alert_from_template, template_lines, template_words
from governor.approvals.messages.questions import STAGE_OF
from governor.core.instance import Target
from governor.policy.messages import difference, version_alert
from governor.sweep.messages import NVIDIA
from tests.builders import NOW

LAYER = Path(templates.__file__).parents[2]
FILES = {path.stem for path in render.FOLDER.glob("*/*.txt")}
NAMES = {
    node.args[0].value
    for path in LAYER.rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Name)
    and node.func.id in ("alert_from_template", "template_lines", "first_line_of", "template_words")
    if isinstance(node.args[0], ast.Constant)
}
NAMED_BY_VALUES = {"all-frozen", "all-released", "frozen", "released", "paused", "pause-ended"} | {
    *("spot", "capacity-reservation", "rebalance", "auto-scaling"),
    *("first-yes", "waiting", "undone", "start-failed", "outcome", "failure"),
    *("block-begins", "block-ends"),
}
TARGET = Target("123456789012", "eu-central-1")


def file_of(name: str) -> str:
    return name.replace(" ", "-")


def test_code_names_only_templates_that_exist() -> None:
    """Those that are named by a value, such as a cause, are tested where they are used."""
    assert NAMES
    assert FILES >= {file_of(str(name)) for name in NAMES}


def test_every_template_is_used() -> None:
    """By its name in the code, or by a value; those of `governor doctor` by the command."""
    unused = FILES - {file_of(str(name)) for name in NAMES} - NAMED_BY_VALUES
    assert set() == {name for name in unused if not name.startswith("telemetry-")}


def test_every_kind_of_alert_is_set_by_a_template() -> None:
    """The stages of a question share one template; an alarm comes without words of ours."""
    texts = [path.read_text(encoding="utf-8") for path in render.FOLDER.glob("*/*.txt")]
    kinds = {kind for text in texts for kind in re.findall(r'alert_kind = "([^"]+)"', text)}
    severities = {kind for text in texts for kind in re.findall(r'severity = "([^"]+)"', text)}

    assert {AlertKind.ALARM, AlertKind.ALARM_OVER, *STAGE_OF} == set(AlertKind) - kinds
    assert set(Severity) >= severities


def test_a_part_of_a_message_is_no_message() -> None:
    with pytest.raises(LookupError, match="many sets no alert_kind"):
        alert_from_template("many", TARGET, "x", NOW, {}, {"kind": "rebalance"})


def test_a_long_name_leaves_room_for_the_rest_of_the_title() -> None:
    """In the title alone."""
    words = template_words("incident over", {"name": "n" * 200})
    assert 98 == len(words.title)
    assert words.title.startswith("Resolved: nnn")
    assert words.title.endswith("n…")

    alert = alert_from_template("incident over", TARGET, "over-1", NOW, {}, {"name": "n" * 80})
    assert f"Resolved: {'n' * 80}" == alert.subject


def test_a_part_of_a_message_keeps_a_long_name() -> None:
    """It is in a command that somebody copies."""
    values: dict[str, object] = {"kind": "group", "name": "n" * 60, "service": "", "cluster": ""}
    values |= {"state": "", "batch": None, "devices": NVIDIA, "running": "", "waiting": ""}
    *_, line = template_lines("managed advice", values)

    assert f"--auto-scaling-group-name {'n' * 60} --min-size 0" in line


def test_the_form_of_each_line_travels_in_the_facts() -> None:
    """So no channel has to find them in the text, whatever a value looks like."""
    words = {"name": "n", "step": "stop", "since": NOW, "readable": "x:", "listed": ["- a", "b:"]}
    alert = alert_from_template("recovered", TARGET, "recovered-1", NOW, {}, words)

    received = words_of(alert)

    assert "tttehii" == alert.facts[LINE_FORMS]
    assert (
        "GPU Governor's workflows no longer fail for this reason. You don't need to do anything.",
        "Cause: x:",
        "The problem lasted from Fri 12:02 UTC to Fri 12:02 UTC.",
    ) == received.lead
    assert (Section("Affected instances", ("- a", "b:")),) == received.sections
    assert received.lines == alert.lines


def test_a_diff_is_one_section_whatever_its_lines_look_like() -> None:
    """A key of YAML ends in a colon, and a line that was removed begins with a dash."""
    changes = difference("mode: ask\n- a\n", "mode: ask\nownership:\n  contacts:\n")
    alert = version_alert(TARGET, "v2", "alice", "in-force", NOW, changes=changes)

    (section,) = words_of(alert).sections
    assert "Changes (- before, + after)" == section.heading
    assert (" mode: ask", "-- a", "+ownership:", "+  contacts:") == section.lines[-4:]


def test_a_refused_policy_says_why_before_its_changes() -> None:
    """The mistake was the last line of the diff."""
    changes = difference("mode: ask\n", "mode: asks\n")
    why = "line 1: mode: must be one of observe, ask, auto"
    alert = version_alert(TARGET, "v2", "alice", "refused", NOW, changes=changes, why_refused=why)
    words = words_of(alert)

    assert why == words.lead[-1]
    assert [True] == [section.is_text for section in words.sections]


@pytest.mark.parametrize("forms", [None, 7, "", "hit", "hixi", ["h", "i", "e", "i"]])
def test_an_alert_without_parts_is_read_line_by_line(forms: object) -> None:
    """One of an earlier release, or one that was cut to what SNS takes."""
    alert = alert_from_template("incident over", TARGET, "over-1", NOW, {}, {"name": "x"})
    changed = Alert(
        **{
            **{name: getattr(alert, name) for name in Alert.__slots__},
            "facts": {LINE_FORMS: forms},
            "lines": ("Lost:", "- a", "", "- b"),
            "owner": NOBODY.name,
        }
    )
    words = words_of(changed)

    assert ("Lost:", "- a", "- b") == words.lead
    assert () == words.sections
