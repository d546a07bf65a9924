"""One stored record that cannot be read is left out of a page, which says so; no page fails for
it."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.model.terms import Code
from governor.console.app import Console
from governor.episode.model.episode import Failing
from governor.fleet.model import Share
from governor.limits.model.breaker import BreakerState
from governor.money.rules.cost import Meter
from governor.policy.document import parse_policy
from governor.table.table import Readable, put
from governor.wiring.console import VIEWS
from tests.builders import NOW, make_entry
from tests.console_world import TARGETS, ConsoleWorld, asked, make_episode, make_row
from tests.twins.table import MemoryTable
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance

POLICY = parse_policy("console: {scopes: {all: {groups: [ops], everything: true}}}").base().policy
ROW = asked(make_row(1))
NAMED = {
    "account": ROW.account,
    "region": ROW.region,
    "instance_id": ROW.instance_id,
    "name": ROW.project,
}
SAID = "A stored record could not be read"


def path(rule: str) -> str:
    for name, value in {**NAMED, "approval_id": str(ROW.approval_id)}.items():
        rule = rule.replace(f"<{name}>", value)
    return rule


def stored() -> ConsoleWorld:
    """Something of every kind that the console reads."""
    world = ConsoleWorld(POLICY)
    world.keep(ROW, make_row(2, verdict="no-data"))
    episode = make_episode(ROW)
    world.state.take_lock(episode.ref)
    world.state.save_opened(episode)
    world.state.await_answer(episode.approval_id, "token", "ask", NOW + timedelta(hours=9))
    world.book(make_entry(1))
    world.spend(NOW.date(), {("ml-team", "vision"): Share(Decimal(50), Decimal(9))})
    world.state.bring_forward(Meter(TARGETS[0], f"{NOW:%Y-%m}", NOW, {"vision": Decimal(60)}), None)
    world.state.begin_hub_freeze(
        BreakerState(NOW, "17 of 20 working instances turned idle in one sweep")
    )
    failed = "AccessDenied: no"
    world.state.note_failing(
        Failing(TARGETS[0], ROW.instance_id, ROW.name, "denied", failed, "stop", NOW)
    )
    return world


KINDS = sorted({key[0].partition("#")[0] for key in stored().table.items} - {"OPENLEDGER"})


@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_record_is_left_out_and_said(kind: str) -> None:
    """All pages answer, in every format, and those that would show it say so."""
    world = stored()
    for key, item in world.table.items.items():
        if key[0].partition("#")[0] == kind:
            kept = ("pk", "sk", "expires_at_epoch")
            world.table.items[key] = {
                name: value
                if name in kept
                else {"x": "broken"}
                if isinstance(value, dict)
                else "broken"
                for name, value in item.items()
            }
    at = Entrance(world.table)
    at.clock.at = NOW
    console = Console(lambda: world.reader, at.doors, VIEWS)
    cookies = at.session("oidc:1", "ada@example.com", groups=("ops",))
    said: list[Any] = []
    for rule in VIEWS:
        html = entrance.ask(console, path(rule), cookies=cookies)
        data = entrance.ask(
            console, path(rule), cookies=cookies, headers={"accept": "application/json"}
        )
        csv = entrance.ask(
            console, "/overview.csv" if rule == "/" else f"{path(rule)}.csv", cookies=cookies
        )
        assert html["statusCode"] == data["statusCode"] == csv["statusCode"]
        assert 200 == html["statusCode"] or (404 == html["statusCode"] and "<" in rule), rule
        is_said = SAID in html["body"]
        # The head of a page says more than its data does: it reads what the last sweeps saw.
        assert is_said or not json.loads(data["body"]).get("is_incomplete")
        assert is_said or "-incomplete.csv" not in csv["headers"].get("Content-Disposition", "")
        assert is_said is json.loads(data["body"]).get("is_incomplete", False) or rule.startswith(
            "/quest"
        )
        said.append(is_said)
    assert any(said), f"nobody is told of a broken {kind}"


def test_what_is_whole_says_nothing_of_it() -> None:
    world = stored()
    at = Entrance(world.table)
    at.clock.at = NOW
    console = Console(lambda: world.reader, at.doors, VIEWS)
    cookies = at.session("oidc:1", "ada@example.com", groups=("ops",))
    for rule in VIEWS:
        found = entrance.ask(console, path(rule), cookies=cookies)
        assert (200, False) == (found["statusCode"], SAID in found["body"])


def test_a_page_cannot_write() -> None:
    """Whatever a view does by mistake."""
    with pytest.raises(TypeError, match="writes nothing"):
        Readable(MemoryTable()).write(put(("APPROVAL#a", "REQUEST"), {}))


@pytest.mark.parametrize("kind", ["SESSION", "CODE"])
def test_a_broken_session_or_code_opens_nothing(kind: str) -> None:
    """It is no error of ours: whoever has it signs in again."""
    world = stored()
    at = Entrance(world.table, issuer="")
    cookies = at.session("oidc:1", groups=("ops",))
    at.stored.keep_code(
        "secret", Code("arn:aws:iam::1:user/ada", at.clock.now() + timedelta(minutes=1))
    )
    for key, item in world.table.items.items():
        if key[0].startswith(f"{kind}#"):
            world.table.items[key] = {
                name: value for name, value in item.items() if name in ("pk", "sk")
            }
    console = Console(lambda: world.reader, at.doors, VIEWS)

    entered = entrance.ask(console, "/console", "POST", form={"code": "secret"})["statusCode"]
    assert {"SESSION": (401, 200), "CODE": (200, 403)}[kind] == (
        entrance.ask(console, "/", cookies=cookies)["statusCode"],
        entered,
    )
