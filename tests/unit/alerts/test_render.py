"""The templates of `alerts/words`: how they are written, and what their values cannot do."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from jinja2 import DictLoader, UndefinedError, meta, nodes

from governor.alerts import render
from governor.alerts.model import LineForm, Section, Words
from governor.alerts.render import rendered
from tests.builders import NOW

Fill = Callable[..., Words]
FILES = sorted(render.FOLDER.glob("*/*.txt"))


@pytest.fixture
def fill(monkeypatch: pytest.MonkeyPatch) -> Fill:
    """Make a template of this text and render it."""

    def filled(text: str, **values: object) -> Words:
        overlay = render.environment().overlay(loader=DictLoader({"one.txt": text}))
        monkeypatch.setattr(render, "environment", lambda: overlay)
        return rendered("one", values, "Europe/Berlin", NOW)

    return filled


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_template_can_be_read_and_names_filters_that_exist(path: object) -> None:
    """Jinja2 refuses a filter that it does not know."""
    template = render.environment().get_template(str(getattr(path, "name", "")))
    assert template.filename == str(path)


def test_no_two_templates_have_the_same_name() -> None:
    """The folders say whose they are; the code names the template alone."""
    names = [path.name for path in FILES]
    assert len(names) > 60
    assert len(names) == len(set(names))


def test_the_first_line_is_the_title_and_the_others_are_the_body(fill: Fill) -> None:
    words = fill("{{ a }} is idle\n\nIt costs {{ b | usd }}.\n", a="x", b=Decimal(12))

    assert Words("x is idle", ("It costs $12.",), (LineForm.TEXT,)) == words


def test_a_line_may_be_indented_and_continued(fill: Fill) -> None:
    """So that conditions can be read, and no line is long."""
    words = fill(
        "T\n{% if a %}\n  {% if b %}\n    one \\\n      two\n  {% endif %}\n{% endif %}", a=1, b=1
    )

    assert ("one two",) == words.lines


def test_headings_and_items_become_sections(fill: Fill) -> None:
    """In the text, an empty line stands before a heading of two signs."""
    words = fill(
        "T\nlead\n## Lost\n{% for a in those %}\n  - {{ a }}\n{% endfor %}\n### Left\nplain\n",
        those=["1", "2"],
    )

    assert ("lead", "", "Lost:", "- 1", "- 2", "Left:", "plain") == words.lines
    assert ("lead",) == words.lead
    assert (
        Section("Lost", ("1", "2")),
        Section("Left", ("plain",), is_text=True),
    ) == words.sections


@pytest.mark.parametrize("forms", [(), (LineForm.TEXT, LineForm.TEXT)])
def test_words_have_one_form_for_each_line(forms: tuple[LineForm, ...]) -> None:
    """The mistake shows where the words are made, not where a channel takes them apart."""
    with pytest.raises(ValueError, match="1 lines"):
        Words("T", ("a line",), forms)


def test_an_empty_line_and_a_heading_without_lines_are_left_out(fill: Fill) -> None:
    words = fill(
        "T\n{{ a }}\n## Lost\n{% for b in those %}\n- {{ b }}\n{% endfor %}", a="", those=[]
    )

    assert Words("T") == words


@pytest.mark.parametrize(
    "value",
    ["## x", "### x", "- x", "  x", "one\ntwo", "one\\", "{{ b }}", "a\n## x\n- y", "\ufdd0## x"],
)
def test_the_text_of_a_value_is_never_markup(fill: Fill, value: str) -> None:
    """Anybody who can launch an instance chooses its names and tags."""
    words = fill("T\n{{ a }}\nend\n## Heading\n- {{ a }}\n{{ a }}\n", a=value)
    text = value.replace("\ufdd0", "")

    assert (text, "end") == words.lead
    assert (Section("Heading", (text, text)),) == words.sections


@pytest.mark.parametrize(
    "text",
    ["{{ missing }}", "{% if missing %}x{% endif %}", "{{ a.missing }}", "{{ missing | usd }}"],
)
def test_a_value_that_is_missing_is_an_error(fill: Fill, text: str) -> None:
    """Rather than a sentence with a hole."""
    with pytest.raises((UndefinedError, TypeError), match=r"missing|StrictUndefined"):
        fill(text, a=NOW)


def test_values_come_in_their_forms(fill: Fill) -> None:
    """Times in the reader's zone."""
    text = (
        "{{ a | usd }}\n{{ t | clock }}\n{{ t | day }}\n{{ t | deadline }}\n{{ b | sentence }}\n"
        "{{ c | full_stop }}\n{{ c | capital }}\n{{ d | people }}\n"
    )
    words = fill(text, a=Decimal(12), t=NOW, b="it is", c="no", d="link:alice@example.com")

    assert "$12" == words.title
    assert (
        "Fri 13:02 Berlin (12:02 UTC)",
        "Fri 13:02",
        "Fri 13:02 Berlin (12:02 UTC, already over)",
        "It is.",
        "no.",
        "No",
        "alice@example.com (mail link)",
    ) == words.lines


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_line_of_a_template_is_too_long_to_read(path: object) -> None:
    text = getattr(path, "read_text")(encoding="utf-8")  # noqa: B009
    assert [] == [line for line in text.splitlines() if len(line) > 100]
    assert meta.find_undeclared_variables(render.environment().parse(text)) is not None


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_template_sets_a_variable_to_a_block(path: object) -> None:
    """Such a block is a value when it is used, so a `\\` at the end of its line would be sent, with
    the line break after it."""
    text = getattr(path, "read_text")(encoding="utf-8")  # noqa: B009
    assert [] == list(render.environment().parse(text).find_all(nodes.AssignBlock))
