"""The functions' logs hold no task token, link, secret or address: whoever reads logs could use
them."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest

from governor.wiring import observability
from tests.soak import parts
from tests.soak.aws import SECRET
from tests.soak.crashes import BY_NAME
from tests.soak.faults import CrashPoint, Kind
from tests.soak.parts import simulated
from tests.soak.scenarios import SCENARIOS, Scenario

FORBIDDEN = {
    "a task token": re.compile(r"\btoken-\d+"),
    "a link": re.compile(r"approvals/[^\s?\"]+\?\S+|[\w-]{20,40}\.\d{1,4}\.[\w-]{22}"),
    "a secret": re.compile(r"s{32}|k{64}"),
    "user data": re.compile(SECRET),
    "an address": re.compile(r"[\w.+-]+@[\w-]+\.\w+"),
}


def leaks(lines: list[str]) -> set[str]:
    """Return what is in the lines and opens a door, or says whose it is, with its line."""
    return {
        f"{what}: {found.group()} in {line.strip()[-300:]}"
        for line in lines
        for what, pattern in FORBIDDEN.items()
        for found in pattern.finditer(line)
    }


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """Whatever the functions and what they call log, as it is written in Lambda."""
    lines: list[str] = []
    stream, logger = io.StringIO(), observability.logger
    handle, formatter = logging.Logger.handle, logging.Formatter()

    def keep(origin: logging.Logger, record: logging.LogRecord) -> None:
        if origin.name == logger.name:
            handle(origin, record)
            lines.append(stream.getvalue())
            stream.seek(0)
            stream.truncate()
        elif observability.hide_addresses(record):
            lines.append(formatter.format(record))

    def observed(function: str) -> Callable[[Any], Any]:
        """As the product's own, which logs an exception before it is raised on."""

        def entry(event: Any) -> Any:
            try:
                return parts.handler_of(function)(event)
            except Exception:
                logger.exception("failed")
                raise

        return entry

    with (
        simulated(),
        mock.patch.object(parts, "_Silent", return_value=logger),
        mock.patch.object(logger.registered_handler, "stream", stream),
        mock.patch("tests.soak.cloud.handler_of", observed),
        mock.patch("logging.Logger.handle", keep),
    ):
        yield lines
    logger.structure_logs()


_ASKING = [one for one in SCENARIOS if one.outcome is not None]


@pytest.mark.parametrize("scenario", _ASKING, ids=lambda scenario: scenario.name)
def test_a_loop_from_the_question_to_the_end_logs_nothing_that_opens_a_door(
    scenario: Scenario, logged: list[str]
) -> None:
    """Failed before: who kept, held or exempted an instance was logged by address."""
    cloud = scenario.play()

    assert cloud.mails
    assert SECRET not in repr(
        (cloud.memory.items, cloud.queue, cloud.parked, cloud.dead_letters, cloud.mails)
    )
    assert any(one.what == "terminate" for one in cloud.deeds) <= bool(cloud.vault.copies)
    assert any('"rechecked"' in line or '"recorded"' in line for line in logged)
    assert set() == leaks(logged)


def test_nor_does_the_deletion_of_what_has_expired(logged: list[str]) -> None:
    """Those who are told of it stay as private as those who are asked."""
    BY_NAME["snapshots expire"].play()

    assert any('"expired"' in line for line in logged)
    assert set() == leaks(logged)


@pytest.mark.parametrize("number", range(3, 200, 14))
def test_nor_does_an_error_of_any_call(number: int, logged: list[str]) -> None:
    """Errors quote what they were about, with a traceback."""
    SCENARIOS[0].play(CrashPoint(number, Kind.ERROR_BEFORE))

    assert set() == leaks(logged)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("handed over token-17", "a task token"),
        ("sent https://api.example.com/approvals/a1?exp=1&sig=abc", "a link"),
        (f"signed by {'s' * 32}", "a secret"),
        (f"signed by {'k' * 64}", "a secret"),
        ("kept by link:alice@example.com", "an address"),
        (f"read {SECRET}-i-1", "user data"),
    ],
)
def test_a_planted_leak_is_found(text: str, what: str) -> None:
    """Or the tests above would prove nothing."""
    assert [what] == [one.partition(":")[0] for one in leaks([text])]


def test_an_address_is_hidden_wherever_it_is_logged(logged: list[str]) -> None:
    """In the message, in what is beside it, in an exception; by the functions and by what they
    call."""
    for logger in (observability.logger, logging.getLogger("governor.anywhere")):
        try:
            raise ValueError("alice@example.com is not verified")
        except ValueError:
            logger.exception("to %s", "bob@example.com")
    observability.logger.info("answered", extra={"by": "link:carol@example.com"})

    assert 3 == len(logged)
    assert all("***@example.com" in line for line in logged)
    assert set() == leaks(logged)
