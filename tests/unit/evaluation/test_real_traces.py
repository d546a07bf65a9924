"""The evaluation on the real traces, where they lie beside the project; no row is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from evaluation.rule import Rule
from evaluation.scoring import replay, total
from evaluation.traces import Trace, read_file

TRACES = Path(__file__).parents[4] / "shared" / "data" / "gpu_traces"
"""The folder that `make evaluate` looks in."""

pytestmark = pytest.mark.skipif(
    not TRACES.is_dir(),
    reason="no traces in ../shared/data/gpu_traces to run the evaluation on",
)


@pytest.fixture(scope="module")
def families() -> dict[str, list[Trace]]:
    """Three servers over 82 days, 65 serving pods over a day, and 289 notebook sessions."""
    return {
        "lab": read_file(TRACES / "lab_servers.csv.gz"),
        "serving": read_file(TRACES / "gentd26_pods.csv.gz"),
        "notebooks": read_file(TRACES / "notebook_events_OCCUPANCY.csv.gz"),
    }


def test_all_instances_are_read(families: dict[str, list[Trace]]) -> None:
    """As the data's README counts them."""
    counts = {family: len(traces) for family, traces in families.items()}
    assert {"lab": 3, "serving": 65, "notebooks": 289} == counts


@pytest.mark.parametrize(
    ("family", "rule", "known"),
    [
        ("lab", Rule(60), (107, 8, 0.97)),
        ("lab", Rule(180), (89, 2, 0.92)),
        ("lab", Rule(180, 90), (93, 2, 0.94)),
        ("lab", Rule(360, 90), (88, 2, 0.92)),
        ("serving", Rule(60), (75, 58, 0.23)),
        ("serving", Rule(180, 90), (9, 4, 0.07)),
        ("notebooks", Rule(60), (750, 194, 0.80)),
        ("notebooks", Rule(180, 90), (447, 67, 0.62)),
    ],
)
def test_rules_score_as_is_known(
    families: dict[str, list[Trace]], family: str, rule: Rule, known: tuple[int, int, float]
) -> None:
    """Questions, wrong ones and recall as another program found them, by the same rules on the same
    data."""
    score = total(replay(trace, rule) for trace in families[family])
    assert known[:2] == (score.questions, score.wrong)
    assert known[2] == pytest.approx(score.recall, abs=0.006)
