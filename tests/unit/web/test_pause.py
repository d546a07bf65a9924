"""`governor pause --all` and `resume --all`: who may, what is kept, who learns of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.model import AlertKind
from governor.core.errors import Unavailable
from governor.limits.model.pause import Pause
from governor.policy.document import parse_policy
from governor.policy.model.policy import Policy
from governor.web.api import ApiRequest, ApiResponse
from tests.unit.web.test_api import api
from tests.unit.web.test_openapi import problems
from tests.unit.worlds.world import World

ROLE = "arn:aws:sts::123456789012:assumed-role"
ADMIN, LOCAL_ADMIN, APPROVER = f"{ROLE}/Ops/ada", f"{ROLE}/Local/bob", f"{ROLE}/Dev/eve"
MAPPED = "arn:aws:iam::123456789012:user/alice"
STRANGER = f"{ROLE}/Else/mallory"
SCOPES = f"""
console:
  scopes:
    all: {{identities: ["{ADMIN}"], role: admin, everything: true}}
    some: {{identities: ["{LOCAL_ADMIN}"], role: admin, accounts: ["123456789012"]}}
    dev: {{identities: ["{APPROVER}"], role: approver, everything: true}}
"""
PEOPLE = f"""
ownership:
  contacts:
    ml: {{emails: [alice@example.com], identities: {{"aws:{MAPPED}": alice@example.com}}}}
"""


def policy(text: str) -> Policy:
    return parse_policy(text).base().policy


class Presses:
    """The API, with a policy."""

    def __init__(self, text: str = PEOPLE + SCOPES) -> None:
        self.world = World(decide=False)
        self.world.policies.policy = policy(text)
        self.policy_is_whole = True

    def call(self, route: str, caller: str, **document: Any) -> ApiResponse:
        answering = api(self.world, policy_is_whole=self.policy_is_whole)
        return answering.handle(ApiRequest(route, caller, "", document))

    def pause(self, caller: str = ADMIN, **document: Any) -> ApiResponse:
        return self.call("POST /api/pause", caller, **document)

    def resume(self, caller: str = ADMIN, **document: Any) -> ApiResponse:
        since = {"since": self.standing.at.isoformat()} if self.world.state.pause() else {}
        return self.call("POST /api/resume", caller, **{**since, **document})

    @property
    def standing(self) -> Pause:
        found = self.world.state.pause()
        assert found is not None
        return found

    @property
    def kinds(self) -> list[AlertKind]:
        return [one.kind for one in self.world.announcer.sent]

    @property
    def log(self) -> list[tuple[str, str]]:
        items = self.world.state.items.items()
        return [
            (str(item["what"]), str(item["by"])) for key, item in items if key[0] == "PAUSE#log"
        ]


@pytest.mark.parametrize(
    ("caller", "pauses", "ends"),
    [
        (ADMIN, 200, 200),
        (LOCAL_ADMIN, 200, 403),
        (MAPPED, 200, 403),
        (APPROVER, 403, 403),
        (STRANGER, 403, 403),
    ],
)
def test_named_people_and_admins_pause_and_an_admin_of_everything_ends_it(
    caller: str, pauses: int, ends: int
) -> None:
    presses = Presses()
    assert pauses == presses.pause(caller).status
    assert (pauses == 200) == (presses.world.state.pause() is not None)
    presses.pause(ADMIN)

    assert ends == presses.resume(caller).status
    assert (ends == 200) == (presses.world.state.pause() is None)


def test_where_no_admin_is_named_a_named_person_ends_it() -> None:
    """Or a pause could only end by a change of the policy."""
    presses = Presses(PEOPLE)
    presses.pause(MAPPED)

    assert 403 == presses.resume(STRANGER).status
    assert 200 == presses.resume(MAPPED).status


def test_while_the_policy_is_refused_anybody_named_pauses_and_nobody_ends_it() -> None:
    """Only the people of a refused document are read, and not whether it names an admin."""
    presses = Presses(PEOPLE)
    presses.policy_is_whole = False
    assert 200 == presses.pause(MAPPED).status

    refused = presses.resume(MAPPED)
    assert 403 == refused.status
    assert "governor policy check" in str(refused.document["error"])
    assert presses.world.state.pause() is not None


def test_both_are_in_the_audit_and_people_learn_of_both() -> None:
    presses = Presses()
    paused = presses.pause(reason=" they are needed ")
    ended = presses.resume()

    assert [] == [*problems("Pause", paused.document), *problems("Pause", ended.document)]
    assert ("they are needed", f"aws:{ADMIN}") == (paused.document["reason"], paused.document["by"])
    assert [("paused", f"aws:{ADMIN}"), ("pause ended", f"aws:{ADMIN}")] == presses.log
    assert [AlertKind.PAUSED, AlertKind.PAUSE_ENDED] == presses.kinds
    paused_alert, ended_alert = presses.world.announcer.sent
    assert any("They are needed." in line for line in paused_alert.lines)
    assert any("Approved steps continue" in line for line in ended_alert.lines)


def test_a_second_press_keeps_the_first_pause() -> None:
    """Nobody's reason is overwritten, and nobody is told twice."""
    presses = Presses()
    first = presses.pause(MAPPED, reason="first")
    second = presses.pause(ADMIN, reason="second")

    assert (200, first.document) == (second.status, second.document)
    assert ([AlertKind.PAUSED], 1) == (presses.kinds, len(presses.log))


def test_a_pause_stands_where_nobody_can_be_told() -> None:
    presses = Presses()
    presses.world.announcer.failure = Unavailable("SNS is away", operation="sns:Publish")

    assert 200 == presses.pause().status
    assert presses.standing.by == f"aws:{ADMIN}"


def test_nobody_ends_a_pause_that_they_have_not_seen() -> None:
    """It ended, or another one began, between the look and the press."""
    presses = Presses()
    assert 409 == presses.resume(since="2026-11-20T12:00:00Z").status
    presses.pause()
    seen = presses.standing.at.isoformat()
    presses.resume()
    presses.world.clock.moment += timedelta(minutes=1)
    presses.pause()

    assert 409 == presses.resume(since=seen).status
    assert presses.standing.at.isoformat() != seen


@pytest.mark.parametrize(
    ("route", "document"),
    [
        ("POST /api/pause", {"why": "x"}),
        ("POST /api/pause", {"reason": 3}),
        ("POST /api/pause", {"reason": "x" * 301}),
        ("POST /api/pause", {"reason": "a\u202eb"}),
        ("POST /api/resume", {}),
        ("POST /api/resume", {"since": "yesterday"}),
        ("POST /api/resume", {"since": 3}),
        ("POST /api/resume", {"since": "2026-11-20T12:00:00Z", "all": True}),
    ],
)
def test_what_cannot_be_read_says_what_to_send(route: str, document: dict[str, Any]) -> None:
    presses = Presses()
    answer = presses.call(route, ADMIN, **document)

    assert (400, None) == (answer.status, presses.world.state.pause())
    assert answer.document["error"]


def test_the_pause_is_the_first_of_what_holds_back() -> None:
    presses = Presses()
    presses.pause(reason="x")
    document = presses.call("GET /api/freezes", STRANGER).document

    assert [] == problems("Freezes", document)
    assert ("everything", "paused by ada (AWS identity): x") == (
        document["freezes"][0]["what"],
        document["freezes"][0]["why"],
    )
    assert presses.standing.at.isoformat() == document["pause"]["since"]


def test_no_policy_ends_a_pause() -> None:
    """Not by a lift of all freezes, and not by an edit of who may."""
    presses = Presses()
    presses.pause()
    rule = replace(
        presses.world.policies.policy.breaker, lift_freezes_before="2027-01-01T00:00:00Z"
    )
    presses.world.policies.policy = replace(presses.world.policies.policy, breaker=rule)
    presses.world.clock.moment += timedelta(days=365)

    freezes = presses.call("GET /api/freezes", ADMIN).document["freezes"]
    assert ["everything"] == [one["what"] for one in freezes]
