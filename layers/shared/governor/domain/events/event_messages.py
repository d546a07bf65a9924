"""The words of messages about events: warnings that instances are taken back, and advice after them.

Pure wording. This module must not know channels, nor how often something is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import assert_never

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of
from governor.domain.alerts.owner import NOBODY, Owner
from governor.domain.events.interruption import Cause, Checkpoint, HookAnswer, HookState, SpotPrice, Warned
from governor.domain.instance import Instance
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, iso
from governor.domain.wording import clock, listed, plural, sentence, usd

_NAMED = 20
"""Instances named in the text of a summary; the facts hold all."""
_ADVISED = 5
"""Zones named in an advice, cheapest first."""
_MANY = {
    "interruption": "interruption warnings",
    "rebalance": "rebalance recommendations",
    "termination": "terminations by Auto Scaling",
}
_TAKES = {Cause.SPOT: "this Spot instance", Cause.RESERVATION: "the capacity of its reservation"}
_HOOK: Mapping[HookState, str] = {
    HookState.NEXT: "Its checkpoint hook is asked to save the work next ({why}).",
    HookState.SENT: "Its checkpoint hook was asked to save the work ({why}).",
    HookState.EARLIER: "Its checkpoint hook was asked to save the work when this warning first came ({why}).",
    HookState.REFUSED: "Its checkpoint hook was not started, so save by hand: {error}",
    HookState.UNKNOWN: "It is not known whether its checkpoint hook runs, so save by hand: {error}",
}


def _hook_line(checkpoint: Checkpoint | None, hook: HookAnswer) -> str:
    if checkpoint is None:
        return "No checkpoint hook is set up, so nothing is saved by itself."
    if not checkpoint.send:
        return f"Its checkpoint hook is not run ({checkpoint.why}), so nothing is saved by itself."
    return sentence(_HOOK[hook.state].format(why=checkpoint.why, error=hook.error))


def warning_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: Owner,
    now: UtcDatetime,
    hook: HookAnswer,
) -> Alert:
    """Return the warning about one instance. `checkpoint` is `None` where the stack has no hook to send;
    `hook` says what became of it, where it is sent.
    """
    known, name = warned.stated_end is not None, instance.name
    end = clock(warned.ends_at, owner.time_zone, now)
    facts: dict[str, object] = {"action": warned.action, "ends_at": iso(warned.ends_at)}
    severity, dedup = Severity.WARNING, warned.cause.value
    match warned.cause:
        case Cause.SPOT | Cause.RESERVATION:
            kind, severity = AlertKind.SPOT_INTERRUPTION, Severity.CRITICAL
            title = "Spot" if warned.cause is Cause.SPOT else "Capacity Reservation"
            subject = f"{title} interruption: {name} ({instance.instance_type}) ends at {end}"
            lines = [
                f"EC2 will {warned.plan} {name} at about {end}: it takes {_TAKES[warned.cause]} back.",
                "Save your work now.",
            ]
        case Cause.REBALANCE:
            kind = AlertKind.REBALANCE_RECOMMENDED
            facts = {"warned_at": iso(warned.at)}
            subject = f"Interruption likely: {name} ({instance.instance_type})"
            lines = [
                f"EC2 sees an elevated risk of interruption for {name} in {instance.availability_zone}.",
                "The two-minute warning may come at once, later or never. Save your work, or move it.",
            ]
        case Cause.AUTO_SCALING:
            kind = AlertKind.AUTO_SCALING_TERMINATION
            facts |= {"auto_scaling_group": warned.group, "ends_at": iso(warned.ends_at) if known else None}
            subject = f"Auto Scaling will {warned.action} {name} ({instance.instance_type})"
            waits = f"until {end} at most" if known else "for a time that could not be read"
            lines = [
                f"The Auto Scaling group {warned.group} will {warned.action} {name}.",
                f"It waits for a lifecycle hook {waits}. Save your work now.",
            ]
        case _:
            assert_never(warned.cause)
    return alert_of(
        kind,
        severity,
        instance.target,
        subject,
        [*lines, _hook_line(checkpoint, hook)],
        f"{dedup}-{warned.event_id}",
        now,
        owner=owner,
        instance=instance,
        facts={
            **facts,
            "cause": warned.cause.value,
            "availability_zone": instance.availability_zone,
            "checkpoint_sent": hook.was_sent if checkpoint and checkpoint.send else False,
        },
    )


def mass_alert(
    instance: Instance,
    warned: Warned,
    endangered: Sequence[Instance] | None,
    policy: Policy,
    since: UtcDatetime,
    now: UtcDatetime,
    *,
    owner: Owner = NOBODY,
    unasked: Collection[str] = (),
) -> Alert:
    """Return one message about many warnings, such as this one, in one zone or of one Auto Scaling group.

    `endangered` is what the `owner` has there, `None` where that could not be listed. `unasked` are instances
    whose hook was refused, or may have been.
    """
    zone, target = instance.availability_zone or instance.target.region, instance.target
    place = f"the group {warned.group}" if warned.group else zone
    what, limit = _MANY[warned.kind], policy.events.mass_interruption_told_singly
    which = "belong to that group" if warned.group else "run there on capacity that EC2 can take back"
    known = endangered or ()
    lost = [one for one in known if one.instance_id in unasked]
    if endangered is None:
        theirs = "The instances there could not be listed; look in the EC2 console."
    elif not endangered:
        theirs = f"EC2 no longer lists governed instances that {which}."
    else:
        theirs = f"{owner.name} has {plural(len(known), 'instance')} that {which}: {_named(known)}."
    return alert_of(
        AlertKind.MASS_INTERRUPTION,
        Severity.CRITICAL if warned.kind == "interruption" else Severity.WARNING,
        target,
        f"Mass interruption in {place}: more than {limit} {what}",
        [
            f"More than {limit} {what} in {place} since {clock(since, owner.time_zone, now)}.",
            theirs,
            "Save your work now. Checkpoint hooks still run where the policy says so.",
            f"{plural(len(lost), 'hook')} did not start, or it is not known: {_named(lost)}." if lost else "",
            f"Warnings until {policy.events.mass_interruption_window_minutes} min after the first, and hooks "
            "that fail meanwhile, are not sent one by one.",
        ],
        f"mass-{warned.cause.value}-{target.account}-{warned.group or zone}-{iso(since)}-{owner.key}",
        now,
        owner=owner,
        facts={
            "availability_zone": zone,
            "auto_scaling_group": warned.group,
            "cause": warned.cause.value,
            "since": iso(since),
            "instance_ids": [one.instance_id for one in known],
            "owners": {owner.name: len(known)} if known else {},
            "checkpoint_not_sent": [one.instance_id for one in lost],
        },
    )


def _named(instances: Sequence[Instance]) -> str:
    return listed([f"{one.name} ({one.instance_id})" for one in instances], _NAMED)


def checkpoint_failed_alert(
    instance: Instance, warned: Warned, hook: HookAnswer, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return that the hook was not sent, or that nobody knows: somebody must save by hand, if anybody can."""
    refused, end = hook.was_sent is False, clock(warned.ends_at, owner.time_zone, now)
    return alert_of(
        AlertKind.CHECKPOINT_FAILED,
        Severity.CRITICAL,
        instance.target,
        f"Save by hand: the checkpoint hook of {instance.name} "
        f"{'did not start' if refused else 'may not have started'}",
        [
            sentence(
                f"The hook could not be sent: {hook.error}"
                if refused
                else f"It is not known whether the hook was sent: {hook.error}"
            ),
            f"The instance ends at about {end}." if warned.cause is not Cause.REBALANCE else "",
            "Next step: save the work by hand. A hook needs the SSM agent on the instance, a role that may "
            "use Systems Manager, and the document of stacks/telemetry.yaml in this account and Region.",
        ],
        f"checkpoint-failed-{warned.event_id}",
        now,
        owner=owner,
        instance=instance,
        facts={"cause": warned.cause.value, "error": hook.error, "checkpoint_sent": hook.was_sent},
    )


def elsewhere_alert(
    instance: Instance,
    prices: Sequence[SpotPrice],
    scores: Mapping[str, int],
    owner: Owner,
    now: UtcDatetime,
) -> Alert | None:
    """Return the cheapest other zones for the same type; `None` where no price of another zone is known.

    `scores` are EC2's placement scores by Region, 1 to 10, of types with the same GPUs, if asked for.
    """
    here = next((one for one in prices if one.zone == instance.availability_zone), None)
    others = [one for one in prices if one.zone != instance.availability_zone][:_ADVISED]
    if not others:
        return None
    kind, cheapest = instance.instance_type, others[0]
    paid = f"{usd(here.usd_per_hour)} an hour" if here else "an unknown price"
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return alert_of(
        AlertKind.INTERRUPTION_ADVICE,
        Severity.INFO,
        instance.target,
        f"{kind} elsewhere: from {usd(cheapest.usd_per_hour)} an hour in {cheapest.zone}",
        [
            f"{instance.name} may run cheaper or longer in another zone: in {instance.availability_zone} it "
            f"costs {paid}.",
            "Chance to get a type with the same GPUs, from 10 (likely) to 1 (hardly), no promise: "
            + ", ".join(f"{region} {score}" for region, score in ranked)
            if ranked
            else "",
            "A price says nothing about free capacity, and data in one Region stays there.",
            f"Spot prices of {kind} now:",
            *(f"- {one.zone} in {one.region}: {usd(one.usd_per_hour)} an hour" for one in others),
        ],
        f"advice-{instance.target.account}-{instance.availability_zone}-{kind}-{iso(now)}",
        now,
        owner=owner,
        instance=instance,
        facts={
            "availability_zone": instance.availability_zone,
            "usd_per_hour": str(here.usd_per_hour) if here else None,
            "elsewhere": [
                {"region": one.region, "availability_zone": one.zone, "usd_per_hour": str(one.usd_per_hour)}
                for one in others
            ],
            "placement_scores": dict(scores),
        },
    )
