"""The way back reads the same in every channel: what prevents it, why it failed, what to do."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import Severity
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.messages.questions import start_failed_alert
from governor.episode.model.episode import Outcome, Phase
from governor.episode.model.start_try import (
    ASSUME_ROLE_CALL,
    OWN_SHUTDOWN,
    StartStatus,
    StartTry,
)
from governor.notify.compose import message_of
from governor.notify.pagerduty import pagerduty_event, pagerduty_events
from tests.builders import NOW
from tests.episodes import changed
from tests.unit.notify.test_truth import LINK, episode_of, texts

REFUSED = StartTry(
    asked_at=NOW,
    asked_by="link:bob@example.com",
    channel="page",
    launched_before=NOW - timedelta(days=2),
    reason_before="",
    status=StartStatus.REFUSED,
    code="VcpuLimitExceeded",
    words="You have requested more vCPU capacity than your limit of 0 <allows>",
)
FELL_BACK = replace(
    REFUSED,
    status=StartStatus.FELL_BACK,
    code="Server.InternalError",
    words="Internal error on launch",
)
RAN = replace(FELL_BACK, ran_at=NOW - timedelta(minutes=5))
SHUT_DOWN = replace(RAN, code=OWN_SHUTDOWN, words="Instance initiated shutdown")
FAILED = {
    "refused": REFUSED,
    "role refused": replace(REFUSED, code="AccessDenied", refused_call=ASSUME_ROLE_CALL),
    "fell back": FELL_BACK,
    "fell back without a reason": replace(FELL_BACK, code="", words=""),
    "ran": RAN,
    "shut itself down": SHUT_DOWN,
    "shut itself down before it was seen": replace(SHUT_DOWN, ran_at=None),
    "no effect": replace(REFUSED, status=StartStatus.NO_EFFECT, code="", words=""),
}


@pytest.mark.parametrize("failed", FAILED.values(), ids=FAILED)
def test_every_channel_says_all_of_it_with_a_link_and_wakes_nobody(failed: StartTry) -> None:
    """Plain SNS has the words, and says where the link is."""
    episode = episode_of()
    alert = start_failed_alert(episode, failed, NOW)
    for channel, text in texts(alert, episode).items():
        assert alert.subject in text, channel
        if channel in ("slack text", "sns"):
            continue
        for line in alert.lines:
            assert line in text, channel
        if channel != "pagerduty":
            assert LINK in text, channel

    message = message_of(alert, episode, link=LINK)
    assert LINK in str(pagerduty_event(message)["links"])
    assert Severity.WARNING is alert.severity
    assert not pagerduty_events(message)


@pytest.mark.parametrize("failed", FAILED.values(), ids=FAILED)
def test_nothing_is_said_to_be_safe_that_may_be_lost(failed: StartTry) -> None:
    """An instance that ran for minutes may have lost what it did in them."""
    lines = str(start_failed_alert(episode_of(), failed, NOW).lines)

    has_run = failed.ran_at is not None or failed.is_own_shutdown
    assert has_run is not ("Nothing was lost." in lines)
    assert "You can try again from its record." in lines


def test_the_end_of_a_stop_names_what_prevents_the_next_start_before_what_may() -> None:
    """In the order of the question: a disabled key is certain, missing capacity is not."""
    doubt = "The KMS key of vol-1 is disabled, so EC2 cannot start the instance."
    stopped = episode_of(phase=Phase.ACTING, steps_done={"stop": NOW, "snapshot": NOW})
    stopped = changed(stopped, plan=replace(stopped.plan, restart_doubts=(doubt,)))
    alert = outcome_alert(stopped.ref, stopped, Outcome.STOPPED, "approved", NOW, LINK)
    for channel, text in texts(alert, stopped).items():
        if channel != "slack text":
            assert 0 < text.find(doubt) < text.find("A stopped instance gives up"), channel
