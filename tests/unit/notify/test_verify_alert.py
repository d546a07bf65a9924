"""Whoever may write to the topic or the queue gets no mail of ours sent in their words, or with a
link."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from governor.alerts.model import Alert, AlertKind, Severity, alert_document
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.messages.questions import first_yes_alert, stage_alert, undo_alert
from governor.approvals.model.approval import Answer, Decision, Stage
from governor.episode.model.episode import Outcome, Phase
from governor.notify.contract import parse_queued
from governor.notify.dispatched import Dispatched
from governor.notify.message import DeliveryRetryable
from governor.notify.verify_alert import AlertRefused
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode
from tests.builders import NOW
from tests.unit.notify.test_dispatch import (
    FINOPS,
    ML,
    FakeQueue,
    Fleet,
    Office,
    Post,
    digest_rule,
    in_cloudwatch,
    queued,
    recipient,
    sealed,
    verifier,
    worker,
)
from tests.unit.worlds.world import APPROVAL_ID, World

EVIL = "https://evil.example.com/approvals/1"


def forged(alert: Alert, **changes: Any) -> Alert:
    """Written by somebody without the key; a seal of another message is no help."""
    return replace(alert, **changes)


def finding(**changes: Any) -> Alert:
    """An alert about no episode."""
    words = ("Hot", ("A GPU is hot.",), "dedup")
    plain = Alert(AlertKind.HEALTH_FINDING, Severity.INFO, "1" * 12, "us-east-1", *words, NOW)
    return replace(plain, **changes)


def stored(post: Post) -> Any:
    """The episode as it is recorded."""
    episode = post.world.state.episode(post.world.ref)
    assert episode is not None
    return episode


FORGED = {
    "owner": "mallory",
    "project": "gold",
    "account": "9" * 12,
    "region": "eu-west-9",
    "instance_id": "i-0bad",
}


@pytest.mark.parametrize("bears_a_seal", [True, False])
@pytest.mark.parametrize("field", FORGED)
def test_owner_and_place_are_read_from_the_record(field: str, bears_a_seal: bool) -> None:
    """The record may have changed since the seal was made; without one, nothing is believed."""
    post = Post()
    bad = forged(post.alert(), **{field: FORGED[field]})
    alert = verifier(post.world)(sealed(bad) if bears_a_seal else bad).alert

    ref = stored(post).ref
    true = ("ml", "vision", ref.account, ref.region, ref.instance_id)
    assert true == (alert.owner, alert.project, alert.account, alert.region, alert.instance_id)


@pytest.mark.parametrize("bears_a_seal", [True, False])
def test_whom_a_question_is_for_is_read_from_the_record(bears_a_seal: bool) -> None:
    """The forger's own name as owner brought a personal link: one termination needed nobody
    else."""
    office = Office()
    post = office.post
    contacts = {"ml": ML, "finops": FINOPS, "mallory": Contact(emails=("mallory@example.com",))}
    post.world.policies.policy = replace(
        post.world.policies.policy, ownership=Ownership(contacts=contacts, default_contacts=("ml",))
    )
    words = {} if bears_a_seal else {"lines": ("Click!",), "subject": "Click!"}
    bad = forged(post.alert(), owner="mallory", link=EVIL, **words)
    post.dispatch([sealed(bad) if bears_a_seal else bad])

    assert ["C0ML", "alice@example.com", "bob@example.com"] == office.got("ask")
    for channel in office.channels.values():
        (message,) = channel.sent
        assert ("ml", "vision") == (message.facts.owner, message.facts.project)
        assert "Click!" not in str(message)
        assert "evil" not in str(message.link)


@pytest.mark.parametrize("seal_of_another", [False, True])
@pytest.mark.parametrize(
    "kind", [AlertKind.HEALTH_FINDING, AlertKind.BUDGET_REACHED, AlertKind.FAILURE]
)
def test_a_message_about_no_episode_needs_the_seal(kind: AlertKind, seal_of_another: bool) -> None:
    """It went out as official mail with the forger's text and link; now a person sees it in the
    queue."""
    post, queue, seen = Post(), FakeQueue(), list[Dispatched]()
    facts = {"seal": sealed(post.alert()).facts["seal"]} if seal_of_another else {}
    bad = finding(kind=kind, subject="Click!", lines=(EVIL,), link=EVIL, facts=facts)
    body = json.dumps(alert_document(bad))

    assert [] == worker(post, queue, seen)([queued(post, body=body)])
    assert ([], [], [Dispatched(0, 1)]) == (post.mail.sent, post.chat.sent, seen)
    ((kept, why),) = post.refused
    assert (body, True) == (kept, "does not bear the seal" in why)
    again = json.dumps({"again": json.loads(body)})
    assert [] == worker(post, queue, seen)([queued(post, body=again)])
    assert [] == post.mail.sent


def test_a_sealed_message_about_no_episode_is_sent_without_the_link_of_its_alert() -> None:
    """All links are made here: that of an episode to its page, others to the console."""
    post = Post()
    good = finding(link=EVIL)
    post.dispatch([sealed(good)])

    (message,) = post.mail.sent
    assert ("https://api.example.com/fleet", "Hot") == (message.link, message.title)
    assert "seal" not in message.data


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(
    ("stage", "phase", "reached", "why"),
    [
        (Stage.ASK, Phase.OPENING, "ask", "it is opening"),
        (Stage.ASK, Phase.ASKING, None, "has not come to ask"),
        (Stage.REMIND, Phase.ASKING, "await", "has not come to remind"),
        (Stage.ESCALATE, Phase.ASKING, "remind", "has not come to escalate"),
        (Stage.TELL, Phase.ASKING, "ask", "somebody is asked about it"),
    ],
)
def test_what_does_not_match_the_stage_is_refused(
    stage: Stage, phase: Phase, reached: str | None, why: str, own: bool
) -> None:
    """A reminder sent too early would take the place of the real one, which is sent once."""
    post = Post(phase=phase)
    approval = post.world.state.approval(APPROVAL_ID)
    assert approval is not None
    post.world.state.put(replace(approval, stage=reached))
    alert = stage_alert(stored(post), stage, NOW, None)

    with pytest.raises(AlertRefused, match=why):
        post.dispatch([sealed(alert) if own else alert])


@pytest.mark.parametrize("kind", list(AlertKind))
def test_what_the_record_does_not_say_is_refused(kind: AlertKind) -> None:
    """An open question: it was neither answered, nor has it ended, nor was anything undone."""
    post = Post()
    asked = stage_alert(stored(post), Stage.ASK, NOW, None)
    alert = replace(asked, kind=kind, subject="Click!", lines=(EVIL,))
    if kind is AlertKind.APPROVAL_REQUESTED:
        post.dispatch([alert])
        assert "Click!" not in str(post.mail.sent)
    else:
        with pytest.raises(AlertRefused):
            post.dispatch([alert])


def test_what_the_release_before_has_queued_is_made_anew_of_the_record() -> None:
    """It bears no seal: whom it names and what it says is read from the table."""
    post = Post()
    post.dispatch([forged(post.alert(), subject="Click!")])
    yes = Decision(
        Answer.APPROVE, "link:alice@example.com", "page", NOW, person="alice@example.com"
    )
    post.world.state.note_first_yes(APPROVAL_ID, yes)
    post.dispatch(
        [forged(first_yes_alert(stored(post), yes, NOW), subject="Click!", lines=("Click!",))]
    )
    post.outcome()
    end = outcome_alert(post.world.ref, stored(post), Outcome.STOPPED, "stopped", NOW, EVIL)
    post.dispatch([forged(end, subject="Click!", lines=("Click!",), owner="mallory")])
    post.world.state.note_undo(post.world.ref, "link:bob@example.com", NOW)
    undone = undo_alert(stored(post), "link:mallory@example.com", "page", NOW)
    post.dispatch([forged(undone, lines=("Click!",))])

    assert ["ask", "first-yes", "stopped", "undone"] == [one.stage for one in post.mail.sent]
    assert "Click!" not in str(post.mail.sent)
    assert "mallory" not in str(post.mail.sent)
    assert ["alice@example.com"] * 3 == [recipient(post, one) for one in post.mail.sent[:3]]
    assert "stopped" == post.mail.sent[2].data["outcome_reason"]


def forged_facts(post: Post, until: datetime) -> Any:
    """Those of a question that says so of its end."""
    return stage_alert(stored(post), Stage.ASK, NOW, None, until).facts


@pytest.mark.parametrize("wrong_by", [timedelta(days=-20), timedelta(minutes=2)])
def test_the_deadline_of_an_unsealed_copy_is_that_of_the_record(wrong_by: timedelta) -> None:
    """The forger's own came in the official mail, and the true question was not sent after it."""
    post = Post()
    post.dispatch([forged(replace(post.alert(), facts=forged_facts(post, NOW + wrong_by)))])

    approval = post.world.state.approval(APPROVAL_ID)
    assert approval is not None
    (message,) = post.mail.sent
    assert (
        stage_alert(stored(post), Stage.ASK, NOW, None, approval.expires_at).subject
        == message.title
    )


def test_an_unsealed_copy_with_an_old_time_gives_no_delivery_up() -> None:
    """One failure of a channel ended the question, for it seemed to have been tried for two
    days."""
    post = Post()
    post.mail.failures = [DeliveryRetryable("503")]
    post.dispatch(
        [forged(replace(post.alert(), at=NOW - timedelta(days=2), facts=forged_facts(post, NOW)))]
    )
    assert [] == post.dead_lettered


@pytest.mark.parametrize("kind", ["reminder", "escalation", "end", "undone"])
def test_an_unsealed_copy_long_after_the_question_gives_no_delivery_up(kind: str) -> None:
    """Before, its time was that of the question: after one failure nobody was sent the true
    message."""
    post, now = Post(), NOW + timedelta(hours=30)
    stage = Stage.REMIND if kind == "reminder" else Stage.ESCALATE
    post.world.state.await_answer(APPROVAL_ID, "t", stage.value, now + timedelta(hours=8))
    post.world.clock.moment = now
    real = stage_alert(stored(post), stage, now, None, now + timedelta(hours=8))
    if kind in ("end", "undone"):
        post.world.state.close_episode(
            post.world.ref, Outcome.STOPPED, "stopped", now, quiet_until=None
        )
        real = outcome_alert(post.world.ref, stored(post), Outcome.STOPPED, "stopped", now, None)
    if kind == "undone":
        post.world.state.note_undo(post.world.ref, "link:bob@example.com", now)
        real = undo_alert(stored(post), "link:bob@example.com", "page", now)
    post.mail.failures = [DeliveryRetryable("503")]
    post.dispatch([forged(real, at=NOW - timedelta(days=2))])
    post.dispatch([sealed(real)])

    assert ([], 1) == (post.dead_lettered, len(post.mail.sent))


@pytest.mark.parametrize(("mode", "stage"), [(Mode.ASK, Stage.ASK), (Mode.OBSERVE, Stage.TELL)])
@pytest.mark.parametrize("sent", [timedelta(days=-2), timedelta(minutes=5), timedelta(days=2)])
def test_an_unsealed_copy_has_the_words_and_the_time_of_the_record(
    mode: Mode, stage: Stage, sent: timedelta
) -> None:
    """A question is as old as this moment, and has a deadline; others not older than what they are
    about."""
    post = Post(mode=mode)
    world, approval = post.world, post.world.state.approval(APPROVAL_ID)
    assert approval is not None
    world.state.put(replace(stored(post), opened_at=NOW - timedelta(minutes=30)))
    world.clock.moment += timedelta(hours=1)
    now = NOW + timedelta(hours=1)
    at = now if mode is Mode.ASK else min(max(NOW + sent, NOW - timedelta(minutes=30)), now)
    until = approval.expires_at if mode is Mode.ASK else None

    copy = stage_alert(stored(post), stage, NOW + sent, EVIL, NOW)
    assert (
        stage_alert(stored(post), stage, at, None, until)
        == verifier(world)(forged(copy, subject="Click!")).alert
    )


def test_what_the_release_before_told_is_made_anew_too() -> None:
    """Nobody is asked about it."""
    post = Post(mode=Mode.OBSERVE)
    post.dispatch(
        [forged(stage_alert(stored(post), Stage.TELL, NOW, EVIL), subject="Click!", lines=(EVIL,))]
    )

    (message,) = post.mail.sent
    assert "evil" not in str(message)
    assert "Click!" not in str(message)


def test_a_failure_is_reported_before_its_episode_is_closed() -> None:
    """A workflow that died is: the seal tells it from a forged one. An end that is another is
    refused."""
    post = Post()
    died = outcome_alert(post.world.ref, stored(post), Outcome.FAILED, "it timed out", NOW, None)
    with pytest.raises(AlertRefused, match="bears no seal"):
        post.dispatch([died])
    assert Dispatched(2, 0) == post.dispatch([sealed(died)])
    post.outcome()
    with pytest.raises(AlertRefused, match="it ended stopped"):
        post.dispatch([sealed(died)])


def test_the_name_of_an_alarm_in_a_tag_drops_no_question() -> None:
    """Any owner or name with the word "AlarmName" did: the question was read as an alarm, and never
    sent."""
    post = Post()
    digest_rule(post, digest_from=0)
    alert = post.alert()
    named = sealed(replace(alert, facts={**alert.facts, "instance_name": 'my "AlarmName" box'}))
    assert [] == worker(post, FakeQueue(), [])(
        [queued(post, body=json.dumps(alert_document(named)))]
    )
    assert 1 == len(post.mail.sent)


@pytest.mark.parametrize("name", ["payroll-db", "no-such-alarm"])
def test_an_alarm_that_is_not_ours_is_refused(name: str) -> None:
    """CloudWatch is asked: whether there is one that publishes to the topic, and what it says."""
    post = Post()
    body = {
        "AlarmName": name,
        "AWSAccountId": "1" * 12,
        "NewStateReason": EVIL,
        "StateChangeTime": "2026-11-20T12:02:30.000+0000",
        "AlarmArn": f"arn:aws:cloudwatch:us-east-1:111111111111:alarm:{name}",
    }
    alert = parse_queued(json.dumps(body))
    assert isinstance(alert, Alert)
    with pytest.raises(AlertRefused, match="knows no alarm"):
        post.dispatch([alert])


def test_cloudwatch_is_asked_for_no_alarm_without_a_name() -> None:
    """It would answer with an error, and the queue would deliver the message again and again."""
    asked: list[str] = []
    verify = replace(verifier(World(decide=False), []), alarms=asked.append)
    nameless = replace(in_cloudwatch("stack-PutAwayErrorsAlarm"), facts={}, subject="on fire")

    with pytest.raises(AlertRefused, match="CloudWatch knows no alarm ''"):
        verify(nameless)
    assert [] == asked


def test_an_alarm_of_the_release_before_is_found_by_its_subject() -> None:
    """It says its name nowhere else."""
    known = in_cloudwatch("stack-PutAwayErrorsAlarm")
    assert (
        known
        == verifier(World(decide=False), [known])(replace(known, facts={}, lines=(EVIL,))).alert
    )


@pytest.mark.parametrize(
    ("mode", "kind", "why"),
    [
        (Mode.OBSERVE, AlertKind.APPROVAL_REQUESTED, "nobody is asked about it"),
        (Mode.ASK, AlertKind.APPROVAL_FIRST_YES, "nobody has approved"),
        (Mode.ASK, AlertKind.OUTCOME, "it has not ended"),
    ],
)
def test_our_own_words_are_compared_with_the_record_too(
    mode: Mode, kind: AlertKind, why: str
) -> None:
    """A message that a function sent before it failed may never have come true."""
    post = Post(mode=mode)
    alert = replace(stage_alert(stored(post), Stage.ASK, NOW, None), kind=kind)
    with pytest.raises(AlertRefused, match=why):
        post.dispatch([sealed(alert)])


def test_our_own_words_about_no_episode_that_there_could_be_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its name is none, or its question is gone."""
    post = Post()
    with pytest.raises(AlertRefused):
        verifier(post.world)(sealed(finding(facts={"episode": "none"})))
    asked = post.alert()
    monkeypatch.setattr(post.world.state, "approval", lambda _: None)
    with pytest.raises(AlertRefused, match="nobody is asked"):
        verifier(post.world)(asked)


@pytest.mark.parametrize("closed", [False, True])
def test_a_question_that_is_over_contradicts_no_message(closed: bool) -> None:
    """Nothing is sent of it, but it is nobody's forgery."""
    post = Post(phase=Phase.CLOSED if closed else Phase.ASKING)
    if not closed:
        yes = Decision(
            Answer.APPROVE, "link:alice@example.com", "page", NOW, person="alice@example.com"
        )
        post.world.state.settle(APPROVAL_ID, yes)
    late = stage_alert(stored(post), Stage.REMIND, NOW, EVIL)

    assert replace(late, link=None) == verifier(post.world)(sealed(late)).alert


def test_a_waiting_message_that_nothing_vouches_for_holds_up_no_other() -> None:
    """A message that waits for others is looked at again when it is sent, and goes to whom its
    record names."""
    fleet = Fleet(2)
    fleet.worker(fleet.alerts())
    episode = fleet.world.state.episode(fleet.refs[0])
    assert episode is not None
    approval = fleet.world.state.approval(episode.approval_id)
    assert approval is not None
    fleet.world.state.put(replace(approval, stage=None))

    assert [] == fleet.flush()
    assert (1, 1) == (len(fleet.refused), len(fleet.mail.sent))


def test_a_message_that_is_refused_waits_for_nobody() -> None:
    """It takes no place among those that wait to be sent together."""
    fleet = Fleet(2)
    good, bad = fleet.alerts()
    elsewhere = "111122223333-us-east-1-i-0123456789abcdef0-1-1"
    document = {**json.loads(good.body), "facts": {"episode": elsewhere}}
    fleet.worker([good, replace(bad, body=json.dumps(document))])

    assert (1, 1) == (len(fleet.refused), len(fleet.queue.put))
    assert [] == fleet.flush()
    assert 1 == len(fleet.mail.sent)


def test_a_message_that_somebody_has_kept_is_not_sent_again() -> None:
    """Its seal is right; the record that it was sent is kept for longer than it is taken."""
    post = Post()
    with pytest.raises(AlertRefused, match="older than 60 days"):
        post.dispatch([sealed(finding(at=NOW - timedelta(days=60, seconds=1)))])
    post.dispatch([sealed(finding(at=NOW - timedelta(days=60)))])
    assert 1 == len(post.mail.sent)


def test_every_field_of_an_alert_is_under_its_seal() -> None:
    """A message that was changed on its way is not ours any more."""
    world = World(decide=False, phase=Phase.ASKING)
    good = sealed(finding(facts={"a": 1.5}))
    known: dict[str, Any] = {
        "kind": AlertKind.BUDGET_REACHED,
        "severity": Severity.CRITICAL,
        "at": NOW + timedelta(seconds=1),
        "lines": ("other",),
        "facts": {**good.facts, "a": 1},
    }
    looked = verifier(world)
    looked(good)
    for name in alert_document(good):
        if name != "version":
            with pytest.raises(AlertRefused):
                looked(replace(good, **{name: known.get(name, "other")}))
