"""Sessions with roles of member accounts: what CloudTrail there can say of them."""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.utils import parse_timestamp
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.wire import Raw
from governor.aws.clients import _OWN, Clients, _Role, moment
from governor.core.errors import AccessDenied
from governor.core.instance import Target
from tests.unit.aws.fakes import ScriptedClient, client_error

ROLE = "arn:aws:iam::210987654321:role/gpu-governor-member-actor"
EPISODE = "210987654321-us-east-1-i-0123456789abcdef0-1795075200-1"
GRANTED = {
    "Credentials": {
        "AccessKeyId": "a",
        "SecretAccessKey": "s",
        "SessionToken": "t",
        "Expiration": datetime(2100, 1, 1, tzinfo=UTC),
    }
}


class OverSts(Clients):
    """Clients whose own session gives out this client of STS."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("us-east-1")
        self.sts = ScriptedClient(assume_role=answers)
        self.made: list[tuple[str, dict[str, Any]]] = []
        """Clients of other services, with what they are made of."""
        self._sessions[_OWN] = SimpleNamespace(create_client=self._create)

    def _create(self, service: str, **given: Any) -> Any:
        if service == "sts":
            return self.sts
        self.made.append((service, given))
        return SimpleNamespace()

    def asked(self, *session: str) -> list[dict[str, Any]]:
        """Return what STS is asked for, for one call of EC2 there."""
        role = _Role(ROLE, (session[0], session[1]) if session else None)
        # The signer asks for the credentials at the first request.
        self._session(role).get_credentials().get_frozen_credentials()
        named = ("RoleArn", "RoleSessionName", "SourceIdentity")
        return [{name: call[name] for name in named if name in call} for _, call in self.sts.calls]


def test_a_session_names_the_episode_and_the_person() -> None:
    """The person as source identity, which stays whatever role follows."""
    assert [
        {"RoleArn": ROLE, "RoleSessionName": EPISODE, "SourceIdentity": "alice@example.com"}
    ] == OverSts(GRANTED).asked(EPISODE, "alice@example.com")


def test_a_client_with_a_role_signs_with_the_role_s_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Never with the function's own, which are in the environment."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "the-function-s-own")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    granted = {**GRANTED["Credentials"], "AccessKeyId": "of-the-role"}
    clients = OverSts({"Credentials": granted})
    sent: list[Any] = []

    def answer(request: Any, **_: Any) -> AWSResponse:
        sent.append(request)
        return AWSResponse(request.url, 200, HTTPHeaders(), Raw(b"<r/>"))

    there = Target("210987654321", "us-east-1", ROLE)
    client = clients.client("ec2", there)
    client.meta.events.register("before-send", answer)
    client.describe_volumes()

    (request,) = sent
    assert b"Credential=of-the-role/" in request.headers["Authorization"]


def test_without_an_episode_it_has_the_name_of_the_product() -> None:
    """A sweep is nobody's."""
    assert [{"RoleArn": ROLE, "RoleSessionName": "gpu-governor"}] == OverSts(GRANTED).asked()


def test_an_older_member_stack_is_reached_without_a_source_identity(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It trusts no `sts:SetSourceIdentity`; the session still names the episode; the log says what
    to do."""
    with caplog.at_level(logging.WARNING):
        asked = OverSts(client_error("AccessDenied"), GRANTED).asked(EPISODE, "alice@example.com")

    assert [True, False] == ["SourceIdentity" in call for call in asked]
    assert {EPISODE} == {call["RoleSessionName"] for call in asked}
    assert "update stacks/member.yaml" in caplog.text
    assert "alice" not in caplog.text


def test_a_role_that_refuses_both_ways_is_refused() -> None:
    """As ever."""
    with pytest.raises(AccessDenied):
        OverSts(client_error("AccessDenied"), client_error("AccessDenied")).asked(
            EPISODE, "alice@example.com"
        )


@pytest.mark.parametrize(
    "person",
    [
        "",
        "x",
        "link:bröadcast <b>",
        "a" * 300,
        "aws:arn:aws:sts::123456789012:assumed-role/dev/ada",
        "\n\u202e",
    ],
)
def test_whatever_a_person_is_called_sts_takes_the_name(person: str) -> None:
    """STS API: 2 to 64 of these characters. A name that it refused would keep everything from being
    done."""
    (call,) = OverSts(GRANTED).asked("9" * 90 + EPISODE, person)

    for name in ("RoleSessionName", "SourceIdentity"):
        assert re.fullmatch(r"[\w+=,.@-]{2,64}", call[name], re.ASCII)
    assert call["RoleSessionName"].endswith(EPISODE)


def test_clients_of_one_episode_are_kept_at_a_time() -> None:
    """A warm function sees hundreds of episodes; those that name none stay."""
    clients = Clients("us-east-1")

    def client(session: tuple[str, str] | None) -> Any:
        return clients.client("ec2", Target("210987654321", "us-east-1", ROLE, session))

    unnamed, first = client(None), client(("one", "ada"))
    assert first is client(("one", "ada"))
    client(("two", "bob"))

    assert unnamed is client(None)
    assert first is not client(("one", "ada"))
    assert 2 == len(clients._clients)


# credentials for one call

ONE_STOP = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": "ec2:StopInstances",
            "Resource": "arn:aws:ec2:us-east-1:210987654321:instance/i-1",
        }
    ],
}
THERE = Target("210987654321", "us-east-1", ROLE, (EPISODE, "alice@example.com"))


def for_one_stop(clients: Clients) -> Any:
    """A client that may stop the instance `i-1`."""
    resource = "arn:aws:ec2:us-east-1:210987654321:instance/i-1"
    return clients.client_for_one_call("ec2:StopInstances", THERE, ROLE, resource)


def test_credentials_for_one_call_allow_that_action_on_that_instance_alone() -> None:
    """The session policy names both; the session ends as early as STS lets it."""
    clients = OverSts(GRANTED)
    for_one_stop(clients)

    ((_, asked),) = clients.sts.calls
    assert ONE_STOP == json.loads(asked["Policy"])
    assert (ROLE, 900) == (asked["RoleArn"], asked["DurationSeconds"])
    assert (EPISODE, "alice@example.com") == (asked["RoleSessionName"], asked["SourceIdentity"])


def test_each_destructive_call_has_a_session_of_its_own() -> None:
    """Nothing is kept: neither the client nor its credentials."""
    clients = OverSts(GRANTED, GRANTED)
    first = for_one_stop(clients)
    second = for_one_stop(clients)

    assert first is not second
    assert 2 == len(clients.sts.calls)
    assert not any(key[0] == "ec2" for key in clients._clients)


def test_a_client_for_one_call_sends_once_with_its_own_credentials() -> None:
    """They are fixed: nothing renews them, so that no renewal can repeat the call."""
    clients = OverSts(GRANTED)
    for_one_stop(clients)

    ((service, given),) = clients.made
    assert "ec2" == service
    assert ("a", "s", "t") == tuple(
        given[f"aws_{name}"] for name in ("access_key_id", "secret_access_key", "session_token")
    )
    assert 1 == given["config"].retries["total_max_attempts"]


def test_an_older_member_stack_acts_without_a_source_identity_and_with_the_policy() -> None:
    """The session policy needs no permission of the caller: IAM takes it from any role."""
    clients = OverSts(client_error("AccessDenied"), GRANTED)
    for_one_stop(clients)

    first, second = (call for _, call in clients.sts.calls)
    assert "SourceIdentity" in first
    assert "SourceIdentity" not in second
    assert ONE_STOP == json.loads(second["Policy"])


def test_a_role_that_refuses_lets_no_client_be_made() -> None:
    """The call to EC2 is then never sent."""
    clients = OverSts(client_error("AccessDenied"), client_error("AccessDenied"))
    with pytest.raises(AccessDenied):
        for_one_stop(clients)
    assert [] == clients.made


def test_a_function_that_acts_reads_members_with_credentials_that_change_nothing() -> None:
    """The role there may stop and terminate; the session for reading may not."""
    clients = OverSts(GRANTED)
    clients.only_read_members()
    clients.asked(EPISODE, "alice@example.com")

    ((_, asked),) = clients.sts.calls
    (statement,) = json.loads(asked["Policy"])["Statement"]
    assert ("Allow", "ec2:Describe*") == (statement["Effect"], statement["Action"])


def test_other_functions_assume_their_roles_as_they_are() -> None:
    clients = OverSts(GRANTED)
    clients.asked()

    ((_, asked),) = clients.sts.calls
    assert "Policy" not in asked


@pytest.mark.parametrize(
    "value",
    [
        1795075200,
        1795075200.25,
        0,
        -1,
        253402300799,
        "1795075200",
        "2026-11-23T08:00:00Z",
        "2026-11-23T08:00:00.123Z",
        "2026-11-23T08:00:00+02:00",
        "2026-11-23 08:00:00",
        "20261123T080000Z",
        "2026-11-23",
        "Mon, 23 Nov 2026 08:00:00 GMT",
    ],
)
def test_times_are_what_botocore_reads(value: Any) -> None:
    """Whatever a service writes; without a zone, too."""
    assert parse_timestamp(value) == moment(value)


@given(st.datetimes(timezones=st.just(UTC)).filter(lambda at: 1970 < at.year < 9999))
def test_any_time_is_read_alike_in_every_form(at: datetime) -> None:
    """As a number, and as text with or without a fraction."""
    known: Any = parse_timestamp
    for value in (at.timestamp(), int(at.timestamp()), at.isoformat(), f"{at:%Y-%m-%dT%H:%M:%SZ}"):
        assert known(value) == moment(value)


@pytest.mark.parametrize("value", ["yesterday", "", None, {}, "2026-13-01T00:00:00Z"])
def test_what_is_no_time_is_refused_as_botocore_refuses_it(value: Any) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)) as ours:
        moment(value)
    with pytest.raises(ours.type):
        parse_timestamp(value)
