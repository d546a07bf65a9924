"""A bare engine for the tests of the local cloud, and one that enforces IAM; nothing of the product
is deployed in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import pytest_socket
from botocore.exceptions import ClientError

from local.engine.cloud import LocalCloud
from local.engine.simulation import Simulation


@pytest.fixture(scope="session")
def bare_cloud() -> Iterator[LocalCloud]:
    """An engine with nothing deployed. Waits and time-outs last a twentieth of their time."""
    pytest_socket.enable_socket()
    with LocalCloud(wait_scale=0.05) as cloud:
        yield cloud


@pytest.fixture(scope="session")
def enforcing() -> Iterator[LocalCloud]:
    """An engine that enforces IAM, with nothing deployed."""
    pytest_socket.enable_socket()
    with LocalCloud(wait_scale=0.05, enforce_iam=True) as cloud:
        yield cloud


@pytest.fixture
def simulation(bare_cloud: LocalCloud) -> Iterator[Simulation]:
    """Simulators with nothing in them, and quick changes of state."""
    simulation = bare_cloud.simulation()
    simulation.clear()
    simulation.set_delays(state_change=0.05, snapshot=0.05)
    yield simulation
    simulation.clear()


@pytest.fixture
def ec2(bare_cloud: LocalCloud, simulation: Simulation) -> Any:
    """EC2 with no instances."""
    del simulation
    return bare_cloud.client("ec2")


@pytest.fixture
def cloudwatch(bare_cloud: LocalCloud, simulation: Simulation) -> Any:
    """CloudWatch with no metrics."""
    del simulation
    return bare_cloud.client("cloudwatch")


@pytest.fixture
def refusal() -> Callable[[Callable[[], object]], str]:
    """The error code of a call that must be refused."""

    def code_of(call: Callable[[], object]) -> str:
        with pytest.raises(ClientError) as refused:
            call()
        return str(refused.value.response["Error"]["Code"])

    return code_of
