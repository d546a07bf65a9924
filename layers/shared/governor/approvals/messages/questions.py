"""Subject lines and texts of the messages about an open episode: the question, its reminder and its
escalation, and what happens before its end.

Channels place these words and add none of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from governor.alerts.model import (
    ASKS_ESCALATION_CONTACTS,
    IS_PREPAID,
    UNASSIGNED,
    Alert,
    AlertKind,
    Owner,
    Severity,
    Words,
)
from governor.alerts.templates import (
    alert_from_template,
    alert_from_words,
    first_line_of,
    template_words,
)
from governor.approvals.messages.consequence import consequence, subject_with_figures
from governor.approvals.messages.sentences import (
    IdleText,
    budget_text,
    channel_text,
    cost_lines,
    idle_text,
    is_prepaid,
    launched_text,
    people_text,
    price_text,
    restart_text,
    restarts_text,
    saving_text,
    start_words,
    tools_text,
)
from governor.approvals.model.approval import Approval, ApprovalStatus, Decision, Stage
from governor.approvals.rules.stages import stage_id
from governor.core.units import (
    UtcDatetime,
    daily_cost,
    left,
    minutes,
    usd,
)
from governor.episode.model.episode import Episode
from governor.episode.model.plan import STEP_TEXT, Step
from governor.episode.model.start_try import StartStatus, StartTry
from governor.episode.rules.restarts import asks_escalation_contacts
from governor.episode.rules.start_advice import advice_on
from governor.policy.model.policy import Mode

_KIND_OF: Mapping[Stage, tuple[AlertKind, Severity]] = {
    Stage.TELL: (AlertKind.IDLE_FOUND, Severity.INFO),
    Stage.ASK: (AlertKind.APPROVAL_REQUESTED, Severity.WARNING),
    Stage.REMIND: (AlertKind.APPROVAL_REMINDER, Severity.WARNING),
    Stage.ESCALATE: (AlertKind.APPROVAL_ESCALATION, Severity.WARNING),
}
STAGE_OF: Mapping[AlertKind, Stage] = {kind: stage for stage, (kind, _) in _KIND_OF.items()}
LABELS = {
    Stage.TELL: "",
    Stage.ASK: "",
    Stage.REMIND: "Reminder",
    Stage.ESCALATE: "Escalation",
}
"""The label of a reminder or an escalation in its subject. `stage_words` makes the subject."""


class StageWords(NamedTuple):
    """The words of a stage's message."""

    shown: Words
    """Its title and the lines that are always shown."""
    details: Words
    """The lines that a channel may fold."""


def stage_name(stage: str) -> str:
    """Return what people call a message, such as `reminder`, by the stage or the outcome in its id,
    such as `remind`."""
    return first_line_of("stage name", stage=stage, plain=stage.replace("-", " "))


def stage_words(
    episode: Episode, stage: Stage, at: UtcDatetime, until: UtcDatetime | None
) -> StageWords:
    """Return the subject and the text of a question, reminder, escalation or notice as it reads at
    the time `at`; no saving in mode observe or for a plan without steps, and no cost without a
    known price.

    `until` is when the question expires, or the notice is over; `None` if that is not known yet.
    Call it only for stages that send a message about idleness: `TELL`, `ASK`, `REMIND` and
    `ESCALATE`.
    """
    plan = episode.plan
    price = episode.price.usd_per_hour
    idle = idle_text(episode, at)
    silence = consequence(episode, until, at, is_question=stage is not Stage.TELL)
    kind = _stage_kind(episode, stage)
    label = "For your information" if kind == "informs" else LABELS[stage]
    saving = ""
    if plan.steps and episode.mode is not Mode.OBSERVE:
        saving = saving_text(plan)
    price_line = cost_lines(episode, at)[:1]
    restart = restart_text(episode)
    doubts: list[str] = []
    restart_line: list[str] = []
    if plan.restart_doubts:
        doubts = [*plan.restart_doubts, restart]
    elif restart:
        restart_line = [restart]
    tools = tools_text(episode)
    values = {
        "kind": kind,
        "subject": subject_with_figures(silence.subject, label, _subject_figures(episode, idle)),
        "happens": silence.sentence,
        "cost": bool(price),
        "news": news_text(episode, stage, at),
        "measured": idle.sentence,
        "saving": saving,
        "costs": price_line,
        "plan": plan,
        "people": people_text(episode),
        "budget": budget_text(episode),
        "presence": episode.asking.presence,
        "restarts": restarts_text(episode),
        "loses_disks_unasked": plan.loses_local_disks and _acts_unasked(episode),
        "owner_note": episode.asking.owner_note,
        "launched": launched_text(episode),
        "steps": [STEP_TEXT[step] for step in episode.own_plan],
        "kept": tools.kept,
        "next_acts": tools.next_acts,
        "doubts": doubts,
        "restart": restart_line,
    }
    words = template_words("stage", values, episode.asking.time_zone, at)
    details = template_words("stage details", values, episode.asking.time_zone, at)
    return StageWords(words, details)


def _subject_figures(episode: Episode, idle: IdleText) -> list[str]:
    """Return the figures in the subject of a question: how long the instance has been idle, then
    its cost a day, or that it is prepaid; neither without a known price."""
    price = episode.price.usd_per_hour
    if price:
        return [idle.title, f"{usd(daily_cost(price))}/day"]
    if is_prepaid(episode):
        return [idle.title, "prepaid"]
    return [idle.title]


def _acts_unasked(episode: Episode) -> bool:
    """Return whether the plan is carried out if nobody answers."""
    if episode.mode is Mode.ASK:
        return episode.asking.acts_on_silence
    return episode.mode is Mode.AUTO


def _stage_kind(episode: Episode, stage: Stage) -> str:
    """Return which kind of message this stage sends, as its template names the kinds: `asks` for
    all but `TELL`; there `informs` if the plan has no steps, `rehearses` in mode observe, else
    `acts`."""
    if stage is not Stage.TELL:
        return "asks"
    if not episode.plan.steps:
        return "informs"
    return "rehearses" if episode.mode is Mode.OBSERVE else "acts"


def news_text(episode: Episode, stage: Stage, at: UtcDatetime) -> str:
    """Return what a repeated question adds, as a sentence: who was asked (the contacts of the
    owner, or the default contacts for an unassigned instance), and when.

    Return an empty text for other stages than `REMIND` and `ESCALATE`, or if nobody was to be
    asked.
    """
    planned = episode.asking.schedule
    if stage not in (Stage.REMIND, Stage.ESCALATE) or planned is None:
        return ""
    whom = f"The contacts of the owner, {episode.owner},"
    if episode.owner == UNASSIGNED:
        whom = "The default contacts"
    elif episode.asking.owner_note is not None:
        # The tag names somebody unknown, so its contacts are others.
        whom = "The contacts for this instance"
    return first_line_of(
        "news",
        stage=stage,
        whom=whom,
        asked=left(at - planned.ask_at),
        reminded=left(at - planned.remind_at),
    )


def stage_alert(
    episode: Episode,
    stage: Stage,
    at: UtcDatetime,
    link: str | None,
    until: UtcDatetime | None = None,
) -> Alert:
    """Return the message of a stage, with the `link` to its page. It sends nothing. The question
    expires at `until`; `None` for a stage without a question.

    Call it only for stages that send a message about idleness: `TELL`, `ASK`, `REMIND` and
    `ESCALATE`.
    """
    words, details = stage_words(episode, stage, at, until)
    whole = Words(words.title, (*words.lines, *details.lines), (*words.forms, *details.forms))
    kind, severity = _KIND_OF[stage]
    if stage is Stage.ESCALATE and episode.asking.acts_on_silence:
        # The last message before silence acts. Otherwise only money is lost: that wakes nobody.
        severity = Severity.CRITICAL
    facts: dict[str, object] = {"expires_at": until}
    if asks_escalation_contacts(episode):
        facts[ASKS_ESCALATION_CONTACTS] = True
    return alert_from_words(
        whole,
        kind,
        severity,
        episode.instance,
        stage_id(stage, episode.ref),
        at,
        _episode_facts(episode, facts),
        owner=_owner_of(episode),
        link=link,
    )


def episode_alert(
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
    """Return a message about an episode in the words of a template. It sends nothing. `stage` is
    the first part of the message's id: a stage, an outcome, or another word.

    `facts` are for machines, `words` only for the template; it may name both. The template sets the
    severity unless `severity` is given.
    """
    return alert_from_template(
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


def start_failed_alert(episode: Episode, failed: StartTry, at: UtcDatetime) -> Alert:
    """Return the message that AWS refused to start it again or took the start back, or that the
    instance shut itself down soon after it.

    A refusal for the same reason is sent once an episode, as the person who asks again sees the
    reason on the page.
    """
    is_refused = failed.status is StartStatus.REFUSED
    stage = f"refused-{failed.code}" if is_refused else f"fell-back-{failed.asked_at:%Y%m%dT%H%M%S}"
    facts = {
        "asked_by": failed.asked_by,
        "channel": failed.channel,
        "start_status": failed.status.value,
        "ec2_code": failed.code,
        "ec2_message": failed.words,
    }
    words = {
        "said": start_words(failed),
        "advice": advice_on(failed.code, failed.refused_call),
        "is_role_refused": failed.is_role_refused,
        "is_own_shutdown": failed.is_own_shutdown,
        "ran_at": failed.ran_at,
        "way": channel_text(failed.channel),
    }
    return episode_alert("start-failed", episode, f"start-{stage}", at, facts, words)


def _owner_of(episode: Episode) -> Owner:
    """Return the owner of the instance, as recorded when the episode was opened."""
    return Owner(episode.owner, episode.project, episode.asking.time_zone)


def _episode_facts(episode: Episode, facts: Mapping[str, object]) -> dict[str, object]:
    """Return the facts of any message about an episode, and with them `facts`, which replace those
    of the same name. They hold no task token and no link."""
    instance = episode.instance
    plan = episode.plan
    idle_for = episode.measurement.idle_for
    return {
        "episode": episode.ref.execution_name,
        "launch_time": instance.launch_time,
        "mode": episode.mode.value,
        "reason": episode.reason,
        "idle_minutes": None if idle_for is None else minutes(idle_for),
        "evidence_hash": episode.measurement.evidence_hash,
        "policy_version": episode.policy_version,
        "action": plan.action.value,
        "steps": [step.value for step in plan.steps],
        "usd_per_hour": episode.price.usd_per_hour,
        IS_PREPAID: is_prepaid(episode),
        "saved_usd_per_hour": plan.saving.saved_usd_per_hour,
        "price_source": episode.price.source,
        "acts_on_silence": episode.asking.acts_on_silence,
        "people_needed": episode.terms.people_needed,
        "time_zone": episode.asking.time_zone,
        "expires_at": None,
        **facts,
    }


def first_yes_alert(episode: Episode, decision: Decision, expires_at: UtcDatetime) -> Alert:
    """Return the message that the first of two people has approved. The question still expires at
    `expires_at`.

    It has no link, because each channel makes its own.
    """
    silence = consequence(episode, expires_at, decision.at, is_half_approved=True)
    # The subject of a question that needs a second yes asks for it already.
    label = "One of two approved" if episode.asking.acts_on_silence else ""
    words = {
        "by": decision.person or decision.by,
        "costs": cost_lines(episode, decision.at),
        "subject": subject_with_figures(silence.subject, label, ()),
        "happens": silence.sentence,
    }
    return episode_alert(
        "first-yes", episode, "first-yes", decision.at, {"expires_at": expires_at}, words
    )


def waiting_alert(
    episode: Episode, approval: Approval, why: str, hours: int, at: UtcDatetime, link: str | None
) -> Alert:
    """Return the message that an approved step waits, with the reason `why` and what to do. It
    waits `hours` at most, which are not named if nobody answered: they may begin days later."""
    is_unanswered = approval.status is ApprovalStatus.EXPIRED
    approval_stands = episode.mode is Mode.ASK and not is_unanswered
    is_stopped = Step.STOP in episode.progress.steps_done and not episode.is_undone
    words = {
        "hours": None if is_unanswered else hours,
        "stands": approval_stands,
        "is_stopped": is_stopped,
        "done": "terminated" if episode.plan.destroys else "stopped",
    }
    return episode_alert("waiting", episode, Stage.WAIT, at, {"why": why}, words, link=link)


def undo_alert(
    episode: Episode, by: str, channel: str, at: UtcDatetime, until: UtcDatetime | None = None
) -> Alert:
    """Return the message that the instance was started again, by this person through this
    `channel`, and was seen running. `until` is how long the undo keeps it; `None` if that is not
    known."""
    facts = {"undone_by": by, "channel": channel}
    price = "" if is_prepaid(episode) else price_text(episode)
    words = {"price": price, "until": until, "way": channel_text(channel)}
    return episode_alert("undone", episode, "undone", at, facts, words)
