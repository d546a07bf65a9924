"""Draws the plan for an idle instance: whether it is stopped, terminated or left alone, as in a
Capacity Block, its steps, and why it differs from the policy's action.

A plan is drawn from facts alone. It must never hold a step that destroys without a snapshot before
it. `plan_effects` says what its steps lose, keep and save.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from governor.core.instance import (
    Instance,
    Lifecycle,
    SpotRequestType,
)
from governor.core.managers import managed_by
from governor.episode.model.plan import Plan, PlanFacts, Step
from governor.episode.rules.plan_effects import has_local_data, losses_of, saving_of, stays_of
from governor.policy.model.acting import Action, PlanRule
from governor.policy.model.policy import Mode, Policy

MAIN_STEPS = (Step.STOP, Step.SNAPSHOT, Step.TERMINATE)
"""Each is a state of the workflow with a recheck before it. Any other step is a companion: it is
carried out in the same call as the main step that comes next in the plan, right before it."""


def main_of(steps: Sequence[Step], step: Step) -> Step:
    """Return the main step in whose call this step of the plan is carried out: the step itself or
    the next main step in `steps`, else the termination. Raises: ValueError if the plan lacks the
    step."""
    for following in steps[steps.index(step) :]:
        if following in MAIN_STEPS:
            return following
    return Step.TERMINATE


def companions(steps: Sequence[Step], main: Step) -> tuple[Step, ...]:
    """Return the steps of the plan that the function of this main step carries out in the same
    invocation, before it, such as the cancellation of a Spot request; empty if there are none."""
    return tuple(step for step in steps if step is not main and main_of(steps, step) is main)


def why_impossible(companion: Step, instance: Instance) -> str | None:
    """Return why a companion step cannot be carried out on this instance; `None` if it can."""
    if companion is Step.CANCEL_SPOT_REQUEST and instance.spot_request_id is None:
        return "its Spot request is not known, so a successor could be launched"
    return None


def mode_of(policy: Policy, plan: Plan) -> Mode:
    """Return the mode in which this plan is carried out: the policy's. Only for a plan that loses
    local disks, mode auto becomes mode ask, unless the policy allows that loss."""
    if policy.mode is Mode.AUTO and not _may_lose_unasked(policy, plan):
        return Mode.ASK
    return policy.mode


def acts_on_silence(policy: Policy, plan: Plan) -> bool:
    """Return whether the policy lets this plan act if nobody answers: `approval.on_expiry` is
    `act`, and the plan loses no local disks, or the policy allows that loss."""
    return policy.approval.on_expiry == "act" and _may_lose_unasked(policy, plan)


def about_stopped(policy: Policy) -> Policy:
    """Return the policy under which people are asked about an instance that an earlier question has
    stopped: its plan is a termination, unless the policy only notifies.

    Only people decide whether it is terminated: never silence, and never mode auto.
    """
    rule = policy.plan
    if rule.action is not Action.NOTIFY_ONLY:
        rule = replace(rule, action=Action.TERMINATE)
    return replace(only_people_decide(policy), plan=rule)


def only_people_decide(policy: Policy) -> Policy:
    """Return the policy without any action that nobody said yes to: mode auto becomes mode ask, and
    silence is no answer. Mode observe stays."""
    mode = Mode.OBSERVE if policy.mode is Mode.OBSERVE else Mode.ASK
    approval = replace(policy.approval, on_expiry="no-action")
    return replace(policy, mode=mode, approval=approval)


def _may_lose_unasked(policy: Policy, plan: Plan) -> bool:
    """Return whether the plan loses no local disks, or the policy allows that unasked."""
    return policy.plan.local_disks_may_be_lost_unasked or not plan.loses_local_disks


def draw_plan(facts: PlanFacts, policy: Policy) -> Plan:
    """Return the plan by this policy, drawn from the facts. It has no steps if nothing may or can
    be done."""
    action, reasons = _possible_action(facts, policy)
    steps = _steps(facts, action)
    return Plan(
        wanted=policy.plan.action,
        action=action,
        steps=steps,
        replaced_because=tuple(reasons),
        losses=losses_of(facts, steps),
        stays=stays_of(facts, steps, policy),
        saving=saving_of(facts.instance, facts.price, steps, policy),
        loses_local_disks=bool(steps) and has_local_data(facts),
    )


def why_unstoppable(facts: PlanFacts) -> str | None:
    """Return why EC2 can never stop this instance; `None` if it can."""
    if facts.instance.root_device_type != "ebs":
        return "its root volume is an instance store, which cannot be stopped"
    is_spot = facts.instance.lifecycle is Lifecycle.SPOT
    if is_spot and facts.spot_request is not SpotRequestType.PERSISTENT:
        return "it is a one-time Spot instance, which cannot be stopped"
    return None


def _possible_action(facts: PlanFacts, policy: Policy) -> tuple[Action, list[str]]:
    """Return the action that is possible, and the reasons why it is not the policy's, or what could
    not be read; no reasons if neither is so.

    The action is to notify only if another service runs the instance, a stop saves nothing, its
    lifecycle is not known, or stop protection is on.
    """
    if policy.plan.action is Action.NOTIFY_ONLY:
        return Action.NOTIFY_ONLY, []
    refusal = why_left_alone(facts.instance, policy.managed.tag_keys)
    if refusal is not None:
        return Action.NOTIFY_ONLY, [refusal]
    if facts.protection.stop:
        return Action.NOTIFY_ONLY, ["stop protection (disableApiStop) is on, so it is not stopped"]
    action, reasons = _possible_stop_or_termination(facts, policy.plan)
    if facts.protection.stop is None:
        reasons.append(_STOP_PROTECTION_NOT_KNOWN)
    return action, reasons


_STOP_PROTECTION_NOT_KNOWN = (
    "stop protection is not known, because EC2 in this Region does not support disableApiStop"
)
_TERMINATION_PROTECTED = (
    "termination protection (disableApiTermination) is on, so it is not terminated"
)
_TERMINATION_PROTECTION_NOT_KNOWN = (
    "termination protection is not known, because EC2 in this Region does not support "
    "disableApiTermination: it is not terminated"
)


def _possible_stop_or_termination(facts: PlanFacts, rule: PlanRule) -> tuple[Action, list[str]]:
    """Return the possible action, and the reasons why it is not the policy's; no reasons if it is.
    Call it only for an instance that nothing protects from a stop, and a policy that does more than
    notify."""
    action: Action = rule.action
    reasons: list[str] = []
    unstoppable = why_unstoppable(facts)
    if action is Action.STOP and unstoppable is not None:
        action = rule.when_stop_is_unsupported
        reasons.append(f"{unstoppable}; in that case, the policy says {action.value}")
    if action is Action.TERMINATE and facts.protection.termination is not False:
        if facts.protection.termination is None:
            reasons.append(_TERMINATION_PROTECTION_NOT_KNOWN)
        else:
            reasons.append(_TERMINATION_PROTECTED)
        action = rule.when_termination_is_protected if unstoppable is None else Action.NOTIFY_ONLY
    if action is Action.TERMINATE and not facts.instance.volumes:
        reasons.append("it has no EBS volume, so no snapshot could keep its data")
        action = Action.NOTIFY_ONLY
    return action, reasons


_NOTHING = "stopping saves nothing"


_BILLED_ANYWAY = f"which is billed whether used or not: {_NOTHING}"


_NO_SAVING: Mapping[Lifecycle, str] = {
    Lifecycle.CAPACITY_BLOCK: f"it runs in a Capacity Block, which is paid in advance: {_NOTHING}",
    Lifecycle.SCHEDULED: "it runs in a scheduled reservation, which is paid either way: "
    f"{_NOTHING}",
    Lifecycle.INTERRUPTIBLE_RESERVATION: (
        f"it runs in somebody else's interruptible reservation: {_NOTHING} here"
    ),
    Lifecycle.UNKNOWN: "EC2 gives it a lifecycle that this version does not know",
}


def why_left_alone(instance: Instance, manager_tags: Sequence[str]) -> str | None:
    """Return why nothing is done to this instance, whatever the policy wants; `None` if nothing
    forbids an action.

    Another service runs the instance, a stop saves nothing, or its lifecycle is not known.
    `manager_tags` are the keys that the policy adds to the tags by which such services mark
    instances.
    """
    manager = managed_by(instance, manager_tags)
    if manager is not None:
        return (
            f"{manager.service} runs it ({manager.mark}) and would replace it or lose track of it"
        )
    if instance.lifecycle in _NO_SAVING:
        return _NO_SAVING[instance.lifecycle]
    if instance.capacity_reservation_id is not None:
        return (
            f"it fills the Capacity Reservation {instance.capacity_reservation_id}, "
            f"{_BILLED_ANYWAY}"
        )
    if instance.host_id is not None:
        return f"it runs on the Dedicated Host {instance.host_id}, {_BILLED_ANYWAY}"
    return None


def _steps(facts: PlanFacts, action: Action) -> tuple[Step, ...]:
    """Return the steps of this action in their order; empty if nothing is done.

    Call it only with a possible action: a termination has volumes, so their snapshots come before
    it.
    """
    if action is Action.NOTIFY_ONLY:
        return ()
    steps: list[Step] = []
    # A stop before the snapshots makes them consistent; without one they are crash-consistent.
    if action is Action.STOP or why_unstoppable(facts) is None:
        steps.append(Step.STOP)
    if facts.instance.volumes:
        steps.append(Step.SNAPSHOT)
    if action is Action.STOP:
        return tuple(steps)
    if facts.spot_request is SpotRequestType.PERSISTENT:
        # Left open, a persistent request would launch a successor of the terminated instance.
        steps.append(Step.CANCEL_SPOT_REQUEST)
    steps.append(Step.TERMINATE)
    return tuple(steps)
