"""A question says who launched the instance, where CloudTrail knows it, and waits for nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from governor.approvals.messages.questions import stage_alert
from governor.approvals.messages.sentences import launched_text
from governor.approvals.model.approval import Stage
from governor.approvals.rules.sealing import opening_text
from governor.core.errors import AccessDenied, CloudError, Throttled, Unavailable
from governor.core.instance import Launch
from governor.episode.model.episode import Phase
from governor.policy.model.contacts import Contact, Ownership
from governor.policy.model.policy import Mode, Policy
from tests.builders import NOW
from tests.unit.remediation.test_open_episode import idle_world
from tests.unit.worlds.builders import opener, ref_of, stored_episode

ROLE = "arn:aws:sts::123456789012:assumed-role/gh-runner-scale-up/i-0abc"
LAUNCHED_AT = NOW - timedelta(days=3)


@pytest.mark.parametrize(
    ("principal", "who", "guess"),
    [
        (ROLE, "the role gh-runner-scale-up", "perhaps on behalf of GitHub Actions"),
        ("arn:aws:iam::123456789012:user/bob", "the user bob", None),
        (
            "arn:aws:iam::123456789012:user/jenkins",
            "the user jenkins",
            "perhaps on behalf of Jenkins",
        ),
        ("arn:aws:iam::123456789012:root", "the root user of account 123456789012", None),
        (
            "arn:aws:sts::123456789012:assumed-role/AWSServiceRoleForEC2Fleet/EC2Fleet",
            "the role AWSServiceRoleForEC2Fleet",
            None,
        ),
    ],
)
def test_every_message_of_a_question_says_who_launched_it(
    principal: str, who: str, guess: str | None
) -> None:
    """The manager is a guess: people are asked as usual."""
    world, instance_id = idle_world(Policy(mode=Mode.ASK))
    world.ec2.launches[instance_id] = Launch(principal, LAUNCHED_AT)

    opener(world)(ref_of(world, instance_id))

    episode = stored_episode(world, ref_of(world, instance_id))
    day = f"{LAUNCHED_AT:%a %b} {LAUNCHED_AT.day}"
    assert episode.phase is Phase.ASKING
    text = launched_text(episode)
    assert text.startswith(f"Launched by {who} on {day}")
    assert (guess is not None) is ("perhaps" in text)
    assert (guess or "") in text
    for stage in (Stage.TELL, Stage.ASK, Stage.REMIND, Stage.ESCALATE):
        assert text in stage_alert(episode, stage, NOW, None, NOW).lines


@pytest.mark.parametrize(
    "failure",
    [
        AccessDenied("not authorized", operation="cloudtrail:LookupEvents"),
        Throttled("rate exceeded", operation="cloudtrail:LookupEvents"),
        Unavailable("no answer", operation="cloudtrail:LookupEvents"),
        CloudError("odd", operation="cloudtrail:LookupEvents"),
        None,
    ],
)
def test_a_lookup_that_fails_or_finds_nothing_changes_nothing_about_the_question(
    failure: CloudError | None,
) -> None:
    """One call, no second one, and the question opens as it would without."""
    world, instance_id = idle_world(Policy(mode=Mode.ASK))
    if failure is not None:
        world.ec2.failures["launch"] = [failure]

    opened = opener(world)(ref_of(world, instance_id))

    episode = stored_episode(world, ref_of(world, instance_id))
    assert opened.reason == "opened"
    assert episode.phase is Phase.ASKING
    assert episode.asking.launched_by is None
    assert len(world.ec2.launches_asked) == 1
    lines = stage_alert(episode, Stage.ASK, NOW, None, NOW).lines
    assert not any("Launched" in line for line in lines)


def test_the_lookup_is_made_once_and_ends_soon_after_the_run_began() -> None:
    """Later events of the instance do not push the launch off the one page."""
    world, instance_id = idle_world(Policy(mode=Mode.ASK))
    ref = ref_of(world, instance_id)

    opener(world)(ref)
    opener(world)(ref)

    launch_time = world.ec2.instances[instance_id].launch_time
    assert [(instance_id, launch_time + timedelta(minutes=15))] == world.ec2.launches_asked


@pytest.mark.parametrize(("age", "calls"), [(timedelta(days=90), 1), (timedelta(days=91), 0)])
def test_nothing_is_looked_up_that_cloudtrail_no_longer_has(age: timedelta, calls: int) -> None:
    """It keeps 90 days."""
    world, instance_id = idle_world(Policy(mode=Mode.ASK))
    instance = world.ec2.instances[instance_id]
    world.ec2.add(replace(instance, launch_time=world.clock.now() - age))

    opener(world)(ref_of(world, instance_id))

    assert calls == len(world.ec2.launches_asked)


def test_the_seal_of_a_question_is_the_same_with_and_without_it() -> None:
    """Open questions of earlier releases have none."""
    world, instance_id = idle_world(Policy(mode=Mode.ASK, ownership=Ownership()))
    world.ec2.launches[instance_id] = Launch(ROLE, LAUNCHED_AT)
    opener(world)(ref_of(world, instance_id))
    episode = stored_episode(world, ref_of(world, instance_id))

    without = replace(episode, asking=replace(episode.asking, launched_by=None))
    assert episode.asking.launched_by == Launch(ROLE, LAUNCHED_AT)
    assert opening_text(episode) == opening_text(without)
    assert launched_text(without) == ""


def test_the_day_is_that_of_the_people_who_are_asked() -> None:
    """Just before midnight in UTC it is the next day in Tokyo."""
    tokyo = Ownership(
        contacts={"ana": Contact(emails=("ana@example.com",), time_zone="Asia/Tokyo")}
    )
    world, instance_id = idle_world(Policy(mode=Mode.ASK, ownership=tokyo))
    late = LAUNCHED_AT.replace(hour=23, minute=30)
    world.ec2.launches[instance_id] = Launch(ROLE, late)
    opener(world)(ref_of(world, instance_id))

    episode = stored_episode(world, ref_of(world, instance_id))
    next_day = late + timedelta(days=1)
    assert f"on {next_day:%a %b} {next_day.day}" in launched_text(episode)
