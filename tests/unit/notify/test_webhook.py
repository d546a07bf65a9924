"""The generic webhook: what is signed, what verifies, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.webhook.verify import verify
from governor.core.errors import ConfigurationError
from governor.core.https import HttpAnswer
from governor.notify.message import DeliveryRefused, DeliveryRetryable
from governor.notify.webhook import (
    DELIVERY_HEADER,
    SIGNATURE_HEADER,
    WebhookChannel,
    sign_webhook,
    webhook_document,
)
from tests.unit.notify.builders import (
    EPISODE,
    FACTS,
    LINK,
    NOW,
    FakeHttps,
    FixedClock,
    make_message,
)

SECRET = "s" * 32
OTHER = "o" * 32
URL = "https://hooks.example/governor"


def channel(https: FakeHttps, *secrets: str) -> WebhookChannel:
    """With one secret unless told otherwise."""
    return WebhookChannel(URL, secrets or (SECRET,), https, FixedClock())


def test_what_is_sent_verifies_and_is_the_whole_message() -> None:
    """A receiver needs the body, the header and the secret, nothing else."""
    https = FakeHttps()
    delivered = channel(https).send(make_message())
    ((url, body, headers),) = https.sent

    assert verify(SECRET, headers[SIGNATURE_HEADER], body, NOW.timestamp())
    document = json.loads(body)
    assert (URL, 1, EPISODE, LINK) == (
        url,
        document["version"],
        document["episode"],
        document["link"],
    )
    assert ("1320.96", ["0", "1.0%", "0.4%"]) == (
        document["usd_per_day"],
        document["evidence"]["rows"][0],
    )
    assert (
        f"ask-{EPISODE}"
        == delivered.delivery_id
        == headers[DELIVERY_HEADER]
        == document["delivery"]
    )


def test_a_repeated_delivery_carries_the_same_id() -> None:
    """So that a receiver can tell a repetition from something new."""
    https = FakeHttps([HttpAnswer(503), HttpAnswer(200)])
    with pytest.raises(DeliveryRetryable):
        channel(https).send(make_message())
    channel(https).send(make_message())
    first, second = (headers[DELIVERY_HEADER] for _, _, headers in https.sent)
    assert first == second


def test_a_secret_is_exchanged_without_a_gap() -> None:
    """While both sign, receivers with either one accept."""
    https = FakeHttps()
    channel(https, SECRET, OTHER).send(make_message())
    ((_, body, headers),) = https.sent
    for secret in (SECRET, OTHER):
        assert verify(secret, headers[SIGNATURE_HEADER], body, NOW.timestamp())


@given(body=st.binary(min_size=1, max_size=60), position=st.integers(0), bit=st.integers(0, 7))
def test_any_flipped_bit_of_the_body_is_refused(body: bytes, position: int, bit: int) -> None:
    """Whatever the body is."""
    header = sign_webhook([SECRET], body, NOW)
    altered = bytearray(body)
    altered[position % len(body)] ^= 1 << bit
    assert not verify(SECRET, header, bytes(altered), NOW.timestamp())


@given(position=st.integers(0), replacement=st.characters())
def test_any_altered_header_is_refused(position: int, replacement: str) -> None:
    """Time and signature are one: neither can be exchanged."""
    header = sign_webhook([SECRET], b"{}", NOW)
    at = position % len(header)
    altered = header[:at] + replacement + header[at + 1 :]
    assert (altered == header) is verify(SECRET, altered, b"{}", NOW.timestamp())


@pytest.mark.parametrize("seconds", [-301, 301, 86_400])
def test_old_and_future_requests_are_refused(seconds: int) -> None:
    """A recorded request is of no use after five minutes."""
    header = sign_webhook([SECRET], b"{}", NOW)
    assert not verify(SECRET, header, b"{}", NOW.timestamp() + seconds)


@pytest.mark.parametrize("seconds", [-300, 0, 300])
def test_five_minutes_of_difference_are_accepted(seconds: int) -> None:
    """Clocks differ and networks are slow."""
    assert verify(SECRET, sign_webhook([SECRET], b"{}", NOW), b"{}", NOW.timestamp() + seconds)


def test_another_secret_is_refused() -> None:
    """Also one that begins alike."""
    assert not verify(SECRET + "s", sign_webhook([SECRET], b"{}", NOW), b"{}", NOW.timestamp())


def test_a_refusal_tells_neither_address_nor_secret() -> None:
    """Nor does the object itself."""
    sender = channel(FakeHttps([HttpAnswer(403)]))
    with pytest.raises(DeliveryRefused, match=r"^it answered 403: .*credentials") as error:
        sender.send(make_message())
    for text in (str(error.value), repr(error.value), repr(sender)):
        assert "hooks.example" not in text
        assert SECRET not in text


@pytest.mark.parametrize("secrets", [(), ("short",), (SECRET, "")])
def test_no_secret_or_a_short_one_is_an_error_of_configuration(secrets: tuple[str, ...]) -> None:
    """Nothing is ever sent unsigned."""
    with pytest.raises(ConfigurationError, match="secret"):
        WebhookChannel(URL, secrets, FakeHttps(), FixedClock())


def test_money_is_written_out() -> None:
    """`1E+3` is a Decimal, but nothing a receiver expects."""
    message = make_message(facts=replace(FACTS, usd_per_day=Decimal("1E+3")))
    assert "1000" == webhook_document(message)["usd_per_day"]
