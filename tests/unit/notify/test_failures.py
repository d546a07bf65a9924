"""Workflows that fail for one cause: one message an hour to each, which lists all of them and hides
none."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from governor.alerts.delivery import QueuedMessage
from governor.alerts.model import Alert, alert_document
from governor.approvals.messages.ends import LEFT_IN_SHORT, outcome_alert
from governor.approvals.messages.failures import cause_of
from governor.core.episode_ref import EpisodeRef
from governor.core.units import without
from governor.episode.model.episode import Outcome, Phase
from governor.notify.digest import digest_of
from governor.notify.dispatched import Dispatched
from governor.notify.email import email_document
from governor.notify.message import DeliveryRetryable
from governor.notify.slack_blocks import slack_blocks
from governor.notify.teams import teams_envelope
from governor.policy.model.contacts import Contact, Ownership
from tests.builders import NOW
from tests.unit.notify.test_dispatch import FINOPS, FakeChannel, Fleet, Office, registry, sealed
from tests.unit.notify.test_truth import episode_of

OWNERS = [f"owner-{number}" for number in range(15)]
DENIED = (
    "AccessDenied: User arn:aws:sts::111122223333:assumed-role/x/{0} may not stop {0} (request {1})"
)


class Failing(Fleet):
    """Fifteen questions of fifteen owners, whose workflows fail; finops gets every escalation."""

    def __init__(self, number: int = 15) -> None:
        super().__init__(number)
        contacts = {name: Contact(emails=(f"{name}@example.com",)) for name in OWNERS}
        ownership = Ownership(
            contacts={**contacts, "finops": FINOPS}, escalation_contacts=("finops",)
        )
        self.world.policies.policy = replace(self.world.policies.policy, ownership=ownership)
        self.office = Office()
        self.office.registry = registry(
            mail=object(), slack_bot_token="xoxb-1-abc", slack_channel="C0ALL"
        )
        office: Any = self.office
        self.dispatch = replace(self.dispatch, registry=office)
        for ref, owner in zip(self.refs, OWNERS, strict=False):
            episode = self.world.state.episode(ref)
            assert episode is not None
            self.world.state.put(replace(episode, owner=owner))

    def failure(self, ref: EpisodeRef, reason: str = DENIED) -> QueuedMessage:
        """The end of one workflow, as the queue hands it out."""
        why = reason.format(ref.instance_id, f"00000000-0000-4000-8000-{ref.number:012d}")
        self.world.state.close_episode(ref, Outcome.FAILED, why, NOW, quiet_until=None)
        episode, now = self.world.state.episode(ref), self.world.clock.moment
        alert = sealed(outcome_alert(ref, episode, Outcome.FAILED, why, now, None))
        return QueuedMessage(
            ref.instance_id, f"r-{ref.instance_id}", json.dumps(alert_document(alert)), 1
        )

    def got(self, target: str) -> list[str]:
        """Every message to somebody, whole."""
        return [
            str(message)
            for (_, name), channel in self.office.channels.items()
            if name == target
            for message in channel.sent
        ]


def test_fifteen_failures_of_one_cause_are_one_message_to_each() -> None:
    """Whoever gets all of them got fifteen; an owner reads of one's own alone."""
    fleet = Failing()
    assert [] == fleet.worker([fleet.failure(ref) for ref in fleet.refs])
    assert [] == fleet.flush()

    for everybody in ("finops@example.com", "C0ALL"):
        (message,) = fleet.got(everybody)
        assert "15 GPU instances, all for the same reason" in message
        for ref, owner in zip(fleet.refs, OWNERS, strict=True):
            assert ref.instance_id in message
            assert f"owner {owner}, project unassigned, $24 a day while it runs" in message
    for ref, owner in zip(fleet.refs, OWNERS, strict=True):
        (message,) = fleet.got(f"{owner}@example.com")
        assert [one.instance_id in message for one in fleet.refs] == [
            one is ref for one in fleet.refs
        ]


def test_slack_lists_each_failure_once_and_says_once_what_is_the_same() -> None:
    """Owner and place stand at the end."""
    alerts = []
    for number in range(15):
        ref = EpisodeRef("123456789012", "us-east-1", f"i-{number:017x}", NOW, 1)
        failed = outcome_alert(ref, None, Outcome.FAILED, "AccessDenied: no", NOW, None)
        alerts.append(replace(failed, owner="ml-team", project="vision"))
    message = digest_of(
        alerts, [], link="https://gpu.example.com/q/x", digest_id="digest-1", now=NOW
    )
    shown = json.dumps(slack_blocks(message, interactive=False))

    assert [1] * 15 == [shown.count(f"({one.instance_id})") for one in alerts]
    assert 1 == shown.count("Owner: ml-team")


def test_a_list_of_failures_does_not_repeat_what_the_title_says_of_all() -> None:
    """Fifteen lines began with the same words, and the names stood behind them."""
    failing = episode_of(phase=Phase.ACTING, steps_done={"stop": NOW, "snapshot": NOW})
    reason = "SnapshotFailed: a snapshot ended in error"
    alert = outcome_alert(failing.ref, failing, Outcome.FAILED, reason, NOW, None)
    message = digest_of([alert] * 3, [], link=None, digest_id="digest-1", now=NOW)
    (affected,) = message.sections

    assert message.title.startswith("Could not snapshot 3 GPU instances")
    expected = "notebook-7 (g5.12xlarge, i-0123456789abcdef0, "
    assert [expected] * 3 == [line[: len(expected)] for line in affected.lines]


def test_a_list_of_failures_says_of_each_which_step_failed_and_what_was_done() -> None:
    """Whatever the name of an instance is. One whose workflow failed before it was stored has only
    its id."""
    stopped = episode_of(phase=Phase.ACTING, steps_done={"stop": NOW, "snapshot": NOW})
    name = "v1.2. Could not stop it"
    running = replace(
        episode_of(phase=Phase.ACTING),
        instance=replace(stopped.instance, tags={"Name": name}),
    )
    alerts = []
    for episode in (stopped, running, None):
        ref = stopped.ref if episode is None else episode.ref
        alerts.append(outcome_alert(ref, episode, Outcome.FAILED, "Throttled: EC2", NOW, None))
    alerts[0] = replace(alerts[0], facts={**alerts[0].facts, "failed_step": "snapshot"})
    message = digest_of(alerts, [], link=None, digest_id="digest-1", now=NOW)
    (affected,) = message.sections
    cost = "$136 a day while it runs"
    place = "i-0123456789abcdef0"

    assert affected.lines[0] == (
        f"Could not snapshot notebook-7 (g5.12xlarge, {place}, owner ml-team, project vision, "
        f"{cost}). It is stopped; nothing was deleted"
    )
    assert affected.lines[1] == (
        f"Could not stop {name} (g5.12xlarge, {place}, owner ml-team, project vision, {cost}). "
        "Nothing was changed"
    )
    assert affected.lines[2] == (
        f"Could not ask about GPU instance ({place}, owner unassigned, project unassigned). "
        "Nothing was changed"
    )


def test_a_failure_of_the_release_before_is_listed_as_that_release_worded_it() -> None:
    """Its facts do not say what was done, and nothing is read out of its text."""
    failing = episode_of(phase=Phase.ACTING, steps_done={"stop": NOW, "snapshot": NOW})
    reason = "SnapshotFailed: a snapshot ended in error"
    alert = outcome_alert(failing.ref, failing, Outcome.FAILED, reason, NOW, None)
    older = replace(alert, facts=without(alert.facts, [LEFT_IN_SHORT]))
    message = digest_of([older, alert], [], link=None, digest_id="digest-1", now=NOW)
    (affected,) = message.sections
    details = "(g5.12xlarge, i-0123456789abcdef0, $136 a day while it runs)"
    left = "It is stopped; nothing was deleted"

    assert affected.lines == (
        f"Could not snapshot notebook-7. {left} {details}",
        f"notebook-7 {details}. {left}",
    )


@pytest.mark.parametrize(("stopped", "tries_again"), [(3, False), (2, True)])
def test_a_list_of_failures_says_to_try_again_only_if_an_instance_may_still_run(
    stopped: int, tries_again: bool
) -> None:
    """A sweep never looks again for what is stopped. Different ids are given as an example."""
    alerts = []
    for number in range(3):
        steps_done = {"stop": NOW, "snapshot": NOW} if number < stopped else {}
        failing = episode_of(phase=Phase.ACTING, steps_done=steps_done)
        reason = f"SnapshotFailed: snap-0123456789abcde{number:02x} ended in error"
        alerts.append(outcome_alert(failing.ref, failing, Outcome.FAILED, reason, NOW, None))
    message = digest_of(alerts, [], link=None, digest_id="digest-1", now=NOW)
    text = "\n".join((message.happens, *message.lead))

    assert tries_again == ("If an instance is still running and stays idle" in text)
    assert "For example: A snapshot failed: snap-0123456789abcde00 ended in error." in text


def test_the_next_message_of_a_cause_comes_an_hour_later_with_all_since() -> None:
    """None is lost meanwhile; another cause waits for nothing."""
    fleet = Failing(4)
    first, second, third, other = fleet.refs
    fleet.worker([fleet.failure(first)])
    fleet.flush()
    fleet.worker(
        [fleet.failure(second), fleet.failure(third), fleet.failure(other, "SnapshotFailed: {0}")]
    )
    for minutes in range(0, 60, 15):
        fleet.world.clock.moment = NOW + timedelta(minutes=minutes)
        assert [] == fleet.flush()
    assert 2 == len(fleet.got("finops@example.com"))
    assert {900} == {seconds for _, seconds in fleet.queue.put}
    fleet.world.clock.moment = NOW + timedelta(minutes=61)
    fleet.flush()

    alone, another, both = fleet.got("finops@example.com")
    assert (first.instance_id in alone, other.instance_id in another) == (True, True)
    assert (second.instance_id in both, third.instance_id in both) == (True, True)
    fleet.flush()
    assert [] == fleet.queue.put


def test_what_a_channel_does_not_take_is_sent_before_the_hour_is_over() -> None:
    """A failure is urgent: the hour is for what was delivered."""
    fleet = Failing(2)
    busy = FakeChannel("email", [DeliveryRetryable("429")])
    fleet.office.channels["email", "finops@example.com"] = busy
    fleet.worker([fleet.failure(ref) for ref in fleet.refs])
    flush = QueuedMessage("f", "rf", fleet.queue.put[0][0], 1)
    assert ["f"] == fleet.worker([flush])
    assert [] == fleet.worker([flush])

    assert 1 == len(busy.sent)
    assert 1 == len(fleet.got("C0ALL"))


def test_a_conversation_that_was_asked_gets_the_end_in_its_own_thread() -> None:
    """Else the buttons under its question would stay live."""
    fleet = Failing(2)
    fleet.world.policies.policy = replace(
        fleet.world.policies.policy,
        approval=replace(fleet.world.policies.policy.approval, digest_from=0),
    )
    fleet.worker(fleet.alerts())
    fleet.worker([fleet.failure(ref) for ref in fleet.refs])
    fleet.flush()

    ends = fleet.office.channels["slack", "C0ALL"].sent[2:]
    assert [(True, "slack-thread")] * 2 == [(one.is_outcome, one.thread) for one in ends]


def test_failures_before_anything_was_recorded_come_together_too() -> None:
    """There is no record to link to."""
    fleet = Failing(3)
    found = []
    for number, ref in enumerate(fleet.refs):
        fleet.world.state.forget("EPISODE")
        alert = sealed(outcome_alert(ref, None, Outcome.FAILED, "Throttled: EC2", NOW, None))
        found.append(
            QueuedMessage(f"m{number}", f"r{number}", json.dumps(alert_document(alert)), 1)
        )
    assert [] == fleet.worker(found)
    assert [] == fleet.flush()

    (message,) = fleet.office.channels["slack", "C0ALL"].sent
    assert None is message.link
    assert all(ref.instance_id in str(message) for ref in fleet.refs)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (
            DENIED.format("i-0123456789abcdef0", "1"),
            DENIED.format("i-0fedcba9876543210", "22"),
            True,
        ),
        ("StepTimedOut: not stopped after 31 min", "StepTimedOut: not stopped after 32 min", True),
        (f"AccessDenied: Encoded: {'a' * 80}", f"AccessDenied: Encoded: {'b' * 90}", True),
        ("AccessDenied: ec2:StopInstances", "AccessDenied: ec2:CreateSnapshots", False),
    ],
)
def test_a_cause_is_what_is_the_same(first: str, second: str, same: bool) -> None:
    """Ids, times and encoded texts differ each time."""
    assert same is (cause_of(first) == cause_of(second))


def test_forty_instances_with_long_names_are_listed_whole_in_every_channel() -> None:
    """The most of one message; more come as a second one."""
    long = "n" * 200
    alerts = [
        Alert(**{**plain, "instance_id": f"i-{number:017x}", "owner": f"{number}-{long}"})
        for number in range(40)
        for plain in [{name: getattr(_plain(long), name) for name in Alert.__slots__}]
    ]
    message = digest_of(alerts, [], link=None, digest_id="digest-1", now=NOW)
    mail = email_document(message, sender="gpu@example.com", recipient="ann@example.com")
    for text in (
        str(mail.get_body(("plain",))),
        str(mail.get_body(("html",))),
        json.dumps(slack_blocks(message, interactive=False)),
        json.dumps(teams_envelope(message)),
    ):
        flat = text.replace("=\n", "")
        assert all(f"i-{number:017x}" in flat for number in range(40))


def _plain(name: str) -> Alert:
    ref = EpisodeRef("111122223333", "us-east-1", "i-0123456789abcdef0", NOW, 1)
    return replace(
        outcome_alert(ref, None, Outcome.FAILED, "Throttled: EC2", NOW, None), subject=name
    )


def test_nothing_left_is_nothing_sent() -> None:
    """Each failure has asked for the flush; the first one sends for all."""
    fleet = Failing(3)
    fleet.worker([fleet.failure(ref) for ref in fleet.refs])
    fleet.seen.clear()
    fleet.flush()

    assert [Dispatched(0, 0)] * 2 == fleet.seen[1:]
