"""The meaning of an answer over HTTPS for a delivery."""

from __future__ import annotations

import ssl
from datetime import timedelta

import pytest
import urllib3

from governor.core.errors import ConfigurationError
from governor.core.https import HttpAnswer, Https
from governor.notify.message import DeliveryRefused, DeliveryRetryable
from governor.notify.teams import TeamsChannel
from governor.notify.transport import LONGEST_WAIT_SECONDS, https_url, post, retry_after_seconds
from tests.unit.notify.builders import NOW, FakeHttps, FixedClock


def check_answer(status: int, **headers: str) -> None:
    """Posts to a channel that is answered so."""

    https = FakeHttps(
        [HttpAnswer(status, {name.replace("_", "-"): text for name, text in headers.items()})]
    )
    TeamsChannel("https://hooks.example/x", https, FixedClock()).post("{}")


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_2xx_means_taken(status: int) -> None:
    """Teams and PagerDuty answer 202, others 200 or 204."""
    check_answer(status)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_succeed_later_is_retryable_with_its_wait(status: int) -> None:
    """The wait that the receiver asks for reaches the queue."""
    with pytest.raises(DeliveryRetryable) as error:
        check_answer(status, retry_after="17")
    assert 17 == error.value.retry_after_seconds


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 410, 413, 422])
def test_everything_else_is_refused_and_says_what_to_do(status: int) -> None:
    """Redirects too: a login page that answers 200 is not a delivery."""
    with pytest.raises(DeliveryRefused, match=rf"^it answered {status}: .{{10,}}"):
        check_answer(status)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("0", 0),
        ("30", 30),
        (" 30 ", 30),
        ("Fri, 20 Nov 2026 12:03:00 GMT", 30),
        ("Fri, 20 Nov 2026 12:03:00 -0000", 30),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0),
        ("999999999999999999999", LONGEST_WAIT_SECONDS),
        ("Fri, 20 Nov 2099 12:03:00 GMT", LONGEST_WAIT_SECONDS),
        (None, None),
        ("", None),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(
    value: str | None, expected: int | None
) -> None:
    """Both forms of RFC 9110; never negative, never longer than a queue can wait."""
    assert expected == retry_after_seconds(value, NOW)


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example/secret-part",
        "https://",
        "hooks.example/secret-part",
        "https://user:secret-part@hooks.example/",
        "https://hooks.example:99999/secret-part",
        "https://hooks.example/secret-part\r\nHost: x",
        "https://[/secret-part",
        "file:///secret-part",
        "",
    ],
)
def test_only_https_is_used_and_the_refusal_keeps_the_address_secret(url: str) -> None:
    """A mistyped address is still half a secret."""
    with pytest.raises(ConfigurationError, match="channel teams must be a whole https") as error:
        https_url(url, "teams")
    assert "secret-part" not in str(error.value)


def test_a_network_that_fails_is_retryable_and_tells_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Here the guard of the tests is what fails; its error names the address, ours does not."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise urllib3.exceptions.NewConnectionError("https://hooks.example/secret-part", "refused")  # type: ignore[arg-type]

    monkeypatch.setattr(urllib3.PoolManager, "request", refuse)
    with pytest.raises(DeliveryRetryable, match="NewConnectionError") as error:
        post(Https(), "https://hooks.example/secret-part", b"", {}, "teams")
    assert "secret-part" not in str(error.value)
    assert (None, True) == (error.value.__cause__, error.value.__suppress_context__)
    assert error.value.retry_after_seconds is None


def test_waits_are_counted_from_the_given_time() -> None:
    """The clock is an argument."""
    assert 10 == retry_after_seconds("Fri, 20 Nov 2026 12:03:00 GMT", NOW + timedelta(seconds=20))


def test_a_bad_certificate_is_refused_and_a_broken_handshake_is_not() -> None:
    """The second is a fault of the network, and passes."""
    wrap = urllib3.exceptions.SSLError
    for fault, error in (
        (ssl.SSLCertVerificationError, DeliveryRefused),
        (ssl.SSLEOFError, DeliveryRetryable),
    ):
        https = FakeHttps(fault=wrap(fault("x")))
        with pytest.raises(error):
            post(https, "https://hooks.example/x", b"", {}, "teams")
