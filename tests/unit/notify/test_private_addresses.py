"""Messages leave for public addresses alone, unless the channel secret says that a private one is
meant."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.core import https as module
from governor.core.errors import ConfigurationError
from governor.core.https import Https, is_public
from governor.notify.message import DeliveryRefused, DeliveryRetryable
from governor.notify.registry import CHANNELS, Registry
from governor.notify.transport import https_of, post
from tests.unit.notify.builders import FakeHttps, FixedClock, make_message

PUBLIC, OTHER = "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"
PRIVATE = [
    *("127.0.0.1", "127.255.0.9", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "169.254.170.2", "100.64.0.1", "100.127.255.255", "0.0.0.0", "0.1.2.3"),
    *("224.0.0.1", "239.1.1.1", "255.255.255.255", "240.0.0.1", "192.0.0.1", "198.18.0.1"),
    *(
        "::",
        "::1",
        "::7f00:1",
        "fec0::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
    ),
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe"),
    *("2002:7f00:1::", "2002:a9fe:a9fe::1"),
]
SECRET = {"webhook_url": "https://hooks.example/x", "webhook_secret": "s" * 32}


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_of_the_internet_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address", [PUBLIC, OTHER, "::ffff:93.184.216.34", "100.128.0.1", "172.32.0.1"]
)
def test_what_is_of_the_internet_is_public(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_as_public_as_the_address_itself(address: Any) -> None:
    assert is_public(f"::ffff:{address}") == is_public(str(address))


class Network:
    """Names and their addresses; whoever is connected to is kept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> None:
        self.answers, self.looked_up, self.connected = [*answers], 0, []
        monkeypatch.setattr("governor.core.https.socket.getaddrinfo", self.look_up)
        monkeypatch.setattr(module, "create_connection", self.connect)

    connected: list[str]

    def look_up(self, *_: object, **__: object) -> list[tuple[Any, ...]]:
        found = self.answers[min(self.looked_up, len(self.answers) - 1)]
        self.looked_up += 1
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 443)) for one in found]

    def connect(self, address: tuple[str, int], *_: object, **__: object) -> socket.socket:
        self.connected.append(address[0])
        raise ConnectionRefusedError("nobody listens")


def send(secret: dict[str, str]) -> None:
    (route,) = Registry(secret, None, None, FixedClock()).routes([], {})
    route.channel.send(make_message())


@pytest.mark.parametrize(
    "addresses", [["127.0.0.1"], ["169.254.169.254"], [PUBLIC, "10.0.0.1"], ["fd00::1"]]
)
def test_a_name_that_leads_into_a_private_network_gets_nothing(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    """One private address of several is enough. The error says which channel, and what to set."""
    network = Network(monkeypatch, addresses)
    with pytest.raises(
        DeliveryRefused, match=r'channel webhook .*"webhook_private": "true"'
    ) as error:
        send(SECRET)

    assert [] == network.connected
    assert "hooks.example" not in str(error.value)


def test_the_address_that_was_checked_is_the_one_that_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that answers otherwise the second time is never asked a second time."""
    network = Network(monkeypatch, [PUBLIC, OTHER], ["127.0.0.1"])
    with pytest.raises(DeliveryRetryable):
        send(SECRET)

    assert ([PUBLIC, OTHER], 1) == (network.connected, network.looked_up)


def test_a_private_address_that_is_meant_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ordinary way out."""
    asked: list[str] = []

    def refuse(_: object, host: tuple[str, int], *__: object, **___: object) -> socket.socket:
        asked.append(host[0])
        raise ConnectionRefusedError

    monkeypatch.setattr(
        "urllib3.util.connection.create_connection", lambda *given, **_: refuse(None, *given)
    )
    with pytest.raises(DeliveryRetryable):
        send({**SECRET, "webhook_private": "true"})

    assert ["hooks.example"] == asked


def test_a_name_that_does_not_exist_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise socket.gaierror("no such name")

    monkeypatch.setattr("governor.core.https.socket.getaddrinfo", fails)
    with pytest.raises(DeliveryRetryable):
        post(Https(only_public=True), "https://hooks.example/x", b"", {}, "teams")


@pytest.mark.parametrize("channel", [name for name, kind in CHANNELS.items() if kind.settings])
def test_each_channel_says_for_itself_what_is_meant(channel: str) -> None:
    public, private = FakeHttps(), FakeHttps()

    assert public is https_of(channel, {}, public, private)
    assert public is https_of(channel, {f"{channel}_private": "false"}, public, private)
    assert private is https_of(channel, {f"{channel}_private": "true"}, public, private)
    with pytest.raises(ConfigurationError, match=f'{channel}_private .*"true" or "false"'):
        https_of(channel, {f"{channel}_private": "yes"}, public, private)


def test_a_setting_that_makes_no_sense_refuses_with_the_reason() -> None:
    with pytest.raises(DeliveryRefused, match="webhook_private"):
        send({**SECRET, "webhook_private": "maybe"})
