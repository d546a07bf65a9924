"""The texts under seals are the same before and after a record was stored, and in the next
release."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.delivery import Delivery
from governor.approvals.model.approval import Answer, Decision
from governor.approvals.rules.sealing import (
    answer_text,
    counts_for_silence,
    delivery_text,
    expiry_text,
    opening_text,
    signature_of,
)
from governor.aws.record_codec import read_all, written
from governor.episode.model.episode import Episode, Terms
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.changes import asked_under
from governor.policy.rules.schedule import Schedule
from tests.builders import NOW
from tests.unit.aws import state_samples

LATER = NOW + timedelta(hours=6, microseconds=7)
DECISION = Decision(
    Answer.APPROVE, "link:alice@example.com", "page", NOW, person="alice@example.com"
)
DELIVERY = Delivery(
    "subject", "ask-subject", "email", "alice@example.com", LATER, "1", shared=False
)


def full() -> Episode:
    """An episode in which every part that an opening fixes is set."""
    return replace(
        state_samples.episode(),
        mode=Mode.ASK,
        terms=Terms(people_needed=2, known_people=frozenset({"b@example.com", "a@example.com"})),
        asking=replace(
            state_samples.episode().asking,
            schedule=Schedule(NOW, LATER, LATER, LATER),
            notice=timedelta(minutes=90),
            asked_under=asked_under(Policy()),
            acts_on_silence=True,
        ),
        stopped_by_episode=state_samples.ref(7),
    )


def stored(episode: Episode) -> Episode:
    """As it comes back from the table."""
    document = {name: value for name, value in written(episode).items() if value is not None}
    [found] = read_all(Episode, [document])
    return found


@pytest.mark.parametrize("make", [full, state_samples.episode])
def test_a_stored_episode_has_the_text_that_was_sealed(make: Callable[[], Episode]) -> None:
    """Sealed before it is stored, and checked after."""
    assert opening_text(make()) == opening_text(stored(make()))
    assert answer_text(make(), DECISION) == answer_text(stored(make()), DECISION)
    assert expiry_text(make(), NOW, LATER) == expiry_text(stored(make()), NOW, LATER)


def test_a_stored_delivery_has_the_text_that_was_sealed() -> None:
    """The seal itself is not under it."""
    [found] = read_all(Delivery, [written(replace(DELIVERY, seal="1.x"))])

    assert delivery_text(DELIVERY) == delivery_text(found)


def test_the_texts_of_this_version_stay_the_same() -> None:
    """If this fails, stored records have another text now: raise `VERSION` in
    approvals/rules/sealing.py, so that people are asked again, and hold the new texts here."""
    texts = (
        answer_text(full(), DECISION),
        expiry_text(full(), NOW, LATER),
        delivery_text(DELIVERY),
        opening_text(full()),
    )

    assert ["9e1b16c0a0d9add6", "99c1f746bc3995ca", "29d00f7e275ac58c", "ecff6b0ae250ead5"] == [
        hashlib.sha256(text).hexdigest()[:16] for text in texts
    ]


def test_an_answer_says_all_that_the_record_promises() -> None:
    """Episode, evidence, plan, person, answer, time and channel, each by its name."""
    said = json.loads(answer_text(full(), DECISION))

    assert {
        "duty", "version", "episode", "approval_id", "evidence_hash", "plan_hash", "answer", "by",
        "person",
        "channel", "at",
    } == said.keys()  # fmt: skip
    assert ("answer", full().ref.execution_name, "approve") == (
        said["duty"],
        said["episode"],
        said["answer"],
    )


@pytest.mark.parametrize(
    ("delivery", "counts"),
    [
        (DELIVERY, True),
        (replace(DELIVERY, message="tell-subject"), True),
        (replace(DELIVERY, message="escalate-subject"), True),
        (replace(DELIVERY, message="remind-subject"), False),
        (replace(DELIVERY, channel="webhook"), False),
        (replace(DELIVERY, shared=True), False),
        (replace(DELIVERY, refused="no"), False),
        (replace(DELIVERY, not_before=LATER), False),
    ],
)
def test_only_what_reached_people_begins_their_time(delivery: Delivery, counts: bool) -> None:
    assert counts is counts_for_silence(delivery)


@pytest.mark.parametrize(
    ("seal", "signature"),
    [("1.abc", "abc"), ("1.", None), ("2.abc", None), ("abc", None), (None, None)],
)
def test_a_seal_of_another_version_is_none(seal: str | None, signature: str | None) -> None:
    assert signature == signature_of(seal)
