"""An instance that GPU Governor has stopped is started again from the console, as from a link."""

from __future__ import annotations

from dataclasses import replace

import pytest

from governor.approvals.model.approval import Answer
from governor.console.session import caller_of
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Unavailable
from governor.episode.model.episode import Outcome
from governor.episode.ports import UndoAnswer
from governor.fleet.model import FleetPage
from governor.money.model.ledger import Ending
from governor.table import keys
from governor.table.table import update
from tests.builders import NOW, TARGET
from tests.unit.aws.state_samples import entry
from tests.unit.console.asking import POLICY, Site
from tests.unit.worlds.builders import decision
from tests.unit.worlds.world import APPROVAL_ID

OWN = f"/questions/{APPROVAL_ID}"
BUTTON = "Start it again"


def stopped(outcome: Outcome = Outcome.STOPPED) -> Site:
    """The site after the first question was answered yes and carried out; no sweep lists the
    instance."""
    site = Site()
    today = {"broadcast_may": ["keep"], "tag_owner_may": ["keep"], "cli_may": ["keep"]}
    site.table.write(update(keys.episode(ref_of(site)), today))
    site.world.state.settle(APPROVAL_ID, decision(Answer.APPROVE))
    ref = ref_of(site)
    site.world.state.note_step(ref, "stop", NOW)
    booked = replace(
        entry(), episode=ref, outcome=outcome, owner="ml", project="vision", booked_at=NOW
    )
    site.world.state.close_episode(
        ref, outcome, "as approved", NOW, quiet_until=None, became=outcome, ledger=booked
    )
    site.world.state.keep_page(FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, ()))
    return site


def ref_of(site: Site) -> EpisodeRef:
    return site.episodes[APPROVAL_ID].ref


def instance_of(site: Site) -> str:
    ref = ref_of(site)
    return f"/instances/{ref.account}/{ref.region}/{ref.instance_id}"


def press(site: Site, cookies: dict[str, str], **changed: str) -> int:
    """Send the form, whether or not the page offers it; return the status."""
    known = site.at.doors.known(cookies, NOW)
    assert known is not None
    form = {"csrf": site.at.doors.token(OWN, caller_of(POLICY, known)), "answer": "undo", **changed}
    return int(site.ask(OWN, "POST", cookies=cookies, form=form)["statusCode"])


def refused(site: Site) -> list[str]:
    return [
        str(item["by"])
        for (_, sk), item in site.table.items.items()
        if sk.startswith("REFUSED#undo")
    ]


@pytest.mark.parametrize("page", ["question", "instance"])
def test_a_stop_is_undone_on_both_pages(page: str) -> None:
    """By the form that stands there, and the use case of the links; then the record says who
    did."""
    site = stopped()
    cookies = site.cookies()
    body = site.ask(OWN if page == "question" else instance_of(site), cookies=cookies)["body"]
    assert 1 == body.count(BUTTON)
    assert page == "question" or "<dt>Stopped</dt><dd>Fri\u00a012:02\u00a0UTC</dd>" in body
    assert "It costs $24 a day again while it runs." in body
    assert '<button name="answer" value="undo">Start it: $24 a day</button>' in body
    csrf = body.split(f'action="{OWN}"')[1].split('name="csrf" value="')[1].split('"')[0]

    answered = site.ask(OWN, "POST", cookies=cookies, form={"csrf": csrf, "answer": "undo"})

    assert (303, OWN) == (answered["statusCode"], answered["headers"]["Location"])
    assert [(ref_of(site), "oidc:alice@example.com", "console")] == site.undoer.asked
    site.world.state.note_undo(ref_of(site), "oidc:alice@example.com", NOW)
    record = site.ask(OWN, cookies=cookies)["body"]
    assert (False, True) == (BUTTON in record, "Started again by alice@example.com" in record)
    assert BUTTON not in site.ask(instance_of(site), cookies=cookies)["body"]
    # It no longer saves anything, and one that runs is not said to be stopped.
    for wrong in ("a day saved", "is stopped", "This saves"):
        assert wrong not in record, wrong


def test_the_record_of_the_console_says_who_else_started_it() -> None:
    """It went on saying that the instance is stopped, and offered to start it, although the page of
    the mail's link knew better."""
    site = stopped()
    state = site.world.state
    ref = ref_of(site)
    [booked] = state.open_entries(ref.target, ref.instance_id)
    assert state.settle_entry(booked, NOW, Ending.STARTED, NOW)

    record = site.ask(OWN, cookies=site.cookies())["body"].replace("\u00a0", " ")

    heading = record.split("<h1>")[1].split("</h1>")[0]
    assert heading.endswith("was stopped Fri 12:02, started again Fri 12:02 UTC")
    for wrong in (BUTTON, "a day saved", "is stopped", "stays stopped"):
        assert wrong not in record, wrong


@pytest.mark.parametrize(
    ("group", "email", "status"),
    [
        ("eyes", "alice@example.com", 403),
        # An approver of everything whom the policy does not know: a sign-in proves nobody.
        ("ops", "eve@example.com", 403),
        ("other", "eve@example.com", 404),
        ("nobody", "eve@example.com", 403),
    ],
)
def test_nobody_else_starts_it(group: str, email: str, status: int) -> None:
    """It is offered to nobody else, and a form sent all the same is refused; the audit keeps who
    tried."""
    site = stopped()
    cookies = site.cookies(group, email)

    shown = [BUTTON in site.ask(page, cookies=cookies)["body"] for page in (OWN, instance_of(site))]
    sees = group in ("eyes", "ops")

    assert ([False, False], status, []) == (shown, press(site, cookies), site.undoer.asked)
    assert [f"oidc:{email}"] * sees == refused(site)


def test_the_form_is_of_this_page_and_session() -> None:
    site = stopped()
    assert (403, []) == (press(site, site.cookies(), csrf="k1.nonsense"), site.undoer.asked)


def test_what_cannot_be_started_says_why_and_what_is_uncertain_says_so() -> None:
    site = stopped()
    cookies = site.cookies()

    site.undoer.answer = UndoAnswer(False, "EC2 has no free capacity")
    refused_form = site.post(cookies, OWN, answer="undo")
    site.undoer.answer = Unavailable("the function did not answer")
    failed = site.post(cookies, OWN, answer="undo")

    assert (409, True) == (
        refused_form["statusCode"],
        "Not started: EC2 has no free capacity." in refused_form["body"],
    )
    assert (503, True) == (
        failed["statusCode"],
        "The function that starts instances has not answered." in failed["body"],
    )


def settle(site: Site, why: Ending) -> None:
    """The stop has ended, by the ledger."""
    ref = ref_of(site)
    [booked] = site.world.state.open_entries(ref.target, ref.instance_id)
    assert site.world.state.settle_entry(booked, NOW, why, NOW, by="i-other")


def pages_of(site: Site) -> list[str]:
    """The record of the stop, and the page of the instance, with plain spaces."""
    cookies = site.cookies()
    bodies = [site.ask(page, cookies=cookies)["body"] for page in (OWN, instance_of(site))]
    return [str(body).replace("\xa0", " ") for body in bodies]


def offers(pages: list[str]) -> list[bool]:
    """Return for each of these pages if it offers to start the instance."""
    return [BUTTON in page for page in pages]


def test_what_was_terminated_is_not_offered() -> None:
    assert [False, False] == offers(pages_of(stopped(Outcome.TERMINATED)))


@pytest.mark.parametrize("why", [Ending.STARTED, Ending.UNDONE, Ending.TERMINATED])
def test_no_page_offers_to_start_what_is_no_longer_stopped(why: Ending) -> None:
    """The record in the console still offered it, and said that the instance is stopped."""
    site = stopped()
    settle(site, why)

    record, page = pages_of(site)
    assert [False, False] == offers([record, page])
    assert "is stopped" not in record
    done = "terminated" if why is Ending.TERMINATED else "started again"
    assert f"was stopped Fri 12:02, {done} Fri 12:02 UTC</h1>" in record


def test_both_pages_offer_to_start_what_another_instance_has_replaced() -> None:
    """It is still stopped itself. The page of the instance did not offer it."""
    site = stopped()
    settle(site, Ending.REPLACED)

    assert [True, True] == offers(pages_of(site))


def test_the_page_of_an_instance_that_runs_again_does_not_offer_to_start_it() -> None:
    """The ledger does not say so yet: a sweep could not note it. The page showed the running
    instance and offered to start it."""
    site = stopped()
    row = replace(
        site.row(1, APPROVAL_ID),
        launched_at=NOW,
        idle_since=None,
        episode=None,
        approval_id=None,
    )
    site.world.state.keep_page(FleetPage(TARGET.account, TARGET.region, NOW, "ask", None, (row,)))

    _, page = pages_of(site)
    assert BUTTON not in page
