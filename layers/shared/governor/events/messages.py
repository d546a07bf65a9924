"""Messages about warnings of AWS, such as a Spot interruption, and about dates that AWS announces.

They only word what happened; `model/interruption.py` says what follows from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from governor.alerts.model import (
    INCIDENT_UNTIL,
    Alert,
    Owner,
    Severity,
    instance_ids,
    instance_text,
    only_instance,
)
from governor.alerts.templates import alert_from_template, template_lines
from governor.core.documents import plain
from governor.core.instance import Instance, Lifecycle, Target
from governor.core.units import UtcDatetime, iso, left, listed, minutes, plural, usd
from governor.events.model.interruption import (
    BURST_WINDOW,
    ROOT_VOLUME,
    Checkpoint,
    HookAnswer,
    SpotPrice,
    Warned,
)
from governor.events.model.notice import TERMINATED_BEFORE_END, BlockChange, Notice
from governor.policy.model.policy import Policy

_MOST_NAMED = 20
"""Instances named in the text of a summary; the facts hold all."""
_MOST_ZONES = 5
"""Zones named in an advice, cheapest first."""


def warning_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: Owner,
    now: UtcDatetime,
    hook: HookAnswer,
) -> Alert:
    """Return the message to the owner about one warning, with the action, its end and the state of
    the `hook`. `checkpoint` is `None` if the stack has no checkpoint hook.

    The fact `ends_at` is `None` unless EC2 takes the instance back (a Spot Instance or a
    reservation), or the warning states its end.
    """
    has_known_end = warned.response.is_taken_back or warned.stated_end is not None
    is_hook_sent = checkpoint is not None and checkpoint.send
    facts = {
        "cause": warned.cause.value,
        "action": warned.action,
        "warned_at": warned.at,
        "ends_at": warned.ends_at if has_known_end else None,
        "auto_scaling_group": warned.group,
        "availability_zone": instance.availability_zone,
        "checkpoint_sent": hook.was_sent if is_hook_sent else False,
        INCIDENT_UNTIL: warned.stands_until(now),
    }
    words = {
        "plan": warned.action_text,
        "replaces_root_volume": warned.kind == ROOT_VOLUME,
        "to_warm_pool": _is_for_warm_pool(warned),
        "end": warned.ends_at,
        "hook": _hook_lines(checkpoint, hook),
    }
    dedup_id = f"{warned.cause.value}-{warned.event_id}"
    return alert_from_template(
        warned.cause.value, instance, dedup_id, now, facts, words, owner=owner
    )


def _is_for_warm_pool(warned: Warned) -> bool:
    """Return whether the Auto Scaling group will put the instance into its warm pool."""
    return warned.lifecycle_action is not None and warned.lifecycle_action.to_warm_pool


def _hook_lines(checkpoint: Checkpoint | None, hook: HookAnswer) -> list[str]:
    """Return the lines that say whether the instance was asked to save its work, and why not.
    `checkpoint` is `None` if the stack has no checkpoint hook."""
    if checkpoint is None:
        return template_lines("hook", {"state": "none", "why": None, "error": hook.error})
    state = hook.state.value if checkpoint.send else "off"
    return template_lines("hook", {"state": state, "why": checkpoint.why, "error": hook.error})


def mass_alert(
    instance: Instance,
    warned: Warned,
    endangered: Sequence[Instance] | None,
    policy: Policy,
    since: UtcDatetime,
    now: UtcDatetime,
    *,
    owner: Owner,
    without_hook: Collection[str] = (),
) -> Alert:
    """Return one message about many warnings in one group or, without one, in one zone (in the
    Region if that is not known). It is critical if EC2 takes capacity back.

    `endangered` are the instances that the `owner` has there; `None` if they could not be listed.
    `without_hook` are the ids of instances that probably did not get their hook.
    """
    rule = policy.events
    target = instance.target
    zone = instance.availability_zone or target.region
    group = warned.group
    instances = endangered or ()
    instances_without_hook = [member for member in instances if member.instance_id in without_hook]
    facts = {
        "availability_zone": zone,
        "auto_scaling_group": group,
        "cause": warned.cause.value,
        "since": since,
        "instance_ids": instance_ids(instances),
        "owners": {owner.name: len(instances)} if instances else {},
        "checkpoint_not_sent": instance_ids(instances_without_hook),
        INCIDENT_UNTIL: max(since + BURST_WINDOW, warned.stands_until(now)),
    }
    (warnings,) = template_lines("many", {"kind": warned.kind})
    words = {
        "place": zone,
        "which": "there that may be interrupted",
        "many": f"more than {rule.mass_interruption_told_singly} {warnings}",
        "known": _known(endangered),
        "number": plural(len(instances), "instance"),
        "listed": _names(instances),
        "hooks": plural(len(instances_without_hook), "hook"),
        "unasked": _names(instances_without_hook),
        "minutes": minutes(BURST_WINDOW),
    }
    if group:
        words["place"] = f"the group {group}"
        words["which"] = "in that group"
    place = f"{target.account}-{group or zone}"
    dedup_id = f"mass-{warned.cause.value}-{place}-{iso(since)}-{owner.key}"
    severity = Severity.CRITICAL if warned.response.is_taken_back else None
    return alert_from_template(
        "many warnings", target, dedup_id, now, facts, words, owner=owner, severity=severity
    )


def _known(endangered: Sequence[Instance] | None) -> str:
    """Return how the template names what is known of the endangered instances: `unlisted`, `some`
    or `none`."""
    if endangered is None:
        return "unlisted"
    return "some" if endangered else "none"


def _names(instances: Sequence[Instance]) -> str:
    """Return the names and ids of the first 20 instances, and how many more there are, as a list in
    one line; an empty text without instances."""
    names = [f"{instance.name} ({instance.instance_id})" for instance in instances]
    return listed(names, _MOST_NAMED)


def checkpoint_failed_alert(
    instance: Instance, warned: Warned, hook: HookAnswer, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return the message to the owner that the hook was not sent, or perhaps not sent: somebody
    must save the work by hand."""
    facts = {
        "cause": warned.cause.value,
        "error": hook.error,
        "checkpoint_sent": hook.was_sent,
        INCIDENT_UNTIL: warned.stands_until(now),
    }
    words = {
        "name": instance.name,
        "end": warned.ends_at if warned.response.is_certain else None,
        "ends_instance": warned.ends_instance,
    }
    dedup_id = f"checkpoint-failed-{warned.event_id}"
    return alert_from_template("hook failed", instance, dedup_id, now, facts, words, owner=owner)


def elsewhere_alert(
    instance: Instance,
    prices: Sequence[SpotPrice],
    scores: Mapping[str, int],
    owner: Owner,
    now: UtcDatetime,
) -> Alert | None:
    """Return the message that names the five cheapest other zones for the same type; `None` if no
    price of another zone is known. `prices` are sorted, cheapest first.

    `scores` are EC2's placement scores by Region, 1 to 10, of types with the same GPUs; empty if
    there are none.
    """
    zone = instance.availability_zone
    usd_here = next((price.usd_per_hour for price in prices if price.zone == zone), None)
    other_zones = [price for price in prices if price.zone != zone][:_MOST_ZONES]
    if not other_zones:
        return None
    facts = {
        "availability_zone": zone,
        "usd_per_hour": usd_here,
        "elsewhere": [_price_document(price) for price in other_zones],
        "placement_scores": dict(scores),
    }
    best_first = sorted(scores.items(), key=lambda score: (-score[1], score[0]))
    cheapest = other_zones[0]
    is_cheaper = usd_here is not None and cheapest.usd_per_hour < usd_here
    chances = [f"{region} {score}" for region, score in best_first]
    words = {
        "is_cheaper": is_cheaper,
        "usd_here": usd_here,
        "best": cheapest,
        "chances": ", ".join(chances),
        "prices": [_price_line(price) for price in other_zones],
    }
    place = f"{instance.target.account}-{zone}-{instance.instance_type}"
    dedup_id = f"advice-{place}-{iso(now)}"
    return alert_from_template("elsewhere", instance, dedup_id, now, facts, words, owner=owner)


def _price_document(price: SpotPrice) -> dict[str, object]:
    """Return a Spot price as JSON data."""
    return {
        "region": price.region,
        "availability_zone": price.zone,
        "usd_per_hour": plain(price.usd_per_hour),
    }


def _price_line(price: SpotPrice) -> str:
    """Return a line such as `us-east-1b in us-east-1: $1.20 an hour`."""
    return f"{price.zone} in {price.region}: {usd(price.usd_per_hour)} an hour"


def notice_alert(
    notice: Notice,
    instances: Sequence[Instance],
    owner: Owner,
    now: UtcDatetime,
    *,
    again: bool,
    reminded: bool = False,
) -> Alert:
    """Return the message about an announced date, or an announcement without a date, for the
    `instances` of one owner. It is about the instance if there is just one, else about the account
    and Region of the notice.

    With `again` it is the reminder, which is critical. Else it is the first message, with the
    severity of its template, and with `reminded` it says that a reminder follows.
    """
    instance = only_instance(instances)
    at = notice.at
    subject_start = ""
    id_start = "notice"
    severity: Severity | None = None
    if again:
        subject_start = "Reminder: "
        id_start = "reminder"
        severity = Severity.CRITICAL
    if instance is not None:
        subject_start = f"{subject_start}{instance.name}: "
    facts = {
        "what": notice.what,
        "happens_at": at,
        "reminder": again,
        "source_id": notice.source_id,
        "capacity_reservation_id": notice.reservation_id,
        "instance_ids": instance_ids(instances),
        INCIDENT_UNTIL: at,
    }
    words = {
        "prefix": subject_start,
        "what": notice.what,
        "due": _due(at, now),
        "left": None if at is None else left(at - now),
        "listed": ", ".join(instance_text(instance) for instance in instances),
        "advice": _advice(notice, instances),
        "minutes": int(TERMINATED_BEFORE_END.total_seconds() // 60),
        "follows": reminded,
        "several": len(instances) > 1,
    }
    about = instance or Target(notice.account, notice.region)
    dedup_id = f"{id_start}-{notice.message_key}-{owner.key}"
    return alert_from_template(
        "date", about, dedup_id, now, facts, words, owner=owner, severity=severity
    )


def _due(at: UtcDatetime | None, now: UtcDatetime) -> str:
    """Return the word by which the template words the date: `now` if it is past, `later`, or
    `never` if AWS named no date."""
    if at is None:
        return "never"
    return "now" if at <= now else "later"


def _advice(notice: Notice, instances: Sequence[Instance]) -> str:
    """Return the word by which the template chooses its advice: `block` for a Capacity Block; else
    `unstoppable` or `spot` if one of the instances is that, or `restart`."""
    if notice.reservation_id is not None:
        return "block"
    if any(instance.root_device_type != "ebs" for instance in instances):
        return "unstoppable"
    if any(instance.lifecycle is Lifecycle.SPOT for instance in instances):
        return "spot"
    return "restart"


def block_alert(
    change: BlockChange, instances: Sequence[Instance], owner: Owner, now: UtcDatetime
) -> Alert:
    """Return the message that a Capacity Block has begun, or that its instances are terminated in
    minutes (`change.is_expiring`). `instances` are those of one owner; a block that has begun may
    have none yet.

    A block is paid whether it is used or not.
    """
    names = ", ".join(instance_text(instance) for instance in instances)
    words = {"listed": names or "none yet"}
    facts: dict[str, object] = {
        "capacity_reservation_id": change.reservation_id,
        "instance_ids": instance_ids(instances),
    }
    about: Instance | Target = Target(change.account, change.region)
    if change.is_expiring:
        template = "block ends"
        dedup_id = f"expiring-{change.event_id}-{owner.key}"
        facts["what"] = "Capacity Block expires"
        facts["terminated_from"] = change.terminated_from
        facts[INCIDENT_UNTIL] = change.ends_at
        only = only_instance(instances)
        if only is not None:
            about = only
    else:
        template = "block begins"
        dedup_id = f"delivered-{change.reservation_id}-{iso(change.ends_at)}-{owner.key}"
        facts["what"] = "Capacity Block delivered"
        facts["ends_at"] = change.ends_at
    return alert_from_template(template, about, dedup_id, now, facts, words, owner=owner)
