"""Messages about an episode: the question, its reminders, and how it ended.

Channels place these words and add none of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import NamedTuple

from governor.alerts.model import (
    REPEATS,
    UNASSIGNED,
    Alert,
    AlertKind,
    Incident,
    Owner,
    Severity,
    Words,
)
from governor.alerts.templates import alert_of, said, worded, written
from governor.approvals.model.approval import Answer, Approval, ApprovalStatus, Decision, Stage
from governor.approvals.rules.approval import stage_id
from governor.core.episode_ref import EpisodeRef
from governor.core.errors import GovernorError, TooLate
from governor.core.hashing import short_hash
from governor.core.instance import Lifecycle, Target
from governor.core.units import (
    UtcDatetime,
    day_and_time,
    deadline,
    iso,
    left,
    minutes,
    people,
    sentence,
    span,
    usd,
)
from governor.episode.model.episode import Episode, Failing, Outcome, Phase
from governor.episode.model.plan import Plan, Step
from governor.policy.model.policy import Mode

_KIND_OF: Mapping[Stage, tuple[AlertKind, Severity]] = {
    Stage.TELL: (AlertKind.IDLE_FOUND, Severity.INFO),
    Stage.ASK: (AlertKind.APPROVAL_REQUESTED, Severity.WARNING),
    Stage.REMIND: (AlertKind.APPROVAL_REMINDER, Severity.WARNING),
    Stage.ESCALATE: (AlertKind.APPROVAL_ESCALATION, Severity.CRITICAL),
}
STAGE_OF: Mapping[AlertKind, Stage] = {kind: stage for stage, (kind, _) in _KIND_OF.items()}
PREFIXES = {
    Stage.TELL: "",
    Stage.ASK: "",
    Stage.REMIND: "Reminder: ",
    Stage.ESCALATE: "Escalation: ",
}
STEP_TEXT: Mapping[Step, str] = {
    Step.STOP: "stop the instance",
    Step.SNAPSHOT: (
        "snapshot all its EBS volumes as one set and wait until every snapshot is completed"
    ),
    Step.CANCEL_SPOT_REQUEST: (
        "cancel its persistent Spot request, so that no successor is launched"
    ),
    Step.TERMINATE: "terminate the instance",
}
_NAMED = 40
"""Instances named in one message; the facts hold all."""
_FRESH = timedelta(hours=1)
"""For this long a measurement is given without its age."""
_GOOD = (
    Outcome.STOPPED,
    Outcome.TERMINATED,
    Outcome.OBSERVED,
    Outcome.KEPT,
    Outcome.EXEMPTED,
    Outcome.TOLD,
)
_ASKED_AGAIN = (Outcome.OBSERVED, Outcome.EXPIRED, Outcome.REFUSED, Outcome.HELD, Outcome.FAILED)
_TIMEOUTS = ("States.Timeout", "States.HeartbeatTimeout")
_WAITING = ("StepTimedOut", "SnapshotFailed")
"""Errors of a step that was begun and did not complete."""
_JSON_MESSAGE = re.compile(r'"errorMessage":\s*"((?:[^"\\]|\\.)*)')
_ERROR = re.compile(
    r"(?P<name>(?:States|Lambda|Sandbox)\.[A-Za-z.]+|[A-Z][a-z]+(?:[A-Z][A-Za-z0-9]*)+|Throttled"
    r"|Unavailable|Protected|Unsupported|Interrupted): ?(?P<cause>.*)",
    re.DOTALL,
)
_VARIES = re.compile(r"\b[a-z]+-[0-9a-f]{8,17}\b|[0-9a-f]{8}-[0-9a-f-]{27}|\S{60,}|\d+")
"""Ids, times, ARNs and encoded texts: parts that differ between failures of one cause."""
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d)?Z")


def stage_name(stage: str) -> str:
    """Return what people call a message, by the stage or the outcome in its id."""
    return said("stage name", {"stage": stage, "plain": stage.replace("-", " ")})[0]


def price_text(episode: Episode) -> str:
    """Return `$136 a day`, or that it is not known."""
    if episode.stopped_in is not None:
        storage_usd_per_hour = episode.plan.saving.cost_before_usd_per_hour
        if storage_usd_per_hour is None:
            return "an unknown amount"
        return f"{usd(storage_usd_per_hour * 24)} a day for its storage"
    price = episode.price.usd_per_hour
    if price is None:
        return f"an unknown amount ({episode.price.source})"
    return f"{usd(price * 24)} a day"


def cost_lines(episode: Episode) -> tuple[str, ...]:
    """Return what it costs and what the plan saves, or that the price is not known.

    Each line is a sentence.
    """
    price = episode.price.usd_per_hour
    source = episode.price.source
    if episode.stopped_in is not None:
        return f"It costs {price_text(episode)}.", saving_text(episode.plan)
    if price is None:
        return (f"Its price is not known ({source}).",)
    if not price:
        return (f"It adds nothing to the bill: {source}.",)
    return (
        f"It costs {usd(price)} an hour, {usd(price * 24)} a day ({source}).",
        saving_text(episode.plan),
    )


def saving_text(plan: Plan) -> str:
    """Return what the plan saves or costs a day, as a sentence."""
    saved_per_day = plan.saving.saved_usd_per_day or Decimal(0)
    values = {"kind": _saving_kind(plan), "plan": plan, "usd": abs(saved_per_day)}
    return said("saving", values)[0]


def _saving_kind(plan: Plan) -> str:
    saved_per_day = plan.saving.saved_usd_per_day
    if not plan.steps:
        return "nothing"
    if saved_per_day is None:
        return "unknown"
    return "costs" if saved_per_day < 0 else "saves"


def restart_text(episode: Episode, *, only_stopped: bool = False) -> str:
    """Return the obstacles to a restart, as a sentence.

    Return an empty text if it is neither stopped nor terminated. `only_stopped` asks about the time
    before, or without, the planned termination.
    """
    instance = episode.instance
    steps = episode.plan.steps
    if Step.TERMINATE in steps and not only_stopped:
        kind = "gone"
    elif Step.STOP not in steps:
        return ""
    elif instance.lifecycle is Lifecycle.SPOT:
        kind = "spot"
    else:
        kind = "stopped"
    values = {"kind": kind, "one": instance, "zone": instance.availability_zone or "its zone"}
    return said("restart", values)[0]


def plan_lines(episode: Episode) -> tuple[str, ...]:
    """Return the plan as sentences: why it differs from the policy's action, its steps, what it
    loses and what it keeps."""
    steps = "; then ".join(STEP_TEXT[step] for step in episode.own_plan)
    return tuple(said("plan", {"plan": episode.plan, "steps": steps}))


class IdleText(NamedTuple):
    """The time for which an instance has been idle, in the forms that messages and pages need."""

    title: str
    """`idle 6 h`"""
    sentence: str
    """`Idle for 6 h (every GPU under 5%).`"""
    predicate: str
    """`has been idle for 6 h`, to follow a name"""


def idle_text(episode: Episode, at: UtcDatetime, *, is_open: bool = True) -> IdleText:
    """Return for how long it was measured idle.

    A measurement that is an hour old or older is given with its age. While the question or its
    notice `is_open`, no sweep has seen work since.
    """
    if episode.stopped_in is not None:
        stopped_for = left(at - episode.steps_done[Step.STOP.value])
        title = f"stopped for {stopped_for}"
        return IdleText(title, sentence(episode.reason), f"has been {title}")
    if episode.idle_for is not None and at - episode.opened_at < _FRESH:
        return _idle_for_text(span(episode.idle_for), sentence(episode.reason))
    return _measured_text(episode, at, is_open=is_open)


def _idle_for_text(idle_for: str, reason: str) -> IdleText:
    return IdleText(f"idle {idle_for}", reason, f"has been idle for {idle_for}")


def _measured_text(episode: Episode, at: UtcDatetime, *, is_open: bool) -> IdleText:
    """Return the same by the measurements, if the episode is older or does not hold the time."""
    window = episode.evidence.window
    idle = episode.idle
    since = window.start
    began_earlier = False
    if idle is not None:
        since = min(idle.since, window.start)
        began_earlier = idle.at_least

    idle_for = span(window.end - since)
    if began_earlier:
        idle_for = f"over {idle_for}"
    measured = f"Idle for {idle_for} (every GPU under {episode.idle_below_percent:g}%)"
    if at - window.end < _FRESH:
        return _idle_for_text(idle_for, f"{measured}.")

    age = left(at - window.end)
    measured = f"{measured} when this was found {age} ago"
    if not is_open or episode.outcome is not None:
        title = f"found idle {age} ago"
        return IdleText(title, f"{measured}.", f"was {title}")
    start = day_and_time(since, episode.time_zone, at)
    if began_earlier:
        start = f"before {start}"
    title = f"idle since {start}"
    return IdleText(title, f"{measured}, and not seen at work since.", f"has been {title}")


def state_text(episodes: Iterable[Episode]) -> str:
    """Return the state of the instances in several questions: idle, stopped, or both."""
    states = {"idle" if episode.stopped_in is None else "stopped" for episode in episodes}
    if len(states) > 1:
        return "idle or stopped"
    return "stopped" if "stopped" in states else "idle"


def refused_text(error: GovernorError) -> str:
    """Return the line of a list about an answer that was refused or too late, in whole
    sentences."""
    if isinstance(error, TooLate):
        return sentence(str(error))
    return f"Not recorded: {error}."


def silence_text(
    episode: Episode, until: UtcDatetime | None = None, now: UtcDatetime | None = None
) -> str:
    """Return what happens if nobody answers, with the time if it is known, as a sentence."""
    when = "in time"
    if until and now:
        when = f"by {deadline(until, episode.time_zone, now)}"
    if episode.acts_on_silence:
        return f"If nobody answers {when}, GPU Governor {episode.plan.verb}s it."
    return f"If nobody answers {when}, nothing happens."


def people_text(episode: Episode) -> str:
    """Return how many people must approve, as a sentence."""
    if episode.terms.people_needed > 1:
        return "Two different people must approve, each by the link in their own mail or signed in."
    return "One approval is enough."


def budget_text(episode: Episode) -> str:
    """Return a sentence if only the budget is the reason for asking; else an empty text."""
    if not episode.by_budget:
        return ""
    whose = "its project" if episode.project == UNASSIGNED else f"project {episode.project}"
    return f"You are asked because {whose} is over its budget of this month."


def unasked_text(episode: Episode, at: UtcDatetime, until: UtcDatetime | None = None) -> str:
    """Return what happens without a question, as a sentence. `until` is when the notice is over."""
    notice_ends = until or at + episode.notice_length
    mode = episode.mode.value if episode.plan.steps else "none"
    if mode == "auto" and at >= notice_ends:
        mode = "over"
    values = {"mode": mode, "plan": episode.plan, "until": notice_ends}
    return said("unasked", values, episode.time_zone, at)[0]


def stage_words(
    episode: Episode, stage: Stage, at: UtcDatetime, until: UtcDatetime | None
) -> tuple[Words, Words]:
    """Return the words of a stage as it reads at this moment, and those that may be folded.

    `until` is when the question expires, or the notice is over.
    """
    plan = episode.plan
    price = episode.price.usd_per_hour
    idle = idle_text(episode, at)
    if stage is Stage.TELL:
        happens = unasked_text(episode, at, until)
    else:
        happens = silence_text(episode, until, at)
    saving = ""
    if plan.steps and episode.mode is not Mode.OBSERVE:
        saving = saving_text(plan)
    cost = ""
    if price:
        cost = f", {usd(price * 24)}/day"
    restart = restart_text(episode)
    values = {
        "kind": _stage_kind(episode, stage),
        "prefix": PREFIXES[stage],
        "name": episode.instance.name,
        "idle": idle.title,
        "cost": cost,
        "until": until,
        "ends": until or at + episode.notice_length,
        "happens": happens,
        "news": news_text(episode, stage, at),
        "measured": idle.sentence,
        "saving": saving,
        "costs": cost_lines(episode)[:1],
        "plan": plan,
        "people": people_text(episode),
        "budget": budget_text(episode),
        "presence": episode.presence,
        "steps": [STEP_TEXT[step] for step in episode.own_plan],
        "restart": [restart] if restart else [],
    }
    words = worded("stage", values, episode.time_zone, at)
    details = worded("stage details", values, episode.time_zone, at)
    return words, details


def _stage_kind(episode: Episode, stage: Stage) -> str:
    """Return which kind of message this stage sends, as its template names the kinds."""
    if stage is not Stage.TELL:
        return "asks"
    if not episode.plan.steps:
        return "informs"
    return "rehearses" if episode.mode is Mode.OBSERVE else "acts"


def news_text(episode: Episode, stage: Stage, at: UtcDatetime) -> str:
    """Return what a repeated question adds: who was asked, and when.

    Return an empty text for other stages.
    """
    planned = episode.schedule
    if stage not in (Stage.REMIND, Stage.ESCALATE) or planned is None:
        return ""
    whom = f"The contacts of {episode.owner}"
    if episode.owner == UNASSIGNED:
        whom = "The default contacts"
    values = {
        "stage": stage,
        "whom": whom,
        "asked": left(at - planned.ask_at),
        "reminded": left(at - planned.remind_at),
    }
    return said("news", values)[0]


def stage_alert(
    episode: Episode,
    stage: Stage,
    at: UtcDatetime,
    link: str | None,
    until: UtcDatetime | None = None,
) -> Alert:
    """Return the message of a stage, with the `link` to its page. The question expires at
    `until`."""
    words, details = stage_words(episode, stage, at, until)
    whole = Words(words.title, (*words.lines, *details.lines), (*words.forms, *details.forms))
    kind, severity = _KIND_OF[stage]
    return alert_of(
        whole,
        kind,
        severity,
        episode.instance,
        stage_id(stage, episode.ref),
        at,
        _episode_facts(episode, {"expires_at": until}),
        owner=_owner_of(episode),
        link=link,
    )


def recovered_alert(those: Sequence[Failing], about: Target, now: UtcDatetime) -> Alert:
    """Return the message that no workflow fails any longer for the cause of `those` failures."""
    first = min(those, key=lambda failing: failing.at)
    names = [f"{failing.name} ({failing.instance_id}) in {failing.target}" for failing in those]
    facts = {
        "incident": f"failure-{first.cause}",
        "outcome_reason": first.reason,
        "instance_ids": [failing.instance_id for failing in those],
    }
    words = {
        "name": those[0].name if len(those) == 1 else f"{len(those)} GPU instances",
        "step": step_text(first.step),
        "since": first.at,
        "readable": readable(first.reason),
        "listed": names[:_NAMED],
    }
    last_failed_at = max(failing.at for failing in those)
    dedup_id = f"recovered-{first.cause}-{iso(last_failed_at)}"
    return written("recovered", about, dedup_id, now, facts, words)


def over_alert(one: Incident, now: UtcDatetime) -> Alert:
    """Return the message that the cause of an incident is gone."""
    facts = {"incident": one.key, "opened_at": one.opened_at, REPEATS: True}
    dedup_id = f"over-{short_hash(one.key, iso(one.opened_at), iso(one.ends_at))}"
    return written("incident over", one.target, dedup_id, now, facts, {"name": one.subject})


def _alert(
    template: str,
    episode: Episode,
    stage: str,
    at: UtcDatetime,
    facts: Mapping[str, object],
    words: Mapping[str, object],
    *,
    link: str | None = None,
    severity: Severity | None = None,
) -> Alert:
    """Return a message about an episode in the words of a template."""
    return written(
        template,
        episode.instance,
        stage_id(stage, episode.ref),
        at,
        _episode_facts(episode, facts),
        {"name": episode.instance.name, "plan": episode.plan, **words},
        owner=_owner_of(episode),
        severity=severity,
        link=link,
    )


def _owner_of(episode: Episode) -> Owner:
    return Owner(episode.owner, episode.project, episode.time_zone)


def _episode_facts(episode: Episode, facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts of any message about an episode, with those of this one. They hold no task
    token and no link."""
    instance = episode.instance
    plan = episode.plan
    return {
        "episode": episode.ref.execution_name,
        "launch_time": instance.launch_time,
        "mode": episode.mode.value,
        "reason": episode.reason,
        "idle_minutes": None if episode.idle_for is None else minutes(episode.idle_for),
        "evidence_hash": episode.evidence_hash,
        "policy_version": episode.policy_version,
        "action": plan.action.value,
        "steps": [step.value for step in plan.steps],
        "usd_per_hour": episode.price.usd_per_hour,
        "saved_usd_per_hour": plan.saving.saved_usd_per_hour,
        "price_source": episode.price.source,
        "acts_on_silence": episode.acts_on_silence,
        "people_needed": episode.terms.people_needed,
        "time_zone": episode.time_zone,
        "expires_at": None,
        **facts,
    }


def first_yes_alert(episode: Episode, decision: Decision, expires_at: UtcDatetime) -> Alert:
    """Return the message that the first of two people has approved.

    It has no link, because each channel makes its own.
    """
    words = {"by": decision.person or decision.by, "costs": cost_lines(episode)}
    return _alert("first-yes", episode, "first-yes", decision.at, {"expires_at": expires_at}, words)


def waiting_alert(
    episode: Episode, approval: Approval, why: str, hours: int, at: UtcDatetime, link: str | None
) -> Alert:
    """Return the message that a step waits, with the reason and what to do; sent once an
    episode."""
    approval_stands = episode.mode is Mode.ASK and approval.status is not ApprovalStatus.EXPIRED
    is_stopped = Step.STOP in episode.steps_done and episode.undone_at is None
    words = {"hours": hours, "stands": approval_stands, "is_stopped": is_stopped}
    return _alert("waiting", episode, Stage.WAIT, at, {"why": why}, words, link=link)


def undo_alert(
    episode: Episode, by: str, channel: str, at: UtcDatetime, until: UtcDatetime | None = None
) -> Alert:
    """Return the message that it was started again. `until` is how long the undo keeps it, if that
    is known."""
    facts = {"undone_by": by, "channel": channel}
    words = {"price": price_text(episode), "until": until}
    return _alert("undone", episode, "undone", at, facts, words)


def outcome_alert(
    ref: EpisodeRef,
    episode: Episode | None,
    outcome: Outcome,
    reason: str,
    at: UtcDatetime,
    link: str | None,
    approval: Approval | None = None,
    again_at: UtcDatetime | None = None,
) -> Alert:
    """Return the message of how an episode ended, or one that was never written.

    Nobody is asked about it again before `again_at`.
    """
    has_failed = outcome is Outcome.FAILED
    facts: dict[str, object] = {"outcome": outcome.value, "outcome_reason": reason}
    words: dict[str, object] = {
        "readable": readable(reason),
        "next_step": next_step(reason),
        "again": _again_text(episode, again_at, at) if outcome in _ASKED_AGAIN else "",
        "startable": False,
    }
    if has_failed or episode is None:
        failed_step = _failed_step(episode, reason)
        facts["incident"] = f"failure-{cause_of(reason)}"
        facts["failed_step"] = failed_step
        words["step"] = step_text(failed_step)
    if episode is None:
        words["name"] = ref.instance_id
        words["in_short"] = "Nothing was changed"
        words["left_behind"] = "Nothing was changed."
        name = stage_id(outcome.value, ref)
        alert = written("failure", ref.target, name, at, facts, words, link=link)
        return replace(alert, instance_id=ref.instance_id)

    words["in_short"], words["left_behind"] = left_behind(episode)
    words["startable"] = _has_ended_stopped(episode, outcome)
    facts["steps_done"] = [step.value for step in episode.plan.steps if step in episode.steps_done]
    if has_failed:
        return _alert("failure", episode, outcome.value, at, facts, words, link=link)
    words |= _end_words(episode, outcome, approval)
    severity = Severity.INFO if outcome in _GOOD else None
    return _alert("outcome", episode, outcome.value, at, facts, words, link=link, severity=severity)


def _again_text(episode: Episode | None, again_at: UtcDatetime | None, at: UtcDatetime) -> str:
    """Return when people are asked or notified again, as a sentence.

    Return an empty text if the instance no longer runs.
    """
    asks = True
    zone = "UTC"
    if episode is not None:
        if episode.mode is not Mode.OBSERVE and Step.STOP in episode.steps_done:
            return ""
        asks = episode.mode is Mode.ASK
        zone = episode.time_zone
    is_ahead = again_at is not None and again_at > at
    values = {"asks": asks, "after": again_at if is_ahead else None}
    return said("again", values, zone, at)[0]


def _end_words(episode: Episode, outcome: Outcome, approval: Approval | None) -> dict[str, object]:
    """Return the words about an end that is no failure, for its template."""
    is_undone = episode.undone_at is not None
    is_stopped = Step.STOP in episode.steps_done
    has_acted = outcome in (Outcome.STOPPED, Outcome.TERMINATED) and not is_undone
    words: dict[str, object] = {
        "done": "terminated" if episode.plan.destroys else "stopped",
        "saved": None,
        "decided": _decided_by(episode, outcome, approval),
        "is_stopped": is_stopped,
        "snapshots": ", ".join(episode.snapshot_ids),
        "restart": [],
        **_answer_words(approval, outcome),
    }
    if has_acted:
        words["saved"] = _saved_a_day(episode)
        words["restart"] = [restart_text(episode)]
    if is_undone and outcome is Outcome.STOPPED:
        # The reason was recorded before the undo and says that it is stopped.
        text = f"it was stopped, and {episode.undone_by} had it started again"
        words["outcome"] = "restarted"
        words["readable"] = readable(text)
    if has_acted or outcome in (Outcome.OBSERVED, Outcome.TOLD):
        words["left_behind"] = ""
    return words


def _has_ended_stopped(episode: Episode, outcome: Outcome) -> bool:
    """Return whether the episode left its instance stopped, and nobody has started it since."""
    if episode.undone_at is not None:
        return False
    return outcome is Outcome.STOPPED or episode.became is Outcome.STOPPED


def _saved_a_day(episode: Episode) -> str | None:
    """Return the amount saved a day; `None` if the plan saves nothing."""
    saved_per_day = episode.plan.saving.saved_usd_per_day or Decimal(0)
    return usd(saved_per_day) if saved_per_day > 0 else None


def _answer_words(approval: Approval | None, outcome: Outcome) -> dict[str, object]:
    """Return what people answered, for the template of an end."""
    if approval is None:
        return {"until": None, "decision": None, "first_yes": None, "held": False, "brake": None}
    decision = approval.decision
    brake = approval.counted_hold if outcome is Outcome.HELD else approval.brake
    held: str | bool = brake is not None and brake.keep_until is not None
    if brake is not None and brake.answer is Answer.EXEMPT:
        held = "exempt"
    return {
        "until": decision.keep_until if decision else None,
        "decision": decision,
        "first_yes": approval.first_yes,
        "held": held,
        "brake": brake,
    }


def _decided_by(episode: Episode, outcome: Outcome, approval: Approval | None) -> str:
    """Return what decided it: an approval, mode auto or silence.

    Return an empty text if the reason of the outcome says so already.
    """
    if outcome not in (Outcome.STOPPED, Outcome.TERMINATED, Outcome.HELD, Outcome.REFUSED):
        return ""
    if approval and approval.decision and approval.decision.answer is Answer.APPROVE:
        return "approved"
    if episode.mode is Mode.AUTO:
        return "auto"
    is_expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return "silence" if is_expired and episode.acts_on_silence else ""


def next_step(reason: str) -> str:
    """Return what people should do about a failure."""
    error, _ = _error_and_cause(reason)
    return said("advice", {"error": error})[0]


def _error_and_cause(reason: str) -> tuple[str, str]:
    """Return the error's name and its message; Lambda wraps the message in JSON."""
    match = _ERROR.fullmatch(reason.strip())
    if match is None:
        return "", reason
    name = match["name"]
    cause = match["cause"]
    json_message = _JSON_MESSAGE.search(cause)
    if json_message is not None:
        cause = json_message[1].replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
    if name.startswith(("Lambda.", "Sandbox.", "States.")) and name not in _TIMEOUTS:
        return "", f"a function of GPU Governor failed: {cause or 'it gave no cause'}"
    return name, cause or "no cause was given"


def _failed_step(episode: Episode | None, reason: str) -> str:
    """Return the step that failed; `ask` before the first one."""
    if episode is None:
        return "ask"
    if not episode.own_steps and episode.phase in (Phase.OPENING, Phase.ASKING):
        return "ask"
    error, _ = _error_and_cause(reason)
    steps_done = []
    steps_ahead = []
    for step in episode.plan.steps:
        if step in episode.steps_done:
            steps_done.append(step)
        else:
            steps_ahead.append(step)
    if steps_done and (error in _WAITING or not steps_ahead):
        return steps_done[-1].value
    if steps_ahead:
        return steps_ahead[0].value
    return Step.STOP.value


def step_text(step: object) -> str:
    """Return a failed step as the words between `Could not` and a name."""
    return said("failed step", {"step": step})[0]


def left_behind(episode: Episode) -> tuple[str, str]:
    """Return what a workflow that did not complete has and has not done: in short, and as
    sentences."""
    steps_done = {} if episode.mode is Mode.OBSERVE else episode.steps_done
    values: dict[str, object] = {step.name.lower(): step in steps_done for step in Step}
    values["undone"] = episode.undone_at is not None
    clauses = said("steps done", values)
    values["first"] = clauses[0] if clauses else ""
    values["all"] = " and ".join(clauses)
    short, long = said("left behind", values)
    return short, long


def cause_of(reason: str) -> str:
    """Return a hash that workflows share if they failed for the same cause."""
    return short_hash(_VARIES.sub("#", reason))


def readable(reason: str) -> str:
    """Return the reason of an outcome as a sentence for people."""
    error, cause = _error_and_cause(reason or "the cause is not known")
    text, *_ = said("error", {"error": error, "cause": cause})
    with_times = _ISO.sub(r"\1 \2 UTC", people(text))
    return sentence(with_times.replace(" %", "%"))
