"""An episode opens once, on evidence read anew, and freezes all that the question will be about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from governor.approvals.messages.questions import stage_alert
from governor.approvals.model.approval import ApprovalStatus, Stage
from governor.core.errors import (
    AccessDenied,
    CloudError,
    DecisionRefused,
    MetricsLate,
    Throttled,
    Unavailable,
)
from governor.core.instance import Lifecycle, SpotRequestType
from governor.episode.model.episode import Outcome, Phase
from governor.episode.model.plan import Step
from governor.evidence.model import MetricSource
from governor.evidence.rules.figures import FIGURES
from governor.evidence.rules.series import evidence_hash
from governor.limits.model.breaker import BreakerState
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.contacts import Contact, Ownership, addresses
from governor.policy.model.policy import Mode, Policy
from governor.policy.rules.owners import owner_of
from tests.builders import NOW, TARGET, make_instance
from tests.unit.worlds.builders import PRICE, decider, decision, opener, ref_of, stored_episode
from tests.unit.worlds.fleet_world import UTILIZATION, FleetWorld

ADA = "ada@example.com"
BUSY = [90.0] * 12
TAGS = {"Purpose": "GPU-Workload", "Name": "notebook", "Owner": "ana", "Project": "vision"}


def idle_world(policy: Policy | None = None, **changes: Any) -> tuple[FleetWorld, str]:
    """A fleet of one idle instance."""
    world = FleetWorld(policy or Policy(mode=Mode.ASK))
    return world, world.add(1, **{"tags": TAGS, **changes})


def test_an_idle_instance_is_opened_with_everything_the_question_is_about() -> None:
    """Evidence and its hash, the plan with sized volumes, the price, and who is asked."""
    world, instance_id = idle_world()
    opened = opener(world)(ref_of(world, instance_id))
    episode = stored_episode(world, ref_of(world, instance_id))

    assert (episode, "opened") == (opened.episode, opened.reason)
    assert (Phase.ASKING, Mode.ASK, "test") == (episode.phase, episode.mode, episode.policy_version)
    assert evidence_hash(episode.measurement.evidence) == episode.measurement.evidence_hash
    assert (Step.STOP, Step.SNAPSHOT) == episode.plan.steps
    assert [100] == [volume.size_gib for volume in episode.instance.volumes]
    assert (PRICE, "ana", "vision") == (episode.price, episode.owner, episode.project)
    assert timedelta(days=30) == episode.asking.keep_at_most
    assert ref_of(world, instance_id) == world.state.record(TARGET, instance_id).open_episode
    assert [] == world.ec2.calls


def test_the_question_says_where_nobody_may_see_who_is_logged_in() -> None:
    """It is asked all the same: whoever answers may know."""
    world, instance_id = idle_world()
    world.ec2.failures["open_sessions"] = [AccessDenied("no", operation="ssm:DescribeSessions")]
    opener(world)(ref_of(world, instance_id))

    episode = stored_episode(world, ref_of(world, instance_id))
    assert episode.asking.presence is not None
    assert episode.asking.presence.startswith(
        "It is not known whether somebody is logged in by Session Manager"
    )
    # Not on the page alone: people answer by Slack and by the command line, too.
    assert episode.asking.presence in stage_alert(episode, Stage.ASK, NOW, None).lines


OWNERS = Ownership(
    contacts={"ml": Contact(emails=(ADA,)), "finops": Contact(emails=("finn@example.com",))},
    default_contacts=("finops",),
)


@pytest.mark.parametrize(
    ("tag", "asked", "note"),
    [
        ("ML", (ADA,), None),
        ("ml, finn@example.com", (ADA, "finn@example.com"), None),
        (None, ("finn@example.com",), None),
        (
            "carl",
            ("finn@example.com",),
            'The owner tag names "carl", which is not in the policy. The default contacts are '
            "asked instead.",
        ),
        (
            "ml; carl@example.org",
            (ADA,),
            'The owner tag also names "carl@example.org", which is not in the policy.',
        ),
    ],
)
def test_every_message_of_a_question_says_whom_the_owner_tag_names_and_nobody_knows(
    tag: str | None, asked: tuple[str, ...], note: str | None
) -> None:
    """Never the default contacts without a word: in the question, a reminder and an escalation."""
    tags = {key: value for key, value in TAGS.items() if key.casefold() != "owner"}
    if tag is not None:
        tags["Owner"] = tag
    world, instance_id = idle_world(Policy(mode=Mode.ASK, ownership=OWNERS), tags=tags)
    opener(world)(ref_of(world, instance_id))
    episode = stored_episode(world, ref_of(world, instance_id))
    contacts = OWNERS.asked(episode.owner, episode.project)

    assert asked == addresses(contacts)
    assert note == episode.asking.owner_note
    for stage in (Stage.ASK, Stage.REMIND, Stage.ESCALATE):
        lines = stage_alert(episode, stage, NOW, None, NOW).lines
        assert [note] * (note is not None) == [line for line in lines if "owner tag" in line]
        assert not any("contacts of carl" in line for line in lines)


@pytest.mark.parametrize(("mode", "is_question"), [(Mode.ASK, True), (Mode.OBSERVE, False)])
def test_a_question_records_the_working_hours_of_all_who_are_asked(
    mode: Mode, is_question: bool
) -> None:
    """The escalation included, each hours once. A later policy then shortens nobody's time."""
    office = Contact(emails=(ADA,), time_zone="Europe/Berlin", working_from="09:00")
    twin = replace(office, emails=("bob@example.com",))
    on_call = Contact(emails=("finn@example.com",), working_until="12:00")
    ownership = Ownership(
        contacts={"ml": office, "twin": twin, "finops": on_call},
        default_contacts=("twin",),
        escalation_contacts=("finops",),
    )
    tags = {key: value for key, value in TAGS.items() if key.casefold() != "owner"}
    policy = Policy(mode=mode, ownership=ownership)
    world, instance_id = idle_world(policy, tags={**tags, "Owner": "ml"})
    opener(world)(ref_of(world, instance_id))

    recorded = stored_episode(world, ref_of(world, instance_id)).asking.contact_hours

    assert recorded == ((office.hours, on_call.hours) if is_question else ())


def test_a_rehearsal_says_that_the_default_contacts_are_notified() -> None:
    """Beside it stands that nobody is asked."""
    tags = {key: value for key, value in TAGS.items() if key.casefold() != "owner"}
    policy = Policy(mode=Mode.OBSERVE, ownership=OWNERS)
    world, instance_id = idle_world(policy, tags={**tags, "Owner": "carl"})
    opener(world)(ref_of(world, instance_id))

    note = stored_episode(world, ref_of(world, instance_id)).asking.owner_note

    assert note is not None
    assert note.endswith("The default contacts are notified instead.")


def test_the_saving_is_what_the_bill_changes_by() -> None:
    """1.006 + 100 GiB of gp3 before; the volume and a full snapshot after."""
    world, instance_id = idle_world()
    opener(world)(ref_of(world, instance_id))

    saving = stored_episode(world, ref_of(world, instance_id)).plan.saving
    assert Decimal("1.006") + Decimal(8) / 730 == saving.cost_before_usd_per_hour
    assert Decimal(8) / 730 + Decimal(5) / 730 == saving.cost_after_usd_per_hour


def test_nobody_can_answer_before_the_question_was_asked() -> None:
    """The approval is pending and its time is over, until a stage sets its expiry."""
    world, instance_id = idle_world()
    opener(world)(ref_of(world, instance_id))
    approval = world.state.approval("approval-1")
    assert approval is not None

    assert (ApprovalStatus.PENDING, NOW) == (approval.status, approval.expires_at)
    assert (
        stored_episode(world, ref_of(world, instance_id)).measurement.evidence_hash
        == approval.evidence_hash
    )
    with pytest.raises(DecisionRefused):
        decider(world)("approval-1", decision())


@pytest.mark.parametrize(
    ("policy", "phase"),
    [
        (Policy(mode=Mode.ASK), Phase.ASKING),
        (Policy(mode=Mode.OBSERVE), Phase.OPENING),
        (Policy(mode=Mode.AUTO), Phase.ASKING),
        (
            Policy(mode=Mode.AUTO, plan=PlanRule(local_disks_may_be_lost_unasked=True)),
            Phase.OPENING,
        ),
        (Policy(mode=Mode.ASK, plan=PlanRule(action=Action.NOTIFY_ONLY)), Phase.OPENING),
    ],
    ids=["ask", "observe", "auto, but a stop wipes local disks", "auto", "notify-only"],
)
def test_only_a_question_is_in_the_asking_phase(policy: Policy, phase: Phase) -> None:
    """People who are only notified have nothing to answer."""
    world, instance_id = idle_world(policy)
    opener(world)(ref_of(world, instance_id))

    assert phase is stored_episode(world, ref_of(world, instance_id)).phase


def test_a_repeated_invocation_gets_the_first_ones_episode() -> None:
    """Lambda may run twice: one approval id, one evidence, whatever was measured since."""
    world, instance_id = idle_world()
    first = opener(world, "approval-1")(ref_of(world, instance_id))
    world.publish(instance_id, BUSY)
    again = opener(world, "approval-2")(ref_of(world, instance_id))

    assert (first.episode, "already opened") == (again.episode, again.reason)
    assert world.state.approval("approval-2") is None


def test_a_second_episode_waits_for_the_first() -> None:
    """One question an instance: the lock is the state table's."""
    world, instance_id = idle_world()
    opener(world)(ref_of(world, instance_id))
    second = opener(world, "approval-2")(ref_of(world, instance_id, number=2))

    assert second.episode is None
    assert "another episode" in second.reason
    assert ref_of(world, instance_id) == world.state.record(TARGET, instance_id).open_episode


def test_an_episode_that_is_over_is_not_opened_again() -> None:
    """A redrive of an old execution does nothing."""
    world, instance_id = idle_world()
    ref = ref_of(world, instance_id)
    opener(world)(ref)
    world.state.close_episode(ref, Outcome.EXPIRED, "nobody", NOW, quiet_until=None)
    again = opener(world, "approval-2")(ref)

    assert again.episode is None
    assert world.state.record(TARGET, instance_id).open_episode is None
    assert Outcome.EXPIRED is stored_episode(world, ref).outcome


def test_in_an_account_that_is_no_target_nothing_is_locked() -> None:
    """An execution that was started by hand, as with a sample of `events/`: nothing is written."""
    world, instance_id = idle_world()
    ref = replace(ref_of(world, instance_id), account="000000000000")
    opened = opener(world)(ref)

    assert (None, "the policy's targets do not name 000000000000") == (
        opened.episode,
        opened.reason,
    )
    assert not [key for key in world.state.items if "000000000000" in str(key)]


CLOSED: dict[str, tuple[Callable[[FleetWorld, str], object], Outcome, str]] = {
    "gone": (lambda w, _: w.ec2.instances.clear(), Outcome.VOID, "no longer runs"),
    "taken back": (
        lambda w, i: w.state.note_warned(TARGET, {i: NOW + timedelta(minutes=2)}),
        Outcome.INTERRUPTED,
        "will reclaim the instance",
    ),
    "stopping": (lambda w, i: w.change(i, state="stopping"), Outcome.VOID, "no longer runs"),
    "restarted": (lambda w, i: w.change(i, launch_time=NOW), Outcome.VOID, "restarted"),
    "tag gone": (lambda w, i: w.change(i, tags={}), Outcome.VOID, "no longer carries"),
    "frozen": (
        lambda w, _: w.state.set_breaker(TARGET, BreakerState(NOW, "outage")),
        Outcome.VOID,
        "frozen: outage",
    ),
    "exempt": (
        lambda w, i: w.change(i, tags={**TAGS, "GpuGovernor": "exempt"}),
        Outcome.VOID,
        "not idle on the second look",
    ),
    "managed": (
        lambda w, i: w.change(i, tags={**TAGS, "aws:autoscaling:groupName": "asg"}),
        Outcome.VOID,
        "managed on the second look",
    ),
    "silent": (lambda w, i: w.silence(i), Outcome.VOID, "not idle on the second look"),
    "busy": (lambda w, i: w.publish(i, BUSY), Outcome.WOKE_UP, "not idle on the second look"),
    "busy by CPU": (
        lambda w, i: w.metrics.publish("CPUUtilization", {"InstanceId": i}, BUSY),
        Outcome.WOKE_UP,
        "CPU reached",
    ),
}


@pytest.mark.parametrize("name", sorted(CLOSED))
def test_what_is_not_idle_on_the_second_look_is_closed_unasked(name: str) -> None:
    """Nobody is bothered, the lock is free, and it is not looked at again before an hour has
    passed."""
    world, instance_id = idle_world()
    ref = ref_of(world, instance_id)
    change, outcome, why = CLOSED[name]
    change(world, instance_id)
    opened = opener(world)(ref)
    record = world.state.record(TARGET, instance_id)

    assert opened.episode is None
    assert why in opened.reason
    assert world.state.approval("approval-1") is None
    assert (None, outcome) == (record.open_episode, record.last_outcome)
    assert NOW + timedelta(minutes=60) == record.quiet_until


def test_the_second_look_is_gpu_by_gpu() -> None:
    """The sweep watches the aggregate; the evidence of a question shows every GPU."""
    world = FleetWorld()
    instance_id = world.add(1, instance_type="g5.12xlarge", tags=TAGS)
    for index in range(4):
        dimensions = {"InstanceId": instance_id, "index": str(index), "name": "A10G"}
        world.metrics.publish(UTILIZATION, dimensions, [float(index)] * 48)
    opener(world)(ref_of(world, instance_id))

    evidence = stored_episode(world, ref_of(world, instance_id)).measurement.evidence
    assert (MetricSource.PER_GPU, 4, 4) == (
        evidence.source,
        len(evidence.gpus),
        evidence.gpus_reporting,
    )
    assert {"work", *FIGURES} - {"bound"} == evidence.read


def test_late_readings_are_waited_for() -> None:
    """The lock stays with the episode; a retry goes on when they have come."""
    world, instance_id = idle_world()
    ref = ref_of(world, instance_id)
    world.publish(instance_id, [*[1.0] * 60, None])
    with pytest.raises(MetricsLate, match="published nothing in the newest 5 min"):
        opener(world)(ref)
    assert (ref, None) == (
        world.state.record(TARGET, instance_id).open_episode,
        world.state.episode(ref),
    )

    world.publish(instance_id, [1.0] * 60)
    assert opener(world)(ref).episode is not None


def test_after_a_second_look_that_finds_work_an_hour_passes() -> None:
    """Nobody was asked, so the next look comes sooner than after an answer."""
    world, instance_id = idle_world()
    world.publish(instance_id, BUSY)
    opener(world)(ref_of(world, instance_id))

    assert NOW + timedelta(minutes=60) == world.state.record(TARGET, instance_id).quiet_until


def test_a_persistent_request_is_part_of_the_plan() -> None:
    """Read for Spot instances, and shown before anybody says yes."""
    policy = Policy(mode=Mode.ASK, plan=PlanRule(action=Action.TERMINATE))
    world, instance_id = idle_world(policy)
    world.change(instance_id, lifecycle=Lifecycle.SPOT, spot_request_id="sir-1")
    world.ec2.spot_requests["sir-1"] = SpotRequestType.PERSISTENT
    opener(world)(ref_of(world, instance_id))

    steps = stored_episode(world, ref_of(world, instance_id)).plan.steps
    assert (Step.STOP, Step.SNAPSHOT, Step.CANCEL_SPOT_REQUEST, Step.TERMINATE) == steps


@pytest.mark.parametrize("error", [Throttled("later"), Unavailable("later")])
def test_an_interrupted_opening_goes_on_at_the_retry(error: CloudError) -> None:
    """The lock stays with the episode; nothing is half open."""
    world, instance_id = idle_world()
    ref = ref_of(world, instance_id)
    world.ec2.failures["describe"] = [error]
    with pytest.raises(type(error)):
        opener(world)(ref)
    assert ref == world.state.record(TARGET, instance_id).open_episode
    assert world.state.episode(ref) is None

    assert opener(world)(ref).episode is not None


def test_metrics_that_cannot_be_read_open_and_close_nothing() -> None:
    """A read that failed is neither idleness nor work."""
    world, instance_id = idle_world()
    ref = ref_of(world, instance_id)
    world.metrics.broken["CPUUtilization"] = "Throttling"
    with pytest.raises(Unavailable, match="Throttling"):
        opener(world)(ref)

    assert ref == world.state.record(TARGET, instance_id).open_episode
    assert world.state.episode(ref) is None


@pytest.mark.parametrize(
    ("tags", "who"),
    [
        ({"owner": "ben", "project": "speech"}, ("ben", "speech")),
        ({"Owner": "ana", "owner": "ben"}, ("ana", "unassigned")),
        ({"Owner": "  "}, ("nobody@example.com", "unassigned")),
    ],
)
def test_the_first_tag_that_is_set_names_the_owner(
    tags: dict[str, str], who: tuple[str, str]
) -> None:
    """A blank tag names nobody; then the policy's default is asked."""
    policy = Policy(mode=Mode.ASK)
    policy = replace(
        policy, ownership=replace(policy.ownership, default_owner="nobody@example.com")
    )
    world, instance_id = idle_world(policy, tags={"Purpose": "GPU-Workload", **tags})
    opener(world)(ref_of(world, instance_id))
    episode = stored_episode(world, ref_of(world, instance_id))

    assert who == (episode.owner, episode.project)


def test_owner_and_project_are_one_printable_line() -> None:
    """They stand in mails and on the page, and anybody who may tag writes them."""
    tags = {"Owner": "ada\nBcc: eve", "Project": "vision\u202e"}

    assert ("ada Bcc: eve", "vision", "UTC") == owner_of(make_instance(tags=tags), Ownership())
