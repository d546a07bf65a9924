"""A caller with credentials and nothing else, before a twin of AWS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from cli import scan
from cli.governor import main
from tests.unit.scan.cloud_twin import CloudTwin

_SETTINGS = ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN")


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[CloudTwin]:
    """Return AWS as a caller sees it who has keys, and neither a Region nor a file."""
    for name in _SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with CloudTwin().answering() as twin:
        yield twin


@dataclass
class Ended:
    """A command that has ended."""

    status: int
    out: str
    err: str


Run = Callable[..., Ended]


@pytest.fixture
def run(
    cloud: CloudTwin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Return a function that runs `governor scan` with these kinds of resource and words."""

    def scan_with(kinds: tuple[Any, ...], *words: str) -> Ended:
        monkeypatch.setattr(scan, "KINDS", kinds)
        try:
            status = main(["scan", *words])
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capsys.readouterr()
        return Ended(status, said.out, said.err)

    return scan_with
