"""How environments are made: when again, and what uv is told of pip's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import environment
from scripts.environment import fingerprint, uv_settings

FOLDER = Path("place/.venv")


def test_an_environment_of_the_same_pins_and_place_is_left_alone() -> None:
    """Otherwise every `make` would install."""
    assert fingerprint(b"a==1", FOLDER) == fingerprint(b"a==1", FOLDER)


def test_other_pins_or_another_place_make_it_anew() -> None:
    """A moved folder's scripts name an interpreter that is no longer there."""
    assert fingerprint(b"a==1", FOLDER) != fingerprint(b"a==2", FOLDER)
    assert fingerprint(b"a==1", FOLDER) != fingerprint(b"a==1", Path("elsewhere/.venv"))


def test_uv_is_told_nothing_when_pip_knows_nothing() -> None:
    """uv's own defaults hold."""
    assert {} == uv_settings("", {})


def test_uv_learns_the_mirror_that_pip_uses() -> None:
    """Both from pip's file and from its variables; the variables win, as they do for pip."""
    config = ":env:.index-url='https://b.invalid/simple'\nglobal.index-url='https://a.invalid/simple'\n"
    assert {"UV_DEFAULT_INDEX": "https://b.invalid/simple"} == uv_settings(config, {})


def test_several_indexes_are_all_searched() -> None:
    """pip takes the best of all indexes: uv must not stop at the first that knows a name."""
    config = "global.extra-index-url='\\nfile:///a\\nfile:///b'\nglobal.find-links='/c /d'\n"
    expected = {
        "UV_INDEX": "file:///a file:///b",
        "UV_FIND_LINKS": "/c,/d",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }
    assert expected == uv_settings(config, {})


def test_what_is_set_for_uv_is_left_alone() -> None:
    """Somebody meant it."""
    config = "global.index-url='https://a.invalid/simple'\nglobal.cert='/c.pem'\n"
    assert {"UV_DEFAULT_INDEX": "https://a.invalid/simple"} == uv_settings(config, {"SSL_CERT_FILE": "/x"})


def test_settings_that_are_not_about_where_packages_are_stay_with_pip() -> None:
    """A time-out or another command's index means nothing to `uv pip install`."""
    assert {} == uv_settings("global.timeout='60'\ndownload.index-url='https://a.invalid'\n", {})


@pytest.mark.parametrize("linked", [".venv", ".tools"])
def test_what_a_link_points_to_is_never_emptied(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, linked: str
) -> None:
    """It is somebody else's: `venv --clear` would take the environment of another checkout."""
    checkout, other = tmp_path / "checkout", tmp_path / "other"
    for folder in (checkout / "requirements", other / "bin"):
        folder.mkdir(parents=True)
    (checkout / "requirements" / "project.txt").write_text("")
    (other / "bin" / "python").write_text("theirs")
    (checkout / linked).symlink_to(other)
    monkeypatch.setattr(environment, "ROOT", checkout)
    monkeypatch.setattr(environment, "TOOLS", checkout / ".tools")
    monkeypatch.setattr(
        environment, "ENVIRONMENTS", {"project": (checkout / ".venv", "requirements/project.txt")}
    )
    monkeypatch.setattr(environment, "_install", lambda *_: pytest.fail("it installs"))

    assert 1 == environment.main(["project"])
    said = capsys.readouterr().err
    assert f"{checkout / linked} is a link to {other}" in said
    assert "remove the link" in said
    assert ["bin"] == [path.name for path in other.iterdir()]
    assert {"requirements", linked} == {path.name for path in checkout.iterdir()}
