"""The evaluation on a slice of the real traces, where they lie beside the project; no row is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.crossval import shortfall
from evaluation.scoring import Score, replay, total
from evaluation.traces import Trace, read_file
from governor.domain.detection.detector import Detector
from governor.domain.detection.survival import SurvivalDetector
from governor.domain.detection.threshold import Statistic, ThresholdDetector

TRACES = Path(__file__).parents[4] / "shared" / "data" / "gpu_traces"
"""Where `make evaluate` looks."""

pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(),
    reason="no traces in ../shared/data/gpu_traces to run the evaluation on",
)


@pytest.fixture(scope="module")
def lab() -> list[Trace]:
    """The three servers of the lab, 82 days: read in some seconds."""
    return read_file(TRACES / "lab_servers.csv.gz")


@pytest.fixture(scope="module")
def serving() -> list[Trace]:
    """All 65 serving pods: a day each."""
    return read_file(TRACES / "gentd26_pods.csv.gz")


@pytest.fixture(scope="module")
def notebooks() -> list[Trace]:
    """All 289 sessions; the file is the smallest."""
    return read_file(TRACES / "notebook_events_OCCUPANCY.csv.gz")


def figures(traces: list[Trace], detector: Detector) -> tuple[float, float, float]:
    """Precision, wrong rate and recall, to the two digits in which they are known."""
    score = total(replay(trace, detector) for trace in traces)
    return round(score.precision, 2), round(score.wrong_rate, 2), round(score.recall, 2)


@pytest.mark.parametrize(("minutes", "known"), [(60, (0.77, 0.07, 0.97)), (180, (0.82, 0.02, 0.93))])
def test_fixed_windows_score_on_the_lab_as_is_known(
    lab: list[Trace], minutes: int, known: tuple[float, float, float]
) -> None:
    """Two and four GPUs an instance, and holes of a day and of a week."""
    assert 3 == len(lab)
    assert known == figures(lab, ThresholdDetector(minutes))


def test_the_default_reaches_on_the_lab_what_it_claims(lab: list[Trace]) -> None:
    """The one family all of whose goals are met."""
    assert 0 == shortfall({"lab": score(lab, SurvivalDetector())})


@pytest.mark.parametrize(("minutes", "known"), [(60, (0.14, 0.66, 0.30)), (120, (0.27, 0.42, 0.18))])
def test_fixed_windows_score_on_serving_pods_as_is_known(
    serving: list[Trace], minutes: int, known: tuple[float, float, float]
) -> None:
    """Figures found by another program on the same data, by the same rules: this one scores as it should."""
    assert 65 == len(serving)
    assert known == figures(serving, ThresholdDetector(minutes))


@pytest.mark.parametrize(("minutes", "known"), [(60, (0.45, 0.26, 0.80)), (180, (0.61, 0.15, 0.62))])
def test_fixed_windows_score_on_notebooks_as_is_known(
    notebooks: list[Trace], minutes: int, known: tuple[float, float, float]
) -> None:
    """The same, on intervals instead of samples."""
    assert 289 == len(notebooks)
    assert known == figures(notebooks, ThresholdDetector(minutes))


def test_the_naive_mean_is_wrong_most_of_the_time_on_serving_pods(serving: list[Trace]) -> None:
    """The mission's rule as it is naively read: known, on both halves of the data, to be wrong in 87 %."""
    precision, wrong, _ = figures(serving, ThresholdDetector(60, Statistic.MEAN_OF_ALL))

    assert precision < 0.1
    assert 0.8 < wrong < 0.9


def test_survival_is_wrong_less_often_than_the_plain_rule(
    serving: list[Trace], notebooks: list[Trace]
) -> None:
    """On a slice of each: fewer wrong flags, and still most of the idle hours that two hours would catch."""
    for traces in (serving, notebooks[:100]):
        plain = score(traces, ThresholdDetector(60))
        longer = score(traces, ThresholdDetector(120))
        survival = score(traces, SurvivalDetector())

        assert survival.wrong_rate < longer.wrong_rate < plain.wrong_rate
        assert survival.precision > longer.precision > plain.precision
        assert survival.recall > 0.8 * longer.recall


def score(traces: list[Trace], detector: Detector) -> Score:
    """Of all of them together."""
    return total(replay(trace, detector) for trace in traces)
