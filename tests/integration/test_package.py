"""The package of the command line, built from a clean copy in git and installed from there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from governor import __version__
from local.engine.cloud import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.apart]


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Without anything of this clone on the path; the home is empty."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.startswith(("PIP_", "PATH", "SSL_"))
    }
    return subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env={**kept, "PYTHONPATH": str(cwd / "installed")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that it is installed in, with the libraries of this environment: built from
    a git repository, as `pipx install` and `uvx --from git+URL` do."""
    folder = tmp_path_factory.mktemp("package")
    clone = folder / "clone"
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in filter(None, tracked.stdout.split("\0")):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            (clone / name).write_bytes((ROOT / name).read_bytes())
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    for line in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "all of it")):
        made = run("git", *line, cwd=clone)
        assert 0 == made.returncode, made.stderr
    pip = (sys.executable, "-m", "pip", "-q", "--disable-pip-version-check")
    source = f"git+{clone.as_uri()}"
    built = run(*pip, "install", "--no-deps", "--target", folder / "installed", source, cwd=folder)
    if "Could not find a version that satisfies the requirement hatchling" in built.stderr:
        pytest.skip("there is no package index, and so no build backend")
    assert 0 == built.returncode, built.stderr[-2000:]
    assert (folder / "installed" / f"gpu_governor-{__version__}.dist-info").is_dir()
    return folder


def test_it_starts(folder: Path) -> None:
    """The console script says its version, its commands, and what is wrong with a policy."""
    governor = folder / "installed" / "bin" / "governor"

    assert f"gpu-governor {__version__}\n" == run(governor, "--version", cwd=folder).stdout
    assert "approvals" in run(governor, "--help", cwd=folder).stdout
    assert "the JSON Schema" in run(governor, "policy", "--help", cwd=folder).stdout
    policy = ROOT / "examples" / "policies" / "notebooks.yaml"
    checked = run(governor, "policy", "check", policy, cwd=folder)
    assert (0, True) == (checked.returncode, "ok, version" in checked.stdout), checked.stderr


def test_it_brings_the_templates_of_its_pages(folder: Path) -> None:
    """A back-test of traces as a page: data files of the simulation and of the layer are read."""
    traces = folder / "traces"
    traces.mkdir()
    rows = (f"a,0,{minute * 60},{90 if minute < 60 else 0}" for minute in range(1440))
    (traces / "a.csv").write_text(
        "\n".join(["instance_id,gpu_index,timestamp_s,utilization_gpu", *rows]) + "\n"
    )
    page = folder / "page.html"
    line = ("simulate", "--traces", str(traces), "--format", "html", "--out", str(page))
    done = run(folder / "installed" / "bin" / "governor", *line, cwd=folder)

    assert 0 == done.returncode, done.stderr[-2000:]
    assert "<html" in page.read_text(encoding="utf-8")


def test_a_scan_needs_nothing_but_its_source(folder: Path) -> None:
    """With the template of its page, and started without a stack, a policy or credentials."""
    assert (folder / "installed" / "cli" / "scan" / "page.html").is_file()

    governor = folder / "installed" / "bin" / "governor"
    policy = run(governor, "scan", "--print-policy", cwd=folder)
    assert 0 == policy.returncode, policy.stderr
    statements = json.loads(policy.stdout)["Statement"]
    assert "ec2:DescribeRegions" in statements[0]["Action"]
    refused = run(governor, "scan", "--profile", "nobody", cwd=folder)
    assert (1, "") == (refused.returncode, refused.stdout)
    assert refused.stderr.startswith("governor: ")
