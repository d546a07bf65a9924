"""The registry of channels: every row has a route, settings that are explained, and a name."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import governor.notify
from governor.alerts.delivery import Delivery
from governor.notify.message import Channel
from governor.notify.registry import CHANNELS, KEYS, Registry
from tests.unit.notify.builders import NOW, STORED, FixedClock
from tests.unit.template.machines import ROOT

OF_EVERYBODY = [name for name, kind in CHANNELS.items() if kind.make_shared is not None]
WITH_SETTINGS = [name for name, kind in CHANNELS.items() if kind.settings]
PAGE = (ROOT / "docs/channels.md").read_text(encoding="utf-8")


def test_every_setting_has_an_example() -> None:
    """`STORED` is what tests store in the channel secret. Settings of one channel are together."""
    settings = [setting for kind in CHANNELS.values() for setting in kind.settings]

    message = "STORED in tests/unit/notify/builders.py holds one example of each setting"

    assert set(settings) == set(STORED), message
    assert len(settings) == len(set(settings))
    assert set(settings) < KEYS


def channel_names() -> set[str]:
    """The names of the channel classes in the modules of the room."""
    names: set[str] = set()
    for module in pkgutil.iter_modules(governor.notify.__path__):
        for value in vars(importlib.import_module(f"governor.notify.{module.name}")).values():
            is_channel = isinstance(value, type) and Channel in value.__mro__
            if is_channel and "name" in vars(value):
                names.add(vars(value)["name"])
    return names


def test_every_channel_is_in_the_registry() -> None:
    """A class that no row makes would never send."""
    assert set(CHANNELS) == channel_names(), "give each channel class a row in CHANNELS"


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_a_channel_is_made_from_its_settings(name: str) -> None:
    """Each row with settings leads to a route."""
    own = {setting: STORED[setting] for setting in CHANNELS[name].settings}
    routes = Registry(own, None, None, FixedClock()).routes([], {})

    assert {name} == {route.channel.name for route in routes}


@pytest.mark.parametrize("name", OF_EVERYBODY)
def test_a_channel_of_everybody_is_made_from_its_own_settings(name: str) -> None:
    """Its route has the name of its row, and a target that is no secret."""
    own = {setting: STORED[setting] for setting in CHANNELS[name].settings}
    (route,) = Registry(own, None, None, FixedClock()).routes([], {})

    assert (name, CHANNELS[name].shared_target) == route.key
    assert route.target
    assert route.target not in own.values()


@pytest.mark.parametrize("name", WITH_SETTINGS)
def test_the_docs_explain_each_setting(name: str) -> None:
    """And how to let the channel reach a receiver in a private network."""
    for setting in (*CHANNELS[name].settings, f"{name}_private"):
        assert f"`{setting}`" in PAGE, f"explain {setting} in docs/channels.md"


@pytest.mark.parametrize("name", CHANNELS)
def test_a_delivery_to_machines_reaches_no_person(name: str) -> None:
    """The record of a delivery must know which channels nobody reads."""
    delivery = Delivery("subject", "message", name, "target", NOW)

    message = f"Delivery.reached_people and the row of {name} disagree on whether people read it"

    assert delivery.reached_people is not CHANNELS[name].is_read_by_machines, message


@pytest.mark.parametrize("name", CHANNELS)
def test_a_channel_has_tests_of_its_own_form(name: str) -> None:
    """No common test knows what a channel takes for a link or a mention, and how long a message may
    be."""
    file = f"tests/unit/notify/test_{name}.py"
    message = f"write {file}: the longest message, and names that the channel would read as markup"

    assert (ROOT / file).is_file(), message
