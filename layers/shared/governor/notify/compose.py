"""Composes a message to people from the alert and the stored episode: its title, button, link and
figures.

This module reads nothing and sends nothing: a channel renders the message, `dispatch` delivers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from governor.alerts.console_pages import console_page_of
from governor.alerts.model import (
    ESCALATED,
    LINE_FORMS,
    QUESTIONS,
    UNASSIGNED,
    Alert,
    AlertKind,
    Words,
    words_of,
)
from governor.alerts.templates import first_line_of
from governor.approvals.messages import questions
from governor.approvals.model.approval import Answer
from governor.approvals.rules.approval import STATUS_AFTER, keep_end, keep_text
from governor.approvals.rules.stages import stage_in
from governor.approvals.rules.terms import may
from governor.core.units import UtcDatetime, parse_iso, without
from governor.episode.model.episode import Episode
from governor.notify.measured import days_chart, evidence_table, hours_chart
from governor.notify.message import Message

OPEN = frozenset({*QUESTIONS, AlertKind.APPROVAL_FIRST_YES})
"""Alerts that are worth a message only while the question is open."""
_ANSWERS_TO_A_NOTICE = (Answer.HOLD, Answer.KEEP, Answer.EXEMPT)
"""The answers to a notice, with which people keep the plan from being carried out."""
_DONE_BY_AWS = frozenset(
    {AlertKind.SPOT_INTERRUPTION, AlertKind.AUTO_SCALING_TERMINATION, AlertKind.SCHEDULED_CHANGE}
)
"""Kinds that announce an act of AWS itself on the instance."""


def message_of(
    alert: Alert,
    episode: Episode | None,
    *,
    link: str | None,
    thread: str | None = None,
    now: UtcDatetime | None = None,
    expires_at: UtcDatetime | None = None,
    to_default_contacts: bool = False,
) -> Message:
    """Return the message about one alert, with this link (`None` for no link). Its times are
    written relative to `now`, by default the time of the alert.

    `episode` is `None` for an alert about no episode. `thread` is the `Delivered.thread` of the
    episode's first message. `expires_at` is the deadline for alerts of an earlier release, which do
    not name it. `to_default_contacts` says that the policy knows nobody else for the instance.
    """
    now = now or alert.at
    subject = subject_of(alert)
    if episode is not None and alert.kind in questions.STAGE_OF:
        words = _stage_words(alert, episode, now, stated_deadline(alert) or expires_at)
        figures = _stage_figures(episode, now)
    else:
        words = _alert_words(alert)
        figures = {"chart": days_chart(alert)}
    return Message(
        kind=alert.kind,
        severity=alert.severity,
        facts=alert.about,
        episode=subject,
        stage=stage_in(alert.dedup_id, subject) or alert.kind.value,
        at=alert.at,
        why=why_line([alert], to_default_contacts=to_default_contacts),
        data=_data_of(alert),
        link=link,
        thread=thread,
        **_offered_answers(alert, episode, now),
        **figures,
        **words,
    )


def _stage_words(
    alert: Alert, episode: Episode, now: UtcDatetime, deadline: UtcDatetime | None
) -> dict[str, Any]:
    """Return the fields of a message that hold the words of this stage of the episode: those of
    `word_fields`, `details`, the text of the `button`, and `acts` (something happens by itself:
    after silence for a question, or after the notice)."""
    stage = questions.STAGE_OF[alert.kind]
    words, details = questions.stage_words(episode, stage, now, deadline)
    button = "See the details"
    acts = episode.gives_notice
    if episode.gives_notice:
        button = "Hold or keep it"
    if alert.kind in OPEN:
        button = f"{episode.plan.verb.capitalize()} or keep it"
        acts = episode.asking.acts_on_silence
    return {**word_fields(words), "details": details.sections, "button": button, "acts": acts}


def _alert_words(alert: Alert) -> dict[str, Any]:
    """Return the fields of a message that hold the words of an alert that is no stage of an
    episode: those of `word_fields`, the text of the `button`, and `acts` (something happens by
    itself: AWS does it, or silence approves the question)."""
    asks_and_acts = alert.kind in OPEN and alert.facts.get("acts_on_silence") is True
    return {
        **word_fields(words_of(alert)),
        "button": _button_of(alert),
        "acts": alert.kind in _DONE_BY_AWS or asks_and_acts,
    }


def _button_of(alert: Alert) -> str:
    """Return the text of the button under an alert that is no stage of an episode. It leads to the
    question while that is open, to the record of the episode, or to the page of the console that
    shows what the alert is about."""
    if alert.kind in OPEN:
        return "Decide"
    if alert.kind is AlertKind.APPROVED_WAITS:
        return "Hold or keep it"
    page = None
    if not alert.facts.get("episode"):
        page = console_page_of(alert)
    if page is None:
        return "See the record"
    return page.button


def _stage_figures(episode: Episode, now: UtcDatetime) -> dict[str, Any]:
    """Return the fields of a message that show what was measured on the instance: `chart`,
    `evidence`."""
    return {"chart": hours_chart(episode, now), "evidence": evidence_table(episode, now)}


def _offered_answers(alert: Alert, episode: Episode | None, now: UtcDatetime) -> dict[str, Any]:
    """Return the fields of a message for its answer buttons, of a question or of a plan that can be
    held; an empty mapping if there is nothing to answer."""
    if episode is None:
        return {}
    asks = alert.kind in QUESTIONS
    waits = alert.kind is AlertKind.APPROVED_WAITS
    gives_notice = alert.kind in questions.STAGE_OF and episode.gives_notice
    if not (asks or waits or gives_notice):
        return {}
    return {
        "approval_id": episode.approval_id,
        "answers": answers_of(episode, STATUS_AFTER if asks else _ANSWERS_TO_A_NOTICE),
        "keep_until": keep_end(episode, now),
        "keep_text": keep_text(episode, now),
    }


def word_fields(words: Words) -> dict[str, Any]:
    """Return the fields of a message for these words: `title`, `sections`, `happens` (the first
    line of the lead, empty if there is none) and `lead` (its other lines)."""
    happens = words.lead[0] if words.lead else ""
    return {
        "title": words.title,
        "happens": happens,
        "lead": tuple(words.lead[1:]),
        "sections": words.sections,
    }


def _data_of(alert: Alert) -> dict[str, object]:
    """Return the exact figures of an alert: its facts without the one about the form of its
    lines."""
    return without(alert.facts, [LINE_FORMS])


def why_line(alerts: Sequence[Alert], *, to_default_contacts: bool = False) -> str:
    """Return the sentence on why a person gets a message about these alerts, by the owner and
    project of the first. `to_default_contacts` says that the policy knows nobody else for it."""
    first = alerts[0]
    owners = {alert.owner for alert in alerts}
    return first_line_of(
        "why",
        many=len(owners) > 1,
        alert=first,
        project="" if first.project == UNASSIGNED else f" (project {first.project})",
        escalated=first.kind in ESCALATED,
        default=to_default_contacts,
    )


def stated_deadline(alert: Alert) -> UtcDatetime | None:
    """Return the deadline that the alert names for its question; `None` if it names none. Raises:
    ValueError for a text that is no time."""
    deadline = alert.facts.get("expires_at")
    if not isinstance(deadline, str):
        return None
    return parse_iso(deadline)


def reason_of(alert: Alert) -> str:
    """Return why the alert's workflow ended as it did, or the alert's subject if it names no
    reason."""
    return str(alert.facts.get("outcome_reason") or alert.subject)


def subject_of(alert: Alert) -> str:
    """Return the id under which deliveries of this alert are stored: that of its episode, or its
    own if it is about no episode."""
    episode_id = alert.facts.get("episode")
    if isinstance(episode_id, str) and episode_id:
        return episode_id
    return alert.dedup_id


def answers_of(episode: Episode, offered: Iterable[Answer] = STATUS_AFTER) -> tuple[Answer, ...]:
    """Return those of the `offered` answers that the episode's terms allow and that a button alone
    may give. An approval that needs a typed id, a tick or two people is left out."""
    plan = episode.plan
    terms = episode.terms
    is_destructive = plan.destroys or plan.loses_local_disks
    can_approve_by_button = not is_destructive and terms.people_needed == 1
    # Any person: whether this one may answer is decided when the button is pressed.
    somebody = "a person"
    answers: list[Answer] = []
    for answer in offered:
        if answer is Answer.APPROVE and not can_approve_by_button:
            continue
        if may(terms, plan, answer, somebody):
            answers.append(answer)
    return tuple(answers)
