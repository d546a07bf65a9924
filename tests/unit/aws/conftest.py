"""Fakes of AWS for adapter tests: moto in this process, fake credentials, no sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto import mock_aws

from governor.aws.clients import Clients
from tests.twins import MemoryStateTable
from tests.twins.stores import EveryStore
from tests.unit.aws.state_samples import dynamo_table

REGION = "us-east-1"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clients]:
    """Clients of moto's AWS."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        yield Clients()


@pytest.fixture(params=["memory", "dynamodb"])
def table(request: pytest.FixtureRequest) -> EveryStore:
    """Each implementation, empty."""
    if request.param == "memory":
        return MemoryStateTable()
    clients: Clients = request.getfixturevalue("aws")
    return dynamo_table(clients)
