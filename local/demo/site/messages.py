"""Messages as people see them: email, Slack, Teams and PagerDuty, from what the local receivers
took.

It must not know what a message is about.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from local.demo.receivers import Received
from local.demo.scene import Scene
from local.demo.site.banner import TEMPLATES, whole
from local.demo.site.front import Reply, plain_page
from local.demo.slack_preview import slack_page
from local.demo.teams_preview import teams_page

ROOT = "/simulated"
CHANNELS = {"mail": "Email", "slack": "Slack", "teams": "Teams", "pagerduty": "PagerDuty"}
_HTML = ("Content-Type", "text/html; charset=utf-8")
_FRESH = ("Cache-Control", "no-store")
_MESSAGE_HEADERS = (
    _HTML,
    _FRESH,
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
)
"""Content policy of a message by itself: its own parts, and nothing else."""
_INCIDENT = {"trigger": "triggered", "resolve": "resolved"}
_PATH = re.compile(rf"{ROOT}/([a-z]+)(?:/([1-9]\d{{0,5}})(/body)?)?")


@dataclass(frozen=True, slots=True)
class Delivered:
    """One message. `html` renders it as a document."""

    title: str
    about: str
    at: datetime
    html: Callable[[], str]


class Messages:
    """The pages of all channels."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._delivered: Mapping[str, Callable[[], Iterator[Delivered]]] = {
            "mail": self._mail,
            "slack": self._slack,
            "teams": self._teams,
            "pagerduty": self._pagerduty,
        }

    def tabs(self) -> dict[str, str]:
        """A link to each channel, with the number of its messages."""
        return {
            f"{ROOT}/{channel}": f"{name} {len([*self._delivered[channel]()])}"
            for channel, name in CHANNELS.items()
        }

    def page(self, path: str, said: str) -> Reply | None:
        """A channel, with one of its messages, or that message alone; `said` is the banner's
        text."""
        match = _PATH.fullmatch(path.partition("?")[0])
        if match is None or match[1] not in CHANNELS:
            return None
        found = [*self._delivered[match[1]]()]
        number = int(match[2] or len(found))
        if match[2] and number > len(found):
            return plain_page(404, "No such message", "The channel has fewer messages.")
        if match[3]:
            return Reply(200, _MESSAGE_HEADERS, _framed(found[number - 1].html()).encode())
        base = f"{ROOT}/{match[1]}"
        html = TEMPLATES.get_template("messages.html").render(
            title=CHANNELS[match[1]],
            messages=[*reversed([*enumerate(found, 1)])],
            chosen=found[number - 1] if found else None,
            base=base,
            source=f"{base}/{number}/body",
            banner=whole(said),
        )
        return Reply(200, (_HTML, _FRESH), html.encode())

    def _mail(self) -> Iterator[Delivered]:
        for mail in sorted(self.scene.sent_mail(), key=lambda mail: float(mail["Timestamp"])):
            at = datetime.fromtimestamp(mail["Timestamp"], UTC)
            yield Delivered(
                mail["Subject"], f"to {', '.join(mail['To'])}", at, partial(str, mail["BodyHtml"])
            )

    def _slack(self) -> Iterator[Delivered]:
        """Every message as it looks now, after all changes."""
        for thread, payload in self.scene.receivers.document()["slack_messages"].items():
            text = {"type": "mrkdwn", "text": payload["text"]}
            blocks = payload.get("blocks") or [{"type": "section", "text": text}]
            where = "in a thread" if payload.get("thread_ts") else "in the channel"
            at = datetime.fromtimestamp(float(thread.partition(":")[2]), UTC)
            yield Delivered(_first_text(blocks), where, at, partial(slack_page, blocks))

    def _teams(self) -> Iterator[Delivered]:
        for one in self._taken("teams"):
            card = partial(teams_page, one.payload)
            yield Delivered(_first_text(one.payload), "in the channel", _time(one), card)

    def _pagerduty(self) -> Iterator[Delivered]:
        """Every incident as it looks now, with its last words; what resolves one brings none."""
        found: dict[str, tuple[Received, str]] = {}
        for one in self._taken("pagerduty"):
            key, action = one.payload["dedup_key"], one.payload["event_action"]
            opened, _ = found.get(key, (one, action))
            found[key] = one if action == "trigger" else opened, action
        for one, action in found.values():
            event = {**one.payload, "event_action": action}
            title = event["payload"]["summary"] if "payload" in event else "An incident is over"
            page = partial(TEMPLATES.get_template("pagerduty.html").render, event=event)
            yield Delivered(title, _INCIDENT[action], _time(one), page)

    def _taken(self, channel: str) -> list[Received]:
        return [one for one in self.scene.receivers.received(channel) if one.status < 300]


def _framed(html: str) -> str:
    """A document whose links open in the whole window, not in its frame."""
    return re.sub(r"<head[^>]*>", lambda head: f'{head[0]}<base target="_top">', html, count=1)


def _time(one: Received) -> datetime:
    return datetime.fromisoformat(one.at)


def _first_text(payload: Any) -> str:
    """Return what a card says first."""
    if isinstance(payload, dict):
        if isinstance(text := payload.get("text"), str) and text.strip():
            return text.strip().splitlines()[0]
        payload = list(payload.values())
    if isinstance(payload, list):
        return next((text for one in payload if (text := _first_text(one))), "")
    return ""
