"""Composes a message to people from the alert that went out and the episode as it is stored.

This module reads nothing and sends nothing: a channel renders the message, `dispatch` delivers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from governor.alerts.model import (
    ESCALATED,
    LINE_FORMS,
    QUESTIONS,
    UNASSIGNED,
    Alert,
    AlertKind,
    Facts,
    Section,
    Severity,
    Words,
    words_of,
)
from governor.alerts.templates import first_line_of, said, worded
from governor.approvals.messages import failures, questions, sentences
from governor.approvals.model.approval import Answer
from governor.approvals.rules.approval import STATUS_AFTER, keep_end, keep_text
from governor.approvals.rules.terms import may
from governor.core import units
from governor.core.instance import Target
from governor.core.units import UtcDatetime, in_parts, minutes, parse_iso
from governor.episode.model.episode import Episode
from governor.evidence.model import Series
from governor.evidence.rules.series import busiest, gpu_rows, peak
from governor.notify.message import Chart, Message, Table, one_line

OPEN = frozenset({*QUESTIONS, AlertKind.APPROVAL_FIRST_YES})
"""Alerts that are worth a message only while the question is open."""
_ANSWERS_TO_A_NOTICE = (Answer.HOLD, Answer.KEEP, Answer.EXEMPT)
"""The answers to a notice, with which people keep the plan from being carried out."""
_BARS = "▁▂▃▄▅▆▇█"
"""Bars for 0 to 100%."""
_NO_DATA = "·"
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
) -> Message:
    """Return the message with this link. Its times are relative to `now`, by default the time of
    the alert.

    `episode` is `None` for an alert about no episode. `thread` is the `Delivered.thread` of the
    episode's first message. `expires_at` is the deadline for alerts of an earlier release, which do
    not name it.
    """
    now = now or alert.at
    subject = subject_of(alert)
    if episode is not None and alert.kind in questions.STAGE_OF:
        words = _stage_words(alert, episode, now, deadline_of(alert) or expires_at)
        figures = _stage_figures(episode, now)
    else:
        words = _alert_words(alert)
        figures = {"chart": _days_chart(alert)}
    return Message(
        kind=alert.kind,
        severity=alert.severity,
        facts=alert.about,
        episode=subject,
        stage=alert.dedup_id.removesuffix(f"-{subject}") or alert.kind.value,
        at=alert.at,
        why=_why([alert]),
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
    """Return the fields of a message that hold the words of this stage of the episode."""
    stage = questions.STAGE_OF[alert.kind]
    asks = alert.kind in OPEN
    words, details = questions.stage_words(episode, stage, now, deadline)
    if asks:
        button = f"{episode.plan.verb.capitalize()} or keep it"
    elif episode.gives_notice:
        button = "Hold or keep it"
    else:
        button = "See the details"
    return {
        **_message_words(words),
        "details": details.sections,
        "button": button,
        "acts": episode.asking.acts_on_silence if asks else episode.gives_notice,
    }


def _alert_words(alert: Alert) -> dict[str, Any]:
    """Return the fields of a message that hold the words of the alert itself."""
    asks = alert.kind in OPEN
    asks_and_acts = asks and alert.facts.get("acts_on_silence") is True
    if asks:
        button = "Decide"
    elif alert.kind is AlertKind.APPROVED_WAITS:
        button = "Hold or keep it"
    elif alert.facts.get("episode"):
        button = "See the record"
    else:
        button = "See the instance"
    return {
        **_message_words(words_of(alert)),
        "button": button,
        "acts": alert.kind in _DONE_BY_AWS or asks_and_acts,
    }


def _stage_figures(episode: Episode, now: UtcDatetime) -> dict[str, Any]:
    """Return the fields of a message that show the measurements of the instance."""
    return {"chart": _hours_chart(episode, now), "evidence": _evidence_table(episode, now)}


def _offered_answers(alert: Alert, episode: Episode | None, now: UtcDatetime) -> dict[str, Any]:
    """Return the fields of a message for its buttons; an empty mapping if there is nothing to
    answer."""
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


def _message_words(words: Words) -> dict[str, Any]:
    """Return the fields of a message for these words. The first line of the lead becomes
    `happens`."""
    happens, *lead = words.lead or ("",)
    return {
        "title": words.title,
        "happens": happens,
        "lead": tuple(lead),
        "sections": words.sections,
    }


def _data_of(alert: Alert) -> dict[str, object]:
    """Return the exact figures of an alert: its facts without the one about the form of its
    lines."""
    return {name: value for name, value in alert.facts.items() if name != LINE_FORMS}


def _why(alerts: Sequence[Alert]) -> str:
    """Return the line on why a person gets a message about these alerts."""
    first = alerts[0]
    owners = {alert.owner for alert in alerts}
    return first_line_of(
        "why",
        many=len(owners) > 1,
        alert=first,
        project="" if first.project == UNASSIGNED else f" (project {first.project})",
        escalated=first.kind in ESCALATED,
    )


def deadline_of(alert: Alert) -> UtcDatetime | None:
    """Return the deadline of the alert's question; `None` if the alert names none."""
    deadline = alert.facts.get("expires_at")
    return parse_iso(deadline) if isinstance(deadline, str) else None


def digest_of(
    alerts: Sequence[Alert],
    episodes: Sequence[Episode],
    *,
    link: str | None,
    digest_id: str,
    now: UtcDatetime | None = None,
) -> Message:
    """Return one message about several alerts: questions at the same stage, or workflows that
    failed for one cause. `episodes` are those of the questions, in the same order."""
    first = alerts[0]
    now = now or first.at
    is_failure = first.kind is AlertKind.FAILURE
    facts = Facts(
        _common_text(alerts, "account"),
        _common_text(alerts, "region"),
        _common_text(alerts, "owner"),
        _common_text(alerts, "project"),
    )
    if is_failure:
        words = _failure_words(alerts)
        at = now
        why = _why(alerts)
    else:
        words = _question_words(alerts, episodes, now)
        at = first.at
        why = _why([first])
    return Message(
        kind=first.kind,
        severity=max((alert.severity for alert in alerts), key=list(Severity).index),
        facts=facts,
        episode=digest_id,
        stage=first.kind.value,
        at=at,
        why=why,
        link=link,
        **words,
    )


def _common_text(alerts: Sequence[Alert], field_name: str) -> str:
    """Return the value of this field if all alerts share it, else how many different values there
    are: `3 different`."""
    values = {str(getattr(alert, field_name)) for alert in alerts}
    if len(values) == 1:
        return values.pop()
    return f"{len(values)} different"


def _question_words(
    alerts: Sequence[Alert], episodes: Sequence[Episode], now: UtcDatetime
) -> dict[str, Any]:
    """Return the fields of a message about several questions, the most expensive instance
    first."""
    stage = questions.STAGE_OF[alerts[0].kind]
    zone = episodes[0].asking.time_zone
    verbs = sorted({episode.plan.verb for episode in episodes})
    acting = [episode for episode in episodes if episode.asking.acts_on_silence]
    need_two_people = sum(episode.terms.people_needed > 1 for episode in episodes)
    has_one_deadline = len(set(map(deadline_of, alerts))) == 1
    values = {
        "prefix": questions.PREFIXES[stage],
        "number": len(episodes),
        "state": sentences.state_text(episodes),
        "verb": " or ".join(verbs),
        **_cost_values(episodes),
        **_deadline_values(alerts, zone, now),
        "plan": (acting or episodes)[0].plan,
        "acting": len(acting),
        "all": len(acting) == len(episodes),
        "news": questions.news_text(episodes[0], stage, now),
        "two": need_two_people,
        "need": "needs" if need_two_people == 1 else "need",
    }
    sections: list[Section] = []
    for alert, episode in _most_expensive_first(alerts, episodes):
        place = _place_text(alert, alerts)
        section = _question_section(alert, episode, now, at_once=has_one_deadline, place=place)
        sections.append(section)
    words = worded("digest", values, zone, now)
    return {
        **_message_words(words),
        "sections": tuple(sections),
        "button": f"{', '.join(verbs).capitalize()} or keep them",
        "acts": bool(acting),
    }


def _cost_values(episodes: Sequence[Episode]) -> dict[str, object]:
    """Return the template's values for the cost of these instances, and for the number of those
    without a price."""
    prices = [episode.price.usd_per_hour for episode in episodes]
    known_prices = [price for price in prices if price is not None]
    unpriced = len(prices) - len(known_prices)
    cost = ""
    if any(known_prices):
        usd_per_day = sum(known_prices, Decimal(0)) * 24
        cost = f", {units.usd(usd_per_day)}/day"
    plus = f" and {unpriced} of unknown price" if unpriced else ""
    return {"cost": cost, "plus": plus}


def _deadline_values(
    alerts: Sequence[Alert], zone: str, now: UtcDatetime
) -> dict[str, UtcDatetime | str | None]:
    """Return the template's values for the earliest deadline, and for its text. If the deadlines
    differ, or there is none, the text is `in time`."""
    deadlines = {deadline_of(alert) for alert in alerts}
    earliest = min(filter(None, deadlines), default=None)
    by = "in time"
    if earliest is not None and len(deadlines) == 1:
        by = f"by {units.deadline(earliest, zone, now)}"
    return {"until": earliest, "by": by}


def _most_expensive_first(
    alerts: Sequence[Alert], episodes: Sequence[Episode]
) -> list[tuple[Alert, Episode]]:
    """Return each alert with its episode, the most expensive instance first. Instances without a
    price come last."""
    pairs = list(zip(alerts, episodes, strict=True))
    pairs.sort(key=lambda pair: -(pair[1].price.usd_per_hour or 0))
    return pairs


def _failure_words(alerts: Sequence[Alert]) -> dict[str, Any]:
    """Return the fields of a message about failures of one cause, with every instance and
    owner."""
    first = alerts[0]
    reason = reason_of(first)
    failed_steps = {alert.facts.get("failed_step") for alert in alerts}
    is_one_step = len(failed_steps) == 1 and None not in failed_steps
    step = first.facts.get("failed_step")
    values = {
        "number": len(alerts),
        "step": failures.step_text(step) if is_one_step else "",
        "readable": failures.readable(reason),
        "next_step": failures.next_step(reason),
        "listed": [_failure_text(alert, alerts) for alert in alerts],
    }
    return {
        **_message_words(worded("failures", values)),
        "button": "See the records",
        "data": {"incident": first.facts.get("incident")},
    }


def _failure_text(alert: Alert, alerts: Sequence[Alert]) -> str:
    """Return the line of one failure: the instance, its type, place, owner and cost if known."""
    about = alert.about
    usd_per_day = about.usd_per_day
    cost = None if usd_per_day is None else f"{units.usd(usd_per_day)} a day while it runs"
    parts = (about.instance_type, _place_text(alert, alerts), cost)
    details = ", ".join(filter(None, parts))
    return f"{one_line(alert.subject, 120)} ({details})"


def _place_text(alert: Alert, alerts: Sequence[Alert]) -> str:
    """Return the instance id, and its place and owner where they differ between these alerts.

    A place or an owner that all alerts share is left out: it stands at the end of the message.
    """
    accounts_and_regions = {(listed.account, listed.region) for listed in alerts}
    owners_and_projects = {(listed.owner, listed.project) for listed in alerts}
    text = str(alert.instance_id)
    if len(accounts_and_regions) > 1:
        text += f" in {Target(alert.account, alert.region)}"
    if len(owners_and_projects) > 1:
        text += f", owner {one_line(alert.owner, 80)}, project {one_line(alert.project, 80)}"
    return text


def reason_of(alert: Alert) -> str:
    """Return why the alert's workflow ended as it did, or the alert's subject if it names no
    reason."""
    return str(alert.facts.get("outcome_reason") or alert.subject)


def _question_section(
    alert: Alert, episode: Episode, now: UtcDatetime, *, at_once: bool, place: str
) -> Section:
    """Return the section of a digest about one instance. With `at_once`, all questions of the
    digest have the same deadline."""
    plan = episode.plan
    # The first loss of a running instance is its memory. Every stop loses that, so it is not named.
    losses = plan.losses if episode.stopped_by_episode else plan.losses[1:]
    people = sentences.people_text(episode) if episode.terms.people_needed > 1 else ""
    values = {
        "one": episode.instance,
        "idle": sentences.idle_text(episode, now).title,
        "price": sentences.price_text(episode),
        "at_once": at_once,
        "acts": episode.asking.acts_on_silence,
        "silence": sentences.silence_text(episode, deadline_of(alert), now),
        "people": people,
        "plan": plan,
        "lost": plan.loses_local_disks or plan.destroys,
        "losses": "; ".join(losses),
        "place": place,
    }
    heading, *lines = said("one of a digest", values)
    return Section(heading, tuple(lines))


def subject_of(alert: Alert) -> str:
    """Return the id under which deliveries of this alert are stored: that of its episode, or its
    own if it is about no episode."""
    episode_id = alert.facts.get("episode")
    if isinstance(episode_id, str) and episode_id:
        return episode_id
    return alert.dedup_id


def answers_of(episode: Episode, offered: Iterable[Answer] = STATUS_AFTER) -> tuple[Answer, ...]:
    """Return the `offered` answers that a button alone may give. Answers that need a text, a tick
    or two people are left out."""
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


def _hours_chart(episode: Episode, now: UtcDatetime) -> Chart | None:
    """Return a chart with one bar an hour for the busiest GPU, or `None` if the history could not
    be read."""
    history = episode.measurement.history
    if history is None:
        return None
    window = history.window
    below = episode.measurement.idle_below_percent
    periods_an_hour = max(1, timedelta(hours=1) // window.period)
    hours = in_parts(busiest(history.gpus, window, below), periods_an_hour)
    bars = "".join(_hour_bar(tuple(hour), below) for hour in hours)
    since = units.day_and_time(window.start, episode.asking.time_zone, now)
    until = units.clock(window.end, episode.asking.time_zone, now)
    legend = f"{_NO_DATA} no data" if _NO_DATA in bars else ""
    meanings = ", ".join(filter(None, (f"{_BARS[0]} idle (under {below:g}%)", legend)))
    return Chart(
        title=f"Busiest GPU by hour, last {len(bars)} h",
        bars=bars,
        caption=f"Busiest GPU by hour, {since} to {until}. {meanings}.",
        legend=legend,
    )


def _hour_bar(hour: Series, below: float) -> str:
    """Return the bar for the highest reading of an hour: the lowest bar for an idle hour, a dot for
    an hour without readings."""
    highest = peak(hour)
    if highest is None:
        return _NO_DATA
    if highest < below:
        return _BARS[0]
    level = int(highest / 12.5)
    return _BARS[max(1, min(7, level))]


def _saved_by_day(alert: Alert) -> list[Decimal]:
    """Return the USD saved on each day of a report; an empty list if the alert names none."""
    amounts = alert.facts.get("saved_by_day")
    if not isinstance(amounts, list):
        return []
    return [Decimal(str(amount)) for amount in amounts]


def _days_chart(alert: Alert) -> Chart | None:
    """Return a chart with one bar a day for the saved USD, or `None` if nothing was saved."""
    days = _saved_by_day(alert)
    highest = max(days, default=Decimal(0))
    if highest <= 0:
        return None
    bars = "".join(_day_bar(amount, highest) for amount in days)
    title = f"Saved by day (UTC), up to {units.usd(highest)}"
    return Chart(title, bars, caption=title)


def _day_bar(amount: Decimal, highest: Decimal) -> str:
    """Return the bar for an amount, relative to the highest one."""
    eighths = max(Decimal(0), 8 * amount / highest)
    return _BARS[min(7, int(eighths))]


def _evidence_table(episode: Episode, now: UtcDatetime) -> Table:
    """Return a row for each GPU with its utilization in the evidence."""
    window = episode.measurement.evidence.window
    until = units.clock(window.end, episode.asking.time_zone, now)
    return Table(
        caption=f"GPU utilization over {minutes(window.length)} min, until {until}",
        columns=("GPU", "highest", "average", "measured"),
        rows=gpu_rows(episode.measurement.evidence),
    )
