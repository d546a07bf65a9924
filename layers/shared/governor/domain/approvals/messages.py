"""The words of every message about an episode: the question, its reminders, and how it ended.

Pure wording. Channels place these words; none of them adds its own. This module must not know channels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from governor.domain.alerts.alert import QUESTIONS, Alert, AlertKind, Section, Severity, alert_of
from governor.domain.alerts.delivery import Delivery
from governor.domain.alerts.owner import NOBODY, UNASSIGNED, Owner
from governor.domain.approvals.approval import Answer, Approval, ApprovalStatus, Decision
from governor.domain.episode.episode import Episode, EpisodeRef, Outcome, Phase
from governor.domain.episode.plan import Plan, Step
from governor.domain.history import idle_span
from governor.domain.instance import Lifecycle
from governor.domain.policy.policy import Mode
from governor.domain.units import UtcDatetime
from governor.domain.wording import clock, day_and_time, deadline, left, people, sentence, span, usd


class Stage(StrEnum):
    """The messages of an episode before its end; `await` sends none."""

    TELL = "tell"
    ASK = "ask"
    AWAIT = "await"
    REMIND = "remind"
    ESCALATE = "escalate"
    WAIT = "wait"
    """After the answer: a freeze or a cap holds the step back."""


@dataclass(frozen=True, slots=True)
class Words:
    """One message in reading order. `happens` says what happens by itself and when; `details` may be folded.

    `acts`: something happens to the instance unless somebody prevents it.
    """

    title: str
    happens: str = ""
    lead: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()
    details: tuple[Section, ...] = ()
    button: str = "See the record"
    """The text of the button to the page."""
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
STEP_TEXT: Mapping[Step, str] = {
    Step.STOP: "stop the instance",
    Step.SNAPSHOT: "snapshot all its EBS volumes as one set and wait until every snapshot is completed",
    Step.CANCEL_SPOT_REQUEST: "cancel its persistent Spot request, so that no successor is launched",
    Step.TERMINATE: "terminate the instance",
}
"""Each step as an imperative."""
_STAGE_NAMES: Mapping[str, str] = {
    Stage.TELL: "alert",
    Stage.ASK: "question",
    Stage.REMIND: "reminder",
    Stage.ESCALATE: "escalation",
    Stage.WAIT: "waits",
    **{kind.value: "questions" for kind in QUESTIONS},
}
_SUBJECT = 98
"""Characters that SNS takes as a subject."""
_FRESH = timedelta(hours=1)
"""So long after it opened, an episode's own sentence still says how long the instance has been idle."""
_IDLE_FOR = re.compile(r"Idle for (?P<span>[^(]*?)(?: and .*| ?\(.*|\.)?$")


def stage_name(stage: str) -> str:
    """Return what people call a message, by the stage or the outcome in its id."""
    return _STAGE_NAMES.get(stage, stage.replace("-", " "))


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


def restart_text(episode: Episode, *, only_stopped: bool = False) -> str:
    """Return what may stand in the way of having it back; nothing where it is neither stopped nor
    terminated. `only_stopped`: before, or without, the termination that is planned."""
    kind, steps = episode.instance.instance_type, episode.plan.steps
    zone = episode.instance.availability_zone or "its zone"
    if Step.TERMINATE in steps and not only_stopped:
        return (
            "It cannot be started again. It can be rebuilt from its snapshots, with another id and address, "
            f"when EC2 has capacity for {kind}."
        )
    if Step.STOP not in steps:
        return ""
    if episode.instance.lifecycle is Lifecycle.SPOT:
        return f"It starts again only when EC2 has Spot capacity for {kind} in {zone}."
    return (
        f"A stopped instance holds no capacity. EC2 may have no {kind} free in {zone} when you want it back; "
        "for large GPU types that can last hours or days."
    )


def plan_lines(plan: Plan) -> tuple[str, ...]:
    """Return the plan as sentences: why nothing else, its steps, what it loses and keeps."""
    steps = "; then ".join(STEP_TEXT[step] for step in plan.steps)
    return (
        *map(sentence, plan.replaced_because),
        f"The plan: {steps or 'do nothing, this is for your information'}.",
        *(f"It loses {loss}." for loss in plan.losses),
        *(f"It keeps {kept}." for kept in plan.stays),
    )


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


def notice_until(
    episode: Episode, deliveries: Iterable[Delivery], minutes: float = 0.0
) -> UtcDatetime | None:
    """Return when the notice of mode auto is over; `None` before those have it whom it is for.

    It counts from the first delivery to them: later messages name the same time. `minutes` are those of
    today's policy, which may only add to it.
    """
    told = _delivered_at(episode, Stage.TELL, deliveries)
    return told + max(episode.notice_length, timedelta(minutes=minutes)) if told else None


def silence_from(episode: Episode, deliveries: Iterable[Delivery]) -> UtcDatetime | None:
    """Return from when on silence is an answer: those who are asked have had the question and its escalation
    for as long as planned. `None` before one of the two was delivered to any of them."""
    planned, known = episode.schedule, list(deliveries)
    asked = _delivered_at(episode, Stage.ASK, known)
    escalated = _delivered_at(episode, Stage.ESCALATE, known)
    if planned is None or asked is None or escalated is None:
        return None
    return planned.expire_at + max(asked - planned.ask_at, escalated - planned.escalate_at)


def _delivered_at(episode: Episode, stage: Stage, deliveries: Iterable[Delivery]) -> UtcDatetime | None:
    message = stage_id(stage, episode.ref)
    return min((one.at for one in deliveries if one.message == message and one.reached_people), default=None)


def unasked_text(episode: Episode, at: UtcDatetime, until: UtcDatetime | None = None) -> str:
    """Return what happens without a question, as a sentence. `until` is when the notice is over."""
    if not episode.plan.steps:
        return "Nothing will be done. This is for your information."
    if episode.mode is Mode.OBSERVE:
        return "This is a rehearsal (mode observe): nothing happens to the instance."
    if episode.mode is Mode.ASK:
        return "Nothing happens without an answer."
    until = until or at + episode.notice_length
    when = clock(until, episode.time_zone, at)
    if at >= until:
        return f"Mode auto: the notice period was over on {when}. See the record for what has happened since."
    begins = f"{_ing(episode.plan).lower()} it begins on {when} at the earliest"
    return (
        f"Mode auto: {begins}, after one more check, unless somebody keeps, exempts or holds it. "
        "If a GPU works again by then, nothing happens."
    )


def stage_words(episode: Episode, stage: Stage, at: UtcDatetime, until: UtcDatetime | None) -> Words:
    """Return the message of a stage as it reads at this moment. `until` is when the question expires."""
    plan, price, priced = episode.plan, episode.price.usd_per_hour, cost_lines(episode)[:1]
    idle, measured = idle_text(episode, at)
    asks, rehearsal = stage is not Stage.TELL, episode.mode is Mode.OBSERVE and bool(plan.steps)
    if asks:
        by = f" Answer by {day_and_time(until, episode.time_zone, at)}" if until else ""
        closing, steps = f"{verb(plan).capitalize()} it?{by}", f"If you {verb(plan)} it"
    elif rehearsal:
        closing, steps = "Rehearsal: nothing happens", "What a real run would do"
    else:
        ends = day_and_time(until or at + episode.notice_length, episode.time_zone, at)
        closing = f"{_ing(plan)} it after {ends}" if plan.steps else "For your information"
        steps = "What is done"
    cost = "" if price is None else f", {usd(price * 24)}/day"
    lead = (
        news_text(episode, stage, at),
        f"{measured} {saving_text(plan)}" if plan.steps and not rehearsal else measured,
        *(priced if price is None else ()),
        *map(sentence, plan.replaced_because),
        people_text(episode) if asks else "",
        "Nobody is asked. To act on findings like this, set mode: ask in the policy." if rehearsal else "",
    )
    return Words(
        title=_titled(f"{STAGES[stage][2]}{{name}} idle {idle}{cost}. {closing}", episode.instance.name),
        happens=silence_text(episode, until, at) if asks else unasked_text(episode, at, until),
        lead=tuple(filter(None, lead)),
        sections=_sections({f"{_ing(plan)} it {'would lose' if rehearsal else 'loses'}": plan.losses}),
        details=_sections(
            {
                steps: tuple(STEP_TEXT[one] for one in plan.steps),
                "It would keep" if rehearsal else "It keeps": plan.stays,
                "Restarting later": tuple(filter(None, [restart_text(episode)])),
                "Price": () if price is None else priced,
            }
        ),
        button=f"{verb(plan).capitalize()} or keep it"
        if asks
        else "Hold or keep it"
        if episode.gives_notice
        else "See the details",
        acts=episode.acts_on_silence if asks else episode.mode is Mode.AUTO and bool(plan.steps),
    )


def _sections(found: Mapping[str, tuple[str, ...]]) -> tuple[Section, ...]:
    """Return those that have lines, by their headings."""
    return tuple(Section(heading, lines) for heading, lines in found.items() if lines)


def _titled(pattern: str, name: str, **words: str) -> str:
    """Return the title with as much of the name as a subject has room for: what follows it matters more."""
    room = max(12, _SUBJECT - len(pattern.format(name="", **words)))
    return pattern.format(name=name if len(name) <= room else f"{name[: room - 1]}…", **words)


def news_text(episode: Episode, stage: Stage, at: UtcDatetime) -> str:
    """Return what a repeated question adds: who was asked, and when. Nothing for other stages."""
    planned = episode.schedule
    if stage not in (Stage.REMIND, Stage.ESCALATE) or planned is None:
        return ""
    whom = "The default contacts" if episode.owner == UNASSIGNED else f"The contacts of {episode.owner}"
    asked = f"{whom} were asked {left(at - planned.ask_at)} ago"
    if stage is Stage.REMIND:
        return f"{asked}; nobody has answered yet."
    return f"{asked} and reminded {left(at - planned.remind_at)} ago; nobody has answered."


def stage_alert(
    episode: Episode, stage: Stage, at: UtcDatetime, link: str | None, until: UtcDatetime | None = None
) -> Alert:
    """Return the message of a stage. `link` leads to the approval page, `until` is when the question
    expires."""
    kind, severity, _ = STAGES[stage]
    words = stage_words(episode, stage, at, until)
    return _alert(episode.ref, episode, kind, severity, words, stage, at, {"expires_at": until}, link)


def stage_id(stage: str, ref: EpisodeRef) -> str:
    """Return the id of a stage's message; one message a stage."""
    return f"{stage}-{ref.execution_name}"


def _alert(
    ref: EpisodeRef,
    episode: Episode | None,
    kind: AlertKind,
    severity: Severity,
    words: Words,
    stage: str,
    at: UtcDatetime,
    facts: Mapping[str, object],
    link: str | None = None,
) -> Alert:
    """Make a message about an episode, or about one of which only the name is known."""
    about, owner, known = episode.instance if episode else ref.target, NOBODY, {}
    if episode is not None:
        owner, known = Owner(episode.owner, episode.project), episode_facts(episode)
    title, lines, name, facts = words.title, words.lines, stage_id(stage, ref), {**known, **facts}
    alert = alert_of(kind, severity, about, title, lines, name, at, owner=owner, link=link, facts=facts)
    return replace(alert, instance_id=ref.instance_id)


def first_yes_alert(episode: Episode, decision: Decision, expires_at: UtcDatetime) -> Alert:
    """Return that the first of two people has approved. It has no link: each channel makes its own, since
    its owner decides who may answer by it."""
    plan, at, doing = episode.plan, decision.at, verb(episode.plan)
    title = f"{{name}}: one of two approved to {doing} it. A second must approve, too"
    by, until = people(decision.person or decision.by), deadline(expires_at, episode.time_zone, at)
    words = Words(
        title=_titled(title, episode.instance.name),
        happens=f"If no second person approves by {until}, nothing happens.",
        lead=(
            f"{by} approved. One more person whom the policy names by address must approve before anything "
            "is done.",
            *cost_lines(episode),
        ),
        sections=_sections({f"{_ing(plan)} it loses": plan.losses}),
    )
    facts, kind = {"expires_at": expires_at}, AlertKind.APPROVAL_FIRST_YES
    return _alert(episode.ref, episode, kind, Severity.WARNING, words, "first-yes", at, facts)


def waiting_alert(
    episode: Episode, approval: Approval, why: str, hours: int, at: UtcDatetime, link: str | None
) -> Alert:
    """Return that a step waits, and why, with what to do; sent once an episode."""
    doing = _ing(episode.plan)
    lead = [f"{sentence(why)} It is checked again until that is over, for {hours} h at the most."]
    if episode.mode is Mode.ASK and approval.status is not ApprovalStatus.EXPIRED:
        lead.append("The approval stands; nobody needs to answer again.")
    lead.append(
        "Next step: none, if it can wait. To keep the instance, hold, keep or exempt it on its page. An "
        "operator can lift a freeze or raise a cap in the policy."
    )
    words = Words(
        title=_titled("{name} waits: nothing is done to it yet", episode.instance.name),
        happens=f"{doing} it has not begun and waits.",
        lead=tuple(lead),
    )
    kind = AlertKind.APPROVED_WAITS
    return _alert(episode.ref, episode, kind, Severity.INFO, words, Stage.WAIT, at, {"why": why}, link)


# how it ended

_GOOD = (Outcome.STOPPED, Outcome.TERMINATED, Outcome.OBSERVED, Outcome.KEPT, Outcome.EXEMPTED, Outcome.TOLD)
_ASKED_AGAIN = (Outcome.OBSERVED, Outcome.EXPIRED, Outcome.REFUSED)
_SPARED = (
    "Next step: save your work if it still runs. Nobody is asked about it meanwhile; if EC2 spares it and it "
    "stays idle, people are asked again."
)
_TITLES: Mapping[Outcome, str] = {
    Outcome.STOPPED: "{name} is stopped{saves}",
    Outcome.TERMINATED: "{name} is terminated{saves}",
    Outcome.OBSERVED: "{name}: the rehearsal is done, nothing happened",
    Outcome.TOLD: "{name}: for your information",
    Outcome.KEPT: "{name} keeps running{until}",
    Outcome.EXEMPTED: "{name} is exempt and keeps running",
    Outcome.EXPIRED: "Nobody answered about {name}. Nothing was changed",
    Outcome.WOKE_UP: "Canceled: {name} is working again",
    Outcome.VOID: "Canceled: the question about {name} no longer applies",
    Outcome.HELD: "{name} is held and was not {done}",
    Outcome.REFUSED: "{name} was not {done}: a safety check refused",
    Outcome.INTERRUPTED: "Canceled: AWS takes {name} back",
    Outcome.FAILED: "Could not ask about {name}. Nothing was changed",
}
_TOO_LONG = "A step took longer than its time limit."
_ERRORS: Mapping[str, tuple[str, str]] = {
    "States.Timeout": (_TOO_LONG, ""),
    "States.HeartbeatTimeout": (_TOO_LONG, ""),
    "StepTimedOut": ("EC2 did not finish in time: {}", "Look at the instance in EC2."),
    "SnapshotFailed": ("A snapshot failed: {}", "Look at it in EC2, or snapshot the volumes by hand."),
    "AccessDenied": ("A permission is missing: {}", "Allow it for GPU Governor's role in the account."),
    "NobodyListens": ("Nobody would have got the message: {}", "Set up a channel of its contacts."),
    "Throttled": ("AWS was too busy to answer: {}", ""),
    "Unavailable": ("AWS could not be reached: {}", ""),
    "RemediationFailed": ("The workflow failed: {}", ""),
}
"""By the name of the error: what happened, and what to do where that is not in the record."""
_WAITING = ("StepTimedOut", "SnapshotFailed")
"""Errors of what was begun and did not come to its end."""
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
    again_at: UtcDatetime | None = None,
) -> Alert:
    """Return how an episode ended. `episode` is `None` when it failed before it was written; until
    `again_at` the same idleness is left alone."""
    failed, again = outcome is Outcome.FAILED, _again(episode, again_at, at)
    if episode is None:
        lead = ("Nothing was changed.", *((next_step(reason), again) if failed else ()))
        title = _titled(_TITLES[outcome], ref.instance_id, saves="", until="", done="stopped")
        words = Words(title, readable(reason), lead)
    elif failed:
        words = _failure(episode, reason, again)
    else:
        words = _end(episode, outcome, reason, at, approval, again)
    kind, severity = AlertKind.OUTCOME, Severity.INFO if outcome in _GOOD else Severity.WARNING
    if failed:
        kind, severity = AlertKind.FAILURE, Severity.CRITICAL
    facts = {"outcome": outcome.value, "outcome_reason": reason}
    return _alert(ref, episode, kind, severity, words, outcome.value, at, facts, link)


def _again(episode: Episode | None, again_at: UtcDatetime | None, at: UtcDatetime) -> str:
    """Return when people hear of it again, as a sentence; nothing where it does not run any more."""
    if episode is not None and episode.mode is not Mode.OBSERVE and Step.STOP in episode.steps_done:
        return ""
    asked = (
        "people are asked again" if episode is None or episode.mode is Mode.ASK else "it is reported again"
    )
    when = "later"
    if again_at is not None and again_at > at:
        when = f"after {clock(again_at, episode.time_zone if episode else 'UTC', at)}"
    return f"If it stays idle, {asked} {when}."


def _end(
    episode: Episode,
    outcome: Outcome,
    reason: str,
    at: UtcDatetime,
    approval: Approval | None,
    again: str,
) -> Words:
    acted = outcome in (Outcome.STOPPED, Outcome.TERMINATED)
    zone, kept = episode.time_zone, outcome is Outcome.KEPT
    held_stopped = outcome is Outcome.HELD and Step.STOP in episode.steps_done
    per_day = episode.plan.saving.saved_usd_per_day or Decimal(0)
    saved = usd(per_day) if acted and per_day > 0 else None
    until = approval.decision.keep_until if approval and approval.decision else None
    lead = [
        _by_whom(episode, outcome, approval),
        f"It is asked about again after {clock(until, zone, at)}." if until and kept else "",
        _after_hold(episode, approval, at, again) if outcome is Outcome.HELD else "",
        f"This saves {saved} a day after storage costs." if saved else "",
        "" if acted or outcome in (Outcome.OBSERVED, Outcome.TOLD) else left_behind(episode)[1],
        again if outcome in _ASKED_AGAIN else "",
        _SPARED if outcome is Outcome.INTERRUPTED else "",
        f"Snapshots: {', '.join(episode.snapshot_ids)}." if episode.snapshot_ids else "",
        "Still needed? Its record has a button to start it again."
        if outcome is Outcome.STOPPED or held_stopped
        else "",
    ]
    return Words(
        title=_titled(
            _TITLES[outcome],
            episode.instance.name,
            saves=f". It saves {saved}/day" if saved else "",
            until=f" until {day_and_time(until, zone, at)}" if until else "",
            done="terminated" if episode.plan.destroys else "stopped",
        ),
        happens=f"{readable(reason)} Done on {clock(at, zone, at)}." if saved else readable(reason),
        lead=tuple(filter(None, lead)),
        details=_sections({"Restarting later": (restart_text(episode),)}) if acted else (),
    )


def _by_whom(episode: Episode, outcome: Outcome, approval: Approval | None) -> str:
    """Return who decided it, where the reason does not say so."""
    if outcome not in (Outcome.STOPPED, Outcome.TERMINATED, Outcome.HELD, Outcome.REFUSED):
        return ""
    decision = approval.decision if approval else None
    if decision is not None and decision.answer is Answer.APPROVE:
        first = f"{people(approval.first_yes.by)} and " if approval and approval.first_yes else ""
        return f"Approved by {first}{people(decision.by)}."
    if episode.mode is Mode.AUTO:
        return "Mode auto: the policy asks nobody."
    expired = approval is not None and approval.status is ApprovalStatus.EXPIRED
    return "Nobody answered in time, so the policy acts." if expired and episode.acts_on_silence else ""


def _after_hold(episode: Episode, approval: Approval | None, at: UtcDatetime, again: str) -> str:
    """Return how it goes on after a hold, as a sentence."""
    held = approval.brake if approval else None
    if held is not None and held.answer == "exempt":
        return "It is exempt: GPU Governor leaves it alone from now on."
    if held is not None and held.keep_until is not None:
        return f"It is kept until {clock(held.keep_until, episode.time_zone, at)}."
    if Step.STOP in episode.steps_done:
        return "It stays stopped, and its snapshots stay, until somebody starts it again."
    return again


def _failure(episode: Episode, reason: str, again: str) -> Words:
    in_short, what_was_done = left_behind(episode)
    return Words(
        title=_titled(f"Could not {_failed_at(episode, reason)}. {in_short}", episode.instance.name),
        happens=what_was_done,
        lead=tuple(filter(None, (readable(reason), next_step(reason), again))),
    )


def next_step(reason: str) -> str:
    """Return what to do about a recorded reason, as a sentence."""
    error, _ = _taken_apart(reason)
    _, advice = _ERRORS.get(error, ("", ""))
    return f"Next step: {advice or 'See its record for each step.'}"


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


def _failed_at(episode: Episode, reason: str) -> str:
    """Return the step that failed, as an imperative with a place for the name."""
    error, _ = _taken_apart(reason)
    if not episode.steps_done and episode.phase in (Phase.OPENING, Phase.ASKING):
        return "ask about {name}"
    done = [step for step in episode.plan.steps if step in episode.steps_done]
    ahead = [step for step in episode.plan.steps if step not in done]
    step = done[-1] if done and (error in _WAITING or not ahead) else (ahead or [Step.STOP])[0]
    # The names of the others are verbs.
    return (
        "cancel the Spot request of {name}" if step is Step.CANCEL_SPOT_REQUEST else f"{step.value} {{name}}"
    )


def left_behind(episode: Episode) -> tuple[str, str]:
    """Return what was and was not done by a flow that did not get to its end: in short, and as sentences."""
    done = {} if episode.mode is Mode.OBSERVE else episode.steps_done
    if Step.TERMINATE in done:
        return (
            "Its termination was requested",
            "Its termination was requested once its snapshots were completed: see in EC2 if it is gone.",
        )
    said = {
        Step.STOP: "it is stopped" if Step.SNAPSHOT in done else "its stop was requested",
        Step.SNAPSHOT: "its snapshots were started",
        Step.CANCEL_SPOT_REQUEST: "its Spot request was canceled",
    }
    parts = [text for step, text in said.items() if step in done]
    if not parts:
        return "Nothing was changed", "Nothing was changed."
    rest = "nothing was deleted, and nothing more will be done."
    return sentence(f"{parts[0]}; nothing was deleted")[:-1], sentence(f"{' and '.join(parts)}; {rest}")


_VARIES = re.compile(r"\b[a-z]+-[0-9a-f]{8,17}\b|[0-9a-f]{8}-[0-9a-f-]{27}|\S{60,}|\d+")
"""Ids, times, ARNs and encoded texts: what differs between failures of one cause."""


def cause_of(reason: str) -> str:
    """Return what is the same for workflows that failed for one cause."""
    return _VARIES.sub("#", reason)


_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d)?Z")


def readable(reason: str) -> str:
    """Return a recorded reason as a sentence for people."""
    reason = reason or "the cause is not known"
    error, cause = _taken_apart(reason)
    text, _ = _ERRORS.get(error, ("{}", ""))
    return sentence(_ISO.sub(r"\1 \2 UTC", people(text.replace("{}", cause))))


def undo_alert(episode: Episode, by: str, channel: str, at: UtcDatetime) -> Alert:
    """Return that somebody had the stopped instance started again."""
    words = Words(
        title=_titled("{name} was started again", episode.instance.name),
        happens=f"{people(by)} started it again through the {channel}.",
        lead=(
            f"It costs {price_text(episode)} again while it runs.",
            "It is judged again like any other instance once the policy's time after an undo has passed.",
        ),
    )
    facts = {"undone_by": by, "channel": channel}
    return _alert(episode.ref, episode, AlertKind.UNDONE, Severity.INFO, words, "undone", at, facts)


def episode_facts(episode: Episode) -> dict[str, object]:
    """Return the episode as facts, for machines that subscribe. Holds no task token and no link."""
    return {
        "episode": episode.ref.execution_name,
        "launch_time": episode.instance.launch_time,
        "mode": episode.mode.value,
        "reason": episode.reason,
        "evidence_hash": episode.evidence_hash,
        "policy_version": episode.policy_version,
        "action": episode.plan.action.value,
        "steps": [step.value for step in episode.plan.steps],
        "usd_per_hour": episode.price.usd_per_hour,
        "saved_usd_per_hour": episode.plan.saving.saved_usd_per_hour,
        "price_source": episode.price.source,
        "acts_on_silence": episode.acts_on_silence,
        "people_needed": episode.terms.people_needed,
        "time_zone": episode.time_zone,
        "expires_at": None,
    }
