"""What all pages share: the templates, the style sheet and the script, and the page of a refusal."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

_FOLDER = Path(__file__).parent / "templates"


@cache
def environment() -> Environment:
    """The templates; `pages` adds the filters of those that show an instance."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["style"] = Markup(_file("page.css"))  # noqa: S704 - our own file
    environment.globals["follow"] = Markup(_file("follow.js"))  # noqa: S704 - our own file
    return environment


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def source(name: str) -> str:
    """Return one of our files as a source in a Content-Security-Policy: `'sha256-...'`."""
    digest = hashlib.sha256(_file(name).encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def refusal_page(title: str, text: str) -> str:
    """Why a link or a request was refused. Says nothing about any instance."""
    return environment().get_template("refusal.html").render(title=title, text=text)
