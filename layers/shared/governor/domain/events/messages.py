"""Messages about warnings that an instance is taken back, and about dates that AWS announces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta

from governor.domain.alerts.alert import INCIDENT_UNTIL, Alert, Owner, Severity, ids, named, only
from governor.domain.alerts.templates import said, written
from governor.domain.documents import plain
from governor.domain.events.interruption import Checkpoint, HookAnswer, SpotPrice, Warned
from governor.domain.events.notice import TERMINATED_BEFORE_END, BlockChange, Notice
from governor.domain.instance import Instance, Lifecycle, Target
from governor.domain.policy.policy import Policy
from governor.domain.units import UtcDatetime, iso, left, listed, plural, usd

_NAMED = 20
"""Instances named in the text of a summary; the facts hold all."""
_ADVISED = 5
"""Zones named in an advice, cheapest first."""


def warning_alert(
    instance: Instance,
    warned: Warned,
    checkpoint: Checkpoint | None,
    owner: Owner,
    now: UtcDatetime,
    hook: HookAnswer,
) -> Alert:
    """Return the warning about one instance; `checkpoint` is `None` where the stack has no hook to
    send."""
    is_stated = warned.response.is_taken_back or warned.stated_end
    facts = {
        "cause": warned.cause.value,
        "action": warned.action,
        "warned_at": warned.at,
        "ends_at": warned.ends_at if is_stated else None,
        "auto_scaling_group": warned.group,
        "availability_zone": instance.availability_zone,
        "checkpoint_sent": hook.was_sent if checkpoint and checkpoint.send else False,
        INCIDENT_UNTIL: warned.stands_until(now),
    }
    state = "none" if checkpoint is None else hook.state.value if checkpoint.send else "off"
    said_of_it = said(
        "hook", {"state": state, "why": checkpoint and checkpoint.why, "error": hook.error}
    )
    words = {"plan": warned.plan, "end": warned.ends_at, "hook": said_of_it}
    dedup_id = f"{warned.cause.value}-{warned.event_id}"
    return written(warned.cause.value, instance, dedup_id, now, facts, words, owner=owner)


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
    """Return one message about many warnings in one zone or group. `endangered` is what the `owner`
    has there, `None` where that could not be listed; the hook of `unasked` ones may have been
    refused."""
    zone, target, group = (
        instance.availability_zone or instance.target.region,
        instance.target,
        warned.group,
    )
    known, rule = endangered or (), policy.events
    (many,) = said("many", {"kind": warned.response.kind})
    lost = [one for one in known if one.instance_id in unasked]
    facts = {
        "availability_zone": zone,
        "auto_scaling_group": group,
        "cause": warned.cause.value,
        "since": since,
        "instance_ids": ids(known),
        "owners": {owner.name: len(known)} if known else {},
        "checkpoint_not_sent": ids(lost),
        INCIDENT_UNTIL: max(
            since + timedelta(minutes=rule.mass_interruption_window_minutes),
            warned.stands_until(now),
        ),
    }
    words = {
        "place": f"the group {group}" if group else zone,
        "many": f"more than {rule.mass_interruption_told_singly} {many}",
        "known": "unlisted" if endangered is None else "some" if known else "none",
        "which": "in that group" if group else "there on capacity that EC2 can take back",
        "number": plural(len(known), "instance"),
        "listed": _named(known),
        "hooks": plural(len(lost), "hook"),
        "unasked": _named(lost),
        "minutes": rule.mass_interruption_window_minutes,
    }
    severity = Severity.CRITICAL if warned.response.is_taken_back else None
    dedup_id = (
        f"mass-{warned.cause.value}-{target.account}-{group or zone}-{iso(since)}-{owner.key}"
    )
    return written(
        "many warnings", target, dedup_id, now, facts, words, owner=owner, severity=severity
    )


def _named(instances: Sequence[Instance]) -> str:
    return listed([f"{one.name} ({one.instance_id})" for one in instances], _NAMED)


def checkpoint_failed_alert(
    instance: Instance, warned: Warned, hook: HookAnswer, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return that the hook was not sent, or that nobody knows: somebody must save by hand, if
    anybody can."""
    facts: dict[str, object] = {"cause": warned.cause.value, "error": hook.error}
    facts |= {"checkpoint_sent": hook.was_sent, INCIDENT_UNTIL: warned.stands_until(now)}
    words = {"end": warned.ends_at if warned.response.is_certain else None}
    dedup_id = f"checkpoint-failed-{warned.event_id}"
    return written("hook failed", instance, dedup_id, now, facts, words, owner=owner)


def elsewhere_alert(
    instance: Instance,
    prices: Sequence[SpotPrice],
    scores: Mapping[str, int],
    owner: Owner,
    now: UtcDatetime,
) -> Alert | None:
    """Return the cheapest other zones for the same type, if their prices are known. `scores` are
    EC2's placement scores by Region, 1 to 10, of types with the same GPUs, if asked for."""
    zone, of_type = instance.availability_zone, instance.instance_type
    here = next((one.usd_per_hour for one in prices if one.zone == zone), None)
    others = [one for one in prices if one.zone != zone][:_ADVISED]
    if not others:
        return None
    facts = {
        "availability_zone": zone,
        "usd_per_hour": here,
        "elsewhere": [
            {
                "region": one.region,
                "availability_zone": one.zone,
                "usd_per_hour": plain(one.usd_per_hour),
            }
            for one in others
        ],
        "placement_scores": dict(scores),
    }
    ranked = sorted(scores.items(), key=lambda one: (-one[1], one[0]))
    is_cheaper = here is None or others[0].usd_per_hour < here
    words = {
        "hope": "cheaper or longer" if is_cheaper else "longer, though no cheaper,",
        "here": "an unknown price" if here is None else f"{usd(here)} an hour",
        "best": others[0],
        "chances": ", ".join(f"{region} {score}" for region, score in ranked),
        "prices": [
            f"- {one.zone} in {one.region}: {usd(one.usd_per_hour)} an hour" for one in others
        ],
    }
    dedup_id = f"advice-{instance.target.account}-{zone}-{of_type}-{iso(now)}"
    return written("elsewhere", instance, dedup_id, now, facts, words, owner=owner)


def notice_alert(
    notice: Notice,
    instances: Sequence[Instance],
    owner: Owner,
    now: UtcDatetime,
    *,
    again: bool,
    reminded: bool = False,
) -> Alert:
    """Return the date for the `instances` of one owner, `again` as the reminder, else if one will
    follow."""
    one, at = only(instances), notice.at
    facts = {
        "what": notice.what,
        "happens_at": at,
        "reminder": again,
        "source_id": notice.source_id,
        "capacity_reservation_id": notice.reservation_id,
        "instance_ids": ids(instances),
        INCIDENT_UNTIL: at,
    }
    words = {
        "prefix": f"{'Reminder: ' if again else ''}{f'{one.name}: ' if one else ''}",
        "due": "never" if at is None else "now" if at <= now else "later",
        "left": at and left(at - now),
        "listed": ", ".join(map(named, instances)),
        "advice": _advice(notice, instances),
        "minutes": int(TERMINATED_BEFORE_END.total_seconds() // 60),
        "follows": reminded,
    }
    about = one or Target(notice.account, notice.region)
    dedup_id = f"{'reminder' if again else 'notice'}-{notice.message_key}-{owner.key}"
    severity = Severity.CRITICAL if again else None
    return written("date", about, dedup_id, now, facts, words, owner=owner, severity=severity)


def _advice(notice: Notice, instances: Sequence[Instance]) -> str:
    if notice.reservation_id is not None:
        return "block"
    if any(one.root_device_type != "ebs" for one in instances):
        return "unstoppable"
    return "spot" if any(one.lifecycle is Lifecycle.SPOT for one in instances) else "restart"


def block_alert(
    change: BlockChange, instances: Sequence[Instance], owner: Owner, now: UtcDatetime
) -> Alert:
    """Return that a Capacity Block has begun, which is paid for whether it is used or not, or that
    its instances are terminated in minutes. `instances` are those of one owner."""
    place, which = Target(change.account, change.region), change.reservation_id
    facts: dict[str, object] = {"capacity_reservation_id": which, "instance_ids": ids(instances)}
    words = {"listed": ", ".join(map(named, instances)) or "none yet"}
    if change.is_expiring:
        facts |= {
            "what": "Capacity Block expires",
            "terminated_from": change.terminated_from,
            INCIDENT_UNTIL: change.ends_at,
        }
        about, dedup_id = only(instances) or place, f"expiring-{change.event_id}-{owner.key}"
        return written("block ends", about, dedup_id, now, facts, words, owner=owner)
    facts |= {"what": "Capacity Block delivered", "ends_at": change.ends_at}
    dedup_id = f"delivered-{which}-{iso(change.ends_at)}-{owner.key}"
    return written("block begins", place, dedup_id, now, facts, words, owner=owner)
