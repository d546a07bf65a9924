"""People in the storms on the local cloud: they press again as long as a page asks them to, and a
workflow that waits for a sweep gets one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest

from local.engine.cloud import LocalCloudError
from tests.integration import weathered
from tests.integration.stage import Stage
from tests.integration.weathered import ALICE, Fleet

Seen = TypeVar("Seen")
INSTANCE = "i-00000000000000001"
SIGN_LATER = "your answer could not be signed at this moment: please try again"


@dataclass
class _Scene:
    """One workflow, which ends once so many sweeps have come."""

    sweeps_needed: int = 0
    sweeps: int = 0

    def executions(self) -> dict[str, dict[str, Any]]:
        has_ended = self.sweeps >= self.sweeps_needed
        return {INSTANCE: {"status": "SUCCEEDED" if has_ended else "RUNNING"}}

    def sweep(self) -> None:
        self.sweeps += 1


@dataclass
class _Stage:
    """A stage on which nothing moves by itself."""

    scene: _Scene = field(default_factory=_Scene)
    said: list[str] = field(default_factory=list)

    def question(self, instance_id: str) -> str:
        return f"https://api.example.com/{instance_id}"

    def personal(self, link: str, person: str) -> str:
        return f"{link}/{person}"

    def eventually(
        self,
        look: Callable[[], Seen | None],
        otherwise: Callable[[], str],
        *,
        quiet_rounds: int | None = None,
    ) -> Seen:
        del quiet_rounds
        found = look()
        if found is None:
            self.said.append(otherwise())
            raise LocalCloudError(self.said[-1])
        return found


@pytest.fixture
def stage() -> _Stage:
    return _Stage()


@pytest.fixture
def fleet(stage: _Stage, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """A fleet whose instances have no items in a table."""
    monkeypatch.setattr(Fleet, "_let_pass", lambda _: None)
    monkeypatch.setattr(Fleet, "_where", lambda _, instance_id: f"{instance_id} waits")
    return Fleet(cast(Stage, stage), 1)


def _pages(monkeypatch: pytest.MonkeyPatch, answers: Sequence[tuple[int, str]]) -> list[str]:
    """Have presses meet these answers in their order; return the list of what was pressed."""
    left = list(answers)
    pressed: list[str] = []

    def decide(link: str, answer: str, **fields: str) -> tuple[int, str]:
        del link, fields
        pressed.append(answer)
        return left.pop(0)

    monkeypatch.setattr(weathered, "request", lambda _: (200, "a page"))
    monkeypatch.setattr(weathered, "decide", decide)
    return pressed


@pytest.mark.parametrize("refusal", [(400, SIGN_LATER), (503, "out of order")])
def test_somebody_presses_again_when_the_page_asks_for_it(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, str]
) -> None:
    """An answer that could not be signed is recorded nowhere: without the second press the question
    stays open for hours."""
    pressed = _pages(monkeypatch, [refusal, (303, "")])

    assert 303 == fleet.answer(INSTANCE, ALICE, "approve")
    assert ["approve", "approve"] == pressed
    assert [303] == [press.status for press in fleet.presses]


@pytest.mark.parametrize(
    "final", [(303, ""), (400, "the instance id is another one"), (409, "please try again")]
)
def test_nobody_presses_again_after_a_final_answer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, final: tuple[int, str]
) -> None:
    pressed = _pages(monkeypatch, [final, (303, "")])

    assert final[0] == fleet.answer(INSTANCE, ALICE, "approve")
    assert ["approve"] == pressed


def test_a_workflow_that_waits_for_a_sweep_gets_one(fleet: Fleet, stage: _Stage) -> None:
    """A recorded answer that could not be handed over is handed over by the next sweep."""
    stage.scene.sweeps_needed = 1

    fleet.ended(INSTANCE)

    assert 1 == stage.scene.sweeps


def test_a_workflow_that_ends_by_itself_gets_no_sweep(fleet: Fleet, stage: _Stage) -> None:
    fleet.ended(INSTANCE)

    assert 0 == stage.scene.sweeps


def test_a_workflow_that_no_sweep_ends_is_stuck(fleet: Fleet, stage: _Stage) -> None:
    """The message says where it waits."""
    stage.scene.sweeps_needed = 1_000

    with pytest.raises(LocalCloudError, match=f"{INSTANCE} waits"):
        fleet.ended(INSTANCE)

    assert 0 < stage.scene.sweeps < 10
