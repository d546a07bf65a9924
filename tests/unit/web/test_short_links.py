"""The site behind links of today: who it is stands in the table, and the record says when they
end."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.rules.links import EVERYBODY
from governor.core.units import iso
from governor.episode.model.episode import Outcome
from governor.web.responses import Response
from governor.web.site import Request
from tests.builders import NOW, form_token
from tests.unit.web.test_gate import Gated
from tests.unit.web.test_site import ALICE, FIRST, ID, SIGNER, DigestWorld, World

MONTH = timedelta(days=30)
UNTIL = iso(NOW + timedelta(hours=4))


def link_of(world: World, person: str | None, page_id: str = ID) -> str:
    """As the function that sends messages makes it."""
    number = world.state.number_recipient(page_id, person, NOW) if person else EVERYBODY
    return SIGNER.relative(page_id, number)


def get(world: World, link: str, method: str = "GET") -> Response:
    """Opens the page."""
    return world.site.handle(Request(method, "", {}, link=link))


def press(world: World, link: str, answer: str, page_link: str = "", **form: str) -> Response:
    """Presses a button of the page that a link has opened."""
    token = re.search(r'name="csrf" value="([^"]+)"', get(world, page_link or link).body)
    fields = {"csrf": token[1] if token else "", "answer": answer, "losses": "accepted", **form}
    return world.site.handle(Request("POST", "", {}, fields, link=link))


def test_the_link_says_who_decides() -> None:
    """No address is in it; forms lead to itself, and the record names the person."""
    world = World()
    link = link_of(world, ALICE)
    page = get(world, link).body

    assert f'action="{link}"' in page
    assert ("alice" in link, "r=" in link) == (False, False)
    assert (303, link) == ((done := press(world, link, "approve")).status, done.headers["Location"])
    assert "Approved by alice@example.com (mail link)" in get(world, link).body
    assert (200, "") == ((head := get(world, link, "HEAD")).status, head.body)


def test_the_link_of_everybody_proves_nobody() -> None:
    """It keeps, and no more."""
    world = World(may=frozenset({"keep"}))
    link = link_of(world, None)

    assert 403 == press(world, link, "approve").status
    assert ApprovalStatus.PENDING is world.status
    assert 303 == press(world, link, "keep", keep_until=UNTIL).status


def test_a_form_of_one_persons_link_is_none_of_anothers() -> None:
    """Nor is one of a link of an earlier release."""
    world = World(people=2)
    alice, bob = (link_of(world, one) for one in (ALICE, "bob@example.com"))

    assert 403 == press(world, alice, "approve", page_link=bob).status
    earlier = {
        "csrf": form_token(SIGNER, ID, ALICE, NOW),
        "answer": "approve",
        "losses": "accepted",
    }
    assert 403 == world.site.handle(Request("POST", "", {}, earlier, link=alice)).status
    assert ApprovalStatus.PENDING is world.status


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
def test_a_forged_link_reads_nothing_and_says_nothing(method: str) -> None:
    """Also one that is genuine but for another question's id or another recipient's number."""
    world = World()
    link = link_of(world, ALICE)
    reads: list[Any] = []
    world.state.approval = lambda one: reads.append(one)  # type: ignore[assignment, method-assign]
    world.state.numbers = lambda one: reads.append(one) or {}  # type: ignore[assignment, method-assign, func-returns-value]

    for forged in (
        link.replace(".1.", ".2."),
        link.replace(ID, "x" * 22),
        link[:-1],
        f"{ID}.1.{'A' * 22}",
    ):
        refused = get(world, forged, method)
        assert (403, False) == (refused.status, "i-0123456789abcdef0" in refused.body)
    assert [] == reads


def test_a_number_that_nobody_has_is_no_recipient() -> None:
    """The table has forgotten it, or never knew: the link has expired."""
    assert 410 == get(World(), SIGNER.relative(ID, 5)).status


def test_each_recipient_keeps_one_number_for_good() -> None:
    """Whoever comes first, and however often; two pages count for themselves."""
    world = World()
    people = [f"{name}@example.com" for name in "abca"]

    assert [1, 2, 3, 1] == [world.state.number_recipient(ID, one, NOW) for one in people]
    assert 1 == world.state.number_recipient("other", "c@example.com", NOW)
    assert {"a@example.com": 1, "b@example.com": 2, "c@example.com": 3} == world.state.numbers(ID)


def test_a_number_that_has_expired_is_given_to_nobody_else() -> None:
    """DynamoDB drops the oldest first: before, the next number was one in use, and was tried for
    ever."""
    world = World()
    for one in ("a@example.com", "b@example.com"):
        world.state.number_recipient(ID, one, NOW)
    del world.state.items[f"LINK#{ID}", "1"]
    assert 3 == world.state.number_recipient(ID, "c@example.com", NOW)


def test_the_record_says_when_a_link_ends() -> None:
    """The question closes at its time, and is shown for a month more; an answer of then begins
    another."""
    world = World()
    link = link_of(world, ALICE)
    world.clock.moment = NOW + timedelta(hours=24)
    assert (200, 409) == (get(world, link).status, press(world, link, "approve").status)
    assert ApprovalStatus.PENDING is world.status

    world.clock.moment = NOW + timedelta(hours=24) + MONTH
    assert 410 == get(world, link).status

    world = World()
    link = link_of(world, ALICE)
    world.clock.moment = NOW + timedelta(hours=20)
    press(world, link, "approve")
    world.end(Outcome.STOPPED)
    world.clock.moment = NOW + MONTH
    assert "Start it again" in get(world, link).body


def test_a_page_of_several_leads_to_each_by_its_own_short_link() -> None:
    """Links of the same person; a press on one counts as theirs."""
    world = DigestWorld()
    link = link_of(world, ALICE, "digest-1")
    for one in (ID, "other"):
        link_of(world, ALICE, one)
    found = re.findall(r'href="([\w.-]+)"', get(world, link).body)

    assert [ID, "other"] == [SIGNER.check_short(one)[0] for one in found]
    assert [200, 200] == [get(world, one).status for one in found]
    assert 200 == press(world, link, "approve", **FIRST).status
    assert "Approved by alice@example.com" in get(world, found[0]).body


def test_a_sign_in_comes_back_to_the_short_link() -> None:
    """As a path of our own address."""
    gated = Gated()
    link = link_of(gated.world, ALICE)
    page = gated.world.site.handle(Request("GET", "", {}, link=link)).body

    assert f'href="../sign-in?return=%2Fq%2F{link}"' in page
