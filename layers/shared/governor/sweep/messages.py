"""Messages about what a sweep finds: idle instances, silent ones, and a freeze of all plans.

They only word what the sweep has judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from governor.alerts.model import (
    EVERYWHERE,
    Alert,
    Owner,
    instance_ids,
    instance_text,
    name_or_count,
    only_instance,
)
from governor.alerts.templates import alert_from_template, template_lines
from governor.core.catalog import shape_of
from governor.core.hashing import short_hash
from governor.core.instance import Instance, Target
from governor.core.managed_environments import EnvironmentKind, ManagedEnvironment
from governor.core.units import (
    UsdPerHour,
    UtcDatetime,
    clock,
    daily_cost,
    iso,
    plural,
    some_of,
    span,
    times_in_zone,
    usd,
)
from governor.episode.model.standing import StandingState, StateKind
from governor.episode.rules.standing import WORDS
from governor.evidence.rules.series import last_reading_end
from governor.policy.model.names import TagMatch
from governor.sweep.model import BatchEnvironment, Devices, IdleMember
from governor.sweep.rules import group_key
from governor.verdict.model import Verdict

_MEMBERS_NAMED = 20
"""Idle members of an environment that its message names; the facts hold all."""
_INSTANCES_NAMED = 50
"""Instances that any other message names; the facts hold all."""


def _slug(kind: EnvironmentKind) -> str:
    """Return the kind of an environment as facts and templates name it: `node-group`."""
    return kind.name.lower().replace("_", "-")


NVIDIA = Devices("NVIDIA", "GPUs", "nvidia.com/gpu")
_DEVICES = (
    NVIDIA,
    Devices("AMD", "GPUs", "amd.com/gpu"),
    Devices("AWS", "Neuron devices", "aws.amazon.com/neuron"),
    Devices("Habana", "Gaudi accelerators", "habana.ai/gaudi"),
    Devices("Qualcomm", "accelerators", "qualcomm.com/qaic"),
)
"""By vendor as the catalog names it. Sources: the device plugins of the vendors for Kubernetes."""
_OTHER_DEVICES = Devices("", "accelerators", "accelerators")


def devices_of(instance_types: Iterable[str]) -> Devices:
    """Return the words for the accelerators of these types. They name no vendor if there is no
    type, a type is not in the catalog, the types have several vendors, or the only one is not in
    `_DEVICES`."""
    vendors = set()
    for instance_type in instance_types:
        shape = shape_of(instance_type)
        vendors.add(shape.vendor if shape else "")
    for devices in _DEVICES:
        if vendors == {devices.vendor}:
            return devices
    return _OTHER_DEVICES


def advice_for(
    environment: ManagedEnvironment, batch: BatchEnvironment | None, devices: Devices = NVIDIA
) -> list[str]:
    """Return the lines of advice for the owner of an environment: why idle instances stay there,
    and the command or setting that changes that.

    `batch` is the environment as AWS Batch describes it; `None` for other kinds, and if it could
    not be read. `devices` are the words for the accelerators of its idle instances.
    """
    state = _batch_state(batch)
    values = {
        "kind": _slug(environment.kind),
        "runs": environment.runs,
        "service": environment.service,
        "name": environment.name or "NAME",
        "cluster": environment.cluster or "CLUSTER",
        "state": state,
        "has_checks": state in ("stuck", "doubted"),
        "batch": batch,
        "devices": devices,
        "running": None,
        "waiting": None,
        "eks_name": "",
    }
    if batch is not None:
        running = _jobs(batch.jobs_running, "running", has_more=batch.has_more_running)
        waiting = _jobs(batch.jobs_waiting, "waiting", has_more=batch.has_more_waiting)
        values["running"] = running
        values["waiting"] = waiting
        values["eks_name"] = batch.eks_cluster.rpartition("/")[2]
    return template_lines("managed advice", values)


def _batch_state(batch: BatchEnvironment | None) -> str:
    """Return why a compute environment keeps its instances, as the template names it.

    `jobs` run; jobs are `stuck`, or it is `doubted` that none is, because the running ones may run
    elsewhere; its `minimum` of vCPUs is above 0 without any job or while all jobs are `waiting` for
    something else; it is `free` to shrink; or it is `unread` (`batch` is `None`).
    """
    if batch is None:
        return "unread"
    if batch.has_stuck_jobs:
        return "stuck"
    if batch.may_have_stuck_jobs:
        return "doubted"
    if batch.jobs_running:
        return "jobs"
    if not batch.minimum_vcpus:
        return "free"
    return "waiting" if batch.jobs_waiting else "minimum"


def _jobs(count: int, state: str, *, has_more: bool) -> str:
    """Return the number of jobs in a state (`running` or `waiting`) as text: `2 jobs are running`,
    `no job is waiting`; `100 or more jobs are running` if there are more than were counted."""
    if has_more:
        return f"{count} or more jobs are {state}"
    if count == 0:
        return f"no job is {state}"
    if count == 1:
        return f"1 job is {state}"
    return f"{count} jobs are {state}"


def managed_alert(
    environment: ManagedEnvironment,
    idle: Sequence[IdleMember],
    governed: int,
    target: Target,
    now: UtcDatetime,
    *,
    owner: Owner,
    advice: Sequence[str],
) -> Alert:
    """Return the message to the owner of an environment about its `idle` instances, at least one.

    `governed` is how many governed instances it has. `advice` are the lines of `advice_for`.
    Members without a known price are counted in the text, and missing in its amounts.
    """
    usd_per_hour = _usd_per_hour(idle)
    usd_per_day = daily_cost(usd_per_hour)
    unpriced = sum(member.usd_per_hour is None for member in idle)
    unpriced_text = f", not counting {unpriced} of unknown price" if unpriced else ""
    idle_since = min(member.since for member in idle)
    lines = [_line(member, now) for member in idle]
    facts = {
        "service": environment.service,
        "environment_kind": _slug(environment.kind),
        "environment": environment.name,
        "cluster": environment.cluster,
        "instance_ids": instance_ids([member.instance for member in idle]),
        "usd_per_hour": usd_per_hour,
    }
    usd_known = usd_per_day if unpriced < len(idle) else None
    words = {
        "managed_environment": environment,
        "name": idle[0].instance.name,
        "which": _which(idle),
        "cost": "" if usd_known is None else f", {usd(usd_known)}/day",
        "longest": span(now - idle_since),
        "usd": usd_known,
        "number": len(idle),
        "governed": governed,
        "unpriced": unpriced_text,
        "advice": advice,
        "listed": some_of(lines, _MEMBERS_NAMED),
    }
    dedup_id = f"managed-{short_hash(group_key(target, environment, owner))}-{iso(now)}"
    return alert_from_template("managed", target, dedup_id, now, facts, words, owner=owner)


def _usd_per_hour(idle: Sequence[IdleMember]) -> UsdPerHour:
    """Return the total price of the members whose price is known; 0 if none is."""
    return sum((member.usd_per_hour or Decimal(0) for member in idle), Decimal(0))


def _which(idle: Sequence[IdleMember]) -> str:
    """Return the subject of the message: `3 GPU instances`, or the only one with its type:
    `notebook-7 (g5.12xlarge)`."""
    if len(idle) > 1:
        return f"{len(idle)} GPU instances"
    instance = idle[0].instance
    return f"{instance.name} ({instance.instance_type})"


def _line(member: IdleMember, now: UtcDatetime) -> str:
    """Return the line of a member: its name, and for how long it was measured idle. No beginning is
    named: the first sweep that sees a member reads only the last hour."""
    return f"{instance_text(member.instance)}: idle for at least {span(now - member.since)}"


def idle_event(
    instance: Instance, verdict: Verdict, idle_since: UtcDatetime, owner: Owner, now: UtcDatetime
) -> Alert:
    """Return the event, for machines alone, that an instance has been idle since `idle_since`. Its
    id is the same whenever it is made for this idle stretch."""
    facts = {"idle_since": idle_since, "reason": verdict.reason}
    dedup_id = f"instance-idle-{instance.instance_id}-{iso(idle_since)}"
    return alert_from_template("idle", instance, dedup_id, now, facts, owner=owner)


def silent_alert(
    target: Target,
    silent: Sequence[tuple[Instance, Verdict]],
    owner: Owner,
    now: UtcDatetime,
    *,
    outage: bool,
) -> Alert:
    """Return one message about instances that publish no metrics any more, at least one, each with
    its verdict.

    They are those of `owner`; in an `outage`, those of all owners, and `owner` is the default one.
    """
    instances = [instance for instance, _ in silent]
    lines = []
    for instance, verdict in silent:
        since = _since(verdict, owner, now)
        reason = times_in_zone(verdict.reason, owner.time_zone, now)
        lines.append(f"{instance_text(instance)}: {since}{reason}")
    facts = {"instance_ids": instance_ids(instances), "outage": outage}
    words = {"which": name_or_count(instances), "listed": some_of(lines, _INSTANCES_NAMED)}
    dedup_id = f"silent-{target}-{iso(now)}-{owner.key}"
    return alert_from_template(
        "silent", only_instance(instances) or target, dedup_id, now, facts, words, owner=owner
    )


def _since(verdict: Verdict, owner: Owner, now: UtcDatetime) -> str:
    """Return since when a GPU has had no reading, as the start of a sentence: `since Sat 04:02
    Berlin (03:02 UTC), `, with `or earlier` if that is the start of the window.

    Return an empty text if nothing was read, or if readings still come, but too few.
    """
    evidence = verdict.evidence
    if evidence is None:
        return ""
    window = evidence.window
    ends = [last_reading_end(gpu.utilization, window) for gpu in evidence.gpus]
    since = min(ends, default=window.start)
    if since >= window.end:
        return ""
    earlier = " or earlier" if since <= window.start else ""
    return f"since {clock(since, owner.time_zone, now)}{earlier}, "


def exemption_alert(
    target: Target,
    kept: Sequence[tuple[Instance, str]],
    exemption: TagMatch,
    owner: Owner,
    now: UtcDatetime,
) -> Alert:
    """Return one message to an owner about instances, at least one, whose exemption tag is not
    spelled as the policy's (`exemption`), and which are left alone all the same.

    `kept` holds each instance with its tag, as `gpu-governor=exempt`.
    """
    instances = [instance for instance, _ in kept]
    lines = some_of(
        [f"{instance_text(instance)}: {tag}" for instance, tag in kept], _INSTANCES_NAMED
    )
    words = {"which": name_or_count(instances), "listed": lines, "exemption": exemption}
    facts = {"instance_ids": instance_ids(instances)}
    dedup_id = f"exemption-{target}-{iso(now)}-{owner.key}"
    return alert_from_template(
        "exemption", only_instance(instances) or target, dedup_id, now, facts, words, owner=owner
    )


def standing_alert(
    kind: StateKind, states: Sequence[StandingState], hub: Target, now: UtcDatetime
) -> Alert:
    """Return one message that these states, at least one, have begun. `hub` is the account and
    Region of GPU Governor. The id of the message is the same whenever it is made for the same
    states."""
    lines = [f"{state.place}: {state.reason}" for state in states]
    facts = _facts_of_states(kind, states)
    words = {
        "which": _places(states),
        "words": WORDS[kind],
        "listed": some_of(lines, _INSTANCES_NAMED),
    }
    dedup_id = f"standing-{kind.value}-{_states_key(states)}"
    about = _only_target(states) or hub
    return alert_from_template("standing", about, dedup_id, now, facts, words)


def standing_over_alert(
    kind: StateKind, states: Sequence[StandingState], hub: Target, now: UtcDatetime
) -> Alert:
    """Return one message that these states, at least one, are over, or that their targets are no
    targets any more. `hub` is the account and Region of GPU Governor."""
    lines = [f"{state.place}: since {clock(state.since, 'UTC', now)}" for state in states]
    over = "GPU Governor sweeps these places again, or the policy no longer names them."
    if kind is StateKind.CANNOT_TAG:
        over = "The tags are up to date again, or no longer needed."
    facts = _facts_of_states(kind, states)
    words = {
        "which": _places(states),
        "words": WORDS[kind],
        "over": over,
        "listed": some_of(lines, _INSTANCES_NAMED),
    }
    dedup_id = f"standing-over-{kind.value}-{_states_key(states)}"
    about = _only_target(states) or hub
    return alert_from_template("standing over", about, dedup_id, now, facts, words)


def _only_target(states: Sequence[StandingState]) -> Target | None:
    """Return the account and Region of these states; `None` if they are of several, and the message
    is then about the hub's."""
    targets = {state.target for state in states}
    return targets.pop() if len(targets) == 1 else None


def _places(states: Sequence[StandingState]) -> str:
    """Return where the states are, for a title: the only place, or how many there are."""
    if len(states) == 1:
        return states[0].place
    instance_count = sum(bool(state.instance_id) for state in states)
    if instance_count == len(states):
        return plural(len(states), "instance")
    if instance_count == 0:
        return plural(len(states), "target")
    return plural(len(states), "place")


def _facts_of_states(kind: StateKind, states: Sequence[StandingState]) -> dict[str, object]:
    """Return the facts of a message about these states, for machines: the kind of all of them,
    their targets and instances, and whether they are of several targets (`EVERYWHERE`, only then).
    """
    named_ids = []
    for state in states:
        if state.instance_id:
            named_ids.append(state.instance_id)
    facts: dict[str, object] = {
        "state": kind.value,
        "targets": sorted({str(state.target) for state in states}),
        "instance_ids": named_ids,
    }
    if _only_target(states) is None:
        facts[EVERYWHERE] = True
    return facts


def _states_key(states: Sequence[StandingState]) -> str:
    """Return a hash of places and beginnings of these states."""
    return short_hash(*(f"{state.place} {iso(state.since)}" for state in states))
