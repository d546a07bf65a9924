"""The buttons that pause everything and that end the pause: who sees them, and what a press
does."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.pause import PauseAll
from governor.console.app import Console
from governor.console.session import caller_of
from governor.console.views.freezes import PATH, FreezeForms, freezes
from governor.console.views.overview import overview
from governor.limits.model.pause import Pause
from governor.policy.document import parse_policy
from governor.policy.model.contacts import Console as ConsoleSettings
from governor.policy.model.contacts import Ownership
from governor.policy.model.policy import Policy
from tests.builders import NOW
from tests.console_world import TARGETS, ConsoleWorld, make_row
from tests.twins import FakeClock, RecordingAnnouncer
from tests.unit.console import entrance
from tests.unit.console.entrance import Entrance, token
from tests.unit.web.test_openapi import problems

POLICY = (
    parse_policy(
        """
    ownership: {contacts: {ml: {emails: [named@example.com]}}}
    console:
      scopes:
        all: {groups: [admins], role: admin, everything: true}
        own: {groups: [own], role: admin, accounts: ["123456789012"]}
        some: {groups: [approvers], role: approver, everything: true}
    """
    )
    .base()
    .policy
)
PAUSE = Pause(NOW - timedelta(hours=1), "oidc:ada@example.com", "they are needed")


def without_admins(policy: Policy) -> Policy:
    """The same policy with approvers alone."""
    scopes = {name: scope for name, scope in policy.console.scopes.items() if scope.role != "admin"}
    return replace(policy, console=replace(policy.console, scopes=scopes))


class Site:
    """The overview and the page of freezes."""

    def __init__(
        self, pause: Pause | None = None, policy: Policy = POLICY, *, policy_is_whole: bool = True
    ) -> None:
        self.world = ConsoleWorld(policy, policy_is_whole=policy_is_whole)
        self.world.keep(make_row(1))
        if pause is not None:
            self.world.state.begin_pause(pause)
        self.at = Entrance(self.world.table)
        self.at.clock.at = NOW
        self.announcer = RecordingAnnouncer()
        pause_all = PauseAll(self.world.state, FakeClock(NOW), self.announcer, TARGETS[0])
        posts = {PATH: FreezeForms(self.world.state, pause_all).take}
        views = {"/": overview, PATH: freezes}
        self.console = Console(lambda: self.world.reader, self.at.doors, views, posts)
        self.known: dict[str, dict[str, str]] = {}

    def enter(self, group: str) -> dict[str, str]:
        if group not in self.known:
            self.known[group] = self.at.session(
                f"oidc:{group}", f"{group}@example.com", groups=(group,)
            )
        return self.known[group]

    def page(self, group: str, path: str = PATH) -> str:
        return str(entrance.ask(self.console, path, cookies=self.enter(group))["body"])

    def post(self, group: str, **form: str) -> int:
        cookies = self.enter(group)
        known = self.at.doors.known(cookies, self.at.clock.at)
        assert known is not None
        csrf = self.at.doors.token(PATH, caller_of(POLICY, known))
        answered = entrance.ask(
            self.console, PATH, "POST", cookies=cookies, form={"csrf": csrf, **form}
        )
        return int(answered["statusCode"])

    def end(self, group: str, **changes: str) -> int:
        form = {"answer": "end-pause", "since": PAUSE.at.isoformat(), "confirmed": "yes"}
        return self.post(group, **{**form, **changes})


@pytest.mark.parametrize("path", ["/", PATH])
def test_one_press_on_the_overview_or_the_page_of_freezes_pauses_everything(path: str) -> None:
    site = Site()
    cookies = site.enter("admins")
    csrf = token(site.page("admins", path), PATH)
    form = {"csrf": csrf, "answer": "pause", "reason": "they are needed"}
    answered = entrance.ask(site.console, PATH, "POST", cookies=cookies, form=form)

    assert (303, PATH) == (answered["statusCode"], answered["headers"]["Location"])
    assert Pause(NOW, "oidc:admins@example.com", "they are needed") == site.world.state.pause()
    assert [AlertKind.PAUSED] == [one.kind for one in site.announcer.sent]
    for page in (site.page("admins"), site.page("admins", "/")):
        assert "paused" in page
        assert 'value="pause"' not in page


@pytest.mark.parametrize(
    ("group", "pauses", "ends"),
    [("admins", 303, 303), ("own", 303, 403), ("named", 303, 403), ("approvers", 403, 403)],
)
def test_each_button_is_shown_to_those_whose_press_counts(
    group: str, pauses: int, ends: int
) -> None:
    fresh, standing = Site(), Site(PAUSE)
    assert (pauses == 303) == ('value="pause"' in fresh.page(group))
    assert pauses == fresh.post(group, answer="pause")

    assert (ends == 303) == ('value="end-pause"' in standing.page(group))
    assert ends == standing.end(group)
    assert (ends == 303) == (standing.world.state.pause() is None)


def test_while_the_policy_is_refused_the_page_ends_no_pause() -> None:
    """A refused document shows its people alone, and not whether it names an admin."""
    people_alone = replace(POLICY, console=ConsoleSettings())
    site = Site(PAUSE, people_alone, policy_is_whole=False)
    assert "The policy in force is refused" in site.page("named")
    assert 'value="end-pause"' not in site.page("named")

    assert 403 == site.end("named")
    assert PAUSE == site.world.state.pause()


def test_the_end_takes_a_look_at_what_goes_on_and_a_fresh_sign_in() -> None:
    site = Site(PAUSE)
    assert "No approved step waits" in site.page("admins")
    assert 400 == site.end("admins", confirmed="")
    assert 400 == site.end("admins", since="")
    assert 409 == site.end("admins", since=NOW.isoformat())
    site.enter("admins")
    site.at.clock.at += timedelta(minutes=15)
    assert 403 == site.end("admins")

    assert PAUSE == site.world.state.pause()


def test_who_paused_and_why_is_for_those_who_see_everything() -> None:
    site = Site(PAUSE)
    for path in ("/", PATH):
        assert "hey are needed" in site.page("approvers", path)
        assert "hey are needed" not in site.page("own", path)
        assert "ada@example.com" not in site.page("own", path)
    for group, said in (("approvers", {"by", "reason", "since"}), ("own", {"since"})):
        asked = entrance.ask(
            site.console, PATH, cookies=site.enter(group), headers={"accept": "application/json"}
        )
        document = json.loads(asked["body"])
        assert [] == problems("ConsoleFreezes", document)
        assert said == document["pause"].keys()


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (POLICY, "An admin of everything can end it here: group admins."),
        (without_admins(POLICY), "so any person in ownership.contacts can end it here."),
        (replace(without_admins(POLICY), ownership=Ownership()), "so nobody can end it here."),
    ],
)
def test_the_page_says_who_can_end_the_pause_by_the_policy(policy: Policy, said: str) -> None:
    """Also where the policy has no admin of everything."""
    assert said in Site(PAUSE, policy).page("approvers")
