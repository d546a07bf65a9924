"""Alerts that the release before put into the queue: their facts hold no form of the lines.

`alerts_without_line_forms.json` holds alerts as that release published them, and a hash of the
text that the seal of each covers.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from governor.alerts.model import LINE_FORMS, Alert, alert_document, sealed_text
from governor.notify.compose import message_of
from governor.notify.contract import parse_queued
from governor.notify.webhook import webhook_document
from tests.unit.notify.test_truth import LINK, rendered

RECORDED = json.loads(Path(__file__).with_name("alerts_without_line_forms.json").read_text("utf-8"))
every_alert = pytest.mark.parametrize(
    "recorded", RECORDED, ids=lambda recorded: recorded["alert"]["dedup_id"][:40]
)


def received(recorded: dict[str, Any]) -> Alert:
    """Return the alert as `deliver_alert` reads it from its queue."""
    alert = parse_queued(json.dumps(recorded["alert"]))
    assert isinstance(alert, Alert)
    return alert


def without_breaks(text: str) -> str:
    return " ".join(text.split())


def test_the_recorded_alerts_are_of_the_release_before() -> None:
    """Some of them have lists, which that release had its channels find in the text."""
    assert not [recorded for recorded in RECORDED if LINE_FORMS in recorded["alert"]["facts"]]
    assert [recorded for recorded in RECORDED if "- " in str(recorded["alert"]["lines"])]


@every_alert
def test_its_text_is_delivered_as_it_is(recorded: dict[str, Any]) -> None:
    """Every line of it, lists too, to people and to machines."""
    alert = received(recorded)
    message = message_of(alert, None, link=LINK)
    lines = [line for line in alert.lines if line]

    mail = without_breaks(rendered(message)["mail text"])
    assert lines
    assert [] == [line for line in lines if without_breaks(line) not in mail]
    document = webhook_document(message)
    assert [line.strip() for line in lines] == [document["happens"], *document["lead"]]  # type: ignore[misc]


@every_alert
def test_every_channel_shows_what_it_is_about(recorded: dict[str, Any]) -> None:
    alert = received(recorded)
    for channel, text in rendered(message_of(alert, None, link=LINK)).items():
        assert alert.subject in text, channel


@every_alert
def test_its_seal_still_fits(recorded: dict[str, Any]) -> None:
    """The text under the seal is the same, read by this release."""
    alert = received(recorded)

    assert recorded["alert"] == json.loads(json.dumps(alert_document(alert)))
    assert recorded["sealed_sha256"] == hashlib.sha256(sealed_text(alert)).hexdigest()
