"""The accounts that AWS Organizations lists in units."""

from __future__ import annotations

from typing import Any

import pytest

from governor.aws.managing import OrganizationUnits
from governor.core.errors import AccessDenied, CloudError, Throttled
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error

ROOT, GPU, TEAM, PLAY = "r-abcd", "ou-abcd-11111111", "ou-abcd-22222222", "ou-abcd-33333333"
WITHIN = {ROOT: [GPU], GPU: [TEAM, PLAY]}
ACCOUNTS = {
    ROOT: ["000000000000"],
    GPU: ["111111111111"],
    TEAM: ["222222222222"],
    PLAY: ["333333333333"],
}
GONE = ("SUSPENDED", "PENDING_CLOSURE", "CLOSED")


def units(ParentId: str) -> dict[str, Any]:
    """The units right below."""
    return {"OrganizationalUnits": [{"Id": one} for one in WITHIN.get(ParentId, ())]}


def accounts(ParentId: str, NextToken: str = "") -> dict[str, Any]:
    """Two pages: what is gone, and what is active."""
    if not NextToken:
        return {"Accounts": [{"Id": state, "State": state} for state in GONE], "NextToken": "more"}
    return {"Accounts": [{"Id": one, "State": "ACTIVE"} for one in ACCOUNTS[ParentId]]}


def found(*wanted: str, without: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the accounts of the organization above."""
    client = ScriptedClient(
        list_accounts_for_parent=accounts, list_organizational_units_for_parent=units
    )
    return OrganizationUnits(FakeClients(client)).accounts(wanted, without)


@pytest.mark.parametrize(
    ("wanted", "without", "names"),
    [
        ((TEAM,), (), "2"),
        ((GPU,), (), "123"),
        ((GPU,), (PLAY,), "12"),
        ((ROOT,), (GPU,), "0"),
        ((ROOT, TEAM), (PLAY,), "012"),
        ((GPU,), (GPU,), ""),
    ],
)
def test_active_accounts_are_found_at_any_depth(
    wanted: tuple[str, ...], without: tuple[str, ...], names: str
) -> None:
    """On every page; what is left out is so with all that is in it, and wins."""
    assert tuple(one * 12 for one in names) == found(*wanted, without=without)


@pytest.mark.parametrize("status", ["ACTIVE", "SUSPENDED"])
def test_where_aws_answers_the_older_status_that_counts(status: str) -> None:
    """State came later, and Status goes."""
    client = ScriptedClient(
        list_accounts_for_parent={"Accounts": [{"Id": "1" * 12, "Status": status}]},
        list_organizational_units_for_parent={"OrganizationalUnits": []},
    )

    assert (status == "ACTIVE") == bool(OrganizationUnits(FakeClients(client)).accounts([GPU], ()))


@pytest.mark.parametrize(
    ("code", "kind"),
    [("AccessDeniedException", AccessDenied), ("TooManyRequestsException", Throttled)],
)
def test_a_unit_that_cannot_be_read_is_an_error_and_never_an_empty_unit(
    code: str, kind: type[Exception]
) -> None:
    """Also one deep within, after others were read."""

    def sometimes(ParentId: str) -> dict[str, Any]:
        if ParentId == TEAM:
            raise client_error(code)
        return units(ParentId)

    client = ScriptedClient(
        list_accounts_for_parent=accounts, list_organizational_units_for_parent=sometimes
    )

    with pytest.raises(kind):
        OrganizationUnits(FakeClients(client)).accounts([ROOT], ())


def test_an_odd_account_or_unit_sinks_no_other() -> None:
    """It is left out, and the log says why; units of which nothing can be read have failed."""
    client = ScriptedClient(
        list_accounts_for_parent={
            "Accounts": [{"State": "ACTIVE"}, {"Id": "1" * 12, "State": "ACTIVE"}]
        },
        list_organizational_units_for_parent=[
            {"OrganizationalUnits": [{}, {"Id": TEAM}]},
            units(TEAM),
            {},
        ],
    )
    units_of = OrganizationUnits(FakeClients(client))
    assert ("1" * 12,) == units_of.accounts([GPU], ())
    with pytest.raises(
        CloudError, match="organizations:ListOrganizationalUnitsForParent gave a record"
    ):
        units_of.accounts([GPU], ())
