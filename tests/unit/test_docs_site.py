"""The documentation builds as a site that loads nothing from elsewhere, and has no dead link."""

from __future__ import annotations

import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from scripts.docs_site import anchor_of, with_links_of_the_site
from scripts.environment import ENVIRONMENTS, ROOT

MKDOCS = ENVIRONMENTS["docs"][0] / "bin" / "mkdocs"
needs_mkdocs = pytest.mark.skipif(
    not MKDOCS.exists(), reason="MkDocs is not installed: make env-docs"
)
LOADING = {"script", "img", "iframe", "source", "video", "audio", "embed", "object"}
"""Elements that load what their `src`, `srcset` or `data` names."""
ELSEWHERE = re.compile(r"^\s*(https?:)?//")
_STYLE = re.compile(r"(?:url\(|@import)\s*['\"]?\s*(?:https?:)?//[^'\")\s]*")


class Loads(HTMLParser):
    """Collects what a browser would load from elsewhere for a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note each address that the element loads from another host."""
        given = {name: value or "" for name, value in attrs}
        names = ("href",) if tag == "link" else ("src", "srcset", "data")
        if tag == "link" or tag in LOADING:
            self.found += [given[name] for name in names if ELSEWHERE.match(given.get(name, ""))]
        # The theme loads the renderer of diagrams from a CDN where a page has one.
        if "mermaid" in given.get("class", "").split():
            self.found.append("mermaid")


def loads(text: str) -> list[str]:
    """Return what a page, or a style sheet within it, loads from elsewhere."""
    parser = Loads()
    parser.feed(text)
    return [*parser.found, *_STYLE.findall(text)]


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does, into another folder."""
    return subprocess.run(
        [str(MKDOCS), "build", "--strict", "-f", str(config), "-d", str(site)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site."""
    folder = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", folder)

    assert 0 == done.returncode, done.stderr
    return folder


def small_site(folder: Path, text: str) -> Path:
    """Return the configuration of a site of one page, with the settings of ours."""
    (folder / "docs").mkdir()
    (folder / "docs" / "index.md").write_text(text, encoding="utf-8")
    config = folder / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: []\nnav: [index.md]\n"
        f"docs_dir: {folder / 'docs'}\n",
        encoding="utf-8",
    )
    return config


@needs_mkdocs
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Fonts, scripts, pictures and styles are files of the site."""
    pages = sorted(site.rglob("*.html"))
    found = {str(page): loads(page.read_text(encoding="utf-8")) for page in pages}
    styles = {
        str(path): _STYLE.findall(path.read_text(encoding="utf-8")) for path in site.rglob("*.css")
    }

    assert len(pages) > 40
    assert len(styles) > 1
    assert {} == {name: what for name, what in {**found, **styles}.items() if what}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('<script src="https://cdn.example.com/a.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example.com/a.css">', 1),
        ("<style>@import 'https://example.com/a.css'</style>", 1),
        ('<pre class="mermaid">flowchart</pre>', 1),
        ('<a href="https://aws.amazon.com">a link</a><img src="images/a.png">', 0),
    ],
)
def test_the_check_finds_what_a_browser_loads(text: str, number: int) -> None:
    """A link that a reader may follow is none."""
    assert number == len(loads(text))


@needs_mkdocs
def test_the_search_knows_every_page(site: Path) -> None:
    """Headings too, also where a page is opened without a server."""
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    known = {entry["location"] for entry in index["docs"]}

    assert {page.relative_to(site).as_posix() for page in site.rglob("*.html")} - known == {
        "404.html"
    }
    assert "policy.html#pause-everything" in known
    assert (site / "search" / "search_index.js").exists()


@needs_mkdocs
@pytest.mark.parametrize(
    ("link", "says"),
    [
        ("[a page](none.md)", "none.md"),
        ("[a heading](#nowhere)", "#nowhere"),
        ("![a picture](images/none.png)", "images/none.png"),
    ],
)
def test_a_dead_link_fails_the_build(tmp_path: Path, link: str, says: str) -> None:
    """A page, a heading or a picture that is not there."""
    done = build(small_site(tmp_path, f"# Title\n\n{link}\n"), tmp_path / "site")

    assert 0 != done.returncode
    assert says in done.stderr


@needs_mkdocs
def test_a_page_without_dead_links_is_built(tmp_path: Path) -> None:
    """The failures above have their reason in the link alone."""
    done = build(small_site(tmp_path, "# Title\n\n[here](#title)\n"), tmp_path / "site")

    assert 0 == done.returncode, done.stderr


@pytest.mark.parametrize(
    ("page", "link", "becomes"),
    [
        ("policy.md", "[money](money.md#reports)", "[money](money.md#reports)"),
        ("develop.md", "[a](../CONTRIBUTING.md#recipes)", "[a](contributing.md#recipes)"),
        ("contributing.md", "[a](docs/trust.md)", "[a](trust.md)"),
        ("publisher.md", "[a](../docs/telemetry.md)", "[a](telemetry.md)"),
        ("decisions/0001.md", "[a](../state.md)", "[a](../state.md)"),
        ("command-line.md", "[a](../README.md#everyday-commands)", "[a](index.md)"),
        ("accounts.md", "[a](../stacks/member.yaml)", "a (`stacks/member.yaml`)"),
        ("accounts.md", "[`stacks/member.yaml`](../stacks/member.yaml)", "`stacks/member.yaml`"),
        ("accounts.md", "[a](https://example.com/a.md)", "[a](https://example.com/a.md)"),
    ],
)
def test_a_link_leads_to_its_place_in_the_site(page: str, link: str, becomes: str) -> None:
    """Files that are no pages of the site are named by their path."""
    assert becomes == with_links_of_the_site(link, page)


def test_blocks_of_code_stay_as_they_are() -> None:
    """A reader pastes them."""
    block = "```md\n[a](../README.md)\n```"

    assert block == with_links_of_the_site(block, "policy.md")


@pytest.mark.parametrize("title", ["`ownership.contacts.<name>`", "Update, and go back", "A / B"])
def test_anchors_are_those_of_code_hosts(title: str) -> None:
    """One link works in both."""
    known = {"ownershipcontactsname", "update-and-go-back", "a--b"}

    assert anchor_of(title) in known
