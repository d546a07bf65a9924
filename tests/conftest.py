"""Guards for all tests: no credentials, no environment, no socket, unless a test runs on the local cloud."""

from __future__ import annotations

import os

import pytest
import pytest_socket
from hypothesis import settings

# Machines are noisy: how long an example takes says nothing about the promise.
settings.register_profile("project", deadline=None)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def _no_way_out(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit test that reaches for the network or for somebody's account fails at once."""
    if request.node.get_closest_marker("integration"):
        pytest_socket.enable_socket()
        return
    for name in list(os.environ):
        if name.startswith(("AWS_", "POWERTOOLS_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    pytest_socket.disable_socket(allow_unix_socket=True)
