"""The docs hold what they promise: lines that fit, links that lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *(
            ROOT / f"{name}.md"
            for name in ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")
        ),
        ROOT / "agent/README.md",
        *ROOT.glob("local/**/*.md"),
        *ROOT.glob("docs/**/*.md"),
    ]
)
MOST_CHARACTERS = 100
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _prose(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def _anchors(page: Path) -> set[str]:
    """As code hosts make them: lower case, punctuation dropped, spaces as hyphens. Those that a
    page sets itself count, too."""
    text = _prose(page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
    return {*anchors, *re.findall(r'<a id="([^"]+)">', text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_fit(page: Path) -> None:
    """In the source, too. A row of a table is one line, and so is a command."""
    prose = _prose(page.read_text(encoding="utf-8")).splitlines()
    assert [] == [
        line for line in prose if len(line) > MOST_CHARACTERS and not line.startswith("|")
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_headings_differ(page: Path) -> None:
    """A link to a heading leads to the first of its name."""
    titles = re.findall(r"^#+ (.*)$", _prose(page.read_text(encoding="utf-8")), re.MULTILINE)

    assert [] == sorted({title for title in titles if titles.count(title) > 1})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the project and, where one is named, a heading in it."""
    for target in _LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in _anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_targets_of_make_exist(page: Path) -> None:
    """A reader types what stands there."""
    lines = re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {name for line in lines for name in line.split()}
    named = re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set() == set(named) - known


def _rows() -> list[tuple[str, str, str]]:
    """The rows of "Where to change what": the subject, the file to open, and what to find there."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("\n## Where to change what\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    return [row for row in rows if row[0] != "to change"]


def _path(name: str) -> Path:
    """The file or folder of this name: of the layer, or at the top of the repository."""
    in_layer = ROOT / "layers/shared/governor" / name
    return in_layer if in_layer.exists() else ROOT / name


def _text_of(path: Path) -> str:
    """The text of a file, or the code of a folder."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    return "".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize(("subject", "opened", "found"), _rows())
def test_a_place_to_change_something_exists(subject: str, opened: str, found: str) -> None:
    """A newcomer opens the file and searches for the name."""
    quoted = re.findall(r"`([^`]+)`", f"{opened} {found}")
    paths = [_path(name) for name in quoted if "/" in name or name.endswith(".yaml")]
    missing = [path for path in paths if not path.exists()]
    assert [] == missing, f"correct the row {subject!r} in docs/architecture.md"
    text = "".join(map(_text_of, paths))
    names = [name for name in quoted if name.isidentifier()]
    lost = [name for name in names if not re.search(rf"\b{name}\b", text)]
    assert [] == lost, f"correct the row {subject!r} in docs/architecture.md"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (opened[1:-1], found.split("`")[1])
        for _, opened, found in _rows()
        if re.fullmatch(r"`[^`]+\.py`", opened) and re.match(r"`\w+`", found)
    ],
)
def test_the_file_to_open_defines_the_name(file: str, name: str) -> None:
    """The first name of a row is defined in the file, not only used there."""
    code = _path(file).read_text(encoding="utf-8")
    message = f"{name} is no longer in {file}: correct its row in docs/architecture.md"
    defined = rf"^ *def {name}\(|^class {name}\b|^ *{name}(:.*)? = "
    assert re.search(defined, code, re.MULTILINE), message


def test_the_places_of_a_group_are_sorted() -> None:
    """So a newcomer finds a row by its subject."""
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = text.split("\n## Where to change what\n", 1)[1].split("\n## ", 1)[0]
    for group in section.split("\n### ")[1:]:
        rows = re.findall(r"^\| ([^|]+) \|", group, re.MULTILINE)[1:]
        subjects = [row.replace("`", "").casefold() for row in rows]
        assert sorted(subjects) == subjects
