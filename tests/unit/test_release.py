"""The contents of a release, and the workflows that check and publish it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.governor import main as governor
from scripts import release

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CHANGELOG = "# Changes\n\n## 2.0.0 (not released)\n\n- new\n- newer\n\n## 1.0.0\n\n"


def test_the_changelog_says_what_is_new_in_this_version() -> None:
    """Also of the version that is written now."""
    assert "- new\n- newer\n" == release.news(CHANGELOG, "2.0.0")
    assert release.news((ROOT / "CHANGELOG.md").read_text(), release.version())


@pytest.mark.parametrize("wanted", ["1.0.0", "3.0.0", "2.0", "2.0.00"])
def test_without_news_nothing_is_released(wanted: str) -> None:
    with pytest.raises(release.NotReadyError, match="has no section"):
        release.news(CHANGELOG, wanted)


def test_what_is_published_has_a_date() -> None:
    dated = CHANGELOG.replace("(not released)", "(2026-12-01)")

    assert "- new\n- newer\n" == release.news(dated, "2.0.0", tagged=True)
    with pytest.raises(release.NotReadyError, match="has no date"):
        release.news(CHANGELOG, "2.0.0", tagged=True)


@pytest.mark.parametrize(
    ("tag", "changes", "said"),
    [("v1.0.1", "", "the tag must be v1.0.0"), ("v1.0.0", " M x", "commit or remove")],
)
def test_only_a_clean_commit_with_its_own_tag_is_released(
    tag: str, changes: str, said: str
) -> None:
    release.check("v1.0.0", "1.0.0", "")
    with pytest.raises(release.NotReadyError, match=said):
        release.check(tag, "1.0.0", changes)


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    """Whenever they were written; what may be run stays so."""
    run, read = tmp_path / "run", tmp_path / "read"
    run.write_text("a")
    read.write_text("b")
    run.chmod(0o700)
    found = release.zipped({"b/run": run, "a": read})

    assert [("a", 0o644, b"b"), ("b/run", 0o755, b"a")] == [
        (one.filename, one.external_attr >> 16, content) for one, content in found.items()
    ]
    assert {(1980, 1, 1, 0, 0, 0)} == {one.date_time for one in found}
    assert {zipfile.ZIP_DEFLATED} == {one.compress_type for one in found}


def test_checksums_are_of_every_file_but_their_own(tmp_path: Path) -> None:
    for name in ("b", "a", release.SUMS):
        (tmp_path / name).write_text("")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

    assert f"{empty}  a\n{empty}  b\n" == release.sums(tmp_path)


def test_what_is_packed_beside_the_build_exists() -> None:
    assert all(list(ROOT.glob(name)) for name in (*release.BESIDE, *release.PINS.values()))


def test_a_package_without_what_its_template_names_is_none() -> None:
    """As `sam build` writes paths: of the build, or of the sources that it leaves where they
    are."""
    template = "      CodeUri: AskOwner\n      DefinitionUri: ../../statemachines/sweep.asl.json\n"
    names = {".aws-sam/build/AskOwner/handler.py": ROOT, "statemachines/sweep.asl.json": ROOT}

    release.check_whole(names, template)
    for name in names:
        with pytest.raises(release.NotReadyError, match="is not packed"):
            release.check_whole({one: path for one, path in names.items() if one != name}, template)


def test_the_command_line_says_the_version_that_is_released(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        governor(["--version"])
    assert release.version() in capsys.readouterr().out


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_do_nothing_that_it_does_not_need(path: Path) -> None:
    """No permissions but its jobs' own; each action by the hash of a commit, not a tag that
    somebody can move."""
    workflow: dict[str, Any] = yaml.safe_load(path.read_text())
    uses = [
        step["uses"] for job in workflow["jobs"].values() for step in job["steps"] if "uses" in step
    ]

    assert {} == workflow["permissions"]
    assert all(
        "permissions" in job and "timeout-minutes" in job for job in workflow["jobs"].values()
    )
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", one) for one in uses)
    runs = [
        step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step
    ]
    assert "make check-all" in runs
