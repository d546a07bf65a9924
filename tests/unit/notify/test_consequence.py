"""The consequence comes first: every subject and first line says what silence does, with the same
act, time and zone as the page and the command line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

import pytest

from governor.alerts.model import Alert
from governor.approvals.messages.consequence import consequence
from governor.approvals.messages.questions import first_yes_alert, stage_alert
from governor.approvals.model.approval import Answer, Decision, Stage
from governor.aws.messaging import subject_of
from governor.core.units import clip_middle
from governor.episode.model.episode import Episode
from governor.notify.compose import message_of
from governor.notify.email import email_document
from governor.notify.slack_blocks import slack_blocks, slack_text
from governor.notify.teams import teams_envelope
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from tests.builders import NOW
from tests.unit.notify.test_truth import (
    ASKED,
    DEADLINE,
    LINK,
    QUESTIONS,
    asked_about_stopped,
    episode_of,
    queued,
    texts,
)

OnExpiry = Literal["no-action", "act"]
LOCK_SCREEN = 40
"""The characters of a subject that a locked phone shows."""
LONG = "team-research-long-name-of-a-training-notebook-of-the-vision-group-0042"
WHEN = {Mode.ASK: "Sat 04:02 Berlin", Mode.AUTO: "Fri 14:02 Berlin"}
EVERY_QUESTION = [
    (on_expiry, stage)
    for on_expiry, stage in itertools.product(("no-action", "act"), (*QUESTIONS, "first yes"))
]


def alert_of(episode: Episode, stage: Stage | str, deadline: datetime = DEADLINE) -> Alert:
    """Return the message of this stage; `first yes` is that of the first of two approvals."""
    if isinstance(stage, Stage):
        until = None if stage is Stage.TELL else deadline
        return stage_alert(episode, stage, NOW, LINK, until)
    person = "alice@example.com"
    yes = Decision(Answer.APPROVE, f"link:{person}", "page", NOW, person=person)
    return first_yes_alert(episode, yes, deadline)


def named(episode: Episode, name: str) -> Episode:
    """Return the same episode about an instance of this name."""
    return replace(episode, instance=replace(episode.instance, tags={"Name": name}))


def subjects(alert: Alert, episode: Episode) -> Iterator[str]:
    """Yield the first words of each channel, as people see them before they open anything."""
    message = message_of(queued(alert), episode, link=LINK, now=NOW)
    yield subject_of(alert)
    yield str(email_document(message, sender="a@example.com", recipient="b@example.com")["Subject"])
    yield slack_text(message)
    yield str(slack_blocks(message, interactive=True)[0]["text"]["text"])  # type: ignore[index]
    attachments = teams_envelope(message)["attachments"]
    yield str(attachments[0]["content"]["fallbackText"])  # type: ignore[index]


@pytest.mark.parametrize("name", ["notebook-7", LONG])
@pytest.mark.parametrize("stage", [*QUESTIONS, "first yes"])
def test_a_lock_screen_shows_what_silence_does(stage: Stage | str, name: str) -> None:
    """The name and the verb come first: what acts and what does not have never the same words."""
    shown: dict[str, set[str]] = {}
    for on_expiry, words in (("no-action", " keeps running"), ("act", " will be stopped")):
        episode = named(episode_of(on_expiry=on_expiry), name)  # type: ignore[arg-type]
        alert = alert_of(episode, stage)
        begins = {" ".join(text.split())[:LOCK_SCREEN] for text in subjects(alert, episode)}
        assert [] == [text for text in begins if words not in text]
        assert [] == [text for text in begins if text[:6] != name[:6]]
        shown[on_expiry] = begins
    assert not shown["no-action"] & shown["act"]


@pytest.mark.parametrize(("on_expiry", "stage"), EVERY_QUESTION)
def test_the_first_words_give_verb_time_and_zone(on_expiry: OnExpiry, stage: Stage | str) -> None:
    """Every subject has them, and they are those of the first line below it."""
    episode = episode_of(on_expiry=on_expiry)
    alert = alert_of(episode, stage)
    half_approved = stage == "first yes"
    said = consequence(episode, DEADLINE, NOW, is_half_approved=half_approved)

    assert [] == [text for text in subjects(alert, episode) if said.subject not in text]
    assert WHEN[Mode.ASK] in said.subject
    assert WHEN[Mode.ASK] in said.sentence
    without_first_line = [
        channel
        for channel, text in texts(alert, episode).items()
        if said.sentence not in re.sub(r"\s+", " ", text)
    ]
    assert [] == without_first_line


@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
def test_mode_auto_says_until_when_it_can_be_held(action: Action) -> None:
    """A notice acts: its subject says so, with the verb of the plan."""
    episode = episode_of(Mode.AUTO, action=action)
    done = "stopped" if action is Action.STOP else "terminated"

    assert alert_of(episode, Stage.TELL).subject.startswith(
        f"notebook-7 will be {done} after {WHEN[Mode.AUTO]} unless you put it on hold"
    )


@pytest.mark.parametrize("on_expiry", ["no-action", "act"])
def test_a_rehearsal_and_a_mere_message_stop_nothing(on_expiry: OnExpiry) -> None:
    """Mode observe, and a plan without steps: the instance keeps running, also on a lock screen."""
    rehearsal = episode_of(Mode.OBSERVE, on_expiry)
    informed = episode_of(Mode.AUTO, on_expiry, Action.NOTIFY_ONLY)

    for episode in (rehearsal, informed):
        subject = alert_of(episode, Stage.TELL).subject
        assert "notebook-7 keeps running" == subject[: len("notebook-7 keeps running")]
        assert "will be" not in subject


def test_a_mere_message_says_in_its_subject_that_it_asks_for_nothing() -> None:
    """After the name, which a locked phone shows, and before the figures."""
    subject = alert_of(episode_of(Mode.AUTO, action=Action.NOTIFY_ONLY), Stage.TELL).subject

    assert subject.startswith("notebook-7 keeps running. For your information: idle ")


def test_a_stopped_instance_stays_stopped() -> None:
    """Silence terminates nothing."""
    subject = alert_of(asked_about_stopped(), Stage.ASK).subject

    assert subject.startswith("notebook-7 stays stopped unless you terminate it by Sat 04:02")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
@pytest.mark.parametrize(("on_expiry", "stage"), EVERY_QUESTION)
def test_a_subject_fits_whatever_the_name_and_the_zone_are(
    on_expiry: OnExpiry, stage: Stage | str, zone: str
) -> None:
    """SNS takes 99 characters. The end of the consequence is never cut off."""
    episode = named(episode_of(on_expiry=on_expiry), LONG)
    episode = replace(episode, asking=replace(episode.asking, time_zone=zone))
    deadline = NOW + timedelta(days=9)
    subject = alert_of(episode, stage, deadline).subject
    city = zone.rpartition("/")[2].replace("_", " ")

    assert len(subject) < 99
    assert city in subject
    assert "0042" in subject
    if on_expiry == "act":
        way_out = "unless you keep it" if stage == "first yes" else "unless you answer"
        assert way_out in subject


def test_the_first_of_two_approvals_says_so_after_the_consequence() -> None:
    """The words after the time say how to prevent it, and not only who has approved."""
    act = alert_of(episode_of(on_expiry="act"), "first yes").subject
    wait = alert_of(episode_of(), "first yes").subject

    assert (
        "notebook-7 will be stopped after Sat 04:02 Berlin unless you keep it. "
        "One of two approved" == act
    )
    assert "notebook-7 keeps running unless a second person approves by Sat 04:02 Berlin" == wait


def test_a_reminder_says_that_it_is_one() -> None:
    """After the consequence."""
    subjects_by_stage = {stage: alert_of(episode_of(), stage).subject for stage in QUESTIONS}

    assert "Reminder" in subjects_by_stage[Stage.REMIND]
    assert "Escalation" in subjects_by_stage[Stage.ESCALATE]
    assert subjects_by_stage[Stage.ASK].endswith("Idle 6 h 40 min, $136/day")
    assert ASKED < NOW


@pytest.mark.parametrize("limit", [5, 12, 21])
def test_a_long_name_keeps_both_its_ends(limit: int) -> None:
    """Names of a fleet differ in their numbers, which stand at the end."""
    clipped = clip_middle(LONG, limit)

    assert limit == len(clipped)
    assert (LONG[0], LONG[-1]) == (clipped[0], clipped[-1])
    assert clip_middle("notebook-7", limit).count("…") == (limit < len("notebook-7"))
