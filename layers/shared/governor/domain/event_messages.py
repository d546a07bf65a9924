"""What is told about events: the readable text and the facts of each message.

Pure wording. This module must not know channels, nor how often something is told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from governor.domain.alert import Alert, AlertKind, Severity, short_hash
from governor.domain.instance import Instance
from governor.domain.interruption import Cause, Checkpoint, HookAnswer, HookState, SpotPrice, Warned
from governor.domain.policy import Policy
from governor.domain.units import UtcDatetime, iso, money

_NAMED = 20
"""Instances named in the text of a summary; the facts hold all."""
_MANY = {
    "interruption": "interruption warnings",
    "rebalance": "rebalance recommendations",
    "termination": "terminations by Auto Scaling",
}
_ADVISED = 5
"""Zones named in an advice, cheapest first."""


def _about(instance: Instance, owner: str, project: str) -> dict[str, str]:
    return {
        "account": instance.target.account,
        "region": instance.target.region,
        "instance_id": instance.instance_id,
        "owner": owner,
        "project": project,
    }


_NEXT = HookAnswer(HookState.NEXT)


def _hook_line(checkpoint: Checkpoint | None, hook: HookAnswer) -> str:
    if checkpoint is None:
        return "No checkpoint hook is set up for this stack."
    if not checkpoint.send:
        return f"Its checkpoint hook is not run: {checkpoint.why}."
    match hook.state:
        case HookState.NEXT:
            return f"Its checkpoint hook is asked to run next: {checkpoint.why}."
        case HookState.SENT:
            return f"Its checkpoint hook was asked to run: {checkpoint.why}."
        case HookState.EARLIER:
            return f"Its checkpoint hook was asked to run when this warning first came: {checkpoint.why}."
        case HookState.REFUSED:
            return f"Its checkpoint hook could not be asked to run: {hook.error}"
        case HookState.UNKNOWN:
            return f"Whether its checkpoint hook runs is not known: {hook.error}"


def _warned_facts(
    instance: Instance, warned: Warned, checkpoint: Checkpoint | None, hook: HookAnswer
) -> dict[str, object]:
    return {
        "cause": warned.cause.value,
        "instance_type": instance.instance_type,
        "availability_zone": instance.availability_zone,
        "checkpoint_sent": hook.was_sent if checkpoint and checkpoint.send else False,
    }


def interruption_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: str,
    project: str,
    now: UtcDatetime,
    hook: HookAnswer = _NEXT,
) -> Alert:
    """EC2 takes one instance back. `checkpoint` is `None` where the stack has no hook to send.

    `hook` says what became of it, where it shall be sent.
    """
    left = warned.seconds_left(now)
    title = "Spot interruption" if warned.cause is Cause.SPOT else "Capacity Reservation interruption"
    return Alert(
        kind=AlertKind.SPOT_INTERRUPTION,
        severity=Severity.CRITICAL,
        subject=f"{title}: {instance.instance_type} {instance.name}, {left} s left",
        lines=(
            f"EC2 will {warned.plan} {instance.name} ({instance.instance_id}) at about "
            f"{iso(warned.ends_at)}.",
            f"{left} seconds are left. Save your work now.",
            _hook_line(checkpoint, hook),
        ),
        dedup_id=f"{warned.cause.value}-{warned.event_id}",
        at=now,
        facts={
            "action": warned.action,
            "ends_at": iso(warned.ends_at),
            **_warned_facts(instance, warned, checkpoint, hook),
        },
        **_about(instance, owner, project),
    )


def rebalance_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: str,
    project: str,
    now: UtcDatetime,
    hook: HookAnswer = _NEXT,
) -> Alert:
    """An interruption has become more likely."""
    return Alert(
        kind=AlertKind.REBALANCE_RECOMMENDED,
        severity=Severity.WARNING,
        subject=f"Interruption likely: {instance.instance_type} {instance.name}",
        lines=(
            f"EC2 says that {instance.name} ({instance.instance_id}, {instance.instance_type}, "
            f"{instance.availability_zone}) runs at an elevated risk of interruption.",
            "The two-minute warning may come at once, later or never. Save your work, or move it.",
            _hook_line(checkpoint, hook),
        ),
        dedup_id=f"rebalance-{warned.event_id}",
        at=now,
        facts={
            "warned_at": iso(warned.at),
            **_warned_facts(instance, warned, checkpoint, hook),
        },
        **_about(instance, owner, project),
    )


def auto_scaling_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: str,
    project: str,
    now: UtcDatetime,
    hook: HookAnswer = _NEXT,
) -> Alert:
    """Its Auto Scaling group lets an instance go."""
    known = warned.stated_end is not None
    return Alert(
        kind=AlertKind.AUTO_SCALING_TERMINATION,
        severity=Severity.WARNING,
        subject=f"Auto Scaling lets go of {instance.instance_type} {instance.name}",
        lines=(
            f"The group {warned.group} will {warned.action} {instance.name} ({instance.instance_id}).",
            f"It waits for a lifecycle hook until {iso(warned.ends_at)} at most. Save your work now."
            if known
            else "How long it waits for a lifecycle hook could not be read. Save your work now.",
            _hook_line(checkpoint, hook),
        ),
        dedup_id=f"{warned.cause.value}-{warned.event_id}",
        at=now,
        facts={
            "action": warned.action,
            "auto_scaling_group": warned.group,
            "ends_at": iso(warned.ends_at) if known else None,
            **_warned_facts(instance, warned, checkpoint, hook),
        },
        **_about(instance, owner, project),
    )


def mass_alert(
    instance: Instance,
    warned: Warned,
    endangered: Sequence[tuple[Instance, str]] | None,
    policy: Policy,
    since: UtcDatetime,
    now: UtcDatetime,
    *,
    owner: str = "unassigned",
    project: str = "unassigned",
    unasked: Collection[str] = (),
) -> Alert:
    """Many warnings in one zone, or one Auto Scaling group: one message to the owner of what is `endangered`.

    `None` where that could not be listed. `unasked` are instances whose hook was refused, or of which nobody
    knows, as far as that is known now.
    """
    zone, target = instance.availability_zone or instance.target.region, instance.target
    place = f"the group {warned.group}" if warned.group else zone
    singly = policy.events.mass_interruption_told_singly
    minutes = policy.events.mass_interruption_window_minutes
    what, may_wait = _MANY[warned.kind], warned.kind != "interruption"
    known = endangered or ()
    lost = [one for one, _ in known if one.instance_id in unasked]
    owners = Counter(owner for _, owner in known)
    return Alert(
        kind=AlertKind.MASS_INTERRUPTION,
        severity=Severity.WARNING if may_wait else Severity.CRITICAL,
        account=target.account,
        region=target.region,
        subject=f"Mass interruption in {place}: more than {singly} {what}",
        lines=(
            f"More than {singly} {what} in {place} since {iso(since)}. Those that follow until {minutes} "
            "minutes after the first are not told one by one.",
            *_endangered_lines(endangered, owners, warned),
            "Every instance that is warned is still asked to run its hook where the policy says so. What "
            "cannot be asked is not told one by one either.",
            *(
                (f"So far {len(lost)} of them could not be asked, or it is not known: {_named(lost)}.",)
                if lost
                else ()
            ),
        ),
        dedup_id=f"mass-{warned.cause.value}-{target.account}-{warned.group or zone}-{iso(since)}"
        f"-{short_hash(owner, project)}",
        at=now,
        owner=owner,
        project=project,
        facts={
            "availability_zone": zone,
            "auto_scaling_group": warned.group,
            "cause": warned.cause.value,
            "since": iso(since),
            "instance_ids": [one.instance_id for one, _ in known],
            "owners": dict(owners),
            "checkpoint_not_sent": [one.instance_id for one in lost],
        },
    )


def _named(instances: Sequence[Instance]) -> str:
    more = f" and {len(instances) - _NAMED} more" if len(instances) > _NAMED else ""
    return ", ".join(f"{one.name} ({one.instance_id})" for one in instances[:_NAMED]) + more


def _endangered_lines(
    endangered: Sequence[tuple[Instance, str]] | None, owners: Counter[str], warned: Warned
) -> tuple[str, ...]:
    which = "belong to that group" if warned.group else "run there on capacity that EC2 can take back"
    if endangered is None:
        return ("Which governed instances run there could not be read; look in the EC2 console.",)
    if not endangered:
        return (f"EC2 lists no governed instances any more that {which}.",)
    named = [f"{one.name} ({one.instance_id}, {owner})" for one, owner in endangered[:_NAMED]]
    more = f" and {len(endangered) - _NAMED} more" if len(endangered) > _NAMED else ""
    return (
        f"{len(endangered)} governed instances {which}: {', '.join(named)}{more}.",
        f"Their owners: {', '.join(f'{owner} ({number})' for owner, number in owners.most_common())}.",
    )


def checkpoint_failed_alert(
    instance: Instance, warned: Warned, hook: HookAnswer, owner: str, project: str, now: UtcDatetime
) -> Alert:
    """The hook was not sent, or nobody knows: somebody has to save by hand, if anybody can."""
    left = warned.seconds_left(now)
    refused = hook.was_sent is False
    what = "not sent" if refused else "in doubt"
    of_it = f"the checkpoint hook of {instance.name} ({instance.instance_id})"
    return Alert(
        kind=AlertKind.CHECKPOINT_FAILED,
        severity=Severity.CRITICAL,
        subject=f"Checkpoint hook {what}: {instance.instance_type} {instance.name}",
        lines=(
            f"T{of_it[1:]} could not be sent: {hook.error}"
            if refused
            else f"Whether {of_it} was sent is not known: {hook.error}",
            *((f"{left} seconds are left.",) if warned.cause is not Cause.REBALANCE else ()),
            "The hook needs the SSM agent on the instance, a role that lets it speak to Systems Manager, and "
            "the document of stacks/telemetry.yaml in this account and Region.",
        ),
        dedup_id=f"checkpoint-failed-{warned.event_id}",
        at=now,
        facts={
            "cause": warned.cause.value,
            "error": hook.error,
            "instance_type": instance.instance_type,
            "checkpoint_sent": hook.was_sent,
        },
        **_about(instance, owner, project),
    )


def elsewhere_alert(
    instance: Instance,
    prices: Sequence[SpotPrice],
    scores: Mapping[str, int],
    owner: str,
    project: str,
    now: UtcDatetime,
) -> Alert | None:
    """The cheapest other zones for the same type; `None` where no price of another zone is known.

    `scores` are EC2's placement scores by Region, 1 to 10, of types with the same GPUs, if asked for.
    """
    here = next((one for one in prices if one.zone == instance.availability_zone), None)
    others = [one for one in prices if one.zone != instance.availability_zone][:_ADVISED]
    if not others:
        return None
    kind, cheapest = instance.instance_type, others[0]
    paid = f"{money(here.usd_per_hour, 4)} USD an hour" if here else "not known"
    return Alert(
        kind=AlertKind.INTERRUPTION_ADVICE,
        severity=Severity.INFO,
        subject=f"{kind} elsewhere: from {money(cheapest.usd_per_hour, 4)} USD an hour in {cheapest.zone}",
        lines=(
            f"Spot prices of {kind} now, after warnings in {instance.availability_zone} (there: {paid}):",
            *(f"{one.zone} in {one.region}: {money(one.usd_per_hour, 4)} USD an hour" for one in others),
            *_score_lines(scores),
            "A price says nothing about free capacity, and data that lies in one Region stays there.",
        ),
        dedup_id=f"advice-{instance.target.account}-{instance.availability_zone}-{kind}-{iso(now)}",
        at=now,
        facts={
            "instance_type": kind,
            "availability_zone": instance.availability_zone,
            "usd_per_hour": str(here.usd_per_hour) if here else None,
            "elsewhere": [
                {"region": one.region, "availability_zone": one.zone, "usd_per_hour": str(one.usd_per_hour)}
                for one in others
            ],
            "placement_scores": dict(scores),
        },
        **_about(instance, owner, project),
    )


def _score_lines(scores: Mapping[str, int]) -> tuple[str, ...]:
    if not scores:
        return ()
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    return (
        "How likely EC2 finds one with the same GPUs now, from 10 (very) to 1 (hardly): "
        + ", ".join(f"{region} {score}" for region, score in ranked)
        + ". No promise.",
    )


_ALERTS: Mapping[Cause, Callable[..., Alert]] = {
    Cause.SPOT: interruption_alert,
    Cause.RESERVATION: interruption_alert,
    Cause.REBALANCE: rebalance_alert,
    Cause.AUTO_SCALING: auto_scaling_alert,
}


def warning_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: str,
    project: str,
    now: UtcDatetime,
    hook: HookAnswer,
) -> Alert:
    """Return the message about one warning, in the words of its cause."""
    return _ALERTS[warned.cause](instance, warned, checkpoint, owner, project, now, hook)
