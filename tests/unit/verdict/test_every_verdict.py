"""Each kind of verdict is given for a plain reason, in words that a person understands.

A new kind needs a row here: the case that it is for, and the start of its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import NamedTuple

import pytest

from governor.core.instance import Instance
from governor.evidence.model import Series
from governor.verdict.model import NO_HOLD, Hold, Verdict, VerdictKind
from governor.verdict.rules.judge import freeze, judge, judge_without_metrics
from tests.builders import NOW, POLICY, QUIET, ago, make_evidence, make_instance
from tests.unit.template.machines import ROOT

PLAIN = make_instance()
BUSY = (*QUIET[:-1], 90.0)


def unread(instance: Instance, hold: Hold = NO_HOLD) -> Verdict | None:
    """The verdict without any metrics; `None` if they must be read."""
    return judge_without_metrics(instance, hold, POLICY, NOW)


def read(instance: Instance = PLAIN, *gpus: Series) -> Verdict:
    """The verdict by the utilization of these GPUs."""
    return judge(instance, NO_HOLD, make_evidence(*gpus), POLICY, NOW)


def unmeasured() -> Verdict:
    """The verdict on an instance whose CPU was required and not measured."""
    return judge(PLAIN, NO_HOLD, make_evidence(QUIET, cpu_percent=None), POLICY, NOW)


class Case(NamedTuple):
    """A case for one kind of verdict, and words of its reason."""

    verdict: Callable[[], Verdict | None]
    words: str


CASES: Mapping[VerdictKind, Case] = {
    VerdictKind.BUSY: Case(lambda: read(PLAIN, BUSY), "90.0%"),
    VerdictKind.IDLE: Case(lambda: read(PLAIN, QUIET), "Idle for 1 h"),
    VerdictKind.PARTLY_IDLE: Case(lambda: read(PLAIN, BUSY, QUIET), "1 of 2 GPUs"),
    VerdictKind.NO_DATA: Case(unmeasured, "CPU"),
    VerdictKind.TOO_YOUNG: Case(
        lambda: unread(make_instance(launch_time=ago(minutes=29))), "started 29 min ago"
    ),
    VerdictKind.EXEMPT: Case(
        lambda: unread(make_instance(tags={"GpuGovernor": "exempt"})), "carries the tag"
    ),
    VerdictKind.SNOOZED: Case(
        lambda: unread(PLAIN, Hold(snoozed_until=NOW + timedelta(hours=1))), "until"
    ),
    VerdictKind.MANAGED_ELSEWHERE: Case(
        lambda: read(make_instance(tags={"AWSBatchServiceTag": "batch"}), QUIET), "AWS Batch"
    ),
    VerdictKind.FROZEN: Case(
        lambda: freeze(read(PLAIN, QUIET), "30 of 40 turned idle"), "30 of 40 turned idle"
    ),
}


@pytest.mark.parametrize("kind", VerdictKind)
def test_a_verdict_is_given_with_its_reason(kind: VerdictKind) -> None:
    """For the case that it is for."""
    verdict = CASES[kind].verdict()

    assert verdict is not None
    assert kind is verdict.kind
    assert CASES[kind].words in verdict.reason


@pytest.mark.parametrize("kind", VerdictKind)
def test_a_verdict_is_explained(kind: VerdictKind) -> None:
    """By its name on the page that says how the product works."""
    page = (ROOT / "docs/index.md").read_text(encoding="utf-8")

    assert f"`{kind.value}`" in page
