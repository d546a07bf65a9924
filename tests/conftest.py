"""Guards for all tests: no credentials, no environment, no socket, unless a test runs on the local
cloud."""

from __future__ import annotations

import gc
import os

import pytest
import pytest_socket
from hypothesis import settings

from local.engine.service_models import remember_service_models, remember_user_agents
from tests.properties import FEW, MANY, examples

remember_service_models()
remember_user_agents()
# Read once, by whichever test imports the metrics first; a test's own environment comes too late
# for it.
os.environ.setdefault("POWERTOOLS_METRICS_NAMESPACE", "test")

# Machines are noisy: how long an example takes says nothing about the promise.
settings.register_profile("project", deadline=None, max_examples=examples(FEW, MANY))
settings.load_profile("project")

# What a process needs to run at all. Everything else could decide a test's result on one machine
# only.
_KEPT = {"HOME", "LANG", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"}
_KEPT_PREFIXES = ("COVERAGE", "LC_", "PYTEST", "PYTHON")
_ON_THE_LOCAL_CLOUD = ("integration", "browser", "fuzz")
# Fake on purpose, and the only ones: files of credentials and the metadata service are out of reach
# too.
_AWS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_OUTSIDE = dict(os.environ)
"""The environment of the machine: tests on the local cloud, which run last, get it back."""
_IS_SHUT_IN: set[bool] = set()
"""Empty while the environment is that of the machine."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what runs beside the rest: engines of their own on the local cloud."""
    folders = set(item.path.parts)
    on_the_cloud = {"browser", "integration", "local_cloud"} & folders
    if on_the_cloud and "scene" not in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.apart)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests on the local cloud run last: its receivers answer until the session ends, and need
    sockets."""
    items.sort(key=_is_on_the_local_cloud)


def pytest_collection_finish() -> None:
    """Spares the garbage collector what is loaded by now, and lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def _is_on_the_local_cloud(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in _ON_THE_LOCAL_CLOUD)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A unit test that reaches for the network or for somebody's account fails at once.

    A hook, as a fixture of each test takes longer than most tests do.
    """
    if _is_on_the_local_cloud(item):
        _let_out()
    else:
        _shut_in()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Plugins read their variables when the session ends."""
    _let_out()


def _let_out() -> None:
    pytest_socket.enable_socket()
    if _IS_SHUT_IN:
        _IS_SHUT_IN.clear()
        os.environ.clear()
        os.environ.update(_OUTSIDE)


def _shut_in() -> None:
    """Takes away what is there, and what an earlier test has left behind."""
    _IS_SHUT_IN.add(True)
    for name in list(os.environ):
        is_kept = name in _KEPT or name in _AWS or name.startswith(_KEPT_PREFIXES)
        if not is_kept:
            del os.environ[name]
    for name, value in _AWS.items():
        if os.environ.get(name) != value:
            os.environ[name] = value
    pytest_socket.disable_socket(allow_unix_socket=True)
