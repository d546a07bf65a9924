"""Messages about the health of GPUs: once while it lasts, anew when worse or back; nothing is
done."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from governor.alerts.model import Alert, AlertKind, Severity
from governor.aws.messaging import message_of
from governor.core.errors import AccessDenied, Throttled, Unavailable
from governor.episode.model.standing import StandingState, StateKind
from governor.health.model import FindingKind
from governor.policy.document import parse_policy
from governor.policy.model.policy import Mode
from tests.builders import NOW, TARGET
from tests.unit.worlds.health_world import AGENT, HARDWARE, HealthWorld, flat, policy_with

HOT = {"temperature_celsius": flat(90)}
LOST = {"lost": flat(1)}
WASTED = {"utilization": flat(30), "memory_utilization": flat(10)}


def with_hot() -> tuple[HealthWorld, str]:
    """One instance of ada's with one hot GPU."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=2)
    world.publish(instance_id, [{}, HOT])
    return world, instance_id


def test_a_finding_is_told_to_the_owner_once_while_it_lasts() -> None:
    """Looked at every hour, told in the first."""
    world, instance_id = with_hot()
    world.check()

    (alert,) = world.told()
    assert (AlertKind.HEALTH_FINDING, Severity.WARNING) == (alert.kind, alert.severity)
    assert ("ada", instance_id) == (alert.owner, alert.instance_id)
    assert "GPU 1: over 85 °C" in alert.lines[0]
    for _ in range(5):
        assert world.check(60).was_checked
    assert [] == world.told()


def test_sweeps_come_often_and_the_look_is_made_as_the_policy_says() -> None:
    """Twelve sweeps an hour, one look; the sweep that comes a moment early is let in."""
    world = HealthWorld(policy_with())
    world.add(1)

    looks = [world.check(minutes=0 if n == 0 else 5).was_checked for n in range(12)]
    assert [True] + [False] * 11 == looks
    assert world.check(4.5).was_checked


def test_what_was_gone_for_a_while_is_told_anew_and_what_flickers_is_not() -> None:
    """Cool at one look: the same trouble. Cool for longer than the policy says: it is back."""
    world, instance_id = with_hot()
    world.check()
    world.told()

    for hours, told in ((1, 0), (4, 1)):
        world.publish(instance_id, [{}, {}])
        for _ in range(hours):
            world.check(60)
        world.publish(instance_id, [{}, HOT])
        world.check(60)
        assert told == len(world.told())


def test_what_gets_worse_is_told_anew() -> None:
    """Another GPU, a graver fault, errors that double; not one error more."""
    world, instance_id = with_hot()
    world.check()
    steps = [
        ([HOT, HOT], 1),
        ([HOT, {**HOT, "ecc_uncorrected": flat(4)}], 1),
        ([HOT, {**HOT, "ecc_uncorrected": flat(5)}], 0),
        ([HOT, {**HOT, "ecc_uncorrected": flat(8)}], 1),
        ([HOT, {**HOT, "ecc_uncorrected": flat(8)}], 0),
    ]
    for gpus, told in steps:
        world.told()
        world.publish(instance_id, gpus)
        world.check(60)
        assert told == len(world.told())


def test_another_gpu_in_the_same_finding_is_news() -> None:
    """One straggler was told; a second one beside it is told, too, and then both last."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=5)
    busy, slow = {"utilization": flat(95)}, {"utilization": flat(40)}
    for speeds, told in (
        ("bbbsb", "GPU 3:"),
        ("bbbss", "GPUs 3, 4:"),
        ("bbbss", ""),
        ("bbbsb", ""),
    ):
        world.publish(instance_id, [slow if speed == "s" else busy for speed in speeds])
        world.check(60)
        lines = [
            line for alert in world.told() for line in alert.lines if "below the other GPUs" in line
        ]
        assert bool(told) == any(told in line for line in lines)


def test_another_start_is_another_matter() -> None:
    """It may run on another host."""
    world, instance_id = with_hot()
    world.check()
    world.told()
    instance = world.ec2.instances[instance_id]
    world.ec2.add(replace(instance, launch_time=instance.launch_time + timedelta(hours=1)))

    world.check(60)

    assert 1 == len(world.told())


def test_one_message_an_owner_with_everything_the_gravest_first() -> None:
    """Two instances of ada's, one of bob's; what was told before is only counted."""
    world, hot = with_hot()
    world.check()
    world.told()
    lost, bobs = world.add(2, gpus=2), world.add(3, owner="bob")
    world.publish(lost, [{}, LOST])
    world.publish(hot, [LOST, HOT])
    world.publish(bobs, [{"repair_pending": flat(1)}])

    world.check(60)

    by_owner = {alert.owner: alert for alert in world.told()}
    assert {"ada", "bob"} == set(by_owner)
    ada = by_owner["ada"]
    assert (Severity.CRITICAL, None) == (ada.severity, ada.instance_id)
    found = [(f["instance_id"], f["kind"]) for f in ada.facts["findings"]]  # type: ignore[attr-defined]
    assert [(hot, "lost"), (lost, "lost")] == found
    assert f"1 finding from an earlier message still holds ({hot})." in ada.lines
    assert Severity.WARNING is by_owner["bob"].severity


def test_faults_go_before_advice_in_one_message() -> None:
    """And the severity is the gravest one's."""
    world = HealthWorld()
    instance_id = world.add(1, gpus=2)
    world.publish(instance_id, [{**WASTED, **HOT}, WASTED])
    world.check()

    (alert,) = world.told()
    kinds = [f["kind"] for f in alert.facts["findings"]]  # type: ignore[attr-defined]
    assert [FindingKind.HOT, FindingKind.UNDER_USED, FindingKind.BOTTLENECK] == kinds
    assert Severity.WARNING is alert.severity


def test_how_to_move_an_instance_is_said_once() -> None:
    """Twenty hot GPUs are twenty lines, and one way to another host."""
    world = HealthWorld()
    first, second = world.add(1, gpus=2), world.add(2, gpus=2)
    world.publish(first, [HOT, {}])
    world.check()
    (alone,) = world.told()
    world.publish(second, [LOST, HOT])
    world.publish(first, [HOT, LOST])
    world.check(60)
    (together,) = world.told()

    way = "A stop and a start usually move an instance to another host"
    for alert in (alone, together):
        assert 1 == "\n".join(alert.lines).count(way)
    assert together.lines[-3].startswith(way)


def test_advice_comes_once_a_week_to_an_owner() -> None:
    """Also when another instance of his could do better meanwhile; and it reads no traffic in
    between."""
    world = HealthWorld()
    world.publish(world.add(1), [WASTED])
    world.check()
    (alert,) = world.told()
    assert Severity.INFO is alert.severity

    world.metrics.reads.clear()
    world.publish(world.add(2), [WASTED])
    for _ in range(6 * 24):
        world.check(60)
    assert [] == world.told()
    assert AGENT["memory_utilization"] not in {query.metric for query in world.metrics.reads}

    world.check(24 * 60)
    (alert,) = world.told()
    assert 2 == len(alert.facts["instance_ids"])  # type: ignore[arg-type]


def test_gpus_that_are_used_well_are_no_message() -> None:
    """And the look at them is not repeated at every check."""
    world = HealthWorld()
    world.publish(world.add(1), [{"utilization": flat(97), "memory_utilization": flat(50)}])
    world.check()
    world.metrics.reads.clear()
    world.check(60)

    assert [] == world.told()
    assert AGENT["memory_utilization"] not in {query.metric for query in world.metrics.reads}


def test_nothing_is_known_of_a_machine_that_fell_silent() -> None:
    """A hole clears nothing: what was hot before and is hot after it is the same trouble."""
    world, instance_id = with_hot()
    world.check()
    world.told()
    published, world.metrics.published = world.metrics.published, {}
    for _ in range(8):
        world.check(60)
    world.metrics.published = published
    world.check(60)

    assert [] == world.told()
    assert instance_id in world.ec2.instances


def test_what_could_not_be_told_is_told_by_the_next_sweep() -> None:
    """No channel takes the messages; the next look, five minutes later, is the last that is made
    early."""
    world, _ = with_hot()
    world.publish(world.add(2, owner="bob"), [LOST])
    world.announcer.failure = Throttled("later")
    summary = world.check()
    assert (2, 0) == (len(summary.problems), summary.messages_sent)

    world.announcer.failure = None
    assert 2 == world.check(5).messages_sent
    assert {"ada", "bob"} == {alert.owner for alert in world.told()}
    assert not world.check(5).was_checked


def test_what_could_not_be_read_is_looked_at_again_by_the_next_sweep() -> None:
    """And what was told already is not told again."""
    world, instance_id = with_hot()
    world.metrics.broken[HARDWARE["lost"]] = "Throttling"
    summary = world.check()
    assert [f"{instance_id}: GPULost: Throttling"] == summary.problems
    assert 1 == len(world.told())

    world.metrics.broken.clear()
    assert [] == world.check(5).problems
    assert [] == world.told()
    assert not world.check(5).was_checked


def test_what_fails_for_long_costs_one_more_look_at_itself_and_none_at_the_others() -> None:
    """Twelve sweeps an hour, one instance that cannot be read; the rest of the fleet is sound."""
    world = HealthWorld()
    for number in range(1, 21):
        world.add(number, hardware=False)
    broken = f"i-{7:017x}"

    def asked_about(instance_id: str) -> int:
        return sum(
            dict(query.dimensions)["InstanceId"] == instance_id for query in world.metrics.reads
        )

    world.metrics.broken[broken] = "InternalError"
    problems = [len(world.check(minutes=0 if n == 0 else 5).problems) for n in range(12)]
    assert [1, 1] + [0] * 10 == problems
    assert (2, 4) == (asked_about(f"i-{1:017x}"), asked_about(broken))

    summary = world.check(5)
    assert (20, 1) == (summary.instances, len(summary.problems))


@pytest.mark.parametrize("broken", ["ec2", "listing", "log"])
def test_a_look_that_fails_as_a_whole_is_raised_and_made_up_for(broken: str) -> None:
    """Instances, series or the table: the next sweep looks."""
    world, _ = with_hot()
    if broken == "ec2":
        world.ec2.failures["list_selected"] = [Unavailable("away")]
    elif broken == "listing":
        world.metrics.list_failure = Unavailable("away")
    else:
        world.log.memory.failure = Unavailable("away")
    with pytest.raises(Unavailable):
        world.check()

    world.metrics.list_failure = world.log.memory.failure = None
    assert world.check(5).was_checked
    assert 1 == len(world.told())


def test_switched_off_it_reads_nothing() -> None:
    """For all."""
    world = HealthWorld(policy_with(enabled=False))
    world.publish(world.add(1), [LOST])

    assert not world.check().was_checked
    assert ([], 0) == (world.metrics.reads, world.metrics.lists)


def test_overrides_have_their_own_thresholds_or_none() -> None:
    """One is let be, one may be hotter, one is under overrides that contradict each other."""
    world = HealthWorld()
    ids = [world.add(number) for number in (1, 2, 3, 4)]
    for number, instance_id in enumerate(ids):
        instance = world.ec2.instances[instance_id]
        world.ec2.add(replace(instance, tags={**instance.tags, "Rule": str(number)}))
        world.publish(instance_id, [HOT])
    book = parse_policy(
        """
        overrides:
          - {name: off, match: {tags: {Rule: "1"}}, set: {health: {enabled: false}}}
          - {name: hot, match: {tags: {Rule: "2"}}, set: {health: {hot_above_celsius: 95}}}
          - {name: one, match: {tags: {Rule: "3"}}, set: {plan: {action: terminate}}}
          - {name: two, match: {tags: {Rule: "3"}}, set: {approval: {on_expiry: act}}}
        """
    )
    replace(world.check_health, policies=book)(TARGET)

    (alert,) = world.told()
    assert [ids[0], ids[3]] == alert.facts["instance_ids"]
    assert (
        2 == world.metrics.lists
    )  # the agent's namespace and that of `agent/`, once for all thresholds


def test_no_mode_and_no_finding_leads_to_a_call_that_changes_anything() -> None:
    """Advice and alerts, also in mode auto."""
    world = HealthWorld(replace(policy_with(), mode=Mode.AUTO))
    world.publish(world.add(1, gpus=2), [LOST, {**HOT, "repair_failed": flat(1)}])
    world.check()

    assert [] == world.ec2.calls
    assert 1 == len(world.told())


def test_a_fleet_in_trouble_is_told_in_parts_that_name_every_instance() -> None:
    """Cooling fails for two hundred of eight GPUs: four messages as SNS takes them, nothing of them
    cut."""
    world = HealthWorld()
    ids = [world.add(number, gpus=8) for number in range(1, 201)]
    for instance_id in ids:
        world.publish(instance_id, [HOT] * 8)
    summary = world.check()

    told = world.told()
    assert (4, 4, 1_600) == (len(told), summary.messages_sent, summary.findings_sent)
    assert 4 == len({alert.dedup_id for alert in told})
    assert ids == sorted(one for alert in told for one in named(alert))
    for part, alert in enumerate(told, 1):
        assert alert.subject.startswith(
            f"400 GPU findings on 50 instances, most severe: GPU too hot ({part} of 4)"
        )
        document = json.loads(message_of(alert, lambda _: "seal")["sqs"])
        assert named(alert) == document["facts"]["instance_ids"]
        assert 400 == sum(len(one["gpus"]) for one in document["facts"]["findings"])
    first = told[0].lines[0]
    assert ("GPU 0: over 85 °C" in first, 1) == (
        "; GPU 7: over 85 °C" in first,
        first.count("Lower its power"),
    )
    world.check(60)
    assert [] == world.told()


def test_many_kinds_of_trouble_name_every_instance_too() -> None:
    """Where the facts are too long for SNS the text still says who has what."""
    world = HealthWorld()
    bad = {**HOT, "lost": flat(1), "ecc_uncorrected": flat(4), "repair_failed": flat(1)}
    ids = [world.add(number, gpus=8) for number in range(1, 61)]
    for instance_id in ids:
        world.publish(instance_id, [bad] * 8)
    world.check()

    told = world.told()
    assert set(ids) == {one for alert in told for one in named(alert)}
    for alert in told:
        text = json.loads(message_of(alert, lambda _: "seal")["sqs"])["lines"]
        assert list(alert.lines) == text
        assert all(len(line) < 600 for line in text if line.startswith("And "))


def test_what_was_told_of_is_known_although_a_later_part_was_not() -> None:
    """The next sweep tells the rest, and nobody the same twice."""
    world = HealthWorld()
    for number in range(1, 121):
        world.publish(world.add(number, hardware=False), [HOT], hardware=False)
    sent, announce = world.announcer.sent, world.announcer.announce

    def once(alert: Alert) -> None:
        if sent:
            raise Throttled("later")
        announce(alert)

    world.announcer.announce = once  # type: ignore[method-assign]
    assert (1, 50) == ((summary := world.check()).messages_sent, summary.findings_sent)
    first = told_of(world)
    world.announcer.announce = announce  # type: ignore[method-assign]
    world.check(5)

    rest = told_of(world)
    assert (50, 70, set()) == (len(first), len(rest), first & rest)


def told_of(world: HealthWorld) -> set[str]:
    """The instances with news since the last question."""
    return {str(one) for alert in world.told() for one in alert.facts["instance_ids"]}  # type: ignore[attr-defined]


def named(alert: Alert) -> list[str]:
    """The instances that its text names, sorted."""
    return sorted(set(re.findall(r"i-[0-9a-f]{17}", "\n".join(alert.lines))))


def test_a_state_that_people_know_fails_no_check_of_health() -> None:
    """A sweep has reported it. A state that nobody knows is a failure, and so is any other error:
    nobody else would report it."""
    world = HealthWorld()
    denied = AccessDenied("no", operation="ec2:DescribeInstances", code="AuthFailure")
    busy = Throttled("busy", operation="ec2:DescribeInstances", code="RequestLimitExceeded")
    world.ec2.failures["list_selected"] = [denied, denied, busy]
    with pytest.raises(AccessDenied):
        world.check_health(TARGET)

    known = StandingState(TARGET, StateKind.NOT_ENABLED, "no", NOW, NOW)
    world.state.note_standing(known)
    world.clock.moment += timedelta(minutes=5)
    assert not world.check_health(TARGET).was_checked

    world.clock.moment += timedelta(minutes=5)
    with pytest.raises(Throttled):
        world.check_health(TARGET)
    world.clock.moment += timedelta(minutes=5)
    assert world.check_health(TARGET).was_checked, "as soon as the state is over"
