"""Whatever one tenant asks for, it answers the same whether or not there is another one.

That is more than that no foreign name appears: no sum, count, order or page may depend on what is foreign.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.console.app import Console
from governor.contracts.policy import parse_policy
from governor.domain.episode.episode import Failing
from governor.domain.fleet.rows import UNGOVERNED, FleetRow, Share
from governor.domain.instance import Target
from governor.stores import EventLog
from governor.wiring.console import VIEWS
from tests.builders import NOW, make_entry
from tests.console_world import TARGETS, ConsoleWorld, asked, make_episode, make_row
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance

POLICY = (
    parse_policy(
        f"""
    targets: {{accounts: ["{TARGETS[0].account}", "{TARGETS[1].account}"], regions: [us-east-1, eu-west-1]}}
    budget: {{projects: {{vision: 5000, llm: 7000}}}}
    ownership:
      contacts: {{ml-team: {{emails: [own@example.com]}}, research: {{emails: [foreign@example.com]}}}}
    console:
      scopes:
        account: {{groups: [account], role: approver, accounts: ["{TARGETS[0].account}"]}}
        project: {{groups: [project], role: admin, projects: [vision]}}
    """
    )
    .base()
    .policy
)
OWN = {"owner": "ml-team", "project": "vision"}
FOREIGN = {"owner": "research", "project": "llm"}
WHO: dict[str, dict[str, Any]] = {
    "account": {"groups": ("account",)},
    "project": {"groups": ("project",)},
    "contact": {"email": "own@example.com"},
}


def rows_of(target: int, first: int, **of: str) -> list[FleetRow]:
    """Three instances, two of which are asked about."""
    where = TARGETS[target]
    plain = [
        make_row(number, name=f"{of['owner']}-{number}", account=where.account, region=where.region, **of)
        for number in range(first, first + 3)
    ]
    price = Decimal("1.006") if of == OWN else Decimal("77.77")
    rows = [replace(row, usd_per_hour=price) for row in plain]
    without_tag = replace(
        rows[0], instance_id=f"i-{first:017x}0", name=f"{of['owner']}-loose", verdict=UNGOVERNED
    )
    return [asked(rows[0], left=9), asked(rows[1], left=5), rows[2], without_tag]


def site(who: str, *, alone: bool) -> tuple[Console, dict[str, str]]:
    """The console for a tenant; `alone` as if there were no other."""
    world = ConsoleWorld(POLICY)
    # Whose scope is an account must not see the other account; the others not even within their own.
    foreign = rows_of(1, 11, **FOREIGN) + ([] if who == "account" else rows_of(0, 21, **FOREIGN))
    rows = rows_of(0, 1, **OWN) + ([] if alone else foreign)
    world.keep(*rows)
    for row in rows:
        price, days = Decimal(row.usd_per_hour or 0), timedelta(days=int(row.instance_id[-2:], 16) % 9 + 1)
        if row.episode:
            episode = make_episode(row, owner=row.owner, project=row.project)
            world.state.take_lock(episode.ref)
            world.state.save_opened(episode)
            world.state.await_answer(episode.approval_id, "token", "ask", NOW + timedelta(hours=9))
        ref = replace(make_episode(row).ref, number=2)
        world.book(
            make_entry(
                episode=ref,
                owner=row.owner,
                project=row.project,
                booked_at=NOW - days,
                saved_usd_per_hour=price,
            )
        )
        failed = "AccessDenied: no"
        where = Target(row.account, row.region)
        fault = f"{row.instance_id}#{int(row.launched_at.timestamp())}#hot#{row.owner}#0"
        EventLog(world.table).keep_told(where, [fault], NOW + timedelta(hours=1))
        failing = Failing(where, row.instance_id, row.name, "denied", failed, "stop", NOW)
        world.state.note_failing(replace(failing, owner=row.owner, project=row.project))
    for back in range(40):
        for target in TARGETS:
            shares = {("ml-team", "vision"): Share(Decimal(50), Decimal(9))} if target is TARGETS[0] else {}
            if not alone and (target is TARGETS[1] or who != "account"):
                shares[("research", "llm")] = Share(Decimal(7777), Decimal(777))
            world.spend((NOW - timedelta(days=back)).date(), shares, target)
    for row in [] if alone else foreign:
        broken(world, row)
    at = Entrance(world.table)
    at.clock.at = NOW
    console = Console(lambda: world.reader, at.doors, VIEWS)
    return console, at.session("oidc:1", **WHO[who])


def broken(world: ConsoleWorld, row: FleetRow) -> None:
    """Leave no record of this instance readable."""
    for key, item in world.table.items.items():
        if row.instance_id in f"{key} {item}" and key[0].partition("#")[0] != "FLEET":
            kept = {name: value for name, value in item.items() if name in ("pk", "sk", "expires_at_epoch")}
            world.table.items[key] = {**dict.fromkeys(item, "broken"), **kept}


def addresses(row: FleetRow) -> list[str]:
    """Every route of the console, about what is in this row."""
    named = {
        "<account>": row.account,
        "<region>": row.region,
        "<instance_id>": row.instance_id,
        "<name>": row.project,
        "<approval_id>": row.approval_id or "none",
    }
    found = []
    for rule in VIEWS:
        for part, value in named.items():
            rule = rule.replace(part, value)
        assert "<" not in rule, f"say here what {rule} is about"
        found += [rule, *([] if rule == "/" else [f"{rule}.csv"])]
    found += ["/fleet?verdict=ungoverned", "/fleet.csv?verdict=ungoverned"]
    return [*found, "/overview.csv", *(f"{one}?owner={row.owner}&q=" for one in ("/fleet", "/questions"))]


MINE, THEIRS = rows_of(0, 1, **OWN)[0], rows_of(1, 11, **FOREIGN)[0]
NAMED = [one for one in addresses(THEIRS) if THEIRS.instance_id in one or "/questions/" in one]
FORMATS = {"html": {"accept": "text/html"}, "json": {"accept": "application/json"}}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("address", addresses(MINE))
def test_an_answer_does_not_depend_on_other_tenants(address: str, who: str, form: str) -> None:
    with_others, cookies = site(who, alone=False)
    alone, same = site(who, alone=True)

    found = entrance.ask(with_others, address, cookies=cookies, headers=FORMATS[form])
    wanted = entrance.ask(alone, address, cookies=same, headers=FORMATS[form])

    assert (200, wanted["body"]) == (found["statusCode"], found["body"])
    for name in ("research", "llm", "foreign@", THEIRS.instance_id, "77.77", "7777", "7,777"):
        assert name not in found["body"]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(
    "address", [one for one in addresses(THEIRS) if THEIRS.instance_id in one or "questions/" in one]
)
def test_what_is_out_of_scope_is_not_found(address: str, who: str) -> None:
    """As if it did not exist."""
    console, cookies = site(who, alone=False)
    alone, same = site(who, alone=True)

    found = entrance.ask(console, address, cookies=cookies)
    assert 404 == found["statusCode"]
    assert entrance.ask(alone, address, cookies=same)["body"] == found["body"]
