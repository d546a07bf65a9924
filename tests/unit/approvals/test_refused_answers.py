"""Tests of unanswered questions: the life of an approval, and whether silence is an answer."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.approvals.model.approval import Answer, ApprovalStatus, Decision
from governor.approvals.refused_answers import RefusedAnswers, UnusedAnswerTime
from governor.approvals.rules.approval import approved_at
from governor.core.errors import MetricsLate
from governor.evidence.ports import MetricAnswer
from tests.builders import NOW, TARGET
from tests.twins import MemoryMetrics
from tests.unit.worlds.world import World

HOUR = timedelta(hours=1)


def test_an_approval_lives_from_its_answer_or_from_the_expiry_that_passes_for_one() -> None:
    """Where nobody was asked, from the opening on."""
    world = World()
    episode = world._stored()
    approval = world.state.approval("approval-1")
    assert approval is not None
    later = Decision(Answer.APPROVE, "link:alice@example.com", "page", NOW + HOUR)
    expired = replace(
        approval,
        status=ApprovalStatus.EXPIRED,
        decision=None,
        expires_at=episode.opened_at + 9 * HOUR,
    )

    assert NOW + HOUR == approved_at(episode, replace(approval, decision=later))
    assert episode.opened_at + 9 * HOUR == approved_at(episode, expired)
    assert episode.opened_at == approved_at(
        episode, replace(expired, status=ApprovalStatus.PENDING)
    )
    assert episode.opened_at == approved_at(episode, None)


@pytest.mark.parametrize(("seconds", "is_known"), [(0, True), (1, False)])
def test_silence_is_no_answer_before_cloudwatch_knows_its_last_minute(
    seconds: int, is_known: bool
) -> None:
    """Five minutes later it does."""

    class Nothing(MemoryMetrics):
        def read(self, *_: object) -> MetricAnswer:
            return MetricAnswer({"all": (None, 1.0)}, {})

    now = NOW.replace(minute=30, second=0, microsecond=0)
    until = now - timedelta(minutes=5) + timedelta(seconds=seconds)
    refused = RefusedAnswers(Nothing(), TARGET, "api", "stack")
    unused_time = UnusedAnswerTime("why", HOUR, until, counts_from=None, starts_again=True)
    if is_known:
        assert refused(unused_time, now) is None
    else:
        with pytest.raises(MetricsLate):
            refused(unused_time, now)
