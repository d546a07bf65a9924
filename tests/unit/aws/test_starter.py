"""A start is sent again only if EC2 has throttled it."""

from __future__ import annotations

from typing import Any

import pytest

from governor.aws.ec2_writes import Ec2Starter
from governor.core.errors import CloudError, Throttled
from tests.builders import TARGET
from tests.unit.aws.fakes import FakeClients, client_error

ACCEPTED: dict[str, Any] = {"ResponseMetadata": {"RequestId": "request-1"}}
BUSY = client_error("RequestLimitExceeded", status=503)


class Ec2:
    """Gives these answers, one a call."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)

    def start_instances(self, InstanceIds: list[str]) -> dict[str, Any]:
        assert ["i-1"] == InstanceIds
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def start(*answers: dict[str, Any] | Exception) -> tuple[str | None, list[float], int]:
    """The id of the request, the pauses, and how many answers were not asked for."""
    ec2, pauses = Ec2(*answers), []  # type: ignore[var-annotated]
    clients = FakeClients(ec2)
    request_id = Ec2Starter(clients, pauses.append).start(TARGET, "i-1")
    assert [("ec2", TARGET, False)] == clients.asked  # botocore itself repeats nothing
    return request_id, pauses, len(ec2.answers)


def test_a_throttled_start_is_sent_again() -> None:
    assert ("request-1", [], 0) == start(ACCEPTED)
    assert ("request-1", [0.5, 1.5], 0) == start(BUSY, BUSY, ACCEPTED)


def test_the_third_refusal_for_the_rate_is_the_last() -> None:
    """The person may press again."""
    with pytest.raises(Throttled):
        start(BUSY, BUSY, BUSY)


@pytest.mark.parametrize(
    ("code", "status"),
    [("InsufficientInstanceCapacity", 500), ("VcpuLimitExceeded", 400), ("InternalError", 500)],
)
def test_no_other_answer_is_asked_for_twice(code: str, status: int) -> None:
    """A second call with the same answer would only let the person wait."""
    ec2 = Ec2(client_error(code, status=status), ACCEPTED)
    with pytest.raises(CloudError) as refused:
        Ec2Starter(FakeClients(ec2)).start(TARGET, "i-1")
    assert (code, 1) == (refused.value.code, len(ec2.answers))
