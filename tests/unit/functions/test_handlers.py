"""Each handler with a sample of its event, wired as at cold start, with in-memory twins for
adapters."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, TypeVar
from unittest import mock
from urllib.parse import quote

import pytest

from governor.alerts.model import AlertKind
from governor.approvals.rotate_keys import RotateKeys
from governor.approvals.rules.links import LinkSigner
from governor.approvals.store.sessions import SignIns
from governor.core.errors import (
    ConfigurationError,
    InputError,
    PolicyError,
    TargetsNotSwept,
    Unavailable,
)
from governor.core.instance import Lifecycle, Target
from governor.episode.model.episode import Outcome, Phase
from governor.episode.model.plan import Step
from governor.episode.ports import UndoAnswer
from governor.limits.model.breaker import BreakerState
from governor.limits.model.pause import Pause
from governor.policy.model.acting import Action
from governor.scan.store import Scans
from governor.scan.unread import refused_scan
from governor.wiring import (
    api,
    approvals,
    closing,
    conclusion,
    console,
    delivery,
    endings,
    events,
    expiry,
    health,
    money,
    page,
    progress,
    remediation,
    scanning,
    sign_in,
    slack,
    state_changes,
    sweeping,
    undo,
)
from governor.wiring.acting import acting
from governor.wiring.ec2 import Ec2Parts
from governor.wiring.observability import logger
from governor.wiring.parts import Parts
from governor.wiring.planning import sweep_plan
from tests.builders import NOW, make_instance
from tests.twins import (
    MemoryEventLog,
    MemoryLifecycleHooks,
    MemoryWorkflow,
    RecordingHook,
    SealedStateTable,
    StaticBatch,
    StaticPrices,
    StaticSpotMarket,
)
from tests.twins.stores import event_parts, store_parts
from tests.twins.table import MemoryTable
from tests.unit.aws.fakes import FakeClients, ScriptedClient
from tests.unit.functions.handlers import EVENTS, call, sample
from tests.unit.scan.places import DENIED, ClosedPlaces
from tests.unit.wiring.samples import SIGN_IN, settings
from tests.unit.worlds.builders import recorder
from tests.unit.worlds.fleet_world import FleetWorld
from tests.unit.worlds.world import APPROVAL_ID, PRICE, World

AnyParts = TypeVar("AnyParts", bound=Parts)
PEOPLE = "ownership: {contacts: {people: {emails: [alice@example.com, bob@example.com]}}}\n"
KEYS = {"current": "k1", "k1": "k" * 64}
SIGNER = LinkSigner(lambda: KEYS, "https://api.example.com")


def refused_once() -> Scans:
    """A store that knows that the place of the samples was refused as `ClosedPlaces` refuses it."""
    store = Scans(MemoryTable())
    store.keep_refusal(
        refused_scan(Target(PLACE["account"], PLACE["region"]), DENIED, NOW - timedelta(days=1))
    )
    return store


def parts(
    kind: type[AnyParts], world: World | FleetWorld, document: str = "", **more: Any
) -> AnyParts:
    """Parts whose adapters are twins; a call of AWS that none of them takes fails the test."""
    twins: dict[str, Any] = {
        "policy_text": SimpleNamespace(read=lambda **_: f"mode: ask\n{PEOPLE}{document}"),
        "documents": SimpleNamespace(newest=lambda: None),
        "clock": world.clock,
        **store_parts(world.state),
        "sign_in_store": SignIns(MemoryTable()),
        **event_parts(MemoryEventLog()),
        "scan_store": refused_once(),
        "scan_places": ClosedPlaces(),
        "workflow": world.workflow,
        "announcer": world.announcer,
        "short_timeout_announcer": world.announcer,
        "link_keys": SimpleNamespace(read=lambda: KEYS),
        "channel_secret": SimpleNamespace(read=lambda: {"slack_signing_secret": "s" * 32}),
        **dict.fromkeys(
            ("instances", "sessions", "tagger", "controller", "starter", "snapshots"), world.ec2
        ),
        "opening_seal": world.seals.openings,
        "answer_seal": world.seals.answers,
        "delivery_seal": world.seals.deliveries,
        "expiry_seal": world.seals.expiries,
        "seal_check": world.seals,
        "metrics": world.metrics,
        "prices": StaticPrices(PRICE),
        "batch": StaticBatch(),
        "hook": RecordingHook(),
        "hooks": MemoryLifecycleHooks({("trainers", "save-work"): timedelta(seconds=600)}),
        "market": StaticSpotMarket(),
        "dead_letters": SimpleNamespace(keep=lambda *_: None),
        "archive": SimpleNamespace(keep=lambda *_: True),
        "reports": SimpleNamespace(keep=lambda *_: None),
        "undoer": SimpleNamespace(undo=lambda *_: UndoAnswer(False, "")),
        "queue": SimpleNamespace(send_later=lambda *_: None),
        "failures": SimpleNamespace(dead_letter=lambda *_: None, keep=lambda *_: None),
        **more,
    }
    known = {name: twin for name, twin in twins.items() if hasattr(kind, name)}
    return kind(settings(**SIGN_IN), FakeClients(ScriptedClient()), **known)


def asking() -> World:
    """Somebody was asked and has not answered."""
    return World(decide=False, phase=Phase.ASKING, changes={"lifecycle": Lifecycle.SPOT})


def new() -> World:
    """An idle instance about which nothing is known yet."""
    world = World()
    world.state, world.workflow = SealedStateTable(seals=world.seals), MemoryWorkflow()
    return world


def stopping(action: Action = Action.STOP) -> World:
    """The episode has stopped the instance, and is open."""
    world = World(action=action)
    world.put_away(world.ref, Step.STOP)
    return world


def stopped() -> World:
    """The same, and it was closed."""
    world = stopping()
    recorder(world)(world.ref, Outcome.STOPPED)
    return world


def to_be_deleted() -> World:
    """The instance is stopped; its snapshots come next."""
    return stopping(Action.TERMINATE)


def fleet() -> FleetWorld:
    """One idle instance."""
    world = FleetWorld()
    world.ec2.add(make_instance())
    return world


@dataclass(frozen=True)
class Case:
    """An event of `events/`, what is around it, and what comes back for it (a part of it, by
    name)."""

    event: str
    wire: Callable[[Any], Any]
    expected: Mapping[str, object]
    world: Callable[[], World | FleetWorld] = World
    kind: type[Parts] = Ec2Parts
    changes: Mapping[str, Any] = field(default_factory=dict)
    document: str = ""

    def __str__(self) -> str:
        return self.event


def issuer(parts: Parts) -> Any:
    """The sign-in, at an issuer that is there."""
    address = SimpleNamespace(authorization_url=lambda **_: "https://issuer.example.com/authorize")
    return sign_in.sign_in_site(parts, address)  # type: ignore[arg-type]


def worker(parts: Parts) -> Any:
    """The worker; nothing is counted here."""
    return delivery.delivery_worker(parts, lambda *_: None)


LINK = SIGNER.earlier(APPROVAL_ID, "broadcast", NOW + timedelta(hours=1)).partition("?")[2]
ON_THE_PAGE = {"pathParameters": {"approval_id": APPROVAL_ID}, "rawQueryString": LINK}
FROM_THE_PAGE = {"rawQueryString": "return=" + quote(f"{APPROVAL_ID}?{LINK}", safe="")}
BY_IAM = {
    "requestContext": sample("serve_api/list")["requestContext"] | {"http": {"method": "POST"}}
}
PLACE = {"account": "123456789012", "region": "us-east-1"}
CASES = (
    Case(
        "plan_sweep/schedule",
        sweep_plan,
        {"check": "sweep", "targets": [PLACE], "target_count": 1},
        kind=Parts,
    ),
    Case(
        "sweep_target/own-account",
        sweeping.sweep_target,
        {**PLACE, "instances": 1, "problems": 0},
        fleet,
    ),
    Case(
        "check_health/own-account",
        health.check_health,
        {"looked": True, "problems": 0},
        fleet,
    ),
    Case(
        "scan_accelerators/own-account",
        scanning.scan_accelerators,
        {**PLACE, "is_refused": True, "rows": 0, "not_read": 1},
        fleet,
        Parts,
    ),
    Case(
        "refresh_prices/hourly",
        money.refresh_prices,
        {"types": {}, "commitments": None},
        fleet,
        Ec2Parts,
    ),
    Case(
        "expire_snapshots/daily",
        expiry.expire_snapshots,
        {"noticed": 0, "deleted": 0, "kept": 0},
        fleet,
    ),
    Case(
        "report_savings/nightly",
        money.report_savings,
        {"months": ["2026-11"], "reports": 0},
        fleet,
        Parts,
    ),
    Case(
        "sum_up_month/after-sweep",
        closing.hub_steps,
        {"month": "2026-11", "told": 0},
        fleet,
        Parts,
    ),
    Case(
        "open_episode/first-episode",
        remediation.open_episode,
        {"status": "opened", "path": "ask", "stop": True},
        new,
    ),
    Case("ask_owner/ask", approvals.ask_owner, {"heard": True, "settled": False}, asking, Parts),
    Case(
        "conclude_approval/nobody-answered",
        conclusion.conclude_approval,
        {"decision": "expired"},
        asking,
        Parts,
    ),
    Case(
        "recheck_episode/before-stop",
        remediation.recheck_episode,
        {"proceed": True, "outcome": None},
    ),
    Case("put_away/stop", acting, {"dry_run": False}),
    Case(
        "take_snapshot/all-volumes",
        remediation.take_snapshot,
        {"dry_run": False},
        to_be_deleted,
        document="plan: {action: terminate}\noverrides: [{name: one, match: {tags: "
        "{Purpose: GPU-Workload}}, "
        "set: {approval: {people_to_terminate: 1}}}]",
    ),
    Case("check_progress/stopped", progress.check_progress, {"done": True}, stopping),
    Case("record_outcome/stopped", endings.record_outcome, {"outcome": "stopped"}, stopping),
    Case("undo_episode/page", undo.starting_again, {"done": True}, stopped),
    Case(
        "handle_state_change/stopped",
        state_changes.react_to_state_change,
        {"done": "question voided"},
        asking,
        Parts,
    ),
    Case("handle_execution_end/failed", endings.handle_execution_end, {"closed": True}),
    Case(
        "handle_spot_interruption/terminate",
        events.respond_to_interruptions,
        {"ours": True, "told": "singly", "checkpoint_sent": True, "voided": True},
        asking,
    ),
    Case(
        "handle_rebalance_recommendation/recommended",
        events.respond_to_rebalance_recommendation,
        {"ours": True, "told": "singly"},
        asking,
    ),
    Case(
        "handle_lifecycle_action/scale-in",
        events.respond_to_lifecycle_action,
        {"ours": True, "voided": True},
        asking,
    ),
    Case(
        "handle_notice/retirement",
        events.notify_dates,
        {"told": ["i-0123456789abcdef0"]},
        asking,
    ),
    Case("write_audit/answered", lambda known: known.archive.keep, {"kept": 1}, asking, Parts),
    Case("deliver_alert/question", worker, {"batchItemFailures": []}, asking, Parts),
    Case("handle_slack_action/forged", slack.slack_actions, {"statusCode": 403}, asking, Parts),
    Case("plan_sweep/written", sweep_plan, {}, kind=Parts),
    Case("plan_sweep/seen-by-cloudtrail", sweep_plan, {}, kind=Parts),
    Case("serve_api/policy", api.approval_api, {"statusCode": 200}, asking, Parts),
    Case("serve_api/freezes", api.approval_api, {"statusCode": 200}, asking, Parts),
    Case("serve_api/list", api.approval_api, {"statusCode": 200}, asking, Parts),
    Case("serve_approval/get", page.approval_site, {"statusCode": 200}, asking, Parts, ON_THE_PAGE),
    Case("serve_api/open", api.approval_api, {"statusCode": 403}, asking, Parts, BY_IAM),
    Case("serve_console/home", console.console, {"statusCode": 303}, asking, Parts),
    Case("serve_console/code-page", console.console, {"statusCode": 200}, asking, Parts),
    Case("serve_console/unknown-code", console.console, {"statusCode": 403}, asking, Parts),
    Case("sign_in/begin", issuer, {"statusCode": 303}, asking, Parts, FROM_THE_PAGE),
)


def test_a_case_is_wired_as_its_handler() -> None:
    """By the same function of `wiring`, so that a case tries what is deployed."""
    builders = {
        case.event.partition("/")[0]: case.wire.__name__
        for case in CASES
        if case.wire.__module__.startswith("governor.wiring.")
    }

    assert len(builders) > 25
    for function, name in builders.items():
        handler = (EVENTS.parent / "functions" / function / "handler.py").read_text()
        assert f"{name}(" in handler.partition("@observed")[2].partition("\n")[0], function


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_handler_answers_its_event(case: Case) -> None:
    """As the state machine, the queue or the browser behind it expects."""
    function = case.event.partition("/")[0]
    event = {**sample(case.event), **case.changes}

    answer = call(function, event, case.wire(parts(case.kind, case.world(), case.document)))

    assert case.expected == {name: answer.get(name) for name in case.expected}
    json.dumps(answer)


def test_an_event_of_ec2_starts_nothing() -> None:
    """The function that starts instances looks at what EC2 did, and calls nothing else."""
    world = stopped()
    before = list(world.ec2.calls)
    wired = undo.starting_again(parts(Ec2Parts, world))

    answer = call("undo_episode", sample("handle_state_change/stopped"), wired)

    assert {"seen": "not followed"} == answer
    assert before == world.ec2.calls


ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.\w")
SECRETS = ("s" * 32, "k" * 64, "n" * 64, LINK.rpartition("=")[2], "AQCEAAAAKgAAAAMAAAAAAAAAAQ==")
"""Secrets of the channels, of links, a link's signature, and the task token of the samples."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_handler_logs_nothing_that_opens_a_door(case: Case) -> None:
    """No token, link, secret or address, whoever asks: more people read logs than may decide."""
    function, stream = case.event.partition("/")[0], io.StringIO()
    event = {**sample(case.event), **case.changes}
    with mock.patch.object(logger.registered_handler, "stream", stream):
        call(function, event, case.wire(parts(case.kind, case.world(), case.document)))
    logged = stream.getvalue()

    assert [] == [one for one in SECRETS if one in logged]
    assert [] == ADDRESS.findall(logged)


@pytest.mark.parametrize("error", [RecursionError("deep"), Unavailable("away"), PolicyError([])])
def test_a_sweep_goes_on_where_the_review_of_the_policy_fails(error: Exception) -> None:
    """Whatever a version does to it; the log has the reason."""
    wired, stream = sweep_plan(parts(Parts, World())), io.StringIO()
    wired = wired._replace(review=mock.Mock(side_effect=error))
    with mock.patch.object(logger.registered_handler, "stream", stream):
        assert {"check": "sweep", "targets": [PLACE], "target_count": 1} == call(
            "plan_sweep", sample("plan_sweep/schedule"), wired
        )
    assert type(error).__name__ in stream.getvalue()


def test_people_learn_of_a_pause_from_the_next_sweep_also_while_the_policy_is_refused() -> None:
    """The press could not send it; a sweep without a policy lists no target."""
    world = World()
    world.state.begin_pause(Pause(world.clock.now() - timedelta(minutes=5), "oidc:ada@example.com"))
    with pytest.raises(PolicyError):
        call(
            "plan_sweep",
            sample("plan_sweep/schedule"),
            sweep_plan(parts(Parts, world, "unknown: 1\n")),
        )

    assert [AlertKind.PAUSED] == [one.kind for one in world.announcer.sent]


def test_a_sweep_goes_on_where_no_message_of_a_pause_can_be_sent() -> None:
    failing = mock.Mock(side_effect=Unavailable("away"))
    wired = sweep_plan(parts(Parts, World()))._replace(send_pause_messages=failing)

    assert 1 == call("plan_sweep", sample("plan_sweep/schedule"), wired)["target_count"]
    failing.assert_called_once_with()


def test_a_sweep_goes_on_where_the_freeze_of_everything_cannot_be_followed() -> None:
    """It stands then."""
    failing = mock.Mock(side_effect=Unavailable("away"))
    wired = sweep_plan(parts(Parts, World()))._replace(follow_hub_freeze=failing)

    assert 1 == call("plan_sweep", sample("plan_sweep/schedule"), wired)["target_count"]
    failing.assert_called_once_with()


def test_the_freeze_of_everything_is_followed_after_the_review_and_before_any_target() -> None:
    """A new version that lifts it counts at once; what the sweep counts comes after its end."""
    steps = mock.Mock()
    steps.places.return_value = ()
    named = {name: getattr(steps, name) for name in ("review", "follow_hub_freeze", "places")}
    call("plan_sweep", {}, sweep_plan(parts(Parts, World()))._replace(**named))

    assert ["review", "follow_hub_freeze", "places"] == [one[0] for one in steps.mock_calls]


def test_a_look_at_health_reviews_nothing_and_follows_no_freeze() -> None:
    """The sweep does, and a look comes at the same moment."""
    review = mock.Mock()
    follow = mock.Mock()
    wired = sweep_plan(parts(Parts, World()))
    wired = wired._replace(review=review, follow_hub_freeze=follow)
    listed = call("plan_sweep", {"check": "health"}, wired)

    assert {"check": "health", "targets": [PLACE], "target_count": 1} == listed
    review.assert_not_called()
    follow.assert_not_called()


def test_the_policy_is_read_for_a_freeze_only_while_one_stands() -> None:
    """It ends by the policy in force, as the table has it."""
    world = World()
    freeze = BreakerState(world.clock.now(), "many turned idle")
    follow = sweep_plan(parts(Parts, world, "unknown: 1\n")).follow_hub_freeze
    follow()

    world.state.begin_hub_freeze(freeze)
    with pytest.raises(PolicyError):
        follow()
    assert freeze == world.state.hub().freeze

    lifted = (world.clock.now() + timedelta(minutes=1)).isoformat()
    document = f"breaker: {{lift_freezes_before: '{lifted}'}}"
    world.clock.moment += timedelta(minutes=5)
    sweep_plan(parts(Parts, world, document)).follow_hub_freeze()
    assert world.state.hub().freeze is None


def test_a_notification_of_the_schedule_starts_no_sweep_of_nothing() -> None:
    """Refuse what Scheduler hands over without an input: answered as an event about the policy, it
    would list no target, sweep after sweep."""
    notification = {
        "version": "0",
        "source": "aws.scheduler",
        "detail-type": "Scheduled Event",
        "detail": "{}",
    }

    with pytest.raises(InputError, match=r"detail-type: Extra inputs are not permitted"):
        call("plan_sweep", notification, sweep_plan(parts(Parts, World())))


def test_more_targets_than_one_sweep_can_hold_are_refused() -> None:
    """Before Step Functions would: with what to do."""
    places = tuple(Target(f"{account:012d}", "us-east-1") for account in range(3_001))
    wired = sweep_plan(parts(Parts, World()))._replace(places=lambda: places)

    with pytest.raises(ConfigurationError, match=r"3,001 targets .* deploy a second one"):
        call("plan_sweep", {}, wired)


def hub(summed_up: Any) -> closing.HubSteps:
    """The steps of the hub, of which nothing but the sums does anything."""
    return closing.HubSteps(FleetWorld().close_sweep, summed_up)


@pytest.mark.parametrize(
    ("outcomes", "missing"), [(["failed", "swept"], 1), (["swept"], 1), ([], 2)]
)
def test_a_sweep_that_left_targets_out_fails_after_the_month_was_summed_up(
    outcomes: list[str], missing: int
) -> None:
    """A child that died has no outcome."""
    summed_up = mock.Mock(return_value=mock.Mock(published=(), costs=(), notified=(), problems=()))
    summed_up.return_value.configure_mock(
        month="2026-11", highest_budget_used_percent=0, saved_usd=0, false_stops=0
    )

    with pytest.raises(TargetsNotSwept, match=f"^{missing} of 2 targets"):
        call("sum_up_month", {"outcomes": outcomes, "target_count": 2}, lambda: hub(summed_up))
    summed_up.assert_called_once_with()


def test_a_sweep_of_no_target_succeeds() -> None:
    """`targets.without` may leave out the only place: then nothing is swept, and nothing failed."""
    place = f"{{account: '{PLACE['account']}', region: {PLACE['region']}}}"
    document = f"targets: {{without: [{place}]}}"
    wired = sweep_plan(parts(Parts, World(), document))
    listed = call("plan_sweep", sample("plan_sweep/schedule"), wired)
    assert {"check": "sweep", "targets": [], "target_count": 0} == listed

    summed_up = mock.Mock(return_value=mock.Mock(published=(), costs=(), notified=(), problems=()))
    summed_up.return_value.configure_mock(
        month="2026-11", highest_budget_used_percent=0, saved_usd=0, false_stops=0
    )
    payload = {"outcomes": [], "target_count": listed["target_count"]}
    assert "2026-11" == call("sum_up_month", payload, lambda: hub(summed_up))["month"]


def test_a_month_that_cannot_be_summed_up_hides_no_target_that_was_not_swept() -> None:
    """Both are in the log."""
    summed_up = mock.Mock(side_effect=Unavailable("away"))

    with pytest.raises(TargetsNotSwept):
        call("sum_up_month", {"outcomes": [], "target_count": 1}, lambda: hub(summed_up))
    with pytest.raises(Unavailable):
        call("sum_up_month", {"outcomes": ["swept"], "target_count": 1}, lambda: hub(summed_up))


def test_a_new_version_looks_its_units_up_at_once() -> None:
    """Or functions that act would wait for the next sweep."""
    places = mock.Mock(return_value=())
    wired = sweep_plan(parts(Parts, World()))._replace(review=mock.Mock(), places=places)

    assert {} == call("plan_sweep", sample("plan_sweep/written"), wired)
    places.assert_called_once_with()


def test_a_rotation_writes_a_next_key() -> None:
    """Into the secret of the environment, whatever the event names."""
    event, written = sample("rotate_link_keys/create"), []
    secret = SimpleNamespace(
        stages=lambda _: frozenset({"AWSPENDING"}),
        current=lambda: KEYS,
        pending=lambda _: None,
        put_pending=lambda version, document: written.append((version, sorted(document))),
    )
    wired = RotateKeys(parts(Parts, World(), link_keys=secret).link_keys)

    assert {"step": "createSecret"} == call("rotate_link_keys", event, wired)
    assert [(event["ClientRequestToken"], ["current", "k1", "k2", "next"])] == written


def test_every_function_has_a_case() -> None:
    """A new one comes with its own."""
    tried = {case.event.partition("/")[0] for case in CASES} | {"rotate_link_keys"}
    assert {path.name for path in EVENTS.iterdir()} == tried


MALFORMED = sorted(path for path in EVENTS.glob("*/malformed-*.json"))


@pytest.mark.parametrize("path", MALFORMED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_does_not_fit_is_refused_before_anything_is_made(path: Any) -> None:
    """By an error that names what is wrong."""

    def untouched(*_: object) -> Any:
        raise AssertionError("an event that does not fit must reach no use case")

    wired: Any = mock.Mock(side_effect=untouched, respond=untouched)
    event = json.loads(path.read_text())
    with pytest.raises(InputError, match="refused"):
        call(path.parent.name, event, wired)


PRIVATE = "aS3cretOfALink"
ODD: Mapping[str, Mapping[str, Any]] = {
    "long": {"rawPath": "/" + PRIVATE * 600, "pathParameters": {"link": PRIVATE * 600}},
    "long id": {"rawPath": "/" + PRIVATE * 600, "pathParameters": {"approval_id": PRIVATE * 600}},
    "no text": {
        "rawPath": f"/\x00\ufffd/{PRIVATE}",
        "pathParameters": {"link": f"\x00\ufffd.{PRIVATE}"},
    },
    "query": {"rawQueryString": f"%ff&=&a=1&a=2&{PRIVATE}"},
    "fields": {"rawQueryString": "&".join(f"{PRIVATE}{number}=" for number in range(900))},
    "cookies": {
        "cookies": ["", "=", f"__Host-governor-session={PRIVATE}", "\ufffd" * 4000, PRIVATE]
    },
    "base64": {"body": f"{PRIVATE}=*\u00e9", "isBase64Encoded": True},
    "bytes": {"body": "/////w==", "isBase64Encoded": True},
    "long body": {"body": PRIVATE * 20_000},
    "deep": {"body": "[" * 100_000},
    "bare": {},
}
PUBLIC = {
    "serve_console": console.console,
    "serve_approval": page.approval_site,
    "sign_in": issuer,
    "handle_slack_action": slack.slack_actions,
    "serve_api": api.approval_api,
}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("function", PUBLIC)
def test_no_request_of_anybody_is_an_error_of_ours(function: str, odd: str, method: str) -> None:
    """An error raises alarms and holds answers back, and its log would have the path, which opens a
    page."""
    http, stream = {"method": method, "path": ODD[odd].get("rawPath", "/")}, io.StringIO()
    form = {"content-type": "application/x-www-form-urlencoded"}
    context = {"stage": "$default", "http": http}
    event = {"rawPath": "/", "headers": form, "requestContext": context, **ODD[odd]}
    with mock.patch.object(logger.registered_handler, "stream", stream):
        answer = call(function, event, PUBLIC[function](parts(Parts, asking())))

    assert answer["statusCode"] < 500
    assert PRIVATE not in stream.getvalue()


@pytest.mark.parametrize(
    ("accept", "kind"), [("application/json", "application/json"), ("*/*", "text/html")]
)
def test_what_the_console_cannot_read_is_answered_as_asked_for(accept: str, kind: str) -> None:
    """With the headers of each of its answers: no cache mixes them up."""
    event = sample("serve_console/home") | {
        "rawQueryString": "a=1&a=2",
        "headers": {"Accept": accept},
    }
    answer = call("serve_console", event, PUBLIC["serve_console"](parts(Parts, asking())))

    assert 400 == answer["statusCode"]
    assert (kind, "Accept, Cookie") == (
        answer["headers"]["Content-Type"].partition(";")[0],
        answer["headers"]["Vary"],
    )
    assert "stands twice" in answer["body"]


def test_what_is_refused_leaves_nothing_of_itself_in_the_log() -> None:
    """The field and the reason do, and not the value: an event may hold a link, an address or a
    token."""
    stream, event = (
        io.StringIO(),
        {"requestContext": {"http": {"method": "GET"}}, "rawPath": [PRIVATE]},
    )
    with (
        mock.patch.object(logger.registered_handler, "stream", stream),
        pytest.raises(InputError, match="rawPath"),
    ):
        call("serve_console", event, None)
    assert "rawPath" in stream.getvalue()
    assert PRIVATE not in stream.getvalue()
