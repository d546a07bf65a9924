"""The front of `make up`: banner, story, messages; and the fleet that goes on."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pytest

from governor.approvals.model.approval import Answer, Decision
from governor.console.formats import html
from governor.money.model.ledger import LedgerEntry
from local.demo.fleet import demo_fleet, series_of
from local.demo.receivers import Received
from local.demo.site.banner import SCRIPT, STYLE, dressed, inside
from local.demo.site.export import export
from local.demo.site.front import Front, Reply
from local.demo.site.messages import CHANNELS, Messages
from local.demo.site.pages import Pages
from local.demo.site.pulse import Pulse
from local.demo.site.story import Story
from local.engine.simulation import Points
from tests.builders import NOW, TARGET, make_entry
from tests.console_world import ConsoleWorld, asked, make_episode, make_row


@dataclass
class Receivers:
    """Received messages, without a server."""

    taken: list[Received] = field(default_factory=list)
    slack: dict[str, Any] = field(default_factory=dict)

    def received(self, channel: str) -> list[Received]:
        return [one for one in self.taken if one.channel == channel]

    def document(self) -> dict[str, Any]:
        return {"slack_messages": self.slack}


@dataclass
class Scene:
    """A fleet whose cloud keeps what it is told."""

    members: dict[str, Any] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)
    published: list[Points] = field(default_factory=list)
    sweeps: int = 0
    looks: int = 0
    running: dict[str, Any] = field(default_factory=dict)
    mail: list[dict[str, Any]] = field(default_factory=list)
    receivers: Receivers = field(default_factory=Receivers)

    @property
    def simulation(self) -> Scene:
        return self

    def dump(self) -> dict[str, dict[str, str]]:
        return {"instances": self.states}

    def put_metrics(self, series: Any) -> None:
        self.published += series

    def executions(self) -> dict[str, Any]:
        return self.running

    def sweep(self, check: str = "sweep") -> None:
        self.sweeps += check == "sweep"
        self.looks += check == "health"

    def sent_mail(self) -> list[dict[str, Any]]:
        return self.mail


START = NOW.replace(second=0)


@pytest.fixture
def scene() -> Scene:
    scene = Scene({f"i-{member.name}": member for member in demo_fleet()})
    scene.states = dict.fromkeys(scene.members, "running")
    return scene


@pytest.fixture
def world() -> ConsoleWorld:
    return ConsoleWorld()


@pytest.fixture
def story(world: ConsoleWorld) -> Story:
    return Story(
        episode_store=world.state,
        approval_store=world.state,
        instance_store=world.state,
        ledger_store=world.state,
        target=TARGET,
        names={},
        clock=lambda: NOW,
    )


def entry(**changes: Any) -> LedgerEntry:
    """A stop that was booked a minute after the story began."""
    return make_entry(**{"booked_at": NOW + timedelta(minutes=1), **changes})


# the fleet goes on


def test_the_idle_stay_idle_and_the_busy_busy_for_hours(scene: Scene) -> None:
    """Minute by minute, without a hole after what was launched; the silent stay silent."""
    pulse, hours = Pulse(scene, START), 5  # type: ignore[arg-type]
    for minute in range(hours * 60 + 1):
        pulse.beat(START + timedelta(minutes=minute))

    def used(name: str) -> dict[datetime, float]:
        gpus = (
            one
            for one in scene.published
            if "index" in one.dimensions
            and one.dimensions["InstanceId"] == f"i-{name}"
            and one.metric == "nvidia_smi_utilization_gpu"
        )
        found: dict[datetime, float] = {}
        for at, value in (point for one in gpus for point in one.points):
            found[at] = max(value, found.get(at, 0))
        return found

    minutes = [START + timedelta(minutes=minute) for minute in range(hours * 60)]
    assert minutes == sorted(used("notebook-1"))
    assert max(used("notebook-1").values()) <= 2
    assert min(used("train-a").values()) >= 20
    assert sum(value > 80 for value in used("finetune-b").values()) > 0.9 * len(minutes)
    assert {} == used("silent")
    assert (hours * 60 + 1, hours * 4) == (scene.sweeps, scene.looks)


def test_what_goes_on_continues_what_was_launched() -> None:
    """The two halves are what one would have been: no minute twice, none left out, for EC2's own,
    too."""
    later = START + timedelta(minutes=30)
    for member in demo_fleet():
        whole = [*series_of(member, "i-1", START, START - timedelta(hours=3), later)]
        halves = zip(
            series_of(member, "i-1", START, START - timedelta(hours=3), START),
            series_of(member, "i-1", START, START, later),
            strict=True,
        )
        for one, (before, after) in zip(whole, halves, strict=True):
            assert sorted(one.points) == sorted(before.points + after.points), (
                member.name,
                one.metric,
            )


def test_what_does_not_run_publishes_nothing_and_goes_on_when_it_is_started(scene: Scene) -> None:
    """A pause of the whole machine is filled."""
    pulse = Pulse(scene, START)  # type: ignore[arg-type]
    scene.states["i-notebook-1"] = "stopped"
    pulse.beat(START + timedelta(minutes=10))
    stopped = {one.dimensions["InstanceId"] for one in scene.published}
    scene.published.clear()
    scene.states["i-notebook-1"] = "running"
    pulse.beat(START + timedelta(minutes=12))

    assert "i-notebook-1" not in stopped
    assert "i-train-a" in stopped
    own = next(one for one in scene.published if one.dimensions["InstanceId"] == "i-notebook-1")
    assert [START + timedelta(minutes=10), START + timedelta(minutes=11)] == [
        at for at, _ in own.points
    ]


def test_a_sweep_follows_when_a_workflow_has_moved_on(scene: Scene) -> None:
    """The console shows what a sweep has seen: nobody waits a minute for what they have done."""
    pulse = Pulse(scene, START)  # type: ignore[arg-type]
    swept = []
    for seconds, status in ((1, "RUNNING"), (2, "RUNNING"), (3, "SUCCEEDED"), (4, "SUCCEEDED")):
        scene.running = {"i-1": {"status": status}}
        pulse.beat(START + timedelta(seconds=seconds))
        swept.append(scene.sweeps)
    assert [1, 1, 2, 2] == swept


# the story


def told(story: Story) -> tuple[list[bool], list[str]]:
    """Which steps are done, and the news."""
    progress = story.progress()
    return [step.is_done for step in progress.steps], [one.text for one in progress.news]


def test_the_story_ticks_itself(world: ConsoleWorld, story: Story) -> None:
    """By what was looked at and by what the table says, in its order."""
    assert ([False, False, False], []) == told(story)
    story.visit("/savings")  # before there is anything to see
    story.visit("/fleet?state=idle")
    assert ([True, False, False], []) == told(story)

    story.clock = lambda: NOW + timedelta(minutes=2)
    world.book(entry(saved_usd_per_hour=Decimal("21.93")))
    done, news = told(story)
    assert ([True, True, False], True) == (
        done,
        news[0].endswith(" is stopped: it saves $526 a day."),
    )
    story.visit("/savings")
    assert [True, True, True] == told(story)[0]
    assert story.progress().news[0].path == "/instances/123456789012/us-east-1/i-00000000000000001"


def test_what_was_stopped_before_is_another_story(world: ConsoleWorld, story: Story) -> None:
    """So is what others have stopped."""
    world.book(entry(booked_at=NOW - timedelta(days=1)), entry(number=2, ours=False))
    assert ([False, False, False], []) == told(story)


def test_what_was_started_again_saves_nothing_more(world: ConsoleWorld, story: Story) -> None:
    """By an undo, or by others."""
    story.clock = lambda: NOW + timedelta(minutes=9)
    world.book(entry(ended_at=NOW + timedelta(minutes=5)))
    assert ["i-00000000000000001 was stopped, and runs again."] == told(story)[1]


def test_an_answer_is_said_to_be_in(world: ConsoleWorld, story: Story) -> None:
    """While the stop takes its time."""
    episode = make_episode(asked(make_row(1)))
    world.state.take_lock(episode.ref)
    world.state.save_opened(episode)
    assert [] == told(story)[1]
    world.state.settle(
        episode.approval_id, Decision(Answer.APPROVE, "link:ann@example.com", "page", NOW)
    )
    assert ["Stopping notebook ..."] == told(story)[1]


# the banner


def banner(story: Story, at: str = "/") -> str:
    return inside(story.progress(), {"/": "Console", "/simulated/mail": "Mail 3"}, at)


def test_a_page_is_let_through_with_the_banner_and_nothing_else(story: Story) -> None:
    """The page's own style and script stay allowed; what was forbidden stays so."""
    shown = html(200, "refused.html", title="A page", text="It says this.")
    page = dressed(Reply(200, tuple(shown.headers.items()), shown.body.encode()), banner(story))
    rules = dict(page.headers)["Content-Security-Policy"].split("; ")
    before = shown.headers["Content-Security-Policy"].split("; ")

    added = {"style-src": STYLE, "script-src": SCRIPT}
    for rule, was in zip(rules, before, strict=True):
        name = rule.split(" ")[0]
        if name in added:
            digest = hashlib.sha256(added[name].encode()).digest()
            assert rule.split(" ")[-1] == f"'sha256-{base64.b64encode(digest).decode()}'"
            assert {*was.split(" ")} - {"'none'"} == {*rule.split(" ")[:-1]}
        else:
            assert rule == was
    body = page.body.decode()
    assert body.index('class="skip"') < body.index("Simulated") < body.index("It says this.")


def test_the_banner_leads_to_the_next_step(story: Story) -> None:
    """One step is the next; the page that is open is said."""
    said = banner(story, "/simulated/mail")
    assert ["See what is idle"] == re.findall(r'class="now"><a href="[^"]+">([^<]+)', said)
    assert ["Mail 3"] == re.findall(r'aria-current="page">([^<]+)', said)
    story.visit("/fleet")
    assert ["Stop one"] == re.findall(r'class="now"><a href="[^"]+">([^<]+)', banner(story))


def test_names_of_instances_are_text(world: ConsoleWorld, story: Story) -> None:
    """Whatever somebody calls them."""
    story.names = {"i-00000000000000001": "<script>alert(1)</script>"}
    story.clock = lambda: NOW + timedelta(minutes=2)
    world.book(entry())
    assert "&lt;script&gt;" in banner(story)
    assert "<script>" not in banner(story)


# messages


BLOCKS = [
    {"type": "header", "text": {"type": "plain_text", "text": "notebook-7 is idle"}},
    {"type": "actions", "elements": [
        {"type": "button", "text": {"type": "plain_text", "text": "Open"}, "url": "http://127.0.0.1:1/q/1"},
    ]},
]  # fmt: skip
CARD = {
    "type": "RichTextBlock",
    "inlines": [{"type": "TextRun", "text": "notebook-7 is idle"}],
}
OPEN = {"type": "Action.OpenUrl", "title": "Open", "url": "http://127.0.0.1:1/q/1"}
EVENT = {
    "event_action": "trigger",
    "dedup_key": "e-1",
    "payload": {
        "summary": "notebook-7 is idle",
        "severity": "critical",
        "source": "i-1",
        "component": "g5.xlarge",
        "custom_details": {"Owner": "<ann>"},
    },
    "links": [{"href": "http://127.0.0.1:1/q/1", "text": "Open"}],
}


@pytest.fixture
def pages(scene: Scene, story: Story) -> Pages:
    """One message in each channel, and one that Teams has refused."""
    at = "2026-11-20T12:00:00.000Z"
    card = {"attachments": [{"content": {"body": [CARD], "actions": [OPEN]}}]}
    scene.receivers.taken = [
        Received("teams", "post", at, 202, "", card),
        Received("teams", "post", at, 429, "planned", card),
        Received("pagerduty", "enqueue", at, 202, "", EVENT),
    ]
    scene.receivers.slack = {"C1:1790000000.000001": {"text": "notebook-7", "blocks": BLOCKS}}
    link = '<html><head></head><body><a href="http://127.0.0.1:1/q/1">Open</a></body></html>'
    scene.mail = [
        {
            "To": ["ann@example.com"],
            "Subject": "notebook-7 is idle",
            "BodyHtml": link,
            "Timestamp": 1.0,
        }
    ]
    return Pages("http://127.0.0.1:1/x", str, Messages(scene), story)  # type: ignore[arg-type]


def shown(pages: Pages, path: str) -> Reply:
    page = pages.own_page(path)
    assert page is not None
    return page


@pytest.mark.parametrize("channel", CHANNELS)
def test_each_channel_shows_its_messages_with_links_that_open(pages: Pages, channel: str) -> None:
    """The list names them, and each by itself is a document without scripts whose links take the
    window."""
    listed = shown(pages, f"/simulated/{channel}").body.decode()
    assert f"{CHANNELS[channel]} 1" in listed
    assert "notebook-7 is idle" in listed
    assert f'src="/simulated/{channel}/1/body"' in listed
    alone = shown(pages, f"/simulated/{channel}/1/body")
    assert "default-src 'none'" in dict(alone.headers)["Content-Security-Policy"]
    assert re.search(r'<a [^>]*href="http://127.0.0.1:1/q/1"[^>]*>Open</a>', alone.body.decode())
    assert '<base target="_top">' in alone.body.decode()
    assert 404 == shown(pages, f"/simulated/{channel}/2").status


def test_an_incident_is_shown_as_it_is_now(pages: Pages, scene: Scene) -> None:
    """As PagerDuty does: one entry, which is resolved and may open again; an end alone has no
    text."""

    def sent(action: str, key: str, **more: object) -> str:
        event = {**more, "event_action": action, "dedup_key": key}
        at = "2026-11-20T12:00:01.000Z"
        scene.receivers.taken.append(Received("pagerduty", "enqueue", at, 202, "", event))
        return shown(pages, "/simulated/pagerduty").body.decode()

    found = sent("resolve", "e-1")
    assert ("PagerDuty 1" in found, "resolved" in found, "triggered" in found) == (
        True,
        True,
        False,
    )
    alone = shown(pages, "/simulated/pagerduty/1/body").body.decode()
    assert ("Resolved" in alone, "notebook-7 is idle" in alone) == (True, True)
    assert "triggered" in sent("trigger", "e-1", payload=EVENT["payload"])
    assert "An incident is over" in sent("resolve", "e-2")
    assert "e-2" in shown(pages, "/simulated/pagerduty/2/body").body.decode()


def test_an_empty_channel_says_so(pages: Pages, scene: Scene) -> None:
    scene.mail = []
    assert "Nothing was sent yet." in shown(pages, "/simulated/mail").body.decode()
    assert 404 == shown(pages, "/simulated/mail/1/body").status


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/fleet",
        "/simulated",
        "/simulated/nothing",
        "/simulated/mail/0",
        "/simulated/mail/body",
    ],
)
def test_other_paths_are_the_stacks(pages: Pages, path: str) -> None:
    """Which has none of these names."""
    assert pages.own_page(path) is None


def test_only_pages_that_were_shown_count_as_seen(pages: Pages, story: Story) -> None:
    """A refusal is nothing to see."""
    page = Reply(404, (("Content-Type", "text/html"),), b"<body>No</body>")
    pages.dress("/fleet", page)
    assert not story.progress().steps[0].is_done
    pages.dress("/fleet", Reply(200, page.headers, page.body))
    assert story.progress().steps[0].is_done


# the copy


class _Linked:
    """A site of a few pages, with what a copy must leave out."""

    api = "http://127.0.0.1:1"
    linked: ClassVar[dict[str, str]] = {
        "/": '<a href="/savings">S</a> <a href="FRONT/fleet?a=1&amp;b=2">F</a> <a '
        'href="/fleet.csv">CSV</a>'
        '<form method="post" action="/sign-out"><input type="hidden" name="csrf" value="token">'
        '<button>Out</button></form><script>fetch("/simulated/banner")</script><a '
        'href="https://elsewhere.example/">E</a>'
        '<iframe src="/simulated/mail/1/body"></iframe>',
        "/savings": '<a href="/savings?month=2026-10">Earlier</a>',
        "/savings?month=2026-10": '<a href="/savings?month=2026-09">Earlier</a> <a '
        'href="/">Overview</a>',
        "/fleet?a=1&b=2": "The fleet",
        "/simulated/mail/1/body": '<a href="FRONT/q/id.1.abcdefghijklmnopqrstuv">'
        "FRONT/q/id.1.abcdefghijklmnopqrstuv</a>",
    }

    def __init__(self, front: Front) -> None:
        self.front, self.pages = front, dict(self.linked)

    def obtain_code(self) -> str:
        raise AssertionError("every page is its own")

    def dress(self, path: str, page: Reply) -> Reply:
        raise AssertionError(path, page)

    def own_page(self, path: str) -> Reply | None:
        kinds = (("Content-Type", "text/html"), ("Set-Cookie", "session=1; Path=/"))
        html = self.pages.get(path)
        return Reply(
            200 if html else 404, kinds, (html or "").replace("FRONT", self.front.url).encode()
        )


def test_a_copy_needs_no_server_and_holds_nothing_that_decides(
    tmp_path: Path, socket_enabled: None
) -> None:
    """Every page that is linked is a file; a month leads to the one before it, and no further."""
    with Front() as front:
        front.site = _Linked(front)
        (tmp_path / "old.html").write_text("of the last copy")
        assert 5 == export(front, tmp_path)
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}

    assert {
        "index.html",
        "savings.html",
        "savings-month-2026-10.html",
        "fleet-a-1-b-2.html",
    } < files.keys()
    assert "old.html" not in files
    whole = "".join(files.values())
    for gone in ("token", "<script", "/q/", "127.0.0.1", "elsewhere"):
        assert gone not in whole, gone
    links = re.findall(r'(?:href|src)="([^"]*)"', whole)
    assert {*links} <= files.keys()
    assert "simulated-mail-1-body.html" in links
    assert "<button disabled>" in files["index.html"]


def test_a_copy_of_a_page_that_fails_is_no_copy(tmp_path: Path, socket_enabled: None) -> None:
    """Rather none than one with a hole."""
    with Front() as front:
        site = _Linked(front)
        site.pages |= {"/": '<a href="/gone">G</a>'}
        front.site = site
        with pytest.raises(RuntimeError, match="/gone answered 404"):
            export(front, tmp_path)
    assert [] == [*tmp_path.iterdir()]
