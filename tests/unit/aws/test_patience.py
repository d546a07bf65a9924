"""A service of a Region is given up after its time, and a Region whose services hang after its."""

from __future__ import annotations

import pytest

from governor.aws.patience import (
    NO_ANSWER,
    PLACE_SECONDS,
    SERVICE_SECONDS,
    THROTTLED,
    Patience,
    ServiceOfRegion,
)

REGION = "eu-west-1"
EC2 = ServiceOfRegion(REGION, "ec2")
SAGEMAKER = ServiceOfRegion(REGION, "sagemaker")
BATCH = ServiceOfRegion(REGION, "batch")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of all patience."""
    made = Clock()
    monkeypatch.setattr("governor.aws.patience.monotonic", made.monotonic)
    return made


def fail_for_its_time(
    patience: Patience, clock: Clock, service: ServiceOfRegion, what: str
) -> None:
    """Let one call of a service fail after its whole time."""
    sent_at = clock.seconds
    clock.seconds += SERVICE_SECONDS
    patience.note_failure(service, what, sent_at)


def test_the_time_of_a_service_begins_when_a_call_is_sent(clock: Clock) -> None:
    """One call that waited for all of it is enough."""
    patience = Patience()
    fail_for_its_time(patience, clock, EC2, NO_ANSWER)
    assert NO_ANSWER == patience.given_up(EC2)
    assert "" == patience.given_up(SAGEMAKER)
    assert not patience.is_region_given_up(REGION)


def test_an_answer_to_another_call_begins_the_time_anew(clock: Clock) -> None:
    """Calls of a service run at a time: it works if one of them is answered."""
    patience = Patience()
    clock.seconds = SERVICE_SECONDS - 1
    patience.note_answer(EC2)
    clock.seconds = SERVICE_SECONDS
    patience.note_failure(EC2, NO_ANSWER, 0.0)
    assert "" == patience.given_up(EC2)


def test_a_region_whose_services_hang_is_given_up_and_no_other(clock: Clock) -> None:
    """Each further service would cost a whole timeout."""
    patience = Patience()
    fail_for_its_time(patience, clock, EC2, THROTTLED)
    fail_for_its_time(patience, clock, SAGEMAKER, NO_ANSWER)
    assert clock.seconds >= PLACE_SECONDS
    assert patience.is_region_given_up(REGION)
    assert not patience.is_region_given_up("us-east-1")


def test_a_region_that_only_throttles_has_its_other_services_tried(clock: Clock) -> None:
    """A try costs no time there: what answers is read, and what throttles is given up at once."""
    patience = Patience()
    fail_for_its_time(patience, clock, EC2, THROTTLED)
    fail_for_its_time(patience, clock, SAGEMAKER, THROTTLED)
    assert not patience.is_region_given_up(REGION)
    patience.note_failure(BATCH, THROTTLED, clock.seconds)
    assert THROTTLED == patience.given_up(BATCH)
