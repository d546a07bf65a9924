"""The command line's API: the page's use cases, with the identity that AWS has proven."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from governor.approvals.model.approval import ApprovalStatus
from governor.approvals.open_console import OpenConsole
from governor.approvals.pause import PauseAll
from governor.approvals.show_approval import ShowApproval
from governor.approvals.store.sessions import SignIns
from governor.aws.s3 import PolicyBucket
from governor.core.units import iso
from governor.episode.model.episode import Terms
from governor.limits.freezes import ShowLimits
from governor.limits.model.breaker import BreakerState
from governor.policy.document import parse_policy
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.limits import Breaker
from governor.policy.model.policy import Mode, Policy
from governor.policy.versions import AcceptPolicy
from governor.web.api import ApiRequest, ApiResponse, ApprovalApi
from governor.wiring.policies import accepted
from tests.builders import NOW, TARGET
from tests.unit.aws.fakes import FakeClients, ScriptedClient, client_error
from tests.unit.worlds.builders import asked, decider
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import APPROVAL_ID, World

ALICE = "arn:aws:iam::123456789012:user/alice"
STOP = {"answer": "approve", "losses_accepted": True}
KEPT_UNTIL = iso(NOW + timedelta(hours=4))
SHOW, ANSWER = (f"{method} /api/approvals/{{approval_id}}" for method in ("GET", "POST"))


def api(world: Any, issuer: str = "", *, policy_is_whole: bool = True) -> ApprovalApi:
    """Over a world."""
    return ApprovalApi(
        show=ShowApproval(
            episode_store=world.state,
            approval_store=world.state,
            instance_store=world.state,
            delivery_store=world.state,
            ledger_store=world.state,
            clock=world.clock,
        ),
        limits=ShowLimits(
            breaker_store=world.state,
            pause_store=world.state,
            cap_store=world.state,
            policies=world.policies,
            clock=world.clock,
        ),
        decide=decider(world),
        accept=AcceptPolicy(
            world.clock,
            world.state,
            SimpleNamespace(read=lambda _: ""),  # type: ignore[arg-type]
            accepted,
        ),
        policy_text=SimpleNamespace(read=lambda: "mode: ask\n"),
        targets=[TARGET],
        ownership=world.policies.policy.ownership,
        open_console=OpenConsole(
            SignIns(world.state._table), world.clock, issuer, "https://api.example.com"
        ),
        pause_all=PauseAll(world.state, world.clock, world.announcer, TARGET),
        policy=world.policies.policy,
        policy_is_whole=policy_is_whole,
    )


def post(world: Any, **document: Any) -> ApiResponse:
    """An answer of Alice's."""
    return api(world).handle(ApiRequest(ANSWER, ALICE, APPROVAL_ID, document))


def status(world: World) -> ApprovalStatus:
    """Return the question's status."""
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    return approval.status


def test_an_answer_is_recorded_with_the_arn() -> None:
    """Whoever may call the API is known; nothing of a body says who it is."""
    world = World(decide=False)
    answer = post(world, **STOP)

    assert (200, "APPROVED", f"aws:{ALICE}", iso(world.clock.now())) == (
        answer.status,
        answer.document["status"],
        answer.document["decided_by"],
        answer.document["decided_at"],
    )
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert approval.decision is not None
    assert ("cli", f"aws:{ALICE}") == (approval.decision.channel, approval.decision.person)


def test_an_arn_of_a_contact_is_that_person() -> None:
    """So that one person counts once, whichever way they answer."""
    world = World(decide=False)
    contact = Contact(
        emails=("alice@example.com",), identities={f"aws:{ALICE}": "alice@example.com"}
    )
    ownership = Ownership(contacts={"ml": contact})
    world.policies.policy = replace(world.policies.policy, ownership=ownership)
    post(world, **STOP)

    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert approval.decision is not None
    assert "alice@example.com" == approval.decision.person


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({}, "answer: one of"),
        ({"answer": "stop"}, "answer: one of"),
        ({"answer": ["approve"]}, "answer: one of"),
        ({"answer": "keep", "keep_until": "tomorrow"}, "keep_until: a time"),
        ({"answer": "keep", "keep_until": 5}, "keep_until: a time"),
        ({"answer": "keep", "keep_until": "2020-01-01T00:00:00Z"}, "in the past"),
        ({"answer": "exempt"}, "needs a reason"),
        ({"answer": "exempt", "reason": "x" * 301}, "at most 300"),
        ({"answer": "exempt", "reason": {}}, "at most 300"),
        (
            {"answer": "approve"},
            "local disks would be lost for good: repeat it with --accept-losses",
        ),
        ({**STOP, "losses_accepted": "yes"}, "losses_accepted: true"),
        ({**STOP, "losses_accepted": False}, "local disks"),
        ({**STOP, "instance_id": 5}, "instance_id: the ID"),
        ({"answer": "keep", "keep_until": "0001-01-01T00:00:00+05:00"}, "keep_until: a time"),
        ({"answer": "keep", "keep_until": "9999-12-31T23:59:59-05:00"}, "keep_until: a time"),
        ({"answer": "exempt", "reason": "\ud800"}, "reason: a text"),
        ({"answer": "exempt", "reason": "license\x1b[2J server"}, "control characters"),
        ({"answer": "exempt", "reason": "license\x07"}, "control characters"),
        ({**STOP, "reason": "\x00"}, "control characters"),
        ({**STOP, "reason": "\t"}, "control characters"),
        ({"answer": "exempt", "reason": "license\x9b2J"}, "control characters"),
        ({**STOP, "by": "bob"}, "unknown field 'by'"),
    ],
)
def test_what_is_not_an_answer_is_refused_with_what_to_send(
    document: dict[str, Any], said: str
) -> None:
    """And decides nothing."""
    world = World(decide=False)
    answer = post(world, **document)

    assert (400, True) == (answer.status, said in answer.document["error"])
    assert ApprovalStatus.PENDING is status(world)


def test_a_reason_may_have_lines_and_any_script() -> None:
    """Text that nobody could abuse is kept as it was written."""
    world = World(decide=False)
    world.policies.policy = Policy(mode=Mode.ASK, ownership=Ownership(contacts={"ml": MAPPED}))
    reason = "license server\nnötig für 学習 👩‍💻"

    assert 200 == post(world, answer="exempt", reason=reason).status
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    assert approval.decision is not None
    assert reason == approval.decision.reason


def test_a_termination_names_the_instance() -> None:
    """As on the page."""
    world = World(decide=False, action=Action.TERMINATE)

    refused = post(world, **STOP, instance_id="i-0")
    assert (400, True) == (
        refused.status,
        "name it with --instance-id" in refused.document["error"],
    )
    assert 200 == post(world, **STOP, instance_id="i-0123456789abcdef0").status


def test_an_identity_that_counts_for_nobody_is_told_what_to_do_in_a_terminal() -> None:
    """Two people are needed, and an ARN may be anybody's second name."""
    terms = Terms(people_needed=2, known_people=frozenset({"bob@example.com"}))
    world = World(decide=False, action=Action.TERMINATE, terms=terms)
    refused = post(world, **STOP, instance_id="i-0123456789abcdef0")

    assert 403 == refused.status
    assert f"map aws:{ALICE} to your address in ownership.contacts" in refused.document["error"]
    assert "sign in" not in refused.document["error"]


def test_a_late_answer_is_told_who_was_first() -> None:
    """409, and the record stands."""
    world = World(decide=False)
    world.policies.policy = Policy(mode=Mode.ASK, ownership=Ownership(contacts={"ml": MAPPED}))
    post(world, answer="exempt", reason="mine")
    answer = post(world, **STOP)

    assert (409, True) == (answer.status, "already decided" in answer.document["error"])


def test_a_question_that_does_not_exist_is_not_found() -> None:
    """For reading and for answering."""
    for route in (SHOW, ANSWER):
        answer = api(World()).handle(ApiRequest(route, ALICE, "unknown", STOP))
        said = (
            "there is no question 'unknown': `governor approvals list` prints the IDs "
            "of those that are open"
        )
        assert (404, {"error": said}) == (answer.status, answer.document)


def test_the_list_holds_what_is_open() -> None:
    """The dearest first; what is approved as long as it can be held, and what is answered no
    more."""
    contact = Contact(
        emails=("alice@example.com",), identities={f"aws:{ALICE}": "alice@example.com"}
    )
    known = Policy(mode=Mode.ASK, ownership=Ownership(contacts={"ml": contact}))
    world, first, _ = asked(1, FleetWorld(known))
    _, second, _ = asked(2, world)
    listed = api(world).handle(ApiRequest("GET /api/approvals", ALICE)).document["questions"]
    assert {first, second} == {question["instance_id"] for question in listed}

    api(world).handle(ApiRequest(ANSWER, ALICE, f"approval-{first}", STOP))
    listed = api(world).handle(ApiRequest("GET /api/approvals", ALICE)).document["questions"]
    assert {first: True, second: False} == {one["instance_id"]: one["can_hold"] for one in listed}

    api(world).handle(ApiRequest(ANSWER, ALICE, f"approval-{first}", {"answer": "hold"}))
    listed = api(world).handle(ApiRequest("GET /api/approvals", ALICE)).document["questions"]
    assert [second] == [question["instance_id"] for question in listed]


def test_nothing_that_is_shown_lets_somebody_else_decide() -> None:
    """No task token and no link."""
    world = World(decide=False)
    shown = str(api(world).handle(ApiRequest(SHOW, ALICE, APPROVAL_ID)).document)

    assert "token" not in shown
    assert "http" not in shown


MAPPED = Contact(emails=("alice@example.com",), identities={f"aws:{ALICE}": "alice@example.com"})


def policy_api(world: World, method: str, version: str = "") -> ApiResponse:
    """A request about the policy, by Alice."""
    route = f"{method} /api/policy" + ("/{version}" if version else "")
    return api(world).handle(ApiRequest(route, ALICE, version))


def test_the_policy_in_force_is_shown() -> None:
    """The document, and its version: none before the first one."""
    world = World(decide=False)
    shown = policy_api(world, "GET").document
    assert {"in_force": None, "document": "mode: ask\n", "accepted": None} == shown
    world.state.put_in_force("v1", None, world.clock.now())

    assert "v1" == policy_api(world, "GET").document["in_force"]


def test_a_version_is_accepted_by_a_person_of_the_policy_in_force() -> None:
    """The name of a session, and whoever is not in the policy, prove nobody."""
    world = World(decide=False)
    refused = policy_api(world, "POST", "v2")
    assert (403, True) == (refused.status, f"map aws:{ALICE}" in refused.document["error"])
    assert () == world.state.accepted("v2")

    world.policies.policy = replace(
        world.policies.policy, ownership=Ownership(contacts={"ml": MAPPED})
    )
    taken = policy_api(world, "POST", "v2")
    assert (200, ["alice@example.com"], 2) == (
        taken.status,
        taken.document["accepted_by"],
        taken.document["people_needed"],
    )
    assert (f"aws:{ALICE}",) == world.state.accepted("v2")


@pytest.mark.parametrize("version", ["\U0001f600" * 700, "v" * 1025])
def test_a_version_that_s3_cannot_have_named_is_unknown(version: str) -> None:
    """DynamoDB refuses a key of more than 2,048 bytes: the API answered 500."""
    assert 404 == policy_api(World(decide=False), "POST", version).status


def test_a_version_that_s3_denies_says_what_may_be_missing() -> None:
    """Without permission to list, S3 denies what is not there as well: the answer was that there is
    none."""
    denied = "User: arn:aws:sts::1:assumed-role/ServeApi is not authorized to perform: kms:Decrypt"
    bucket = PolicyBucket(
        FakeClients(ScriptedClient(get_object=client_error("AccessDenied", denied))), "policies"
    )
    world = World(decide=False)
    world.policies.policy = replace(
        world.policies.policy, ownership=Ownership(contacts={"ml": MAPPED})
    )
    site = api(world)
    site = replace(site, accept=replace(site.accept, documents=bucket))
    answer = site.handle(ApiRequest("POST /api/policy/{version}", ALICE, "v2"))

    said = answer.document["error"]
    assert 403 == answer.status
    assert [
        "there is none of that name",
        "governor policy history",
        "s3:GetObjectVersion",
        denied,
    ] == [
        part
        for part in (
            "there is none of that name",
            "governor policy history",
            "s3:GetObjectVersion",
            denied,
        )
        if part in said
    ]
    assert () == world.state.accepted("v2")


def test_who_wrote_a_version_cannot_accept_it_and_what_counts_needs_nobody() -> None:
    """As far as CloudTrail says who it was; the second answer comes too late."""
    world = World(decide=False)
    world.policies.policy = replace(
        world.policies.policy, ownership=Ownership(contacts={"ml": MAPPED})
    )
    world.state.note_writer("v2", ALICE)
    own = policy_api(world, "POST", "v2")
    assert (403, True) == (own.status, "another person must accept it" in own.document["error"])

    world.state.put_in_force("v3", None, world.clock.now())
    assert 409 == policy_api(world, "POST", "v3").status


def test_a_version_in_force_is_accepted_by_those_whom_its_override_names() -> None:
    """The answer says who is missing, and `governor status` reads it."""
    world = World(decide=False)
    document = (
        "mode: ask\nmetrics: {publishers_are_trusted: true}\n"
        "ownership: {contacts: {ml: {emails: [alice@example.com, bob@example.com], identities: "
        f'{{"aws:{ALICE}": alice@example.com}}}}}}}}\n'
        "overrides: [{name: scratch, match: {tags: {Life: short}}, set: {mode: auto, "
        "plan: {action: terminate}}, "
        "approved_by: [alice@example.com, bob@example.com]}]\n"
    )
    ownership = parse_policy(document).base().policy.ownership
    world.policies.policy = replace(world.policies.policy, ownership=ownership)
    world.state.put_in_force("v1", None, world.clock.now())
    site = api(world)
    documents = SimpleNamespace(read=lambda _: document)
    site = replace(site, accept=replace(site.accept, documents=documents))  # type: ignore[arg-type]
    answer = site.handle(ApiRequest("POST /api/policy/{version}", ALICE, "v1"))

    assert (200, True) == (answer.status, answer.document["in_force"])
    assert [{"override": "scratch", "missing": ["bob@example.com"]}] == answer.document[
        "unaccepted"
    ]
    assert (f"aws:{ALICE}",) == world.state.accepted("v1")
    accepted = policy_api(world, "GET").document["accepted"]
    assert [] == accepted["people"], "the next review counts it"


def brakes(world: Any) -> dict[str, Any]:
    """Return what holds actions back."""
    answer = api(world).handle(ApiRequest("GET /api/freezes", ALICE))
    assert 200 == answer.status
    return dict(answer.document)


def test_an_operator_sees_what_holds_actions_back() -> None:
    """Freezes of a target and of everything, caps by what is used of them, and steps that wait."""
    world = World()
    world.state.set_breaker(TARGET, BreakerState(NOW, "half turned idle"))
    world.state.begin_hub_freeze(BreakerState(NOW, "12 instances turned idle", turned=12))
    world.state.reserve("other", "stop", {"ORGANIZATION": 50, "OWNER#ml": 5}, NOW, "a")
    world.state.note_waits_told(APPROVAL_ID, NOW)

    found, nothing = brakes(world), brakes(World())

    assert [
        {"what": "everything", "why": "12 instances turned idle", "since": iso(NOW)},
        {"what": f"{TARGET.account}/{TARGET.region}", "why": "half turned idle", "since": iso(NOW)},
    ] == found["freezes"]
    caps = world.policies.policy.caps
    assert [
        {"what": "ORGANIZATION", "used": 1, "most": caps.organization_actions_per_hour},
        {"what": "OWNER#ml", "used": 1, "most": caps.owner_actions_per_hour},
    ] == found["caps"]
    assert [APPROVAL_ID] == [one["id"] for one in found["waiting"]]
    assert ([], [], 0) == (nothing["freezes"], nothing["waiting"], nothing["caps"][0]["used"])


def test_freezes_are_shown_as_guards_see_them() -> None:
    """One that no sweep has declared yet, and one that was lifted."""
    world = World()
    ids = [f"i-{number}" for number in range(10)]
    world.state.try_count_turned(TARGET, {}, ids, (), world.state.hub(), NOW)

    [freeze] = brakes(world)["freezes"]
    assert ("everything", None) == (freeze["what"], freeze["since"])
    rule = Breaker(lift_freezes_before=iso(NOW + timedelta(hours=1)))
    world.policies.policy = replace(world.policies.policy, breaker=rule)
    world.clock.moment += timedelta(hours=1)
    assert [] == brakes(world)["freezes"]


def test_the_document_calls_idle_what_was_measured() -> None:
    """The verdict's own sentence was of the day before."""
    world = World(decide=False)
    world.clock.moment = NOW + timedelta(hours=20)
    document = api(world).handle(ApiRequest(SHOW, ALICE, APPROVAL_ID)).document

    assert "Idle for 1 h (every GPU under 5%) when this was found 20 h ago." == document["reason"]


def test_the_console_is_opened_for_whom_aws_has_authenticated() -> None:
    """By a code in the fragment, which no browser sends; and not where people sign in."""
    world = World()

    opened = api(world).handle(ApiRequest("POST /api/console", ALICE))
    refused = api(world, "https://issuer.example.com").handle(
        ApiRequest("POST /api/console", ALICE)
    )

    assert (opened.status, opened.document["url"].partition("#")[0]) == (
        200,
        "https://api.example.com/console",
    )
    assert (refused.status, "sign in at the issuer" in refused.document["error"]) == (403, True)


@pytest.mark.parametrize(
    ("keeper", "who", "status"),
    [
        ("alice@example.com", "alice@example.com", 200),
        ("bob@example.com", "alice@example.com", 200),
        ("alice@example.com", None, 403),
        (None, None, 403),
    ],
    ids=["one's own", "as an approver", "nobody known", "one's own, of nobody known"],
)
def test_a_keep_is_ended_as_on_the_page_of_its_record(
    keeper: str | None, who: str | None, status: int
) -> None:
    """Others can choose the name of a role's session, so it proves nobody's keep."""
    world = World(decide=False)
    bob = "arn:aws:iam::123456789012:user/bob"
    known = {f"aws:{arn}": person for arn, person in ((ALICE, who), (bob, keeper)) if person}
    contact = Contact(emails=("alice@example.com", "bob@example.com"), identities=known)
    world.policies.policy = replace(
        world.policies.policy, ownership=Ownership(contacts={"ml": contact})
    )
    episode = world._stored()
    known_people = frozenset({"alice@example.com", "bob@example.com"})
    world.state.put(replace(episode, terms=replace(episode.terms, known_people=known_people)))
    by = bob if keeper else ALICE
    kept = api(world).handle(
        ApiRequest(ANSWER, by, APPROVAL_ID, {"answer": "keep", "keep_until": KEPT_UNTIL})
    )
    assert KEPT_UNTIL == kept.document["kept_until"]

    ended = post(world, answer="end-keep")
    assert status == ended.status
    if who is None:
        assert f"map aws:{ALICE} to a person in ownership.contacts" in ended.document["error"]
    hold = world.state.record(episode.ref.target, episode.ref.instance_id).hold
    assert (status == 200) is (hold.snoozed_until is None)
    if status == 200:
        assert ended.document["kept_until"] is None
        assert 409 == post(world, answer="end-keep").status
