"""Every view, in every form: what others own changes not a letter of it, and its reads are few."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.model.terms import Scope
from governor.console.app import Console
from governor.console.formats import as_json
from governor.console.page import Caller
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import NotFound
from governor.fleet.model import Share
from governor.limits.model.breaker import BreakerState
from governor.money.rules.cost import Meter
from governor.policy.document import parse_policy
from governor.policy.model.policy import Policy
from governor.wiring.console import VIEWS as ROUTES
from tests.builders import NOW, make_entry
from tests.console_world import (
    TARGETS,
    VIEWS,
    ConsoleWorld,
    asked,
    caller,
    html,
    lively,
    make_row,
    view_of,
)
from tests.twins.table import MemoryTable
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance

MINE, FOREIGN = ("ml-team", "vision"), ("rivals", "secret-project")
SCOPES = {
    "project": Scope(projects=frozenset({"vision"})),
    "owner": Scope(owners=frozenset({"ml-team"})),
    "account": Scope(accounts=frozenset({TARGETS[0].account})),
}
MY_INSTANCE = f"/instances/{TARGETS[0].account}/{TARGETS[0].region}/i-{1:017x}"
FOREIGN_INSTANCE = f"/instances/{TARGETS[1].account}/{TARGETS[1].region}/i-{20:017x}"


def two_tenants(*, with_foreign: bool, share_account: bool = False) -> ConsoleWorld:
    """One tenant in the first account and, if wanted, another one in the second, or in both."""
    world, day = ConsoleWorld(), NOW.date()
    rows = [asked(make_row(1)), make_row(3, verdict="no-data", name="silent")]
    world.spend(day, {MINE: Share(Decimal(10), Decimal(3))})
    world.book(make_entry(1))
    if with_foreign:
        owner, project = FOREIGN
        for number, target in enumerate(TARGETS if share_account else TARGETS[1:]):
            place = {"account": target.account, "region": target.region}
            theirs = make_row(20 + number, name="foreign", owner=owner, project=project, **place)
            silent = make_row(30 + number, name="foreign", owner=owner, project=project, **place)
            rows += [asked(theirs), replace(silent, verdict="no-data")]
            own = {MINE: Share(Decimal(10), Decimal(3))} if target == TARGETS[0] else {}
            world.spend(day, {**own, FOREIGN: Share(Decimal(999))}, target)
            ref = EpisodeRef(target.account, target.region, theirs.instance_id, NOW, 1)
            world.book(make_entry(2, episode=ref, owner=owner, project=project))
    # The freeze of everything is everybody's; its reason is not.
    world.state.begin_hub_freeze(
        BreakerState(NOW, "77 of 99 turned idle" if with_foreign else "1 of 2")
    )
    for target in TARGETS:
        meter = {"vision": Decimal(40)} if target == TARGETS[0] else {}
        meter |= {FOREIGN[1]: Decimal(999)} if with_foreign else {}
        world.state.bring_forward(Meter(target, "2026-11", NOW, meter), None)
    world.keep(
        *rows,
        problem=f"{9 if share_account and with_foreign else 1} steps of the last sweep failed",
    )
    return world


def forms(address: str, world: ConsoleWorld, who: Caller) -> list[str]:
    """A view as HTML, as JSON, and each of its tables as CSV."""
    view, named = view_of(address)
    page = view(world.asked(who, **named))
    return [
        html(view, world, who, address, **named),
        as_json(200, page.document).body,
        *(table.csv for table in page.tables),
    ]


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize(
    "address", ["/", "/fleet", "/savings", "/projects", "/projects/vision", MY_INSTANCE]
)
def test_what_others_own_changes_nothing(address: str, scope: str) -> None:
    """No name, no row and no sum of another tenant: the page is the same as if there were none."""
    who = caller(SCOPES[scope])
    share = scope != "account"
    both, alone = (
        forms(address, two_tenants(with_foreign=some, share_account=share), who)
        for some in (True, False)
    )

    assert alone == both
    assert "foreign" not in "".join(both)


@pytest.mark.parametrize(
    "address", [FOREIGN_INSTANCE, "/projects/secret-project", "/projects/none"]
)
def test_an_id_out_of_scope_is_not_found(address: str) -> None:
    """As one that does not exist."""
    world = two_tenants(with_foreign=True)

    for scope in SCOPES.values():
        with pytest.raises(NotFound):
            forms(address, world, caller(scope))


@pytest.mark.parametrize("address", ["/", "/fleet", "/savings", "/projects"])
def test_who_sees_everything_sees_more(address: str) -> None:
    """The comparison above is not one of empty pages."""
    tenant, every = (
        forms(address, two_tenants(with_foreign=True), who)
        for who in (caller(SCOPES["owner"]), caller())
    )

    assert "secret-project" not in "".join(tenant)
    assert "secret-project" in "".join(every)


class Visit:
    """A console over a world, for somebody whom the policy lets see everything."""

    def __init__(self, world: ConsoleWorld) -> None:
        at = Entrance(world.table)
        at.clock.at = NOW
        world.policy = EVERYBODY
        self.cookies = at.session("oidc:1", "ada@example.com", groups=("ops",))
        self.console = Console(lambda: world.reader, at.doors, ROUTES)

    def ask(self, address: str, **headers: str) -> dict[str, Any]:
        return entrance.ask(self.console, address, cookies=self.cookies, headers=headers)


EVERYBODY: Policy = (
    parse_policy("console: {scopes: {all: {groups: [ops], everything: true}}}").base().policy
)


@pytest.mark.parametrize("address", VIEWS)
def test_each_view_is_served_as_html_json_and_csv(address: str) -> None:
    """With no more of the table than the role of its function allows, as all tests of this folder
    check."""
    visit = Visit(lively())
    csv = "/overview.csv" if address == "/" else f"{address}.csv"

    page = visit.ask(address)
    assert (200, "text/html; charset=utf-8") == (
        page["statusCode"],
        page["headers"]["Content-Type"],
    )
    document = json.loads(visit.ask(address, accept="application/json")["body"])
    assert document
    assert [] == [found for found in amounts(document) if not isinstance(found, str | None)]
    assert (200, "text/csv; charset=utf-8") == (
        visit.ask(csv)["statusCode"],
        visit.ask(csv)["headers"]["Content-Type"],
    )


def amounts(document: Any) -> list[object]:
    """Whatever is called an amount: exact, so never a float of JSON."""
    if isinstance(document, Mapping):
        own = [value for name, value in document.items() if name.endswith(("_usd", "usd_per_hour"))]
        return own + [found for value in document.values() for found in amounts(value)]
    return (
        [found for one in document for found in amounts(one)] if isinstance(document, list) else []
    )


@pytest.mark.parametrize(
    "address", [FOREIGN_INSTANCE, "/projects/none", "/savings?month=2026-13", "/fleet?sort=x"]
)
def test_what_cannot_be_shown_gets_a_clear_page(address: str) -> None:
    """Never an error of ours."""
    answered = Visit(two_tenants(with_foreign=False)).ask(address)

    assert answered["statusCode"] in (400, 404)
    assert "GPU Governor" in answered["body"]


@pytest.mark.parametrize("address", VIEWS)
def test_a_page_takes_at_most_ten_reads(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many instances, targets and days there are; a batch of items is one read."""
    world, reads = lively(), []
    view, named = view_of(address)
    for name in ("get", "get_all", "query"):
        real = getattr(MemoryTable, name)

        def counted(*asked: Any, real: Any = real, name: str = name, **more: Any) -> Any:
            reads.append((name, asked[1:]))
            return real(*asked, **more)

        monkeypatch.setattr(MemoryTable, name, counted)

    html(view, world, None, address, **named)

    assert 10 >= len(reads)
