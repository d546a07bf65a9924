"""The bundle of the publisher: every wheel pinned, for every Python of hosts, and always the same
bytes."""

from __future__ import annotations

import io
import tarfile
import tomllib

import pytest

from scripts.bundle_publisher import AGENT, PINS, packed, pins


def test_the_same_files_are_the_same_bytes() -> None:
    """Whatever their order, so that a checksum can be made anew from the sources; nobody owns
    them."""
    once, again = packed({"a": b"1", "b/c": b"2"}), packed({"b/c": b"2", "a": b"1"})

    assert once == again
    with tarfile.open(fileobj=io.BytesIO(once)) as archive:
        assert ["a", "b/c"] == archive.getnames()
        assert {(0, 0)} == {(entry.uid, entry.gid) for entry in archive}


def test_what_the_publisher_depends_on_is_pinned_with_hashes() -> None:
    """Each dependency by the same words as in its own project file."""
    project = tomllib.loads((AGENT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = PINS.with_suffix(".in").read_text(encoding="utf-8").splitlines()
    assert project["dependencies"] == [line for line in wanted if not line.startswith("#")]

    found = pins(PINS.read_text(encoding="utf-8"))
    names = {pin.split("==")[0] for pin, _ in found}
    assert {"botocore", "jmespath", "nvidia-ml-py", "python-dateutil", "six", "urllib3"} == names
    assert PINS.read_text(encoding="utf-8").count("==") == len(found)
    assert all("--hash=sha256:" in pin and ";" not in pin for pin, _ in found)


def test_pythons_that_take_different_versions_get_both() -> None:
    """Amazon Linux 2023 comes with 3.9, for which botocore is not made any more."""
    found = pins(PINS.read_text(encoding="utf-8"))

    assert {"3.9", "3.13"} == {python for pin, python in found if pin.startswith("botocore==")}


def test_a_marker_that_is_not_known_is_refused() -> None:
    """Else a wheel would be left out, or be one that no host takes."""
    with pytest.raises(ValueError, match="six==1 is for sys_platform"):
        pins("six==1 ; sys_platform == 'win32' \\\n    --hash=sha256:0\n")
