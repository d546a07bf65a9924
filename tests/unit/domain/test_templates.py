"""The templates of alerts: how they are written, and that code and file name the same ones."""

from __future__ import annotations

import ast
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from string import Formatter

import pytest

from governor.domain.alerts import templates
from governor.domain.alerts.alert import AlertKind, Severity
from governor.domain.alerts.templates import said
from tests.builders import NOW

Fill = Callable[..., list[str]]
LAYER = Path(templates.__file__).parents[2]
ALL = templates._templates()
NAMES = {
    node.args[0].value
    for path in LAYER.rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call)
    and isinstance(node.func, ast.Name)
    and node.func.id in ("written", "said")
    if isinstance(node.args[0], ast.Constant)
}


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Make a template of these lines and fill it in."""

    def fill(*lines: str, **values: object) -> list[str]:
        monkeypatch.setattr(templates, "_templates", lambda: {"one": ["", *lines]})
        return said("one", values, "Europe/Berlin", NOW)

    return fill


def test_every_template_has_a_line_and_forms_that_exist() -> None:
    """A kind and a severity too, where it is a message of its own."""
    known = {"", *templates._FORMS, *templates._TIMES}
    for head, *lines in ALL.values():
        if head:
            kind, severity = head.split()
            assert kind in set(AlertKind)
            assert severity in set(Severity)
        assert lines
        parts = [part for line in lines for part in Formatter().parse(line)]
        assert {form for _, name, form, _ in parts if name is not None} <= known


def test_code_names_only_templates_that_exist() -> None:
    """Those that are named by a value, such as a cause, are tested where they are used."""
    assert NAMES
    assert set(ALL) >= NAMES


def test_a_line_is_left_out_where_its_condition_does_not_hold(template: Fill) -> None:
    """Several conditions may stand before a line; a value may also be compared."""
    lines = ("?a ?b both", "!a none", "?a=1 one", "!a=1 other", "?b {b}")

    assert ["both", "one", "x"] == template(*lines, a=1, b="x")
    assert ["none", "other"] == template(*lines, a=None, b="")


def test_values_come_in_their_forms(template: Fill) -> None:
    """The text of a value is never read as a template."""
    assert ["$12", "Fri 13:02 Berlin (12:02 UTC)", "It is {b}.", "no."] == template(
        "{a:usd}",
        "{t:clock}",
        "{b:sentence}",
        "{c:stop}",
        a=Decimal(12),
        t=NOW,
        b="it is {b}",
        c="no",
    )


def test_several_lines_may_stand_under_a_heading(template: Fill) -> None:
    """A heading without lines is left out."""
    lines = ("{name}", "## Lost", "- {*a}", "## Kept", "- {*b}")

    assert ["x", "", "Lost:", "- 1", "- 2"] == template(*lines, name="x", a=[1, 2], b=[])


def test_a_long_name_leaves_room_for_the_rest_of_the_subject(template: Fill) -> None:
    """In the subject alone."""
    subject, body = template("{name} is stopped", "{name} again", name="n" * 200)

    assert 98 == len(subject)
    assert subject.endswith("… is stopped")
    assert body == f"{'n' * 200} again"


def test_a_name_that_no_value_has_is_an_error(template: Fill) -> None:
    """Rather than a sentence with a hole."""
    for line in ("{missing}", "?missing text", "{*missing}"):
        with pytest.raises(KeyError):
            template(line)
