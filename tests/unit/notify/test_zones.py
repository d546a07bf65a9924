"""Recorded reasons hold times in UTC. Each message and page gives them in its reader's zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import Alert
from governor.approvals.messages.ends import outcome_alert
from governor.approvals.messages.questions import stage_alert, waiting_alert
from governor.approvals.model.approval import Approval, ApprovalStatus, Stage
from governor.core.units import in_utc, iso
from governor.episode.model.episode import Episode, Outcome
from governor.events.model.interruption import Warned
from governor.notify.digest import digest_of
from tests.builders import NOW
from tests.console_world import ConsoleWorld, caller, html, make_row, view_of
from tests.unit.notify.test_truth import (
    DEADLINE,
    LINK,
    WARNED,
    asked_about_stopped,
    episode_of,
    queued,
    rendered,
    texts,
)
from tests.unit.web.test_site import ID, World

AN_HOUR_AGO = NOW - timedelta(hours=1)
UTC_TEXT = in_utc(AN_HOUR_AGO)
IN_BERLIN = "Fri 12:02 Berlin (11:02 UTC)"


def alerts() -> Iterator[tuple[str, Alert, Episode, str]]:
    """Yield messages to a team in Berlin whose reason holds a time, with that time for them."""
    asked = episode_of()
    reason = f"the instance is snoozed until {UTC_TEXT}"
    refused = outcome_alert(asked.ref, asked, Outcome.REFUSED, reason, NOW, LINK)
    yield "refused", refused, asked, IN_BERLIN
    failed = outcome_alert(asked.ref, asked, Outcome.FAILED, f"Throttled: {reason}", NOW, LINK)
    yield "failed", failed, asked, IN_BERLIN
    ending = WARNED.void_reason
    assert ending is not None
    canceled = outcome_alert(asked.ref, asked, Outcome.INTERRUPTED, ending, NOW, LINK)
    yield "interrupted", canceled, asked, "Fri 13:04 Berlin (12:04 UTC)"
    stopped = asked_about_stopped()
    again = stage_alert(stopped, Stage.ASK, NOW, LINK, DEADLINE)
    yield "stopped", again, stopped, "Fri Nov 6, 13:02 Berlin (12:02 UTC)"
    approval = Approval(
        "a-1", asked.ref, "hash", ApprovalStatus.APPROVED, NOW, DEADLINE, timedelta(days=30)
    )
    waits = waiting_alert(asked, approval, f"the cap is reached until {UTC_TEXT}", 24, NOW, LINK)
    yield "waits", waits, asked, IN_BERLIN
    asking = replace(asked.asking, presence=f"ann has an open session since {UTC_TEXT}.")
    plan = replace(asked.plan, replaced_because=(f"it is protected until {iso(AN_HOUR_AGO)}",))
    present = replace(asked, asking=asking)
    yield "presence", stage_alert(present, Stage.ASK, NOW, LINK, DEADLINE), present, IN_BERLIN
    replaced = replace(asked, plan=plan)
    yield "plan", stage_alert(replaced, Stage.ASK, NOW, LINK, DEADLINE), replaced, IN_BERLIN


@pytest.mark.parametrize(
    ("alert", "episode", "expected"),
    [pytest.param(*values, id=name) for name, *values in alerts()],
)
def test_a_message_gives_recorded_times_in_the_zone_of_its_team(
    alert: Alert, episode: Episode, expected: str
) -> None:
    """In every channel that shows the reason."""
    shown = texts(alert, episode)
    machine = ("pagerduty", "webhook", "slack text")

    lacking = [name for name, text in shown.items() if expected not in text]
    assert [] == [name for name in lacking if name not in machine]
    people = {name: text for name, text in shown.items() if name not in machine}
    assert [] == [name for name, text in people.items() if UTC_TEXT in text]


def test_a_message_about_several_failures_gives_them_in_the_zone_of_their_team() -> None:
    """All alerts of one message go to one recipient; of teams in two zones, UTC is named."""
    asked = episode_of()
    elsewhere = replace(asked, asking=replace(asked.asking, time_zone="Asia/Tokyo"))
    reason = f"Throttled: waited since {UTC_TEXT}"

    def text(*episodes: Episode) -> str:
        failures = [
            queued(outcome_alert(one.ref, one, Outcome.FAILED, reason, NOW, LINK))
            for one in episodes
        ]
        message = digest_of(failures, [], link=LINK, digest_id="digest-1", now=NOW)
        return rendered(message)["mail text"]

    assert IN_BERLIN in text(asked, asked)
    assert "waited since Fri 11:02 UTC" in text(asked, elsewhere)


@pytest.mark.parametrize("is_canceled", [True, False])
def test_a_record_gives_recorded_times_in_the_zone_of_its_team(is_canceled: bool) -> None:
    """Both while its workflow has not closed it yet, and after that."""
    world = World(zone="Europe/Berlin")
    world.state.void(ID, f"worked until {UTC_TEXT}", expired=False, outcome="void")
    if not is_canceled:
        ref = world.ref
        world.state.close_episode(
            ref, Outcome.VOID, f"worked until {UTC_TEXT}", NOW, quiet_until=None
        )

    page = world.get().body
    assert f"Worked until {IN_BERLIN}" in page
    assert UTC_TEXT not in page


def test_a_page_of_the_console_gives_recorded_times_in_the_zone_of_its_reader() -> None:
    """The reason of a verdict is stored with the sweep, in UTC."""
    world = ConsoleWorld()
    row = make_row(1, verdict="young", idle_since=None, reason=f"worked until {UTC_TEXT}")
    world.keep(row)
    path = f"/instances/{row.account}/{row.region}/{row.instance_id}"
    view, names = view_of(path)

    page = html(view, world, caller(zone="Europe/Berlin"), path, **names)
    assert f"worked until {IN_BERLIN}" in page


def test_a_warning_of_ec2_keeps_its_end_as_a_recorded_time() -> None:
    """So that each reader gets it in their zone."""
    warned: Warned = WARNED

    assert f"around {in_utc(warned.ends_at)}" in str(warned.void_reason)
