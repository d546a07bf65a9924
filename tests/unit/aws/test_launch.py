"""The launch of an instance, as the adapter reads it from CloudTrail."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from governor.aws.ec2 import Ec2Instances
from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.instance import Launch
from tests.builders import TARGET
from tests.unit.aws.fakes import FakeClients, ScriptedClient

AT = datetime(2026, 11, 12, 9, 30, tzinfo=UTC)
ARN = "arn:aws:iam::123456789012:user/bob"


class Trail:
    """Clients whose CloudTrail gives one answer, and that notes how it was called."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.settings: list[dict[str, bool]] = []
        self.calls: list[dict[str, Any]] = []

    def client(self, service: str, target: Any, **settings: bool) -> Any:
        assert (service, target) == ("cloudtrail", TARGET)
        self.settings.append(settings)
        return SimpleNamespace(lookup_events=self._lookup)

    def _lookup(self, **parameters: Any) -> Any:
        self.calls.append(parameters)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def launch(trail: Trail) -> Launch | None:
    """The launch of `i-1` by this trail."""
    return Ec2Instances(trail).launch(TARGET, "i-1", AT)  # type: ignore[arg-type]


def event(identity: Any, name: str = "RunInstances", **fields: Any) -> dict[str, Any]:
    """A record of CloudTrail."""
    detail = json.dumps({"userIdentity": identity})
    return {"EventName": name, "EventTime": AT, "CloudTrailEvent": detail, **fields}


def test_the_launch_is_one_call_that_is_never_repeated_and_never_followed() -> None:
    """Another page is not read, and botocore does not retry."""
    started = event({"arn": "arn:starter"}, "StartInstances")
    trail = Trail({"Events": [started], "NextToken": "more"})

    assert launch(trail) is None
    assert trail.settings == [{"repeat": False, "long_timeout": False}]
    (call,) = trail.calls
    assert (call["EndTime"], call["LookupAttributes"][0]["AttributeValue"]) == (AT, "i-1")


@pytest.mark.parametrize(
    ("record", "principal"),
    [
        (event({"type": "IAMUser", "arn": ARN}), ARN),
        (event({"type": "AWSService", "invokedBy": "autoscaling.amazonaws.com"}),
         "autoscaling.amazonaws.com"),
        (event({}, Username="bob"), "bob"),
        (event({"arn": "a\nb\u202e"}), "a b"),
        (event({"arn": "a" * 2000}), "a" * 1000),
        (event({}), None),
        (event(None), None),
        (event([]), None),
        ({"EventName": "RunInstances", "EventTime": AT, "CloudTrailEvent": "{"}, None),
        (event({"arn": ARN}, EventTime=None), None),
        (event({"arn": ARN}, "StartInstances"), None),
    ],
)  # fmt: skip
def test_a_record_names_who_launched_it_or_nobody(
    record: dict[str, Any], principal: str | None
) -> None:
    """A record that cannot be read is none."""
    expected = None if principal is None else Launch(principal, AT)
    assert expected == launch(Trail({"Events": [record]}))


def test_no_record_is_no_launch() -> None:
    """As for an instance older than 90 days."""
    assert launch(Trail({"Events": []})) is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [("AccessDeniedException", AccessDenied), ("ThrottlingException", Throttled)],
)
def test_a_refusal_is_an_error_of_the_port(code: str, kind: type[CloudError]) -> None:
    """The caller says nothing then."""
    refusal = ClientError({"Error": {"Code": code, "Message": "no"}}, "LookupEvents")
    with pytest.raises(kind):
        launch(Trail(refusal))


@pytest.mark.parametrize("detail", ["no JSON", "[]", "null", '{"userIdentity": []}', 1])
def test_a_launch_that_cannot_be_read_has_no_creator(detail: Any) -> None:
    """The command that asks goes on with the other instances."""
    odd = {"EventName": "RunInstances", "EventTime": AT, "CloudTrailEvent": detail}
    clients = FakeClients(ScriptedClient(lookup_events=[{"Events": [odd]}]))

    assert Ec2Instances(clients).creator(TARGET, "i-1") is None
