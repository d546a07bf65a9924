"""The back-test's report, opened from disk without scripts: readable on a phone, and its filters
work."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.simulate_example import html
from tests.browser.conftest import SIZES, NewVisitor

INSTANCES = 9
"""Three of each team, and so of each kind of work."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the path of the report about the first instances of the example."""
    path: Path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(INSTANCES), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize("size", SIZES)
def test_the_report_is_at_ease(new_visitor: NewVisitor, report: str, size: str) -> None:
    """Nothing for axe-core to find, nothing wider than the screen, the outcome on top."""
    visitor = new_visitor(size)
    visitor.page.goto(report)

    visitor.assert_at_ease_in_every_scheme()
    assert (
        visitor.page.get_by_role("heading", level=1)
        .inner_text()
        .startswith("notebooks would have saved $")
    )


def test_filters_work_without_scripts(new_visitor: NewVisitor, report: str) -> None:
    """Instances that were hit within the hour, of one owner: none of the others is seen."""
    visitor = new_visitor("phone", java_script_enabled=False)
    visitor.page.goto(report)
    shown = visitor.page.locator("section:visible")
    assert INSTANCES == shown.count()

    visitor.page.get_by_label("Hit work within 1 h").check()
    soon = shown.count()
    visitor.page.get_by_label("Owner").select_option("vision")

    names = shown.locator("h3").all_inner_texts()
    assert 0 < len(names) < soon < INSTANCES
    assert {"vision"} == {name.split("-")[0] for name in names}
