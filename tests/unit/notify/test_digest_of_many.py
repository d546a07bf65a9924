"""A digest is short: one line an instance, and what they share once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest

from governor.approvals.messages.consequence import consequence_of_several
from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import Stage
from governor.episode.model.episode import Episode
from governor.notify.digest import digest_of
from governor.notify.message import Message
from tests.builders import NOW
from tests.unit.notify.test_truth import (
    DEADLINE,
    LINK,
    QUESTIONS,
    REASON,
    episode_of,
    queued,
    rendered,
)

SHARED = "everything in RAM and in GPU memory"
OWN = "all data on local NVMe (1x3800 GB); it is in no snapshot"


WIPES = "If nobody answers, data on local disks is lost, too (the policy allows this). Affected: "


def instance_number(
    number: int, *, acts: bool, losses: Sequence[str] = (SHARED,), wipes: bool = False
) -> Episode:
    """Return the question about one of many instances."""
    episode = episode_of(on_expiry="act" if acts else "no-action", reason=REASON)
    instance = replace(
        episode.instance,
        instance_id=f"i-{number:017x}",
        tags={"Name": f"notebook-{number:02}"},
    )
    plan = replace(episode.plan, losses=tuple(losses), loses_local_disks=wipes)
    return replace(episode, instance=instance, plan=plan)


def digest(
    episodes: Sequence[Episode], stage: Stage = Stage.ASK, apart: timedelta = timedelta(seconds=1)
) -> Message:
    """Return the message about these questions, whose deadlines are so far apart."""
    alerts = [
        queued(stage_alert(episode, stage, NOW, LINK, DEADLINE + number * apart))
        for number, episode in enumerate(episodes)
    ]
    return digest_of(alerts, episodes, link=LINK, digest_id="digest-1", now=NOW)


@pytest.mark.parametrize("stage", QUESTIONS)
@pytest.mark.parametrize("acting", [0, 4, 12])
def test_each_instance_has_one_line(acting: int, stage: Stage) -> None:
    """In every channel, under the heading that says what silence does to it."""
    episodes = [instance_number(number, acts=number < acting) for number in range(12)]
    message = digest(episodes, stage)
    lines_by_heading = {section.heading: section.lines for section in message.sections}

    stopped = lines_by_heading.get("Stopped if nobody answers", ())
    others = lines_by_heading.get("Stopped only if you approve", ())
    assert (acting, 12 - acting) == (len(stopped), len(others))
    for number, line in enumerate((*stopped, *others)):
        assert line.startswith(f"notebook-{number:02} (g5.12xlarge), idle 6 h 40 min, $136 a day,")
    for channel, text in rendered(message).items():
        if channel == "slack text":
            continue
        missing = [f"i-{number:017x}" for number in range(12) if f"i-{number:017x}" not in text]
        assert (channel, []) == (channel, missing)


def test_what_all_lose_is_said_once() -> None:
    """A loss of some has their names."""
    losses = [(SHARED, OWN) if number in (3, 5) else (SHARED,) for number in range(12)]
    message = digest(
        [instance_number(number, acts=True, losses=lost) for number, lost in enumerate(losses)]
    )
    (lost,) = [section for section in message.sections if "lost" in section.heading]

    assert (SHARED, f"notebook-03, notebook-05: {OWN}") == lost.lines
    assert 1 == rendered(message)["mail text"].count(SHARED)


def test_the_first_line_names_what_silence_stops() -> None:
    """And when: the workflows of one sweep begin within seconds, which is one deadline."""
    episodes = [instance_number(number, acts=number in (2, 7)) for number in range(12)]
    message = digest(episodes)

    assert (
        "If nobody answers, GPU Governor stops 2 of these 12 (notebook-02, notebook-07) "
        "after Sat 04:02 Berlin (03:02 UTC, in 15 h)." == message.happens
    )
    assert message.title.startswith("2 of 12 idle GPU instances will be stopped after Sat 04")
    assert not [line for section in message.sections for line in section.lines if "Sat" in line]


def test_it_names_the_instances_whose_disks_silence_wipes() -> None:
    """Once, in every channel, and near the beginning. An instance that waits for an approval loses
    nothing by silence."""
    episodes = [
        instance_number(0, acts=True, wipes=True),
        instance_number(1, acts=True),
        instance_number(2, acts=False, wipes=True),
        instance_number(3, acts=True, wipes=True),
    ]
    message = digest(episodes, Stage.REMIND)

    assert message.lead[0] == f"{WIPES}notebook-00, notebook-03."
    for channel, text in rendered(message).items():
        if channel == "slack text":
            continue
        assert (channel, 1) == (channel, text.count(message.lead[0]))


def test_disks_of_all_instances_are_wiped_in_one_short_line() -> None:
    """The names stand in the list of the instances."""
    episodes = [instance_number(number, acts=True, wipes=True) for number in range(40)]
    (wiped,) = [line for line in digest(episodes).lead if "local disks" in line]

    assert f"{WIPES}all 40 instances." == wiped


def test_many_names_of_wiped_instances_do_not_hide_what_is_lost() -> None:
    """A channel with little room cuts the line at its end, where the names stand."""
    episodes = [instance_number(number, acts=number > 0, wipes=True) for number in range(40)]
    *_, third, _ = digest(episodes).shortened()
    (wiped,) = [line for line in third.lead if "local disks" in line]

    assert wiped.startswith(f"{WIPES}notebook-01, notebook-02")
    assert "and 27 more" in wiped


@pytest.mark.parametrize(("acts", "wipes"), [(True, False), (False, True)])
def test_a_digest_without_such_instances_says_nothing_of_it(acts: bool, wipes: bool) -> None:
    episodes = [instance_number(number, acts=acts, wipes=wipes) for number in range(3)]

    assert "local disks" not in "\n".join(digest(episodes).lead)


def test_deadlines_hours_apart_stand_in_their_lines() -> None:
    """The subject has the earliest."""
    message = digest(
        [instance_number(0, acts=True), instance_number(1, acts=False)], apart=timedelta(hours=3)
    )
    lines = [line for section in message.sections[:2] for line in section.lines]

    assert "after Sat 04:02 Berlin" in lines[0]
    assert "by Sat 07:02 Berlin" in lines[1]
    assert "after Sat 04:02 Berlin" in message.title


def test_of_several_that_silence_stops_hours_apart_the_first_is_named() -> None:
    """The deadline of one that waits for an approval is none of theirs."""
    acts = (False, True, True)
    message = digest(
        [instance_number(number, acts=acts[number]) for number in range(3)],
        apart=timedelta(hours=1),
    )

    assert message.title.startswith(
        "2 of 3 idle GPU instances will be stopped from Sat 05:02 Berlin on unless you answer"
    )
    assert (
        "If nobody answers, GPU Governor stops 2 of these 3 (notebook-01, notebook-02), "
        "beginning after Sat 05:02 Berlin (04:02 UTC, in 16 h)." == message.happens
    )


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/Argentina/Buenos_Aires"])
@pytest.mark.parametrize("apart", [timedelta(seconds=1), timedelta(hours=1)])
@pytest.mark.parametrize("later", [timedelta(0), timedelta(days=8)])
@pytest.mark.parametrize("acting", [0, 11, 30])
def test_no_subject_is_cut(zone: str, apart: timedelta, later: timedelta, acting: int) -> None:
    """SNS takes 100 characters. Where they are too few, `2 of 12 id... instances` was said."""
    episodes = [instance_number(number, acts=number < acting) for number in range(30)]
    episodes = [replace(one, asking=replace(one.asking, time_zone=zone)) for one in episodes]
    silence = consequence_of_several(
        episodes, DEADLINE + later, NOW, is_one_deadline=apart < timedelta(hours=1)
    )

    assert "\N{HORIZONTAL ELLIPSIS}" not in silence.subject
    assert "30 " in silence.subject
    assert len(silence.subject) <= 98


def test_deadlines_that_read_differently_stand_in_their_lines() -> None:
    """A digest said "after Sat 04:02" of a question whose reminder, escalation and page said
    04:03: the deadlines were 40 s apart."""
    message = digest(
        [instance_number(number, acts=True) for number in range(3)], apart=timedelta(seconds=20)
    )
    deadlines = [line.split(", ")[3] for line in message.sections[0].lines]

    earlier = "after Sat 04:02 Berlin"
    assert [earlier, earlier, "after Sat 04:03 Berlin"] == deadlines
    assert earlier in message.happens


def test_twelve_instances_fit_on_two_screens_of_text() -> None:
    """The mail had four lines an instance: 3,008 points on a phone, now 1,405."""
    episodes = [instance_number(n, acts=n < 4, losses=(SHARED, OWN)) for n in range(12)]
    body = rendered(digest(episodes))["mail text"].partition("Stop or keep them:")[0]

    assert 26 >= len(body.splitlines())


def test_of_one_price_the_question_with_the_least_time_left_comes_first() -> None:
    """The price comes before it."""
    episodes = [instance_number(number, acts=False) for number in range(3)]
    cheap = replace(
        instance_number(3, acts=False),
        price=replace(episodes[0].price, usd_per_hour=Decimal(1)),
    )
    message = digest([*episodes, cheap], apart=timedelta(hours=-3))
    names = [line.partition(" ")[0] for line in message.sections[0].lines]

    assert ["notebook-02", "notebook-01", "notebook-00", "notebook-03"] == names
