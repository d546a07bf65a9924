"""The page of the alarms is that of the templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import alarms_reference
from scripts.alarms_reference import PAGE, STACKS, alarms_of, page

ROOT = Path(__file__).parents[2]


def test_the_page_is_that_of_the_templates() -> None:
    """`make fix` writes it."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_every_template_with_an_alarm_is_on_the_page() -> None:
    """Those of `stacks/`, too."""
    templates = [ROOT / "template.yaml", *(ROOT / "stacks").glob("*.yaml")]
    with_alarms = {
        str(path.relative_to(ROOT))
        for path in templates
        if "AWS::CloudWatch::Alarm" in path.read_text(encoding="utf-8")
    }

    assert STACKS.keys() == with_alarms


@pytest.mark.parametrize(
    ("stack", "name", "fires"),
    [
        ("template.yaml", "NoSweep", "there is no reading of `SweepProblems` in an alarm window"),
        (
            "template.yaml",
            "Budget",
            "`HighestBudgetUsedPercent` reaches 100% in an alarm window",
        ),
        (
            "template.yaml",
            "MoreAlertFailures",
            "the queue `AlertFailures` has more messages than 5 min earlier",
        ),
        (
            "stacks/telemetry.yaml",
            "HotGpu",
            "the mean `nvidia_smi_temperature_gpu` in 5 min is above the parameter "
            "`HotGpuAboveCelsius`, 2 times in a row",
        ),
    ],
)
def test_it_says_when_an_alarm_fires(stack: str, name: str, fires: str) -> None:
    """One alarm of each kind is enough."""
    assert {name: fires}.items() <= {alarm.name: alarm.fires for alarm in alarms_of(stack)}.items()


def test_an_alarm_without_advice_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A new alarm comes with what to do about it."""
    text = alarms_reference.TO_DO.read_text(encoding="utf-8")
    (tmp_path / "alarms.yaml").write_text(text.replace("NoSweep:", "Gone:"), encoding="utf-8")
    monkeypatch.setattr(alarms_reference, "TO_DO", tmp_path / "alarms.yaml")

    with pytest.raises(ValueError, match=r"differ: \['Gone', 'NoSweep'\]"):
        page()
