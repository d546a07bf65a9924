"""The checkpoint document is started by the parameters it has, and failures are told by name."""

from __future__ import annotations

import pytest

from governor.aws.clients import Clients
from governor.aws.ssm import RunCommandHook, SessionManager
from governor.core.errors import AccessDenied, CloudError, Throttled
from governor.core.instance import Session
from governor.core.units import iso
from tests.builders import NOW
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.aws.state_samples import INSTANCE_ID, TARGET


@pytest.mark.parametrize(("signal", "otherwise"), [(True, "sigterm"), (False, "nothing")])
def test_hooks_are_one_command(signal: bool, otherwise: str) -> None:
    """In the instances' Region, with the seconds that are left; its id comes back at once."""
    client = ScriptedClient(send_command=[{"Command": {"CommandId": "command-1"}}])
    clients = FakeClients(client)

    sent = RunCommandHook(clients, "checkpoint").send(
        TARGET, [INSTANCE_ID], "spot-interruption", 110, sigterm_if_no_hook=signal
    )

    assert "command-1" == sent
    assert ([("ssm", TARGET, True)], [False]) == (clients.asked, clients.long_timeout)
    ((_, parameters),) = client.calls
    assert ("checkpoint", [INSTANCE_ID], 110) == (
        parameters["DocumentName"],
        parameters["InstanceIds"],
        parameters["TimeoutSeconds"],
    )
    assert {
        "Reason": ["spot-interruption"],
        "WhenNoHook": [otherwise],
        "SecondsLeft": ["110"],
    } == parameters["Parameters"]


@pytest.mark.parametrize(("left", "told"), [(0, 30), (10**6, 9_999)])
def test_the_time_is_kept_within_what_is_taken(left: int, told: int) -> None:
    """SendCommand takes no less than half a minute, and EC2 may be late; the document takes no
    more."""
    client = ScriptedClient(send_command=[{"Command": {"CommandId": "command-1"}}])

    RunCommandHook(FakeClients(client), "checkpoint").send(
        TARGET, [INSTANCE_ID], "spot-interruption", left, sigterm_if_no_hook=False
    )

    assert ([str(told)], told) == (
        client.calls[0][1]["Parameters"]["SecondsLeft"],
        client.calls[0][1]["TimeoutSeconds"],
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("InvalidInstanceId", CloudError),
        ("InvalidDocument", CloudError),
        ("AccessDeniedException", AccessDenied),
        ("ThrottlingException", Throttled),
    ],
)
def test_a_hook_that_could_not_be_sent_is_raised(code: str, kind: type[CloudError]) -> None:
    """With the operation, by which the failure is known to be the hook's."""
    client = ScriptedClient(send_command=[client_error(code)])

    with pytest.raises(kind) as raised:
        RunCommandHook(FakeClients(client), "checkpoint").send(
            TARGET, [INSTANCE_ID], "spot-interruption", 9, sigterm_if_no_hook=False
        )
    assert "ssm:SendCommand" == raised.value.operation


def test_it_is_said_which_instances_systems_manager_knows() -> None:
    """In one call for all that a command takes; page after page, should there be more than one."""
    other = "i-00000000000000002"
    pages = [
        {"InstanceInformationList": [{"InstanceId": INSTANCE_ID}], "NextToken": "more"},
        {"InstanceInformationList": [{"InstanceId": other}]},
    ]
    client = ScriptedClient(describe_instance_information=pages)
    clients = FakeClients(client)

    known = RunCommandHook(clients, "checkpoint").managed(
        TARGET, [INSTANCE_ID, other, "i-00000000000000003"]
    )

    assert {INSTANCE_ID, other} == known
    (_, first), (_, second) = client.calls
    (wanted,) = first["Filters"]
    assert ("InstanceIds", 3, 50) == (wanted["Key"], len(wanted["Values"]), first["MaxResults"])
    assert "more" == second["NextToken"]
    assert [False] == clients.long_timeout


def test_an_odd_entry_leaves_the_others_known() -> None:
    client = ScriptedClient(
        describe_instance_information={"InstanceInformationList": [{}, {"InstanceId": "i-2"}]}
    )
    assert {"i-2"} == RunCommandHook(FakeClients(client), "doc").managed(TARGET, ["i-1", "i-2"])


def test_sessions_of_one_instance_are_listed_from_a_moment_on() -> None:
    """By both filters, page after page, with whose they are and since when."""
    owner = "arn:aws:iam::123456789012:user/ana"
    one = {"Owner": owner, "StartDate": NOW}
    client = ScriptedClient(
        describe_sessions=[{"Sessions": [one], "NextToken": "more"}, {"Sessions": [one]}]
    )

    found = SessionManager(FakeClients(client)).open_sessions(TARGET, INSTANCE_ID, NOW)

    assert (Session(owner, NOW),) * 2 == found
    (_, first), (_, second) = client.calls
    assert {"Target": INSTANCE_ID, "InvokedAfter": iso(NOW)} == {
        f["key"]: f["value"] for f in first["Filters"]
    }
    assert ("Active", "more") == (first["State"], second["NextToken"])


def test_what_is_worth_nothing_later_gives_up_within_seconds(aws: Clients) -> None:
    """A call of the hooks must end before people are told."""
    with_short_timeout = aws.client("ssm", TARGET, long_timeout=False).meta.config
    with_long_timeout = aws.client("ssm", TARGET).meta.config

    assert with_short_timeout.connect_timeout + with_short_timeout.read_timeout <= 4
    assert 2 == with_short_timeout.retries["total_max_attempts"]
    assert (20, 5) == (
        with_long_timeout.read_timeout,
        with_long_timeout.retries["total_max_attempts"],
    )
