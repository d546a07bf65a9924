"""Whatever one tenant asks for, it answers the same whether or not there is another one.

That is more than that no foreign name appears: no sum, count, order or page may depend on what is
foreign.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple

import pytest

from governor.approvals.decide import Decide
from governor.approvals.pause import PauseAll
from governor.approvals.rules.answers import hold_hash
from governor.console.app import Console, Post
from governor.console.session import ConsoleSessions, caller_of
from governor.console.views.freezes import PATH
from governor.core.instance import Target
from governor.episode.model.episode import Failing
from governor.fleet.model import UNGOVERNED, FleetRow, Share
from governor.limits.model.breaker import BreakerState
from governor.policy.document import parse_policy
from governor.table.table import Document, Key
from governor.verdict.model import Hold
from governor.wiring.console import VIEWS, forms
from tests.builders import NOW, make_entry
from tests.console_world import TARGETS, ConsoleWorld, asked, make_episode, make_row
from tests.twins.services import FakeClock, MemoryWorkflow, RecordingAnnouncer, RecordingUndoer
from tests.twins.stores import EveryEventStore
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance

POLICY = (
    parse_policy(
        f"""
    targets:
      accounts: ["{TARGETS[0].account}", "{TARGETS[1].account}"]
      regions: [us-east-1, eu-west-1]
    budget: {{projects: {{vision: 5000, llm: 7000}}}}
    ownership:
      contacts:
        ml-team: {{emails: [own@example.com]}}
        research: {{emails: [foreign@example.com]}}
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
EXEMPT = Hold(exempt_reason="a demo (oidc:own@example.com)")
FROZEN = BreakerState(NOW - timedelta(hours=3), "77.77 of 7777 instances turned idle in one sweep")
WHO: dict[str, dict[str, Any]] = {
    "account": {"groups": ("account",)},
    "project": {"groups": ("project",)},
    "contact": {"email": "own@example.com"},
}


def rows_of(target: int, first: int, **of: str) -> list[FleetRow]:
    """Three instances, two of which are asked about."""
    where = TARGETS[target]
    plain = [
        make_row(
            number, name=f"{of['owner']}-{number}", account=where.account, region=where.region, **of
        )
        for number in range(first, first + 3)
    ]
    price = Decimal("1.006") if of == OWN else Decimal("77.77")
    rows = [replace(row, usd_per_hour=price) for row in plain]
    without_tag = replace(
        rows[0], instance_id=f"i-{first:017x}0", name=f"{of['owner']}-loose", verdict=UNGOVERNED
    )
    return [asked(rows[0], left=9), asked(rows[1], left=5), rows[2], without_tag]


class Site(NamedTuple):
    """The console, and a session of a tenant in it."""

    console: Console
    cookies: dict[str, str]
    doors: ConsoleSessions

    def ask(self, address: str, **more: Any) -> dict[str, Any]:
        return entrance.ask(self.console, address, cookies=self.cookies, **more)

    def send(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        """Send a form with its session's token, which whoever forges one has."""
        known = self.doors.known(self.cookies, NOW)
        assert known is not None
        form = {**form, "csrf": self.doors.token(path, caller_of(POLICY, known))}
        return self.ask(path, method="POST", form=form)


def site(
    who: str, *, alone: bool, world: ConsoleWorld | None = None, readable: bool = False
) -> Site:
    """The console for a tenant, `alone` or beside another one, whose records are broken if not
    `readable`."""
    if world is None:
        world = ConsoleWorld(POLICY)
        world.table.items.update(deepcopy(kept_items(who, alone=alone, readable=readable)))
    else:
        keep_everything(world, who, alone=alone, readable=readable)
    at = Entrance(world.table)
    at.clock.at = NOW
    console = Console(lambda: world.reader, at.doors, VIEWS, forms_of(world))
    return Site(console, at.session("oidc:1", **WHO[who]), at.doors)


@cache
def kept_items(who: str, *, alone: bool, readable: bool) -> dict[Key, Document]:
    """Return the items of such a world. Callers get copies: to write them anew takes longer."""
    world = ConsoleWorld(POLICY)
    keep_everything(world, who, alone=alone, readable=readable)
    return world.table.items


def keep_everything(world: ConsoleWorld, who: str, *, alone: bool, readable: bool) -> None:
    """Write what the stack has stored about the tenant, and about the other one if not `alone`."""
    # Whose scope is an account must not see the other account; the others not even within their
    # own.
    foreign = rows_of(1, 11, **FOREIGN) + ([] if who == "account" else rows_of(0, 21, **FOREIGN))
    rows = rows_of(0, 1, **OWN) + ([] if alone else foreign)
    world.keep(*rows)
    for row in rows:
        price, days = (
            Decimal(row.usd_per_hour or 0),
            timedelta(days=int(row.instance_id[-2:], 16) % 9 + 1),
        )
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
        EveryEventStore(world.table).note_known(where, [fault], NOW + timedelta(hours=1))
        failing = Failing(where, row.instance_id, row.name, "denied", failed, "stop", NOW)
        world.state.note_failing(replace(failing, owner=row.owner, project=row.project))
    for back in range(40):
        for target in TARGETS:
            shares = (
                {("ml-team", "vision"): Share(Decimal(50), Decimal(9))}
                if target is TARGETS[0]
                else {}
            )
            if not alone and (target is TARGETS[1] or who != "account"):
                shares[("research", "llm")] = Share(Decimal(7777), Decimal(777))
            world.spend((NOW - timedelta(days=back)).date(), shares, target)
        world.state.store_hold(where, row.instance_id, EXEMPT)
    if not alone:
        world.state.set_breaker(TARGETS[1], FROZEN)
    for row in [] if alone or readable else foreign:
        broken(world, row)


def forms_of(world: ConsoleWorld) -> Mapping[str, Post]:
    clock = FakeClock(NOW)
    announcer = RecordingAnnouncer()
    seal = world.state.seals.answers
    decide = Decide(
        episode_store=world.state,
        approval_store=world.state,
        hold_store=world.state,
        instance_store=world.state,
        workflow=MemoryWorkflow(),
        clock=clock,
        announcer=announcer,
        policies_now=lambda: parse_policy(""),
        answer_seal=seal,
    )
    pause_all = PauseAll(world.state, clock, announcer, TARGETS[0])
    return forms(decide, RecordingUndoer(), world.state, pause_all)


def broken(world: ConsoleWorld, row: FleetRow) -> None:
    """Leave no record of this instance readable."""
    for key, item in world.table.items.items():
        if row.instance_id in f"{key} {item}" and key[0].partition("#")[0] != "FLEET":
            kept = {
                name: value
                for name, value in item.items()
                if name in ("pk", "sk", "expires_at_epoch")
            }
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
    return [
        *found,
        "/overview.csv",
        *(f"{one}?owner={row.owner}&q=" for one in ("/fleet", "/questions")),
    ]


MINE, THEIRS = rows_of(0, 1, **OWN)[0], rows_of(1, 11, **FOREIGN)[0]
NAMED = [one for one in addresses(THEIRS) if THEIRS.instance_id in one or "/questions/" in one]
FORMATS = {"html": {"accept": "text/html"}, "json": {"accept": "application/json"}}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("address", addresses(MINE))
def test_an_answer_does_not_depend_on_other_tenants(address: str, who: str, form: str) -> None:
    found = site(who, alone=False).ask(address, headers=FORMATS[form])
    wanted = site(who, alone=True).ask(address, headers=FORMATS[form])

    assert (200, wanted["body"]) == (found["statusCode"], found["body"])
    for name in ("research", "llm", "foreign@", THEIRS.instance_id, "77.77", "7777", "7,777"):
        assert name not in found["body"]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(
    "address",
    [one for one in addresses(THEIRS) if THEIRS.instance_id in one or "questions/" in one],
)
def test_what_is_out_of_scope_is_not_found(address: str, who: str) -> None:
    """As if it did not exist."""
    found, wanted = (site(who, alone=alone).ask(address) for alone in (False, True))
    assert (404, wanted["body"]) == (found["statusCode"], found["body"])


def filled_in(row: FleetRow) -> list[tuple[str, dict[str, str]]]:
    """Each form of the console, by its path, with what it says about this row."""
    question, where = f"/questions/{row.approval_id}", Target(row.account, row.region)
    said = {"reason": "mine", "losses": "accepted", "typed_instance_id": row.instance_id}
    picked = {f"pick-{row.approval_id}": "yes"}
    answers = ("approve", "keep", "exempt")
    return [
        *((question, {**said, "answer": one}) for one in (*answers, "undo", "end-keep")),
        *(("/questions", {**said, **picked, "answer": one}) for one in answers),
        (
            f"/instances/{row.account}/{row.region}/{row.instance_id}",
            {"answer": "end-hold", "hold": hold_hash(EXEMPT)},
        ),
        (
            PATH,
            {"answer": "end-freeze", "where": str(where), "since": FROZEN.tripped_at.isoformat()},
        ),
    ]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize(("path", "form"), filled_in(THEIRS))
def test_a_form_about_what_is_out_of_scope_does_nothing(
    path: str, form: dict[str, str], who: str
) -> None:
    """Not found, as if it did not exist; nothing is written, not even about one's own ticked
    beside."""
    world = ConsoleWorld(POLICY)
    full, alone = site(who, alone=False, world=world, readable=True), site(who, alone=True)
    form = {**form, **({f"pick-{MINE.approval_id}": "yes"} if path == "/questions" else {})}
    before = deepcopy(world.table.items)

    found, wanted = full.send(path, form), alone.send(path, form)

    assert (404, wanted["body"]) == (found["statusCode"], found["body"])
    assert before == world.table.items


def test_every_form_is_tried_from_outside() -> None:
    """Those above are all that the console takes."""
    assert len(forms_of(ConsoleWorld(POLICY))) == len({path for path, _ in filled_in(THEIRS)})


@pytest.mark.parametrize("who", ["project", "contact"])
def test_what_was_said_of_an_instance_in_another_project_stays_there(who: str) -> None:
    """A tag has moved it: neither the question nor the reason of its exemption moves along."""
    world = ConsoleWorld(POLICY)
    place = site(who, alone=False, world=world, readable=True)
    where = TARGETS[0]
    moved = replace(
        THEIRS,
        account=where.account,
        region=where.region,
        owner=OWN["owner"],
        project=OWN["project"],
    )
    episode = make_episode(moved, owner="research", project="llm", approval_id="foreign-question")
    world.state.take_lock(episode.ref)
    world.state.save_opened(episode)
    world.state.await_answer(episode.approval_id, "token", "ask", NOW + timedelta(hours=9))
    said = Hold(exempt_reason="merger with Acme (oidc:foreign@example.com)", exempt_in="llm")
    world.state.store_hold(TARGETS[0], moved.instance_id, said)
    name = episode.ref.execution_name
    world.keep(replace(moved, episode=name, approval_id="foreign-question", exempt=True))
    for address in (*addresses(moved)[:6], "/questions"):
        for form in FORMATS.values():
            body = place.ask(address, headers=form)["body"]
            for name in ("Acme", "foreign@", "foreign-question", "left. Open"):
                assert name not in body, (address, name)
    page = place.ask(f"/instances/{moved.account}/{moved.region}/{moved.instance_id}")
    assert (200, True) == (page["statusCode"], "by somebody of another project" in page["body"])
