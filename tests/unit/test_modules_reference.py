"""The index of the code is that of the docstrings, and names every file that exists."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts.modules_reference import PAGE, ROOMS, TEMPLATES, first_sentence, page, rooms

ROOT = Path(__file__).parents[2]


def test_the_index_is_that_of_the_docstrings() -> None:
    """`make fix` writes it."""
    assert page() == PAGE.read_text(encoding="utf-8"), "run make fix: docs/modules.md is generated"


def test_every_template_and_state_machine_has_a_row() -> None:
    """Their sentences are written by hand, in `scripts/modules_reference.py`."""
    files = [
        ROOT / "template.yaml",
        *ROOT.glob("stacks/*.yaml"),
        *ROOT.glob("statemachines/*.yaml"),
    ]

    assert {path.relative_to(ROOT).as_posix() for path in files} == TEMPLATES.keys()


def test_every_file_of_the_index_exists() -> None:
    """A reader opens it."""
    named = re.findall(r"^\| `([^`]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert len(named) > 400
    assert [] == [name for name in named if not ((ROOMS / name).exists() or (ROOT / name).exists())]


def test_rooms_stand_in_the_order_of_the_architecture() -> None:
    """`core` imports nothing, and `wiring` everything."""
    names = list(rooms())

    assert ("core", "wiring") == (names[0], names[-1])


@pytest.mark.parametrize(
    ("docstring", "sentence"),
    [
        ("Stops instances. It asks first.", "Stops instances."),
        ("Reads `a.b` of v1.4, such as\nX.\n\nMore.", "Reads `a.b` of v1.4, such as X."),
    ],
)
def test_a_row_has_the_first_sentence(docstring: str, sentence: str) -> None:
    """Whatever follows it, and however its lines break."""
    assert sentence == first_sentence("a.py", f'"""{docstring}"""\n')


def test_a_module_without_a_docstring_is_refused() -> None:
    """Nobody could find it."""
    with pytest.raises(ValueError, match=r"core/a\.py has no docstring"):
        first_sentence("core/a.py", "A = 1\n")


def test_the_command_of_the_docs_finds_the_file() -> None:
    """CONTRIBUTING, the architecture and the index itself name the same command."""
    command = 'grep -i "reminder" docs/modules.md'
    pages = ("CONTRIBUTING.md", "docs/architecture.md", "docs/modules.md")
    found = subprocess.check_output(["grep", "-i", "reminder", PAGE], text=True)

    texts = [" ".join((ROOT / name).read_text(encoding="utf-8").split()) for name in pages]
    assert all(command in text for text in texts)
    assert "`policy/rules/schedule.py`" in found
