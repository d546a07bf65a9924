"""The approval site: what each request does, shows and leaks."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from governor.alerts.delivery import NOWHERE, Delivery
from governor.approvals.decide import Decide
from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.rules.links import LinkSigner
from governor.approvals.rules.terms import BROADCAST
from governor.approvals.show_approval import ShowApproval
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Unavailable
from governor.core.instance import Launch, LaunchFacts, UserData
from governor.core.units import iso
from governor.episode.model.episode import (
    Asking,
    Episode,
    EpisodeEnding,
    Measurement,
    Outcome,
    Phase,
    Terms,
)
from governor.episode.ports import UndoAnswer
from governor.episode.rules.plan import draw_plan
from governor.evidence.model import GpuReadings, Window
from governor.evidence.rules.history import History
from governor.evidence.rules.series import evidence_hash
from governor.policy.model.acting import Action, ApprovalRule, PlanRule, Power
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.judging import Metrics
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.changes import asked_under
from governor.verdict.model import Hold
from governor.web.answers import brief
from governor.web.responses import Response
from governor.web.site import ApprovalSite, Request
from tests.builders import (
    NOW,
    QUIET,
    earlier_link,
    form_token,
    make_evidence,
    make_facts,
    make_instance,
)
from tests.episodes import changed
from tests.twins import (
    FakeClock,
    MemorySeals,
    MemoryWorkflow,
    RecordingAnnouncer,
    SealedStateTable,
    StaticPolicies,
)
from tests.twins.services import RecordingUndoer
from tests.unit.aws.state_samples import entry

ALICE = "alice@example.com"
ID = "JG1Kw3bzgWbtOnVwnoF6Jg"
TOKEN = "task-token-that-nobody-may-see"
SIGNER = LinkSigner(lambda: {"current": "k1", "k1": "n" * 64}, "https://api.example.com")
MAY: frozenset[Power] = frozenset({"keep", "stop", "undo"})
LATER = NOW + timedelta(hours=24)
XSS = '<script>alert("1")</script>'


class World:
    """A question that waits, behind the site."""

    def __init__(
        self,
        action: Action = Action.STOP,
        link_of: str = ALICE,
        people: int = 1,
        may: frozenset[Power] = MAY,
        zone: str = "UTC",
        *,
        acts: bool = False,
    ) -> None:
        self.link_of = link_of
        instance = make_instance(tags={"Purpose": "GPU-Workload", "Name": XSS, "Owner": XSS})
        evidence = make_evidence((*QUIET[:5], None, *QUIET[6:]))
        self.ref = EpisodeRef(
            "123456789012", "us-east-1", instance.instance_id, instance.launch_time, 1
        )
        self.seals = MemorySeals()
        self.state = SealedStateTable(seals=self.seals)
        self.workflow = MemoryWorkflow(waiting={TOKEN})
        self.clock = FakeClock(NOW)
        self.undoer = RecordingUndoer()
        self.announcer = RecordingAnnouncer()
        known = Contact(emails=(ALICE, "bob@example.com"))
        self.policies = StaticPolicies(
            Policy(
                approval=ApprovalRule(broadcast_may=tuple(sorted(may))),
                ownership=Ownership(contacts={"people": known}),
            )
        )
        facts = make_facts(instance)
        self.state.take_lock(self.ref)
        self.state.save_opened(
            Episode(
                ref=self.ref,
                phase=Phase.ASKING,
                opened_at=NOW,
                approval_id=ID,
                mode=Mode.ASK,
                policy_version="v",
                overrides=(),
                instance=instance,
                reason=f"quiet {XSS}",
                measurement=Measurement(evidence=evidence, evidence_hash=evidence_hash(evidence)),
                plan=draw_plan(facts, Policy(plan=PlanRule(action=action))),
                price=facts.price,
                terms=Terms(may, people, frozenset({ALICE, "bob@example.com"})),
                asking=Asking(acts_on_silence=acts, time_zone=zone),
                owner=XSS,
                project="vision",
            )
        )
        self.state.await_answer(ID, TOKEN, "ask", LATER)
        self.site = ApprovalSite(
            show=ShowApproval(
                episode_store=self.state,
                approval_store=self.state,
                instance_store=self.state,
                delivery_store=self.state,
                ledger_store=self.state,
                clock=self.clock,
            ),
            decide=Decide(
                episode_store=self.state,
                approval_store=self.state,
                hold_store=self.state,
                instance_store=self.state,
                workflow=self.workflow,
                clock=self.clock,
                announcer=self.announcer,
                policies_now=lambda: self.policies,
                answer_seal=self.seals.answers,
            ),
            undoer=self.undoer,
            signer=SIGNER,
        )
        self.open_link()

    def open_link(self) -> None:
        """Goes on with the link of `link_of`."""
        self.query = dict(parse_qsl(urlsplit(earlier_link(SIGNER, ID, self.link_of, LATER)).query))

    def get(self, method: str = "GET", **query: str) -> Response:
        """Opens the page."""
        return self.site.handle(Request(method, ID, {**self.query, **query}))

    def post(self, answer: str, headers: dict[str, str] | None = None, **form: str) -> Response:
        """Presses a button of the page."""
        given = {
            "csrf": form_token(SIGNER, ID, self.link_of, LATER),
            "answer": answer,
            "losses": "accepted",
        }
        fields = {**given, **form}
        return self.site.handle(Request("POST", ID, self.query, fields, headers or {}))

    @property
    def episode(self) -> Episode:
        """As stored."""
        episode = self.state.episode(self.ref)
        assert episode is not None
        return episode

    def change(self, **changes: Any) -> None:
        """The episode was stored otherwise."""
        self.state.put(changed(self.episode, **changes))

    def end(self, outcome: Outcome) -> None:
        """The workflow has come to its end."""
        self.state.note_step(self.ref, "stop", NOW)
        ledger = replace(entry(), episode=self.ref, outcome=outcome)
        put_away = outcome in (Outcome.STOPPED, Outcome.TERMINATED)
        self.state.close_episode(
            self.ref,
            outcome,
            "as approved",
            NOW,
            quiet_until=None,
            ledger=ledger if put_away else None,
        )

    @property
    def status(self) -> ApprovalStatus:
        """Return the question's status."""
        approval = self.state.approval(ID)
        assert approval is not None
        return approval.status


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (
            "https://eusc-de-east-1.console.amazonaws-eusc.eu/ec2/home",
            '<dd><a href="https://eusc-de-east-1.console.amazonaws-eusc.eu/ec2/home">',
        ),
        (None, "<dd>i-"),
    ],
)
def test_the_page_links_the_console_of_the_region_and_no_other(
    monkeypatch: pytest.MonkeyPatch, address: str | None, shown: str
) -> None:
    """Without a known console the page shows the id alone."""
    asked = []

    def instance_page(region: str, instance_id: str) -> str | None:
        asked.append((region, instance_id))
        return address

    monkeypatch.setattr("governor.web.pages.instance_page", instance_page)
    world = World()

    assert f"<dt>Instance ID</dt>{shown}" in world.get().body
    assert [("us-east-1", world.ref.instance_id)] == asked


def test_looking_changes_nothing() -> None:
    """GET and HEAD, twenty times each: the question is as it was, and HEAD has no body."""
    world = World()
    before = world.state.approval(ID)

    for _ in range(20):
        assert 200 == world.get().status
        head = world.get("HEAD")
        assert (200, "") == (head.status, head.body)

    assert before == world.state.approval(ID)
    assert {} == world.workflow.answers


def test_the_page_says_what_will_happen() -> None:
    """Verdict, money, steps, losses, and the id; never the task token."""
    page = World().get().body

    assert all(
        part in page
        for part in (
            "has been idle for 1 h. Stop it?</h1>",
            "$24 a day",
            "If nobody answers by Sat 12:02 UTC (in 24 h), nothing happens.</strong>",
            '>Keep until Sat 09:00 <span class="under">UTC ($21)</span></button>',
            "stop the instance",
            "1x250",
            "i-0123456789abcdef0",
        )
    )
    assert TOKEN not in page


def test_the_page_gives_the_deadline_of_the_messages() -> None:
    """The question takes answers for a minute longer: its workflow began to wait later."""
    world = World()
    world.state.await_answer(ID, TOKEN, "await", LATER + timedelta(minutes=1), answer_by=LATER)
    view = world.site.show(ID)
    body = world.get().body

    assert ["Sat 12:02"] == sorted(set(re.findall(r"Sat 12:0\d", body)))
    assert iso(LATER) == brief(view)["expires_at"]


def test_the_page_says_for_how_long_work_may_not_be_visible() -> None:
    """By the settings that it was asked under; not of what is stopped, and not once it is over."""
    unseen = "It may not see work that began in the last {} minutes."
    world = World()
    assert unseen.format(12) in world.get().body
    each_minute = Policy(metrics=Metrics(period_seconds=60))
    world.change(asked_under=asked_under(each_minute))
    assert unseen.format(8) in world.get().body
    world.change(mode=Mode.AUTO)
    assert unseen.format(6) in world.get().body

    world.end(Outcome.STOPPED)
    assert "may not see work" not in world.get().body
    stopped = World()
    stopped.change(stopped_by_episode=stopped.ref, steps_done={"stop": NOW})
    assert "may not see work" not in stopped.get().body


def test_the_page_calls_idle_what_was_measured() -> None:
    """Twenty hours later nobody knows more than that no sweep has seen work; and not that, once one
    has."""
    world = World()
    world.clock.moment = NOW + timedelta(hours=20)
    page = world.get().body
    measured = "Idle for 1 h (every GPU under 5%) when this was found 20 h ago"

    assert (1, 1) == (
        page.count("has been idle since Fri 11:00 UTC. Stop it?"),
        page.count(f"{measured}, and no work was seen since."),
    )
    world.state.void(ID, "it works again", expired=False, outcome="woke-up")
    assert f"{measured}.</p>" in world.get().body


def test_the_time_idle_does_not_stop_while_the_question_is_open() -> None:
    """Minutes later a number of hours would be less than the Fleet shows."""
    world = World()
    world.change(idle_for=timedelta(hours=1))
    assert "has been idle for 1 h. Stop it?" in world.get().body
    world.clock.moment = NOW + timedelta(minutes=19)
    page = world.get().body

    assert "has been idle since Fri 11:00 UTC. Stop it?" in page
    assert "has been idle for" not in page
    assert re.search(r"when this was found \d+ min ago, and no work was seen since\.", page)


def test_nothing_of_a_tag_becomes_markup() -> None:
    """A name is whatever somebody typed."""
    page = World().get().body

    assert XSS not in page
    assert "&lt;script&gt;" in page


def test_the_page_needs_no_script_and_no_inline_style() -> None:
    """Nothing that the Content-Security-Policy forbids is there; the style sheet is the one it
    names."""
    response = World().get()
    style = response.body.split("<style>")[1].split("</style>")[0]
    wanted = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = response.headers["Content-Security-Policy"]

    assert f"style-src 'sha256-{wanted}'" in policy
    assert "unsafe" not in policy
    assert "<script" not in response.body
    assert re.search(r"\son\w+=|\sstyle=", response.body) is None


def test_only_a_record_in_progress_has_a_script_and_it_is_the_one_the_policy_names() -> None:
    """A record that has ended is as it will stay; nothing else may run, and nothing elsewhere be
    reached."""
    world = World()
    world.post("approve")
    moving = world.get()
    script = moving.body.split("<script>")[1].split("</script>")[0]
    wanted = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

    policy = moving.headers["Content-Security-Policy"]
    assert f"'sha256-{wanted}'" in policy.partition("script-src ")[2].partition(";")[0]
    world.end(Outcome.STOPPED)
    assert "<script" not in world.get().body


def test_the_page_is_well_formed_and_every_field_has_a_label() -> None:
    """Tags close, labels point at fields that exist, and ids are unique."""

    class Check(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []
            self.ids: list[str] = []
            self.labels: set[str] = set()
            self.fields: set[str] = set()

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            values = dict(attrs)
            if values.get("id"):
                self.ids.append(str(values["id"]))
            if tag == "label":
                self.labels.add(str(values["for"]))
            if tag == "select" or (tag == "input" and values.get("type") != "hidden"):
                self.fields.add(str(values["id"]))
            if tag not in {"meta", "input", "link", "br"}:
                self.open.append(tag)

        def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            """Nothing to close."""

        def handle_endtag(self, tag: str) -> None:
            assert tag == self.open.pop()

    check = Check()
    check.feed(World(Action.TERMINATE).get().body)

    assert [] == check.open
    assert len(check.ids) == len(set(check.ids))
    assert check.fields
    assert check.fields == check.labels


def test_gaps_are_drawn_as_gaps() -> None:
    """A period without a reading is marked, not bridged."""
    page = World().get().body

    chart, strips = page.split("<svg")[1:]

    assert (1, 2) == (chart.count('class="gap"'), chart.count('<path class="idle"'))
    assert (1, 2) == (strips.count('class="gap"'), strips.count('class="idle"'))


def test_the_busiest_gpu_is_drawn_idle_only_where_all_were_measured() -> None:
    """One GPU at work is enough to say so; one that nobody measured may have been at work."""
    world = World()
    window = Window(NOW - timedelta(hours=4), NOW, timedelta(hours=1))
    series = ((90.0, None, 1.0, 1.0), (None, 1.0, 1.0, 1.0))
    gpus = tuple(GpuReadings(str(number), one) for number, one in enumerate(series))
    world.change(history=History(window, gpus))

    chart = world.get().body.split("<svg")[1]

    drawn = re.findall(r'class="(busy|gap|idle)"', chart.split("</svg>")[0])
    assert ["busy", "gap", "idle"] == drawn
    assert "GPU utilization, % · last 24 h, UTC" in world.get().body


@pytest.mark.parametrize(
    "header",
    [
        "Cache-Control",
        "Referrer-Policy",
        "X-Frame-Options",
        "X-Content-Type-Options",
        "Strict-Transport-Security",
    ],
)
def test_every_answer_is_closed_to_caches_frames_and_referrers(header: str) -> None:
    """Refusals too."""
    world = World()

    assert header in world.get().headers
    assert header in world.get(s="forged").headers


def test_an_approval_is_recorded_and_delivered() -> None:
    """Redirected to the page by GET, which is now the record."""
    world = World()

    response = world.post("approve")

    assert 303 == response.status
    assert response.headers["Location"].startswith(f"{ID}?")
    assert ApprovalStatus.APPROVED is world.status
    assert "approve" == world.workflow.answers[TOKEN]["decision"]
    assert "Approved by alice@example.com (mail link)" in world.get().body


def test_a_second_answer_is_refused_and_a_repeated_one_is_not() -> None:
    """Once means once."""
    world = World()
    world.post("approve")

    assert 303 == world.post("approve").status
    world = World()
    world.post("keep", keep_until=iso(NOW + timedelta(hours=4)))
    assert 409 == world.post("approve").status
    assert ApprovalStatus.KEPT is world.status


def test_wiping_local_disks_needs_a_tick() -> None:
    """Data in no snapshot are lost only by somebody who said so."""
    world = World()

    refused = world.post("approve", losses="")
    assert (400, True) == (refused.status, "local disks would be lost for good" in refused.body)
    assert ApprovalStatus.PENDING is world.status
    assert 303 == world.post("approve").status


@pytest.mark.parametrize(
    ("answer", "fields", "is_open"),
    [("keep", {"keep_until": "2020-01-01T09:00:00Z"}, False), ("approve", {"losses": ""}, True)],
)
def test_only_a_refused_stop_asks_for_the_stop_again(
    answer: str, fields: dict[str, Any], is_open: bool
) -> None:
    """Somebody whose keep was refused sees no red button; Cancel leaves the open form."""
    refused = World().post(answer, **fields)

    assert 400 == refused.status
    assert is_open is ('class="stop open"' in refused.body)
    assert is_open is ('class="button plain cancel" href="#"' not in refused.body)


def test_the_form_of_a_stop_stays_closed_in_browsers_without_has() -> None:
    """Such a browser leaves out each whole rule that names `:has`."""
    page = World().get().body
    rule = ".stop:not(:target):not(.open) { display: none; }"
    assert rule in page


def test_a_link_that_went_to_a_list_keeps_and_stops_and_no_more() -> None:
    """Whoever reads the list may press; it says what to use instead, and shows no button for it."""
    page = World(Action.TERMINATE, BROADCAST).get().body
    assert ("It cannot be used to terminate or exempt" in page, 'value="approve"' in page) == (
        True,
        False,
    )

    cases: tuple[tuple[Action, str, dict[str, Any], int], ...] = (
        (Action.TERMINATE, "approve", {"typed_instance_id": "i-0123456789abcdef0"}, 403),
        (Action.STOP, "exempt", {"reason": "license server"}, 403),
        (Action.STOP, "approve", {}, 303),
        (Action.TERMINATE, "keep", {"keep_until": iso(NOW + timedelta(hours=4))}, 303),
    )
    for action, answer, form, status in cases:
        world = World(action, BROADCAST)
        assert (action, answer, status) == (action, answer, world.post(answer, **form).status)
        assert (status == 403) == (world.status is ApprovalStatus.PENDING)


@pytest.mark.parametrize("acts", [False, True])
def test_after_a_first_yes_the_page_says_what_silence_does(acts: bool) -> None:
    """It said that nothing is done without a second yes, below that silence stops the instance."""
    world = World(people=2, acts=acts)
    assert 303 == world.post("approve").status
    page = world.get().body

    assert "A second person must approve, too" in page
    assert acts is not ("must approve, too, before anything is done." in page)
    assert ("GPU Governor stops it anyway" if acts else "nothing happens.") in page


def test_a_dear_termination_takes_two_people() -> None:
    """The first yes is noted and shown; pressing again changes nothing; another person's yes
    settles it."""
    typed: dict[str, Any] = {"typed_instance_id": "i-0123456789abcdef0"}
    world = World(Action.TERMINATE, people=2)
    assert 303 == world.post("approve", **typed).status
    assert 303 == world.post("approve", **typed).status
    assert (ApprovalStatus.PENDING, {}) == (world.status, world.workflow.answers)
    page = world.get().body
    assert ("A second person must approve" in page, 'value="approve"' in page) == (True, False)

    world.link_of = "bob@example.com"
    world.open_link()
    assert 'value="approve"' in world.get().body
    assert 303 == world.post("approve", **typed).status

    assert ApprovalStatus.APPROVED is world.status
    reason = str(world.workflow.answers[TOKEN]["reason"])
    assert "approved by link:alice@example.com and link:bob@example.com" == reason


def test_of_two_people_one_may_say_no() -> None:
    """A keep settles the question, whoever approved before."""
    world = World(Action.TERMINATE, people=2)
    world.post("approve", typed_instance_id="i-0123456789abcdef0")
    world.link_of = "bob@example.com"
    world.open_link()

    assert 303 == world.post("keep", keep_until=iso(NOW + timedelta(hours=4))).status
    assert ApprovalStatus.KEPT is world.status


def test_a_termination_needs_the_id_typed() -> None:
    """Not empty, not another one."""
    world = World(Action.TERMINATE)

    assert 400 == world.post("approve").status
    assert 400 == world.post("approve", typed_instance_id="i-0fedcba9876543210").status
    assert ApprovalStatus.PENDING is world.status
    assert 303 == world.post("approve", typed_instance_id=" i-0123456789abcdef0 ").status


@pytest.mark.parametrize(
    "form",
    [
        {"answer": "keep"},
        {"answer": "keep", "keep_until": "soon"},
        {"answer": "keep", "keep_date": "2020-01-01"},
        {"answer": "keep", "keep_date": "2099-01-01"},
        {"answer": "keep", "keep_date": "0001-01-01"},
        {"answer": "keep", "keep_date": "9999-12-31"},
        {"answer": "keep", "keep_until": "2026-11-21T09:00:00"},
        {"answer": "keep", "keep_until": "0001-01-01T00:00:00+05:00"},
        {"answer": "exempt"},
        {"answer": "exempt", "reason": "   "},
        {"answer": "exempt", "reason": "x" * 301},
        {"answer": "exempt", "reason": "license\x1b[2J server"},
        {"answer": "approve", "losses": "accepted", "reason": "\x07"},
        {"answer": "detonate"},
        {},
    ],
)
def test_a_form_that_says_too_little_decides_nothing(form: dict[str, str]) -> None:
    """Each is told what to do, and the question stays open."""
    world = World()

    others = {name: value for name, value in form.items() if name != "answer"}
    response = world.post(form.get("answer", ""), None, **others)

    assert 400 == response.status
    assert 'role="alert"' in response.body
    assert ApprovalStatus.PENDING is world.status


def test_the_first_day_of_the_calendar_is_refused_in_every_zone() -> None:
    """Nine o'clock of that day in Tokyo has no UTC."""
    world = World(zone="Asia/Tokyo")

    response = world.post("keep", keep_date="0001-01-01")

    assert (400, True) == (response.status, 'role="alert"' in response.body)


def test_keep_holds_until_its_date() -> None:
    """The snooze is in the instance's record, in the same step as the decision."""
    world = World()
    until = NOW.replace(second=0) + timedelta(days=3)

    assert 303 == world.post("keep", keep_until=iso(until)).status

    record = world.state.record(world.ref.target, world.ref.instance_id)
    assert until == record.hold.snoozed_until


@pytest.mark.parametrize("csrf", ["", "k1.nonsense", "nonsense"])
def test_a_form_of_another_page_is_refused(csrf: str) -> None:
    """Whoever makes a browser post has no value of ours."""
    world = World()

    assert 403 == world.post("approve", csrf=csrf).status
    assert ApprovalStatus.PENDING is world.status


def test_a_request_of_another_site_is_refused() -> None:
    """Browsers say where a request comes from."""
    world = World()

    assert 403 == world.post("approve", headers={"sec-fetch-site": "cross-site"}).status
    assert 303 == world.post("approve", headers={"sec-fetch-site": "same-origin"}).status


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_forged_link_leaks_nothing(method: str) -> None:
    """403, and not a word about the instance."""
    world = World()
    response = world.get(method, s="A" * 43)

    assert 403 == response.status
    assert "i-0123456789abcdef0" not in response.body
    assert "g5.xlarge" not in response.body
    assert ApprovalStatus.PENDING is world.status


def test_an_expired_link_says_so() -> None:
    """410, for GET and POST alike."""
    world = World()
    world.clock.moment = LATER

    assert (410, 410) == (world.get().status, world.post("approve").status)
    assert ApprovalStatus.PENDING is world.status


def test_the_day_before_is_drawn_with_memory_and_power_beneath() -> None:
    """And the money it has cost since the last work in it, up to now."""
    world = World()
    window = Window(NOW - timedelta(hours=24), NOW, timedelta(hours=1))
    busy_until_noon_yesterday_plus_4 = (90.0,) * 4 + (1.0,) * 20
    history = History(
        window, (GpuReadings("0", busy_until_noon_yesterday_plus_4),), (75.0,) * 24, (None,) * 24
    )
    world.change(history=history)

    page = world.get().body

    assert all(part in page for part in (">memory</text>", ">power</text>", 'class="judged"'))
    assert 1 == page.count('<path class="busy"')
    assert "<dd>$20</dd>" in page  # 20 hours at 1.006
    assert "The last 24 hours could not be read" in World().get().body


def test_time_that_nobody_measured_is_not_billed_as_idle() -> None:
    """A hole before the question, and the hours since: their cost is said apart."""
    world = World()
    window = Window(NOW - timedelta(hours=4), NOW, timedelta(minutes=10))
    series = (90.0,) * 6 + (1.0,) * 11 + (None,) + (1.0,) * 6
    world.change(history=History(window, (GpuReadings("0", series),)))
    world.clock.moment = NOW + timedelta(hours=2)

    page = world.get().body

    # 2 h 50 min of readings and 2 h 10 min without, at 1.006 an hour.
    assert "<dt>of measured idle time</dt><dd>$2.85</dd>" in page
    assert "% · 24 h until Fri 12:02 UTC</figcaption>" in page
    assert (
        "Idle time that this question has no readings for (2 h 10 min) cost another $2.18." in page
    )


def test_the_record_of_a_stop_can_be_undone() -> None:
    """The button is there, the one function is asked, and the page is shown again by GET."""
    world = World()
    assert "Start it again" not in world.get().body
    world.post("approve")
    world.end(Outcome.STOPPED)

    assert "Start it again" in world.get().body
    response = world.post("undo")

    assert (303, [(world.ref, "link:alice@example.com", "page")]) == (
        response.status,
        world.undoer.asked,
    )


def test_an_undo_that_cannot_be_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """No capacity is an answer with advice; a failure of ours asks to try again and is logged."""
    world = World()
    world.post("approve")
    world.end(Outcome.STOPPED)

    world.undoer.answer = UndoAnswer(False, "EC2 has no free capacity")
    refused = world.post("undo")
    world.undoer.answer = Unavailable("the function did not answer")
    failed = world.post("undo")

    assert (409, True) == (refused.status, "Not started: EC2 has no free capacity." in refused.body)
    assert (503, True) == (
        failed.status,
        "The function that starts instances has not answered." in failed.body,
    )
    assert "did not answer" in caplog.text


def test_what_was_undone_has_no_button_any_more() -> None:
    """It says who and when."""
    world = World()
    world.post("approve")
    world.end(Outcome.STOPPED)
    world.state.note_undo(world.ref, "ada", NOW)

    page = world.get().body

    assert "Start it again" not in page
    assert "Started again by ada, Fri" in page
    assert "It was stopped, and ada started it again." in page
    assert "The instance is stopped." not in page
    assert "a day saved" not in page


@pytest.mark.parametrize("outcome", [Outcome.TERMINATED, Outcome.FAILED])
def test_the_record_of_a_termination_tells_how_to_rebuild(outcome: Outcome) -> None:
    """Launch facts, and which snapshot was which device; also where the flow failed after it had
    asked."""
    world = World(Action.TERMINATE)
    world.post("approve", typed_instance_id="i-0123456789abcdef0")
    world.state.set_snapshots(world.ref, {"snap-1": "vol-0123456789abcdef0"})
    facts = LaunchFacts(
        image_id="ami-1", placement_group="trainers", network_interfaces=4, efa_interfaces=3
    )
    kept = UserData(12345, "abc", "s3://audit/user-data/1")
    world.change(instance=replace(world.episode.instance, launch=facts), user_data=kept)
    world.state.note_step(world.ref, "terminate", NOW)
    world.end(outcome)

    page = world.get().body

    assert "Start it again" not in page
    assert all(part in page for part in ("ami-1", "Snapshot of /dev/xvda", "snap-1"))
    assert all(part in page for part in ("trainers", "4, 3 of them with EFA", "User data"))
    said = "12,345 bytes, SHA-256 abc. Read it: aws s3 cp s3://audit/user-data/1 user-data"
    assert said in page


def test_an_undo_needs_the_form_of_its_page() -> None:
    """As every POST."""
    world = World()
    world.post("approve")
    world.end(Outcome.STOPPED)

    assert 403 == world.post("undo", csrf="k1.nonsense").status
    assert [] == world.undoer.asked


def test_an_unknown_question_is_told_only_behind_a_right_signature() -> None:
    """404 needs a genuine link."""
    world = World()
    query = dict(parse_qsl(urlsplit(earlier_link(SIGNER, "unknown", "broadcast", LATER)).query))

    assert 404 == world.site.handle(Request("GET", "unknown", query)).status
    assert 403 == world.site.handle(Request("GET", "unknown", world.query)).status


def test_other_methods_are_refused() -> None:
    """The page knows three."""
    assert 405 == World().get("DELETE").status


def test_a_void_question_says_why() -> None:
    """409 on POST, and the page tells what happened."""
    world = World()
    world.state.void(ID, "work resumed at 14:05", expired=False, outcome="woke-up")

    assert 409 == world.post("approve").status
    assert "Canceled: Work resumed at 14:05." in world.get().body


def test_a_record_speaks_of_what_has_been() -> None:
    """Once the instance is stopped, the page no longer asks, nor says what would be done."""
    world = World()
    question = world.get().body
    assert ("Stop it?</h1>" in question, "If you stop it" in question) == (True, True)

    world.post("approve")
    world.end(Outcome.STOPPED)

    record = world.get().body
    assert "is stopped, which saves $24/day</h1>" in record
    assert not [text for text in ("Stop it?</h1>", "If you stop it") if text in record]


def test_a_decision_stands_when_the_workflow_cannot_be_reached() -> None:
    """It is in the table; the next stage and the sweep deliver it."""
    world = World()
    world.workflow.failure = Unavailable("Step Functions is down")

    assert 303 == world.post("approve").status
    assert ApprovalStatus.APPROVED is world.status


def test_a_link_outlives_no_policy() -> None:
    """A question whose stage is over cannot be answered by a link that is still good."""
    world = World()
    world.state.await_answer(ID, TOKEN, "escalate", NOW)

    assert 409 == world.post("approve").status
    assert ApprovalStatus.PENDING is world.status


@pytest.mark.parametrize("answer", ["approve", "keep", "exempt", "hold"])
def test_a_form_that_comes_after_the_question_is_void_gets_the_record(answer: str) -> None:
    """Its page has no form, and so no token, any more: 409 with what became of it, and not 403."""
    world = World()
    assert 403 == world.post(answer, csrf="").status
    world.state.void(ID, "it works again", expired=False, outcome="woke-up")
    refused = world.post(answer, csrf="")

    said = [text in refused.body for text in ("This question is over", "It works again.")]
    assert (409, [True, True]) == (refused.status, said)
    assert (403, []) == (world.post("undo", csrf="").status, world.undoer.asked)


@pytest.mark.parametrize("after_a_yes", [False, True])
def test_an_approver_who_has_gone_exempts_and_undoes_nothing(after_a_yes: bool) -> None:
    """By the link of an old mail; a keep is always welcome, and ends."""
    world = World()
    if after_a_yes:
        world.post("approve")
    world.policies.policy = replace(world.policies.policy, ownership=Ownership())
    refused = world.post("exempt", reason="mine")

    assert (403, True) == (refused.status, f"No contact has the address {ALICE}" in refused.body)
    assert Hold() == world.state.record(world.ref.target, world.ref.instance_id).hold
    assert 303 == world.post("keep", keep_until=iso(NOW + timedelta(hours=4))).status
    assert (
        world.state.record(world.ref.target, world.ref.instance_id).hold.snoozed_until is not None
    )

    world = World()
    world.post("approve")
    world.end(Outcome.STOPPED)
    world.policies.policy = replace(world.policies.policy, ownership=Ownership())
    assert (403, []) == (world.post("undo").status, world.undoer.asked)


def test_a_list_may_undo_only_where_the_policy_says_so() -> None:
    """An instance that runs again costs what it cost before."""
    cases: tuple[tuple[frozenset[Power], int], ...] = (
        (frozenset({"undo"}), 303),
        (frozenset({"keep", "stop"}), 403),
    )
    for may, status in cases:
        world = World(link_of=BROADCAST, may=may)
        world.state.void(ID, "it is over", expired=False)
        world.end(Outcome.STOPPED)
        assert (status == 303) == ("Start it again" in world.get().body)
        assert status == world.post("undo").status
        assert (status == 303) == bool(world.undoer.asked)


@pytest.mark.parametrize("hour", [0, 8, 9, 23])
def test_the_latest_date_that_is_offered_is_taken(hour: int) -> None:
    """At every hour of the day."""
    world = World()
    world.clock.moment = NOW.replace(hour=hour)
    world.state.await_answer(ID, TOKEN, "ask", NOW + timedelta(days=2))
    latest = re.search(r'max="([^"]+)"', world.get().body)
    assert latest is not None

    assert 303 == world.post("keep", keep_date=latest[1]).status


def test_the_page_says_who_was_told_and_names_nobody() -> None:
    """By channel and stage; a refusal and a wait are said, addresses are not."""
    world = World()
    name = world.ref.execution_name
    taken = Delivery(name, f"ask-{name}", "email", "alice@example.com", NOW, delivery_id="1")
    for one in (
        taken,
        replace(
            taken,
            channel="teams",
            target="workflow",
            delivery_id=None,
            refused="410: make a new one",
        ),
        replace(taken, channel="slack", target="C1", delivery_id=None, not_before=LATER),
        replace(
            taken, channel=NOWHERE, target=NOWHERE, delivery_id=None, refused="no channel has it"
        ),
    ):
        world.state.note_delivery(one)
    page = world.get().body

    assert "Fri 12:02 UTC, question by email: delivered" in page
    assert "question by teams: refused" in page
    assert "Fri 12:02 UTC, question: no channel has it" in page
    assert "question by slack: on its way, or retried from Sat 12:02 UTC on" in page
    assert "alice@example.com" not in page.split("Messages sent")[1].split("</section>")[0]


def test_deliveries_that_read_alike_are_one_line_with_the_number_of_recipients() -> None:
    """Two equal lines look like a message that was sent twice; the page names no address."""
    world = World()
    name = world.ref.execution_name
    for number, address in enumerate((ALICE, "bob@example.com")):
        delivered = Delivery(name, f"ask-{name}", "email", address, NOW, delivery_id=str(number))
        world.state.note_delivery(delivered)
    sent = world.get().body.split("Messages sent")[1].split("</details>")[0]

    assert ["Fri 12:02 UTC, question by email: delivered (2 recipients)"] == re.findall(
        r"<li>([^<]*)</li>", sent
    )


# several questions on one page


class DigestWorld(World):
    """The question in a digest with another one, about a dearer instance that a plan terminates."""

    def __init__(self) -> None:
        super().__init__()
        other = make_instance(instance_id="i-0fedcba9876543210", tags={"Name": "trainer"})
        facts = make_facts(other)
        ref = EpisodeRef("123456789012", "us-east-1", other.instance_id, other.launch_time, 1)
        self.state.take_lock(ref)
        plan = draw_plan(facts, Policy(plan=PlanRule(action=Action.TERMINATE)))
        episode = replace(
            self.episode, ref=ref, approval_id="other", instance=other, plan=plan, reason="quiet"
        )
        self.state.save_opened(episode)
        self.state.await_answer("other", "other-token", "ask", LATER)
        self.workflow.waiting.add("other-token")
        self.state.put_digest("digest-1", [ID, "other"], NOW)
        self.query = dict(parse_qsl(urlsplit(earlier_link(SIGNER, "digest-1", ALICE, LATER)).query))

    def get(self, method: str = "GET", **query: str) -> Response:
        """Opens the page."""
        return self.site.handle(Request(method, "digest-1", {**self.query, **query}))

    def post(self, answer: str, headers: dict[str, str] | None = None, **form: str) -> Response:
        """Presses a button of the page."""
        given = {"csrf": form_token(SIGNER, "digest-1", ALICE, LATER), "answer": answer}
        return self.site.handle(
            Request("POST", "digest-1", self.query, {**given, **form}, headers or {})
        )

    def statuses(self) -> tuple[ApprovalStatus, ApprovalStatus]:
        """Return the statuses of both questions."""
        found = [self.state.approval(ID), self.state.approval("other")]
        first, second = (approval.status for approval in found if approval is not None)
        return first, second


BOTH: dict[str, Any] = {f"pick-{ID}": "yes", "pick-other": "yes"}

ONE: dict[str, Any] = {"pick-other": "yes"}
FIRST: dict[str, Any] = {f"pick-{ID}": "yes"}


def test_a_digest_leads_to_the_page_of_each() -> None:
    """By a link of the same person; nothing is decided by looking."""
    world = DigestWorld()
    page = world.get().body
    links = re.findall(r'<a href="([^"]+)"', page)

    assert 2 == len(links)
    for link in links:
        approval_id, _, query = link.replace("&amp;", "&").partition("?")
        fields = dict(parse_qsl(query))
        assert ALICE == fields["r"]
        assert 200 == world.site.handle(Request("GET", approval_id, fields)).status
    assert (ApprovalStatus.PENDING, ApprovalStatus.PENDING) == world.statuses()


def test_nothing_is_ticked_and_terminations_stand_apart() -> None:
    """Whoever presses a button has ticked what it is about; what would be gone has no box at
    all."""
    page = DigestWorld().get().body
    boxes = re.findall(r"<input[^>]* type=\"checkbox\"[^>]*>", page)

    assert [f"pick-{ID}"] == [
        name for box in boxes if (name := box.split('name="')[1].split('"')[0]) != "losses"
    ]
    assert not any(" checked" in box for box in boxes)
    apart = page.split('id="apart"')[1]
    assert ("trainer" in apart, 'name="pick-other"' in page) == (True, False)


KEEPS_ONLY = Terms(frozenset({"keep"}), 1, frozenset(), frozenset({"keep"}))
"""Nobody of the policy is asked, and others may keep."""


def boxes_of(page: str) -> list[str]:
    """The questions that the page has a box for."""
    return re.findall(r'name="pick-([^"]+)" value="yes" data-usd', page)


def test_a_digest_offers_no_stop_to_somebody_who_may_only_terminate() -> None:
    """The server would refuse it."""
    world = DigestWorld()
    world.change(terms=KEEPS_ONLY)
    page = world.get().body

    assert [ID] == boxes_of(page)
    assert ('value="keep"' in page, 'value="approve"' in page) == (True, False)
    assert "Not recorded" in world.post("approve", losses="accepted", **FIRST).body


def test_a_digest_with_a_stop_button_lists_what_its_reader_may_stop() -> None:
    """One press must not be refused for some of them: what they may only keep stands apart."""
    world = DigestWorld()
    other = world.state.episode(replace(world.ref, instance_id="i-0fedcba9876543210"))
    assert other is not None
    world.state.put(replace(other, plan=world.episode.plan))
    world.change(terms=KEEPS_ONLY)
    page = world.get().body

    assert ["other"] == boxes_of(page)
    assert 'value="approve"' in page
    apart = page.split('id="others"')[1].split("</section>")[0]
    assert f'href="{ID}?' in apart


def test_a_digest_offers_no_second_yes_to_the_person_who_gave_the_first() -> None:
    world = DigestWorld()
    terms = Terms(frozenset({"keep"}), 2, frozenset({ALICE, "bob@example.com"}))
    world.change(terms=terms)
    assert 'value="approve"' in world.get().body

    after = world.post("approve", losses="accepted", **FIRST).body
    assert ([ID], False) == (boxes_of(after), 'value="approve"' in after)


def test_all_can_be_kept_at_once() -> None:
    """With what became of each."""
    world = DigestWorld()
    answer = world.post("keep", keep_until=iso(NOW + timedelta(hours=4)), **BOTH)

    assert (200, 2) == (answer.status, answer.body.count(": Recorded: kept until Fri 16:02 UTC."))
    assert (ApprovalStatus.KEPT, ApprovalStatus.KEPT) == world.statuses()


def test_stopping_all_terminates_nothing() -> None:
    """A termination asks for its id on its own page; the others are taken."""
    world = DigestWorld()
    answer = world.post("approve", losses="accepted", **BOTH)

    assert (200, True) == (answer.status, "type its ID" in answer.body)
    assert (ApprovalStatus.APPROVED, ApprovalStatus.PENDING) == world.statuses()


def test_only_what_is_ticked_is_answered() -> None:
    """And nothing without a tick, a date or a loss accepted."""
    world = DigestWorld()
    assert 400 == world.post("keep", keep_until=iso(NOW + timedelta(hours=4))).status
    assert 400 == world.post("keep", **BOTH).status
    assert "local disks" in world.post("approve", **BOTH).body
    assert (ApprovalStatus.PENDING, ApprovalStatus.PENDING) == world.statuses()

    world.post("keep", keep_until=iso(NOW + timedelta(hours=4)), **ONE)
    assert (ApprovalStatus.PENDING, ApprovalStatus.KEPT) == world.statuses()


def test_a_digest_shows_how_far_each_has_come_and_holds_it() -> None:
    """After a yes: what was asked, what is done, and a button that holds this one alone."""
    world = DigestWorld()
    after = world.post("approve", losses="accepted", **FIRST).body
    row = after.split("Which of them?")[1]

    assert "In progress: 0 of 2 steps are done. It can still be held." in row
    assert 1 == row.count("If nobody answers")  # of the other one, which is still open
    assert ('form="hold-1"' in row, 'form="hold-2"' in row) == (True, False)

    held = world.post("hold", **FIRST).body
    assert "On hold: nothing more is done" in held
    assert 'form="hold-1"' not in held
    assert (ApprovalStatus.APPROVED, ApprovalStatus.PENDING) == world.statuses()
    approval = world.state.approval(ID)
    assert approval is not None
    assert approval.hold is not None


def test_a_digest_says_when_it_is_too_late_to_hold() -> None:
    """EC2 has stopped it meanwhile: no button, and a press from an old page is refused with the
    time."""
    world = DigestWorld()
    world.post("approve", losses="accepted", **BOTH)
    world.change(phase=Phase.ACTING, steps_done={"stop": NOW, "snapshot": NOW})

    page = world.get().body
    assert ("EC2 was asked to stop it." in page, 'form="hold-1"' in page) == (True, False)
    assert "Too late to hold it" in world.post("hold", **FIRST).body


@pytest.mark.parametrize("world_of", [World, DigestWorld])
def test_a_call_without_an_answer_can_be_held_on_the_page(world_of: type[World]) -> None:
    """EC2 may not carry it out: the button stays, and the page says when the hold counts."""
    world = world_of()
    picked = FIRST if world_of is DigestWorld else {}
    world.post("approve", losses="accepted", **picked)
    world.change(phase=Phase.ACTING, steps_done={"stop": NOW})
    counts = "If EC2 does not carry out that call, your answer counts"

    page = world.get().body
    assert ("EC2 was asked to stop it Fri" in page, counts in page) == (True, True)
    assert 'value="hold"' in page
    answered = world.post("hold", **picked).body
    assert ("Too late to hold it" in answered, counts in answered) == (True, True)
    assert "Not recorded" not in answered
    approval = world.state.approval(ID)
    assert approval is not None
    assert approval.late_hold is not None
    assert 'value="hold"' not in world.get().body


def test_a_held_record_says_so_and_how_a_stopped_instance_starts_again() -> None:
    """Before its termination it is only stopped: what stands beside the button is true of that."""
    world = World(Action.TERMINATE)
    world.post("approve", typed_instance_id=world.ref.instance_id)
    assert ": approved</h1>" in world.get().body
    world.change(phase=Phase.ACTING, steps_done={"stop": NOW})
    assert 303 == world.post("hold").status
    assert "is on hold</h1>" in world.get().body
    ending = EpisodeEnding(Outcome.HELD, "held", NOW, became=Outcome.STOPPED)
    world.change(phase=Phase.CLOSED, ending=ending)
    page = world.get().body
    undo = page.split('id="undo"')[1].split("</form>")[0]

    assert "is on hold and was not terminated</h1>" in page
    assert ("A stopped instance gives up its capacity" in undo, "cannot be started" in page) == (
        True,
        False,
    )


def test_a_digest_takes_no_question_that_is_not_in_it() -> None:
    """Whatever the form names."""
    world = DigestWorld()
    world.state.put_digest("digest-1", ["other"], NOW)
    world.post("keep", keep_until=iso(NOW + timedelta(hours=4)), **BOTH)

    assert (ApprovalStatus.PENDING, ApprovalStatus.KEPT) == world.statuses()


def test_a_digest_is_as_closed_as_a_question() -> None:
    """Forged links and forms, other sites, unknown ids; HEAD has no body."""
    world = DigestWorld()
    assert 403 == world.get(s="A" * 43).status
    assert 403 == world.post("keep", csrf="", **BOTH).status
    assert 403 == world.post("keep", {"sec-fetch-site": "cross-site"}, **BOTH).status
    assert (200, "") == (world.get("HEAD").status, world.get("HEAD").body)
    query = dict(parse_qsl(urlsplit(earlier_link(SIGNER, "digest-2", ALICE, LATER)).query))
    assert 404 == world.site.handle(Request("GET", "digest-2", query)).status
    assert XSS not in world.get().body


@pytest.mark.parametrize("is_measured", [True, False])
def test_a_question_says_that_power_is_not_measured(is_measured: bool) -> None:
    """In what stands open, and not only in the folded numbers."""
    evidence = make_evidence()
    if not is_measured:
        evidence = make_evidence(power_percent_of_limit=None, last_measured={})
    world = World()
    world.change(evidence=evidence, evidence_hash=evidence_hash(evidence))
    page = world.get().body
    line = "Power: not measured. Only GPU utilization says that it is idle."

    assert (not is_measured) is (line in page)
    assert (not is_measured) is ("every GPU under 5%; power: not measured" in page)


def test_the_page_says_whom_the_owner_tag_names_and_nobody_knows() -> None:
    """Beside the answer, and as text, whatever the tag holds."""
    world = World()
    world.change(owner_note=f'The owner tag names "{XSS}", which is not in the policy.')
    page = world.get().body

    assert "The owner tag names &#34;" in page
    assert ", which is not in the policy." in page
    assert XSS not in page


def test_the_page_says_who_launched_the_instance_as_text() -> None:
    """Whatever CloudTrail holds; a question of an earlier release says nothing."""
    world = World()
    assert "Launched by" not in world.get().body

    world.change(launched_by=Launch(f"arn:aws:iam::123456789012:user/{XSS}", NOW))
    page = world.get().body

    assert "Launched by " in page
    assert "<script>alert" not in page


@pytest.mark.parametrize("form", [{}, {"keep_until": "never"}])
def test_a_refused_answer_to_a_digest_keeps_its_ticks(form: dict[str, str]) -> None:
    """Each answer and the whole form: a missing consent, and a date that cannot be read."""
    world = DigestWorld()
    answer = "keep" if form else "approve"
    page = world.post(answer, **{**FIRST, **form}).body

    assert [f"pick-{ID}"] == re.findall(r'name="(pick-[^"]+)"[^>]* checked', page)
    assert (ApprovalStatus.PENDING, ApprovalStatus.PENDING) == world.statuses()
