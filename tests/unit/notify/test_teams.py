"""Microsoft Teams: a card that workflows take and that nobody can write links into."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.alerts.model import Section
from governor.core.https import HttpAnswer
from governor.notify.message import DeliveryRefused, Table
from governor.notify.teams import TeamsChannel, teams_envelope
from tests.unit.notify.builders import (
    FACTS,
    LINK,
    FakeHttps,
    FixedClock,
    make_message,
    make_outcome,
)

URL = "https://prod-1.westeurope.logic.example/workflows/w1/triggers/manual/paths/invoke?sig=secret-part"


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a JSON document, however deep."""
    if isinstance(value, dict):
        yield value
        for child in value.values():
            yield from nodes(child)
    elif isinstance(value, list):
        for child in value:
            yield from nodes(child)


def card(envelope: Any) -> dict[str, Any]:
    """The card in the envelope."""
    (attachment,) = envelope["attachments"]
    assert "application/vnd.microsoft.card.adaptive" == attachment["contentType"]
    content: dict[str, Any] = attachment["content"]
    return content


def text(envelope: Any) -> str:
    """Everything that can be read on the card."""
    return " ".join(node["text"] for node in nodes(card(envelope)["body"]) if "text" in node)


def test_the_card_says_everything_and_opens_the_page() -> None:
    """Version 1.4, because newer elements are not shown on every phone."""
    envelope = teams_envelope(make_message())
    content = card(envelope)
    assert ("message", "AdaptiveCard", "1.4") == (
        envelope["type"],
        content["type"],
        content["version"],
    )
    opens, shows = content["actions"]
    assert {"type": "Action.OpenUrl", "title": "Stop or keep it", "url": LINK} == opens
    assert ("Action.ToggleVisibility", ["details"]) == (shows["type"], shows["targetElements"])
    (folded,) = [node for node in nodes(content["body"]) if node.get("type") == "Container"]
    assert ("details", False) == (folded["id"], folded["isVisible"])
    assert "A stopped instance holds no capacity." in [node.get("text") for node in nodes(folded)]
    for expected in (
        "notebook (i-0123456789abcdef0)",
        "$1,321 a day while it runs",
        "8 local NVMe",
        "0.4%",
    ):
        assert expected in text(envelope)


def test_the_outcome_offers_the_record() -> None:
    """Nobody is asked for a decision that was taken."""
    outcome = make_outcome(evidence=None)
    assert ["See the record"] == [
        action["title"] for action in card(teams_envelope(outcome))["actions"]
    ]


def test_without_a_link_there_is_no_button() -> None:
    """An empty button would be refused."""
    bare = make_message(link=None, details=(), evidence=None)
    assert "actions" not in card(teams_envelope(bare))


def test_text_of_others_is_never_read_as_markdown() -> None:
    """A name like `[approve](https://evil.example)` stays what it is: text runs know no
    Markdown."""
    evil = "[approve](https://evil.example)"
    message = make_message(
        title=evil,
        facts=replace(FACTS, instance_name=evil, owner=evil),
        sections=(Section(evil, (evil,)),),
        evidence=Table(evil, (evil,), ((evil,),)),
    )
    holders = {
        node["type"] for node in nodes(card(teams_envelope(message))["body"]) if "text" in node
    }
    assert {"TextRun"} == holders


@pytest.mark.parametrize("place", ["happens", "lead", "sections"])
def test_a_long_line_keeps_its_end(place: str) -> None:
    """The advice stands at its end, as after EC2's words about refused snapshots."""
    long_line = f"EC2 refuses its snapshots: {'w' * 800}. Set plan.snapshot_tags."
    parts: dict[str, Any] = {
        "happens": {"happens": long_line},
        "lead": {"lead": (long_line,)},
        "sections": {"sections": (Section("Why", (long_line,)),)},
    }
    assert long_line in text(teams_envelope(make_message(**parts[place])))


def test_a_card_of_the_widest_characters_is_not_too_large() -> None:
    """Each takes twelve bytes in JSON."""
    wide = "\U0001f600" * 3_000
    message = make_message(
        title=wide,
        happens=wide,
        why=wide,
        lead=(wide,) * 20,
        facts=replace(FACTS, instance_name=wide, owner=wide, project=wide),
    )
    envelope = teams_envelope(message)
    assert len(json.dumps(envelope)) < 28_000
    assert "There is more on the page." in text(envelope)


@given(
    lines=st.lists(st.text(max_size=3000), max_size=60),
    sections=st.integers(0, 20),
    rows=st.integers(0, 100),
)
def test_a_card_is_never_too_large(lines: list[str], sections: int, rows: int) -> None:
    """28 KB is the limit; title, facts and button are always there."""
    message = make_message(
        sections=(Section("x" * 200, tuple(lines)),) * sections,
        evidence=Table("t", ("a", "b"), (("é" * 90, "ü" * 90),) * rows),
    )
    envelope = teams_envelope(message)
    assert len(json.dumps(envelope)) < 28_000
    assert "notebook (i-0123456789abcdef0)" in text(envelope)
    assert LINK == card(envelope)["actions"][0]["url"]
    assert all(node["text"] for node in nodes(card(envelope)["body"]) if "text" in node)


def test_a_withdrawn_workflow_is_refused_without_its_address() -> None:
    """The signature in the address is a secret."""
    sender = TeamsChannel(URL, FakeHttps([HttpAnswer(404)]), FixedClock())
    with pytest.raises(DeliveryRefused, match="make a new one") as error:
        sender.send(make_message())
    assert "secret-part" not in str(error.value) + repr(sender)


def test_taken_is_202() -> None:
    """The delivery id is the message's own, as workflows give none."""
    sender = TeamsChannel(URL, FakeHttps([HttpAnswer(202)]), FixedClock())
    delivered = sender.send(make_message())
    assert (make_message().delivery_key, None) == (delivered.delivery_id, delivered.thread)
