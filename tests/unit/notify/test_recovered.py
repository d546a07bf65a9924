"""One cause is one incident: it pages once, and is over when no workflow fails for it any more."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.delivery import QueuedMessage
from governor.alerts.model import alert_document
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import Unavailable
from governor.core.https import HttpAnswer
from governor.episode.model.episode import Outcome
from governor.notify.pagerduty import PagerDutyChannel
from governor.policy.model.policy import Mode
from tests.builders import NOW, TARGET
from tests.unit.notify.builders import FakeHttps, FixedClock
from tests.unit.notify.test_dispatch import registry, sealed
from tests.unit.notify.test_failures import Failing
from tests.unit.worlds.builders import opener, recorder, ref_of, start_acting

KEY = "k" * 32
SOON, LATER = timedelta(minutes=10), timedelta(minutes=70)


class Paged(Failing):
    """Fifteen workflows of fifteen owners between recording, the sweep, the queue and PagerDuty."""

    def __init__(self, number: int = 15) -> None:
        super().__init__(number)
        self.https = FakeHttps([HttpAnswer(202)] * 100)
        self.office.registry = registry(mail=object(), pagerduty_routing_key=KEY)
        page: object = PagerDutyChannel(KEY, self.https, FixedClock())
        self.office.channels["pagerduty", "service"] = page  # type: ignore[assignment]
        for ref in self.refs:
            start_acting(self.world, ref)
        self.world.announcer.sent.clear()

    def fail(self, ref: EpisodeRef, error: str = "AccessDenied") -> None:
        """Its workflow has failed at the stop."""
        recorder(self.world)(ref, Outcome.FAILED, error)

    def again(self, ref: EpisodeRef) -> EpisodeRef:
        """The next try has come to the stop."""
        number = self.world.state.record(TARGET, ref.instance_id).episodes + 1
        new = ref_of(self.world, ref.instance_id, number)
        opener(self.world, f"approval-{ref.instance_id}-{number}")(new)
        start_acting(self.world, new)
        return new

    def stop(self, ref: EpisodeRef) -> None:
        """It is stopped, as EC2 shows."""
        self.world.state.note_step(ref, "stop", self.world.clock.now())
        self.world.change(ref.instance_id, state="stopped")
        recorder(self.world)(ref, Outcome.STOPPED)

    def sweep(self, after: timedelta) -> None:
        """A sweep so much later; what is announced is delivered, and what waits is sent."""
        self.world.clock.moment += after
        self.world.sweep()
        self.world.close_sweep()
        self.deliver()

    def deliver(self) -> None:
        """The queue hands out what was announced, and what waits for others."""
        alerts, self.world.announcer.sent[:] = list(self.world.announcer.sent), []
        bodies = [json.dumps(alert_document(sealed(alert))) for alert in alerts]
        assert [] == self.worker(
            [QueuedMessage(f"m{n}", f"r{n}", body, 1) for n, body in enumerate(bodies)]
        )
        assert [] == self.flush()

    def pages(self) -> list[tuple[str, str]]:
        """Return what PagerDuty got: what to do with which incident."""
        events = [json.loads(body) for _, body, _ in self.https.sent]
        return [(event["event_action"], event["dedup_key"]) for event in events]


def test_fifteen_failures_of_one_cause_page_once_and_are_resolved_once() -> None:
    """Over when the step works again in the account and Region, also before each of them was tried
    again."""
    fleet = Paged()
    for ref in fleet.refs:
        fleet.fail(ref)
    fleet.deliver()
    (page,) = fleet.pages()
    fleet.sweep(SOON)
    assert [page] == fleet.pages()
    (event,) = [json.loads(body) for _, body, _ in fleet.https.sent]
    assert event["payload"]["summary"].startswith(
        "Could not stop 15 GPU instances, all for the same reason"
    )

    fleet.stop(fleet.again(fleet.refs[0]))
    fleet.sweep(SOON)
    fleet.sweep(SOON)

    assert [("trigger", page[1]), ("resolve", page[1])] == fleet.pages()
    (message,) = [
        one
        for one in fleet.office.channels["email", "finops@example.com"].sent
        if "Resolved" in one.title
    ]
    assert "Resolved: could not stop 15 GPU instances" == message.title
    assert "A permission is missing: its log says more." in " ".join(message.lead)
    assert [] == fleet.world.state.failing()


def test_two_causes_are_two_incidents_and_each_ends_by_itself() -> None:
    """The one that goes on stays open."""
    fleet = Paged(4)
    first, second, third, fourth = fleet.refs
    for one in (first, second):
        fleet.fail(one)
    for one in (third, fourth):
        fleet.fail(one, "SnapshotFailed")
    fleet.deliver()
    (_, denied), (_, broken) = fleet.pages()
    assert denied != broken

    for one in (first, second):
        fleet.world.change(one.instance_id, state="stopped")
    fleet.sweep(SOON)

    assert [("resolve", denied)] == fleet.pages()[2:]
    assert {third.instance_id, fourth.instance_id} == {
        one.instance_id for one in fleet.world.state.failing()
    }


@pytest.mark.parametrize("ends", ["gone", "works", "another cause"])
def test_an_incident_ends_when_nothing_fails_for_its_cause(ends: str) -> None:
    """By the sweep that finds it so, and not before the record of the failure can be there."""
    fleet = Paged(1)
    (ref,) = fleet.refs
    fleet.fail(ref)
    fleet.deliver()
    if ends == "gone":
        del fleet.world.ec2.instances[ref.instance_id]
    elif ends == "works":
        fleet.world.publish(ref.instance_id, [90.0] * 48)
    else:
        fleet.world.clock.moment += timedelta(minutes=6)
        fleet.fail(fleet.again(ref), "SnapshotFailed")
        fleet.deliver()
    fleet.sweep(timedelta(minutes=2))
    fleet.sweep(SOON)
    fleet.sweep(SOON)

    incident = fleet.pages()[0][1]
    assert [("trigger", incident), ("resolve", incident)] == [
        one for one in fleet.pages() if one[1] == incident
    ]


def test_what_waits_for_its_hour_is_sent_before_the_end() -> None:
    """Else it would open the incident again, with nobody to close it; and the next failure pages at
    once."""
    fleet = Paged(3)
    first, second, third = fleet.refs
    fleet.fail(first)
    fleet.deliver()
    fleet.fail(second)
    fleet.deliver()
    assert 1 == len(fleet.pages())
    fleet.world.clock.moment += timedelta(minutes=1)
    fleet.stop(third)
    fleet.sweep(SOON)

    assert ["trigger", "trigger", "resolve"] == [action for action, _ in fleet.pages()]
    assert 1 == len({incident for _, incident in fleet.pages()})
    fleet.fail(fleet.again(first))
    fleet.deliver()
    assert "trigger" == fleet.pages()[-1][0]
    assert 4 == len(fleet.pages())


def test_a_rehearsal_proves_as_much() -> None:
    """EC2 would have allowed the stop: the permission is there again."""
    fleet = Paged(2)
    first, second = fleet.refs
    fleet.fail(first)
    fleet.deliver()
    episode = fleet.world.state.episode(second)
    assert episode is not None
    fleet.world.state.put(replace(episode, mode=Mode.OBSERVE))
    fleet.world.clock.moment += timedelta(minutes=1)
    fleet.world.state.note_step(second, "stop", NOW)
    recorder(fleet.world)(second, Outcome.OBSERVED)
    fleet.sweep(SOON)

    assert ["trigger", "resolve"] == [action for action, _ in fleet.pages()]


def test_an_end_that_was_not_taken_is_sent_by_the_next_sweep() -> None:
    """Nothing is forgotten before it is."""
    fleet = Paged(1)
    (ref,) = fleet.refs
    fleet.fail(ref)
    fleet.deliver()
    del fleet.world.ec2.instances[ref.instance_id]
    fleet.world.announcer.failure = Unavailable("SNS is down")
    fleet.sweep(SOON)
    assert 1 == len(fleet.pages())
    fleet.world.announcer.failure = None
    fleet.sweep(SOON)
    assert ["trigger", "resolve"] == [action for action, _ in fleet.pages()]
