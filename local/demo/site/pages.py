"""The pages of the front: the console under the banner, and the channels beside it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from local.demo.site.banner import dressed, inside
from local.demo.site.front import Reply
from local.demo.site.messages import ROOT, Messages
from local.demo.site.story import Story

_BANNER = f"{ROOT}/banner"


class Pages:
    """Pages of one stack. `api` is the address of its API, `obtain_code` gives a code of `governor
    open`."""

    def __init__(
        self, api: str, obtain_code: Callable[[], str], messages: Messages, story: Story
    ) -> None:
        self.api, self.obtain_code = api, obtain_code
        self._messages, self._story = messages, story

    def own_page(self, path: str) -> Reply | None:
        """As the protocol says."""
        parts = urlsplit(path)
        if parts.path == _BANNER:
            said = self._said(parse_qs(parts.query).get("at", ["/"])[0])
            kinds = (("Content-Type", "text/html; charset=utf-8"), ("Cache-Control", "no-store"))
            return Reply(200, kinds, said.encode())
        return self._messages.page(path, self._said(path)) if path.startswith(f"{ROOT}/") else None

    def dress(self, path: str, page: Reply) -> Reply:
        """As the protocol says."""
        if page.status == 200:
            self._story.visit(path)
        return dressed(page, self._said(path))

    def _said(self, path: str) -> str:
        own = path.startswith(f"{ROOT}/")
        tabs = {"/": "Console", **self._messages.tabs()}
        return inside(self._story.progress(), tabs, "/".join(path.split("/")[:3]) if own else "/")
