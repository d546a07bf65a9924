"""No message and no page holds a sentence that readers have stumbled over, in any channel."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from governor.alerts.model import Alert
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.messages.questions import (
    first_yes_alert,
    stage_alert,
    undo_alert,
    waiting_alert,
)
from governor.approvals.model.approval import Approval, ApprovalStatus, Stage
from governor.core.units import iso
from governor.episode.model.episode import Episode, Outcome, Phase, Terms
from governor.policy.model.acting import Action
from governor.policy.model.policy import Mode
from tests.builders import NOW
from tests.console_world import VIEWS, html, lively, view_of
from tests.unit.notify.test_truth import (
    APPROVED,
    DEADLINE,
    ENDS,
    EVENTS,
    LINK,
    SUMMARIES,
    asked_about_stopped,
    episode_of,
    texts,
)
from tests.unit.test_words import known_sentences
from tests.unit.web.test_site import World


def alerts() -> Iterator[tuple[str, Alert, Episode | None]]:
    """Yield a message of each stage in each mode, of each end, and of each event and summary."""
    asked = episode_of()
    acting = episode_of(Mode.ASK, "act")
    lost = episode_of(action=Action.TERMINATE, terms=Terms(people_needed=2))
    for name, episode, stage in (
        ("observe", episode_of(Mode.OBSERVE), Stage.TELL),
        ("auto", episode_of(Mode.AUTO), Stage.TELL),
        ("ask", asked, Stage.ASK),
        ("acts on silence", acting, Stage.ASK),
        ("terminate", lost, Stage.ASK),
        ("stopped", asked_about_stopped(), Stage.ASK),
        ("reminder", asked, Stage.REMIND),
        ("escalation", acting, Stage.ESCALATE),
    ):
        until = None if stage is Stage.TELL else DEADLINE
        yield name, stage_alert(episode, stage, NOW, LINK, until), episode
    approval = Approval(
        "a-1", asked.ref, "hash", ApprovalStatus.APPROVED, NOW, DEADLINE, timedelta(days=30)
    )
    cap = "the cap of 5 stops and terminations in 60 minutes has been reached"
    yield "waits", waiting_alert(asked, approval, cap, 24, NOW, LINK), asked
    yield "first yes", first_yes_alert(lost, APPROVED, DEADLINE), lost
    yield "first yes, acting", first_yes_alert(acting, APPROVED, DEADLINE), acting
    yield "undone", undo_alert(asked, "link:ann@example.com", "page", NOW), asked
    for outcome, (reason, *_) in ENDS.items():
        ended = outcome_alert(asked.ref, asked, outcome, reason, NOW, LINK, None, DEADLINE)
        yield outcome.value, ended, asked
    failing = episode_of(phase=Phase.ACTING, steps_done={"stop": NOW, "snapshot": NOW})
    failure = "SnapshotFailed: snap-1 ended in error"
    failed = outcome_alert(failing.ref, failing, Outcome.FAILED, failure, NOW, LINK)
    yield "failed", failed, failing
    for event, (alert, _) in {**EVENTS, **SUMMARIES}.items():
        yield event, alert, None


@pytest.mark.parametrize(
    ("alert", "episode"),
    [pytest.param(alert, episode, id=name) for name, alert, episode in alerts()],
)
def test_a_message_holds_no_sentence_that_readers_stumbled_over(
    alert: Alert, episode: Episode | None
) -> None:
    """Nor a backtick: mail, Teams and PagerDuty show it as it is."""
    for channel, text in texts(alert, episode).items():
        assert [] == known_sentences(text), channel
        assert "`" not in text, channel


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.ASK, Mode.AUTO])
@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
def test_a_page_of_a_question_holds_none(mode: Mode, action: Action) -> None:
    """Before the answer and after it."""
    world = World(action)
    world.change(mode=mode)
    pages = [world.get().body]
    world.end(Outcome.STOPPED)
    pages.append(world.get().body)

    assert [] == [known for page in pages for known in known_sentences(page)]


@pytest.mark.parametrize("action", [Action.STOP, Action.TERMINATE])
@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ("approve", Outcome.STOPPED),
        ("approve", Outcome.TERMINATED),
        ("approve", Outcome.REFUSED),
        ("approve", Outcome.FAILED),
        ("keep", Outcome.KEPT),
        ("exempt", Outcome.EXEMPTED),
        ("hold", Outcome.HELD),
    ],
)
def test_a_record_of_an_answered_question_holds_none(
    action: Action, answer: str, end: Outcome
) -> None:
    """After the answer, after its end, and after a start that somebody asked for. A hold follows an
    approval."""
    world = World(action)
    if answer == "hold":
        world.post("approve", typed_instance_id=world.ref.instance_id, losses="accepted")
    until = iso(NOW + timedelta(hours=4))
    answered = world.post(
        answer,
        keep_until=until,
        reason="a demo",
        typed_instance_id=world.ref.instance_id,
        losses="accepted",
    )
    assert 303 == answered.status
    pages = [world.get().body]
    if end is Outcome.HELD:
        # After a hold, no step is recorded any more.
        world.state.close_episode(world.ref, end, "held by ann", NOW, quiet_until=None)
    else:
        world.end(end)
    pages.append(world.get().body)
    if end is Outcome.STOPPED:
        world.post("undo")
        pages.append(world.get().body)

    assert [] == [known for page in pages for known in known_sentences(page)]
    assert "What happened" in pages[-1]


@pytest.mark.parametrize("address", VIEWS)
def test_a_page_of_the_console_holds_none(address: str) -> None:
    """The fleet has questions, kept instances and savings."""
    view, names = view_of(address)

    assert [] == known_sentences(html(view, lively(), None, address, **names))
