"""The Questions page: nothing is ticked, terminations stand apart, and answers are those of the
links."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from unittest import mock

import pytest

from governor.approvals.model.approval import Answer, ApprovalStatus
from governor.approvals.show_approval import ApprovalView, by_price
from governor.console.session import caller_of
from governor.core.units import iso, usd
from governor.episode.model.episode import EpisodeEnding, Outcome, Phase, Terms
from governor.episode.model.plan import Price
from tests.builders import NOW
from tests.twins import table
from tests.unit.console.asking import OTHER, POLICY, Site, episode_of
from tests.unit.console.entrance import token
from tests.unit.web.test_site import World as LinkWorld
from tests.unit.worlds.builders import decision
from tests.unit.worlds.world import APPROVAL_ID, World


def test_a_question_has_the_navigation_of_the_console_inside_a_session_alone() -> None:
    """The holder of a link has no session, and so no way to the other pages."""
    site = Site()
    cookies = site.cookies()
    page = site.ask(f"/questions/{APPROVAL_ID}", cookies=cookies)["body"]
    of_all = site.ask(cookies=cookies)["body"]

    addresses = re.findall(r'<a href="(/[a-z]*)"', of_all)[:8]
    assert {"/", "/fleet", "/questions"} < set(addresses)
    assert addresses == re.findall(r'<a href="(/[a-z]*)"', page)[:8]
    assert '<a href="/questions" aria-current="true">Questions (2)</a>' in page
    assert '<a href="/questions" aria-current="page">Questions (2)</a>' in of_all
    assert 'action="/sign-out"' in page
    linked = LinkWorld().get().sent
    assert "<header" not in linked
    assert 'href="/fleet"' not in linked


def test_nothing_is_ticked_and_terminations_stand_apart() -> None:
    site = Site()
    page = site.ask(cookies=site.cookies())["body"]

    boxes = re.findall(r'<input[^>]* name="pick-([^"]+)"[^>]*>', page)
    assert ([APPROVAL_ID], " checked>" in page) == (boxes, False)
    assert "trainer" in page.split('id="apart"')[1]
    assert f'href="/questions/{OTHER}"' in page
    assert "2 open questions" in page


def test_of_one_price_the_question_with_the_least_time_left_comes_first() -> None:
    """On the page of a message's link, too."""
    world = World(decide=False, phase=Phase.ASKING)
    view = ApprovalView(world.state.existing(APPROVAL_ID), episode_of(world), NOW)
    sooner, later = (
        replace(view, approval=replace(view.approval, answer_by=NOW + timedelta(hours=hours)))
        for hours in (3, 15)
    )
    price = Price(Decimal(9000), "list price")
    dear = replace(later, episode=replace(later.episode, price=price))

    assert [dear, sooner, later] == by_price([later, sooner, dear])


def test_all_of_an_owner_are_selected_without_a_script() -> None:
    site = Site()
    owner = site.episodes[APPROVAL_ID].owner
    cookies = site.cookies()

    def ticks(query: str, site_of_link: str | None = "same-origin") -> bool:
        headers = {"sec-fetch-site": site_of_link} if site_of_link else {}
        return (
            " checked>" in site.ask(f"/questions?{query}", cookies=cookies, headers=headers)["body"]
        )

    assert ticks(f"owner={owner}&select={owner}")
    assert not ticks("owner=somebody&select=somebody")
    # A link ticks nothing: neither one that shows all owners, nor one from anywhere else.
    assert not ticks(f"select={owner}")
    assert not ticks("owner=&select=")
    for elsewhere in ("cross-site", "same-site", "none", None):
        assert not ticks(f"owner={owner}&select={owner}", elsewhere)


def test_the_questions_of_a_project_are_a_list_of_their_own() -> None:
    """The number on the page of the project leads there."""
    site = Site()
    cookies = site.cookies()
    project = site.episodes[APPROVAL_ID].project

    def listed(query: str) -> str:
        return str(site.ask(f"/questions?{query}", cookies=cookies)["body"])

    assert f"pick-{APPROVAL_ID}" in listed(f"project={project}")
    assert f"pick-{APPROVAL_ID}" not in listed("project=other")
    assert "No open question for <bdi>other</bdi>." in listed("project=other")


def test_what_is_ticked_is_answered_in_the_name_of_the_session() -> None:
    site = Site()
    answered = site.post(
        site.cookies(), answer="keep", keep_until="", **{f"pick-{APPROVAL_ID}": "yes"}
    )

    said = answered["body"].replace("</a></strong>", "")
    assert f'<li><strong><a href="/questions/{APPROVAL_ID}">' in said
    assert (200, True) == (
        answered["statusCode"],
        ": Recorded: kept until Sat\u00a009:00\u00a0UTC." in said,
    )
    stored = site.world.state.approval(APPROVAL_ID)
    assert stored is not None
    assert stored.decision is not None
    assert (Answer.KEEP, "oidc:alice@example.com", "console") == (
        stored.decision.answer,
        stored.decision.by,
        stored.decision.channel,
    )
    assert site.status(OTHER) is ApprovalStatus.PENDING


def test_no_form_about_several_terminates() -> None:
    """Also where the id is typed into a field that the page does not have."""
    site = Site()
    typed = site.episodes[OTHER].ref.instance_id
    form = {
        "answer": "approve",
        "losses": "accepted",
        "typed_instance_id": typed,
        f"pick-{OTHER}": "yes",
    }
    answered = site.post(site.cookies(), **form)
    stored = site.world.state.approval(OTHER)
    assert stored is not None
    assert (None, ApprovalStatus.PENDING) == (stored.first_yes, stored.status)
    assert "Not recorded: a termination is answered on its own page" in answered["body"]


def test_a_list_with_a_stop_button_holds_what_the_caller_may_stop() -> None:
    """Others, which the caller may only keep, stand apart; if all are such, there is no button."""
    site = Site()
    site.ask_more(1)
    keeps_only = Terms(frozenset({"keep"}), 1, frozenset(), frozenset({"keep"}))
    cookies = site.cookies()

    def listed() -> tuple[list[str], bool]:
        page = site.ask(cookies=cookies)["body"]
        boxes = re.findall(r'<input[^>]* name="pick-([^"]+)"[^>]*>', page)
        return sorted(boxes), 'value="approve"' in page

    assert ([APPROVAL_ID, "question-0"], True) == listed()
    site.world.state.put(replace(site.episodes[APPROVAL_ID], terms=keeps_only))
    assert (["question-0"], True) == listed()
    assert f'href="/questions/{APPROVAL_ID}"' in site.ask(cookies=cookies)["body"]
    site.world.state.put(replace(site.episodes["question-0"], terms=keeps_only))
    assert ([APPROVAL_ID, "question-0"], False) == listed()


def test_answers_to_fifty_read_whose_they_are_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is decided by itself all the same, on what is stored then; what became of messages is
    not read."""
    site = Site()
    site.ask_more(48)
    cookies, calls = site.cookies(), Counter[tuple[str, str]]()
    site.world.state.settle("question-7", decision(Answer.APPROVE))
    monkeypatch.setattr(
        table, "ASKED", [lambda action, pk: calls.update([(action, pk.partition("#")[0])])]
    )
    answered = site.post(cookies, answer="keep", **{f"pick-{one}": "yes" for one in site.episodes})

    said = answered["body"].replace("</a></strong>", "")
    assert (200, 49, 1) == (
        answered["statusCode"],
        said.count(": Recorded: kept until"),
        said.count(": On hold: nothing more is done to it. It is kept until"),
    )
    assert 0 == calls["dynamodb:Query", "DELIVERIES"]
    assert all(site.status(one) is not ApprovalStatus.PENDING for one in site.episodes)


def test_what_was_answered_is_listed_and_counted_no_more() -> None:
    """At once, and not from the next sweep on: whoever stops one sees that it is gone."""
    site = Site()
    cookies = site.cookies()
    before = site.ask(cookies=cookies)["body"]
    site.post(cookies, answer="keep", **{f"pick-{APPROVAL_ID}": "yes"})
    after = site.ask(cookies=cookies)["body"]

    assert ("Questions (2)" in before, "Questions (1)" in after) == (True, True)
    assert f"/questions/{APPROVAL_ID}" not in after


def test_a_form_answers_one_page_of_them() -> None:
    site = Site()
    picked = {f"pick-{number}": "yes" for number in range(51)}
    answered = site.post(site.cookies(), answer="keep", **picked)
    assert (400, True) == (
        answered["statusCode"],
        "Select at most 50 of them at once." in answered["body"],
    )


def test_the_csv_has_the_questions_of_all_pages() -> None:
    """In the order of the pages; JSON stays a page."""
    site = Site()
    site.ask_more(120)
    cookies = site.cookies()
    lines = site.ask("/questions.csv", cookies=cookies)["body"].splitlines()
    page = json.loads(site.ask(cookies=cookies, headers={"accept": "application/json"})["body"])

    ids = [line.partition(",")[0] for line in lines[1:]]
    assert (122, 122, 50) == (len(ids), len(set(ids)), len(page["questions"]))
    assert ids[:50] == [one["id"] for one in page["questions"]]
    mine = site.ask("/questions.csv?owner=research", cookies=cookies)["body"].splitlines()
    assert 40 == len(mine) - 1
    assert all("research" in line for line in mine[1:])


def test_only_what_is_listed_is_counted() -> None:
    """A question stays whose it was when it was asked; a tag gives the instance alone to others."""
    site = Site()
    for key, episode in site.episodes.items():
        site.episodes[key] = replace(episode, owner="web")
    site.sweep()
    page = site.ask(cookies=site.cookies("nobody", "bob@example.com"))["body"]
    assert "No question waits" in page
    assert not re.search(r"Questions \([1-9]", page)


def test_a_record_leads_with_its_outcome_and_what_it_saves() -> None:
    """In the words of the message and of a link's page; the question says until when it was
    measured."""
    site = Site()
    cookies, own = site.cookies(), f"/questions/{APPROVAL_ID}"
    asked = site.ask(own, cookies=cookies)["body"]
    assert "Stop it?</h1>" in asked
    assert "Measured until Fri\u00a012:00\u00a0UTC." in asked

    site.post(cookies, own, answer="approve", losses="accepted")
    assert "<h1>Stopping notebook: approved</h1>" in site.ask(own, cookies=cookies)["body"]
    episode = episode_of(site.world)
    done = {"stop": NOW}
    site.world.state.put(
        replace(
            episode,
            ending=EpisodeEnding(Outcome.STOPPED, "approved", NOW, Outcome.STOPPED),
            progress=replace(episode.progress, steps_done=done),
        )
    )
    record = site.ask(own, cookies=cookies)["body"]
    assert "<h1>notebook is stopped, which saves $24/day</h1>" in record
    assert "Approved by alice@example.com" in record


def test_a_termination_needs_its_id_on_its_own_page() -> None:
    site = Site()
    cookies = site.cookies()
    both = {f"pick-{one}": "yes" for one in site.episodes}
    answered = site.post(cookies, answer="approve", losses="accepted", **both)
    assert "a termination is answered on its own page" in answered["body"]
    assert (ApprovalStatus.APPROVED, ApprovalStatus.PENDING) == (site.status(), site.status(OTHER))

    own = f"/questions/{OTHER}"
    wrong = site.post(cookies, own, answer="approve", losses="accepted", typed_instance_id="i-1")
    assert (400, ApprovalStatus.PENDING) == (wrong["statusCode"], site.status(OTHER))
    typed = site.episodes[OTHER].ref.instance_id
    for who, status in (
        (cookies, ApprovalStatus.PENDING),
        (cookies, ApprovalStatus.PENDING),
        (site.cookies(email="bob@example.com"), ApprovalStatus.APPROVED),
    ):
        right = site.post(who, own, answer="approve", losses="accepted", typed_instance_id=typed)
        assert (303, status) == (right["statusCode"], site.status(OTHER))


def test_a_viewer_changes_nothing() -> None:
    """There is no form; and one of somebody else's page is refused, and kept for the audit."""
    site = Site()
    cookies = site.cookies("eyes", "eve@example.com")
    page = site.ask(cookies=cookies)["body"]
    assert ('type="checkbox"' in page, 'action="/questions"' in page) == (False, False)

    known = site.at.doors.known(cookies, NOW)
    assert known is not None
    csrf = site.at.doors.token("/questions", caller_of(POLICY, known))
    form = {"csrf": csrf, "answer": "keep", f"pick-{APPROVAL_ID}": "yes"}
    answered = site.ask("/questions", "POST", cookies=cookies, form=form)
    assert "you may look at it" in answered["body"]
    assert site.status() is ApprovalStatus.PENDING
    assert any(key[1].startswith("REFUSED#") for key in site.table.items)


@pytest.mark.parametrize("group", ["other", "nobody"])
def test_out_of_scope_nothing_is_seen_nor_answered(group: str) -> None:
    site = Site()
    cookies = site.cookies(group, "eve@example.com")
    page = site.ask(cookies=cookies)
    assert "trainer" not in page["body"]
    if group == "other":
        assert "No question waits" in page["body"]
        assert site.ask(f"/questions/{OTHER}", cookies=cookies)["statusCode"] == 404
        assert site.ask("/questions/unknown", cookies=cookies)["statusCode"] == 404


@pytest.mark.parametrize("csrf", ["", "k1.x", "of another session"])
def test_a_form_of_another_session_or_page_is_refused(csrf: str) -> None:
    site = Site()
    cookies, other = site.cookies(), site.cookies("ops", "bob@example.com")
    if csrf == "of another session":
        csrf = token(site.ask(cookies=other)["body"], "/questions")
    form = {"csrf": csrf, "answer": "keep", f"pick-{APPROVAL_ID}": "yes"}
    refused = site.ask("/questions", "POST", cookies=cookies, form=form)
    assert refused["statusCode"] == 403
    assert '<a href="/questions">Back to the page as it is now</a>' in refused["body"]
    assert site.status() is ApprovalStatus.PENDING


def test_the_documents_are_those_of_the_command_line_and_name_nobody_else() -> None:
    site = Site()
    cookies = site.cookies()
    found = json.loads(site.ask(cookies=cookies, headers={"accept": "application/json"})["body"])
    table = site.ask("/questions.csv", cookies=cookies)["body"].splitlines()

    assert [OTHER, APPROVAL_ID] == [one["id"] for one in found["questions"]]
    assert [OTHER, APPROVAL_ID] == [line.partition(",")[0] for line in table[1:]]
    assert "@" not in json.dumps(found)
    assert "token" not in json.dumps(found)


@pytest.mark.parametrize("page", ["0", "2", "x", "-1", "9" * 400, "000000001" + "0" * 5000])
def test_a_page_that_does_not_exist_is_said(page: str) -> None:
    site = Site()
    assert site.ask(f"/questions?page={page}", cookies=site.cookies())["statusCode"] == 400


def test_fifty_rows_a_page_and_ten_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many questions are open: those that are shown are read in one batch."""
    site = Site()
    site.ask_more(120)
    cookies = site.cookies()
    spies = [mock.Mock(wraps=getattr(site.table, name)) for name in ("get", "get_all", "query")]
    for name, spy in zip(("get", "get_all", "query"), spies, strict=True):
        monkeypatch.setattr(site.table, name, spy)

    pages = [site.ask(f"/questions?page={number}", cookies=cookies)["body"] for number in (1, 2, 3)]

    assert [49, 50, 22] == [page.count('name="pick-') for page in pages]
    assert sum(spy.call_count for spy in spies) <= 3 * 10
    assert "122 open questions" in pages[0]
    # Of all pages, as the number of questions is.
    prices = [episode.price.usd_per_hour or 0 for episode in site.episodes.values()]
    assert f"Together {usd(Decimal(sum(prices)) * 24)} a day" in pages[1]


def test_who_kept_it_ends_that_on_its_record() -> None:
    """As by the link. What somebody else kept, only admins end, on the page of the instance."""
    site, own = Site(), f"/questions/{APPROVAL_ID}"
    alice, bob, eve = (
        site.cookies(),
        site.cookies(email="bob@example.com"),
        site.cookies("eyes", "alice@example.com"),
    )
    site.post(alice, own, answer="keep", keep_until=iso(NOW + timedelta(hours=4)))
    ref = site.episodes[APPROVAL_ID].ref

    def end(cookies: Mapping[str, str]) -> tuple[int, bool]:
        known = site.at.doors.known(cookies, NOW)
        assert known is not None
        form = {"csrf": site.at.doors.token(own, caller_of(POLICY, known)), "answer": "end-keep"}
        status = site.ask(own, "POST", cookies=cookies, form=form)["statusCode"]
        return status, site.world.state.record(
            ref.target, ref.instance_id
        ).hold.snoozed_until is not None

    shown = ["End this keep" in site.ask(own, cookies=one)["body"] for one in (alice, bob, eve)]
    assert [True, False, False] == shown
    assert (403, True) == end(bob) == end(eve)
    assert (303, False) == end(alice)
    assert "End this keep" not in site.ask(own, cookies=alice)["body"]
    assert (409, False) == end(alice)


def test_a_name_that_owns_no_open_question_is_not_said_to_be_all() -> None:
    """The page says what waits for others, and leads there; not that nothing waits."""
    site = Site()
    page = site.ask("/questions?owner=nobody", cookies=site.cookies())["body"]

    assert "No question waits for an answer" not in page
    assert "No open question for <bdi>nobody</bdi>." in page
    assert '<a href="/questions">Show all 2</a>' in page
