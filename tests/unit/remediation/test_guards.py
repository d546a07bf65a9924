"""Every guard says no by itself and says why; what was approved is never made more than it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.approvals.model.approval import Answer, Decision
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import (
    CloudError,
    ConflictError,
    Interrupted,
    MustWait,
    SafetyError,
    Throttled,
)
from governor.core.instance import Instance, Lifecycle, Protection, SpotRequestType, Target, Volume
from governor.episode.model.episode import Episode, Outcome
from governor.episode.model.plan import Step
from governor.evidence.model import Evidence, MetricSource
from governor.evidence.rules.series import evidence_hash
from governor.limits.model.breaker import BreakerState
from governor.policy.accounts import Accounts
from governor.policy.model.acting import Action
from governor.policy.model.policy import AppliedPolicy, Mode
from governor.table import keys
from governor.verdict.model import Hold
from tests.builders import NOW, TARGET
from tests.episodes import changed
from tests.twins import StaticPolicies
from tests.unit.worlds.world import APPROVAL_ID, World


def episode_of(world: World) -> Episode:
    """As it is stored."""
    episode = world.state.episode(world.ref)
    assert episode is not None
    return episode


def rewrite_episode(world: World, **changes: object) -> None:
    """Changes the stored episode behind the governor's back."""
    world.state.put(changed(episode_of(world), **changes))


def rewrite_approval(world: World, **changes: object) -> None:
    """Changes the stored approval behind the governor's back."""
    approval = world.state.approval(APPROVAL_ID)
    assert approval is not None
    world.state.put(replace(approval, **changes))  # type: ignore[arg-type]


def tag(world: World, **tags: str) -> None:
    """EC2 describes it with these tags too."""
    current = world.ec2.instances[world.instance.instance_id]
    world.change_instance(tags={**current.tags, **tags})


def untag(world: World) -> None:
    """Somebody took the selector tag away."""
    world.change_instance(tags={"Name": "notebook"})


def protect(world: World, *, stop: bool = False, termination: bool = False) -> None:
    """Somebody switched a protection flag on."""
    world.ec2.protections[world.instance.instance_id] = Protection(stop, termination)


def exempt_by_decision(world: World) -> None:
    """A standing answer, given in another episode."""
    record = world.state.record(TARGET, world.ref.instance_id)
    world.state.put(replace(record, hold=Hold(exempt_reason="demo machine (someone)")))


def attach_volume(world: World) -> None:
    """A volume that nobody was asked about."""
    current = world.ec2.instances[world.instance.instance_id]
    added = Volume("vol-0added", "/dev/sdz", True, 10)
    world.change_instance(volumes=(*current.volumes, added))


def alter_evidence(world: World) -> None:
    """Another measurement under the old hash."""
    window = episode_of(world).measurement.evidence.window
    rewrite_episode(world, evidence=Evidence(window, MetricSource.NONE))


def replace_evidence(world: World) -> None:
    """Another measurement with its own hash: consistent in itself, and not what was approved."""
    other = Evidence(episode_of(world).measurement.evidence.window, MetricSource.NONE)
    rewrite_episode(world, evidence=other, evidence_hash=evidence_hash(other))


def set_mode(world: World, mode: Mode) -> None:
    """The policy's mode from now on."""
    world.policies.policy = replace(world.policies.policy, mode=mode)


def set_action(world: World, action: Action) -> None:
    """The policy's action from now on."""
    rule = replace(world.policies.policy.plan, action=action)
    world.policies.policy = replace(world.policies.policy, plan=rule)


def close(world: World) -> None:
    """The episode is over."""
    world.state.close_episode(world.ref, Outcome.VOID, "over", NOW, quiet_until=None)


REFUSALS: dict[str, tuple[Callable[[World], object], str]] = {
    "no episode": (lambda w: w.state.forget("EPISODE"), "does not exist"),
    "closed": (close, "is over: void"),
    "no approval": (lambda w: w.state.forget("REQUEST"), "no approval for this episode"),
    "approval of another episode": (
        lambda w: rewrite_approval(w, episode=replace(w.ref, number=2)),
        "no approval for this episode",
    ),
    "approval for other evidence": (replace_evidence, "given for other evidence"),
    "evidence altered": (alter_evidence, "altered after it was frozen"),
    "breaker": (
        lambda w: w.state.set_breaker(TARGET, BreakerState(NOW, "outage")),
        "frozen: outage",
    ),
    "gone": (lambda w: w.ec2.instances.clear(), "no longer exists"),
    "restarted": (
        lambda w: w.change_instance(launch_time=NOW - timedelta(minutes=5)),
        "restarted since the question",
    ),
    "selector gone": (untag, "no longer carries Purpose=GPU-Workload"),
    "selector changed": (lambda w: tag(w, Purpose="CPU"), "no longer carries Purpose=GPU-Workload"),
    "exempt by tag": (lambda w: tag(w, GpuGovernor="exempt"), "exempt: GpuGovernor=exempt"),
    "exempt by decision": (exempt_by_decision, "exempted by decision"),
    "snoozed after the recheck": (
        lambda w: w.state.store_hold(
            TARGET, w.ref.instance_id, Hold(snoozed_until=NOW + timedelta(hours=1))
        ),
        "snoozed until Fri Nov 20, 13:02 UTC",
    ),
    "mode to observe": (
        lambda w: set_mode(w, Mode.OBSERVE),
        "mode has changed from ask to observe",
    ),
    "mode to auto": (lambda w: set_mode(w, Mode.AUTO), "mode has changed from ask to auto"),
    "action changed": (
        lambda w: set_action(w, Action.NOTIFY_ONLY),
        "plan would now be different: nothing",
    ),
    "stop protection": (lambda w: protect(w, stop=True), "stop protection"),
    "managed by a service": (
        lambda w: w.change_instance(operator_managed=True),
        "Operator.Managed",
    ),
    "reservation": (
        lambda w: w.change_instance(capacity_reservation_id="cr-1"),
        "Reservation cr-1",
    ),
    "instance-store root": (
        lambda w: w.change_instance(root_device_type="instance-store"),
        "instance store",
    ),
    "one-time Spot": (lambda w: w.change_instance(lifecycle=Lifecycle.SPOT), "one-time Spot"),
    "volume attached": (
        attach_volume,
        "volumes were attached since it was asked about: vol-0added",
    ),
}


@pytest.mark.parametrize("step", [Step.STOP, Step.SNAPSHOT])
@pytest.mark.parametrize("name", sorted(REFUSALS))
def test_each_guard_refuses_by_itself_and_says_why(name: str, step: Step) -> None:
    """One thing is not as it was; the message names it, and EC2 is not written to."""
    world = World()
    spoil, why = REFUSALS[name]
    spoil(world)

    with pytest.raises(SafetyError, match=why):
        world.guards.clear(world.ref, step)
    assert [] == world.ec2.calls


@pytest.mark.parametrize("step", [Step.STOP, Step.SNAPSHOT])
@pytest.mark.parametrize("minutes", [1, 0])
def test_what_ec2_takes_back_is_neither_stopped_nor_terminated_meanwhile(
    step: Step, minutes: int
) -> None:
    """It may be saving its work; a copy destroys nothing. When the warning is over, it was
    spared."""
    world = World()
    until = world.clock.now() + timedelta(minutes=minutes)
    world.state.note_warned(TARGET, {world.ref.instance_id: until})

    if minutes and step is not Step.SNAPSHOT:
        with pytest.raises(Interrupted, match="will reclaim the instance"):
            world.guards.clear(world.ref, step)
    else:
        assert world.guards.clear(world.ref, step)


def test_an_untouched_episode_is_let_through_with_the_facts() -> None:
    """Without this, every refusal above would prove nothing."""
    world = World()
    cleared = world.guards.clear(world.ref, Step.STOP)

    assert (world.ref, world.instance) == (cleared.episode.ref, cleared.instance)
    assert not cleared.dry_run


@pytest.mark.parametrize("mode", list(Mode))
def test_only_observe_is_a_dry_run(mode: Mode) -> None:
    """Observe needs nobody's yes and has no effect; auto is the policy's own yes."""
    world = World(mode=mode)

    assert (mode is Mode.OBSERVE) == world.guards.clear(world.ref, Step.STOP).dry_run


@pytest.mark.parametrize(
    "lifecycle",
    sorted(set(Lifecycle) - {Lifecycle.ON_DEMAND, Lifecycle.SPOT}),
)
def test_no_lifecycle_is_taken_for_another(lifecycle: Lifecycle) -> None:
    """Capacity that is paid either way, or is of a kind nobody knows, is left alone."""
    world = World()
    world.change_instance(lifecycle=lifecycle)

    with pytest.raises(SafetyError, match="plan would now be different: nothing"):
        world.guards.clear(world.ref, Step.STOP)


@pytest.mark.parametrize(
    "key",
    [
        "aws:autoscaling:groupName",
        "aws:ec2:fleet-id",
        "aws:ec2spot:fleet-request-id",
        "eks:cluster-name",
        "karpenter.sh/nodepool",
        "kubernetes.io/cluster/research",
        "aws:batch:compute-environment",
        "parallelcluster:cluster-name",
    ],
)
def test_a_service_that_took_the_instance_over_keeps_the_governor_away(key: str) -> None:
    """By whichever mark it is known."""
    world = World()
    tag(world, **{key: "x"})

    with pytest.raises(SafetyError, match="would replace it or lose track of it"):
        world.guards.clear(world.ref, Step.STOP)


@pytest.mark.parametrize(
    ("answer", "extra", "status"),
    [
        (Answer.KEEP, {"keep_until": NOW + timedelta(days=2)}, "KEPT"),
        (Answer.EXEMPT, {"reason": "demo machine"}, "EXEMPTED"),
    ],
)
def test_a_no_is_a_no(answer: Answer, extra: dict[str, object], status: str) -> None:
    """Kept and exempted instances are not touched, whatever starts the step."""
    world = World(decide=False)
    decision = Decision(answer, "someone", "page", NOW, **extra)  # type: ignore[arg-type]
    world.state.settle(APPROVAL_ID, decision)

    with pytest.raises(SafetyError, match=f"the approval is {status}"):
        world.guards.clear(world.ref, Step.STOP)


@pytest.mark.parametrize(("expired", "status"), [(True, "EXPIRED"), (False, "VOID")])
def test_silence_is_not_a_yes(expired: bool, status: str) -> None:
    """Nor is a question that was taken back."""
    world = World(decide=False)
    world.state.void(APPROVAL_ID, "because", expired=expired)

    with pytest.raises(SafetyError, match=f"the approval is {status}"):
        world.guards.clear(world.ref, Step.STOP)


def test_a_void_question_is_no_yes_even_where_expiry_acts() -> None:
    """`on_expiry: act` speaks of expired questions alone."""
    world = World(decide=False)
    rule = replace(world.policies.policy.approval, on_expiry="act")
    world.policies.policy = replace(world.policies.policy, approval=rule)
    with pytest.raises(SafetyError, match="PENDING"):
        world.guards.clear(world.ref, Step.STOP)

    world.state.void(APPROVAL_ID, "work resumed", expired=False)
    with pytest.raises(SafetyError, match="VOID"):
        world.guards.clear(world.ref, Step.STOP)


@pytest.mark.parametrize("acts", [True, False])
def test_silence_acts_by_the_policy_of_the_instance_as_it_is_now(acts: bool) -> None:
    """One policy for all guards: a tag that has changed since the question may bring another
    one."""
    world = World(decide=False, on_expiry="act")
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    asked = world.instance
    policies = _ByTags(world.policies.policy, tags=asked.tags)
    world.guards = replace(world.guards, policies=policies)
    if not acts:
        world.change_instance(tags={**asked.tags, "Stage": "production"})
        with pytest.raises(SafetyError, match="no longer acts on silence"):
            world.guards.clear(world.ref, Step.STOP)
    else:
        assert "act" == world.guards.clear(world.ref, Step.STOP).applied.policy.approval.on_expiry
    assert 1 == policies.resolved


@pytest.mark.parametrize(
    ("left", "acts"),
    [(timedelta(hours=2), False), (timedelta(minutes=16), False), (timedelta(minutes=15), True)],
)
def test_silence_acts_only_when_the_time_to_answer_is_over(left: timedelta, acts: bool) -> None:
    """Whoever ends the waiting tasks early, as `states:SendTaskFailure` may, makes nobody silent.

    A stage's expiry is written a little after its clock starts, so minutes do not count.
    """
    world = World(decide=False, on_expiry="act")
    world.state.void(APPROVAL_ID, "nobody answered", expired=True)
    rewrite_approval(world, expires_at=NOW + left)
    if acts:
        world.guards.check(world.ref, Step.STOP)
    else:
        with pytest.raises(SafetyError, match="the time to answer is not over"):
            world.guards.clear(world.ref, Step.STOP)


@dataclass
class _ByTags(StaticPolicies):
    """Silence acts on instances with these tags alone."""

    tags: Mapping[str, str] = field(default_factory=dict)
    resolved: int = 0

    def applied_to(self, instance: Instance) -> AppliedPolicy:
        """As the port says."""
        self.resolved += 1
        if instance.tags == self.tags:
            return self.base()
        silent = replace(self.policy, approval=replace(self.policy.approval, on_expiry="no-action"))
        return AppliedPolicy(silent, self.version)


@pytest.mark.parametrize(
    ("action", "step"),
    [
        (Action.STOP, Step.TERMINATE),
        (Action.STOP, Step.CANCEL_SPOT_REQUEST),
        (Action.TERMINATE, Step.CANCEL_SPOT_REQUEST),
        (Action.NOTIFY_ONLY, Step.STOP),
        (Action.NOTIFY_ONLY, Step.SNAPSHOT),
    ],
)
def test_a_yes_covers_the_steps_that_were_shown(action: Action, step: Step) -> None:
    """No step is added to a plan after people said yes to it."""
    world = World(action=action)

    with pytest.raises(SafetyError, match="not part of the plan"):
        world.guards.clear(world.ref, step)


def test_another_number_is_another_episode() -> None:
    """The yes of one episode is worth nothing for the next."""
    world = World()
    other = EpisodeRef(
        TARGET.account,
        TARGET.region,
        world.ref.instance_id,
        world.ref.launch_time,
        world.ref.number + 1,
    )

    with pytest.raises(SafetyError, match="does not exist"):
        world.guards.clear(other, Step.STOP)


def test_a_fact_that_cannot_be_read_is_not_taken_for_granted() -> None:
    """The step waits, and everything is checked again."""
    world = World()
    world.ec2.failures["describe"] = [Throttled("later")]

    with pytest.raises(MustWait, match="later"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.ec2.calls


def _spoil_snapshot(world: World, state: str) -> None:
    for key, (snapshot, tags) in world.ec2.snapshots.items():
        world.ec2.snapshots[key] = (replace(snapshot, state=state), tags)


TERMINATION_FAULTS: dict[str, Callable[[World], object]] = {
    **{name: spoil for name, (spoil, _) in REFUSALS.items()},
    "termination protection": lambda w: protect(w, termination=True),
    "snapshot pending": lambda w: _spoil_snapshot(w, "pending"),
    "snapshot failed": lambda w: _spoil_snapshot(w, "error"),
    "snapshot gone": lambda w: w.ec2.snapshots.clear(),
    "running again": lambda w: w.change_instance(state="running"),
}


@pytest.mark.parametrize("name", sorted(TERMINATION_FAULTS))
def test_each_fault_alone_keeps_a_stopped_instance_from_termination(name: str) -> None:
    """Stopped and snapshot by us, and then one thing changes."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    TERMINATION_FAULTS[name](world)

    with pytest.raises(SafetyError):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()


@given(st.sets(st.sampled_from(sorted(TERMINATION_FAULTS)), max_size=6))
def test_terminate_is_called_exactly_when_no_fault_holds(names: set[str]) -> None:
    """For combinations of faults; one never makes good what another spoilt."""
    world = World(action=Action.TERMINATE)
    world.stop_and_snapshot()
    for name in sorted(names):
        # Some faults leave nothing that a later one could change.
        try:
            TERMINATION_FAULTS[name](world)
        except (KeyError, ConflictError, AssertionError):
            assert names > {name}
    try:
        world.put_away(world.ref, Step.TERMINATE)
    except (SafetyError, CloudError):
        pass

    assert (["stop"] if names else ["stop", "terminate"]) == world.writes()


def test_a_volume_detached_meanwhile_must_have_its_snapshot_too() -> None:
    """It was part of what people were asked about."""
    volumes = (Volume("vol-1", "/dev/xvda", True, 10), Volume("vol-2", "/dev/sdb", True, 10))
    world = World(action=Action.TERMINATE, changes={"volumes": volumes})
    world.put_away(world.ref, Step.STOP)
    world.change_instance(volumes=volumes[:1])
    world.take_snapshot(world.ref)
    world.ec2.finish_snapshots()
    world.let_through(Step.TERMINATE)

    with pytest.raises(SafetyError, match="no completed snapshot of vol-2"):
        world.put_away(world.ref, Step.TERMINATE)


def test_a_spot_request_that_cannot_be_cancelled_keeps_the_instance() -> None:
    """Terminating first would let it launch a successor; the next call begins with the request
    again."""
    changes = {"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"}
    world = World(action=Action.TERMINATE, changes=changes)
    world.stop_and_snapshot()
    world.ec2.failures["cancel_spot_request"] = [Throttled("later")]
    with pytest.raises(MustWait):
        world.put_away(world.ref, Step.TERMINATE)
    assert ["stop"] == world.writes()

    assert world.recheck(world.ref, Step.TERMINATE).proceed
    world.put_away(world.ref, Step.TERMINATE)
    assert ["stop", "terminate"] == world.writes()
    assert {"sir-1"} == world.ec2.canceled


def test_a_request_that_became_another_kind_is_another_plan() -> None:
    """A one-time instance can no longer be stopped, so the yes was for something else."""
    world = World(changes={"lifecycle": Lifecycle.SPOT, "spot_request_id": "sir-1"})
    world.ec2.spot_requests["sir-1"] = SpotRequestType.ONE_TIME

    with pytest.raises(SafetyError, match="plan would now be different"):
        world.put_away(world.ref, Step.STOP)


@pytest.mark.parametrize("step", [Step.SNAPSHOT, Step.CANCEL_SPOT_REQUEST])
def test_put_away_does_nothing_but_stop_and_terminate(step: Step) -> None:
    """Each write has its own function with its own permissions."""
    world = World(action=Action.TERMINATE)

    with pytest.raises(SafetyError, match="not something this function does"):
        world.put_away(world.ref, step)
    assert [] == world.ec2.calls


@pytest.mark.parametrize("state", ["pending", "stopping", "stopped", "shutting-down", "terminated"])
def test_an_instance_that_others_stopped_is_not_stopped_by_us(state: str) -> None:
    """Only our own earlier call makes such a state a success."""
    world = World()
    world.change_instance(state=state)

    with pytest.raises(SafetyError, match=f"the instance is {state}, not running"):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.ec2.calls


BOB = Decision(Answer.APPROVE, "link:bob@example.com", "page", NOW, person="bob@example.com")


@pytest.mark.parametrize(
    ("world", "change", "who"),
    [
        (World(), {}, "alice@example.com"),
        (World(), {"first_yes": BOB}, "bob@example.com,alice@example.com"),
        (
            World(),
            {"decision": Decision(Answer.APPROVE, "link:broadcast", "page", NOW)},
            "link:broadcast",
        ),
        (World(mode=Mode.AUTO), {}, "mode auto"),
    ],
    ids=["one", "two", "a list", "auto"],
)
def test_a_session_in_a_member_account_names_the_episode_and_who_approved(
    world: World, change: dict[str, object], who: str
) -> None:
    """For CloudTrail there; from the stored approval, like everything else here."""
    rewrite_approval(world, **change)
    accounts = Accounts("999999999999", TARGET.region, member_role_name="gpu-governor-member-actor")
    targets: list[Target] = []

    def describe(target: Target, instance_id: str) -> Instance | None:
        targets.append(target)
        return world.ec2.instances[instance_id]

    inspect = replace(world.inspect, instances=SimpleNamespace(describe=describe))  # type: ignore[arg-type]
    with suppress(SafetyError, AttributeError):
        replace(world.guards, accounts=accounts, inspect=inspect).clear(world.ref, Step.STOP)

    assert [(world.ref.execution_name, who)] == [target.session for target in targets]


def test_an_answer_that_keeps_it_holds_up_to_its_very_end() -> None:
    """And not beyond: the date that people read is the date."""
    world = World()
    record = world.state.record(TARGET, world.ref.instance_id)
    world.state.put(replace(record, hold=Hold(snoozed_until=NOW + timedelta(minutes=1))))
    with pytest.raises(SafetyError, match="snoozed until"):
        world.guards.clear(world.ref, Step.STOP)

    world.clock.moment = NOW + timedelta(minutes=1)
    assert world.guards.clear(world.ref, Step.STOP)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cleared_step": None}, "was not rechecked before acting"),
        ({"phase": "asking"}, "was not rechecked before acting"),
        ({"cleared_at": None}, "was not rechecked before acting"),
        ({"phase": "closed"}, "the episode is over: closed"),
    ],
)
def test_half_of_a_recheck_is_none(changes: dict[str, object], says: str) -> None:
    """Whatever of it is missing; and what is over is over, however little is known of its end."""
    world = World()
    world.state.items[keys.episode(world.ref)] |= changes

    with pytest.raises(SafetyError, match=says):
        world.put_away(world.ref, Step.STOP)
    assert [] == world.ec2.calls


def test_another_plan_says_why_only_where_there_is_a_reason() -> None:
    """As where the policy itself wants something else now."""
    world = World()
    policy = world.policies.policy
    world.policies.policy = replace(policy, plan=replace(policy.plan, action=Action.NOTIFY_ONLY))
    with pytest.raises(SafetyError, match=r"now be different: nothing$"):
        world.guards.clear(world.ref, Step.STOP)
