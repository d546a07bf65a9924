"""Messages about an episode: the question, its reminders, and how it ended.

Channels place these words; none of them adds its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from governor.domain.alerts.alert import (
    REPEATS,
    UNASSIGNED,
    Alert,
    AlertKind,
    Incident,
    Owner,
    Severity,
    short_hash,
)
from governor.domain.alerts.templates import said, written
from governor.domain.approvals.approval import (
    Answer,
    Approval,
    ApprovalStatus,
    Decision,
    Stage,
    stage_id,
)
from governor.domain.episode.episode import Episode, EpisodeRef, Failing, Outcome, Phase
from governor.domain.episode.plan import Plan, Step
from governor.domain.instance import Lifecycle, Target
from governor.domain.policy.policy import Mode
from governor.domain.units import (
    UtcDatetime,
    day_and_time,
    deadline,
    iso,
    left,
    people,
    sentence,
    span,
    usd,
)
from governor.errors import GovernorError, TooLate

STAGE_OF: Mapping[AlertKind, Stage] = {
    AlertKind.IDLE_FOUND: Stage.TELL,
    AlertKind.APPROVAL_REQUESTED: Stage.ASK,
    AlertKind.APPROVAL_REMINDER: Stage.REMIND,
    AlertKind.APPROVAL_ESCALATION: Stage.ESCALATE,
}
PREFIXES = {
    Stage.TELL: "",
    Stage.ASK: "",
    Stage.REMIND: "Reminder: ",
    Stage.ESCALATE: "Escalation: ",
}
STEP_TEXT: Mapping[Step, str] = {step: said("step", {"step": step})[0] for step in Step}
_NAMED = 40
"""Instances named in one message; the facts hold all."""
_FRESH = timedelta(hours=1)
"""So long what was measured still says how long the instance has been idle."""
_IDLE_FOR = re.compile(r"Idle for (?P<span>[^(]*?)(?: and .*| ?\(.*|\.)?$")
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
"""Errors of what was begun and did not come to its end."""
_JSON_MESSAGE = re.compile(r'"errorMessage":\s*"((?:[^"\\]|\\.)*)')
_ERROR = re.compile(
    r"(?P<name>(?:States|Lambda|Sandbox)\.[A-Za-z.]+|[A-Z][a-z]+(?:[A-Z][A-Za-z0-9]*)+|Throttled|Unavailable"
    r"|Protected|Unsupported|Interrupted): ?(?P<cause>.*)",
    re.DOTALL,
)
_VARIES = re.compile(r"\b[a-z]+-[0-9a-f]{8,17}\b|[0-9a-f]{8}-[0-9a-f-]{27}|\S{60,}|\d+")
"""Ids, times, ARNs and encoded texts: what differs between failures of one cause."""
_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d)?Z")


def stage_name(stage: str) -> str:
    """Return what people call a message, by the stage or the outcome in its id."""
    return said("stage name", {"stage": stage, "plain": stage.replace("-", " ")})[0]


def price_text(episode: Episode) -> str:
    """Return `$136 a day`, or that it is not known."""
    price = episode.price.usd_per_hour
    if episode.stopped_in is not None:
        storage = episode.plan.saving.cost_before_usd_per_hour
        return (
            "an unknown amount" if storage is None else f"{usd(storage * 24)} a day for its storage"
        )
    return (
        f"an unknown amount ({episode.price.source})"
        if price is None
        else f"{usd(price * 24)} a day"
    )


def cost_lines(episode: Episode) -> tuple[str, ...]:
    """Return what it costs and what the plan saves, or that the price is not known; a sentence
    each."""
    price, source = episode.price.usd_per_hour, episode.price.source
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
    saved = plan.saving.saved_usd_per_day
    kind = (
        "nothing"
        if not plan.steps
        else "unknown"
        if saved is None
        else "costs"
        if saved < 0
        else "saves"
    )
    return said("saving", {"kind": kind, "plan": plan, "usd": abs(saved or Decimal(0))})[0]


def restart_text(episode: Episode, *, only_stopped: bool = False) -> str:
    """Return what may stand in the way of having it back; nothing where it is neither stopped nor
    terminated. `only_stopped`: before, or without, the termination that is planned."""
    instance, steps = episode.instance, episode.plan.steps
    kind = "spot" if instance.lifecycle is Lifecycle.SPOT else "stopped"
    if Step.TERMINATE in steps and not only_stopped:
        kind = "gone"
    elif Step.STOP not in steps:
        return ""
    values = {"kind": kind, "one": instance, "zone": instance.availability_zone or "its zone"}
    return said("restart", values)[0]


def plan_lines(episode: Episode) -> tuple[str, ...]:
    """Return the plan as sentences: why nothing else, its steps, what it loses and keeps."""
    steps = "; then ".join(STEP_TEXT[one] for one in episode.own_plan)
    return tuple(said("plan", {"plan": episode.plan, "steps": steps}))


def idle_text(episode: Episode, at: UtcDatetime, *, is_open: bool = True) -> tuple[str, str]:
    """Return for how long it was measured idle, as titles say it, and the sentence that says so and
    why it counts. What was measured an hour ago or more is said with its age. While the question or
    its notice `is_open`, no sweep has seen work since.
    """
    if episode.stopped_in is not None:
        return f"stopped for {left(at - episode.steps_done[Step.STOP.value])}", sentence(
            episode.reason
        )
    found = _IDLE_FOR.match(episode.reason.strip())
    if found and at - episode.opened_at < _FRESH:
        return f"idle {found['span'].strip()}", sentence(episode.reason)
    known, window = episode.idle, episode.evidence.window
    since = min(known.since, window.start) if known else window.start
    text = f"{'over ' if known and known.at_least else ''}{span(window.end - since)}"
    said_so = f"Idle for {text} (every GPU under {episode.idle_below_percent:g}%)"
    if at - window.end < _FRESH:
        return f"idle {text}", f"{said_so}."
    said_so = f"{said_so} when this was found {(ago := left(at - window.end))} ago"
    if not is_open or episode.outcome is not None:
        return f"found idle {ago} ago", f"{said_so}."
    before = "before " if known and known.at_least else ""
    start = f"{before}{day_and_time(since, episode.time_zone, at)}"
    return f"idle since {start}", f"{said_so}, and not seen at work since."


def state_text(episodes: Iterable[Episode]) -> str:
    """Return what several questions are about: idle instances, stopped ones, or both."""
    stopped = {episode.stopped_in is not None for episode in episodes}
    return "idle or stopped" if len(stopped) > 1 else "stopped" if True in stopped else "idle"


def refused_text(error: GovernorError) -> str:
    """Return what a list says of an answer that was refused, or came too late, in whole
    sentences."""
    if isinstance(error, TooLate):
        return sentence(str(error))
    return f"Not recorded: {error}."


def silence_text(
    episode: Episode, until: UtcDatetime | None = None, now: UtcDatetime | None = None
) -> str:
    """Return what follows when nobody answers, and by when, as a sentence."""
    when = f" by {deadline(until, episode.time_zone, now)}" if until and now else " in time"
    if episode.acts_on_silence:
        return f"If nobody answers{when}, GPU Governor {episode.plan.verb}s it."
    return f"If nobody answers{when}, nothing happens."


def people_text(episode: Episode) -> str:
    if episode.terms.people_needed > 1:
        return "Two different people must approve, each by the link in their own mail or signed in."
    return "One approval is enough."


def budget_text(episode: Episode) -> str:
    """Return why it is asked about, where only the budget has it asked about."""
    whose = "its project" if episode.project == UNASSIGNED else f"project {episode.project}"
    return (
        f"You are asked because {whose} is over its budget of this month."
        if episode.by_budget
        else ""
    )


def unasked_text(episode: Episode, at: UtcDatetime, until: UtcDatetime | None = None) -> str:
    """Return what happens without a question, as a sentence. `until` is when the notice is over."""
    until, mode = (
        until or at + episode.notice_length,
        episode.mode.value if episode.plan.steps else "none",
    )
    mode = "over" if mode == "auto" and at >= until else mode
    values = {"mode": mode, "plan": episode.plan, "until": until}
    return said("unasked", values, episode.time_zone, at)[0]


def stage_lines(
    episode: Episode, stage: Stage, at: UtcDatetime, until: UtcDatetime | None
) -> tuple[list[str], list[str]]:
    """Return subject and lines of a stage as it reads at this moment, and those lines that may be
    folded.

    `until` is when the question expires, or the notice is over.
    """
    plan, price = episode.plan, episode.price.usd_per_hour
    idle, measured = idle_text(episode, at)
    asks = stage is not Stage.TELL
    rehearses = episode.mode is Mode.OBSERVE and bool(plan.steps)
    restart = restart_text(episode)
    values = {
        "kind": "asks"
        if asks
        else "rehearses"
        if rehearses
        else "acts"
        if plan.steps
        else "informs",
        "prefix": PREFIXES[stage],
        "name": episode.instance.name,
        "idle": idle,
        "cost": f", {usd(price * 24)}/day" if price else "",
        "until": until,
        "ends": until or at + episode.notice_length,
        "happens": silence_text(episode, until, at) if asks else unasked_text(episode, at, until),
        "news": news_text(episode, stage, at),
        "measured": measured,
        "saving": saving_text(plan) if plan.steps and not rehearses else "",
        "costs": cost_lines(episode)[:1],
        "plan": plan,
        "people": people_text(episode),
        "budget": budget_text(episode),
        "presence": episode.presence,
        "steps": [STEP_TEXT[one] for one in episode.own_plan],
        "restart": [restart] if restart else [],
    }
    _, *details = said("stage details", values)
    return said("stage", values, episode.time_zone, at), details


def news_text(episode: Episode, stage: Stage, at: UtcDatetime) -> str:
    """Return what a repeated question adds: who was asked, and when. Nothing for other stages."""
    planned = episode.schedule
    if stage not in (Stage.REMIND, Stage.ESCALATE) or planned is None:
        return ""
    values = {
        "stage": stage,
        "whom": "The default contacts"
        if episode.owner == UNASSIGNED
        else f"The contacts of {episode.owner}",
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
    """Return the message of a stage, with the `link` to its page, as the question expires at
    `until`."""
    lines, details = stage_lines(episode, stage, at, until)
    words = {"lines": [*lines, *details]}
    return _alert(stage.value, episode, stage, at, {"expires_at": until}, words, link=link)


def recovered_alert(those: Sequence[Failing], about: Target, now: UtcDatetime) -> Alert:
    """Return that no workflow fails any more for the cause for which `those` did."""
    first = min(those, key=lambda one: one.at)
    names = [f"{one.name} ({one.instance_id}) in {one.target}" for one in those]
    facts = {
        "incident": f"failure-{first.cause}",
        "outcome_reason": first.reason,
        "instance_ids": [one.instance_id for one in those],
    }
    words = {
        "name": those[0].name if len(those) == 1 else f"{len(those)} GPU instances",
        "step": step_text(first.step),
        "since": first.at,
        "readable": readable(first.reason),
        "listed": names[:_NAMED],
    }
    dedup_id = f"recovered-{first.cause}-{iso(max(one.at for one in those))}"
    return written("recovered", about, dedup_id, now, facts, words)


def over_alert(one: Incident, now: UtcDatetime) -> Alert:
    """Return that nothing is left of what the incident was opened for."""
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
    """Return any message about an episode. Its facts hold no task token and no link."""
    about, plan = episode.instance, episode.plan
    known = {
        "episode": episode.ref.execution_name,
        "launch_time": about.launch_time,
        "mode": episode.mode.value,
        "reason": episode.reason,
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
    }
    owner = Owner(episode.owner, episode.project, episode.time_zone)
    facts, words = {**known, **facts}, {"name": about.name, "plan": plan, **words}
    name = stage_id(stage, episode.ref)
    return written(
        template, about, name, at, facts, words, owner=owner, severity=severity, link=link
    )


def first_yes_alert(episode: Episode, decision: Decision, expires_at: UtcDatetime) -> Alert:
    """Return that the first of two people has approved; without a link, as each channel makes its
    own."""
    words = {"by": decision.person or decision.by, "costs": cost_lines(episode)}
    return _alert("first-yes", episode, "first-yes", decision.at, {"expires_at": expires_at}, words)


def waiting_alert(
    episode: Episode, approval: Approval, why: str, hours: int, at: UtcDatetime, link: str | None
) -> Alert:
    """Return that a step waits, and why, with what to do; sent once an episode."""
    stands = episode.mode is Mode.ASK and approval.status is not ApprovalStatus.EXPIRED
    words = {"hours": hours, "stands": stands}
    return _alert("waiting", episode, Stage.WAIT, at, {"why": why}, words, link=link)


def undo_alert(
    episode: Episode, by: str, channel: str, at: UtcDatetime, until: UtcDatetime | None = None
) -> Alert:
    """`until` is how long the undo keeps it, where that is known."""
    facts = {"undone_by": by, "channel": channel}
    return _alert(
        "undone", episode, "undone", at, facts, {"price": price_text(episode), "until": until}
    )


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
    """Return how an episode ended, or one that was never written; until `again_at` it is left
    alone."""
    failed = outcome is Outcome.FAILED
    facts: dict[str, object] = {"outcome": outcome.value, "outcome_reason": reason}
    words: dict[str, object] = {"readable": readable(reason), "next_step": next_step(reason)}
    if failed or episode is None:
        facts |= {
            "incident": f"failure-{cause_of(reason)}",
            "failed_step": _failed_step(episode, reason),
        }
        words["step"] = step_text(facts["failed_step"])
    words["again"] = _again(episode, again_at, at) if outcome in _ASKED_AGAIN else ""
    if episode is None:
        unchanged = "Nothing was changed"
        words |= {"name": ref.instance_id, "in_short": unchanged, "left_behind": f"{unchanged}."}
        alert = written(
            "failure", ref.target, stage_id(outcome.value, ref), at, facts, words, link=link
        )
        return replace(alert, instance_id=ref.instance_id)
    words["in_short"], words["left_behind"] = left_behind(episode)
    facts["steps_done"] = [step.value for step in episode.plan.steps if step in episode.steps_done]
    if failed:
        return _alert("failure", episode, outcome.value, at, facts, words, link=link)
    words |= _end(episode, outcome, approval)
    severity = Severity.INFO if outcome in _GOOD else None
    return _alert("outcome", episode, outcome.value, at, facts, words, link=link, severity=severity)


def _again(episode: Episode | None, again_at: UtcDatetime | None, at: UtcDatetime) -> str:
    """Return when people hear of it again, as a sentence; nothing where it does not run any
    more."""
    if episode is not None and episode.mode is not Mode.OBSERVE and Step.STOP in episode.steps_done:
        return ""
    after = again_at if again_at is not None and again_at > at else None
    values = {"asks": episode is None or episode.mode is Mode.ASK, "after": after}
    return said("again", values, episode.time_zone if episode else "UTC", at)[0]


def _end(episode: Episode, outcome: Outcome, approval: Approval | None) -> dict[str, object]:
    undone, is_stopped = episode.undone_at is not None, Step.STOP in episode.steps_done
    acted = outcome in (Outcome.STOPPED, Outcome.TERMINATED) and not undone
    per_day = episode.plan.saving.saved_usd_per_day or Decimal(0)
    decision, brake = (approval.decision, approval.brake) if approval else (None, None)
    words: dict[str, object] = {
        "done": "terminated" if episode.plan.destroys else "stopped",
        "saved": usd(per_day) if acted and per_day > 0 else None,
        "until": decision.keep_until if decision else None,
        "decided": _why(episode, outcome, approval),
        "decision": decision,
        "first_yes": approval.first_yes if approval else None,
        "held": "exempt"
        if brake and brake.answer == "exempt"
        else bool(brake and brake.keep_until),
        "brake": brake,
        "is_stopped": is_stopped,
        "snapshots": ", ".join(episode.snapshot_ids),
        "startable": (outcome is Outcome.STOPPED or (outcome is Outcome.HELD and is_stopped))
        and not undone,
        "restart": [restart_text(episode)] if acted else [],
    }
    if undone and outcome is Outcome.STOPPED:
        # What was booked before says that it is stopped.
        text = f"it was stopped, and {episode.undone_by} had it started again"
        words |= {"outcome": "restarted", "readable": readable(text)}
    return words | (
        {"left_behind": ""} if acted or outcome in (Outcome.OBSERVED, Outcome.TOLD) else {}
    )


def _why(episode: Episode, outcome: Outcome, approval: Approval | None) -> str:
    """Return by what it was decided, where the reason does not say so."""
    if outcome not in (Outcome.STOPPED, Outcome.TERMINATED, Outcome.HELD, Outcome.REFUSED):
        return ""
    if approval and approval.decision and approval.decision.answer is Answer.APPROVE:
        return "approved"
    expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return (
        "auto"
        if episode.mode is Mode.AUTO
        else "silence"
        if expired and episode.acts_on_silence
        else ""
    )


def next_step(reason: str) -> str:
    return said("advice", {"error": _taken_apart(reason)[0]})[0]


def _taken_apart(reason: str) -> tuple[str, str]:
    """Return the error's name and what it says; Lambda wraps the latter in JSON."""
    found = _ERROR.fullmatch(reason.strip())
    if found is None:
        return "", reason
    name, cause = found["name"], found["cause"]
    inner = _JSON_MESSAGE.search(cause)
    if inner is not None:
        cause = inner[1].replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
    if name.startswith(("Lambda.", "Sandbox.", "States.")) and name not in _TIMEOUTS:
        return "", f"a function of GPU Governor failed: {cause or 'it gave no cause'}"
    return name, cause or "no cause was given"


def _failed_step(episode: Episode | None, reason: str) -> str:
    """Return the step that failed; `ask` before the first one."""
    error, _ = _taken_apart(reason)
    if episode is None or (
        not episode.own_steps and episode.phase in (Phase.OPENING, Phase.ASKING)
    ):
        return "ask"
    done = [step for step in episode.plan.steps if step in episode.steps_done]
    ahead = [step for step in episode.plan.steps if step not in done]
    return (
        done[-1] if done and (error in _WAITING or not ahead) else (ahead or [Step.STOP])[0]
    ).value


def step_text(step: object) -> str:
    return said("failed step", {"step": step})[0]


def left_behind(episode: Episode) -> tuple[str, str]:
    """Return what was and was not done by a flow that did not get to its end: in short, and as
    sentences."""
    done = {} if episode.mode is Mode.OBSERVE else episode.steps_done
    values: dict[str, object] = {step.name.lower(): step in done for step in Step}
    values["undone"] = episode.undone_at is not None
    parts = said("steps done", values)
    short, long = said(
        "left behind", {**values, "first": "".join(parts[:1]), "all": " and ".join(parts)}
    )
    return short, long


def cause_of(reason: str) -> str:
    """Return what is the same for workflows that failed for one cause: a hash."""
    return short_hash(_VARIES.sub("#", reason))


def readable(reason: str) -> str:
    error, cause = _taken_apart(reason or "the cause is not known")
    text, *_ = said("error", {"error": error, "cause": cause})
    return sentence(_ISO.sub(r"\1 \2 UTC", people(text)).replace(" %", "%"))
