"""A copy of the site as files that need no server: `make site`.

Follows every link from the first page. What decides or signs in is no part of a copy: forms are
dead, links that decide or leave it are text, scripts and tokens are left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from html import escape, unescape
from pathlib import Path
from urllib.parse import urljoin, urlsplit

from local.demo.site.front import Front

_LINK = re.compile(r'(?<=[\s"])(href|src)="([^"]*)"')
_CUTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<script>.*?</script>", re.DOTALL), ""),
    (re.compile(r'<input type="hidden"[^>]*>'), ""),
    (re.compile(r'(<form[^>]*) action="[^"]*"'), r'\1 action="#"'),
    (re.compile(r"<button"), "<button disabled"),
    (re.compile(r"/q/[\w.-]{20,}"), "#"),
    (
        re.compile(r"(<strong>Simulated</strong>)[^<]*"),
        r"\1, and a copy of one moment: its buttons do nothing.",
    ),
)
_MOST = 500
"""Pages: a copy that would be larger follows links it should not."""
_ACCEPT = {"Accept": "text/html"}


def export(front: Front, folder: Path) -> int:
    """Write it; return the number of pages.

    Raises:
        RuntimeError: a page that is linked cannot be shown, or there are too many.
    """
    pages = _pages(front)
    names = {path: _name(path) for path in pages}
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.html"):
        old.unlink()
    for path, html in pages.items():
        (folder / names[path]).write_text(_copy(html, path, names), encoding="utf-8")
    return len(pages)


def _pages(front: Front) -> dict[str, str]:
    """Every page by its path, from the first on."""
    read, found, waiting = _reader(front), dict[str, str](), ["/"]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if len(found) == _MOST:
            raise RuntimeError(
                f"more than {_MOST} pages are linked: {', '.join([*found][-5:])}, ..."
            )
        found[path] = html = read(path)
        links = (_path(path, link) for _, link in _LINK.findall(html))
        waiting += [one for one in links if one and one not in found and not _goes_on(path, one)]
    return found


def _reader(front: Front) -> Callable[[str], str]:
    """Return what reads pages, as a visitor with one session."""
    entered = front.answer("GET", "/", _ACCEPT)
    cookie = next(
        value.partition(";")[0] for name, value in entered.headers if name == "Set-Cookie"
    )

    def read(path: str) -> str:
        reply = front.answer("GET", path, {**_ACCEPT, "Cookie": cookie})
        if reply.status != 200:
            raise RuntimeError(f"{path} answered {reply.status}")
        return reply.body.decode().replace(front.url, "")

    return read


def _path(page: str, link: str) -> str | None:
    """The page of the site that a link leads to; `None` for files, other hosts and what decides."""
    parts = urlsplit(urljoin(page, unescape(link)))
    is_own = not parts.scheme and not parts.netloc and parts.path.startswith("/")
    if (
        not is_own
        or link.startswith("#")
        or parts.path.endswith(".csv")
        or parts.path.startswith("/q/")
    ):
        return None
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def _goes_on(page: str, link: str) -> bool:
    """Return whether it leads from month to month, or from filter to filter, without an end."""
    return "?" in page and "?" in link and page.partition("?")[0] == link.partition("?")[0]


def _name(path: str) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', path).strip('-') or 'index'}.html"


def _copy(html: str, path: str, names: Mapping[str, str]) -> str:
    def local(link: re.Match[str]) -> str:
        name = names.get(_path(path, link[2]) or "")
        return f'{link[1]}="{escape(name)}"' if name else ""  # then it is text

    for pattern, instead in _CUTS:
        html = pattern.sub(instead, html)
    return _LINK.sub(local, html)
