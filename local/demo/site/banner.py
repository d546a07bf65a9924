"""The banner: says on every page that all of it is simulated, tells the story, and leads to what
was sent.

It looks like no part of the product, and must not know what the pages below it are about.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from local.demo.site.front import Reply
from local.demo.site.story import Progress

_FOLDER = Path(__file__).parent / "templates"
TEMPLATES = Environment(
    loader=FileSystemLoader(_FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True
)
STYLE, SCRIPT = (
    (_FOLDER / name).read_text(encoding="utf-8") for name in ("banner.css", "banner.js")
)
_BODY = re.compile(rb"<body[^>]*>(.*?<a class=\"skip\"[^>]*>[^<]*</a>)?", re.DOTALL)
"""The start of a page, with its link past the navigation: that stays the first link."""


def inside(progress: Progress, tabs: Mapping[str, str], at: str) -> str:
    """Return what the banner says. `tabs` are links by path; `at` is the one that is open."""
    now = next((step for step in progress.steps if not step.is_done), None)
    template = TEMPLATES.get_template("banner.html")
    return template.render(steps=progress.steps, now=now, news=progress.news, tabs=tabs, at=at)


def whole(said: str) -> Markup:
    """The banner as an element, with its style and its script."""
    return Markup(  # noqa: S704 - what is inside is rendered by the template
        f"<style>{STYLE}</style>"
        f'<aside class="simulated" id="simulated" aria-label="Simulation">{said}</aside>'
        f"<script>{SCRIPT}</script>"
    )


def dressed(page: Reply, said: str) -> Reply:
    """A page of the stack under the banner, which its security policy then lets through, and
    nothing else."""
    found = _BODY.search(page.body)
    if found is None:
        return page
    body = page.body[: found.end()] + whole(said).encode() + page.body[found.end() :]
    headers = tuple(
        (name, _allowing(value) if name.lower() == "content-security-policy" else value)
        for name, value in page.headers
    )
    return Reply(page.status, headers, body)


def _allowing(policy: str) -> str:
    """The policy, with the banner's style and script beside those of the page."""
    rules = dict(rule.partition(" ")[::2] for rule in policy.split("; "))
    for name, text in (("style-src", STYLE), ("script-src", SCRIPT)):
        rules[name] = " ".join(
            [*(one for one in rules[name].split() if one != "'none'"), _hash(text)]
        )
    return "; ".join(f"{name} {value}" for name, value in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
