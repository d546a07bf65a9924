"""Golden verdicts on cases made by hand, by both detectors, each with the figures that its sentence gives."""

from __future__ import annotations

import pytest

from governor.domain.detection.history import Gap
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.detection.threshold import ThresholdDetector
from tests.unit.domain.detection.builders import BUSY, DAY, HOLE, HOUR, IDLE, Row, bins_of, days, history_of

PLAIN = ThresholdDetector()
SURVIVAL = SurvivalDetector()

OFFICE = days(10, [(9, 18)])
BREAKS = ((9, 11), (12 + 1 / 3, 15), (16 + 1 / 3, 18))
"""Two coffee breaks of 80 minutes a day."""
NOTEBOOK = days(10, BREAKS)
SERVING = bins_of(*[(BUSY, 1 / 12), (IDLE, 85 / 60)] * 32)
"""Five minutes of work every hour and a half, for two days."""
WEEK = days(5, [(9, 12), (13.5, 18)]) + days(2, [])
ONE_OF_EIGHT: Row = (90.0, *[0.0] * 7)
MIG: Row = (*[0.0] * 7, None)

STAYED = "every GPU in every bin stayed under 5 % for 60 min"
DID_NOT_STAY = "every GPU in every bin did not stay under 5 % for 60 min"
NOT_MEASURED = "less than 80% of 60 min measured"
NOT_MEASURED_NOW = "the newest 5 minutes were not measured on every GPU"
WORKS = "a GPU works at 5 % or more"
NONE_LIKE_IT = "no earlier idle stretch near this time of day is like it"


@pytest.mark.parametrize(
    ("rows", "plain", "survival"),
    [
        pytest.param(bins_of((BUSY, 30)), (False, DID_NOT_STAY), (False, WORKS), id="training overnight"),
        pytest.param(
            bins_of((BUSY, 30), (IDLE, 1)),
            (True, STAYED),
            (False, f"every GPU under 5 % for 1 h, 2 h needed: {NONE_LIKE_IT}, so 2 h are asked"),
            id="training ended an hour ago, the first time",
        ),
        pytest.param(
            bins_of((BUSY, 30), (IDLE, 2)),
            (True, STAYED),
            (True, f"every GPU under 5 % for 2 h: {NONE_LIKE_IT}, so 2 h are asked"),
            id="training ended two hours ago, the first time",
        ),
        pytest.param(
            bins_of((BUSY, 30), (IDLE, 11 / 12)),
            (False, DID_NOT_STAY),
            (False, "every GPU under 5 % for 55 min only"),
            id="between two epochs",
        ),
        pytest.param(
            OFFICE + days(1, [(9, 18)])[: 19 * 12],
            (True, STAYED),
            (
                True,
                "every GPU under 5 % for 1 h: 10.0 (weighted) of its earlier idle stretches began near this "
                "time of day and lasted 1 h, after which 4 more hours stay idle with a chance of 91% "
                "(65% needed)",
            ),
            id="an evening like ten before",
        ),
        pytest.param(
            NOTEBOOK + days(1, BREAKS)[: round(12.25 * 12)],
            (True, STAYED),
            (
                False,
                f"every GPU under 5 % for 1 h 15 min, 2 h needed: {NONE_LIKE_IT}, and the longest "
                "interruption of its work took 1 h 20 min, so 2 h are asked",
            ),
            id="notebook, coffee break",
        ),
        pytest.param(
            NOTEBOOK + days(1, BREAKS)[: 19 * 12],
            (True, STAYED),
            (
                True,
                "every GPU under 5 % for 1 h: 10.1 (weighted) of its earlier idle stretches began near this "
                "time of day and lasted 1 h, after which 4 more hours stay idle with a chance of 90% "
                "(65% needed)",
            ),
            id="notebook, evening",
        ),
        pytest.param(
            SERVING,
            (True, STAYED),
            (
                False,
                f"every GPU under 5 % for 1 h 25 min, 2 h 10 min needed: {NONE_LIKE_IT}, and the longest "
                "interruption of its work took 1 h 25 min, so 2 h 10 min are asked",
            ),
            id="serving, between two bursts",
        ),
        pytest.param(
            SERVING + bins_of((BUSY, 1 / 12), (IDLE, 2.25)),
            (True, STAYED),
            (
                True,
                f"every GPU under 5 % for 2 h 15 min: {NONE_LIKE_IT}, and the longest "
                "interruption of its work took 1 h 25 min, so 2 h 10 min are asked",
            ),
            id="serving, a burst stayed away",
        ),
        pytest.param(
            bins_of((ONE_OF_EIGHT, 5)), (False, DID_NOT_STAY), (False, WORKS), id="one busy GPU of eight"
        ),
        pytest.param(
            bins_of((BUSY, 5), (HOLE, 2)), (False, NOT_MEASURED), (False, NOT_MEASURED_NOW), id="fell silent"
        ),
        pytest.param(
            bins_of((IDLE, 5), (HOLE, 1 / 12)),
            (False, NOT_MEASURED),
            (False, NOT_MEASURED_NOW),
            id="idle, and silent just now",
        ),
        pytest.param(
            bins_of((IDLE, 20), (HOLE, 24), (IDLE, 0.75)),
            (False, NOT_MEASURED),
            (False, "every GPU under 5 % for 45 min only"),
            id="back from an outage",
        ),
        pytest.param(
            bins_of((MIG, 5)),
            (False, NOT_MEASURED),
            (False, NOT_MEASURED_NOW),
            id="seven idle, one MIG",
        ),
        pytest.param(
            2 * WEEK + days(4, [(9, 12), (13.5, 18)]) + days(1, [(9, 12)])[: round(13.25 * 12)],
            (True, STAYED),
            (
                False,
                f"every GPU under 5 % for 1 h 15 min, 2 h 15 min needed: {NONE_LIKE_IT}, and the longest "
                "interruption of its work took 1 h 30 min, so 2 h 15 min are asked",
            ),
            id="lunch on a Friday",
        ),
        pytest.param(
            2 * WEEK + days(5, [(9, 12), (13.5, 18)]) + days(1, [])[: 12 * 12],
            (True, STAYED),
            (
                True,
                "every GPU under 5 % for 18 h: 14.0 (weighted) of its earlier idle stretches began near this "
                "time of day and lasted 1 h, after which 4 more hours stay idle with a chance of 93% "
                "(65% needed)",
            ),
            id="weekend",
        ),
    ],
)
def test_golden_verdicts(rows: list[Row], plain: tuple[bool, str], survival: tuple[bool, str]) -> None:
    """The verdict, and a sentence whose figures can be counted in the case."""
    for detector, (is_idle, reason) in ((PLAIN, plain), (SURVIVAL, survival)):
        answer = detector.judge(history_of(rows))

        assert (is_idle, reason) == (answer.is_idle, answer.reason)


def test_half_a_day_is_proof_whatever_the_past_says() -> None:
    """Its nights take 14 hours, and no chance is good enough for this detector: 12 hours are."""
    still = bins_of(*[(BUSY, 10), (IDLE, 14)] * 10, (BUSY, 10), (IDLE, 12))
    strict = SurvivalDetector(needed_chance=0.99)

    assert "11 h 55 min, 12 h needed" in strict.judge(history_of(still[:-1])).reason
    assert (
        "every GPU under 5 % for 12 h: 12 h of idleness are proof, whatever its past says"
        == strict.judge(history_of(still)).reason
    )


def test_a_stretch_lost_from_sight_proves_nothing_about_how_long_it_lasted() -> None:
    """An outage is neither an interruption of work nor a stretch that ended when it came."""
    seen = bins_of((BUSY, 5), (IDLE, 3), (BUSY, 5))
    lost = bins_of((BUSY, 5), (IDLE, 3), (HOLE, 5))

    assert 3 * 12 == SURVIVAL.proof(history_of(seen).gaps, 0).longest_interruption_bins
    assert 0 == SURVIVAL.proof(history_of(lost).gaps, 0).longest_interruption_bins

    evenings = history_of(OFFICE).gaps
    lost_evenings = [Gap(day * DAY + 18 * HOUR, 2 * HOUR, ended_by_work=False) for day in range(10, 20)]
    assert SURVIVAL.proof(evenings, 18 * HOUR) == SURVIVAL.proof([*evenings, *lost_evenings], 18 * HOUR)


@pytest.mark.parametrize("minutes", [0, -5, 7])
def test_a_window_is_whole_bins(minutes: int) -> None:
    """Refused with the figure, instead of rounded."""
    with pytest.raises(ValueError, match=f"window_minutes is {minutes}"):
        ThresholdDetector(minutes)


@pytest.mark.parametrize(
    "changes",
    [
        {"minimum_minutes": 0},
        {"minimum_minutes": 180},
        {"longest_proof_hours": 1},
        {"needed_chance": 1.0},
        {"needed_chance": 0.0},
        {"similar_start_hours": 0.0},
        {"interruption_margin": 0.0},
        {"minimum_evidence": -0.1},
        {"prior_weight": -1.0},
    ],
)
def test_senseless_parameters_are_refused(changes: dict[str, float]) -> None:
    """Each names itself."""
    with pytest.raises(ValueError, match=next(iter(changes))):
        SurvivalDetector(**changes)  # type: ignore[arg-type]
