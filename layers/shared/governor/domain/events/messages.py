"""The words of messages about events: warnings that instances are taken back, and dates that AWS announces.

Pure wording. This module must not know channels, nor how often something is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from governor.domain.alerts.alert import Alert, AlertKind, Severity, alert_of, ids, named, only
from governor.domain.alerts.owner import Owner
from governor.domain.events.interruption import Cause, Checkpoint, HookAnswer, HookState, SpotPrice, Warned
from governor.domain.events.notice import TERMINATED_BEFORE_END, BlockChange, Notice
from governor.domain.instance import Instance, Lifecycle, Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, iso
from governor.domain.wording import clock, deadline, left, listed, plural, sentence, usd

_NAMED = 20
"""Instances named in the text of a summary; the facts hold all."""
_ADVISED = 5
"""Zones named in an advice, cheapest first."""
_SAVE = "Save your work now."
_WARNINGS: Mapping[Cause, tuple[AlertKind, str, str, str]] = {
    Cause.SPOT: (
        AlertKind.SPOT_INTERRUPTION,
        "Spot interruption: {name} ({type}) ends at {end}",
        "EC2 will {plan} {name} at about {end}: it takes this Spot instance back.",
        _SAVE,
    ),
    Cause.RESERVATION: (
        AlertKind.SPOT_INTERRUPTION,
        "Capacity Reservation interruption: {name} ({type}) ends at {end}",
        "EC2 will {plan} {name} at about {end}: it takes the capacity of its reservation back.",
        _SAVE,
    ),
    Cause.REBALANCE: (
        AlertKind.REBALANCE_RECOMMENDED,
        "Interruption likely: {name} ({type})",
        "EC2 sees an elevated risk of interruption for {name} in {zone}.",
        "The two-minute warning may come at once, later or never. Save your work, or move it.",
    ),
    Cause.AUTO_SCALING: (
        AlertKind.AUTO_SCALING_TERMINATION,
        "Auto Scaling will {plan} {name} ({type})",
        "The Auto Scaling group {group} will {plan} {name}.",
        f"It waits for a lifecycle hook {{waits}}. {_SAVE}",
    ),
}
"""Patterns of the subject and of two lines."""
_HOOK: Mapping[HookState, str] = {
    HookState.NEXT: "Its checkpoint hook is asked to save the work next ({why}).",
    HookState.SENT: "Its checkpoint hook was asked to save the work ({why}).",
    HookState.EARLIER: "Its checkpoint hook was asked to save the work when this warning first came ({why}).",
    HookState.REFUSED: "Its checkpoint hook was not started, so save by hand: {error}",
    HookState.UNKNOWN: "It is not known whether its checkpoint hook runs, so save by hand: {error}",
}
_MANY = {
    "interruption": "interruption warnings",
    "rebalance": "rebalance recommendations",
    "termination": "terminations by Auto Scaling",
}


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
    kind, *patterns = _WARNINGS[warned.cause]
    certain = warned.response.is_taken_back
    ends_at = warned.ends_at if certain or warned.stated_end else None
    end = clock(warned.ends_at, owner.time_zone, now)
    words = {
        "name": instance.name,
        "type": instance.instance_type,
        "zone": instance.availability_zone,
        "plan": warned.plan,
        "group": warned.group,
        "end": end,
        "waits": f"until {end} at most" if ends_at else "for a time that could not be read",
    }
    subject, *lines = (pattern.format_map(words) for pattern in patterns)
    facts = {
        "cause": warned.cause.value,
        "action": warned.action,
        "warned_at": warned.at,
        "ends_at": ends_at,
        "auto_scaling_group": warned.group,
        "availability_zone": instance.availability_zone,
        "checkpoint_sent": hook.was_sent if checkpoint and checkpoint.send else False,
    }
    lines.append(_hook_line(checkpoint, hook))
    severity = Severity.CRITICAL if certain else Severity.WARNING
    dedup_id = f"{warned.cause.value}-{warned.event_id}"
    return alert_of(kind, severity, instance, subject, lines, dedup_id, now, owner=owner, facts=facts)


def _hook_line(checkpoint: Checkpoint | None, hook: HookAnswer) -> str:
    if checkpoint is None:
        return "No checkpoint hook is set up, so nothing is saved by itself."
    if not checkpoint.send:
        return f"Its checkpoint hook is not run ({checkpoint.why}), so nothing is saved by itself."
    return sentence(_HOOK[hook.state].format(why=checkpoint.why, error=hook.error))


def mass_alert(
    instance: Instance,
    warned: Warned,
    endangered: Sequence[Instance] | None,
    policy: Policy,
    since: UtcDatetime,
    now: UtcDatetime,
    *,
    owner: Owner,
    unasked: Collection[str] = (),
) -> Alert:
    """Return one message about many warnings, such as this one, in one zone or of one Auto Scaling group.

    `endangered` is what the `owner` has there, `None` where that could not be listed. `unasked` are instances
    whose hook was refused, or may have been.
    """
    zone, target = instance.availability_zone or instance.target.region, instance.target
    place = f"the group {warned.group}" if warned.group else zone
    many = f"more than {policy.events.mass_interruption_told_singly} {_MANY[warned.response.kind]}"
    which = "in that group" if warned.group else "there on capacity that EC2 can take back"
    known = endangered or ()
    lost = [one for one in known if one.instance_id in unasked]
    if endangered is None:
        theirs = "The instances there could not be listed; look in the EC2 console."
    elif not endangered:
        theirs = f"EC2 no longer lists governed instances {which}."
    else:
        theirs = f"{owner.name} has {plural(len(known), 'instance')} {which}: {_named(known)}."
    lines = [
        f"There were {many} in {place} since {clock(since, owner.time_zone, now)}.",
        theirs,
        "Save your work now. Checkpoint hooks still run where the policy says so.",
        f"{plural(len(lost), 'hook')} did not start, or it is not known: {_named(lost)}." if lost else None,
        f"Warnings until {policy.events.mass_interruption_window_minutes} min after the first, and hooks "
        "that fail meanwhile, are not sent one by one.",
    ]
    facts = {
        "availability_zone": zone,
        "auto_scaling_group": warned.group,
        "cause": warned.cause.value,
        "since": since,
        "instance_ids": ids(known),
        "owners": {owner.name: len(known)} if known else {},
        "checkpoint_not_sent": ids(lost),
    }
    kind = AlertKind.MASS_INTERRUPTION
    severity = Severity.CRITICAL if warned.response.is_taken_back else Severity.WARNING
    subject = f"Mass interruption in {place}: {many}"
    dedup_id = f"mass-{warned.cause.value}-{target.account}-{warned.group or zone}-{iso(since)}-{owner.key}"
    return alert_of(kind, severity, target, subject, lines, dedup_id, now, owner=owner, facts=facts)


def _named(instances: Sequence[Instance]) -> str:
    return listed([f"{one.name} ({one.instance_id})" for one in instances], _NAMED)


def checkpoint_failed_alert(
    instance: Instance, warned: Warned, hook: HookAnswer, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return that the hook was not sent, or that nobody knows: somebody must save by hand, if anybody can."""
    failed, why = "may not have started", "It is not known whether the hook was sent"
    if hook.was_sent is False:
        failed, why = "did not start", "The hook could not be sent"
    end = None if warned.cause is Cause.REBALANCE else clock(warned.ends_at, owner.time_zone, now)
    lines = [
        sentence(f"{why}: {hook.error}"),
        end and f"The instance ends at about {end}.",
        "Next step: save the work by hand. A hook needs the SSM agent on the instance, a role that may use "
        "Systems Manager, and the document of stacks/telemetry.yaml in this account and Region.",
    ]
    facts = {"cause": warned.cause.value, "error": hook.error, "checkpoint_sent": hook.was_sent}
    kind, severity = AlertKind.CHECKPOINT_FAILED, Severity.CRITICAL
    subject = f"Save by hand: the checkpoint hook of {instance.name} {failed}"
    dedup_id = f"checkpoint-failed-{warned.event_id}"
    return alert_of(kind, severity, instance, subject, lines, dedup_id, now, owner=owner, facts=facts)


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
    zone, of_type = instance.availability_zone, instance.instance_type
    here = next((one.usd_per_hour for one in prices if one.zone == zone), None)
    others = [one for one in prices if one.zone != zone][:_ADVISED]
    if not others:
        return None
    paid = "an unknown price" if here is None else f"{usd(here)} an hour"
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    chances = ", ".join(f"{region} {score}" for region, score in ranked)
    chance = "Chance to get a type with the same GPUs, from 10 (likely) to 1 (hardly), no promise"
    lines = [
        f"{instance.name} may run cheaper or longer in another zone: in {zone} it costs {paid}.",
        f"{chance}: {chances}" if ranked else None,
        "A price says nothing about free capacity, and data in one Region stays there.",
        f"Spot prices of {of_type} now:",
        *(f"- {one.zone} in {one.region}: {usd(one.usd_per_hour)} an hour" for one in others),
    ]
    elsewhere = [
        {"region": one.region, "availability_zone": one.zone, "usd_per_hour": str(one.usd_per_hour)}
        for one in others
    ]
    facts = {
        "availability_zone": zone,
        "usd_per_hour": here,
        "elsewhere": elsewhere,
        "placement_scores": dict(scores),
    }
    kind, severity = AlertKind.INTERRUPTION_ADVICE, Severity.INFO
    subject = f"{of_type} elsewhere: from {usd(others[0].usd_per_hour)} an hour in {others[0].zone}"
    dedup_id = f"advice-{instance.target.account}-{zone}-{of_type}-{iso(now)}"
    return alert_of(kind, severity, instance, subject, lines, dedup_id, now, owner=owner, facts=facts)


# dates that AWS announces


def notice_alert(
    notice: Notice,
    instances: Sequence[Instance],
    owner: Owner,
    now: UtcDatetime,
    *,
    again: bool,
    reminded: bool = False,
) -> Alert:
    """Return the date, what happens then, and what can be done. `instances` are those of one owner.

    `again`: this is the reminder. `reminded`: one will follow.
    """
    one = only(instances)
    if notice.at is None:
        short, when = "no date yet", "AWS names no date; look at the AWS Health Dashboard."
    elif notice.at <= now:
        short, when = "due now", f"It has been due since {clock(notice.at, owner.time_zone, now)}."
    else:
        short = f"in {left(notice.at - now)}"
        when = f"It happens at {deadline(notice.at, owner.time_zone, now)}."
    lines = [
        f"AWS announces for {', '.join(map(named, instances))}: {notice.what}.",
        when,
        f"What to do: {_advice(notice, instances)}",
        "A reminder follows before that date." if reminded else None,
    ]
    facts = {
        "what": notice.what,
        "happens_at": notice.at,
        "reminder": again,
        "source_id": notice.source_id,
        "capacity_reservation_id": notice.reservation_id,
        "instance_ids": ids(instances),
    }
    prefix, stage, severity = ("", "notice", Severity.WARNING)
    if again:
        prefix, stage, severity = ("Reminder: ", "reminder", Severity.CRITICAL)
    kind, about = AlertKind.SCHEDULED_CHANGE, one or Target(notice.account, notice.region)
    subject = f"{prefix}{f'{one.name}: ' if one else ''}{notice.what}, {short}"
    dedup_id = f"{stage}-{notice.message_key}-{owner.key}"
    return alert_of(kind, severity, about, subject, lines, dedup_id, now, owner=owner, facts=facts)


def _advice(notice: Notice, instances: Sequence[Instance]) -> str:
    if notice.reservation_id is not None:
        minutes = int(TERMINATED_BEFORE_END.total_seconds() // 60)
        return (
            f"save your data, or extend the block. EC2 begins to terminate its instances {minutes} min "
            "before that date (60 min with UltraServers), and their local disks go with them."
        )
    if any(one.root_device_type != "ebs" for one in instances):
        return "copy your data and launch a new one. Its root is an instance store, so it cannot be stopped."
    if any(one.lifecycle is Lifecycle.SPOT for one in instances):
        return "save your work. A Spot instance is replaced by a new one, not moved."
    return (
        "stop and start it before then, when it suits you: it then runs on other hardware. A stop wipes "
        "local disks, and a start needs free capacity."
    )


def block_alert(change: BlockChange, instances: Sequence[Instance], owner: Owner, now: UtcDatetime) -> Alert:
    """Return that a Capacity Block has begun, which is paid for whether it is used or not, or that its
    instances are terminated in minutes. `instances` are those of one owner."""
    block, theirs = f"Capacity Block {change.reservation_id}", ", ".join(map(named, instances)) or "none yet"
    facts: dict[str, object] = {"capacity_reservation_id": change.reservation_id}
    kind, about = AlertKind.SCHEDULED_CHANGE, Target(change.account, change.region)
    if change.is_expiring:
        severity, one = Severity.CRITICAL, only(instances)
        end = clock(change.terminated_from, owner.time_zone, now)
        subject = f"{block} ends: its instances are terminated from {end}"
        lines = [
            f"EC2 begins to terminate these instances at about {end}: {theirs}.",
            f"{_SAVE} Their local disks go with them.",
        ]
        facts |= {"what": "Capacity Block expires", "terminated_from": change.terminated_from}
        dedup_id = f"expiring-{change.event_id}-{owner.key}"
    else:
        severity, one = Severity.INFO, None
        end = clock(change.ends_at, owner.time_zone, now)
        subject = f"{block} is ready until {end}"
        lines = [
            f"The {block} has begun and ends at {end}. It is paid in full, whether it is used or not.",
            f"Instances in it: {theirs}.",
        ]
        facts |= {"what": "Capacity Block delivered", "ends_at": change.ends_at}
        dedup_id = f"delivered-{change.reservation_id}-{iso(change.ends_at)}-{owner.key}"
    facts["instance_ids"] = ids(instances)
    return alert_of(kind, severity, one or about, subject, lines, dedup_id, now, owner=owner, facts=facts)
