"""Keep means the same in every channel: until the next working morning of those who are asked."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Stage
from governor.approvals.rules.approval import keep_end, keep_text
from governor.core.units import parse_iso
from governor.episode.model.plan import Price
from governor.notify.compose import message_of
from governor.notify.slack_blocks import slack_blocks
from governor.policy.model.contacts import Contact, Ownership, Weekday
from governor.policy.model.policy import Mode, Policy
from tests.builders import NOW
from tests.episodes import changed
from tests.unit.notify.test_slack_actions import Slack
from tests.unit.notify.test_truth import LINK, queued
from tests.unit.remediation.test_open_episode import idle_world
from tests.unit.web.test_api import post
from tests.unit.web.test_site import World
from tests.unit.worlds.builders import opener, ref_of
from tests.unit.worlds.world import World as Workflow

OFFICE = {
    "time_zone": "Europe/Berlin",
    "working_days": (Weekday.MON, Weekday.TUE, Weekday.WED, Weekday.THU, Weekday.FRI),
    "working_from": "08:30",
}
MONDAY = datetime(2026, 11, 23, 7, 30, tzinfo=UTC)
"""NOW is a Friday afternoon."""
LABEL = "Keep until Mon 08:30 Berlin ($136)"
PRICE = Price(Decimal("2.015"), "list price")


def test_every_channel_keeps_until_the_same_moment_and_says_so() -> None:
    """The page's button, the button in Slack, and the command line without a date."""
    page = World()
    page.change(**OFFICE, price=PRICE)
    shown = page.get().body
    field = re.search(r'name="keep_until" value="([^"]+)"', shown)
    assert field is not None
    until = LABEL.rsplit(" ", 2)[0]
    zone_and_cost = LABEL.split(" ", 4)[-1]
    assert f'>{until} <span class="under">{zone_and_cost}</span></button>' in shown
    page.post("keep", keep_until=field[1])
    assert MONDAY == page.state.record(page.ref.target, page.ref.instance_id).hold.snoozed_until

    slack = Slack()
    asked = changed(slack.world._stored(), **OFFICE, price=PRICE)
    slack.world.state.put(asked)
    alert = stage_alert(asked, Stage.ASK, NOW, LINK, NOW + timedelta(hours=9))
    blocks = slack_blocks(message_of(queued(alert), asked, link=LINK, now=NOW), interactive=True)
    (buttons,) = (block["elements"] for block in blocks if block["type"] == "actions")
    assert isinstance(buttons, list)
    (keep,) = (one for one in buttons if one["action_id"] == "governor.keep")
    slack.press("keep", value=keep["value"])
    assert LABEL == keep["text"]["text"]
    assert "Recorded: kept until Mon 08:30 Berlin (07:30 UTC)." == slack.said[0][2]

    line = Workflow(decide=False)
    line.state.put(changed(line._stored(), **OFFICE))
    answer = post(line, answer="keep")
    assert MONDAY == parse_iso(answer.document["kept_until"])


def test_the_hours_are_those_of_who_is_asked_when_the_question_is_opened() -> None:
    """Frozen with it: the same answer, whatever the policy says later."""
    contact = Contact(emails=("a@example.com",), **OFFICE)  # type: ignore[arg-type]
    ownership = Ownership(contacts={"ml": contact}, default_contacts=("ml",))
    world, instance_id = idle_world(Policy(mode=Mode.ASK, ownership=ownership))
    opened = opener(world)(ref_of(world, instance_id)).episode

    assert opened is not None
    assert OFFICE == {name: getattr(opened.asking, name) for name in OFFICE}
    assert MONDAY == keep_end(opened, NOW)


@pytest.mark.parametrize(
    ("days", "label"), [(30, "Keep until Sat 09:00 UTC"), (0, "Keep until Fri 12:02 UTC")]
)
def test_no_keep_is_offered_beyond_what_the_policy_allows(days: int, label: str) -> None:
    """Nor with a cost where none is known."""
    asked = replace(
        World().episode,
        price=Price(None, "not listed"),
        asking=replace(
            World().episode.asking, keep_at_most=timedelta(days=days), working_from="00:00"
        ),
    )
    assert label == keep_text(asked, NOW)
