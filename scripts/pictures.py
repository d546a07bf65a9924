"""The pictures of docs/images: pages, mail and Slack message about one made-up question.

`make screenshots` takes them, and keeps the text of each beside it; tests/unit/test_pictures.py
compares that with what the same pages say now. Times and ids are fixed, so only a change of the
product changes them.
"""

from __future__ import annotations

import hashlib
import random
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path

from cli.scan.page import page_html
from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Stage
from governor.console.views.overview import overview
from governor.core.catalog import shape_of
from governor.core.instance import Volume
from governor.core.line_breaks import ID_TAG, steady_page
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Price
from governor.episode.rules.plan import draw_plan
from governor.evidence.model import GpuReadings
from governor.evidence.rules.history import History
from governor.evidence.rules.series import evidence_hash, window_before
from governor.notify.compose import message_of
from governor.notify.email import MAIL_ID_TAG, email_document
from governor.notify.slack_blocks import slack_blocks
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.schedule import Schedule
from local.demo.site.banner import dressed, inside
from local.demo.site.front import Reply
from local.demo.site.messages import CHANNELS
from local.demo.site.story import Story
from local.demo.slack_preview import slack_page
from scripts import scan_example
from scripts.simulate_example import html as back_test
from tests import console_world
from tests.builders import NOW, QUIET, make_evidence, make_facts, make_instance
from tests.unit.notify.test_truth import LINK, queued
from tests.unit.web.test_site import ALICE, LATER, World

FOLDER = Path(__file__).parent.parent / "docs" / "images"
TEXT_KEY = "taken-of"
"""The entry of a picture's file that holds the digest of the text it was taken of."""
DESK, WIDE, PHONE = (800, 900), (1280, 900), (390, 844)
_GPUS, _BINS = 4, 288
_IDLE_BINS, _SILENT = 80, range(120, 126)
"""Bins of 24 hours in steps of 5 minutes: the newest idle, half an hour without data."""
_FILLING = "\N{COMBINING GRAPHEME JOINER}"
"""With characters that cannot be printed it fills a mail's preheader."""
_ID_TAGS = re.compile(rf"(?:{ID_TAG}|{MAIL_ID_TAG})(.*?)</span>")
_UNSEEN = ("head", "script", "style", "title", "template")


@dataclass(frozen=True, slots=True)
class Picture:
    """A page at one size, in points. `page` names its text, which several pictures may share."""

    name: str
    page: str
    html: str
    size: tuple[int, int] = DESK
    is_dark: bool = False
    is_whole: bool = False
    """True if more is shown than fits the screen."""

    @property
    def scale(self) -> int:
        """Pixels a point."""
        return 2 if self.size == PHONE else 1

    @property
    def text(self) -> str:
        """Return what the page says, a line for each piece of text."""
        reader = _Reader()
        # An id has a tag of its own, which keeps it on one line, and is no text of its own.
        reader.feed(_ID_TAGS.sub(r"\1", self.html))
        return "\n".join(reader.lines) + "\n"

    @property
    def digest(self) -> str:
        """Return the hash of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


class _Reader(HTMLParser):
    """The text that is seen, whether folded or not."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, _: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in _UNSEEN

    def handle_data(self, data: str) -> None:
        text = " ".join(
            "".join(
                one for one in data if one.isspace() or (one.isprintable() and one not in _FILLING)
            ).split()
        )
        if text and not self._unseen:
            self.lines.append(text)


def pictures() -> list[Picture]:
    """All of them, in the order in which people meet them."""
    question, record, mail, slack = _question()
    return [
        Picture("mail", "mail", mail, is_whole=True),
        Picture("slack", "slack", slack, is_whole=True),
        Picture("question", "question", question, is_whole=True),
        Picture("question-phone", "question", question, PHONE),
        Picture("question-dark-phone", "question", question, PHONE, is_dark=True),
        Picture("record", "record", record),
        Picture("overview", "overview", _overview(), WIDE),
        Picture("back-test", "back-test", back_test(), WIDE),
        Picture("scan", "scan", page_html(scan_example.report()), WIDE, is_whole=True),
    ]


def _overview() -> str:
    """The console's first page over a made-up fleet, as `make up` shows it."""
    world = console_world.lively()
    world.policy = Policy(mode=Mode.ASK)
    page = Reply(200, (), steady_page(console_world.html(overview, world)).encode())
    story = Story(
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        ledger_store=world.state,
        target=console_world.TARGETS[0],
        names={},
        clock=lambda: NOW,
    )
    tabs = {"/": "Console", **{f"/simulated/{channel}": name for channel, name in CHANNELS.items()}}
    return dressed(page, inside(story.progress(), tabs, "/")).body.decode()


def _question() -> tuple[str, str, str, str]:
    """The page, the same after a yes and a stop, the mail and the Slack message."""
    world = World(zone="Europe/Berlin")
    world.state.put(_episode(world.episode))
    question = world.get().sent
    alert = stage_alert(world.episode, Stage.ASK, NOW, LINK, LATER)
    message = message_of(queued(alert), world.episode, link=alert.link, now=NOW)
    document = email_document(message, sender="gpu@example.com", recipient=ALICE)
    page = document.get_body(("html",))
    mail = str(page.get_content()) if page else ""
    slack = slack_page(slack_blocks(message, interactive=True))
    world.post("approve")
    world.state.note_step(world.ref, "snapshot", NOW)
    world.end(Outcome.STOPPED)
    return question, world.get().sent, mail, slack


def _episode(plain: Episode) -> Episode:
    """A notebook of a team in Berlin, with four A10G and two volumes, at 5.67 USD an hour."""
    instance = make_instance(
        instance_type="g5.12xlarge",
        tags={
            "Purpose": "GPU-Workload",
            "Name": "notebook-7",
            "Owner": "ml-team",
            "Project": "vision",
        },
        volumes=(
            Volume("vol-0123456789abcdef0", "/dev/xvda", True, 100, "gp3"),
            Volume("vol-0fedcba9876543210", "/dev/sdb", False, 500, "gp3"),
        ),
    )
    price = Price(Decimal("5.672"), "list price")
    facts = make_facts(instance, shape=shape_of(instance.instance_type), price=price)
    evidence = make_evidence(*(QUIET for _ in range(_GPUS)))
    day = window_before(NOW, timedelta(hours=24), timedelta(minutes=5), timedelta())
    return replace(
        plain,
        instance=instance,
        measurement=replace(
            plain.measurement,
            evidence=evidence,
            evidence_hash=evidence_hash(evidence),
            history=History(day, tuple(GpuReadings(str(gpu), _day(gpu)) for gpu in range(_GPUS))),
        ),
        plan=draw_plan(facts, Policy()),
        price=price,
        owner="ml-team",
        reason="Idle for 6 h 40 min (every GPU under 5%).",
        asking=replace(
            plain.asking,
            schedule=Schedule(NOW, NOW + timedelta(hours=4), NOW + timedelta(hours=8), LATER),
        ),
    )


def _day(gpu: int) -> tuple[float | None, ...]:
    """At work with ups and downs, then idle."""
    chance = random.Random(gpu)  # noqa: S311 - a made-up load, not a secret
    worked = [
        None if number in _SILENT else chance.uniform(40, 97)
        for number in range(_BINS - _IDLE_BINS)
    ]
    return *worked, *(1.0,) * _IDLE_BINS
