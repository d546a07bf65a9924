"""What is told about an episode: the readable text and the facts of each message.

Pure wording. Channels render it; this module must not know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import assert_never

from governor.domain.alert import Alert, AlertKind, Severity
from governor.domain.episode import Episode, EpisodeRef, Outcome
from governor.domain.instance import Lifecycle
from governor.domain.plan import Plan, Step
from governor.domain.policy import Mode
from governor.domain.units import UtcDatetime, iso, money


class Stage(StrEnum):
    """The messages of an episode before its end; `await` sends none."""

    TELL = "tell"
    ASK = "ask"
    AWAIT = "await"
    REMIND = "remind"
    ESCALATE = "escalate"


_STAGES: Mapping[Stage, tuple[AlertKind, Severity, str]] = {
    Stage.TELL: (AlertKind.IDLE_FOUND, Severity.INFO, "Idle GPU"),
    Stage.ASK: (AlertKind.APPROVAL_REQUESTED, Severity.WARNING, "Please decide: idle GPU"),
    Stage.REMIND: (AlertKind.APPROVAL_REMINDER, Severity.WARNING, "Reminder: idle GPU"),
    Stage.ESCALATE: (AlertKind.APPROVAL_ESCALATION, Severity.CRITICAL, "Escalation: idle GPU"),
}

_STEP_TEXT: Mapping[Step, str] = {
    Step.STOP: "stop the instance",
    Step.SNAPSHOT: "snapshot all its EBS volumes as one set and wait until every snapshot is completed",
    Step.CANCEL_SPOT_REQUEST: "cancel its persistent Spot request, so that no successor is launched",
    Step.TERMINATE: "terminate the instance",
}


def step_text(step: Step) -> str:
    """A step in words, as an imperative."""
    return _STEP_TEXT[step]


def cost_lines(episode: Episode) -> tuple[str, ...]:
    """What it costs and what the plan would save, or that the price is not known."""
    price = episode.price
    if price.usd_per_hour is None:
        return (f"Cost: not known ({price.source})",)
    lines = [
        f"Cost: {money(price.usd_per_hour, 4)} USD an hour, {money(price.usd_per_hour * 24)} USD a day "
        f"({price.source})"
    ]
    lines.append(_saving_line(episode.plan))
    return tuple(lines)


def _saving_line(plan: Plan) -> str:
    per_day = plan.saving.saved_usd_per_day
    if not plan.steps:
        return "Nothing is saved, because nothing is done"
    if per_day is None:
        return "What the plan would save is not known: the size of a volume is not"
    if per_day < 0:
        return f"The plan would cost {money(-per_day)} USD a day more: its snapshots cost more than it saves"
    return f"The plan would save {money(per_day)} USD a day, what stays already subtracted"


def restart_text(episode: Episode) -> str | None:
    """What may stand in the way of having it back, or `None` where nothing is put away."""
    instance, steps = episode.instance, episode.plan.steps
    if Step.TERMINATE in steps:
        return (
            "It cannot be started again. It can be rebuilt from its snapshots, with another id and address, "
            f"when EC2 has capacity for {instance.instance_type}"
        )
    if Step.STOP not in steps:
        return None
    zone = instance.availability_zone or "its zone"
    if instance.lifecycle is Lifecycle.SPOT:
        return f"Started again only when EC2 has Spot capacity for {instance.instance_type} in {zone}"
    return (
        f"A stopped instance holds no capacity: EC2 may have no {instance.instance_type} free in {zone} when "
        "you want it back, for hours or days with large GPU types"
    )


def plan_lines(plan: Plan) -> tuple[str, ...]:
    """What will be done, why not something else, what is lost and what stays."""
    lines = [f"Not possible: {reason}" for reason in plan.replaced_because]
    if plan.steps:
        lines.append("What will be done: " + "; then ".join(step_text(step) for step in plan.steps))
    else:
        lines.append("What will be done: nothing, this is for your information")
    lines += [f"Lost: {loss}" for loss in plan.losses]
    lines += [f"Stays: {kept}" for kept in plan.stays]
    return tuple(lines)


def stage_alert(episode: Episode, stage: Stage, at: UtcDatetime, link: str | None) -> Alert:
    """The message of a stage. `link` leads to the approval page."""
    kind, severity, title = _STAGES[stage]
    instance = episode.instance
    lines = [
        f"{instance.name} ({instance.instance_id}, {instance.instance_type}) in {instance.target}: "
        f"{episode.reason}.",
        *cost_lines(episode),
        *plan_lines(episode.plan),
    ]
    lines += _mode_lines(episode, stage)
    if link is not None:
        lines.append(f"{'See it' if stage is Stage.TELL else 'Look and decide'}: {link}")
    return Alert(
        kind=kind,
        severity=severity,
        account=episode.ref.account,
        region=episode.ref.region,
        subject=f"{title} {instance.instance_type} {instance.name}",
        lines=tuple(lines),
        dedup_id=stage_id(stage, episode.ref),
        at=at,
        instance_id=instance.instance_id,
        owner=episode.owner,
        project=episode.project,
        link=link,
        facts=episode_facts(episode),
    )


def stage_id(stage: Stage, ref: EpisodeRef) -> str:
    """The id of a stage's message; one message a stage."""
    return f"{stage.value}-{ref.execution_name}"


def silence_text(episode: Episode) -> str:
    """What follows when nobody answers, as a sentence."""
    if episode.acts_on_silence:
        return "Without an answer until the question expires, the plan is carried out."
    return "Without an answer nothing is done."


def _mode_lines(episode: Episode, stage: Stage) -> tuple[str, ...]:
    if stage is not Stage.TELL:
        return (silence_text(episode),)
    if not episode.plan.steps:
        return ()
    match episode.mode:
        case Mode.OBSERVE:
            return ("Mode observe: every call is made as a dry run; nothing happens to the instance.",)
        case Mode.AUTO:
            return ("Mode auto: this begins now, after one more look at the evidence.",)
        case Mode.ASK:
            return ()
        case _:
            assert_never(episode.mode)


_GOOD = (Outcome.STOPPED, Outcome.TERMINATED, Outcome.OBSERVED, Outcome.KEPT, Outcome.EXEMPTED, Outcome.TOLD)


def outcome_alert(
    ref: EpisodeRef, episode: Episode | None, outcome: Outcome, reason: str, at: UtcDatetime, link: str | None
) -> Alert:
    """How an episode ended. `episode` is `None` when it failed before it was written."""
    failed = outcome is Outcome.FAILED
    severity = Severity.INFO if outcome in _GOOD else Severity.WARNING
    name = episode.instance.name if episode else ref.instance_id
    lines = [f"{name} ({ref.instance_id}) in {ref.target}: {outcome.value}. {reason}".strip()]
    if outcome in (Outcome.FAILED, Outcome.REFUSED):
        lines.append(_left_behind(episode))
    if episode is not None and episode.snapshot_ids:
        lines.append(f"Snapshots: {', '.join(episode.snapshot_ids)}")
    if episode is not None and outcome in (Outcome.STOPPED, Outcome.TERMINATED):
        lines += cost_lines(episode)
    if link is not None:
        lines.append(f"The record: {link}")
    return Alert(
        kind=AlertKind.FAILURE if failed else AlertKind.OUTCOME,
        severity=Severity.CRITICAL if failed else severity,
        account=ref.account,
        region=ref.region,
        subject=f"{name}: {outcome.value}",
        lines=tuple(lines),
        dedup_id=f"{outcome.value}-{ref.execution_name}",
        at=at,
        instance_id=ref.instance_id,
        owner=episode.owner if episode else "unassigned",
        project=episode.project if episode else "unassigned",
        link=link,
        facts={
            **(episode_facts(episode) if episode else {}),
            "outcome": outcome.value,
            "outcome_reason": reason,
        },
    )


def undo_alert(episode: Episode, by: str, channel: str, at: UtcDatetime) -> Alert:
    """Somebody had the stopped instance started again."""
    instance = episode.instance
    return Alert(
        kind=AlertKind.UNDONE,
        severity=Severity.INFO,
        account=episode.ref.account,
        region=episode.ref.region,
        subject=f"{instance.name}: started again",
        lines=(
            f"{by} had {instance.name} ({instance.instance_id}) in {instance.target} started again "
            f"through the {channel}.",
            "It costs again what it cost before, and is judged again like any other instance.",
        ),
        dedup_id=f"undone-{episode.ref.execution_name}",
        at=at,
        instance_id=instance.instance_id,
        owner=episode.owner,
        project=episode.project,
        facts={**episode_facts(episode), "undone_by": by, "channel": channel},
    )


def _left_behind(episode: Episode | None) -> str:
    """What a flow that did not get to its end had asked of EC2 before."""
    done = {} if episode is None or episode.mode is Mode.OBSERVE else episode.steps_done
    if Step.TERMINATE.value in done:
        return "Its termination had been asked of EC2 before: look whether it still exists."
    if Step.STOP.value in done:
        return "Its stop had been asked of EC2 before; nothing was destroyed, and nothing more is done."
    return "Nothing was done to the instance, and nothing more is done."


def episode_facts(episode: Episode) -> dict[str, object]:
    """The episode as plain JSON data, for machines that subscribe. Holds no task token and no link."""
    saving = episode.plan.saving.saved_usd_per_hour
    price = episode.price.usd_per_hour
    return {
        "episode": episode.ref.execution_name,
        "instance_type": episode.instance.instance_type,
        "instance_name": episode.instance.name,
        "launch_time": iso(episode.instance.launch_time),
        "mode": episode.mode.value,
        "reason": episode.reason,
        "evidence_hash": episode.evidence_hash,
        "policy_version": episode.policy_version,
        "action": episode.plan.action.value,
        "steps": [step.value for step in episode.plan.steps],
        "usd_per_hour": None if price is None else str(price),
        "saved_usd_per_hour": None if saving is None else str(saving),
        "price_source": episode.price.source,
    }
