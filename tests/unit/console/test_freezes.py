"""An admin of all that a freeze holds back ends it, with a fresh sign-in; the next sweep carries
that out."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from governor.console.app import Console
from governor.console.session import caller_of
from governor.console.views.freezes import PATH, end_freeze, freezes
from governor.limits.model.breaker import BreakerState
from governor.policy.document import parse_policy
from tests.builders import NOW
from tests.console_world import TARGETS, ConsoleWorld, make_row
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance

POLICY = (
    parse_policy(
        """
    console:
      scopes:
        all: {groups: [admins], role: admin, everything: true}
        some: {groups: [approvers], role: approver, everything: true}
        own: {groups: [own], role: admin, accounts: ["123456789012"]}
        mixed: {groups: [mixed], role: approver, everything: true}
        mixed-own: {groups: [mixed], role: admin, accounts: ["123456789012"]}
        other: {groups: [others], role: admin, accounts: ["999900001111"]}
        mine: {groups: [mine], role: admin, projects: [vision]}
    """
    )
    .base()
    .policy
)
SINCE = NOW - timedelta(hours=3)
FROZEN = BreakerState(SINCE, "17 of 20 working instances turned idle in one sweep")
HUB, HERE, THERE = "everything", str(TARGETS[0]), str(TARGETS[1])
PLACES = {HUB: None, HERE: TARGETS[0], THERE: TARGETS[1]}


class Site:
    """The page of freezes."""

    def __init__(self, *where: str, **changes: Any) -> None:
        self.known: dict[str, dict[str, str]] = {}
        self.policy = replace(POLICY, **changes)
        self.world = ConsoleWorld(self.policy)
        self.world.keep(make_row(1))
        for one in where:
            target = PLACES[one]
            if target is None:
                self.world.state.begin_hub_freeze(FROZEN)
            else:
                self.world.state.set_breaker(target, FROZEN)
        self.at = Entrance(self.world.table)
        self.at.clock.at = NOW
        posts = {PATH: partial(end_freeze, self.world.state)}
        self.console = Console(lambda: self.world.reader, self.at.doors, {PATH: freezes}, posts)

    def enter(self, group: str) -> dict[str, str]:
        if group not in self.known:
            self.known[group] = self.at.session(
                f"oidc:{group}", f"{group}@example.com", groups=(group,)
            )
        return self.known[group]

    def page(self, group: str) -> str:
        return str(entrance.ask(self.console, PATH, cookies=self.enter(group))["body"])

    def post(
        self, group: str, where: str, cookies: dict[str, str] | None = None, **changes: str
    ) -> int:
        cookies = cookies or self.enter(group)
        known = self.at.doors.known(cookies, self.at.clock.at)
        assert known is not None
        token = self.at.doors.token(PATH, caller_of(self.policy, known))
        form = {"csrf": token, "answer": "end-freeze", "where": where, "since": SINCE.isoformat()}
        answered = entrance.ask(self.console, PATH, "POST", cookies=cookies, form=form | changes)
        return int(answered["statusCode"])

    def ended_by(self, where: str) -> str | None:
        return self.world.state.freeze_end_requested_by(PLACES[where], FROZEN)


def test_the_page_shows_what_the_last_60_minutes_used_of_the_caps() -> None:
    """Those who see everything see all of it; others their own accounts, and no owner of another
    one."""
    site = Site()
    account = TARGETS[0].account
    caps = {"ORGANIZATION": 9, f"ACCOUNT#{account}": 9, "ACCOUNT#999900001111": 9, "OWNER#<ml>": 9}
    for name, minutes in (("a", 59), ("b", 1), ("c", 90)):
        assert (
            site.world.state.reserve(name, "stop", caps, NOW - timedelta(minutes=minutes), "x")
            is None
        )

    whole = site.page("admins")
    assert "Stops and terminations in the last 60 minutes" in whole
    most = POLICY.caps
    for what, cap in (
        ("all accounts", most.organization_actions_per_hour),
        (f"account {account}", most.account_actions_per_hour),
        ("account 999900001111", most.account_actions_per_hour),
        ("owner &lt;ml&gt;", most.owner_actions_per_hour),
    ):
        row = f'>{what}</bdi></th><td class="number">2</td><td class="number">{cap}</td>'
        assert row in whole
    own = site.page("own")
    assert f"account {account}" in own
    assert all(other not in own for other in ("all accounts</bdi>", "999900001111", "owner"))
    assert "in the last 60 minutes" not in site.page("mine")


@pytest.mark.parametrize(
    ("group", "where", "status"),
    [
        ("admins", HUB, 303),
        ("admins", THERE, 303),
        ("own", HERE, 303),
        ("mixed", HERE, 303),
        # An admin of one account does not end what holds all others back, too.
        ("own", HUB, 403),
        ("mixed", HUB, 403),
        ("mixed", THERE, 403),
        ("approvers", HERE, 403),
        ("mine", HERE, 403),
        ("mine", HUB, 403),
        ("own", THERE, 404),
        ("others", HERE, 404),
        ("nobody", HUB, 403),
    ],
)
def test_only_an_admin_of_all_that_it_holds_back_ends_it(
    group: str, where: str, status: int
) -> None:
    """The page offers the button to nobody else."""
    site = Site(HUB, HERE, THERE)

    assert (f'value="{where}"' in site.page(group)) == (status == 303)
    assert status == site.post(group, where)
    assert (f"oidc:{group}@example.com" if status == 303 else None) == site.ended_by(where)


def test_the_page_says_who_ended_it_and_takes_no_second_answer() -> None:
    site = Site(HUB)
    assert "17 of 20 working instances" in site.page("admins")
    assert 303 == site.post("admins", HUB)
    assert "</bdi> has ended it" in site.page("approvers")
    assert 409 == site.post("admins", HUB)
    (note,) = [item for key, item in site.world.table.items.items() if key[0].startswith("ENDED#")]
    assert ("freeze ended", "oidc:admins@example.com", FROZEN.why) == (
        note["what"],
        note["by"],
        note["why"],
    )


def test_who_ended_it_is_for_those_who_see_all_that_it_holds_back() -> None:
    site = Site(HERE)
    assert 303 == site.post("own", HERE)
    assert "own@example.com" in site.page("approvers")
    assert "An admin</bdi> has ended it" in site.page("mine")
    assert "own@example.com" not in site.page("mine")


def test_only_the_freeze_that_the_page_showed_ends() -> None:
    """One that began since is another one: nobody has looked for its cause."""
    site = Site(HERE)
    later = replace(FROZEN, tripped_at=NOW)
    site.world.state.set_breaker(TARGETS[0], later)

    assert 409 == site.post("admins", HERE)
    assert site.world.state.freeze_end_requested_by(TARGETS[0], later) is None


def test_an_old_sign_in_and_a_forged_form_end_nothing() -> None:
    site = Site(HUB)
    cookies = site.enter("admins")
    assert 403 == site.post("admins", HUB, cookies, csrf="forged")
    assert 400 == site.post("admins", HUB, cookies, answer="")
    site.at.clock.at += timedelta(minutes=15)
    assert 403 == site.post("admins", HUB, cookies)
    assert site.ended_by(HUB) is None


def test_where_the_policy_asks_for_two_people_one_ends_nothing() -> None:
    site = Site(HUB, two_people_for_policy=True)
    assert 'name="where"' not in site.page("admins")
    assert 403 == site.post("admins", HUB)
    assert site.ended_by(HUB) is None


def test_reasons_are_for_those_who_see_all_that_they_count() -> None:
    site = Site(HUB, HERE)
    assert 2 == site.page("admins").count("17 of 20")
    assert 1 == site.page("own").count("17 of 20")
    assert "17 of 20" not in site.page("mine")
    assert 2 == site.page("mine").count("frozen</h2>")


def test_what_the_policy_has_lifted_is_gone() -> None:
    lifted = replace(POLICY.breaker, lift_freezes_before=(NOW - timedelta(hours=1)).isoformat())
    assert "Nothing that you can see is frozen" in Site(HUB, HERE, breaker=lifted).page("admins")


@pytest.mark.parametrize(
    ("group", "where", "said"),
    [
        ("approvers", HUB, "An admin of everything can end it here: group admins."),
        ("approvers", HERE, "An admin of this account can end it here: group admins, group mixed"),
        # Names are for those who see all that is frozen.
        ("mine", HUB, "An admin of everything can end it here."),
    ],
)
def test_the_page_says_which_people_of_the_policy_can_end_a_freeze(
    group: str, where: str, said: str
) -> None:
    """And not only that an admin can."""
    assert said in Site(where).page(group)


def test_without_an_admin_the_page_says_what_ends_a_freeze_instead() -> None:
    """Nobody can end it there, so it does not promise that somebody can."""
    no_admins = {
        name: scope for name, scope in POLICY.console.scopes.items() if scope.role != "admin"
    }
    page = Site(HUB, console=replace(POLICY.console, scopes=no_admins)).page("approvers")

    assert "so nobody can end it here" in page
    assert "breaker.lift_freezes_before" in page
    assert "An admin of everything" not in page
