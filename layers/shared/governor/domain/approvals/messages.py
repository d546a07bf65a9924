"""The words of every message about an episode: the question, its reminders, and how it ended.

Pure wording. Channels place these words; none of them adds its own. This module must not know channels.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import assert_never

from governor.domain.alerts.alert import Alert, AlertKind, Section, Severity, alert_of
from governor.domain.alerts.owner import Owner
from governor.domain.approvals.approval import Answer, Approval, ApprovalStatus, Decision
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase
from governor.domain.episode.plan import Plan, Step
from governor.domain.history import idle_span
from governor.domain.instance import Lifecycle
from governor.domain.policy.policy import Mode
from governor.domain.units import Usd, UtcDatetime, iso
from governor.domain.wording import clock, day_and_time, deadline, left, people, sentence, span, usd


class Stage(StrEnum):
    """The messages of an episode before its end; `await` sends none."""

    TELL = "tell"
    ASK = "ask"
    AWAIT = "await"
    REMIND = "remind"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True)
class Words:
    """One message in reading order. `happens` says what happens by itself and when; `details` may be folded.

    `acts`: something happens to the instance unless somebody prevents it.
    """

    title: str
    happens: str
    lead: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    details: tuple[Section, ...] = ()
    button: str = "See the record"
    acts: bool = False

    @property
    def lines(self) -> tuple[str, ...]:
        """All but the title, as lines of plain text."""
        found = [self.happens, *self.lead]
        for part in (*self.sections, *self.details):
            found += ["", f"{part.heading}:", *(f"- {line}" for line in part.lines)]
        return tuple(found)


STAGES: Mapping[Stage, tuple[AlertKind, Severity, str]] = {
    Stage.TELL: (AlertKind.IDLE_FOUND, Severity.INFO, ""),
    Stage.ASK: (AlertKind.APPROVAL_REQUESTED, Severity.WARNING, ""),
    Stage.REMIND: (AlertKind.APPROVAL_REMINDER, Severity.WARNING, "Reminder: "),
    Stage.ESCALATE: (AlertKind.APPROVAL_ESCALATION, Severity.CRITICAL, "Escalation: "),
}
STAGE_OF: Mapping[AlertKind, Stage] = {kind: stage for stage, (kind, _, _) in STAGES.items()}
_STEP_TEXT: Mapping[Step, str] = {
    Step.STOP: "stop the instance",
    Step.SNAPSHOT: "snapshot all its EBS volumes as one set and wait until every snapshot is completed",
    Step.CANCEL_SPOT_REQUEST: "cancel its persistent Spot request, so that no successor is launched",
    Step.TERMINATE: "terminate the instance",
}
_SUBJECT = 98
"""Characters that SNS takes as a subject."""
_FRESH = timedelta(hours=1)
"""So long after it opened, an episode's own sentence still says how long the instance has been idle."""
_IDLE_FOR = re.compile(r"Idle for (?P<span>[^(]*?)(?: and .*| ?\(.*|\.)?$")


def step_text(step: Step) -> str:
    """Return a step in words, as an imperative."""
    return _STEP_TEXT[step]


def verb(plan: Plan) -> str:
    """Return `stop` or `terminate`."""
    return "terminate" if plan.destroys else "stop"


def _ing(plan: Plan) -> str:
    return "Terminating" if plan.destroys else "Stopping"


def price_text(episode: Episode) -> str:
    """Return `$136 a day`, or that it is not known."""
    price = episode.price.usd_per_hour
    return f"an unknown amount ({episode.price.source})" if price is None else f"{usd(price * 24)} a day"


def cost_lines(episode: Episode) -> tuple[str, ...]:
    """Return what it costs and what the plan saves, or that the price is not known; a sentence each."""
    price, source = episode.price.usd_per_hour, episode.price.source
    if price is None:
        return (f"Its price is not known ({source}).",)
    return (f"It costs {usd(price)} an hour, {usd(price * 24)} a day ({source}).", saving_text(episode.plan))


def saving_text(plan: Plan) -> str:
    """Return what the plan saves, as a sentence."""
    per_day, doing = plan.saving.saved_usd_per_day, _ing(plan)
    if not plan.steps:
        return "Nothing is saved, because nothing is done."
    if per_day is None:
        return f"{doing} it saves an unknown amount: its price or the size of a volume is not known."
    if per_day < 0:
        return f"{doing} it costs {usd(-per_day)} a day more: its snapshots cost more than it saves."
    return f"{doing} it saves {usd(per_day)} a day after storage costs."


def restart_text(episode: Episode) -> str | None:
    """Return what may stand in the way of having it back, or `None` where it is neither stopped nor
    terminated."""
    instance, steps = episode.instance, episode.plan.steps
    if Step.TERMINATE in steps:
        return (
            "It cannot be started again. It can be rebuilt from its snapshots, with another id and address, "
            f"when EC2 has capacity for {instance.instance_type}."
        )
    if Step.STOP not in steps:
        return None
    zone = instance.availability_zone or "its zone"
    if instance.lifecycle is Lifecycle.SPOT:
        return f"It starts again only when EC2 has Spot capacity for {instance.instance_type} in {zone}."
    return (
        f"A stopped instance holds no capacity. EC2 may have no {instance.instance_type} free in {zone} when "
        "you want it back; for large GPU types that can last hours or days."
    )


def plan_lines(plan: Plan) -> tuple[str, ...]:
    """Return the plan as sentences: why nothing else, its steps, what it loses and keeps."""
    lines = [sentence(reason) for reason in plan.replaced_because]
    steps = "; then ".join(step_text(step) for step in plan.steps)
    lines.append(f"The plan: {steps or 'do nothing, this is for your information'}.")
    lines += [f"It loses {loss}." for loss in plan.losses]
    lines += [f"It keeps {kept}." for kept in plan.stays]
    return tuple(lines)


def idle_text(episode: Episode, at: UtcDatetime) -> tuple[str, str]:
    """Return how long it has been idle at this moment, and the sentence that says so and why it counts."""
    found = _IDLE_FOR.match(episode.reason.strip())
    if found and at - episode.opened_at < _FRESH:
        return found["span"].strip(), sentence(episode.reason)
    known, window = None, episode.evidence.window
    if episode.history is not None:
        known = idle_span(episode.history, episode.idle_below_percent, episode.instance.launch_time)
    since = min(known.since, window.start) if known else window.start
    # Until a sweep finds it at work, which takes the question back.
    text = f"{'over ' if known and known.at_least else ''}{span(max(at, window.end) - since)}"
    return text, f"Idle for {text} (every GPU under {episode.idle_below_percent:g}%)."


def silence_text(episode: Episode, until: UtcDatetime | None = None, now: UtcDatetime | None = None) -> str:
    """Return what follows when nobody answers, and by when, as a sentence."""
    when = f" by {deadline(until, episode.time_zone, now)}" if until and now else " in time"
    if episode.acts_on_silence:
        return f"If nobody answers{when}, GPU Governor {verb(episode.plan)}s it."
    return f"If nobody answers{when}, nothing happens."


def people_text(episode: Episode) -> str:
    """Return how many people must approve, as a sentence."""
    if episode.terms.people_needed > 1:
        return "Two different people must approve, each by the link in their own mail or signed in."
    return "One approval is enough."


def mode_text(episode: Episode, at: UtcDatetime) -> str:
    """Return what happens without a question, as a sentence."""
    if not episode.plan.steps:
        return "Nothing will be done. This is for your information."
    match episode.mode:
        case Mode.OBSERVE:
            return "This is a rehearsal (mode observe): nothing happens to the instance."
        case Mode.AUTO:
            return (
                f"Mode auto: {_ing(episode.plan).lower()} it begins now, "
                f"{clock(at, episode.time_zone, at)}, after one more check. If a GPU works again by then, "
                "nothing happens."
            )
        case Mode.ASK:
            return "Nothing happens without an answer."
        case _:
            assert_never(episode.mode)


def stage_words(episode: Episode, stage: Stage, at: UtcDatetime, until: UtcDatetime | None) -> Words:
    """Return the message of a stage as it reads at this moment. `until` is when the question expires."""
    plan, (_, _, prefix) = episode.plan, STAGES[stage]
    idle, measured = idle_text(episode, at)
    price = episode.price.usd_per_hour
    cost = "" if price is None else f", {usd(price * 24)}/day"
    asks, rehearsal = stage is not Stage.TELL, episode.mode is Mode.OBSERVE
    if asks:
        by = f" Answer by {day_and_time(until, episode.time_zone, at)}" if until else ""
        closing = f"{'Terminate' if plan.destroys else 'Stop'} it?{by}"
    elif not plan.steps:
        closing = "For your information"
    else:
        closing = "Rehearsal: nothing happens" if rehearsal else f"{_ing(plan)} it now"
    conditional = "would lose" if rehearsal else "loses"
    steps = f"If you {verb(plan)} it" if asks else "What a real run would do" if rehearsal else "What is done"
    lead = (
        news_text(episode, stage, at),
        f"{measured} {saving_text(plan)}" if plan.steps and not rehearsal else measured,
        "" if price is not None else f"Its price is not known ({episode.price.source}).",
        *(sentence(reason) for reason in plan.replaced_because),
        people_text(episode) if asks else "",
        "Nobody is asked. To act on findings like this, set mode: ask in the policy."
        if rehearsal and plan.steps
        else "",
    )
    return Words(
        title=_titled(f"{prefix}{{}} idle {idle}{cost}. {closing}", episode.instance.name),
        happens=silence_text(episode, until, at) if asks else mode_text(episode, at),
        lead=tuple(filter(None, lead)),
        sections=_filled(Section(f"{_ing(plan)} it {conditional}", plan.losses)),
        details=_filled(
            Section(steps, tuple(step_text(one) for one in plan.steps)),
            Section("It would keep" if rehearsal else "It keeps", plan.stays),
            _restart(episode),
            Section(
                "Price", (f"{usd(price)} an hour ({episode.price.source})",) if price is not None else ()
            ),
        ),
        button=f"{verb(plan).capitalize()} or keep it" if asks else "See the details",
        acts=episode.acts_on_silence if asks else episode.mode is Mode.AUTO and bool(plan.steps),
    )


def _filled(*sections: Section) -> tuple[Section, ...]:
    """Leave out the sections that have no lines."""
    return tuple(section for section in sections if section.lines)


def _restart(episode: Episode) -> Section:
    text = restart_text(episode)
    return Section("Restarting later", (text,) if text else ())


def _titled(text: str, name: str) -> str:
    """Return the title with as much of the name as a subject has room for: what follows it matters more."""
    room = max(12, _SUBJECT - len(text) + 2)
    return text.replace("{}", name if len(name) <= room else f"{name[: room - 1]}…", 1)


def news_text(episode: Episode, stage: Stage, at: UtcDatetime) -> str:
    """Return what a repeated question adds: who was asked, and when. Nothing for other stages."""
    planned = episode.schedule
    if stage not in (Stage.REMIND, Stage.ESCALATE) or planned is None:
        return ""
    whom = "The contacts of " + episode.owner if episode.owner != "unassigned" else "The default contacts"
    asked = f"{left(at - planned.ask_at)} ago" if at > planned.ask_at else "before"
    if stage is Stage.REMIND:
        return f"{whom} were asked {asked}; nobody has answered yet."
    reminded = f"{left(at - planned.remind_at)} ago" if at > planned.remind_at else "since"
    return f"{whom} were asked {asked} and reminded {reminded}; nobody has answered."


def stage_alert(
    episode: Episode, stage: Stage, at: UtcDatetime, link: str | None, until: UtcDatetime | None = None
) -> Alert:
    """Return the message of a stage. `link` leads to the approval page, `until` is when the question
    expires."""
    kind, severity, _ = STAGES[stage]
    words = stage_words(episode, stage, at, until)
    return _about(episode, kind, severity, words, stage.value, at, link, until)


def _about(
    episode: Episode,
    kind: AlertKind,
    severity: Severity,
    words: Words,
    stage: str,
    at: UtcDatetime,
    link: str | None = None,
    until: UtcDatetime | None = None,
    facts: Mapping[str, object] | None = None,
) -> Alert:
    alert = alert_of(
        kind,
        severity,
        episode.ref.target,
        words.title,
        words.lines,
        f"{stage}-{episode.ref.execution_name}",
        at,
        owner=Owner(episode.owner, episode.project),
        instance=episode.instance,
        link=link,
        facts={**episode_facts(episode), "expires_at": iso(until) if until else None, **(facts or {})},
    )
    return replace(alert, lines=words.lines)


def stage_id(stage: Stage, ref: EpisodeRef) -> str:
    """Return the id of a stage's message; one message a stage."""
    return f"{stage.value}-{ref.execution_name}"


def first_yes_alert(episode: Episode, decision: Decision, expires_at: UtcDatetime) -> Alert:
    """Return that the first of two people has approved. It has no link: each channel makes its own, since
    its owner decides who may answer by it."""
    plan, at = episode.plan, decision.at
    by = people(decision.person or decision.by)
    words = Words(
        title=_titled(
            f"{{}}: one of two approved to {verb(plan)} it. A second must approve, too", episode.instance.name
        ),
        happens=silence_text(episode, expires_at, at),
        lead=(
            f"{by} approved. One more person whom the policy names by address must approve before "
            "anything is done.",
            *cost_lines(episode),
        ),
        sections=_filled(Section(f"{_ing(plan)} it loses", plan.losses)),
        button=f"{verb(plan).capitalize()} or keep it",
        acts=episode.acts_on_silence,
    )
    kind = AlertKind.APPROVAL_FIRST_YES
    return _about(episode, kind, Severity.WARNING, words, "first-yes", at, until=expires_at)


# how it ended

_GOOD = (Outcome.STOPPED, Outcome.TERMINATED, Outcome.OBSERVED, Outcome.KEPT, Outcome.EXEMPTED, Outcome.TOLD)
_TITLES: Mapping[Outcome, str] = {
    Outcome.STOPPED: "{} is stopped{saves}",
    Outcome.TERMINATED: "{} is terminated{saves}",
    Outcome.OBSERVED: "{}: the rehearsal is done, nothing happened",
    Outcome.TOLD: "{}: for your information",
    Outcome.KEPT: "{} keeps running{until}",
    Outcome.EXEMPTED: "{} is exempt and keeps running",
    Outcome.EXPIRED: "Nobody answered about {}. Nothing was changed",
    Outcome.WOKE_UP: "Canceled: {} is working again",
    Outcome.VOID: "Canceled: the question about {} no longer applies",
    Outcome.REFUSED: "{} was not {done}: a safety check refused",
    Outcome.INTERRUPTED: "Canceled: AWS takes {} back",
}
_ERRORS: Mapping[str, tuple[str, str]] = {
    "States.Timeout": ("A step took longer than its time limit.", ""),
    "States.HeartbeatTimeout": ("A step took longer than its time limit.", ""),
    "StepTimedOut": ("EC2 did not finish in time: {}", "Look at the instance in EC2."),
    "SnapshotFailed": (
        "A snapshot failed: {}",
        "Look at the snapshot in EC2, or snapshot the volumes by hand.",
    ),
    "AccessDenied": (
        "A permission is missing: {}",
        "Allow that call for GPU Governor's role in the account, as its stack does.",
    ),
    "NobodyListens": (
        "The message would have reached nobody: {}",
        "Confirm a subscription of the alert topic, or set up a channel.",
    ),
    "Throttled": ("AWS was too busy to answer: {}", ""),
    "Unavailable": ("AWS could not be reached: {}", ""),
    "RemediationFailed": ("The workflow failed: {}", ""),
}
_UNKNOWN = "the cause is not known"
_JSON_MESSAGE = re.compile(r'"errorMessage":\s*"((?:[^"\\]|\\.)*)')
_ERROR = re.compile(
    r"(?P<name>(?:States|Lambda|Sandbox)\.[A-Za-z.]+|[A-Z][a-z]+(?:[A-Z][A-Za-z0-9]*)+|Throttled|Unavailable"
    r"|Protected|Unsupported|Interrupted): ?(?P<cause>.*)",
    re.DOTALL,
)


def outcome_alert(
    ref: EpisodeRef,
    episode: Episode | None,
    outcome: Outcome,
    reason: str,
    at: UtcDatetime,
    link: str | None,
    approval: Approval | None = None,
) -> Alert:
    """Return how an episode ended. `episode` is `None` when it failed before it was written."""
    facts = {"outcome": outcome.value, "outcome_reason": reason}
    if outcome is Outcome.FAILED:
        words = _failure(ref, episode, reason)
        kind, severity = AlertKind.FAILURE, Severity.CRITICAL
    else:
        words = _end(ref, episode, outcome, reason, at, approval)
        kind, severity = AlertKind.OUTCOME, Severity.INFO if outcome in _GOOD else Severity.WARNING
    if episode is not None:
        return _about(episode, kind, severity, words, outcome.value, at, link, facts=facts)
    dedup_id, title, lines = f"{outcome.value}-{ref.execution_name}", words.title, words.lines
    alert = alert_of(kind, severity, ref.target, title, lines, dedup_id, at, link=link, facts=facts)
    return replace(alert, instance_id=ref.instance_id)


def _end(
    ref: EpisodeRef,
    episode: Episode | None,
    outcome: Outcome,
    reason: str,
    at: UtcDatetime,
    approval: Approval | None,
) -> Words:
    acted = outcome in (Outcome.STOPPED, Outcome.TERMINATED)
    saved = _saves(episode) if acted else None
    decision = approval.decision if approval else None
    until = decision.keep_until if decision and episode else None
    title = (
        _TITLES.get(outcome, "{}: " + outcome.value)
        .replace("{saves}", f". It saves {usd(saved)}/day" if saved else "")
        .replace(
            "{until}", f" until {day_and_time(until, episode.time_zone, at)}" if until and episode else ""
        )
        .replace("{done}", "terminated" if episode and episode.plan.destroys else "stopped")
    )
    lead = [_by_whom(episode, outcome, approval)]
    if outcome is Outcome.KEPT and until and episode:
        lead.append(f"It is asked about again after {clock(until, episode.time_zone, at)}.")
    if saved is not None:
        lead.append(f"This saves {usd(saved)} a day after storage costs.")
    elif not acted and outcome not in (Outcome.OBSERVED, Outcome.TOLD):
        lead.append(left_behind(episode))
    if episode is not None and not acted:
        lead.append(f"It costs {price_text(episode)} while it runs.")
    if episode is not None and episode.snapshot_ids:
        lead.append(f"Snapshots: {', '.join(episode.snapshot_ids)}.")
    when = clock(at, episode.time_zone, at) if episode else ""
    if outcome is Outcome.STOPPED:
        lead.append("Still needed? Its record has a button to start it again.")
    return Words(
        title=_titled(title, episode.instance.name if episode else ref.instance_id),
        happens=readable(reason) if saved is None else f"{readable(reason)[:-1]} ({when}).",
        lead=tuple(filter(None, lead)),
        details=_filled(_restart(episode)) if episode and acted else (),
    )


def _saves(episode: Episode | None) -> Usd | None:
    saved = episode.plan.saving.saved_usd_per_day if episode else None
    return saved if saved is not None and saved > 0 else None


def _by_whom(episode: Episode | None, outcome: Outcome, approval: Approval | None) -> str:
    """Return who decided it, where the reason does not say so."""
    if episode is None or outcome not in (Outcome.STOPPED, Outcome.TERMINATED, Outcome.REFUSED):
        return ""
    decision = approval.decision if approval else None
    if decision is not None and decision.answer is Answer.APPROVE:
        first = f"{people(approval.first_yes.by)} and " if approval and approval.first_yes else ""
        return f"Approved by {first}{people(decision.by)}."
    if episode.mode is Mode.AUTO:
        return "Mode auto: the policy asks nobody."
    expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return "Nobody answered in time, so the policy acts." if expired and episode.acts_on_silence else ""


def _failure(ref: EpisodeRef, episode: Episode | None, reason: str) -> Words:
    name = episode.instance.name if episode else ref.instance_id
    error, _ = _taken_apart(reason)
    _, advice = _ERRORS.get(error, ("", ""))
    cost = f"It costs {price_text(episode)} while it runs." if episode else ""
    next_step = f"{advice or 'See its record for each step.'} GPU Governor asks again if it stays idle."
    return Words(
        title=_titled(f"Could not {_failed_at(episode, error)}. {_in_short(episode)}", name),
        happens=left_behind(episode),
        lead=tuple(filter(None, (readable(reason or _UNKNOWN), cost, f"Next step: {next_step}"))),
    )


def _taken_apart(reason: str) -> tuple[str, str]:
    """Return the error's name and what it says; Lambda wraps the latter in JSON."""
    found = _ERROR.fullmatch(reason.strip())
    if found is None:
        return "", reason
    name, cause = found["name"], found["cause"]
    inner = _JSON_MESSAGE.search(cause)
    if inner is not None:
        cause = inner[1].replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
    if name.startswith(("Lambda.", "Sandbox.", "States.")) and name not in _ERRORS:
        return "", f"a function of GPU Governor failed: {cause or 'it gave no cause'}"
    return name, cause or "no cause was given"


def _failed_at(episode: Episode | None, error: str) -> str:
    if episode is None or (not episode.steps_done and episode.phase in (Phase.OPENING, Phase.ASKING)):
        return "ask about {}"
    done = [step for step in episode.plan.steps if step.value in episode.steps_done]
    waiting = error in ("StepTimedOut", "SnapshotFailed")
    next_step = next((step for step in episode.plan.steps if step not in done), Step.STOP)
    step = done[-1] if done and (waiting or len(done) == len(episode.plan.steps)) else next_step
    # The names of the others are verbs.
    return "cancel the Spot request of {}" if step is Step.CANCEL_SPOT_REQUEST else f"{step.value} {{}}"


def _in_short(episode: Episode | None) -> str:
    done = _really_done(episode)
    if Step.TERMINATE.value in done:
        return "Its termination was requested"
    if Step.STOP.value not in done:
        return "Nothing was changed" if not done else "Nothing was deleted"
    return (
        f"{'It is stopped' if Step.SNAPSHOT.value in done else 'Its stop was requested'}; nothing was deleted"
    )


def _really_done(episode: Episode | None) -> Mapping[str, UtcDatetime]:
    return {} if episode is None or episode.mode is Mode.OBSERVE else episode.steps_done


def left_behind(episode: Episode | None) -> str:
    """Return what was and was not done by a flow that did not get to its end, as sentences."""
    done = _really_done(episode)
    if Step.TERMINATE.value in done:
        return "Its termination was requested once its snapshots were completed: see in EC2 if it is gone."
    parts = []
    if Step.STOP.value in done:
        parts.append("it is stopped" if Step.SNAPSHOT.value in done else "its stop was requested")
    if Step.SNAPSHOT.value in done:
        parts.append("its snapshots were started")
    if Step.CANCEL_SPOT_REQUEST.value in done:
        parts.append("its Spot request was canceled")
    if not parts:
        return "Nothing was changed."
    return sentence(f"{' and '.join(parts)}; nothing was deleted, and nothing more will be done")


def readable(reason: str) -> str:
    """Return a recorded reason as a sentence for people."""
    error, cause = _taken_apart(reason)
    text, _ = _ERRORS.get(error, ("{}", ""))
    return sentence(people(text.replace("{}", cause)))


def undo_alert(episode: Episode, by: str, channel: str, at: UtcDatetime) -> Alert:
    """Return that somebody had the stopped instance started again."""
    words = Words(
        title=_titled("{} was started again", episode.instance.name),
        happens=f"{people(by)} started it again through the {channel}.",
        lead=(
            f"It costs {price_text(episode)} again while it runs.",
            "It is judged again like any other instance once the policy's time after an undo has passed.",
        ),
    )
    facts = {"undone_by": by, "channel": channel}
    return _about(episode, AlertKind.UNDONE, Severity.INFO, words, "undone", at, facts=facts)


def episode_facts(episode: Episode) -> dict[str, object]:
    """Return the episode as plain JSON data, for machines that subscribe. Holds no task token and no link."""
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
        "acts_on_silence": episode.acts_on_silence,
        "people_needed": episode.terms.people_needed,
        "time_zone": episode.time_zone,
    }
