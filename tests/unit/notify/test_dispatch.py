"""One alert to every channel it is for: once each, what may pass again, what may not on record."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.alerts.delivery import NOWHERE, Delivery, QueuedMessage, RetryRequest
from governor.alerts.model import (
    SEAL,
    Alert,
    AlertKind,
    Owner,
    Severity,
    alert_document,
    sealed_text,
)
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.messages.questions import (
    first_yes_alert,
    stage_alert,
    undo_alert,
    waiting_alert,
)
from governor.approvals.model.approval import Answer, Decision, Stage
from governor.approvals.rules.approval import first_approval
from governor.approvals.rules.links import LinkSigner
from governor.approvals.rules.stages import notice_until
from governor.approvals.show_approval import ApprovalView
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import CloudError, InputError, Throttled
from governor.episode.model.episode import Episode, Observation, Outcome, Phase, Terms
from governor.events.messages import elsewhere_alert
from governor.events.model.interruption import SpotPrice
from governor.notify.compose import answers_of, message_of
from governor.notify.contract import parse_queued
from governor.notify.dispatch import Dispatch
from governor.notify.dispatched import Dispatched
from governor.notify.message import Delivered, DeliveryRefused, DeliveryRetryable, Message
from governor.notify.registry import CHANNELS, Recipients, Registry, Route
from governor.notify.verify_alert import VerifyAlert
from governor.notify.worker import Worker
from governor.policy.model.acting import Action
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode
from governor.web.pages import Form, Visitor, approval_page
from tests.builders import NOW, TARGET
from tests.unit.notify.builders import STORED
from tests.unit.worlds.builders import SIGNER, asked
from tests.unit.worlds.world import APPROVAL_ID, World

ML = Contact(emails=("alice@example.com", "bob@example.com"), slack_channel="C0ML")
FINOPS = Contact(emails=("finops@example.com",))
NOBODYS = (
    "it reached only shared channels, and no contact of the owner directly: set EmailSender, or "
    "the contact's own slack_channel"
)


@dataclass
class FakeChannel:
    """Takes everything, unless told otherwise."""

    name: str
    failures: list[Exception] = field(default_factory=list)
    sent: list[Message] = field(default_factory=list)
    takes_all: bool = True

    def takes(self, message: Message) -> bool:
        """As the Protocol says."""
        return self.takes_all or message.is_outcome

    def send(self, message: Message) -> Delivered:
        """As the Protocol says."""
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append(message)
        return Delivered(f"{self.name}-{len(self.sent)}", thread=f"{self.name}-thread")


@dataclass
class FakeRegistry:
    """The routes of a test; remembers who was asked for."""

    routes_: list[Route]
    asked: list[tuple[Contact, ...]] = field(default_factory=list)
    told: list[Recipients] = field(default_factory=list)

    def routes(self, contacts: Sequence[Contact], earlier: Recipients) -> tuple[Route, ...]:
        """As the registry says."""
        self.asked.append(tuple(contacts))
        self.told.append(earlier)
        return tuple(self.routes_)


def seal(text: bytes) -> str:
    """In place of the key in KMS."""
    return hashlib.sha256(b"key" + text).hexdigest()


def sealed(alert: Alert) -> Alert:
    """As our own functions send it."""
    return replace(alert, facts={**alert.facts, SEAL: seal(sealed_text(alert))})


def verifier(world: Any, alarms: Sequence[Alert] = ()) -> VerifyAlert:
    """With these alarms in CloudWatch."""
    known = {str(alarm.facts["alarm"]): alarm for alarm in alarms}
    return VerifyAlert(
        world.clock,
        episode_store=world.state,
        approval_store=world.state,
        seal=seal,
        alarms=known.get,
    )


class Post:
    """An open question, and two channels."""

    def __init__(self, **changes: Any) -> None:
        self.world = World(decide=False, **{"phase": Phase.ASKING, **changes})
        ownership = Ownership(
            contacts={"ml": ML, "finops": FINOPS},
            default_contacts=("ml",),
            escalation_contacts=("finops",),
        )
        self.world.policies.policy = replace(self.world.policies.policy, ownership=ownership)
        self.mail, self.chat = FakeChannel("email"), FakeChannel("slack")
        address = "alice@example.com"
        self.registry = FakeRegistry(
            [Route(self.mail, address, address, own=True), Route(self.chat, "C0ML", own=True)]
        )
        registry: Any = self.registry
        self.slept: list[float] = []
        self.dead_lettered: list[tuple[Alert, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.dispatch = Dispatch(
            self.world.clock,
            self.world.policies,
            delivery_store=self.world.state,
            sweep_store=self.world.state,
            failure_store=self.world.state,
            signer=SIGNER,
            registry=registry,
            dead_letter=lambda alert, why: self.dead_lettered.append((alert, why)),
            verify=verifier(self.world),
            delivery_seal=self.world.seals.deliveries,
            sleep=self.slept.append,
        )

    def alert(self, stage: Stage = Stage.ASK) -> Alert:
        """A stage's message, as it comes out of the queue."""
        episode = self.world.state.episode(self.world.ref)
        assert episode is not None
        link = SIGNER.link(APPROVAL_ID, 0)
        if stage is not Stage.TELL:
            self.world.state.await_answer(
                APPROVAL_ID, "token", stage.value, NOW + timedelta(hours=1)
            )
        return sealed(stage_alert(episode, stage, NOW, link))

    def outcome(self) -> Alert:
        """The end."""
        self.world.state.close_episode(
            self.world.ref, Outcome.STOPPED, "stopped", NOW, quiet_until=None
        )
        episode = self.world.state.episode(self.world.ref)
        link = SIGNER.link(APPROVAL_ID, 0)
        return sealed(outcome_alert(self.world.ref, episode, Outcome.STOPPED, "stopped", NOW, link))

    def records(self) -> dict[str, str | None]:
        """Channel by refusal."""
        return {
            d.channel: d.refused for d in self.world.state.deliveries(self.world.ref.execution_name)
        }


def recipient(post: Any, message: Message) -> str:
    """Return whose link it is."""
    page_id, number = SIGNER.check_short(str(message.link).rpartition("/")[2])
    known = {one: name for name, one in post.world.state.numbers(page_id).items()}
    return "broadcast" if number == 0 else known[number]


def test_a_mail_has_a_link_of_its_own_and_a_chat_the_one_for_everybody() -> None:
    """Whoever alone gets it is named in its link."""
    post = Post()
    assert Dispatched(taken=2, refused=0) == post.dispatch([post.alert()])

    assert ("alice@example.com", "broadcast") == (
        recipient(post, post.mail.sent[0]),
        recipient(post, post.chat.sent[0]),
    )
    assert {"email": None, "slack": None} == post.records()


def test_the_link_of_everybody_is_nowhere_in_a_personal_message() -> None:
    """Whoever forwards it forwards one's own name."""
    post = Post()
    post.dispatch([post.alert()])
    post.dispatch([post.outcome()])

    for message in post.mail.sent:
        assert "broadcast" not in str(message)


def test_what_was_taken_is_not_sent_again() -> None:
    """The queue gives a message more than once."""
    post = Post()
    for _ in range(2):
        post.dispatch([post.alert()])

    assert (1, 1) == (len(post.mail.sent), len(post.chat.sent))


def test_what_may_pass_is_left_and_sent_alone_the_next_time() -> None:
    """Not before what the channel asked for."""
    post = Post()
    post.chat.failures = [DeliveryRetryable("429", retry_after_seconds=70)]

    assert Dispatched(1, 0, left=1, retry_after_seconds=70) == post.dispatch([post.alert()])
    post.world.clock.moment = NOW + timedelta(seconds=30)
    assert Dispatched(0, 0, left=1, retry_after_seconds=40) == post.dispatch([post.alert()])
    assert [] == post.chat.sent
    post.world.clock.moment = NOW + timedelta(seconds=70)
    assert Dispatched(1, 0) == post.dispatch([post.alert()])
    assert (1, 1) == (len(post.mail.sent), len(post.chat.sent))


def test_a_channel_that_wants_to_wait_long_holds_up_no_other() -> None:
    """Each is tried again in its own time."""
    post = Post()
    post.chat.failures = [DeliveryRetryable("429", retry_after_seconds=43_200)]
    post.mail.failures = [DeliveryRetryable("503")]

    assert Dispatched(0, 0, left=2, retry_after_seconds=None) == post.dispatch([post.alert()])
    assert Dispatched(1, 0, left=1, retry_after_seconds=43_200) == post.dispatch([post.alert()])
    assert (1, 0) == (len(post.mail.sent), len(post.chat.sent))


def test_what_no_channel_takes_for_a_day_is_given_up_on_record() -> None:
    """Counted as refused, which raises an alarm."""
    post = Post()
    old = sealed(replace(post.alert(), at=NOW - timedelta(days=1, seconds=1)))
    post.chat.failures = [DeliveryRetryable("503")]

    assert Dispatched(1, 1) == post.dispatch([old])
    assert "given up: slack: 503" == post.records()["slack"]
    assert [(old, "slack: 503")] == post.dead_lettered


def test_what_is_given_up_is_kept_once_with_every_reason() -> None:
    """A message that a channel has refused for good is not: trying it again would change
    nothing."""
    post = Post()
    old = sealed(replace(post.alert(), at=NOW - timedelta(days=2)))
    post.registry.routes_ = [Route(FakeChannel(name), name) for name in ("slack", "teams", "email")]
    for route, error in zip(
        post.registry.routes_,
        (
            DeliveryRetryable("503"),
            ValueError("a library's own"),
            DeliveryRefused("verify the sender"),
        ),
        strict=True,
    ):
        route.channel.failures = [error]  # type: ignore[attr-defined]

    assert Dispatched(0, 3) == post.dispatch([old])
    assert [(old, "slack: 503; teams: ValueError")] == post.dead_lettered
    assert Dispatched(0, 0) == post.dispatch([old])
    assert 1 == len(post.dead_lettered)


def test_what_was_given_up_and_put_back_is_tried_once_more() -> None:
    """Only where it was given up; a channel that is still down gives it back at once."""
    post, queue = Post(), FakeQueue()
    old = sealed(replace(post.outcome(), at=NOW - timedelta(days=2)))
    post.chat.failures = [DeliveryRetryable("503")] * 2
    post.dispatch([old])
    again = queued(post, body=json.dumps({"again": alert_document(old)}))

    assert [] == worker(post, queue, [])([again])
    assert ([], 2) == (post.chat.sent, len(post.dead_lettered))
    assert [] == worker(post, queue, [])([again])
    assert (1, 1, 2) == (len(post.mail.sent), len(post.chat.sent), len(post.dead_lettered))
    assert {"email": None, "slack": None} == post.records()


def test_what_cannot_be_kept_is_not_given_up_yet() -> None:
    """Else nobody could put it back."""
    post = Post()
    old = sealed(replace(post.alert(), at=NOW - timedelta(days=2)))
    post.chat.failures = [DeliveryRetryable("503")] * 2
    unreachable, post.dispatch = post.dispatch, replace(post.dispatch, dead_letter=_unreachable)

    assert Dispatched(1, 0, left=1) == post.dispatch([old])
    assert None is post.records()["slack"]
    assert Dispatched(0, 1) == unreachable([old])


def _unreachable(alert: Alert, why: str) -> None:
    raise Throttled(f"{alert.dedup_id}: {why}")


def test_a_question_is_not_given_up_for_the_age_of_another_that_comes_with_it() -> None:
    """Nor for that of the message that asked to send both."""
    fleet = Fleet(3)
    fleet.mail.failures = [DeliveryRetryable("429", retry_after_seconds=70)]
    waiting = fleet.alerts()
    first = parse_queued(waiting[0].body)
    assert isinstance(first, Alert)
    day_old = sealed(replace(first, at=NOW - timedelta(days=1, seconds=1)))
    waiting[0] = replace(waiting[0], body=json.dumps(alert_document(day_old)))
    fleet.worker(waiting)
    bodies, fleet.queue.put = fleet.queue.put[:1], []
    flush = QueuedMessage("f0", "rf0", bodies[0][0], 1, sent_at=NOW - timedelta(days=2))

    assert ["f0"] == fleet.worker([flush])
    assert Dispatched(3, 1, left=2, retry_after_seconds=70) == fleet.seen[-1]
    assert [(waiting[0].body, "email: 429")] == [
        (json.dumps(alert_document(alert)), why) for alert, why in fleet.dead_lettered
    ]
    fleet.world.clock.moment = NOW + timedelta(seconds=70)
    assert [] == fleet.worker([flush])
    assert 2 == len(fleet.mail.sent[0].sections)


def test_a_webhook_alone_reaches_nobody() -> None:
    """A machine has taken it; the question's time does not begin by that."""
    post = Post()
    post.mail.name = "webhook"
    post.registry.routes_ = post.registry.routes_[:1]
    post.dispatch([post.alert()])

    assert "it reached only a webhook" in str(post.records()[NOWHERE])


def test_a_channel_of_everybody_is_not_that_of_the_owner() -> None:
    """It counts as delivered only where the policy names none of their own for those who are
    asked."""
    unnamed = Ownership(contacts={"all": Contact()}, default_contacts=("all",))
    for ownership, heard in ((None, False), (unnamed, True)):
        post = Post()
        post.mail.failures = [DeliveryRefused("no such box")]
        address = "alice@example.com"
        post.registry.routes_ = [
            Route(post.mail, address, address, own=True),
            Route(post.chat, "C0ALL"),
        ]
        if ownership is not None:
            post.world.policies.policy = replace(post.world.policies.policy, ownership=ownership)
        post.dispatch([post.alert()])

        found = post.world.state.deliveries(post.world.ref.execution_name)
        assert heard is any(delivery.reached_people for delivery in found)
        nowhere = [one.refused for one in found if one.channel == NOWHERE]
        assert ([] if heard else [NOBODYS]) == nowhere


@pytest.mark.parametrize(
    ("secret", "contact"),
    [
        ({"teams_webhook_url": "https://example.com/hook"}, ML),
        ({"teams_webhook_url": "https://example.com/hook"}, Contact(lists=("team@example.com",))),
        (
            {"slack_bot_token": "xoxb-1-abc", "slack_channel": "C0ALL"},
            Contact(emails=("ann@example.com",)),
        ),
        ({"pagerduty_routing_key": "k" * 32}, Contact(slack_channel="C0ML")),
    ],
)
def test_a_channel_that_is_not_set_up_is_still_that_of_the_owner(
    secret: dict[str, str], contact: Contact
) -> None:
    """The notice of mode auto began when a service of everybody had it, for an owner whom no mail
    reached."""
    post = Post(mode=Mode.AUTO, noticed_at=None)
    ownership = Ownership(contacts={"ml": contact}, default_contacts=("ml",))
    post.world.policies.policy = replace(post.world.policies.policy, ownership=ownership)
    (route,) = registry(**secret).routes((contact,), {})
    post.registry.routes_ = [replace(route, channel=post.chat)]
    alert = post.alert(Stage.TELL)

    assert Dispatched(taken=1, refused=0) == post.dispatch([alert])
    found = post.world.state.deliveries(post.world.ref.execution_name)
    episode = post.world.state.episode(post.world.ref)
    assert episode is not None
    assert notice_until(episode, found) is None
    assert NOBODYS in {one.refused for one in found}


def test_a_notice_of_mode_auto_gives_one_deadline_everywhere() -> None:
    """Its messages and its page, though the first channel takes a minute to accept it; nothing
    happens before an hour after that."""
    post = Post(mode=Mode.AUTO, noticed_at=None)
    world = post.world

    class SlowChannel(FakeChannel):
        def send(self, message: Message) -> Delivered:
            world.clock.moment += timedelta(seconds=70)
            return super().send(message)

    slow = SlowChannel("email", sent=post.mail.sent)
    first, second = post.registry.routes_
    post.registry.routes_ = [replace(first, channel=slow), second]
    post.dispatch([post.alert(Stage.TELL)])

    deliveries = world.state.deliveries(world.ref.execution_name)
    episode = world.state.episode(world.ref)
    assert episode is not None
    view = ApprovalView(first_approval(episode), episode, world.clock.now(), tuple(deliveries))
    given = "after Fri 13:02 UTC"
    for message in (*post.mail.sent, *post.chat.sent):
        assert given in message.happens
    assert given in approval_page(view, Form(Visitor("", "ada", "ada"), "", ""))
    assert NOW + timedelta(hours=1, seconds=70) == notice_until(episode, deliveries)


def test_what_is_over_is_not_asked() -> None:
    """Expired while a channel was down."""
    post = Post()
    post.world.clock.moment = NOW + timedelta(hours=2)

    assert Dispatched(0, 0) == post.dispatch([post.alert()])
    assert [] == post.mail.sent


def test_a_refusal_is_on_record_and_not_repeated() -> None:
    """With what to do; the other channels are told all the same."""
    post = Post()
    post.mail.failures = [DeliveryRefused("verify the sender")]

    assert Dispatched(1, 1) == post.dispatch([post.alert()])
    assert {"email": "email: verify the sender", "slack": None} == post.records()
    assert Dispatched(0, 0) == post.dispatch([post.alert()])
    assert [] == post.mail.sent


@pytest.mark.parametrize(
    ("routes", "why"),
    [(0, "no channel is configured"), (1, "the only channel that people read has refused it")],
)
def test_where_nobody_has_it_that_is_on_record(routes: int, why: str) -> None:
    """The workflow reads it, and fails instead of waiting for an answer nobody can give."""
    post = Post()
    post.mail.failures = [DeliveryRefused("verify the sender")]
    post.registry.routes_ = post.registry.routes_[:routes]
    post.dispatch([post.alert()])

    assert why in str(post.records()[NOWHERE])


def test_nothing_is_nowhere_as_long_as_something_is_left() -> None:
    """It may be taken yet."""
    post = Post()
    post.registry.routes_ = post.registry.routes_[:1]
    post.mail.failures = [DeliveryRetryable("503")]
    post.dispatch([post.alert()])

    assert {"email": None} == post.records()


def test_later_messages_name_the_first_ones_thread() -> None:
    """A chat keeps an episode together, and changes its first message at the end."""
    post = Post()
    for stage in (Stage.ASK, Stage.REMIND, None):
        post.dispatch([post.outcome() if stage is None else post.alert(stage)])

    assert [None, "slack-thread", "slack-thread"] == [message.thread for message in post.chat.sent]
    assert [False, False, True] == [message.is_outcome for message in post.chat.sent]


def test_an_escalation_goes_to_the_next_group_too() -> None:
    """By the policy as it is when it is sent."""
    post = Post()
    post.dispatch([post.alert()])
    post.dispatch([post.alert(Stage.ESCALATE)])

    assert [(ML,), (ML, FINOPS)] == post.registry.asked


def test_a_question_about_restarts_by_others_goes_to_the_next_group_at_once() -> None:
    """With the first message; a usual question waits for its escalation."""
    post = Post()
    episode = post.world.state.episode(post.world.ref)
    assert episode is not None
    times = (NOW - timedelta(days=2), NOW - timedelta(days=1))
    restarted = replace(episode, asking=replace(episode.asking, others_started_at=times))
    post.dispatch([sealed(stage_alert(restarted, Stage.ASK, NOW, None))])

    assert [(ML, FINOPS)] == post.registry.asked


class Office:
    """A post whose routes the registry makes itself, with one channel for each address and
    conversation."""

    def __init__(self) -> None:
        self.post = Post()
        self.channels: dict[tuple[str, str], FakeChannel] = {}
        self.registry = registry(mail=object(), slack_bot_token="xoxb-1-abc", slack_channel="C0ALL")
        office: Any = self
        self.post.dispatch = replace(self.post.dispatch, registry=office)

    def routes(self, contacts: Sequence[Contact], earlier: Recipients) -> tuple[Route, ...]:
        """As the registry says, with other channels."""
        return tuple(
            replace(
                route,
                channel=self.channels.setdefault(
                    (route.channel.name, route.target), FakeChannel(route.channel.name)
                ),
            )
            for route in self.registry.routes(contacts, earlier)
        )

    def got(self, stage: str) -> list[str]:
        """Return who has got the message of a stage, each as often as it came."""
        return sorted(
            target
            for (_, target), channel in self.channels.items()
            for message in channel.sent
            if message.stage == stage
        )


EVERYBODY = ["C0ALL", "C0ML", "alice@example.com", "bob@example.com", "finops@example.com"]


def test_who_was_escalated_to_hears_the_end_and_what_came_after_it() -> None:
    """Once each, and their conversation's first message is changed; its buttons would stay live."""
    office = Office()
    episode = office.post.world.state.episode(office.post.world.ref)
    assert episode is not None
    undone = sealed(undo_alert(episode, "link:bob@example.com", "page", NOW))
    post = office.post
    for stage in (Stage.ASK, Stage.ESCALATE):
        post.dispatch([post.alert(stage)])
    for alert in (post.outcome(), undone):
        post.dispatch([alert])

    assert ["C0ML", "alice@example.com", "bob@example.com"] == office.got("ask")
    assert [EVERYBODY] * 3 == [office.got(stage) for stage in ("escalate", "stopped", "undone")]
    end = office.channels["slack", "C0ALL"].sent[1]
    assert (True, "slack-thread") == (end.is_outcome, end.thread)


def test_every_message_about_an_instance_leads_somewhere() -> None:
    """Waiting and undone episodes lead to the record, by a link of one's own; an event to the
    instance in the console, by none. Before, those who should hold what waits had no link to do it
    by."""
    office = Office()
    post = office.post
    episode = post.world.state.episode(post.world.ref)
    approval = post.world.state.approval(APPROVAL_ID)
    assert episode is not None
    assert approval is not None
    about = post.world.ref
    event = elsewhere_alert(
        episode.instance,
        [SpotPrice("b", "b", Decimal(1))],
        {},
        Owner(episode.owner, episode.project),
        NOW,
    )
    assert event is not None
    for alert in (
        waiting_alert(episode, approval, "a cap is reached", 24, NOW, None),
        undo_alert(episode, "link:bob@example.com", "page", NOW),
        event,
    ):
        post.dispatch([sealed(alert)])

    waits, undone, advice = office.channels["email", "alice@example.com"].sent
    assert ["alice@example.com"] * 2 == [recipient(post, one) for one in (waits, undone)]
    page = f"https://api.example.com/instances/{about.account}/{about.region}/{about.instance_id}"
    assert (page, "See the instance") == (advice.link, advice.button)


def test_who_was_escalated_to_hears_of_the_first_yes() -> None:
    """Each by a link of their own, once; in chats in the thread. Where the question is over, nobody
    does."""
    office = Office()
    episode = office.post.world.state.episode(office.post.world.ref)
    assert episode is not None
    yes = Decision(
        Answer.APPROVE, "link:alice@example.com", "page", NOW, person="alice@example.com"
    )
    office.post.world.state.note_first_yes(APPROVAL_ID, yes)
    first = sealed(first_yes_alert(episode, yes, NOW + timedelta(hours=1)))
    for alert in (office.post.alert(), office.post.alert(Stage.ESCALATE), first, first):
        office.post.dispatch([alert])

    assert EVERYBODY == office.got("first-yes")
    told = {target: channel.sent[-1] for (_, target), channel in office.channels.items()}
    assert ("bob@example.com", "broadcast") == (
        recipient(office.post, told["bob@example.com"]),
        recipient(office.post, told["C0ALL"]),
    )
    assert ("slack-thread", False, "Decide") == (
        told["C0ALL"].thread,
        told["C0ALL"].is_outcome,
        told["C0ALL"].button,
    )
    office.post.world.state.void(APPROVAL_ID, "it woke up", expired=False)
    assert Dispatched(0, 0) == office.post.dispatch([sealed(replace(first, dedup_id="late"))])


def test_who_left_hears_of_no_first_yes_and_of_nothing_that_waits() -> None:
    """It is open to the end, and it is not theirs any more: they could hold it by the link."""
    office = Office()
    episode = office.post.world.state.episode(office.post.world.ref)
    assert episode is not None
    yes = Decision(
        Answer.APPROVE, "link:alice@example.com", "page", NOW, person="alice@example.com"
    )
    office.post.dispatch([office.post.alert()])
    policies = office.post.world.policies
    stays = Contact(emails=("alice@example.com",))
    ownership = Ownership(contacts={"ml": stays}, default_contacts=("ml",))
    policies.policy = replace(policies.policy, ownership=ownership)
    office.post.world.state.note_first_yes(APPROVAL_ID, yes)
    office.post.dispatch([sealed(first_yes_alert(episode, yes, NOW + timedelta(hours=1)))])

    approval = office.post.world.state.approval(APPROVAL_ID)
    assert approval is not None
    office.post.dispatch(
        [sealed(waiting_alert(episode, approval, "a cap is reached", 24, NOW, None))]
    )

    assert "bob@example.com" in office.got("ask")
    for stage in ("first-yes", "wait"):
        assert "bob@example.com" not in office.got(stage)
        assert "alice@example.com" in office.got(stage)


def test_who_did_not_take_the_escalation_hears_no_end() -> None:
    """It would be the end of what they never heard of."""
    office = Office()
    office.channels["email", "finops@example.com"] = FakeChannel(
        "email", [DeliveryRefused("no such box")]
    )
    office.post.dispatch([office.post.alert()])
    office.post.dispatch([office.post.alert(Stage.ESCALATE)])
    office.post.dispatch([office.post.outcome()])

    assert "finops@example.com" not in office.got("stopped")


def test_who_has_left_the_policy_hears_the_end_by_a_link_that_proves_nobody() -> None:
    """They were asked; but the policy no longer names them."""
    office = Office()
    for alert in (office.post.alert(), office.post.alert(Stage.ESCALATE)):
        office.post.dispatch([alert])
    policies = office.post.world.policies
    policies.policy = replace(
        policies.policy, ownership=Ownership(contacts={"ml": ML}, default_contacts=("ml",))
    )
    office.post.dispatch([office.post.outcome()])

    assert EVERYBODY == office.got("stopped")
    ends = {target: channel.sent[-1] for (_, target), channel in office.channels.items()}
    assert "bob@example.com" == recipient(office.post, ends["bob@example.com"])
    assert "broadcast" == recipient(office.post, ends["finops@example.com"])


def test_an_address_that_is_a_person_s_and_a_list_s_gets_one_mail() -> None:
    """As the person's."""
    both = (Contact(lists=("alice@example.com",)), Contact(emails=("alice@example.com",)))
    routes = registry(mail=object()).routes(both, {("email", "alice@example.com"): None})

    assert [("alice@example.com", "alice@example.com")] == [
        (one.target, one.person) for one in routes
    ]


def test_what_an_incoming_webhook_took_is_no_conversation_of_the_app() -> None:
    """The app came after it."""
    slack = registry(slack_bot_token="xoxb-1-abc", slack_channel="C0ALL")

    assert ["C0ALL"] == [
        one.target for one in slack.routes((FINOPS,), {("slack", "incoming webhook"): None})
    ]


def test_a_channel_that_is_not_for_it_is_left_out() -> None:
    """And not counted as a refusal."""
    post = Post()
    post.mail.takes_all = False

    assert Dispatched(1, 0) == post.dispatch([post.alert()])


@pytest.mark.parametrize(
    ("changes", "answers"),
    [
        ({}, (Answer.KEEP, Answer.EXEMPT)),
        ({"instance_type": "g5g.xlarge"}, (Answer.KEEP, Answer.EXEMPT)),
    ],
)
def test_a_button_never_wipes_a_disk(changes: dict[str, Any], answers: tuple[Answer, ...]) -> None:
    """A tick or a typed id is for the page. A world without a catalog may have disks."""
    episode = World(decide=False, changes=changes)._stored()
    assert answers == answers_of(episode)
    plain = replace(episode, plan=replace(episode.plan, loses_local_disks=False))
    assert (Answer.APPROVE, *answers) == answers_of(plain)
    assert answers == answers_of(replace(plain, terms=Terms(people_needed=2)))
    assert answers == answers_of(World(decide=False, action=Action.TERMINATE)._stored())


def test_a_question_says_everything_that_its_page_says_of_the_plan() -> None:
    """The losses before the buttons; after them the steps, what it keeps, restarting, and the
    price."""
    episode = World(decide=False)._stored()
    message = message_of(stage_alert(episode, Stage.ASK, NOW, None), episode, link=None)

    assert ["What is lost"] == [section.heading for section in message.sections]
    folded = [section.heading for section in message.details]
    plan = "If you stop it, GPU Governor will"
    assert [plan, "What is kept", "Starting it again", "Price"] == folded
    assert message.evidence is not None
    assert ("0", "GPU 0") == (episode.measurement.evidence.gpus[0].gpu, message.evidence.rows[0][0])


def test_a_fault_of_one_channel_holds_up_no_other() -> None:
    """Whatever it is; it is tried again, and given up in the end."""
    post = Post()
    post.mail.failures = [RuntimeError("a library's own")]

    assert Dispatched(1, 0, left=1) == post.dispatch([post.alert()])
    assert 1 == len(post.chat.sent)
    assert Dispatched(1, 0) == post.dispatch([post.alert()])
    post.mail.failures = [RuntimeError("again")]
    old = sealed(replace(post.alert(Stage.REMIND), at=NOW - timedelta(days=2)))
    assert Dispatched(1, 1) == post.dispatch([old])


@dataclass
class BusyTable:
    """Throttles calls of one method of a table, from the first on, as often as told; then calls
    it."""

    table: Any
    method: str
    times: int

    def __post_init__(self) -> None:
        self._real = getattr(self.table, self.method)
        setattr(self.table, self.method, self)

    def __call__(self, *arguments: Any) -> Any:
        """Raises: Throttled."""
        if self.times:
            self.times -= 1
            raise Throttled("ProvisionedThroughputExceeded")
        return self._real(*arguments)


@pytest.mark.parametrize("kind", ["ask", "outcome"])
def test_two_workers_with_the_same_message_send_it_once(kind: str) -> None:
    """SNS and SQS deliver at least once; here the second one comes while the first one is
    sending."""
    post, other = Post(), list[Dispatched]()
    alert = post.alert() if kind == "ask" else post.outcome()

    @dataclass
    class Slow(FakeChannel):
        def send(self, message: Message) -> Delivered:
            other.append(post.dispatch([alert]))
            return FakeChannel.send(self, message)

    slow = Slow("slack")
    post.registry.routes_ = [Route(slow, "C0ML")]

    assert (Dispatched(1, 0), [Dispatched(0, 0, left=1, retry_after_seconds=300)]) == (
        post.dispatch([alert]),
        other,
    )
    assert (1, Dispatched(0, 0)) == (len(slow.sent), post.dispatch([alert]))


def test_a_claim_that_is_lost_at_the_last_moment_is_the_other_s() -> None:
    """Both have read that nobody is at it."""
    post = Post()
    claimed = Delivery(
        post.world.ref.execution_name,
        post.alert().dedup_id,
        "slack",
        "C0ML",
        NOW,
        not_before=NOW + timedelta(minutes=5),
    )
    real = post.world.state.deliveries

    def as_it_was(subject: str) -> list[Delivery]:
        found = real(subject)
        post.world.state.note_delivery(claimed)
        return found

    post.world.state.deliveries = as_it_was  # type: ignore[method-assign]

    assert Dispatched(1, 0, left=1) == post.dispatch([post.alert()])
    assert [] == post.chat.sent


def test_a_worker_that_died_while_it_sent_swallows_nothing() -> None:
    """Nobody knows whether the channel had taken it; from five minutes on it is sent again."""
    post = Post()
    post.registry.routes_ = post.registry.routes_[:1]
    post.mail.failures = [SystemExit()]  # type: ignore[list-item]
    with pytest.raises(SystemExit):
        post.dispatch([post.alert()])

    post.world.clock.moment = NOW + timedelta(seconds=299)
    assert Dispatched(0, 0, left=1, retry_after_seconds=1) == post.dispatch([post.alert()])
    post.world.clock.moment = NOW + timedelta(seconds=300)
    assert Dispatched(1, 0) == post.dispatch([post.alert()])


def test_what_was_taken_is_noted_after_all() -> None:
    """The table was busy just then; the repetition sends nothing again, and the other channel was
    served."""
    post = Post()
    BusyTable(post.world.state, "note_delivery", times=3)

    assert Dispatched(2, 0) == post.dispatch([post.alert()])
    assert [1.0, 4.0] == post.slept
    assert Dispatched(0, 0) == post.dispatch([post.alert()])
    assert (1, 1, {"email": None, "slack": None}) == (
        len(post.mail.sent),
        len(post.chat.sent),
        post.records(),
    )


def test_what_was_taken_and_could_not_be_noted_is_sent_again_once_its_claim_has_lapsed() -> None:
    """At least once: a question that is on nobody's record would fail."""
    post = Post()
    post.registry.routes_ = post.registry.routes_[:1]
    busy = BusyTable(post.world.state, "note_delivery", times=100)

    assert Dispatched(1, 0, left=1, retry_after_seconds=300) == post.dispatch([post.alert()])
    busy.times = 0
    post.world.clock.moment = NOW + timedelta(seconds=15)
    assert Dispatched(0, 0, left=1, retry_after_seconds=285) == post.dispatch([post.alert()])
    post.world.clock.moment = NOW + timedelta(seconds=300)
    assert Dispatched(1, 0) == post.dispatch([post.alert()])
    assert 2 == len(post.mail.sent)


@pytest.mark.parametrize("method", ["claim_delivery", "put_digest"])
def test_a_table_that_is_busy_for_one_route_holds_up_no_other(method: str) -> None:
    """The rest is tried again at once: no claim stays behind."""
    fleet = Fleet(3)
    fleet.worker(fleet.alerts())
    BusyTable(fleet.world.state, method, times=1)

    fleet.queue.put, again = fleet.queue.put[:1], fleet.queue.put[:1]
    assert ["f0"] == fleet.flush()
    assert (0, 3) == (len(fleet.mail.sent), len(fleet.hook.sent))
    fleet.queue.put = again
    assert [] == fleet.flush()
    assert (1, 3) == (len(fleet.mail.sent), len(fleet.hook.sent))


def test_a_link_that_cannot_be_signed_yet_is_left() -> None:
    """The keys could not be read."""
    post = Post()
    dispatch = replace(post.dispatch, signer=LinkSigner(_unreadable, "https://api.example.com"))

    assert Dispatched(0, 0, left=2) == dispatch([post.alert()])
    assert Dispatched(2, 0) == post.dispatch([post.alert()])


def _unreadable() -> dict[str, str]:
    raise Throttled("Secrets Manager is busy")


def test_people_who_share_no_address_share_no_group() -> None:
    """Lists are people, too."""
    post = Post()
    policy = post.world.policies.policy
    contacts = {name: Contact(lists=(f"{name}@example.com",)) for name in ("finops", "mlops")}
    groups = set()
    for name in contacts:
        ownership = Ownership(contacts=contacts, default_contacts=(name,))
        post.world.policies.policy = replace(policy, ownership=ownership)
        groups.add(post.dispatch.group(post.alert()))
    assert 2 == len(groups)


# the queue


@dataclass
class FakeQueue:
    """Remembers what waits for how long."""

    delayed: list[tuple[str, int]] = field(default_factory=list)
    put: list[tuple[str, int]] = field(default_factory=list)

    def retry_after(self, receipt: str, seconds: int) -> None:
        """As the Protocol says."""
        self.delayed.append((receipt, seconds))

    def send_later(self, body: str, seconds: int) -> None:
        """As the Protocol says."""
        self.put.append((body, seconds))


def worker(post: Post, queue: FakeQueue, seen: list[Dispatched]) -> Worker:
    """Over the post's channels."""
    return Worker(
        post.world.clock,
        lambda: post.dispatch,
        post.world.state,
        queue,
        lambda body, why: post.refused.append((body, why)),
        parse_queued,
        lambda done, _: seen.append(done),
    )


def queued(
    post: Post, number: int = 1, receives: int = 1, body: str | None = None
) -> QueuedMessage:
    """A message as the queue hands it out."""
    text = json.dumps(alert_document(post.alert())) if body is None else body
    return QueuedMessage(f"m{number}", f"r{number}", text, receives)


def test_an_alert_survives_the_queue() -> None:
    """The queue reads back what SNS publishes for machines."""
    post = Post()
    assert post.alert() == parse_queued(queued(post).body)


def test_a_bad_message_holds_up_no_other() -> None:
    """The queue moves it to the dead-letter queue in the end; the others are delivered."""
    post, queue, seen = Post(), FakeQueue(), list[Dispatched]()
    digest_rule(post, digest_from=0)
    left = worker(post, queue, seen)([queued(post, 1, body="{}"), queued(post, 2)])

    assert (["m1"], [("r1", 15)]) == (left, queue.delayed)
    assert [Dispatched(0, 0, left=1), Dispatched(2, 0)] == seen


def digest_rule(post: Post, **changes: Any) -> None:
    """Changes the policy's approval rule."""
    policy = post.world.policies.policy
    post.world.policies.policy = replace(policy, approval=replace(policy.approval, **changes))


@pytest.mark.parametrize(
    ("wanted", "receives", "delay"),
    [(None, 1, 15), (None, 4, 120), (70, 1, 70), (None, 30, 900), (5, 1, 15)],
)
def test_what_is_left_comes_back_later_each_time(
    wanted: int | None, receives: int, delay: int
) -> None:
    """At least as late as the channel asked for, and never in a rush."""
    post, queue = Post(), FakeQueue()
    digest_rule(post, digest_from=0)
    post.chat.failures = [DeliveryRetryable("429", retry_after_seconds=wanted)]

    assert ["m1"] == worker(post, queue, [])([queued(post, receives=receives)])
    assert [("r1", delay)] == queue.delayed


def test_what_stands_in_the_way_of_all_channels_leaves_the_message_in_the_queue() -> None:
    """Tried again in seconds, not after the queue's own time-out; counted, so that it is seen."""
    post, queue, seen = Post(), FakeQueue(), list[tuple[Dispatched, float]]()

    def unreachable() -> Dispatch:
        raise Throttled("Secrets Manager is busy")

    work = Worker(
        post.world.clock,
        unreachable,
        post.world.state,
        queue,
        lambda body, why: post.refused.append((body, why)),
        parse_queued,
        lambda done, late: seen.append((done, late)),
    )
    old = replace(queued(post), sent_at=NOW - timedelta(hours=2))

    assert (["m1"], [("r1", 15)]) == (work([old]), queue.delayed)
    assert [(Dispatched(0, 0, left=1), 7200.0)] == seen


@pytest.mark.parametrize(("wait", "late"), [(None, 600.0), (43_200, 43_200.0)])
def test_how_late_a_message_is_or_will_be_is_told(wait: int | None, late: float) -> None:
    """A channel that wants to wait for long is seen at once."""
    post, queue, seen = Post(), FakeQueue(), list[float]()
    digest_rule(post, digest_from=0)
    post.chat.failures = [DeliveryRetryable("429", retry_after_seconds=wait)]
    work = replace(worker(post, queue, []), count_result=lambda _, seconds: seen.append(seconds))
    work([replace(queued(post), sent_at=NOW - timedelta(minutes=10))])

    assert [late] == seen


def test_a_channel_secret_that_cannot_be_read_stops_no_mail() -> None:
    """It is a refusal on record."""
    broken = replace(registry(mail=object()), problem="the secret must be a JSON object of strings")
    routes = broken.routes((ML,), {})

    assert ["secret", "email", "email"] == [route.channel.name for route in routes]
    with pytest.raises(DeliveryRefused, match="JSON object"):
        routes[0].channel.send(message_of(Post().alert(), None, link=None))


def test_a_table_that_is_busy_leaves_the_message_in_the_queue() -> None:
    """Nothing was recorded, so nothing is lost."""
    post, queue = Post(), FakeQueue()

    def busy(_: str) -> list[Any]:
        raise Throttled("later")

    digest_rule(post, digest_from=0)
    post.world.state.deliveries = busy  # type: ignore[method-assign, assignment]
    assert ["m1"] == worker(post, queue, [])([queued(post)])


ALARM = """{"AlarmName": "stack-PutAwayErrorsAlarm", "AlarmDescription": "It raised an error.",
 "AWSAccountId": "123456789012", "NewStateValue": "%s", "NewStateReason": "Threshold Crossed",
 "StateChangeTime": "2026-11-20T12:02:30.000+0000", "Region": "US East (N. Virginia)",
 "AlarmArn": "arn:aws:cloudwatch:us-east-1:123456789012:alarm:stack-PutAwayErrorsAlarm"}"""


def in_cloudwatch(name: str) -> Alert:
    """An alarm as CloudWatch describes it."""
    return Alert(
        AlertKind.ALARM,
        Severity.CRITICAL,
        TARGET.account,
        TARGET.region,
        f"{name}: ALARM",
        ("It raised an error.", "Threshold Crossed"),
        f"alarm-{name}-1",
        NOW,
        facts={"alarm": name},
    )


@pytest.mark.parametrize("again", [False, True])
def test_an_alarm_reaches_the_default_contacts_in_the_words_of_cloudwatch(again: bool) -> None:
    """Nothing of the message is believed but the name; also of one that somebody has put back."""
    post = Post()
    known = in_cloudwatch("stack-PutAwayErrorsAlarm")
    post.dispatch = replace(post.dispatch, verify=verifier(post.world, [known]))
    text = ALARM.replace("Threshold", "Click https://evil.example.com")
    alert = known if again else parse_queued(text % "ALARM")
    assert isinstance(alert, Alert)
    post.dispatch([alert])

    (sent,) = post.mail.sent
    assert (AlertKind.ALARM, "critical", "us-east-1") == (
        sent.kind,
        sent.severity.value,
        sent.facts.region,
    )
    assert [(ML,)] == post.registry.asked
    assert ("It raised an error.", "Threshold Crossed") == (sent.happens, *sent.lead)


ALARM_OVER = json.dumps(
    {
        "version": "0",
        "detail-type": "CloudWatch Alarm State Change",
        "source": "aws.cloudwatch",
        "account": "123456789012",
        "region": "us-east-1",
        "resources": ["arn:aws:cloudwatch:us-east-1:123456789012:alarm:stack-PutAwayErrorsAlarm"],
        "detail": {
            "alarmName": "stack-PutAwayErrorsAlarm",
            "state": {
                "value": "OK",
                "reason": "Click",
                "timestamp": "2026-11-20T12:07:30.000+0000",
            },
            "previousState": {"value": "ALARM", "timestamp": "2026-11-20T12:02:30.000+0000"},
        },
    }
)
"""As EventBridge delivers it (CloudWatch User Guide, Alarm events and EventBridge)."""


def test_the_end_of_an_alarm_is_for_machines_alone() -> None:
    """A mail would be one more; nobody misses it, so nothing is recorded as delivered to nobody."""
    post, known = Post(), in_cloudwatch("stack-PutAwayErrorsAlarm")
    over = replace(known, kind=AlertKind.ALARM_OVER, severity=Severity.INFO, dedup_id="alarm-2")
    post.dispatch = replace(post.dispatch, verify=verifier(post.world, [over]))
    pager, hook = FakeChannel("pagerduty"), FakeChannel("webhook")
    post.registry.routes_ += [Route(pager, "service"), Route(hook, "webhook")]
    assert [] == worker(post, FakeQueue(), [])([queued(post, body=ALARM_OVER)] * 2)

    assert ([], [], 1, 1) == (post.mail.sent, post.chat.sent, len(pager.sent), len(hook.sent))
    assert AlertKind.ALARM_OVER is pager.sent[0].kind
    assert {"pagerduty", "webhook"} == {
        one.channel for one in post.world.state.deliveries("alarm-2")
    }


def test_an_alarm_that_came_back_before_its_end_was_sent_goes_to_all() -> None:
    """CloudWatch is believed, not the order in which a queue hands out messages."""
    post = Post()
    known = in_cloudwatch("stack-PutAwayErrorsAlarm")
    post.dispatch = replace(post.dispatch, verify=verifier(post.world, [known]))
    assert [] == worker(post, FakeQueue(), [])([queued(post, body=ALARM_OVER)])
    assert [AlertKind.ALARM] == [message.kind for message in post.mail.sent]


def test_people_hear_of_an_alarm_also_when_it_is_over_by_then() -> None:
    """A message that waited for its channel is not lost because the alarm is."""
    post = Post()
    known = replace(in_cloudwatch("stack-PutAwayErrorsAlarm"), kind=AlertKind.ALARM_OVER)
    post.dispatch = replace(post.dispatch, verify=verifier(post.world, [known]))
    assert [] == worker(post, FakeQueue(), [])([queued(post, body=ALARM % "ALARM")])
    assert [AlertKind.ALARM] == [message.kind for message in post.mail.sent]


def test_an_alarm_and_its_end_are_sent_one_after_the_other() -> None:
    """Else a slow worker opened again what another one has just resolved."""
    post = Post()
    post.dispatch = replace(
        post.dispatch, verify=verifier(post.world, [in_cloudwatch("stack-PutAwayErrorsAlarm")])
    )
    assert post.world.state.take_lease("stack-PutAwayErrorsAlarm", NOW, 300)
    assert ["m1"] == worker(post, FakeQueue(), [])([queued(post, body=ALARM_OVER)])
    assert [] == post.mail.sent


def test_the_end_of_an_alarm_of_others_is_no_forgery() -> None:
    """The rule goes by the beginning of a name, which another stack may share."""
    post, seen = Post(), list[Dispatched]()
    assert [] == worker(post, FakeQueue(), seen)([queued(post, body=ALARM_OVER)])
    assert ([], [Dispatched(0, 0)]) == (post.refused, seen)


def test_an_alert_that_was_given_up_survives_the_queue() -> None:
    """CloudWatch's too, in our words."""
    alarm = parse_queued(ALARM % "ALARM")
    for alert in (alarm, Post().alert()):
        assert isinstance(alert, Alert)
        assert RetryRequest(alert) == parse_queued(json.dumps({"again": alert_document(alert)}))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"version": 2}',
        '{"AlarmName": "x"}',
        '{"again": {}}',
        '{"again": {"again": {}}}',
        '{"again"',
        "not json",
    ],
)
def test_what_is_no_alert_is_refused(body: str) -> None:
    """With what does not fit."""
    with pytest.raises(InputError, match=r"Document was refused|no JSON"):
        parse_queued(body)


# the registry


def registry(mail: Any = None, **secret: str) -> Registry:
    """With this channel secret."""
    return Registry(secret, mail, "governor@example.com" if mail else None, World().clock)


def test_each_stored_channel_is_a_route() -> None:
    """One mail a person, one post a conversation, one each of the others; targets hold no
    secret."""
    full = registry(mail=object(), **STORED)
    shared = [
        (name, kind.shared_target, None)
        for name, kind in CHANNELS.items()
        if kind.make_shared is not None
    ]
    routes = [
        (route.channel.name, route.target, route.person) for route in full.routes((ML, FINOPS), {})
    ]

    assert [
        ("email", "alice@example.com", "alice@example.com"),
        ("email", "bob@example.com", "bob@example.com"),
        ("email", "finops@example.com", "finops@example.com"),
        ("slack", "C0ML", None),
        ("slack", "C0ALL", None),
        *shared,
    ] == routes
    assert ["C0ALL"] == [r.target for r in full.routes((FINOPS,), {}) if r.channel.name == "slack"]


def test_a_conversation_of_one_contact_s_own_takes_the_secret_s_from_no_other() -> None:
    """With Slack as the only channel an escalation reaches the next group; each conversation
    once."""
    slack = registry(slack_bot_token="xoxb-1-abc", slack_channel="C0ALL")
    nowhere_else = registry(slack_bot_token="xoxb-1-abc")

    assert ["C0ML", "C0ALL"] == [route.target for route in slack.routes((ML, FINOPS, FINOPS), {})]
    assert ["C0ALL"] == [route.target for route in slack.routes((), {})]
    assert ["C0ML"] == [route.target for route in nowhere_else.routes((ML, FINOPS), {})]


def test_nothing_stored_is_no_route() -> None:
    """And a contact alone makes none."""
    assert () == registry().routes((ML,), {})


def test_a_contact_s_own_channels_are_told_from_those_of_everybody() -> None:
    """Also where a list is, and where the contact has no conversation and gets the secret's."""
    team = Contact(emails=("alice@example.com",), lists=("ml@example.com",))
    made = registry(mail=object(), slack_bot_token="xoxb-1-abc", slack_channel="C0ALL")
    earlier = {("email", "bob@example.com"): None}

    assert {
        "alice@example.com": True,
        "ml@example.com": True,
        "bob@example.com": False,
        "C0ALL": False,
    } == {route.target: route.own for route in made.routes((team,), earlier)}
    assert [True] == [route.own for route in made.routes((ML,), {}) if route.target == "C0ML"]


UNUSABLE = [
    ({"slack_token": "xoxb-very-secret"}, "secret"),
    ({"slack_bot_token": "xoxp-very-secret", "slack_channel": "C0ML"}, "slack"),
    ({"slack_webhook_url": "http://very-secret.example.com"}, "slack"),
    ({"teams_webhook_url": "http://very-secret.example.com"}, "teams"),
    ({"pagerduty_routing_key": "very-secret"}, "pagerduty"),
    ({"webhook_url": "https://example.com/very-secret"}, "webhook"),
]
"""Settings that cannot be used: an unknown key, and some of each channel."""


def test_every_channel_with_settings_is_tried_with_unusable_ones() -> None:
    """A new channel gets a row above."""
    with_settings = {name for name, kind in CHANNELS.items() if kind.settings}
    tried = {channel for _, channel in UNUSABLE}

    assert {"secret", *with_settings} == tried, "give each channel a row in UNUSABLE"


@pytest.mark.parametrize(("secret", "channel"), UNUSABLE)
def test_a_channel_that_makes_no_sense_refuses_and_holds_up_no_other(
    secret: dict[str, str], channel: str
) -> None:
    """It says why, without showing a value; mail goes out all the same."""
    routes = registry(mail=object(), **secret).routes((ML,), {})
    broken = [route for route in routes if route.channel.name == channel]

    assert 2 == sum(route.channel.name == "email" for route in routes)
    assert broken
    message = message_of(Post().alert(), None, link=None)
    with pytest.raises(DeliveryRefused) as caught:
        broken[0].channel.send(message)
    assert "very-secret" not in str(caught.value)


def test_a_list_gets_the_link_that_proves_nobody() -> None:
    """Its members cannot be told apart."""
    team = Contact(emails=("alice@example.com",), lists=("ml-team@example.com",))
    routes = registry(mail=object()).routes((team,), {})

    assert [("alice@example.com", "alice@example.com"), ("ml-team@example.com", None)] == [
        (route.target, route.person) for route in routes
    ]


# digests


class Fleet:
    """Several open questions to the same people, behind the worker."""

    def __init__(self, number: int) -> None:
        world = None
        self.refs = []
        for index in range(1, number + 1):
            world, _, ref = asked(index, world)
            self.refs.append(ref)
        assert world is not None
        self.world = world
        ownership = Ownership(contacts={"ml": ML}, default_contacts=("ml",))
        world.policies.policy = replace(world.policies.policy, ownership=ownership)
        self.mail, self.hook = FakeChannel("email"), FakeChannel("webhook")
        address = "alice@example.com"
        registry: Any = FakeRegistry(
            [Route(self.mail, address, address, own=True), Route(self.hook, "webhook")]
        )
        numbers = iter(range(1, 100))
        self.dead_lettered: list[tuple[Alert, str]] = []
        self.refused: list[tuple[str, str]] = []
        self.dispatch = Dispatch(
            world.clock,
            world.policies,
            delivery_store=world.state,
            sweep_store=world.state,
            failure_store=world.state,
            signer=SIGNER,
            registry=registry,
            dead_letter=lambda alert, why: self.dead_lettered.append((alert, why)),
            verify=verifier(world),
            delivery_seal=world.seals.deliveries,
            digest_id=lambda: f"digest-{next(numbers)}",
        )
        self.queue, self.seen = FakeQueue(), list[Dispatched]()
        self.worker = Worker(
            world.clock,
            lambda: self.dispatch,
            world.state,
            self.queue,
            lambda body, why: self.refused.append((body, why)),
            parse_queued,
            lambda done, _: self.seen.append(done),
        )

    def alerts(self, stage: Stage = Stage.ASK) -> list[QueuedMessage]:
        """The stage's message of each, as the queue hands them out."""
        found = []
        for number, ref in enumerate(self.refs):
            episode = self.world.state.episode(ref)
            assert episode is not None
            link = SIGNER.link(episode.approval_id, 0)
            self.world.state.await_answer(
                episode.approval_id, "token", stage.value, NOW + timedelta(hours=1)
            )
            body = json.dumps(alert_document(sealed(stage_alert(episode, stage, NOW, link))))
            found.append(QueuedMessage(f"m{number}", f"r{number}", body, 1))
        return found

    def flush(self) -> list[str]:
        """Return what was put for later, handed out; the ids of what is left."""
        bodies, self.queue.put = self.queue.put, []
        return self.worker(
            [QueuedMessage(f"f{n}", f"rf{n}", body, 1) for n, (body, _) in enumerate(bodies)]
        )


def test_many_questions_to_one_person_come_as_one_message() -> None:
    """After a short wait; a machine gets each by itself; every episode has its record."""
    fleet = Fleet(3)
    assert [] == fleet.worker(fleet.alerts())
    assert ([], 3, {60}) == (
        fleet.mail.sent,
        len(fleet.queue.put),
        {seconds for _, seconds in fleet.queue.put},
    )

    assert [] == fleet.flush()
    (digest,) = fleet.mail.sent
    title = "3 idle GPU instances keep running unless you stop them. $72/day"
    assert (title, 3) == (digest.title, len(digest.sections[0].lines))
    assert str(digest.link).startswith("https://api.example.com/q/digest-1.1.")
    assert "alice@example.com" == recipient(fleet, digest)
    assert 3 == len(fleet.hook.sent)
    assert 3 == len(fleet.world.state.digest("digest-1"))
    for ref in fleet.refs:
        records = fleet.world.state.deliveries(ref.execution_name)
        assert {"email": None, "webhook": None} == {d.channel: d.refused for d in records}


def test_few_questions_come_by_themselves() -> None:
    """Fewer than the policy says."""
    fleet = Fleet(2)
    fleet.worker(fleet.alerts())
    fleet.flush()

    assert (2, 2) == (len(fleet.mail.sent), len(fleet.hook.sent))


def test_a_message_is_sent_once_however_often_the_queue_repeats_it() -> None:
    """Neither again by itself nor in another digest."""
    fleet = Fleet(3)
    for _ in range(2):
        fleet.worker(fleet.alerts())
        fleet.flush()

    assert (1, 3) == (len(fleet.mail.sent), len(fleet.hook.sent))


def test_stages_do_not_mix() -> None:
    """A reminder is a message of its own."""
    fleet = Fleet(3)
    fleet.worker(fleet.alerts())
    fleet.worker(fleet.alerts(Stage.REMIND))
    fleet.flush()

    assert [False, True] == ["Reminder" in message.title for message in fleet.mail.sent]


def test_what_was_answered_meanwhile_is_not_asked() -> None:
    """Two of four are left, and come by themselves."""
    fleet = Fleet(4)
    fleet.worker(fleet.alerts())
    for ref in fleet.refs[:2]:
        episode = fleet.world.state.episode(ref)
        assert episode is not None
        fleet.world.state.void(episode.approval_id, "it woke up", expired=False)
    fleet.flush()

    (digest,) = fleet.mail.sent
    assert 2 == len(digest.sections)


def test_a_digest_that_may_pass_later_stays_in_the_outbox() -> None:
    """And is sent by the flush that is left in the queue."""
    fleet = Fleet(3)
    fleet.mail.failures = [DeliveryRetryable("503")]
    fleet.worker(fleet.alerts())
    fleet.queue.put = fleet.queue.put[:1]
    again = fleet.queue.put[:1]
    assert ["f0"] == fleet.flush()

    fleet.queue.put = again
    assert [] == fleet.flush()
    assert (1, 3) == (len(fleet.mail.sent), len(fleet.hook.sent))


def test_a_waiting_message_that_cannot_be_read_any_more_holds_up_no_other() -> None:
    """It is kept for a person, as what nothing proves."""
    fleet = Fleet(3)
    fleet.worker(fleet.alerts())
    group = json.loads(fleet.queue.put[0][0])["flush"]
    fleet.world.state.put_outbox(group, "a", "{}", NOW)

    assert [] == fleet.flush()
    assert (1, []) == (len(fleet.mail.sent), list(fleet.world.state.outbox(group)))
    assert ["{}"] == [body for body, _ in fleet.refused]


def test_a_policy_that_changed_while_questions_waited_sends_each_to_its_own_people() -> None:
    """They went into the outbox together; nobody gets the others' any more."""
    fleet, office = Fleet(3), Office()
    office.registry = registry(mail=object())
    fleet.dispatch = replace(fleet.dispatch, registry=office)  # type: ignore[arg-type]
    episode = fleet.world.state.episode(fleet.refs[0])
    assert episode is not None
    fleet.world.state.put(replace(episode, project="vision"))
    waiting = fleet.alerts()
    body = json.loads(waiting[0].body)
    fleet.worker(waiting)
    policies = fleet.world.policies
    ownership = Ownership(
        contacts={"ml": ML, "finops": FINOPS},
        default_contacts=("ml",),
        project_owners={"vision": "finops"},
    )
    policies.policy = replace(policies.policy, ownership=ownership)
    assert [] == fleet.flush()

    sent = {target: channel.sent for (_, target), channel in office.channels.items()}
    assert {"alice@example.com": 2, "bob@example.com": 2, "finops@example.com": 1} == {
        target: len(messages) for target, messages in sent.items()
    }
    assert body["instance_id"] == sent["finops@example.com"][0].facts.instance_id
    assert body["instance_id"] not in {one.facts.instance_id for one in sent["alice@example.com"]}


def test_a_question_that_cannot_be_read_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """It waits; the two others are sent, each by itself."""
    fleet = Fleet(3)
    fleet.worker(fleet.alerts())
    read, broken = fleet.world.state.episode, fleet.refs[1]

    def unreadable(ref: EpisodeRef) -> Episode | None:
        if ref == broken:
            raise CloudError("an item of another release", operation="dynamodb:GetItem")
        return read(ref)

    fleet.world.state.episode = unreadable  # type: ignore[method-assign]
    fleet.queue.put = fleet.queue.put[:1]

    assert ["f0"] == fleet.flush()
    assert broken.instance_id not in {message.facts.instance_id for message in fleet.mail.sent}
    assert (2, 2) == (len(fleet.mail.sent), len(fleet.hook.sent))
    assert "was not delivered" in caplog.text


def test_two_workers_do_not_send_the_same_group(caplog: pytest.LogCaptureFixture) -> None:
    """The second one comes back later, and nothing is wrong with that."""
    caplog.set_level("INFO")
    fleet = Fleet(3)
    fleet.worker(fleet.alerts())
    group = json.loads(fleet.queue.put[0][0])["flush"]
    assert fleet.world.state.take_lease(group, NOW, 300)

    assert ["f0", "f1", "f2"] == fleet.flush()
    assert [] == fleet.mail.sent
    assert {("INFO", None)} == {(record.levelname, record.exc_info) for record in caplog.records}
    assert "another worker" in caplog.text


@pytest.mark.parametrize("stage", ["ask", "outcome"])
def test_two_workers_do_not_send_about_the_same_episode(stage: str) -> None:
    """Nor does one tell its end before the other is done with the question, and knows who has
    it."""
    post, queue = Post(), FakeQueue()
    digest_rule(post, digest_from=0)
    alert = post.alert() if stage == "ask" else post.outcome()
    message = queued(post, body=json.dumps(alert_document(alert)))
    assert post.world.state.take_lease(post.world.ref.execution_name, NOW, 300)

    assert (["m1"], [], [("r1", 15)]) == (
        worker(post, queue, [])([message]),
        post.mail.sent,
        queue.delayed,
    )
    post.world.state.end_lease(post.world.ref.execution_name)
    assert [] == worker(post, queue, [])([message])
    assert post.world.state.take_lease(post.world.ref.execution_name, NOW, 300)


@pytest.mark.parametrize("failure", [None, Throttled("busy")])
def test_an_event_says_what_its_instance_cost_at_the_last_sweep(failure: CloudError | None) -> None:
    """Functions that react to events have no time to ask. A table that is busy keeps no message
    back."""
    post = Post()
    state, instance_id = post.world.state, post.world.ref.instance_id
    seen = Observation(NOW, "busy", NOW, usd_per_hour=Decimal("5.67"))
    state.remember(TARGET, {instance_id: seen}, NOW)
    if failure is not None:
        BusyTable(state, "observations", 1)
    post.dispatch([sealed(replace(post.outcome(), facts={}))])

    assert (None if failure else Decimal("136.08")) == post.mail.sent[0].facts.usd_per_day


@pytest.mark.parametrize(
    ("stage", "project_owners", "why"),
    [
        (Stage.ASK, {}, "as a default contact."),
        (Stage.ESCALATE, {}, "as a default contact or as an escalation contact."),
        (Stage.ASK, {"vision": "ml"}, "as a contact for the instances of "),
    ],
    ids=["asked", "escalated", "of a project"],
)
def test_default_contacts_are_not_called_contacts_of_an_unknown_owner(
    stage: Stage, project_owners: dict[str, str], why: str
) -> None:
    """The message says a few lines earlier that the policy does not know that owner."""
    post = Post()
    policy = post.world.policies.policy
    ownership = replace(policy.ownership, project_owners=project_owners)
    post.world.policies.policy = replace(policy, ownership=ownership)
    alert = replace(post.alert(stage), owner="nobody-known", project="vision")

    assert post.dispatch._is_to_default_contacts(alert) is (not project_owners)
    is_default = post.dispatch._is_to_default_contacts(alert)
    message = message_of(alert, None, link=None, to_default_contacts=is_default)
    assert why in message.why
