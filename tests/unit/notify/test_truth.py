"""Every message says the truth of its mode, in every channel: what happens, by when, to whom it
belongs."""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from email.message import EmailMessage
from typing import Any, Literal

import pytest

from governor.alerts.model import Alert, Owner, alert_document
from governor.approvals.messages.ends import outcome_alert, recovered_alert
from governor.approvals.messages.questions import (
    first_yes_alert,
    stage_alert,
    undo_alert,
    waiting_alert,
)
from governor.approvals.messages.sentences import launched_text, restarts_text
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision, Stage
from governor.aws.messaging import message_of as sns_message_of
from governor.aws.messaging import subject_of as sns_subject_of
from governor.core.catalog import shape_of
from governor.core.instance import Instance, Launch, Protection
from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment
from governor.core.units import in_utc
from governor.episode.model.episode import Episode, EpisodeEnding, Failing, Outcome, Phase, Terms
from governor.episode.model.plan import STEP_TEXT, PlanFacts, Price, Step
from governor.episode.rules.plan import about_stopped, draw_plan
from governor.events.messages import (
    block_alert,
    checkpoint_failed_alert,
    mass_alert,
    notice_alert,
    warning_alert,
)
from governor.events.model.interruption import (
    Cause,
    Checkpoint,
    HookAnswer,
    HookState,
    LifecycleAction,
    Warned,
)
from governor.events.model.notice import BlockChange, Notice
from governor.evidence.model import GpuReadings
from governor.evidence.rules.history import History
from governor.evidence.rules.series import window_before
from governor.fleet.model import Share
from governor.limits.messages import breaker_alert
from governor.limits.model.breaker import BreakerState
from governor.money.messages import budget_alert, report_alert
from governor.money.rules.cost import ProjectCost, marginal_price
from governor.money.rules.forecast import Forecast
from governor.money.rules.jobs import CountedCost
from governor.money.rules.report import report
from governor.notify.compose import message_of
from governor.notify.contract import parse_queued
from governor.notify.digest import digest_of
from governor.notify.email import email_document
from governor.notify.message import Chart, Message
from governor.notify.pagerduty import pagerduty_event
from governor.notify.registry import CHANNELS
from governor.notify.slack_blocks import slack_blocks, slack_text
from governor.notify.teams import teams_envelope
from governor.notify.webhook import webhook_document
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.schedule import Schedule
from governor.sweep.messages import exemption_alert, managed_alert, silent_alert
from governor.sweep.model import IdleMember
from governor.verdict.model import Verdict, VerdictKind
from governor.verdict.rules.judging import asked_because
from local.demo.receiver_checks import webhook_problems
from tests.builders import NOW, TARGET, make_entry, make_evidence
from tests.episodes import changed
from tests.unit.notify.builders import as_read
from tests.unit.worlds.world import World

LINK = "https://governor.example/approvals/a1?k=k1&r=ann&e=1795178550&s=c2lnbmF0dXJl"
ASKED = NOW - timedelta(hours=4)
IDLE_SINCE = NOW - timedelta(hours=8)
DEADLINE = NOW + timedelta(hours=15)
"""04:02 in Berlin, 03:02 UTC, on Saturday."""
REASON = "Idle for 6 h 40 min (every GPU under 5%)."
QUESTIONS = (Stage.ASK, Stage.REMIND, Stage.ESCALATE)
FORMS = {"email": ("mail text", "mail page"), "slack": ("slack", "slack text")}
"""The forms of a channel that shows a message in several."""
EVERY_CHANNEL = ["sns"]
"""Each form of each channel, and plain SNS."""
for registered_channel in CHANNELS:
    EVERY_CHANNEL.extend(FORMS.get(registered_channel, (registered_channel,)))
_NAMED = ("instance_id", "instance_name", "instance_type")
_RAW_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d")


def episode_of(
    mode: Mode = Mode.ASK,
    on_expiry: Literal["no-action", "act"] = "no-action",
    action: Action = Action.STOP,
    **changes: Any,
) -> Episode:
    """An A10G that was last at work 6 h 40 min ago, of a team in Berlin, at 5.67 USD an hour."""
    tags = {"Purpose": "GPU-Workload", "Name": "notebook-7"}
    world = World(
        mode=mode,
        action=action,
        on_expiry=on_expiry,
        decide=False,
        changes={"instance_type": "g5.12xlarge", "tags": tags},
    )
    day = window_before(NOW, timedelta(hours=24), timedelta(minutes=5), timedelta())
    worked = (90.0,) * (day.bins - 80)
    plain = replace(
        world._stored(),
        owner="ml-team",
        project="vision",
        asking=replace(
            world._stored().asking,
            time_zone="Europe/Berlin",
            schedule=Schedule(ASKED, ASKED + timedelta(hours=2), NOW, DEADLINE)
            if mode is Mode.ASK
            else None,
        ),
        price=Price(Decimal("5.672"), "list price"),
        measurement=replace(
            world._stored().measurement,
            history=History(day, (GpuReadings("0", (*worked, *(1.0,) * 80)),)),
        ),
    )
    facts = PlanFacts(
        plain.instance, Protection(), None, shape_of(plain.instance.instance_type), plain.price
    )
    plan = draw_plan(facts, world.policies.policy)
    return changed(plain, plan=plan, **changes)


def asked_about_stopped(**changes: Any) -> Episode:
    """The same instance two weeks after a question has stopped it, asked about to be terminated by
    two."""
    asked = episode_of(action=Action.TERMINATE, terms=Terms(people_needed=2))
    ago, window = timedelta(days=14), asked.measurement.evidence.window
    stopped_at = NOW - ago
    one = replace(asked.instance, state="stopped", launch_time=stopped_at - timedelta(days=2))
    price = marginal_price(one, asked.price)
    ref = replace(asked.ref, launch_time=one.launch_time)
    found = replace(
        asked,
        ref=replace(ref, number=2),
        stopped_by_episode=ref,
        progress=replace(asked.progress, steps_done={"stop": stopped_at}),
        instance=one,
        price=price,
        plan=draw_plan(
            PlanFacts(one, Protection(), None, shape_of(one.instance_type), price),
            about_stopped(Policy(mode=Mode.ASK)),
        ),
        measurement=replace(
            asked.measurement,
            history=None,
            evidence=replace(
                asked.measurement.evidence,
                window=replace(window, start=window.start - ago, end=window.end - ago),
            ),
        ),
        reason=f"GPU Governor stopped it on {in_utc(stopped_at)}, and nobody has started it since.",
    )
    return changed(found, **changes)


def queued(alert: Alert) -> Alert:
    """The alert as the channels find it in their queue."""
    found = parse_queued(json.dumps(alert_document(alert)))
    assert isinstance(found, Alert)
    return found


def texts(alert: Alert, episode: Episode | None, now: datetime = NOW) -> dict[str, str]:
    """Return what a person reads, by channel."""
    message = message_of(queued(alert), episode, link=LINK, now=now)
    plain = f"{sns_subject_of(alert)}\n{sns_message_of(alert, lambda _: '')['email']}"
    found = {"sns": plain}
    for channel in CHANNELS:
        found.update(read(channel, message))
    return found


def rendered(message: Message) -> dict[str, str]:
    """Return what a person reads in the channels that take digests, too."""
    found: dict[str, str] = {}
    for channel, kind in CHANNELS.items():
        if not kind.keeps_incidents:
            found.update(read(channel, message))
    return found


def read(channel: str, message: Message) -> dict[str, str]:
    """Return what a person reads in one channel, by its forms."""
    if channel not in READERS:
        return {channel: f"the channel {channel} has no reader here"}
    return READERS[channel](message)


def mailed(message: Message) -> dict[str, str]:
    """Both parts of a mail."""
    mail = email_document(message, sender="gpu@example.com", recipient="ann@example.com")
    return {
        "mail text": f"{mail['Subject']}\n{_body(mail, 'plain')}",
        "mail page": html.unescape(as_read(_body(mail, "html"))),
    }


def posted_to_slack(message: Message) -> dict[str, str]:
    """The blocks, and the text of a lock screen."""
    return {
        "slack": html.unescape("\n".join(_strings(slack_blocks(message, interactive=True)))),
        "slack text": html.unescape(slack_text(message)),
    }


def posted_to_teams(message: Message) -> dict[str, str]:
    """The card."""
    return {"teams": "\n".join(_strings(teams_envelope(message)))}


def paged(message: Message) -> dict[str, str]:
    """Whatever PagerDuty would show; whether it takes a message has its own test."""
    payload: Any = pagerduty_event(message).get("payload", {"custom_details": {}})
    return {
        "pagerduty": "\n".join(
            _strings([{**payload, "timestamp": ""}, list(payload["custom_details"])])
        )
    }


def hooked(message: Message) -> dict[str, str]:
    """The prose of the webhook's document; its facts are for machines."""
    document = json.loads(json.dumps(webhook_document(message)))
    assert [] == webhook_problems(document)
    named = (
        "title",
        "happens",
        "lead",
        "sections",
        "details",
        "why",
        "owner",
        "project",
        "link",
        *_NAMED,
    )
    cost = (
        {"cost": f"{Decimal(str(document['usd_per_day'])):.0f}"} if document["usd_per_day"] else {}
    )
    return {"webhook": "\n".join(_strings([*(document[name] for name in named), cost]))}


READERS: Mapping[str, Callable[[Message], dict[str, str]]] = {
    "email": mailed,
    "slack": posted_to_slack,
    "teams": posted_to_teams,
    "pagerduty": paged,
    "webhook": hooked,
}
"""By channel of the registry: returns the texts that people read there, by form."""


def test_every_channel_of_the_registry_is_read_here() -> None:
    """A new channel gets a reader, and then keeps every promise of this file."""
    assert set(CHANNELS) == set(READERS), "give each channel a function in READERS"


def _body(mail: EmailMessage, kind: str) -> str:
    part = mail.get_body((kind,))
    assert part is not None
    return str(part.get_content())


def _strings(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        yield from itertools.chain.from_iterable(_strings(value) for value in node.values())
    elif isinstance(node, list | tuple):
        yield from itertools.chain.from_iterable(_strings(value) for value in node)


def lacks(text: str, needed: Mapping[str, str]) -> list[str]:
    """Return what of it the text does not say."""
    return [name for name, words in needed.items() if words not in text]


ABOUT = {
    "name": "notebook-7",
    "type": "g5.12xlarge",
    "owner": "ml-team",
    "project": "vision",
    "cost": "136",
    "why": "You get this because",
}


def truth_of(
    stage: Stage, mode: Mode, on_expiry: str, *, people: int = 1, action: Action = Action.STOP
) -> dict[str, str]:
    """Everything a message of this stage must say."""
    doing = "stop" if action is Action.STOP else "terminate"
    asks = {
        "deadline": "Sat 04:02 Berlin (03:02 UTC, in 15 h)",
        "silence": f"GPU Governor {doing}s it" if on_expiry == "act" else "nothing happens",
        "people": "Two different people must approve" if people > 1 else "One approval is enough",
        "subject": f"notebook-7 keeps running unless you {doing} it by Sat 04:02 Berlin",
    }
    if on_expiry == "act":
        asks["subject"] = f"notebook-7 will be {doing}ped after Sat 04:02 Berlin unless you answer"
    news = {
        Stage.REMIND: {"new": "asked 4 h ago. Nobody has answered"},
        Stage.ESCALATE: {"new": "asked 4 h ago and reminded 2 h ago. Nobody has answered"},
    }
    told = {
        Mode.OBSERVE: {
            "mode": "rehearsal (mode observe): nothing happens",
            "loss": "What would be lost",
        },
        Mode.AUTO: {
            "mode": "GPU Governor stops it after Fri 14:02 Berlin (13:02 UTC, in 1 h) without "
            "asking (mode auto)",
            "until": "Until then, you can put it on hold, keep it until a later date, or exempt it",
        },
        Mode.ASK: {},
    }
    about = {"idle": "6 h 40 min", "loss": "What is lost", **ABOUT}
    return {**about, **(asks if stage in QUESTIONS else told[mode]), **news.get(stage, {})}


@pytest.mark.parametrize("channel", EVERY_CHANNEL)
@pytest.mark.parametrize("on_expiry", ["no-action", "act"])
@pytest.mark.parametrize(
    ("mode", "stage"),
    [(Mode.OBSERVE, Stage.TELL), (Mode.AUTO, Stage.TELL), *((Mode.ASK, s) for s in QUESTIONS)],
)
def test_a_message_says_the_truth_of_its_mode(
    mode: Mode, stage: Stage, on_expiry: Literal["no-action", "act"], channel: str
) -> None:
    """Name, type, owner, cost, idle time, mode, silence, deadline, people, link, and why somebody
    gets it."""
    episode = episode_of(mode, on_expiry, reason=REASON)
    until = DEADLINE if stage is not Stage.TELL else None
    text = texts(stage_alert(episode, stage, NOW, LINK, until), episode)[channel]
    needed = truth_of(stage, mode, on_expiry)
    if channel == "slack text":  # what a lock screen shows
        needed = {
            name: needed[name]
            for name in ("name", "cost", "deadline", "silence", "subject")
            if name in needed
        }
    elif channel != "pagerduty":  # there the link stands beside the payload
        needed["link"] = LINK

    assert [] == lacks(text, needed)
    assert None is _RAW_TIME.search(text)
    if mode is Mode.OBSERVE:
        assert not [word for word in ("If you stop it", "or keep it", "begins now") if word in text]


@pytest.mark.parametrize(
    ("mode", "on_expiry", "said"),
    [
        (Mode.AUTO, "no-action", True),
        (Mode.ASK, "act", True),
        (Mode.ASK, "no-action", False),
        (Mode.OBSERVE, "act", False),
    ],
)
def test_a_message_says_that_the_policy_allows_losing_local_disks_without_an_answer(
    mode: Mode, on_expiry: Literal["no-action", "act"], said: bool
) -> None:
    """Where something happens without an answer; never if no local disk can hold data."""
    stage = Stage.ASK if mode is Mode.ASK else Stage.TELL
    episode = episode_of(mode, on_expiry)
    without_disks = replace(episode, plan=replace(episode.plan, loses_local_disks=False))
    words = "GPU Governor to act without an answer even if data on local disks is lost."
    text, text_without_disks = (
        texts(stage_alert(one, stage, NOW, LINK, DEADLINE), one)["mail text"]
        for one in (episode, without_disks)
    )

    assert (said, False) == (words in text, words in text_without_disks)


def test_the_foot_of_a_message_names_it_by_the_words_of_people() -> None:
    """With the name of its episode, to search records for."""
    episode = episode_of(Mode.AUTO)
    found = texts(stage_alert(episode, Stage.TELL, NOW, LINK), episode)
    name = f"alert · {episode.ref.execution_name}"

    assert [name in found[channel] for channel in ("mail text", "mail page", "slack")] == [True] * 3
    assert not [channel for channel, text in found.items() if re.search(r"\btell\b", text)]


@pytest.mark.parametrize("stage", QUESTIONS)
def test_a_termination_by_two_people_says_so(stage: Stage) -> None:
    """Everywhere. Silence never terminates: the policy refuses that."""
    episode = episode_of(action=Action.TERMINATE, terms=Terms(people_needed=2), reason=REASON)
    needed = truth_of(stage, Mode.ASK, "no-action", people=2, action=Action.TERMINATE)
    found = texts(stage_alert(episode, stage, NOW, LINK, DEADLINE), episode)
    del found["slack text"]

    assert {} == {channel: gaps for channel, text in found.items() if (gaps := lacks(text, needed))}


def with_tags(episode: Episode, tags: Mapping[str, str], action: Action = Action.STOP) -> Episode:
    """The episode as it is opened for an instance with these tags, too."""
    tagged = replace(episode.instance, tags={**episode.instance.tags, **tags})
    facts = PlanFacts(tagged, Protection(), None, None, episode.price)
    policy = Policy(mode=Mode.ASK, plan=PlanRule(action=action))
    return replace(episode, instance=tagged, plan=draw_plan(facts, policy))


@pytest.mark.parametrize(
    ("tags", "action", "said"),
    [
        (
            {"aws:cloudformation:stack-name": "lab"},
            Action.STOP,
            "CloudFormation (aws:cloudformation:stack-name=lab): the next update of the stack",
        ),
        (
            {"ManagedBy": "terraform"},
            Action.TERMINATE,
            "Terraform (ManagedBy=terraform): the next apply creates it again",
        ),
        (
            {"Schedule": "office-hours"},
            Action.STOP,
            "Instance Scheduler on AWS (Schedule=office-hours): it may start the instance again",
        ),
    ],
)
def test_a_question_says_once_in_every_channel_which_tool_may_undo_the_answer(
    tags: Mapping[str, str], action: Action, said: str
) -> None:
    """Also in Slack, where the steps and what it keeps are only on the page."""
    asked = with_tags(episode_of(action=action), tags, action)
    found = texts(stage_alert(asked, Stage.ASK, NOW, LINK, DEADLINE), asked)
    del found["slack text"]

    assert dict.fromkeys(found, 1) == {channel: text.count(said) for channel, text in found.items()}
    assert not [channel for channel, text in found.items() if "its place in" in text]


@pytest.mark.parametrize("step", Step)
def test_a_question_says_each_step_of_its_plan(step: Step) -> None:
    """In the words beside the step. Slack shows them on the page that its button opens."""
    episode = episode_of()
    planned = replace(episode, plan=replace(episode.plan, steps=(step,)))
    found = texts(stage_alert(planned, Stage.ASK, NOW, LINK, DEADLINE), planned)
    for form in FORMS["slack"]:
        del found[form]

    assert [] == [
        channel for channel, text in found.items() if STEP_TEXT[step].lower() not in text.lower()
    ]


@pytest.mark.parametrize("stage", QUESTIONS)
def test_a_question_about_a_stopped_instance_calls_it_stopped_everywhere(stage: Stage) -> None:
    """Since when, by whom, and the price of its storage; nothing of idle time, memory or a running
    price."""
    episode = asked_about_stopped()
    found = texts(stage_alert(episode, stage, NOW, LINK, DEADLINE), episode)
    several = [episode] * 3
    digest = digest_of(
        [queued(stage_alert(one, stage, NOW, LINK, DEADLINE)) for one in several],
        several,
        link=LINK,
        digest_id="digest-1",
        now=NOW,
    )
    three = rendered(digest)
    untrue = re.compile(r"\bidle\b|GPU memory|while it runs|NVMe|\$0\.00|Stop (it|them|or)")

    assert {} == {channel: text for channel, text in (found | three).items() if untrue.search(text)}
    assert not [
        channel
        for channel, text in found.items()
        if "notebook-7 stays stopped unless you terminate it by Sat 04:02 Berlin" not in text
    ]
    assert all(
        "3 stopped GPU instances stay stopped unless you terminate them by Sat 04:02" in text
        for text in three.values()
    )
    assert all(
        "Its storage costs $0.26 a day." in found[channel]
        for channel in found.keys() - {"slack text", "hooked"}
    )
    assert "Two different people must approve" in found["mail text"]
    since = "GPU Governor stopped it on Fri Nov 6, 13:02 Berlin (12:02 UTC), and nobody has"
    assert f"{since} started it since. Terminating it saves" in found["mail text"]


@pytest.mark.parametrize("stage", QUESTIONS)
@pytest.mark.parametrize("acting", [0, 1, 3])
def test_a_digest_says_what_silence_does_to_each(stage: Stage, acting: int) -> None:
    """With each one's own deadline, idle time, cost and people; reminders say what is new."""
    episodes = [
        episode_of(on_expiry="act" if number < acting else "no-action") for number in range(3)
    ]
    alerts = [queued(stage_alert(episode, stage, NOW, LINK, DEADLINE)) for episode in episodes]
    message = digest_of(alerts, episodes, link=LINK, digest_id="digest-1", now=NOW)
    needed = truth_of(stage, Mode.ASK, "act" if acting else "no-action") | {
        "subject": {
            0: "3 idle GPU instances keep running unless you stop them by Sat 04:02 Berlin",
            1: "1 of 3 idle GPU instances will be stopped after Sat 04:02 Berlin unless you",
            3: "3 idle GPU instances will be stopped after Sat 04:02 Berlin unless you",
        }[acting],
        "cost": "$136 a day",
        "silence": {
            0: "nothing happens to any of them.",
            1: "If nobody answers, GPU Governor stops 1 of these 3 (notebook-7) after",
            3: "If nobody answers, GPU Governor stops all 3 of them after",
        }[acting],
        "link": LINK,
    }
    found = rendered(message)
    del found["slack text"]

    assert {} == {channel: gaps for channel, text in found.items() if (gaps := lacks(text, needed))}
    lines_by_heading = {section.heading: len(section.lines) for section in message.sections}
    assert (acting, 3 - acting) == (
        lines_by_heading.get("Stopped if nobody answers", 0),
        lines_by_heading.get("Stopped only if you approve", 0),
    )


@pytest.mark.parametrize("stage", QUESTIONS)
@pytest.mark.parametrize(
    ("plans", "title", "button"),
    [
        ((Action.STOP,) * 3, "3 idle GPU instances will be stopped after", "Stop or keep them"),
        ((Action.TERMINATE,) * 3, "unless you terminate them by Sat", "Terminate or keep them"),
        (
            (Action.TERMINATE, Action.STOP, Action.STOP),
            "2 of 3 idle GPU instances will be stopped after",
            "Stop, terminate or keep them",
        ),
    ],
)
def test_a_digest_says_what_is_to_be_done_to_each(
    plans: Sequence[Action], title: str, button: str, stage: Stage
) -> None:
    """Say whether it is stopped or terminated; it asked of all of them only to stop them."""
    episodes = [
        episode_of(on_expiry="act" if plan is Action.STOP else "no-action", action=plan)
        for plan in plans
    ]
    alerts = [queued(stage_alert(episode, stage, NOW, LINK, DEADLINE)) for episode in episodes]
    message = digest_of(alerts, episodes, link=LINK, digest_id="digest-1", now=NOW)
    ending, found = plans.count(Action.TERMINATE), rendered(message)

    assert button == message.button
    assert {} == {channel: text for channel, text in found.items() if title not in text}
    lines_by_heading = {section.heading: len(section.lines) for section in message.sections}
    assert ending == lines_by_heading.get("Terminated only if you approve", 0)
    assert 3 - ending == lines_by_heading.get("Stopped if nobody answers", 0)
    assert not [text for text in found.values() if "GPU Governor terminates" in text]
    if 0 < ending < 3:
        assert "GPU Governor stops 2 of these 3" in message.happens


def test_what_only_informs_says_that_nothing_will_be_done() -> None:
    """A plan without steps, in whatever mode; with the reason where the policy wanted more."""
    episode = episode_of(Mode.AUTO, action=Action.NOTIFY_ONLY)
    plan = replace(
        episode.plan, replaced_because=("it runs in a Capacity Block, which is paid in advance",)
    )
    episode = replace(episode, plan=plan)
    found = texts(stage_alert(episode, Stage.TELL, NOW, LINK), episode)
    del found["slack text"]
    needed = {
        **ABOUT,
        "nothing": "Nothing will be done",
        "reason": "It runs in a Capacity Block, which",
    }

    assert {} == {channel: gaps for channel, text in found.items() if (gaps := lacks(text, needed))}
    assert not [channel for channel, text in found.items() if "begins now" in text]


@pytest.mark.parametrize(
    ("idle_for", "reason", "said"),
    [
        (
            timedelta(hours=3, minutes=5),
            "Idle for 3 h 05 min (every GPU under 5%).",
            "Idle for 3 h 05 min (every GPU under 5%).",
        ),
        (
            timedelta(hours=1, minutes=35),
            "Idle for 1 h 35 min and GPU memory is released.",
            "Idle for 1 h 35 min and GPU memory is released.",
        ),
        (
            None,
            "Idle for 3 h 05 min (every GPU under 5%).",
            "Idle for 6 h 40 min (every GPU under 5%).",
        ),
        (
            None,
            "every GPU under 5% for 6 h 40 min: no earlier idle stretch near this time "
            "of day is like it, "
            "so 2 h are asked",
            "Idle for 6 h 40 min (every GPU under 5%).",
        ),
    ],
)
def test_the_reason_is_one_plain_sentence(
    idle_for: timedelta | None, reason: str, said: str
) -> None:
    """Whichever release wrote it; the headline agrees with it. The time is a figure of the episode.
    In those of earlier releases, which do not have it, it is measured, not read from the reason."""
    episode = episode_of(reason=reason, idle_for=idle_for)
    alert = stage_alert(episode, Stage.ASK, NOW, LINK, DEADLINE)

    assert said in " ".join(alert.lines)
    idle = re.findall(r"dle(?: for)? (\d h \d\d min)", f"{alert.subject} {' '.join(alert.lines)}")
    assert 1 == len(set(idle))


def test_a_question_that_waited_for_the_morning_says_how_long_it_is_idle_by_then() -> None:
    """The sentence of last night would be too short."""
    episode = episode_of(
        reason="Idle for 3 h 05 min (every GPU under 5%).",
        idle_for=timedelta(hours=3, minutes=5),
        opened_at=NOW - timedelta(hours=4),
    )
    assert "Idle for 6 h 40 min" in " ".join(
        stage_alert(episode, Stage.ASK, NOW, LINK, DEADLINE).lines
    )


def _claims(text: str) -> set[str]:
    """Return what a text says of how long it is idle."""
    return set(
        re.findall(
            r"(?i)\b(?:idle(?: for)?|found idle) (?:over )?\d+ [a-z]+(?: \d\d min)?(?: ago)?"
            r"|idle since [A-Z][a-z]+ \d\d:\d\d",
            text,
        )
    )


@pytest.mark.parametrize("channel", EVERY_CHANNEL)
@pytest.mark.parametrize(
    ("mode", "stage"),
    [(Mode.OBSERVE, Stage.TELL), (Mode.AUTO, Stage.TELL), *((Mode.ASK, s) for s in QUESTIONS)],
)
def test_time_that_nobody_measured_is_not_called_idle(
    mode: Mode, stage: Stage, channel: str
) -> None:
    """A metric that went silent after the question voids nothing: 20 of 26 hours were never
    measured."""
    episode, now = (
        episode_of(mode, reason=REASON),
        NOW + timedelta(hours=20),
    )
    text = texts(stage_alert(episode, stage, now, LINK, now + timedelta(hours=4)), episode, now)[
        channel
    ]

    short, whole = "idle since Fri 06:20", "Idle for 6 h 40 min"
    claims = {claim.lower() for claim in _claims(text)}
    assert claims <= {short.lower(), whole.lower()}
    if channel not in ("slack text", "pagerduty"):
        assert (
            f"{whole} (every GPU under 5%) when this was found 20 h ago, and no work "
            "was seen since." in text
        )


def test_a_digest_does_not_call_unmeasured_time_idle_either() -> None:
    """In each of its questions."""
    episode, now = episode_of(), NOW + timedelta(hours=20)
    alerts = [queued(stage_alert(episode, Stage.REMIND, now, LINK, now + timedelta(hours=4)))] * 2
    message = digest_of(alerts, [episode] * 2, link=LINK, digest_id="digest-1", now=now)
    found = rendered(message)
    del found["slack text"]

    assert {channel: {"idle since Fri 06:20"} for channel in found} == {
        channel: _claims(text) for channel, text in found.items()
    }


def test_what_was_seen_at_work_is_not_said_to_be_idle() -> None:
    """A notice of mode auto that a channel takes after the end."""
    episode, now = (
        episode_of(Mode.AUTO, ending=EpisodeEnding(Outcome.WOKE_UP, "busy", NOW)),
        NOW + timedelta(hours=2),
    )
    (sentence,) = [
        line for line in stage_alert(episode, Stage.TELL, now, LINK).lines if "Idle for" in line
    ]
    assert "Idle for 6 h 40 min (every GPU under 5%) when this was found 2 h ago." in sentence


def without_power_since(ended: datetime, *, idle_for: timedelta | None) -> Episode:
    """The episode of a GPU whose power was measured until then. `idle_for` is `None` in one of an
    earlier release."""
    episode = episode_of()
    evidence = episode.measurement.evidence
    evidence = replace(evidence, last_measured={**evidence.last_measured, "power": ended})
    return changed(
        episode,
        measurement=replace(episode.measurement, evidence=evidence, idle_for=idle_for),
        reason="Idle for 6 h 40 min (every GPU under 5%; "
        f"power: not measured since {in_utc(ended)}).",
    )


@pytest.mark.parametrize("idle_for", [None, timedelta(hours=6, minutes=40)])
@pytest.mark.parametrize(("stage", "hours"), [(Stage.ASK, 0), (Stage.REMIND, 4)])
def test_every_question_says_in_the_readers_zone_since_when_power_is_missing(
    stage: Stage, hours: int, idle_for: timedelta | None
) -> None:
    """The first one and a later one, in every channel."""
    episode = without_power_since(NOW - timedelta(minutes=47), idle_for=idle_for)
    at = NOW + timedelta(hours=hours)
    found = texts(stage_alert(episode, stage, at, LINK, DEADLINE), episode, at)
    del found["slack text"]

    for channel, text in found.items():
        assert "power: not measured since Fri 12:15 Berlin (11:15 UTC)" in text, channel


def test_a_delivery_that_comes_late_counts_the_time_from_then() -> None:
    """A channel was down for two hours."""
    episode = episode_of()
    alert = stage_alert(episode, Stage.ASK, NOW, LINK, DEADLINE)
    assert "in 13 h" in texts(alert, episode, NOW + timedelta(hours=2))["mail text"]


# how it ends

APPROVED = Decision(
    Answer.APPROVE, "link:alice@example.com", "page", NOW, person="alice@example.com"
)
AGAIN = "Sat 13:02 Berlin (12:02 UTC)"
IF_IDLE = "If the instance stays idle and is neither kept nor exempt"
WARNED = Warned("e-1", TARGET.account, TARGET.region, "i-1", Cause.SPOT, NOW, "terminate")
ENDS: dict[Outcome, tuple[str, str, tuple[str, ...]]] = {
    Outcome.STOPPED: (
        "the instance is stopped",
        "notebook-7 is stopped, which saves $136/day",
        ("Approved by alice@example.com (mail link).", "saves $136 a day after storage costs"),
    ),
    Outcome.TERMINATED: (
        "its snapshots are complete, and the instance is terminated",
        "notebook-7 is terminated, which saves $136/day",
        ("Approved by alice@example.com (mail link).", "Its snapshots are complete, and"),
    ),
    Outcome.OBSERVED: (
        "dry run: EC2 would have allowed every step",
        "nothing happened",
        ("Dry run", f"{IF_IDLE}, GPU Governor reports it again after {AGAIN}."),
    ),
    Outcome.KEPT: (
        "kept by link:alice@example.com",
        "notebook-7 keeps running",
        ("alice@example.com (mail",),
    ),
    Outcome.EXEMPTED: (
        "exempted by slack:U1: a license server",
        "is exempt",
        ("U1 (Slack): a license",),
    ),
    Outcome.EXPIRED: (
        "nobody answered in time",
        "No answer about notebook-7",
        (
            "Nothing was changed",
            f"{IF_IDLE}, GPU Governor asks again after {AGAIN}.",
        ),
    ),
    Outcome.WOKE_UP: (
        "work resumed: utilization reached 34.0% in the last 60 min, last at 2026-11-20T11:55:00Z",
        "Canceled: notebook-7 is busy again",
        (
            "utilization reached 34.0% in the last 60 min, last at Fri 12:55 Berlin (11:55 UTC).",
            "Nothing was changed",
        ),
    ),
    Outcome.VOID: ("the instance was restarted", "Canceled", ("Nothing was changed",)),
    Outcome.REFUSED: (
        "SafetyError: it has an exemption",
        "was not stopped",
        (
            "It has an exemption.",
            f"{IF_IDLE}, GPU Governor asks again after {AGAIN}.",
        ),
    ),
    Outcome.INTERRUPTED: (
        str(replace(WARNED, action="stop").void_reason),
        "AWS is reclaiming notebook-7, so GPU Governor leaves it alone for now",
        (
            "will stop it around Fri 13:04 Berlin (12:04 UTC)",
            "Nothing was",
            "Next step: if the instance still runs, save your work.",
        ),
    ),
}


@pytest.mark.parametrize("outcome", ENDS)
def test_an_end_says_what_happened_and_what_it_saves(outcome: Outcome) -> None:
    """In every channel: by whom, what was and was not done, to whose instance; never what it would
    save."""
    reason, title, said = ENDS[outcome]
    episode = episode_of(Mode.OBSERVE if outcome is Outcome.OBSERVED else Mode.ASK)
    approval = World(approval=APPROVED).state.approval("approval-1")
    again_at = NOW + timedelta(days=1)
    alert = outcome_alert(episode.ref, episode, outcome, reason, NOW, LINK, approval, again_at)
    needed = {**ABOUT, "title": title, **{words: words for words in said}}
    for channel, text in texts(alert, episode).items():
        if channel == "slack text":
            continue
        assert [] == lacks(text, needed), channel
        assert not [word for word in ("would save", "link:", "SafetyError") if word in text], (
            channel
        )
        assert text.count("a day while it runs") < 2, channel
        assert None is _RAW_TIME.search(text)


@pytest.mark.parametrize(
    ("mode", "status", "said"),
    [
        (Mode.OBSERVE, ApprovalStatus.VOID, ""),
        (Mode.AUTO, ApprovalStatus.VOID, "Mode auto: the policy says to act without asking."),
        (Mode.ASK, ApprovalStatus.VOID, ""),
        (
            Mode.ASK,
            ApprovalStatus.EXPIRED,
            "Nobody answered in time. The policy says to act in that case.",
        ),
    ],
)
def test_an_end_says_why_it_was_done_without_an_answer(
    mode: Mode, status: ApprovalStatus, said: str
) -> None:
    """Silence is named only where it was silence."""
    episode = episode_of(mode, "act")
    approval = Approval("a-1", episode.ref, "hash", status, NOW, DEADLINE, timedelta(days=30))
    alert = outcome_alert(
        episode.ref, episode, Outcome.REFUSED, "it is exempt", NOW, LINK, approval
    )

    assert said == next((line for line in alert.lines if line.startswith(("Mode", "Nobody"))), "")
    one = outcome_alert(
        episode.ref,
        episode,
        Outcome.STOPPED,
        "it is stopped",
        NOW,
        LINK,
        replace(approval, first_yes=APPROVED),
    )
    first = said.replace("Nobody answered", "No second person approved")
    assert first == next((line for line in one.lines if line.startswith(("Mode", "No "))), "")


STEPS: list[tuple[tuple[str, ...], str, str, str]] = [
    (
        (),
        "States.Timeout: ",
        "Could not stop notebook-7. Nothing was changed",
        "longer than its time limit",
    ),
    (
        ("stop",),
        "StepTimedOut: it is still stopping",
        "Could not stop notebook-7. EC2 was asked to stop it; nothing was deleted",
        "EC2 did not finish in time: it is still stopping",
    ),
    (
        ("stop",),
        'Unavailable: {"errorMessage": "ec2 did not answer", "errorType": "Unavailable"}',
        "Could not snapshot notebook-7",
        "AWS could not be reached: ec2 did not answer",
    ),
    (
        ("stop", "snapshot"),
        "SnapshotFailed: snap-1 ended in error",
        "Could not snapshot notebook-7. It is stopped; nothing was deleted",
        "A snapshot failed: snap-1 ended in error",
    ),
    (
        (),
        "AccessDenied: ec2:StopInstances was refused",
        "Could not stop notebook-7. Nothing was changed",
        "A permission is missing: ec2:StopInstances was refused",
    ),
]


@pytest.mark.parametrize(
    ("done", "error", "title", "cause"), STEPS, ids=[step[1].split(":")[0] for step in STEPS]
)
def test_a_failure_says_what_was_done_what_was_not_and_what_to_do(
    done: tuple[str, ...], error: str, title: str, cause: str
) -> None:
    """With the name, the owner, the type, the cost and the record; never a raw error of a state
    machine."""
    episode = episode_of(phase=Phase.ACTING, steps_done=dict.fromkeys(done, NOW))
    again_at = NOW + timedelta(minutes=5)
    alert = outcome_alert(episode.ref, episode, Outcome.FAILED, error, NOW, None, again_at=again_at)
    needed = {**ABOUT, "title": title, "cause": cause, "next": "Next step:"}
    if not done:  # what is stopped is not asked about
        needed["again"] = f"{IF_IDLE}, GPU Governor asks again after Fri 13:07 Berlin"
    for channel, text in texts(alert, episode).items():
        if channel == "slack text":
            continue
        assert [] == lacks(text, needed), channel
        assert not [
            word for word in ("States.", "errorMessage", "StepTimedOut", error) if word in text
        ], channel
        assert text.count("a day while it runs") < 2, channel
        assert ("asks again" in text) == (not done)


def test_a_failure_before_anybody_was_asked_says_that() -> None:
    """And so does one of which not even the record exists."""
    episode = episode_of(phase=Phase.OPENING)
    alert = outcome_alert(episode.ref, episode, Outcome.FAILED, "Throttled: dynamodb", NOW, None)
    assert "Could not ask about notebook-7. Nothing was changed" == alert.subject
    bare = outcome_alert(episode.ref, None, Outcome.FAILED, "RuntimeError: boom", NOW, None)
    assert f"Could not ask about {episode.ref.instance_id}" in bare.subject


def _first_yes(episode: Episode) -> Alert:
    return first_yes_alert(episode, APPROVED, DEADLINE)


def test_a_first_yes_says_what_silence_does_after_it() -> None:
    """It said that nothing happens, and silence stopped the instance at the deadline."""
    episode = episode_of(on_expiry="act", terms=Terms(people_needed=2))
    found = texts(_first_yes(episode), episode)
    needed = {
        "silence": "GPU Governor stops it anyway after Sat 04:02 Berlin (03:02 UTC, in 15 h).",
        "people": "If a second person whose email address is in the policy approves before then, "
        "GPU Governor goes ahead at once.",
    }
    del found["slack text"]

    assert {} == {channel: gaps for channel, text in found.items() if (gaps := lacks(text, needed))}
    assert not [
        text for text in found.values() if "nothing happens" in text or "before anything" in text
    ]


def _undone(episode: Episode) -> Alert:
    return undo_alert(episode, "link:alice@example.com", "page", NOW, NOW + timedelta(hours=24))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            _first_yes,
            (
                "alice@example.com approved",
                "A second person",
                "nothing happens",
                "Sat 04:02 Berlin (03",
            ),
        ),
        (
            _undone,
            (
                "started again",
                "alice@example.com (mail link)",
                "$136 a day again",
                "asks nobody about it until Sat",
            ),
        ),
    ],
)
def test_what_comes_between_says_what_is_next(
    make: Callable[[Episode], Alert], said: tuple[str, ...]
) -> None:
    """The first of two approvals, and a start after the end."""
    episode = episode_of(action=Action.TERMINATE, terms=Terms(people_needed=2))
    needed = {**ABOUT, **{words: words for words in said}}
    found = texts(make(episode), episode)
    del found["slack text"]

    assert {} == {channel: gaps for channel, text in found.items() if (gaps := lacks(text, needed))}


@pytest.mark.parametrize("status", [ApprovalStatus.APPROVED, ApprovalStatus.EXPIRED])
def test_what_waits_can_be_held_from_its_message(status: ApprovalStatus) -> None:
    """A freeze or a cap holds it back: the message says so, leads to the page and has the
    button."""
    episode = episode_of(on_expiry="act")
    approval = Approval(
        "approval-1", episode.ref, "hash", status, NOW, DEADLINE, timedelta(days=30)
    )
    alert = waiting_alert(
        episode, approval, "the cap of 5 actions an hour is reached", 24, NOW, LINK
    )
    needed = {
        **ABOUT,
        "waits": "has not been stopped yet: GPU Governor has to wait",
        "next": "or exempt it on its page",
    }
    found = texts(alert, episode)
    del found["slack text"]

    assert {} == {channel: gaps for channel, text in found.items() if (gaps := lacks(text, needed))}
    message = message_of(queued(alert), episode, link=LINK)
    assert (Answer.HOLD, Answer.KEEP) == message.answers[:2]


# what is no question

BERLIN = Owner("ml-team", "vision", "Europe/Berlin")
WAITS = LifecycleAction("trainers", "hook", "token")
SENT, REFUSED = (
    HookAnswer(HookState.SENT),
    HookAnswer(
        HookState.REFUSED,
        "i-0123456789abcdef0 is not managed by Systems Manager, or is not running",
    ),
)
HOOK = Checkpoint(True, False, "the policy says so")
PERSISTENT = Notice(
    TARGET.account, TARGET.region, "arn:1", "instance retirement", DEADLINE, NOW, "i-1"
)
EXPIRING = BlockChange(
    "e-1", TARGET.account, TARGET.region, "cr-1", True, DEADLINE - timedelta(minutes=10), DEADLINE
)
COST = ProjectCost(
    "vision", Decimal(8000), Decimal(0), Decimal(100), ((TARGET, Decimal(8000) - Decimal(1) / 3),)
)
ENDS_AT = "Fri 13:04 Berlin (12:04 UTC)"


def _warning(cause: Cause, **changes: Any) -> Alert:
    return warning_alert(
        _instance(), replace(WARNED, cause=cause, **changes), HOOK, BERLIN, NOW, SENT
    )


def _instance() -> Instance:
    return episode_of().instance


SILENT = Verdict(
    VerdictKind.NO_DATA,
    "no agent",
    evidence=make_evidence((*(1.0,) * 7, *(None,) * 5), (1.0,) * 12),
)


WARNINGS: dict[str, tuple[Alert, tuple[str, ...]]] = {
    Cause.SPOT: (
        _warning(Cause.SPOT),
        (ENDS_AT, "EC2 will terminate notebook-7", "Save your work now"),
    ),
    Cause.RESERVATION: (
        _warning(Cause.RESERVATION),
        (ENDS_AT, "Save your work now", "capacity of the reservation"),
    ),
    Cause.REBALANCE: (
        _warning(Cause.REBALANCE),
        ("Interruption likely: notebook-7", "elevated risk"),
    ),
    Cause.AUTO_SCALING: (
        _warning(Cause.AUTO_SCALING, lifecycle_action=WAITS, stated_end=DEADLINE),
        (
            "Auto Scaling will terminate notebook-7",
            "until Sat 04:02 Berlin (03:02 UTC) at the latest",
        ),
    ),
}
OTHER_EVENTS: dict[str, tuple[Alert, tuple[str, ...]]] = {
    "hook": (
        checkpoint_failed_alert(_instance(), WARNED, REFUSED, BERLIN, NOW),
        (
            "Save the work on notebook-7 by hand: its checkpoint hook did not start",
            ENDS_AT,
            "i-0123456789abcdef0 is not managed by Systems Manager, or is not running",
            "Next step:",
        ),
    ),
    "retirement": (
        notice_alert(PERSISTENT, [_instance()], BERLIN, NOW, again=False, reminded=False),
        (
            "notebook-7: instance retirement in 15 h",
            "Sat 04:02 Berlin (03:02 UTC, in 15 h)",
            "What to do: stop",
            "After the restart, an instance usually runs on other",
        ),
    ),
    "block": (
        block_alert(EXPIRING, [_instance()], BERLIN, NOW),
        (
            "cr-1 ends: save your work by Sat 04:02 Berlin",
            "data on their local disks will be lost",
        ),
    ),
    "silent": (
        silent_alert(TARGET, [(_instance(), SILENT)], BERLIN, NOW, outage=False),
        (
            "Not enough metrics: notebook-7",
            "since Fri 12:35 Berlin (11:35 UTC), no agent",
            "how to fix it: governor doctor",
        ),
    ),
    "exemption": (
        exemption_alert(
            TARGET, [(_instance(), "gpugovernor=Keep")], Policy().exemption, BERLIN, NOW
        ),
        (
            "unusual tag: notebook-7",
            "gpugovernor=Keep",
            "Next step: if you want the exemption, write the tag as GpuGovernor=exempt.",
        ),
    ),
}


EVENTS: dict[str, tuple[Alert, tuple[str, ...]]] = {**WARNINGS, **OTHER_EVENTS}
EVERY_EVENT = [*Cause, *OTHER_EVENTS]
"""Each cause of warnings, whether or not it has a row above, and the other events."""


@pytest.mark.parametrize("name", EVERY_EVENT)
def test_an_event_says_what_happens_to_whose_instance_when_and_what_to_do(name: str) -> None:
    """By name, type, owner and cost, in the owner's time, with no seconds that are over when it is
    read."""
    assert name in EVENTS, f"give {name!r} a row in WARNINGS: its alert, and what it must say"
    alert, said = EVENTS[name]
    assert "not known" not in texts(alert, None)["slack text"]
    # Plain SNS carries the alert as it is; the channels add what the instance cost at the last
    # sweep.
    assert "is $5.67 an hour, $136 a day" in texts(alert, None)["sns"]
    priced = replace(alert, facts={**alert.facts, "usd_per_hour": "5.672"})
    needed = {**ABOUT, **{words: words for words in said}}
    for channel, text in texts(priced, None).items():
        if channel != "slack text":
            assert [] == lacks(text, needed), channel
        assert None is _RAW_TIME.search(text), channel
        assert " s left" not in text, channel


def test_an_instance_that_lacks_only_power_is_not_said_to_publish_no_metrics() -> None:
    """Its dashboard shows utilization, so "No metrics" would look like a fault of GPU Governor."""
    reason = "power: not measured, and idle.second_figure: required asks for it"
    verdict = replace(SILENT, reason=reason)
    alert = silent_alert(TARGET, [(_instance(), verdict)], BERLIN, NOW, outage=False)
    for channel, text in texts(alert, None).items():
        assert "did not publish the GPU metrics that GPU Governor needs" in text, channel
        assert "No metrics" not in text, channel
        assert "no usable" not in text, channel
        if channel != "slack text":
            assert reason in text, channel


MONTH = NOW.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
FROZEN = BreakerState(NOW, "half the fleet turned idle", turned=6)
SUMMARIES: dict[str, tuple[Alert, tuple[str, ...]]] = {
    "mass": (
        mass_alert(_instance(), WARNED, [_instance()], Policy(), NOW, NOW, owner=BERLIN),
        (
            "ml-team has 1 instance there",
            "since Fri 13:02 Berlin",
            "notebook-7 (i-0123456789abcdef0)",
        ),
    ),
    "managed": (
        managed_alert(
            ManagedEnvironment(EnvironmentKind.ECS, "Amazon ECS", "gpu"),
            [IdleMember(_instance(), IDLE_SINCE, Decimal("5.672"))],
            4,
            TARGET,
            NOW,
            owner=BERLIN,
            advice=("Do this.",),
        ),
        (
            "notebook-7 idle for at least 8 h in ECS cluster gpu, $136/day",
            "one of 4 governed instances in ECS cluster gpu (123456789012/us-east-1), has "
            "been idle for at least 8 h.",
            "It costs $136 a day.",
            "Do this.",
            "leaves it alone, because Amazon ECS would replace it or lose track of it.",
        ),
    ),
    "budget": (
        budget_alert(
            COST,
            Decimal(10_000),
            80,
            TARGET,
            NOW,
            BERLIN,
            Forecast(Decimal(11_000), Decimal("6.4")),
        ),
        (
            "Project vision: 80% of the GPU budget for November 2026 is used",
            "$8,000",
            "run out Sat 09:02 Berlin (08:02 UTC)",
            "At the pace of recent weeks, the month will cost $11,000",
            "off by 6% (median)",
        ),
    ),
    "report": (
        report_alert(
            report(
                [make_entry()],
                [CountedCost("vision", "eval", Share(idle=Decimal("30.4")))],
                MONTH,
                NOW,
                NOW,
                timedelta(days=30),
            ),
            "month-2026-11",
            TARGET,
            NOW,
            BERLIN,
            is_everything=False,
        ),
        (
            "GPU costs, November 2026 so far: $408 saved, $30 idle",
            "Net savings are $408",
            "at list prices",
            "In cash, the savings are between $0.00 and $408",
            "These figures are provisional until December 15",
            "Saved by project: vision $408",
            "Cost by job in project vision ($30.40): eval $30.40 (100% idle)",
        ),
    ),
    "freeze": (
        breaker_alert("frozen", TARGET, FROZEN, NOW, hold_minutes=180),
        (
            "until Fri 15:02 UTC at the earliest",
            "froze its plans",
            "GPU Governor does not stop or terminate any instance in 123456789012/us-east-1",
            "Half the fleet turned idle.",
        ),
    ),
    "still": (
        breaker_alert("frozen", TARGET, FROZEN, NOW, left=4, again=1),
        ("still frozen", "4 of 6 instances", "Next step:"),
    ),
    "recovered": (
        recovered_alert(
            [
                Failing(
                    TARGET,
                    "i-0123456789abcdef0",
                    "notebook-7",
                    "c",
                    "AccessDenied: ec2:StopInstances was refused",
                    "stop",
                    IDLE_SINCE,
                )
            ],
            TARGET,
            NOW,
        ),
        (
            "Resolved: could not stop notebook-7",
            "GPU Governor's workflows no longer fail for this reason. You don't need to do "
            "anything.",
            "A permission is missing: ec2:StopInstances was refused.",
            "notebook-7 (i-0123456789abcdef0)",
        ),
    ),
    "thaw": (
        breaker_alert("released", TARGET, FROZEN, NOW),
        ("is working again", "The freeze has ended (Fri 12:02 UTC)"),
    ),
}


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_says_what_it_means_and_what_to_do(name: str) -> None:
    """In every channel, rounded, and in the owner's time where it has one owner."""
    alert, said = SUMMARIES[name]
    for channel, text in texts(alert, None).items():
        if channel != "slack text":
            assert [] == lacks(text, {words: words for words in (*said, "You get this because")}), (
                channel
            )
        assert None is _RAW_TIME.search(text), channel


@pytest.mark.parametrize("name", [*EVERY_EVENT, *SUMMARIES])
def test_figures_are_words_for_people_and_millionths_for_machines(name: str) -> None:
    """Percentages without a space and months as words; the facts end with the sixth decimal."""
    alert, _ = {**EVENTS, **SUMMARIES}[name]
    assert [] == re.findall(
        r"\d %|\b\d{4}-\d\d\b|\d\.\d{3,}", "\n".join((alert.subject, *alert.lines))
    )
    assert [] == re.findall(r"\d\.\d{7,}", json.dumps(alert_document(alert), default=str))


def test_what_another_service_runs_at_an_unknown_price_is_not_said_to_cost_nothing() -> None:
    """It said $0.00/day in its subject."""
    managed = ManagedEnvironment(EnvironmentKind.ECS, "Amazon ECS", "gpu")
    member = IdleMember(_instance(), IDLE_SINCE, None)
    alert = managed_alert(managed, [member], 4, TARGET, NOW, owner=BERLIN, advice=())

    assert "notebook-7 idle for at least 8 h in ECS cluster gpu" == alert.subject
    assert "$" not in "\n".join(alert.lines)
    assert "The cost is not known. Set prices.usd_per_hour in the policy." in alert.lines


def test_a_digest_says_whose_owner_tag_names_nobody_known() -> None:
    """Digests of several questions, too; and nothing where the owner is asked."""
    note = (
        'The owner tag names "carl", which is not in the policy. The default contacts are asked '
        "instead."
    )
    known = episode_of(Mode.ASK)
    unknown = replace(known, asking=replace(known.asking, owner_note=note))
    alerts = [queued(stage_alert(one, Stage.ASK, NOW, LINK, DEADLINE)) for one in (known, unknown)]
    message = digest_of(alerts, [known, unknown], link=LINK, digest_id="digest-1", now=NOW)

    said = [line for section in message.sections for line in section.lines if note in line]
    assert [f"notebook-7: {note}"] == said


def test_a_digest_says_who_launched_an_instance_and_that_others_started_it_again() -> None:
    """As the page and a message of its own say it, with the name of that instance alone."""
    known = episode_of(Mode.ASK)
    asking = replace(
        known.asking,
        launched_by=Launch("arn:aws:iam::123456789012:user/bob", NOW - timedelta(days=9)),
        others_started_at=(NOW - timedelta(days=3), NOW - timedelta(days=1)),
    )
    restarted = replace(known, asking=asking)
    alerts = [
        queued(stage_alert(one, Stage.ASK, NOW, LINK, DEADLINE)) for one in (known, restarted)
    ]
    message = digest_of(alerts, [known, restarted], link=LINK, digest_id="digest-1", now=NOW)

    for text in (launched_text(restarted), restarts_text(restarted)):
        assert text
        said = [line for section in message.sections for line in section.lines if text in line]
        assert [f"notebook-7: {text}"] == said


def test_a_digest_says_which_tools_may_undo_an_answer() -> None:
    """With the name of the instance that the tool has made."""
    known = episode_of(Mode.ASK)
    made_by_tool = with_tags(known, {"ManagedBy": "terraform"})
    alerts = [
        queued(stage_alert(one, Stage.ASK, NOW, LINK, DEADLINE)) for one in (known, made_by_tool)
    ]
    message = digest_of(alerts, [known, made_by_tool], link=LINK, digest_id="digest-1", now=NOW)

    said = [line for section in message.sections for line in section.lines if "apply" in line]
    assert [
        "notebook-7: Terraform (ManagedBy=terraform): the next apply may start it again or "
        "replace it"
    ] == said


def test_a_subject_keeps_its_deadline_however_long_the_name_is() -> None:
    """SNS cuts subjects at 99 characters."""
    episode = episode_of()
    long = replace(episode.instance, tags={**episode.instance.tags, "Name": "n" * 250})
    alert = stage_alert(replace(episode, instance=long), Stage.ESCALATE, NOW, LINK, DEADLINE)

    assert "keeps running unless you stop it by Sat 04:02 Berlin. Escalation" in alert.subject
    assert len(alert.subject) < 100


def _before_the_buttons(message: Message) -> list[str]:
    """The lines of Slack's message that stand before the first button."""
    blocks = itertools.takewhile(
        lambda block: block["type"] != "actions", slack_blocks(message, interactive=True)
    )
    return [
        line
        for block in blocks
        for line in "\n".join(_strings(block)).splitlines()
        if line not in _TYPES
    ]


_TYPES = ("header", "section", "context", "plain_text", "mrkdwn")
_BARS = re.compile("[▁▂▃▄▅▆▇█·]{24}")


@pytest.mark.parametrize("several", [1, 2, 40])
@pytest.mark.parametrize(
    ("action", "on_expiry"),
    [(Action.STOP, "no-action"), (Action.STOP, "act"), (Action.TERMINATE, "no-action")],
)
@pytest.mark.parametrize(
    ("mode", "stage"),
    [(Mode.OBSERVE, Stage.TELL), (Mode.AUTO, Stage.TELL), *((Mode.ASK, s) for s in QUESTIONS)],
)
def test_slack_needs_twelve_lines_before_the_buttons_in_the_order_of_every_channel(
    mode: Mode, stage: Stage, action: Action, on_expiry: Literal["no-action", "act"], several: int
) -> None:
    """What, how long and how much; what silence does and by when; what is lost; the day before.
    Nothing of it is left out: what has no room stands after the buttons."""
    episode = episode_of(mode, on_expiry, action, terms=Terms(people_needed=2))
    asking = replace(episode.asking, presence="Two people are logged in.")
    episode = replace(episode, asking=asking)
    losses = (
        "RAM",
        "disks",
        "its address",
        "network interfaces",
        "its placement",
        "user data",
        "late writes",
    )
    why = ("It is a one-time Spot instance, which cannot be stopped",)
    episode = replace(episode, plan=replace(episode.plan, losses=losses, replaced_because=why))
    alert = queued(stage_alert(episode, stage, NOW, LINK, DEADLINE))
    message = message_of(alert, episode, link=LINK, now=NOW)
    if several > 1:
        if mode is not Mode.ASK:
            return
        pair = [alert] * several, [episode] * several
        message = digest_of(*pair, link=LINK, digest_id="digest-1", now=NOW)
    lines = _before_the_buttons(message)
    whole = rendered(message)["slack"]

    assert 12 >= len(lines), lines
    assert (message.title, f"*{html.escape(message.happens, quote=False)}*") == (lines[0], lines[1])
    if several == 1:
        loses = next(
            n for n, line in enumerate(lines) if " lost*" in line and line.startswith("*") and n > 1
        )
        chart = next(n for n, line in enumerate(lines) if _BARS.search(line))
        assert (len(lines) - 1, True) == (chart, 1 < loses < chart)
        assert [] == [loss for loss in losses if loss not in "\n".join(lines[loses:])]
    assert [] == [
        line for one in message.sections for line in one.lines if line not in whole and several < 40
    ]


@pytest.mark.parametrize("stage", QUESTIONS)
def test_mail_and_teams_say_it_in_that_order_too(stage: Stage) -> None:
    """With the button before everything that may be folded; the preheader is what silence does."""
    episode = episode_of()
    message = message_of(
        queued(stage_alert(episode, stage, NOW, LINK, DEADLINE)), episode, link=LINK
    )
    order = [message.title, message.happens, "What is lost", *message.sections[0].lines]
    assert message.chart is not None
    line = message.chart.line
    found = rendered(message)
    body = found["mail page"].partition("<body")[2]
    teams = found["teams"]
    for text, after in (
        (
            body[body.index("<h1") :],
            ['class="bars"', LINK, "<details>", "If you stop it", "You get this because"],
        ),
        (found["mail text"], [line, LINK, "If you stop it", "You get this because"]),
        (teams[teams.index(message.title, teams.index(message.title) + 1) :], [line]),
    ):
        at = [text.index(words) for words in (*order, *after)]
        assert sorted(at) == at
    assert body.index(message.happens) < body.index("<h1")


def test_the_mail_about_many_has_its_button_before_them() -> None:
    """There may be forty: the button was under the last one."""
    episode = episode_of()
    alerts = [queued(stage_alert(episode, Stage.ASK, NOW, LINK, DEADLINE))] * 40
    message = digest_of(alerts, [episode] * 40, link=LINK, digest_id="digest-1", now=NOW)
    page = rendered(message)["mail page"]

    assert page.index(message.happens, page.index("<h1")) < page.index(LINK) < page.index("<h2")
    assert 1 == page.count(LINK)


def chart_of(*utilization: Sequence[float | None]) -> Chart:
    """Return the chart of a question about GPUs with these readings in the last 24 hours."""
    episode = episode_of()
    assert episode.measurement.history is not None
    gpus = [GpuReadings(str(index), tuple(series)) for index, series in enumerate(utilization)]
    episode = replace(
        episode,
        measurement=replace(
            episode.measurement, history=replace(episode.measurement.history, gpus=tuple(gpus))
        ),
    )
    alert = queued(stage_alert(episode, Stage.ASK, NOW, LINK, DEADLINE))
    chart = message_of(alert, episode, link=LINK, now=NOW).chart
    assert chart is not None
    return chart


def test_the_chart_shows_each_hour_and_its_holes() -> None:
    """Worked until 6 h ago; an hour that nobody measured is not idle."""
    series = [90.0] * 24 + [None] * 24 + [90.0] * 168 + [1.0] * 72

    assert "Busiest GPU by hour, last 24 h: ██··██████████████▁▁▁▁▁▁ (· no data)" == (
        chart_of(series).line
    )


def test_the_lowest_bar_is_an_idle_hour() -> None:
    """An hour at the threshold of 5% or above it worked, and stands higher than the idle ones."""
    series = [4.9] * 12 + [5.0] * 12 + [60.0] * 12 + [0.0] * 252

    assert chart_of(series).bars == "▁▂▅" + "▁" * 21


def test_an_hour_is_not_idle_while_one_gpu_is_not_measured() -> None:
    """The GPU that nobody measured may have worked; one that worked decides the hour."""
    idle = [0.0] * 288
    unmeasured = [None] * 24 + [0.0] * 264
    worked = [0.0] * 12 + [90.0] * 276

    assert chart_of(idle, unmeasured).bars == "··" + "▁" * 22
    assert chart_of(worked, unmeasured).bars == "·" + "█" * 23


def test_the_mail_says_what_its_bars_mean() -> None:
    """With the times of the first and the last hour, in the reader's zone."""
    assert chart_of([0.0] * 288).caption == (
        "Busiest GPU by hour, Thu 13:00 to Fri 13:00 Berlin (12:00 UTC). "
        "Lowest bar: idle (under 5%)."
    )
    with_gaps = chart_of([None] * 24 + [0.0] * 264)
    assert with_gaps.caption.endswith("Lowest bar: idle (under 5%), gap: no data.")
    assert (0, 0, *(1,) * 22) == with_gaps.levels


@pytest.mark.parametrize("stage", [Stage.TELL, *QUESTIONS])
@pytest.mark.parametrize("is_fresh", [True, False])
@pytest.mark.parametrize("is_measured", [True, False])
def test_a_question_without_power_says_so_in_every_channel(
    stage: Stage, is_fresh: bool, is_measured: bool
) -> None:
    """A low utilization that nothing confirms is not shown as if something did."""
    asked = episode_of(Mode.AUTO if stage is Stage.TELL else Mode.ASK)
    evidence = make_evidence()
    if not is_measured:
        evidence = make_evidence(power_percent_of_limit=None, last_measured={})
    idle_for = timedelta(hours=3)
    because = asked_because(idle_for, asked.instance, evidence, Policy())
    asked = changed(
        asked,
        evidence=evidence,
        reason=because,
        idle_for=idle_for if is_fresh else None,
        opened_at=NOW if is_fresh else NOW - timedelta(hours=8),
    )
    read_by_people = texts(stage_alert(asked, stage, NOW, LINK, DEADLINE), asked)
    silent_channels = [
        form for form, text in read_by_people.items() if "power: not measured" not in text
    ]

    # The text of a Slack notification is the title alone.
    assert (["slack text"] if not is_measured else list(read_by_people)) == silent_channels
