"""Hooks of MkDocs (`mkdocs.yml`): pages that live outside of docs/, and links that leave it.

The site holds CONTRIBUTING.md and the like as pages of its own. A link to any other file of the
repository becomes the file's path, because the site has no copy of that file.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "agent/README.md": "publisher.md",
    "local/README.md": "local-cloud.md",
}
"""Files beside docs/ that are pages of the site."""
DECISIONS = "docs/decisions"
SEARCH_BOOSTS = {"Start": 2, "Guides": 2, "Contribute": 0.3, "policy.md": 3}
"""Weights of pages in the search, by tab or page. The first two tabs answer the questions of
users, and a search for "policy" should find the page on how to write one."""
_LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)\s#]+)(?P<anchor>#[\w-]+)?\)")
_CODE = re.compile(r"(```.*?```)", re.DOTALL)


def on_config(config: Any) -> Any:
    """Name anchors as code hosts do, and put the decisions, which come and go, into the
    navigation."""
    config.mdx_configs["toc"]["slugify"] = anchor_of
    pages = [f"decisions/{path.name}" for path in sorted((ROOT / DECISIONS).glob("*.md"))]
    config.nav[-1]["Contribute"].append({"Decisions": pages})
    return config


def anchor_of(title: str, _separator: str = "-") -> str:
    """Return the anchor of a heading, the same as where code hosts show the page."""
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that live beside docs/."""
    # MkDocs has an environment of its own, and tests run in the project's.
    from mkdocs.structure.files import File

    for source, page in BESIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the text of a page with links that the site can follow, and rank the page in the
    search."""
    tab = page.ancestors[-1].title if page.ancestors else ""
    boost = SEARCH_BOOSTS.get(page.file.src_uri) or SEARCH_BOOSTS.get(tab, 1)
    page.meta["search"] = {"boost": boost}
    return with_links_of_the_site(markdown, page.file.src_uri)


def with_links_of_the_site(markdown: str, page: str) -> str:
    """Return the text with each link as it is in the site. Blocks of code stay as they are."""
    sources = {name: source for source, name in BESIDE.items()}
    place = posixpath.dirname(sources.get(page, f"docs/{page}"))
    from_page = posixpath.dirname(page)

    def linked(found: re.Match[str]) -> str:
        if "://" in found["path"]:
            return found[0]
        target = posixpath.normpath(posixpath.join(place, found["path"]))
        in_site = _page_of(target)
        if in_site is None:
            return f"{found['text']} (`{target}`)" if target not in found["text"] else found["text"]
        # The README has no page; its sections lead to the first page.
        anchor = "" if target == "README.md" else found["anchor"] or ""
        path = posixpath.relpath(in_site, from_page or ".")
        return f"[{found['text']}]({path}{anchor})"

    parts = _CODE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(linked, part) for part in parts)


def _page_of(target: str) -> str | None:
    """Return the page of the site that holds a file of the repository, if one does."""
    if target == "README.md":
        return "index.md"
    if target == DECISIONS:
        return "architecture.md"
    if target in BESIDE:
        return BESIDE[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else None
