"""Every script is tried in dash or whatever `sh` is, and in bash."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.unit.stacks.hosts import Host


@pytest.fixture(params=["sh", "bash"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Host:
    """A host with basic tools and nothing of NVIDIA's."""
    if sys.platform != "linux":
        pytest.skip("the scripts are for Linux hosts and use its tools")
    return Host(tmp_path, request.param)
